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
