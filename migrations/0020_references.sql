-- 0020 references, payees, statements: a reference is paid once, whether by a transfer or by a line of a provider's batch; what is
-- the same payee for a bank; an end that is doubted is told as none; a statement can be voided and taken in anew, and a later
-- file adds references to a line.
-- Why: design §2, §3. Locks: `transfers`, `transfer_batch_lines`, `statement_files`, `statements`, `statement_places`, `proposals`
-- and the views below. Duration: one pass over these tables.

-- A release stands while nobody said afterwards that it moved. What was said of the very object that failed is no such word.
create function payonce.release_stands(effect bigint) returns boolean
language sql stable as $$
  select e.state = 'RELEASED' and e.contradicted_at is null and (e.testimonies = 0 or not exists (
    select 1 from payonce.effect_evidence v
    where v.effect_id = e.id and v.id > e.released_by and v.rank in ('word', 'object') and v.struck_at is null
      and not (v.rank = 'word' and v.object_id is not null and exists (
        select 1 from payonce.effect_evidence f
        where f.id = e.released_by and f.kind = 'PROVIDER_FAILED' and f.object_id = v.object_id))))
  from payonce.effects e
  where e.id = effect
$$;

-- The partner was told an end, and every attempt of it is a release that stands.
create function payonce.ended_unpaid(of_type text, of_id text) returns boolean
language sql stable as $$
  select s.closed_as is not null and not exists (
    select 1 from payonce.effects e
    where e.subject_type = s.type and e.subject_id = s.id and not payonce.release_stands(e.id))
  from payonce.subjects s
  where s.type = of_type
    and s.id = of_id
$$;

-- A line of a provider's batch that is not known to be unpaid. Where the provider says the opposite of what is booked, and
-- nobody has closed that case, nothing is known.
create function payonce.line_may_be_paid(of_batch text, of_line int) returns boolean
language sql stable as $$
  select case
    when f.fate = 'not_paid' then exists (
      select 1 from payonce.cases k
      where k.kind = 'lines_unknown' and k.subject_key = 'transfer_batch:' || of_batch and k.severity = 3 and k.closed_at is null)
    when f.fate is not null then true
    else not payonce.ended_unpaid('transfer_batch', of_batch)
  end
  from (select (
    select f.fate from payonce.transfer_batch_fates f
    where f.batch_id = of_batch and f.line = of_line order by f.seq desc limit 1) as fate) f
$$;

-- A transfer keeps its reference for ever, a line of a provider's batch while it may be paid: derived, so that what re-opens has
-- its reference again.
create function payonce.reference_holders(of_partner text, reference text) returns table (subject_type text, subject_id text, line int)
language sql stable as $$
  select 'transfer', t.id, null::int
  from payonce.transfers t
  where t.partner_id = of_partner
    and t.external_id = reference
  union all
  select 'transfer_batch', l.batch_id, l.line
  from payonce.transfer_batch_lines l
  where l.partner_id = of_partner
    and l.external_id = reference
    and l.fee is not null
    and payonce.line_may_be_paid(l.batch_id, l.line)
$$;

drop index payonce.transfer_batch_lines_external_id;
create index transfer_batch_lines_external_id on payonce.transfer_batch_lines (partner_id, external_id)
  where external_id is not null and fee is not null;
drop trigger transfer_batch_lines_kept on payonce.transfer_batch_lines;
alter table payonce.transfer_batch_lines drop column freed_at;
create trigger transfer_batch_lines_append_only before update or delete on payonce.transfer_batch_lines
  for each row execute function payonce.refuse_change();

-- Every reference that was ever used, once: the row on which two that come at once wait for each other.
create table payonce.references_used (
  partner_id text not null references payonce.partners (id),
  external_id text not null,
  primary key (partner_id, external_id)
);
create trigger references_used_append_only before update or delete on payonce.references_used
  for each row execute function payonce.refuse_change();
create trigger references_used_no_truncate before truncate on payonce.references_used
  for each statement execute function payonce.refuse_change();
insert into payonce.references_used (partner_id, external_id)
select partner_id, external_id from payonce.transfers where external_id is not null
union
select partner_id, external_id from payonce.transfer_batch_lines where external_id is not null and fee is not null;

