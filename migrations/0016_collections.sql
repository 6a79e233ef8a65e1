-- 0016 collections: what lies at deposit addresses is moved into the master wallet, an address and asset at a time.
-- Why: R9, R3 (one cycle at a time), design §2 ("Lanes"). Locks: none on existing data. Duration: milliseconds.

-- From when on an address is swept in this asset, and whose turn a cycle is. Written at each start from the configuration.
create table payonce.collection_terms (
  asset_id text primary key references payonce.assets (id),
  -- Less than this is dust: listed, and left where it is.
  min numeric(78,0) not null check (min > 0),
  -- Stays at the address: what the sweep itself may burn at most, where it pays its own gas.
  keep numeric(78,0) not null check (keep >= 0),
  every_ms bigint not null check (every_ms > 0),
  stopped_at timestamptz,
  -- A cycle takes its turn by moving `next_at` on, and says when it is through; a cycle that died is taken over then.
  next_at timestamptz not null default payonce.now(),
  began_at timestamptz,
  token bigint not null default 0
);

-- One row per sweep. `account_seq`: where the custody account stood that it was made for; while it stands there, a sweep that
-- ended without moving is not made again. `ordinal` counts an address's sweeps of an asset.
create table payonce.collections (
  id text primary key,
  partner_id text not null references payonce.partners (id),
  chain text not null,
  address text not null,
  asset_id text not null references payonce.assets (id),
  ordinal int not null check (ordinal >= 1),
  account_seq bigint not null,
  amount numeric(78,0) not null check (amount > 0),
  destination text not null,
  made_at timestamptz not null default payonce.now(),
  subject_type text not null default 'collection' check (subject_type = 'collection'),
  constraint collections_once unique (asset_id, address, ordinal),
  constraint collections_subject foreign key (subject_type, id) references payonce.subjects (type, id),
  constraint collections_address foreign key (chain, address) references payonce.addresses (chain, address)
);
create index collections_list on payonce.collections (made_at desc, id desc);
create trigger collections_append_only before update or delete on payonce.collections
  for each row execute function payonce.refuse_change();
create trigger collections_no_truncate before truncate on payonce.collections
  for each statement execute function payonce.refuse_change();

-- No status column: a sweep's life is its effects.
create view payonce.collection_states as
select c.id, e.id as effect_id, e.wait_reason,
       case
         when e.state = 'SETTLED' then 'swept'
         when k.open_case then 'in_review'
         when s.closed_as is not null and e.state = 'RELEASED' then s.closed_as
         when e.state = 'PENDING' then 'waiting'
         else 'moving'
       end as status
from payonce.collections c
join payonce.subjects s on s.type = 'collection' and s.id = c.id
join lateral (
  select * from payonce.effects e where e.subject_type = 'collection' and e.subject_id = c.id order by e.seq desc limit 1) e on true
cross join lateral (
  select e.contradicted_at is not null or exists (
    select 1 from payonce.cases k join payonce.effects x on x.id = k.effect_id
    where x.subject_type = 'collection' and x.subject_id = c.id and k.closed_at is null) as open_case) k;

-- What lies at deposit addresses in assets that are swept, by the ledger, and how the last sweep of each ended.
create view payonce.collection_holdings as
select d.id as address_id, d.chain, d.address, d.partner_id, t.asset_id, -a.balance as units, a.seq as account_seq, t.min, t.keep,
       p.rail, p.wallet, m.kind is not distinct from 'MASTER' as wallet_is_master, n.contract is null as is_coin,
       l.open_lane, coalesce(c.ordinal, 0) as ordinal, c.account_seq as last_seq, c.closed_as as last_closed_as,
       coalesce(c.undecided, false) as last_undecided
from payonce.collection_terms t
join payonce.assets n on n.id = t.asset_id
join payonce.addresses d on d.chain = n.chain and d.kind = 'DEPOSIT'
join payonce.accounts a on a.code = 'custody:' || d.chain || ':' || d.address and a.asset_id = t.asset_id and a.balance < 0
left join lateral (
  select p.rail, p.wallet
  from payonce.asset_policies p
  where p.asset_id = t.asset_id and p.partner_id in (d.partner_id, '*')
  order by p.partner_id = '*'
  limit 1) p on true
left join payonce.addresses m on m.chain = d.chain and m.address = p.wallet
left join lateral (
  select s.lane as open_lane
  from payonce.assets o
  join payonce.effects s on s.lane = 'sweep:' || d.address || ':' || o.id and s.state in ('PENDING', 'SEALED')
  where o.chain = d.chain and (o.id = t.asset_id or n.contract is null)
  limit 1) l on true
left join lateral (
  select c.ordinal, c.account_seq, s.closed_as,
         s.closed_at is null and not exists (
           select 1 from payonce.effects e where e.subject_type = s.type and e.subject_id = s.id and e.state = 'SETTLED') as undecided
  from payonce.collections c
  join payonce.subjects s on s.type = 'collection' and s.id = c.id
  where c.asset_id = t.asset_id and c.address = d.address
  order by c.ordinal desc
  limit 1) c on true
where t.stopped_at is null;

-- V2: each sweep has an effect, and it is the sweep that was meant.
alter view payonce.broken_v2 rename to v2_without_collections;
create view payonce.broken_v2 (subject, detail) as
select subject, detail from payonce.v2_without_collections
union all
select 'collection ' || c.id, 'has no effect of its own amount, wallet and destination'
from payonce.collections c
where not exists (
  select 1 from payonce.effects e
  where e.subject_type = 'collection' and e.subject_id = c.id and e.seq = 1
    and e.amount = c.amount and e.wallet = c.address and e.destination = c.destination and e.asset_id = c.asset_id);
