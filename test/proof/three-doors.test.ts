/*
 * Goal: three doors lead to one transfer whose outcome is unknown (the poller, an operator's ask-again, an operator's close
 * as absent), and whoever is second is told so at once (T8, T9). Method: 200 rounds with a pool of two connections, a real
 * database and a simulated bank that keeps its own books; in each round the winner's call is held up, and is let go only
 * after the others were answered. An observer beside the pool sees that no connection is held meanwhile.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startBank } from '../../sim/bank/bank.ts';
import { actNow } from '../../src/engine/act-now.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { watchOnce, sendOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { makePool } from '../../src/db/pool.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';

const ROUNDS = 200;
/** T8: two submissions and one inquiry. */
const CALLS_MAX = 3;
const HEAD_STARTS_MS = 9;
const DOORS = ['poller', 'ask', 'close'] as const;
type Door = (typeof DOORS)[number];

/** Holds up what goes through it while it is shut. */
class Gate {
  calls = 0;
  private shut: Promise<void> | null = null;
  private letGo: () => void = () => undefined;
  private arrived: () => void = () => undefined;
  close(): Promise<void> {
    this.calls = 0;
    this.shut = new Promise((resolve) => {
      this.letGo = resolve;
    });
    return new Promise((resolve) => {
      this.arrived = resolve;
    });
  }
  open(): void {
    this.shut = null;
    this.letGo();
  }
  async pass(): Promise<void> {
    this.calls += 1;
    this.arrived();
    await this.shut;
  }
}

test('three doors at once, 200 rounds: one advance, the others busy while it is held up, no connection held (req T8, T9)', async (t) => {
  // Every first answer is lost: before the effect in even rounds, after it in odd ones.
  const bank = await startBank({ profile: 'generic' });
  const gate = new Gate();
  const world = await makeBankWorld({
    label: 'doors',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
    config: { capabilities: { resendAfterMs: 0, decideWithinMs: 0 } },
    connectionsMax: 2,
    between: (rail) => ({
      ...rail,
      async send(...given) {
        await gate.pass();
        return rail.send(...given);
      },
      async look(...given) {
        await gate.pass();
        return rail.look(...given);
      },
    }),
  });
  const { rail } = world;
  const observer = makePool({
    url: world.url,
    ports: world.ports,
    log: silentLog,
    connectionsMax: 1,
    applicationName: 'observer',
  });
  t.after(async () => {
    await observer.end();
    await world.end();
    await bank.stop();
  });
  const [ann, bob] = [await world.person('ann'), await world.person('bob')];

  /** A sealed transfer whose answer was lost, with its case and the first person's proposal. */
  async function unknownOne(round: number): Promise<{ id: bigint; proposalId: string }> {
    const drop = bank.script({
      on: 'create',
      hitsMax: 1,
      fault: { kind: round % 2 === 0 ? 'lose_request' : 'lose_answer' },
    });
    await world.take(`round ${round}`);
    await sendOnce(world.engine, rail);
    drop();
    const { rows } = await world.pool.query<{ id: bigint }>('select max(id) as id from payonce.effects');
    const id = rows[0]?.id ?? -1n;
    const caseId = await openCase(world.pool, world.makeId, {
      kind: 'undecided',
      severity: 2,
      subjectKey: `effect:${id}`,
      effectId: id,
      summary: 'given by the test',
    });
    const { proposalId } = await propose(world.engine, ann, caseId, 'absent', { reason: 'not there' });
    await world.pool.query(
      "update payonce.effects set next_at = case when id = $1 then payonce.now() else payonce.now() + interval '1 hour' end where ended_at is null",
      [id],
    );
    return { id, proposalId };
  }

  async function through(door: Door, id: bigint, proposalId: string): Promise<'advanced' | 'busy'> {
    switch (door) {
      case 'poller':
        return (await watchOnce(world.engine, rail)) > 0 ? 'advanced' : 'busy';
      case 'ask': {
        const acted = await actNow(world.engine, bob, id, 'ask');
        assert.ok(acted.outcome === 'advanced' || acted.outcome === 'busy', acted.outcome);
        return acted.outcome;
      }
      case 'close':
        try {
          await approve(world.engine, bob, proposalId);
          return 'advanced';
        } catch (error) {
          if (error instanceof PayonceError && error.code === 'PO_BUSY') return 'busy';
          throw error;
        }
    }
  }

  const wins: Record<Door, number> = { poller: 0, ask: 0, close: 0 };
  let callsMax = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const { id, proposalId } = await unknownOne(round);
    const arrived = gate.close();
    const answered = new Map<Door, 'advanced' | 'busy'>();
    const order = DOORS.map((_, index) => DOORS[(index + round) % DOORS.length] ?? 'ask');
    let losers = 0;
    const walks: Promise<void>[] = [];
    const twoLost = Promise.withResolvers<void>();
    const walk = async (place: number, door: Door): Promise<void> => {
      // The poller has the shortest way to its claim: heads start between none and a few milliseconds, by the round.
      if (place > 0) await sleep(round % HEAD_STARTS_MS);
      const outcome = await through(door, id, proposalId);
      answered.set(door, outcome);
      if (outcome === 'busy' && (losers += 1) === 2) twoLost.resolve();
    };
    for (const [place, door] of order.entries()) walks.push(walk(place, door));
    await Promise.race([twoLost.promise, Promise.all(walks)]);
    await arrived;
    assert.deepEqual([...answered.values()], ['busy', 'busy'], `round ${round}: the losers answer while it is held up`);
    const { rows } = await observer.query<{ busy: bigint }>(
      "select count(*) as busy from pg_stat_activity where datname = current_database() and application_name <> 'observer' and state <> 'idle' and backend_type = 'client backend'",
    );
    assert.equal(rows[0]?.busy, 0n, `round ${round}: a connection is held`);
    gate.open();
    await Promise.all(walks);
    const winner = DOORS.find((door) => answered.get(door) === 'advanced') ?? assert.fail(`round ${round}: nobody`);
    wins[winner] += 1;
    callsMax = Math.max(callsMax, gate.calls);
    const out = (await bank.books.movements()).filter((one) => one.kind === 'out');
    assert.ok(out.length <= round + 1, `round ${round}: ${out.length} movements`);
  }
  t.diagnostic(
    `won by: ${DOORS.map((door) => `${door} ${wins[door]}`).join(', ')}; at most ${callsMax} calls an advance`,
  );
  assert.ok(callsMax <= CALLS_MAX);
  for (const door of DOORS) assert.ok(wins[door] > 0, `${door} never won: the race was none`);
  // Whatever waits is looked at until the bank shows it paid.
  bank.clock.advance(120_000);
  for (let pass = 0; pass < 4; pass += 1) {
    await world.pool.query(
      'update payonce.effects set next_at = payonce.now(), lease_until = null where ended_at is null',
    );
    while ((await watchOnce(world.engine, rail)) > 0);
  }
  const states = await world.pool.query<{ state: string; n: bigint }>(
    'select state, count(*) as n from payonce.effects group by state order by state',
  );
  t.diagnostic(states.rows.map((row) => `${row.state} ${row.n}`).join(', '));
  const out = (await bank.books.movements()).filter((one) => one.kind === 'out');
  assert.equal(new Set(out.map((one) => one.tx)).size, out.length);
  assert.ok(out.length <= ROUNDS);
  await assertBooksClean(world.pool);
});
