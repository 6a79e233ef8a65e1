/*
 * A worker dies by SIGKILL at K0 (claimed, not sealed), K1 (sealed, not sent), K2 (sent, the answer not stored) and K3 (settled,
 * its event not sent) of a withdrawal and of a sweep over TRON; then a new worker drains (issue 4, show 8). Method: real
 * processes over the simulated chain with a block each 0.4 s, a test lease of 2 s; the chain's own books count.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { collectOnce } from '../../src/flows/collections/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { devKeys } from '../../src/rails/dev-keys.ts';
import { canonicalAddress } from '../../src/rails/tron/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { processesOn } from '../support/processes.ts';
import { PARTNER, startTronApp, TRX } from '../support/tron-app.ts';

const ROUNDS = 2;
/** Forty blocks until a transaction expires: sixteen seconds, within which a new worker is there. */
const BLOCK_MS = 400;
const SLOT_MS = 3_000;
const SOLID_LAG_BLOCKS = 6;
const DRAIN_MS_MAX = 90_000;
/** The port call at which the process ends, by name: see `kernel/ports.ts`. */
const POINTS = {
  K0: 'db:/commit claim pending/:1:after',
  K1: 'db:/commit store variants/:1:after',
  K2: 'http:/broadcasthex/:1:after',
  K3: "db:/state = 'SETTLED'>commit record/:1:after",
} as const;

test('killed at K0, K1, K2 and K3 over TRON: as many payments and sweeps on chain as were made (case A2, G2, req R9, R12, inv E1, E2, E4)', async (t) => {
  const one = await startTronApp({
    label: 'crash_tron',
    sim: { pace: BLOCK_MS, solidLagBlocks: SOLID_LAG_BLOCKS },
    network: { lookEveryMs: 200, resendAfterMs: 1_000 },
    asset: { collect: { min: '1' } },
  });
  const { app, tron } = one;
  const workers = await processesOn(one.url, { chains: [], tron: one.config.tron });
  t.after(async () => {
    await workers.stopAll();
    await one.end();
  });
  const busy = (): void => {
    tron.act(one.stranger, { kind: 'send', to: one.gas, sun: 1n });
    tron.after(SLOT_MS, busy);
  };
  busy();
  await one.fund(1_000n * TRX);
  const [, , , , ...own] = devKeys().map(({ address }) => canonicalAddress(address));
  const deposits = own.slice(0, Object.keys(POINTS).length);
  for (const address of deposits) {
    tron.fund(address, 500n * TRX);
    await app.pool.query(
      "insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, 'DEPOSIT', $4)",
      [app.engine.makeId('adr'), one.chain.chain, address, PARTNER],
    );
  }
  await one.chain.scanner.runOnce();

  let last = '';
  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + DRAIN_MS_MAX;
    while (!(await holds())) {
      assert.ok(Date.now() < deadline, `${what} has not come: ${last}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  async function drain(): Promise<void> {
    const worker = workers.start();
    await until('the end of all effects', async () => {
      const open = await one.rows('select id, state, wait_reason from payonce.effects where ended_at is null');
      last = JSON.stringify(open, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
      return open.length === 0;
    });
    worker.process.kill('SIGTERM');
    await worker.gone;
  }
  async function died(what: string, cut: string): Promise<void> {
    const worker = workers.start({ cut });
    const gone = await worker.gone;
    assert.equal(gone.signal, 'SIGKILL', `${what}: ${worker.lines.slice(-5).join('\n')}`);
  }

  let killed = 0;
  for (const [name, cut] of Object.entries(POINTS)) {
    for (let round = 0; round < ROUNDS; round += 1) {
      const key = `${name} ${round}`;
      const [created] = await createWithdrawals(app.engine, [
        {
          partnerId: PARTNER,
          idempotencyKey: key,
          fingerprint: key,
          externalId: null,
          purpose: 'customer',
          assetId: one.tokenAssetId,
          amount: TRX,
          destination: one.stranger,
          reference: null,
        },
      ]);
      assert.equal(created?.outcome, 'created');
      await died(`withdrawal ${key}`, cut);
      killed += 1;
    }
    await drain();
  }
  const paid = (await tron.books.movements()).filter((moved) => moved.asset === one.token && moved.from === one.master);
  assert.equal(paid.length, killed);
  assert.ok(paid.every(({ amount, final }) => amount === TRX && final));

  let swept = 0n;
  for (const [index, [name, cut]] of Object.entries(POINTS).entries()) {
    const address = deposits[index] ?? '';
    const units = BigInt(index + 2) * TRX;
    swept += units;
    tron.act(one.stranger, { kind: 'send_token', token: one.token, to: address, units });
    await until(`the deposit at ${address}`, async () => {
      await one.chain.scanner.runOnce();
      return (await one.balance(`custody:${one.chain.chain}:${address}`, one.tokenAssetId)) === -units;
    });
    assert.equal((await collectOnce(app.engine, one.chain.chain, { now: true })).made, 1, name);
    await died(`sweep ${name}`, cut);
    killed += 1;
    await drain();
  }
  const sweeps = (await tron.books.movements()).filter(
    (moved) => moved.asset === one.token && deposits.includes(moved.from),
  );
  t.diagnostic(`killed ${killed} times; ${paid.length} payments and ${sweeps.length} sweeps on chain`);
  assert.equal(sweeps.length, deposits.length);
  assert.equal(
    sweeps.reduce((sum, { amount, to }) => sum + (to === one.master ? amount : 0n), 0n),
    swept,
  );
  await assertBooksClean(app.pool, { books: tron.books });
});
