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
CREATE INDEX addresses_partner ON payonce.addresses USING btree (partner_id, id) WHERE (partner_id IS NOT NULL);

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

create table payonce.api_keys (
  id text not null,
  partner_id text not null,
  key_hash text not null,
  hint text not null,
  created_at timestamp with time zone not null default payonce.now(),
  revoked_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_key_hash_key UNIQUE (key_hash),
  constraint api_keys_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES payonce.partners(id)
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
  constraint assets_code_key UNIQUE (code),
  constraint assets_code_check CHECK ((code ~ '^[A-Za-z0-9._-]{1,40}$'::text)),
  constraint assets_decimals_check CHECK (((decimals >= 0) AND (decimals <= 36)))
);
CREATE TRIGGER assets_frozen BEFORE UPDATE OF id, chain, contract, decimals ON payonce.assets FOR EACH ROW WHEN (((((old.id IS DISTINCT FROM new.id) OR (old.chain IS DISTINCT FROM new.chain)) OR (old.contract IS DISTINCT FROM new.contract)) OR (old.decimals IS DISTINCT FROM new.decimals))) EXECUTE FUNCTION payonce.assets_frozen();
CREATE TRIGGER assets_kept BEFORE DELETE ON payonce.assets FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();

create table payonce.audit_head (
  one boolean not null default true,
  seq bigint not null default 0,
  hash text not null default repeat('0'::text, 64),
  constraint audit_head_pkey PRIMARY KEY (one),
  constraint audit_head_one_check CHECK (one)
);

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
  constraint chain_transfers_pkey PRIMARY KEY (id),
  constraint chain_transfers_place UNIQUE (chain, tx_hash, "position"),
  constraint chain_transfers_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES payonce.assets(id),
  constraint chain_transfers_amount_check CHECK ((amount > (0)::numeric)),
  constraint chain_transfers_position_check CHECK (("position" >= '-1'::integer))
);
CREATE INDEX chain_transfers_block ON payonce.chain_transfers USING btree (chain, block_number);
CREATE INDEX chain_transfers_open ON payonce.chain_transfers USING btree (chain, block_number) WHERE ((final_at IS NULL) AND (gone_at IS NULL));
CREATE TRIGGER chain_transfers_guard BEFORE DELETE OR UPDATE ON payonce.chain_transfers FOR EACH ROW EXECUTE FUNCTION payonce.chain_transfers_guard();

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

create table payonce.deposit_edges (
  from_state text not null,
  to_state text not null,
  constraint deposit_edges_pkey PRIMARY KEY (from_state, to_state)
);

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
CREATE TRIGGER deposits_guard BEFORE UPDATE OF state ON payonce.deposits FOR EACH ROW EXECUTE FUNCTION payonce.deposits_guard();
CREATE TRIGGER deposits_kept BEFORE DELETE ON payonce.deposits FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();

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
  constraint effect_answers_pkey PRIMARY KEY (id),
  constraint effect_answers_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint effect_answers_operation_check CHECK ((operation = ANY (ARRAY['send'::text, 'look'::text])))
);
CREATE INDEX effect_answers_effect ON payonce.effect_answers USING btree (effect_id, id);

