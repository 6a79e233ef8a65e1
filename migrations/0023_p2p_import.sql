-- 0023 p2p import: orders and legs of an older system, taken over once each (M14).
-- Why: M14, W16. Locks: the three P2P tables, for a moment (their checks are read again). Duration: by their rows, a second per million.
--
-- What is taken over is history: a closed order and its settled legs become rows with their own times, and nothing is booked for
-- them, not even as MIGRATED. What those legs once moved has been paid out, moved on or corrected since; what is left of it is the
-- balance that each partner brings along, which is posted as MIGRATED when the partner moves (docs/library.md). A credit booked here
-- as well would give it twice. So a leg of history has no posting at all (M3), an order of history sets nothing aside and gives
-- nothing back (L5, M1), tells no partner what it has heard long ago (N1), and never changes again (triggers below).
-- An order that is still open goes on here: it is a live row under every guard. Of a seller's, what it has not sold is set aside by
-- its own P2P_SELL (never MIGRATED: it can be given back and credited like any other), and `settled_before` is what it sold there.

create table payonce.p2p_imports (
  id bigint generated always as identity primary key,
  file_name text not null,
  -- of the whole file; known once it was read
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  imported_by text not null,
  started_at timestamptz not null default payonce.now(),
  -- another import began while this one ran: it writes nothing more
  replaced_at timestamptz,
  finished_at timestamptz,
  lines bigint not null default 0,
  imported bigint not null default 0,
  same bigint not null default 0,
  doubtful bigint not null default 0,
  refused bigint not null default 0
);
create index p2p_imports_running on payonce.p2p_imports (id) where finished_at is null and replaced_at is null;

-- The lines of a file while it is judged: orders, their legs and the old ledger's lines may stand anywhere in it. At the end only
-- those remain that a person must look at.
create table payonce.p2p_import_lines (
  import_id bigint not null references payonce.p2p_imports (id),
  line bigint not null check (line > 0),
  kind text not null check (kind in ('deposit_order', 'withdraw_order', 'leg', 'ledger', 'unreadable')),
  old_id text,
  deposit_old_id text,
  withdraw_old_id text,
  leg_old_id text,
  -- of the row's content, whatever the order of its names
  digest text not null,
  content text,
  -- the same row stands further up
  is_repeat boolean not null default false,
  outcome text check (outcome in ('imported', 'same', 'doubtful', 'refused')),
  reason text,
  primary key (import_id, line),
  constraint p2p_import_lines_reason check ((outcome is null or outcome in ('imported', 'same')) or reason is not null)
);
create index p2p_import_lines_id on payonce.p2p_import_lines (import_id, kind, old_id);
create index p2p_import_lines_deposit on payonce.p2p_import_lines (import_id, deposit_old_id) where kind = 'leg';
create index p2p_import_lines_withdraw on payonce.p2p_import_lines (import_id, withdraw_old_id) where kind = 'leg';
create index p2p_import_lines_leg on payonce.p2p_import_lines (import_id, leg_old_id) where kind = 'ledger';

-- What was taken over, once each, and as what. A leg that had ended unpaid, and a line of the old ledger, became no row of ours.
create table payonce.p2p_imported (
  kind text not null check (kind in ('deposit_order', 'withdraw_order', 'leg', 'ledger')),
  old_id text not null,
  digest text not null,
  new_id text,
  import_id bigint not null references payonce.p2p_imports (id),
  imported_at timestamptz not null default payonce.now(),
  primary key (kind, old_id)
);
create unique index p2p_imported_new on payonce.p2p_imported (new_id) where new_id is not null;
create trigger p2p_imported_append_only before update or delete on payonce.p2p_imported
  for each row execute function payonce.refuse_change();
create trigger p2p_imported_no_truncate before truncate on payonce.p2p_imported
  for each statement execute function payonce.refuse_change();

alter table payonce.p2p_deposit_orders add column imported_as text check (imported_as in ('history', 'open'));
alter table payonce.p2p_deposit_orders add constraint p2p_deposit_orders_history check (imported_as is distinct from 'history' or closed_at is not null);
create trigger p2p_deposit_orders_import_frozen before update of imported_as on payonce.p2p_deposit_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_deposit_orders_history before update on payonce.p2p_deposit_orders
  for each row when (old.imported_as = 'history') execute function payonce.refuse_change();

