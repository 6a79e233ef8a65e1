/* The engine's critical pairs: claims, seals, ends, testimony and re-opening, on the rail where nothing moves. */
import assert from 'node:assert/strict';
import { cancelWithdrawal } from '../../../src/flows/withdrawals/index.ts';
import { raiseSends } from '../../../src/engine/raise.ts';
import { record } from '../../../src/engine/record.ts';
import { reopenOnce } from '../../../src/engine/reopen.ts';
import { sealPlanned } from '../../../src/engine/seal.ts';
import { claimOne, claimPending, claimSealed } from '../../../src/engine/claims.ts';
import { type EffectRow, loadEffects } from '../../../src/engine/store.ts';
import { assertBooksClean } from '../../support/books.ts';
import { effectOf, makeNoopWorld, railOf, sequenced } from '../../engine/noop-scene.ts';
import type { World } from '../../support/world.ts';
import { abandoned, assertPaidOnce, fateOf, planned, released, SEND_FOR_MS, seen, sealed } from './effects.ts';
import { openStage, type Side, type Stage } from './explore.ts';
import { engineOf, race, type Race, type Races } from './race.ts';

const FUNDS = 10n ** 14n;
const LEASE_MS = 60_000;
/** Refused before anything was done with it: the one no that ends at once on a rail that promises it. */
const REFUSED = {
  objectId: null,
  refusal: { stage: 'after_key_check', storedUnderKey: true, replayed: false, final: true, atOnce: true },
} as const;

const sizeOf = (value: unknown): number => (value as { size?: number }).size ?? (value as unknown[]).length;

export async function engineRaces(): Promise<Races> {
  const world = await makeNoopWorld(
    {},
    { capabilities: { refusedAtOnceCounts: true }, world: { label: 'races engine', fundUnits: FUNDS } },
  );
  const chain = await makeNoopWorld(
    {},
    { world: { label: 'races chain', fundUnits: FUNDS, wallets: ['wallet-1'] }, change: sequenced(0n) },
  );
  const [stage, chainStage] = [await openStage(world.url), await openStage(chain.url)];
  return {
    races: [...claims(world, stage), ...seals(world, stage), nonces(chain, chainStage), ...ends(world, stage)],
    async check() {
      await assertBooksClean(world.pool);
      await assertBooksClean(chain.pool);
    },
    async end() {
      await stage.end();
      await chainStage.end();
      await world.end();
      await chain.end();
    },
  };
}

function claims(world: World, stage: Stage): Race[] {
  const watcher = (side: Side): Promise<bigint[]> =>
    side.pool.tx('claim sealed', (tx) => claimSealed(tx, 'noop', 10, LEASE_MS));
  const sender = (side: Side): Promise<bigint[]> =>
    side.pool.tx('claim pending', (tx) => claimPending(tx, 'noop', [{ signer: world.wallet, room: 10 }], LEASE_MS));
  const oneWinner = (_: EffectRow, left: unknown, right: unknown): Promise<string> => {
    assert.equal(sizeOf(left) + sizeOf(right), 1, 'one has it');
    return Promise.resolve(sizeOf(left) === 1 ? 'the left one has it' : 'the right one has it');
  };
  return [
    race(stage, {
      name: 'claim || claim of what is sealed',
      prepare: async () => abandoned(world, await sealed(world)),
      left: watcher,
      right: watcher,
      judge: oneWinner,
    }),
    race(stage, {
      name: 'claim || claim of what is pending',
      prepare: async () => abandoned(world, await planned(world)),
      left: sender,
      right: sender,
      judge: oneWinner,
    }),
    race(stage, {
      name: 'a person’s claim || a worker’s claim',
      prepare: async () => abandoned(world, await sealed(world)),
      left: async (side, effect) =>
        (await side.pool.tx('claim', (tx) => claimOne(tx, effect.id, LEASE_MS))) === 'claimed' ? [effect.id] : [],
      right: watcher,
      judge: oneWinner,
    }),
  ];
}

