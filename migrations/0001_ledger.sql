-- 0001 ledger: assets, partners, accounts, holds, postings, entries.
-- Why: the ground. Double entry with signed amounts: positive is credit (we owe it), negative is debit (we have it), so a
-- partner's available account is positive and a wallet's custody account negative; each posting sums to 0 per asset.
-- Locks: none on existing data (new schema). Duration: milliseconds.
-- Growth: uniqueness lives in narrow tables that are never partitioned (postings: idem_key; effects: identity). The wide
-- ones (ledger_entries, effect_answers, events) are keyed so that they can be partitioned by their parent's id later.

-- Time that decides. A test database (settings.test_database) honours a session's offset; a real one never does.
create table payonce.settings (
  name text primary key,
  value text not null
);

create function payonce.shifted_now(shift text) returns timestamptz
language plpgsql volatile as $$
begin
  if exists (select 1 from payonce.settings where name = 'test_database' and value = 'true') then
    return clock_timestamp() + make_interval(secs => shift::float8 / 1000);
  end if;
  return clock_timestamp();
end $$;
-- One SQL expression, so that the planner writes it in place of each call: a payment asks for the time some thirty times.
create function payonce.now() returns timestamptz
language sql volatile as $$
  select case when coalesce(current_setting('payonce.clock_shift_ms', true), '') = '' then clock_timestamp()
         else payonce.shifted_now(current_setting('payonce.clock_shift_ms', true)) end
$$;

create function payonce.refuse_change() returns trigger
language plpgsql as $$
begin
  raise exception 'append_only: % of % is refused', tg_op, tg_table_name using errcode = 'P0A01', constraint = tg_table_name || '_append_only';
end $$;

create table payonce.partners (
  id text primary key,
  name text not null check (char_length(name) between 1 and 200),
  time_zone text not null default 'UTC',
  created_at timestamptz not null default payonce.now()
);

create table payonce.assets (
  id text primary key,
  code text not null unique check (code ~ '^[A-Za-z0-9._-]{1,40}$'),
  chain text not null,
  contract text,
  decimals smallint not null check (decimals between 0 and 36),
  created_at timestamptz not null default payonce.now(),
  constraint assets_chain_contract unique nulls not distinct (chain, contract)
);

-- H9: decimals are frozen per (chain, contract); a changed figure would make 100 times too much of every amount.
create function payonce.assets_frozen() returns trigger
language plpgsql as $$
begin
  raise exception 'asset % is frozen: decimals, chain and contract never change', old.id
    using errcode = 'P0A02', constraint = 'assets_frozen';
end $$;
create trigger assets_frozen before update of id, chain, contract, decimals on payonce.assets
  for each row when ((old.id, old.chain, old.contract, old.decimals) is distinct from (new.id, new.chain, new.contract, new.decimals))
  execute function payonce.assets_frozen();
create trigger assets_kept before delete on payonce.assets
  for each row execute function payonce.refuse_change();

create table payonce.accounts (
  id bigint generated always as identity primary key,
  code text not null check (char_length(code) between 1 and 200),
  asset_id text not null references payonce.assets (id),
  partner_id text references payonce.partners (id),
  balance numeric(78,0) not null default 0,
  held numeric(78,0) not null default 0 check (held >= 0),
  deficit numeric(78,0) not null default 0 check (deficit >= 0),
  floor numeric(78,0),
  seq bigint not null default 0,
  created_at timestamptz not null default payonce.now(),
  constraint accounts_code unique (code, asset_id),
  constraint accounts_floor check (floor is null or balance - held >= floor - deficit)
) with (fillfactor = 50);
create index accounts_partner on payonce.accounts (partner_id, asset_id) where partner_id is not null;
create trigger accounts_kept before delete on payonce.accounts
  for each row execute function payonce.refuse_change();
create trigger accounts_no_truncate before truncate on payonce.accounts
  for each statement execute function payonce.refuse_change();
create trigger accounts_frozen before update of id, code, asset_id, partner_id on payonce.accounts
  for each row execute function payonce.refuse_change();

create table payonce.postings (
  id bigint generated always as identity primary key,
  idem_key text collate "C" not null constraint postings_idem_key unique check (char_length(idem_key) between 1 and 80),
  reference text not null,
  effect_id bigint,
  reverses bigint references payonce.postings (id),
  created_at timestamptz not null default payonce.now()
);
-- L8: a posting is reversed once.
create unique index postings_reverses on payonce.postings (reverses) where reverses is not null;
create index postings_effect on payonce.postings (effect_id) where effect_id is not null;
create trigger postings_append_only before update or delete on payonce.postings
  for each row execute function payonce.refuse_change();
create trigger postings_no_truncate before truncate on payonce.postings
  for each statement execute function payonce.refuse_change();

