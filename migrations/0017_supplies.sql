-- 0017 supplies: what waiting effects need before they can be sealed.
-- Why: a gas top-up or an energy rental is a paid act of its own, after the claim and before the payment's seal (R16).
-- Locks: none on existing data. Duration: milliseconds.

-- One row per effect that ever lacked something; `lane` is that of the paid act which supplies it, so that its settlement finds
-- who waits for it. `first_at`: since when, on the database's clock.
create table payonce.needs (
  effect_id bigint primary key references payonce.effects (id),
  kind text not null check (kind in ('gas', 'energy')),
  lane text not null,
  units numeric(78,0) not null check (units >= 0),
  first_at timestamptz not null default payonce.now(),
  last_at timestamptz not null default payonce.now()
);
create index needs_lane on payonce.needs (lane);

-- What was bought for them: the subjects of top-ups and rentals. `lane`: of whom it is (an address' gas, an effect's energy);
-- its supplies are counted, and the next one is bought only when the last has ended and is not there any more.
create table payonce.supplies (
  id text primary key,
  subject_type text not null check (subject_type in ('topup', 'energy')),
  lane text not null,
  ordinal int not null check (ordinal >= 1),
  chain text not null,
  address text not null,
  -- energy: the effect that waits for it
  for_effect bigint references payonce.effects (id),
  -- coin, or energy
  units numeric(78,0) not null check (units > 0),
  duration_ms bigint check (duration_ms > 0),
  made_at timestamptz not null default payonce.now(),
  constraint supplies_once unique (lane, ordinal),
  constraint supplies_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  check ((subject_type = 'energy') = (for_effect is not null)),
  check ((subject_type = 'energy') = (duration_ms is not null))
);
create trigger supplies_append_only before update or delete on payonce.supplies
  for each row execute function payonce.refuse_change();
create trigger supplies_no_truncate before truncate on payonce.supplies
  for each statement execute function payonce.refuse_change();

-- How long the coin of a wallet that pays for gas, bandwidth or energy lasts, as it was last found (R7). For people: gauges, the
-- doctor. No decision is made by it.
create table payonce.wallet_levels (
  chain text not null,
  address text not null,
  asset_id text not null references payonce.assets (id),
  units numeric(78,0) not null,
  warn_below numeric(78,0) not null check (warn_below >= 0),
  -- what it burned in how long, of the last day; and so how long it lasts, null where it burns nothing
  burned numeric(78,0) not null check (burned >= 0),
  burned_ms bigint not null check (burned_ms > 0),
  seconds_left bigint check (seconds_left >= 0),
  is_short boolean not null,
  source text not null check (source in ('chain', 'books')),
  checked_at timestamptz not null default payonce.now(),
  primary key (chain, address, asset_id)
);

-- L5: a rental's effect says what it may cost at most; its posting says what the market took, from the account there to gas.
alter view payonce.broken_l5 rename to l5_of_fixed_amounts;
create view payonce.broken_l5 (subject, detail) as
select o.subject, o.detail
from payonce.l5_of_fixed_amounts o
where o.subject not like 'posting ENERGY:_%'
union all
select 'posting ' || p.idem_key, case
         when e.id is null then 'belongs to no effect of this rental'
         else 'does not book a price from ' || e.wallet || ' to gas in ' || e.asset_id
       end
from payonce.postings p
left join payonce.effects e on e.id = p.effect_id and e.subject_type = 'energy' and p.idem_key = 'ENERGY:' || e.subject_id
left join payonce.assets s on s.id = e.asset_id
left join lateral (
  select count(*) as entries,
         bool_and(l.asset_id = e.asset_id and (a.code = 'custody:' || s.chain || ':' || e.wallet and l.amount > 0 or a.code = 'gas' and l.amount < 0)) as is_meant
  from payonce.ledger_entries l
  join payonce.accounts a on a.id = l.account_id
  where l.posting_id = p.id) b on true
where p.idem_key like 'ENERGY:%'
  and (e.id is null or b.entries <> 2 or not coalesce(b.is_meant, false));
