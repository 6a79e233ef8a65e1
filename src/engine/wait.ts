/** What the rail's plan says has to wait goes back to the queue; where it will not be otherwise, it becomes a case. */
import type { Query } from '../db/pool.ts';
import * as limits from '../kernel/limits.ts';
import { raiseAlert } from './alerts.ts';
import { apart } from './alone.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { PlanWait, Rail } from './rail.ts';
import { handOver } from './relayers.ts';
import { type EffectRow, type GiveBack, giveBack } from './store.ts';
import { askSupply } from './supply.ts';

/** Nothing was sealed: back to the queue with the reason; some reasons are told to people (R4, R14), and what can be bought
 *  is asked for in the same transaction (R16). */
export async function giveBackWaiting(
  deps: EngineDeps,
  rail: Rail,
  waiting: readonly { effect: EffectRow; verdict: PlanWait }[],
): Promise<void> {
  if (waiting.length === 0) return;
  await apart(deps, waiting, 'WAIT_FAILED', async (part) => {
    await giveBackPart(deps, rail, part);
    return [];
  });
}

async function giveBackPart(
  deps: EngineDeps,
  rail: Rail,
  waiting: readonly { effect: EffectRow; verdict: PlanWait }[],
): Promise<void> {
  await deps.pool.tx('give back', async (tx) => {
    const supplied = await askSupply(tx, deps.supply, waiting);
    const list: GiveBack[] = waiting.map(({ effect, verdict }) => {
      const backOffMs = Math.min(limits.BACKOFF_MS * 2 ** Math.min(effect.failures, 10), limits.BACKOFF_MS_MAX);
      const supply = supplied.get(effect.id);
      const detail = supply === undefined ? verdict.detail : `${verdict.detail}; ${supply.says}`;
      return {
        id: effect.id,
        token: effect.leaseToken,
        waitMs: supply?.waitMs ?? verdict.waitMs ?? backOffMs,
        reason: `${verdict.reason}: ${detail}`.slice(0, 500),
        counts: verdict.lasts !== 'a_while',
      };
    });
    await giveBack(tx, list);
    await handOver(tx, deps, rail, waiting);
    const told = new Set<string>();
    for (const { effect, verdict } of waiting) {
      const key = `${rail.name}:${verdict.reason}:${effect.wallet}`;
      if (verdict.alert && !told.has(key)) {
        told.add(key);
        await raiseAlert(
          tx,
          verdict.reason.toLowerCase(),
          key,
          `${verdict.reason} at ${effect.wallet}: ${verdict.detail}`,
          deps.log,
        );
      }
      if (verdict.lasts === 'for_good' && effect.failures + 1 >= limits.PLAN_FAILURES_MAX) {
        await openCase(tx, deps.makeId, {
          kind: 'plan_fails',
          severity: 2,
          subjectKey: `effect:${effect.id}`,
          effectId: effect.id,
          partnerId: effect.partnerId,
          assetId: effect.asset.id,
          amount: effect.amount,
          summary: `${effect.subjectType} ${effect.subjectId} cannot be planned: ${verdict.detail}. Nothing was sealed; it may be cancelled.`,
        });
      }
    }
  });
}

// The keys are those of `giveBackPart`. A node that is down meanwhile says nothing of what was short.
const REASONS_OVER = `update payonce.alerts a
set cleared_at = payonce.now()
where a.cleared_at is null
  and starts_with(a.key, $1 || ':' || upper(a.kind) || ':')
  and not exists (
    select 1 from payonce.effects e
    where e.rail = $1
      and e.state = 'PENDING'
      and e.wallet = substr(a.key, char_length($1) + char_length(a.kind) + 3)
      and split_part(e.wait_reason, ':', 1) in (upper(a.kind), 'NODE_DOWN'))`;

// Told by `handOver`: over too where what waited for a relayer was called off.
const RELAYERS_OVER = `update payonce.alerts a
set cleared_at = payonce.now()
where a.cleared_at is null
  and a.kind = 'no_relayer'
  and starts_with(a.key, $1 || ':')
  and not exists (
    select 1 from payonce.effects e
    where e.rail = $1
      and e.state = 'PENDING'
      and e.wallet = substr(a.key, char_length($1) + 2)
      and e.signer <> e.wallet
      and e.wait_reason is not null)`;

// What a supply tells of, under the name of its lane (`laneOfNeed`), and of energy as long as anybody waits for some.
const NEEDS_OVER = `update payonce.alerts a
set cleared_at = payonce.now()
where a.cleared_at is null
  and a.kind in ('gas_not_supplied', 'energy_unavailable')
  and not exists (
    select 1 from payonce.needs n
    join payonce.effects e on e.id = n.effect_id and e.state = 'PENDING'
    where case a.kind when 'gas_not_supplied' then n.lane = 'topup:' || a.key else n.kind = 'energy' end)`;

/** What was told of payments that waited is over when none waits for it any more: sealed, called off, or short of something else.
 *  The next shortage is told anew. */
export async function endWaitAlerts(query: Query, rail: string): Promise<void> {
  await query.query(REASONS_OVER, [rail]);
  await query.query(RELAYERS_OVER, [rail]);
  await query.query(NEEDS_OVER);
}
