/* The critical pairs of payouts: an event counted twice, a threshold crossed by two, and what waited made by two. */
import assert from 'node:assert/strict';
import { accrue, type Accrued, payWaitingOnce } from '../../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../../support/books.ts';
import { eventsOf, makePayoutWorld } from '../../support/payout-scene.ts';
import { openStage, type Side } from './explore.ts';
import { race, type Races } from './race.ts';

export async function payoutRaces(): Promise<Races> {
  const world = await makePayoutWorld({ label: 'races payouts', fundUnits: 10n ** 14n });
  const stage = await openStage(world.url);
  await world.programme('p');
  let nth = 0;
  const accrueIn = (side: Side, items: readonly object[]): Promise<Accrued> =>
    accrue({ ...world.deps, pool: side.pool }, world.partnerId, items);
  const paid = async (creator: string): Promise<string> =>
    (await world.payouts())
      .filter((one) => one.creator === creator)
      .map((one) => one.amount)
      .join(' ');
  const fresh = async (): Promise<string> => {
    nth += 1;
    await world.creator(`creator-${nth}`);
    return `creator-${nth}`;
  };
  const races = [
    race(stage, {
      name: 'volume || the same volume again',
      async prepare() {
        const creator = await fresh();
        return { creator, items: eventsOf(creator, '100') };
      },
      left: (side, { items }) => accrueIn(side, items),
      right: (side, { items }) => accrueIn(side, items),
      async judge({ creator }, left, right) {
        assert.equal((left as Accrued).fresh + (right as Accrued).fresh, 1, 'counted once');
        assert.equal(await paid(creator), '10000000');
        return 'counted once, paid once';
      },
    }),
    race(stage, {
      name: 'volume over the threshold || other volume over it',
      prepare: fresh,
      left: (side, creator) => accrueIn(side, eventsOf(creator, '90')),
      right: (side, creator) => accrueIn(side, eventsOf(creator, '90')),
      async judge(creator) {
        assert.equal(await paid(creator), '18000000', 'one payout of both');
        return 'whoever came second crossed';
      },
    }),
    race(stage, {
      name: 'what waited is paid || what waited is paid',
      async prepare() {
        nth += 1;
        const creator = `creator-${nth}`;
        await world.accrue(eventsOf(creator, '100'));
        await world.creator(creator);
        return creator;
      },
      left: (side) => payWaitingOnce({ ...world.deps, pool: side.pool }),
      right: (side) => payWaitingOnce({ ...world.deps, pool: side.pool }),
      async judge(creator) {
        assert.equal(await paid(creator), '10000000');
        return 'made once';
      },
    }),
  ];
  return {
    races,
    check: () => assertBooksClean(world.pool),
    async end() {
      await stage.end();
      await world.end();
    },
  };
}