create table payonce.effect_edges (
  from_state text not null,
  to_state text not null,
  constraint effect_edges_pkey PRIMARY KEY (from_state, to_state)
);

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
  constraint effect_evidence_struck_by_fkey FOREIGN KEY (struck_by) REFERENCES payonce.proposals(id)
);
CREATE INDEX effect_evidence_effect ON payonce.effect_evidence USING btree (effect_id, id);
CREATE TRIGGER evidence_counts AFTER INSERT ON payonce.effect_evidence REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.evidence_counts();
CREATE TRIGGER evidence_guard BEFORE DELETE OR UPDATE ON payonce.effect_evidence FOR EACH ROW EXECUTE FUNCTION payonce.evidence_guard();
CREATE TRIGGER evidence_rank BEFORE INSERT ON payonce.effect_evidence FOR EACH ROW EXECUTE FUNCTION payonce.evidence_rank();

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
CREATE UNIQUE INDEX effects_lane ON payonce.effects USING btree (lane) WHERE ((lane IS NOT NULL) AND (state = ANY (ARRAY['PENDING'::text, 'SEALED'::text])));
CREATE UNIQUE INDEX effects_nonce ON payonce.effects USING btree (rail, signer, nonce) WHERE (nonce IS NOT NULL);
CREATE UNIQUE INDEX effects_one_live ON payonce.effects USING btree (subject_type, subject_id) WHERE (state <> 'RELEASED'::text);
CREATE INDEX effects_partner ON payonce.effects USING btree (partner_id, id);
CREATE INDEX effects_pending ON payonce.effects USING btree (rail, signer, next_at, id) WHERE (state = 'PENDING'::text);
CREATE INDEX effects_sealed ON payonce.effects USING btree (rail, next_at, id) WHERE (state = 'SEALED'::text);
CREATE INDEX effects_unmined ON payonce.effects USING btree (rail, signer) WHERE ((state = 'SEALED'::text) AND (included_at IS NULL));
CREATE TRIGGER effects_born AFTER INSERT ON payonce.effects REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION payonce.effects_born();
CREATE TRIGGER effects_frozen BEFORE UPDATE ON payonce.effects FOR EACH ROW WHEN (((((((((((((((old.subject_type IS DISTINCT FROM new.subject_type) OR (old.subject_id IS DISTINCT FROM new.subject_id)) OR (old.seq IS DISTINCT FROM new.seq)) OR (old.partner_id IS DISTINCT FROM new.partner_id)) OR (old.rail IS DISTINCT FROM new.rail)) OR (old.asset_id IS DISTINCT FROM new.asset_id)) OR (old.amount IS DISTINCT FROM new.amount)) OR (old.destination IS DISTINCT FROM new.destination)) OR (old.wallet IS DISTINCT FROM new.wallet)) OR (old.signer IS DISTINCT FROM new.signer)) OR (old.call IS DISTINCT FROM new.call)) OR (old.hold_key IS DISTINCT FROM new.hold_key)) OR (old.created_at IS DISTINCT FROM new.created_at)) OR ((old.sealed_at IS NOT NULL) AND (((((((old.identity IS DISTINCT FROM new.identity) OR (old.payload IS DISTINCT FROM new.payload)) OR (old.expect IS DISTINCT FROM new.expect)) OR (old.plan IS DISTINCT FROM new.plan)) OR (old.nonce IS DISTINCT FROM new.nonce)) OR (old.sealed_at IS DISTINCT FROM new.sealed_at)) OR (old.first_sent_at IS DISTINCT FROM new.first_sent_at))))) EXECUTE FUNCTION payonce.effects_frozen();
CREATE TRIGGER effects_guard BEFORE UPDATE OF state ON payonce.effects FOR EACH ROW EXECUTE FUNCTION payonce.effects_guard();
CREATE TRIGGER effects_kept BEFORE DELETE ON payonce.effects FOR EACH ROW EXECUTE FUNCTION payonce.refuse_change();

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

create table payonce.evidence_kinds (
  kind text not null,
  says text not null,
  rank text not null,
  chain_final boolean not null default false,
  constraint evidence_kinds_pkey PRIMARY KEY (kind),
  constraint evidence_kinds_rank_check CHECK ((rank = ANY (ARRAY['none'::text, 'display'::text, 'word'::text, 'object'::text, 'believed'::text, 'dead'::text]))),
  constraint evidence_kinds_says_check CHECK ((says = ANY (ARRAY['nothing'::text, 'yes'::text, 'no'::text])))
);

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

