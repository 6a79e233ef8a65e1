-- The schema "payonce" as the migrations leave it, printed from PostgreSQL's catalog by `npm run schema`.
-- For reading and comparing: a migration's effect shows here as a diff. Only migrations/ is ever run.

-- tables, their indexes and triggers

create table payonce.accounts (
  id bigint not null generated always as identity,
  code text not null,
  asset_id text not null,
  partner_id text,
  balance numeric(78,0) not null default 0,
  held numeric(78,0) not null default 0,
  deficit numeric(78,0) not null default 0,
  floor numeric(78,0),
  seq bigint not null default 0,
  created_at timestamp with time zone not null default payonce.now(),
  constraint accounts_pkey PRIMARY KEY (id),
  constraint accounts_code UNIQUE (code, asset_id),
  constraint accounts_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint accounts_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint accounts_code_check CHECK (((char_length(code) >= 1) AND (char_length(code) <= 200))),
  constraint accounts_deficit_check CHECK ((deficit >= (0)::numeric)),
  constraint accounts_floor CHECK (((floor IS NULL) OR ((balance - held) >= (floor - deficit)))),
  constraint accounts_held_check CHECK ((held >= (0)::numeric))
) with (fillfactor=50);
CREATE INDEX accounts_partner ON payonce.accounts USING btree (partner_id, asset_id) WHERE (partner_id IS NOT NULL);
CREATE TRIGGER accounts_frozen BEFORE UPDATE OF id, code, asset_id, partner_id ON payonce.accounts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER accounts_kept BEFORE DELETE ON payonce.accounts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER accounts_no_truncate BEFORE TRUNCATE ON payonce.accounts FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.accruals (
  programme integer not null,
  source_id text collate "C" not null,
  pool_id bigint not null,
  seq bigint not null,
  volume numeric(78,0) not null,
  digest bytea not null,
  occurred_at timestamp with time zone not null,
  at timestamp with time zone not null default payonce.now(),
  constraint accruals_once PRIMARY KEY (programme, source_id),
  constraint accruals_place UNIQUE (pool_id, seq),
  constraint accruals_source_id_check CHECK (((char_length(source_id) >= 1) AND (char_length(source_id) <= 128))),
  constraint accruals_volume CHECK ((volume > (0)::numeric))
);
CREATE TRIGGER accruals_append_only BEFORE UPDATE ON payonce.accruals FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER accruals_kept BEFORE DELETE ON payonce.accruals FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER accruals_no_truncate BEFORE TRUNCATE ON payonce.accruals FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER accruals_whole AFTER INSERT ON payonce.accruals REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.accruals_whole();

create table payonce.addresses (
  id text not null,
  chain text not null,
  address text not null,
  kind text not null,
  partner_id text,
  user_ref text,
  created_at timestamp with time zone not null default payonce.now(),
  constraint addresses_pkey PRIMARY KEY (id),
  constraint addresses_chain_address UNIQUE (chain, address),
  constraint addresses_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint addresses_check CHECK (((kind <> 'DEPOSIT'::text) OR (partner_id IS NOT NULL))),
  constraint addresses_kind_check CHECK ((kind = ANY (ARRAY['MASTER'::text, 'DEPOSIT'::text, 'SETTLEMENT'::text, 'GAS'::text, 'RELAYER'::text, 'ADMIN'::text])))
);
CREATE INDEX addresses_not_deposits ON payonce.addresses USING btree (chain, address) WHERE (kind <> 'DEPOSIT'::text);
CREATE INDEX addresses_partner ON payonce.addresses USING btree (partner_id, id) WHERE (partner_id IS NOT NULL);
CREATE TRIGGER addresses_frozen BEFORE UPDATE OF chain, address, partner_id ON payonce.addresses FOR EACH ROW WHEN ((((old.chain IS DISTINCT FROM new.chain) OR (old.address IS DISTINCT FROM new.address)) OR (old.partner_id IS DISTINCT FROM new.partner_id))) EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER addresses_kept BEFORE DELETE ON payonce.addresses FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER addresses_no_truncate BEFORE TRUNCATE ON payonce.addresses FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.alerts (
  id bigint not null generated always as identity,
  kind text not null,
  key text not null,
  message text not null,
  first_at timestamp with time zone not null default payonce.now(),
  last_at timestamp with time zone not null default payonce.now(),
  times bigint not null default 1,
  cleared_at timestamp with time zone,
  constraint alerts_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX alerts_open ON payonce.alerts USING btree (kind, key) WHERE (cleared_at IS NULL);

create table payonce.allowances (
  id text not null,
  proposal_id text not null,
  step smallint not null,
  rail text not null,
  wallet text not null,
  relayer text not null,
  asset_id text not null,
  units numeric(78,0) not null,
  then_units numeric(78,0),
  lowers boolean not null,
  constraint allowances_pkey PRIMARY KEY (id),
  constraint allowances_proposal_id_step_key UNIQUE (proposal_id, step),
  constraint allowances_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint allowances_check CHECK ((relayer <> wallet)),
  constraint allowances_check1 CHECK (((then_units IS NULL) OR ((then_units > (0)::numeric) AND (units = (0)::numeric) AND (step = 1)))),
  constraint allowances_step_check CHECK ((step = ANY (ARRAY[1, 2]))),
  constraint allowances_units_check CHECK (((units >= (0)::numeric) AND (units < ((2)::numeric ^ (256)::numeric))))
);
CREATE TRIGGER allowances_append_only BEFORE DELETE OR UPDATE ON payonce.allowances FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER allowances_no_truncate BEFORE TRUNCATE ON payonce.allowances FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.api_keys (
  id text not null,
  partner_id text not null,
  key_hash text not null,
  hint text not null,
  created_at timestamp with time zone not null default payonce.now(),
  revoked_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_key_hash_key UNIQUE (key_hash),
  constraint api_keys_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint api_keys_of_a_partner CHECK ((partner_id <> 'par_own'::text))
);

create table payonce.asset_policies (
  asset_id text not null,
  partner_id text not null default '*'::text,
  rail text not null,
  wallet text not null,
  withdrawal_min numeric(78,0) not null default 1,
  withdrawal_max numeric(78,0) not null,
  withdrawal_day_max numeric(78,0) not null,
  withdrawal_fee_flat numeric(78,0) not null default 0,
  withdrawal_fee_bp integer not null default 0,
  deposit_fee_flat numeric(78,0) not null default 0,
  deposit_fee_bp integer not null default 0,
  own_address_policy text not null default 'refuse'::text,
  relayers text[] not null default '{}'::text[],
  constraint asset_policies_pkey PRIMARY KEY (asset_id, partner_id),
  constraint asset_policies_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint asset_policies_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint asset_policies_check CHECK ((withdrawal_max >= withdrawal_min)),
  constraint asset_policies_deposit_fee_bp_check CHECK (((deposit_fee_bp >= 0) AND (deposit_fee_bp <= 10000))),
  constraint asset_policies_deposit_fee_flat_check CHECK ((deposit_fee_flat >= (0)::numeric)),
  constraint asset_policies_own_address_policy_check CHECK ((own_address_policy = ANY (ARRAY['refuse'::text, 'allow_deposit_addresses'::text]))),
  constraint asset_policies_withdrawal_fee_bp_check CHECK (((withdrawal_fee_bp >= 0) AND (withdrawal_fee_bp <= 10000))),
  constraint asset_policies_withdrawal_fee_flat_check CHECK ((withdrawal_fee_flat >= (0)::numeric)),
  constraint asset_policies_withdrawal_min_check CHECK ((withdrawal_min > (0)::numeric))
);

create table payonce.assets (
  id text not null,
  code text not null,
  chain text not null,
  contract text,
  decimals smallint not null,
  created_at timestamp with time zone not null default payonce.now(),
  constraint assets_pkey PRIMARY KEY (id),
  constraint assets_chain_contract UNIQUE NULLS NOT DISTINCT (chain, contract),
  constraint assets_code_check CHECK ((code ~ '^[A-Za-z0-9._-]{1,40}$'::text)),
  constraint assets_decimals_check CHECK (((decimals >= 0) AND (decimals <= 36)))
);
CREATE INDEX assets_code ON payonce.assets USING btree (code);
CREATE TRIGGER assets_frozen BEFORE UPDATE OF id, chain, contract, decimals ON payonce.assets FOR EACH ROW WHEN (((((old.id IS DISTINCT FROM new.id) OR (old.chain IS DISTINCT FROM new.chain)) OR (old.contract IS DISTINCT FROM new.contract)) OR (old.decimals IS DISTINCT FROM new.decimals))) EXECUTE FUNCTION payonce.assets_frozen();
CREATE TRIGGER assets_kept BEFORE DELETE ON payonce.assets FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER assets_no_truncate BEFORE TRUNCATE ON payonce.assets FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.audit_head (
  one boolean not null default true,
  seq bigint not null default 0,
  hash text not null default repeat('0'::text, 64),
  constraint audit_head_pkey PRIMARY KEY (one),
  constraint audit_head_one_check CHECK (one)
);
CREATE TRIGGER audit_head_no_truncate BEFORE TRUNCATE ON payonce.audit_head FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.audit_log (
  seq bigint not null,
  at timestamp with time zone not null,
  actor text not null,
  action text not null,
  object text not null,
  detail jsonb,
  detail_digest text not null,
  hash text not null,
  constraint audit_log_pkey PRIMARY KEY (seq)
);
CREATE TRIGGER audit_guard BEFORE DELETE OR UPDATE ON payonce.audit_log FOR EACH ROW EXECUTE FUNCTION payonce.audit_guard();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON payonce.audit_log FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.case_notes (
  id bigint not null generated always as identity,
  case_id text not null,
  operator_id text not null,
  note text not null,
  at timestamp with time zone not null default payonce.now(),
  constraint case_notes_pkey PRIMARY KEY (id),
  constraint case_notes_case_id_fkey FOREIGN KEY (case_id) REFERENCES payonce.cases(id),
  constraint case_notes_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES payonce.operators(id),
  constraint case_notes_note_check CHECK (((char_length(note) >= 1) AND (char_length(note) <= 4000)))
);
CREATE TRIGGER case_notes_no_truncate BEFORE TRUNCATE ON payonce.case_notes FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.cases (
  id text not null,
  kind text not null,
  severity integer not null,
  subject_key text not null,
  effect_id bigint,
  partner_id text,
  asset_id text,
  amount numeric(78,0),
  summary text not null,
  opened_at timestamp with time zone not null default payonce.now(),
  last_seen_at timestamp with time zone not null default payonce.now(),
  closed_at timestamp with time zone,
  closed_how text,
  constraint cases_pkey PRIMARY KEY (id),
  constraint cases_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint cases_check CHECK (((closed_at IS NULL) = (closed_how IS NULL))),
  constraint cases_severity_check CHECK (((severity >= 1) AND (severity <= 3)))
);
CREATE INDEX cases_effect ON payonce.cases USING btree (effect_id) WHERE (effect_id IS NOT NULL);
CREATE INDEX cases_list ON payonce.cases USING btree (opened_at, id);
CREATE UNIQUE INDEX cases_open ON payonce.cases USING btree (kind, subject_key) WHERE (closed_at IS NULL);
CREATE TRIGGER cases_kept BEFORE DELETE ON payonce.cases FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER cases_no_truncate BEFORE TRUNCATE ON payonce.cases FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.chain_checks (
  chain text not null,
  wallet text not null,
  next_block bigint,
  next_at timestamp with time zone not null,
  hurried_at timestamp with time zone,
  constraint chain_checks_pkey PRIMARY KEY (chain, wallet),
  constraint chain_checks_next_block_check CHECK ((next_block >= 1))
);

create table payonce.chain_findings (
  id bigint not null generated always as identity,
  report_id bigint not null,
  finding_key text not null,
  kind text not null,
  direction text,
  partner_id text,
  asset_id text not null,
  amount numeric(78,0) not null,
  block_number bigint,
  tx_hash text,
  "position" integer,
  effect_id bigint,
  detail text not null,
  constraint chain_findings_pkey PRIMARY KEY (id),
  constraint chain_findings_once UNIQUE (report_id, finding_key),
  constraint chain_findings_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint chain_findings_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint chain_findings_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint chain_findings_report_id_fkey FOREIGN KEY (report_id) REFERENCES payonce.chain_reports(id),
  constraint chain_findings_direction_check CHECK ((direction = ANY (ARRAY['out'::text, 'in'::text])))
);
CREATE INDEX chain_findings_key ON payonce.chain_findings USING btree (finding_key);
CREATE TRIGGER chain_findings_append_only BEFORE DELETE OR UPDATE ON payonce.chain_findings FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER chain_findings_no_truncate BEFORE TRUNCATE ON payonce.chain_findings FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.chain_repairs (
  finding_key text not null,
  finding_id bigint not null,
  proposal_id text not null,
  booked_as text not null,
  partner_id text,
  effect_id bigint,
  tx_hash text,
  posting_id bigint,
  made_at timestamp with time zone not null default payonce.now(),
  constraint chain_repairs_pkey PRIMARY KEY (finding_key),
  constraint chain_repairs_finding_id_key UNIQUE (finding_id),
  constraint chain_repairs_proposal_id_key UNIQUE (proposal_id),
  constraint chain_repairs_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint chain_repairs_finding_id_fkey FOREIGN KEY (finding_id) REFERENCES payonce.chain_findings(id),
  constraint chain_repairs_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint chain_repairs_posting_id_fkey FOREIGN KEY (posting_id) REFERENCES payonce.postings(id),
  constraint chain_repairs_proposal_id_fkey FOREIGN KEY (proposal_id) REFERENCES payonce.proposals(id),
  constraint chain_repairs_booked_as_check CHECK ((booked_as = ANY (ARRAY['loss'::text, 'partner'::text, 'treasury'::text, 'suspense'::text, 'gas'::text, 'own'::text]))),
  constraint chain_repairs_partner CHECK (((booked_as = 'partner'::text) = (partner_id IS NOT NULL))),
  constraint chain_repairs_posted CHECK (((booked_as = 'own'::text) = (posting_id IS NULL)))
);
CREATE UNIQUE INDEX chain_repairs_posting ON payonce.chain_repairs USING btree (posting_id) WHERE (posting_id IS NOT NULL);
CREATE INDEX chain_repairs_tx ON payonce.chain_repairs USING btree (tx_hash) WHERE (tx_hash IS NOT NULL);
CREATE TRIGGER chain_repairs_append_only BEFORE DELETE OR UPDATE ON payonce.chain_repairs FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER chain_repairs_no_truncate BEFORE TRUNCATE ON payonce.chain_repairs FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.chain_reports (
  id bigint not null generated always as identity,
  chain text not null,
  wallet text not null,
  from_block bigint not null,
  to_block bigint not null,
  to_hash text not null,
  findings integer not null,
  report jsonb not null,
  made_at timestamp with time zone not null default payonce.now(),
  constraint chain_reports_pkey PRIMARY KEY (id),
  constraint chain_reports_check CHECK ((to_block >= (from_block - 1))),
  constraint chain_reports_findings_check CHECK ((findings >= 0)),
  constraint chain_reports_from_block_check CHECK ((from_block >= 1))
);
CREATE INDEX chain_reports_wallet ON payonce.chain_reports USING btree (chain, wallet, id);
CREATE TRIGGER chain_reports_append_only BEFORE DELETE OR UPDATE ON payonce.chain_reports FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER chain_reports_no_truncate BEFORE TRUNCATE ON payonce.chain_reports FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.chain_transfers (
  id bigint not null generated always as identity,
  chain text not null,
  tx_hash text not null,
  "position" integer not null,
  block_number bigint not null,
  block_hash text not null,
  asset_id text not null,
  from_address text not null,
  to_address text not null,
  amount numeric(78,0) not null,
  class text not null,
  class_reason text not null,
  final_at timestamp with time zone,
  gone_at timestamp with time zone,
  seen_at timestamp with time zone not null default payonce.now(),
  sender_class text,
  sender_reason text,
  effect_id bigint,
  constraint chain_transfers_pkey PRIMARY KEY (id),
  constraint chain_transfers_place UNIQUE (chain, tx_hash, "position"),
  constraint chain_transfers_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint chain_transfers_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint chain_transfers_amount_check CHECK ((amount > (0)::numeric)),
  constraint chain_transfers_position_check CHECK (("position" >= '-1'::integer)),
  constraint chain_transfers_sender_class_check CHECK ((sender_class = ANY (ARRAY['OWN_EFFECT'::text, 'FUNDING'::text, 'UNKNOWN_INTERNAL'::text, 'UNKNOWN_OUTBOUND'::text]))),
  constraint chain_transfers_sender_whole CHECK (((sender_class IS NULL) = (sender_reason IS NULL)))
);
CREATE INDEX chain_transfers_block ON payonce.chain_transfers USING btree (chain, block_number);
CREATE INDEX chain_transfers_effect ON payonce.chain_transfers USING btree (effect_id) WHERE (effect_id IS NOT NULL);
CREATE INDEX chain_transfers_open ON payonce.chain_transfers USING btree (chain, block_number) WHERE ((final_at IS NULL) AND (gone_at IS NULL));
CREATE TRIGGER chain_transfers_guard BEFORE DELETE OR UPDATE ON payonce.chain_transfers FOR EACH ROW EXECUTE FUNCTION payonce.chain_transfers_guard();
CREATE TRIGGER chain_transfers_no_truncate BEFORE TRUNCATE ON payonce.chain_transfers FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.collection_terms (
  asset_id text not null,
  min numeric(78,0) not null,
  keep numeric(78,0) not null,
  every_ms bigint not null,
  stopped_at timestamp with time zone,
  next_at timestamp with time zone not null default payonce.now(),
  began_at timestamp with time zone,
  token bigint not null default 0,
  constraint collection_terms_pkey PRIMARY KEY (asset_id),
  constraint collection_terms_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint collection_terms_every_ms_check CHECK ((every_ms > 0)),
  constraint collection_terms_keep_check CHECK ((keep >= (0)::numeric)),
  constraint collection_terms_min_check CHECK ((min > (0)::numeric))
);

create table payonce.collections (
  id text not null,
  partner_id text not null,
  chain text not null,
  address text not null,
  asset_id text not null,
  ordinal integer not null,
  account_seq bigint not null,
  amount numeric(78,0) not null,
  destination text not null,
  made_at timestamp with time zone not null default payonce.now(),
  subject_type text not null default 'collection'::text,
  constraint collections_pkey PRIMARY KEY (id),
  constraint collections_once UNIQUE (asset_id, address, ordinal),
  constraint collections_address FOREIGN KEY (chain, address) REFERENCES payonce.addresses(chain, address),
  constraint collections_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint collections_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint collections_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint collections_amount_check CHECK ((amount > (0)::numeric)),
  constraint collections_ordinal_check CHECK ((ordinal >= 1)),
  constraint collections_subject_type_check CHECK ((subject_type = 'collection'::text))
);
CREATE INDEX collections_list ON payonce.collections USING btree (made_at DESC, id DESC);
CREATE TRIGGER collections_append_only BEFORE DELETE OR UPDATE ON payonce.collections FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER collections_no_truncate BEFORE TRUNCATE ON payonce.collections FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.creator_addresses (
  id bigint not null generated always as identity,
  creator_id text not null,
  chain text not null,
  address text not null,
  set_at timestamp with time zone not null default payonce.now(),
  constraint creator_addresses_pkey PRIMARY KEY (id),
  constraint creator_addresses_creator_id_fkey FOREIGN KEY (creator_id) REFERENCES payonce.creators(id)
);
CREATE INDEX creator_addresses_last ON payonce.creator_addresses USING btree (creator_id, chain, id DESC);
CREATE TRIGGER creator_addresses_append_only BEFORE UPDATE ON payonce.creator_addresses FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER creator_addresses_kept BEFORE DELETE ON payonce.creator_addresses FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER creator_addresses_no_truncate BEFORE TRUNCATE ON payonce.creator_addresses FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.creators (
  id text not null,
  partner_id text not null,
  external_id text not null,
  created_at timestamp with time zone not null default payonce.now(),
  constraint creators_pkey PRIMARY KEY (id),
  constraint creators_external UNIQUE (partner_id, external_id),
  constraint creators_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint creators_external_id_check CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 128)))
);
CREATE TRIGGER creators_append_only BEFORE UPDATE ON payonce.creators FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER creators_kept BEFORE DELETE ON payonce.creators FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER creators_no_truncate BEFORE TRUNCATE ON payonce.creators FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.database_marks (
  one boolean not null default true,
  system_identifier text not null,
  timeline integer not null,
  signed_at timestamp with time zone not null default payonce.now(),
  constraint database_marks_pkey PRIMARY KEY (one),
  constraint database_marks_one_check CHECK (one)
);

create table payonce.day_totals (
  partner_id text not null,
  asset_id text not null,
  day date not null,
  amount numeric(78,0) not null default 0,
  constraint day_totals_pkey PRIMARY KEY (partner_id, asset_id, day),
  constraint day_totals_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint day_totals_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint day_totals_amount_check CHECK ((amount >= (0)::numeric))
);
CREATE TRIGGER day_totals_no_truncate BEFORE TRUNCATE ON payonce.day_totals FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.deliveries (
  id bigint not null generated always as identity,
  event_id bigint not null,
  endpoint_id text not null,
  subject_type text not null,
  subject_id text not null,
  sequence bigint not null,
  state text not null default 'waiting'::text,
  attempts integer not null default 0,
  next_at timestamp with time zone not null default payonce.now(),
  lease_token bigint not null default 0,
  lease_until timestamp with time zone,
  last_status integer,
  last_error text,
  ended_at timestamp with time zone,
  constraint deliveries_pkey PRIMARY KEY (id),
  constraint deliveries_once UNIQUE (event_id, endpoint_id),
  constraint deliveries_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES payonce.endpoints(id),
  constraint deliveries_event_id_fkey FOREIGN KEY (event_id) REFERENCES payonce.events(id),
  constraint deliveries_check CHECK (((state = 'waiting'::text) = (ended_at IS NULL))),
  constraint deliveries_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'delivered'::text, 'dead'::text])))
) with (fillfactor=70);
CREATE INDEX deliveries_order ON payonce.deliveries USING btree (endpoint_id, subject_type, subject_id, sequence) WHERE (state = 'waiting'::text);
CREATE INDEX deliveries_queue ON payonce.deliveries USING btree (endpoint_id, next_at, id) WHERE (state = 'waiting'::text);
CREATE TRIGGER deliveries_no_truncate BEFORE TRUNCATE ON payonce.deliveries FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.deposit_edges (
  from_state text not null,
  to_state text not null,
  constraint deposit_edges_pkey PRIMARY KEY (from_state, to_state)
);
CREATE TRIGGER deposit_edges_append_only BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON payonce.deposit_edges FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.deposits (
  id text not null,
  transfer_id bigint not null,
  partner_id text not null,
  address_id text not null,
  asset_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0) not null default 0,
  state text not null default 'detected'::text,
  detected_at timestamp with time zone not null default payonce.now(),
  credited_at timestamp with time zone,
  reversed_at timestamp with time zone,
  subject_type text not null default 'deposit'::text,
  constraint deposits_pkey PRIMARY KEY (id),
  constraint deposits_transfer UNIQUE (transfer_id),
  constraint deposits_address_id_fkey FOREIGN KEY (address_id) REFERENCES payonce.addresses(id),
  constraint deposits_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint deposits_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint deposits_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint deposits_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES payonce.chain_transfers(id),
  constraint deposits_amount_check CHECK ((amount > (0)::numeric)),
  constraint deposits_check CHECK (((state = ANY (ARRAY['credited'::text, 'reversed'::text])) = (credited_at IS NOT NULL))),
  constraint deposits_fee_check CHECK ((fee >= (0)::numeric)),
  constraint deposits_state_check CHECK ((state = ANY (ARRAY['detected'::text, 'credited'::text, 'vanished'::text, 'reversed'::text]))),
  constraint deposits_subject_type_check CHECK ((subject_type = 'deposit'::text))
);
CREATE INDEX deposits_list ON payonce.deposits USING btree (partner_id, detected_at DESC, id DESC);
CREATE TRIGGER deposits_frozen BEFORE UPDATE ON payonce.deposits FOR EACH ROW WHEN ((((((((old.id IS DISTINCT FROM new.id) OR (old.transfer_id IS DISTINCT FROM new.transfer_id)) OR (old.partner_id IS DISTINCT FROM new.partner_id)) OR (old.address_id IS DISTINCT FROM new.address_id)) OR (old.asset_id IS DISTINCT FROM new.asset_id)) OR (old.detected_at IS DISTINCT FROM new.detected_at)) OR ((old.credited_at IS NOT NULL) AND (((old.amount IS DISTINCT FROM new.amount) OR (old.fee IS DISTINCT FROM new.fee)) OR (old.credited_at IS DISTINCT FROM new.credited_at))))) EXECUTE FUNCTION payonce.deposits_frozen();
CREATE TRIGGER deposits_guard BEFORE UPDATE OF state ON payonce.deposits FOR EACH ROW EXECUTE FUNCTION payonce.deposits_guard();
CREATE TRIGGER deposits_kept BEFORE DELETE ON payonce.deposits FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER deposits_no_truncate BEFORE TRUNCATE ON payonce.deposits FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.effect_answers (
  id bigint not null generated always as identity,
  effect_id bigint not null,
  send_number integer not null,
  lease_token bigint not null,
  operation text not null,
  source text not null,
  operator text not null,
  reach text not null,
  status integer,
  body text not null,
  variant_hash text,
  digest text not null,
  repeats integer not null default 1,
  received_at timestamp with time zone not null default payonce.now(),
  last_received_at timestamp with time zone not null default payonce.now(),
  observed text,
  observed_why text,
  refused text,
  constraint effect_answers_pkey PRIMARY KEY (id),
  constraint effect_answers_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint effect_answers_operation_check CHECK ((operation = ANY (ARRAY['send'::text, 'look'::text]))),
  constraint effect_answers_refused_check CHECK ((refused = ANY (ARRAY['at_once'::text, 'other'::text])))
);
CREATE INDEX effect_answers_effect ON payonce.effect_answers USING btree (effect_id, id);
CREATE TRIGGER effect_answers_kept BEFORE DELETE ON payonce.effect_answers FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER effect_answers_no_truncate BEFORE TRUNCATE ON payonce.effect_answers FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.effect_edges (
  from_state text not null,
  to_state text not null,
  constraint effect_edges_pkey PRIMARY KEY (from_state, to_state)
);
CREATE TRIGGER effect_edges_append_only BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON payonce.effect_edges FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.effect_evidence (
  id bigint not null generated always as identity,
  effect_id bigint not null,
  kind text not null,
  rank text not null,
  source text not null,
  operator text not null,
  object_id text,
  detail text not null,
  answer_id bigint,
  send_number integer not null,
  lease_token bigint not null,
  proposal_id text,
  at timestamp with time zone not null default payonce.now(),
  struck_by text,
  struck_at timestamp with time zone,
  constraint effect_evidence_pkey PRIMARY KEY (id),
  constraint effect_evidence_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint effect_evidence_kind_fkey FOREIGN KEY (kind) REFERENCES payonce.evidence_kinds(kind),
  constraint effect_evidence_proposal_id_fkey FOREIGN KEY (proposal_id) REFERENCES payonce.proposals(id),
  constraint effect_evidence_struck_by_fkey FOREIGN KEY (struck_by) REFERENCES payonce.proposals(id),
  constraint effect_evidence_struck_whole CHECK (((struck_by IS NULL) = (struck_at IS NULL)))
);
CREATE INDEX effect_evidence_effect ON payonce.effect_evidence USING btree (effect_id, id);
CREATE UNIQUE INDEX effect_evidence_struck_once ON payonce.effect_evidence USING btree (struck_by) WHERE (struck_by IS NOT NULL);
CREATE TRIGGER effect_evidence_no_truncate BEFORE TRUNCATE ON payonce.effect_evidence FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER evidence_counts AFTER INSERT ON payonce.effect_evidence REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.evidence_counts();
CREATE TRIGGER evidence_guard BEFORE DELETE OR UPDATE ON payonce.effect_evidence FOR EACH ROW EXECUTE FUNCTION payonce.evidence_guard();
CREATE TRIGGER evidence_rank AFTER INSERT ON payonce.effect_evidence REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.evidence_rank();

