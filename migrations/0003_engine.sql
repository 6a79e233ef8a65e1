-- 0003 engine: subjects, effects, seals, evidence, signers, cases, two-person decisions, audit log, alerts.
-- Why: design §2 and §4. What must never happen is refused here, whoever asks; no constraint refuses testimony.
-- Locks: none on existing data. Duration: milliseconds.

create table payonce.rails (
  name text primary key,
  seals_stopped_at timestamptz,
  seals_stopped_reason text,
  doubt_max_units jsonb not null default '{}',
  check ((seals_stopped_at is null) = (seals_stopped_reason is null))
);

-- A subject is what may have one live effect: a withdrawal, a leg, a payout. Its row is the event counter too.
create table payonce.subjects (
  type text not null,
  id text not null,
  partner_id text not null references payonce.partners (id),
  natural_key text not null,
  event_seq bigint not null default 0,
  closed_at timestamptz,
  closed_as text check (closed_as in ('failed', 'cancelled')),
  primary key (type, id),
  constraint subjects_natural_key unique (type, natural_key),
  check ((closed_at is null) = (closed_as is null))
) with (fillfactor = 80);

create table payonce.signers (
  rail text not null references payonce.rails (name),
  address text not null,
  label text not null,
  next_nonce bigint not null check (next_nonce >= 0),
  quarantined_at timestamptz,
  quarantine_reason text,
  created_at timestamptz not null default payonce.now(),
  primary key (rail, address)
);
create function payonce.signers_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or (old.rail, old.address) is distinct from (new.rail, new.address) or new.next_nonce < old.next_nonce then
    raise exception 'the nonce of % never goes back', old.address using errcode = 'P0B09', constraint = 'signers_nonce_forward';
  end if;
  return new;
end $$;
create trigger signers_guard before update or delete on payonce.signers for each row execute function payonce.signers_guard();

-- The edges are data: src/engine/effect.ts has the same table and a test compares them.
create table payonce.effect_edges (
  from_state text not null,
  to_state text not null,
  primary key (from_state, to_state)
);
insert into payonce.effect_edges (from_state, to_state) values
  ('PENDING', 'SEALED'), ('PENDING', 'RELEASED'), ('SEALED', 'SETTLED'), ('SEALED', 'RELEASED'), ('RELEASED', 'SEALED');
-- A new edge or kind is a migration's, not a row that somebody adds.
create trigger effect_edges_append_only before insert or update or delete or truncate on payonce.effect_edges
  for each statement execute function payonce.refuse_change();

-- The closed list of evidence: what each kind says, and its rank. src/engine/effect.ts has the same table.
create table payonce.evidence_kinds (
  kind text primary key,
  says text not null check (says in ('nothing', 'yes', 'no')),
  rank text not null check (rank in ('none', 'display', 'word', 'object', 'believed', 'dead')),
  chain_final boolean not null default false
);
insert into payonce.evidence_kinds (kind, says, rank, chain_final) values
  ('NOT_FOUND', 'nothing', 'none', false), ('UNREADABLE', 'nothing', 'none', false), ('IN_PROGRESS', 'nothing', 'none', false),
  ('BLOCKED', 'nothing', 'none', false), ('NEVER_LEFT', 'nothing', 'none', false),
  ('INCLUDED', 'yes', 'display', false),
  ('ACCEPTED', 'yes', 'word', false), ('KEY_TAKEN', 'yes', 'word', false), ('MOVED_OTHERWISE', 'yes', 'word', false),
  ('FINAL_SUCCESS', 'yes', 'object', false), ('CAME_BACK', 'yes', 'object', false), ('OPERATOR_SAW', 'yes', 'object', false),
  ('REJECTED', 'no', 'believed', false), ('OPERATOR_ABSENT', 'no', 'believed', false),
  ('NEVER_SEALED', 'no', 'dead', false), ('REJECTION_STORED', 'no', 'dead', false), ('REFUSED_AT_ONCE', 'no', 'dead', false),
  ('PROVIDER_FAILED', 'no', 'dead', false),
  ('REVERTED_FINAL', 'no', 'dead', true), ('CANCEL_MINED', 'no', 'dead', true), ('NONCE_SPENT_BY_OTHER', 'no', 'dead', true),
  ('EXPIRED_UNINCLUDED', 'no', 'dead', true);
create trigger evidence_kinds_append_only before insert or update or delete or truncate on payonce.evidence_kinds
  for each statement execute function payonce.refuse_change();

