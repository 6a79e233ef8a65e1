-- 0011 transfer batches: files of many transfers, their lines, what is wrong with a line, and each line's own fate.
-- Why: design §2 ("Paying many at once"), §3. Locks: `returns`, `payees_flagged` and the views below, for a moment.
-- Duration: milliseconds.

-- Append-only but for one mark, the trigger's argument, which is set once.
create function payonce.refuse_change_but_mark() returns trigger
language plpgsql as $$
begin
  if tg_op = 'UPDATE'
     and to_jsonb(old) - tg_argv[0] = to_jsonb(new) - tg_argv[0]
     and to_jsonb(old) -> tg_argv[0] = 'null' and to_jsonb(new) -> tg_argv[0] <> 'null' then
    return new;
  end if;
  raise exception '% is append-only but for %', tg_table_name, tg_argv[0] using errcode = 'P0B24', constraint = 'append_only_but_mark';
end $$;

-- One row per file. `pays_as` 'transfers': each line is a transfer of its own, under a key derived from the file's; 'batch':
-- the file is one order to a provider that takes many lines at once, and the subject of one effect.
create table payonce.transfer_batches (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  idempotency_key text not null,
  file_sha256 text not null check (file_sha256 ~ '^[0-9a-f]{64}$'),
  format text not null check (format in ('csv', 'json')),
  pays_as text not null check (pays_as in ('transfers', 'batch')),
  asset_id text not null references payonce.assets (id),
  -- The good lines' sum; the fee of a 'batch' is the sum of its lines' fees, that of 'transfers' is each transfer's.
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) check (fee >= 0),
  requested_at timestamptz not null default payonce.now(),
  day date,
  -- 'transfers': every line has its answer, a transfer or a refusal.
  taken_at timestamptz,
  subject_type text not null default 'transfer_batch' check (subject_type = 'transfer_batch'),
  check ((pays_as = 'batch') = (fee is not null)),
  check ((pays_as = 'batch') = (day is not null)),
  constraint transfer_batches_key unique (partner_id, idempotency_key),
  constraint transfer_batches_subject foreign key (subject_type, id) references payonce.subjects (type, id)
);
create index transfer_batches_list on payonce.transfer_batches (partner_id, requested_at desc, id desc);
create index transfer_batches_file on payonce.transfer_batches (partner_id, file_sha256);
create index transfer_batches_open on payonce.transfer_batches (requested_at, id) where pays_as = 'transfers' and taken_at is null;
create trigger transfer_batches_kept before update or delete on payonce.transfer_batches
  for each row execute function payonce.refuse_change_but_mark('taken_at');
create trigger transfer_batches_no_truncate before truncate on payonce.transfer_batches
  for each statement execute function payonce.refuse_change();

-- The good lines. `line`: where it stands in the file. `ref`: derived from the file's key and the line's own reference, or its
-- number: the idempotency key of its transfer, or its name in the provider's batch.
create table payonce.transfer_batch_lines (
  batch_id text not null references payonce.transfer_batches (id),
  line int not null check (line >= 1),
  ref text not null,
  partner_id text not null,
  external_id text,
  amount numeric(78,0) not null check (amount > 0),
  fee numeric(78,0) check (fee >= 0),
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  holder_name_nfc text not null check (holder_name_nfc is nfc normalized),
  memo text not null,
  -- 'batch': it was not paid, so its reference may be used again.
  freed_at timestamptz,
  primary key (batch_id, line),
  constraint transfer_batch_lines_ref unique (batch_id, ref)
);
-- A line of a provider's batch is paid once: its reference is taken while it is not known to have failed.
create unique index transfer_batch_lines_external_id on payonce.transfer_batch_lines (partner_id, external_id)
  where external_id is not null and fee is not null and freed_at is null;
create index transfer_batch_lines_payee on payonce.transfer_batch_lines (partner_id, bank_code, account_number, amount)
  where external_id is null;
create trigger transfer_batch_lines_kept before update or delete on payonce.transfer_batch_lines
  for each row execute function payonce.refuse_change_but_mark('freed_at');
create trigger transfer_batch_lines_no_truncate before truncate on payonce.transfer_batch_lines
  for each statement execute function payonce.refuse_change();