create table payonce.effect_history (
  effect_id bigint not null,
  seq integer not null,
  from_state text,
  to_state text not null,
  reason text,
  lease_token bigint not null,
  at timestamp with time zone not null default payonce.now(),
  constraint effect_history_pkey PRIMARY KEY (effect_id, seq),
  constraint effect_history_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id)
);
CREATE TRIGGER effect_history_append_only BEFORE DELETE OR UPDATE ON payonce.effect_history FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER effect_history_no_truncate BEFORE TRUNCATE ON payonce.effect_history FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.effect_variants (
  id bigint not null generated always as identity,
  effect_id bigint not null,
  kind text not null,
  hash text not null,
  raw bytea not null,
  to_address text not null,
  value numeric(78,0) not null,
  data text not null,
  gas_limit numeric(78,0) not null,
  max_fee numeric(78,0) not null,
  max_priority_fee numeric(78,0) not null,
  signed_at timestamp with time zone not null default payonce.now(),
  constraint effect_variants_pkey PRIMARY KEY (id),
  constraint effect_variants_hash UNIQUE (hash),
  constraint effect_variants_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint effect_variants_kind_check CHECK ((kind = ANY (ARRAY['original'::text, 'bump'::text, 'cancel'::text])))
);
CREATE INDEX effect_variants_effect ON payonce.effect_variants USING btree (effect_id, id);
CREATE TRIGGER effect_variants_append_only BEFORE DELETE OR UPDATE ON payonce.effect_variants FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER effect_variants_guard BEFORE INSERT ON payonce.effect_variants FOR EACH ROW EXECUTE FUNCTION payonce.effect_variants_guard();
CREATE TRIGGER effect_variants_no_truncate BEFORE TRUNCATE ON payonce.effect_variants FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.effects (
  id bigint not null generated always as identity,
  subject_type text not null,
  subject_id text not null,
  seq integer not null,
  partner_id text not null,
  rail text not null,
  state text not null default 'PENDING'::text,
  lane text,
  asset_id text not null,
  amount numeric(78,0) not null,
  destination text not null,
  wallet text not null,
  signer text not null,
  call jsonb,
  hold_key text,
  created_at timestamp with time zone not null default payonce.now(),
  lease_token bigint not null default 0,
  lease_until timestamp with time zone,
  next_at timestamp with time zone not null default payonce.now(),
  wait_reason text,
  failures integer not null default 0,
  identity text,
  payload bytea,
  expect jsonb,
  plan jsonb,
  nonce bigint,
  sealed_at timestamp with time zone,
  first_sent_at timestamp with time zone,
  send_count integer not null default 0,
  send_by timestamp with time zone,
  last_sent_at timestamp with time zone,
  no_send boolean not null default false,
  wanted text,
  testimonies integer not null default 0,
  evidence_version integer not null default 0,
  accepted_at timestamp with time zone,
  accepted_object text,
  included_at timestamp with time zone,
  last_unreadable boolean not null default false,
  believed_evidence bigint,
  lateness_until timestamp with time zone,
  fresh_look_at timestamp with time zone,
  watch_at timestamp with time zone,
  settled_by bigint,
  released_by bigint,
  release_rank text,
  ended_at timestamp with time zone,
  reopened_at timestamp with time zone,
  reopens integer not null default 0,
  contradicted_at timestamp with time zone,
  transitions integer not null default 1,
  constraint effects_pkey PRIMARY KEY (id),
  constraint effects_attempt UNIQUE (subject_type, subject_id, seq),
  constraint effects_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint effects_hold_key_fkey FOREIGN KEY (hold_key) REFERENCES payonce.holds(key),
  constraint effects_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint effects_subject FOREIGN KEY (subject_type, subject_id) REFERENCES payonce.subjects(type, id),
  constraint effects_amount_check CHECK ((amount >= (0)::numeric)),
  constraint effects_ended CHECK (((state = ANY (ARRAY['SETTLED'::text, 'RELEASED'::text])) = (ended_at IS NOT NULL))),
  constraint effects_pending_unsealed CHECK (((state <> 'PENDING'::text) OR (sealed_at IS NULL))),
  constraint effects_release_rank_check CHECK ((release_rank = ANY (ARRAY['dead'::text, 'believed'::text]))),
  constraint effects_released_named CHECK (((state <> 'RELEASED'::text) OR ((released_by IS NOT NULL) AND (release_rank IS NOT NULL)))),
  constraint effects_sealed_whole CHECK (((state <> ALL (ARRAY['SEALED'::text, 'SETTLED'::text])) OR ((identity IS NOT NULL) AND (payload IS NOT NULL) AND (expect IS NOT NULL) AND (sealed_at IS NOT NULL) AND (first_sent_at IS NOT NULL) AND (send_count >= 1)))),
  constraint effects_seq_check CHECK ((seq >= 1)),
  constraint effects_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'SEALED'::text, 'SETTLED'::text, 'RELEASED'::text]))),
  constraint effects_testimonies_check CHECK ((testimonies >= 0)),
  constraint effects_wanted_check CHECK ((wanted = ANY (ARRAY['look'::text, 'ask'::text, 'bump'::text, 'cancel'::text])))
) with (fillfactor=60);
CREATE INDEX effects_contradicted ON payonce.effects USING btree (rail, partner_id) WHERE (contradicted_at IS NOT NULL);
CREATE UNIQUE INDEX effects_identity ON payonce.effects USING btree (identity) WHERE (identity IS NOT NULL);
CREATE INDEX effects_keyed ON payonce.effects USING btree (rail, sealed_at) WHERE (expect ? 'key'::text);
CREATE UNIQUE INDEX effects_lane ON payonce.effects USING btree (lane) WHERE ((lane IS NOT NULL) AND (state = ANY (ARRAY['PENDING'::text, 'SEALED'::text])));
CREATE UNIQUE INDEX effects_nonce ON payonce.effects USING btree (rail, signer, nonce) WHERE (nonce IS NOT NULL);
CREATE UNIQUE INDEX effects_one_live ON payonce.effects USING btree (subject_type, subject_id) WHERE (state <> 'RELEASED'::text);
CREATE INDEX effects_partner ON payonce.effects USING btree (partner_id, id);
CREATE INDEX effects_pending ON payonce.effects USING btree (rail, signer, next_at, id) WHERE (state = 'PENDING'::text);
CREATE INDEX effects_pending_partner ON payonce.effects USING btree (rail, signer, partner_id, next_at, id) WHERE (state = 'PENDING'::text);
CREATE INDEX effects_sealed ON payonce.effects USING btree (rail, next_at, id) WHERE (state = 'SEALED'::text);
CREATE INDEX effects_unmined ON payonce.effects USING btree (rail, signer) WHERE ((state = 'SEALED'::text) AND (included_at IS NULL));
CREATE INDEX effects_watched ON payonce.effects USING btree (rail, watch_at, id) WHERE (watch_at IS NOT NULL);
CREATE TRIGGER effects_born AFTER INSERT ON payonce.effects REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.effects_born();
CREATE TRIGGER effects_guard BEFORE UPDATE OF state ON payonce.effects FOR EACH ROW EXECUTE FUNCTION payonce.effects_guard();
CREATE TRIGGER effects_immutable BEFORE UPDATE ON payonce.effects FOR EACH ROW WHEN ((((((((((((((old.subject_type IS DISTINCT FROM new.subject_type) OR (old.subject_id IS DISTINCT FROM new.subject_id)) OR (old.seq IS DISTINCT FROM new.seq)) OR (old.partner_id IS DISTINCT FROM new.partner_id)) OR (old.rail IS DISTINCT FROM new.rail)) OR (old.asset_id IS DISTINCT FROM new.asset_id)) OR (old.amount IS DISTINCT FROM new.amount)) OR (old.destination IS DISTINCT FROM new.destination)) OR (old.wallet IS DISTINCT FROM new.wallet)) OR (old.call IS DISTINCT FROM new.call)) OR (old.hold_key IS DISTINCT FROM new.hold_key)) OR (old.created_at IS DISTINCT FROM new.created_at)) OR (((old.sealed_at IS NOT NULL) OR (old.ended_at IS NOT NULL)) AND (old.signer <> new.signer)) OR ((old.sealed_at IS NOT NULL) AND (((((((old.identity IS DISTINCT FROM new.identity) OR (old.payload IS DISTINCT FROM new.payload)) OR (old.expect IS DISTINCT FROM new.expect)) OR (old.plan IS DISTINCT FROM new.plan)) OR (old.nonce IS DISTINCT FROM new.nonce)) OR (old.sealed_at IS DISTINCT FROM new.sealed_at)) OR (old.first_sent_at IS DISTINCT FROM new.first_sent_at))) OR (new.lease_token < old.lease_token) OR (new.send_count < old.send_count) OR (new.evidence_version < old.evidence_version) OR (new.reopens < old.reopens) OR ((new.transitions <> old.transitions) AND (new.state = old.state)) OR (old.no_send AND (NOT new.no_send)) OR ((old.contradicted_at IS NOT NULL) AND (new.contradicted_at IS DISTINCT FROM old.contradicted_at)) OR ((old.ended_at IS NOT NULL) AND (new.state = old.state) AND ((((old.settled_by IS DISTINCT FROM new.settled_by) OR (old.released_by IS DISTINCT FROM new.released_by)) OR (old.release_rank IS DISTINCT FROM new.release_rank)) OR (old.ended_at IS DISTINCT FROM new.ended_at))))) EXECUTE FUNCTION payonce.effects_immutable();
CREATE TRIGGER effects_kept BEFORE DELETE ON payonce.effects FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER effects_no_truncate BEFORE TRUNCATE ON payonce.effects FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER effects_testimonies BEFORE UPDATE OF testimonies, accepted_object ON payonce.effects FOR EACH ROW WHEN (((pg_trigger_depth() = 0) AND ((old.testimonies IS DISTINCT FROM new.testimonies) OR (old.accepted_object IS DISTINCT FROM new.accepted_object)))) EXECUTE FUNCTION payonce.effects_testimonies();

create table payonce.endpoints (
  id text not null,
  partner_id text not null,
  url text not null,
  secret_version integer not null default 1,
  created_at timestamp with time zone not null default payonce.now(),
  disabled_at timestamp with time zone,
  disabled_reason text,
  constraint endpoints_pkey PRIMARY KEY (id),
  constraint endpoints_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint endpoints_url_check CHECK ((url ~ '^https?://'::text))
);
CREATE INDEX endpoints_partner ON payonce.endpoints USING btree (partner_id) WHERE (disabled_at IS NULL);
CREATE TRIGGER endpoints_no_truncate BEFORE TRUNCATE ON payonce.endpoints FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.events (
  id bigint not null generated always as identity,
  event_id text not null,
  partner_id text not null,
  subject_type text not null,
  subject_id text not null,
  sequence bigint not null,
  type text not null,
  api_version text not null,
  body text not null,
  created_at timestamp with time zone not null default payonce.now(),
  constraint events_pkey PRIMARY KEY (id),
  constraint events_event_id_key UNIQUE (event_id),
  constraint events_subject_sequence UNIQUE (subject_type, subject_id, sequence),
  constraint events_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint events_subject FOREIGN KEY (subject_type, subject_id) REFERENCES payonce.subjects(type, id),
  constraint events_type_check CHECK ((type ~ '^[a-z_]+\.[a-z_]+$'::text))
);
CREATE INDEX events_partner ON payonce.events USING btree (partner_id, id);
CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE ON payonce.events FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER events_fan_out AFTER INSERT ON payonce.events REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.events_fan_out();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON payonce.events FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.evidence_kinds (
  kind text not null,
  says text not null,
  rank text not null,
  chain_final boolean not null default false,
  constraint evidence_kinds_pkey PRIMARY KEY (kind),
  constraint evidence_kinds_rank_check CHECK ((rank = ANY (ARRAY['none'::text, 'display'::text, 'word'::text, 'object'::text, 'believed'::text, 'dead'::text]))),
  constraint evidence_kinds_says_check CHECK ((says = ANY (ARRAY['nothing'::text, 'yes'::text, 'no'::text])))
);
CREATE TRIGGER evidence_kinds_append_only BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON payonce.evidence_kinds FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.holds (
  id bigint not null generated always as identity,
  key text not null,
  account_id bigint not null,
  amount numeric(78,0) not null,
  state text not null default 'open'::text,
  created_at timestamp with time zone not null default payonce.now(),
  ended_at timestamp with time zone,
  constraint holds_pkey PRIMARY KEY (id),
  constraint holds_key UNIQUE (key),
  constraint holds_account_id_fkey FOREIGN KEY (account_id) REFERENCES payonce.accounts(id),
  constraint holds_amount_check CHECK ((amount > (0)::numeric)),
  constraint holds_check CHECK (((state = 'open'::text) = (ended_at IS NULL))),
  constraint holds_key_check CHECK (((char_length(key) >= 1) AND (char_length(key) <= 200))),
  constraint holds_state_check CHECK ((state = ANY (ARRAY['open'::text, 'posted'::text, 'voided'::text])))
) with (fillfactor=80);
CREATE INDEX holds_open ON payonce.holds USING btree (account_id) WHERE (state = 'open'::text);
CREATE TRIGGER holds_guard BEFORE DELETE OR UPDATE ON payonce.holds FOR EACH ROW EXECUTE FUNCTION payonce.holds_guard();
CREATE TRIGGER holds_no_truncate BEFORE TRUNCATE ON payonce.holds FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.idempotency_keys (
  partner_id text not null,
  key text not null,
  operation text not null,
  fingerprint text not null,
  resource_type text,
  resource_id text,
  refusal jsonb,
  created_at timestamp with time zone not null default payonce.now(),
  constraint idempotency_keys_pkey PRIMARY KEY (partner_id, key),
  constraint idempotency_keys_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint idempotency_keys_answer CHECK (((resource_id IS NULL) <> (refusal IS NULL))),
  constraint idempotency_keys_key_check CHECK (((char_length(key) >= 1) AND (char_length(key) <= 255)))
);
CREATE TRIGGER idempotency_keys_append_only BEFORE DELETE OR UPDATE ON payonce.idempotency_keys FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER idempotency_keys_no_truncate BEFORE TRUNCATE ON payonce.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.inbox (
  id bigint not null generated always as identity,
  source text not null,
  external_id text not null,
  headers jsonb not null,
  body bytea not null,
  received_at timestamp with time zone not null default payonce.now(),
  redeliveries integer not null default 0,
  state text not null default 'new'::text,
  attempts integer not null default 0,
  next_at timestamp with time zone not null default payonce.now(),
  last_error text,
  done_at timestamp with time zone,
  constraint inbox_pkey PRIMARY KEY (id),
  constraint inbox_once UNIQUE (source, external_id),
  constraint inbox_state_check CHECK ((state = ANY (ARRAY['new'::text, 'done'::text, 'unmatched'::text, 'dead'::text])))
);
CREATE INDEX inbox_queue ON payonce.inbox USING btree (next_at, id) WHERE (state = ANY (ARRAY['new'::text, 'unmatched'::text]));
CREATE TRIGGER inbox_no_truncate BEFORE TRUNCATE ON payonce.inbox FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.ledger_entries (
  posting_id bigint not null,
  account_id bigint not null,
  asset_id text not null,
  seq bigint not null,
  amount numeric(78,0) not null,
  balance_after numeric(78,0) not null,
  created_at timestamp with time zone not null default payonce.now(),
  constraint ledger_entries_pkey PRIMARY KEY (account_id, seq),
  constraint ledger_entries_once UNIQUE (posting_id, account_id, asset_id),
  constraint ledger_entries_amount CHECK ((amount <> (0)::numeric))
);
CREATE TRIGGER ledger_entries_append_only BEFORE DELETE OR UPDATE ON payonce.ledger_entries FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON payonce.ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER ledger_entries_whole AFTER INSERT ON payonce.ledger_entries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.ledger_entries_whole();

create table payonce.migrations (
  id text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint migrations_pkey PRIMARY KEY (id)
);

create table payonce.needs (
  effect_id bigint not null,
  kind text not null,
  lane text not null,
  units numeric(78,0) not null,
  first_at timestamp with time zone not null default payonce.now(),
  last_at timestamp with time zone not null default payonce.now(),
  constraint needs_pkey PRIMARY KEY (effect_id),
  constraint needs_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint needs_kind_check CHECK ((kind = ANY (ARRAY['gas'::text, 'energy'::text]))),
  constraint needs_units_check CHECK ((units >= (0)::numeric))
);
CREATE INDEX needs_lane ON payonce.needs USING btree (lane);

create table payonce.operators (
  id text not null,
  name text not null,
  key_hash text not null,
  role text not null,
  disabled_at timestamp with time zone,
  created_at timestamp with time zone not null default payonce.now(),
  constraint operators_pkey PRIMARY KEY (id),
  constraint operators_key_hash_key UNIQUE (key_hash),
  constraint operators_name_key UNIQUE (name),
  constraint operators_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'operator'::text, 'approver'::text, 'admin'::text])))
);
CREATE TRIGGER operators_no_truncate BEFORE TRUNCATE ON payonce.operators FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.own_move_kinds (
  subject_type text not null,
  key_kind text not null,
  arrives_at text not null,
  constraint own_move_kinds_pkey PRIMARY KEY (subject_type),
  constraint own_move_kinds_key_kind_key UNIQUE (key_kind),
  constraint own_move_kinds_arrives_at_check CHECK ((arrives_at = ANY (ARRAY['custody'::text, 'gas'::text]))),
  constraint own_move_kinds_key_kind_check CHECK ((key_kind ~ '^[A-Z_]+$'::text))
);
CREATE TRIGGER own_move_kinds_append_only BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON payonce.own_move_kinds FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_deposit_orders (
  id text not null,
  partner_id text not null,
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  external_id text,
  user_ref text not null,
  amount numeric(78,0) not null,
  price numeric(78,0) not null,
  takes_part boolean not null,
  leg_min numeric(78,0) not null,
  fee_bp integer not null,
  fiat_decimals integer not null,
  pay_within_ms bigint not null,
  created_at timestamp with time zone not null default payonce.now(),
  expires_at timestamp with time zone not null,
  status text not null default 'PENDING'::text,
  remaining_amount numeric(78,0) not null,
  claim_token bigint not null default 0,
  claimed_at timestamp with time zone,
  waits_lp boolean not null default false,
  match_attempt_count integer not null default 0,
  next_at timestamp with time zone not null default payonce.now(),
  wait_reason text,
  matched_at timestamp with time zone,
  closed_at timestamp with time zone,
  close_reason text,
  subject_type text not null default 'deposit_order'::text,
  imported_as text,
  constraint p2p_deposit_orders_pkey PRIMARY KEY (id),
  constraint p2p_deposit_orders_market FOREIGN KEY (group_name, asset_id, fiat) REFERENCES payonce.p2p_markets(group_name, asset_id, fiat),
  constraint p2p_deposit_orders_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint p2p_deposit_orders_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint p2p_deposit_orders_amount_check CHECK ((amount > (0)::numeric)),
  constraint p2p_deposit_orders_check CHECK ((expires_at > created_at)),
  constraint p2p_deposit_orders_claimed CHECK (((status = 'MATCHING'::text) = (claimed_at IS NOT NULL))),
  constraint p2p_deposit_orders_closed CHECK ((((status = ANY (ARRAY['COMPLETED'::text, 'PARTIALLY_SETTLED'::text, 'EXPIRED'::text, 'CANCELLED'::text])) = (closed_at IS NOT NULL)) AND ((closed_at IS NULL) = (close_reason IS NULL)))),
  constraint p2p_deposit_orders_complete CHECK (((status <> 'COMPLETED'::text) OR (remaining_amount = (0)::numeric))),
  constraint p2p_deposit_orders_fee_bp_check CHECK (((fee_bp >= 0) AND (fee_bp <= 10000))),
  constraint p2p_deposit_orders_history CHECK (((imported_as IS DISTINCT FROM 'history'::text) OR (closed_at IS NOT NULL))),
  constraint p2p_deposit_orders_imported_as_check CHECK ((imported_as = ANY (ARRAY['history'::text, 'open'::text]))),
  constraint p2p_deposit_orders_leg_min_check CHECK ((leg_min > (0)::numeric)),
  constraint p2p_deposit_orders_match_attempt_count_check CHECK ((match_attempt_count >= 0)),
  constraint p2p_deposit_orders_pay_within_ms_check CHECK ((pay_within_ms > 0)),
  constraint p2p_deposit_orders_price_check CHECK ((price > (0)::numeric)),
  constraint p2p_deposit_orders_remaining CHECK (((remaining_amount >= (0)::numeric) AND (remaining_amount <= amount))),
  constraint p2p_deposit_orders_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'MATCHING'::text, 'MATCHED'::text, 'COMPLETED'::text, 'PARTIALLY_SETTLED'::text, 'EXPIRED'::text, 'CANCELLED'::text]))),
  constraint p2p_deposit_orders_subject_type_check CHECK ((subject_type = 'deposit_order'::text)),
  constraint p2p_deposit_orders_user_ref_check CHECK (((char_length(user_ref) >= 1) AND (char_length(user_ref) <= 200))),
  constraint p2p_deposit_orders_waiting CHECK (((NOT waits_lp) OR (status = 'MATCHING'::text)))
) with (fillfactor=70);
CREATE INDEX p2p_deposit_orders_claimed ON payonce.p2p_deposit_orders USING btree (claimed_at, id) WHERE (status = 'MATCHING'::text);
CREATE INDEX p2p_deposit_orders_expiring ON payonce.p2p_deposit_orders USING btree (expires_at, id) WHERE (status = 'PENDING'::text);
CREATE UNIQUE INDEX p2p_deposit_orders_external ON payonce.p2p_deposit_orders USING btree (partner_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX p2p_deposit_orders_list ON payonce.p2p_deposit_orders USING btree (partner_id, created_at DESC, id DESC);
CREATE INDEX p2p_deposit_orders_pending ON payonce.p2p_deposit_orders USING btree (next_at, id) WHERE (status = 'PENDING'::text);
CREATE INDEX p2p_deposit_orders_status ON payonce.p2p_deposit_orders USING btree (status, created_at);
CREATE TRIGGER p2p_deposit_orders_frozen BEFORE UPDATE OF partner_id, group_name, asset_id, fiat, amount, price, user_ref, external_id, created_at, takes_part, leg_min, fee_bp ON payonce.p2p_deposit_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_deposit_orders_guard BEFORE UPDATE OF status ON payonce.p2p_deposit_orders FOR EACH ROW EXECUTE FUNCTION payonce.p2p_guard('deposit_order', 'status');
CREATE TRIGGER p2p_deposit_orders_history BEFORE UPDATE ON payonce.p2p_deposit_orders FOR EACH ROW WHEN ((old.imported_as = 'history'::text)) EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_deposit_orders_import_frozen BEFORE UPDATE OF imported_as ON payonce.p2p_deposit_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_deposit_orders_kept BEFORE DELETE ON payonce.p2p_deposit_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_deposit_orders_no_truncate BEFORE TRUNCATE ON payonce.p2p_deposit_orders FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_edges (
  of text not null,
  from_state text not null,
  to_state text not null,
  constraint p2p_edges_pkey PRIMARY KEY (of, from_state, to_state),
  constraint p2p_edges_of_check CHECK ((of = ANY (ARRAY['deposit_order'::text, 'withdraw_order'::text, 'leg'::text])))
);
CREATE TRIGGER p2p_edges_append_only BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON payonce.p2p_edges FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_groups (
  name text not null,
  constraint p2p_groups_pkey PRIMARY KEY (name),
  constraint p2p_groups_name_check CHECK ((name ~ '^[a-z0-9_-]{1,40}$'::text))
);

create table payonce.p2p_import_lines (
  import_id bigint not null,
  line bigint not null,
  kind text not null,
  old_id text,
  deposit_old_id text,
  withdraw_old_id text,
  leg_old_id text,
  digest text not null,
  content text,
  is_repeat boolean not null default false,
  outcome text,
  reason text,
  constraint p2p_import_lines_pkey PRIMARY KEY (import_id, line),
  constraint p2p_import_lines_import_id_fkey FOREIGN KEY (import_id) REFERENCES payonce.p2p_imports(id),
  constraint p2p_import_lines_kind_check CHECK ((kind = ANY (ARRAY['deposit_order'::text, 'withdraw_order'::text, 'leg'::text, 'ledger'::text, 'unreadable'::text]))),
  constraint p2p_import_lines_line_check CHECK ((line > 0)),
  constraint p2p_import_lines_outcome_check CHECK ((outcome = ANY (ARRAY['imported'::text, 'same'::text, 'doubtful'::text, 'refused'::text]))),
  constraint p2p_import_lines_reason CHECK (((outcome IS NULL) OR (outcome = ANY (ARRAY['imported'::text, 'same'::text])) OR (reason IS NOT NULL)))
);
CREATE INDEX p2p_import_lines_deposit ON payonce.p2p_import_lines USING btree (import_id, deposit_old_id) WHERE (kind = 'leg'::text);
CREATE INDEX p2p_import_lines_id ON payonce.p2p_import_lines USING btree (import_id, kind, old_id);
CREATE INDEX p2p_import_lines_leg ON payonce.p2p_import_lines USING btree (import_id, leg_old_id) WHERE (kind = 'ledger'::text);
CREATE INDEX p2p_import_lines_withdraw ON payonce.p2p_import_lines USING btree (import_id, withdraw_old_id) WHERE (kind = 'leg'::text);

create table payonce.p2p_imported (
  kind text not null,
  old_id text not null,
  digest text not null,
  new_id text,
  import_id bigint not null,
  imported_at timestamp with time zone not null default payonce.now(),
  constraint p2p_imported_pkey PRIMARY KEY (kind, old_id),
  constraint p2p_imported_import_id_fkey FOREIGN KEY (import_id) REFERENCES payonce.p2p_imports(id),
  constraint p2p_imported_kind_check CHECK ((kind = ANY (ARRAY['deposit_order'::text, 'withdraw_order'::text, 'leg'::text, 'ledger'::text])))
);
CREATE UNIQUE INDEX p2p_imported_new ON payonce.p2p_imported USING btree (new_id) WHERE (new_id IS NOT NULL);
CREATE TRIGGER p2p_imported_append_only BEFORE DELETE OR UPDATE ON payonce.p2p_imported FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_imported_no_truncate BEFORE TRUNCATE ON payonce.p2p_imported FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_imports (
  id bigint not null generated always as identity,
  file_name text not null,
  sha256 text,
  imported_by text not null,
  started_at timestamp with time zone not null default payonce.now(),
  replaced_at timestamp with time zone,
  finished_at timestamp with time zone,
  lines bigint not null default 0,
  imported bigint not null default 0,
  same bigint not null default 0,
  doubtful bigint not null default 0,
  refused bigint not null default 0,
  constraint p2p_imports_pkey PRIMARY KEY (id),
  constraint p2p_imports_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text))
);
CREATE INDEX p2p_imports_running ON payonce.p2p_imports USING btree (id) WHERE ((finished_at IS NULL) AND (replaced_at IS NULL));

create table payonce.p2p_legs (
  id text not null,
  deposit_order_id text not null,
  ordinal integer not null,
  slot integer not null,
  kind text not null,
  withdraw_order_id text,
  rail text,
  amount numeric(78,0) not null,
  price numeric(78,0) not null,
  fiat_amount numeric(78,0) not null,
  state text not null default 'OPEN'::text,
  claim_token bigint not null,
  created_at timestamp with time zone not null default payonce.now(),
  pay_by timestamp with time zone,
  paid_marked_at timestamp with time zone,
  disputed_at timestamp with time zone,
  ended_at timestamp with time zone,
  end_reason text,
  fixes integer not null default 0,
  is_history boolean not null default false,
  constraint p2p_legs_pkey PRIMARY KEY (id),
  constraint p2p_legs_ordinal UNIQUE (deposit_order_id, ordinal),
  constraint p2p_legs_deposit_order_id_fkey FOREIGN KEY (deposit_order_id) REFERENCES payonce.p2p_deposit_orders(id),
  constraint p2p_legs_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint p2p_legs_withdraw_order_id_fkey FOREIGN KEY (withdraw_order_id) REFERENCES payonce.p2p_withdraw_orders(id),
  constraint p2p_legs_amount_check CHECK ((amount > (0)::numeric)),
  constraint p2p_legs_ended CHECK (((state = 'OPEN'::text) = (ended_at IS NULL))),
  constraint p2p_legs_fiat_amount_check CHECK ((fiat_amount > (0)::numeric)),
  constraint p2p_legs_history CHECK (((NOT is_history) OR (state = 'SETTLED'::text))),
  constraint p2p_legs_kind_check CHECK ((kind = ANY (ARRAY['SELLER'::text, 'LP'::text]))),
  constraint p2p_legs_of CHECK ((((kind = 'LP'::text) = (rail IS NOT NULL)) AND ((kind = 'SELLER'::text) OR (withdraw_order_id IS NULL)) AND ((kind = 'LP'::text) OR is_history OR (withdraw_order_id IS NOT NULL)))),
  constraint p2p_legs_ordinal_check CHECK ((ordinal >= 1)),
  constraint p2p_legs_price_check CHECK ((price > (0)::numeric)),
  constraint p2p_legs_slot_check CHECK (((slot >= 1) AND (slot <= 3))),
  constraint p2p_legs_state_check CHECK ((state = ANY (ARRAY['OPEN'::text, 'SETTLED'::text, 'EXPIRED'::text, 'VOID'::text, 'SURPLUS'::text])))
) with (fillfactor=70);
CREATE INDEX p2p_legs_due ON payonce.p2p_legs USING btree (pay_by, id) WHERE ((state = 'OPEN'::text) AND (kind = 'SELLER'::text) AND (paid_marked_at IS NULL) AND (disputed_at IS NULL));
CREATE INDEX p2p_legs_seller ON payonce.p2p_legs USING btree (withdraw_order_id) WHERE (withdraw_order_id IS NOT NULL);
CREATE UNIQUE INDEX p2p_legs_slot ON payonce.p2p_legs USING btree (deposit_order_id, slot) WHERE (state = ANY (ARRAY['OPEN'::text, 'SETTLED'::text]));
CREATE TRIGGER p2p_legs_fence BEFORE INSERT ON payonce.p2p_legs FOR EACH ROW EXECUTE FUNCTION payonce.p2p_legs_fence();
CREATE TRIGGER p2p_legs_frozen BEFORE UPDATE OF deposit_order_id, ordinal, kind, rail, amount, price, fiat_amount, claim_token, created_at, is_history ON payonce.p2p_legs FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_legs_guard BEFORE UPDATE OF state ON payonce.p2p_legs FOR EACH ROW EXECUTE FUNCTION payonce.p2p_guard('leg', 'state');
CREATE TRIGGER p2p_legs_kept BEFORE DELETE ON payonce.p2p_legs FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_legs_no_truncate BEFORE TRUNCATE ON payonce.p2p_legs FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_legs_seller_frozen BEFORE UPDATE OF withdraw_order_id ON payonce.p2p_legs FOR EACH ROW WHEN (((NOT old.is_history) OR (old.withdraw_order_id IS NOT NULL))) EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_markets (
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  fiat_decimals integer not null,
  order_min numeric(78,0) not null,
  order_max numeric(78,0) not null,
  leg_min numeric(78,0) not null,
  fee_bp integer not null,
  pay_within_ms bigint not null,
  order_for_ms bigint not null,
  stopped_at timestamp with time zone,
  constraint p2p_markets_pkey PRIMARY KEY (group_name, asset_id, fiat),
  constraint p2p_markets_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint p2p_markets_group_name_fkey FOREIGN KEY (group_name) REFERENCES payonce.p2p_groups(name),
  constraint p2p_markets_check CHECK ((order_max >= order_min)),
  constraint p2p_markets_check1 CHECK ((leg_min <= order_min)),
  constraint p2p_markets_fee_bp_check CHECK (((fee_bp >= 0) AND (fee_bp <= 10000))),
  constraint p2p_markets_fiat_check CHECK ((fiat ~ '^[A-Z]{3}$'::text)),
  constraint p2p_markets_fiat_decimals_check CHECK (((fiat_decimals >= 0) AND (fiat_decimals <= 4))),
  constraint p2p_markets_leg_min_check CHECK ((leg_min > (0)::numeric)),
  constraint p2p_markets_order_for_ms_check CHECK ((order_for_ms > 0)),
  constraint p2p_markets_order_min_check CHECK ((order_min > (0)::numeric)),
  constraint p2p_markets_pay_within_ms_check CHECK ((pay_within_ms > 0))
);

create table payonce.p2p_members (
  partner_id text not null,
  group_name text not null,
  matching_off_at timestamp with time zone,
  constraint p2p_members_pkey PRIMARY KEY (partner_id),
  constraint p2p_members_group_name_fkey FOREIGN KEY (group_name) REFERENCES payonce.p2p_groups(name),
  constraint p2p_members_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id)
);
CREATE INDEX p2p_members_group ON payonce.p2p_members USING btree (group_name);
CREATE TRIGGER p2p_members_no_truncate BEFORE TRUNCATE ON payonce.p2p_members FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_payments (
  id text not null,
  source text not null,
  external_id text not null,
  leg_id text,
  reference text not null,
  fiat text not null,
  fiat_amount numeric(78,0) not null,
  received_at timestamp with time zone not null default payonce.now(),
  fate text not null,
  constraint p2p_payments_pkey PRIMARY KEY (id),
  constraint p2p_payments_once UNIQUE (source, external_id),
  constraint p2p_payments_leg_id_fkey FOREIGN KEY (leg_id) REFERENCES payonce.p2p_legs(id),
  constraint p2p_payments_fate_check CHECK ((fate = ANY (ARRAY['part'::text, 'settled'::text, 'over'::text, 'late'::text, 'unmatched'::text]))),
  constraint p2p_payments_fiat_amount_check CHECK ((fiat_amount > (0)::numeric))
);
CREATE INDEX p2p_payments_leg ON payonce.p2p_payments USING btree (leg_id) WHERE (leg_id IS NOT NULL);
CREATE INDEX p2p_payments_unmatched ON payonce.p2p_payments USING btree (received_at, id) WHERE (fate = ANY (ARRAY['unmatched'::text, 'late'::text, 'over'::text]));
CREATE TRIGGER p2p_payments_frozen BEFORE UPDATE OF id, source, external_id, fiat, fiat_amount, received_at, reference ON payonce.p2p_payments FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_payments_kept BEFORE DELETE ON payonce.p2p_payments FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_payments_no_truncate BEFORE TRUNCATE ON payonce.p2p_payments FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.p2p_routes (
  id bigint not null generated always as identity,
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  partner_id text not null default '*'::text,
  rail text not null,
  account text not null,
  priority integer not null,
  min numeric(78,0) not null,
  max numeric(78,0) not null,
  is_enabled boolean not null default true,
  constraint p2p_routes_pkey PRIMARY KEY (id),
  constraint p2p_routes_once UNIQUE (group_name, asset_id, fiat, partner_id, rail),
  constraint p2p_routes_group_name_asset_id_fiat_fkey FOREIGN KEY (group_name, asset_id, fiat) REFERENCES payonce.p2p_markets(group_name, asset_id, fiat),
  constraint p2p_routes_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint p2p_routes_check CHECK ((max >= min)),
  constraint p2p_routes_min_check CHECK ((min > (0)::numeric))
);

