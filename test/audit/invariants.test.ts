/*
 * Goal: the judge is not blind. Method: good books with an effect in every state; then each is broken in one place, behind
 * the guards' back (replica role, dropped constraints), and the invariant that was broken must be named; then the rail's
 * own books are made to disagree. Every breach is rolled back.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import pg from 'pg';
import { type Breach, INVARIANTS, type InvariantName } from '../../src/audit/invariants.ts';
import { custodyKey, type Movement, type OracleOptions, type RailBooks } from '../../src/audit/rail-books.ts';
import type { Query } from '../../src/db/pool.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { postingKey } from '../../src/kernel/ids.ts';
import { assertBooksClean, findBreaches } from '../support/books.ts';
import { makeWorld, type World } from '../support/world.ts';

const AMOUNT = 1_000_000n;
const LOOKS = { goes: 'final_success', reverts: 'reverted_final', stays: 'not_found' } as const;

let world: World;
let client: pg.Client;
let query: Query;

before(async () => {
  const rail = makeNoopRail('noop', {
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: (sealed) => Promise.resolve([{ kind: LOOKS[sealed.destination as 'goes'], objectId: `0x${sealed.seq}` }]),
  });
  world = await makeWorld({ label: 'invariants', rails: () => [rail], endedByHook: true });
  const pay = (destination: string): ReturnType<typeof createWithdrawals> =>
    createWithdrawals(world, [world.request({ destination, amount: AMOUNT })]);
  for (const destination of ['goes', 'reverts', 'stays']) await pay(destination);
  for (let pass = 0; pass < 5; pass += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, rail);
  }
  await pay('stays');
  await world.pool.query(
    "select payonce.audit('ann', 'case.noted', 'case', '{}'), payonce.audit('bob', 'case.noted', 'case', '{}')",
  );
  client = new pg.Client({
    connectionString: world.url,
    types: {
      getTypeParser: (oid: number) => (oid === 20 || oid === 1700 ? BigInt : pg.types.getTypeParser(oid)),
    },
  });
  await client.connect();
  query = {
    async query(sql, values) {
      const { rows, rowCount } = await client.query(sql, values === undefined ? [] : [...values]);
      return { rows, rowCount: rowCount ?? 0 };
    },
  };
});
beforeEach(() => client.query('begin; set local session_replication_role = replica'));
afterEach(() => client.query('rollback'));
after(async () => {
  await client.end();
  await world.end();
});

test('good books are clean, with an effect in every state', async () => {
  const { rows } = await client.query<{ state: string }>('select distinct state from payonce.effects order by 1');
  assert.deepEqual(
    rows.map((row) => row.state),
    ['PENDING', 'RELEASED', 'SEALED', 'SETTLED'],
  );
  await assertBooksClean(query);
});

test('every invariant has its view and its breach (inv L1-L8, E3, E5, E6, E8-E11, E13, E15-E17, I1, M1-M4, N1, N2, V2)', async () => {
  const { rows } = await client.query<{ name: string }>(
    "select upper(substr(relname, 8)) as name from pg_class where relnamespace = 'payonce'::regnamespace and relkind = 'v' and relname like 'broken\\_%'",
  );
  assert.deepEqual(rows.map((row) => row.name).sort(), Object.keys(INVARIANTS).sort());
  assert.deepEqual(Object.keys(BREACHES), Object.keys(INVARIANTS));
});

test('the posting keys that L5 knows are those of the one table of keys (inv L5)', async () => {
  // Each later step put a view around the one before: what it knows stands in it, or in the table of own moves.
  const { rows } = await client.query<{ sql: string }>(
    `select string_agg(pg_get_viewdef(c.oid), ' ' order by c.relname) as sql
     from pg_class c
     where c.relnamespace = 'payonce'::regnamespace and c.relkind = 'v' and (c.relname like 'l5\\_%' or c.relname = 'broken_l5')`,
  );
  const sql = rows[0]?.sql ?? '';
  const [, list = ''] = /<> ALL \(ARRAY\[(['A-Z_, :a-z]*)\]\)/.exec(sql) ?? [];
  const [, ofBatches = ''] = /!~ '\^posting TRB_\(([A-Z|]+)\)/.exec(sql) ?? [];
  const own = await client.query<{ key_kind: string }>('select key_kind from payonce.own_move_kinds');
  const known = [
    ...[...list.matchAll(/'([A-Z_]+)'/g)].map(([, kind]) => kind),
    ...ofBatches.split('|').map((kind) => `TRB_${kind}`),
    ...own.rows.map((row) => row.key_kind),
    ...[...sql.matchAll(/'posting ([A-Z0-9_]+):_%'/g)].map(([, kind]) => kind),
  ];
  const made = Object.values(postingKey).map((make) => {
    const key = (make as (...parts: unknown[]) => string)('1', '2');
    return key.slice(0, key.indexOf(':'));
  });
  assert.deepEqual(new Set(known), new Set(made));
});

const EVIDENCE =
  'insert into payonce.effect_evidence (id, effect_id, kind, rank, source, operator, detail, send_number, lease_token, at) overriding system value select';
const TRANSFER = `insert into payonce.chain_transfers (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason, final_at)
  values ('noop', '0xt', 0, 1, '0xb', 'noop/token', 'a', 'b', 5,`;

/** A buyer's order with a leg of a provider; nothing of it is in the ledger. */
const ORDERS = (status: string, remaining: number): string =>
  `insert into payonce.p2p_deposit_orders (id, partner_id, group_name, asset_id, fiat, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals,
     pay_within_ms, expires_at, status, remaining_amount, claimed_at, closed_at, close_reason)
   select 'pdo_1', 'par_1', 'g', 'noop/token', 'KRW', 'u', 10, 1, true, 1, 0, 0, 1, payonce.now() + interval '1 h', '${status}', ${remaining},
     case when '${status}' = 'MATCHING' then now() end,
     case when '${status}' in ('COMPLETED', 'EXPIRED') then '2020-01-01'::timestamptz end, case when '${status}' in ('COMPLETED', 'EXPIRED') then 'x' end;`;
