-- 0005 invariants: one view per invariant, whose rows are what is broken; none in good books.
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

-- L5: a posting's key names an existing object whose amount, asset and account agree. Keys of no known kind are not judged.
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

-- E3: settled ⇔ exactly one confirmation (or OVERPAID, where its key stood under another effect); released ⇒ none. The hold
-- was posted by the one, given back by the other.
create view payonce.broken_e3 (subject, detail) as
select 'effect ' || e.id, e.state || ' with ' || coalesce(b.booked, 0) || ' confirmations and ' || coalesce(b.overpaid, 0) || ' OVERPAID'
from payonce.effects e
join payonce.withdrawals w on e.subject_type = 'withdrawal' and w.id = e.subject_id
left join (
  select effect_id, count(*) filter (where idem_key like 'WDR_CONFIRM:%' or idem_key like 'WDR_MOVE:%') as booked,
         count(*) filter (where idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings
  where effect_id is not null
  group by effect_id) b on b.effect_id = e.id
where coalesce(b.booked, 0) + coalesce(b.overpaid, 0) <> (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null)::int
   or coalesce(b.booked, 0) > 0 and e.state <> 'SETTLED'
union all
select 'effect ' || c.effect_id, c.state || ', but its hold ' || c.hold_key || ' is ' || coalesce(h.state, 'missing')
from payonce.effect_holds c
left join payonce.holds h on h.key = c.hold_key
where c.state = 'SETTLED' and h.state is distinct from 'posted'
   or c.state = 'RELEASED' and h.state is distinct from 'voided';

-- E5: only the table's edges; the history is gap-free and ends in the state that is shown.
create view payonce.broken_e5 (subject, detail) as
select 'effect ' || h.effect_id || ' step ' || h.seq, coalesce(h.from_state, 'nothing') || ' → ' || h.to_state || ' after ' || coalesce(h.state_before, 'nothing')
from (
  select effect_id, seq, from_state, to_state, lag(to_state) over chain as state_before, lag(seq, 1, 0) over chain as seq_before
  from payonce.effect_history
  window chain as (partition by effect_id order by seq)
) h
left join payonce.effect_edges g on g.from_state = h.from_state and g.to_state = h.to_state
where h.seq <> h.seq_before + 1
   or h.from_state is distinct from h.state_before
   or h.from_state is null and h.to_state <> 'PENDING'
   or h.from_state is not null and g.from_state is null
union all
select 'effect ' || e.id, 'is ' || e.state || ' after ' || e.transitions || ' transitions; its history says ' || coalesce(h.to_state, 'nothing')
from payonce.effects e
left join payonce.effect_history h on h.effect_id = e.id and h.seq = e.transitions
where h.to_state is distinct from e.state
   or exists (select 1 from payonce.effect_history n where n.effect_id = e.id and n.seq > e.transitions);

-- E6: the seal, and on chains the signed variant, was stored before the first byte left.
create view payonce.broken_e6 (subject, detail) as
select 'effect ' || a.effect_id || ' answer ' || a.id,
       case
         when e.sealed_at is null then 'was sent without a seal'
         when a.received_at < e.sealed_at then 'was answered before the seal'
         when a.send_number not between 1 and e.send_count then 'is of send ' || a.send_number || ' of ' || e.send_count
         when a.variant_hash is null then 'was sent without a signed variant'
         else 'sent ' || a.variant_hash || ', which was not stored before'
       end
from payonce.effect_answers a
join payonce.effects e on e.id = a.effect_id
left join payonce.effect_variants v on v.hash = a.variant_hash and v.effect_id = a.effect_id
where a.operation = 'send'
  and (e.sealed_at is null
       or a.received_at < e.sealed_at
       or a.send_number not between 1 and e.send_count
       or a.variant_hash is null and e.nonce is not null
       or a.variant_hash is not null and (v.id is null or v.signed_at > a.received_at));

-- E8: a second identity exists only after an evidenced release of the first, and differs from it in nothing else.
create view payonce.broken_e8 (subject, detail) as
select 'effect ' || n.id, case
         when p.id is null then 'is try ' || n.seq || ' and there is none before it'
         when not exists (
           select 1 from payonce.effect_history h where h.effect_id = p.id and h.to_state = 'RELEASED') then 'follows effect ' || p.id || ', which was never released'
         else 'differs from effect ' || p.id || ' in what was frozen at intake'
       end
from payonce.effects n
left join payonce.effects p on p.subject_type = n.subject_type and p.subject_id = n.subject_id and p.seq = n.seq - 1
where n.seq > 1
  and (p.id is null
       or not exists (select 1 from payonce.effect_history h where h.effect_id = p.id and h.to_state = 'RELEASED')
       or (p.partner_id, p.asset_id, p.amount, p.destination, p.wallet, p.call) is distinct from (n.partner_id, n.asset_id, n.amount, n.destination, n.wallet, n.call))
union all
select 'subject ' || e.subject_type || ' ' || e.subject_id, 'has ' || count(*) || ' live effects'
from payonce.effects e
where e.state <> 'RELEASED'
group by e.subject_type, e.subject_id
having count(*) > 1;

-- E9: one effect per (rail, signer, nonce); nonces gap-free from the first to the signer's next, or the signer had a case.
create view payonce.broken_e9 (subject, detail) as
select 'signer ' || u.rail || ' ' || u.signer,
       case
         when u.used <> u.different then 'gave one nonce to two effects'
         when g.address is null then 'is no signer of ours'
         when u.last >= g.next_nonce then 'used nonce ' || u.last || ' though the next is ' || g.next_nonce
         else 'used ' || u.used || ' nonces from ' || u.first || ' to below ' || g.next_nonce || ', and no case says why'
       end
from (
  select rail, signer, count(*) as used, count(distinct nonce) as different, min(nonce) as first, max(nonce) as last
  from payonce.effects
  where nonce is not null
  group by rail, signer) u
left join payonce.signers g on g.rail = u.rail and g.address = u.signer
where u.used <> u.different
   or g.address is null
   or u.last >= g.next_nonce
   or u.first + u.used <> g.next_nonce
      and g.quarantined_at is null
      and not exists (
        select 1 from payonce.cases c where c.kind = 'signer_quarantined' and c.subject_key = u.rail || ':' || u.signer);

-- E10: no release by not-found, time-out or an unknown code: each stands on a named no of the right rank.
create view payonce.broken_e10 (subject, detail) as
select 'effect ' || e.id, 'was released by ' || coalesce(v.kind || ' (' || v.rank || ')', 'nothing') || ' as ' || coalesce(e.release_rank, 'nothing')
from payonce.effects e
left join payonce.effect_evidence v on v.id = e.released_by and v.effect_id = e.id
left join payonce.evidence_kinds k on k.kind = v.kind
where e.state = 'RELEASED'
  and (v.id is null
       or (k.says <> 'no' and not (v.kind = 'NEVER_LEFT' and v.rank = 'dead'))
       or v.struck_at is not null
       or v.rank is distinct from e.release_rank
       or (v.kind = 'NEVER_SEALED') <> (e.sealed_at is null));

-- E11: no release over testimony (but a chain's finality, or the accepted object's own failure, over a word); a believed
-- one only after lateness and a fresh look.
create view payonce.broken_e11 (subject, detail) as
select 'effect ' || e.id, 'was released by ' || v.kind || ' over ' || y.kind || ' (evidence ' || y.id || ')'
from payonce.effects e
join payonce.effect_evidence v on v.id = e.released_by
join payonce.evidence_kinds k on k.kind = v.kind
join payonce.effect_evidence y on y.effect_id = e.id and y.id < v.id and y.rank in ('word', 'object') and y.struck_at is null
where e.state = 'RELEASED'
  and (y.rank = 'object'
       or not k.chain_final and not (v.kind = 'PROVIDER_FAILED' and v.rank = 'dead' and v.object_id is not distinct from e.accepted_object))
union all
select 'effect ' || e.id, 'was released as believed at ' || e.ended_at || ', with lateness until ' || coalesce(e.lateness_until::text, 'nothing') ||
       ' and a fresh look at ' || coalesce(e.fresh_look_at::text, 'nothing')
from payonce.effects e
where e.state = 'RELEASED'
  and e.release_rank = 'believed'
  and (e.lateness_until is null or e.lateness_until > e.ended_at or e.fresh_look_at is null or e.fresh_look_at < e.lateness_until);

-- E13: every testimony is counted; an effect released against it is re-opened, or contradicted with a case. The re-opening
-- pass needs a moment: what waits longer than ten minutes is forgotten.
create view payonce.broken_e13 (subject, detail) as
select 'effect ' || e.id, 'counts ' || e.testimonies || ' testimonies of ' || coalesce(y.stored, 0) || ' stored'
from payonce.effects e
left join (
  select effect_id, count(*) as stored
  from payonce.effect_evidence
  where rank in ('word', 'object') and struck_at is null
  group by effect_id) y on y.effect_id = e.id
where e.testimonies <> coalesce(y.stored, 0)
union all
select 'effect ' || e.id, 'is released though ' || y.kind || ' came after, at ' || y.at
from payonce.effects e
join payonce.effect_evidence y on y.effect_id = e.id and y.id > e.released_by and y.rank in ('word', 'object') and y.struck_at is null
where e.state = 'RELEASED'
  and e.contradicted_at is null
  and y.at < payonce.now() - interval '10 minutes'
union all
select 'effect ' || e.id, 'is contradicted and has no case'
from payonce.effects e
where e.contradicted_at is not null
  and not exists (select 1 from payonce.cases c where c.effect_id = e.id and c.kind = 'contradiction');

-- E15: the same partner and key have one answer for ever: each withdrawal stands under its own key, each key names one.
create view payonce.broken_e15 (subject, detail) as
select 'withdrawal ' || w.id, 'key ' || w.idempotency_key || ' answers ' || coalesce(k.resource_id, 'nothing')
from payonce.withdrawals w
left join payonce.idempotency_keys k on k.partner_id = w.partner_id and k.key = w.idempotency_key
where k.resource_id is distinct from w.id
union all
select 'key ' || k.key || ' of ' || k.partner_id, 'names withdrawal ' || k.resource_id || ', which does not exist'
from payonce.idempotency_keys k
where k.resource_type = 'withdrawal'
  and not exists (select 1 from payonce.withdrawals w where w.id = k.resource_id);

-- E16: one open effect per lane.
create view payonce.broken_e16 (subject, detail) as
select 'lane ' || e.lane, 'has ' || count(*) || ' open effects'
from payonce.effects e
where e.lane is not null and e.state in ('PENDING', 'SEALED')
group by e.lane
having count(*) > 1;

-- E17: a return is booked once, and all of an effect's never above its amount.
create view payonce.broken_e17 (subject, detail) as
select 'effect ' || e.id, 'sent ' || e.amount || ' and got back ' || sum(r.amount)
from payonce.returns r
join payonce.effects e on e.id = r.effect_id
group by e.id, e.amount
having sum(r.amount) > e.amount;

-- I1: each final movement at our addresses has one class and what follows from it: one DEP_CREDIT iff it is a deposit.
create view payonce.broken_i1 (subject, detail) as
select 'transfer ' || t.id || ' (' || t.tx_hash || ':' || t.position || ')', case
         when t.class not in ('DEPOSIT', 'OWN_EFFECT', 'FUNDING', 'UNKNOWN_INTERNAL', 'UNKNOWN_INBOUND', 'UNKNOWN_OUTBOUND') then 'has class ' || t.class
         when t.class = 'DEPOSIT' then 'is final and its deposit is ' || coalesce(d.state, 'missing')
         else 'is ' || t.class || ', yet deposit ' || d.id || ' is ' || d.state
       end
from payonce.chain_transfers t
left join payonce.deposits d on d.transfer_id = t.id
where t.class not in ('DEPOSIT', 'OWN_EFFECT', 'FUNDING', 'UNKNOWN_INTERNAL', 'UNKNOWN_INBOUND', 'UNKNOWN_OUTBOUND')
   or t.final_at is not null and (t.class = 'DEPOSIT') <> (coalesce(d.state, '') in ('credited', 'reversed'))
   or t.final_at is null and coalesce(d.state, '') in ('credited', 'reversed')
union all
select 'deposit ' || d.id, 'is ' || d.state || ' with ' || coalesce(p.credits, 0) || ' credits, ' || coalesce(p.fees, 0) || ' fees and ' ||
       coalesce(p.reversals, 0) || ' reversals'
from payonce.deposits d
left join (
  select split_part(idem_key, ':', 2) as deposit_id, count(*) filter (where idem_key like 'DEP_CREDIT:%') as credits,
         count(*) filter (where idem_key like 'DEP_FEE:%') as fees, count(*) filter (where idem_key like 'DEP_REVERSAL:%') as reversals
  from payonce.postings
  where idem_key ~ '^DEP_(CREDIT|FEE|REVERSAL):'
  group by 1) p on p.deposit_id = d.id
where coalesce(p.credits, 0) <> (d.state in ('credited', 'reversed'))::int
   or coalesce(p.fees, 0) <> (d.state in ('credited', 'reversed') and d.fee > 0)::int
   or coalesce(p.reversals, 0) <> (d.state = 'reversed')::int
union all
select 'transfer ' || t.id || ' (' || t.tx_hash || ':' || t.position || ')', 'is ' || t.class || ' with ' || coalesce(p.booked, 0) || ' postings'
from payonce.chain_transfers t
left join (
  select split_part(idem_key, ':', 2) as transfer, count(*) as booked
  from payonce.postings
  where idem_key ~ '^DEP_(SUSPENSE|MOVE):'
  group by 1) p on p.transfer = t.id::text
where coalesce(p.booked, 0) <> (
    t.final_at is not null
    and (t.class in ('UNKNOWN_INBOUND', 'UNKNOWN_OUTBOUND')
         or t.class in ('FUNDING', 'UNKNOWN_INTERNAL') and t.from_address <> t.to_address))::int;

-- N1: each end that a partner is to hear of has its event, and each event a delivery for every endpoint that stood then. An
-- endpoint of the last seconds may not have been seen by a statement under way, unless it got an earlier event of the subject.
create view payonce.broken_n1 (subject, detail) as
select 'event ' || e.event_id, 'has no delivery for endpoint ' || p.id
from payonce.events e
join payonce.endpoints p on p.partner_id = e.partner_id and p.created_at < e.created_at and (p.disabled_at is null or p.disabled_at > e.created_at)
where not exists (select 1 from payonce.deliveries d where d.event_id = e.id and d.endpoint_id = p.id)
  and (p.created_at < e.created_at - interval '15 seconds'
       or exists (
         select 1 from payonce.deliveries d
         where d.endpoint_id = p.id and d.subject_type = e.subject_type and d.subject_id = e.subject_id and d.sequence < e.sequence))
union all
select 'withdrawal ' || e.subject_id, 'is settled and no event says so'
from payonce.effects e
where e.subject_type = 'withdrawal'
  and e.state = 'SETTLED'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type = 'withdrawal.confirmed')