create table payonce.p2p_withdraw_orders (
  id text not null,
  partner_id text not null,
  group_name text not null,
  asset_id text not null,
  fiat text not null,
  external_id text,
  user_ref text not null,
  amount numeric(78,0) not null,
  price numeric(78,0) not null,
  leg_min numeric(78,0) not null,
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  created_at timestamp with time zone not null default payonce.now(),
  expires_at timestamp with time zone not null,
  status text not null default 'OPEN'::text,
  reserved numeric(78,0) not null default 0,
  settled numeric(78,0) not null default 0,
  given_back numeric(78,0) not null default 0,
  backs integer not null default 0,
  closing_as text,
  closed_at timestamp with time zone,
  close_reason text,
  subject_type text not null default 'withdraw_order'::text,
  imported_as text,
  settled_before numeric(78,0) not null default 0,
  constraint p2p_withdraw_orders_pkey PRIMARY KEY (id),
  constraint p2p_withdraw_orders_market FOREIGN KEY (group_name, asset_id, fiat) REFERENCES payonce.p2p_markets(group_name, asset_id, fiat),
  constraint p2p_withdraw_orders_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint p2p_withdraw_orders_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint p2p_withdraw_orders_amount_check CHECK ((amount > (0)::numeric)),
  constraint p2p_withdraw_orders_before CHECK (((settled_before >= (0)::numeric) AND (settled_before <= settled) AND ((imported_as IS NOT NULL) OR (settled_before = (0)::numeric)))),
  constraint p2p_withdraw_orders_check CHECK (((status = 'CLOSING'::text) <= (closing_as IS NOT NULL))),
  constraint p2p_withdraw_orders_check1 CHECK ((expires_at > created_at)),
  constraint p2p_withdraw_orders_closed CHECK ((((status = ANY (ARRAY['COMPLETED'::text, 'PARTIALLY_SETTLED'::text, 'EXPIRED'::text, 'CANCELLED'::text])) = (closed_at IS NOT NULL)) AND ((closed_at IS NULL) = (close_reason IS NULL)) AND ((closed_at IS NULL) OR ((reserved = (0)::numeric) AND ((settled + given_back) = amount))))),
  constraint p2p_withdraw_orders_closing_as_check CHECK ((closing_as = ANY (ARRAY['EXPIRED'::text, 'CANCELLED'::text]))),
  constraint p2p_withdraw_orders_given_back_check CHECK ((given_back >= (0)::numeric)),
  constraint p2p_withdraw_orders_history CHECK (((imported_as IS DISTINCT FROM 'history'::text) OR ((closed_at IS NOT NULL) AND (settled_before = settled) AND (backs = 0)))),
  constraint p2p_withdraw_orders_imported_as_check CHECK ((imported_as = ANY (ARRAY['history'::text, 'open'::text]))),
  constraint p2p_withdraw_orders_leg_min_check CHECK ((leg_min > (0)::numeric)),
  constraint p2p_withdraw_orders_price_check CHECK ((price > (0)::numeric)),
  constraint p2p_withdraw_orders_remaining CHECK ((((reserved + settled) + given_back) <= amount)),
  constraint p2p_withdraw_orders_reserved_check CHECK ((reserved >= (0)::numeric)),
  constraint p2p_withdraw_orders_settled_check CHECK ((settled >= (0)::numeric)),
  constraint p2p_withdraw_orders_status_check CHECK ((status = ANY (ARRAY['OPEN'::text, 'CLOSING'::text, 'COMPLETED'::text, 'PARTIALLY_SETTLED'::text, 'EXPIRED'::text, 'CANCELLED'::text]))),
  constraint p2p_withdraw_orders_subject_type_check CHECK ((subject_type = 'withdraw_order'::text)),
  constraint p2p_withdraw_orders_user_ref_check CHECK (((char_length(user_ref) >= 1) AND (char_length(user_ref) <= 200)))
) with (fillfactor=70);
CREATE INDEX p2p_withdraw_orders_expiring ON payonce.p2p_withdraw_orders USING btree (expires_at, id) WHERE (status = 'OPEN'::text);
CREATE UNIQUE INDEX p2p_withdraw_orders_external ON payonce.p2p_withdraw_orders USING btree (partner_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX p2p_withdraw_orders_list ON payonce.p2p_withdraw_orders USING btree (partner_id, created_at DESC, id DESC);
CREATE INDEX p2p_withdraw_orders_open ON payonce.p2p_withdraw_orders USING btree (group_name, asset_id, fiat, price, created_at, id) WHERE ((status = 'OPEN'::text) AND ((((amount - reserved) - settled) - given_back) > (0)::numeric));
CREATE TRIGGER p2p_withdraw_orders_frozen BEFORE UPDATE OF partner_id, group_name, asset_id, fiat, amount, price, user_ref, external_id, created_at, leg_min, bank_code, account_number ON payonce.p2p_withdraw_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_withdraw_orders_guard BEFORE UPDATE OF status ON payonce.p2p_withdraw_orders FOR EACH ROW EXECUTE FUNCTION payonce.p2p_guard('withdraw_order', 'status');
CREATE TRIGGER p2p_withdraw_orders_history BEFORE UPDATE ON payonce.p2p_withdraw_orders FOR EACH ROW WHEN ((old.imported_as = 'history'::text)) EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_withdraw_orders_import_frozen BEFORE UPDATE OF imported_as, settled_before ON payonce.p2p_withdraw_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_withdraw_orders_kept BEFORE DELETE ON payonce.p2p_withdraw_orders FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER p2p_withdraw_orders_no_truncate BEFORE TRUNCATE ON payonce.p2p_withdraw_orders FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.partners (
  id text not null,
  name text not null,
  time_zone text not null default 'UTC'::text,
  created_at timestamp with time zone not null default payonce.now(),
  constraint partners_pkey PRIMARY KEY (id),
  constraint partners_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200)))
);
CREATE TRIGGER partners_no_truncate BEFORE TRUNCATE ON payonce.partners FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.payees_flagged (
  return_id text not null,
  partner_id text not null,
  bank_code text not null,
  account_number text not null,
  transfer_id text,
  reason text,
  flagged_at timestamp with time zone not null default payonce.now(),
  batch_id text,
  line integer,
  constraint payees_flagged_pkey PRIMARY KEY (return_id),
  constraint payees_flagged_line FOREIGN KEY (batch_id, line) REFERENCES payonce.transfer_batch_lines(batch_id, line),
  constraint payees_flagged_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint payees_flagged_return_id_fkey FOREIGN KEY (return_id) REFERENCES payonce.returns(id),
  constraint payees_flagged_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES payonce.transfers(id),
  constraint payees_flagged_by CHECK (((transfer_id IS NULL) = ((batch_id IS NOT NULL) AND (line IS NOT NULL))))
);
CREATE INDEX payees_flagged_payee ON payonce.payees_flagged USING btree (partner_id, payonce.payee_key(bank_code, account_number));
CREATE TRIGGER payees_flagged_append_only BEFORE DELETE OR UPDATE ON payonce.payees_flagged FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payees_flagged_no_truncate BEFORE TRUNCATE ON payonce.payees_flagged FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.payout_batches (
  id text not null,
  partner_id text not null,
  programme_id text not null,
  asset_id text not null,
  amount numeric(78,0) not null,
  requested_at timestamp with time zone not null default payonce.now(),
  subject_type text not null default 'payout_batch'::text,
  constraint payout_batches_pkey PRIMARY KEY (id),
  constraint payout_batches_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint payout_batches_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint payout_batches_programme_id_fkey FOREIGN KEY (programme_id) REFERENCES payonce.programmes(id),
  constraint payout_batches_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint payout_batches_amount_check CHECK ((amount > (0)::numeric)),
  constraint payout_batches_subject_type_check CHECK ((subject_type = 'payout_batch'::text))
);
CREATE TRIGGER payout_batches_append_only BEFORE UPDATE ON payonce.payout_batches FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payout_batches_kept BEFORE DELETE ON payonce.payout_batches FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payout_batches_no_truncate BEFORE TRUNCATE ON payonce.payout_batches FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.payouts (
  id text not null,
  partner_id text not null,
  programme_id text not null,
  creator_id text not null,
  pool_id bigint not null,
  ordinal integer not null,
  asset_id text not null,
  amount numeric(78,0) not null,
  volume numeric(78,0) not null,
  consumed int8multirange not null,
  destination text not null,
  origin text not null,
  cut_date date,
  quote numeric(78,0),
  min_output numeric(78,0),
  batch_id text,
  requested_at timestamp with time zone not null default payonce.now(),
  taken text not null default 'in_flight'::text,
  ended_at timestamp with time zone,
  end_detail text,
  subject_type text generated always as (
CASE
    WHEN (batch_id IS NULL) THEN 'payout'::text
    ELSE NULL::text
END) stored,
  constraint payouts_pkey PRIMARY KEY (id),
  constraint payouts_ordinal UNIQUE (pool_id, ordinal),
  constraint payouts_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint payouts_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES payonce.payout_batches(id),
  constraint payouts_creator_id_fkey FOREIGN KEY (creator_id) REFERENCES payonce.creators(id),
  constraint payouts_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint payouts_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES payonce.pools(id),
  constraint payouts_programme_id_fkey FOREIGN KEY (programme_id) REFERENCES payonce.programmes(id),
  constraint payouts_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint payouts_amount_check CHECK ((amount > (0)::numeric)),
  constraint payouts_cut CHECK (((origin = 'cut'::text) = (cut_date IS NOT NULL))),
  constraint payouts_ended CHECK (((taken = ANY (ARRAY['paid'::text, 'returned'::text])) = (ended_at IS NOT NULL))),
  constraint payouts_ordinal_check CHECK ((ordinal >= 1)),
  constraint payouts_origin_check CHECK ((origin = ANY (ARRAY['threshold'::text, 'cut'::text, 'again'::text]))),
  constraint payouts_taken_check CHECK ((taken = ANY (ARRAY['in_flight'::text, 'unknown'::text, 'paid'::text, 'returned'::text]))),
  constraint payouts_volume_check CHECK ((volume >= (0)::numeric))
) with (fillfactor=80);
CREATE INDEX payouts_batch ON payonce.payouts USING btree (batch_id) WHERE (batch_id IS NOT NULL);
CREATE INDEX payouts_list ON payonce.payouts USING btree (partner_id, requested_at DESC, id DESC);
CREATE UNIQUE INDEX payouts_once_a_date ON payonce.payouts USING btree (pool_id, cut_date) WHERE (cut_date IS NOT NULL);
CREATE TRIGGER payouts_frozen BEFORE UPDATE OF id, partner_id, programme_id, creator_id, pool_id, ordinal, asset_id, amount, volume, consumed, destination, origin, cut_date, quote, min_output, batch_id, requested_at ON payonce.payouts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payouts_guard BEFORE UPDATE OF taken ON payonce.payouts FOR EACH ROW EXECUTE FUNCTION payonce.payouts_guard();
CREATE TRIGGER payouts_kept BEFORE DELETE ON payonce.payouts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payouts_move AFTER UPDATE ON payonce.payouts REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION payonce.payouts_move();
CREATE TRIGGER payouts_no_truncate BEFORE TRUNCATE ON payonce.payouts FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER payouts_take AFTER INSERT ON payonce.payouts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.payouts_take();

create table payonce.pools (
  id bigint not null generated always as identity,
  programme_id text not null,
  creator_id text not null,
  reward_divisor numeric(78,0) not null,
  seq bigint not null default 0,
  cut_seq bigint not null default 0,
  free int8multirange not null default '{}'::int8multirange,
  volume numeric(78,0) not null default 0,
  volume_taken numeric(78,0) not null default 0,
  reward numeric(78,0) not null default 0,
  in_flight numeric(78,0) not null default 0,
  paid numeric(78,0) not null default 0,
  surplus numeric(78,0) not null default 0,
  payouts integer not null default 0,
  failures integer not null default 0,
  payable numeric(78,0) generated always as (((div(reward, reward_divisor) - in_flight) - paid)) stored,
  due_since timestamp with time zone,
  wait_reason text,
  next_at timestamp with time zone,
  constraint pools_pkey PRIMARY KEY (id),
  constraint pools_once UNIQUE (programme_id, creator_id),
  constraint pools_creator_id_fkey FOREIGN KEY (creator_id) REFERENCES payonce.creators(id),
  constraint pools_programme_id_fkey FOREIGN KEY (programme_id) REFERENCES payonce.programmes(id),
  constraint pools_carried CHECK (((in_flight >= (0)::numeric) AND (paid >= (0)::numeric) AND ((div(reward, reward_divisor) + surplus) >= (in_flight + paid)))),
  constraint pools_places CHECK (((0 <= cut_seq) AND (cut_seq <= seq))),
  constraint pools_reward_check CHECK ((reward >= (0)::numeric)),
  constraint pools_reward_divisor_check CHECK ((reward_divisor >= (1)::numeric)),
  constraint pools_surplus_check CHECK ((surplus >= (0)::numeric)),
  constraint pools_volume CHECK (((volume_taken >= (0)::numeric) AND (volume_taken <= volume))),
  constraint pools_volume_check CHECK ((volume >= (0)::numeric)),
  constraint pools_waiting CHECK ((((due_since IS NULL) = (wait_reason IS NULL)) AND ((due_since IS NULL) = (next_at IS NULL))))
) with (fillfactor=60);
CREATE INDEX pools_creator ON payonce.pools USING btree (creator_id);
CREATE INDEX pools_due ON payonce.pools USING btree (next_at, id) WHERE (due_since IS NOT NULL);
CREATE INDEX pools_payable ON payonce.pools USING btree (programme_id, payable, id) WHERE (payable > (0)::numeric);
CREATE TRIGGER pools_frozen BEFORE UPDATE OF id, programme_id, creator_id, reward_divisor ON payonce.pools FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER pools_kept BEFORE DELETE ON payonce.pools FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER pools_no_truncate BEFORE TRUNCATE ON payonce.pools FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.postings (
  id bigint not null generated always as identity,
  idem_key text collate "C" not null,
  reference text not null,
  effect_id bigint,
  reverses bigint,
  created_at timestamp with time zone not null default payonce.now(),
  constraint postings_pkey PRIMARY KEY (id),
  constraint postings_idem_key UNIQUE (idem_key),
  constraint postings_reverses_fkey FOREIGN KEY (reverses) REFERENCES payonce.postings(id),
  constraint postings_idem_key_check CHECK (((char_length(idem_key) >= 1) AND (char_length(idem_key) <= 80)))
);
CREATE INDEX postings_effect ON payonce.postings USING btree (effect_id) WHERE (effect_id IS NOT NULL);
CREATE UNIQUE INDEX postings_reverses ON payonce.postings USING btree (reverses) WHERE (reverses IS NOT NULL);
CREATE TRIGGER postings_append_only BEFORE DELETE OR UPDATE ON payonce.postings FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER postings_no_truncate BEFORE TRUNCATE ON payonce.postings FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.programme_cuts (
  programme_id text not null,
  business_date date not null,
  time_zone text not null,
  begun_at timestamp with time zone not null default payonce.now(),
  made_at timestamp with time zone,
  constraint programme_cuts_pkey PRIMARY KEY (programme_id, business_date),
  constraint programme_cuts_programme_id_fkey FOREIGN KEY (programme_id) REFERENCES payonce.programmes(id)
);
CREATE INDEX programme_cuts_unmade ON payonce.programme_cuts USING btree (programme_id, business_date) WHERE (made_at IS NULL);
CREATE TRIGGER programme_cuts_kept BEFORE DELETE ON payonce.programme_cuts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER programme_cuts_no_truncate BEFORE TRUNCATE ON payonce.programme_cuts FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.programme_terms (
  programme_id text not null,
  version integer not null,
  terms jsonb not null,
  at timestamp with time zone not null default payonce.now(),
  constraint programme_terms_pkey PRIMARY KEY (programme_id, version),
  constraint programme_terms_programme_id_fkey FOREIGN KEY (programme_id) REFERENCES payonce.programmes(id)
);
CREATE TRIGGER programme_terms_append_only BEFORE UPDATE ON payonce.programme_terms FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER programme_terms_kept BEFORE DELETE ON payonce.programme_terms FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER programme_terms_no_truncate BEFORE TRUNCATE ON payonce.programme_terms FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.programmes (
  id text not null,
  number integer not null generated always as identity,
  partner_id text not null,
  name text not null,
  asset_id text not null,
  volume_decimals integer not null,
  reward_multiple numeric(78,0) not null,
  reward_divisor numeric(78,0) not null,
  tier_from numeric[] not null,
  tier_step numeric[] not null,
  cap numeric(78,0),
  threshold numeric(78,0) not null,
  cut_min numeric(78,0),
  time_zone text not null,
  pays_by text not null,
  call jsonb,
  quote numeric(78,0),
  slippage_bp integer not null default 0,
  paused_at timestamp with time zone,
  unfunded_at timestamp with time zone,
  terms_version integer not null default 1,
  created_at timestamp with time zone not null default payonce.now(),
  subject_type text not null default 'programme'::text,
  constraint programmes_pkey PRIMARY KEY (id),
  constraint programmes_name UNIQUE (partner_id, name),
  constraint programmes_number_key UNIQUE (number),
  constraint programmes_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint programmes_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint programmes_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint programmes_call CHECK (((pays_by = 'call'::text) <= (call IS NOT NULL))),
  constraint programmes_cap_check CHECK ((cap > (0)::numeric)),
  constraint programmes_cut_min_check CHECK ((cut_min > (0)::numeric)),
  constraint programmes_name_check CHECK ((name ~ '^[A-Za-z0-9._-]{1,80}$'::text)),
  constraint programmes_pays_by_check CHECK ((pays_by = ANY (ARRAY['transfer'::text, 'call'::text, 'multi_send'::text]))),
  constraint programmes_quote_check CHECK ((quote > (0)::numeric)),
  constraint programmes_reward_divisor_check CHECK ((reward_divisor >= (1)::numeric)),
  constraint programmes_reward_multiple_check CHECK ((reward_multiple >= (1)::numeric)),
  constraint programmes_slippage_bp_check CHECK (((slippage_bp >= 0) AND (slippage_bp <= 10000))),
  constraint programmes_subject_type_check CHECK ((subject_type = 'programme'::text)),
  constraint programmes_threshold_check CHECK ((threshold > (0)::numeric)),
  constraint programmes_tiers CHECK (((cardinality(tier_from) >= 1) AND (cardinality(tier_from) = cardinality(tier_step)) AND (tier_from[1] = (0)::numeric))),
  constraint programmes_volume_decimals_check CHECK (((volume_decimals >= 0) AND (volume_decimals <= 36)))
);
CREATE TRIGGER programmes_frozen BEFORE UPDATE OF id, partner_id, name, asset_id, volume_decimals, reward_multiple, reward_divisor, created_at ON payonce.programmes FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER programmes_keep_terms AFTER INSERT OR UPDATE OF terms_version ON payonce.programmes FOR EACH ROW EXECUTE FUNCTION payonce.programmes_keep_terms();
CREATE TRIGGER programmes_kept BEFORE DELETE ON payonce.programmes FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER programmes_no_truncate BEFORE TRUNCATE ON payonce.programmes FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.proposals (
  id text not null,
  case_id text not null,
  verb text not null,
  detail jsonb not null default '{}'::jsonb,
  evidence_version integer not null,
  proposed_by text not null,
  proposed_at timestamp with time zone not null default payonce.now(),
  approved_by text,
  decided_at timestamp with time zone,
  state text not null default 'open'::text,
  about_line text not null generated always as (COALESCE((detail ->> 'line'::text), ''::text)) stored,
  constraint proposals_pkey PRIMARY KEY (id),
  constraint proposals_approved_by_fkey FOREIGN KEY (approved_by) REFERENCES payonce.operators(id),
  constraint proposals_case_id_fkey FOREIGN KEY (case_id) REFERENCES payonce.cases(id),
  constraint proposals_proposed_by_fkey FOREIGN KEY (proposed_by) REFERENCES payonce.operators(id),
  constraint proposals_approved CHECK (((state <> ALL (ARRAY['approved'::text, 'done'::text])) OR (approved_by IS NOT NULL))),
  constraint proposals_four_eyes CHECK (((approved_by IS NULL) OR (approved_by <> proposed_by))),
  constraint proposals_state_check CHECK ((state = ANY (ARRAY['open'::text, 'approved'::text, 'void'::text, 'done'::text])))
);
CREATE UNIQUE INDEX proposals_open ON payonce.proposals USING btree (case_id, verb, about_line) WHERE (state = 'open'::text);
CREATE TRIGGER proposals_guard BEFORE DELETE OR UPDATE ON payonce.proposals FOR EACH ROW EXECUTE FUNCTION payonce.proposals_guard();
CREATE TRIGGER proposals_no_truncate BEFORE TRUNCATE ON payonce.proposals FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.rails (
  name text not null,
  seals_stopped_at timestamp with time zone,
  seals_stopped_reason text,
  doubt_max_units jsonb not null default '{}'::jsonb,
  constraint rails_pkey PRIMARY KEY (name),
  constraint rails_check CHECK (((seals_stopped_at IS NULL) = (seals_stopped_reason IS NULL)))
);

create table payonce.realization_claims_lost (
  realization_id text not null,
  lost bigint not null,
  constraint realization_claims_lost_pkey PRIMARY KEY (realization_id),
  constraint realization_claims_lost_realization_id_fkey FOREIGN KEY (realization_id) REFERENCES payonce.realizations(id),
  constraint realization_claims_lost_lost_check CHECK ((lost > 0))
);
CREATE TRIGGER realization_claims_lost_no_truncate BEFORE TRUNCATE ON payonce.realization_claims_lost FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.realization_days (
  asset_id text not null,
  business_date date not null,
  after_seq bigint not null,
  to_seq bigint not null,
  constraint realization_days_pkey PRIMARY KEY (asset_id, business_date),
  constraint realization_days_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint realization_days_business_date_fkey FOREIGN KEY (business_date) REFERENCES payonce.realization_nights(business_date),
  constraint realization_days_check CHECK ((to_seq >= after_seq))
);
CREATE TRIGGER realization_days_append_only BEFORE DELETE OR UPDATE ON payonce.realization_days FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER realization_days_guard BEFORE INSERT ON payonce.realization_days FOR EACH ROW EXECUTE FUNCTION payonce.realization_days_guard();
CREATE TRIGGER realization_days_no_truncate BEFORE TRUNCATE ON payonce.realization_days FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.realization_nights (
  business_date date not null,
  time_zone text not null,
  begun_at timestamp with time zone not null default payonce.now(),
  made_at timestamp with time zone,
  constraint realization_nights_pkey PRIMARY KEY (business_date)
);
CREATE TRIGGER realization_nights_kept BEFORE DELETE OR UPDATE ON payonce.realization_nights FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change_but_mark('made_at');
CREATE TRIGGER realization_nights_no_truncate BEFORE TRUNCATE ON payonce.realization_nights FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.realization_shares (
  asset_id text not null,
  business_date date not null,
  partner_id text not null,
  fees numeric(78,0) not null,
  constraint realization_shares_pkey PRIMARY KEY (partner_id, asset_id, business_date),
  constraint realization_shares_asset_id_business_date_fkey FOREIGN KEY (asset_id, business_date) REFERENCES payonce.realization_days(asset_id, business_date),
  constraint realization_shares_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id)
);
CREATE TRIGGER realization_shares_append_only BEFORE DELETE OR UPDATE ON payonce.realization_shares FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER realization_shares_no_truncate BEFORE TRUNCATE ON payonce.realization_shares FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.realization_verdicts (
  id bigint not null generated always as identity,
  business_date date not null,
  verdict text not null,
  claims_lost bigint not null,
  detail jsonb not null,
  at timestamp with time zone not null default payonce.now(),
  constraint realization_verdicts_pkey PRIMARY KEY (id),
  constraint realization_verdicts_business_date_fkey FOREIGN KEY (business_date) REFERENCES payonce.realization_nights(business_date),
  constraint realization_verdicts_verdict_check CHECK ((verdict = ANY (ARRAY['pass'::text, 'fail'::text, 'inconclusive'::text])))
);
CREATE INDEX realization_verdicts_date ON payonce.realization_verdicts USING btree (business_date, id DESC);
CREATE TRIGGER realization_verdicts_append_only BEFORE DELETE OR UPDATE ON payonce.realization_verdicts FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER realization_verdicts_no_truncate BEFORE TRUNCATE ON payonce.realization_verdicts FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.realizations (
  id text not null,
  partner_id text not null,
  asset_id text not null,
  business_date date not null,
  ordinal integer not null,
  fees_through numeric(78,0) not null,
  realized_before numeric(78,0) not null,
  amount numeric(78,0) not null,
  wallet text not null,
  destination text not null,
  created_at timestamp with time zone not null default payonce.now(),
  subject_type text not null default 'realization'::text,
  constraint realizations_pkey PRIMARY KEY (id),
  constraint realizations_period UNIQUE (partner_id, asset_id, business_date, ordinal),
  constraint realizations_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint realizations_business_date_fkey FOREIGN KEY (business_date) REFERENCES payonce.realization_nights(business_date),
  constraint realizations_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint realizations_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint realizations_check CHECK (((amount > (0)::numeric) AND (amount = (fees_through - realized_before)))),
  constraint realizations_ordinal_check CHECK ((ordinal >= 0)),
  constraint realizations_subject_type_check CHECK ((subject_type = 'realization'::text))
);
CREATE INDEX realizations_date ON payonce.realizations USING btree (business_date, id);
CREATE TRIGGER realizations_append_only BEFORE DELETE OR UPDATE ON payonce.realizations FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER realizations_no_truncate BEFORE TRUNCATE ON payonce.realizations FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.reconcile_reports (
  id bigint not null generated always as identity,
  rail text not null,
  from_day date not null,
  to_day date not null,
  findings integer not null,
  report jsonb not null,
  made_at timestamp with time zone not null default payonce.now(),
  constraint reconcile_reports_pkey PRIMARY KEY (id),
  constraint reconcile_reports_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint reconcile_reports_findings_check CHECK ((findings >= 0))
);
CREATE INDEX reconcile_reports_rail ON payonce.reconcile_reports USING btree (rail, id);
CREATE TRIGGER reconcile_reports_append_only BEFORE DELETE OR UPDATE ON payonce.reconcile_reports FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER reconcile_reports_no_truncate BEFORE TRUNCATE ON payonce.reconcile_reports FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.references_used (
  partner_id text not null,
  external_id text not null,
  constraint references_used_pkey PRIMARY KEY (partner_id, external_id),
  constraint references_used_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id)
);
CREATE TRIGGER references_used_append_only BEFORE DELETE OR UPDATE ON payonce.references_used FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER references_used_no_truncate BEFORE TRUNCATE ON payonce.references_used FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.relayer_shortages (
  rail text not null,
  wallet text not null,
  relayer text not null,
  asset_id text not null,
  until timestamp with time zone not null,
  held_by text,
  constraint relayer_shortages_pkey PRIMARY KEY (rail, wallet, relayer, asset_id),
  constraint relayer_shortages_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint relayer_shortages_held_by_fkey FOREIGN KEY (held_by) REFERENCES payonce.allowances(id)
);

create table payonce.returns (
  id text not null,
  effect_id bigint not null,
  provider_return_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0) not null default 0,
  at timestamp with time zone not null default payonce.now(),
  reason text,
  line_ref text,
  constraint returns_pkey PRIMARY KEY (id),
  constraint returns_once UNIQUE (effect_id, provider_return_id),
  constraint returns_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint returns_amount_check CHECK ((amount > (0)::numeric)),
  constraint returns_fee_check CHECK ((fee >= (0)::numeric)),
  constraint returns_fee_within CHECK ((fee <= amount))
);
CREATE TRIGGER returns_append_only BEFORE DELETE OR UPDATE ON payonce.returns FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER returns_guard BEFORE INSERT ON payonce.returns FOR EACH ROW EXECUTE FUNCTION payonce.returns_guard();
CREATE TRIGGER returns_no_truncate BEFORE TRUNCATE ON payonce.returns FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.scan_cursors (
  chain text not null,
  next_block bigint not null,
  halted_at timestamp with time zone,
  halted_reason text,
  constraint scan_cursors_pkey PRIMARY KEY (chain),
  constraint scan_cursors_check CHECK (((halted_at IS NULL) = (halted_reason IS NULL)))
);
CREATE TRIGGER scan_cursors_guard BEFORE DELETE OR UPDATE ON payonce.scan_cursors FOR EACH ROW EXECUTE FUNCTION payonce.scan_cursors_guard();
CREATE TRIGGER scan_cursors_no_truncate BEFORE TRUNCATE ON payonce.scan_cursors FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.scanned_blocks (
  chain text not null,
  number bigint not null,
  hash text not null,
  parent_hash text not null,
  scanned_at timestamp with time zone not null default payonce.now(),
  constraint scanned_blocks_pkey PRIMARY KEY (chain, number)
);
CREATE TRIGGER scanned_blocks_guard BEFORE DELETE OR UPDATE ON payonce.scanned_blocks FOR EACH ROW EXECUTE FUNCTION payonce.scanned_blocks_guard();
CREATE TRIGGER scanned_blocks_no_truncate BEFORE TRUNCATE ON payonce.scanned_blocks FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.settings (
  name text not null,
  value text not null,
  constraint settings_pkey PRIMARY KEY (name)
);