const LEG = (state: string): string =>
  `insert into payonce.p2p_legs (id, deposit_order_id, ordinal, slot, kind, rail, amount, price, fiat_amount, state, claim_token, ended_at)
   select 'leg_1', 'pdo_1', 1, 1, 'LP', 'noop', 6, 1, 1, '${state}', 1, case when '${state}' <> 'OPEN' then now() end;`;

/** What is done to the books, and what must be said of it. */
const POOL = (volume: number): string =>
  `insert into payonce.pools (programme_id, creator_id, reward_divisor, volume) values ('prg', 'crt', 1, ${volume});`;

const BREACHES: Record<InvariantName, [sql: string, said: RegExp][]> = {
  L1: [
    [
      'update payonce.ledger_entries set amount = amount + 1 where amount > 0 and posting_id = (select min(id) from payonce.postings)',
      /sums to 1 in/,
    ],
    ["insert into payonce.postings (idem_key, reference) values ('MIGRATED:empty', '')", /has no entries/],
    ['delete from payonce.postings where id = (select min(id) from payonce.postings)', /does not exist/],
  ],
  L2: [
    ['update payonce.ledger_entries set balance_after = balance_after + 1 where seq = 1', /after 0 at seq 0/],
    ['update payonce.ledger_entries set seq = seq + 1 where seq = 2', /at seq 1 comes/],
  ],
  L3: [["update payonce.accounts set balance = balance - 1 where code like 'partner:%'", /balance \d+, entries \d+/]],
  L4: [
    [
      "alter table payonce.accounts drop constraint accounts_floor; update payonce.accounts set floor = 10 ^ 15 where code like 'partner:%'",
      /floor 1000000000000000/,
    ],
    ["update payonce.accounts set deficit = 1 where code like 'partner:%'", /deficit 1$/],
  ],
  L5: [
    [
      "update payonce.postings set idem_key = 'WDR_CONFIRM:nobody' where idem_key like 'WDR_CONFIRM:%'",
      /names no withdrawal/,
    ],
    ['update payonce.withdrawals set amount = amount + 1', /not -1000001/],
    [
      "update payonce.postings set effect_id = null where idem_key like 'WDR_CONFIRM:%'",
      /no effect of this withdrawal/,
    ],
    ["update payonce.postings set idem_key = 'WDR_CONFIRMED:1' where idem_key like 'WDR_CONFIRM:%'", /no known kind/],
    ["insert into payonce.postings (idem_key, reference) values ('MIGRATED', '')", /no known kind/],
  ],
  L6: [
    ["update payonce.holds set state = 'voided', ended_at = now() where state = 'open'", /but its hold .* is voided/],
    ["update payonce.holds set state = 'open', ended_at = null where state = 'posted'", /no effect needs it/],
    ["update payonce.accounts set held = held + 1 where code like 'partner:%'", /open holds/],
    ["update payonce.holds set amount = amount - 1 where state = 'open'", /of 999999/],
    ['update payonce.effects set hold_key = null', /holds nothing/],
  ],
  L7: [
    ['alter table payonce.ledger_entries disable trigger ledger_entries_append_only', /switched off/],
    ['drop trigger ledger_entries_whole on payonce.ledger_entries', /has lost its trigger ledger_entries_whole/],
  ],
  L8: [["insert into payonce.postings (idem_key, reference) values ('UNWOUND:1', '')", /names no original/]],
  E3: [
    ["delete from payonce.postings where idem_key like 'WDR_CONFIRM:%'", /SETTLED with 0 confirmations/],
    ["update payonce.holds set state = 'voided' where state = 'posted'", /but its hold .* is voided/],
  ],
  E5: [
    ['delete from payonce.effect_history where seq = 2', /SEALED → (SETTLED|RELEASED) after PENDING/],
    [
      "update payonce.effect_history set to_state = 'RELEASED' where to_state = 'SETTLED'",
      /is SETTLED after 3 transitions; its history says RELEASED/,
    ],
  ],
  E6: [
    [
      "update payonce.effects set sealed_at = now() + interval '1 hour' where sealed_at is not null",
      /answered before the seal/,
    ],
    ["update payonce.effect_answers set variant_hash = '0x0'", /not stored before/],
    ['update payonce.effect_answers set send_number = 9', /is of send 9/],
  ],
  E8: [
    ["update payonce.effects set seq = seq + 1 where state = 'PENDING'", /there is none before it/],
    ["update payonce.effects set destination = 'thief' where seq = 2", /differs from effect/],
    ["delete from payonce.effect_history where to_state = 'RELEASED'", /never released/],
  ],
  E9: [
    ["update payonce.effects set nonce = 3 where state = 'SEALED'", /though the next is 0/],
    [
      "update payonce.signers set next_nonce = 9; update payonce.effects set nonce = 3 where state = 'SEALED'",
      /no case says why/,
    ],
  ],
  E10: [
    ["update payonce.effects set released_by = 0 where state = 'RELEASED'", /released by nothing/],
    [
      "update payonce.effect_evidence set kind = 'NOT_FOUND', rank = 'none' where rank = 'dead'",
      /released by NOT_FOUND/,
    ],
  ],
  E11: [
    [
      `${EVIDENCE} -1, id, 'FINAL_SUCCESS', 'object', '', '', '', 1, 0, now() from payonce.effects where state = 'RELEASED' limit 1`,
      /over FINAL_SUCCESS/,
    ],
    ["update payonce.effects set release_rank = 'believed' where state = 'RELEASED'", /with lateness until nothing/],
  ],
  E13: [
    ["update payonce.effects set testimonies = 0 where state = 'SETTLED'", /counts 0 testimonies of 1/],
    [
      `${EVIDENCE} 900000, id, 'ACCEPTED', 'word', '', '', '', 1, 0, now() - interval '1 hour' from payonce.effects where state = 'RELEASED' limit 1`,
      /though ACCEPTED came after/,
    ],
    ["update payonce.effects set contradicted_at = now() where state = 'RELEASED'", /contradicted and has no case/],
  ],
  E15: [
    ['delete from payonce.idempotency_keys', /answers nothing/],
    ["update payonce.idempotency_keys set resource_id = 'gone'", /does not exist/],
  ],
  E16: [
    [
      "drop index payonce.effects_lane; update payonce.effects set lane = 'sweep' where ended_at is null",
      /has 2 open effects/,
    ],
  ],
  E17: [
    [
      "insert into payonce.returns (id, effect_id, provider_return_id, amount) select n, e.id, n, 600000 from payonce.effects e, unnest(array['1', '2']) as n where e.state = 'SETTLED'",
      /sent 1000000 and got back 1200000/,
    ],
  ],
  I1: [
    [`${TRANSFER} 'DEPOSIT', '', now())`, /its deposit is missing/],
    [`${TRANSFER} 'UNKNOWN_INBOUND', '', now())`, /UNKNOWN_INBOUND with 0 postings/],
    [`${TRANSFER} 'SWEEP?', '', null)`, /has class SWEEP/],
  ],
  M1: [
    [ORDERS('PENDING', 9), /10 is not 0 in legs and 9 remaining/],
    [`${ORDERS('MATCHED', 10)}${LEG('OPEN')}`, /10 is not 6 in legs and 10 remaining/],
    [
      `insert into payonce.p2p_withdraw_orders (id, partner_id, group_name, asset_id, fiat, user_ref, amount, price, leg_min, bank_code, account_number, holder_name, expires_at, reserved)
       select 'pwo_1', 'par_1', 'g', 'noop/token', 'KRW', 'u', 10, 1, 1, 'b', 'n', 'h', payonce.now() + interval '1 h', 2`,
      /has reserved 2 and settled 0, its legs 0 and 0|sellers have 10 set aside/,
    ],
  ],
  M2: [
    [ORDERS('MATCHED', 10), /is MATCHED with 0 open/],
    [`${ORDERS('EXPIRED', 4)}${LEG('SETTLED')}`, /is EXPIRED with 0 open and 1 settled/],
  ],
  M3: [
    [`${ORDERS('MATCHED', 4)}${LEG('SETTLED')}`, /is SETTLED and has 0 credits/],
    [`${ORDERS('EXPIRED', 10)}${LEG('VOID')}`, /was made after order pdo_1 had closed/],
  ],
  M4: [[`${ORDERS('MATCHED', 4)}${LEG('OPEN')}`, /has 0 trades that are not released/]],
  P1: [
    [POOL(5), /has volume 5 at place 0, its events 0 at 0/],
    [
      `${POOL(0)} update payonce.pools set in_flight = 0, surplus = 3, paid = 3`,
      /3 paid and 0 of volume in payouts; its payouts 0, 0 and 0/,
    ],
    [`${POOL(0)} update payonce.pools set seq = 2, cut_seq = 2`, /counts places twice, or not at all/],
  ],
  N1: [
    ["delete from payonce.events where type = 'withdrawal.confirmed'", /settled and no event says so/],
    ["delete from payonce.events where type = 'withdrawal.failed'", /ended as failed and no event/],
    [
      "insert into payonce.endpoints (id, partner_id, url, created_at) values ('ep', 'par_test', 'http://x', now() - interval '1 day')",
      /no delivery for endpoint ep/,
    ],
  ],
  N2: [
    ['update payonce.subjects set event_seq = event_seq + 1', /its counter says/],
    ['delete from payonce.events where sequence = 1', /events up to/],
  ],
  V2: [
    ['update payonce.subjects set closed_at = null, closed_as = null', /no live effect, no end and no case/],
    [
      "update payonce.subjects set closed_at = now(), closed_as = 'failed' where closed_at is null",
      /though its subject ended as failed/,
    ],
    ["delete from payonce.effects where state = 'PENDING'", /has no effect/],
  ],
  AUDIT: [
    ["update payonce.audit_log set actor = 'eve' where seq = 1", /does not continue the chain/],
    ['update payonce.audit_log set detail = \'{"x":1}\' where seq = 2', /not what was written/],
    ['delete from payonce.audit_log where seq = 2', /the last line is 1/],
    ['delete from payonce.audit_log where seq = 1', /follows line 0/],
  ],
};

