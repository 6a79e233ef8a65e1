-- 0004 engine guards: the edges, the seal, birth and end of effects and subjects, signed variants.
-- Why: design §4. Nobody with a connection, the tables' owner included, makes a second live effect, another seal, an end
-- without its proof, or a variant with another payload. Locks: none on existing data. Duration: milliseconds.

-- The guard on the edges. No other statement than an edge names the column `state`. (A condition with a subquery runs as a
-- statement of its own even where its first half decides, so the cheap half stands in an IF around it.)
create function payonce.effects_guard() returns trigger
language plpgsql as $$
declare
  proof record;
  reason text;
begin
  if not exists (select 1 from payonce.effect_edges where from_state = old.state and to_state = new.state) then
    raise exception 'effect %: no edge % -> %', old.id, old.state, new.state using errcode = 'P0B01', constraint = 'effects_edge';
  end if;
  if old.state = 'PENDING' and new.state = 'SEALED' then
    if new.nonce is not null then
      if not exists (
        select 1 from payonce.signers s where s.rail = new.rail and s.address = new.signer and s.next_nonce > new.nonce) then
        raise exception 'effect %: nonce % was not given out', old.id, new.nonce using errcode = 'P0B02', constraint = 'effects_nonce_allotted';
      end if;
    end if;
    reason := 'sealed';
  elsif old.state = 'RELEASED' and new.state = 'SEALED' then
    if new.testimonies = 0 or not new.no_send or new.lane is not null or new.reopened_at is null then
      raise exception 'effect %: re-opened without testimony, or to be sent again', old.id using errcode = 'P0B03', constraint = 'effects_reopen';
    end if;
    reason := 're-opened';
  elsif new.state = 'SETTLED' then
    select e.kind into reason
    from payonce.effect_evidence e
    where e.id = new.settled_by and e.effect_id = new.id and e.rank = 'object' and e.struck_at is null;
    if not found then
      raise exception 'effect %: settled without object testimony', old.id using errcode = 'P0B04', constraint = 'effects_settled_testimony';
    end if;
  elsif new.state = 'RELEASED' then
    select e.kind, e.rank, e.object_id, k.says, k.chain_final into proof
    from payonce.effect_evidence e join payonce.evidence_kinds k on k.kind = e.kind
    where e.id = new.released_by and e.effect_id = new.id and e.struck_at is null;
    if not found or (proof.says <> 'no' and not (proof.kind = 'NEVER_LEFT' and proof.rank = 'dead')) or proof.rank <> new.release_rank then
      raise exception 'effect %: released without a named no', old.id using errcode = 'P0B05', constraint = 'effects_released_no';
    end if;
    if (old.state = 'PENDING') <> (proof.kind = 'NEVER_SEALED') then
      raise exception 'effect %: % does not release from %', old.id, proof.kind, old.state using errcode = 'P0B05', constraint = 'effects_released_no';
    end if;
    if new.testimonies > 0 and (
      exists (select 1 from payonce.effect_evidence e where e.effect_id = new.id and e.rank = 'object' and e.struck_at is null)
      or not (proof.chain_final or (proof.kind = 'PROVIDER_FAILED' and proof.rank = 'dead' and proof.object_id is not null and proof.object_id = new.accepted_object))) then
      raise exception 'effect %: released over testimony', old.id using errcode = 'P0B06', constraint = 'effects_released_testimony';
    end if;
    if new.release_rank = 'believed' and (
      new.lateness_until is null or new.lateness_until > payonce.now() or new.fresh_look_at is null or new.fresh_look_at < new.lateness_until) then
      raise exception 'effect %: a believed no waits for lateness and a fresh look', old.id using errcode = 'P0B06', constraint = 'effects_released_lateness';
    end if;
    reason := proof.kind;
  end if;
  new.transitions := old.transitions + 1;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  values (new.id, new.transitions, old.state, new.state, reason, new.lease_token);
  return new;
end $$;
create trigger effects_guard before update of state on payonce.effects
  for each row execute function payonce.effects_guard();

-- Frozen at intake; sealed once. Fires on every update that could touch them, cheaply, and (by its name) after the edges' guard.
create function payonce.effects_immutable() returns trigger
language plpgsql as $$
begin
  if (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.signer, old.call, old.hold_key, old.created_at)
     is distinct from
     (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.signer, new.call, new.hold_key, new.created_at) then
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
create trigger effects_immutable before update on payonce.effects
  for each row when (
    (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.signer, old.call, old.hold_key, old.created_at)
    is distinct from
    (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.signer, new.call, new.hold_key, new.created_at)
    or (old.sealed_at is not null and
        (old.identity, old.payload, old.expect, old.plan, old.nonce, old.sealed_at, old.first_sent_at)
        is distinct from (new.identity, new.payload, new.expect, new.plan, new.nonce, new.sealed_at, new.first_sent_at))
    or new.lease_token < old.lease_token or new.send_count < old.send_count or new.evidence_version < old.evidence_version
    or new.reopens < old.reopens or (new.transitions <> old.transitions and new.state = old.state) or (old.no_send and not new.no_send)
    or (old.contradicted_at is not null and new.contradicted_at is distinct from old.contradicted_at)
    or (old.ended_at is not null and new.state = old.state
        and (old.settled_by, old.released_by, old.release_rank, old.ended_at) is distinct from (new.settled_by, new.released_by, new.release_rank, new.ended_at)))
  execute function payonce.effects_immutable();
