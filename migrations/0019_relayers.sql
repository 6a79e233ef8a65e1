-- 0019 relayers: who signs, pays gas and owns the nonce may differ from the wallet that the token leaves (R15).
-- Why: issue 4. Locks: `asset_policies`, `signers`, `effects` (a trigger), for a moment. Duration: milliseconds.

alter table payonce.asset_policies add column relayers text[] not null default '{}';
-- Short of what it pays gas or bandwidth with: not chosen until then (R7).
alter table payonce.signers add column short_until timestamptz;
alter table payonce.signers add column short_why text;

-- Who relays is a rail parameter and chosen by capacity: it may change until the seal, and never after (design §1, 7).
create or replace function payonce.effects_immutable() returns trigger
language plpgsql as $$
begin
  if (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.call, old.hold_key, old.created_at)
     is distinct from
     (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.call, new.hold_key, new.created_at)
     or (old.sealed_at is not null or old.ended_at is not null) and old.signer <> new.signer then
    raise exception 'effect %: what was taken in is frozen', old.id using errcode = 'P0B10', constraint = 'effects_intake_frozen';
  end if;
  if old.sealed_at is not null
     and (old.identity, old.payload, old.expect, old.plan, old.nonce, old.sealed_at, old.first_sent_at)
         is distinct from (new.identity, new.payload, new.expect, new.plan, new.nonce, new.sealed_at, new.first_sent_at) then
    raise exception 'effect %: the seal is immutable', old.id using errcode = 'P0B11', constraint = 'effects_seal_immutable';
  end if;
  -- A lower token would let a stale worker in, a lower count or a lifted `no_send` would send again what must not be.
  raise exception 'effect %: fences, counts, stops and ends never go back', old.id using errcode = 'P0B21', constraint = 'effects_never_back';
end $$;
drop trigger effects_immutable on payonce.effects;
create trigger effects_immutable before update on payonce.effects
  for each row when (
    (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.call, old.hold_key, old.created_at)
    is distinct from
    (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.call, new.hold_key, new.created_at)
    or ((old.sealed_at is not null or old.ended_at is not null) and old.signer <> new.signer)
    or (old.sealed_at is not null and
        (old.identity, old.payload, old.expect, old.plan, old.nonce, old.sealed_at, old.first_sent_at)
        is distinct from (new.identity, new.payload, new.expect, new.plan, new.nonce, new.sealed_at, new.first_sent_at))
    or new.lease_token < old.lease_token or new.send_count < old.send_count or new.evidence_version < old.evidence_version
    or new.reopens < old.reopens or (new.transitions <> old.transitions and new.state = old.state) or (old.no_send and not new.no_send)
    or (old.contradicted_at is not null and new.contradicted_at is distinct from old.contradicted_at)
    or (old.ended_at is not null and new.state = old.state
        and (old.settled_by, old.released_by, old.release_rank, old.ended_at) is distinct from (new.settled_by, new.released_by, new.release_rank, new.ended_at)))
  execute function payonce.effects_immutable();
