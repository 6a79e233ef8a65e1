-- 0007 invariants of the ledger: one view per invariant, whose rows are what is broken; none in good books.
-- Why: the same judge in every test's teardown, in `payonce verify` and on a timer in production. A view reads in one
-- snapshot, so that it may run beside live traffic. src/audit/invariants.ts lists them with what they say.
-- Locks: none. Duration: milliseconds.
-- Not here: what only the rail's own books can tell (E1, E2, E4, I2: src/audit/oracle.ts).

-- L1: each posting's entries sum to 0 per asset; so does each asset over all accounts.
create view payonce.broken_l1 (subject, detail) as
select 'posting ' || e.posting_id, 'sums to ' || sum(e.amount) || ' in ' || e.asset_id
from payonce.ledger_entries e
group by e.posting_id, e.asset_id
having sum(e.amount) <> 0
union all
select 'posting ' || p.id, 'has no entries (' || p.idem_key || ')'
from payonce.postings p
where not exists (select 1 from payonce.ledger_entries e where e.posting_id = p.id)
union all
select 'account ' || e.account_id || ' seq ' || e.seq, 'belongs to posting ' || e.posting_id || ', which does not exist'
from payonce.ledger_entries e
where not exists (select 1 from payonce.postings p where p.id = e.posting_id)
union all
select 'asset ' || a.asset_id, 'sums to ' || sum(a.balance) || ' over all accounts'
from payonce.accounts a
group by a.asset_id
having sum(a.balance) <> 0;

-- L2: per account, seq is gap-free from 1 and each balance_after continues the one before.
create view payonce.broken_l2 (subject, detail) as
select 'account ' || account_id || ' seq ' || seq,
       'after ' || balance_before || ' at seq ' || seq_before || ' comes ' || amount || ' and stands at ' || balance_after
from (
  select e.account_id, e.seq, e.amount, e.balance_after,
         lag(e.seq, 1, 0::bigint) over chain as seq_before, lag(e.balance_after, 1, 0::numeric) over chain as balance_before
  from payonce.ledger_entries e
  window chain as (partition by e.account_id order by e.seq)
) l
where seq <> seq_before + 1
   or balance_after <> balance_before + amount;

-- L3: an account's balance is the sum of its entries and the last of them.
create view payonce.broken_l3 (subject, detail) as
select 'account ' || a.id || ' (' || a.code || ')',
       'balance ' || a.balance || ', entries ' || coalesce(s.total, 0) || ', last ' || coalesce(l.balance_after, 0) ||
       ', seq ' || a.seq || ' of ' || coalesce(s.last_seq, 0)
from payonce.accounts a
left join (
  select account_id, sum(amount) as total, max(seq) as last_seq
  from payonce.ledger_entries
  group by account_id) s on s.account_id = a.id
left join payonce.ledger_entries l on l.account_id = a.id and l.seq = s.last_seq
where a.balance <> coalesce(s.total, 0)
   or a.balance <> coalesce(l.balance_after, 0)
   or a.seq <> coalesce(s.last_seq, 0);

-- L4: no account below floor − deficit, and no deficit above what is missing. Of the past only balances are on record: one
-- below the floor must have been preceded by what may go there by right, a reversal or the hold of a re-opened effect.
create view payonce.broken_l4 (subject, detail) as
select 'account ' || a.id || ' (' || a.code || ')',
       'balance ' || a.balance || ', held ' || a.held || ', floor ' || a.floor || ', deficit ' || a.deficit
from payonce.accounts a
where a.balance - a.held < a.floor - a.deficit
   or a.deficit > greatest(0, a.floor - (a.balance - a.held))
   or a.deficit > 0 and a.floor is null
union all
select 'account ' || e.account_id || ' seq ' || e.seq, 'stood at ' || e.balance_after || ', below its floor ' || a.floor
from payonce.ledger_entries e
join payonce.accounts a on a.id = e.account_id
where e.balance_after < a.floor
  and not exists (
    select 1 from payonce.ledger_entries r join payonce.postings p on p.id = r.posting_id
    where r.account_id = e.account_id and r.seq <= e.seq and (p.reverses is not null or p.idem_key like 'ADJUST:%'))
  and not exists (
    select 1 from payonce.holds h where h.account_id = e.account_id and h.key like '%:reopened:%');