create table payonce.signers (
  rail text not null,
  address text not null,
  label text not null,
  next_nonce bigint not null,
  quarantined_at timestamp with time zone,
  quarantine_reason text,
  created_at timestamp with time zone not null default payonce.now(),
  short_until timestamp with time zone,
  short_why text,
  constraint signers_pkey PRIMARY KEY (rail, address),
  constraint signers_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint signers_next_nonce_check CHECK ((next_nonce >= 0))
);
CREATE TRIGGER signers_guard BEFORE DELETE OR UPDATE ON payonce.signers FOR EACH ROW EXECUTE FUNCTION payonce.signers_guard();
CREATE TRIGGER signers_no_truncate BEFORE TRUNCATE ON payonce.signers FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.statement_files (
  sha256 text not null,
  rail text not null,
  name text not null,
  format text not null,
  imported_by text not null,
  imported_at timestamp with time zone not null default payonce.now(),
  take integer not null default 1,
  constraint statement_files_pkey PRIMARY KEY (sha256, take),
  constraint statement_files_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint statement_files_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint statement_files_take_check CHECK ((take >= 1))
);
CREATE TRIGGER statement_files_append_only BEFORE DELETE OR UPDATE ON payonce.statement_files FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER statement_files_guard BEFORE INSERT ON payonce.statement_files FOR EACH ROW WHEN ((new.take > 1)) EXECUTE FUNCTION payonce.statement_files_guard();
CREATE TRIGGER statement_files_no_truncate BEFORE TRUNCATE ON payonce.statement_files FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.statement_lines (
  id bigint not null generated always as identity,
  rail text not null,
  line_key text not null,
  asset_id text not null,
  direction text not null,
  amount numeric(78,0) not null,
  booked_on date not null,
  value_on date,
  own_reference text,
  refs text[] not null,
  counterparty_name text,
  counterparty_account text,
  remittance text,
  is_reversal boolean not null,
  is_charge boolean not null,
  return_reason text,
  retired_at timestamp with time zone,
  constraint statement_lines_pkey PRIMARY KEY (id),
  constraint statement_lines_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint statement_lines_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint statement_lines_amount_check CHECK ((amount > (0)::numeric)),
  constraint statement_lines_direction_check CHECK ((direction = ANY (ARRAY['out'::text, 'in'::text])))
);
CREATE INDEX statement_lines_booked ON payonce.statement_lines USING btree (rail, booked_on, id);
CREATE UNIQUE INDEX statement_lines_once ON payonce.statement_lines USING btree (rail, line_key) WHERE (retired_at IS NULL);
CREATE INDEX statement_lines_refs ON payonce.statement_lines USING gin (refs);
CREATE TRIGGER statement_lines_kept BEFORE DELETE OR UPDATE ON payonce.statement_lines FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change_but_mark('retired_at');
CREATE TRIGGER statement_lines_no_truncate BEFORE TRUNCATE ON payonce.statement_lines FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.statement_places (
  statement_id bigint not null,
  ordinal integer not null,
  line_id bigint not null,
  place text not null,
  refs text[] not null,
  constraint statement_places_pkey PRIMARY KEY (statement_id, ordinal),
  constraint statement_places_once UNIQUE (statement_id, line_id),
  constraint statement_places_line_id_fkey FOREIGN KEY (line_id) REFERENCES payonce.statement_lines(id),
  constraint statement_places_statement_id_fkey FOREIGN KEY (statement_id) REFERENCES payonce.statements(id),
  constraint statement_places_ordinal_check CHECK ((ordinal >= 1))
);
CREATE INDEX statement_places_line ON payonce.statement_places USING btree (line_id);
CREATE INDEX statement_places_refs ON payonce.statement_places USING gin (refs);
CREATE TRIGGER statement_places_append_only BEFORE DELETE OR UPDATE ON payonce.statement_places FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER statement_places_no_truncate BEFORE TRUNCATE ON payonce.statement_places FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.statement_voids (
  file_sha256 text not null,
  take integer not null,
  proposal_id text not null,
  voided_at timestamp with time zone not null default payonce.now(),
  constraint statement_voids_pkey PRIMARY KEY (file_sha256, take),
  constraint statement_voids_file_sha256_take_fkey FOREIGN KEY (file_sha256, take) REFERENCES payonce.statement_files(sha256, take),
  constraint statement_voids_proposal_id_fkey FOREIGN KEY (proposal_id) REFERENCES payonce.proposals(id)
);
CREATE TRIGGER statement_voids_append_only BEFORE DELETE OR UPDATE ON payonce.statement_voids FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER statement_voids_guard BEFORE INSERT ON payonce.statement_voids FOR EACH ROW EXECUTE FUNCTION payonce.statement_voids_guard();
CREATE TRIGGER statement_voids_no_truncate BEFORE TRUNCATE ON payonce.statement_voids FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.statements (
  id bigint not null generated always as identity,
  file_sha256 text not null,
  "position" integer not null,
  rail text not null,
  account text not null,
  asset_id text not null,
  name text,
  sequence bigint,
  from_day date not null,
  to_day date not null,
  opening numeric(78,0),
  closing numeric(78,0),
  moved numeric(78,0) not null,
  take integer not null default 1,
  constraint statements_pkey PRIMARY KEY (id),
  constraint statements_position UNIQUE (file_sha256, take, "position"),
  constraint statements_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint statements_file FOREIGN KEY (file_sha256, take) REFERENCES payonce.statement_files(sha256, take),
  constraint statements_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint statements_add_up CHECK (((opening IS NULL) OR ((opening + moved) = closing))),
  constraint statements_balances_whole CHECK (((opening IS NULL) = (closing IS NULL))),
  constraint statements_check CHECK ((to_day >= from_day)),
  constraint statements_position_check CHECK (("position" >= 1))
);
CREATE INDEX statements_rail ON payonce.statements USING btree (rail, from_day, to_day);
CREATE TRIGGER statements_append_only BEFORE DELETE OR UPDATE ON payonce.statements FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER statements_no_truncate BEFORE TRUNCATE ON payonce.statements FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.subjects (
  type text not null,
  id text not null,
  partner_id text not null,
  natural_key text not null,
  event_seq bigint not null default 0,
  closed_at timestamp with time zone,
  closed_as text,
  constraint subjects_pkey PRIMARY KEY (type, id),
  constraint subjects_natural_key UNIQUE (type, natural_key),
  constraint subjects_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint subjects_check CHECK (((closed_at IS NULL) = (closed_as IS NULL))),
  constraint subjects_closed_as_check CHECK ((closed_as = ANY (ARRAY['failed'::text, 'cancelled'::text])))
) with (fillfactor=80);
CREATE TRIGGER subjects_guard BEFORE DELETE OR UPDATE ON payonce.subjects FOR EACH ROW EXECUTE FUNCTION payonce.subjects_guard();
CREATE TRIGGER subjects_no_truncate BEFORE TRUNCATE ON payonce.subjects FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.supplies (
  id text not null,
  subject_type text not null,
  lane text not null,
  ordinal integer not null,
  chain text not null,
  address text not null,
  for_effect bigint,
  units numeric(78,0) not null,
  duration_ms bigint,
  made_at timestamp with time zone not null default payonce.now(),
  constraint supplies_pkey PRIMARY KEY (id),
  constraint supplies_once UNIQUE (lane, ordinal),
  constraint supplies_for_effect_fkey FOREIGN KEY (for_effect) REFERENCES payonce.effects(id),
  constraint supplies_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint supplies_check CHECK (((subject_type = 'energy'::text) = (for_effect IS NOT NULL))),
  constraint supplies_check1 CHECK (((subject_type = 'energy'::text) = (duration_ms IS NOT NULL))),
  constraint supplies_duration_ms_check CHECK ((duration_ms > 0)),
  constraint supplies_ordinal_check CHECK ((ordinal >= 1)),
  constraint supplies_subject_type_check CHECK ((subject_type = ANY (ARRAY['topup'::text, 'energy'::text]))),
  constraint supplies_units_check CHECK ((units > (0)::numeric))
);
CREATE TRIGGER supplies_append_only BEFORE DELETE OR UPDATE ON payonce.supplies FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER supplies_no_truncate BEFORE TRUNCATE ON payonce.supplies FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.transfer_batch_fates (
  batch_id text not null,
  line integer not null,
  seq integer not null,
  fate text not null,
  object_id text,
  detail text not null,
  at timestamp with time zone not null default payonce.now(),
  constraint transfer_batch_fates_pkey PRIMARY KEY (batch_id, line, seq),
  constraint transfer_batch_fates_batch_id_line_fkey FOREIGN KEY (batch_id, line) REFERENCES payonce.transfer_batch_lines(batch_id, line),
  constraint transfer_batch_fates_check CHECK (((seq = 1) OR (fate <> 'unknown'::text))),
  constraint transfer_batch_fates_fate_check CHECK ((fate = ANY (ARRAY['paid'::text, 'not_paid'::text, 'unknown'::text]))),
  constraint transfer_batch_fates_seq_check CHECK ((seq = ANY (ARRAY[1, 2])))
);
CREATE TRIGGER transfer_batch_fates_append_only BEFORE DELETE OR UPDATE ON payonce.transfer_batch_fates FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfer_batch_fates_guard BEFORE INSERT ON payonce.transfer_batch_fates FOR EACH ROW EXECUTE FUNCTION payonce.transfer_batch_fates_guard();
CREATE TRIGGER transfer_batch_fates_no_truncate BEFORE TRUNCATE ON payonce.transfer_batch_fates FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.transfer_batch_faults (
  batch_id text not null,
  n integer not null,
  line integer not null,
  column_name text not null,
  column_number integer,
  got text not null,
  expected text not null,
  constraint transfer_batch_faults_pkey PRIMARY KEY (batch_id, n),
  constraint transfer_batch_faults_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES payonce.transfer_batches(id),
  constraint transfer_batch_faults_column_number_check CHECK ((column_number >= 1)),
  constraint transfer_batch_faults_line_check CHECK ((line >= 1)),
  constraint transfer_batch_faults_n_check CHECK ((n >= 1))
);
CREATE TRIGGER transfer_batch_faults_append_only BEFORE DELETE OR UPDATE ON payonce.transfer_batch_faults FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfer_batch_faults_no_truncate BEFORE TRUNCATE ON payonce.transfer_batch_faults FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.transfer_batch_lines (
  batch_id text not null,
  line integer not null,
  ref text not null,
  partner_id text not null,
  external_id text,
  amount numeric(78,0) not null,
  fee numeric(78,0),
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  holder_name_nfc text not null,
  memo text not null,
  constraint transfer_batch_lines_pkey PRIMARY KEY (batch_id, line),
  constraint transfer_batch_lines_ref UNIQUE (batch_id, ref),
  constraint transfer_batch_lines_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES payonce.transfer_batches(id),
  constraint transfer_batch_lines_amount_check CHECK ((amount > (0)::numeric)),
  constraint transfer_batch_lines_fee_check CHECK ((fee >= (0)::numeric)),
  constraint transfer_batch_lines_holder_name_nfc_check CHECK ((holder_name_nfc IS NFC NORMALIZED)),
  constraint transfer_batch_lines_line_check CHECK ((line >= 1))
);
CREATE INDEX transfer_batch_lines_external_id ON payonce.transfer_batch_lines USING btree (partner_id, external_id) WHERE ((external_id IS NOT NULL) AND (fee IS NOT NULL));
CREATE INDEX transfer_batch_lines_payee ON payonce.transfer_batch_lines USING btree (partner_id, payonce.payee_key(bank_code, account_number), amount) WHERE (external_id IS NULL);
CREATE TRIGGER transfer_batch_lines_append_only BEFORE DELETE OR UPDATE ON payonce.transfer_batch_lines FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfer_batch_lines_no_truncate BEFORE TRUNCATE ON payonce.transfer_batch_lines FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfer_batch_lines_reference BEFORE INSERT ON payonce.transfer_batch_lines FOR EACH ROW WHEN (((new.external_id IS NOT NULL) AND (new.fee IS NOT NULL))) EXECUTE FUNCTION payonce.take_reference();

create table payonce.transfer_batches (
  id text not null,
  partner_id text not null,
  idempotency_key text not null,
  file_sha256 text not null,
  format text not null,
  pays_as text not null,
  asset_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0),
  requested_at timestamp with time zone not null default payonce.now(),
  day date,
  taken_at timestamp with time zone,
  subject_type text not null default 'transfer_batch'::text,
  constraint transfer_batches_pkey PRIMARY KEY (id),
  constraint transfer_batches_key UNIQUE (partner_id, idempotency_key),
  constraint transfer_batches_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint transfer_batches_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint transfer_batches_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint transfer_batches_amount_check CHECK ((amount > (0)::numeric)),
  constraint transfer_batches_check CHECK (((pays_as = 'batch'::text) = (fee IS NOT NULL))),
  constraint transfer_batches_check1 CHECK (((pays_as = 'batch'::text) = (day IS NOT NULL))),
  constraint transfer_batches_fee_check CHECK ((fee >= (0)::numeric)),
  constraint transfer_batches_file_sha256_check CHECK ((file_sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint transfer_batches_format_check CHECK ((format = ANY (ARRAY['csv'::text, 'json'::text]))),
  constraint transfer_batches_pays_as_check CHECK ((pays_as = ANY (ARRAY['transfers'::text, 'batch'::text]))),
  constraint transfer_batches_subject_type_check CHECK ((subject_type = 'transfer_batch'::text))
);
CREATE INDEX transfer_batches_file ON payonce.transfer_batches USING btree (partner_id, file_sha256);
CREATE INDEX transfer_batches_list ON payonce.transfer_batches USING btree (partner_id, requested_at DESC, id DESC);
CREATE INDEX transfer_batches_open ON payonce.transfer_batches USING btree (requested_at, id) WHERE ((pays_as = 'transfers'::text) AND (taken_at IS NULL));
CREATE TRIGGER transfer_batches_kept BEFORE DELETE OR UPDATE ON payonce.transfer_batches FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change_but_mark('taken_at');
CREATE TRIGGER transfer_batches_no_truncate BEFORE TRUNCATE ON payonce.transfer_batches FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

create table payonce.transfers (
  id text not null,
  partner_id text not null,
  idempotency_key text not null,
  external_id text,
  asset_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0) not null,
  bank_code text not null,
  account_number text not null,
  holder_name text not null,
  holder_name_nfc text not null,
  memo text not null,
  repays text,
  requested_at timestamp with time zone not null default payonce.now(),
  day date not null,
  subject_type text not null default 'transfer'::text,
  constraint transfers_pkey PRIMARY KEY (id),
  constraint transfers_key UNIQUE (partner_id, idempotency_key),
  constraint transfers_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint transfers_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint transfers_repays_fkey FOREIGN KEY (repays) REFERENCES payonce.transfers(id),
  constraint transfers_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint transfers_amount_check CHECK ((amount > (0)::numeric)),
  constraint transfers_fee_check CHECK ((fee >= (0)::numeric)),
  constraint transfers_holder_name_nfc_check CHECK ((holder_name_nfc IS NFC NORMALIZED)),
  constraint transfers_subject_type_check CHECK ((subject_type = 'transfer'::text))
);
CREATE UNIQUE INDEX transfers_external_id ON payonce.transfers USING btree (partner_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX transfers_list ON payonce.transfers USING btree (partner_id, requested_at DESC, id DESC);
CREATE INDEX transfers_payee ON payonce.transfers USING btree (partner_id, payonce.payee_key(bank_code, account_number), amount) WHERE (external_id IS NULL);
CREATE UNIQUE INDEX transfers_repays ON payonce.transfers USING btree (repays) WHERE (repays IS NOT NULL);
CREATE TRIGGER transfers_append_only BEFORE DELETE OR UPDATE ON payonce.transfers FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfers_no_truncate BEFORE TRUNCATE ON payonce.transfers FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER transfers_reference BEFORE INSERT ON payonce.transfers FOR EACH ROW WHEN ((new.external_id IS NOT NULL)) EXECUTE FUNCTION payonce.take_reference();

create table payonce.wallet_levels (
  chain text not null,
  address text not null,
  asset_id text not null,
  units numeric(78,0) not null,
  warn_below numeric(78,0) not null,
  burned numeric(78,0) not null,
  burned_ms bigint not null,
  seconds_left bigint,
  is_short boolean not null,
  source text not null,
  checked_at timestamp with time zone not null default payonce.now(),
  constraint wallet_levels_pkey PRIMARY KEY (chain, address, asset_id),
  constraint wallet_levels_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint wallet_levels_burned_check CHECK ((burned >= (0)::numeric)),
  constraint wallet_levels_burned_ms_check CHECK ((burned_ms > 0)),
  constraint wallet_levels_seconds_left_check CHECK ((seconds_left >= 0)),
  constraint wallet_levels_source_check CHECK ((source = ANY (ARRAY['chain'::text, 'books'::text]))),
  constraint wallet_levels_warn_below_check CHECK ((warn_below >= (0)::numeric))
);

create table payonce.withdrawals (
  id text not null,
  partner_id text not null,
  idempotency_key text not null,
  external_id text,
  purpose text not null,
  asset_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0) not null,
  destination text not null,
  reference text,
  requested_at timestamp with time zone not null default payonce.now(),
  day date not null,
  subject_type text not null default 'withdrawal'::text,
  constraint withdrawals_pkey PRIMARY KEY (id),
  constraint withdrawals_key UNIQUE (partner_id, idempotency_key),
  constraint withdrawals_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint withdrawals_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id),
  constraint withdrawals_subject FOREIGN KEY (subject_type, id) REFERENCES payonce.subjects(type, id),
  constraint withdrawals_amount_check CHECK ((amount > (0)::numeric)),
  constraint withdrawals_fee_check CHECK ((fee >= (0)::numeric)),
  constraint withdrawals_purpose_check CHECK ((purpose = ANY (ARRAY['customer'::text, 'settlement'::text, 'self'::text]))),
  constraint withdrawals_subject_type_check CHECK ((subject_type = 'withdrawal'::text))
);
CREATE INDEX withdrawals_day ON payonce.withdrawals USING btree (partner_id, asset_id, day);
CREATE UNIQUE INDEX withdrawals_external_id ON payonce.withdrawals USING btree (partner_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX withdrawals_list ON payonce.withdrawals USING btree (partner_id, requested_at DESC, id DESC);
CREATE TRIGGER withdrawals_append_only BEFORE DELETE OR UPDATE ON payonce.withdrawals FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();
CREATE TRIGGER withdrawals_no_truncate BEFORE TRUNCATE ON payonce.withdrawals FOR EACH STATEMENT EXECUTE FUNCTION payonce.refuse_change();

-- views

create view payonce.broken_audit as
 SELECT 'audit line '::text || l.seq AS subject,
        CASE
            WHEN l.seq <> (l.seq_before + 1) THEN 'follows line '::text || l.seq_before
            WHEN l.detail IS NOT NULL AND payonce.audit_digest(l.detail) <> l.detail_digest THEN 'its detail is not what was written'::text
            ELSE 'does not continue the chain'::text
        END AS detail
   FROM ( SELECT audit_log.seq,
            audit_log.at,
            audit_log.actor,
            audit_log.action,
            audit_log.object,
            audit_log.detail,
            audit_log.detail_digest,
            audit_log.hash,
            lag(audit_log.seq, 1, 0::bigint) OVER (ORDER BY audit_log.seq) AS seq_before,
            lag(audit_log.hash, 1, repeat('0'::text, 64)) OVER (ORDER BY audit_log.seq) AS hash_before
           FROM payonce.audit_log) l
  WHERE l.seq <> (l.seq_before + 1) OR l.detail IS NOT NULL AND payonce.audit_digest(l.detail) <> l.detail_digest OR l.hash <> encode(sha256(convert_to((((((((((((l.hash_before || chr(10)) || l.seq) || chr(10)) || EXTRACT(epoch FROM l.at)) || chr(10)) || l.actor) || chr(10)) || l.action) || chr(10)) || l.object) || chr(10)) || l.detail_digest, 'UTF8'::name)), 'hex'::text)
UNION ALL
 SELECT 'audit head'::text AS subject,
    (('stands at '::text || h.seq) || ', the last line is '::text) || COALESCE(l.seq::text, 'none'::text) AS detail
   FROM payonce.audit_head h
     LEFT JOIN ( SELECT audit_log.seq,
            audit_log.hash
           FROM payonce.audit_log
          ORDER BY audit_log.seq DESC
         LIMIT 1) l ON true
  WHERE h.seq <> COALESCE(l.seq, 0::bigint) OR h.hash <> COALESCE(l.hash, repeat('0'::text, 64));

create view payonce.broken_e10 as
 SELECT 'effect '::text || e.id AS subject,
    (('was released by '::text || COALESCE(((v.kind || ' ('::text) || v.rank) || ')'::text, 'nothing'::text)) || ' as '::text) || COALESCE(e.release_rank, 'nothing'::text) AS detail
   FROM payonce.effects e
     LEFT JOIN payonce.effect_evidence v ON v.id = e.released_by AND v.effect_id = e.id
     LEFT JOIN payonce.evidence_kinds k ON k.kind = v.kind
  WHERE e.state = 'RELEASED'::text AND (v.id IS NULL OR k.says <> 'no'::text AND NOT (v.kind = 'NEVER_LEFT'::text AND v.rank = 'dead'::text) OR v.struck_at IS NOT NULL OR v.rank IS DISTINCT FROM e.release_rank OR (v.kind = 'NEVER_SEALED'::text) <> (e.sealed_at IS NULL));

create view payonce.broken_e11 as
 SELECT 'effect '::text || e.id AS subject,
    ((((('was released by '::text || v.kind) || ' over '::text) || y.kind) || ' (evidence '::text) || y.id) || ')'::text AS detail
   FROM payonce.effects e
     JOIN payonce.effect_evidence v ON v.id = e.released_by
     JOIN payonce.evidence_kinds k ON k.kind = v.kind
     JOIN payonce.effect_evidence y ON y.effect_id = e.id AND y.id < v.id AND (y.rank = ANY (ARRAY['word'::text, 'object'::text])) AND y.struck_at IS NULL
  WHERE e.state = 'RELEASED'::text AND (y.rank = 'object'::text OR NOT k.chain_final AND NOT (v.kind = 'PROVIDER_FAILED'::text AND v.rank = 'dead'::text AND NOT v.object_id IS DISTINCT FROM e.accepted_object))
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    (((('was released as believed at '::text || e.ended_at) || ', with lateness until '::text) || COALESCE(e.lateness_until::text, 'nothing'::text)) || ' and a fresh look at '::text) || COALESCE(e.fresh_look_at::text, 'nothing'::text) AS detail
   FROM payonce.effects e
  WHERE e.state = 'RELEASED'::text AND e.release_rank = 'believed'::text AND (e.lateness_until IS NULL OR e.lateness_until > e.ended_at OR e.fresh_look_at IS NULL OR e.fresh_look_at < e.lateness_until);

create view payonce.broken_e13 as
 SELECT 'effect '::text || e.id AS subject,
    ((('counts '::text || e.testimonies) || ' testimonies of '::text) || COALESCE(y.stored, 0::bigint)) || ' stored'::text AS detail
   FROM payonce.effects e
     LEFT JOIN ( SELECT effect_evidence.effect_id,
            count(*) AS stored
           FROM payonce.effect_evidence
          WHERE (effect_evidence.rank = ANY (ARRAY['word'::text, 'object'::text])) AND effect_evidence.struck_at IS NULL
          GROUP BY effect_evidence.effect_id) y ON y.effect_id = e.id
  WHERE e.testimonies <> COALESCE(y.stored, 0::bigint)
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    (('is released though '::text || y.kind) || ' came after, at '::text) || y.at AS detail
   FROM payonce.effects e
     JOIN payonce.effect_evidence y ON y.effect_id = e.id AND y.id > e.released_by AND (y.rank = ANY (ARRAY['word'::text, 'object'::text])) AND y.struck_at IS NULL
  WHERE e.state = 'RELEASED'::text AND e.contradicted_at IS NULL AND NOT (y.rank = 'word'::text AND y.object_id IS NOT NULL AND (EXISTS ( SELECT 1
           FROM payonce.effect_evidence f
          WHERE f.id = e.released_by AND f.kind = 'PROVIDER_FAILED'::text AND f.object_id = y.object_id))) AND y.at < (payonce.now() - '00:10:00'::interval)
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    'is contradicted and has no case'::text AS detail
   FROM payonce.effects e
  WHERE e.contradicted_at IS NOT NULL AND NOT (EXISTS ( SELECT 1
           FROM payonce.cases c
          WHERE c.effect_id = e.id AND c.kind = 'contradiction'::text));

create view payonce.broken_e15 as
 SELECT e15_without_batches.subject,
    e15_without_batches.detail
   FROM payonce.e15_without_batches
UNION ALL
 SELECT 'batch '::text || b.id AS subject,
    (('key '::text || b.idempotency_key) || ' answers '::text) || COALESCE(k.resource_id, 'nothing'::text) AS detail
   FROM payonce.transfer_batches b
     LEFT JOIN payonce.idempotency_keys k ON k.partner_id = b.partner_id AND k.key = b.idempotency_key
  WHERE k.resource_id IS DISTINCT FROM b.id
UNION ALL
 SELECT (('key '::text || k.key) || ' of '::text) || k.partner_id AS subject,
    ('names batch '::text || k.resource_id) || ', which does not exist'::text AS detail
   FROM payonce.idempotency_keys k
  WHERE k.resource_type = 'transfer_batch'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.transfer_batches b
          WHERE b.id = k.resource_id));

create view payonce.broken_e16 as
 SELECT 'lane '::text || lane AS subject,
    ('has '::text || count(*)) || ' open effects'::text AS detail
   FROM payonce.effects e
  WHERE lane IS NOT NULL AND (state = ANY (ARRAY['PENDING'::text, 'SEALED'::text]))
  GROUP BY lane
 HAVING count(*) > 1;

create view payonce.broken_e17 as
 SELECT e17_without_batches.subject,
    e17_without_batches.detail
   FROM payonce.e17_without_batches
UNION ALL
 SELECT (('effect '::text || r.effect_id) || ' line '::text) || COALESCE(r.line_ref, '(none)'::text) AS subject,
    (('got back '::text || sum(r.amount)) || ' of '::text) || COALESCE(min(l.amount), 0::numeric) AS detail
   FROM payonce.returns r
     JOIN payonce.effects e ON e.id = r.effect_id AND e.subject_type = 'transfer_batch'::text
     LEFT JOIN payonce.transfer_batch_lines l ON l.batch_id = e.subject_id AND l.ref = r.line_ref AND (EXISTS ( SELECT 1
           FROM payonce.transfer_batch_fates f
          WHERE f.batch_id = l.batch_id AND f.line = l.line AND f.fate = 'paid'::text))
  GROUP BY r.effect_id, r.line_ref
 HAVING sum(r.amount) > COALESCE(min(l.amount), 0::numeric);

create view payonce.broken_e3 as
 SELECT e3_without_payouts.subject,
    e3_without_payouts.detail
   FROM payonce.e3_without_payouts
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || b.booked) || ' confirmations and '::text) || b.overpaid) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE p.idem_key = ANY (ARRAY['PAY_CONFIRM:'::text || e.subject_id, 'PYB_CONFIRM:'::text || e.subject_id])) AS booked,
            count(*) FILTER (WHERE p.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings p
          WHERE p.effect_id = e.id) b
  WHERE (e.subject_type = ANY (ARRAY['payout'::text, 'payout_batch'::text])) AND ((b.booked + b.overpaid) <> (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL)::integer OR b.booked > 0 AND e.state <> 'SETTLED'::text);

create view payonce.broken_e5 as
 SELECT (('effect '::text || h.effect_id) || ' step '::text) || h.seq AS subject,
    (((COALESCE(h.from_state, 'nothing'::text) || ' → '::text) || h.to_state) || ' after '::text) || COALESCE(h.state_before, 'nothing'::text) AS detail
   FROM ( SELECT effect_history.effect_id,
            effect_history.seq,
            effect_history.from_state,
            effect_history.to_state,
            lag(effect_history.to_state) OVER chain AS state_before,
            lag(effect_history.seq, 1, 0) OVER chain AS seq_before
           FROM payonce.effect_history
          WINDOW chain AS (PARTITION BY effect_history.effect_id ORDER BY effect_history.seq)) h
     LEFT JOIN payonce.effect_edges g ON g.from_state = h.from_state AND g.to_state = h.to_state
  WHERE h.seq <> (h.seq_before + 1) OR h.from_state IS DISTINCT FROM h.state_before OR h.from_state IS NULL AND h.to_state <> 'PENDING'::text OR h.from_state IS NOT NULL AND g.from_state IS NULL
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    (((('is '::text || e.state) || ' after '::text) || e.transitions) || ' transitions; its history says '::text) || COALESCE(h.to_state, 'nothing'::text) AS detail
   FROM payonce.effects e
     LEFT JOIN payonce.effect_history h ON h.effect_id = e.id AND h.seq = e.transitions
  WHERE h.to_state IS DISTINCT FROM e.state OR (EXISTS ( SELECT 1
           FROM payonce.effect_history n
          WHERE n.effect_id = e.id AND n.seq > e.transitions));

create view payonce.broken_e6 as
 SELECT (('effect '::text || a.effect_id) || ' answer '::text) || a.id AS subject,
        CASE
            WHEN e.sealed_at IS NULL THEN 'was sent without a seal'::text
            WHEN a.received_at < e.sealed_at THEN 'was answered before the seal'::text
            WHEN a.send_number < 1 OR a.send_number > e.send_count THEN (('is of send '::text || a.send_number) || ' of '::text) || e.send_count
            WHEN a.variant_hash IS NULL THEN 'was sent without a signed variant'::text
            ELSE ('sent '::text || a.variant_hash) || ', which was not stored before'::text
        END AS detail
   FROM payonce.effect_answers a
     JOIN payonce.effects e ON e.id = a.effect_id
     LEFT JOIN payonce.effect_variants v ON v.hash = a.variant_hash AND v.effect_id = a.effect_id
  WHERE a.operation = 'send'::text AND (e.sealed_at IS NULL OR a.received_at < e.sealed_at OR a.send_number < 1 OR a.send_number > e.send_count OR a.variant_hash IS NULL AND e.nonce IS NOT NULL OR a.variant_hash IS NOT NULL AND (v.id IS NULL OR v.signed_at > a.received_at));

create view payonce.broken_e8 as
 SELECT 'effect '::text || n.id AS subject,
        CASE
            WHEN p.id IS NULL THEN ('is try '::text || n.seq) || ' and there is none before it'::text
            WHEN NOT (EXISTS ( SELECT 1
               FROM payonce.effect_history h
              WHERE h.effect_id = p.id AND h.to_state = 'RELEASED'::text)) THEN ('follows effect '::text || p.id) || ', which was never released'::text
            ELSE ('differs from effect '::text || p.id) || ' in what was frozen at intake'::text
        END AS detail
   FROM payonce.effects n
     LEFT JOIN payonce.effects p ON p.subject_type = n.subject_type AND p.subject_id = n.subject_id AND p.seq = (n.seq - 1)
  WHERE n.seq > 1 AND (p.id IS NULL OR NOT (EXISTS ( SELECT 1
           FROM payonce.effect_history h
          WHERE h.effect_id = p.id AND h.to_state = 'RELEASED'::text)) OR p.partner_id IS DISTINCT FROM n.partner_id OR p.asset_id IS DISTINCT FROM n.asset_id OR p.amount IS DISTINCT FROM n.amount OR p.destination IS DISTINCT FROM n.destination OR p.wallet IS DISTINCT FROM n.wallet OR p.call IS DISTINCT FROM n.call)
UNION ALL
 SELECT (('subject '::text || e.subject_type) || ' '::text) || e.subject_id AS subject,
    ('has '::text || count(*)) || ' live effects'::text AS detail
   FROM payonce.effects e
  WHERE e.state <> 'RELEASED'::text
  GROUP BY e.subject_type, e.subject_id
 HAVING count(*) > 1;

create view payonce.broken_e9 as
 SELECT (('signer '::text || u.rail) || ' '::text) || u.signer AS subject,
        CASE
            WHEN u.used <> u.different THEN 'gave one nonce to two effects'::text
            WHEN g.address IS NULL THEN 'is no signer of ours'::text
            WHEN u.last >= g.next_nonce THEN (('used nonce '::text || u.last) || ' though the next is '::text) || g.next_nonce
            ELSE ((((('used '::text || u.used) || ' nonces from '::text) || u.first) || ' to below '::text) || g.next_nonce) || ', and no case says why'::text
        END AS detail
   FROM ( SELECT effects.rail,
            effects.signer,
            count(*) AS used,
            count(DISTINCT effects.nonce) AS different,
            min(effects.nonce) AS first,
            max(effects.nonce) AS last
           FROM payonce.effects
          WHERE effects.nonce IS NOT NULL
          GROUP BY effects.rail, effects.signer) u
     LEFT JOIN payonce.signers g ON g.rail = u.rail AND g.address = u.signer
  WHERE u.used <> u.different OR g.address IS NULL OR u.last >= g.next_nonce OR (u.first + u.used) <> g.next_nonce AND g.quarantined_at IS NULL AND NOT (EXISTS ( SELECT 1
           FROM payonce.cases c
          WHERE c.kind = 'signer_quarantined'::text AND c.subject_key = ((u.rail || ':'::text) || u.signer)));

create view payonce.broken_i1 as
 SELECT i1_of_receivers.subject,
    i1_of_receivers.detail
   FROM payonce.i1_of_receivers
UNION ALL
 SELECT ((((('transfer '::text || t.id) || ' ('::text) || t.tx_hash) || ':'::text) || t."position") || ')'::text AS subject,
    (('is '::text || t.class) || ' and on its sender''s side '::text) || COALESCE(t.sender_class, 'nothing'::text) AS detail
   FROM payonce.chain_transfers t
     LEFT JOIN payonce.addresses a ON a.chain = t.chain AND a.address = t.from_address AND a.created_at < (t.seen_at - '00:01:00'::interval)
  WHERE t.final_at IS NOT NULL AND (a.id IS NOT NULL AND t.sender_class IS NULL OR t.sender_class IS NOT NULL AND t.sender_class <> t.class AND NOT ((t.class = ANY (ARRAY['DEPOSIT'::text, 'UNKNOWN_INBOUND'::text])) AND t.sender_class = 'OWN_EFFECT'::text));

create view payonce.broken_l1 as
 SELECT 'posting '::text || e.posting_id AS subject,
    (('sums to '::text || sum(e.amount)) || ' in '::text) || e.asset_id AS detail
   FROM payonce.ledger_entries e
  GROUP BY e.posting_id, e.asset_id
 HAVING sum(e.amount) <> 0::numeric
UNION ALL
 SELECT 'posting '::text || p.id AS subject,
    ('has no entries ('::text || p.idem_key) || ')'::text AS detail
   FROM payonce.postings p
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.ledger_entries e
          WHERE e.posting_id = p.id))
UNION ALL
 SELECT (('account '::text || e.account_id) || ' seq '::text) || e.seq AS subject,
    ('belongs to posting '::text || e.posting_id) || ', which does not exist'::text AS detail
   FROM payonce.ledger_entries e
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.postings p
          WHERE p.id = e.posting_id))
UNION ALL
 SELECT 'asset '::text || a.asset_id AS subject,
    ('sums to '::text || sum(a.balance)) || ' over all accounts'::text AS detail
   FROM payonce.accounts a
  GROUP BY a.asset_id
 HAVING sum(a.balance) <> 0::numeric;

create view payonce.broken_l2 as
 SELECT (('account '::text || account_id) || ' seq '::text) || seq AS subject,
    (((((('after '::text || balance_before) || ' at seq '::text) || seq_before) || ' comes '::text) || amount) || ' and stands at '::text) || balance_after AS detail
   FROM ( SELECT e.account_id,
            e.seq,
            e.amount,
            e.balance_after,
            lag(e.seq, 1, 0::bigint) OVER chain AS seq_before,
            lag(e.balance_after, 1, 0::numeric) OVER chain AS balance_before
           FROM payonce.ledger_entries e
          WINDOW chain AS (PARTITION BY e.account_id ORDER BY e.seq)) l
  WHERE seq <> (seq_before + 1) OR balance_after <> (balance_before + amount);

create view payonce.broken_l3 as
 SELECT ((('account '::text || a.id) || ' ('::text) || a.code) || ')'::text AS subject,
    (((((((('balance '::text || a.balance) || ', entries '::text) || COALESCE(s.total, 0::numeric)) || ', last '::text) || COALESCE(l.balance_after, 0::numeric)) || ', seq '::text) || a.seq) || ' of '::text) || COALESCE(s.last_seq, 0::bigint) AS detail
   FROM payonce.accounts a
     LEFT JOIN ( SELECT ledger_entries.account_id,
            sum(ledger_entries.amount) AS total,
            max(ledger_entries.seq) AS last_seq
           FROM payonce.ledger_entries
          GROUP BY ledger_entries.account_id) s ON s.account_id = a.id
     LEFT JOIN payonce.ledger_entries l ON l.account_id = a.id AND l.seq = s.last_seq
  WHERE a.balance <> COALESCE(s.total, 0::numeric) OR a.balance <> COALESCE(l.balance_after, 0::numeric) OR a.seq <> COALESCE(s.last_seq, 0::bigint);