create trigger effects_kept before delete on payonce.effects
  for each row execute function payonce.refuse_change();

-- A new effect starts PENDING, and a subject that was told `failed` or `cancelled` takes none ever again.
create function payonce.effects_born() returns trigger
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  is_closed boolean;
begin
  if exists (select 1 from added where state <> 'PENDING' or sealed_at is not null or testimonies <> 0) then
    raise exception 'an effect begins PENDING' using errcode = 'P0B12', constraint = 'effects_born_pending';
  end if;
  select bool_or(l.closed_at is not null) into is_closed
  from (select distinct subject_type, subject_id from added order by subject_type, subject_id) a
  cross join lateral (
    select s.closed_at from payonce.subjects s where s.type = a.subject_type and s.id = a.subject_id for share) l;
  if is_closed then
    raise exception 'this subject was told its end: no effect ever again' using errcode = 'P0B13', constraint = 'effects_subject_closed';
  end if;
  -- A successor differs in identity and rail parameters only (design §1, 7), and tries are numbered without gaps.
  if exists (select 1 from added where seq <> 1) and exists (
    select 1 from added a
    left join payonce.effects p on p.subject_type = a.subject_type and p.subject_id = a.subject_id and p.seq = a.seq - 1
    where a.seq > 1
      and (p.id is null
           or (p.partner_id, p.asset_id, p.amount, p.destination, p.wallet, p.call) is distinct from (a.partner_id, a.asset_id, a.amount, a.destination, a.wallet, a.call))) then
    raise exception 'a successor is its predecessor again' using errcode = 'P0B18', constraint = 'effects_successor_same';
  end if;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  select id, 1, null, state, 'intended', 0 from added;
  return null;
end $$;
create trigger effects_born after insert on payonce.effects
  referencing new table as added for each statement execute function payonce.effects_born();

create function payonce.subjects_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or (old.type, old.id, old.partner_id, old.natural_key) is distinct from (new.type, new.id, new.partner_id, new.natural_key)
     or new.event_seq < old.event_seq
     or (old.closed_at is not null and (old.closed_at, old.closed_as) is distinct from (new.closed_at, new.closed_as)) then
    raise exception 'subject % is frozen', old.id using errcode = 'P0B14', constraint = 'subjects_frozen';
  end if;
  if old.closed_at is null and new.closed_at is not null then
    if exists (
      select 1 from payonce.effects e where e.subject_type = new.type and e.subject_id = new.id and e.state <> 'RELEASED') then
      raise exception 'subject % has a live effect: it cannot be told its end', old.id using errcode = 'P0B15', constraint = 'subjects_live_effect';
    end if;
  end if;
  return new;
end $$;
create trigger subjects_guard before update or delete on payonce.subjects
  for each row execute function payonce.subjects_guard();

create table payonce.effect_variants (
  id bigint generated always as identity primary key,
  effect_id bigint not null references payonce.effects (id),
  kind text not null check (kind in ('original', 'bump', 'cancel')),
  hash text not null constraint effect_variants_hash unique,
  raw bytea not null,
  to_address text not null,
  value numeric(78,0) not null,
  data text not null,
  gas_limit numeric(78,0) not null,
  max_fee numeric(78,0) not null,
  max_priority_fee numeric(78,0) not null,
  signed_at timestamptz not null default payonce.now()
);
create index effect_variants_effect on payonce.effect_variants (effect_id, id);
create trigger effect_variants_append_only before update or delete on payonce.effect_variants
  for each row execute function payonce.refuse_change();

-- A variant keeps to, value and data of the seal (a cancel is a self-transfer of nothing); after a cancel only cancels.
create function payonce.effect_variants_guard() returns trigger
language plpgsql as $$
declare
  sealed record;
begin
  select e.state, e.signer, convert_from(e.payload, 'UTF8')::jsonb as body, e.sealed_at into sealed
  from payonce.effects e where e.id = new.effect_id for no key update;
  if sealed.sealed_at is null then
    raise exception 'effect % is not sealed: nothing can be signed', new.effect_id using errcode = 'P0B16', constraint = 'effect_variants_sealed';
  end if;
  if new.kind = 'cancel' then
    if new.to_address is distinct from sealed.signer or new.value <> 0 or new.data not in ('0x', '') then
      raise exception 'a cancel is a self-transfer of nothing' using errcode = 'P0B17', constraint = 'effect_variants_cancel';
    end if;
  else
    if (new.to_address, new.value, new.data) is distinct from (sealed.body ->> 'to', (sealed.body ->> 'value')::numeric, sealed.body ->> 'data') then
      raise exception 'a variant keeps to, value and data of the seal' using errcode = 'P0B17', constraint = 'effect_variants_payload';
    end if;
    if exists (select 1 from payonce.effect_variants v where v.effect_id = new.effect_id and v.kind = 'cancel') then
      raise exception 'effect % is being cancelled: only cancels follow' , new.effect_id using errcode = 'P0B17', constraint = 'effect_variants_after_cancel';
    end if;
  end if;
  return new;
end $$;
create trigger effect_variants_guard before insert on payonce.effect_variants
  for each row execute function payonce.effect_variants_guard();
