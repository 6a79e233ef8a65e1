/*
 * The incident of the realizations, replayed in virtual time (issue 4, show 1): a tick every ten seconds over items that take
 * up to 294 s, two processes, five nights, 62 realizations. Method: two engines over one database, each with a pool and a
 * clock of its own, the worst way of ticking (a new tick whatever the one before does); the book of the simulated chain,
 * which knows a transaction by its identity, counts. The incident's own loop stays beside it, as the counter-example.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { judgeNight, runNightly, tickOnce } from '../../src/flows/realizations/index.ts';
import { withoutOverlap } from '../../src/worker/loop.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeRealizeWorld, type RealizeWorld, SETTLEMENT } from '../support/realize-world.ts';
import { balanceOf } from '../support/world.ts';

const START = '2026-03-10T12:00:00+09:00';
const TICK_MS = 10_000;
const HOUR_MS = 3_600_000;
/** 62 in five nights. */
const NIGHTS = [13, 13, 12, 12, 12];
/** As it was: most take a few seconds, some 20, one 89, one 294. */
const TAKES_S = [4, 9, 20, 6, 294, 8, 20, 5, 89, 7, 20, 8, 4];

let world: RealizeWorld;
afterEach(() => world.end());

/** Numbers from 0 on, by the partner's name. */
const takesMs = (partnerId: string): number => (TAKES_S[Number(partnerId.slice(4)) % TAKES_S.length] ?? 0) * 1_000;

/** Begins a tick of each process every ten seconds, whatever the one before does, until nothing is left and all are done. */
async function tickUntil(ticks: readonly (() => Promise<unknown>)[], done: () => Promise<boolean>): Promise<void> {
  let running = 0;
  for (let rounds = 0; running > 0 || !(await done()); rounds += 1) {
    assert.ok(rounds < 2_000, 'it does not end');
    for (const tick of ticks) {
      running += 1;
      world.time.start(() =>
        tick().finally(() => {
          running -= 1;
        }),
      );
    }
    await world.time.run(TICK_MS);
  }
}

async function feesOf(night: number): Promise<void> {
  for (let nth = 0; nth < (NIGHTS[night] ?? 0); nth += 1)
    await world.fee(`par_${nth}`, 1_000n + BigInt(night * 100 + nth));
}

/** Five nights; answers their dates. */
async function replay(wrap: (tick: () => Promise<boolean>) => () => Promise<unknown>): Promise<string[]> {
  world = await makeRealizeWorld({ start: START, takesMs: (sealed) => takesMs(sealed.partnerId) });
  const processes = [await world.process(), await world.process(4_000)];
  const dates: string[] = [];
  const ticks = processes.map((engine) =>
    wrap(async () => {
      for (const night of await runNightly(world.nights(engine))) if (night.made.length > 0) dates.push(night.date);
      return (await tickOnce(engine)).advanced > 0;
    }),
  );
  for (let night = 0; night < NIGHTS.length; night += 1) {
    await feesOf(night);
    await world.time.run(14 * HOUR_MS);
    await tickUntil(ticks, async () => {
      const { rows } = await world.pool.query<{ open: bigint; made: bigint }>(
        `select count(*) filter (where ended_at is null) as open, count(*) as made from payonce.effects`,
      );
      const due = NIGHTS.slice(0, night + 1).reduce((sum, one) => sum + one, 0);
      return rows[0]?.open === 0n && rows[0].made === BigInt(due);
    });
    await world.time.set(new Date(Date.parse(START) + (night + 1) * 24 * HOUR_MS));
  }
  return dates;
}

async function assertOnceEach(dates: readonly string[]): Promise<void> {
  const { rows } = await world.pool.query<{ count: bigint; sum: bigint; partners: bigint }>(
    'select count(*), sum(amount), count(distinct partner_id) as partners from payonce.realizations',
  );
  assert.equal(rows[0]?.count, 62n);
  assert.equal(world.book.moves.size, 62, 'transfers on the chain');
  const moved = [...world.book.moves.values()].reduce((sum, one) => sum + one.amount, 0n);
  assert.equal(moved, rows[0].sum);
  assert.equal((await balanceOf(world, `custody:noop:${SETTLEMENT}`)).balance, -moved);
  assert.equal(dates.length, NIGHTS.length, 'each night was made once, by one of the two');
  await assertBooksClean(world.pool);
}

test('two processes tick every 10 s over items of up to 294 s: 62 realizations, 62 transfers, and the verdict passes because claims were lost (req R1, R3, R8, R17)', async (t) => {
  const dates = await replay(withoutOverlap);
  await assertOnceEach(dates);
  await world.scan();
  for (const date of dates) {
    const verdict = await judgeNight(world.pool, date);
    assert.equal(verdict.verdict, 'pass', JSON.stringify(verdict.faults));
    t.diagnostic(`${date}: ${verdict.realizations} realizations, ${verdict.claimsLost} claims lost to overlap`);
  }
});

test('the claim alone holds: without the guard ticks overlap themselves, in both processes, and each item moves once (req R1, R3)', async () => {
  await assertOnceEach(await replay((tick) => tick));
});

/** The incident's loop: reads what is PENDING, broadcasts each, and only then says so. */
async function incidentLoop(processCount: number, wrap: (tick: () => Promise<boolean>) => () => Promise<unknown>) {
  world = await makeRealizeWorld({ start: START });
  await world.pool.query(
    "create table public.realization (id int primary key, status text not null default 'PENDING')",
  );
  const sent: number[] = [];
  const tick = async (): Promise<boolean> => {
    const { rows } = await world.pool.query<{ id: number }>(
      "select id from public.realization where status = 'PENDING' order by id",
    );
    for (const { id } of rows) {
      sent.push(id);
      await world.time.sleep(takesMs(`par_${id % 100}`));
      await world.pool.query("update public.realization set status = 'COMPLETED' where id = $1", [id]);
    }
    return rows.length > 0;
  };
  const ticks = Array.from({ length: processCount }, () => wrap(tick));
  for (const [night, count] of NIGHTS.entries()) {
    await world.pool.query('insert into public.realization select $1 * 100 + n from generate_series(0, $2 - 1) n', [
      night,
      count,
    ]);
    await tickUntil(ticks, async () => {
      const open = await world.pool.query("select 1 from public.realization where status = 'PENDING'");
      return open.rowCount === 0;
    });
  }
  assert.equal(new Set(sent).size, 62);
  return sent.length;
}

test('the guard alone holds in one process and not in two (req R3)', async (t) => {
  assert.equal(await incidentLoop(1, withoutOverlap), 62);
  await world.end();
  const two = await incidentLoop(2, withoutOverlap);
  t.diagnostic(`with the guard and no claim two processes sent ${two} for 62`);
  assert.ok(two > 62);
});

test('the incident’s own loop, a timer that does not wait and no claim, sends more than there is (req R1, R3)', async (t) => {
  const sent = await incidentLoop(1, (tick) => tick);
  t.diagnostic(`one process sent ${sent} for 62`);
  assert.ok(sent > 62);
});
