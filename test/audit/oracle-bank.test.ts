/*
 * Goal: the judge of a bank's books is not blind. Method: transfers that were paid, refused and lost at a simulated bank, whose
 * books agree; then the books are made to tell something else, and the breach must be named.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Bank, startBank } from '../../sim/bank/bank.ts';
import { compareWithRail } from '../../src/audit/oracle.ts';
import { custodyKey, type Movement, type OracleOptions } from '../../src/audit/rail-books.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { bankBooks } from '../support/bank-books.ts';
import { type BankWorld, FUNDS, makeBankWorld } from '../support/bank-world.ts';

let bank: Bank;
let world: BankWorld;
let keys: Readonly<Record<'paid' | 'refused' | 'lost', string>>;

before(async () => {
  bank = await startBank({
    profile: 'generic',
    faults: [
      { on: 'create', calls: [2], fault: { kind: 'refuse', reason: 'account_closed' } },
      { on: 'create', calls: [3], fault: { kind: 'lose_request' } },
    ],
  });
  world = await makeBankWorld({
    label: 'oracle_bank',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
    config: { direct: true },
  });
  for (const key of ['paid', 'refused', 'lost']) {
    await world.take(key);
    await advanceOnce(world.engine, world.rail);
  }
  await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
  await advanceOnce(world.engine, world.rail);
  bank.transfers.giveBack({}, { units: 4_000n });
  await world.pool.query('update payonce.effects set watch_at = payonce.now() where watch_at is not null');
  await watchReleasedOnce(world.engine, world.rail);
  const { rows } = await world.pool.query<{ state: string; key: string }>(
    "select state, expect ->> 'key' as key from payonce.effects order by id",
  );
  assert.deepEqual(
    rows.map((row) => row.state),
    ['SETTLED', 'RELEASED', 'SEALED'],
  );
  const [paid, refused, lost] = rows.map((row) => row.key);
  assert.ok(paid !== undefined && refused !== undefined && lost !== undefined);
  keys = { paid, refused, lost };
});
after(async () => {
  await world.end();
  await bank.stop();
});

/** The names of what the judge finds in the bank's books as `change` tells them. */
async function judged(
  change: (out: Movement, back: Movement) => readonly Movement[],
  options: OracleOptions = {},
): Promise<string[]> {
  const books = bankBooks(bank, world.rail.name);
  const movements = await books.movements();
  const [out, back] = ['out', 'return'].map((kind) => movements.find((movement) => movement.kind === kind));
  assert.ok(out !== undefined && back !== undefined);
  const told = { ...books, movements: () => Promise.resolve(change(out, back)) };
  const breaches = await compareWithRail(world.pool, told, { wallets: ['acc_1'], drained: true, ...options });
  return breaches.map((breach) => breach.invariant).sort();
}

const another = (out: Movement, change: Partial<Movement>): Movement => ({ ...out, id: 'x:out', tx: 'x', ...change });

test('books that agree have no breach, to the unit (inv E1, E2, E4, E17, I2)', async () => {
  const openings = new Map([[custodyKey('acc_1', world.currency), FUNDS]]);
  assert.deepEqual(await judged((out, back) => [out, back], { openings }), []);
  assert.deepEqual(await judged((out, back) => [out, back], { openings: new Map() }), ['I2']);
  // A statement shows a reference and no key, and spells accounts with dashes or not at all.
  for (const to of ['110-123 0456', ''])
    assert.deepEqual(
      await judged((out, back) => [
        { ...out, key: null, to },
        { ...back, key: null },
      ]),
      [],
    );
});

test('a payment that nobody meant, or that is not what was sealed, is found (inv E2, E6, E7)', async () => {
  const stranger = { key: 'nobody', reference: 'nobody' };
  assert.deepEqual(await judged((out, back) => [out, back, another(out, stranger)]), ['E2']);
  // Known by the bank's own name alone.
  assert.deepEqual(await judged((out, back) => [{ ...out, key: null, reference: null }, back]), []);
  for (const change of [{ amount: 12_501n }, { asset: 'USD' }, { to: '999' }])
    assert.deepEqual(
      await judged((out, back) => [{ ...out, ...change }, back]),
      ['E2'],
      JSON.stringify(Object.keys(change)),
    );
  assert.deepEqual(await judged((out, back) => [{ ...out, at: new Date(0) }, back]), ['E6']);
  assert.deepEqual(await judged((out, back) => [{ ...out, key: 'another' }, back]), ['E7']);
});

test('a payment made twice, missing, or made although it was released is found (inv E1, E4)', async () => {
  assert.deepEqual(await judged((out, back) => [out, back, another(out, {})]), ['E1']);
  assert.deepEqual(await judged((_out, back) => [back]), ['E4']);
  assert.deepEqual(await judged((out, back) => [{ ...out, final: false }, back]), ['E4']);
  const refused = { key: keys.refused, reference: keys.refused };
  // Accepted is enough: it may still go.
  assert.deepEqual(await judged((out, back) => [out, back, another(out, { ...refused, final: false })]), ['E4']);
  const lost = { key: keys.lost, reference: keys.lost };
  assert.deepEqual(await judged((out, back) => [out, back, another(out, lost)]), ['E4']);
  assert.deepEqual(await judged((out, back) => [out, back, another(out, lost)], { drained: false }), []);
});

test('what came back beside what is booked is found (inv E17)', async () => {
  assert.deepEqual(await judged((out) => [out]), ['E17']);
  assert.deepEqual(await judged((out, back) => [out, { ...back, amount: 3_999n }]), ['E17']);
});
