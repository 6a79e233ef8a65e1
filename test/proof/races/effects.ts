/* What pairs about effects start from and look at: a withdrawal's effect at some point of its life, and what became of it. */
import assert from 'node:assert/strict';
import type { Observation } from '../../../src/engine/rail.ts';
import type { Pass } from '../../../src/engine/judge.ts';
import { record } from '../../../src/engine/record.ts';
import { sealPlanned } from '../../../src/engine/seal.ts';
import type { EffectRow } from '../../../src/engine/store.ts';
import { createWithdrawals } from '../../../src/flows/withdrawals/index.ts';
import { effectOf, railOf } from '../../engine/noop-scene.ts';
import type { World } from '../../support/world.ts';

export const AMOUNT = 1_000n;
export const SEND_FOR_MS = 5_000;

/** A new withdrawal's effect, leased by us and PENDING; what earlier orders left open is due much later, and people have seen
 *  their cases, which would stop new seals. */
export async function planned(world: World): Promise<EffectRow> {
  await world.pool.query(
    "update payonce.cases set closed_at = payonce.now(), closed_how = 'seen by the race' where closed_at is null",
  );
  await world.pool.query(
    "update payonce.effects set next_at = payonce.now() + interval '1 hour' where ended_at is null",
  );
  const [created] = await createWithdrawals(world, [world.request({ amount: AMOUNT })]);
  assert.equal(created?.outcome, 'created');
  const { rows } = await world.pool.query<{ id: bigint }>('select max(id) as id from payonce.effects');
  const id = rows[0]?.id ?? -1n;
  await world.pool.query("update payonce.effects set next_at = payonce.now() - interval '1 second' where id = $1", [
    id,
  ]);
  return leased(world, id);
}

/** Leased without making what others left due. */
async function leased(world: World, id: bigint): Promise<EffectRow> {
  await world.pool.query(
    `update payonce.effects
     set lease_token = lease_token + 1, lease_until = payonce.now() + interval '1 minute', next_at = payonce.now() + interval '1 minute'
     where id = $1`,
    [id],
  );
  return effectOf(world, id);
}

/** The same, sealed and still leased by us. */
export async function sealed(world: World): Promise<EffectRow> {
  const effect = await planned(world);
  assert.equal((await sealPlanned(world.pool, railOf(world), [{ effect, plan: {} }], SEND_FOR_MS)).length, 1);
  return effectOf(world, effect.id);
}

/** Its lease is over: whoever comes may have it. */
export async function abandoned(world: World, effect: EffectRow): Promise<EffectRow> {
  await world.pool.query(
    `update payonce.effects set lease_until = payonce.now() - interval '1 second', next_at = payonce.now() - interval '1 second' where id = $1`,
    [effect.id],
  );
  return effectOf(world, effect.id);
}

/** A look that shows this, under this token. */
export function seen(effect: EffectRow, kind: Observation['kind'], fields: Partial<Observation> = {}): Pass {
  const observation: Observation = {
    kind,
    source: 'noop',
    operator: 'noop',
    witness: true,
    objectId: '0x1',
    detail: 'shown by the race',
    cost: null,
    ...fields,
  };
  return {
    effectId: effect.id,
    token: effect.leaseToken,
    nextAfterMs: 1_000,
    found: [
      {
        answer: {
          operation: kind === 'refused' ? 'send' : 'look',
          source: observation.source,
          operator: observation.operator,
          reach: 'answer',
          status: 200,
          body: JSON.stringify({ kind, objectId: observation.objectId }),
          variantHash: null,
        },
        observation,
        sendNumber: 1,
      },
    ],
  };
}

/** Reverted, for good: released, and the flow intends a successor. */
export async function released(world: World): Promise<EffectRow> {
  const effect = await sealed(world);
  await record(world.engine, railOf(world), [seen(effect, 'reverted_final', { objectId: '0xdead' })]);
  const after = await effectOf(world, effect.id);
  assert.equal(after.state, 'RELEASED');
  return after;
}

export interface Fate {
  readonly states: string;
  readonly debits: number;
  readonly held: number;
  readonly settledEdges: number;
  readonly sends: number;
  readonly noSend: boolean;
  readonly contradicted: boolean;
  readonly testimonies: number;
  readonly confirmedEvents: number;
}

const FATE = `select
  (select string_agg(e.state, ' ' order by e.seq) from payonce.effects e where e.subject_id = f.subject_id) as states,
  (select count(*) from payonce.postings p where p.idem_key = 'WDR_CONFIRM:' || f.subject_id)::int as debits,
  (select count(*) from payonce.holds h where h.key like '%' || f.subject_id || '%' and h.state = 'open')::int as held,
  (select count(*) from payonce.effect_history y where y.effect_id = f.id and y.to_state = 'SETTLED')::int as settled_edges,
  (select count(*) from payonce.events v where v.subject_id = f.subject_id and v.type = 'withdrawal.confirmed')::int as confirmed_events,
  f.send_count as sends, f.no_send, f.testimonies, f.contradicted_at is not null as contradicted
from payonce.effects f
where f.id = $1`;

/** What became of an effect and its subject. */
export async function fateOf(world: World, id: bigint): Promise<Fate> {
  const { rows } = await world.pool.query(FATE, [id]);
  const [row] = rows;
  assert.ok(row !== undefined);
  return {
    states: String(row['states']),
    debits: row['debits'] as number,
    held: row['held'] as number,
    settledEdges: row['settled_edges'] as number,
    sends: row['sends'] as number,
    noSend: row['no_send'] as boolean,
    contradicted: row['contradicted'] as boolean,
    testimonies: row['testimonies'] as number,
    confirmedEvents: row['confirmed_events'] as number,
  };
}

/** Paid once, told once, and nothing is held any more. */
export function assertPaidOnce(fate: Fate): void {
  assert.deepEqual(
    [fate.debits, fate.settledEdges, fate.confirmedEvents, fate.held],
    [1, 1, 1, 0],
    `debits, edges, events, holds: ${JSON.stringify(fate)}`,
  );
}