for (const [name, list] of Object.entries(BREACHES)) {
  test(`a breach of ${name} is named: ${INVARIANTS[name as InvariantName]}`, async () => {
    for (const [sql, said] of list) {
      await client.query('savepoint one');
      await client.query(sql);
      const breaches = await findBreaches(query);
      const mine = breaches.filter((breach) => breach.invariant === name);
      assert.ok(
        mine.some((breach) => said.test(breach.detail)),
        `${sql}\n${JSON.stringify(mine)}`,
      );
      await client.query('rollback to savepoint one');
    }
  });
}

async function againstRail(movements: readonly Partial<Movement>[], options: OracleOptions = {}): Promise<Breach[]> {
  await client.query(
    `insert into payonce.effect_variants (effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee)
     select id, 'original', case state when 'SETTLED' then '0xpaid' else '0x' || id end, '', '', 0, '', 0, 0, 0 from payonce.effects
     where sealed_at is not null on conflict do nothing`,
  );
  const paid = {
    id: '0xpaid/0',
    tx: '0xpaid',
    from: world.wallet,
    to: 'goes',
    asset: 'token',
    amount: AMOUNT,
    final: true,
  };
  const books: RailBooks = {
    rail: 'noop',
    movements: () => Promise.resolve(movements.map((one) => ({ ...paid, ...one }))),
    costs: () => Promise.resolve([]),
  };
  return (await findBreaches(query, { only: [], books, ...options })).filter(
    (breach) => !/^[LVN]/.test(breach.invariant),
  );
}

