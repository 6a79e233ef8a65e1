-- 0015 realizations: each night the fees that partners paid move from their master wallets to the settlement wallet.
-- Why: R8, R17. Locks: the views below, for a moment. Duration: milliseconds.

-- One row per business date. `made_at`: all that was due is made, nothing waits for a lane any more.
create table payonce.realization_nights (
  business_date date primary key,
  time_zone text not null,
  begun_at timestamptz not null default payonce.now(),
  made_at timestamptz
);
create trigger realization_nights_kept before update or delete on payonce.realization_nights
  for each row execute function payonce.refuse_change_but_mark('made_at');

-- A day is a piece of the fees account's own chain of entries: (after_seq, to_seq]. Pieces lie end to end, so no entry is in
-- two days or in none, however late it was committed.
create table payonce.realization_days (
  asset_id text not null references payonce.assets (id),
  business_date date not null references payonce.realization_nights (business_date),
  after_seq bigint not null,
  to_seq bigint not null check (to_seq >= after_seq),
  primary key (asset_id, business_date)
);
create function payonce.realization_days_guard() returns trigger
language plpgsql as $$
declare
  last record;
begin
  select d.business_date, d.to_seq into last
  from payonce.realization_days d where d.asset_id = new.asset_id order by d.business_date desc limit 1;
  if new.after_seq <> coalesce(last.to_seq, 0) or new.business_date <= last.business_date then
    raise exception 'day % of % does not begin where the day before ended', new.business_date, new.asset_id
      using errcode = 'P0D01', constraint = 'realization_days_end_to_end';
  end if;
  return new;
end $$;
create trigger realization_days_guard before insert on payonce.realization_days
  for each row execute function payonce.realization_days_guard();
create trigger realization_days_append_only before update or delete on payonce.realization_days
  for each row execute function payonce.refuse_change();

-- What a day's entries earned of each partner; below nothing where more was given back. `par_own`: fees that no single partner
-- paid; they move nowhere.
create table payonce.realization_shares (
  asset_id text not null,
  business_date date not null,
  partner_id text not null references payonce.partners (id),
  fees numeric(78,0) not null,
  primary key (partner_id, asset_id, business_date),
  foreign key (asset_id, business_date) references payonce.realization_days (asset_id, business_date)
);
create trigger realization_shares_append_only before update or delete on payonce.realization_shares
  for each row execute function payonce.refuse_change();

-- Ordinal 0 is the night's; a correction is another subject with the next one.
create table payonce.realizations (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  asset_id text not null references payonce.assets (id),
  business_date date not null references payonce.realization_nights (business_date),
  ordinal int not null check (ordinal >= 0),
  fees_through numeric(78,0) not null,
  realized_before numeric(78,0) not null,
  amount numeric(78,0) not null check (amount > 0 and amount = fees_through - realized_before),
  wallet text not null,
  destination text not null,
  created_at timestamptz not null default payonce.now(),
  subject_type text not null default 'realization' check (subject_type = 'realization'),
  constraint realizations_period unique (partner_id, asset_id, business_date, ordinal),
  constraint realizations_subject foreign key (subject_type, id) references payonce.subjects (type, id)
);
create index realizations_date on payonce.realizations (business_date, id);
create trigger realizations_append_only before update or delete on payonce.realizations
  for each row execute function payonce.refuse_change();

-- How often somebody came for a realization that another had claimed: the overlap that the incident was made of.
create table payonce.realization_claims_lost (
  realization_id text primary key references payonce.realizations (id),
  lost bigint not null check (lost > 0)
);

create table payonce.realization_verdicts (
  id bigint generated always as identity primary key,
  business_date date not null references payonce.realization_nights (business_date),
  verdict text not null check (verdict in ('pass', 'fail', 'inconclusive')),
  claims_lost bigint not null,
  detail jsonb not null,
  at timestamptz not null default payonce.now()
);
create index realization_verdicts_date on payonce.realization_verdicts (business_date, id desc);
create trigger realization_verdicts_append_only before update or delete on payonce.realization_verdicts
  for each row execute function payonce.refuse_change();

do $$
declare
  kept text;
begin
  foreach kept in array array[
    'realization_nights', 'realization_days', 'realization_shares', 'realizations', 'realization_claims_lost', 'realization_verdicts'] loop
    execute format(
      'create trigger %I before truncate on payonce.%I for each statement execute function payonce.refuse_change()', kept || '_no_truncate', kept);
  end loop;
end $$;

-- V2: each realization has its effect, and moves what was due from where to where it says.
alter view payonce.broken_v2 rename to v2_without_realizations;
create view payonce.broken_v2 (subject, detail) as
select subject, detail from payonce.v2_without_realizations
union all
select 'realization ' || r.id, coalesce('effect ' || e.id || ' moves something else', 'has no effect')
from payonce.realizations r
left join payonce.effects e on e.subject_type = 'realization' and e.subject_id = r.id and e.seq = 1
where (e.partner_id, e.asset_id, e.amount, e.wallet, e.destination) is distinct from (r.partner_id, r.asset_id, r.amount, r.wallet, r.destination);