create table payonce.partners (
  id text not null,
  name text not null,
  time_zone text not null default 'UTC'::text,
  created_at timestamp with time zone not null default payonce.now(),
  constraint partners_pkey PRIMARY KEY (id),
  constraint partners_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200)))
);

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
  constraint proposals_pkey PRIMARY KEY (id),
  constraint proposals_approved_by_fkey FOREIGN KEY (approved_by) REFERENCES payonce.operators(id),
  constraint proposals_case_id_fkey FOREIGN KEY (case_id) REFERENCES payonce.cases(id),
  constraint proposals_proposed_by_fkey FOREIGN KEY (proposed_by) REFERENCES payonce.operators(id),
  constraint proposals_approved CHECK (((state <> ALL (ARRAY['approved'::text, 'done'::text])) OR (approved_by IS NOT NULL))),
  constraint proposals_four_eyes CHECK (((approved_by IS NULL) OR (approved_by <> proposed_by))),
  constraint proposals_state_check CHECK ((state = ANY (ARRAY['open'::text, 'approved'::text, 'void'::text, 'done'::text])))
);
CREATE UNIQUE INDEX proposals_open ON payonce.proposals USING btree (case_id, verb) WHERE (state = 'open'::text);

create table payonce.rails (
  name text not null,
  seals_stopped_at timestamp with time zone,
  seals_stopped_reason text,
  doubt_max_units jsonb not null default '{}'::jsonb,
  constraint rails_pkey PRIMARY KEY (name),
  constraint rails_check CHECK (((seals_stopped_at IS NULL) = (seals_stopped_reason IS NULL)))
);

create table payonce.returns (
  id text not null,
  effect_id bigint not null,
  provider_return_id text not null,
  amount numeric(78,0) not null,
  fee numeric(78,0) not null default 0,
  at timestamp with time zone not null default payonce.now(),
  constraint returns_pkey PRIMARY KEY (id),
  constraint returns_once UNIQUE (effect_id, provider_return_id),
  constraint returns_effect_id_fkey FOREIGN KEY (effect_id) REFERENCES payonce.effects(id),
  constraint returns_amount_check CHECK ((amount > (0)::numeric)),
  constraint returns_fee_check CHECK ((fee >= (0)::numeric))
);

create table payonce.scan_cursors (
  chain text not null,
  next_block bigint not null,
  halted_at timestamp with time zone,
  halted_reason text,
  constraint scan_cursors_pkey PRIMARY KEY (chain),
  constraint scan_cursors_check CHECK (((halted_at IS NULL) = (halted_reason IS NULL)))
);

create table payonce.scanned_blocks (
  chain text not null,
  number bigint not null,
  hash text not null,
  parent_hash text not null,
  scanned_at timestamp with time zone not null default payonce.now(),
  constraint scanned_blocks_pkey PRIMARY KEY (chain, number)
);

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
  constraint signers_pkey PRIMARY KEY (rail, address),
  constraint signers_rail_fkey FOREIGN KEY (rail) REFERENCES payonce.rails(name),
  constraint signers_next_nonce_check CHECK ((next_nonce >= 0))
);
CREATE TRIGGER signers_guard BEFORE UPDATE ON payonce.signers FOR EACH ROW EXECUTE FUNCTION payonce.signers_guard();

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