-- L5: a posting's key names an existing object whose amount, asset and account agree. MIGRATED names what is not here. The kinds are
-- those of src/kernel/ids.ts; a key of another one was booked by nobody of ours.
create view payonce.broken_l5 (subject, detail) as
with lines as (
  select e.posting_id, min(e.asset_id) as asset_id, count(distinct e.asset_id) as assets, max(abs(e.amount)) as largest,
         min(a.partner_id) as partner_id, coalesce(sum(e.amount) filter (where a.partner_id is not null), 0) as partner,
         coalesce(sum(e.amount) filter (where a.code like 'custody:%'), 0) as custody
  from payonce.ledger_entries e
  join payonce.accounts a on a.id = e.account_id
  group by e.posting_id
),
named as (
  select p.id, p.idem_key, p.effect_id, p.reverses, split_part(p.idem_key, ':', 1) as kind, split_part(p.idem_key, ':', 2) as name,
         case when split_part(p.idem_key, ':', 2) ~ '^[0-9]{1,18}$' then split_part(p.idem_key, ':', 2)::bigint end as number, l.*
  from payonce.postings p
  join lines l on l.posting_id = p.id
),
judged as (
  select n.idem_key, case
    when w.id is null then 'names no withdrawal'
    when e.id is null then 'belongs to no effect of this withdrawal'
    when (n.kind = 'WDR_CONFIRM') <> (w.purpose = 'customer') then 'books a withdrawal of purpose ' || w.purpose
    when n.asset_id <> w.asset_id or n.assets <> 1 then 'books another asset than ' || w.asset_id
    when n.kind = 'WDR_CONFIRM' and (n.partner_id is distinct from w.partner_id or n.partner <> -(w.amount + w.fee) or n.custody <> w.amount)
      then 'books ' || n.partner || ' for ' || coalesce(n.partner_id, 'nobody') || ', not ' || -(w.amount + w.fee) || ' for ' || w.partner_id
    when n.kind = 'WDR_MOVE' and (n.partner_id is not null or n.largest <> w.amount) then 'moves ' || n.largest || ', not ' || w.amount
  end as fault
  from named n
  left join payonce.withdrawals w on w.id = n.name
  left join payonce.effects e on e.id = n.effect_id and e.subject_type = 'withdrawal' and e.subject_id = w.id
  where n.kind in ('WDR_CONFIRM', 'WDR_MOVE')
  union all
  select n.idem_key, case
    when d.id is null then 'names no deposit'
    when n.asset_id <> d.asset_id or n.assets <> 1 then 'books another asset than ' || d.asset_id
    when n.kind = 'DEP_CREDIT' and (n.partner_id is distinct from d.partner_id or n.partner <> d.amount) then 'credits ' || n.partner || ', not ' || d.amount
    when n.kind = 'DEP_FEE' and (n.partner_id is distinct from d.partner_id or n.partner <> -d.fee) then 'takes ' || -n.partner || ', not ' || d.fee
    when n.kind = 'DEP_REVERSAL' and (n.custody <> d.amount or n.reverses is null) then 'gives back ' || n.custody || ', not ' || d.amount
  end
  from named n
  left join payonce.deposits d on d.id = n.name
  where n.kind in ('DEP_CREDIT', 'DEP_FEE', 'DEP_REVERSAL')
  union all
  select n.idem_key, case
    when t.id is null then 'names no chain transfer'
    when n.asset_id <> t.asset_id or n.largest <> t.amount then 'books ' || n.largest || ' ' || n.asset_id || ', not ' || t.amount || ' ' || t.asset_id
  end
  from named n
  left join payonce.chain_transfers t on t.id = n.number
  where n.kind in ('DEP_SUSPENSE', 'DEP_MOVE', 'DEP_CLAIM')
  union all
  select n.idem_key, case
    when e.id is null then 'names no effect'
    when n.kind in ('GAS', 'OVERPAID') and n.effect_id is distinct from e.id then 'carries effect ' || coalesce(n.effect_id::text, 'none')
    when n.kind = 'OVERPAID' and (n.asset_id <> e.asset_id or n.largest <> e.amount) then 'books ' || n.largest || ', not ' || e.amount
    when n.kind = 'UNWOUND' and n.reverses is null then 'reverses nothing'
  end
  from named n
  left join payonce.effects e on e.id = n.number
  where n.kind in ('GAS', 'OVERPAID', 'UNWOUND')
  union all
  select n.idem_key, 'names no return'
  from named n
  where n.kind = 'RETURN' and not exists (select 1 from payonce.returns r where r.id = n.name)
  union all
  select n.idem_key, 'names no proposal of two persons'
  from named n
  where n.kind = 'ADJUST' and not exists (select 1 from payonce.proposals p where p.id = n.name and p.approved_by is not null)
  union all
  select p.idem_key, 'is a key of no known kind'
  from payonce.postings p
  where split_part(p.idem_key, ':', 1) not in (
    'WDR_CONFIRM', 'WDR_MOVE', 'TRF_CONFIRM', 'DEP_CREDIT', 'DEP_FEE', 'DEP_SUSPENSE', 'DEP_MOVE', 'DEP_CLAIM', 'DEP_REVERSAL', 'GAS', 'OVERPAID',
    'UNWOUND', 'RETURN', 'ADJUST', 'MIGRATED')
     or p.idem_key not like '%:_%'
)
select 'posting ' || idem_key, fault from judged where fault is not null;

