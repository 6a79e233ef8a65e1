-- 0012 statements: what a bank says moved on our account there, as files, statements and lines, and what comparing it found.
-- Why: a provider's answers are its word about single requests; its statement is its word about the money. Nothing here books
-- or settles: it is compared. Locks: none on existing data but `effects` for its new index. Duration: the index, one pass over
-- `effects`.

-- The same file is taken once, whoever brings it.
create table payonce.statement_files (
  sha256 text primary key check (sha256 ~ '^[0-9a-f]{64}$'),
  rail text not null references payonce.rails (name),
  name text not null,
  format text not null,
  imported_by text not null,
  imported_at timestamptz not null default payonce.now()
);
create trigger statement_files_append_only before update or delete on payonce.statement_files
  for each row execute function payonce.refuse_change();
create trigger statement_files_no_truncate before truncate on payonce.statement_files
  for each statement execute function payonce.refuse_change();

-- A file has one or several. What it says of its balances adds up to the unit, or the file was refused.
create table payonce.statements (
  id bigint generated always as identity primary key,
  file_sha256 text not null references payonce.statement_files (sha256),
  position int not null check (position >= 1),
  rail text not null references payonce.rails (name),
  account text not null,
  asset_id text not null references payonce.assets (id),
  name text,
  sequence bigint,
  from_day date not null,
  to_day date not null check (to_day >= from_day),
  opening numeric(78,0),
  closing numeric(78,0),
  moved numeric(78,0) not null,
  constraint statements_position unique (file_sha256, position),
  constraint statements_balances_whole check ((opening is null) = (closing is null)),
  constraint statements_add_up check (opening is null or opening + moved = closing)
);
create index statements_rail on payonce.statements (rail, from_day, to_day);
create trigger statements_append_only before update or delete on payonce.statements
  for each row execute function payonce.refuse_change();
create trigger statements_no_truncate before truncate on payonce.statements
  for each statement execute function payonce.refuse_change();

-- One movement on the account, however many files show it. `line_key`: the bank's own reference, or the day and what the line
-- says, each with its ordinal among equal ones of the file (src/audit/statements/line-key.ts).
create table payonce.statement_lines (
  id bigint generated always as identity primary key,
  rail text not null references payonce.rails (name),
  line_key text not null,
  asset_id text not null references payonce.assets (id),
  direction text not null check (direction in ('out', 'in')),
  amount numeric(78,0) not null check (amount > 0),
  booked_on date not null,
  value_on date,
  own_reference text,
  -- every reference that stands on it, its own included
  refs text[] not null,
  counterparty_name text,
  counterparty_account text,
  remittance text,
  is_reversal boolean not null,
  is_charge boolean not null,
  return_reason text,
  constraint statement_lines_once unique (rail, line_key)
);
create index statement_lines_booked on payonce.statement_lines (rail, booked_on, id);
create index statement_lines_refs on payonce.statement_lines using gin (refs);
create trigger statement_lines_append_only before update or delete on payonce.statement_lines
  for each row execute function payonce.refuse_change();
create trigger statement_lines_no_truncate before truncate on payonce.statement_lines
  for each statement execute function payonce.refuse_change();

-- Where each line stands: overlapping statements show the same one.
create table payonce.statement_places (
  statement_id bigint not null references payonce.statements (id),
  ordinal int not null check (ordinal >= 1),
  line_id bigint not null references payonce.statement_lines (id),
  place text not null,
  primary key (statement_id, ordinal),
  constraint statement_places_once unique (statement_id, line_id)
);
create index statement_places_line on payonce.statement_places (line_id);
create trigger statement_places_append_only before update or delete on payonce.statement_places
  for each row execute function payonce.refuse_change();
create trigger statement_places_no_truncate before truncate on payonce.statement_places
  for each statement execute function payonce.refuse_change();

create table payonce.reconcile_reports (
  id bigint generated always as identity primary key,
  rail text not null references payonce.rails (name),
  from_day date not null,
  to_day date not null,
  findings int not null check (findings >= 0),
  report jsonb not null,
  made_at timestamptz not null default payonce.now()
);
create index reconcile_reports_rail on payonce.reconcile_reports (rail, id);
create trigger reconcile_reports_append_only before update or delete on payonce.reconcile_reports
  for each row execute function payonce.refuse_change();
create trigger reconcile_reports_no_truncate before truncate on payonce.reconcile_reports
  for each statement execute function payonce.refuse_change();

-- Effects that a statement can show, by time. Chains' effects have no such key and are not in it.
create index effects_keyed on payonce.effects (rail, sealed_at) where expect ? 'key';
