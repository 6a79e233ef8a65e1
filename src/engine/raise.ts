/** Permission to send: the one statement that gives it after the seal. Isolation and lock order: as in `store.ts`. */
import type { Tx } from '../db/pool.ts';

const RAISE = `update payonce.effects e
set send_count = e.send_count + 1,
    last_sent_at = payonce.now(),
    send_by = payonce.now() + make_interval(secs => $3::float8 / 1000),
    evidence_version = e.evidence_version + 1
from unnest($1::bigint[], $2::bigint[], $6::bool[]) as u (id, token, asked)
where e.id = u.id
  and e.state || '' = 'SEALED'
  and e.lease_token = u.token
  and e.lease_until is not null
  and not e.no_send
  and e.believed_evidence is null
  and ($4::float8 is null or e.first_sent_at + make_interval(secs => $4::float8 / 1000) > payonce.now()
    or e.send_count = (
      select count(distinct a.send_number) from payonce.effect_answers a
      where a.effect_id = e.id and a.operation = 'send' and a.reach = 'never_connected'))
  and not exists (
    select 1 from payonce.effects c
    where c.subject_type = e.subject_type and c.subject_id = e.subject_id and c.contradicted_at is not null and $5)
  and (u.asked or not exists (
    select 1 from payonce.proposals p join payonce.cases k on k.id = p.case_id
    where k.effect_id = e.id and p.state = 'open' and p.proposed_at > payonce.now() - interval '1 hour'))
returning e.id, e.send_count`;

/**
 * Permission for one more send of the same identity: tests lease and key window on the database's clock. Not in the
 * answer = do not send. `keyWindowMs` null: the identity is for ever; outside it (0: a rail without keys) only while every
 * earlier send is known never to have left. `stopContradicted`: the live effect of a
 * contradicted subject is not sent on (its cancel may be). `asked`: a person wished for it; by itself nothing is sent while two
 * persons decide (for an hour at most), since each send makes what the first one saw stale.
 */
export async function raiseSends(
  tx: Tx,
  list: readonly { id: bigint; token: bigint; asked?: boolean }[],
  sendForMs: number,
  keyWindowMs: number | null,
  stopContradicted: boolean,
): Promise<Map<bigint, number>> {
  if (list.length === 0) return new Map();
  const { rows } = await tx.query<{ id: bigint; send_count: number }>(RAISE, [
    list.map((one) => one.id),
    list.map((one) => one.token),
    sendForMs,
    keyWindowMs,
    stopContradicted,
    list.map((one) => one.asked === true),
  ]);
  return new Map(rows.map((row) => [row.id, row.send_count]));
}
