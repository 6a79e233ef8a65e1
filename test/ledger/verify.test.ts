/*
 * Goal: `verify` names exactly what is wrong, and nothing where nothing is. Method: one fault at a time, written behind the
 * guards' back as superuser (triggers and constraints off), found, and taken back.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import type { Query } from '../../src/db/pool.ts';
import { describeFault, type Fault, verify } from '../../src/ledger/verify.ts';
import { ASSET, type LedgerWorld, makeLedgerWorld, posting } from '../support/ledger-world.ts';

let world: LedgerWorld;
let superuser: pg.Client;
let account: bigint;
let postingIds: bigint[];

before(async () => {
  world = await makeLedgerWorld('ledger verify');
  superuser = new pg.Client({ connectionString: world.url });
  await superuser.connect();
  account = await world.account();
  const verdicts = await world.post(
    ...[1, 2, 3].map((nth) => posting(`v${nth}`, [world.house, -10n], [account, 10n])),
    { kind: 'hold', holdKey: 'v', accountId: account, amount: 5n },
  );
  postingIds = verdicts.flatMap((one) => ('postingId' in one && one.postingId !== null ? [one.postingId] : []));
});
after(async () => {
  await superuser.end();
  await world.end();
});

type Place = Pick<Fault, 'kind'> & Partial<Omit<Fault, 'expected' | 'got'>>;

async function foundAfter(...statements: readonly string[]): Promise<Place[]> {
  await superuser.query('begin');
  try {
    await superuser.query("set local session_replication_role = 'replica'");
    for (const statement of statements) await superuser.query(statement);
    const { faults, faultCount } = await verify(asQuery(superuser));
    assert.equal(faultCount, faults.length);
    for (const fault of faults)
      assert.match(describeFault(fault), new RegExp(`^${fault.kind} at .*: expected .*, got .*`));
    return faults.map(({ expected: _expected, got: _got, ...place }) => place);
  } finally {
    await superuser.query('rollback');
  }
}

/** The fault must be seen before it is rolled back, so its own connection verifies. */
function asQuery(client: pg.Client): Query {
  const types = {
    getTypeParser: (oid: number): ((text: string) => unknown) =>
      oid === 20 || oid === 1700 ? BigInt : (pg.types.getTypeParser(oid) as (text: string) => unknown),
  };
  return {
    async query(text, values) {
      const result = await client.query({ text, types, values: [...(values ?? [])] });
      return { rows: result.rows as never, rowCount: result.rowCount ?? 0 };
    },
  };
}

const entry = (seq: number): string => `where account_id = ${account} and seq = ${seq}`;

test('clean books have no fault, and progress ends at the whole', async () => {
  const seen: string[] = [];
  const { faults, accounts, entries, postings } = await verify(world.pool, ({ phase, done, total }) => {
    seen.push(`${phase} ${done}/${total}`);
  });
  assert.deepEqual(faults, []);
  assert.deepEqual([accounts, entries, postings], [2n, 6n, 3n]);
  assert.deepEqual(seen, ['accounts 6/6', 'postings 3/3']);
});

test("inv L1 inv L2: an altered amount is found as its link, its posting and its account's sum", async () => {
  assert.deepEqual(await foundAfter(`update payonce.ledger_entries set amount = 11 ${entry(2)}`), [
    { kind: 'broken_link', accountId: account, seq: 2n, postingId: postingIds[1] },
    { kind: 'entry_sum', accountId: account },
    { kind: 'posting_sum', postingId: postingIds[1], assetId: ASSET },
  ]);
});

test('inv L2: an altered balance_after breaks the link to it and the link from it, no more', async () => {
  assert.deepEqual(await foundAfter(`update payonce.ledger_entries set balance_after = 21 ${entry(2)}`), [
    { kind: 'broken_link', accountId: account, seq: 2n, postingId: postingIds[1] },
    { kind: 'broken_link', accountId: account, seq: 3n, postingId: postingIds[2] },
  ]);
});

test('inv L2: a missing entry is a gap, at the next one or at the end', async () => {
  assert.deepEqual(await foundAfter(`delete from payonce.ledger_entries ${entry(2)}`), [
    { kind: 'seq_gap', accountId: account, seq: 3n, postingId: postingIds[2] },
    { kind: 'entry_sum', accountId: account },
    { kind: 'posting_sum', postingId: postingIds[1], assetId: ASSET },
  ]);
  assert.deepEqual(
    (await foundAfter(`delete from payonce.ledger_entries ${entry(3)}`)).map((fault) => fault.kind),
    ['seq_gap', 'balance', 'entry_sum', 'posting_sum'],
  );
});

test('inv L3: a balance that was written by hand is found, and so is the asset that no longer sums to zero', async () => {
  assert.deepEqual(await foundAfter(`update payonce.accounts set balance = balance + 1 where id = ${account}`), [
    { kind: 'balance', accountId: account, seq: 3n },
    { kind: 'entry_sum', accountId: account },
    { kind: 'asset_sum', assetId: ASSET },
  ]);
});

test('inv L4: an account below its floor is found', async () => {
  const found = await foundAfter(
    'alter table payonce.accounts drop constraint accounts_floor',
    `update payonce.accounts set floor = 26 where id = ${account}`,
  );
  assert.deepEqual(found, [{ kind: 'below_floor', accountId: account }]);
});

test('inv L6: held without a hold, and a hold without held, are found', async () => {
  const fault = [{ kind: 'held', accountId: account }];
  assert.deepEqual(await foundAfter(`update payonce.accounts set held = 6 where id = ${account}`), fault);
  assert.deepEqual(await foundAfter("update payonce.holds set state = 'voided', ended_at = now()"), fault);
});

test('inv L5: a posting without entries, entries without a posting or an account, and a foreign asset are found', async () => {
  assert.deepEqual(
    await foundAfter(
      "insert into payonce.postings (idem_key, reference) overriding system value values ('empty', 'r')",
    ).then((faults) => faults.map((fault) => fault.kind)),
    ['posting_empty'],
  );
  assert.deepEqual(await foundAfter(`delete from payonce.postings where id = ${postingIds[0]}`), [
    { kind: 'posting_missing', postingId: postingIds[0] },
  ]);
  assert.deepEqual(
    await foundAfter(`insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
      values (${postingIds[0]}, 999999, '${ASSET}', 1, 1, 1)`),
    [
      { kind: 'no_account', accountId: 999_999n, seq: 1n, postingId: postingIds[0] },
      { kind: 'posting_sum', postingId: postingIds[0], assetId: ASSET },
    ],
  );
  assert.deepEqual(
    (await foundAfter(`update payonce.ledger_entries set asset_id = 'eur' ${entry(1)}`)).map((fault) => fault.kind),
    ['entry_asset', 'posting_sum', 'posting_sum'],
  );
});

test('verify may run beside live traffic: what is booked meanwhile is no fault', async () => {
  const done = new AbortController();
  const traffic = (async () => {
    for (let nth = 0; !done.signal.aborted; nth += 1) {
      await world.post(posting(`live:${nth}`, [world.house, -1n], [account, 1n]));
    }
  })();
  for (let round = 0; round < 20; round += 1) assert.deepEqual((await verify(world.pool)).faults, []);
  done.abort();
  await traffic;
});
