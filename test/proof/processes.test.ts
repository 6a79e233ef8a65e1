/**
 * Processes that come and go: restarts by SIGTERM with work in flight, and a server whose nodes are down when it starts.
 * Method: real processes on a real chain; the chain's own logs count.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { createApiKey } from '../../src/api/keys.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';
import { workersOn } from '../support/processes.ts';

const DRAIN_MS_MAX = 90_000;
const STOP_MS_MAX = 10_000;

async function scene(label: string) {
  const world = await makeEvmWorld({ label, anvil: { mining: 'ticks', blockTimeSec: 0.2 } });
  const workers = await workersOn(world.url, {
    chainId: world.anvil.chainId,
    token: world.token,
    wallets: world.wallets,
    nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
  });
  return { world, workers };
}
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function untilNoneOpen(world: EvmWorld, lines: () => readonly string[]): Promise<void> {
  const deadline = Date.now() + DRAIN_MS_MAX;
  for (;;) {
    const { rows } = await world.pool.query<{ open: bigint }>(
      'select count(*) as open from payonce.effects where ended_at is null',
    );
    if (rows[0]?.open === 0n) return;
    assert.ok(Date.now() < deadline, `still open: ${rows[0]?.open}\n${lines().slice(-5).join('\n')}`);
    await pause(200);
  }
}

test('a rolling restart with work in flight: each SIGTERM ends in good order, nothing is paid twice (case L5, L16)', async (t) => {
  const { world, workers } = await scene('rolling');
  t.after(async () => {
    await workers.stopAll();
    await world.end();
  });
  // Slow nodes, so that every stop finds requests under way.
  for (const node of world.nodes)
    node.script({ method: 'eth_sendRawTransaction', chance: 0.5, fault: { kind: 'delay', what: 'answer', ms: 400 } });
  await createWithdrawals(
    world,
    Array.from({ length: 80 }, () => world.request({ destination: world.outsider() })),
  );
  let worker = workers.start();
  for (let restart = 0; restart < 10; restart += 1) {
    while (!worker.lines.some((line) => line.includes('payonce works'))) await pause(50);
    await pause(300 + restart * 70);
    const next = workers.start();
    const stopped = Date.now();
    worker.process.kill('SIGTERM');
    assert.deepEqual(await worker.gone, { code: 0, signal: null }, worker.lines.slice(-5).join('\n'));
    assert.ok(Date.now() - stopped < STOP_MS_MAX, 'it ends in time');
    worker = next;
  }
  await untilNoneOpen(world, () => worker.lines);
  const paid = await world.paid();
  assert.equal(paid.length, 80);
  assert.equal(new Set(paid.map((one) => one.to)).size, 80);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('with its nodes down at the start the API serves, the rail reports degraded, and nothing is lost (case F1)', async (t) => {
  const { world, workers } = await scene('degraded');
  t.after(async () => {
    await workers.stopAll();
    await world.end();
  });
  const { key } = await createApiKey(
    world.pool,
    { makeId: world.makeId, chance: world.ports.chance },
    world.partnerId,
    'test',
  );
  for (const node of world.nodes) await node.down();
  const server = workers.start({ serve: true });
  let url = '';
  for (let waited = 0; url === '' && waited < 20_000; waited += 100) {
    await pause(100);
    url = /"url":"(http[^"]+)"/.exec(server.lines.find((line) => line.includes('payonce serves')) ?? '')?.[1] ?? '';
  }
  assert.notEqual(url, '', server.lines.join('\n'));
  assert.equal((await fetch(`${url}/livez`)).status, 200);
  let ready = '';
  for (let waited = 0; !ready.includes('degraded') && waited < 20_000; waited += 200) {
    await pause(200);
    ready = await (await fetch(`${url}/readyz`)).text();
  }
  assert.match(ready, /degraded/);
  const answer = await fetch(`${url}/v1/withdrawals`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'while-down' },
    body: JSON.stringify({ asset: 'USDT', amount: '1.5', destination: world.outsider() }),
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  await pause(1_500);
  for (const node of world.nodes) await node.up();
  await untilNoneOpen(world, () => server.lines);
  assert.deepEqual(
    (await world.paid()).map((one) => one.amount),
    [1_500_000n],
  );
  for (let waited = 0; ready.includes('degraded') && waited < 20_000; waited += 200) {
    await pause(200);
    ready = await (await fetch(`${url}/readyz`)).text();
  }
  assert.doesNotMatch(ready, /degraded/);
  server.process.kill('SIGTERM');
  assert.deepEqual(await server.gone, { code: 0, signal: null });
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