function seals(world: World, stage: Stage): Race[] {
  const rail = railOf(world);
  const seal = (side: Side, effect: EffectRow): ReturnType<typeof sealPlanned> =>
    sealPlanned(side.pool, rail, [{ effect, plan: {} }], SEND_FOR_MS);
  return [
    race(stage, {
      name: 'seal || cancel',
      prepare: () => planned(world),
      left: seal,
      right: (side, effect) =>
        cancelWithdrawal(engineOf(world.engine, side), world.partnerId, effect.subjectId, 'partner'),
      async judge(effect, left, right) {
        const { states, held } = await fateOf(world, effect.id);
        assert.equal(sizeOf(left) === 1, states === 'SEALED');
        assert.equal(right, states === 'SEALED' ? 'too_late' : 'cancelled');
        assert.equal(held, states === 'SEALED' ? 1 : 0);
        return states === 'SEALED' ? 'sealed, the cancel is too late' : 'cancelled, nothing is sealed';
      },
    }),
    race(stage, {
      name: 'seal under a lost lease || seal under the new one',
      prepare: async () => abandoned(world, await planned(world)),
      left: seal,
      async right(side, effect) {
        const answer = await side.pool.tx('claim', (tx) => claimOne(tx, effect.id, LEASE_MS));
        if (answer === 'busy') return [];
        const [fresh] = await loadEffects(side.pool, [effect.id]);
        return fresh === undefined || fresh.state !== 'PENDING' ? [] : seal(side, fresh);
      },
      async judge(effect, left, right) {
        assert.equal(sizeOf(left) + sizeOf(right), 1, 'one seal');
        assert.equal((await fateOf(world, effect.id)).sends, 1, 'one permission');
        return sizeOf(left) === 1 ? 'the old worker sealed' : 'the new worker sealed';
      },
    }),
  ];
}

function nonces(world: World, stage: Stage): Race {
  const rail = railOf(world);
  return race(stage, {
    name: 'seal || seal of two effects of one signer',
    async prepare() {
      await world.pool.query(
        "update payonce.effects set included_at = payonce.now() where state = 'SEALED' and included_at is null",
      );
      const first = await planned(world);
      const second = await planned(world);
      return [first, second] as const;
    },
    left: (side, [effect]) => sealPlanned(side.pool, rail, [{ effect, plan: {} }], SEND_FOR_MS),
    right: (side, [, effect]) => sealPlanned(side.pool, rail, [{ effect, plan: {} }], SEND_FOR_MS),
    async judge([first, second], left, right) {
      assert.deepEqual([sizeOf(left), sizeOf(right)], [1, 1]);
      const [one, two] = [await effectOf(world, first.id), await effectOf(world, second.id)];
      assert.ok(one.nonce !== null && two.nonce !== null);
      const apart = one.nonce - two.nonce;
      assert.ok(apart === 1n || apart === -1n, `places ${one.nonce} and ${two.nonce}`);
      return apart === 1n ? 'the right one is first' : 'the left one is first';
    },
  });
}