alter table payonce.p2p_withdraw_orders add column imported_as text check (imported_as in ('history', 'open'));
alter table payonce.p2p_withdraw_orders add column settled_before numeric(78,0) not null default 0;
alter table payonce.p2p_withdraw_orders add constraint p2p_withdraw_orders_before check (
  settled_before >= 0 and settled_before <= settled and (imported_as is not null or settled_before = 0));
alter table payonce.p2p_withdraw_orders add constraint p2p_withdraw_orders_history check (
  imported_as is distinct from 'history' or closed_at is not null and settled_before = settled and backs = 0);
create trigger p2p_withdraw_orders_import_frozen before update of imported_as, settled_before on payonce.p2p_withdraw_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_withdraw_orders_history before update on payonce.p2p_withdraw_orders
  for each row when (old.imported_as = 'history') execute function payonce.refuse_change();

alter table payonce.p2p_legs add column is_history boolean not null default false;
alter table payonce.p2p_legs add constraint p2p_legs_history check (not is_history or state = 'SETTLED');
-- Of history the seller's order may be doubtful and not here: then the leg names none, until that order is taken over.
alter table payonce.p2p_legs drop constraint p2p_legs_of;
alter table payonce.p2p_legs add constraint p2p_legs_of check (
  (kind = 'LP') = (rail is not null)
  and (kind = 'SELLER' or withdraw_order_id is null)
  and (kind = 'LP' or is_history or withdraw_order_id is not null));
drop trigger p2p_legs_frozen on payonce.p2p_legs;
create trigger p2p_legs_frozen
  before update of deposit_order_id, ordinal, kind, rail, amount, price, fiat_amount, claim_token, created_at, is_history on payonce.p2p_legs
  for each row execute function payonce.refuse_change();
create trigger p2p_legs_seller_frozen before update of withdraw_order_id on payonce.p2p_legs
  for each row when (not old.is_history or old.withdraw_order_id is not null) execute function payonce.refuse_change();

-- M17, M3: a live leg is written only under the claim that stands, and never after the close; a leg of history only with its order,
-- in the transaction that writes that order as taken over.
create or replace function payonce.p2p_legs_fence() returns trigger
language plpgsql as $$
begin
  if new.is_history then
    perform 1 from payonce.p2p_deposit_orders o
    where o.id = new.deposit_order_id and o.imported_as is not null and o.xmin = pg_current_xact_id()::xid;
    if not found then
      raise exception 'order % is not being taken over: it gets no leg of history', new.deposit_order_id
        using errcode = 'P0P02', constraint = 'p2p_legs_fence';
    end if;
    return new;
  end if;
  perform 1 from payonce.p2p_deposit_orders o
  where o.id = new.deposit_order_id and o.status = 'MATCHING' and o.claim_token = new.claim_token and not o.waits_lp
  for key share;
  if not found then
    raise exception 'order % is not claimed under token %', new.deposit_order_id, new.claim_token
      using errcode = 'P0P02', constraint = 'p2p_legs_fence';
  end if;
  return new;
end $$;

