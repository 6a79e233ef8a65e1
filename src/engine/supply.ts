/**
 * Needs: what a waiting effect lacks and what can be bought (gas, energy), and the port of whoever buys it (R16).
 *
 * A need is written down in the transaction that gives its effect back, together with the paid act that supplies it, and
 * nothing of the waiting effect is sealed. The paid act is an effect with an identity and a lane of its own; when it
 * settles, the effects that wait on that lane are due at once. A wake that is lost costs a back-off, no money.
 * Lock order: waiting effects by id, then what the supply inserts. A wake waits for no lock.
 */
import type { Query, Tx } from '../db/pool.ts';
import type { Need, PlanContext, PlanWait } from './rail.ts';
import { type EffectRow, lockEffects } from './store.ts';

export interface Wanting {
  readonly effect: EffectRow;
  readonly need: Need;
  /** The lane of the paid act that supplies it (`laneOfNeed`). */
  readonly lane: string;
  /** On the database's clock: how long this effect has been waiting for it. */
  readonly waitedMs: number;
}

export interface SupplyAnswer {
  /** When asking again makes sense; `null`: the engine's back-off. */
  readonly waitMs: number | null;
  /** What is being done about it, for the effect's reason. */
  readonly says: string;
}

export interface SupplyPort {
  /**
   * Buys what is wanted, at most once per lane at a time, in the give-back's transaction: durable with its commit. One
   * answer per item, in order. The effects are locked and the caller's.
   */
  supply(tx: Tx, wanting: readonly Wanting[]): Promise<readonly SupplyAnswer[]>;
  /** Before a batch is planned, with no transaction open: looks at the wallets that pay for it (R7), and answers how much
   *  coin may be burned now in place of energy, and whose energy is there already. */
  beforeBatch(effects: readonly EffectRow[]): Promise<Pick<PlanContext, 'burnUpTo' | 'energyHeld'>>;
}

/** The lane under which a need is supplied: an address gets its gas once at a time, an effect its energy. */
export function laneOfNeed(need: Need, effect: Pick<EffectRow, 'id' | 'asset'>): string {
  return need.kind === 'gas' ? `topup:${effect.asset.chain}:${need.address}` : `energy:${effect.id}`;
}

const NOTE = `insert into payonce.needs as n (effect_id, kind, lane, units)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::numeric[])
on conflict (effect_id) do update
set kind = excluded.kind, lane = excluded.lane, units = excluded.units, last_at = payonce.now(),
    first_at = case when n.lane = excluded.lane then n.first_at else payonce.now() end
returning n.effect_id, (extract(epoch from payonce.now() - n.first_at) * 1000)::float8 as waited_ms`;

/** What the plans of this batch need is written down and asked for. Without a supply nobody is asked. */
export async function askSupply(
  tx: Tx,
  supply: SupplyPort | undefined,
  waiting: readonly { readonly effect: EffectRow; readonly verdict: PlanWait }[],
): Promise<ReadonlyMap<bigint, SupplyAnswer>> {
  const needing = waiting.flatMap(({ effect, verdict }) =>
    verdict.needs === undefined
      ? []
      : [{ effect, need: verdict.needs, lane: laneOfNeed(verdict.needs, effect), token: effect.leaseToken }],
  );
  if (supply === undefined || needing.length === 0) return new Map();
  // A worker that lost its lease while it planned buys nothing: the next one plans anew.
  const ours = new Set(
    (
      await lockEffects(
        tx,
        needing.map((one) => one.effect.id),
      )
    ).flatMap((row) =>
      row.state === 'PENDING' &&
      row.leaseUntil !== null &&
      needing.some((one) => one.effect.id === row.id && one.token === row.leaseToken)
        ? [row.id]
        : [],
    ),
  );
  const held = needing.filter((one) => ours.has(one.effect.id));
  if (held.length === 0) return new Map();
  const { rows } = await tx.query<{ effect_id: bigint; waited_ms: number }>(NOTE, [
    held.map((one) => one.effect.id),
    held.map((one) => one.need.kind),
    held.map((one) => one.lane),
    held.map((one) => one.need.units),
  ]);
  const waited = new Map(rows.map((row) => [row.effect_id, row.waited_ms]));
  const answers = await supply.supply(
    tx,
    held.map(({ effect, need, lane }) => ({ effect, need, lane, waitedMs: waited.get(effect.id) ?? 0 })),
  );
  return new Map(
    held.flatMap(({ effect }, index) => {
      const answer = answers[index];
      return answer === undefined ? [] : [[effect.id, answer]];
    }),
  );
}

const WAKE = `update payonce.effects e
set next_at = payonce.now()
where e.id = any (array(
  select q.id
  from payonce.needs n
  join payonce.effects q on q.id = n.effect_id
  where n.lane = any ($1::text[])
    and q.state = 'PENDING'
    and q.lease_until is null
  for update of q skip locked))`;

/** What was waited for is there: the effects that wait on these lanes are due now. */
export async function wakeNeeding(tx: Tx, lanes: readonly string[]): Promise<void> {
  if (lanes.length > 0) await tx.query(WAKE, [lanes]);
}

const RESTART = `update payonce.needs
set first_at = payonce.now()
where effect_id = any ($1::bigint[])`;

/** What had been supplied ran out before it was used: the wait for the next supply begins anew. */
export async function restartNeeds(tx: Tx, effectIds: readonly bigint[]): Promise<void> {
  if (effectIds.length > 0) await tx.query(RESTART, [effectIds]);
}

const WAITED = `select n.effect_id, (extract(epoch from payonce.now() - n.first_at) * 1000)::float8 as waited_ms
from payonce.needs n
where n.effect_id = any ($1::bigint[])
  and n.kind = $2`;

/** How long these effects have waited for what they need, in ms; those that never needed it are not in the answer. */
export async function loadWaited(
  query: Query,
  effectIds: readonly bigint[],
  kind: Need['kind'],
): Promise<ReadonlyMap<bigint, number>> {
  if (effectIds.length === 0) return new Map();
  const { rows } = await query.query<{ effect_id: bigint; waited_ms: number }>(WAITED, [effectIds, kind]);
  return new Map(rows.map((row) => [row.effect_id, row.waited_ms]));
}
