-- 0025 allowances: what a wallet lets a relayer move of a token, given by an effect of its own; and which relayer lacks one.
-- Why: R15; issue 4. Locks: `own_move_kinds`, for a moment. Duration: milliseconds.

-- An allowance moves nothing: its amount is 0, its gas is booked as any other's, and no posting has its own key.
alter table payonce.own_move_kinds disable trigger own_move_kinds_append_only;
insert into payonce.own_move_kinds (subject_type, key_kind, arrives_at) values ('allowance', 'ALLOWANCE', 'gas');
alter table payonce.own_move_kinds enable trigger own_move_kinds_append_only;

create table payonce.allowances (
  id text primary key,
  -- Two persons decided it; a token that changes an allowance from 0 only takes two steps.
  proposal_id text not null,
  step smallint not null check (step in (1, 2)),
  rail text not null,
  wallet text not null,
  relayer text not null check (relayer <> wallet),
  asset_id text not null references payonce.assets (id),
  units numeric(78,0) not null check (units >= 0 and units < 2::numeric ^ 256),
  -- What the next step sets, after this one has set 0.
  then_units numeric(78,0) check (then_units is null or then_units > 0 and units = 0 and step = 1),
  -- Less than stood before: payments of this relayer that are under way would fail in their block.
  lowers boolean not null,
  unique (proposal_id, step)
);
create trigger allowances_append_only before update or delete on payonce.allowances
  for each row execute function payonce.refuse_change();
create trigger allowances_no_truncate before truncate on payonce.allowances
  for each statement execute function payonce.refuse_change();

-- What the last plan saw missing, or what two persons are lowering: others of the pool are chosen meanwhile. Memory of a choice,
-- never a decision about money: an empty table only makes a plan in vain.
create table payonce.relayer_shortages (
  rail text not null,
  wallet text not null,
  relayer text not null,
  asset_id text not null references payonce.assets (id),
  -- After that it is tried again.
  until timestamptz not null,
  -- Nothing is sealed for it until the allowance is lowered.
  held_by text references payonce.allowances (id),
  primary key (rail, wallet, relayer, asset_id)
);