create view payonce.broken_l4 as
 SELECT ((('account '::text || a.id) || ' ('::text) || a.code) || ')'::text AS subject,
    (((((('balance '::text || a.balance) || ', held '::text) || a.held) || ', floor '::text) || a.floor) || ', deficit '::text) || a.deficit AS detail
   FROM payonce.accounts a
  WHERE (a.balance - a.held) < (a.floor - a.deficit) OR a.deficit > GREATEST(0::numeric, a.floor - (a.balance - a.held)) OR a.deficit > 0::numeric AND a.floor IS NULL
UNION ALL
 SELECT (('account '::text || e.account_id) || ' seq '::text) || e.seq AS subject,
    (('stood at '::text || e.balance_after) || ', below its floor '::text) || a.floor AS detail
   FROM payonce.ledger_entries e
     JOIN payonce.accounts a ON a.id = e.account_id
  WHERE e.balance_after < a.floor AND NOT (EXISTS ( SELECT 1
           FROM payonce.ledger_entries r
             JOIN payonce.postings p ON p.id = r.posting_id
          WHERE r.account_id = e.account_id AND r.seq <= e.seq AND (p.reverses IS NOT NULL OR p.idem_key ~~ 'ADJUST:%'::text))) AND NOT (EXISTS ( SELECT 1
           FROM payonce.holds h
          WHERE h.account_id = e.account_id AND h.key ~~ '%:reopened:%'::text));

create view payonce.broken_l5 as
 WITH booked AS (
         SELECT COALESCE(y.batch_id, split_part(p.idem_key, ':'::text, 2)) AS id,
            min(p.idem_key) AS idem_key,
            min(l.asset_id) AS asset_id,
            count(DISTINCT l.asset_id) AS assets,
            min(a.partner_id) AS partner_id,
            COALESCE(sum(l.amount) FILTER (WHERE a.partner_id IS NOT NULL), 0::numeric) AS partner,
            COALESCE(sum(l.amount) FILTER (WHERE a.code ~~ 'custody:%'::text), 0::numeric) AS custody
           FROM payonce.postings p
             JOIN payonce.ledger_entries l ON l.posting_id = p.id
             JOIN payonce.accounts a ON a.id = l.account_id
             LEFT JOIN payonce.payouts y ON p.idem_key = ('PYB_LINE:'::text || y.id)
          WHERE p.idem_key ~ '^(PAY_CONFIRM|PYB_CONFIRM|PYB_LINE):'::text
          GROUP BY (COALESCE(y.batch_id, split_part(p.idem_key, ':'::text, 2)))
        ), owed AS (
         SELECT COALESCE(y.batch_id, y.id) AS id,
            min(y.partner_id) AS partner_id,
            min(y.asset_id) AS asset_id,
            COALESCE(sum(y.amount) FILTER (WHERE y.taken = ANY (ARRAY['paid'::text, 'unknown'::text])), 0::numeric) AS took,
            COALESCE(sum(y.amount) FILTER (WHERE y.taken = 'paid'::text), 0::numeric) AS went
           FROM payonce.payouts y
          GROUP BY (COALESCE(y.batch_id, y.id))
        )
 SELECT l5_without_payouts.subject,
    l5_without_payouts.detail
   FROM payonce.l5_without_payouts
  WHERE l5_without_payouts.subject !~~ 'posting PAY_CONFIRM:_%'::text AND l5_without_payouts.subject !~~ 'posting PYB_CONFIRM:_%'::text AND l5_without_payouts.subject !~~ 'posting PYB_LINE:_%'::text
UNION ALL
 SELECT 'posting '::text || b.idem_key AS subject,
    (((((('books '::text || b.partner) || ' for '::text) || COALESCE(b.partner_id, 'nobody'::text)) || ', not '::text) || (- COALESCE(o.took, 0::numeric))) || ' for '::text) || COALESCE(o.partner_id, 'nobody'::text) AS detail
   FROM booked b
     LEFT JOIN owed o ON o.id = b.id
  WHERE b.assets IS DISTINCT FROM 1::bigint OR b.asset_id IS DISTINCT FROM o.asset_id OR b.partner_id IS DISTINCT FROM o.partner_id OR b.partner IS DISTINCT FROM (- o.took) OR b.custody IS DISTINCT FROM o.went;

create view payonce.broken_l6 as
 SELECT l6_without_payouts.subject,
    l6_without_payouts.detail
   FROM payonce.l6_without_payouts
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    (('pays '::text || o.amount) || ' to creators and holds '::text) || COALESCE(h.amount::text, 'nothing'::text) AS detail
   FROM payonce.effects e
     JOIN LATERAL ( SELECT sum(y.amount) AS amount
           FROM payonce.payouts y
          WHERE COALESCE(y.batch_id, y.id) = e.subject_id) o ON true
     LEFT JOIN payonce.holds h ON h.key = e.hold_key
  WHERE (e.subject_type = ANY (ARRAY['payout'::text, 'payout_batch'::text])) AND (o.amount IS DISTINCT FROM h.amount OR e.amount IS DISTINCT FROM h.amount);

create view payonce.broken_l7 as
 SELECT 'table '::text || w.guarded AS subject,
    'has lost its trigger '::text || w.guard AS detail
   FROM ( VALUES ('ledger_entries'::text,'ledger_entries_append_only'::text), ('ledger_entries'::text,'ledger_entries_no_truncate'::text), ('ledger_entries'::text,'ledger_entries_whole'::text), ('postings'::text,'postings_append_only'::text), ('postings'::text,'postings_no_truncate'::text)) w(guarded, guard)
  WHERE NOT (EXISTS ( SELECT 1
           FROM pg_trigger t
          WHERE t.tgrelid = to_regclass('payonce.'::text || w.guarded)::oid AND t.tgname = w.guard))
UNION ALL
 SELECT 'table '::text || c.relname::text AS subject,
    ('its trigger '::text || t.tgname::text) || ' is switched off'::text AS detail
   FROM pg_trigger t
     JOIN pg_class c ON c.oid = t.tgrelid
  WHERE c.relnamespace = 'payonce'::regnamespace::oid AND (t.tgenabled <> ALL (ARRAY['O'::"char", 'A'::"char"]));

create view payonce.broken_l8 as
 SELECT 'posting '::text || p.idem_key AS subject,
    'is a reversal that names no original'::text AS detail
   FROM payonce.postings p
  WHERE p.idem_key ~ '^(DEP_REVERSAL|UNWOUND):'::text AND p.reverses IS NULL
UNION ALL
 SELECT 'posting '::text || r.idem_key AS subject,
    ('reverses '::text || o.idem_key) ||
        CASE
            WHEN o.reverses IS NOT NULL THEN ', itself a reversal'::text
            WHEN r.id <= o.id THEN ', which came later'::text
            ELSE ', which was reversed before'::text
        END AS detail
   FROM payonce.postings r
     JOIN payonce.postings o ON o.id = r.reverses
  WHERE o.reverses IS NOT NULL OR r.id <= o.id OR (EXISTS ( SELECT 1
           FROM payonce.postings p
          WHERE p.reverses = o.id AND p.id < r.id))
UNION ALL
 SELECT 'posting '::text || r.idem_key AS subject,
    (('does not give account '::text || l.account_id) || ' back its '::text) || (- l.amount) AS detail
   FROM payonce.postings r
     JOIN payonce.ledger_entries l ON l.posting_id = r.reverses AND l.amount < 0::numeric
     LEFT JOIN payonce.ledger_entries b ON b.posting_id = r.id AND b.account_id = l.account_id AND b.asset_id = l.asset_id
  WHERE r.reverses IS NOT NULL AND b.amount IS DISTINCT FROM (- l.amount);

create view payonce.broken_m1 as
 SELECT 'deposit order '::text || o.id AS subject,
    ((((o.amount || ' is not '::text) || l.taken) || ' in legs and '::text) || o.remaining_amount) || ' remaining'::text AS detail
   FROM payonce.p2p_deposit_orders o
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(g.amount), 0::numeric) AS taken
           FROM payonce.p2p_legs g
          WHERE g.deposit_order_id = o.id AND (g.state = ANY (ARRAY['OPEN'::text, 'SETTLED'::text]))) l
  WHERE o.amount <> (l.taken + o.remaining_amount)
UNION ALL
 SELECT 'withdraw order '::text || o.id AS subject,
    (((((('has reserved '::text || o.reserved) || ' and settled '::text) || o.settled) || ', its legs '::text) || l.open) || ' and '::text) || l.settled AS detail
   FROM payonce.p2p_withdraw_orders o
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(g.amount) FILTER (WHERE g.state = 'OPEN'::text), 0::numeric) AS open,
            COALESCE(sum(g.amount) FILTER (WHERE g.state = 'SETTLED'::text AND NOT g.is_history), 0::numeric) AS settled,
            COALESCE(sum(g.amount) FILTER (WHERE g.is_history), 0::numeric) AS before
           FROM payonce.p2p_legs g
          WHERE g.withdraw_order_id = o.id) l
  WHERE o.reserved <> l.open OR (o.settled - o.settled_before) <> l.settled OR l.before > o.settled_before
UNION ALL
 SELECT (('account '::text || COALESCE(a.code, 'p2p:'::text || s.partner_id)) || ' in '::text) || COALESCE(a.asset_id, s.asset_id) AS subject,
    ((('holds '::text || COALESCE(a.balance, 0::numeric)) || ', sellers have '::text) || COALESCE(s.amount, 0::numeric)) || ' set aside'::text AS detail
   FROM ( SELECT o.partner_id,
            o.asset_id,
            sum(o.amount - o.settled - o.given_back) AS amount
           FROM payonce.p2p_withdraw_orders o
          GROUP BY o.partner_id, o.asset_id) s
     FULL JOIN ( SELECT a_1.code,
            a_1.asset_id,
            a_1.balance
           FROM payonce.accounts a_1
          WHERE a_1.code ~~ 'p2p:%'::text) a ON a.code = ('p2p:'::text || s.partner_id) AND a.asset_id = s.asset_id
  WHERE COALESCE(a.balance, 0::numeric) <> COALESCE(s.amount, 0::numeric);

create view payonce.broken_m2 as
 SELECT 'deposit order '::text || o.id AS subject,
    ((((((('is '::text || o.status) || ' with '::text) || l.open) || ' open and '::text) || l.settled) || ' settled legs and '::text) || o.remaining_amount) || ' remaining'::text AS detail
   FROM payonce.p2p_deposit_orders o
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE g.state = 'OPEN'::text) AS open,
            count(*) FILTER (WHERE g.state = 'SETTLED'::text) AS settled
           FROM payonce.p2p_legs g
          WHERE g.deposit_order_id = o.id) l
  WHERE NOT
        CASE o.status
            WHEN 'PENDING'::text THEN o.remaining_amount > 0::numeric OR l.open > 0
            WHEN 'MATCHING'::text THEN l.open > 0 OR NOT o.waits_lp
            WHEN 'MATCHED'::text THEN l.open > 0
            WHEN 'COMPLETED'::text THEN l.open = 0 AND l.settled > 0 AND o.remaining_amount = 0::numeric
            WHEN 'PARTIALLY_SETTLED'::text THEN l.open = 0 AND l.settled > 0 AND o.remaining_amount > 0::numeric
            ELSE l.open = 0 AND l.settled = 0
        END
UNION ALL
 SELECT 'withdraw order '::text || o.id AS subject,
    (((('is '::text || o.status) || ' with '::text) || o.settled) || ' settled of '::text) || o.amount AS detail
   FROM payonce.p2p_withdraw_orders o
  WHERE NOT
        CASE o.status
            WHEN 'COMPLETED'::text THEN o.settled = o.amount
            WHEN 'PARTIALLY_SETTLED'::text THEN o.settled > 0::numeric AND o.settled < o.amount
            WHEN 'EXPIRED'::text THEN o.settled = 0::numeric
            WHEN 'CANCELLED'::text THEN o.settled = 0::numeric
            ELSE true
        END;

create view payonce.broken_m3 as
 SELECT 'leg '::text || g.id AS subject,
    ((((('is '::text || g.state) || ' and has '::text) || p.credits) || ' credits and '::text) || p.surpluses) || ' surpluses'::text AS detail
   FROM payonce.p2p_legs g
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE p_1.idem_key = (('P2P_LEG:'::text || g.id) || ':CREDIT'::text)) AS credits,
            count(*) FILTER (WHERE p_1.idem_key = (('P2P_LEG:'::text || g.id) || ':SURPLUS'::text)) AS surpluses
           FROM payonce.postings p_1
          WHERE p_1.idem_key = ANY (ARRAY[('P2P_LEG:'::text || g.id) || ':CREDIT'::text, ('P2P_LEG:'::text || g.id) || ':SURPLUS'::text])) p
  WHERE p.credits <> (g.state = 'SETTLED'::text AND NOT g.is_history)::integer OR p.surpluses > (g.state = 'SURPLUS'::text)::integer
UNION ALL
 SELECT 'leg '::text || g.id AS subject,
    ('was made after order '::text || o.id) || ' had closed'::text AS detail
   FROM payonce.p2p_legs g
     JOIN payonce.p2p_deposit_orders o ON o.id = g.deposit_order_id
  WHERE g.created_at > o.closed_at;

create view payonce.broken_m4 as
 SELECT 'leg '::text || g.id AS subject,
    ('has '::text || e.live) || ' trades that are not released'::text AS detail
   FROM payonce.p2p_legs g
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE e_1.state <> 'RELEASED'::text) AS live,
            count(*) AS made,
            count(*) FILTER (WHERE e_1.amount <> g.amount OR e_1.rail <> g.rail) AS others,
            count(*) FILTER (WHERE e_1.state = 'SETTLED'::text) AS settled
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'p2p_leg'::text AND e_1.subject_id = g.id) e
  WHERE g.kind = 'LP'::text AND NOT g.is_history AND (e.live > 1 OR e.made < 1 OR e.others > 0 OR g.state = 'OPEN'::text AND e.live = 0 OR (e.settled > 0) <> (g.state = 'SETTLED'::text OR g.state = 'SURPLUS'::text AND (EXISTS ( SELECT 1
           FROM payonce.postings p
          WHERE p.idem_key = (('P2P_LEG:'::text || g.id) || ':SURPLUS'::text)))));

create view payonce.broken_n1 as
 SELECT n1_without_payouts.subject,
    n1_without_payouts.detail
   FROM payonce.n1_without_payouts
UNION ALL
 SELECT 'payout '::text || e.subject_id AS subject,
    'is settled and no event says so'::text AS detail
   FROM payonce.effects e
  WHERE (e.subject_type = ANY (ARRAY['payout'::text, 'payout_batch'::text])) AND e.state = 'SETTLED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND (v.type = ANY (ARRAY['payout.confirmed'::text, 'payout_batch.finished'::text]))));

create view payonce.broken_n2 as
 SELECT (('subject '::text || s.type) || ' '::text) || s.id AS subject,
    (((('has '::text || COALESCE(e.events, 0::bigint)) || ' events up to '::text) || COALESCE(e.last, 0::bigint)) || ', its counter says '::text) || s.event_seq AS detail
   FROM payonce.subjects s
     LEFT JOIN ( SELECT events.subject_type,
            events.subject_id,
            count(*) AS events,
            min(events.sequence) AS first,
            max(events.sequence) AS last
           FROM payonce.events
          GROUP BY events.subject_type, events.subject_id) e ON e.subject_type = s.type AND e.subject_id = s.id
  WHERE COALESCE(e.events, 0::bigint) <> s.event_seq OR COALESCE(e.last, 0::bigint) <> s.event_seq OR COALESCE(e.first, 1::bigint) <> 1;

create view payonce.broken_p1 as
 SELECT 'pool '::text || p.id AS subject,
    (((((('has volume '::text || p.volume) || ' at place '::text) || p.seq) || ', its events '::text) || a.volume) || ' at '::text) || a.seq AS detail
   FROM payonce.pools p
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(x.volume), 0::numeric) AS volume,
            COALESCE(max(x.seq), 0::bigint) AS seq
           FROM payonce.accruals x
          WHERE x.pool_id = p.id) a
  WHERE p.volume <> a.volume OR p.seq <> a.seq
UNION ALL
 SELECT 'pool '::text || p.id AS subject,
    (((((((((('has '::text || p.in_flight) || ' in flight, '::text) || p.paid) || ' paid and '::text) || p.volume_taken) || ' of volume in payouts; its payouts '::text) || y.in_flight) || ', '::text) || y.paid) || ' and '::text) || y.volume AS detail
   FROM payonce.pools p
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(x.amount) FILTER (WHERE x.taken = ANY (ARRAY['in_flight'::text, 'unknown'::text])), 0::numeric) AS in_flight,
            COALESCE(sum(x.amount) FILTER (WHERE x.taken = 'paid'::text), 0::numeric) AS paid,
            COALESCE(sum(x.volume) FILTER (WHERE x.taken <> 'returned'::text), 0::numeric) AS volume,
            count(*) AS made
           FROM payonce.payouts x
          WHERE x.pool_id = p.id) y
  WHERE p.in_flight <> y.in_flight OR p.paid <> y.paid OR p.payouts <> y.made OR p.volume_taken <> y.volume AND p.surplus = 0::numeric
UNION ALL
 SELECT 'pool '::text || p.id AS subject,
    (('counts places twice, or not at all: up to '::text || p.cut_seq) || ', free '::text) || p.free::text AS detail
   FROM payonce.pools p
     CROSS JOIN LATERAL ( SELECT COALESCE(range_agg(u.r), '{}'::int8multirange) AS places,
            COALESCE(sum(upper(u.r) - lower(u.r)), 0::numeric) AS many
           FROM ( SELECT unnest(x.consumed) AS r
                   FROM payonce.payouts x
                  WHERE x.pool_id = p.id AND x.taken <> 'returned'::text
                UNION ALL
                 SELECT unnest(p.free) AS unnest) u) y
  WHERE p.surplus = 0::numeric AND (y.many <> p.cut_seq::numeric OR y.places <> int8multirange(int8range(0::bigint, p.cut_seq, '(]'::text)))
UNION ALL
 SELECT 'payout '::text || y.id AS subject,
    (('consumed '::text || y.volume) || ', the events of its places are '::text) || a.volume AS detail
   FROM payonce.payouts y
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(x.volume), 0::numeric) AS volume
           FROM unnest(y.consumed) r(r)
             JOIN payonce.accruals x ON x.pool_id = y.pool_id AND x.seq >= lower(r.r) AND x.seq < upper(r.r)) a
  WHERE y.volume <> a.volume
UNION ALL
 SELECT 'payout '::text || y.id AS subject,
    (('is '::text || y.taken) || ' and its effect '::text) || COALESCE(e.state, 'missing'::text) AS detail
   FROM payonce.payouts y
     JOIN payonce.subjects s ON s.type =
        CASE
            WHEN y.batch_id IS NULL THEN 'payout'::text
            ELSE 'payout_batch'::text
        END AND s.id = COALESCE(y.batch_id, y.id)
     LEFT JOIN LATERAL ( SELECT x.state
           FROM payonce.effects x
          WHERE x.subject_type = s.type AND x.subject_id = s.id
          ORDER BY x.seq DESC
         LIMIT 1) e ON true
  WHERE NOT
        CASE y.taken
            WHEN 'paid'::text THEN e.state = 'SETTLED'::text
            WHEN 'unknown'::text THEN y.batch_id IS NOT NULL AND e.state = 'SETTLED'::text
            WHEN 'returned'::text THEN s.closed_at IS NOT NULL AND e.state = 'RELEASED'::text OR y.batch_id IS NOT NULL AND e.state = 'SETTLED'::text
            ELSE s.closed_at IS NULL AND e.state <> 'SETTLED'::text OR e.state = 'SEALED'::text
        END;

create view payonce.broken_v2 as
 SELECT v2_without_collections.subject,
    v2_without_collections.detail
   FROM payonce.v2_without_collections
UNION ALL
 SELECT 'collection '::text || c.id AS subject,
    'has no effect of its own amount, wallet and destination'::text AS detail
   FROM payonce.collections c
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = 'collection'::text AND e.subject_id = c.id AND e.seq = 1 AND e.amount = c.amount AND e.wallet = c.address AND e.destination = c.destination AND e.asset_id = c.asset_id));

create view payonce.collection_holdings as
 SELECT d.id AS address_id,
    d.chain,
    d.address,
    d.partner_id,
    t.asset_id,
    - a.balance AS units,
    a.seq AS account_seq,
    t.min,
    t.keep,
    p.rail,
    p.wallet,
    NOT m.kind IS DISTINCT FROM 'MASTER'::text AS wallet_is_master,
    n.contract IS NULL AS is_coin,
    l.open_lane,
    COALESCE(c.ordinal, 0) AS ordinal,
    c.account_seq AS last_seq,
    c.closed_as AS last_closed_as,
    COALESCE(c.undecided, false) AS last_undecided
   FROM payonce.collection_terms t
     JOIN payonce.assets n ON n.id = t.asset_id
     JOIN payonce.addresses d ON d.chain = n.chain AND d.kind = 'DEPOSIT'::text
     JOIN payonce.accounts a ON a.code = ((('custody:'::text || d.chain) || ':'::text) || d.address) AND a.asset_id = t.asset_id AND a.balance < 0::numeric
     LEFT JOIN LATERAL ( SELECT p_1.rail,
            p_1.wallet
           FROM payonce.asset_policies p_1
          WHERE p_1.asset_id = t.asset_id AND (p_1.partner_id = ANY (ARRAY[d.partner_id, '*'::text]))
          ORDER BY (p_1.partner_id = '*'::text)
         LIMIT 1) p ON true
     LEFT JOIN payonce.addresses m ON m.chain = d.chain AND m.address = p.wallet
     LEFT JOIN LATERAL ( SELECT s.lane AS open_lane
           FROM payonce.assets o
             JOIN payonce.effects s ON s.lane = ((('sweep:'::text || d.address) || ':'::text) || o.id) AND (s.state = ANY (ARRAY['PENDING'::text, 'SEALED'::text]))
          WHERE o.chain = d.chain AND (o.id = t.asset_id OR n.contract IS NULL)
         LIMIT 1) l ON true
     LEFT JOIN LATERAL ( SELECT c_1.ordinal,
            c_1.account_seq,
            s.closed_as,
            s.closed_at IS NULL AND NOT (EXISTS ( SELECT 1
                   FROM payonce.effects e
                  WHERE e.subject_type = s.type AND e.subject_id = s.id AND e.state = 'SETTLED'::text)) AS undecided
           FROM payonce.collections c_1
             JOIN payonce.subjects s ON s.type = 'collection'::text AND s.id = c_1.id
          WHERE c_1.asset_id = t.asset_id AND c_1.address = d.address
          ORDER BY c_1.ordinal DESC
         LIMIT 1) c ON true
  WHERE t.stopped_at IS NULL;

create view payonce.collection_states as
 SELECT c.id,
    e.id AS effect_id,
    e.wait_reason,
        CASE
            WHEN e.state = 'SETTLED'::text THEN 'swept'::text
            WHEN k.open_case THEN 'in_review'::text
            WHEN s.closed_as IS NOT NULL AND e.state = 'RELEASED'::text THEN s.closed_as
            WHEN e.state = 'PENDING'::text THEN 'waiting'::text
            ELSE 'moving'::text
        END AS status
   FROM payonce.collections c
     JOIN payonce.subjects s ON s.type = 'collection'::text AND s.id = c.id
     JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'collection'::text AND e_1.subject_id = c.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     CROSS JOIN LATERAL ( SELECT e.contradicted_at IS NOT NULL OR (EXISTS ( SELECT 1
                   FROM payonce.cases k_1
                     JOIN payonce.effects x ON x.id = k_1.effect_id
                  WHERE x.subject_type = 'collection'::text AND x.subject_id = c.id AND k_1.closed_at IS NULL)) AS open_case) k;

create view payonce.e15_of_withdrawals as
 SELECT 'withdrawal '::text || w.id AS subject,
    (('key '::text || w.idempotency_key) || ' answers '::text) || COALESCE(k.resource_id, 'nothing'::text) AS detail
   FROM payonce.withdrawals w
     LEFT JOIN payonce.idempotency_keys k ON k.partner_id = w.partner_id AND k.key = w.idempotency_key
  WHERE k.resource_id IS DISTINCT FROM w.id
UNION ALL
 SELECT (('key '::text || k.key) || ' of '::text) || k.partner_id AS subject,
    ('names withdrawal '::text || k.resource_id) || ', which does not exist'::text AS detail
   FROM payonce.idempotency_keys k
  WHERE k.resource_type = 'withdrawal'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.withdrawals w
          WHERE w.id = k.resource_id));

create view payonce.e15_without_batches as
 SELECT e15_of_withdrawals.subject,
    e15_of_withdrawals.detail
   FROM payonce.e15_of_withdrawals
UNION ALL
 SELECT 'transfer '::text || t.id AS subject,
    (('key '::text || t.idempotency_key) || ' answers '::text) || COALESCE(k.resource_id, 'nothing'::text) AS detail
   FROM payonce.transfers t
     LEFT JOIN payonce.idempotency_keys k ON k.partner_id = t.partner_id AND k.key = t.idempotency_key
  WHERE k.resource_id IS DISTINCT FROM t.id
UNION ALL
 SELECT (('key '::text || k.key) || ' of '::text) || k.partner_id AS subject,
    ('names transfer '::text || k.resource_id) || ', which does not exist'::text AS detail
   FROM payonce.idempotency_keys k
  WHERE k.resource_type = 'transfer'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.transfers t
          WHERE t.id = k.resource_id));

create view payonce.e17_amounts as
 SELECT 'effect '::text || e.id AS subject,
    (('sent '::text || e.amount) || ' and got back '::text) || sum(r.amount) AS detail
   FROM payonce.returns r
     JOIN payonce.effects e ON e.id = r.effect_id
  GROUP BY e.id, e.amount
 HAVING sum(r.amount) > e.amount;

create view payonce.e17_without_batches as
 SELECT e17_amounts.subject,
    e17_amounts.detail
   FROM payonce.e17_amounts
UNION ALL
 SELECT 'return '::text || r.id AS subject,
    ('of '::text || r.amount) || ' is not booked'::text AS detail
   FROM payonce.returns r
  WHERE r.amount > r.fee AND NOT (EXISTS ( SELECT 1
           FROM payonce.postings p
          WHERE p.idem_key = ('RETURN:'::text || r.id)));

create view payonce.e3_of_withdrawals as
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || COALESCE(b.booked, 0::bigint)) || ' confirmations and '::text) || COALESCE(b.overpaid, 0::bigint)) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     JOIN payonce.withdrawals w ON e.subject_type = 'withdrawal'::text AND w.id = e.subject_id
     LEFT JOIN ( SELECT postings.effect_id,
            count(*) FILTER (WHERE postings.idem_key ~~ 'WDR_CONFIRM:%'::text OR postings.idem_key ~~ 'WDR_MOVE:%'::text) AS booked,
            count(*) FILTER (WHERE postings.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings
          WHERE postings.effect_id IS NOT NULL
          GROUP BY postings.effect_id) b ON b.effect_id = e.id
  WHERE (COALESCE(b.booked, 0::bigint) + COALESCE(b.overpaid, 0::bigint)) <> (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL)::integer OR COALESCE(b.booked, 0::bigint) > 0 AND e.state <> 'SETTLED'::text
UNION ALL
 SELECT 'effect '::text || c.effect_id AS subject,
    (((c.state || ', but its hold '::text) || c.hold_key) || ' is '::text) || COALESCE(h.state, 'missing'::text) AS detail
   FROM payonce.effect_holds c
     LEFT JOIN payonce.holds h ON h.key = c.hold_key
  WHERE c.state = 'SETTLED'::text AND h.state IS DISTINCT FROM 'posted'::text OR c.state = 'RELEASED'::text AND h.state IS DISTINCT FROM 'voided'::text;

create view payonce.e3_without_batches as
 SELECT e3_of_withdrawals.subject,
    e3_of_withdrawals.detail
   FROM payonce.e3_of_withdrawals
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || COALESCE(b.booked, 0::bigint)) || ' confirmations and '::text) || COALESCE(b.overpaid, 0::bigint)) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     JOIN payonce.transfers t ON e.subject_type = 'transfer'::text AND t.id = e.subject_id
     LEFT JOIN ( SELECT postings.effect_id,
            count(*) FILTER (WHERE postings.idem_key ~~ 'TRF_CONFIRM:%'::text) AS booked,
            count(*) FILTER (WHERE postings.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings
          WHERE postings.effect_id IS NOT NULL
          GROUP BY postings.effect_id) b ON b.effect_id = e.id
  WHERE (COALESCE(b.booked, 0::bigint) + COALESCE(b.overpaid, 0::bigint)) <> (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL)::integer OR COALESCE(b.booked, 0::bigint) > 0 AND e.state <> 'SETTLED'::text;

create view payonce.e3_without_own_moves as
 SELECT e3_without_batches.subject,
    e3_without_batches.detail
   FROM payonce.e3_without_batches
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || COALESCE(b.booked, 0::bigint)) || ' confirmations and '::text) || COALESCE(b.overpaid, 0::bigint)) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     LEFT JOIN ( SELECT postings.effect_id,
            count(*) FILTER (WHERE postings.idem_key ~~ 'TRB_CONFIRM:%'::text) AS booked,
            count(*) FILTER (WHERE postings.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings
          WHERE postings.effect_id IS NOT NULL
          GROUP BY postings.effect_id) b ON b.effect_id = e.id
  WHERE e.subject_type = 'transfer_batch'::text AND ((COALESCE(b.booked, 0::bigint) + COALESCE(b.overpaid, 0::bigint)) <> (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL)::integer OR COALESCE(b.booked, 0::bigint) > 0 AND e.state <> 'SETTLED'::text)
UNION ALL
 SELECT (('batch '::text || l.batch_id) || ' line '::text) || l.line AS subject,
    'is of a settled batch and has no fate'::text AS detail
   FROM payonce.effects e
     JOIN payonce.transfer_batch_lines l ON l.batch_id = e.subject_id
  WHERE e.subject_type = 'transfer_batch'::text AND e.state = 'SETTLED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.transfer_batch_fates f
          WHERE f.batch_id = l.batch_id AND f.line = l.line));

create view payonce.e3_without_p2p as
 SELECT e3_without_own_moves.subject,
    e3_without_own_moves.detail
   FROM payonce.e3_without_own_moves
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || COALESCE(b.booked, 0::bigint)) || ' moves and '::text) || COALESCE(b.overpaid, 0::bigint)) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     JOIN payonce.own_move_kinds k ON k.subject_type = e.subject_type
     LEFT JOIN LATERAL ( SELECT count(*) FILTER (WHERE p.idem_key = ((k.key_kind || ':'::text) || e.subject_id)) AS booked,
            count(*) FILTER (WHERE p.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings p
          WHERE p.effect_id = e.id) b ON true
  WHERE (COALESCE(b.booked, 0::bigint) + COALESCE(b.overpaid, 0::bigint)) <> (e.amount > 0::numeric AND (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL))::integer OR COALESCE(b.booked, 0::bigint) > 0 AND e.state <> 'SETTLED'::text;

create view payonce.e3_without_payouts as
 SELECT e3_without_p2p.subject,
    e3_without_p2p.detail
   FROM payonce.e3_without_p2p
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((((e.state || ' with '::text) || b.booked) || ' credits and '::text) || b.overpaid) || ' OVERPAID'::text AS detail
   FROM payonce.effects e
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE p.idem_key ~~ 'P2P_LEG:%'::text) AS booked,
            count(*) FILTER (WHERE p.idem_key ~~ 'OVERPAID:%'::text) AS overpaid
           FROM payonce.postings p
          WHERE p.effect_id = e.id) b
  WHERE (e.subject_type = ANY (ARRAY['p2p_leg'::text, 'p2p_cancel'::text])) AND
        CASE e.subject_type
            WHEN 'p2p_cancel'::text THEN b.booked > 0
            ELSE (b.booked + b.overpaid) <> (e.state = 'SETTLED'::text OR e.state = 'RELEASED'::text AND e.contradicted_at IS NOT NULL AND e.identity IS NOT NULL)::integer
        END;

