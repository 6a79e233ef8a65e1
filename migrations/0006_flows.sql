-- 0006 flows: API keys, idempotency, withdrawals, addresses, chain transfers, deposits, events, deliveries, inbox.
-- Why: design §3, §4, §7. Locks: none on existing data. Duration: milliseconds.

create table payonce.api_keys (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  key_hash text not null unique,
  hint text not null,
  created_at timestamptz not null default payonce.now(),
  revoked_at timestamptz
);

-- Kept for ever: a repeat after years meets the same answer. C6: the row and the effect share one transaction.
create table payonce.idempotency_keys (
  partner_id text not null references payonce.partners (id),
  key text not null check (char_length(key) between 1 and 255),
  operation text not null,
  fingerprint text not null,
  resource_type text,
  resource_id text,
  refusal jsonb,
  created_at timestamptz not null default payonce.now(),
  primary key (partner_id, key),
  constraint idempotency_keys_answer check ((resource_id is null) <> (refusal is null))
);
create trigger idempotency_keys_append_only before update or delete on payonce.idempotency_keys
  for each row execute function payonce.refuse_change();

-- What a partner may do with an asset. Amounts in units.
create table payonce.asset_policies (
  asset_id text not null references payonce.assets (id),
  partner_id text not null default '*',
  rail text not null references payonce.rails (name),
  wallet text not null,
  withdrawal_min numeric(78,0) not null default 1 check (withdrawal_min > 0),
  withdrawal_max numeric(78,0) not null check (withdrawal_max >= withdrawal_min),
  withdrawal_day_max numeric(78,0) not null,
  withdrawal_fee_flat numeric(78,0) not null default 0 check (withdrawal_fee_flat >= 0),
  withdrawal_fee_bp int not null default 0 check (withdrawal_fee_bp between 0 and 10000),
  deposit_fee_flat numeric(78,0) not null default 0 check (deposit_fee_flat >= 0),
  deposit_fee_bp int not null default 0 check (deposit_fee_bp between 0 and 10000),
  own_address_policy text not null default 'refuse' check (own_address_policy in ('refuse', 'allow_deposit_addresses')),
  primary key (asset_id, partner_id)
);

-- Our own addresses, of every kind; deposit addresses belong to a partner (and a user of theirs).
create table payonce.addresses (
  id text primary key,
  chain text not null,
  address text not null,
  kind text not null check (kind in ('MASTER', 'DEPOSIT', 'SETTLEMENT', 'GAS', 'RELAYER', 'ADMIN')),
  partner_id text references payonce.partners (id),
  user_ref text,
  created_at timestamptz not null default payonce.now(),
  constraint addresses_chain_address unique (chain, address),
  check (kind <> 'DEPOSIT' or partner_id is not null)
);
create index addresses_partner on payonce.addresses (partner_id, id) where partner_id is not null;
-- Whose an address is decides whom a deposit is credited to.
create trigger addresses_frozen before update of chain, address, partner_id on payonce.addresses
  for each row when ((old.chain, old.address, old.partner_id) is distinct from (new.chain, new.address, new.partner_id))
  execute function payonce.refuse_change();
create trigger addresses_kept before delete on payonce.addresses
  for each row execute function payonce.refuse_change();

create table payonce.withdrawals (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  idempotency_key text not null,
  external_id text,
  purpose text not null check (purpose in ('customer', 'settlement', 'self')),
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) not null check (fee >= 0),
  destination text not null,
  reference text,
  requested_at timestamptz not null default payonce.now(),
  day date not null,
  subject_type text not null default 'withdrawal' check (subject_type = 'withdrawal'),
  constraint withdrawals_key unique (partner_id, idempotency_key),
  constraint withdrawals_subject foreign key (subject_type, id) references payonce.subjects (type, id)
);
create unique index withdrawals_external_id on payonce.withdrawals (partner_id, external_id) where external_id is not null;
create index withdrawals_list on payonce.withdrawals (partner_id, requested_at desc, id desc);
create index withdrawals_day on payonce.withdrawals (partner_id, asset_id, day);
create trigger withdrawals_append_only before update or delete on payonce.withdrawals
  for each row execute function payonce.refuse_change();