-- views

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
    if new.to_address <> sealed.signer or new.value <> 0 or new.data not in ('0x', '') then
      raise exception 'a cancel is a self-transfer of nothing' using errcode = 'P0B17', constraint = 'effect_variants_cancel';
    end if;
  else
    if new.to_address <> sealed.body ->> 'to' or new.value <> (sealed.body ->> 'value')::numeric or new.data <> sealed.body ->> 'data' then
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
AS $function$
begin
  if exists (select 1 from added where state <> 'PENDING' or sealed_at is not null or testimonies <> 0) then
    raise exception 'an effect begins PENDING' using errcode = 'P0B12', constraint = 'effects_born_pending';
  end if;
  perform 1 from payonce.subjects s
  where (s.type, s.id) in (select subject_type, subject_id from added) order by s.type, s.id for share;
  if exists (select 1 from payonce.subjects s join added a on s.type = a.subject_type and s.id = a.subject_id where s.closed_at is not null) then
    raise exception 'this subject was told its end: no effect ever again' using errcode = 'P0B13', constraint = 'effects_subject_closed';
  end if;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  select id, 1, null, state, 'intended', 0 from added;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_frozen()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if (old.subject_type, old.subject_id, old.seq, old.partner_id, old.rail, old.asset_id, old.amount, old.destination, old.wallet, old.signer, old.call, old.hold_key, old.created_at)
     is distinct from
     (new.subject_type, new.subject_id, new.seq, new.partner_id, new.rail, new.asset_id, new.amount, new.destination, new.wallet, new.signer, new.call, new.hold_key, new.created_at) then
    raise exception 'effect %: what was taken in is frozen', old.id using errcode = 'P0B10', constraint = 'effects_intake_frozen';
  end if;
  raise exception 'effect %: the seal is immutable', old.id using errcode = 'P0B11', constraint = 'effects_seal_immutable';
end $function$;

CREATE OR REPLACE FUNCTION payonce.effects_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  proof record;
begin
  if not exists (select 1 from payonce.effect_edges where from_state = old.state and to_state = new.state) then
    raise exception 'effect %: no edge % -> %', old.id, old.state, new.state using errcode = 'P0B01', constraint = 'effects_edge';
  end if;
  if old.state = 'PENDING' and new.state = 'SEALED' then
    if new.nonce is not null and not exists (
      select 1 from payonce.signers s where s.rail = new.rail and s.address = new.signer and s.next_nonce > new.nonce) then
      raise exception 'effect %: nonce % was not given out', old.id, new.nonce using errcode = 'P0B02', constraint = 'effects_nonce_allotted';
    end if;
  elsif old.state = 'RELEASED' and new.state = 'SEALED' then
    if new.testimonies = 0 or not new.no_send or new.lane is not null or new.reopened_at is null then
      raise exception 'effect %: re-opened without testimony, or to be sent again', old.id using errcode = 'P0B03', constraint = 'effects_reopen';
    end if;
  elsif new.state = 'SETTLED' then
    if not exists (
      select 1 from payonce.effect_evidence e
      where e.id = new.settled_by and e.effect_id = new.id and e.rank = 'object' and e.struck_at is null) then
      raise exception 'effect %: settled without object testimony', old.id using errcode = 'P0B04', constraint = 'effects_settled_testimony';
    end if;
  elsif new.state = 'RELEASED' then
    select e.kind, e.rank, e.object_id, k.says, k.chain_final into proof
    from payonce.effect_evidence e join payonce.evidence_kinds k on k.kind = e.kind
    where e.id = new.released_by and e.effect_id = new.id and e.struck_at is null;
    if not found or proof.says <> 'no' or proof.rank <> new.release_rank then
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
  end if;
  new.transitions := old.transitions + 1;
  insert into payonce.effect_history (effect_id, seq, from_state, to_state, reason, lease_token)
  values (new.id, new.transitions, old.state, new.state,
          coalesce((select e.kind from payonce.effect_evidence e where e.id = case new.state when 'SETTLED' then new.settled_by when 'RELEASED' then new.released_by end),
                   case when old.state = 'RELEASED' then 're-opened' else 'sealed' end), new.lease_token);
  return new;
