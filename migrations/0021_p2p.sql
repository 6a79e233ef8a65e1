-- 0021 p2p: buyers' deposit orders, sellers' withdraw orders, the legs between them, and trades at liquidity providers.
-- Why: M1-M22, W4, design §7. Locks: the views below, for a moment. Duration: milliseconds.

-- Who may be matched with whom: a match stays inside a group, and a partner belongs to one at most.
create table payonce.p2p_groups (
  name text primary key check (name ~ '^[a-z0-9_-]{1,40}$')
);
create table payonce.p2p_members (
  partner_id text primary key references payonce.partners (id),
  group_name text not null references payonce.p2p_groups (name),
  -- M22: this partner's orders stay PENDING meanwhile.
  matching_off_at timestamptz
);
create index p2p_members_group on payonce.p2p_members (group_name);
create trigger p2p_members_no_truncate before truncate on payonce.p2p_members
  for each statement execute function payonce.refuse_change();

-- What is traded in a group, and within which bounds. Written at each start from the configuration.
create table payonce.p2p_markets (
  group_name text not null references payonce.p2p_groups (name),
  asset_id text not null references payonce.assets (id),
  fiat text not null check (fiat ~ '^[A-Z]{3}$'),
  fiat_decimals int not null check (fiat_decimals between 0 and 4),
  order_min numeric(78,0) not null check (order_min > 0),
  order_max numeric(78,0) not null,
  leg_min numeric(78,0) not null check (leg_min > 0),
  fee_bp int not null check (fee_bp between 0 and 10000),
  pay_within_ms bigint not null check (pay_within_ms > 0),
  order_for_ms bigint not null check (order_for_ms > 0),
  stopped_at timestamptz,
  primary key (group_name, asset_id, fiat),
  check (order_max >= order_min),
  check (leg_min <= order_min)
);

-- Liquidity providers, the lowest priority first; a partner's own route goes before the group's of the same priority.
create table payonce.p2p_routes (
  id bigint generated always as identity primary key,
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  partner_id text not null default '*',
  rail text not null references payonce.rails (name),
  account text not null,
  priority int not null,
  min numeric(78,0) not null check (min > 0),
  max numeric(78,0) not null,
  is_enabled boolean not null default true,
  foreign key (group_name, asset_id, fiat) references payonce.p2p_markets (group_name, asset_id, fiat),
  constraint p2p_routes_once unique (group_name, asset_id, fiat, partner_id, rail),
  check (max >= min)
);

-- Edges of the two orders and of the legs, as src/flows/p2p/edges.ts has them; a test compares.
create table payonce.p2p_edges (
  of text not null check (of in ('deposit_order', 'withdraw_order', 'leg')),
  from_state text not null,
  to_state text not null,
  primary key (of, from_state, to_state)
);
insert into payonce.p2p_edges (of, from_state, to_state) values
  ('deposit_order', 'PENDING', 'MATCHING'), ('deposit_order', 'PENDING', 'CANCELLED'), ('deposit_order', 'PENDING', 'EXPIRED'),
  ('deposit_order', 'PENDING', 'PARTIALLY_SETTLED'),
  ('deposit_order', 'MATCHING', 'PENDING'), ('deposit_order', 'MATCHING', 'MATCHED'), ('deposit_order', 'MATCHING', 'CANCELLED'),
  ('deposit_order', 'MATCHING', 'EXPIRED'), ('deposit_order', 'MATCHING', 'PARTIALLY_SETTLED'), ('deposit_order', 'MATCHING', 'COMPLETED'),
  ('deposit_order', 'MATCHED', 'COMPLETED'), ('deposit_order', 'MATCHED', 'PARTIALLY_SETTLED'), ('deposit_order', 'MATCHED', 'EXPIRED'),
  ('deposit_order', 'MATCHED', 'CANCELLED'),
  -- a payment that came after the close and whose amount was still there
  ('deposit_order', 'EXPIRED', 'PARTIALLY_SETTLED'), ('deposit_order', 'EXPIRED', 'COMPLETED'),
  ('deposit_order', 'CANCELLED', 'PARTIALLY_SETTLED'), ('deposit_order', 'CANCELLED', 'COMPLETED'),
  ('deposit_order', 'PARTIALLY_SETTLED', 'COMPLETED'),
  ('withdraw_order', 'OPEN', 'CLOSING'), ('withdraw_order', 'OPEN', 'COMPLETED'), ('withdraw_order', 'OPEN', 'PARTIALLY_SETTLED'),
  ('withdraw_order', 'OPEN', 'EXPIRED'), ('withdraw_order', 'OPEN', 'CANCELLED'),
  ('withdraw_order', 'CLOSING', 'COMPLETED'), ('withdraw_order', 'CLOSING', 'PARTIALLY_SETTLED'), ('withdraw_order', 'CLOSING', 'EXPIRED'),
  ('withdraw_order', 'CLOSING', 'CANCELLED'),
  ('leg', 'OPEN', 'SETTLED'), ('leg', 'OPEN', 'EXPIRED'), ('leg', 'OPEN', 'VOID'), ('leg', 'VOID', 'OPEN'), ('leg', 'VOID', 'SURPLUS'),
  ('leg', 'EXPIRED', 'SETTLED'), ('leg', 'VOID', 'SETTLED');
