-- 0022 p2p invariants: M1 to M4, and what E3, L5 and N1 must know of orders and legs.
-- Why: M1-M4, L5, E3. Locks: the views below, for a moment. Duration: milliseconds.

-- M1: amount = settled + reserved + remaining, on both sides, and what stands in the ledger for sellers.
create view payonce.broken_m1 (subject, detail) as
select 'deposit order ' || o.id, o.amount || ' is not ' || l.taken || ' in legs and ' || o.remaining_amount || ' remaining'
from payonce.p2p_deposit_orders o
cross join lateral (
  select coalesce(sum(g.amount), 0) as taken from payonce.p2p_legs g where g.deposit_order_id = o.id and g.state in ('OPEN', 'SETTLED')) l
where o.amount <> l.taken + o.remaining_amount
union all
select 'withdraw order ' || o.id, 'has reserved ' || o.reserved || ' and settled ' || o.settled || ', its legs ' || l.open || ' and ' || l.settled
from payonce.p2p_withdraw_orders o
cross join lateral (
  select coalesce(sum(g.amount) filter (where g.state = 'OPEN'), 0) as open, coalesce(sum(g.amount) filter (where g.state = 'SETTLED'), 0) as settled
  from payonce.p2p_legs g where g.withdraw_order_id = o.id) l
where o.reserved <> l.open or o.settled <> l.settled
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

-- M2: the status follows from what remains, the legs and the deadline.
create view payonce.broken_m2 (subject, detail) as
select 'deposit order ' || o.id, 'is ' || o.status || ' with ' || l.open || ' open and ' || l.settled || ' settled legs and ' || o.remaining_amount || ' remaining'
from payonce.p2p_deposit_orders o
cross join lateral (
  select count(*) filter (where g.state = 'OPEN') as open, count(*) filter (where g.state = 'SETTLED') as settled
  from payonce.p2p_legs g where g.deposit_order_id = o.id) l
where not case o.status
  when 'PENDING' then o.remaining_amount > 0 or l.open > 0
  when 'MATCHING' then l.open > 0 or not o.waits_lp
  when 'MATCHED' then l.open > 0
  when 'COMPLETED' then l.open = 0 and l.settled > 0 and o.remaining_amount = 0
  when 'PARTIALLY_SETTLED' then l.open = 0 and l.settled > 0 and o.remaining_amount > 0
  else l.open = 0 and l.settled = 0
end
union all
select 'withdraw order ' || o.id, 'is ' || o.status || ' with ' || o.settled || ' settled of ' || o.amount
from payonce.p2p_withdraw_orders o
where not case o.status
  when 'COMPLETED' then o.settled = o.amount
  when 'PARTIALLY_SETTLED' then o.settled > 0 and o.settled < o.amount
  when 'EXPIRED' then o.settled = 0
  when 'CANCELLED' then o.settled = 0
  else true
end;

-- M3: a leg settles once: one posting for each settled leg, none for another; none is newer than its order's close.
create view payonce.broken_m3 (subject, detail) as
select 'leg ' || g.id, 'is ' || g.state || ' and has ' || p.credits || ' credits and ' || p.surpluses || ' surpluses'
from payonce.p2p_legs g
cross join lateral (
  select count(*) filter (where p.idem_key = 'P2P_LEG:' || g.id || ':CREDIT') as credits,
         count(*) filter (where p.idem_key = 'P2P_LEG:' || g.id || ':SURPLUS') as surpluses
  from payonce.postings p where p.idem_key in ('P2P_LEG:' || g.id || ':CREDIT', 'P2P_LEG:' || g.id || ':SURPLUS')) p
where p.credits <> (g.state = 'SETTLED')::int
   or p.surpluses > (g.state = 'SURPLUS')::int
union all
select 'leg ' || g.id, 'was made after order ' || o.id || ' had closed'
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
where g.created_at > o.closed_at;

-- M4: one trade per leg of a liquidity provider, of its own amount; what the provider itself has is the oracle's.
create view payonce.broken_m4 (subject, detail) as
select 'leg ' || g.id, 'has ' || e.live || ' trades that are not released'
from payonce.p2p_legs g
cross join lateral (
  select count(*) filter (where e.state <> 'RELEASED') as live, count(*) as made, count(*) filter (where e.amount <> g.amount or e.rail <> g.rail) as others,
         count(*) filter (where e.state = 'SETTLED') as settled
  from payonce.effects e where e.subject_type = 'p2p_leg' and e.subject_id = g.id) e
where g.kind = 'LP'
  and (e.live > 1 or e.made < 1 or e.others > 0 or (g.state = 'OPEN' and e.live = 0)
       or (e.settled > 0) <> (g.state = 'SETTLED' or g.state = 'SURPLUS' and exists (
            select 1 from payonce.postings p where p.idem_key = 'P2P_LEG:' || g.id || ':SURPLUS')));

-- E3: a settled trade has one credit, or one surplus; the end of a cancel books nothing.
alter view payonce.broken_e3 rename to e3_without_p2p;
create view payonce.broken_e3 (subject, detail) as
select subject, detail from payonce.e3_without_p2p
union all
select 'effect ' || e.id, e.state || ' with ' || b.booked || ' credits and ' || b.overpaid || ' OVERPAID'
from payonce.effects e
cross join lateral (
  select count(*) filter (where p.idem_key like 'P2P_LEG:%') as booked, count(*) filter (where p.idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings p where p.effect_id = e.id) b
where e.subject_type in ('p2p_leg', 'p2p_cancel')
  and case e.subject_type
    when 'p2p_cancel' then b.booked > 0
    else b.booked + b.overpaid <> (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null)::int
  end;

-- L5: sellers' money is set aside and given back whole, a leg credits its own amount less its own fee.
alter view payonce.broken_l5 rename to l5_without_p2p;
create view payonce.broken_l5 (subject, detail) as
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
      when n.kind = 'P2P_SELL' and n.aside <> w.amount then 'sets ' || n.aside || ' aside, not ' || w.amount
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
where coalesce(b.back, 0) <> w.given_back or coalesce(b.sells, 0) <> 1
union all
select 'posting ' || p.idem_key, 'is no correction of two persons'
from payonce.postings p
left join payonce.p2p_legs g on g.id = split_part(p.idem_key, ':', 2)
where p.idem_key like 'P2P\_LEG:%:FIX:%'
  and (g.id is null or g.fixes < split_part(p.idem_key, ':', 4)::int);

-- N1: each partner-visible end of an order has its event (M21).
alter view payonce.broken_n1 rename to n1_without_p2p;
create view payonce.broken_n1 (subject, detail) as
select n.subject, n.detail
from payonce.n1_without_p2p n
where n.subject not like 'subject p2p\_%'
union all
select 'deposit order ' || o.id, 'is ' || o.status || ' and no event says so'
from payonce.p2p_deposit_orders o
where o.status in ('MATCHED', 'COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = 'deposit_order' and v.subject_id = o.id and v.type = 'deposit_order.' || lower(o.status))
union all
select 'withdraw order ' || o.id, 'is ' || o.status || ' and no event says so'
from payonce.p2p_withdraw_orders o
where o.closed_at is not null
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = 'withdraw_order' and v.subject_id = o.id and v.type = 'withdraw_order.' || lower(o.status));