-- The day's use per partner and asset: one row that the intake locks, so that two intakes cannot both fit under the limit.
create table payonce.day_totals (
  partner_id text not null references payonce.partners (id),
  asset_id text not null references payonce.assets (id),
  day date not null,
  amount numeric(78,0) not null default 0 check (amount >= 0),
  primary key (partner_id, asset_id, day)
);

-- What the chains showed at our addresses. Position: index in the transaction's own receipt; -1 is the native value.
create table payonce.chain_transfers (
  id bigint generated always as identity primary key,
  chain text not null,
  tx_hash text not null,
  position int not null check (position >= -1),
  block_number bigint not null,
  block_hash text not null,
  asset_id text not null references payonce.assets (id),
  from_address text not null,
  to_address text not null,
  amount numeric(78,0) not null check (amount > 0),
  class text not null,
  class_reason text not null,
  final_at timestamptz,
  gone_at timestamptz,
  seen_at timestamptz not null default payonce.now(),
  constraint chain_transfers_place unique (chain, tx_hash, position)
);
create index chain_transfers_block on payonce.chain_transfers (chain, block_number);
create index chain_transfers_open on payonce.chain_transfers (chain, block_number) where final_at is null and gone_at is null;

create function payonce.chain_transfers_guard() returns trigger
language plpgsql as $$
begin
  -- Before finality a transaction may be mined again and then move other money at the same place; after it nothing changes.
  if tg_op = 'DELETE' or (old.chain, old.tx_hash, old.position) is distinct from (new.chain, new.tx_hash, new.position)
     or (old.final_at is not null
         and (old.asset_id, old.from_address, old.to_address, old.amount, new.final_at is null)
             is distinct from (new.asset_id, new.from_address, new.to_address, new.amount, false)) then
    raise exception 'chain transfer % is frozen', old.id using errcode = 'P0C01', constraint = 'chain_transfers_frozen';
  end if;
  return new;
end $$;
create trigger chain_transfers_guard before update or delete on payonce.chain_transfers
  for each row execute function payonce.chain_transfers_guard();

create table payonce.deposits (
  id text primary key,
  transfer_id bigint not null constraint deposits_transfer unique references payonce.chain_transfers (id),
  partner_id text not null references payonce.partners (id),
  address_id text not null references payonce.addresses (id),
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) not null default 0 check (fee >= 0),
  state text not null default 'detected' check (state in ('detected', 'credited', 'vanished', 'reversed')),
  detected_at timestamptz not null default payonce.now(),
  credited_at timestamptz,
  reversed_at timestamptz,
  subject_type text not null default 'deposit' check (subject_type = 'deposit'),
  constraint deposits_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  check ((state in ('credited', 'reversed')) = (credited_at is not null))
);
create index deposits_list on payonce.deposits (partner_id, detected_at desc, id desc);

create table payonce.deposit_edges (
  from_state text not null,
  to_state text not null,
  primary key (from_state, to_state)
);
insert into payonce.deposit_edges values
  ('detected', 'credited'), ('detected', 'vanished'), ('vanished', 'detected'), ('vanished', 'credited'), ('credited', 'reversed');
create trigger deposit_edges_append_only before insert or update or delete or truncate on payonce.deposit_edges
  for each statement execute function payonce.refuse_change();
create function payonce.deposits_guard() returns trigger
language plpgsql as $$
begin
  if not exists (select 1 from payonce.deposit_edges where from_state = old.state and to_state = new.state) then
    raise exception 'deposit %: no edge % -> %', old.id, old.state, new.state using errcode = 'P0C02', constraint = 'deposits_edge';
  end if;
  return new;
end $$;
create trigger deposits_guard before update of state on payonce.deposits
  for each row execute function payonce.deposits_guard();
