/*
 * Goal: a batch has the result of its items having come one after another, whatever they are. Method: random items in random
 * batches against a model of thirty lines that knows no batches; verdicts, balances, holds and deficits must agree.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import type { LedgerItem } from '../../src/ledger/post.ts';
import { assertLedgerClean, type LedgerWorld, makeLedgerWorld, words } from '../support/ledger-world.ts';

let world: LedgerWorld;
before(async () => {
  world = await makeLedgerWorld('ledger model');
});
after(() => world.end());

interface ModelAccount {
  balance: bigint;
  held: bigint;
  deficit: bigint;
  readonly floor: bigint | null;
}
interface Model {
  accounts: Map<bigint, ModelAccount>;
  keys: Set<string>;
  holds: Map<string, { accountId: bigint; amount: bigint; isOpen: boolean }>;
}

/** The meaning of one item, said plainly. */
function modelVerdict(model: Model, item: LedgerItem): string {
  const hold = item.kind === 'post' ? model.holds.get(item.closesHold ?? '') : model.holds.get(item.holdKey);
  const moves = new Map<bigint, { balance: bigint; held: bigint }>();
  const move = (accountId: bigint, balance: bigint, held: bigint): void => {
    const sum = moves.get(accountId) ?? { balance: 0n, held: 0n };
    moves.set(accountId, { balance: sum.balance + balance, held: sum.held + held });
  };
  if (item.kind === 'post') {
    if (model.keys.has(item.key)) return 'exists';
    if (item.closesHold !== undefined && hold?.isOpen !== true) return 'hold_gone';
    for (const entry of item.entries) move(entry.accountId, entry.amount, 0n);
  } else if (item.kind === 'hold') {
    if (hold !== undefined) return 'exists';
    move(item.accountId, 0n, item.amount);
  } else if (hold?.isOpen !== true) return 'hold_gone';
  if (item.kind !== 'hold' && hold?.isOpen === true) move(hold.accountId, 0n, -hold.amount);

  for (const [accountId, { balance, held }] of moves) {
    const account = model.accounts.get(accountId);
    assert(account !== undefined);
    const free = account.balance - account.held + balance - held;
    if (account.floor !== null && balance - held < 0n && free < account.floor - account.deficit) return 'insufficient';
  }
  for (const [accountId, { balance, held }] of moves) {
    const account = model.accounts.get(accountId);
    assert(account !== undefined);
    account.balance += balance;
    account.held += held;
    const missing = (account.floor ?? 0n) - (account.balance - account.held);
    if (account.deficit > missing) account.deficit = missing > 0n ? missing : 0n;
  }
  if (item.kind === 'post') model.keys.add(item.key);
  if (item.kind === 'hold')
    model.holds.set(item.holdKey, { accountId: item.accountId, amount: item.amount, isOpen: true });
  else if (hold !== undefined) hold.isOpen = false;
  return { post: 'posted', hold: 'held', void: 'voided' }[item.kind];
}

/** Few keys, holds and accounts, so that repetitions, closed holds and empty accounts come up all the time. */
const place = fc.nat(2);
const units = fc.bigInt(1n, 40n);
const arbitraryItem = fc.oneof(
  fc.record({
    kind: fc.constant('post' as const),
    key: fc.nat(14),
    from: place,
    to: place,
    amount: units,
    hold: fc.option(fc.nat(4)),
  }),
  fc.record({ kind: fc.constant('hold' as const), hold: fc.nat(4), from: place, amount: units }),
  fc.record({ kind: fc.constant('void' as const), hold: fc.nat(4) }),
);

test('a batch answers and leaves behind what its items would one after another', async () => {
  let run = 0;
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(arbitraryItem, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      fc.bigInt(0n, 30n),
      async (batches, hasDeficit, start) => {
        run += 1;
        const ids = [await world.funded(start), await world.funded(start), await world.account(null)];
        const model: Model = { accounts: new Map(), keys: new Set(), holds: new Map() };
        ids.forEach((id, nth) => {
          const floor = nth === 2 ? null : 0n;
          model.accounts.set(id, { balance: nth === 2 ? 0n : start, held: 0n, deficit: 0n, floor });
        });
        const first = ids[0] as bigint;
        if (hasDeficit) {
          await world.pool.query('update payonce.accounts set deficit = 20 where id = $1', [first]);
          const account = model.accounts.get(first);
          assert(account !== undefined);
          account.deficit = 20n;
        }
        for (const batch of batches) {
          const items = batch.map((one): LedgerItem => {
            const holdKey = (nth: number): string => `model:${run}:${nth}`;
            if (one.kind === 'void') return { kind: 'void', holdKey: holdKey(one.hold) };
            const from = ids[one.from] as bigint;
            if (one.kind === 'hold')
              return { kind: 'hold', holdKey: holdKey(one.hold), accountId: from, amount: one.amount };
            const to = ids[one.to === one.from ? (one.to + 1) % ids.length : one.to] as bigint;
            return {
              kind: 'post',
              key: `model:${run}:${one.key}`,
              reference: 'model',
              closesHold: one.hold === null ? undefined : holdKey(one.hold),
              entries: [
                { accountId: from, amount: -one.amount },
                { accountId: to, amount: one.amount },
              ],
            };
          });
          const expected = items.map((item) => modelVerdict(model, item));
          assert.deepEqual(words(await world.post(...items)), expected);
          for (const verdict of expected) seen.add(verdict);
        }
        for (const id of ids) {
          const { balance, held, deficit } = await world.balance(id);
          const { floor: _, ...expected } = model.accounts.get(id) as ModelAccount;
          assert.deepEqual({ balance, held, deficit }, expected);
        }
      },
    ),
    { numRuns: 150 },
  );
  assert.deepEqual([...seen].toSorted(), ['exists', 'held', 'hold_gone', 'insufficient', 'posted', 'voided']);
  await assertLedgerClean(world.pool);
});