end $function$;

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
          join (select id from payonce.effects where id in (select effect_id from added) order by id for no key update) l on l.id = a.effect_id) x
    group by effect_id
  ) t
  where e.id = t.effect_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.evidence_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE'
     or (old.id, old.effect_id, old.kind, old.rank, old.source, old.operator, old.object_id, old.detail, old.send_number, old.lease_token)
        is distinct from
        (new.id, new.effect_id, new.kind, new.rank, new.source, new.operator, new.object_id, new.detail, new.send_number, new.lease_token)
     or old.struck_at is not null then
    raise exception 'evidence is never changed' using errcode = 'P0A01', constraint = 'effect_evidence_append_only';
  end if;
  if new.struck_at is not null then
    if old.rank <> 'word' or not exists (
      select 1 from payonce.proposals p where p.id = new.struck_by and p.verb = 'strike' and p.approved_by is not null) then
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
begin
  -- PROVIDER_FAILED is dead only where the profile cites that the key stays bound; REJECTED of a stored kind is its own kind.
  if new.rank <> (select rank from payonce.evidence_kinds where kind = new.kind)
     and not (new.kind = 'PROVIDER_FAILED' and new.rank = 'believed') then
    raise exception 'evidence % has another rank', new.kind using errcode = 'P0B07', constraint = 'effect_evidence_rank';
  end if;
  if new.kind in ('OPERATOR_SAW', 'OPERATOR_ABSENT') and not exists (
    select 1 from payonce.proposals p where p.id = new.proposal_id and p.approved_by is not null and p.state in ('approved', 'done')) then
    raise exception 'evidence % needs two persons', new.kind using errcode = 'P0B08', constraint = 'effect_evidence_two_persons';
  end if;
  return new;
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

  select l.account_id into bad
  from (
    select account_id, asset_id, seq, amount, balance_after,
           lag(asset_id) over chain as asset_before, lag(seq) over chain as seq_before,
           lag(balance_after) over chain as balance_before, lead(seq) over chain as seq_next
    from added window chain as (partition by account_id order by seq)
  ) l
  where case
    when l.seq_before is not null then
      l.seq <> l.seq_before + 1 or l.asset_id <> l.asset_before or l.balance_after <> l.balance_before + l.amount
    when l.seq = 1 then l.balance_after <> l.amount
    else l.balance_after - l.amount is distinct from (
      select e.balance_after from payonce.ledger_entries e where e.account_id = l.account_id and e.seq = l.seq - 1)
  end
  or l.seq_next is null and l.balance_after is distinct from (
    select c.balance from payonce.accounts c where c.id = l.account_id and c.asset_id = l.asset_id and c.seq = l.seq)
  limit 1;
  if found then
    raise exception 'entries of account % do not continue its chain', bad.account_id
      using errcode = 'P0A05', constraint = 'ledger_entries_chain';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION payonce.now()
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
declare
  shift text := current_setting('payonce.clock_shift_ms', true);
begin
  if shift is null or shift = '' then
    return clock_timestamp();
  end if;
  if exists (select 1 from payonce.settings where name = 'test_database' and value = 'true') then
    return clock_timestamp() + make_interval(secs => shift::float8 / 1000);
  end if;
  return clock_timestamp();
end $function$;

