/*
 * Thousands of creators are paid over a real chain by two worker processes, with one answer in ten lost (issue 6, show 3): once each
 * by the called contract's own event log. Beside it one loop that waits for each answer, as the incident's document had it, on the
 * same chain. A run of everything is sized to fit; issue 6 shows it with 5,000 (`PAYONCE_TEST_CREATORS=5000`).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeFunctionData, stringToHex } from 'viem';
import { swapAndAllocate } from '../../sim/contracts/artifacts.ts';
import { sendAndMine } from '../../sim/evm-send.ts';
import { assertBooksClean } from '../support/books.ts';
import { makePayoutEvm, PAYOUT_UNITS } from '../support/payout-evm.ts';
import { workersOn } from '../support/processes.ts';

const CREATORS = Number(process.env['PAYONCE_TEST_CREATORS'] ?? '400');
const WALLETS = 4;
const PROCESSES = 2;
const LOST = 0.1;
const IN_THE_LOOP = 20;
/** Creators whose volume comes in one request. */
const PER_REQUEST = 500;
const DRAIN_MS_MAX = 60_000 + 500 * CREATORS;

test(`${CREATORS} creators and ${PROCESSES} worker processes, answers lost at 10 %: each is paid once by the contract’s own log (case E2, L1, req P5, P6, P8, inv P1, V1, V2)`, async (t) => {
  const world = await makePayoutEvm('payouts_many', {
    walletCount: WALLETS,
    anvil: { mining: 'ticks', blockTimeSec: 0.2 },
  });
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
  await world.fund(BigInt(CREATORS) * PAYOUT_UNITS);
  await world.terms();
  for (const node of world.nodes)
    node.script({ method: 'eth_sendRawTransaction', chance: LOST, fault: { kind: 'lose_answer', how: 'close' } });
  const names = Array.from({ length: CREATORS }, (_, index) => `creator-${index}`);
  const addresses = await world.creators(names);
  for (let from = 0, turn = 0; from < CREATORS; from += Math.min(PER_REQUEST, Math.ceil(CREATORS / WALLETS)), turn += 1)
    await world.earn(
      names.slice(from, from + Math.min(PER_REQUEST, Math.ceil(CREATORS / WALLETS))),
      world.wallets[turn % WALLETS],
    );
  const made = await world.pool.query('select 1 from payonce.payouts');
  assert.equal(made.rowCount, CREATORS, 'crossing the threshold made each payout, in the accrual’s transaction');

  const started = performance.now();
  const running = Array.from({ length: PROCESSES }, () => workers.start());
  let most = 0;
  const inFlight: number[] = [];
  for (;;) {
    const { rows } = await world.pool.query<{ open: bigint; sealed: bigint }>(
      "select count(*) as open, count(*) filter (where state = 'SEALED') as sealed from payonce.effects where ended_at is null",
    );
    const sealed = Number(rows[0]?.sealed);
    most = Math.max(most, sealed);
    inFlight.push(sealed);
    if (rows[0]?.open === 0n) break;
    assert.ok(
      performance.now() - started < DRAIN_MS_MAX,
      `${rows[0]?.open} are still open; last lines:\n${running[0]?.lines.slice(-5).join('\n')}`,
    );
    await sleep(500);
  }
  const seconds = (performance.now() - started) / 1_000;
  for (const worker of running) worker.process.kill('SIGTERM');
  await Promise.all(running.map((worker) => worker.gone));

  const allocated = await world.allocated();
  assert.equal(allocated.length, CREATORS, 'once each');
  assert.deepEqual(new Set(allocated.map((one) => one.to)), new Set(addresses.values()));
  assert.ok(allocated.every((one) => one.amount === 2n * PAYOUT_UNITS));
  const lost = world.nodes.reduce((sum, node) => sum + (node.counts.lose_answer ?? 0), 0);
  assert.ok(lost > 0);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });

  const loop = await oneByOne(world);
  const mean = Math.round(inFlight.reduce((sum, one) => sum + one, 0) / inFlight.length);
  t.diagnostic(
    `${CREATORS} payouts in ${seconds.toFixed(1)} s: ${(CREATORS / seconds).toFixed(1)}/s, final and booked; in flight ${mean} on average, ${most} at most; ${lost} answers lost`,
  );
  t.diagnostic(`beside it one loop that waits for each answer: ${loop.toFixed(1)}/s, mined and not final`);
  assert.ok(CREATORS / seconds > loop, 'not slower than the loop');
});

/** Payouts in a second: signs, sends, waits until it is mined, and only then takes the next. */
async function oneByOne(world: Awaited<ReturnType<typeof makePayoutEvm>>): Promise<number> {
  const [account] = world.anvil.accounts;
  assert.ok(account);
  const started = performance.now();
  for (let turn = 0; turn < IN_THE_LOOP; turn += 1) {
    const ref = stringToHex(`loop-${turn}`, { size: 32 });
    const shares = `0x${world.outsider().slice(2)}2710` as const;
    await sendAndMine(world.anvil, account.privateKey, {
      to: world.swap,
      data: encodeFunctionData({
        abi: swapAndAllocate.abi,
        functionName: 'swapAndAllocate',
        args: [ref, world.token, PAYOUT_UNITS, PAYOUT_UNITS, shares],
      }),
    });
  }
  return (IN_THE_LOOP * 1_000) / (performance.now() - started);
}
