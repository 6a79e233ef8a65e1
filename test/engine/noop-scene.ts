/*
 * The stage for tests of the engine's single guards: a world on the rail where nothing moves, and the few steps and looks
 * that such a test is made of.
 */
import assert from 'node:assert/strict';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Capabilities, Observation, Rail, Signed } from '../../src/engine/rail.ts';
import type { Verdict } from '../../src/engine/settle.ts';
import { claimOne } from '../../src/engine/claims.ts';
import { type EffectRow, loadEffects } from '../../src/engine/store.ts';
import { storeEvidence } from '../../src/engine/evidence-store.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeWorld, type World, type WorldOptions } from '../support/world.ts';

export interface SceneOptions {
  readonly capabilities?: Partial<Capabilities>;
  readonly world?: Partial<WorldOptions>;
  /** Changes the rail: gives it a sequence, a signature, a slow plan. */
  readonly change?: (rail: Rail) => Rail;
}

export async function makeNoopWorld(behave: NoopBehaviour = {}, options: SceneOptions = {}): Promise<World> {
  const change = options.change ?? ((rail: Rail) => rail);
  return makeWorld({
    label: 'guards',
    rails: () => [change(makeNoopRail('noop', behave, options.capabilities))],
    ...options.world,
  });
}

/** Nothing is told by the send; a look tells what is given. */
export function silentUntil(look: () => readonly Partial<Observation>[]): NoopBehaviour {
  return {
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve(look()),
  };
}

/** A rail that signs, and whose identities are places in a signer's sequence, as on a chain, which counts so many. */
export function sequenced(nonceHead: bigint): (rail: Rail) => Rail {
  return (plain) => {
    const rail = signing(plain);
    return {
      ...rail,
      capabilities: { ...rail.capabilities, sequenced: true, inFlightPerSignerMax: 2 },
      survey: (signers) => Promise.resolve(signers.map((signer) => ({ signer, nonceHead }))),
      seal: (effect, plan, allotment) => ({
        ...rail.seal(effect, plan, allotment),
        signer: effect.signer,
        nonce: allotment?.nonce ?? null,
      }),
    };
  };
}

/** A rail that signs: what leaves is a stored variant of the sealed payload. */
export function signing(rail: Rail): Rail {
  const fees = { gasLimit: '1', maxFeePerGas: '1', maxPriorityFeePerGas: '1' };
  return {
    ...rail,
    seal: (effect, plan, allotment) => ({
      ...rail.seal(effect, plan, allotment),
      payload: Buffer.from(JSON.stringify({ to: effect.destination, value: '0', data: '0x' })),
    }),
    send: async (sealed, signed) => ({ ...(await rail.send(sealed, signed)), variantHash: signed?.hash ?? null }),
    specify: (_sealed, kind) => Promise.resolve({ kind, ...fees }),
    sign: (sealed, spec): Promise<Signed> =>
      Promise.resolve({
        ...spec,
        hash: `hash-${sealed.effectId}-${spec.kind}`,
        raw: Buffer.from(spec.kind),
        to: sealed.destination,
        value: '0',
        data: '0x',
      }),
  };
}

export function railOf(world: World): Rail {
  const rail = world.engine.rails.get('noop');
  assert.ok(rail);
  return rail;
}

/** A new withdrawal's effect, PENDING. */
export async function intendOne(world: World): Promise<bigint> {
  const [created] = await createWithdrawals(world, [world.request()]);
  assert.equal(created?.outcome, 'created');
  const { rows } = await world.pool.query<{ id: bigint }>('select max(id) as id from payonce.effects');
  return rows[0]?.id ?? -1n;
}

export async function effectOf(world: World, id: bigint): Promise<EffectRow> {
  const [effect] = await loadEffects(world.pool, [id]);
  assert.ok(effect);
  return effect;
}

/** Everything open may be claimed now. */
export async function makeDue(world: World): Promise<void> {
  await world.pool.query(
    "update payonce.effects set next_at = payonce.now() - interval '1 second', lease_until = null where ended_at is null",
  );
}

/** The effect under a lease of ours. */
export async function leaseOne(world: World, id: bigint): Promise<EffectRow> {
  await makeDue(world);
  assert.equal(await world.pool.tx('lease', (tx) => claimOne(tx, id, 30_000)), 'claimed');
  return effectOf(world, id);
}

/** A stored piece of evidence; answers its id. */
export async function evidenceOf(
  world: World,
  effect: EffectRow,
  kind: 'FINAL_SUCCESS' | 'REVERTED_FINAL',
): Promise<bigint> {
  const rank = kind === 'FINAL_SUCCESS' ? ('object' as const) : ('dead' as const);
  const [id] = await world.pool.tx('evidence', (tx) =>
    storeEvidence(tx, [
      {
        effectId: effect.id,
        kind,
        rank,
        source: 'noop',
        operator: 'noop',
        objectId: '0x1',
        detail: 'given by the test',
        sendNumber: 1,
        token: effect.leaseToken,
      },
    ]),
  );
  assert.ok(id !== undefined);
  return id;
}

/** A verdict that this effect settled, as of the row that was read. */
export function settledBy(effect: EffectRow, evidenceId: bigint): Verdict {
  return {
    act: 'settle',
    effect,
    token: effect.leaseToken,
    evidenceId,
    kind: 'FINAL_SUCCESS',
    rank: 'object',
    objectId: '0x1',
    detail: 'given by the test',
    cost: null,
  };
}

/** Takes the database's own guards on effects away, so that what is left has to hold alone (req W13). */
export async function dropEdgeGuard(world: World): Promise<void> {
  await world.pool.query('alter table payonce.effects disable trigger user');
}