test('the rail’s own books agree with the effects (inv E1, E2, E4, I2)', async () => {
  assert.deepEqual(await againstRail([{}]), []);
  const openings = new Map([[custodyKey(world.wallet, 'token'), 1_000_000_000n]]);
  assert.deepEqual(await againstRail([{}], { openings }), []);
  const [short] = await againstRail([{}], { openings: new Map() });
  assert.equal(short?.invariant, 'I2');
});

test('what the rail shows otherwise is named', async () => {
  const named = async (movements: readonly Partial<Movement>[], options?: OracleOptions): Promise<string[]> =>
    (await againstRail(movements, options)).map((breach) => breach.invariant).sort();
  assert.deepEqual(await named([]), ['E4'], 'settled, and nothing moved');
  assert.deepEqual(await named([{ final: false }]), ['E4'], 'settled before it was final');
  assert.deepEqual(await named([{}, { id: '0xstranger/0', tx: '0xstranger' }]), ['E2'], 'an outflow of no effect');
  assert.deepEqual(await named([{ amount: 2n }]), ['E2'], 'another amount');
  assert.deepEqual(await named([{ to: 'thief' }]), ['E2'], 'another receiver');
  assert.deepEqual(await named([{}, { id: '0xpaid/1' }]), ['E1'], 'twice in one transaction');
  assert.deepEqual(await named([{}, { id: 'bait', tx: 'bait', amount: 0n }]), [], 'a transfer of nothing is bait');
  const [released] = (
    await client.query<{ id: bigint }>("select id from payonce.effects where state = 'RELEASED' order by id")
  ).rows;
  const reverted = { id: 'late', tx: `0x${released?.id}`, to: 'reverts' };
  assert.deepEqual(await named([{}, reverted]), ['E4'], 'released, and it moved');
  const [second] = (
    await client.query<{ id: bigint }>("select id from payonce.effects where state = 'RELEASED' and seq = 2")
  ).rows;
  assert.deepEqual(
    await named([{}, reverted, { ...reverted, id: 'later', tx: `0x${second?.id}` }]),
    ['E1', 'E4', 'E4'],
    'a subject paid twice',
  );
  const [sealed] = (await client.query<{ id: bigint }>("select id from payonce.effects where state = 'SEALED'")).rows;
  const undecided = { id: 'sealed', tx: `0x${sealed?.id}`, to: 'stays' };
  assert.deepEqual(await named([{}, undecided]), [], 'still being looked at');
  assert.deepEqual(await named([{}, undecided], { drained: true }), ['E4'], 'undecided after the end');
});