-- M1: what a seller's order sold before is its own row's word; legs of history are at most that (a doubtful buyer's is not here).
create or replace view payonce.broken_m1 (subject, detail) as
select 'deposit order ' || o.id, o.amount || ' is not ' || l.taken || ' in legs and ' || o.remaining_amount || ' remaining'
from payonce.p2p_deposit_orders o
cross join lateral (
  select coalesce(sum(g.amount), 0) as taken from payonce.p2p_legs g where g.deposit_order_id = o.id and g.state in ('OPEN', 'SETTLED')) l
where o.amount <> l.taken + o.remaining_amount
union all
select 'withdraw order ' || o.id, 'has reserved ' || o.reserved || ' and settled ' || o.settled || ', its legs ' || l.open || ' and ' || l.settled
from payonce.p2p_withdraw_orders o
cross join lateral (
  select coalesce(sum(g.amount) filter (where g.state = 'OPEN'), 0) as open,
         coalesce(sum(g.amount) filter (where g.state = 'SETTLED' and not g.is_history), 0) as settled,
         coalesce(sum(g.amount) filter (where g.is_history), 0) as before
  from payonce.p2p_legs g where g.withdraw_order_id = o.id) l
where o.reserved <> l.open or o.settled - o.settled_before <> l.settled or l.before > o.settled_before
union all
select 'account ' || coalesce(a.code, 'p2p:' || s.partner_id) || ' in ' || coalesce(a.asset_id, s.asset_id),
       'holds ' || coalesce(a.balance, 0) || ', sellers have ' || coalesce(s.amount, 0) || ' set aside'
from (
  select o.partner_id, o.asset_id, sum(o.amount - o.settled - o.given_back) as amount
  from payonce.p2p_withdraw_orders o group by 1, 2) s
full join (
  select a.code, a.asset_id, a.balance from payonce.accounts a where a.code like 'p2p:%') a
  on a.code = 'p2p:' || s.partner_id and a.asset_id = s.asset_id
where coalesce(a.balance, 0) <> coalesce(s.amount, 0);

-- M3: a leg of history has no posting of ours.
create or replace view payonce.broken_m3 (subject, detail) as
select 'leg ' || g.id, 'is ' || g.state || ' and has ' || p.credits || ' credits and ' || p.surpluses || ' surpluses'
from payonce.p2p_legs g
cross join lateral (
  select count(*) filter (where p.idem_key = 'P2P_LEG:' || g.id || ':CREDIT') as credits,
         count(*) filter (where p.idem_key = 'P2P_LEG:' || g.id || ':SURPLUS') as surpluses
  from payonce.postings p where p.idem_key in ('P2P_LEG:' || g.id || ':CREDIT', 'P2P_LEG:' || g.id || ':SURPLUS')) p
where p.credits <> (g.state = 'SETTLED' and not g.is_history)::int
   or p.surpluses > (g.state = 'SURPLUS')::int
union all
select 'leg ' || g.id, 'was made after order ' || o.id || ' had closed'
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
where g.created_at > o.closed_at;

-- M4: nor a trade.
create or replace view payonce.broken_m4 (subject, detail) as
select 'leg ' || g.id, 'has ' || e.live || ' trades that are not released'
from payonce.p2p_legs g
cross join lateral (
  select count(*) filter (where e.state <> 'RELEASED') as live, count(*) as made, count(*) filter (where e.amount <> g.amount or e.rail <> g.rail) as others,
         count(*) filter (where e.state = 'SETTLED') as settled
  from payonce.effects e where e.subject_type = 'p2p_leg' and e.subject_id = g.id) e
where g.kind = 'LP'
  and not g.is_history
  and (e.live > 1 or e.made < 1 or e.others > 0 or (g.state = 'OPEN' and e.live = 0)
       or (e.settled > 0) <> (g.state = 'SETTLED' or g.state = 'SURPLUS' and exists (
            select 1 from payonce.postings p where p.idem_key = 'P2P_LEG:' || g.id || ':SURPLUS')));

-- L5: what is set aside is what an order had not sold before; an order of history sets nothing aside.
create or replace view payonce.broken_l5 (subject, detail) as
with lines as (
  select p.id, p.idem_key, p.effect_id, split_part(p.idem_key, ':', 1) as kind, split_part(p.idem_key, ':', 2) as name, split_part(p.idem_key, ':', 3) as part,
         min(l.asset_id) as asset_id, count(distinct l.asset_id) as assets,
         coalesce(sum(l.amount) filter (where a.code like 'partner:%'), 0) as partner, min(a.code) filter (where a.code like 'partner:%') as partner_code,
         coalesce(sum(l.amount) filter (where a.code like 'p2p:%'), 0) as aside, min(a.code) filter (where a.code like 'p2p:%') as aside_code,
         coalesce(sum(l.amount) filter (where a.code like 'lp:%'), 0) as lp, min(a.code) filter (where a.code like 'lp:%') as lp_code,
         coalesce(sum(l.amount) filter (where a.code = 'fees'), 0) as fees,
         coalesce(sum(l.amount) filter (where a.code = 'suspense'), 0) as suspense
  from payonce.postings p
  join payonce.ledger_entries l on l.posting_id = p.id
  join payonce.accounts a on a.id = l.account_id
  where p.idem_key ~ '^P2P_(SELL|BACK|LEG):' and p.idem_key !~ ':FIX:'
  group by p.id
),
judged as (
  select n.idem_key, case n.kind
    when 'P2P_LEG' then case
      when g.id is null then 'names no leg'
      when n.assets <> 1 or n.asset_id <> o.asset_id then 'books another asset than ' || o.asset_id
      when n.part = 'CREDIT' and (n.partner + n.fees <> g.amount or n.partner_code <> 'partner:' || o.partner_id or n.fees <> floor(g.amount * o.fee_bp / 10000)
        or n.aside + n.lp <> -g.amount
        or g.kind = 'SELLER' and n.aside_code is distinct from 'p2p:' || s.partner_id
        or g.kind = 'LP' and n.lp_code is distinct from 'lp:' || g.rail) then 'does not credit ' || g.amount || ' to ' || o.partner_id
      when n.part = 'SURPLUS' and (n.lp <> -g.amount or n.suspense <> g.amount or n.lp_code <> 'lp:' || g.rail) then 'does not put ' || g.amount || ' into suspense'
      when not (n.part = 'CREDIT' or n.part = 'SURPLUS') then 'is of no kind that is known'
      when (g.kind = 'LP') <> (n.effect_id is not null) then 'belongs to no trade of its leg'
    end
    else case
      when w.id is null then 'names no withdraw order'
      when n.assets <> 1 or n.asset_id <> w.asset_id then 'books another asset than ' || w.asset_id
      when n.partner_code <> 'partner:' || w.partner_id or n.aside_code <> 'p2p:' || w.partner_id or n.partner <> -n.aside then 'is not between ' || w.partner_id || ' and what it set aside'
      when n.kind = 'P2P_SELL' and n.aside <> w.amount - w.settled_before then 'sets ' || n.aside || ' aside, not ' || w.amount - w.settled_before
      when w.imported_as = 'history' then 'belongs to an order that was taken over as history'
    end
  end as fault
  from lines n
  left join payonce.p2p_legs g on n.kind = 'P2P_LEG' and g.id = n.name
  left join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
  left join payonce.p2p_withdraw_orders s on s.id = g.withdraw_order_id
  left join payonce.p2p_withdraw_orders w on n.kind <> 'P2P_LEG' and w.id = n.name
)
select o.subject, o.detail
from payonce.l5_without_p2p o
where o.subject not like 'posting P2P_SELL:_%' and o.subject not like 'posting P2P_BACK:_%' and o.subject not like 'posting P2P_LEG:_%'
union all
select 'posting ' || idem_key, fault from judged where fault is not null
union all
select 'withdraw order ' || w.id, 'has ' || coalesce(b.back, 0) || ' given back by postings, ' || w.given_back || ' by its row'
from payonce.p2p_withdraw_orders w
left join (
  select n.name, sum(n.partner) filter (where n.kind = 'P2P_BACK') as back, count(*) filter (where n.kind = 'P2P_SELL') as sells
  from lines n where n.kind <> 'P2P_LEG' group by n.name) b on b.name = w.id
where w.imported_as is distinct from 'history'
  and (coalesce(b.back, 0) <> w.given_back or coalesce(b.sells, 0) <> 1)
union all
select 'posting ' || p.idem_key, 'is no correction of two persons'
from payonce.postings p
left join payonce.p2p_legs g on g.id = split_part(p.idem_key, ':', 2)
where p.idem_key like 'P2P\_LEG:%:FIX:%'
  and (g.id is null or g.fixes < split_part(p.idem_key, ':', 4)::int);

-- N1: the partners heard of history's ends at the time.
create or replace view payonce.broken_n1 (subject, detail) as
select n.subject, n.detail
from payonce.n1_without_p2p n
where n.subject not like 'subject p2p\_%'
union all
select 'deposit order ' || o.id, 'is ' || o.status || ' and no event says so'
from payonce.p2p_deposit_orders o
where o.imported_as is distinct from 'history'
  and o.status in ('MATCHED', 'COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = 'deposit_order' and v.subject_id = o.id and v.type = 'deposit_order.' || lower(o.status))
union all
select 'withdraw order ' || o.id, 'is ' || o.status || ' and no event says so'
from payonce.p2p_withdraw_orders o
where o.imported_as is distinct from 'history'
  and o.closed_at is not null
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = 'withdraw_order' and v.subject_id = o.id and v.type = 'withdraw_order.' || lower(o.status));
