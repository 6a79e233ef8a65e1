-- 0018 chains reconciled: the class of a movement on its sender's side, what comparing a chain with our books found, and what two
-- persons booked of it.
-- Why: R10, R11, R14, R18, design §5. Locks: `chain_transfers` for the backfill, the views below for a moment. Duration: one pass
-- over `chain_transfers`.

-- R10: a class per movement and side. `class` is the receiver's side, or the sender's where the receiver is outside.
alter table payonce.chain_transfers
  add column sender_class text check (sender_class in ('OWN_EFFECT', 'FUNDING', 'UNKNOWN_INTERNAL', 'UNKNOWN_OUTBOUND')),
  add column sender_reason text,
  -- The effect that moved it, where one of ours did.
  add column effect_id bigint references payonce.effects (id),
  add constraint chain_transfers_sender_whole check ((sender_class is null) = (sender_reason is null));
update payonce.chain_transfers t
set sender_class = case when t.class = 'DEPOSIT' then 'OWN_EFFECT' else t.class end,
    sender_reason = case when t.class = 'DEPOSIT' then 'transaction_is_ours' else t.class_reason end
from payonce.addresses a
where a.chain = t.chain
  and a.address = t.from_address
  and t.class <> 'UNKNOWN_INBOUND';
update payonce.chain_transfers t
set effect_id = v.effect_id
from payonce.effect_variants v
where v.hash = t.tx_hash;
create index chain_transfers_effect on payonce.chain_transfers (effect_id) where effect_id is not null;

-- One report per wallet and range; its findings are rows, which a repair names.
create table payonce.chain_reports (
  id bigint generated always as identity primary key,
  chain text not null,
  wallet text not null,
  from_block bigint not null check (from_block >= 1),
  to_block bigint not null check (to_block >= from_block - 1),
  to_hash text not null,
  findings int not null check (findings >= 0),
  report jsonb not null,
  made_at timestamptz not null default payonce.now()
);
create index chain_reports_wallet on payonce.chain_reports (chain, wallet, id);
create trigger chain_reports_append_only before update or delete on payonce.chain_reports
  for each row execute function payonce.refuse_change();
create trigger chain_reports_no_truncate before truncate on payonce.chain_reports
  for each statement execute function payonce.refuse_change();

create table payonce.chain_findings (
  id bigint generated always as identity primary key,
  report_id bigint not null references payonce.chain_reports (id),
  -- The same thing found again has the same name: a movement, a transaction's gas, an effect.
  finding_key text not null,
  kind text not null,
  direction text check (direction in ('out', 'in')),
  partner_id text references payonce.partners (id),
  asset_id text not null references payonce.assets (id),
  -- Units; of `ledger` and `balance` what we have too much in the books, below 0 too little.
  amount numeric(78,0) not null,
  block_number bigint,
  tx_hash text,
  position int,
  effect_id bigint references payonce.effects (id),
  detail text not null,
  constraint chain_findings_once unique (report_id, finding_key)
);
create index chain_findings_key on payonce.chain_findings (finding_key);
create trigger chain_findings_append_only before update or delete on payonce.chain_findings
  for each row execute function payonce.refuse_change();
create trigger chain_findings_no_truncate before truncate on payonce.chain_findings
  for each statement execute function payonce.refuse_change();

-- What two persons decided about a finding, once for ever. Where custody had followed the chain between two wallets of ours there
-- was nothing to post, and `posting_id` is null.
create table payonce.chain_repairs (
  finding_key text primary key,
  finding_id bigint not null unique references payonce.chain_findings (id),
  proposal_id text not null unique references payonce.proposals (id),
  booked_as text not null check (booked_as in ('loss', 'partner', 'treasury', 'suspense', 'gas', 'own')),
  partner_id text references payonce.partners (id),
  effect_id bigint references payonce.effects (id),
  tx_hash text,
  posting_id bigint references payonce.postings (id),
  made_at timestamptz not null default payonce.now(),
  constraint chain_repairs_partner check ((booked_as = 'partner') = (partner_id is not null)),
  constraint chain_repairs_posted check ((booked_as = 'own') = (posting_id is null))
);
create unique index chain_repairs_posting on payonce.chain_repairs (posting_id) where posting_id is not null;
create index chain_repairs_tx on payonce.chain_repairs (tx_hash) where tx_hash is not null;
create trigger chain_repairs_append_only before update or delete on payonce.chain_repairs
  for each row execute function payonce.refuse_change();
create trigger chain_repairs_no_truncate before truncate on payonce.chain_repairs
  for each statement execute function payonce.refuse_change();

-- The wallets that are compared by themselves: deposit addresses are many, these are few.
create index addresses_not_deposits on payonce.addresses (chain, address) where kind <> 'DEPOSIT';

-- When each wallet is compared next and from which block on. `hurried_at`: when a shortage on the chain last asked for it (R14).
create table payonce.chain_checks (
  chain text not null,
  wallet text not null,
  next_block bigint check (next_block >= 1),
  next_at timestamptz not null,
  hurried_at timestamptz,
  primary key (chain, wallet)
);

-- L5: a repair's posting is the one of its row, and books the finding's amount and asset.
alter view payonce.broken_l5 rename to l5_without_repairs;
create view payonce.broken_l5 (subject, detail) as
select o.subject, o.detail
from payonce.l5_without_repairs o
where o.subject not like 'posting REPAIR:_%'
union all
select 'posting ' || p.idem_key, case
         when f.id is null then 'is no repair of two persons'
         when l.assets <> 1 or l.asset_id <> f.asset_id or l.largest <> abs(f.amount)
           then 'books ' || l.largest || ' ' || l.asset_id || ', not ' || abs(f.amount) || ' ' || f.asset_id
       end
from payonce.postings p
left join payonce.chain_repairs r on r.posting_id = p.id
left join payonce.chain_findings f on f.id = r.finding_id and p.idem_key = 'REPAIR:' || f.id
cross join lateral (
  select min(e.asset_id) as asset_id, count(distinct e.asset_id) as assets, max(abs(e.amount)) as largest
  from payonce.ledger_entries e
  where e.posting_id = p.id) l
where p.idem_key like 'REPAIR:%'
  and (f.id is null or l.assets <> 1 or l.asset_id <> f.asset_id or l.largest <> abs(f.amount));

-- I1: the sender's side too. A sender that was ours when the movement was seen has a class; a partner's own payment to a deposit
-- address is the effect's on one side and a deposit on the other.
alter view payonce.broken_i1 rename to i1_of_receivers;
create view payonce.broken_i1 (subject, detail) as
select subject, detail from payonce.i1_of_receivers
union all
select 'transfer ' || t.id || ' (' || t.tx_hash || ':' || t.position || ')',
       'is ' || t.class || ' and on its sender''s side ' || coalesce(t.sender_class, 'nothing')
from payonce.chain_transfers t
left join payonce.addresses a on a.chain = t.chain and a.address = t.from_address and a.created_at < t.seen_at - interval '1 minute'
where t.final_at is not null
  and (a.id is not null and t.sender_class is null
       or t.sender_class is not null and t.sender_class <> t.class and not (t.class in ('DEPOSIT', 'UNKNOWN_INBOUND') and t.sender_class = 'OWN_EFFECT'));