create view payonce.effect_holds as
 SELECT id AS effect_id,
    state,
    subject_type,
    subject_id,
    amount,
        CASE
            WHEN reopens = 0 THEN hold_key
            ELSE (hold_key || ':reopened:'::text) || reopens
        END AS hold_key
   FROM payonce.effects e
  WHERE hold_key IS NOT NULL;

create view payonce.i1_of_receivers as
 SELECT ((((('transfer '::text || t.id) || ' ('::text) || t.tx_hash) || ':'::text) || t."position") || ')'::text AS subject,
        CASE
            WHEN t.class <> ALL (ARRAY['DEPOSIT'::text, 'OWN_EFFECT'::text, 'FUNDING'::text, 'UNKNOWN_INTERNAL'::text, 'UNKNOWN_INBOUND'::text, 'UNKNOWN_OUTBOUND'::text]) THEN 'has class '::text || t.class
            WHEN t.class = 'DEPOSIT'::text THEN 'is final and its deposit is '::text || COALESCE(d.state, 'missing'::text)
            ELSE (((('is '::text || t.class) || ', yet deposit '::text) || d.id) || ' is '::text) || d.state
        END AS detail
   FROM payonce.chain_transfers t
     LEFT JOIN payonce.deposits d ON d.transfer_id = t.id
  WHERE (t.class <> ALL (ARRAY['DEPOSIT'::text, 'OWN_EFFECT'::text, 'FUNDING'::text, 'UNKNOWN_INTERNAL'::text, 'UNKNOWN_INBOUND'::text, 'UNKNOWN_OUTBOUND'::text])) OR t.final_at IS NOT NULL AND (t.class = 'DEPOSIT'::text) <> (COALESCE(d.state, ''::text) = ANY (ARRAY['credited'::text, 'reversed'::text])) OR t.final_at IS NULL AND (COALESCE(d.state, ''::text) = ANY (ARRAY['credited'::text, 'reversed'::text]))
UNION ALL
 SELECT 'deposit '::text || d.id AS subject,
    ((((((('is '::text || d.state) || ' with '::text) || COALESCE(p.credits, 0::bigint)) || ' credits, '::text) || COALESCE(p.fees, 0::bigint)) || ' fees and '::text) || COALESCE(p.reversals, 0::bigint)) || ' reversals'::text AS detail
   FROM payonce.deposits d
     LEFT JOIN ( SELECT split_part(postings.idem_key, ':'::text, 2) AS deposit_id,
            count(*) FILTER (WHERE postings.idem_key ~~ 'DEP_CREDIT:%'::text) AS credits,
            count(*) FILTER (WHERE postings.idem_key ~~ 'DEP_FEE:%'::text) AS fees,
            count(*) FILTER (WHERE postings.idem_key ~~ 'DEP_REVERSAL:%'::text) AS reversals
           FROM payonce.postings
          WHERE postings.idem_key ~ '^DEP_(CREDIT|FEE|REVERSAL):'::text
          GROUP BY (split_part(postings.idem_key, ':'::text, 2))) p ON p.deposit_id = d.id
  WHERE COALESCE(p.credits, 0::bigint) <> (d.state = ANY (ARRAY['credited'::text, 'reversed'::text]))::integer OR COALESCE(p.fees, 0::bigint) <> ((d.state = ANY (ARRAY['credited'::text, 'reversed'::text])) AND d.fee > 0::numeric)::integer OR COALESCE(p.reversals, 0::bigint) <> (d.state = 'reversed'::text)::integer
UNION ALL
 SELECT ((((('transfer '::text || t.id) || ' ('::text) || t.tx_hash) || ':'::text) || t."position") || ')'::text AS subject,
    ((('is '::text || t.class) || ' with '::text) || COALESCE(p.booked, 0::bigint)) || ' postings'::text AS detail
   FROM payonce.chain_transfers t
     LEFT JOIN ( SELECT split_part(postings.idem_key, ':'::text, 2) AS transfer,
            count(*) AS booked
           FROM payonce.postings
          WHERE postings.idem_key ~ '^DEP_(SUSPENSE|MOVE):'::text
          GROUP BY (split_part(postings.idem_key, ':'::text, 2))) p ON p.transfer = t.id::text
  WHERE COALESCE(p.booked, 0::bigint) <> (t.final_at IS NOT NULL AND ((t.class = ANY (ARRAY['UNKNOWN_INBOUND'::text, 'UNKNOWN_OUTBOUND'::text])) OR (t.class = ANY (ARRAY['FUNDING'::text, 'UNKNOWN_INTERNAL'::text])) AND t.from_address <> t.to_address))::integer;

create view payonce.l5_of_fixed_amounts as
 WITH lines AS (
         SELECT p.id,
            p.idem_key,
            p.effect_id,
            k.subject_type,
            k.arrives_at,
            substr(p.idem_key, char_length(k.key_kind) + 2) AS name
           FROM payonce.postings p
             JOIN payonce.own_move_kinds k ON k.key_kind = split_part(p.idem_key, ':'::text, 1)
        ), judged AS (
         SELECT n.idem_key,
                CASE
                    WHEN e.id IS NULL THEN (('belongs to no effect of '::text || n.subject_type) || ' '::text) || n.name
                    WHEN NOT COALESCE(b.is_meant, false) OR b.entries <> 2 THEN (((((('does not book '::text || e.amount) || ' '::text) || e.asset_id) || ' from '::text) || e.wallet) || ' to '::text) || e.destination
                    ELSE NULL::text
                END AS fault
           FROM lines n
             LEFT JOIN payonce.effects e ON e.id = n.effect_id AND e.subject_type = n.subject_type AND e.subject_id = n.name
             LEFT JOIN payonce.assets s ON s.id = e.asset_id
             LEFT JOIN LATERAL ( SELECT count(*) AS entries,
                    bool_and(l.asset_id = e.asset_id AND (a.code = ((('custody:'::text || s.chain) || ':'::text) || e.wallet) AND l.amount = e.amount OR a.code =
                        CASE n.arrives_at
                            WHEN 'gas'::text THEN 'gas'::text
                            ELSE (('custody:'::text || s.chain) || ':'::text) || e.destination
                        END AND l.amount = (- e.amount))) AS is_meant
                   FROM payonce.ledger_entries l
                     JOIN payonce.accounts a ON a.id = l.account_id
                  WHERE l.posting_id = n.id) b ON true
        )
 SELECT o.subject,
    o.detail
   FROM payonce.l5_without_own_moves o
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.own_move_kinds k
          WHERE o.subject ~~ (('posting '::text || k.key_kind) || ':_%'::text)))
UNION ALL
 SELECT 'posting '::text || judged.idem_key AS subject,
    judged.fault AS detail
   FROM judged
  WHERE judged.fault IS NOT NULL;

create view payonce.l5_without_batches as
 WITH lines AS (
         SELECT p.id,
            p.idem_key,
            p.effect_id,
            split_part(p.idem_key, ':'::text, 1) AS kind,
            split_part(p.idem_key, ':'::text, 2) AS name,
            min(e.asset_id) AS asset_id,
            count(DISTINCT e.asset_id) AS assets,
            min(a.partner_id) AS partner_id,
            COALESCE(sum(e.amount) FILTER (WHERE a.partner_id IS NOT NULL), 0::numeric) AS partner,
            COALESCE(sum(e.amount) FILTER (WHERE a.code ~~ 'custody:%'::text), 0::numeric) AS custody
           FROM payonce.postings p
             JOIN payonce.ledger_entries e ON e.posting_id = p.id
             JOIN payonce.accounts a ON a.id = e.account_id
          WHERE p.idem_key ~~ 'TRF_CONFIRM:%'::text OR p.idem_key ~~ 'RETURN:%'::text
          GROUP BY p.id
        ), judged AS (
         SELECT n.idem_key,
                CASE
                    WHEN t.id IS NULL THEN 'names no transfer'::text
                    WHEN e.id IS NULL THEN 'belongs to no effect of this transfer'::text
                    WHEN n.asset_id <> t.asset_id OR n.assets <> 1 THEN 'books another asset than '::text || t.asset_id
                    WHEN n.partner_id IS DISTINCT FROM t.partner_id OR n.partner <> (- (t.amount + t.fee)) OR n.custody <> t.amount THEN (((((('books '::text || n.partner) || ' for '::text) || COALESCE(n.partner_id, 'nobody'::text)) || ', not '::text) || (- (t.amount + t.fee))) || ' for '::text) || t.partner_id
                    ELSE NULL::text
                END AS fault
           FROM lines n
             LEFT JOIN payonce.transfers t ON t.id = n.name
             LEFT JOIN payonce.effects e ON e.id = n.effect_id AND e.subject_type = 'transfer'::text AND e.subject_id = t.id
          WHERE n.kind = 'TRF_CONFIRM'::text
        UNION ALL
         SELECT n.idem_key,
                CASE
                    WHEN n.effect_id IS DISTINCT FROM r.effect_id THEN 'carries effect '::text || COALESCE(n.effect_id::text, 'none'::text)
                    WHEN n.asset_id <> e.asset_id OR n.partner_id IS DISTINCT FROM e.partner_id OR n.partner <> (r.amount - r.fee) OR n.custody <> (- (r.amount - r.fee)) THEN (((((('gives '::text || n.partner) || ' back to '::text) || COALESCE(n.partner_id, 'nobody'::text)) || ', not '::text) || (r.amount - r.fee)) || ' to '::text) || e.partner_id
                    ELSE NULL::text
                END AS "case"
           FROM lines n
             JOIN payonce.returns r ON r.id = n.name
             JOIN payonce.effects e ON e.id = r.effect_id
          WHERE n.kind = 'RETURN'::text
        )
 SELECT l5_without_transfers.subject,
    l5_without_transfers.detail
   FROM payonce.l5_without_transfers
UNION ALL
 SELECT 'posting '::text || judged.idem_key AS subject,
    judged.fault AS detail
   FROM judged
  WHERE judged.fault IS NOT NULL;

create view payonce.l5_without_own_moves as
 WITH lines AS (
         SELECT p.id,
            p.idem_key,
            p.effect_id,
            split_part(p.idem_key, ':'::text, 1) AS kind,
            split_part(p.idem_key, ':'::text, 2) AS name,
            split_part(p.idem_key, ':'::text, 3) AS line,
            min(e.asset_id) AS asset_id,
            count(DISTINCT e.asset_id) AS assets,
            min(a.partner_id) AS partner_id,
            COALESCE(sum(e.amount) FILTER (WHERE a.partner_id IS NOT NULL), 0::numeric) AS partner,
            COALESCE(sum(e.amount) FILTER (WHERE a.code ~~ 'custody:%'::text), 0::numeric) AS custody,
            COALESCE(sum(e.amount) FILTER (WHERE a.code = 'suspense'::text), 0::numeric) AS suspense
           FROM payonce.postings p
             JOIN payonce.ledger_entries e ON e.posting_id = p.id
             JOIN payonce.accounts a ON a.id = e.account_id
          WHERE p.idem_key ~ '^TRB_(CONFIRM|LINE):'::text
          GROUP BY p.id
        ), sums AS (
         SELECT l.batch_id,
            COALESCE(sum(l.amount) FILTER (WHERE f.fate = 'paid'::text), 0::numeric) AS paid,
            COALESCE(sum(l.amount + l.fee) FILTER (WHERE f.fate <> 'not_paid'::text), 0::numeric) AS taken,
            COALESCE(sum(l.amount + l.fee) FILTER (WHERE f.fate = 'unknown'::text), 0::numeric) AS unknown
           FROM payonce.transfer_batch_lines l
             JOIN payonce.transfer_batch_fates f ON f.batch_id = l.batch_id AND f.line = l.line AND f.seq = 1
          GROUP BY l.batch_id
        ), judged AS (
         SELECT n.idem_key,
                CASE
                    WHEN b.id IS NULL THEN 'names no batch'::text
                    WHEN e.id IS NULL THEN 'belongs to no effect of this batch'::text
                    WHEN n.asset_id <> b.asset_id OR n.assets <> 1 THEN 'books another asset than '::text || b.asset_id
                    WHEN n.partner_id IS DISTINCT FROM b.partner_id OR n.partner <> (- s.taken) OR n.custody <> s.paid OR n.suspense <> s.unknown THEN (((((('books '::text || n.partner) || ' for '::text) || COALESCE(n.partner_id, 'nobody'::text)) || ', not '::text) || (- COALESCE(s.taken, 0::numeric))) || ' for '::text) || b.partner_id
                    ELSE NULL::text
                END AS fault
           FROM lines n
             LEFT JOIN payonce.transfer_batches b ON b.id = n.name
             LEFT JOIN sums s ON s.batch_id = b.id
             LEFT JOIN payonce.effects e ON e.id = n.effect_id AND e.subject_type = 'transfer_batch'::text AND e.subject_id = b.id
          WHERE n.kind = 'TRB_CONFIRM'::text
        UNION ALL
         SELECT n.idem_key,
                CASE
                    WHEN l.line IS NULL THEN 'names no line'::text
                    WHEN f.fate IS NULL THEN 'decides a line that nobody decided'::text
                    WHEN n.suspense <> (- (l.amount + l.fee)) OR n.custody <>
                    CASE f.fate
                        WHEN 'paid'::text THEN l.amount
                        ELSE 0::numeric
                    END OR n.partner <>
                    CASE f.fate
                        WHEN 'paid'::text THEN 0::numeric
                        ELSE l.amount + l.fee
                    END THEN (('takes '::text || (- n.suspense)) || ' out of suspense, not '::text) || (l.amount + l.fee)
                    ELSE NULL::text
                END AS "case"
           FROM lines n
             LEFT JOIN payonce.transfer_batch_lines l ON l.batch_id = n.name AND l.line::text = n.line
             LEFT JOIN payonce.transfer_batch_fates f ON f.batch_id = l.batch_id AND f.line = l.line AND f.seq = 2
          WHERE n.kind = 'TRB_LINE'::text
        )
 SELECT l5_without_batches.subject,
    l5_without_batches.detail
   FROM payonce.l5_without_batches
  WHERE l5_without_batches.subject !~ '^posting TRB_(CONFIRM|LINE):.'::text
UNION ALL
 SELECT 'posting '::text || judged.idem_key AS subject,
    judged.fault AS detail
   FROM judged
  WHERE judged.fault IS NOT NULL
UNION ALL
 SELECT (('batch '::text || f.batch_id) || ' line '::text) || f.line AS subject,
    'was decided, and nothing is booked'::text AS detail
   FROM payonce.transfer_batch_fates f
  WHERE f.seq = 2 AND NOT (EXISTS ( SELECT 1
           FROM payonce.postings p
          WHERE p.idem_key = ((('TRB_LINE:'::text || f.batch_id) || ':'::text) || f.line)));

create view payonce.l5_without_p2p as
 SELECT o.subject,
    o.detail
   FROM payonce.l5_without_repairs o
  WHERE o.subject !~~ 'posting REPAIR:_%'::text
UNION ALL
 SELECT 'posting '::text || p.idem_key AS subject,
        CASE
            WHEN f.id IS NULL THEN 'is no repair of two persons'::text
            WHEN l.assets <> 1 OR l.asset_id <> f.asset_id OR l.largest <> abs(f.amount) THEN (((((('books '::text || l.largest) || ' '::text) || l.asset_id) || ', not '::text) || abs(f.amount)) || ' '::text) || f.asset_id
            ELSE NULL::text
        END AS detail
   FROM payonce.postings p
     LEFT JOIN payonce.chain_repairs r ON r.posting_id = p.id
     LEFT JOIN payonce.chain_findings f ON f.id = r.finding_id AND p.idem_key = ('REPAIR:'::text || f.id)
     CROSS JOIN LATERAL ( SELECT min(e.asset_id) AS asset_id,
            count(DISTINCT e.asset_id) AS assets,
            max(abs(e.amount)) AS largest
           FROM payonce.ledger_entries e
          WHERE e.posting_id = p.id) l
  WHERE p.idem_key ~~ 'REPAIR:%'::text AND (f.id IS NULL OR l.assets <> 1 OR l.asset_id <> f.asset_id OR l.largest <> abs(f.amount));

create view payonce.l5_without_payouts as
 WITH lines AS (
         SELECT p.id,
            p.idem_key,
            p.effect_id,
            split_part(p.idem_key, ':'::text, 1) AS kind,
            split_part(p.idem_key, ':'::text, 2) AS name,
            split_part(p.idem_key, ':'::text, 3) AS part,
            min(l.asset_id) AS asset_id,
            count(DISTINCT l.asset_id) AS assets,
            COALESCE(sum(l.amount) FILTER (WHERE a.code ~~ 'partner:%'::text), 0::numeric) AS partner,
            min(a.code) FILTER (WHERE a.code ~~ 'partner:%'::text) AS partner_code,
            COALESCE(sum(l.amount) FILTER (WHERE a.code ~~ 'p2p:%'::text), 0::numeric) AS aside,
            min(a.code) FILTER (WHERE a.code ~~ 'p2p:%'::text) AS aside_code,
            COALESCE(sum(l.amount) FILTER (WHERE a.code ~~ 'lp:%'::text), 0::numeric) AS lp,
            min(a.code) FILTER (WHERE a.code ~~ 'lp:%'::text) AS lp_code,
            COALESCE(sum(l.amount) FILTER (WHERE a.code = 'fees'::text), 0::numeric) AS fees,
            COALESCE(sum(l.amount) FILTER (WHERE a.code = 'suspense'::text), 0::numeric) AS suspense
           FROM payonce.postings p
             JOIN payonce.ledger_entries l ON l.posting_id = p.id
             JOIN payonce.accounts a ON a.id = l.account_id
          WHERE p.idem_key ~ '^P2P_(SELL|BACK|LEG):'::text AND p.idem_key !~ ':FIX:'::text
          GROUP BY p.id
        ), judged AS (
         SELECT n.idem_key,
                CASE n.kind
                    WHEN 'P2P_LEG'::text THEN
                    CASE
                        WHEN g.id IS NULL THEN 'names no leg'::text
                        WHEN n.assets <> 1 OR n.asset_id <> o.asset_id THEN 'books another asset than '::text || o.asset_id
                        WHEN n.part = 'CREDIT'::text AND ((n.partner + n.fees) <> g.amount OR n.partner_code <> ('partner:'::text || o.partner_id) OR n.fees <> div(g.amount * o.fee_bp::numeric, 10000::numeric) OR (n.aside + n.lp) <> (- g.amount) OR g.kind = 'SELLER'::text AND n.aside_code IS DISTINCT FROM ('p2p:'::text || s.partner_id) OR g.kind = 'LP'::text AND n.lp_code IS DISTINCT FROM ('lp:'::text || g.rail)) THEN (('does not credit '::text || g.amount) || ' to '::text) || o.partner_id
                        WHEN n.part = 'SURPLUS'::text AND (n.lp <> (- g.amount) OR n.suspense <> g.amount OR n.lp_code <> ('lp:'::text || g.rail)) THEN ('does not put '::text || g.amount) || ' into suspense'::text
                        WHEN NOT (n.part = 'CREDIT'::text OR n.part = 'SURPLUS'::text) THEN 'is of no kind that is known'::text
                        WHEN (g.kind = 'LP'::text) <> (n.effect_id IS NOT NULL) THEN 'belongs to no trade of its leg'::text
                        ELSE NULL::text
                    END
                    ELSE
                    CASE
                        WHEN w.id IS NULL THEN 'names no withdraw order'::text
                        WHEN n.assets <> 1 OR n.asset_id <> w.asset_id THEN 'books another asset than '::text || w.asset_id
                        WHEN n.partner_code <> ('partner:'::text || w.partner_id) OR n.aside_code <> ('p2p:'::text || w.partner_id) OR n.partner <> (- n.aside) THEN ('is not between '::text || w.partner_id) || ' and what it set aside'::text
                        WHEN n.kind = 'P2P_SELL'::text AND n.aside <> (w.amount - w.settled_before) THEN (('sets '::text || n.aside) || ' aside, not '::text) || (w.amount - w.settled_before)
                        WHEN w.imported_as = 'history'::text THEN 'belongs to an order that was taken over as history'::text
                        ELSE NULL::text
                    END
                END AS fault
           FROM lines n
             LEFT JOIN payonce.p2p_legs g ON n.kind = 'P2P_LEG'::text AND g.id = n.name
             LEFT JOIN payonce.p2p_deposit_orders o ON o.id = g.deposit_order_id
             LEFT JOIN payonce.p2p_withdraw_orders s ON s.id = g.withdraw_order_id
             LEFT JOIN payonce.p2p_withdraw_orders w ON n.kind <> 'P2P_LEG'::text AND w.id = n.name
        )
 SELECT o.subject,
    o.detail
   FROM payonce.l5_without_p2p o
  WHERE o.subject !~~ 'posting P2P_SELL:_%'::text AND o.subject !~~ 'posting P2P_BACK:_%'::text AND o.subject !~~ 'posting P2P_LEG:_%'::text
UNION ALL
 SELECT 'posting '::text || judged.idem_key AS subject,
    judged.fault AS detail
   FROM judged
  WHERE judged.fault IS NOT NULL
UNION ALL
 SELECT 'withdraw order '::text || w.id AS subject,
    ((('has '::text || COALESCE(b.back, 0::numeric)) || ' given back by postings, '::text) || w.given_back) || ' by its row'::text AS detail
   FROM payonce.p2p_withdraw_orders w
     LEFT JOIN ( SELECT n.name,
            sum(n.partner) FILTER (WHERE n.kind = 'P2P_BACK'::text) AS back,
            count(*) FILTER (WHERE n.kind = 'P2P_SELL'::text) AS sells
           FROM lines n
          WHERE n.kind <> 'P2P_LEG'::text
          GROUP BY n.name) b ON b.name = w.id
  WHERE w.imported_as IS DISTINCT FROM 'history'::text AND (COALESCE(b.back, 0::numeric) <> w.given_back OR COALESCE(b.sells, 0::bigint) <> 1)
UNION ALL
 SELECT 'posting '::text || p.idem_key AS subject,
    'is no correction of two persons'::text AS detail
   FROM payonce.postings p
     LEFT JOIN payonce.p2p_legs g ON g.id = split_part(p.idem_key, ':'::text, 2)
  WHERE p.idem_key ~~ 'P2P\_LEG:%:FIX:%'::text AND (g.id IS NULL OR g.fixes < split_part(p.idem_key, ':'::text, 4)::integer);

create view payonce.l5_without_repairs as
 SELECT o.subject,
    o.detail
   FROM payonce.l5_of_fixed_amounts o
  WHERE o.subject !~~ 'posting ENERGY:_%'::text
UNION ALL
 SELECT 'posting '::text || p.idem_key AS subject,
        CASE
            WHEN e.id IS NULL THEN 'belongs to no effect of this rental'::text
            ELSE (('does not book a price from '::text || e.wallet) || ' to gas in '::text) || e.asset_id
        END AS detail
   FROM payonce.postings p
     LEFT JOIN payonce.effects e ON e.id = p.effect_id AND e.subject_type = 'energy'::text AND p.idem_key = ('ENERGY:'::text || e.subject_id)
     LEFT JOIN payonce.assets s ON s.id = e.asset_id
     LEFT JOIN LATERAL ( SELECT count(*) AS entries,
            bool_and(l.asset_id = e.asset_id AND (a.code = ((('custody:'::text || s.chain) || ':'::text) || e.wallet) AND l.amount > 0::numeric OR a.code = 'gas'::text AND l.amount < 0::numeric)) AS is_meant
           FROM payonce.ledger_entries l
             JOIN payonce.accounts a ON a.id = l.account_id
          WHERE l.posting_id = p.id) b ON true
  WHERE p.idem_key ~~ 'ENERGY:%'::text AND (e.id IS NULL OR b.entries <> 2 OR NOT COALESCE(b.is_meant, false));

create view payonce.l5_without_transfers as
 WITH lines AS (
         SELECT e.posting_id,
            min(e.asset_id) AS asset_id,
            count(DISTINCT e.asset_id) AS assets,
            max(abs(e.amount)) AS largest,
            min(a.partner_id) AS partner_id,
            COALESCE(sum(e.amount) FILTER (WHERE a.partner_id IS NOT NULL), 0::numeric) AS partner,
            COALESCE(sum(e.amount) FILTER (WHERE a.code ~~ 'custody:%'::text), 0::numeric) AS custody
           FROM payonce.ledger_entries e
             JOIN payonce.accounts a ON a.id = e.account_id
          GROUP BY e.posting_id
        ), named AS (
         SELECT p.id,
            p.idem_key,
            p.effect_id,
            p.reverses,
            split_part(p.idem_key, ':'::text, 1) AS kind,
            split_part(p.idem_key, ':'::text, 2) AS name,
                CASE
                    WHEN split_part(p.idem_key, ':'::text, 2) ~ '^[0-9]{1,18}$'::text THEN split_part(p.idem_key, ':'::text, 2)::bigint
                    ELSE NULL::bigint
                END AS number,
            l.posting_id,
            l.asset_id,
            l.assets,
            l.largest,
            l.partner_id,
            l.partner,
            l.custody
           FROM payonce.postings p
             JOIN lines l ON l.posting_id = p.id
        ), judged AS (
         SELECT n.idem_key,
                CASE
                    WHEN w.id IS NULL THEN 'names no withdrawal'::text
                    WHEN e.id IS NULL THEN 'belongs to no effect of this withdrawal'::text
                    WHEN (n.kind = 'WDR_CONFIRM'::text) <> (w.purpose = 'customer'::text) THEN 'books a withdrawal of purpose '::text || w.purpose
                    WHEN n.asset_id <> w.asset_id OR n.assets <> 1 THEN 'books another asset than '::text || w.asset_id
                    WHEN n.kind = 'WDR_CONFIRM'::text AND (n.partner_id IS DISTINCT FROM w.partner_id OR n.partner <> (- (w.amount + w.fee)) OR n.custody <> w.amount) THEN (((((('books '::text || n.partner) || ' for '::text) || COALESCE(n.partner_id, 'nobody'::text)) || ', not '::text) || (- (w.amount + w.fee))) || ' for '::text) || w.partner_id
                    WHEN n.kind = 'WDR_MOVE'::text AND (n.partner_id IS NOT NULL OR n.largest <> w.amount) THEN (('moves '::text || n.largest) || ', not '::text) || w.amount
                    ELSE NULL::text
                END AS fault
           FROM named n
             LEFT JOIN payonce.withdrawals w ON w.id = n.name
             LEFT JOIN payonce.effects e ON e.id = n.effect_id AND e.subject_type = 'withdrawal'::text AND e.subject_id = w.id
          WHERE n.kind = ANY (ARRAY['WDR_CONFIRM'::text, 'WDR_MOVE'::text])
        UNION ALL
         SELECT n.idem_key,
                CASE
                    WHEN d.id IS NULL THEN 'names no deposit'::text
                    WHEN n.asset_id <> d.asset_id OR n.assets <> 1 THEN 'books another asset than '::text || d.asset_id
                    WHEN n.kind = 'DEP_CREDIT'::text AND (n.partner_id IS DISTINCT FROM d.partner_id OR n.partner <> d.amount) THEN (('credits '::text || n.partner) || ', not '::text) || d.amount
                    WHEN n.kind = 'DEP_FEE'::text AND (n.partner_id IS DISTINCT FROM d.partner_id OR n.partner <> (- d.fee)) THEN (('takes '::text || (- n.partner)) || ', not '::text) || d.fee
                    WHEN n.kind = 'DEP_REVERSAL'::text AND (n.custody <> d.amount OR n.reverses IS NULL) THEN (('gives back '::text || n.custody) || ', not '::text) || d.amount
                    ELSE NULL::text
                END AS "case"
           FROM named n
             LEFT JOIN payonce.deposits d ON d.id = n.name
          WHERE n.kind = ANY (ARRAY['DEP_CREDIT'::text, 'DEP_FEE'::text, 'DEP_REVERSAL'::text])
        UNION ALL
         SELECT n.idem_key,
                CASE
                    WHEN t.id IS NULL THEN 'names no chain transfer'::text
                    WHEN n.asset_id <> t.asset_id OR n.largest <> t.amount THEN (((((('books '::text || n.largest) || ' '::text) || n.asset_id) || ', not '::text) || t.amount) || ' '::text) || t.asset_id
                    ELSE NULL::text
                END AS "case"
           FROM named n
             LEFT JOIN payonce.chain_transfers t ON t.id = n.number
          WHERE n.kind = ANY (ARRAY['DEP_SUSPENSE'::text, 'DEP_MOVE'::text, 'DEP_CLAIM'::text])
        UNION ALL
         SELECT n.idem_key,
                CASE
                    WHEN e.id IS NULL THEN 'names no effect'::text
                    WHEN (n.kind = ANY (ARRAY['GAS'::text, 'OVERPAID'::text])) AND n.effect_id IS DISTINCT FROM e.id THEN 'carries effect '::text || COALESCE(n.effect_id::text, 'none'::text)
                    WHEN n.kind = 'OVERPAID'::text AND (n.asset_id <> e.asset_id OR n.largest <> e.amount) THEN (('books '::text || n.largest) || ', not '::text) || e.amount
                    WHEN n.kind = 'UNWOUND'::text AND n.reverses IS NULL THEN 'reverses nothing'::text
                    ELSE NULL::text
                END AS "case"
           FROM named n
             LEFT JOIN payonce.effects e ON e.id = n.number
          WHERE n.kind = ANY (ARRAY['GAS'::text, 'OVERPAID'::text, 'UNWOUND'::text])
        UNION ALL
         SELECT n.idem_key,
            'names no return'::text
           FROM named n
          WHERE n.kind = 'RETURN'::text AND NOT (EXISTS ( SELECT 1
                   FROM payonce.returns r
                  WHERE r.id = n.name))
        UNION ALL
         SELECT n.idem_key,
            'names no proposal of two persons'::text
           FROM named n
          WHERE n.kind = 'ADJUST'::text AND NOT (EXISTS ( SELECT 1
                   FROM payonce.proposals p
                  WHERE p.id = n.name AND p.approved_by IS NOT NULL))
        UNION ALL
         SELECT p.idem_key,
            'is a key of no known kind'::text
           FROM payonce.postings p
          WHERE (split_part(p.idem_key, ':'::text, 1) <> ALL (ARRAY['WDR_CONFIRM'::text, 'WDR_MOVE'::text, 'TRF_CONFIRM'::text, 'DEP_CREDIT'::text, 'DEP_FEE'::text, 'DEP_SUSPENSE'::text, 'DEP_MOVE'::text, 'DEP_CLAIM'::text, 'DEP_REVERSAL'::text, 'GAS'::text, 'OVERPAID'::text, 'UNWOUND'::text, 'RETURN'::text, 'ADJUST'::text, 'MIGRATED'::text])) OR p.idem_key !~~ '%:_%'::text
        )
 SELECT 'posting '::text || idem_key AS subject,
    fault AS detail
   FROM judged
  WHERE fault IS NOT NULL;

create view payonce.l6_of_withdrawals as
 SELECT ((('account '::text || a.id) || ' ('::text) || a.code) || ')'::text AS subject,
    (('held '::text || a.held) || ', open holds '::text) || COALESCE(h.total, 0::numeric) AS detail
   FROM payonce.accounts a
     LEFT JOIN ( SELECT holds.account_id,
            sum(holds.amount) AS total
           FROM payonce.holds
          WHERE holds.state = 'open'::text
          GROUP BY holds.account_id) h ON h.account_id = a.id
  WHERE a.held <> COALESCE(h.total, 0::numeric)
UNION ALL
 SELECT 'hold '::text || h.key AS subject,
    'is open and no effect needs it'::text AS detail
   FROM payonce.holds h
  WHERE h.state = 'open'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.effect_holds c
          WHERE c.hold_key = h.key AND (c.state = ANY (ARRAY['PENDING'::text, 'SEALED'::text]))))
