/* The guards of the schema: what the database refuses whoever asks. Fields: guard.ts. */
import type { PlacedGuard } from './guard.ts';

const ENGINE_SCHEMA = 'migrations/0003_engine.sql';
const ENGINE_GUARDS = 'migrations/0004_engine_guards.sql';
const SCHEMA_TEST = 'test/engine/schema-guards.test.ts';

export const SCHEMA: PlacedGuard[] = [
  {
    name: 'one live effect per subject',
    file: ENGINE_SCHEMA,
    find: 'create unique index effects_one_live on',
    replace: 'create index effects_one_live on',
    test: SCHEMA_TEST,
    title: /a subject has at most one effect that is not released/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'one identity per effect',
    file: ENGINE_SCHEMA,
    find: 'create unique index effects_identity on',
    replace: 'create index effects_identity on',
    test: SCHEMA_TEST,
    title: /identity, nonce and lane are each of one effect/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'one exclusion group per nonce (index)',
    file: ENGINE_SCHEMA,
    find: 'create unique index effects_nonce on',
    replace: 'create index effects_nonce on',
    test: SCHEMA_TEST,
    title: /identity, nonce and lane are each of one effect/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'lane',
    file: ENGINE_SCHEMA,
    find: 'create unique index effects_lane on',
    replace: 'create index effects_lane on',
    test: SCHEMA_TEST,
    title: /identity, nonce and lane are each of one effect/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'no effect after failed',
    file: ENGINE_GUARDS,
    find: '  if is_closed then',
    replace: '  if false then',
    test: SCHEMA_TEST,
    title: /a subject that was told its end takes no effect ever again/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'edges of the table only',
    file: ENGINE_GUARDS,
    find: 'if not exists (select 1 from payonce.effect_edges where from_state = old.state and to_state = new.state) then',
    replace: 'if false then',
    test: SCHEMA_TEST,
    title: /no edge but the table’s/,
    expect: /- 'effects_edge'/,
  },
  {
    name: 'lateness and fresh look before a believed release',
    file: ENGINE_GUARDS,
    find: "if new.release_rank = 'believed' and (",
    replace: 'if false and (',
    test: SCHEMA_TEST,
    title: /a believed no waits for lateness and a fresh look after it/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'testimonies counted on the row',
    file: ENGINE_SCHEMA,
    find: 'set testimonies = e.testimonies + t.yes,',
    replace: 'set testimonies = e.testimonies,',
    test: 'test/engine/proof-of-no.test.ts',
    title: /a no about another object than the accepted one is a case/,
    expect: /\+ 'RELEASED'\n- 'SEALED'/,
  },
  {
    name: 'four eyes (constraint)',
    file: ENGINE_SCHEMA,
    find: 'constraint proposals_four_eyes check (approved_by is null or approved_by <> proposed_by)',
    replace: 'constraint proposals_four_eyes check (true)',
    test: SCHEMA_TEST,
    title: /a proposal is not approved by its proposer/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'deposit key with log index and chain (constraint)',
    file: 'migrations/0006_flows.sql',
    find: 'constraint chain_transfers_place unique (chain, tx_hash, position)',
    replace: 'constraint chain_transfers_place unique (tx_hash, position)',
    test: 'test/flows/deposits-place.test.ts',
    title: /a transfer is its chain, its transaction and its place in it/,
    expect: /duplicate key/,
  },
];