union all
select 'subject ' || s.type || ' ' || s.id, 'ended as ' || s.closed_as || ' and no event says so'
from payonce.subjects s
where s.closed_as is not null
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = s.type and v.subject_id = s.id and v.type = s.type || '.' || s.closed_as)
union all
select 'deposit ' || d.id, 'is ' || d.state || ' and no event says so'
from payonce.deposits d
where not exists (
  select 1 from payonce.events v where v.subject_type = 'deposit' and v.subject_id = d.id and v.type = 'deposit.' || d.state);

-- N2: per subject, the sequence is gap-free from 1 to the subject's counter.
create view payonce.broken_n2 (subject, detail) as
select 'subject ' || s.type || ' ' || s.id, 'has ' || coalesce(e.events, 0) || ' events up to ' || coalesce(e.last, 0) || ', its counter says ' || s.event_seq
from payonce.subjects s
left join (
  select subject_type, subject_id, count(*) as events, min(sequence) as first, max(sequence) as last
  from payonce.events
  group by subject_type, subject_id) e on e.subject_type = s.type and e.subject_id = s.id
where coalesce(e.events, 0) <> s.event_seq
   or coalesce(e.last, 0) <> s.event_seq
   or coalesce(e.first, 1) <> 1;

-- V2: open + ended + in cases = all: no subject whose tries are over without an end, and no end that an effect outlived.
create view payonce.broken_v2 (subject, detail) as
select 'withdrawal ' || w.id, 'has no effect'
from payonce.withdrawals w
where not exists (select 1 from payonce.effects e where e.subject_type = 'withdrawal' and e.subject_id = w.id)
union all
select 'subject ' || s.type || ' ' || s.id, 'has no live effect, no end and no case'
from payonce.subjects s
where s.closed_at is null
  and exists (select 1 from payonce.effects e where e.subject_type = s.type and e.subject_id = s.id)
  and not exists (select 1 from payonce.effects e where e.subject_type = s.type and e.subject_id = s.id and e.state <> 'RELEASED')
  and not exists (
    select 1 from payonce.cases c
    left join payonce.effects e on e.id = c.effect_id
    where c.closed_at is null and (c.subject_key = s.type || ':' || s.id or e.subject_type = s.type and e.subject_id = s.id))