UNION ALL
 SELECT 'effect '::text || c.effect_id AS subject,
    (((c.state || ', but its hold '::text) || c.hold_key) || ' is '::text) ||
        CASE
            WHEN h.id IS NULL THEN 'missing'::text
            WHEN h.state <> 'open'::text THEN h.state
            ELSE 'of '::text || h.amount
        END AS detail
   FROM payonce.effect_holds c
     LEFT JOIN payonce.holds h ON h.key = c.hold_key
     LEFT JOIN payonce.withdrawals w ON c.subject_type = 'withdrawal'::text AND w.id = c.subject_id
  WHERE (c.state = ANY (ARRAY['PENDING'::text, 'SEALED'::text])) AND (h.id IS NULL OR h.state <> 'open'::text OR h.amount < c.amount OR h.amount <> COALESCE(w.amount + w.fee, h.amount))
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    'pays a partner''s customer and holds nothing'::text AS detail
   FROM payonce.effects e
     JOIN payonce.withdrawals w ON e.subject_type = 'withdrawal'::text AND w.id = e.subject_id
  WHERE w.purpose = 'customer'::text AND e.hold_key IS NULL;

create view payonce.l6_without_batches as
 SELECT l6_of_withdrawals.subject,
    l6_of_withdrawals.detail
   FROM payonce.l6_of_withdrawals
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    'pays a transfer and holds '::text || COALESCE(h.amount::text, 'nothing'::text) AS detail
   FROM payonce.effects e
     JOIN payonce.transfers t ON e.subject_type = 'transfer'::text AND t.id = e.subject_id
     LEFT JOIN payonce.holds h ON h.key = e.hold_key
  WHERE h.amount IS DISTINCT FROM (t.amount + t.fee);

create view payonce.l6_without_payouts as
 SELECT l6_without_batches.subject,
    l6_without_batches.detail
   FROM payonce.l6_without_batches
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    'pays a batch and holds '::text || COALESCE(h.amount::text, 'nothing'::text) AS detail
   FROM payonce.effects e
     JOIN payonce.transfer_batches b ON e.subject_type = 'transfer_batch'::text AND b.id = e.subject_id
     CROSS JOIN LATERAL ( SELECT sum(l_1.amount) AS amount,
            sum(l_1.fee) AS fee
           FROM payonce.transfer_batch_lines l_1
          WHERE l_1.batch_id = b.id) l
     LEFT JOIN payonce.holds h ON h.key = e.hold_key
  WHERE h.amount IS DISTINCT FROM (l.amount + l.fee) OR e.amount <> l.amount OR b.amount <> l.amount OR b.fee <> l.fee;

create view payonce.n1_of_partners as
 SELECT n1_without_batches.subject,
    n1_without_batches.detail
   FROM payonce.n1_without_batches
UNION ALL
 SELECT 'batch '::text || e.subject_id AS subject,
    'is settled and no event says so'::text AS detail
   FROM payonce.effects e
  WHERE e.subject_type = 'transfer_batch'::text AND e.state = 'SETTLED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND v.type = 'transfer_batch.finished'::text))
UNION ALL
 SELECT 'batch '::text || e.subject_id AS subject,
    'had a line come back and no event says so'::text AS detail
   FROM payonce.returns r
     JOIN payonce.effects e ON e.id = r.effect_id
  WHERE e.subject_type = 'transfer_batch'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND v.type = 'transfer_batch.returned'::text));

create view payonce.n1_of_withdrawals as
 SELECT 'event '::text || e.event_id AS subject,
    'has no delivery for endpoint '::text || p.id AS detail
   FROM payonce.events e
     JOIN payonce.endpoints p ON p.partner_id = e.partner_id AND p.created_at < e.created_at AND (p.disabled_at IS NULL OR p.disabled_at > e.created_at)
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.deliveries d
          WHERE d.event_id = e.id AND d.endpoint_id = p.id)) AND (p.created_at < (e.created_at - '00:00:15'::interval) OR (EXISTS ( SELECT 1
           FROM payonce.deliveries d
          WHERE d.endpoint_id = p.id AND d.subject_type = e.subject_type AND d.subject_id = e.subject_id AND d.sequence < e.sequence)))
UNION ALL
 SELECT 'withdrawal '::text || e.subject_id AS subject,
    'is settled and no event says so'::text AS detail
   FROM payonce.effects e
  WHERE e.subject_type = 'withdrawal'::text AND e.state = 'SETTLED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND v.type = 'withdrawal.confirmed'::text))
UNION ALL
 SELECT (('subject '::text || s.type) || ' '::text) || s.id AS subject,
    ('ended as '::text || s.closed_as) || ' and no event says so'::text AS detail
   FROM payonce.subjects s
  WHERE s.closed_as IS NOT NULL AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = s.type AND v.subject_id = s.id AND v.type = ((s.type || '.'::text) || s.closed_as)))
UNION ALL
 SELECT 'deposit '::text || d.id AS subject,
    ('is '::text || d.state) || ' and no event says so'::text AS detail
   FROM payonce.deposits d
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = 'deposit'::text AND v.subject_id = d.id AND v.type = ('deposit.'::text || d.state)));

create view payonce.n1_without_batches as
 SELECT n1_of_withdrawals.subject,
    n1_of_withdrawals.detail
   FROM payonce.n1_of_withdrawals
UNION ALL
 SELECT 'transfer '::text || e.subject_id AS subject,
    'is settled and no event says so'::text AS detail
   FROM payonce.effects e
  WHERE e.subject_type = 'transfer'::text AND e.state = 'SETTLED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND v.type = 'transfer.confirmed'::text))
UNION ALL
 SELECT 'transfer '::text || e.subject_id AS subject,
    'came back and no event says so'::text AS detail
   FROM payonce.returns r
     JOIN payonce.effects e ON e.id = r.effect_id
  WHERE e.subject_type = 'transfer'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = e.subject_type AND v.subject_id = e.subject_id AND v.type = 'transfer.returned'::text));

create view payonce.n1_without_p2p as
 SELECT subject,
    detail
   FROM payonce.n1_of_partners n
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.own_move_kinds k
          WHERE n.subject ~~ (('subject '::text || k.subject_type) || ' %'::text)));

create view payonce.n1_without_payouts as
 SELECT n.subject,
    n.detail
   FROM payonce.n1_without_p2p n
  WHERE n.subject !~~ 'subject p2p\_%'::text
UNION ALL
 SELECT 'deposit order '::text || o.id AS subject,
    ('is '::text || o.status) || ' and no event says so'::text AS detail
   FROM payonce.p2p_deposit_orders o
  WHERE o.imported_as IS DISTINCT FROM 'history'::text AND (o.status = ANY (ARRAY['MATCHED'::text, 'COMPLETED'::text, 'PARTIALLY_SETTLED'::text, 'EXPIRED'::text, 'CANCELLED'::text])) AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = 'deposit_order'::text AND v.subject_id = o.id AND v.type = ('deposit_order.'::text || lower(o.status))))
UNION ALL
 SELECT 'withdraw order '::text || o.id AS subject,
    ('is '::text || o.status) || ' and no event says so'::text AS detail
   FROM payonce.p2p_withdraw_orders o
  WHERE o.imported_as IS DISTINCT FROM 'history'::text AND o.closed_at IS NOT NULL AND NOT (EXISTS ( SELECT 1
           FROM payonce.events v
          WHERE v.subject_type = 'withdraw_order'::text AND v.subject_id = o.id AND v.type = ('withdraw_order.'::text || lower(o.status))));

create view payonce.payout_states as
 SELECT y.id,
    e.id AS effect_id,
        CASE
            WHEN y.taken = 'paid'::text THEN 'confirmed'::text
            WHEN y.taken = 'unknown'::text OR c.open_case THEN 'in_review'::text
            WHEN e.state = 'SETTLED'::text THEN 'failed'::text
            WHEN s.closed_as IS NOT NULL AND e.state = 'RELEASED'::text THEN s.closed_as
            WHEN e.state = 'SEALED'::text AND e.included_at IS NOT NULL THEN 'sent'::text
            WHEN e.state = 'PENDING'::text AND e.seq = 1 THEN 'pending'::text
            ELSE 'processing'::text
        END AS status
   FROM payonce.payouts y
     JOIN payonce.subjects s ON s.type =
        CASE
            WHEN y.batch_id IS NULL THEN 'payout'::text
            ELSE 'payout_batch'::text
        END AND s.id = COALESCE(y.batch_id, y.id)
     JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = s.type AND e_1.subject_id = s.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     CROSS JOIN LATERAL ( SELECT e.contradicted_at IS NOT NULL OR (EXISTS ( SELECT 1
                   FROM payonce.cases k
                     JOIN payonce.effects x ON x.id = k.effect_id
                  WHERE x.subject_type = s.type AND x.subject_id = s.id AND k.closed_at IS NULL)) AS open_case) c;

create view payonce.statements_counted as
 SELECT id,
    file_sha256,
    "position",
    rail,
    account,
    asset_id,
    name,
    sequence,
    from_day,
    to_day,
    opening,
    closing,
    moved,
    take
   FROM payonce.statements s
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.statement_voids v
          WHERE v.file_sha256 = s.file_sha256 AND v.take = s.take));

create view payonce.transfer_batch_line_states as
 SELECT l.batch_id,
    l.line,
    l.ref,
    l.partner_id,
    l.external_id,
    l.amount,
    COALESCE(l.fee, t.fee) AS fee,
    l.bank_code,
    l.account_number,
    l.holder_name,
    l.memo,
    t.id AS transfer_id,
    o.object_id,
        CASE
            WHEN k.key IS NULL THEN 'waiting'::text
            WHEN k.resource_id IS NULL THEN 'refused'::text
            ELSE v.status
        END AS fate,
    k.refusal ->> 'detail'::text AS detail,
    k.refusal ->> 'code'::text AS code
   FROM payonce.transfer_batches b
     JOIN payonce.transfer_batch_lines l ON l.batch_id = b.id
     LEFT JOIN payonce.idempotency_keys k ON k.partner_id = l.partner_id AND k.key = l.ref
     LEFT JOIN payonce.transfers t ON t.id = k.resource_id
     LEFT JOIN payonce.transfer_states v ON v.id = t.id
     LEFT JOIN LATERAL ( SELECT COALESCE(w.object_id, e.accepted_object) AS object_id
           FROM payonce.effects e
             LEFT JOIN payonce.effect_evidence w ON w.id = COALESCE(e.settled_by, e.released_by)
          WHERE e.id = v.effect_id) o ON true
  WHERE b.pays_as = 'transfers'::text
UNION ALL
 SELECT l.batch_id,
    l.line,
    l.ref,
    l.partner_id,
    l.external_id,
    l.amount,
    l.fee,
    l.bank_code,
    l.account_number,
    l.holder_name,
    l.memo,
    NULL::text AS transfer_id,
    f.object_id,
        CASE
            WHEN f.fate = 'unknown'::text THEN 'in_review'::text
            WHEN f.fate = 'not_paid'::text THEN 'failed'::text
            WHEN (EXISTS ( SELECT 1
               FROM payonce.returns r
              WHERE r.effect_id = e.id AND r.line_ref = l.ref)) THEN 'returned'::text
            WHEN f.fate = 'paid'::text THEN 'confirmed'::text
            WHEN e.state = 'RELEASED'::text AND s.closed_as IS NOT NULL THEN
            CASE
                WHEN payonce.ended_unpaid('transfer_batch'::text, b.id) THEN s.closed_as
                ELSE 'in_review'::text
            END
            WHEN e.state = 'PENDING'::text AND e.seq = 1 THEN 'pending'::text
            ELSE 'processing'::text
        END AS fate,
    f.detail,
    NULL::text AS code
   FROM payonce.transfer_batches b
     JOIN payonce.transfer_batch_lines l ON l.batch_id = b.id
     JOIN payonce.subjects s ON s.type = 'transfer_batch'::text AND s.id = b.id
     JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'transfer_batch'::text AND e_1.subject_id = b.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     LEFT JOIN LATERAL ( SELECT f_1.batch_id,
            f_1.line,
            f_1.seq,
            f_1.fate,
            f_1.object_id,
            f_1.detail,
            f_1.at
           FROM payonce.transfer_batch_fates f_1
          WHERE f_1.batch_id = l.batch_id AND f_1.line = l.line
          ORDER BY f_1.seq DESC
         LIMIT 1) f ON true
  WHERE b.pays_as = 'batch'::text;

create view payonce.transfer_batch_states as
 SELECT b.id,
    e.id AS effect_id,
        CASE
            WHEN b.pays_as = 'transfers'::text THEN
            CASE
                WHEN b.taken_at IS NULL THEN 'pending'::text
                WHEN (EXISTS ( SELECT 1
                   FROM payonce.transfer_batch_line_states l
                  WHERE l.batch_id = b.id AND (l.fate = ANY (ARRAY['waiting'::text, 'pending'::text, 'processing'::text, 'in_review'::text])))) THEN 'processing'::text
                ELSE 'finished'::text
            END
            WHEN c.open_case THEN 'in_review'::text
            WHEN e.state = 'SETTLED'::text THEN 'finished'::text
            WHEN s.closed_as IS NOT NULL AND e.state = 'RELEASED'::text THEN
            CASE
                WHEN payonce.ended_unpaid('transfer_batch'::text, b.id) THEN s.closed_as
                ELSE 'in_review'::text
            END
            WHEN e.state = 'PENDING'::text AND e.seq = 1 THEN 'pending'::text
            ELSE 'processing'::text
        END AS status
   FROM payonce.transfer_batches b
     JOIN payonce.subjects s ON s.type = 'transfer_batch'::text AND s.id = b.id
     LEFT JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'transfer_batch'::text AND e_1.subject_id = b.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     CROSS JOIN LATERAL ( SELECT COALESCE(e.contradicted_at IS NOT NULL, false) OR (EXISTS ( SELECT 1
                   FROM payonce.cases k
                     JOIN payonce.effects x ON x.id = k.effect_id
                  WHERE x.subject_type = 'transfer_batch'::text AND x.subject_id = b.id AND k.closed_at IS NULL)) AS open_case) c;

create view payonce.transfer_states as
 SELECT t.id,
    e.id AS effect_id,
        CASE
            WHEN e.state = 'SETTLED'::text AND (EXISTS ( SELECT 1
               FROM payonce.returns r
              WHERE r.effect_id = e.id)) THEN 'returned'::text
            WHEN e.state = 'SETTLED'::text THEN 'confirmed'::text
            WHEN c.open_case THEN 'in_review'::text
            WHEN s.closed_as IS NOT NULL AND e.state = 'RELEASED'::text THEN
            CASE
                WHEN payonce.ended_unpaid('transfer'::text, t.id) THEN s.closed_as
                ELSE 'in_review'::text
            END
            WHEN e.state = 'PENDING'::text AND e.seq = 1 THEN 'pending'::text
            ELSE 'processing'::text
        END AS status
   FROM payonce.transfers t
     JOIN payonce.subjects s ON s.type = 'transfer'::text AND s.id = t.id
     JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'transfer'::text AND e_1.subject_id = t.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     CROSS JOIN LATERAL ( SELECT e.contradicted_at IS NOT NULL OR (EXISTS ( SELECT 1
                   FROM payonce.cases k
                     JOIN payonce.effects x ON x.id = k.effect_id
                  WHERE x.subject_type = 'transfer'::text AND x.subject_id = t.id AND k.closed_at IS NULL)) AS open_case) c;

create view payonce.v2_of_withdrawals as
 SELECT 'withdrawal '::text || w.id AS subject,
    'has no effect'::text AS detail
   FROM payonce.withdrawals w
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = 'withdrawal'::text AND e.subject_id = w.id))
UNION ALL
 SELECT (('subject '::text || s.type) || ' '::text) || s.id AS subject,
    'has no live effect, no end and no case'::text AS detail
   FROM payonce.subjects s
  WHERE s.closed_at IS NULL AND (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = s.type AND e.subject_id = s.id)) AND NOT (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = s.type AND e.subject_id = s.id AND e.state <> 'RELEASED'::text)) AND NOT (EXISTS ( SELECT 1
           FROM payonce.cases c
             LEFT JOIN payonce.effects e ON e.id = c.effect_id
          WHERE c.closed_at IS NULL AND (c.subject_key = ((s.type || ':'::text) || s.id) OR e.subject_type = s.type AND e.subject_id = s.id)))
UNION ALL
 SELECT 'effect '::text || e.id AS subject,
    ((('is '::text || e.state) || ' though its subject ended as '::text) || s.closed_as) || ', and no case says so'::text AS detail
   FROM payonce.effects e
     JOIN payonce.subjects s ON s.type = e.subject_type AND s.id = e.subject_id
  WHERE s.closed_at IS NOT NULL AND e.state <> 'RELEASED'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.cases c
          WHERE c.effect_id = e.id AND c.kind = 'told_failed'::text));

create view payonce.v2_without_batches as
 SELECT v2_of_withdrawals.subject,
    v2_of_withdrawals.detail
   FROM payonce.v2_of_withdrawals
UNION ALL
 SELECT 'transfer '::text || t.id AS subject,
    'has no effect'::text AS detail
   FROM payonce.transfers t
  WHERE NOT (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = 'transfer'::text AND e.subject_id = t.id));

create view payonce.v2_without_collections as
 SELECT v2_without_realizations.subject,
    v2_without_realizations.detail
   FROM payonce.v2_without_realizations
UNION ALL
 SELECT 'realization '::text || r.id AS subject,
    COALESCE(('effect '::text || e.id) || ' moves something else'::text, 'has no effect'::text) AS detail
   FROM payonce.realizations r
     LEFT JOIN payonce.effects e ON e.subject_type = 'realization'::text AND e.subject_id = r.id AND e.seq = 1
  WHERE e.partner_id IS DISTINCT FROM r.partner_id OR e.asset_id IS DISTINCT FROM r.asset_id OR e.amount IS DISTINCT FROM r.amount OR e.wallet IS DISTINCT FROM r.wallet OR e.destination IS DISTINCT FROM r.destination;

create view payonce.v2_without_realizations as
 SELECT v2_without_batches.subject,
    v2_without_batches.detail
   FROM payonce.v2_without_batches
UNION ALL
 SELECT 'batch '::text || b.id AS subject,
    'has no effect'::text AS detail
   FROM payonce.transfer_batches b
  WHERE b.pays_as = 'batch'::text AND NOT (EXISTS ( SELECT 1
           FROM payonce.effects e
          WHERE e.subject_type = 'transfer_batch'::text AND e.subject_id = b.id))
UNION ALL
 SELECT (('batch '::text || l.batch_id) || ' line '::text) || l.line AS subject,
    'is taken, and its key has no answer'::text AS detail
   FROM payonce.transfer_batches b
     JOIN payonce.transfer_batch_lines l ON l.batch_id = b.id
  WHERE b.pays_as = 'transfers'::text AND b.taken_at IS NOT NULL AND NOT (EXISTS ( SELECT 1
           FROM payonce.idempotency_keys k
          WHERE k.partner_id = l.partner_id AND k.key = l.ref));

create view payonce.withdrawal_states as
 SELECT w.id,
    e.id AS effect_id,
        CASE
            WHEN e.state = 'SETTLED'::text AND (EXISTS ( SELECT 1
               FROM payonce.returns r
              WHERE r.effect_id = e.id)) THEN 'returned'::text
            WHEN e.state = 'SETTLED'::text THEN 'confirmed'::text
            WHEN c.open_case THEN 'in_review'::text
            WHEN s.closed_as IS NOT NULL AND e.state = 'RELEASED'::text THEN s.closed_as
            WHEN e.state = 'SEALED'::text AND e.included_at IS NOT NULL THEN 'sent'::text
            WHEN e.state = 'SEALED'::text THEN 'processing'::text
            WHEN e.state = 'PENDING'::text AND e.seq = 1 THEN 'pending'::text
            ELSE 'processing'::text
        END AS status
   FROM payonce.withdrawals w
     JOIN payonce.subjects s ON s.type = 'withdrawal'::text AND s.id = w.id
     JOIN LATERAL ( SELECT e_1.id,
            e_1.subject_type,
            e_1.subject_id,
            e_1.seq,
            e_1.partner_id,
            e_1.rail,
            e_1.state,
            e_1.lane,
            e_1.asset_id,
            e_1.amount,
            e_1.destination,
            e_1.wallet,
            e_1.signer,
            e_1.call,
            e_1.hold_key,
            e_1.created_at,
            e_1.lease_token,
            e_1.lease_until,
            e_1.next_at,
            e_1.wait_reason,
            e_1.failures,
            e_1.identity,
            e_1.payload,
            e_1.expect,
            e_1.plan,
            e_1.nonce,
            e_1.sealed_at,
            e_1.first_sent_at,
            e_1.send_count,
            e_1.send_by,
            e_1.last_sent_at,
            e_1.no_send,
            e_1.wanted,
            e_1.testimonies,
            e_1.evidence_version,
            e_1.accepted_at,
            e_1.accepted_object,
            e_1.included_at,
            e_1.last_unreadable,
            e_1.believed_evidence,
            e_1.lateness_until,
            e_1.fresh_look_at,
            e_1.watch_at,
            e_1.settled_by,
            e_1.released_by,
            e_1.release_rank,
            e_1.ended_at,
            e_1.reopened_at,
            e_1.reopens,
            e_1.contradicted_at,
            e_1.transitions
           FROM payonce.effects e_1
          WHERE e_1.subject_type = 'withdrawal'::text AND e_1.subject_id = w.id
          ORDER BY e_1.seq DESC
         LIMIT 1) e ON true
     CROSS JOIN LATERAL ( SELECT e.contradicted_at IS NOT NULL OR (EXISTS ( SELECT 1
                   FROM payonce.cases k
                     JOIN payonce.effects x ON x.id = k.effect_id
                  WHERE x.subject_type = 'withdrawal'::text AND x.subject_id = w.id AND k.closed_at IS NULL)) AS open_case) c;

-- functions

CREATE OR REPLACE FUNCTION payonce.accruals_whole()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  bad record;
begin
  select g.pool_id into bad
  from (select pool_id, min(seq) as first, min(programme) as lowest, max(programme) as highest from added group by pool_id) g
  left join payonce.pools p on p.id = g.pool_id
  left join payonce.programmes o on o.id = p.programme_id
  where o.number is distinct from g.lowest or g.lowest <> g.highest or g.first <= p.cut_seq
  limit 1;
  if found then
    raise exception 'accruals of pool % are of another programme, or late', bad.pool_id using errcode = 'P0Y01', constraint = 'accruals_whole';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.assets_frozen()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'asset % is frozen: decimals, chain and contract never change', old.id
    using errcode = 'P0A02', constraint = 'assets_frozen';
end $function$;