create function payonce.take_reference() returns trigger
language plpgsql as $$
declare
  holder record;
begin
  insert into payonce.references_used (partner_id, external_id) values (new.partner_id, new.external_id) on conflict do nothing;
  if found then
    return new;
  end if;
  perform 1 from payonce.references_used u where u.partner_id = new.partner_id and u.external_id = new.external_id for update;
  select * into holder from payonce.reference_holders(new.partner_id, new.external_id) limit 1;
  if found then
    raise exception 'reference % of % pays % %', new.external_id, new.partner_id, holder.subject_type, holder.subject_id
      using errcode = '23505', constraint = 'references_paid_once';
  end if;
  return new;
end $$;
create trigger transfers_reference before insert on payonce.transfers
  for each row when (new.external_id is not null) execute function payonce.take_reference();
create trigger transfer_batch_lines_reference before insert on payonce.transfer_batch_lines
  for each row when (new.external_id is not null and new.fee is not null) execute function payonce.take_reference();

-- What a bank takes for the same account: dashes and blanks between digits are the writer's, case says nothing in a bank's code
-- or a mail address. As `payeeKey` of src/flows/transfers/payee-key.ts; a test holds them
-- to each other.
create function payonce.payee_key(bank_code text, account_number text) returns text
language sql immutable as $$
  select upper(bank_code) || ':' || case
    when account_number ~ '^[0-9][0-9 -]*$' then translate(account_number, '- ', '')
    when strpos(account_number, '@') > 0 then lower(account_number)
    else account_number
  end
$$;
drop index payonce.transfer_batch_lines_payee;
create index transfer_batch_lines_payee on payonce.transfer_batch_lines (partner_id, payonce.payee_key(bank_code, account_number), amount)
  where external_id is null;
create index transfers_payee on payonce.transfers (partner_id, payonce.payee_key(bank_code, account_number), amount)
  where external_id is null;
drop index payonce.payees_flagged_payee;
create index payees_flagged_payee on payonce.payees_flagged (partner_id, payonce.payee_key(bank_code, account_number));

-- An end that somebody doubts is under review, not an end.
create or replace view payonce.transfer_states as
select t.id,
       e.id as effect_id,
       case
         when e.state = 'SETTLED' and exists (select 1 from payonce.returns r where r.effect_id = e.id) then 'returned'
         when e.state = 'SETTLED' then 'confirmed'
         when c.open_case then 'in_review'
         when s.closed_as is not null and e.state = 'RELEASED' then
           case when payonce.ended_unpaid('transfer', t.id) then s.closed_as else 'in_review' end
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

create or replace view payonce.transfer_batch_line_states as
select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, coalesce(l.fee, t.fee) as fee, l.bank_code, l.account_number, l.holder_name,
       l.memo, t.id as transfer_id, o.object_id,
       case when k.key is null then 'waiting' when k.resource_id is null then 'refused' else v.status end as fate,
       k.refusal ->> 'detail' as detail, k.refusal ->> 'code' as code
from payonce.transfer_batches b
join payonce.transfer_batch_lines l on l.batch_id = b.id
left join payonce.idempotency_keys k on k.partner_id = l.partner_id and k.key = l.ref
left join payonce.transfers t on t.id = k.resource_id
left join payonce.transfer_states v on v.id = t.id
left join lateral (
  select coalesce(w.object_id, e.accepted_object) as object_id
  from payonce.effects e
  left join payonce.effect_evidence w on w.id = coalesce(e.settled_by, e.released_by)
  where e.id = v.effect_id) o on true
where b.pays_as = 'transfers'
union all
select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, l.fee, l.bank_code, l.account_number, l.holder_name, l.memo, null, f.object_id,
       case
         when f.fate = 'unknown' then 'in_review'
         when f.fate = 'not_paid' then 'failed'
         when exists (select 1 from payonce.returns r where r.effect_id = e.id and r.line_ref = l.ref) then 'returned'
         when f.fate = 'paid' then 'confirmed'
         when e.state = 'RELEASED' and s.closed_as is not null then
           case when payonce.ended_unpaid('transfer_batch', b.id) then s.closed_as else 'in_review' end
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

