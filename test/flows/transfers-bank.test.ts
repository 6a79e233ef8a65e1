/*
 * Goal: a transfer whose answer is lost, late, odd or a lie is paid once or not at all, and what comes back is booked once.
 * Method: a real database, and a simulated bank behind a real socket that keeps its own books and is the judge; each
 * profile meets the same troubles.
 */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { custodyKey } from '../../src/audit/rail-books.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { createTransfers, makeTransfers, readTransfer, type TransferRequest } from '../../src/flows/transfers/index.ts';
import { readTransferById } from '../../src/flows/transfers/store.ts';
import { type BankRail, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { intentFor } from '../rails/bank-scene.ts';
import { bankBooks } from '../support/bank-books.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

const KEYED = ['generic', 'stripe', 'increase'] as const;
const ALL = [...KEYED, 'unkeyed'] as const;
type Name = (typeof ALL)[number];

const AMOUNT = 12_500n;
const FEE = 100n;
const FUNDS = 1_000_000n;
/** Lateness and a little: the key may be used again for this little only. */
const KEY_WINDOW_MS = 400;
const LATENESS_MS = 30 * 60_000;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Scene {
  readonly bank: Bank;
  readonly world: World;
  readonly rail: BankRail;
  request(key: string, change?: { repays?: string }): TransferRequest;
  /** Another configuration of the same rail, as after a restart. */
  restart(change: RailChange): { world: World; rail: BankRail };
}

interface RailChange {
  readonly direct?: boolean;
  readonly retentionMs?: number;
  readonly decideWithinMs?: number;
  readonly credential?: string;
}

async function scene(
  name: Name,
  faults: BankOptions['faults'] = [],
  change: RailChange = {},
  more: Partial<BankOptions> = {},
): Promise<Scene> {
  const profile = PROFILES.find((one) => one.name === name) ?? assert.fail(name);
  const bank = await startBank({ profile: name, faults, ...more });
  closing.push(() => bank.stop());
  const rails: BankRail[] = [];
  const { asset, payee } = intentFor(profile);
  assert.ok(payee !== null);
  const makeRail = (one: RailChange, ports: World['ports']): BankRail => {
    const rail = makeBankRail(
      {
        name: `bank:${name}`,
        profile,
        baseUrl: bank.url,
        account: 'acc_1',
        credential: { id: one.credential ?? 'cred_1', secret: () => bank.credentials.current() },
        deployment: 'test',
        direct: one.direct ?? true,
        ...(one.retentionMs === undefined ? {} : { narrower: { retentionMs: one.retentionMs } }),
        capabilities: {
          resendAfterMs: 0,
          ...(one.decideWithinMs === undefined ? {} : { decideWithinMs: one.decideWithinMs }),
        },
      },
      { ports, http: { timeoutMs: 2_000 } },
    );
    rails.push(rail);
    return rail;
  };
  closing.push(() => Promise.all(rails.map((rail) => rail.close())));
  const world = await makeWorld({
    label: 'transfers',
    rails: (ports) => [makeRail(change, ports)],
    flows: (chart) => [makeTransfers(chart)],
    chain: `bank:${name}`,
    contract: asset.code,
    assetCode: asset.code,
    decimals: asset.decimals,
    wallet: 'acc_1',
    fundUnits: FUNDS,
    feeFlat: FEE,
  });
  closing.push(() => world.end());
  const rail = rails[0] ?? assert.fail();
  return {
    bank,
    world,
    rail,
    request(key, { repays } = {}) {
      const read = readTransfer((input) => rail.readPayee(input), {
        partnerId: world.partnerId,
        idempotencyKey: key,
        fingerprint: `body of ${key}`,
        externalId: null,
        assetId: world.assetId,
        amount: AMOUNT,
        ...payee,
        ...(repays === undefined ? {} : { repays }),
      });
      return read.ok ? read.request : assert.fail(JSON.stringify(read.faults));
    },
    restart(one) {
      const again = makeRail(one, world.ports);
      return { world: { ...world, engine: { ...world.engine, rails: new Map([[again.name, again]]) } }, rail: again };
    },
  };
}

async function take(one: Scene, key = 'one', change: { repays?: string } = {}): Promise<string> {
  const [created] = await createTransfers(one.world, [one.request(key, change)]);
  return created?.outcome === 'created' ? created.id : assert.fail(JSON.stringify(created));
}

async function pass({ world, rail }: { world: World; rail: BankRail }, times = 1): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, rail);
  }
}