CREATE OR REPLACE FUNCTION payonce.audit(actor text, action text, object text, detail jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  head record;
  moment timestamptz := payonce.now();
  digest text := payonce.audit_digest(coalesce(detail, '{}'));
  next_hash text;
begin
  select seq, hash into head from payonce.audit_head for update;
  next_hash := encode(sha256(convert_to(
    head.hash || chr(10) || (head.seq + 1) || chr(10) || extract(epoch from moment) || chr(10) || actor || chr(10) || action || chr(10) || object || chr(10) || digest, 'UTF8')), 'hex');
  insert into payonce.audit_log (seq, at, actor, action, object, detail, detail_digest, hash)
  values (head.seq + 1, moment, actor, action, object, coalesce(detail, '{}'), digest, next_hash);
  update payonce.audit_head set seq = head.seq + 1, hash = next_hash;
  return head.seq + 1;
end $function$;

CREATE OR REPLACE FUNCTION payonce.audit_digest(detail jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ select encode(sha256(convert_to(detail::text, 'UTF8')), 'hex') $function$;

CREATE OR REPLACE FUNCTION payonce.audit_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- Erasing `detail` (a request of a person) is the one change allowed.
  if tg_op = 'UPDATE' and new.detail is null
     and (old.seq, old.at, old.actor, old.action, old.object, old.detail_digest, old.hash)
         is not distinct from (new.seq, new.at, new.actor, new.action, new.object, new.detail_digest, new.hash) then
    return new;
  end if;
  raise exception 'the audit log is append-only' using errcode = 'P0A01', constraint = 'audit_log_append_only';
end $function$;

CREATE OR REPLACE FUNCTION payonce.chain_transfers_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- Before finality a transaction may be mined again and then move other money at the same place; after it nothing changes.
  if tg_op = 'DELETE' or (old.chain, old.tx_hash, old.position) is distinct from (new.chain, new.tx_hash, new.position)
     or (old.final_at is not null
         and (old.asset_id, old.from_address, old.to_address, old.amount, new.final_at is null)
             is distinct from (new.asset_id, new.from_address, new.to_address, new.amount, false)) then
    raise exception 'chain transfer % is frozen', old.id using errcode = 'P0C01', constraint = 'chain_transfers_frozen';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.deposits_frozen()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'deposit % is frozen', old.id using errcode = 'P0C03', constraint = 'deposits_frozen';
end $function$;

CREATE OR REPLACE FUNCTION payonce.deposits_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (select 1 from payonce.deposit_edges where from_state = old.state and to_state = new.state) then
    raise exception 'deposit %: no edge % -> %', old.id, old.state, new.state using errcode = 'P0C02', constraint = 'deposits_edge';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.effect_variants_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  sealed record;
begin
  select e.state, e.signer, convert_from(e.payload, 'UTF8')::jsonb as body, e.sealed_at into sealed
  from payonce.effects e where e.id = new.effect_id for no key update;
  if sealed.sealed_at is null then
    raise exception 'effect % is not sealed: nothing can be signed', new.effect_id using errcode = 'P0B16', constraint = 'effect_variants_sealed';
  end if;
  if new.kind = 'cancel' then
    if new.to_address is distinct from sealed.signer or new.value <> 0 or new.data not in ('0x', '') then
      raise exception 'a cancel is a self-transfer of nothing' using errcode = 'P0B17', constraint = 'effect_variants_cancel';
    end if;
  else
    if (new.to_address, new.value, new.data) is distinct from (sealed.body ->> 'to', (sealed.body ->> 'value')::numeric, sealed.body ->> 'data') then
      raise exception 'a variant keeps to, value and data of the seal' using errcode = 'P0B17', constraint = 'effect_variants_payload';
    end if;
    if exists (select 1 from payonce.effect_variants v where v.effect_id = new.effect_id and v.kind = 'cancel') then
      raise exception 'effect % is being cancelled: only cancels follow' , new.effect_id using errcode = 'P0B17', constraint = 'effect_variants_after_cancel';
    end if;
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_born()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
declare
  is_closed boolean;
begin
  if exists (select 1 from added where state <> 'PENDING' or sealed_at is not null or testimonies <> 0) then
    raise exception 'an effect begins PENDING' using errcode = 'P0B12', constraint = 'effects_born_pending';
  end if;
  select bool_or(l.closed_at is not null) into is_closed
  from (select distinct subject_type, subject_id from added order by subject_type, subject_id) a
  cross join lateral (
    select s.closed_at from payonce.subjects s where s.type = a.subject_type and s.id = a.subject_id for share) l;
  if is_closed then
    raise exception 'this subject was told its end: no effect ever again' using errcode = 'P0B13', constraint = 'effects_subject_closed';
  end if;
  -- A successor differs in identity and rail parameters only (design §1, 7), and tries are numbered without gaps.
  if exists (select 1 from added where seq <> 1) and exists (
    select 1 from added a
    left join payonce.effects p on p.subject_type = a.subject_type and p.subject_id = a.subject_id and p.seq = a.seq - 1
    where a.seq > 1
      and (p.id is null
           or (p.partner_id, p.asset_id, p.amount, p.destination, p.wallet, p.call) is distinct from (a.partner_id, a.asset_id, a.amount, a.destination, a.wallet, a.call))) then
    raise exception 'a successor is its predecessor again' using errcode = 'P0B18', constraint = 'effects_successor_same';
  end if;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  select id, 1, null, state, 'intended', 0 from added;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  proof record;
  reason text;
begin
  if not exists (select 1 from payonce.effect_edges where from_state = old.state and to_state = new.state) then
    raise exception 'effect %: no edge % -> %', old.id, old.state, new.state using errcode = 'P0B01', constraint = 'effects_edge';
  end if;
  if old.state = 'PENDING' and new.state = 'SEALED' then
    if new.nonce is not null then
      if not exists (
        select 1 from payonce.signers s where s.rail = new.rail and s.address = new.signer and s.next_nonce > new.nonce) then
        raise exception 'effect %: nonce % was not given out', old.id, new.nonce using errcode = 'P0B02', constraint = 'effects_nonce_allotted';
      end if;
    end if;
    reason := 'sealed';
  elsif old.state = 'RELEASED' and new.state = 'SEALED' then
    if new.testimonies = 0 or not new.no_send or new.lane is not null or new.reopened_at is null then
      raise exception 'effect %: re-opened without testimony, or to be sent again', old.id using errcode = 'P0B03', constraint = 'effects_reopen';
    end if;
    reason := 're-opened';
  elsif new.state = 'SETTLED' then
    select e.kind into reason
    from payonce.effect_evidence e
    where e.id = new.settled_by and e.effect_id = new.id and e.rank = 'object' and e.struck_at is null;
    if not found then
      raise exception 'effect %: settled without object testimony', old.id using errcode = 'P0B04', constraint = 'effects_settled_testimony';
    end if;
  elsif new.state = 'RELEASED' then
    select e.kind, e.rank, e.object_id, k.says, k.chain_final into proof
    from payonce.effect_evidence e join payonce.evidence_kinds k on k.kind = e.kind
    where e.id = new.released_by and e.effect_id = new.id and e.struck_at is null;
    if not found or (proof.says <> 'no' and not (proof.kind = 'NEVER_LEFT' and proof.rank = 'dead')) or proof.rank <> new.release_rank then
      raise exception 'effect %: released without a named no', old.id using errcode = 'P0B05', constraint = 'effects_released_no';
    end if;
    if (old.state = 'PENDING') <> (proof.kind = 'NEVER_SEALED') then
      raise exception 'effect %: % does not release from %', old.id, proof.kind, old.state using errcode = 'P0B05', constraint = 'effects_released_no';
    end if;
    if new.testimonies > 0 and (
      exists (select 1 from payonce.effect_evidence e where e.effect_id = new.id and e.rank = 'object' and e.struck_at is null)
      or not (proof.chain_final or (proof.kind = 'PROVIDER_FAILED' and proof.rank = 'dead' and proof.object_id is not null and proof.object_id = new.accepted_object))) then
      raise exception 'effect %: released over testimony', old.id using errcode = 'P0B06', constraint = 'effects_released_testimony';
    end if;
    if new.release_rank = 'believed' and (
      new.lateness_until is null or new.lateness_until > payonce.now() or new.fresh_look_at is null or new.fresh_look_at < new.lateness_until) then
      raise exception 'effect %: a believed no waits for lateness and a fresh look', old.id using errcode = 'P0B06', constraint = 'effects_released_lateness';
    end if;
    reason := proof.kind;
  end if;
  new.transitions := old.transitions + 1;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  values (new.id, new.transitions, old.state, new.state, reason, new.lease_token);
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_immutable()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.call, old.hold_key, old.created_at)
     is distinct from
     (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.call, new.hold_key, new.created_at)
     or (old.sealed_at is not null or old.ended_at is not null) and old.signer <> new.signer then
    raise exception 'effect %: what was taken in is frozen', old.id using errcode = 'P0B10', constraint = 'effects_intake_frozen';
  end if;
  if old.sealed_at is not null
     and (old.identity, old.payload, old.expect, old.plan, old.nonce, old.sealed_at, old.first_sent_at)
         is distinct from (new.identity, new.payload, new.expect, new.plan, new.nonce, new.sealed_at, new.first_sent_at) then
    raise exception 'effect %: the seal is immutable', old.id using errcode = 'P0B11', constraint = 'effects_seal_immutable';
  end if;
  -- A lower token would let a stale worker in, a lower count or a lifted `no_send` would send again what must not be.
  raise exception 'effect %: fences, counts, stops and ends never go back', old.id using errcode = 'P0B21', constraint = 'effects_never_back';
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_testimonies()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'effect %: testimony is counted where it is stored', old.id using errcode = 'P0B20', constraint = 'effects_testimonies_counted';
end $function$;

CREATE OR REPLACE FUNCTION payonce.ended_unpaid(of_type text, of_id text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select s.closed_as is not null and not exists (
    select 1 from payonce.effects e
    where e.subject_type = s.type and e.subject_id = s.id and not payonce.release_stands(e.id))
  from payonce.subjects s
  where s.type = of_type
    and s.id = of_id
$function$;

CREATE OR REPLACE FUNCTION payonce.events_fan_out()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into payonce.deliveries (event_id, endpoint_id, subject_type, subject_id, sequence)
  select a.id, p.id, a.subject_type, a.subject_id, a.sequence
  from added a join payonce.endpoints p on p.partner_id = a.partner_id and p.disabled_at is null
  order by a.id, p.id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.evidence_counts()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
AS $function$
begin
  -- one update per effect, in id order: two batches cannot lock each other out
  update payonce.effects e
  set testimonies = e.testimonies + t.yes,
      evidence_version = e.evidence_version + t.raised,
      accepted_at = case when t.yes > 0 then coalesce(e.accepted_at, payonce.now()) else e.accepted_at end,
      accepted_object = coalesce(e.accepted_object, t.object_id)
  from (
    select effect_id,
           count(*) filter (where rank in ('word', 'object')) as yes,
           count(*) as raised,
           min(object_id) filter (where rank in ('word', 'object')) as object_id
    from (select a.effect_id, a.rank, a.object_id from added a
          join (select id from payonce.effects where id = any (array(select effect_id from added))
                order by id for no key update) l on l.id = a.effect_id) x
    group by effect_id
  ) t
  where e.id = any (array(select effect_id from added))
    and e.id = t.effect_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.evidence_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE'
     or (old.id, old.effect_id, old.kind, old.rank, old.source, old.operator, old.object_id, old.detail, old.answer_id, old.send_number, old.lease_token, old.proposal_id, old.at)
        is distinct from
        (new.id, new.effect_id, new.kind, new.rank, new.source, new.operator, new.object_id, new.detail, new.answer_id, new.send_number, new.lease_token, new.proposal_id, new.at)
     or old.struck_at is not null then
    raise exception 'evidence is never changed' using errcode = 'P0A01', constraint = 'effect_evidence_append_only';
  end if;
  if new.struck_at is not null then
    if old.rank <> 'word' or not exists (
      select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
      where p.id = new.struck_by and p.verb = 'strike' and p.approved_by is not null and p.state in ('approved', 'done')
        and c.effect_id = old.effect_id and p.detail ->> 'evidenceId' = old.id::text) then
      raise exception 'only two persons strike word testimony' using errcode = 'P0B08', constraint = 'effect_evidence_strike';
    end if;
    update payonce.effects set testimonies = testimonies - 1, evidence_version = evidence_version + 1 where id = old.effect_id;
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.evidence_rank()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  wrong record;
begin
  -- PROVIDER_FAILED is dead only where the profile cites that the key stays bound; REJECTED of a stored kind is its own kind.
  select a.kind into wrong
  from added a join payonce.evidence_kinds k on k.kind = a.kind
  where a.rank <> k.rank and not (a.kind = 'PROVIDER_FAILED' and a.rank = 'believed')
    and not (a.kind = 'NEVER_LEFT' and a.rank = 'dead' and exists (
      select 1 from payonce.effects e
      where e.id = a.effect_id and e.nonce is null and e.send_count > 0
        and e.send_count = (select count(distinct n.send_number) from payonce.effect_answers n
                            where n.effect_id = e.id and n.operation = 'send' and n.reach = 'never_connected')))
  limit 1;
  if found then
    raise exception 'evidence % has another rank', wrong.kind using errcode = 'P0B07', constraint = 'effect_evidence_rank';
  end if;
  select a.kind into wrong
  from added a
  where a.kind in ('OPERATOR_SAW', 'OPERATOR_ABSENT') and not exists (
    select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
    where p.id = a.proposal_id and p.approved_by is not null and p.state in ('approved', 'done')
      and c.effect_id = a.effect_id and p.verb = case a.kind when 'OPERATOR_SAW' then 'settled' else 'absent' end)
  limit 1;
  if found then
    raise exception 'evidence % needs two persons', wrong.kind using errcode = 'P0B08', constraint = 'effect_evidence_two_persons';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.holds_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' or (old.key, old.account_id, old.amount) is distinct from (new.key, new.account_id, new.amount) then
    raise exception 'hold % is frozen', old.key using errcode = 'P0A06', constraint = 'holds_frozen';
  end if;
  if old.state <> 'open' then
    raise exception 'hold % has ended as %', old.key, old.state using errcode = 'P0A06', constraint = 'holds_terminal';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.ledger_entries_whole()
 RETURNS trigger
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION payonce.line_may_be_paid(of_batch text, of_line integer)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION payonce.now()
 RETURNS timestamp with time zone
 LANGUAGE sql
AS $function$
  select case when coalesce(current_setting('payonce.clock_shift_ms', true), '') = '' then clock_timestamp()
         else payonce.shifted_now(current_setting('payonce.clock_shift_ms', true)) end
$function$;

CREATE OR REPLACE FUNCTION payonce.p2p_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  was text := to_jsonb(old) ->> tg_argv[1];
  is_now text := to_jsonb(new) ->> tg_argv[1];
begin
  if was = is_now or exists (
    select 1 from payonce.p2p_edges e where e.of = tg_argv[0] and e.from_state = was and e.to_state = is_now) then
    return new;
  end if;
  raise exception '% % cannot go from % to %', tg_argv[0], old.id, was, is_now using errcode = 'P0P01', constraint = 'p2p_edges';
end $function$;

CREATE OR REPLACE FUNCTION payonce.p2p_legs_fence()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.is_history then
    perform 1 from payonce.p2p_deposit_orders o
    where o.id = new.deposit_order_id and o.imported_as is not null and o.xmin = pg_current_xact_id()::xid;
    if not found then
      raise exception 'order % is not being taken over: it gets no leg of history', new.deposit_order_id
        using errcode = 'P0P02', constraint = 'p2p_legs_fence';
    end if;
    return new;
  end if;
  perform 1 from payonce.p2p_deposit_orders o
  where o.id = new.deposit_order_id and o.status = 'MATCHING' and o.claim_token = new.claim_token and not o.waits_lp
  for key share;
  if not found then
    raise exception 'order % is not claimed under token %', new.deposit_order_id, new.claim_token
      using errcode = 'P0P02', constraint = 'p2p_legs_fence';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.payee_key(bank_code text, account_number text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select upper(bank_code) || ':' || case
    when account_number ~ '^[0-9][0-9 -]*$' then translate(account_number, '- ', '')
    when strpos(account_number, '@') > 0 then lower(account_number)
    else account_number
  end
$function$;

CREATE OR REPLACE FUNCTION payonce.payouts_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  of_type text := case when new.batch_id is null then 'payout' else 'payout_batch' end;
  of_id text := coalesce(new.batch_id, new.id);
  is_open boolean;
  is_settled boolean;
begin
  if new.taken = old.taken then return new; end if;
  if not ((old.taken, new.taken) in (('in_flight', 'paid'), ('in_flight', 'returned'), ('in_flight', 'unknown'), ('unknown', 'paid'), ('unknown', 'returned'),
      ('returned', 'in_flight'))) then
    raise exception 'payout % cannot go from % to %', new.id, old.taken, new.taken using errcode = 'P0Y03', constraint = 'payouts_edge';
  end if;
  select coalesce(bool_or(e.state in ('PENDING', 'SEALED')), false), coalesce(bool_or(e.state = 'SETTLED'), false) into is_open, is_settled
  from payonce.effects e where e.subject_type = of_type and e.subject_id = of_id;
  if new.taken = 'returned' and (is_open or is_settled and new.batch_id is null) then
    raise exception 'payout % is live: what it consumed stays with it', new.id using errcode = 'P0Y04', constraint = 'payouts_returned';
  end if;
  if new.taken in ('paid', 'unknown') and not is_settled or new.taken = 'in_flight' and not is_open then
    raise exception 'payout % did not move', new.id using errcode = 'P0Y05', constraint = 'payouts_paid';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.payouts_move()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
begin
  perform 1 from payonce.pools p
  where p.id = any (array(select n.pool_id from after_rows n join before_rows o on o.id = n.id where o.taken <> n.taken))
  order by p.id for no key update;
  update payonce.pools p
  set in_flight = p.in_flight + m.in_flight,
      paid = p.paid + m.paid,
      surplus = p.surplus + greatest(0, m.again - greatest(0, p.payable)),
      volume_taken = least(p.volume, p.volume_taken - m.volume),
      free = p.free + m.back - m.again_places,
      failures = case when m.paid > 0 then 0 else p.failures end
  from (
    select n.pool_id,
           sum(case when n.taken in ('paid', 'returned') then -n.amount when o.taken = 'returned' then n.amount else 0 end) as in_flight,
           sum(case when n.taken = 'paid' then n.amount else 0 end) as paid,
           sum(case when o.taken = 'returned' then n.amount else 0 end) as again,
           sum(case when n.taken = 'returned' then n.volume when o.taken = 'returned' then -n.volume else 0 end) as volume,
           coalesce(range_agg(n.consumed) filter (where n.taken = 'returned'), '{}') as back,
           coalesce(range_agg(n.consumed) filter (where o.taken = 'returned'), '{}') as again_places
    from after_rows n
    join before_rows o on o.id = n.id
    where o.taken <> n.taken
    group by n.pool_id) m
  where p.id = any (array(select pool_id from after_rows))
    and p.id = m.pool_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.payouts_take()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  taken int;
begin
  perform 1 from payonce.pools p where p.id = any (array(select pool_id from added)) order by p.id for no key update;
  update payonce.pools p
  set free = '{}', cut_seq = p.seq, volume_taken = p.volume, in_flight = p.in_flight + a.amount, payouts = a.ordinal,
      due_since = null, wait_reason = null, next_at = null
  from added a
  where p.id = any (array(select pool_id from added))
    and p.id = a.pool_id
    and p.programme_id = a.programme_id
    and p.creator_id = a.creator_id
    and a.ordinal = p.payouts + 1
    and a.taken = 'in_flight'
    and a.consumed = p.free + int8multirange(int8range(p.cut_seq, p.seq, '(]'))
    and a.volume = p.volume - p.volume_taken
    and a.amount <= p.payable;
  get diagnostics taken = row_count;
  if taken <> (select count(*) from added) then
    raise exception 'a payout takes what is free of its pool, once' using errcode = 'P0Y02', constraint = 'payouts_take';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.post(kinds text[], keys text[], refs text[], effects bigint[], reversed bigint[], hold_keys text[], line_items integer[], line_accounts bigint[], line_amounts numeric[])
 RETURNS TABLE(item integer, verdict text, posting_id bigint, posting_effect bigint)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  item_count constant int := coalesce(cardinality(kinds), 0);
  has_holds constant boolean := exists (
    select 1 from unnest(kinds, hold_keys) as k (kind, hold_key) where kind <> 'post' or hold_key is not null);
  verdicts text[] := array_fill(null::text, array[item_count]);
  refused int := 0;
  -- Accounts by id, as locked.
  account_ids bigint[];
  locked bigint[]; assets text[]; balances numeric[]; helds numeric[]; floors numeric[]; deficits numeric[]; seqs bigint[];
  touched text[];
  stamp timestamptz;
  -- What accepted items change.
  d_item int[]; d_account bigint[]; d_balance numeric[]; d_held numeric[];
  -- The entries that come of it.
  e_item int[]; e_account bigint[]; e_asset text[]; e_seq bigint[]; e_amount numeric[]; e_after numeric[];
  is_entangled boolean := false;
  is_decided boolean := false;
  do_all_fit boolean;
  is_post boolean[];
  posting_ids bigint[];
  row_total int;
  rec record;
  -- One after another.
  key_groups int[]; hold_groups int[]; is_booked boolean[]; hold_states text[]; hold_accounts bigint[]; hold_amounts numeric[];
  free numeric[]; nets numeric[];
  m_account bigint[]; m_balance numeric[]; m_held numeric[]; places int[];
  line int; first_line int; g int; place int; fits boolean;
begin
  -- 1. Lock order: accounts by id, then holds (W6: locked and read before anything is inserted, duplicates included).
  if has_holds then
    touched := array(select hold_key from unnest(hold_keys) as h (hold_key) where hold_key is not null);
    account_ids := array(select distinct a from (
      select unnest(line_accounts) as a union all select account_id from payonce.holds where key = any (touched)) s order by 1);
  else
    account_ids := array(select distinct a from unnest(line_accounts) as s (a) order by 1);
  end if;
  select coalesce(array_agg(id), '{}'), array_agg(asset_id), array_agg(balance), array_agg(held), array_agg(floor), array_agg(deficit), array_agg(seq)
    into locked, assets, balances, helds, floors, deficits, seqs
  from (select id, asset_id, balance, held, floor, deficit, seq
        from payonce.accounts where id = any (account_ids) order by id for no key update) a;
  if locked <> account_ids then
    raise exception 'an account of this batch does not exist' using errcode = 'P0A07', constraint = 'ledger_entries_account';
  end if;
  if has_holds then
    perform 1 from payonce.holds where key = any (touched) order by id for no key update;
  end if;
  -- Under the locks: an account's entries carry times in the order of their seq.
  stamp := payonce.now();

  -- 2. What exists already is a quiet no-op (W5); the rest becomes deltas.
  if has_holds then
    for rec in
      select k.n, k.is_entangled, case
               when k.kind = 'void' then case when h.state = 'open' then null else 'hold_gone' end
               when k.kind = 'hold' then case when h.id is not null then 'exists' end
               when p.id is not null then 'exists'
               when k.hold_key is not null and h.state is distinct from 'open' then 'hold_gone'
             end as outcome
      from (select n::int, kind, key, hold_key,
                   kind = 'post' and count(*) over (partition by kind, key collate "C") > 1
                   or hold_key is not null and count(*) over (partition by hold_key) > 1 as is_entangled
            from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
      left join payonce.holds h on h.key = k.hold_key
      left join payonce.postings p on p.idem_key = k.key and k.kind = 'post'
    loop
      is_entangled := is_entangled or rec.is_entangled;
      if rec.outcome is not null then
        verdicts[rec.n] := rec.outcome;
        refused := refused + 1;
      end if;
    end loop;
    is_post := array(select kind = 'post' from unnest(kinds) with ordinality as u (kind, n) order by n);
    select array_agg(s.n order by s.n), array_agg(s.account order by s.n), array_agg(s.balance order by s.n), array_agg(s.held order by s.n)
      into d_item, d_account, d_balance, d_held
    from (
      select line_item as n, account, case when is_post[line_item] then amount else 0 end as balance,
             case when is_post[line_item] then 0 else amount end as held
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
      union all
      select k.n::int, h.account_id, 0, -h.amount
      from unnest(kinds, hold_keys) with ordinality as k (kind, hold_key, n)
      join payonce.holds h on h.key = k.hold_key
      where k.kind <> 'hold'
    ) s where verdicts[s.n] is null;
  else
    for rec in
      select k.n, p.id is not null as is_booked
      from (select n::int, key, row_number() over (partition by key collate "C" order by n) as nth
            from unnest(keys) with ordinality as u (key, n)) k
      left join payonce.postings p on p.idem_key = k.key
      where k.nth > 1 or p.id is not null
    loop
      if rec.is_booked then
        verdicts[rec.n] := 'exists';
        refused := refused + 1;
      else
        is_entangled := true;
      end if;
    end loop;
    if refused = 0 then
      d_item := line_items; d_account := line_accounts; d_balance := line_amounts;
    else
      select array_agg(line_item order by line_item), array_agg(account order by line_item), array_agg(amount order by line_item)
        into d_item, d_account, d_balance
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount) where verdicts[line_item] is null;
    end if;
    d_held := array_fill(0::numeric, array[coalesce(cardinality(d_item), 0)]);
  end if;

  -- 3. Continue each account's chain through the deltas, from the row that was locked (n = 0; max carries what only it has).
  -- If everything fits, with no deficit in play, that is the result. If not, or if items share a key or a hold, they are
  -- tried in order, each alone, and the chains are made again.
  while refused < item_count loop
    if not is_entangled or is_decided then
      select array_agg(c.n) filter (where c.is_entry), array_agg(c.account) filter (where c.is_entry), array_agg(c.asset) filter (where c.is_entry),
             array_agg(c.seq) filter (where c.is_entry), array_agg(c.delta) filter (where c.is_entry), array_agg(c.after) filter (where c.is_entry),
             bool_and(c.n = 0 or c.lowest is null or c.after - c.held >= c.lowest)
        into e_item, e_account, e_asset, e_seq, e_amount, e_after, do_all_fit
      from (
        select n, account, delta, n > 0 and delta <> 0 as is_entry,
               sum(delta) over chain as after, sum(held) over chain as held,
               (sum(lines) over (chain rows unbounded preceding))::bigint as seq,
               max(asset) over chain as asset, max(lowest) over chain as lowest
        from (
          select 0 as n, account, asset, delta, held, lines,
                 case when floor is not null then case when deficit > 0 then 'infinity' else floor end end as lowest
          from unnest(locked, assets, balances, helds, floors, deficits, seqs) as h (account, asset, delta, held, floor, deficit, lines)
          union all
          select n, account, null, delta, held, (delta <> 0)::int, null
          from unnest(d_item, d_account, d_balance, d_held) as d (n, account, delta, held)
        ) s
        window chain as (partition by account order by n)
      ) c;
      exit when do_all_fit or is_decided;
    end if;

    is_decided := true;
    refused := 0;
    d_item := '{}'; d_account := '{}'; d_balance := '{}'; d_held := '{}';
    select array_agg(k.key_group order by k.n), array_agg(k.hold_group order by k.n), array_agg(p.id is not null order by k.n),
           array_agg(coalesce(h.state, 'none') order by k.n), array_agg(h.account_id order by k.n), array_agg(h.amount order by k.n)
      into key_groups, hold_groups, is_booked, hold_states, hold_accounts, hold_amounts
    from (select n::int, kind, key, hold_key,
                 case when kind = 'post' then (min(n) over (partition by kind, key collate "C"))::int end as key_group,
                 case when hold_key is not null then (min(n) over (partition by hold_key))::int end as hold_group
          from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
    left join payonce.holds h on h.key = k.hold_key
    left join payonce.postings p on p.idem_key = k.key and k.kind = 'post';
    free := array(select balance - held from unnest(balances, helds) with ordinality as f (balance, held, n) order by n);
    nets := free;
    line := 1;
    for n in 1 .. item_count loop
      first_line := line;
      while line_items[line] = n loop
        line := line + 1;
      end loop;
      g := hold_groups[n];
      if kinds[n] = 'post' and is_booked[key_groups[n]] or kinds[n] = 'hold' and hold_states[g] <> 'none' then
        verdicts[n] := 'exists';
        refused := refused + 1;
        continue;
      elsif kinds[n] <> 'hold' and g is not null and hold_states[g] <> 'open' then
        verdicts[n] := 'hold_gone';
        refused := refused + 1;
        continue;
      end if;

      m_account := line_accounts[first_line : line - 1];
      if kinds[n] = 'post' then
        m_balance := line_amounts[first_line : line - 1];
        m_held := array_fill(0::numeric, array[line - first_line]);
      else
        m_balance := array_fill(0::numeric, array[line - first_line]);
        m_held := line_amounts[first_line : line - 1];
      end if;
      if kinds[n] <> 'hold' and g is not null then
        m_account := m_account || hold_accounts[g];
        m_balance := m_balance || 0::numeric;
        m_held := m_held || -hold_amounts[g];
      end if;
      places := '{}';
      for i in 1 .. coalesce(cardinality(m_account), 0) loop
        place := array_position(locked, m_account[i]);
        if place = any (places) then
          nets[place] := nets[place] + m_balance[i] - m_held[i];
        else
          places := places || place;
          nets[place] := m_balance[i] - m_held[i];
        end if;
      end loop;
      fits := true;
      foreach place in array places loop
        if nets[place] < 0 and free[place] + nets[place] < floors[place] - deficits[place] then
          fits := false;
        end if;
      end loop;
      if not fits then
        verdicts[n] := 'insufficient';
        refused := refused + 1;
        continue;
      end if;

      verdicts[n] := null;
      foreach place in array places loop
        free[place] := free[place] + nets[place];
        if floors[place] is not null then
          deficits[place] := least(deficits[place], greatest(0, floors[place] - free[place]));
        end if;
      end loop;
      d_item := d_item || array_fill(n, array[coalesce(cardinality(m_account), 0)]);
      d_account := d_account || m_account; d_balance := d_balance || m_balance; d_held := d_held || m_held;
      if kinds[n] = 'post' then
        is_booked[key_groups[n]] := true;
      end if;
      if kinds[n] = 'hold' then
        hold_states[g] := 'open';
        hold_accounts[g] := line_accounts[first_line];
        hold_amounts[g] := line_amounts[first_line];
      elsif g is not null then
        hold_states[g] := 'ended';
      end if;
    end loop;
    if line <= cardinality(line_items) then
      raise exception 'lines must come in the order of their items' using errcode = 'P0A08';
    end if;
  end loop;

  if refused < item_count then
    -- 4. Heads first. A key that somebody else booked meanwhile on other accounts changes what was decided: run again.
    with booked as (
      insert into payonce.postings (idem_key, reference, effect_id, reverses, created_at)
      select key, reference, effect_id, reverses, stamp
      from unnest(kinds, keys, refs, effects, reversed, verdicts) with ordinality as u (kind, key, reference, effect_id, reverses, verdict, n)
      where kind = 'post' and verdict is null order by n
      on conflict (idem_key) do nothing
      returning id
    )
    select coalesce(array_agg(id order by id), '{}') into posting_ids from booked;
    row_total := case when has_holds
      then (select count(*) from unnest(kinds, verdicts) as u (kind, verdict) where kind = 'post' and verdict is null)
      else item_count - refused end;
    if cardinality(posting_ids) <> row_total then
      raise exception 'a posting key was booked meanwhile' using errcode = '40001';
    end if;
    if row_total < item_count then
      posting_ids := array(
        select case when is_new then posting_ids[count(*) filter (where is_new) over (order by n)] else 0 end
        from (select n, kind = 'post' and verdict is null as is_new
              from unnest(kinds, verdicts) with ordinality as u (kind, verdict, n)) s
        order by n);
    end if;

    -- 5. One update per account, then the entries in one statement.
    update payonce.accounts c
    set balance = c.balance + t.balance,
        held = c.held + t.held,
        seq = c.seq + t.lines,
        deficit = case when c.deficit = 0 then 0
                  else least(c.deficit, greatest(0, c.floor - (c.balance + t.balance - c.held - t.held))) end
    from (select account, sum(balance) as balance, sum(held) as held, count(*) filter (where balance <> 0) as lines
          from unnest(d_account, d_balance, d_held) as u (account, balance, held) group by account) t
    where c.id = t.account;

    insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after, created_at)
    select posting_ids[n], account, asset, seq, amount, after, stamp
    from unnest(e_item, e_account, e_asset, e_seq, e_amount, e_after) as u (n, account, asset, seq, amount, after);

    if has_holds then
      insert into payonce.holds (key, account_id, amount, created_at)
      select max(key), max(account), max(amount), stamp
      from (
        select n, hold_key as key, null::bigint as account, null::numeric as amount
        from unnest(kinds, hold_keys, verdicts) with ordinality as u (kind, hold_key, verdict, n)
        where kind = 'hold' and verdict is null
        union all
        select line_item, null, account, amount
        from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
        where not is_post[line_item]
      ) s
      group by n having max(key) is not null order by n
      on conflict (key) do nothing;
      get diagnostics row_total = row_count;
      if row_total <> (select count(*) from unnest(kinds, verdicts) as u (kind, verdict) where kind = 'hold' and verdict is null) then
        raise exception 'a hold was opened meanwhile' using errcode = '40001';
      end if;
      update payonce.holds h
      set state = case when u.kind = 'post' then 'posted' else 'voided' end, ended_at = stamp
      from unnest(kinds, hold_keys, verdicts) as u (kind, hold_key, verdict)
      where u.verdict is null and u.kind <> 'hold' and h.key = u.hold_key;
    end if;
  end if;

  if refused = 0 and not has_holds then
    return query select u.n::int, 'posted', u.id, u.effect
    from unnest(posting_ids, effects) with ordinality as u (id, effect, n) order by u.n;
  else
    return query
      select u.n::int,
             coalesce(u.verdict, case u.kind when 'post' then 'posted' when 'hold' then 'held' else 'voided' end),
             p.id, p.effect_id
      from unnest(kinds, keys, verdicts) with ordinality as u (kind, key, verdict, n)
      left join payonce.postings p on u.kind = 'post' and p.idem_key = u.key
      order by u.n;
  end if;
end $function$;

CREATE OR REPLACE FUNCTION payonce.programmes_keep_terms()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ begin
  insert into payonce.programme_terms (programme_id, version, terms) values (new.id, new.terms_version, to_jsonb(new));
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.proposals_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE'
     or (old.id, old.case_id, old.verb, old.detail, old.evidence_version, old.proposed_by, old.proposed_at)
        is distinct from (new.id, new.case_id, new.verb, new.detail, new.evidence_version, new.proposed_by, new.proposed_at)
     or old.state in ('void', 'done')
     or old.state = 'approved' and (new.state not in ('done', 'void') or new.approved_by <> old.approved_by) then
    raise exception 'proposal % is frozen', old.id using errcode = 'P0B19', constraint = 'proposals_frozen';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.realization_days_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION payonce.reference_holders(of_partner text, reference text)
 RETURNS TABLE(subject_type text, subject_id text, line integer)
 LANGUAGE sql
 STABLE
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION payonce.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'append_only: % of % is refused', tg_op, tg_table_name using errcode = 'P0A01', constraint = tg_table_name || '_append_only';
end $function$;

CREATE OR REPLACE FUNCTION payonce.refuse_change_but_mark()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'UPDATE'
     and to_jsonb(old) - tg_argv[0] = to_jsonb(new) - tg_argv[0]
     and to_jsonb(old) -> tg_argv[0] = 'null' and to_jsonb(new) -> tg_argv[0] <> 'null' then
    return new;
  end if;
  raise exception '% is append-only but for %', tg_table_name, tg_argv[0] using errcode = 'P0B24', constraint = 'append_only_but_mark';
end $function$;

CREATE OR REPLACE FUNCTION payonce.release_stands(effect bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select e.state = 'RELEASED' and e.contradicted_at is null and (e.testimonies = 0 or not exists (
    select 1 from payonce.effect_evidence v
    where v.effect_id = e.id and v.id > e.released_by and v.rank in ('word', 'object') and v.struck_at is null
      and not (v.rank = 'word' and v.object_id is not null and exists (
        select 1 from payonce.effect_evidence f
        where f.id = e.released_by and f.kind = 'PROVIDER_FAILED' and f.object_id = v.object_id))))
  from payonce.effects e
  where e.id = effect
$function$;

CREATE OR REPLACE FUNCTION payonce.returns_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION payonce.reward_of(volume numeric, tier_from numeric[], tier_step numeric[])
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(sum(greatest(volume - t.begins, 0) * t.step), 0) from unnest(tier_from, tier_step) as t (begins, step)
$function$;

CREATE OR REPLACE FUNCTION payonce.scan_cursors_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' or new.chain <> old.chain or (new.next_block < old.next_block and old.halted_at is null) then
    raise exception 'the scan of % goes back only while it is halted', old.chain using errcode = 'P0C04', constraint = 'scan_cursors_forward';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.scanned_blocks_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select 1 from payonce.scan_cursors c
    where c.chain = old.chain and c.halted_at is null and old.number between c.next_block - 1000 and c.next_block - 1) then
    raise exception 'block % of % is booked and kept', old.number, old.chain using errcode = 'P0C05', constraint = 'scanned_blocks_kept';
  end if;
  return case tg_op when 'DELETE' then old else new end;
end $function$;

CREATE OR REPLACE FUNCTION payonce.shifted_now(shift text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select 1 from payonce.settings where name = 'test_database' and value = 'true') then
    return clock_timestamp() + make_interval(secs => shift::float8 / 1000);
  end if;
  return clock_timestamp();
end $function$;

CREATE OR REPLACE FUNCTION payonce.signers_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' or (old.rail, old.address) is distinct from (new.rail, new.address) or new.next_nonce < old.next_nonce then
    raise exception 'the nonce of % never goes back', old.address using errcode = 'P0B09', constraint = 'signers_nonce_forward';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.statement_files_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select 1 from payonce.statement_files f
    where f.sha256 = new.sha256 and f.take < new.take
      and not exists (select 1 from payonce.statement_voids v where v.file_sha256 = f.sha256 and v.take = f.take)) then
    raise exception 'file % was taken in before and is not void', new.sha256 using errcode = 'P0B25', constraint = 'statement_files_void_first';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.statement_voids_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (
    select 1 from payonce.proposals p join payonce.cases c on c.id = p.case_id
    where p.id = new.proposal_id and p.verb = 'void_statement' and p.approved_by is not null and p.state in ('approved', 'done')
      and c.kind = 'statement_wrong' and c.subject_key = 'statement:' || new.file_sha256) then
    raise exception 'statement % is voided by two persons or not at all', new.file_sha256 using errcode = 'P0B25', constraint = 'statement_voids_two_persons';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.subjects_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' or (old.type, old.id, old.partner_id, old.natural_key) is distinct from (new.type, new.id, new.partner_id, new.natural_key)
     or new.event_seq < old.event_seq
     or (old.closed_at is not null and (old.closed_at, old.closed_as) is distinct from (new.closed_at, new.closed_as)) then
    raise exception 'subject % is frozen', old.id using errcode = 'P0B14', constraint = 'subjects_frozen';
  end if;
  if old.closed_at is null and new.closed_at is not null then
    if exists (
      select 1 from payonce.effects e where e.subject_type = new.type and e.subject_id = new.id and e.state <> 'RELEASED') then
      raise exception 'subject % has a live effect: it cannot be told its end', old.id using errcode = 'P0B15', constraint = 'subjects_live_effect';
    end if;
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION payonce.take_reference()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION payonce.transfer_batch_fates_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.seq = 2 and not exists (
    select 1 from payonce.transfer_batch_fates f
    where f.batch_id = new.batch_id and f.line = new.line and f.seq = 1 and f.fate = 'unknown') then
    raise exception 'line % of % is decided already', new.line, new.batch_id using errcode = 'P0B24', constraint = 'transfer_batch_fates_once';
  end if;
  return new;
end $function$;

-- grants to others than the owner

grant execute on function payonce.accruals_whole() to public;
grant execute on function payonce.assets_frozen() to public;
grant execute on function payonce.audit(text,text,text,jsonb) to public;
grant execute on function payonce.audit_digest(jsonb) to public;
grant execute on function payonce.audit_guard() to public;
grant execute on function payonce.chain_transfers_guard() to public;
grant execute on function payonce.deposits_frozen() to public;
grant execute on function payonce.deposits_guard() to public;
grant execute on function payonce.effect_variants_guard() to public;
grant execute on function payonce.effects_born() to public;
grant execute on function payonce.effects_guard() to public;
grant execute on function payonce.effects_immutable() to public;
grant execute on function payonce.effects_testimonies() to public;
grant execute on function payonce.ended_unpaid(text,text) to public;
grant execute on function payonce.events_fan_out() to public;
grant execute on function payonce.evidence_counts() to public;
grant execute on function payonce.evidence_guard() to public;
grant execute on function payonce.evidence_rank() to public;
grant execute on function payonce.holds_guard() to public;
grant execute on function payonce.ledger_entries_whole() to public;
grant execute on function payonce.line_may_be_paid(text,integer) to public;
grant execute on function payonce.now() to public;
grant execute on function payonce.p2p_guard() to public;
grant execute on function payonce.p2p_legs_fence() to public;
grant execute on function payonce.payee_key(text,text) to public;
grant execute on function payonce.payouts_guard() to public;
grant execute on function payonce.payouts_move() to public;
grant execute on function payonce.payouts_take() to public;
grant execute on function payonce.post(text[],text[],text[],bigint[],bigint[],text[],integer[],bigint[],numeric[]) to public;
grant execute on function payonce.programmes_keep_terms() to public;
grant execute on function payonce.proposals_guard() to public;
grant execute on function payonce.realization_days_guard() to public;
grant execute on function payonce.reference_holders(text,text) to public;
grant execute on function payonce.refuse_change() to public;
grant execute on function payonce.refuse_change_but_mark() to public;
grant execute on function payonce.release_stands(bigint) to public;
grant execute on function payonce.returns_guard() to public;
grant execute on function payonce.reward_of(numeric,numeric[],numeric[]) to public;
grant execute on function payonce.scan_cursors_guard() to public;
grant execute on function payonce.scanned_blocks_guard() to public;
grant execute on function payonce.shifted_now(text) to public;
grant execute on function payonce.signers_guard() to public;
grant execute on function payonce.statement_files_guard() to public;
grant execute on function payonce.statement_voids_guard() to public;
grant execute on function payonce.subjects_guard() to public;
grant execute on function payonce.take_reference() to public;
grant execute on function payonce.transfer_batch_fates_guard() to public;
