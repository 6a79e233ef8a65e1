-- 0024 payouts: programmes, creators, what they accrue, the pools that it adds up to, and what is paid out of them.
-- Why: P1-P9, A7, design §7. Locks: effects (an index of what is PENDING), the invariants' views, for a moment. Duration: milliseconds.

-- What a partner pays its creators, as data. The reward is a function of a creator's running volume: each tier's rate counts for the
-- part of the volume that lies in it. Rates are in 10^-12 of a whole unit of the asset for a whole unit of volume.
create table payonce.programmes (
  id text primary key,
  number int generated always as identity unique,
  partner_id text not null references payonce.partners (id),
  name text not null check (name ~ '^[A-Za-z0-9._-]{1,80}$'),
  asset_id text not null references payonce.assets (id),
  volume_decimals int not null check (volume_decimals between 0 and 36),
  -- exact reward = volume × rate × reward_multiple / reward_divisor, in units of the asset
  reward_multiple numeric(78,0) not null check (reward_multiple >= 1),
  reward_divisor numeric(78,0) not null check (reward_divisor >= 1),
  -- tiers by where they begin and by how much the rate changes there
  tier_from numeric[] not null,
  tier_step numeric[] not null,
  cap numeric(78,0) check (cap > 0),
  -- volume that is in no payout: as much of it makes one
  threshold numeric(78,0) not null check (threshold > 0),
  -- the daily cut pays what is at least this; null: there is none
  cut_min numeric(78,0) check (cut_min > 0),
  time_zone text not null,
  pays_by text not null check (pays_by in ('transfer', 'call', 'multi_send')),
  call jsonb,
  -- output, in its smallest unit, for a whole unit of the asset; the least that a call accepts is this less the slippage
  quote numeric(78,0) check (quote > 0),
  slippage_bp int not null default 0 check (slippage_bp between 0 and 10000),
  paused_at timestamptz,
  -- since when a payout waits for the partner's money
  unfunded_at timestamptz,
  terms_version int not null default 1,
  created_at timestamptz not null default payonce.now(),
  subject_type text not null default 'programme' check (subject_type = 'programme'),
  constraint programmes_name unique (partner_id, name),
  constraint programmes_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  constraint programmes_tiers check (cardinality(tier_from) >= 1 and cardinality(tier_from) = cardinality(tier_step) and tier_from[1] = 0),
  constraint programmes_call check ((pays_by = 'call') <= (call is not null))
);
create trigger programmes_frozen
  before update of id, partner_id, name, asset_id, volume_decimals, reward_multiple, reward_divisor, created_at on payonce.programmes
  for each row execute function payonce.refuse_change();

-- Which terms stood when: a creator asks, and an accrual is judged by those of its moment.
create table payonce.programme_terms (
  programme_id text not null references payonce.programmes (id), version int not null, terms jsonb not null, at timestamptz not null default payonce.now(),
  primary key (programme_id, version)
);
create function payonce.programmes_keep_terms() returns trigger language plpgsql as $$ begin
  insert into payonce.programme_terms (programme_id, version, terms) values (new.id, new.terms_version, to_jsonb(new));
  return null;
end $$;
create trigger programmes_keep_terms after insert or update of terms_version on payonce.programmes
  for each row execute function payonce.programmes_keep_terms();

-- The exact reward for a running volume, before multiple and divisor.
create function payonce.reward_of(volume numeric, tier_from numeric[], tier_step numeric[]) returns numeric
language sql immutable as $$
  select coalesce(sum(greatest(volume - t.begins, 0) * t.step), 0) from unnest(tier_from, tier_step) as t (begins, step)
$$;

-- Creators by the partner's own name of them. One without an address accrues, and waits.
create table payonce.creators (
  id text primary key, partner_id text not null references payonce.partners (id),
  external_id text not null check (char_length(external_id) between 1 and 128), created_at timestamptz not null default payonce.now(),
  constraint creators_external unique (partner_id, external_id)
);
-- The last one of a chain counts, for the next payout: what is in one keeps the address that it was made with.
create table payonce.creator_addresses (
  id bigint generated always as identity primary key, creator_id text not null references payonce.creators (id), chain text not null,
  address text not null, set_at timestamptz not null default payonce.now()
);
create index creator_addresses_last on payonce.creator_addresses (creator_id, chain, id desc);

