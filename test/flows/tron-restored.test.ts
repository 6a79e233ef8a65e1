/*
 * A snapshot of the same database is put back after a payment had left over TRON: same system, same timeline, and no sequence on the
 * chain that would refuse it again. Method: the real product over the simulated chain, the database copied before the payment and put
 * back after it was final.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { createOperator } from '../../src/engine/operators.ts';
import { releaseWallet } from '../../src/engine/stops.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { canonicalAddress } from '../../src/rails/tron/index.ts';
import { PARTNER, startTronApp, TRX } from '../support/tron-app.ts';

async function asAdmin(url: string, act: (client: pg.Client, name: string) => Promise<void>): Promise<void> {
  const at = new URL(url);
  const name = at.pathname.slice(1);
  at.pathname = '/postgres';
  const client = new pg.Client({ connectionString: at.href });
  await client.connect();
  await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  await act(client, name);
  await client.end();
}

test('a restored snapshot pays nothing again: the scan comes first, finds the payment, and quarantines the wallet (inv E1, E8)', async () => {
  let one = await startTronApp({ label: 'tron_restored' });
  await one.fund(100n * TRX);
  await one.chain.scanner.runOnce();
  const to = canonicalAddress(`0x${'a1b2c3d4'.repeat(5)}`);
  one.tron.fund(to, 1n);
  const order = {
    partnerId: PARTNER,
    idempotencyKey: 'k',
    fingerprint: '',
    externalId: null,
    purpose: 'customer',
    assetId: one.tokenAssetId,
    amount: 1_000_000n,
    destination: to,
    reference: null,
  } as const;
  await createWithdrawals(one.app.engine, [order]);
  await asAdmin(
    one.url,
    async (client, name) => void (await client.query(`create database ${name}_kept template ${name}`)),
  );
  await one.drain();
  one.mine(40);
  const paid = async (): Promise<number> =>
    (await one.tron.books.movements()).filter((moved) => moved.to === to && moved.from === one.master).length;
  assert.equal(await paid(), 1);

  await asAdmin(one.url, async (client, name) => {
    await client.query(`drop database ${name}`);
    await client.query(`alter database ${name}_kept rename to ${name}`);
  });
  one = await one.reopen();
  await one.pass();
  const [held] = await one.rows<{ state: string; wait_reason: string }>(
    'select state, wait_reason from payonce.effects',
  );
  assert.deepEqual(held, { state: 'PENDING', wait_reason: 'SCAN_BEHIND' });
  for (let round = 0; round < 10; round += 1) {
    await one.chain.scanner.runOnce();
    await one.pass();
  }
  const [kept] = await one.rows<{ state: string; wait_reason: string }>(
    'select state, wait_reason from payonce.effects',
  );
  assert.deepEqual([kept?.state, await paid()], ['PENDING', 1]);
  const quarantined = await one.rows(
    'select 1 from payonce.signers where address = $1 and quarantined_at is not null',
    [one.master],
  );
  assert.equal(quarantined.length, 1);
  // What moved must be explained before the wallet may go on, whoever asks.
  const { key } = await one.app.pool.tx('operator', (tx) =>
    createOperator(tx, one.app.engine.makeId, one.app.ports.chance, 'Ada', 'approver', 'test'),
  );
  await assert.rejects(
    one.app.pool.tx('release', (tx) =>
      releaseWallet(tx, key, { rail: one.chain.rail.name, address: one.master, nonceHead: 0n, reason: 'it was us' }),
    ),
    /case_\w+ is open/,
  );
  await one.end();
});