function ends(world: World, stage: Stage): Race[] {
  const rail = railOf(world);
  const told = async (side: Side, pass: ReturnType<typeof seen>): Promise<boolean | undefined> =>
    (await record(engineOf(world.engine, side), rail, [pass])).get(pass.effectId)?.lost;
  /** What is left to the next passes: re-opening what testimony came for, and a look that shows the truth. */
  const finish = async (effect: EffectRow): Promise<void> => {
    await reopenOnce(world.engine);
    const now = await effectOf(world, effect.id);
    if (now.state === 'SEALED') await record(world.engine, rail, [seen(now, 'final_success', { source: 'later' })]);
  };
  return [
    race(stage, {
      name: 'settle || settle (confirm || confirm)',
      prepare: () => sealed(world),
      left: (side, effect) => told(side, seen(effect, 'final_success', { source: 'monitor' })),
      right: (side, effect) => told(side, seen(effect, 'final_success')),
      async judge(effect) {
        assertPaidOnce(await fateOf(world, effect.id));
        return 'paid once';
      },
    }),
    race(stage, {
      name: 'settle || release',
      prepare: () => sealed(world),
      left: (side, effect) => told(side, seen({ ...effect, leaseToken: 0n }, 'final_success', { source: 'monitor' })),
      right: (side, effect) => told(side, seen(effect, 'reverted_final', { objectId: '0xdead' })),
      async judge(effect) {
        const before = await fateOf(world, effect.id);
        await finish(effect);
        const after = await fateOf(world, effect.id);
        assertPaidOnce(after);
        return before.states === 'SETTLED' ? 'settled, the no came too late' : 'released, then re-opened and settled';
      },
    }),
    race(stage, {
      name: 'testimony || release',
      prepare: () => sealed(world),
      left: (side, effect) =>
        told(side, seen({ ...effect, leaseToken: 0n }, 'accepted', { source: 'webhook', objectId: 'object-1' })),
      right: (side, effect) => told(side, seen(effect, 'refused', REFUSED)),
      async judge(effect) {
        const before = await fateOf(world, effect.id);
        assert.equal(before.testimonies, 1, 'counted on the row');
        await reopenOnce(world.engine);
        const after = await fateOf(world, effect.id);
        assert.ok(!after.states.startsWith('RELEASED'), `never released over testimony: ${JSON.stringify(after)}`);
        assert.equal(after.held, 1);
        return before.states.startsWith('RELEASED') ? 'released, then re-opened' : 'not released';
      },
    }),
    race(stage, {
      name: 'permission to send || another worker’s release',
      prepare: async () => abandoned(world, await sealed(world)),
      left: (side, { id, leaseToken: token }) =>
        side.pool.tx('raise', (tx) => raiseSends(tx, [{ id, token }], SEND_FOR_MS, null, false)),
      async right(side, effect) {
        const answer = await side.pool.tx('claim', (tx) => claimOne(tx, effect.id, LEASE_MS));
        const [fresh] = await loadEffects(side.pool, [effect.id]);
        if (answer === 'busy' || fresh === undefined) return 'busy';
        return told(side, seen(fresh, 'reverted_final', { objectId: '0xdead' }));
      },
      async judge(effect, left, right) {
        const fate = await fateOf(world, effect.id);
        assert.equal(fate.sends, 1 + sizeOf(left), 'a permission is on the row, and there is none else');
        if (right === 'busy') return 'permitted, the other one finds it busy';
        assert.ok(fate.states.startsWith('RELEASED'));
        return sizeOf(left) === 1 ? 'permitted, then released' : 'released, nothing permitted';
      },
    }),
    race(stage, {
      name: 're-open || the successor’s seal',
      async prepare() {
        const first = await released(world);
        await record(world.engine, rail, [seen({ ...first, leaseToken: 0n }, 'final_success', { source: 'monitor' })]);
        const { rows } = await world.pool.query<{ id: bigint }>(
          'select id from payonce.effects where subject_id = $1 and seq = 2',
          [first.subjectId],
        );
        const id = rows[0]?.id ?? -1n;
        await world.pool.query(
          "update payonce.effects set lease_token = lease_token + 1, lease_until = payonce.now() + interval '1 minute' where id = $1",
          [id],
        );
        return { first, second: await effectOf(world, id) };
      },
      left: (side) => reopenOnce(engineOf(world.engine, side)),
      right: (side, { second }) => sealPlanned(side.pool, rail, [{ effect: second, plan: {} }], SEND_FOR_MS),
      async judge({ first }, _left, right) {
        const { states, contradicted, noSend } = await fateOf(world, first.id);
        if (states === 'SEALED RELEASED') {
          assert.deepEqual([contradicted, noSend, sizeOf(right)], [false, true, 0]);
          await finish(first);
          assertPaidOnce(await fateOf(world, first.id));
          return 're-opened, the successor is off';
        }
        assert.deepEqual([states, contradicted, sizeOf(right)], ['RELEASED SEALED', true, 1]);
        return 'the successor is sealed, the first is told as a contradiction';
      },
    }),
    race(stage, {
      name: 're-open || re-open',
      async prepare() {
        const effect = await released(world);
        await record(world.engine, rail, [seen({ ...effect, leaseToken: 0n }, 'final_success', { source: 'monitor' })]);
        return effect;
      },
      left: (side) => reopenOnce(engineOf(world.engine, side)),
      right: (side) => reopenOnce(engineOf(world.engine, side)),
      async judge(effect) {
        const { states, held } = await fateOf(world, effect.id);
        assert.deepEqual([states, held], ['SEALED RELEASED', 1]);
        assert.equal((await effectOf(world, effect.id)).reopens, 1);
        await finish(effect);
        assertPaidOnce(await fateOf(world, effect.id));
        return 're-opened once';
      },
    }),
  ];
}