-- A creator's running sums in a programme: the one row that an accrual, a payout and its end lock. Nothing ever scans accruals.
create table payonce.pools (
  id bigint generated always as identity primary key,
  programme_id text not null references payonce.programmes (id),
  creator_id text not null references payonce.creators (id),
  reward_divisor numeric(78,0) not null check (reward_divisor >= 1),
  -- the last accrual's place; places up to cut_seq were in a payout once
  seq bigint not null default 0,
  cut_seq bigint not null default 0,
  -- places that were in a payout which moved nothing: in none now
  free int8multirange not null default '{}',
  volume numeric(78,0) not null default 0 check (volume >= 0),
  volume_taken numeric(78,0) not null default 0,
  -- exact: divided by reward_divisor it is units, and what does not divide is carried
  reward numeric(78,0) not null default 0 check (reward >= 0),
  in_flight numeric(78,0) not null default 0,
  paid numeric(78,0) not null default 0,
  -- paid again after its volume had gone to another payout: two persons' work, and never accrued twice
  surplus numeric(78,0) not null default 0 check (surplus >= 0),
  payouts int not null default 0,
  -- in a row that moved nothing
  failures int not null default 0,
  payable numeric(78,0) generated always as (div(reward, reward_divisor) - in_flight - paid) stored,
  -- due, and not made: why, and when it is tried again
  due_since timestamptz,
  wait_reason text,
  next_at timestamptz,
  constraint pools_once unique (programme_id, creator_id),
  constraint pools_places check (0 <= cut_seq and cut_seq <= seq),
  -- P1: accrued = paid + in flight + carried, and nothing below
  constraint pools_carried check (in_flight >= 0 and paid >= 0 and div(reward, reward_divisor) + surplus >= in_flight + paid),
  constraint pools_volume check (volume_taken between 0 and volume),
  constraint pools_waiting check ((due_since is null) = (wait_reason is null) and (due_since is null) = (next_at is null))
) with (fillfactor = 60);
-- The cut reads what is due, and nothing else.
create index pools_payable on payonce.pools (programme_id, payable, id) where payable > 0;
create index pools_due on payonce.pools (next_at, id) where due_since is not null;
create index pools_creator on payonce.pools (creator_id);
create trigger pools_frozen before update of id, programme_id, creator_id, reward_divisor on payonce.pools
  for each row execute function payonce.refuse_change();

-- One row for each event of volume, once per programme and source id, for ever. Narrow: there are very many.
create table payonce.accruals (
  programme int not null,
  source_id text collate "C" not null check (char_length(source_id) between 1 and 128),
  pool_id bigint not null,
  seq bigint not null,
  volume numeric(78,0) not null constraint accruals_volume check (volume > 0),
  digest bytea not null,
  occurred_at timestamptz not null,
  at timestamptz not null default payonce.now(),
  constraint accruals_once primary key (programme, source_id),
  constraint accruals_place unique (pool_id, seq)
);
-- In place of foreign keys, which would be checked row by row: each belongs to a pool of its programme, after all before it.
create function payonce.accruals_whole() returns trigger
language plpgsql
set enable_seqscan = off
as $$
declare
  bad record;
begin
  select g.pool_id into bad
  from (select pool_id, min(seq) as first, min(programme) as lowest, max(programme) as highest from added group by pool_id) g
  left join payonce.pools p on p.id = g.pool_id
  left join payonce.programmes o on o.id = p.programme_id
  where o.number is distinct from g.lowest or g.lowest <> g.highest or g.first <= p.cut_seq
  limit 1;
  if found then
    raise exception 'accruals of pool % are of another programme, or late', bad.pool_id using errcode = 'P0Y01', constraint = 'accruals_whole';
  end if;
  return null;
end $$;
create trigger accruals_whole after insert on payonce.accruals
  referencing new table as added for each statement execute function payonce.accruals_whole();

-- The daily cut: once for each programme and business date.
create table payonce.programme_cuts (
  programme_id text not null references payonce.programmes (id), business_date date not null, time_zone text not null,
  begun_at timestamptz not null default payonce.now(), made_at timestamptz,
  primary key (programme_id, business_date)
);
create index programme_cuts_unmade on payonce.programme_cuts (programme_id, business_date) where made_at is null;

