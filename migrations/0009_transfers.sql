-- 0009 transfers: bank transfers, what came back of them, and the payees it came back from.
-- Why: design §3, §7. Locks: `returns` and the views below, for a moment. Duration: milliseconds.

-- Account and name are texts as the caller wrote them; `holder_name_nfc` is what is compared and sent.
create table payonce.transfers (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  idempotency_key text not null,
  external_id text,
  asset_id text not null references payonce.assets (id),
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) not null check (fee >= 0),
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  holder_name_nfc text not null check (holder_name_nfc is nfc normalized),
  memo text not null,
  -- The transfer that this one pays again, once.
  repays text references payonce.transfers (id),
  requested_at timestamptz not null default payonce.now(),
  day date not null,
  subject_type text not null default 'transfer' check (subject_type = 'transfer'),
  constraint transfers_key unique (partner_id, idempotency_key),
  constraint transfers_subject foreign key (subject_type, id) references payonce.subjects (type, id)
);
create unique index transfers_external_id on payonce.transfers (partner_id, external_id) where external_id is not null;
create unique index transfers_repays on payonce.transfers (repays) where repays is not null;
create index transfers_list on payonce.transfers (partner_id, requested_at desc, id desc);
create trigger transfers_append_only before update or delete on payonce.transfers
  for each row execute function payonce.refuse_change();
create trigger transfers_no_truncate before truncate on payonce.transfers
  for each statement execute function payonce.refuse_change();

alter table payonce.returns add column reason text;
alter table payonce.returns add constraint returns_fee_within check (fee <= amount);

-- What came back is part of what went: of a settled effect, and all of it together never above its amount.
create function payonce.returns_guard() returns trigger
language plpgsql as $$
declare
  went record;
begin
  select e.state, e.amount into went from payonce.effects e where e.id = new.effect_id for no key update;
  if went.state <> 'SETTLED'
     or new.amount + coalesce((select sum(r.amount) from payonce.returns r where r.effect_id = new.effect_id), 0) > went.amount then
    raise exception 'effect % is % with %: this return is no part of it', new.effect_id, went.state, went.amount
      using errcode = 'P0B22', constraint = 'returns_within';
  end if;
  return new;
end $$;
create trigger returns_guard before insert on payonce.returns
  for each row execute function payonce.returns_guard();

-- Payees from whom money came back: shown to the partner who paid them, and never paid again by themselves.
create table payonce.payees_flagged (
  return_id text primary key references payonce.returns (id),
  partner_id text not null references payonce.partners (id),
  bank_code text not null,
  account_number text not null,
  transfer_id text not null references payonce.transfers (id),
  reason text,
  flagged_at timestamptz not null default payonce.now()
);
create index payees_flagged_payee on payonce.payees_flagged (partner_id, bank_code, account_number);
create trigger payees_flagged_append_only before update or delete on payonce.payees_flagged
  for each row execute function payonce.refuse_change();
create trigger payees_flagged_no_truncate before truncate on payonce.payees_flagged
  for each statement execute function payonce.refuse_change();

-- No status column, as with withdrawals. A transfer of which a part came back is `returned` too; the parts are in `returns`.
create view payonce.transfer_states as
select t.id,
       e.id as effect_id,
       case
         when e.state = 'SETTLED' and exists (select 1 from payonce.returns r where r.effect_id = e.id) then 'returned'
         when e.state = 'SETTLED' then 'confirmed'
         when c.open_case then 'in_review'
         when s.closed_as is not null and e.state = 'RELEASED' then s.closed_as
         when e.state = 'PENDING' and e.seq = 1 then 'pending'
         else 'processing'
       end as status
from payonce.transfers t
join payonce.subjects s on s.type = 'transfer' and s.id = t.id
join lateral (
  select * from payonce.effects e where e.subject_type = 'transfer' and e.subject_id = t.id order by e.seq desc limit 1) e on true
cross join lateral (
  select e.contradicted_at is not null or exists (
    select 1 from payonce.cases k join payonce.effects x on x.id = k.effect_id
    where x.subject_type = 'transfer' and x.subject_id = t.id and k.closed_at is null) as open_case) c;

