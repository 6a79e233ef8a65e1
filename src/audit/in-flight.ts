/**
 * What is under way, explained (R18): after an upgrade or a changed configuration no open effect may be left that nobody
 * works on. An open effect is explained by its rail and its flow being known here, by its place in a queue that moves, or
 * by a case.
 */
import type { Query } from '../db/pool.ts';
import type { Finding } from './finding.ts';

/** A due effect is claimed within a round; one that waits longer than this past its time has no worker. */
const OVERDUE = '10 minutes';
/** The first few say which kind it is. */
const NAMED_MAX = 5;

const OPEN = `select count(*) filter (where state = 'PENDING')::int as pending,
       count(*) filter (where state = 'SEALED')::int as sealed
from payonce.effects
where state in ('PENDING', 'SEALED')`;

const UNKNOWN = `select rail, subject_type, count(*)::int as effects, min(id) as first
from payonce.effects
where state in ('PENDING', 'SEALED')
  and (rail <> all ($1::text[]) or subject_type <> all ($2::text[]))
group by rail, subject_type
order by rail, subject_type`;

const OVERDUE_EFFECTS = `select e.id, e.state, count(*) over ()::int as effects
from payonce.effects e
where e.state in ('PENDING', 'SEALED')
  and e.next_at < payonce.now() - $1::interval
  and not exists (select 1 from payonce.cases k where k.effect_id = e.id and k.closed_at is null)
  and not (e.state = 'PENDING' and exists (
    select 1 from payonce.signers g
    where g.rail = e.rail and g.address in (e.wallet, e.signer) and g.quarantined_at is not null))
order by e.next_at, e.id
limit $2`;

const POISONED = `select count(*)::int as events
from payonce.inbox
where state = 'dead'`;

export async function findUnexplained(
  query: Query,
  works: { readonly rails: readonly string[]; readonly subjectTypes: readonly string[] } | null,
): Promise<Finding[]> {
  const open = (await query.query<{ pending: number; sealed: number }>(OPEN)).rows[0] ?? { pending: 0, sealed: 0 };
  const findings: Finding[] = [];
  if (works !== null) {
    const { rows } = await query.query<{ rail: string; subject_type: string; effects: number; first: bigint }>(
      UNKNOWN,
      [works.rails, works.subjectTypes],
    );
    for (const row of rows) {
      findings.push({
        name: 'in flight',
        level: 'refuse',
        found: `${row.effects} open effects of ${row.subject_type} on ${row.rail} (first: ${row.first}) are nobody's here`,
        hint: 'Configure that rail again (PAYONCE_CONFIG), or run the version that knows it, until they have ended.',
      });
    }
  }
  const overdue = (
    await query.query<{ id: bigint; state: string; effects: number }>(OVERDUE_EFFECTS, [OVERDUE, NAMED_MAX])
  ).rows;
  if (overdue.length > 0) {
    findings.push({
      name: 'in flight',
      level: 'warn',
      found: `${overdue[0]?.effects ?? 0} open effects are overdue by more than ${OVERDUE} (first: ${overdue.map((row) => row.id).join(', ')})`,
      hint: 'Start a worker (payonce worker). If one runs: payonce effect show ID tells what it waits for.',
    });
  }
  const dead = (await query.query<{ events: number }>(POISONED)).rows[0]?.events ?? 0;
  if (dead > 0) {
    findings.push({
      name: 'inbox',
      level: 'warn',
      found: `${dead} inbound events could not be worked`,
      hint: 'Each has a case: payonce case list',
    });
  }
  if (findings.length > 0) return findings;
  return [
    {
      name: 'in flight',
      level: 'ok',
      found: `${open.pending} pending and ${open.sealed} sealed effects, all explained`,
      hint: '',
    },
  ];
}