union all
select 'effect ' || e.id, 'is ' || e.state || ' though its subject ended as ' || s.closed_as || ', and no case says so'
from payonce.effects e
join payonce.subjects s on s.type = e.subject_type and s.id = e.subject_id
where s.closed_at is not null
  and e.state <> 'RELEASED'
  and not exists (select 1 from payonce.cases c where c.effect_id = e.id and c.kind = 'told_failed');

-- The audit log's chain: each line's hash covers the line before it, and what was not erased has the digest that it covers.
create view payonce.broken_audit (subject, detail) as
select 'audit line ' || l.seq, case
         when l.seq <> l.seq_before + 1 then 'follows line ' || l.seq_before
         when l.detail is not null and payonce.audit_digest(l.detail) <> l.detail_digest then 'its detail is not what was written'
         else 'does not continue the chain'
       end
from (
  select seq, at, actor, action, object, detail, detail_digest, hash,
         lag(seq, 1, 0::bigint) over (order by seq) as seq_before, lag(hash, 1, repeat('0', 64)) over (order by seq) as hash_before
  from payonce.audit_log
) l
where l.seq <> l.seq_before + 1
   or l.detail is not null and payonce.audit_digest(l.detail) <> l.detail_digest
   or l.hash <> encode(sha256(convert_to(
        l.hash_before || chr(10) || l.seq || chr(10) || extract(epoch from l.at) || chr(10) || l.actor || chr(10) || l.action || chr(10) || l.object || chr(10) || l.detail_digest, 'UTF8')), 'hex')
union all
select 'audit head', 'stands at ' || h.seq || ', the last line is ' || coalesce(l.seq::text, 'none')
from payonce.audit_head h
left join (select seq, hash from payonce.audit_log order by seq desc limit 1) l on true
where h.seq <> coalesce(l.seq, 0)
   or h.hash <> coalesce(l.hash, repeat('0', 64));