-- Several payouts that go in one call. The batch is the subject of the effect; each payout in it has a fate of its own.
create table payonce.payout_batches (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  programme_id text not null references payonce.programmes (id),
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount > 0),
  requested_at timestamptz not null default payonce.now(),
  subject_type text not null default 'payout_batch' check (subject_type = 'payout_batch'),
  constraint payout_batches_subject foreign key (subject_type, id) references payonce.subjects (type, id)
);

-- What was paid, or is to be, for which places of the pool. `taken` is the pool's side of it: what it consumed goes back only where
-- nothing moved. Whether it moved is its effect's state, or, in a batch, its own fate.
create table payonce.payouts (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  programme_id text not null references payonce.programmes (id),
  creator_id text not null references payonce.creators (id),
  pool_id bigint not null references payonce.pools (id),
  ordinal int not null check (ordinal >= 1),
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount > 0),
  volume numeric(78,0) not null check (volume >= 0),
  consumed int8multirange not null,
  destination text not null,
  origin text not null check (origin in ('threshold', 'cut', 'again')),
  cut_date date,
  quote numeric(78,0),
  min_output numeric(78,0),
  batch_id text references payonce.payout_batches (id),
  requested_at timestamptz not null default payonce.now(),
  taken text not null default 'in_flight' check (taken in ('in_flight', 'unknown', 'paid', 'returned')),
  ended_at timestamptz,
  end_detail text,
  subject_type text generated always as (case when batch_id is null then 'payout' end) stored,
  constraint payouts_ordinal unique (pool_id, ordinal),
  constraint payouts_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  constraint payouts_cut check ((origin = 'cut') = (cut_date is not null)),
  constraint payouts_ended check ((taken in ('paid', 'returned')) = (ended_at is not null))
) with (fillfactor = 80);
-- Show 6: one for each creator and date, however often and wherever the cut runs.
create unique index payouts_once_a_date on payonce.payouts (pool_id, cut_date) where cut_date is not null;
create index payouts_batch on payonce.payouts (batch_id) where batch_id is not null;
create index payouts_list on payonce.payouts (partner_id, requested_at desc, id desc);
create trigger payouts_frozen
  before update of id, partner_id, programme_id, creator_id, pool_id, ordinal, asset_id, amount, volume, consumed, destination, origin,
    cut_date, quote, min_output, batch_id, requested_at on payonce.payouts
  for each row execute function payonce.refuse_change();

-- P7: a new payout takes what is free of its pool, all of it and nothing else, under the pool's lock.
create function payonce.payouts_take() returns trigger
language plpgsql
set enable_seqscan = off
as $$
declare
  taken int;
begin
  perform 1 from payonce.pools p where p.id = any (array(select pool_id from added)) order by p.id for no key update;
  update payonce.pools p
  set free = '{}', cut_seq = p.seq, volume_taken = p.volume, in_flight = p.in_flight + a.amount, payouts = a.ordinal,
      due_since = null, wait_reason = null, next_at = null
  from added a
  where p.id = any (array(select pool_id from added))
    and p.id = a.pool_id
    and p.programme_id = a.programme_id
    and p.creator_id = a.creator_id
    and a.ordinal = p.payouts + 1
    and a.taken = 'in_flight'
    and a.consumed = p.free + int8multirange(int8range(p.cut_seq, p.seq, '(]'))
    and a.volume = p.volume - p.volume_taken
    and a.amount <= p.payable;
  get diagnostics taken = row_count;
  if taken <> (select count(*) from added) then
    raise exception 'a payout takes what is free of its pool, once' using errcode = 'P0Y02', constraint = 'payouts_take';
  end if;
  return null;
end $$;
create trigger payouts_take after insert on payonce.payouts
  referencing new table as added for each statement execute function payonce.payouts_take();

-- What it consumed is paid only with its effect settled, and goes back only with nothing of it live.
create function payonce.payouts_guard() returns trigger
language plpgsql as $$
declare
  of_type text := case when new.batch_id is null then 'payout' else 'payout_batch' end;
  of_id text := coalesce(new.batch_id, new.id);
  is_open boolean;
  is_settled boolean;
