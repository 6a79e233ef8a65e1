/*
 * Goal: a worker or a provider that stands still and goes on later pays nothing twice. A worker is stopped (SIGSTOP) between
 * seal and send, and continued after its lease; the provider's server is stopped, our client gives up, and the server goes on
 * and executes requests of clients that are long gone. Method: real processes on both sides, a real database; the bank's own
 * books are the judge.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { type BankProcess, bankProcess } from '../support/bank-process.ts';
import { AMOUNT, type BankWorld, FUNDS, makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';
import { processesOn, type Worker, type WorkerStarter } from '../support/processes.ts';
import { balanceOf } from '../support/world.ts';

const GIVE_UP_MS = 700;
const LEASE_MS = 2_000;
const WAIT_MS_MAX = 30_000;
/** The provider without keys shows a transfer only after a while. */
const LOOK_LAG_MS = 120_000;
const ROUNDS = 2;
type Name = 'generic' | 'unkeyed';

interface Scene {
  readonly bank: BankProcess;
  readonly world: BankWorld;
  readonly workers: WorkerStarter;
}

async function scene(t: TestContext, name: Name): Promise<Scene> {
  const bank = await bankProcess({ profile: name });
  const world = await makeBankWorld({
    label: 'stopped',
    profile: name,
    url: bank.url,
    secret: () => bank.secret,
    config: { deployment: 'proof', direct: true, capabilities: { resendAfterMs: 0, decideWithinMs: 0 } },
    timeoutMs: GIVE_UP_MS,
  });
  const workers = await processesOn(
    world.url,
    {
      chains: [],
      banks: [
        {
          name: 'main',
          profile: name,
          baseUrl: bank.url,
          account: world.wallet,
          credential: { id: 'cred_1', secretFrom: 'PAYONCE_BANK_PROOF' },
          direct: true,
          answerWithinMs: GIVE_UP_MS,
          lookEveryMs: 100,
          resendAfterMs: 100,
          assets: [
            {
              code: world.currency,
              decimals: 0,
              transfer: { min: '1', max: '1000000', dayMax: '100000000', feeFlat: '0', feeBasisPoints: 0 },
            },
          ],
        },
      ],
    },
    { PAYONCE_BANK_PROOF: bank.secret, PAYONCE_DEPLOYMENT: 'proof' },
  );
  t.after(async () => {
    await workers.stopAll();
    await world.end();
    await bank.end();
  });
  return { bank, world, workers };
}

async function until(what: string, holds: () => Promise<boolean>, worker?: Worker): Promise<void> {
  const deadline = Date.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${what}; last lines:\n${worker?.lines.slice(-5).join('\n') ?? ''}`);
    await sleep(50);
  }
}

/** `T` in /proc: stopped by a signal. */
async function isStopped(worker: Worker): Promise<boolean> {
  const stat = await readFile(`/proc/${worker.process.pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
}

async function endInGoodOrder(list: readonly Worker[]): Promise<void> {
  for (const worker of list) {
    await until('it works', () => Promise.resolve(worker.lines.some((line) => line.includes('payonce works'))), worker);
    worker.process.kill('SIGTERM');
    assert.deepEqual(await worker.gone, { code: 0, signal: null }, worker.lines.slice(-5).join('\n'));
  }
}

async function stateOf({ world }: Scene, subject: string): Promise<string | undefined> {
  const { rows } = await world.pool.query<{ state: string }>(
    'select state from payonce.effects where subject_id = $1 order by seq desc limit 1',
    [subject],
  );
  return rows[0]?.state;
}

async function kindsOfCases({ world }: Scene): Promise<string[]> {
  const { rows } = await world.pool.query<{ kind: string }>(
    'select distinct kind from payonce.cases where closed_at is null order by kind',
  );
  return rows.map((row) => row.kind);
}

async function pass({ world }: Scene, times = 1): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await world.pool.query(
      'update payonce.effects set next_at = payonce.now(), lease_until = null where ended_at is null',
    );
    await advanceOnce(world.engine, world.rail);
  }
}

