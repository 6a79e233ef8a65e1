/**
 * The edges: the only statements that name the column `state`, one per edge (W15). Each names the state that it leaves,
 * and its affected rows are the verdict (W1): who is in the answer made the transition, who is not was too late and ends
 * there (W2). The SQL guard refuses everything else, also SETTLED over SETTLED.
 *
 * `e.state || ''` keeps the planner from the queues' partial indexes: it takes them to be small and reads them whole, with
 * all that left the queue since the last vacuum (5,900 index entries for 200 effects, in the benchmark). By id it is one
 * look-up each.
 */
import type { Tx } from '../db/pool.ts';
import type { Json } from './rail.ts';

const INTEND = `insert into payonce.effects
  (subject_type, subject_id, seq, partner_id, rail, lane, asset_id, amount, destination, wallet, signer, call, hold_key)
select * from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::text[], $10::text[], $11::text[], $12::jsonb[], $13::text[])
returning id, subject_id`;

export interface NewEffect {
  readonly subjectType: string;
  readonly subjectId: string;
  readonly seq: number;
  readonly partnerId: string;
  readonly rail: string;
  readonly lane: string | null;
  readonly assetId: string;
  readonly amount: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly call: string | null;
  readonly holdKey: string | null;
}

/** → PENDING. Durable with the caller's commit: P1. A second live effect of a subject is a unique violation. */
export async function intendEffects(tx: Tx, list: readonly NewEffect[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(INTEND, [
    list.map((one) => one.subjectType),
    list.map((one) => one.subjectId),
    list.map((one) => one.seq),
    list.map((one) => one.partnerId),
    list.map((one) => one.rail),
    list.map((one) => one.lane),
    list.map((one) => one.assetId),
    list.map((one) => one.amount),
    list.map((one) => one.destination),
    list.map((one) => one.wallet),
    list.map((one) => one.signer),
    list.map((one) => one.call),
    list.map((one) => one.holdKey),
  ]);
}

const SEAL = `update payonce.effects e
set state = 'SEALED',
    identity = u.identity, payload = u.payload, expect = u.expect, plan = u.plan, nonce = u.nonce,
    sealed_at = payonce.now(), first_sent_at = payonce.now(), last_sent_at = payonce.now(), send_count = 1,
    send_by = payonce.now() + make_interval(secs => $8::float8 / 1000),
    wait_reason = null, failures = 0
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::jsonb[], $6::jsonb[], $7::bigint[]) as u (id, token, identity, payload, expect, plan, nonce)
where e.id = u.id
  and e.state || '' = 'PENDING'
  and e.lease_token = u.token
  and e.lease_until is not null
  and e.testimonies = 0
returning e.id`;

export interface NewSeal {
  readonly id: bigint;
  readonly token: bigint;
  readonly identity: string;
  readonly payload: Uint8Array;
  readonly expect: Json;
  readonly plan: Json;
  readonly nonce: bigint | null;
}

/** PENDING → SEALED. DURABLE: the identity and the exact bytes, before the first of them leaves. */
export async function sealEffects(tx: Tx, list: readonly NewSeal[], sendForMs: number): Promise<Set<bigint>> {
  if (list.length === 0) return new Set();
  const { rows } = await tx.query<{ id: bigint }>(SEAL, [
    list.map((one) => one.id),
    list.map((one) => one.token),
    list.map((one) => one.identity),
    list.map((one) => Buffer.from(one.payload)),
    list.map((one) => JSON.stringify(one.expect)),
    list.map((one) => JSON.stringify(one.plan)),
    list.map((one) => one.nonce),
    sendForMs,
  ]);
  return new Set(rows.map((row) => row.id));
}

const SETTLE = `update payonce.effects e
set state = 'SETTLED', settled_by = u.evidence, ended_at = payonce.now(), last_unreadable = false, wanted = null, wait_reason = null,
    lease_until = null,
    watch_at = payonce.now() + make_interval(secs => u.again_after_ms / 1000)
from unnest($1::bigint[], $2::bigint[], $3::float8[]) as u (id, evidence, again_after_ms)
where e.id = u.id
  and e.state || '' = 'SEALED'
returning e.id`;

/** SEALED → SETTLED. A yes needs no lock: no token is asked for (design §1, 6). */
export async function settleEffects(
  tx: Tx,
  list: readonly {
    id: bigint;
    evidenceId: bigint;
    /** It is looked at again after so long; absent: never. */
    againAfterMs?: number | null;
  }[],
): Promise<Set<bigint>> {
  if (list.length === 0) return new Set();
  const { rows } = await tx.query<{ id: bigint }>(SETTLE, [
    list.map((one) => one.id),
    list.map((one) => one.evidenceId),
    list.map((one) => one.againAfterMs ?? null),
  ]);
  return new Set(rows.map((row) => row.id));
}

const RELEASE = `update payonce.effects e
set state = 'RELEASED', released_by = u.evidence, release_rank = u.rank, ended_at = payonce.now(), last_unreadable = false, wanted = null,
    wait_reason = null, lease_until = null,
    fresh_look_at = coalesce(u.looked_at, e.fresh_look_at),
    watch_at = case when u.rank = 'believed' or exists (
      select 1 from payonce.effect_evidence v where v.id = u.evidence and v.kind in ('REFUSED_AT_ONCE', 'REJECTION_STORED', 'PROVIDER_FAILED'))
      then payonce.now() + interval '1 hour' end
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bool[], $6::timestamptz[]) as u (id, token, evidence, rank, over_word, looked_at)
where e.id = u.id
  and e.state || '' = 'SEALED'
  and e.lease_token = u.token
  and e.lease_until is not null
  and (e.testimonies = 0 or u.over_word)
returning e.id`;

/**
 * SEALED → RELEASED. A no needs the lease, and no testimony on the row (or a no about the accepted object itself). What rests
 * on a provider's refusal is watched as a believed no is: it may have lied, or a proxy may have kept a copy.
 */
export async function releaseEffects(
  tx: Tx,
  list: readonly {
    id: bigint;
    token: bigint;
    evidenceId: bigint;
    rank: 'dead' | 'believed';
    overWord: boolean;
    /** When the fresh look of a believed release began. */
    lookedAt?: Date | null;
  }[],
): Promise<Set<bigint>> {
  if (list.length === 0) return new Set();
  const { rows } = await tx.query<{ id: bigint }>(RELEASE, [
    list.map((one) => one.id),
    list.map((one) => one.token),
    list.map((one) => one.evidenceId),
    list.map((one) => one.rank),
    list.map((one) => one.overWord),
    list.map((one) => one.lookedAt ?? null),
  ]);
  return new Set(rows.map((row) => row.id));
}

const RELEASE_PENDING = `update payonce.effects e
set state = 'RELEASED', released_by = u.evidence, release_rank = 'dead', ended_at = payonce.now(), wanted = null, wait_reason = null, lease_until = null
from unnest($1::bigint[], $2::bigint[]) as u (id, evidence)
where e.id = u.id
  and e.state || '' = 'PENDING'
  and e.testimonies = 0
returning e.id`;

/** PENDING → RELEASED: never sealed, so nothing can have left. A planner's lease does not matter: its seal will find 0 rows. */
export async function releasePending(
  tx: Tx,
  list: readonly { id: bigint; evidenceId: bigint }[],
): Promise<Set<bigint>> {
  if (list.length === 0) return new Set();
  const { rows } = await tx.query<{ id: bigint }>(RELEASE_PENDING, [
    list.map((one) => one.id),
    list.map((one) => one.evidenceId),
  ]);
  return new Set(rows.map((row) => row.id));
}

const REOPEN = `update payonce.effects e
set state = 'SEALED', no_send = true, lane = null, reopened_at = payonce.now(), reopens = e.reopens + 1, ended_at = null,
    released_by = null, release_rank = null, watch_at = null, believed_evidence = null, lateness_until = null, next_at = payonce.now()
where e.id = $1
  and e.state = 'RELEASED'
  and e.testimonies > 0
returning e.id`;

/** RELEASED → SEALED: looked at, never sent again. */
export async function reopenEffect(tx: Tx, id: bigint): Promise<boolean> {
  return (await tx.query(REOPEN, [id])).rowCount === 1;
}