async function statusOf(one: Scene, id: string): Promise<string | undefined> {
  return (await readTransferById(one.world.pool, one.world.partnerId, id))?.status;
}

async function outOf(bank: Bank): Promise<readonly { amount: bigint }[]> {
  return (await bank.books.movements()).filter((movement) => movement.kind === 'out');
}

async function openCases(one: Scene): Promise<string[]> {
  const { rows } = await one.world.pool.query<{ kind: string }>(
    'select kind from payonce.cases where closed_at is null order by kind',
  );
  return rows.map((row) => row.kind);
}

async function eventsOf(one: Scene): Promise<string[]> {
  const { rows } = await one.world.pool.query<{ type: string }>('select type from payonce.events order by id');
  return rows.map((row) => row.type.replace('transfer.', ''));
}

/** Our invariants, and the bank's own books beside them. `rests`: nothing is on its way, so custody must agree to the unit. */
async function assertClean({ world, bank, rail }: Scene, rests = false): Promise<void> {
  const books = bankBooks(bank, rail.name);
  const { asset } = intentFor(rail.profile);
  const openings = rests ? { openings: new Map([[custodyKey(world.wallet, asset.code), FUNDS]]), drained: true } : {};
  await assertBooksClean(world.pool, { books, wallets: [world.wallet], ...openings });
}

/** The bank's books and ours: one movement of the right amount, one debit, nothing held. */
async function assertPaidOnce(one: Scene, id: string): Promise<void> {
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(
    (await outOf(one.bank)).map((movement) => movement.amount),
    [AMOUNT],
  );
  assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - AMOUNT - FEE, held: 0n });
  await assertClean(one, true);
}

/** Nothing was decided: the money is held, and the partner was told no end. */
async function assertUndecided(one: Scene, id: string): Promise<void> {
  assert.ok(['processing', 'in_review'].includes((await statusOf(one, id)) ?? ''), await statusOf(one, id));
  assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: AMOUNT + FEE });
  assert.ok((await outOf(one.bank)).length <= 1);
  await assertClean(one);
}

for (const name of ALL) {
  describe(name, { concurrency: 1 }, () => {
    test('a transfer is paid once, told once, and debited with its fee (req T1)', async () => {
      const one = await scene(name);
      const id = await take(one);
      await pass(one);
      one.bank.clock.advance(120_000);
      await pass(one, 3);
      await assertPaidOnce(one, id);
      assert.equal(one.bank.calls.create, 1, 'a look settles it; nothing is asked again');
      assert.deepEqual(await eventsOf(one), ['created', 'confirmed']);
    });

    test('a wrong account that is refused at once fails at once and gives the whole hold back', async () => {
      const one = await scene(name, [], {}, { otherAccounts: 'unknown' });
      const id = await take(one);
      await pass(one);
      assert.equal(await statusOf(one, id), 'failed');
      assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 0n });
      assert.deepEqual(await outOf(one.bank), []);
      assert.deepEqual(await eventsOf(one), ['created', 'failed']);
      const days = await one.world.pool.query<{ amount: bigint }>('select amount from payonce.day_totals');
      assert.deepEqual(days.rows, [{ amount: 0n }]);
      await pass(one, 2);
      assert.equal(one.bank.calls.create, 1);
      await assertClean(one);
    });

    test('what comes back later is booked once however often it is told, flags its payee and is not sent again (case M1)', async () => {
      const one = await scene(name);
      const id = await take(one);
      await pass(one);
      one.bank.clock.advance(120_000);
      await pass(one, 3);
      await assertPaidOnce(one, id);
      const isPart = name === 'generic' || name === 'unkeyed';
      one.bank.transfers.giveBack({}, { reports: 2, ...(isPart ? { units: 5_000n, feeUnits: 500n } : {}) });
      for (let look = 0; look < 3; look += 1) {
        await one.world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
        assert.equal(await watchReleasedOnce(one.world.engine, one.rail), 1);
      }
      const back = isPart ? 4_500n : AMOUNT;
      assert.equal(await statusOf(one, id), 'returned');
      assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - AMOUNT - FEE + back, held: 0n });
      const returns = await one.world.pool.query<{ amount: bigint; fee: bigint }>(
        'select amount, fee from payonce.returns',
      );
      assert.deepEqual(returns.rows, [isPart ? { amount: 5_000n, fee: 500n } : { amount: AMOUNT, fee: 0n }]);
      assert.deepEqual(await eventsOf(one), ['created', 'confirmed', 'returned']);
      assert.equal(one.bank.calls.create, 1, 'nothing is sent again');
      assert.deepEqual(await openCases(one), []);
      const next = await readTransferById(one.world.pool, one.world.partnerId, await take(one, 'two'));
      assert.equal(next?.payeeFlagged, true);
      await assertClean(one, true);
    });
  });
}

