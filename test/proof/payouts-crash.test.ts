/*
 * A worker dies by SIGKILL at every port call of a payout, one after another: from the claim of what is pending to the stored answer,
 * and from the claim of what is sealed to its end; at the send also before it, with half of the request out, and with half of the
 * answer in (issue 6, show 1). Method: real processes, a real chain with a block each 200 ms, a creator for each kill, a test lease of
 * 2 s; then one worker drains. The judge is the called contract's own event log: each creator once, under the name of its payout.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readStatement } from '../../src/flows/payouts/reads.ts';
import { sendOnce, watchOnce } from '../../src/engine/advance.ts';
import { assertBooksClean } from '../support/books.ts';
import { makePayoutEvm, PAYOUT_UNITS } from '../support/payout-evm.ts';
import { type Worker, workersOn } from '../support/processes.ts';

/** The port calls at which a process ends, counted from the named one on: see `kernel/ports.ts`. */
const SENDING = { roles: 'sender', from: 'commit claim pending' };
const SETTLING = { roles: 'watcher', from: 'commit claim sealed' };
/** A run of everything takes every fifth call; issue 6 shows it with each one (`PAYONCE_TEST_CALL_STEP=1`). */
const STEP = Number(process.env['PAYONCE_TEST_CALL_STEP'] ?? '5');
const AT_THE_SEND = ['before', 'half_written', 'half_read', 'after'];
/** Under the sixteen that a wallet may have open. */
const KILLS_PER_DRAIN = 10;
const DIES_MS_MAX = 60_000;
const DRAIN_MS_MAX = 120_000;
/** Two blocks on the one that it is in, at 200 ms each. */
const FINAL_MS = 900;

test('killed at every port call of a payout: each creator is paid once by the contract’s own log, and the volumes add up (case A2, A7, C6, D7, req P3, P4, P7, P8, inv P1, E1, E2, E4, E6)', async (t) => {
  const world = await makePayoutEvm('payouts_crash', { anvil: { mining: 'ticks', blockTimeSec: 0.2 } });
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
  await world.terms();
  const addresses = new Map<string, string>();
  let kills = 0;

  async function earn(): Promise<void> {
    const name = `creator-${addresses.size + 1}`;
    for (const [one, address] of await world.creators([name])) addresses.set(one, address);
    await world.earn([name]);
  }
  async function until(what: string, worker: Worker, withinMs: number, done: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + withinMs;
    while (!(await done())) {
      assert.ok(Date.now() < deadline, `${what}; last lines:\n${worker.lines.slice(-5).join('\n')}`);
      await sleep(50);
    }
  }
  async function died(what: string, roles: string, cut: string): Promise<void> {
    const worker = workers.start({ roles, cut });
    await until(`${what} is not reached`, worker, DIES_MS_MAX, () =>
      Promise.resolve(worker.process.signalCode !== null || worker.process.exitCode !== null),
    );
    kills += 1;
    assert.equal((await worker.gone).signal, 'SIGKILL', `${what}: ${worker.lines.slice(-5).join('\n')}`);
  }
  async function drain(): Promise<void> {
    const worker = workers.start();
    await until('some are still open', worker, DRAIN_MS_MAX, async () => {
      const open = await world.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
      return open.rowCount === 0;
    });
    worker.process.kill('SIGTERM');
    await worker.gone;
  }

  // In this process once, to know how many calls a payout makes.
  await earn();
  const counted = async (pass: () => Promise<number>): Promise<number> => {
    const before = calls();
    assert.equal(await pass(), 1);
    return calls() - before;
  };
  const calls = (): number => Object.values(world.ports.gate.counts()).reduce((sum, one) => sum + one, 0);
  const sending = await counted(() => sendOnce(world.engine, world.rail));
  await sleep(FINAL_MS);
  const settling = await counted(() => watchOnce(world.engine, world.rail));

  for (const mode of AT_THE_SEND) {
    await earn();
    await died(`${mode} of the send`, 'sender', `http:/eth_sendRawTransaction/:1:${mode}`);
  }
  await drain();
  for (let call = 1; call <= sending; call += STEP) {
    await earn();
    await died(`sender call ${call}`, SENDING.roles, `/${SENDING.from}>/:${call}:after`);
    if (addresses.size % KILLS_PER_DRAIN === 0) await drain();
  }
  await drain();
  for (let call = 1; call <= settling; call += STEP) {
    await earn();
    // It is sent and final when the watcher comes, whose calls are of the one look.
    await world.pass();
    await sleep(FINAL_MS);
    await died(`watcher call ${call}`, SETTLING.roles, `/${SETTLING.from}>/:${call}:after`);
    if (addresses.size % KILLS_PER_DRAIN === 0) await drain();
  }
  await drain();

  const allocated = await world.allocated();
  t.diagnostic(
    `killed ${kills} times: ${addresses.size} creators, ${allocated.length} allocations in the contract’s log`,
  );
  assert.equal(addresses.size, kills + 1);
  assert.deepEqual(
    new Map(allocated.map((one) => [one.to, one.amount])),
    new Map([...addresses.values()].map((to) => [to, 2n * PAYOUT_UNITS])),
  );
  assert.equal(allocated.length, addresses.size, 'nobody twice');
  const { rows } = await world.pool.query<{ id: string }>("select id from payonce.payouts where taken = 'paid'");
  assert.deepEqual(new Set(allocated.map((one) => one.payout)), new Set(rows.map((row) => row.id)));
  const lines = await readStatement(world.pool, {
    partnerId: world.partnerId,
    programme: 'p',
    creator: null,
    waiting: false,
    after: 0n,
    limit: 1_000,
  });
  assert.deepEqual(
    new Set(lines.map(({ line }) => [line.accrued, line.paid, line.in_flight, line.carried].join(' '))),
    new Set(['10 10 0 0']),
  );
  assert.deepEqual((await world.pool.query('select kind from payonce.cases where closed_at is null')).rows, []);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
