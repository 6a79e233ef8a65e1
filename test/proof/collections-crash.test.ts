/*
 * A worker dies by SIGKILL at K0 (claimed, not sealed), K1 (sealed, not sent), K2 (sent, the answer not stored) and K3 (settled)
 * of a sweep, a scheduler within its cycle (before and after its commit); then new ones drain (issue 4, show 8). Method: real
 * processes, a real chain with a block each 200 ms, a test lease of 2 s; the chain's own logs count the sweeps.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { assertBooksClean } from '../support/books.ts';
import { makeCollectScene } from '../support/collect-evm.ts';
import { heldAt, sweepAbove, sweepsOf } from '../support/collect-scene.ts';
import { TOKENS_PER_WALLET } from '../support/evm-world.ts';
import { workersOn } from '../support/processes.ts';

const ROUNDS = 3;
const MIN = 1_000n;
const DRAIN_MS_MAX = 90_000;
/** The port call at which the process ends, by name: see `kernel/ports.ts`. */
const POINTS = {
  K0: 'db:/commit claim pending/:1:after',
  K1: 'db:/commit store variants/:1:after',
  K2: 'http:/eth_sendRawTransaction/:1:after',
  K3: "db:/state = 'SETTLED'>commit record/:1:after",
} as const;
const CYCLE_POINTS = {
  'turn taken': 'db:/commit take collection turns/:1:after',
  'sweep not committed': 'db:/commit make sweeps/:1:before',
  'sweep committed': 'db:/commit make sweeps/:1:after',
} as const;

test('killed at K0, K1, K2 and K3 of a sweep, and within a cycle: as many sweeps on chain as were made (case N6, req R9, R12, inv E1, E2, E4, E16)', async (t) => {
  const world = await makeCollectScene('collect_crash', { mining: 'ticks', blockTimeSec: 0.2 });
  const { chain } = world;
  const workers = await workersOn(world.url, {
    chainId: world.anvil.chainId,
    token: world.token,
    wallets: world.wallets,
    collectMin: '0.001',
    nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
  });
  t.after(async () => {
    await workers.stopAll();
    await world.end();
  });
  await sweepAbove(world, chain, { assetId: world.assetId, min: MIN });
  // An address per point, so that what one leaves behind does not stand in the next one's way.
  const addresses: string[] = [];
  for (let index = 0; index < 7; index += 1) addresses.push((await world.deposit()).lower);
  let [deposits, total] = [0, 0n];
  async function deposit(address: string): Promise<void> {
    deposits += 1;
    const units = MIN + BigInt(deposits);
    total += units;
    await world.payIn(address, units);
  }
  async function drain(): Promise<void> {
    const worker = workers.start();
    const deadline = Date.now() + DRAIN_MS_MAX;
    for (;;) {
      const { rows } = await world.pool.query<{ open: bigint }>(
        'select count(*) as open from payonce.effects where ended_at is null',
      );
      if (rows[0]?.open === 0n) break;
      assert.ok(Date.now() < deadline, `${rows[0]?.open} are still open:\n${worker.lines.slice(-5).join('\n')}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    worker.process.kill('SIGTERM');
    await worker.gone;
  }
  const died = async (name: string, options: { cut: string; roles?: string }): Promise<void> => {
    const worker = workers.start(options);
    const gone = await worker.gone;
    assert.equal(gone.signal, 'SIGKILL', `${name}: ${worker.lines.slice(-5).join('\n')}`);
  };

  let killed = 0;
  for (const [index, [name, cut]] of Object.entries(POINTS).entries()) {
    const address = addresses[index] ?? '';
    for (let round = 0; round < ROUNDS; round += 1) {
      await deposit(address);
      // The next round's money waits for what this one left behind: one open sweep per address.
      assert.equal((await world.collect()).made, 1, `${name} round ${round}`);
      await died(`${name} round ${round}`, { cut });
      killed += 1;
      await drain();
    }
  }
  for (const [index, [name, cut]] of Object.entries(CYCLE_POINTS).entries()) {
    await deposit(addresses[4 + index] ?? '');
    await world.pool.query("update payonce.collection_terms set next_at = payonce.now() - interval '1 second'");
    await died(name, { cut, roles: 'scheduler' });
    killed += 1;
    // Its turn lies open for minutes; two other cycles at once now.
    await Promise.all([world.collect(), world.collect()]);
    await drain();
  }

  const sweeps = await sweepsOf(world);
  const ours = new Set(addresses);
  const moved = (await (await world.books()).movements()).filter((one) => ours.has(one.from));
  t.diagnostic(`killed ${killed} times; ${deposits} deposits, ${sweeps.length} sweeps, ${moved.length} on chain`);
  assert.equal(sweeps.length, deposits);
  assert.ok(sweeps.every((one) => one.status === 'swept'));
  assert.equal(moved.length, deposits);
  assert.ok(moved.every((one) => one.to === world.master));
  assert.equal(await world.tokens(world.master), TOKENS_PER_WALLET + total);
  for (const address of addresses) assert.equal(await heldAt(world, chain, address, world.assetId), 0n);
  const posted = await world.pool.query("select 1 from payonce.postings where idem_key like 'COL_MOVE:%'");
  assert.equal(posted.rowCount, deposits);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: [...world.wallets, ...addresses] });
});