-- Whose it is never changes; how much it is, not once it is credited.
create function payonce.deposits_frozen() returns trigger
language plpgsql as $$
begin
  raise exception 'deposit % is frozen', old.id using errcode = 'P0C03', constraint = 'deposits_frozen';
end $$;
create trigger deposits_frozen before update on payonce.deposits
  for each row when (
    (old.id, old.transfer_id, old.partner_id, old.address_id, old.asset_id, old.detected_at)
    is distinct from (new.id, new.transfer_id, new.partner_id, new.address_id, new.asset_id, new.detected_at)
    or (old.credited_at is not null and (old.amount, old.fee, old.credited_at) is distinct from (new.amount, new.fee, new.credited_at)))
  execute function payonce.deposits_frozen();
create trigger deposits_kept before delete on payonce.deposits
  for each row execute function payonce.refuse_change();

create table payonce.scan_cursors (
  chain text primary key,
  next_block bigint not null,
  halted_at timestamptz,
  halted_reason text,
  check ((halted_at is null) = (halted_reason is null))
);
create table payonce.scanned_blocks (
  chain text not null,
  number bigint not null,
  hash text not null,
  parent_hash text not null,
  scanned_at timestamptz not null default payonce.now(),
  primary key (chain, number)
);

-- What stands below the cursor is booked. A scan that goes back goes back in a halt that somebody reads, and a block that
-- was read is forgotten only there, so that another one in its place is seen: deeper than 1000 blocks no chain of ours
-- goes back, and above the cursor stands the head, which changes.
create function payonce.scan_cursors_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or new.chain <> old.chain or (new.next_block < old.next_block and old.halted_at is null) then
    raise exception 'the scan of % goes back only while it is halted', old.chain using errcode = 'P0C04', constraint = 'scan_cursors_forward';
  end if;
  return new;
end $$;
create trigger scan_cursors_guard before update or delete on payonce.scan_cursors
  for each row execute function payonce.scan_cursors_guard();
create function payonce.scanned_blocks_guard() returns trigger
language plpgsql as $$
begin
  if exists (
    select 1 from payonce.scan_cursors c
    where c.chain = old.chain and c.halted_at is null and old.number between c.next_block - 1000 and c.next_block - 1) then
    raise exception 'block % of % is booked and kept', old.number, old.chain using errcode = 'P0C05', constraint = 'scanned_blocks_kept';
  end if;
  return case tg_op when 'DELETE' then old else new end;
end $$;
create trigger scanned_blocks_guard before update or delete on payonce.scanned_blocks
  for each row execute function payonce.scanned_blocks_guard();

-- Partner events: built at the transition, in its transaction (D7); the body never changes again.
create table payonce.events (
  id bigint generated always as identity primary key,
  event_id text not null unique,
  partner_id text not null references payonce.partners (id),
  subject_type text not null,
  subject_id text not null,
  sequence bigint not null,
  type text not null check (type ~ '^[a-z_]+\.[a-z_]+$'),
  api_version text not null,
  body text not null,
  created_at timestamptz not null default payonce.now(),
  constraint events_subject_sequence unique (subject_type, subject_id, sequence),
  constraint events_subject foreign key (subject_type, subject_id) references payonce.subjects (type, id)
);
create index events_partner on payonce.events (partner_id, id);
create trigger events_append_only before update or delete on payonce.events
  for each row execute function payonce.refuse_change();

create table payonce.endpoints (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  url text not null check (url ~ '^https?://'),
  secret_version int not null default 1,
  created_at timestamptz not null default payonce.now(),
  disabled_at timestamptz,
  disabled_reason text
);
create index endpoints_partner on payonce.endpoints (partner_id) where disabled_at is null;

