/**
 * A worker dies by SIGKILL at K0 (claimed, not sealed), K1 (sealed, not sent), K2 (sent, the answer not stored) and K3
 * (settled, its event not sent) of a withdrawal, 25 times each; then a new worker drains. Method: real processes, a real
 * chain with a block each 200 ms, a test lease of 2 s; the chain's own logs count the payments (issue 1, shows 3).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeEvmWorld } from '../support/evm-world.ts';
import { workersOn } from '../support/processes.ts';

const ROUNDS = 25;
/** The port call at which the process ends, by name: see `kernel/ports.ts`. */
const POINTS = {
  K0: 'db:/commit claim pending/:1:after',
  K1: 'db:/commit store variants/:1:after',
  K2: 'http:/eth_sendRawTransaction/:1:after',
  K3: "db:/state = 'SETTLED'>commit record/:1:after",
} as const;
const DRAIN_MS_MAX = 120_000;

test('killed at K0, K1, K2 and K3, 25 times each: as many payments as withdrawals (case A2, C1, C6, D7, L5, L7, req P3, W9, inv E1, E2, E4, E6)', async (t) => {
  const world = await makeEvmWorld({ label: 'crash', walletCount: 4, anvil: { mining: 'ticks', blockTimeSec: 0.2 } });
  const workers = await workersOn(world.url, {
    chainId: world.anvil.chainId,
    token: world.token,
    wallets: world.wallets,
    nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
  });
  t.after(async () => {
    await workers.stopAll();
    await world.end();
  });
  await world.pool.query(
    "insert into payonce.endpoints (id, partner_id, url) values ('ep_crash', $1, 'http://127.0.0.1:9/')",
    [world.partnerId],
  );

  async function drain(): Promise<void> {
    const worker = workers.start();
    const deadline = Date.now() + DRAIN_MS_MAX;
    for (;;) {
      const { rows } = await world.pool.query<{ open: bigint }>(
        'select count(*) as open from payonce.effects where ended_at is null',
      );
      if (rows[0]?.open === 0n) break;
      assert.ok(
        Date.now() < deadline,
        `${rows[0]?.open} effects are still open; last lines:\n${worker.lines.slice(-5).join('\n')}`,
      );
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    while (!worker.lines.some((line) => line.includes('payonce works')))
      await new Promise((resolve) => setTimeout(resolve, 50));
    worker.process.kill('SIGTERM');
    assert.deepEqual(await worker.gone, { code: 0, signal: null }, 'SIGTERM ends a worker in good order');
  }

  const ids: string[] = [];
  const killed: Record<string, number> = {};
  for (const [index, [name, cut]] of Object.entries(POINTS).entries()) {
    // What the points before left behind would be the first to settle: K3 is about its own withdrawal.
    if (name === 'K3') await drain();
    // A wallet per point: what one point leaves behind must not stand before the next one's nonces.
    await world.pool.query('update payonce.asset_policies set wallet = $1', [world.wallets[index]]);
    for (let round = 0; round < ROUNDS; round += 1) {
      const [created] = await createWithdrawals(world, [world.request({ destination: world.outsider() })]);
      assert.equal(created?.outcome, 'created');
      if (created.outcome === 'created') ids.push(created.id);
      const worker = workers.start({ cut });
      const gone = await worker.gone;
      assert.equal(gone.signal, 'SIGKILL', `${name} round ${round}: ${worker.lines.slice(-5).join('\n')}`);
      killed[name] = (killed[name] ?? 0) + 1;
      if (name === 'K3' && created.outcome === 'created') {
        const settled = await world.pool.query(
          "select 1 from payonce.effects where subject_id = $1 and state = 'SETTLED'",
          [created.id],
        );
        assert.equal(settled.rowCount, 1, 'at K3 it is settled and its event is waiting');
      }
    }
  }
  assert.deepEqual(killed, { K0: ROUNDS, K1: ROUNDS, K2: ROUNDS, K3: ROUNDS });

  await drain();
  const paid = await world.paid();
  t.diagnostic(`killed ${JSON.stringify(killed)}; ${ids.length} withdrawals, ${paid.length} payments on chain`);
  assert.equal(paid.length, ids.length);
  assert.equal(new Set(paid.map((one) => one.to)).size, ids.length);
  const events = await world.pool.query("select 1 from payonce.events where type = 'withdrawal.confirmed'");
  assert.equal(events.rowCount, ids.length);
  const deliveries = await world.pool.query("select 1 from payonce.deliveries where state = 'waiting'");
  assert.ok((deliveries.rowCount ?? 0) >= ids.length);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