for (const name of KEYED) {
  describe(`${name}, asked again`, { concurrency: 1 }, () => {
    for (const [what, kind] of [
      ['lost after its effect', 'lose_answer'],
      ['lost before its effect', 'lose_request'],
    ] as const) {
      test(`an answer ${what}: the same key and body again, one movement (case B7, C1, req T2, T3)`, async () => {
        const one = await scene(name, [
          { on: 'create', calls: [1], fault: { kind } },
          { on: 'look', hitsMax: 6, fault: { kind: 'blind' } },
        ]);
        const id = await take(one);
        await pass(one);
        await assertUndecided(one, id);
        assert.equal((await outOf(one.bank)).length, kind === 'lose_answer' ? 1 : 0);
        await pass(one);
        assert.equal(one.bank.calls.create, 2);
        assert.equal(one.bank.counts.replayed ?? 0, kind === 'lose_answer' ? 1 : 0);
        one.bank.heal();
        await pass(one, 3);
        await assertPaidOnce(one, id);
      });
    }

    test('look-ups that find nothing for long change nothing, and the yes after them settles (case B3, req T16)', async () => {
      const one = await scene(name, [
        { on: 'create', calls: [1], fault: { kind: 'lose_answer' } },
        { on: 'create', calls: [2, 3, 4, 5, 6, 7], fault: { kind: 'http', status: 503 } },
        { on: 'look', fault: { kind: 'blind' } },
      ]);
      const id = await take(one);
      for (let tick = 0; tick < 6; tick += 1) {
        await pass(one);
        one.bank.clock.advance(3_600_000);
        await assertUndecided(one, id);
      }
      assert.deepEqual(await openCases(one), []);
      one.bank.heal();
      await pass(one);
      await assertPaidOnce(one, id);
    });

    test('a key that may be forgotten by now is not sent again: a case, and the money stays held (case C3, req T7)', async () => {
      const one = await scene(
        name,
        [
          { on: 'create', calls: [1], fault: { kind: 'lose_answer' } },
          { on: 'look', fault: { kind: 'blind' } },
        ],
        { retentionMs: LATENESS_MS + KEY_WINDOW_MS, decideWithinMs: KEY_WINDOW_MS },
      );
      const id = await take(one);
      await pass(one);
      await sleep(KEY_WINDOW_MS + 100);
      one.bank.clock.advance(25 * 3_600_000);
      await pass(one, 3);
      assert.equal(one.bank.calls.create, 1);
      assert.deepEqual(await openCases(one), ['undecided']);
      await assertUndecided(one, id);
      one.bank.heal();
      await pass(one);
      await assertPaidOnce(one, id);
      assert.deepEqual(await openCases(one), [], 'the yes closes the case');
    });

    test('in progress, three times over, is no answer: asked again until it is accepted, once (case B11)', async () => {
      const one = await scene(name, [
        { on: 'create', calls: [1, 2, 3], fault: { kind: 'conflict', meaning: 'in_progress', effect: false } },
      ]);
      const id = await take(one);
      for (let tick = 0; tick < 3; tick += 1) {
        await pass(one);
        await assertUndecided(one, id);
      }
      await pass(one, 3);
      await assertPaidOnce(one, id);
      assert.equal(one.bank.counts.conflict_in_progress, 3);
    });

    test('a rotated credential withholds the send; looks go on and settle it (rails.md §0.4)', async () => {
      const one = await scene(name, [
        { on: 'create', calls: [1], fault: { kind: 'lose_answer' } },
        { on: 'look', fault: { kind: 'blind' } },
      ]);
      const id = await take(one);
      await pass(one);
      one.bank.credentials.rotate();
      const after = one.restart({ credential: 'cred_2' });
      await pass(after, 3);
      assert.equal(one.bank.calls.create, 1);
      await assertUndecided(one, id);
      one.bank.heal();
      await pass(after);
      await assertPaidOnce(one, id);
    });
  });
}

