/**
 * R5: what stays too long is told once per stay, also after a restart, and is never returned to the queue by a timer.
 *
 * A stay is the time in one state: waiting to be sealed, or sealed and not decided (a re-opened effect begins a new one). Its alert
 * ends with it. Where money may have left there is a case too, with what the rail can prove; it changes nothing that a partner sees.
 */
import * as limits from '../kernel/limits.ts';
import { formatUnits } from '../kernel/money.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { Rail } from './rail.ts';

const STAYS = `from (
  select e.*, case e.state when 'PENDING' then e.created_at else greatest(e.sealed_at, e.reopened_at) end as stays_since
  from payonce.effects e
  where e.rail = $1
    and (e.state = 'PENDING' and e.created_at < payonce.now() - make_interval(secs => $2::float8 / 1000)
      or e.state = 'SEALED' and greatest(e.sealed_at, e.reopened_at) < payonce.now() - make_interval(secs => $2::float8 / 1000))) e`;

// Told already in this stay: not again.
const UNTOLD = `select e.id, e.state, e.subject_type, e.subject_id, e.partner_id, e.amount, e.asset_id, a.code, a.decimals, e.wait_reason, e.nonce, e.send_count,
       e.testimonies, e.included_at, e.no_send,
       coalesce((select v.hash from payonce.effect_variants v where v.effect_id = e.id order by v.id desc limit 1), e.identity) as name
${STAYS}
join payonce.assets a on a.id = e.asset_id
where not exists (
  select 1 from payonce.alerts t where t.kind = 'long_stay' and t.key = 'effect:' || e.id and t.cleared_at is null)
order by e.stays_since, e.id
limit 1000`;

const COUNT = `select count(*)::int as count
${STAYS}`;

// The effect ended, or it was told in an earlier stay of it. From the few alerts to their effects, never the other way.
const OVER = `select a.key
from payonce.alerts a
join payonce.effects e on e.id = case when a.key ~ '^effect:[0-9]{1,18}$' then substr(a.key, 8)::bigint end
where a.kind = 'long_stay'
  and a.cleared_at is null
  and e.rail = $1
  and (e.ended_at is not null or a.first_at < greatest(e.created_at, e.sealed_at, e.reopened_at))`;

const CLOSE = `update payonce.cases
set closed_at = payonce.now(), closed_how = 'it stays no longer'
where kind = 'long_stay'
  and subject_key = any ($1::text[])
  and closed_at is null`;

interface Stay extends Record<string, unknown> {
  id: bigint;
  state: 'PENDING' | 'SEALED';
  subject_type: string;
  subject_id: string;
  partner_id: string;
  amount: bigint;
  asset_id: string;
  code: string;
  decimals: number;
  wait_reason: string | null;
  nonce: bigint | null;
  send_count: number;
  testimonies: number;
  included_at: Date | null;
  no_send: boolean;
  name: string | null;
}

/** Answers how many stay too long now, told before or not; 0 on an empty queue, which is watched all the same. */
export async function watchLongStays(deps: EngineDeps, rail: Rail, afterMs = limits.LONG_STAY_MS): Promise<number> {
  const over = (await deps.pool.query<{ key: string }>(OVER, [rail.name])).rows.map((row) => row.key);
  if (over.length > 0) {
    await deps.pool.tx('stays are over', async (tx) => {
      for (const key of over) await clearAlert(tx, 'long_stay', key);
      await tx.query(CLOSE, [over]);
    });
  }
  for (const stay of (await deps.pool.query<Stay>(UNTOLD, [rail.name, afterMs])).rows) {
    const key = `effect:${stay.id}`;
    const what = `${stay.subject_type} ${stay.subject_id} of ${stay.partner_id}: ${formatUnits(stay.amount, stay.decimals)} ${stay.code} on ${rail.name}`;
    await deps.pool.tx('tell a long stay', async (tx) => {
      const message =
        stay.state === 'PENDING'
          ? `${what} waits to be sealed for too long (${stay.wait_reason ?? 'nobody has taken it'}); nothing has left, and it may be cancelled`
          : `${what} is under way for too long (${stay.name ?? 'no identity'})`;
      await raiseAlert(tx, 'long_stay', key, message, deps.log);
      if (stay.state !== 'SEALED') return;
      await openCase(tx, deps.makeId, {
        kind: 'long_stay',
        severity: 1,
        // Not under the effect's own name: a partner would see `in_review`, and nothing has to be reviewed yet.
        subjectKey: key,
        partnerId: stay.partner_id,
        assetId: stay.asset_id,
        amount: stay.amount,
        summary: `${what} is under way for too long (${stay.name ?? 'no identity'}): ${seenOf(stay)}. ${provableBy(rail, stay)} See payonce effect show ${stay.id}.`,
      });
    });
  }
  return (await deps.pool.query<{ count: number }>(COUNT, [rail.name, afterMs])).rows[0]?.count ?? 0;
}

function seenOf(stay: Stay): string {
  if (stay.included_at !== null) return 'it stands in a block that is not final yet';
  if (stay.testimonies > 0) return `${stay.testimonies} pieces of testimony say that it moved`;
  return `sent ${stay.send_count} times, and no testimony`;
}

/** What can still decide it without a person, and what a person may do. */
function provableBy(rail: Rail, stay: Stay): string {
  const { keyed, lookUp, sequenced } = rail.capabilities;
  if (stay.nonce !== null)
    return `The chain decides: at finality nonce ${stay.nonce} is spent by it, which settles it, or by another, which frees it. Bump it, or cancel it on chain.`;
  if (sequenced || (stay.no_send && lookUp)) return 'It is looked at, never sent again: what the rail shows decides.';
  if (keyed)
    return 'It is asked again under its own key, and a stored answer decides; what it shows meanwhile is on record.';
  if (lookUp) return 'The rail is looked at, and what it shows, or its proof of absence, decides.';
  return 'This rail proves nothing by itself: two persons say what they saw.';
}