create table payonce.effects (
  id bigint generated always as identity primary key,
  subject_type text not null,
  subject_id text not null,
  seq int not null check (seq >= 1),
  partner_id text not null,
  rail text not null references payonce.rails (name),
  state text not null default 'PENDING' check (state in ('PENDING', 'SEALED', 'SETTLED', 'RELEASED')),
  lane text,
  -- frozen at intake
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount >= 0),
  destination text not null,
  wallet text not null,
  signer text not null,
  call jsonb,
  hold_key text references payonce.holds (key),
  created_at timestamptz not null default payonce.now(),
  -- lease and queue
  lease_token bigint not null default 0,
  lease_until timestamptz,
  next_at timestamptz not null default payonce.now(),
  wait_reason text,
  failures int not null default 0,
  -- seal: immutable once set
  identity text,
  payload bytea,
  expect jsonb,
  plan jsonb,
  nonce bigint,
  sealed_at timestamptz,
  first_sent_at timestamptz,
  -- sends
  send_count int not null default 0,
  send_by timestamptz,
  last_sent_at timestamptz,
  no_send boolean not null default false,
  -- an operator's wish for the next advance
  wanted text check (wanted in ('look', 'ask', 'bump', 'cancel')),
  -- evidence
  testimonies int not null default 0 check (testimonies >= 0),
  evidence_version int not null default 0,
  accepted_at timestamptz,
  accepted_object text,
  included_at timestamptz,
  last_unreadable boolean not null default false,
  -- a believed no waits: lateness, then a fresh look
  believed_evidence bigint,
  lateness_until timestamptz,
  fresh_look_at timestamptz,
  -- a believed release stays on a watch list until retention + 7 days
  watch_at timestamptz,
  -- the end
  settled_by bigint,
  released_by bigint,
  release_rank text check (release_rank in ('dead', 'believed')),
  ended_at timestamptz,
  reopened_at timestamptz,
  reopens int not null default 0,
  contradicted_at timestamptz,
  transitions int not null default 1,
  constraint effects_subject foreign key (subject_type, subject_id) references payonce.subjects (type, id),
  constraint effects_attempt unique (subject_type, subject_id, seq),
  constraint effects_pending_unsealed check (state <> 'PENDING' or sealed_at is null),
  constraint effects_sealed_whole check (
    state not in ('SEALED', 'SETTLED')
    or (identity is not null and payload is not null and expect is not null and sealed_at is not null and first_sent_at is not null and send_count >= 1)),
  constraint effects_ended check ((state in ('SETTLED', 'RELEASED')) = (ended_at is not null)),
  constraint effects_released_named check (state <> 'RELEASED' or (released_by is not null and release_rank is not null))
) with (fillfactor = 60);
-- Design §1, 7: at most one effect of a subject that is not released.
create unique index effects_one_live on payonce.effects (subject_type, subject_id) where state <> 'RELEASED';
create unique index effects_identity on payonce.effects (identity) where identity is not null;
create unique index effects_nonce on payonce.effects (rail, signer, nonce) where nonce is not null;
create unique index effects_lane on payonce.effects (lane) where lane is not null and state in ('PENDING', 'SEALED');
-- Two queues: what may be sealed, per signer, and what is looked at. Ended effects are in neither (claims stay cheap).
create index effects_pending on payonce.effects (rail, signer, next_at, id) where state = 'PENDING';
create index effects_sealed on payonce.effects (rail, next_at, id) where state = 'SEALED';
create index effects_partner on payonce.effects (partner_id, id);
create index effects_unmined on payonce.effects (rail, signer) where state = 'SEALED' and included_at is null;
create index effects_watched on payonce.effects (rail, watch_at, id) where watch_at is not null;
create index effects_contradicted on payonce.effects (rail, partner_id) where contradicted_at is not null;

create table payonce.effect_history (
  effect_id bigint not null references payonce.effects (id),
  seq int not null,
  from_state text,
  to_state text not null,
  reason text,
  lease_token bigint not null,
  at timestamptz not null default payonce.now(),
  primary key (effect_id, seq)
);
create trigger effect_history_append_only before update or delete on payonce.effect_history
  for each row execute function payonce.refuse_change();