create table payonce.ledger_entries (
  posting_id bigint not null,
  account_id bigint not null,
  asset_id text not null,
  seq bigint not null,
  amount numeric(78,0) not null constraint ledger_entries_amount check (amount <> 0),
  balance_after numeric(78,0) not null,
  created_at timestamptz not null default payonce.now(),
  constraint ledger_entries_pkey primary key (account_id, seq),
  constraint ledger_entries_once unique (posting_id, account_id, asset_id)
);
create trigger ledger_entries_append_only before update or delete on payonce.ledger_entries
  for each row execute function payonce.refuse_change();
create trigger ledger_entries_no_truncate before truncate on payonce.ledger_entries
  for each statement execute function payonce.refuse_change();

-- A posting's entries arrive in one statement, sum to 0 per asset, and none is added later; each continues its account's
-- chain link by link, from the entry before the first to the account row's own balance and seq. (A deferred row trigger cost
-- three times as much; foreign keys to postings and accounts, checked row by row, a quarter of all posting. Both parents are
-- looked up here anyway, and neither can be deleted, emptied or renumbered. Scalar subqueries, not EXISTS: the planner hashes
-- an EXISTS under OR, which reads the whole table.)
create function payonce.ledger_entries_whole() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  bad record;
begin
  select g.posting_id, g.is_balanced into bad
  from (
    select s.posting_id, bool_and(s.total = 0) as is_balanced, sum(s.lines) as lines
    from (select posting_id, asset_id, sum(amount) as total, count(*) as lines from added group by posting_id, asset_id) s
    group by s.posting_id
  ) g
  where not g.is_balanced
     or g.lines <> (select count(*) from payonce.ledger_entries e where e.posting_id = g.posting_id)
     or (select p.id from payonce.postings p where p.id = g.posting_id) is null
  limit 1;
  if found and not bad.is_balanced then
    raise exception 'posting % does not sum to 0 in each asset', bad.posting_id
      using errcode = 'P0A03', constraint = 'ledger_entries_balanced';
  elsif found then
    raise exception 'posting % is closed or does not exist: no entry can be added', bad.posting_id
      using errcode = 'P0A04', constraint = 'ledger_entries_closed';
  end if;

  -- Of an unbroken run, seq less the entry's place and balance_after less the sum so far are the same for all: what was before.
  select g.account_id into bad
  from (
    select l.account_id, min(l.asset_id) as asset_id, min(l.seq_before) as seq_before, min(l.balance_before) as balance_before,
           count(*) as lines, sum(l.amount) as total,
           min(l.seq_before) = max(l.seq_before) and min(l.balance_before) = max(l.balance_before)
             and min(l.asset_id) = max(l.asset_id) as is_unbroken
    from (
      select account_id, asset_id, amount, seq - row_number() over chain as seq_before,
             balance_after - sum(amount) over chain as balance_before
      from added window chain as (partition by account_id order by seq rows unbounded preceding)
    ) l
    group by l.account_id
  ) g
  where not g.is_unbroken
     or g.balance_before is distinct from case when g.seq_before = 0 then 0 else (
          select e.balance_after from payonce.ledger_entries e where e.account_id = g.account_id and e.seq = g.seq_before) end
     or g.balance_before + g.total is distinct from (
          select c.balance from payonce.accounts c
          where c.id = g.account_id and c.asset_id = g.asset_id and c.seq = g.seq_before + g.lines)
  limit 1;
  if found then
    raise exception 'entries of account % do not continue its chain', bad.account_id
      using errcode = 'P0A05', constraint = 'ledger_entries_chain';
  end if;
  return null;
end $$;
create trigger ledger_entries_whole after insert on payonce.ledger_entries
  referencing new table as added for each statement execute function payonce.ledger_entries_whole();

create table payonce.holds (
  id bigint generated always as identity primary key,
  key text not null constraint holds_key unique check (char_length(key) between 1 and 200),
  account_id bigint not null references payonce.accounts (id),
  amount numeric(78,0) not null check (amount > 0),
  state text not null default 'open' check (state in ('open', 'posted', 'voided')),
  created_at timestamptz not null default payonce.now(),
  ended_at timestamptz,
  check ((state = 'open') = (ended_at is null))
) with (fillfactor = 80);
create index holds_open on payonce.holds (account_id) where state = 'open';

-- J4: terminal stays terminal; who, how much and where never change.
create function payonce.holds_guard() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or (old.key, old.account_id, old.amount) is distinct from (new.key, new.account_id, new.amount) then
    raise exception 'hold % is frozen', old.key using errcode = 'P0A06', constraint = 'holds_frozen';
  end if;
  if old.state <> 'open' then
    raise exception 'hold % has ended as %', old.key, old.state using errcode = 'P0A06', constraint = 'holds_terminal';
  end if;
  return new;
end $$;
create trigger holds_guard before update or delete on payonce.holds
  for each row execute function payonce.holds_guard();
