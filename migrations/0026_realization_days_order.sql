-- Days of fees lie end to end in the order of the ledger. That is the order of dates too, unless the database's clock was ahead
-- once: a date that was cut off before its time must not keep the days up to it from being cut.
create or replace function payonce.realization_days_guard() returns trigger
language plpgsql as $$
declare
  last record;
begin
  select d.to_seq into last
  from payonce.realization_days d where d.asset_id = new.asset_id order by d.to_seq desc, d.business_date desc limit 1;
  if new.after_seq <> coalesce(last.to_seq, 0) then
    raise exception 'day % of % does not begin where the day before ended', new.business_date, new.asset_id
      using errcode = 'P0D01', constraint = 'realization_days_end_to_end';
  end if;
  return new;
end $$;
