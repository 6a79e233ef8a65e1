/**
 * Payments that the rail, as it is configured now, does not send again: they were sealed for another address, account or
 * credential, and to the provider the key would be a new one. The money stays held and nothing is lost, but where the looks are
 * withheld too nothing can end them, so people are told: one alert per rail, over when nothing of it waits for that any more.
 */
import type { Query, Tx } from '../db/pool.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import type { Answer, Rail, SealedEffect } from './rail.ts';
import { toSealed } from './sealed.ts';
import { loadEffects } from './store.ts';

/** How the reason of an effect that waits for the configuration begins: what counts them goes by it. */
export const WITHHELD = 'WITHHELD: ';
const ALERT = 'sends_withheld';
const REASON_CHARACTERS_MAX = 500;
/** A statement of ids and payloads, read by people and at a start. */
const BATCH = 500;

/** What a sealed effect waits for, or `null`. What is accepted and still looked at lacks no send. */
export function withheldReason(
  rail: Rail,
  sealed: SealedEffect,
  looked: readonly Answer[],
  named: boolean,
): string | null {
  const why = rail.withholds?.(sealed) ?? null;
  if (why === null || (named && looked.some((answer) => answer.reach !== 'withheld'))) return null;
  return `${WITHHELD}${why}`.slice(0, REASON_CHARACTERS_MAX);
}

/** `reasons`: of the effects of one pass. Durable with the caller's commit. */
export async function tellWithheld(
  tx: Tx,
  deps: EngineDeps,
  rail: Rail,
  reasons: readonly (string | null)[],
): Promise<void> {
  const why = reasons.find((reason) => reason !== null);
  if (why === undefined) return;
  await raiseAlert(
    tx,
    ALERT,
    rail.name,
    `${rail.name} holds back payments that are under way: ${why.slice(WITHHELD.length)} Which: payonce effect list --rail ${rail.name} --withheld`,
    deps.log,
  );
}

const ANY = `select 1
from payonce.effects
where rail = $1
  and state = 'SEALED'
  and wait_reason like '${WITHHELD}%'
limit 1`;
const TOLD = `select 1
from payonce.alerts
where kind = '${ALERT}'
  and key = $1
  and cleared_at is null`;

/** Ends the alert when nothing of this rail is held back any more. */
export async function watchWithheld(deps: EngineDeps, rail: Rail): Promise<void> {
  if ((await deps.pool.query(TOLD, [rail.name])).rowCount === 0) return;
  if ((await deps.pool.query(ANY, [rail.name])).rowCount === 0) await clearAlert(deps.pool, ALERT, rail.name);
}

const SEALED = `select id
from payonce.effects
where rail = $1
  and state = 'SEALED'
  and id > $2
order by id
limit ${BATCH}`;

export interface WithheldOf {
  readonly rail: string;
  readonly count: number;
  readonly first: bigint;
  readonly why: string;
}

/** What each rail would hold back as it is configured now, whether it was looked at under this configuration or not. */
export async function countWithheld(query: Query, rails: Iterable<Rail>): Promise<WithheldOf[]> {
  const found: WithheldOf[] = [];
  for (const rail of rails) {
    if (rail.withholds === undefined) continue;
    let [last, count] = [0n, 0];
    let first: { id: bigint; why: string } | null = null;
    for (;;) {
      const ids = (await query.query<{ id: bigint }>(SEALED, [rail.name, last])).rows.map((row) => row.id);
      for (const effect of await loadEffects(query, ids)) {
        const why = effect.identity === null ? null : rail.withholds(toSealed(effect, []));
        if (why === null) continue;
        count += 1;
        first ??= { id: effect.id, why };
      }
      last = ids.at(-1) ?? last;
      if (ids.length < BATCH) break;
    }
    if (first !== null) found.push({ rail: rail.name, count, first: first.id, why: first.why });
  }
  return found;
}