begin
  if new.taken = old.taken then return new; end if;
  if not ((old.taken, new.taken) in (('in_flight', 'paid'), ('in_flight', 'returned'), ('in_flight', 'unknown'), ('unknown', 'paid'), ('unknown', 'returned'),
      ('returned', 'in_flight'))) then
    raise exception 'payout % cannot go from % to %', new.id, old.taken, new.taken using errcode = 'P0Y03', constraint = 'payouts_edge';
  end if;
  select coalesce(bool_or(e.state in ('PENDING', 'SEALED')), false), coalesce(bool_or(e.state = 'SETTLED'), false) into is_open, is_settled
  from payonce.effects e where e.subject_type = of_type and e.subject_id = of_id;
  if new.taken = 'returned' and (is_open or is_settled and new.batch_id is null) then
    raise exception 'payout % is live: what it consumed stays with it', new.id using errcode = 'P0Y04', constraint = 'payouts_returned';
  end if;
  if new.taken in ('paid', 'unknown') and not is_settled or new.taken = 'in_flight' and not is_open then
    raise exception 'payout % did not move', new.id using errcode = 'P0Y05', constraint = 'payouts_paid';
  end if;
  return new;
end $$;
create trigger payouts_guard before update of taken on payonce.payouts
  for each row execute function payonce.payouts_guard();

-- Re-opened after its volume went to another payout: the pool owes it twice, which is a surplus and no second accrual.
create function payonce.payouts_move() returns trigger
language plpgsql
set enable_seqscan = off
as $$
begin
  perform 1 from payonce.pools p
  where p.id = any (array(select n.pool_id from after_rows n join before_rows o on o.id = n.id where o.taken <> n.taken))
  order by p.id for no key update;
  update payonce.pools p
  set in_flight = p.in_flight + m.in_flight,
      paid = p.paid + m.paid,
      surplus = p.surplus + greatest(0, m.again - greatest(0, p.payable)),
      volume_taken = least(p.volume, p.volume_taken - m.volume),
      free = p.free + m.back - m.again_places,
      failures = case when m.paid > 0 then 0 else p.failures end
  from (
    select n.pool_id,
           sum(case when n.taken in ('paid', 'returned') then -n.amount when o.taken = 'returned' then n.amount else 0 end) as in_flight,
           sum(case when n.taken = 'paid' then n.amount else 0 end) as paid,
           sum(case when o.taken = 'returned' then n.amount else 0 end) as again,
           sum(case when n.taken = 'returned' then n.volume when o.taken = 'returned' then -n.volume else 0 end) as volume,
           coalesce(range_agg(n.consumed) filter (where n.taken = 'returned'), '{}') as back,
           coalesce(range_agg(n.consumed) filter (where o.taken = 'returned'), '{}') as again_places
    from after_rows n
    join before_rows o on o.id = n.id
    where o.taken <> n.taken
    group by n.pool_id) m
  where p.id = any (array(select pool_id from after_rows))
    and p.id = m.pool_id;
  return null;
end $$;
create trigger payouts_move after update on payonce.payouts
  referencing old table as before_rows new table as after_rows for each statement execute function payonce.payouts_move();

-- No status column: the last try, its case and the subject's end are the one truth; in a batch the fate comes first.
create view payonce.payout_states as
select y.id,
       e.id as effect_id,
       case
         when y.taken = 'paid' then 'confirmed'
         when y.taken = 'unknown' or c.open_case then 'in_review'
         when e.state = 'SETTLED' then 'failed'
         when s.closed_as is not null and e.state = 'RELEASED' then s.closed_as
         when e.state = 'SEALED' and e.included_at is not null then 'sent'
         when e.state = 'PENDING' and e.seq = 1 then 'pending'
         else 'processing'
       end as status
from payonce.payouts y
join payonce.subjects s on s.type = case when y.batch_id is null then 'payout' else 'payout_batch' end and s.id = coalesce(y.batch_id, y.id)
join lateral (
  select * from payonce.effects e where e.subject_type = s.type and e.subject_id = s.id order by e.seq desc limit 1) e on true
cross join lateral (
  select e.contradicted_at is not null or exists (
    select 1 from payonce.cases k join payonce.effects x on x.id = k.effect_id
    where x.subject_type = s.type and x.subject_id = s.id and k.closed_at is null) as open_case) c;