create table payonce.effect_answers (
  id bigint generated always as identity primary key,
  effect_id bigint not null references payonce.effects (id),
  send_number int not null,
  lease_token bigint not null,
  operation text not null check (operation in ('send', 'look')),
  source text not null,
  operator text not null,
  reach text not null,
  status int,
  body text not null,
  variant_hash text,
  digest text not null,
  repeats int not null default 1,
  received_at timestamptz not null default payonce.now(),
  last_received_at timestamptz not null default payonce.now(),
  observed text,
  observed_why text,
  -- a send's readable refusal; `at_once`: request or account are wrong
  refused text check (refused in ('at_once', 'other'))
);
create index effect_answers_effect on payonce.effect_answers (effect_id, id);
create trigger effect_answers_kept before delete on payonce.effect_answers
  for each row execute function payonce.refuse_change();

create table payonce.operators (
  id text primary key,
  name text not null unique,
  key_hash text not null unique,
  role text not null check (role in ('viewer', 'operator', 'approver', 'admin')),
  disabled_at timestamptz,
  created_at timestamptz not null default payonce.now()
);

create table payonce.cases (
  id text primary key,
  kind text not null,
  severity int not null check (severity between 1 and 3),
  subject_key text not null,
  effect_id bigint references payonce.effects (id),
  partner_id text,
  asset_id text,
  amount numeric(78,0),
  summary text not null,
  opened_at timestamptz not null default payonce.now(),
  last_seen_at timestamptz not null default payonce.now(),
  closed_at timestamptz,
  closed_how text,
  check ((closed_at is null) = (closed_how is null))
);
create unique index cases_open on payonce.cases (kind, subject_key) where closed_at is null;
create index cases_effect on payonce.cases (effect_id) where effect_id is not null;
create index cases_list on payonce.cases (opened_at, id);
create trigger cases_kept before delete on payonce.cases
  for each row execute function payonce.refuse_change();

-- Four eyes: the database refuses a proposal approved by its proposer.
create table payonce.proposals (
  id text primary key,
  case_id text not null references payonce.cases (id),
  verb text not null,
  detail jsonb not null default '{}',
  evidence_version int not null,
  proposed_by text not null references payonce.operators (id),
  proposed_at timestamptz not null default payonce.now(),
  approved_by text references payonce.operators (id),
  decided_at timestamptz,
  state text not null default 'open' check (state in ('open', 'approved', 'void', 'done')),
  constraint proposals_four_eyes check (approved_by is null or approved_by <> proposed_by),
  constraint proposals_approved check (state not in ('approved', 'done') or approved_by is not null)
);
create unique index proposals_open on payonce.proposals (case_id, verb) where state = 'open';

-- What the second person approves is what the first proposed, and stays it.
create function payonce.proposals_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE'
     or (old.id, old.case_id, old.verb, old.detail, old.evidence_version, old.proposed_by, old.proposed_at)
        is distinct from (new.id, new.case_id, new.verb, new.detail, new.evidence_version, new.proposed_by, new.proposed_at)
     or old.state in ('void', 'done')
     or old.state = 'approved' and (new.state <> 'done' or new.approved_by <> old.approved_by) then
    raise exception 'proposal % is frozen', old.id using errcode = 'P0B19', constraint = 'proposals_frozen';
  end if;
  return new;
end $$;
create trigger proposals_guard before update or delete on payonce.proposals
  for each row execute function payonce.proposals_guard();

create table payonce.effect_evidence (
  id bigint generated always as identity primary key,
  effect_id bigint not null references payonce.effects (id),
  kind text not null references payonce.evidence_kinds (kind),
  rank text not null,
  source text not null,
  operator text not null,
  object_id text,
  detail text not null,
  answer_id bigint,
  send_number int not null,
  lease_token bigint not null,
  proposal_id text references payonce.proposals (id),
  at timestamptz not null default payonce.now(),
  struck_by text references payonce.proposals (id),
  struck_at timestamptz,
  constraint effect_evidence_struck_whole check ((struck_by is null) = (struck_at is null))
);
create index effect_evidence_effect on payonce.effect_evidence (effect_id, id);
-- An approval strikes one piece.
create unique index effect_evidence_struck_once on payonce.effect_evidence (struck_by) where struck_by is not null;

