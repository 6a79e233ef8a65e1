/** R5: what stays too long is told once per stay, and never returned to the queue by a timer. */
import * as limits from '../kernel/limits.ts';
import { raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import type { Rail } from './rail.ts';

const LONG_STAYS = `select e.id, e.subject_type, e.subject_id, e.amount, e.asset_id, e.identity
from payonce.effects e
where e.rail = $1
  and ((e.state = 'SEALED' and e.sealed_at < payonce.now() - make_interval(secs => $2::float8 / 1000))
    or (e.state = 'PENDING' and e.created_at < payonce.now() - make_interval(secs => $2::float8 / 1000)))
order by e.id
limit 1000`;

/** R5: an item that stays too long is alerted once per item and stay; it is never returned to the queue by a timer. */
export async function watchLongStays(deps: EngineDeps, rail: Rail, afterMs = limits.LONG_STAY_MS): Promise<number> {
  const { rows } = await deps.pool.query<{
    id: bigint;
    subject_type: string;
    subject_id: string;
    amount: bigint;
    asset_id: string;
    identity: string | null;
  }>(LONG_STAYS, [rail.name, afterMs]);
  for (const row of rows) {
    await raiseAlert(
      deps.pool,
      'long_stay',
      `effect:${row.id}`,
      `${row.subject_type} ${row.subject_id}: ${row.amount} units of ${row.asset_id} under way for too long (${row.identity ?? 'not sealed'})`,
      deps.log,
    );
  }
  return rows.length;
}
