/*
 * Goal: `verify` reads a million entries in the memory of a page and finds the one that was altered. Method: a ledger made
 * by generate_series behind the guards' back; what each statement brought is counted, time and memory are printed.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import type { Query } from '../../src/db/pool.ts';
import { describeFault, verify } from '../../src/ledger/verify.ts';
import { ASSET, type LedgerWorld, makeLedgerWorld } from '../support/ledger-world.ts';

const POSTINGS = 500_000;
const ACCOUNTS = 1_000;

let world: LedgerWorld;
let superuser: pg.Client;
before(async () => {
  world = await makeLedgerWorld('ledger million');
  superuser = new pg.Client({ connectionString: world.url });
  await superuser.connect();
  await superuser.query("set session_replication_role = 'replica'");
  // Posting n takes 1 unit from the house, whose chain is n long, to account n modulo ACCOUNTS.
  await superuser.query(
    `insert into payonce.accounts (code, asset_id, floor, seq, balance)
     select 'million-' || g, $1, 0, $2::bigint / $3, $2::bigint / $3 from generate_series(0, $3 - 1) g`,
    [ASSET, POSTINGS, ACCOUNTS],
  );
  await superuser.query('update payonce.accounts set seq = $1, balance = -$1::bigint where id = $2', [
    POSTINGS,
    world.house,
  ]);
  await superuser.query(
    `insert into payonce.postings (idem_key, reference, created_at)
     select 'MIGRATED:' || n, 'million', now() from generate_series(1, $1) n`,
    [POSTINGS],
  );
  await superuser.query(
    `insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after, created_at)
     select n, $3, $4, n, -1, -n, now() from generate_series(1, $1) n
     union all
     select n, $3 + 1 + n % $2, $4, (n - 1) / $2 + 1, 1, (n - 1) / $2 + 1, now() from generate_series(1, $1) n`,
    [POSTINGS, ACCOUNTS, world.house, ASSET],
  );
});
after(async () => {
  await superuser.end();
  await world.end();
});

/** What one statement brought at most, and the heap after it, at its highest. */
function watched(query: Query): { query: Query; seen: { rowsMax: number; statements: number; heapMax: number } } {
  const seen = { rowsMax: 0, statements: 0, heapMax: 0 };
  return {
    seen,
    query: {
      async query(sql, values) {
        const result = await query.query(sql, values);
        seen.rowsMax = Math.max(seen.rowsMax, result.rows.length);
        seen.statements += 1;
        seen.heapMax = Math.max(seen.heapMax, process.memoryUsage().heapUsed);
        return result as never;
      },
    },
  };
}

test('a million entries are verified page by page: no statement brings more than a page', async (t) => {
  const began = performance.now();
  const { query, seen } = watched(world.pool);
  const { entries, postings, accounts, faults } = await verify(query);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const megabytes = (seen.heapMax / 2 ** 20).toFixed(0);
  t.diagnostic(`${entries} entries in ${seconds} s, heap at most ${megabytes} MB, ${seen.statements} statements`);
  assert.deepEqual(faults.map(describeFault), []);
  assert.deepEqual([entries, postings, accounts], [1_000_000n, 500_000n, 1_001n]);
  assert.equal(seen.rowsMax, 5_000);
});

test('the one entry of a million that was altered behind its back is named', async () => {
  const place = [world.house + 1n + 123n, 321] as const;
  await superuser.query('update payonce.ledger_entries set amount = 3 where account_id = $1 and seq = $2', [...place]);
  const { faults } = await verify(world.pool);
  const postingId = 320n * 1_000n + 123n;
  assert.deepEqual(faults.map(describeFault), [
    `broken_link at account ${place[0]}, seq 321, posting ${postingId}: expected balance_after 323, got balance_after 321`,
    `entry_sum at account ${place[0]}: expected balance 500, got a sum of entries of 502`,
    `posting_sum at posting ${postingId}, asset ${ASSET}: expected a sum of 0, got 2`,
  ]);
  await superuser.query('update payonce.ledger_entries set amount = 1 where account_id = $1 and seq = $2', [...place]);
});
