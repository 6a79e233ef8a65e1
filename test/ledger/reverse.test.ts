/*
 * Goal: a correction is a new posting that names what it reverses, once. Method: reversals alone, twice and at once.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { reverse } from '../../src/ledger/reverse.ts';
import { type LedgerWorld, makeLedgerWorld, posting } from '../support/ledger-world.ts';

let world: LedgerWorld;
before(async () => {
  world = await makeLedgerWorld('ledger reverse');
});
after(() => world.end());

async function credited(key: string): Promise<{ account: bigint; postingId: bigint }> {
  const account = await world.account();
  const [verdict] = await world.post(posting(key, [world.house, -10n], [account, 10n]));
  assert(verdict?.verdict === 'posted');
  return { account, postingId: verdict.postingId };
}
const undo = (postingId: bigint, key: string) =>
  world.pool.tx('reverse', (tx) => reverse(tx, { postingId, key, reference: 'correction' }));

test('inv L8 req W16: a reversal is a new posting with the opposite entries that names its original', async () => {
  const { account, postingId } = await credited('r1');
  const verdict = await undo(postingId, 'ADJUST:r1');
  assert(verdict.verdict === 'posted');
  assert.equal((await world.balance(account)).balance, 0n);
  const { rows } = await world.pool.query('select reverses from payonce.postings where id = $1', [verdict.postingId]);
  assert.equal(rows[0]?.['reverses'], postingId);
  assert.equal((await world.balance(account)).seq, 2n, 'the original entry stays');
});

test('inv L8: a posting is reversed once: the same key again exists, another key is told of the first', async () => {
  const { account, postingId } = await credited('r2');
  const first = await undo(postingId, 'ADJUST:r2');
  assert(first.verdict === 'posted');
  const again = await undo(postingId, 'ADJUST:r2');
  assert.deepEqual(again, { verdict: 'exists', postingId: first.postingId, effectId: null });
  const other = await undo(postingId, 'ADJUST:r2 by somebody else');
  assert.deepEqual(other, { verdict: 'reversed_before', postingId: first.postingId, key: 'ADJUST:r2' });
  assert.equal((await world.balance(account)).balance, 0n);
});

test('inv L8: of eight reversals at once under eight keys one is booked', async () => {
  const { account, postingId } = await credited('r3');
  const verdicts = await Promise.all(Array.from({ length: 8 }, (_, nth) => undo(postingId, `ADJUST:r3:${nth}`)));
  assert.deepEqual(verdicts.map((one) => one.verdict).toSorted(), [
    'posted',
    ...Array<string>(7).fill('reversed_before'),
  ]);
  assert.equal((await world.balance(account)).balance, 0n);
});

test('a reversal may be reversed in its turn', async () => {
  const { account, postingId } = await credited('r4');
  const first = await undo(postingId, 'ADJUST:r4');
  assert(first.verdict === 'posted');
  assert.equal((await undo(first.postingId, 'ADJUST:r4 back')).verdict, 'posted');
  assert.equal((await world.balance(account)).balance, 10n);
});

test('a reversal that an account cannot pay is insufficient, and one of nothing is not found', async () => {
  const { account, postingId } = await credited('r5');
  await world.post(posting('r5 spent', [account, -1n], [world.house, 1n]));
  assert.deepEqual(await undo(postingId, 'ADJUST:r5'), { verdict: 'insufficient' });
  assert.deepEqual(await undo(999_999n, 'ADJUST:r6'), { verdict: 'not_found' });
});
