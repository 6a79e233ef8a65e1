-- 0014 own moves: effects that move money between wallets of ours, whoever's they are.
-- Why: design §7 (realizations, collections), R8, R9, R16. Locks: `api_keys` and the views below, for a moment. Duration: milliseconds.

-- What belongs to no partner (a shared wallet's gas, energy) belongs to ourselves, under this name. Nobody pays out of it.
insert into payonce.partners (id, name) values ('par_own', 'Own wallets');
alter table payonce.api_keys add constraint api_keys_of_a_partner check (partner_id <> 'par_own');

-- The flows that move our own money: what each books is the same, from the wallet's custody to where it arrives, under one
-- key. src/kernel/ids.ts names the keys; a test compares.
create table payonce.own_move_kinds (
  subject_type text primary key,
  key_kind text not null unique check (key_kind ~ '^[A-Z_]+$'),
  -- `custody`: the receiver is an address of ours; `gas`: it is spent (energy).
  arrives_at text not null check (arrives_at in ('custody', 'gas'))
);
insert into payonce.own_move_kinds (subject_type, key_kind, arrives_at) values
  ('realization', 'RLZ_MOVE', 'custody'), ('collection', 'COL_MOVE', 'custody'), ('topup', 'TOPUP', 'custody'), ('energy', 'ENERGY', 'gas');
create trigger own_move_kinds_append_only before insert or update or delete or truncate on payonce.own_move_kinds
  for each statement execute function payonce.refuse_change();

-- The invariants learn of them, once for all kinds.
-- E3: one posting of a settled one, none of any other; where nothing was to move there is nothing to book.
alter view payonce.broken_e3 rename to e3_without_own_moves;
create view payonce.broken_e3 (subject, detail) as
select subject, detail from payonce.e3_without_own_moves
union all
select 'effect ' || e.id, e.state || ' with ' || coalesce(b.booked, 0) || ' moves and ' || coalesce(b.overpaid, 0) || ' OVERPAID'
from payonce.effects e
join payonce.own_move_kinds k on k.subject_type = e.subject_type
left join lateral (
  select count(*) filter (where p.idem_key = k.key_kind || ':' || e.subject_id) as booked,
         count(*) filter (where p.idem_key like 'OVERPAID:%') as overpaid
  from payonce.postings p
  where p.effect_id = e.id) b on true
where coalesce(b.booked, 0) + coalesce(b.overpaid, 0)
      <> (e.amount > 0 and (e.state = 'SETTLED' or e.state = 'RELEASED' and e.contradicted_at is not null and e.identity is not null))::int
   or coalesce(b.booked, 0) > 0 and e.state <> 'SETTLED';

-- L5: a move books its effect's amount from the wallet to where it arrives; no partner's account is in it.
alter view payonce.broken_l5 rename to l5_without_own_moves;
create view payonce.broken_l5 (subject, detail) as
with lines as (
  select p.id, p.idem_key, p.effect_id, k.subject_type, k.arrives_at, substr(p.idem_key, char_length(k.key_kind) + 2) as name
  from payonce.postings p
  join payonce.own_move_kinds k on k.key_kind = split_part(p.idem_key, ':', 1)
),
judged as (
  select n.idem_key, case
    when e.id is null then 'belongs to no effect of ' || n.subject_type || ' ' || n.name
    when not coalesce(b.is_meant, false) or b.entries <> 2 then 'does not book ' || e.amount || ' ' || e.asset_id || ' from ' || e.wallet || ' to ' || e.destination
  end as fault
  from lines n
  left join payonce.effects e on e.id = n.effect_id and e.subject_type = n.subject_type and e.subject_id = n.name
  left join payonce.assets s on s.id = e.asset_id
  left join lateral (
    select count(*) as entries,
           bool_and(l.asset_id = e.asset_id and (
             a.code = 'custody:' || s.chain || ':' || e.wallet and l.amount = e.amount
             or a.code = case n.arrives_at when 'gas' then 'gas' else 'custody:' || s.chain || ':' || e.destination end and l.amount = -e.amount)) as is_meant
    from payonce.ledger_entries l
    join payonce.accounts a on a.id = l.account_id
    where l.posting_id = n.id) b on true
)
select o.subject, o.detail
from payonce.l5_without_own_moves o
where not exists (select 1 from payonce.own_move_kinds k where o.subject like 'posting ' || k.key_kind || ':_%')
union all
select 'posting ' || idem_key, fault from judged where fault is not null;

-- N1: no partner is told of them: the money was ours before and is ours after.
alter view payonce.broken_n1 rename to n1_of_partners;
create view payonce.broken_n1 (subject, detail) as
select n.subject, n.detail
from payonce.n1_of_partners n
where not exists (select 1 from payonce.own_move_kinds k where n.subject like 'subject ' || k.subject_type || ' %');