-- The invariants learn of transfers: what they say of every flow stays in the views of 0007 and 0008, under another name.
alter view payonce.broken_e3 rename to e3_of_withdrawals;
create view payonce.broken_e3 (subject, detail) as
select subject, detail from payonce.e3_of_withdrawals
union all
select 'effect ' || e.id, e.state || ' with ' || coalesce(b.booked, 0) || ' confirmations and ' || coalesce(b.overpaid, 0) || ' OVERPAID'
from payonce.effects e
join payonce.transfers t on e.subject_type = 'transfer' and t.id = e.subject_id
left join (
  select effect_id, count(*) filter (where idem_key like 'TRF_CONFIRM:%') as booked, count(*) filter (where idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings
  where effect_id is not null
  group by effect_id) b on b.effect_id = e.id
where coalesce(b.booked, 0) + coalesce(b.overpaid, 0) <> (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null)::int
   or coalesce(b.booked, 0) > 0 and e.state <> 'SETTLED';

alter view payonce.broken_l5 rename to l5_without_transfers;
create view payonce.broken_l5 (subject, detail) as
with lines as (
  select p.id, p.idem_key, p.effect_id, split_part(p.idem_key, ':', 1) as kind, split_part(p.idem_key, ':', 2) as name, min(e.asset_id) as asset_id,
         count(distinct e.asset_id) as assets, min(a.partner_id) as partner_id,
         coalesce(sum(e.amount) filter (where a.partner_id is not null), 0) as partner,
         coalesce(sum(e.amount) filter (where a.code like 'custody:%'), 0) as custody
  from payonce.postings p
  join payonce.ledger_entries e on e.posting_id = p.id
  join payonce.accounts a on a.id = e.account_id
  where p.idem_key like 'TRF_CONFIRM:%' or p.idem_key like 'RETURN:%'
  group by p.id
),
judged as (
  select n.idem_key, case
    when t.id is null then 'names no transfer'
    when e.id is null then 'belongs to no effect of this transfer'
    when n.asset_id <> t.asset_id or n.assets <> 1 then 'books another asset than ' || t.asset_id
    when n.partner_id is distinct from t.partner_id or n.partner <> -(t.amount + t.fee) or n.custody <> t.amount
      then 'books ' || n.partner || ' for ' || coalesce(n.partner_id, 'nobody') || ', not ' || -(t.amount + t.fee) || ' for ' || t.partner_id
  end as fault
  from lines n
  left join payonce.transfers t on t.id = n.name
  left join payonce.effects e on e.id = n.effect_id and e.subject_type = 'transfer' and e.subject_id = t.id
  where n.kind = 'TRF_CONFIRM'
  union all
  select n.idem_key, case
    when n.effect_id is distinct from r.effect_id then 'carries effect ' || coalesce(n.effect_id::text, 'none')
    when n.asset_id <> e.asset_id or n.partner_id is distinct from e.partner_id or n.partner <> r.amount - r.fee or n.custody <> -(r.amount - r.fee)
      then 'gives ' || n.partner || ' back to ' || coalesce(n.partner_id, 'nobody') || ', not ' || r.amount - r.fee || ' to ' || e.partner_id
  end
  from lines n
  join payonce.returns r on r.id = n.name
  join payonce.effects e on e.id = r.effect_id
  where n.kind = 'RETURN'
)
select subject, detail from payonce.l5_without_transfers
union all
select 'posting ' || idem_key, fault from judged where fault is not null;

alter view payonce.broken_l6 rename to l6_of_withdrawals;
create view payonce.broken_l6 (subject, detail) as
select subject, detail from payonce.l6_of_withdrawals
union all
select 'effect ' || e.id, 'pays a transfer and holds ' || coalesce(h.amount::text, 'nothing')
from payonce.effects e
join payonce.transfers t on e.subject_type = 'transfer' and t.id = e.subject_id
left join payonce.holds h on h.key = e.hold_key
where h.amount is distinct from t.amount + t.fee;

alter view payonce.broken_e15 rename to e15_of_withdrawals;
create view payonce.broken_e15 (subject, detail) as
select subject, detail from payonce.e15_of_withdrawals
union all
select 'transfer ' || t.id, 'key ' || t.idempotency_key || ' answers ' || coalesce(k.resource_id, 'nothing')
from payonce.transfers t
left join payonce.idempotency_keys k on k.partner_id = t.partner_id and k.key = t.idempotency_key
where k.resource_id is distinct from t.id
union all
select 'key ' || k.key || ' of ' || k.partner_id, 'names transfer ' || k.resource_id || ', which does not exist'
from payonce.idempotency_keys k
where k.resource_type = 'transfer'
  and not exists (select 1 from payonce.transfers t where t.id = k.resource_id);

-- E17 also says that each return is booked, once: what was kept whole as a fee has nothing to book.
alter view payonce.broken_e17 rename to e17_amounts;
create view payonce.broken_e17 (subject, detail) as
select subject, detail from payonce.e17_amounts
union all
select 'return ' || r.id, 'of ' || r.amount || ' is not booked'
from payonce.returns r
where r.amount > r.fee
  and not exists (select 1 from payonce.postings p where p.idem_key = 'RETURN:' || r.id);

alter view payonce.broken_n1 rename to n1_of_withdrawals;
create view payonce.broken_n1 (subject, detail) as
select subject, detail from payonce.n1_of_withdrawals
union all
select 'transfer ' || e.subject_id, 'is settled and no event says so'
from payonce.effects e
where e.subject_type = 'transfer'
  and e.state = 'SETTLED'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type = 'transfer.confirmed')
union all
select 'transfer ' || e.subject_id, 'came back and no event says so'
from payonce.returns r
join payonce.effects e on e.id = r.effect_id
where e.subject_type = 'transfer'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type = 'transfer.returned');

alter view payonce.broken_v2 rename to v2_of_withdrawals;
create view payonce.broken_v2 (subject, detail) as
select subject, detail from payonce.v2_of_withdrawals
union all
select 'transfer ' || t.id, 'has no effect'
from payonce.transfers t
where not exists (select 1 from payonce.effects e where e.subject_type = 'transfer' and e.subject_id = t.id);
