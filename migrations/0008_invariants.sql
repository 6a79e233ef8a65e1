-- 0008 invariants of effects, inflows, events and the audit log: one view each, empty while it holds.
-- Why: `payonce verify` and the end of every test read them. Locks: none. Duration: milliseconds.

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
  and not (y.rank = 'word' and y.object_id is not null and exists (
    select 1 from payonce.effect_evidence f
    where f.id = e.released_by and f.kind = 'PROVIDER_FAILED' and f.object_id = y.object_id))
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
