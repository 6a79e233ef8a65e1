-- 0005 people: returns, notes, the audit log and its chain, alerts, the database's own marks.
-- Why: design §8, §10. Locks: none on existing data. Duration: milliseconds.

create table payonce.returns (
  id text primary key,
  effect_id bigint not null references payonce.effects (id),
  provider_return_id text not null,
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) not null default 0 check (fee >= 0),
  at timestamptz not null default payonce.now(),
  constraint returns_once unique (effect_id, provider_return_id)
);
create trigger returns_append_only before update or delete on payonce.returns
  for each row execute function payonce.refuse_change();

create table payonce.case_notes (
  id bigint generated always as identity primary key,
  case_id text not null references payonce.cases (id),
  operator_id text not null references payonce.operators (id),
  note text not null check (char_length(note) between 1 and 4000),
  at timestamptz not null default payonce.now()
);

-- Every act, hash-chained. The chain covers digests, so personal data in `detail` can be erased and the chain stays whole.
create table payonce.audit_head (
  one boolean primary key default true check (one),
  seq bigint not null default 0,
  hash text not null default repeat('0', 64)
);
insert into payonce.audit_head default values;
create table payonce.audit_log (
  seq bigint primary key,
  at timestamptz not null,
  actor text not null,
  action text not null,
  object text not null,
  detail jsonb,
  detail_digest text not null,
  hash text not null
);
create function payonce.audit_guard() returns trigger
language plpgsql as $$
begin
  -- Erasing `detail` (a request of a person) is the one change allowed.
  if tg_op = 'UPDATE' and new.detail is null
     and (old.seq, old.at, old.actor, old.action, old.object, old.detail_digest, old.hash)
         is not distinct from (new.seq, new.at, new.actor, new.action, new.object, new.detail_digest, new.hash) then
    return new;
  end if;
  raise exception 'the audit log is append-only' using errcode = 'P0A01', constraint = 'audit_log_append_only';
end $$;
create trigger audit_guard before update or delete on payonce.audit_log
  for each row execute function payonce.audit_guard();

create function payonce.audit_digest(detail jsonb) returns text
language sql immutable as $$ select encode(sha256(convert_to(detail::text, 'UTF8')), 'hex') $$;

create function payonce.audit(actor text, action text, object text, detail jsonb) returns bigint
language plpgsql as $$
declare
  head record;
  moment timestamptz := payonce.now();
  digest text := payonce.audit_digest(coalesce(detail, '{}'));
  next_hash text;
begin
  select seq, hash into head from payonce.audit_head for update;
  next_hash := encode(sha256(convert_to(
    head.hash || chr(10) || (head.seq + 1) || chr(10) || extract(epoch from moment) || chr(10) || actor || chr(10) || action || chr(10) || object || chr(10) || digest, 'UTF8')), 'hex');
  insert into payonce.audit_log (seq, at, actor, action, object, detail, detail_digest, hash)
  values (head.seq + 1, moment, actor, action, object, coalesce(detail, '{}'), digest, next_hash);
  update payonce.audit_head set seq = head.seq + 1, hash = next_hash;
  return head.seq + 1;
end $$;

create table payonce.alerts (
  id bigint generated always as identity primary key,
  kind text not null,
  key text not null,
  message text not null,
  first_at timestamptz not null default payonce.now(),
  last_at timestamptz not null default payonce.now(),
  times bigint not null default 1,
  cleared_at timestamptz
);
create unique index alerts_open on payonce.alerts (kind, key) where cleared_at is null;

-- The database's own identity: a fail-over or a restored backup shows here and stops all seals until a person signs it off.
create table payonce.database_marks (
  one boolean primary key default true check (one),
  system_identifier text not null,
  timeline int not null,
  signed_at timestamptz not null default payonce.now()
);