create trigger p2p_edges_append_only before insert or update or delete or truncate on payonce.p2p_edges
  for each statement execute function payonce.refuse_change();

create function payonce.p2p_guard() returns trigger
language plpgsql as $$
declare
  was text := to_jsonb(old) ->> tg_argv[1];
  is_now text := to_jsonb(new) ->> tg_argv[1];
begin
  if was = is_now or exists (
    select 1 from payonce.p2p_edges e where e.of = tg_argv[0] and e.from_state = was and e.to_state = is_now) then
    return new;
  end if;
  raise exception '% % cannot go from % to %', tg_argv[0], old.id, was, is_now using errcode = 'P0P01', constraint = 'p2p_edges';
end $$;

-- Buyers: pay fiat, get the asset. The status is the queue (M2): PENDING waits for a matcher, MATCHING is claimed by the one whose
-- token it is; `waits_lp`: its legs are written and a trade is being opened, so no timer takes it back (M18).
create table payonce.p2p_deposit_orders (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  external_id text,
  user_ref text not null check (char_length(user_ref) between 1 and 200),
  amount numeric(78,0) not null check (amount > 0),
  -- fiat per whole unit of the asset, in 10^-12, at most
  price numeric(78,0) not null check (price > 0),
  takes_part boolean not null,
  leg_min numeric(78,0) not null check (leg_min > 0),
  fee_bp int not null check (fee_bp between 0 and 10000),
  fiat_decimals int not null,
  pay_within_ms bigint not null check (pay_within_ms > 0),
  created_at timestamptz not null default payonce.now(),
  expires_at timestamptz not null,
  status text not null default 'PENDING'
    check (status in ('PENDING', 'MATCHING', 'MATCHED', 'COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')),
  -- in no leg that is open or settled: what it did not get, once it is closed (M5)
  remaining_amount numeric(78,0) not null,
  claim_token bigint not null default 0,
  claimed_at timestamptz,
  waits_lp boolean not null default false,
  match_attempt_count int not null default 0 check (match_attempt_count >= 0),
  next_at timestamptz not null default payonce.now(),
  wait_reason text,
  matched_at timestamptz,
  closed_at timestamptz,
  close_reason text,
  subject_type text not null default 'deposit_order' check (subject_type = 'deposit_order'),
  constraint p2p_deposit_orders_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  constraint p2p_deposit_orders_market foreign key (group_name, asset_id, fiat) references payonce.p2p_markets (group_name, asset_id, fiat),
  constraint p2p_deposit_orders_remaining check (remaining_amount >= 0 and remaining_amount <= amount),
  constraint p2p_deposit_orders_claimed check ((status = 'MATCHING') = (claimed_at is not null)),
  constraint p2p_deposit_orders_waiting check (not waits_lp or status = 'MATCHING'),
  constraint p2p_deposit_orders_closed check (
    (status in ('COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')) = (closed_at is not null)
    and (closed_at is null) = (close_reason is null)),
  constraint p2p_deposit_orders_complete check (status <> 'COMPLETED' or remaining_amount = 0),
  check (expires_at > created_at)
) with (fillfactor = 70);
-- The queue: what is due, the oldest first; closed orders are not in it.
create index p2p_deposit_orders_pending on payonce.p2p_deposit_orders (next_at, id) where status = 'PENDING';
create index p2p_deposit_orders_claimed on payonce.p2p_deposit_orders (claimed_at, id) where status = 'MATCHING';
create index p2p_deposit_orders_expiring on payonce.p2p_deposit_orders (expires_at, id) where status = 'PENDING';
create index p2p_deposit_orders_status on payonce.p2p_deposit_orders (status, created_at);
create unique index p2p_deposit_orders_external on payonce.p2p_deposit_orders (partner_id, external_id) where external_id is not null;
create index p2p_deposit_orders_list on payonce.p2p_deposit_orders (partner_id, created_at desc, id desc);
create trigger p2p_deposit_orders_guard before update of status on payonce.p2p_deposit_orders
  for each row execute function payonce.p2p_guard('deposit_order', 'status');