create table payonce.deliveries (
  id bigint generated always as identity primary key,
  event_id bigint not null references payonce.events (id),
  endpoint_id text not null references payonce.endpoints (id),
  subject_type text not null,
  subject_id text not null,
  sequence bigint not null,
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'dead')),
  attempts int not null default 0,
  next_at timestamptz not null default payonce.now(),
  lease_token bigint not null default 0,
  lease_until timestamptz,
  last_status int,
  last_error text,
  ended_at timestamptz,
  constraint deliveries_once unique (event_id, endpoint_id),
  check ((state = 'waiting') = (ended_at is null))
) with (fillfactor = 70);
create index deliveries_queue on payonce.deliveries (endpoint_id, next_at, id) where state = 'waiting';
create index deliveries_order on payonce.deliveries (endpoint_id, subject_type, subject_id, sequence) where state = 'waiting';

-- A delivery row for each endpoint of the partner, in the event's own statement: an event cannot be forgotten.
create function payonce.events_fan_out() returns trigger
language plpgsql as $$
begin
  insert into payonce.deliveries (event_id, endpoint_id, subject_type, subject_id, sequence)
  select a.id, p.id, a.subject_type, a.subject_id, a.sequence
  from added a join payonce.endpoints p on p.partner_id = a.partner_id and p.disabled_at is null
  order by a.id, p.id;
  return null;
end $$;
create trigger events_fan_out after insert on payonce.events
  referencing new table as added for each statement execute function payonce.events_fan_out();

-- Inbound, stored raw before anything else (D5); worked after.
create table payonce.inbox (
  id bigint generated always as identity primary key,
  source text not null,
  external_id text not null,
  headers jsonb not null,
  body bytea not null,
  received_at timestamptz not null default payonce.now(),
  redeliveries int not null default 0,
  state text not null default 'new' check (state in ('new', 'done', 'unmatched', 'dead')),
  attempts int not null default 0,
  next_at timestamptz not null default payonce.now(),
  last_error text,
  done_at timestamptz,
  constraint inbox_once unique (source, external_id)
);
create index inbox_queue on payonce.inbox (next_at, id) where state in ('new', 'unmatched');

-- Withdrawals have no status column: the highest attempt, its case and the subject's end are the one truth.
create view payonce.withdrawal_states as
select w.id,
       e.id as effect_id,
       case
         when e.state = 'SETTLED' and exists (select 1 from payonce.returns r where r.effect_id = e.id) then 'returned'
         when e.state = 'SETTLED' then 'confirmed'
         when c.open_case then 'in_review'
         when s.closed_as is not null and e.state = 'RELEASED' then s.closed_as
         when e.state = 'SEALED' and e.included_at is not null then 'sent'
         when e.state = 'SEALED' then 'processing'
         when e.state = 'PENDING' and e.seq = 1 then 'pending'
         else 'processing'
       end as status
from payonce.withdrawals w
join payonce.subjects s on s.type = 'withdrawal' and s.id = w.id
join lateral (
  select * from payonce.effects e where e.subject_type = 'withdrawal' and e.subject_id = w.id order by e.seq desc limit 1) e on true
cross join lateral (
  select e.contradicted_at is not null or exists (
    select 1 from payonce.cases k join payonce.effects x on x.id = k.effect_id
    where x.subject_type = 'withdrawal' and x.subject_id = w.id and k.closed_at is null) as open_case) c;

-- TRUNCATE fires no row trigger: no table that says what happened can be emptied (the ledger's own are in 0001).
do $$
declare
  kept text;
begin
  foreach kept in array array[
    'partners', 'assets', 'holds', 'subjects', 'signers', 'effects', 'effect_history', 'effect_answers', 'effect_evidence', 'effect_variants',
    'operators', 'cases', 'case_notes', 'proposals', 'returns', 'audit_log', 'audit_head', 'idempotency_keys', 'addresses', 'withdrawals',
    'day_totals', 'chain_transfers', 'deposits', 'scan_cursors', 'scanned_blocks', 'events', 'endpoints', 'deliveries', 'inbox'] loop
    execute format(
      'create trigger %I before truncate on payonce.%I for each statement execute function payonce.refuse_change()', kept || '_no_truncate', kept);
  end loop;
end $$;