test('a bank without keys is asked once: after an unknown only looks, then a case, and a late look settles it (case B15, req T15)', async () => {
  const one = await scene('unkeyed', [{ on: 'create', calls: [1], fault: { kind: 'lose_answer' } }], {
    decideWithinMs: 300,
  });
  const id = await take(one);
  await pass(one);
  await sleep(350);
  await pass(one, 3);
  assert.equal(one.bank.calls.create, 1);
  assert.deepEqual(await openCases(one), ['undecided']);
  await assertUndecided(one, id);
  one.bank.clock.advance(120_000);
  await pass(one);
  await assertPaidOnce(one, id);
  assert.deepEqual(await openCases(one), []);
});

test('a return that is seen before anybody saw the success settles and returns in one transaction (case M1)', async () => {
  const one = await scene('generic', [
    { on: 'create', calls: [1], fault: { kind: 'lose_answer' } },
    { on: 'look', fault: { kind: 'blind' } },
  ]);
  const id = await take(one);
  await pass(one);
  one.bank.transfers.giveBack({}, {});
  one.bank.heal();
  await pass(one);
  assert.equal(await statusOf(one, id), 'returned');
  assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - FEE, held: 0n });
  assert.deepEqual(await eventsOf(one), ['created', 'confirmed', 'returned']);
  await assertClean(one);
});

test('a refusal that may have a twin on its way is told as failed only after lateness and a fresh look (req T5, T6)', async () => {
  const one = await scene('generic', [], { direct: false }, { otherAccounts: 'unknown' });
  const id = await take(one);
  await pass(one, 2);
  assert.equal(await statusOf(one, id), 'processing');
  assert.deepEqual(await eventsOf(one), ['created', 'processing']);
  await assertUndecided(one, id);
  await one.world.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
  await pass(one);
  assert.equal(await statusOf(one, id), 'failed');
  assert.equal(one.bank.calls.create, 1);
  assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 0n });
  await assertClean(one);
});

test('what failed is paid again by a new transfer that names it, once (case M1)', async () => {
  const one = await scene('generic', [], {}, { otherAccounts: 'unknown' });
  const id = await take(one);
  await pass(one);
  const again = await take(one, 'two', { repays: id });
  assert.equal((await readTransferById(one.world.pool, one.world.partnerId, again))?.repays, id);
  const refused = await createTransfers(one.world, [
    one.request('three', { repays: id }),
    one.request('four', { repays: again }),
    one.request('five', { repays: 'tr_nobody' }),
  ]);
  assert.deepEqual(
    refused.map((each) => (each.outcome === 'refused' ? each.problem.detail : each.outcome)),
    [
      `This cannot be paid again: ${again} pays it again already`,
      'This cannot be paid again: it is pending',
      'This cannot be paid again: there is no such transfer',
    ],
  );
  await assertClean(one);
});

test('a refusal for want of balance that the bank keeps under the key asks a person; topping up sends nothing (req T12)', async () => {
  const one = await scene('stripe', [], {}, { balance: 0n });
  const id = await take(one);
  await pass(one);
  await assertUndecided(one, id);
  await pass(one);
  assert.equal(one.bank.counts.replayed, 1);
  assert.equal(await statusOf(one, id), 'in_review');
  assert.deepEqual(await openCases(one), ['after_release']);
  one.bank.balance.set(1_000_000n);
  await pass(one, 3);
  assert.equal(one.bank.calls.create, 2);
  assert.deepEqual(await outOf(one.bank), []);
  assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 0n });
  await assertClean(one);
});
