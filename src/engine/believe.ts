/**
 * A believed no: recorded, waited for, looked at afresh, and watched for long after (design §2).
 *
 * It stops all sends. Lateness runs from the last permission to send, because a receiver's stall, not our lease, bounds how
 * late a request may execute; then a fresh look, begun after lateness ended, must find nothing by every look-up. Anything
 * else there starts lateness anew. A release stays on a watch list (1 h, 1 d, the end of retention, a week more): testimony
 * that comes then re-opens it.
 */
import type { Tx } from '../db/pool.ts';

const BELIEVE = `update payonce.effects e
set believed_evidence = u.evidence,
    lateness_until = greatest(payonce.now(), coalesce(e.send_by, payonce.now())) + make_interval(secs => u.lateness_ms::float8 / 1000),
    evidence_version = e.evidence_version + 1
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::float8[]) as u (id, token, evidence, lateness_ms)
where e.id = u.id
  and e.believed_evidence is null
  and e.testimonies = 0
  and e.lease_token = u.token
  and e.lease_until is not null
returning e.id, e.lateness_until`;

export interface Believed {
  readonly id: bigint;
  readonly token: bigint;
  readonly evidenceId: bigint;
  readonly latenessMs: number;
}

/** Stops all sends and starts lateness; answers when each will be looked at afresh. */
export async function believe(tx: Tx, list: readonly Believed[]): Promise<Map<bigint, Date>> {
  if (list.length === 0) return new Map();
  const { rows } = await tx.query<{ id: bigint; lateness_until: Date }>(BELIEVE, [
    list.map((one) => one.id),
    list.map((one) => one.token),
    list.map((one) => one.evidenceId),
    list.map((one) => one.latenessMs),
  ]);
  return new Map(rows.map((row) => [row.id, row.lateness_until]));
}

const WAIT_ANEW = `update payonce.effects e
set lateness_until = payonce.now() + make_interval(secs => u.lateness_ms::float8 / 1000)
from unnest($1::bigint[], $2::bigint[], $3::float8[]) as u (id, token, lateness_ms)
where e.id = u.id
  and e.believed_evidence is not null
  and e.lease_token = u.token
  and e.lease_until is not null`;

/** The fresh look was not clear. */
export async function waitAnew(tx: Tx, list: readonly Omit<Believed, 'evidenceId'>[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(WAIT_ANEW, [
    list.map((one) => one.id),
    list.map((one) => one.token),
    list.map((one) => one.latenessMs),
  ]);
}