-- The hold that stands for an effect now: a re-opened one has a hold of its own (src/engine/flow.ts, currentHold).
create view payonce.effect_holds as
select e.id as effect_id, e.state, e.subject_type, e.subject_id, e.amount,
       case when e.reopens = 0 then e.hold_key else e.hold_key || ':reopened:' || e.reopens end as hold_key
from payonce.effects e
where e.hold_key is not null;

-- L6: what is held is the open effects' amounts: no hold without an open effect, no open outflow without a hold.
create view payonce.broken_l6 (subject, detail) as
select 'account ' || a.id || ' (' || a.code || ')', 'held ' || a.held || ', open holds ' || coalesce(h.total, 0)
from payonce.accounts a
left join (
  select account_id, sum(amount) as total from payonce.holds where state = 'open' group by account_id) h on h.account_id = a.id
where a.held <> coalesce(h.total, 0)
union all
select 'hold ' || h.key, 'is open and no effect needs it'
from payonce.holds h
where h.state = 'open'
  and not exists (
    select 1 from payonce.effect_holds c where c.hold_key = h.key and c.state in ('PENDING', 'SEALED'))
union all
select 'effect ' || c.effect_id, c.state || ', but its hold ' || c.hold_key || ' is ' ||
       case when h.id is null then 'missing' when h.state <> 'open' then h.state else 'of ' || h.amount end
from payonce.effect_holds c
left join payonce.holds h on h.key = c.hold_key
left join payonce.withdrawals w on c.subject_type = 'withdrawal' and w.id = c.subject_id
where c.state in ('PENDING', 'SEALED')
  and (h.id is null or h.state <> 'open' or h.amount < c.amount or h.amount <> coalesce(w.amount + w.fee, h.amount))
union all
select 'effect ' || e.id, 'pays a partner''s customer and holds nothing'
from payonce.effects e
join payonce.withdrawals w on e.subject_type = 'withdrawal' and w.id = e.subject_id
where w.purpose = 'customer' and e.hold_key is null;

-- L7: entries are immutable: the triggers that say so stand, and no trigger of ours is switched off.
create view payonce.broken_l7 (subject, detail) as
select 'table ' || w.guarded, 'has lost its trigger ' || w.guard
from (values
  ('ledger_entries', 'ledger_entries_append_only'), ('ledger_entries', 'ledger_entries_no_truncate'), ('ledger_entries', 'ledger_entries_whole'),
  ('postings', 'postings_append_only'), ('postings', 'postings_no_truncate')) as w (guarded, guard)
where not exists (
  select 1 from pg_catalog.pg_trigger t
  where t.tgrelid = to_regclass('payonce.' || w.guarded) and t.tgname = w.guard)
union all
select 'table ' || c.relname, 'its trigger ' || t.tgname || ' is switched off'
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'payonce'::regnamespace
  and t.tgenabled not in ('O', 'A');

-- L8: a reversal names its original, once, comes after it and gives back what it took.
create view payonce.broken_l8 (subject, detail) as
select 'posting ' || p.idem_key, 'is a reversal that names no original'
from payonce.postings p
where p.idem_key ~ '^(DEP_REVERSAL|UNWOUND):' and p.reverses is null
union all
select 'posting ' || r.idem_key, 'reverses ' || o.idem_key ||
       case when o.reverses is not null then ', itself a reversal' when r.id <= o.id then ', which came later' else ', which was reversed before' end
from payonce.postings r
join payonce.postings o on o.id = r.reverses
where o.reverses is not null
   or r.id <= o.id
   or exists (select 1 from payonce.postings p where p.reverses = o.id and p.id < r.id)
union all
select 'posting ' || r.idem_key, 'does not give account ' || l.account_id || ' back its ' || -l.amount
from payonce.postings r
join payonce.ledger_entries l on l.posting_id = r.reverses and l.amount < 0
left join payonce.ledger_entries b on b.posting_id = r.id and b.account_id = l.account_id and b.asset_id = l.asset_id
where r.reverses is not null
  and b.amount is distinct from -l.amount;