create trigger p2p_deposit_orders_frozen
  before update of partner_id, group_name, asset_id, fiat, amount, price, user_ref, external_id, created_at, takes_part, leg_min, fee_bp on payonce.p2p_deposit_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_deposit_orders_kept before delete on payonce.p2p_deposit_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_deposit_orders_no_truncate before truncate on payonce.p2p_deposit_orders
  for each statement execute function payonce.refuse_change();

-- Sellers: their asset is set aside (account p2p:{partner}), they get fiat. May be filled by several buyers, never beyond its amount.
create table payonce.p2p_withdraw_orders (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  external_id text,
  user_ref text not null check (char_length(user_ref) between 1 and 200),
  amount numeric(78,0) not null check (amount > 0),
  -- fiat per whole unit of the asset, in 10^-12, at least
  price numeric(78,0) not null check (price > 0),
  leg_min numeric(78,0) not null check (leg_min > 0),
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  created_at timestamptz not null default payonce.now(),
  expires_at timestamptz not null,
  status text not null default 'OPEN' check (status in ('OPEN', 'CLOSING', 'COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')),
  reserved numeric(78,0) not null default 0 check (reserved >= 0),
  settled numeric(78,0) not null default 0 check (settled >= 0),
  -- given back to the partner so far, in how many postings
  given_back numeric(78,0) not null default 0 check (given_back >= 0),
  backs int not null default 0,
  closing_as text check (closing_as in ('EXPIRED', 'CANCELLED')),
  closed_at timestamptz,
  close_reason text,
  subject_type text not null default 'withdraw_order' check (subject_type = 'withdraw_order'),
  constraint p2p_withdraw_orders_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  constraint p2p_withdraw_orders_market foreign key (group_name, asset_id, fiat) references payonce.p2p_markets (group_name, asset_id, fiat),
  -- M8: never beyond its amount, whoever reserves
  constraint p2p_withdraw_orders_remaining check (reserved + settled + given_back <= amount),
  constraint p2p_withdraw_orders_closed check (
    (status in ('COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED')) = (closed_at is not null)
    and (closed_at is null) = (close_reason is null)
    and (closed_at is null or reserved = 0 and settled + given_back = amount)),
  check ((status = 'CLOSING') <= (closing_as is not null)),
  check (expires_at > created_at)
) with (fillfactor = 70);
-- Candidates: the cheapest first, then the oldest.
create index p2p_withdraw_orders_open on payonce.p2p_withdraw_orders (group_name, asset_id, fiat, price, created_at, id)
  where status = 'OPEN' and amount - reserved - settled - given_back > 0;
create index p2p_withdraw_orders_expiring on payonce.p2p_withdraw_orders (expires_at, id) where status = 'OPEN';
create unique index p2p_withdraw_orders_external on payonce.p2p_withdraw_orders (partner_id, external_id) where external_id is not null;
create index p2p_withdraw_orders_list on payonce.p2p_withdraw_orders (partner_id, created_at desc, id desc);
create trigger p2p_withdraw_orders_guard before update of status on payonce.p2p_withdraw_orders
  for each row execute function payonce.p2p_guard('withdraw_order', 'status');
create trigger p2p_withdraw_orders_frozen
  before update of partner_id, group_name, asset_id, fiat, amount, price, user_ref, external_id, created_at, leg_min, bank_code, account_number on payonce.p2p_withdraw_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_withdraw_orders_kept before delete on payonce.p2p_withdraw_orders
  for each row execute function payonce.refuse_change();
create trigger p2p_withdraw_orders_no_truncate before truncate on payonce.p2p_withdraw_orders
  for each statement execute function payonce.refuse_change();