-- What was wrong with the other lines: nothing of them is paid.
create table payonce.transfer_batch_faults (
  batch_id text not null references payonce.transfer_batches (id),
  n int not null check (n >= 1),
  line int not null check (line >= 1),
  column_name text not null,
  column_number int check (column_number >= 1),
  got text not null,
  expected text not null,
  primary key (batch_id, n)
);
create trigger transfer_batch_faults_append_only before update or delete on payonce.transfer_batch_faults
  for each row execute function payonce.refuse_change();
create trigger transfer_batch_faults_no_truncate before truncate on payonce.transfer_batch_faults
  for each statement execute function payonce.refuse_change();

-- What became of the lines of a provider's batch; `seq` 2 decides what was unknown at first. What came back is paid, and has a
-- row in `returns`.
create table payonce.transfer_batch_fates (
  batch_id text not null,
  line int not null,
  seq int not null check (seq in (1, 2)),
  fate text not null check (fate in ('paid', 'not_paid', 'unknown')),
  object_id text,
  detail text not null,
  at timestamptz not null default payonce.now(),
  primary key (batch_id, line, seq),
  foreign key (batch_id, line) references payonce.transfer_batch_lines (batch_id, line),
  check (seq = 1 or fate <> 'unknown')
);
create function payonce.transfer_batch_fates_guard() returns trigger
language plpgsql as $$
begin
  if new.seq = 2 and not exists (
    select 1 from payonce.transfer_batch_fates f
    where f.batch_id = new.batch_id and f.line = new.line and f.seq = 1 and f.fate = 'unknown') then
    raise exception 'line % of % is decided already', new.line, new.batch_id using errcode = 'P0B24', constraint = 'transfer_batch_fates_once';
  end if;
  return new;
end $$;
create trigger transfer_batch_fates_guard before insert on payonce.transfer_batch_fates
  for each row execute function payonce.transfer_batch_fates_guard();
create trigger transfer_batch_fates_append_only before update or delete on payonce.transfer_batch_fates
  for each row execute function payonce.refuse_change();
create trigger transfer_batch_fates_no_truncate before truncate on payonce.transfer_batch_fates
  for each statement execute function payonce.refuse_change();

-- Of a batch, a line comes back, and no more than was paid of it.
alter table payonce.returns add column line_ref text;
create or replace function payonce.returns_guard() returns trigger
language plpgsql as $$
declare
  went record;
  paid numeric;
begin
  select e.state, e.amount, e.subject_type, e.subject_id into went from payonce.effects e where e.id = new.effect_id for no key update;
  if went.state <> 'SETTLED'
     or new.amount + coalesce((select sum(r.amount) from payonce.returns r where r.effect_id = new.effect_id), 0) > went.amount then
    raise exception 'effect % is % with %: this return is no part of it', new.effect_id, went.state, went.amount
      using errcode = 'P0B22', constraint = 'returns_within';
  end if;
  if went.subject_type <> 'transfer_batch' then
    return new;
  end if;
  select l.amount into paid
  from payonce.transfer_batch_lines l
  where l.batch_id = went.subject_id
    and l.ref = new.line_ref
    and exists (select 1 from payonce.transfer_batch_fates f where f.batch_id = l.batch_id and f.line = l.line and f.fate = 'paid');
  if paid is null
     or new.amount + coalesce((select sum(r.amount) from payonce.returns r where r.effect_id = new.effect_id and r.line_ref = new.line_ref), 0) > paid then
    raise exception 'line % of % was paid %: this return is no part of it', new.line_ref, went.subject_id, coalesce(paid, 0)
      using errcode = 'P0B22', constraint = 'returns_within';
  end if;
  return new;
end $$;

-- A payee is flagged by a transfer, or by a line of a batch.
alter table payonce.payees_flagged alter column transfer_id drop not null;
alter table payonce.payees_flagged add column batch_id text;
alter table payonce.payees_flagged add column line int;
alter table payonce.payees_flagged add constraint payees_flagged_line foreign key (batch_id, line) references payonce.transfer_batch_lines (batch_id, line);
alter table payonce.payees_flagged add constraint payees_flagged_by check ((transfer_id is null) = (batch_id is not null and line is not null));