-- Nothing of it is deleted or emptied; what happened is not edited either.
do $$
declare
  kept text;
begin
  foreach kept in array array['programmes', 'programme_terms', 'creators', 'creator_addresses', 'pools', 'accruals', 'programme_cuts', 'payout_batches', 'payouts'] loop
    execute format('create trigger %I before delete on payonce.%I for each row execute function payonce.refuse_change()', kept || '_kept', kept);
    execute format('create trigger %I before truncate on payonce.%I for each statement execute function payonce.refuse_change()', kept || '_no_truncate', kept);
  end loop;
  foreach kept in array array['programme_terms', 'creators', 'creator_addresses', 'accruals', 'payout_batches'] loop
    execute format('create trigger %I before update on payonce.%I for each row execute function payonce.refuse_change()', kept || '_append_only', kept);
  end loop;
end $$;

-- Claims take turns between partners (src/engine/store.ts): each one's queue is found by itself.
create index effects_pending_partner on payonce.effects (rail, signer, partner_id, next_at, id) where state = 'PENDING';

-- P1: accrued = paid + in flight + carried (the rows' own checks hold that to the sums); the sums are what they sum up; each event
-- of volume is in one payout at most, and what a payout is to its pool agrees with what became of its effect.
create view payonce.broken_p1 (subject, detail) as
select 'pool ' || p.id, 'has volume ' || p.volume || ' at place ' || p.seq || ', its events ' || a.volume || ' at ' || a.seq
from payonce.pools p
cross join lateral (
  select coalesce(sum(x.volume), 0) as volume, coalesce(max(x.seq), 0) as seq from payonce.accruals x where x.pool_id = p.id) a
where p.volume <> a.volume or p.seq <> a.seq
union all
select 'pool ' || p.id, 'has ' || p.in_flight || ' in flight, ' || p.paid || ' paid and ' || p.volume_taken || ' of volume in payouts; its payouts ' ||
       y.in_flight || ', ' || y.paid || ' and ' || y.volume
from payonce.pools p
cross join lateral (
  select coalesce(sum(x.amount) filter (where x.taken in ('in_flight', 'unknown')), 0) as in_flight,
         coalesce(sum(x.amount) filter (where x.taken = 'paid'), 0) as paid,
         coalesce(sum(x.volume) filter (where x.taken <> 'returned'), 0) as volume,
         count(*) as made
  from payonce.payouts x where x.pool_id = p.id) y
where p.in_flight <> y.in_flight or p.paid <> y.paid or p.payouts <> y.made or p.volume_taken <> y.volume and p.surplus = 0
union all
select 'pool ' || p.id, 'counts places twice, or not at all: up to ' || p.cut_seq || ', free ' || p.free::text
from payonce.pools p
cross join lateral (
  select coalesce(range_agg(r), '{}') as places, coalesce(sum(upper(r) - lower(r)), 0) as many
  from (select unnest(x.consumed) as r from payonce.payouts x where x.pool_id = p.id and x.taken <> 'returned' union all select unnest(p.free)) u) y
where p.surplus = 0
  and (y.many <> p.cut_seq or y.places <> int8multirange(int8range(0, p.cut_seq, '(]')))
union all
select 'payout ' || y.id, 'consumed ' || y.volume || ', the events of its places are ' || a.volume
from payonce.payouts y
cross join lateral (
  select coalesce(sum(x.volume), 0) as volume
  from unnest(y.consumed) r join payonce.accruals x on x.pool_id = y.pool_id and x.seq >= lower(r) and x.seq < upper(r)) a
where y.volume <> a.volume
union all
select 'payout ' || y.id, 'is ' || y.taken || ' and its effect ' || coalesce(e.state, 'missing')
from payonce.payouts y
join payonce.subjects s on s.type = case when y.batch_id is null then 'payout' else 'payout_batch' end and s.id = coalesce(y.batch_id, y.id)
left join lateral (
  select x.state from payonce.effects x where x.subject_type = s.type and x.subject_id = s.id order by x.seq desc limit 1) e on true
where not case y.taken
  when 'paid' then e.state = 'SETTLED'
  when 'unknown' then y.batch_id is not null and e.state = 'SETTLED'
  when 'returned' then s.closed_at is not null and e.state = 'RELEASED' or y.batch_id is not null and e.state = 'SETTLED'
  else s.closed_at is null and e.state <> 'SETTLED' or e.state = 'SEALED'
end;

alter view payonce.broken_e3 rename to e3_without_payouts;
create view payonce.broken_e3 (subject, detail) as
select subject, detail from payonce.e3_without_payouts
union all
select 'effect ' || e.id, e.state || ' with ' || b.booked || ' confirmations and ' || b.overpaid || ' OVERPAID'
from payonce.effects e
cross join lateral (
  select count(*) filter (where p.idem_key in ('PAY_CONFIRM:' || e.subject_id, 'PYB_CONFIRM:' || e.subject_id)) as booked,
         count(*) filter (where p.idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings p where p.effect_id = e.id) b
where e.subject_type in ('payout', 'payout_batch')
  and (b.booked + b.overpaid <> (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null)::int
       or b.booked > 0 and e.state <> 'SETTLED');

-- L5: of a payout, its amount from its partner to the wallet's custody; of a batch, what its payouts took, and what of it went.
alter view payonce.broken_l5 rename to l5_without_payouts;
create view payonce.broken_l5 (subject, detail) as
with booked as (
  select coalesce(y.batch_id, split_part(p.idem_key, ':', 2)) as id, min(p.idem_key) as idem_key, min(l.asset_id) as asset_id, count(distinct l.asset_id) as assets,
         min(a.partner_id) as partner_id, coalesce(sum(l.amount) filter (where a.partner_id is not null), 0) as partner,
         coalesce(sum(l.amount) filter (where a.code like 'custody:%'), 0) as custody
  from payonce.postings p
  join payonce.ledger_entries l on l.posting_id = p.id
  join payonce.accounts a on a.id = l.account_id
  left join payonce.payouts y on p.idem_key = 'PYB_LINE:' || y.id
  where p.idem_key ~ '^(PAY_CONFIRM|PYB_CONFIRM|PYB_LINE):'
  group by 1
),
owed as (
  select coalesce(y.batch_id, y.id) as id, min(y.partner_id) as partner_id, min(y.asset_id) as asset_id,
         coalesce(sum(y.amount) filter (where y.taken in ('paid', 'unknown')), 0) as took, coalesce(sum(y.amount) filter (where y.taken = 'paid'), 0) as went
  from payonce.payouts y group by 1
)
select subject, detail from payonce.l5_without_payouts where subject not like 'posting PAY_CONFIRM:_%' and subject not like 'posting PYB_CONFIRM:_%' and subject not like 'posting PYB_LINE:_%'
union all
select 'posting ' || b.idem_key, 'books ' || b.partner || ' for ' || coalesce(b.partner_id, 'nobody') || ', not ' || -coalesce(o.took, 0) || ' for ' || coalesce(o.partner_id, 'nobody')
from booked b
left join owed o on o.id = b.id
where (b.assets, b.asset_id, b.partner_id, b.partner, b.custody) is distinct from (1::bigint, o.asset_id, o.partner_id, -o.took, o.went);

alter view payonce.broken_l6 rename to l6_without_payouts;
create view payonce.broken_l6 (subject, detail) as
select subject, detail from payonce.l6_without_payouts
union all
select 'effect ' || e.id, 'pays ' || o.amount || ' to creators and holds ' || coalesce(h.amount::text, 'nothing')
from payonce.effects e
join lateral (select sum(y.amount) as amount from payonce.payouts y where coalesce(y.batch_id, y.id) = e.subject_id) o on true
left join payonce.holds h on h.key = e.hold_key
where e.subject_type in ('payout', 'payout_batch')
  and (o.amount, e.amount) is distinct from (h.amount, h.amount);

alter view payonce.broken_n1 rename to n1_without_payouts;
create view payonce.broken_n1 (subject, detail) as
select subject, detail from payonce.n1_without_payouts
union all
select 'payout ' || e.subject_id, 'is settled and no event says so'
from payonce.effects e
where e.subject_type in ('payout', 'payout_batch')
  and e.state = 'SETTLED'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type in ('payout.confirmed', 'payout_batch.finished'));
