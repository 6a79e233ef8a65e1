/**
 * An operator's act on one effect, now: look again, or ask again with the same identity, as one advance under the lease.
 *
 * Promises: who does not get the lease is told `busy` at once, without waiting for whoever has it and without holding a
 * connection, and then nothing was done and nothing is left behind (req T8): the act is written down, and wished for, in the
 * very transaction that takes the lease. An ask that has the lease is not lost: should the process die before it sends, the
 * wish stands on the row and the next advance carries it out. Nor is it doubled: an advance ends the wish that it read.
 * Never: another identity, a send that the engine's own rules withhold, a wish that takes the place of a bump or a cancel.
 */
import type { Query, Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { type Wish, wish } from './adjudicate.ts';
import { advanceEffect } from './advance.ts';
import { audit } from './audit-log.ts';
import type { EngineDeps } from './deps.ts';
import { loadVariants } from './evidence-store.ts';
import { type Operator, requireRole } from './operators.ts';
import type { Rail } from './rail.ts';
import { toSealed } from './sealed.ts';
import { keyWindowMs } from './send.ts';
import { type EffectRow, loadEffects } from './store.ts';

export type ActNow = 'look' | 'ask';

export type Acted =
  /** One advance was made. `sent`: how often the same bytes left in it; `withheld`: why an ask sent nothing. */
  | {
      readonly outcome: 'advanced';
      readonly state: string;
      readonly evidenceVersion: number;
      readonly sent: number;
      readonly withheld: string | null;
    }
  /** Not sealed yet: it was moved to the front of its queue, and the next worker plans it. */
  | { readonly outcome: 'hurried' }
  /** This process does not know the rail: the next worker that does carries it out. */
  | { readonly outcome: 'wished' }
  /** Somebody else has the lease, until then at the latest. Nothing was done. */
  | { readonly outcome: 'busy'; readonly until: Date | null }
  | { readonly outcome: 'gone'; readonly why: string };

/** What stands against an act on an effect, in words, or `null`. */
export function objectionToAct(effect: EffectRow, what: Wish): string | null {
  const isEnded = effect.state === 'SETTLED' || effect.state === 'RELEASED';
  switch (what) {
    case 'look':
      return effect.state === 'RELEASED' && effect.identity === null
        ? 'it was released before its seal: nothing of it ever left'
        : null;
    case 'ask':
      return isEnded ? `it is ${effect.state}: nothing is sent again` : null;
    case 'bump':
    case 'cancel':
      if (effect.nonce === null) return 'it is not a sealed transaction of a chain';
      return isEnded ? `it is ${effect.state}: nothing is sent again` : null;
  }
}

/** Looks or asks again. Durable on return. Refuses unknown effects and whoever is no operator. */
export async function actNow(deps: EngineDeps, operator: Operator, effectId: bigint, what: ActNow): Promise<Acted> {
  requireRole(operator, 'operator');
  const before = await effectOf(deps.pool, effectId);
  const objection = objectionToAct(before, what);
  if (objection !== null) return { outcome: 'gone', why: objection };
  const busy: Acted = { outcome: 'busy', until: before.leaseUntil };
  if (before.state === 'PENDING') return (await hurry(deps, operator, effectId, what)) ? { outcome: 'hurried' } : busy;
  const rail = deps.rails.get(before.rail);
  if (rail === undefined) {
    const left = await wish(deps, operator, effectId, what);
    return left === 'wished' ? { outcome: 'wished' } : { outcome: 'gone', why: 'it ended meanwhile' };
  }
  let claimed = before;
  const advanced = await advanceEffect(deps, effectId, async (tx) => {
    await tx.query(WISH_UNDER_LEASE, [effectId, what]);
    claimed = await effectOf(tx, effectId);
    await audit(tx, operator.id, `effect.${what}`, `effect:${effectId}`, { outcome: 'at_once' });
  });
  if (advanced === 'busy') return busy;
  if (advanced === 'gone') return { outcome: 'gone', why: 'nothing of it ever left' };
  const after = await effectOf(deps.pool, effectId);
  const sent = after.sendCount - claimed.sendCount;
  const withheld =
    what === 'ask' && sent === 0 && after.state === 'SEALED' ? await whyNotSent(deps, rail, after) : null;
  return { outcome: 'advanced', state: after.state, evidenceVersion: after.evidenceVersion, sent, withheld };
}

async function effectOf(query: Query, id: bigint): Promise<EffectRow> {
  const [effect] = await loadEffects(query, [id]);
  if (effect === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no effect ${id}` });
  return effect;
}

/** An effect that ended is looked at and keeps no wish; a bump or a cancel that waits is more than an ask. */
const WISH_UNDER_LEASE = `update payonce.effects
set wanted = $2
where id = $1
  and ended_at is null
  and (wanted is null or wanted in ('look', 'ask'))`;

const HURRY = `update payonce.effects
set next_at = payonce.now()
where id = any (array(
  select q.id
  from payonce.effects q
  where q.id = $1
    and q.sealed_at is null
    and q.ended_at is null
    and (q.lease_until is null or q.lease_until <= (select payonce.now()))
  for update skip locked))`;

async function hurry(deps: EngineDeps, operator: Operator, effectId: bigint, what: ActNow): Promise<boolean> {
  return deps.pool.tx('hurry', async (tx: Tx) => {
    if ((await tx.query(HURRY, [effectId])).rowCount === 0) return false;
    await audit(tx, operator.id, `effect.${what}`, `effect:${effectId}`, { outcome: 'hurried' });
    return true;
  });
}

/** The rule by which the engine sent nothing. */
async function whyNotSent(deps: EngineDeps, rail: Rail, effect: EffectRow): Promise<string> {
  if (effect.noSend) return 'it was re-opened: it is looked at and never sent again';
  if (effect.believedEvidence !== null) return 'a no is being waited out, and nothing is sent meanwhile';
  const variants = await loadVariants(deps.pool, [effect.id]);
  const objection = rail.withholds?.(toSealed(effect, variants.get(effect.id) ?? [])) ?? null;
  if (objection !== null) return objection;
  const window = keyWindowMs(rail);
  if (window === 0) return 'this rail would not recognise it again, and an earlier send may have left';
  if (window !== null) return 'the provider may have forgotten its key by now: sent again it could be a second payment';
  return 'the engine gave no permission to send, or it was too late in the lease to begin';
}