-- A line's fate, in the words of a transfer's status; `waiting` until it is taken, `refused` if it was not. Derived: from its
-- transfer or the refusal under its key; from the provider's word of the line, or, before that, from the batch's effect.
create view payonce.transfer_batch_line_states as
select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, coalesce(l.fee, t.fee) as fee, l.bank_code, l.account_number, l.holder_name,
       l.memo, t.id as transfer_id, null::text as object_id,
       case when k.key is null then 'waiting' when k.resource_id is null then 'refused' else v.status end as fate,
       k.refusal ->> 'detail' as detail, k.refusal ->> 'code' as code
from payonce.transfer_batches b
join payonce.transfer_batch_lines l on l.batch_id = b.id
left join payonce.idempotency_keys k on k.partner_id = l.partner_id and k.key = l.ref
left join payonce.transfers t on t.id = k.resource_id
left join payonce.transfer_states v on v.id = t.id
where b.pays_as = 'transfers'
union all
select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, l.fee, l.bank_code, l.account_number, l.holder_name, l.memo, null, f.object_id,
       case
         when f.fate = 'unknown' then 'in_review'
         when f.fate = 'not_paid' then 'failed'
         when exists (select 1 from payonce.returns r where r.effect_id = e.id and r.line_ref = l.ref) then 'returned'
         when f.fate = 'paid' then 'confirmed'
         when e.state = 'RELEASED' and s.closed_as is not null then s.closed_as
         when e.state = 'PENDING' and e.seq = 1 then 'pending'
         else 'processing'
       end,
       f.detail, null
from payonce.transfer_batches b
join payonce.transfer_batch_lines l on l.batch_id = b.id
join payonce.subjects s on s.type = 'transfer_batch' and s.id = b.id
join lateral (
  select * from payonce.effects e where e.subject_type = 'transfer_batch' and e.subject_id = b.id order by e.seq desc limit 1) e on true
left join lateral (
  select * from payonce.transfer_batch_fates f where f.batch_id = l.batch_id and f.line = l.line order by f.seq desc limit 1) f on true
where b.pays_as = 'batch';

-- `finished`: each line has its fate, which may be any. A batch is never told by one word what its lines are.
create view payonce.transfer_batch_states as
select b.id, e.id as effect_id,
       case
         when b.pays_as = 'transfers' then
           case
             when b.taken_at is null then 'pending'
             when exists (
               select 1 from payonce.transfer_batch_line_states l
               where l.batch_id = b.id and l.fate in ('waiting', 'pending', 'processing', 'in_review')) then 'processing'
             else 'finished'
           end
         when c.open_case then 'in_review'
         when e.state = 'SETTLED' then 'finished'
         when s.closed_as is not null and e.state = 'RELEASED' then s.closed_as
         when e.state = 'PENDING' and e.seq = 1 then 'pending'
         else 'processing'
       end as status
from payonce.transfer_batches b
join payonce.subjects s on s.type = 'transfer_batch' and s.id = b.id
left join lateral (
  select * from payonce.effects e where e.subject_type = 'transfer_batch' and e.subject_id = b.id order by e.seq desc limit 1) e on true
cross join lateral (
  select coalesce(e.contradicted_at is not null, false) or exists (
    select 1 from payonce.cases k join payonce.effects x on x.id = k.effect_id
    where x.subject_type = 'transfer_batch' and x.subject_id = b.id and k.closed_at is null) as open_case) c;