CREATE OR REPLACE FUNCTION payonce.post(kinds text[], keys text[], refs text[], effects bigint[], reversed bigint[], hold_keys text[], line_items integer[], line_accounts bigint[], line_amounts numeric[])
 RETURNS TABLE(item integer, verdict text, posting_id bigint, posting_effect bigint)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  item_count constant int := coalesce(cardinality(kinds), 0);
  has_holds constant boolean := exists (
    select 1 from unnest(kinds, hold_keys) as k (kind, hold_key) where kind <> 'post' or hold_key is not null);
  verdicts text[] := array_fill(null::text, array[item_count]);
  refused int := 0;
  touched text[];
  is_post boolean[];
  account_ids bigint[];
  locked bigint[]; assets text[]; balances numeric[]; helds numeric[]; floors numeric[]; deficits numeric[]; seqs bigint[];
  d_item int[]; d_account bigint[]; d_balance numeric[]; d_held numeric[];
  e_item int[]; e_account bigint[]; e_asset text[]; e_seq bigint[]; e_amount numeric[]; e_after numeric[];
  do_all_fit boolean;
  is_decided boolean := false;
  posting_ids bigint[];
  posting_count int;
  row_total int;
  stamp timestamptz;
  free numeric[];
  fits boolean;
  place int;
  rec record;
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

  -- 2. What exists already, or stands twice in this very batch, is a quiet no-op (W5). The rest becomes deltas.
  if has_holds then
    for rec in
      select k.n, case
               when k.kind = 'void' then case when h.state = 'open' and k.hold_nth = 1 then null else 'hold_gone' end
               when k.kind = 'hold' then case when h.id is not null or k.nth > 1 then 'exists' end
               when p.id is not null or k.nth > 1 then 'exists'
               when k.hold_key is not null and (h.id is null or h.state <> 'open' or k.hold_nth > 1) then 'hold_gone'
             end as outcome
      from (select n::int, kind, key, hold_key,
                   row_number() over (partition by kind, case when kind = 'post' then key else hold_key end order by n) as nth,
                   row_number() over (partition by kind = 'hold', hold_key order by n) as hold_nth
            from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
      left join payonce.holds h on h.key = k.hold_key
      left join payonce.postings p on p.idem_key = k.key and k.kind = 'post'
    loop
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
      select k.n
      from (select n::int, key, row_number() over (partition by key collate "C" order by n) as nth
            from unnest(keys) with ordinality as u (key, n)) k
      left join payonce.postings p on p.idem_key = k.key
      where k.nth > 1 or p.id is not null
    loop
      verdicts[rec.n] := 'exists';
      refused := refused + 1;
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

  -- 3. Continue each account's chain through the deltas, from the row that was locked. Does everything fit, one after
  -- another? If not, the items are tried in order, each alone, and the chains are made again from those that fit.
  while refused < item_count loop
    select array_agg(c.n) filter (where c.is_entry), array_agg(c.account) filter (where c.is_entry), array_agg(c.asset) filter (where c.is_entry),
           array_agg(c.seq) filter (where c.is_entry), array_agg(c.delta) filter (where c.is_entry), array_agg(c.after) filter (where c.is_entry),
           bool_and(c.n = 0 or c.floor is null or c.deficit = 0 and c.after - c.held >= c.floor)
      into e_item, e_account, e_asset, e_seq, e_amount, e_after, do_all_fit
    from (
      select n, account, delta, n > 0 and delta <> 0 as is_entry,
             sum(delta) over chain as after, sum(held) over chain as held,
             (sum(lines) over (chain rows unbounded preceding))::bigint as seq,
             first_value(asset) over chain as asset, first_value(floor) over chain as floor, first_value(deficit) over chain as deficit
      from (
        select 0 as n, account, asset, delta, held, floor, deficit, lines
        from unnest(locked, assets, balances, helds, floors, deficits, seqs) as h (account, asset, delta, held, floor, deficit, lines)
        union all
        select n, account, null, delta, held, null, null, (delta <> 0)::int
        from unnest(d_item, d_account, d_balance, d_held) as d (n, account, delta, held)
      ) s
      window chain as (partition by account order by n)
    ) c;
    exit when do_all_fit or is_decided;

    is_decided := true;
    free := array(select balance - held from unnest(balances, helds) with ordinality as f (balance, held, n) order by n);
    for rec in
      select d.n, array_agg(d.place) as places, array_agg(d.net) as nets
      from (select u.n, array_position(locked, u.account) as place, sum(u.balance - u.held) as net
            from unnest(d_item, d_account, d_balance, d_held) as u (n, account, balance, held) group by u.n, u.account) d
      group by d.n order by d.n
    loop
      fits := true;
      for i in 1 .. cardinality(rec.places) loop
        place := rec.places[i];
        if rec.nets[i] < 0 and free[place] + rec.nets[i] < floors[place] - deficits[place] then
          fits := false;
        end if;
      end loop;
      if fits then
        for i in 1 .. cardinality(rec.places) loop
          place := rec.places[i];
          free[place] := free[place] + rec.nets[i];
          if floors[place] is not null then
            deficits[place] := least(deficits[place], greatest(0, floors[place] - free[place]));
          end if;
        end loop;
      else
        verdicts[rec.n] := 'insufficient';
        refused := refused + 1;
      end if;
    end loop;
    select array_agg(u.n order by u.n), array_agg(u.account order by u.n), array_agg(u.balance order by u.n), array_agg(u.held order by u.n)
      into d_item, d_account, d_balance, d_held
    from unnest(d_item, d_account, d_balance, d_held) as u (n, account, balance, held) where verdicts[u.n] is null;
  end loop;

  if refused < item_count then
    -- 4. Heads first. A key that somebody else booked meanwhile on other accounts changes what was decided: run again.
    posting_count := item_count - refused;
    if has_holds then
      posting_count := (select count(*) from unnest(kinds, verdicts) as u (kind, verdict) where kind = 'post' and verdict is null);
    end if;
    with booked as (
      insert into payonce.postings (idem_key, reference, effect_id, reverses, created_at)
      select key, reference, effect_id, reverses, stamp
      from unnest(kinds, keys, refs, effects, reversed, verdicts) with ordinality as u (kind, key, reference, effect_id, reverses, verdict, n)
      where kind = 'post' and verdict is null order by n
      on conflict (idem_key) do nothing
      returning id
    )
    select coalesce(array_agg(id order by id), '{}') into posting_ids from booked;
    if cardinality(posting_ids) <> posting_count then
      raise exception 'a posting key was booked meanwhile' using errcode = '40001';
    end if;
    if posting_count < item_count then
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

CREATE OR REPLACE FUNCTION payonce.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'append_only: % of % is refused', tg_op, tg_table_name using errcode = 'P0A01', constraint = tg_table_name || '_append_only';
end $function$;

CREATE OR REPLACE FUNCTION payonce.signers_guard()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.next_nonce < old.next_nonce then
    raise exception 'the nonce of % never goes back', old.address using errcode = 'P0B09', constraint = 'signers_nonce_forward';
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
  if old.closed_at is null and new.closed_at is not null and exists (
    select 1 from payonce.effects e where e.subject_type = new.type and e.subject_id = new.id and e.state <> 'RELEASED') then
    raise exception 'subject % has a live effect: it cannot be told its end', old.id using errcode = 'P0B15', constraint = 'subjects_live_effect';
  end if;
  return new;
end $function$;

-- grants to others than the owner

grant execute on function payonce.assets_frozen() to public;
grant execute on function payonce.audit(text,text,text,jsonb) to public;
grant execute on function payonce.audit_digest(jsonb) to public;
grant execute on function payonce.audit_guard() to public;
grant execute on function payonce.chain_transfers_guard() to public;
grant execute on function payonce.deposits_guard() to public;
grant execute on function payonce.effect_variants_guard() to public;
grant execute on function payonce.effects_born() to public;
grant execute on function payonce.effects_frozen() to public;
grant execute on function payonce.effects_guard() to public;
grant execute on function payonce.events_fan_out() to public;
grant execute on function payonce.evidence_counts() to public;
grant execute on function payonce.evidence_guard() to public;
grant execute on function payonce.evidence_rank() to public;
grant execute on function payonce.holds_guard() to public;
grant execute on function payonce.ledger_entries_whole() to public;
grant execute on function payonce.now() to public;
grant execute on function payonce.post(text[],text[],text[],bigint[],bigint[],text[],integer[],bigint[],numeric[]) to public;
grant execute on function payonce.refuse_change() to public;
grant execute on function payonce.signers_guard() to public;
grant execute on function payonce.subjects_guard() to public;