-- A leg fills part of a deposit order, from a seller's order or by a trade at a liquidity provider. The one link to that trade is the
-- effect's subject (M10): its state is the trade's state.
create table payonce.p2p_legs (
  id text primary key,
  deposit_order_id text not null references payonce.p2p_deposit_orders (id),
  ordinal int not null check (ordinal >= 1),
  -- at most three at once (M8): the constraint below
  slot int not null check (slot between 1 and 3),
  kind text not null check (kind in ('SELLER', 'LP')),
  withdraw_order_id text references payonce.p2p_withdraw_orders (id),
  rail text references payonce.rails (name),
  amount numeric(78,0) not null check (amount > 0),
  price numeric(78,0) not null check (price > 0),
  -- in the fiat's smallest unit
  fiat_amount numeric(78,0) not null check (fiat_amount > 0),
  state text not null default 'OPEN' check (state in ('OPEN', 'SETTLED', 'EXPIRED', 'VOID', 'SURPLUS')),
  -- the token under which it was written (M17)
  claim_token bigint not null,
  created_at timestamptz not null default payonce.now(),
  pay_by timestamptz,
  -- somebody says that it was paid, or part of it came: no timer ends it
  paid_marked_at timestamptz,
  disputed_at timestamptz,
  ended_at timestamptz,
  end_reason text,
  fixes int not null default 0,
  constraint p2p_legs_ordinal unique (deposit_order_id, ordinal),
  constraint p2p_legs_of check ((kind = 'SELLER') = (withdraw_order_id is not null) and (kind = 'LP') = (rail is not null)),
  constraint p2p_legs_ended check ((state = 'OPEN') = (ended_at is null))
) with (fillfactor = 70);
create unique index p2p_legs_slot on payonce.p2p_legs (deposit_order_id, slot) where state in ('OPEN', 'SETTLED');
create index p2p_legs_seller on payonce.p2p_legs (withdraw_order_id) where withdraw_order_id is not null;
create index p2p_legs_due on payonce.p2p_legs (pay_by, id) where state = 'OPEN' and kind = 'SELLER' and paid_marked_at is null and disputed_at is null;
create trigger p2p_legs_guard before update of state on payonce.p2p_legs for each row execute function payonce.p2p_guard('leg', 'state');
create trigger p2p_legs_frozen
  before update of deposit_order_id, ordinal, kind, withdraw_order_id, rail, amount, price, fiat_amount, claim_token, created_at on payonce.p2p_legs
  for each row execute function payonce.refuse_change();
create trigger p2p_legs_kept before delete on payonce.p2p_legs for each row execute function payonce.refuse_change();
create trigger p2p_legs_no_truncate before truncate on payonce.p2p_legs for each statement execute function payonce.refuse_change();

-- M17, M3: a leg is written only under the claim that stands, and never after the close.
create function payonce.p2p_legs_fence() returns trigger
language plpgsql as $$
begin
  perform 1 from payonce.p2p_deposit_orders o
  where o.id = new.deposit_order_id and o.status = 'MATCHING' and o.claim_token = new.claim_token and not o.waits_lp
  for key share;
  if not found then
    raise exception 'order % is not claimed under token %', new.deposit_order_id, new.claim_token
      using errcode = 'P0P02', constraint = 'p2p_legs_fence';
  end if;
  return new;
end $$;
create trigger p2p_legs_fence before insert on payonce.p2p_legs for each row execute function payonce.p2p_legs_fence();

-- What is said to have been paid for legs: a bank's notice may be a part, too much, late, or for nobody. Fiat moves between people
-- and is no money of ours, so it stands here and not in the ledger.
create table payonce.p2p_payments (
  id text primary key,
  source text not null,
  external_id text not null,
  leg_id text references payonce.p2p_legs (id),
  reference text not null,
  fiat text not null,
  fiat_amount numeric(78,0) not null check (fiat_amount > 0),
  received_at timestamptz not null default payonce.now(),
  fate text not null check (fate in ('part', 'settled', 'over', 'late', 'unmatched')),
  constraint p2p_payments_once unique (source, external_id)
);
create index p2p_payments_leg on payonce.p2p_payments (leg_id) where leg_id is not null;
create index p2p_payments_unmatched on payonce.p2p_payments (received_at, id) where fate in ('unmatched', 'late', 'over');
create trigger p2p_payments_kept before delete on payonce.p2p_payments for each row execute function payonce.refuse_change();
create trigger p2p_payments_frozen before update of id, source, external_id, fiat, fiat_amount, received_at, reference on payonce.p2p_payments
  for each row execute function payonce.refuse_change();
create trigger p2p_payments_no_truncate before truncate on payonce.p2p_payments for each statement execute function payonce.refuse_change();