test('a worker stopped between seal and send, and continued after its lease, sends nothing any more (case B15, req T1, inv E14)', async (t) => {
  const one = await scene(t, 'generic');
  for (let round = 0; round < ROUNDS; round += 1) {
    const id = await one.world.take(`round ${round}`);
    const stopped = one.workers.start({ cut: 'db:/commit seal/:1:stop', leaseMs: LEASE_MS });
    await until('it stops after the seal', () => isStopped(stopped), stopped);
    assert.equal(await stateOf(one, id), 'SEALED');
    assert.equal((await one.bank.paid()).length, round, 'nothing has left');
    const other = one.workers.start({ leaseMs: LEASE_MS });
    await until('another worker pays it', async () => (await stateOf(one, id)) === 'SETTLED', other);
    assert.equal((await one.bank.paid()).length, round + 1);
    stopped.process.kill('SIGCONT');
    await sleep(1_000);
    assert.equal((await one.bank.paid()).length, round + 1, 'the one that was stopped sends nothing');
    await endInGoodOrder([stopped, other]);
    const { rows } = await one.world.pool.query<{ sends: bigint; answers: bigint }>(
      `select sum(send_count) as sends, (select count(*) from payonce.effect_answers where operation = 'send') as answers
       from payonce.effects where subject_id = $1`,
      [id],
    );
    t.diagnostic(`round ${round}: permissions ${rows[0]?.sends}, answers to sends so far ${rows[0]?.answers}`);
  }
  assert.equal(new Set(await one.bank.paid()).size, ROUNDS);
  await assertBooksClean(one.world.pool);
});

test('without keys the one that was stopped sends nothing, nor does anybody else: a person decides (req T15)', async (t) => {
  const one = await scene(t, 'unkeyed');
  const id = await one.world.take('only');
  const stopped = one.workers.start({ cut: 'db:/commit seal/:1:stop', leaseMs: LEASE_MS });
  await until('it stops after the seal', () => isStopped(stopped), stopped);
  const other = one.workers.start({ leaseMs: LEASE_MS });
  await sleep(LEASE_MS * 2);
  stopped.process.kill('SIGCONT');
  await sleep(1_000);
  assert.deepEqual(await one.bank.paid(), []);
  assert.equal(await stateOf(one, id), 'SEALED');
  assert.equal((await balanceOf(one.world)).held, AMOUNT);
  await endInGoodOrder([stopped, other]);
  await pass(one);
  assert.deepEqual(await kindsOfCases(one), ['undecided']);
  await assertBooksClean(one.world.pool);
});

for (const name of ['generic', 'unkeyed'] as const) {
  test(`a server that stood still executes requests of clients long gone, and pays once: ${name} (case B2, B10, req T1, T2)`, async (t) => {
    const one = await scene(t, name);
    const id = await one.world.take('only');
    one.bank.stop();
    // Our client gives up each time; with keys the same bytes are sent again.
    await pass(one, 3);
    assert.equal(await stateOf(one, id), 'SEALED');
    assert.equal((await balanceOf(one.world)).held, AMOUNT);
    one.bank.resume();
    await until('it executes what it was asked', async () => (await one.bank.paid()).length > 0);
    await one.bank.advance(LOOK_LAG_MS);
    await until('it settles', async () => {
      await pass(one);
      return (await stateOf(one, id)) === 'SETTLED';
    });
    assert.equal((await one.bank.paid()).length, 1);
    const sends = (await one.world.pool.query<{ n: number }>('select max(send_count) as n from payonce.effects'))
      .rows[0];
    t.diagnostic(`${name}: ${sends?.n} permissions to send, 1 movement`);
    assert.equal((sends?.n ?? 0) > 1, name === 'generic');
    await assertBooksClean(one.world.pool);
  });
}

test('while the server stands still two persons’ word frees nothing, however long: it goes on, and the one payment settles (case B1, B4, req T6, T11, inv E11)', async (t) => {
  const one = await scene(t, 'generic');
  const { world } = one;
  const id = await world.take('only');
  one.bank.stop();
  await pass(one);
  const [ann, bob] = [await world.person('ann'), await world.person('bob')];
  const { rows } = await world.pool.query<{ id: bigint }>('select id from payonce.effects');
  const effectId = rows[0]?.id ?? -1n;
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${effectId}`,
    effectId,
    summary: 'given by the test',
  });
  const { proposalId } = await propose(world.engine, ann, caseId, 'absent', { reason: 'not on the statement' });
  assert.equal((await approve(world.engine, bob, proposalId)).outcome, 'done');
  // Longer than any lateness: they look at its statement again, and it still cannot be asked.
  await world.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
  const again = await propose(world.engine, ann, caseId, 'absent', { reason: 'still not there' });
  const outcome = await approve(world.engine, bob, again.proposalId);
  assert.equal(outcome.outcome, 'void', 'their word beside an unreadable look frees nothing');
  assert.equal(await stateOf(one, id), 'SEALED');
  assert.deepEqual(await balanceOf(world), { balance: FUNDS, held: AMOUNT });
  one.bank.resume();
  await until('it executes what it was asked long ago', async () => (await one.bank.paid()).length === 1);
  await until('it settles', async () => {
    await pass(one);
    return (await stateOf(one, id)) === 'SETTLED';
  });
  assert.equal((await one.bank.paid()).length, 1);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT, held: 0n });
  await assertBooksClean(world.pool);
});
