/**
 * What a statement's word sets going: never a booking, a look.
 *
 * A line that names a released effect is word that it moved: the highest case, and the rail is looked at now instead of at the
 * next date of the watch list. So is it for a return that nobody has booked, and, without a case, for a released effect that an
 * unmatched line of the same payee, amount and days may have paid.
 */
import type { Query } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import { watchNow } from '../../engine/look.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Finding } from './findings.ts';

export interface Woken {
  /** Cases opened or refreshed. */
  readonly cases: readonly string[];
  /** Effects that are looked at now. */
  readonly looks: readonly bigint[];
}

/** Durable with the caller's commit. */
export async function wakeWhatMoved(tx: Query, makeId: MakeId, findings: readonly Finding[]): Promise<Woken> {
  const cases: string[] = [];
  const looks = new Set<bigint>();
  for (const { kind, effect, lines, suggestions, detail } of findings) {
    for (const unit of suggestions) if (unit.effect.state === 'RELEASED') looks.add(unit.effect.id);
    if (effect === null) continue;
    if (kind === 'return_not_booked' && effect.state !== 'SEALED') looks.add(effect.id);
    if (kind !== 'released_on_statement') continue;
    looks.add(effect.id);
    // What was contradicted already has its case, and closing that takes two persons.
    if (effect.contradicted) continue;
    const [line] = lines;
    cases.push(
      await openCase(tx, makeId, {
        kind: 'released_on_statement',
        severity: 3,
        subjectKey: `effect:${effect.id}`,
        effectId: effect.id,
        partnerId: effect.partnerId,
        assetId: effect.assetId,
        amount: line?.amount ?? effect.amount,
        summary: `${effect.subjectType} ${effect.subjectId}: the bank's statement shows it on ${line?.bookedOn ?? '?'} (${line?.place ?? '?'}, reference ${line?.ownReference ?? line?.references[0] ?? 'none'}), and ${detail}. The bank is asked again now; if it says no, ask it about this line`,
      }),
    );
  }
  const ids = [...looks].sort((one, other) => (one < other ? -1 : 1));
  await watchNow(tx, ids);
  return { cases, looks: ids };
}

const SEEN = `select l.booked_on::text as booked_on, l.own_reference
from payonce.effects e
join payonce.statement_places p on p.refs && array[e.expect ->> 'key']
join payonce.statements_counted s on s.id = p.statement_id and s.rail = e.rail
join payonce.statement_lines l on l.id = p.line_id and l.direction = 'out'
where e.id = $1
order by l.id
limit 1`;

/** A line of an imported statement that carries our key for this effect, in words, or `null`. */
export async function seenOnStatement(query: Query, effectId: bigint): Promise<string | null> {
  const row = (await query.query<{ booked_on: string; own_reference: string | null }>(SEEN, [effectId])).rows[0];
  return row === undefined
    ? null
    : `the bank's own statement shows it on ${row.booked_on}, reference ${row.own_reference ?? 'none'}: it moved`;
}