create or replace view payonce.transfer_batch_states as
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
         when s.closed_as is not null and e.state = 'RELEASED' then
           case when payonce.ended_unpaid('transfer_batch', b.id) then s.closed_as else 'in_review' end
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

-- A proposal for one line of a batch leaves that for another one open.
drop index payonce.proposals_open;
alter table payonce.proposals add column about_line text not null generated always as (coalesce(detail ->> 'line', '')) stored;
create unique index proposals_open on payonce.proposals (case_id, verb, about_line) where state = 'open';

-- A file that was read by wrong columns is voided by two persons, and may then be taken in again: `take` counts.
alter table payonce.statements drop constraint statements_file_sha256_fkey, drop constraint statements_position;
alter table payonce.statement_files drop constraint statement_files_pkey;
alter table payonce.statement_files add column take int not null default 1 check (take >= 1), add primary key (sha256, take);
alter table payonce.statements add column take int not null default 1;
alter table payonce.statements
  add constraint statements_file foreign key (file_sha256, take) references payonce.statement_files (sha256, take),
  add constraint statements_position unique (file_sha256, take, position);

create table payonce.statement_voids (
  file_sha256 text not null,
  take int not null,
  proposal_id text not null references payonce.proposals (id),
  voided_at timestamptz not null default payonce.now(),
  primary key (file_sha256, take),
  foreign key (file_sha256, take) references payonce.statement_files (sha256, take)
);
create trigger statement_voids_append_only before update or delete on payonce.statement_voids
  for each row execute function payonce.refuse_change();
create trigger statement_voids_no_truncate before truncate on payonce.statement_voids
  for each statement execute function payonce.refuse_change();
create function payonce.statement_voids_guard() returns trigger
language plpgsql as $$
begin
  if not exists (
    select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
    where p.id = new.proposal_id and p.verb = 'void_statement' and p.approved_by is not null and p.state in ('approved', 'done')
      and c.kind = 'statement_wrong' and c.subject_key = 'statement:' || new.file_sha256) then
    raise exception 'statement % is voided by two persons or not at all', new.file_sha256 using errcode = 'P0B25', constraint = 'statement_voids_two_persons';
  end if;
  return new;
end $$;
create trigger statement_voids_guard before insert on payonce.statement_voids
  for each row execute function payonce.statement_voids_guard();
create function payonce.statement_files_guard() returns trigger
language plpgsql as $$
begin
  if exists (
    select 1 from payonce.statement_files f
    where f.sha256 = new.sha256 and f.take < new.take
      and not exists (select 1 from payonce.statement_voids v where v.file_sha256 = f.sha256 and v.take = f.take)) then
    raise exception 'file % was taken in before and is not void', new.sha256 using errcode = 'P0B25', constraint = 'statement_files_void_first';
  end if;
  return new;
end $$;
create trigger statement_files_guard before insert on payonce.statement_files
  for each row when (new.take > 1) execute function payonce.statement_files_guard();

-- Each file's own references of a line: a later one may know more than the first.
alter table payonce.statement_places add column refs text[];
alter table payonce.statement_places disable trigger statement_places_append_only;
update payonce.statement_places p
set refs = l.refs
from payonce.statement_lines l
where l.id = p.line_id;
alter table payonce.statement_places enable trigger statement_places_append_only;
alter table payonce.statement_places alter column refs set not null;
create index statement_places_refs on payonce.statement_places using gin (refs);

-- Shown by voided statements only: it counts no longer, and the same line of a new take is a line of its own.
alter table payonce.statement_lines add column retired_at timestamptz;
alter table payonce.statement_lines drop constraint statement_lines_once;
create unique index statement_lines_once on payonce.statement_lines (rail, line_key) where retired_at is null;
drop trigger statement_lines_append_only on payonce.statement_lines;
create trigger statement_lines_kept before update or delete on payonce.statement_lines
  for each row execute function payonce.refuse_change_but_mark('retired_at');

-- Statements that nobody voided.
create view payonce.statements_counted as
select s.*
from payonce.statements s
where not exists (select 1 from payonce.statement_voids v where v.file_sha256 = s.file_sha256 and v.take = s.take);