-- The invariants learn of batches, as 0009 taught them transfers.
-- E3: one TRB_CONFIRM of a settled batch, and then a fate of every line.
alter view payonce.broken_e3 rename to e3_without_batches;
create view payonce.broken_e3 (subject, detail) as
select subject, detail from payonce.e3_without_batches
union all
select 'effect ' || e.id, e.state || ' with ' || coalesce(b.booked, 0) || ' confirmations and ' || coalesce(b.overpaid, 0) || ' OVERPAID'
from payonce.effects e
left join (
  select effect_id, count(*) filter (where idem_key like 'TRB_CONFIRM:%') as booked, count(*) filter (where idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings
  where effect_id is not null
  group by effect_id) b on b.effect_id = e.id
where e.subject_type = 'transfer_batch'
  and (coalesce(b.booked, 0) + coalesce(b.overpaid, 0) <> (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null)::int
    or coalesce(b.booked, 0) > 0 and e.state <> 'SETTLED')
union all
select 'batch ' || l.batch_id || ' line ' || l.line, 'is of a settled batch and has no fate'
from payonce.effects e
join payonce.transfer_batch_lines l on l.batch_id = e.subject_id
where e.subject_type = 'transfer_batch'
  and e.state = 'SETTLED'
  and not exists (select 1 from payonce.transfer_batch_fates f where f.batch_id = l.batch_id and f.line = l.line);

-- L5: what a batch's confirmation books is the sum of its lines by their first fate; what decides a line books that line.
alter view payonce.broken_l5 rename to l5_without_batches;
create view payonce.broken_l5 (subject, detail) as
with lines as (
  select p.id, p.idem_key, p.effect_id, split_part(p.idem_key, ':', 1) as kind, split_part(p.idem_key, ':', 2) as name, split_part(p.idem_key, ':', 3) as line,
         min(e.asset_id) as asset_id, count(distinct e.asset_id) as assets, min(a.partner_id) as partner_id,
         coalesce(sum(e.amount) filter (where a.partner_id is not null), 0) as partner,
         coalesce(sum(e.amount) filter (where a.code like 'custody:%'), 0) as custody,
         coalesce(sum(e.amount) filter (where a.code = 'suspense'), 0) as suspense
  from payonce.postings p
  join payonce.ledger_entries e on e.posting_id = p.id
  join payonce.accounts a on a.id = e.account_id
  where p.idem_key ~ '^TRB_(CONFIRM|LINE):'
  group by p.id
),
sums as (
  select l.batch_id, coalesce(sum(l.amount) filter (where f.fate = 'paid'), 0) as paid,
         coalesce(sum(l.amount + l.fee) filter (where f.fate <> 'not_paid'), 0) as taken,
         coalesce(sum(l.amount + l.fee) filter (where f.fate = 'unknown'), 0) as unknown
  from payonce.transfer_batch_lines l
  join payonce.transfer_batch_fates f on f.batch_id = l.batch_id and f.line = l.line and f.seq = 1
  group by l.batch_id
),
judged as (
  select n.idem_key, case
    when b.id is null then 'names no batch'
    when e.id is null then 'belongs to no effect of this batch'
    when n.asset_id <> b.asset_id or n.assets <> 1 then 'books another asset than ' || b.asset_id
    when n.partner_id is distinct from b.partner_id or n.partner <> -s.taken or n.custody <> s.paid or n.suspense <> s.unknown
      then 'books ' || n.partner || ' for ' || coalesce(n.partner_id, 'nobody') || ', not ' || -coalesce(s.taken, 0) || ' for ' || b.partner_id
  end as fault
  from lines n
  left join payonce.transfer_batches b on b.id = n.name
  left join sums s on s.batch_id = b.id
  left join payonce.effects e on e.id = n.effect_id and e.subject_type = 'transfer_batch' and e.subject_id = b.id
  where n.kind = 'TRB_CONFIRM'
  union all
  select n.idem_key, case
    when l.line is null then 'names no line'
    when f.fate is null then 'decides a line that nobody decided'
    when n.suspense <> -(l.amount + l.fee) or n.custody <> case f.fate when 'paid' then l.amount else 0 end
      or n.partner <> case f.fate when 'paid' then 0 else l.amount + l.fee end then 'takes ' || -n.suspense || ' out of suspense, not ' || l.amount + l.fee
  end
  from lines n
  left join payonce.transfer_batch_lines l on l.batch_id = n.name and l.line::text = n.line
  left join payonce.transfer_batch_fates f on f.batch_id = l.batch_id and f.line = l.line and f.seq = 2
  where n.kind = 'TRB_LINE'
)
select subject, detail from payonce.l5_without_batches where subject !~ '^posting TRB_(CONFIRM|LINE):.'
union all
select 'posting ' || idem_key, fault from judged where fault is not null
union all
select 'batch ' || f.batch_id || ' line ' || f.line, 'was decided, and nothing is booked'
from payonce.transfer_batch_fates f
where f.seq = 2
  and not exists (select 1 from payonce.postings p where p.idem_key = 'TRB_LINE:' || f.batch_id || ':' || f.line);

-- L6: a batch holds its lines' amounts and fees.
alter view payonce.broken_l6 rename to l6_without_batches;
create view payonce.broken_l6 (subject, detail) as
select subject, detail from payonce.l6_without_batches
union all
select 'effect ' || e.id, 'pays a batch and holds ' || coalesce(h.amount::text, 'nothing')
from payonce.effects e
join payonce.transfer_batches b on e.subject_type = 'transfer_batch' and b.id = e.subject_id
cross join lateral (
  select sum(l.amount) as amount, sum(l.fee) as fee from payonce.transfer_batch_lines l where l.batch_id = b.id) l
left join payonce.holds h on h.key = e.hold_key
where h.amount is distinct from l.amount + l.fee
   or e.amount <> l.amount
   or b.amount <> l.amount
   or b.fee <> l.fee;

alter view payonce.broken_e15 rename to e15_without_batches;
create view payonce.broken_e15 (subject, detail) as
select subject, detail from payonce.e15_without_batches
union all
select 'batch ' || b.id, 'key ' || b.idempotency_key || ' answers ' || coalesce(k.resource_id, 'nothing')
from payonce.transfer_batches b
left join payonce.idempotency_keys k on k.partner_id = b.partner_id and k.key = b.idempotency_key
where k.resource_id is distinct from b.id
union all
select 'key ' || k.key || ' of ' || k.partner_id, 'names batch ' || k.resource_id || ', which does not exist'
from payonce.idempotency_keys k
where k.resource_type = 'transfer_batch'
  and not exists (select 1 from payonce.transfer_batches b where b.id = k.resource_id);

-- E17: each return of a batch is of one line, which was paid, and not above it.
alter view payonce.broken_e17 rename to e17_without_batches;
create view payonce.broken_e17 (subject, detail) as
select subject, detail from payonce.e17_without_batches
union all
select 'effect ' || r.effect_id || ' line ' || coalesce(r.line_ref, '(none)'), 'got back ' || sum(r.amount) || ' of ' || coalesce(min(l.amount), 0)
from payonce.returns r
join payonce.effects e on e.id = r.effect_id and e.subject_type = 'transfer_batch'
left join payonce.transfer_batch_lines l on l.batch_id = e.subject_id and l.ref = r.line_ref
  and exists (select 1 from payonce.transfer_batch_fates f where f.batch_id = l.batch_id and f.line = l.line and f.fate = 'paid')
group by r.effect_id, r.line_ref
having sum(r.amount) > coalesce(min(l.amount), 0);

alter view payonce.broken_n1 rename to n1_without_batches;
create view payonce.broken_n1 (subject, detail) as
select subject, detail from payonce.n1_without_batches
union all
select 'batch ' || e.subject_id, 'is settled and no event says so'
from payonce.effects e
where e.subject_type = 'transfer_batch'
  and e.state = 'SETTLED'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type = 'transfer_batch.finished')
union all
select 'batch ' || e.subject_id, 'had a line come back and no event says so'
from payonce.returns r
join payonce.effects e on e.id = r.effect_id
where e.subject_type = 'transfer_batch'
  and not exists (
    select 1 from payonce.events v
    where v.subject_type = e.subject_type and v.subject_id = e.subject_id and v.type = 'transfer_batch.returned');

alter view payonce.broken_v2 rename to v2_without_batches;
create view payonce.broken_v2 (subject, detail) as
select subject, detail from payonce.v2_without_batches
union all
select 'batch ' || b.id, 'has no effect'
from payonce.transfer_batches b
where b.pays_as = 'batch'
  and not exists (select 1 from payonce.effects e where e.subject_type = 'transfer_batch' and e.subject_id = b.id)
union all
select 'batch ' || l.batch_id || ' line ' || l.line, 'is taken, and its key has no answer'
from payonce.transfer_batches b
join payonce.transfer_batch_lines l on l.batch_id = b.id
where b.pays_as = 'transfers'
  and b.taken_at is not null
  and not exists (select 1 from payonce.idempotency_keys k where k.partner_id = l.partner_id and k.key = l.ref);
