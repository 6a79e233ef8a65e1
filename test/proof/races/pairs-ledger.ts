/* The ledger's critical pairs: one key, one account's last money, one hold, two accounts crosswise. */
import assert from 'node:assert/strict';
import { type LedgerItem, post, type Verdict } from '../../../src/ledger/post.ts';
import { reverse } from '../../../src/ledger/reverse.ts';
import { assertLedgerClean, makeLedgerWorld, posting, words } from '../../support/ledger-world.ts';
import { openStage, type Side } from './explore.ts';
import { race, type Races } from './race.ts';

const postIn = async (side: Side, ...items: readonly LedgerItem[]): Promise<string> =>
  words(await side.pool.tx('post', (tx) => post(tx, items))).join(' ');

export async function ledgerRaces(): Promise<Races> {
  const world = await makeLedgerWorld('races ledger');
  const stage = await openStage(world.url);
  let nth = 0;
  const fresh = async (units: bigint): Promise<{ account: bigint; other: bigint; key: string }> => {
    nth += 1;
    return { account: await world.funded(units), other: await world.funded(units), key: `RACE:${nth}` };
  };
  const races = [
    race(stage, {
      name: 'post || post of one key',
      prepare: () => fresh(100n),
      left: (side, { account, key }) => postIn(side, posting(key, [account, -40n], [world.house, 40n])),
      right: (side, { account, key }) => postIn(side, posting(key, [account, -40n], [world.house, 40n])),
      async judge({ account }, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['exists', 'posted']);
        assert.equal((await world.balance(account)).balance, 60n);
        return 'booked once';
      },
    }),
    race(stage, {
      name: 'post || post of one account’s last money',
      prepare: () => fresh(100n),
      left: (side, { account, key }) => postIn(side, posting(`${key}:left`, [account, -60n], [world.house, 60n])),
      right: (side, { account, key }) => postIn(side, posting(`${key}:right`, [account, -60n], [world.house, 60n])),
      async judge({ account }, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['insufficient', 'posted']);
        assert.equal((await world.balance(account)).balance, 40n);
        return left === 'posted' ? 'the left one has it' : 'the right one has it';
      },
    }),
    race(stage, {
      name: 'hold || hold of one account’s last money',
      prepare: () => fresh(100n),
      left: (side, { account, key }) =>
        postIn(side, { kind: 'hold', holdKey: `${key}:left`, accountId: account, amount: 60n }),
      right: (side, { account, key }) =>
        postIn(side, { kind: 'hold', holdKey: `${key}:right`, accountId: account, amount: 60n }),
      async judge({ account }, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['held', 'insufficient']);
        assert.equal((await world.balance(account)).held, 60n);
        return left === 'held' ? 'the left one has it' : 'the right one has it';
      },
    }),
    race(stage, {
      name: 'hold posted || hold given back',
      async prepare() {
        const made = await fresh(100n);
        await world.post({ kind: 'hold', holdKey: made.key, accountId: made.account, amount: 60n });
        return made;
      },
      left: (side, { account, key }) =>
        postIn(side, { ...posting(`${key}:paid`, [account, -60n], [world.house, 60n]), closesHold: key }),
      right: (side, { key }) => postIn(side, { kind: 'void', holdKey: key }),
      async judge({ account, key }, left, right) {
        const { balance, held } = await world.balance(account);
        assert.equal(held, 0n);
        assert.equal(balance, left === 'posted' ? 40n : 100n);
        const { rows } = await world.pool.query<{ state: string }>('select state from payonce.holds where key = $1', [
          key,
        ]);
        return `${String(left)} and ${String(right)}: the hold is ${rows[0]?.state}`;
      },
    }),
    race(stage, {
      name: 'post from one to the other || post back again',
      prepare: () => fresh(100n),
      left: (side, { account, other, key }) => postIn(side, posting(`${key}:there`, [account, -60n], [other, 60n])),
      right: (side, { account, other, key }) => postIn(side, posting(`${key}:back`, [other, -60n], [account, 60n])),
      async judge({ account, other }, left, right) {
        assert.deepEqual([left, right], ['posted', 'posted'], 'no dead-lock, nobody refused');
        assert.deepEqual([(await world.balance(account)).balance, (await world.balance(other)).balance], [100n, 100n]);
        return 'both are booked';
      },
    }),
    race(stage, {
      name: 'a batch || the same batch the other way round',
      prepare: () => fresh(100n),
      left: (side, { account, other, key }) =>
        postIn(
          side,
          posting(`${key}:1`, [account, -10n], [world.house, 10n]),
          posting(`${key}:2`, [other, -10n], [world.house, 10n]),
        ),
      right: (side, { account, other, key }) =>
        postIn(
          side,
          posting(`${key}:2`, [other, -10n], [world.house, 10n]),
          posting(`${key}:1`, [account, -10n], [world.house, 10n]),
        ),
      async judge({ account, other }, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['exists exists', 'posted posted']);
        assert.deepEqual([(await world.balance(account)).balance, (await world.balance(other)).balance], [90n, 90n]);
        return 'booked once each';
      },
    }),
    race(stage, {
      name: 'reverse || reverse of one posting',
      async prepare() {
        const made = await fresh(100n);
        const [verdict] = await world.post(posting(made.key, [made.account, -40n], [world.house, 40n]));
        assert.ok(verdict?.verdict === 'posted');
        return { ...made, postingId: verdict.postingId };
      },
      left: (side, { key, postingId }) =>
        side.pool.tx('reverse', (tx) => reverse(tx, { key: `${key}:left`, reference: 'race', postingId })),
      right: (side, { key, postingId }) =>
        side.pool.tx('reverse', (tx) => reverse(tx, { key: `${key}:right`, reference: 'race', postingId })),
      async judge({ account }, left, right) {
        assert.deepEqual([left, right].map((one) => (one as Verdict).verdict).sort(), ['posted', 'reversed_before']);
        assert.equal((await world.balance(account)).balance, 100n);
        return 'reversed once';
      },
    }),
  ];
  return {
    races,
    check: () => assertLedgerClean(world.pool),
    async end() {
      await stage.end();
      await world.end();
    },
  };
}
