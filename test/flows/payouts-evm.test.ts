/*
 * Goal: a creator is paid by a contract call, once, whatever the market does between plan and block. Method: a real chain whose
 * blocks are mined by hand; the contract's own event log says who got what.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { payWaitingOnce } from '../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makePayoutEvm, PAYOUT_UNITS, type PayoutEvm, PRICE } from '../support/payout-evm.ts';
import { balanceOf } from '../support/world.ts';

let world: PayoutEvm;
before(async () => {
  world = await makePayoutEvm('payouts_evm');
  await world.terms();
});
after(async () => world.end());

const statuses = async (): Promise<string[]> =>
  (await world.pool.query<{ status: string }>('select v.status from payonce.payout_states v order by v.id')).rows.map(
    (row) => row.status,
  );

test('a swap that the market moved away from reverts: gas is spent, nothing moved, the volume is payable again, and the second try pays (req P3, P8, case E8)', async (t) => {
  const addresses = await world.creators(['ann']);
  const before = await balanceOf(world);
  await world.earn(['ann']);
  // Planned, sealed and sent at today's price; mined at another one.
  await world.pass();
  await world.setPrice((PRICE * 9n) / 10n);
  await world.drain();
  assert.deepEqual(await statuses(), ['failed']);
  assert.deepEqual(await world.allocated(), []);
  const after = await balanceOf(world);
  assert.deepEqual(after, before);
  const gas = await world.pool.query<{ amount: bigint }>(
    "select e.amount from payonce.ledger_entries e join payonce.postings p on p.id = e.posting_id where p.idem_key like 'GAS:%' and e.amount > 0",
  );
  assert.equal(gas.rowCount, 1);
  const [pool] = (
    await world.pool.query<{ payable: bigint; waits: string }>(
      'select payable, wait_reason as waits from payonce.pools',
    )
  ).rows;
  assert.equal(pool?.payable, PAYOUT_UNITS);

  // Today's quote, for the next payout of the same volume.
  await world.terms({ quote: '1800000' });
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
  await world.drain();
  assert.deepEqual(await statuses(), ['failed', 'confirmed']);
  assert.deepEqual(
    (await world.allocated()).map((one) => [one.to, one.amount]),
    [[addresses.get('ann'), (PAYOUT_UNITS * 18n) / 10n]],
  );
  t.diagnostic(`gas of the reverted call: ${gas.rows[0]?.amount} wei`);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