-- Testimony counts on the effect's own row, in the statement that stores it, and is never refused (design §1, 6).
-- A session plans this once, perhaps on an empty table: left free, the plan scans all effects ever after. Looked up by
-- `any (array (…))` and without sequential scans it is one index look-up per effect, whatever the statistics say.
create function payonce.evidence_counts() returns trigger
language plpgsql
set enable_seqscan = off
set jit = off
as $$
begin
  -- one update per effect, in id order: two batches cannot lock each other out
  update payonce.effects e
  set testimonies = e.testimonies + t.yes,
      evidence_version = e.evidence_version + t.raised,
      accepted_at = case when t.yes > 0 then coalesce(e.accepted_at, payonce.now()) else e.accepted_at end,
      accepted_object = coalesce(e.accepted_object, t.object_id)
  from (
    select effect_id,
           count(*) filter (where rank in ('word', 'object')) as yes,
           count(*) as raised,
           min(object_id) filter (where rank in ('word', 'object')) as object_id
    from (select a.effect_id, a.rank, a.object_id from added a
          join (select id from payonce.effects where id = any (array(select effect_id from added))
                order by id for no key update) l on l.id = a.effect_id) x
    group by effect_id
  ) t
  where e.id = any (array(select effect_id from added))
    and e.id = t.effect_id;
  return null;
end $$;
create trigger evidence_counts after insert on payonce.effect_evidence
  referencing new table as added for each statement execute function payonce.evidence_counts();

create function payonce.evidence_rank() returns trigger
language plpgsql as $$
declare
  wrong record;
begin
  -- PROVIDER_FAILED is dead only where the profile cites that the key stays bound; REJECTED of a stored kind is its own kind.
  select a.kind into wrong
  from added a join payonce.evidence_kinds k on k.kind = a.kind
  where a.rank <> k.rank and not (a.kind = 'PROVIDER_FAILED' and a.rank = 'believed')
    and not (a.kind = 'NEVER_LEFT' and a.rank = 'dead' and exists (
      select 1 from payonce.effects e
      where e.id = a.effect_id and e.nonce is null and e.send_count > 0
        and e.send_count = (select count(distinct n.send_number) from payonce.effect_answers n
                            where n.effect_id = e.id and n.operation = 'send' and n.reach = 'never_connected')))
  limit 1;
  if found then
    raise exception 'evidence % has another rank', wrong.kind using errcode = 'P0B07', constraint = 'effect_evidence_rank';
  end if;
  select a.kind into wrong
  from added a
  where a.kind in ('OPERATOR_SAW', 'OPERATOR_ABSENT') and not exists (
    select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
    where p.id = a.proposal_id and p.approved_by is not null and p.state in ('approved', 'done')
      and c.effect_id = a.effect_id and p.verb = case a.kind when 'OPERATOR_SAW' then 'settled' else 'absent' end)
  limit 1;
  if found then
    raise exception 'evidence % needs two persons', wrong.kind using errcode = 'P0B08', constraint = 'effect_evidence_two_persons';
  end if;
  return null;
end $$;
create trigger evidence_rank after insert on payonce.effect_evidence
  referencing new table as added for each statement execute function payonce.evidence_rank();

-- Evidence is append-only; two persons may strike one named piece of word testimony.
create function payonce.evidence_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE'
     or (old.id, old.effect_id, old.kind, old.rank, old.source, old.operator, old.object_id, old.detail, old.answer_id, old.send_number, old.lease_token, old.proposal_id, old.at)
        is distinct from
        (new.id, new.effect_id, new.kind, new.rank, new.source, new.operator, new.object_id, new.detail, new.answer_id, new.send_number, new.lease_token, new.proposal_id, new.at)
     or old.struck_at is not null then
    raise exception 'evidence is never changed' using errcode = 'P0A01', constraint = 'effect_evidence_append_only';
  end if;
  if new.struck_at is not null then
    if old.rank <> 'word' or not exists (
      select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
      where p.id = new.struck_by and p.verb = 'strike' and p.approved_by is not null and p.state in ('approved', 'done')
        and c.effect_id = old.effect_id and p.detail ->> 'evidenceId' = old.id::text) then
      raise exception 'only two persons strike word testimony' using errcode = 'P0B08', constraint = 'effect_evidence_strike';
    end if;
    update payonce.effects set testimonies = testimonies - 1, evidence_version = evidence_version + 1 where id = old.effect_id;
  end if;
  return new;
end $$;
create trigger evidence_guard before update or delete on payonce.effect_evidence
  for each row execute function payonce.evidence_guard();

-- A no tests this count (design §2, testimony first): nobody but the evidence itself moves it.
create function payonce.effects_testimonies() returns trigger
language plpgsql as $$
begin
  raise exception 'effect %: testimony is counted where it is stored', old.id using errcode = 'P0B20', constraint = 'effects_testimonies_counted';
end $$;
create trigger effects_testimonies before update of testimonies, accepted_object on payonce.effects
  for each row when (pg_trigger_depth() = 0 and (old.testimonies, old.accepted_object) is distinct from (new.testimonies, new.accepted_object))
  execute function payonce.effects_testimonies();
