/**
 * The engine's statements: one exported function per statement, `tx` first.
 *
 * Lock order everywhere: effects by id, rail row, signer rows, flow rows, accounts by id, the subjects' counters.
 * Isolation: READ COMMITTED, set by `tx`. Only the edge statements in `edges.ts` name the column `state`.
 * Effects are reached by id, not by a queue's index: `edges.ts` says why `e.state || ''`.
 * `(select payonce.now())` and not the bare call: a volatile function would keep the planner from the queue's index.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import type { EvidenceKind, Rank, State } from './effect.ts';
import type { AssetRef, BankPayee, ContractCall, Json, Plan, Signed, VariantKind } from './rail.ts';

export interface EffectRow {
  readonly id: bigint;
  readonly subjectType: string;
  readonly subjectId: string;
  readonly seq: number;
  readonly partnerId: string;
  readonly naturalKey: string;
  readonly rail: string;
  readonly state: State;
  readonly lane: string | null;
  readonly asset: AssetRef;
  readonly amount: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly call: ContractCall | null;
  readonly payee: BankPayee | null;
  readonly holdKey: string | null;
  readonly createdAt: Date;
  readonly leaseToken: bigint;
  readonly leaseUntil: Date | null;
  readonly nextAt: Date;
  readonly waitReason: string | null;
  readonly failures: number;
  readonly identity: string | null;
  readonly payload: Uint8Array | null;
  readonly expect: Json;
  readonly plan: Plan | null;
  readonly nonce: bigint | null;
  readonly sealedAt: Date | null;
  readonly sendCount: number;
  readonly sendBy: Date | null;
  readonly lastSentAt: Date | null;
  readonly noSend: boolean;
  readonly wanted: 'look' | 'ask' | 'bump' | 'cancel' | null;
  readonly testimonies: number;
  readonly evidenceVersion: number;
  readonly acceptedObject: string | null;
  readonly includedAt: Date | null;
  readonly believedEvidence: bigint | null;
  readonly latenessUntil: Date | null;
  readonly contradictedAt: Date | null;
  readonly reopens: number;
  /** The database's time at the read. */
  readonly now: Date;
}

const COLUMNS = `e.id, e.subject_type, e.subject_id, e.seq, e.partner_id, s.natural_key, e.rail, e.state, e.lane,
  e.asset_id, a.code as asset_code, a.decimals, a.chain, a.contract,
  e.amount, e.destination, e.wallet, e.signer, e.call, e.hold_key, e.created_at,
  e.lease_token, e.lease_until, e.next_at, e.wait_reason, e.failures,
  e.identity, e.payload, e.expect, e.plan, e.nonce, e.sealed_at, e.send_count, e.send_by, e.last_sent_at, e.no_send, e.wanted,
  e.testimonies, e.evidence_version, e.accepted_object, e.included_at, e.believed_evidence, e.lateness_until, e.contradicted_at, e.reopens,
  payonce.now() as now`;

const JOINS = `join payonce.assets a on a.id = e.asset_id
join payonce.subjects s on s.type = e.subject_type and s.id = e.subject_id`;

export function toEffect(row: Row): EffectRow {
  return {
    id: toUnits(row['id'], 'effects.id'),
    subjectType: toText(row['subject_type'], 'effects.subject_type'),
    subjectId: toText(row['subject_id'], 'effects.subject_id'),
    seq: row['seq'] as number,
    partnerId: toText(row['partner_id'], 'effects.partner_id'),
    naturalKey: toText(row['natural_key'], 'subjects.natural_key'),
    rail: toText(row['rail'], 'effects.rail'),
    state: toState(row['state']),
    lane: row['lane'] as string | null,
    asset: {
      id: toText(row['asset_id'], 'effects.asset_id'),
      code: toText(row['asset_code'], 'assets.code'),
      decimals: row['decimals'] as number,
      chain: toText(row['chain'], 'assets.chain'),
      contract: row['contract'] as string | null,
    },
    amount: toUnits(row['amount'], 'effects.amount'),
    destination: toText(row['destination'], 'effects.destination'),
    wallet: toText(row['wallet'], 'effects.wallet'),
    signer: toText(row['signer'], 'effects.signer'),
    call: callFromJson(row['call'] as Json),
    payee: payeeFromJson(row['call'] as Json),
    holdKey: row['hold_key'] as string | null,
    createdAt: row['created_at'] as Date,
    leaseToken: toUnits(row['lease_token'], 'effects.lease_token'),
    leaseUntil: row['lease_until'] as Date | null,
    nextAt: row['next_at'] as Date,
    waitReason: row['wait_reason'] as string | null,
    failures: row['failures'] as number,
    identity: row['identity'] as string | null,
    payload: row['payload'] as Uint8Array | null,
    expect: row['expect'] as Json,
    plan: row['plan'] as Plan | null,
    nonce: row['nonce'] as bigint | null,
    sealedAt: row['sealed_at'] as Date | null,
    sendCount: row['send_count'] as number,
    sendBy: row['send_by'] as Date | null,
    lastSentAt: row['last_sent_at'] as Date | null,
    noSend: row['no_send'] as boolean,
    wanted: row['wanted'] as EffectRow['wanted'],
    testimonies: row['testimonies'] as number,
    evidenceVersion: row['evidence_version'] as number,
    acceptedObject: row['accepted_object'] as string | null,
    includedAt: row['included_at'] as Date | null,
    believedEvidence: row['believed_evidence'] as bigint | null,
    latenessUntil: row['lateness_until'] as Date | null,
    contradictedAt: row['contradicted_at'] as Date | null,
    reopens: row['reopens'] as number,
    now: row['now'] as Date,
  };
}

function toState(value: unknown): State {
  if (value === 'PENDING' || value === 'SEALED' || value === 'SETTLED' || value === 'RELEASED') return value;
  throw new InvariantBroken(`effects.state is ${String(value)}`);
}

interface CallJson {
  to: string;
  data: string;
  value: string;
  logs: { address: string; topics: (string | null)[]; data?: string; minimumWord?: number; minimum?: string }[];
}
/** The one frozen column `call` holds a contract call or a bank's payee. */
export function callToJson(call: ContractCall | null, payee: BankPayee | null): string | null {
  if (payee !== null) return JSON.stringify({ payee });
  if (call === null) return null;
  const json: CallJson = {
    to: call.to,
    data: call.data,
    value: call.value.toString(),
    logs: call.logs.map((log) => {
      const { minimum, ...rest } = log;
      return { ...rest, topics: [...log.topics], ...(minimum === undefined ? {} : { minimum: minimum.toString() }) };
    }),
  };
  return JSON.stringify(json);
}
function payeeFromJson(value: Json): BankPayee | null {
  return value !== null && typeof value === 'object' && 'payee' in value ? (value.payee as unknown as BankPayee) : null;
}

function callFromJson(value: Json): ContractCall | null {
  if (value === null || payeeFromJson(value) !== null) return null;
  const json = value as unknown as CallJson;
  return {
    to: json.to,
    data: json.data,
    value: BigInt(json.value),
    logs: json.logs.map((log) => {
      const { minimum, ...rest } = log;
      return minimum === undefined ? rest : { ...rest, minimum: BigInt(minimum) };
    }),
  };
}

const CLAIM_SEALED = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $3::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $3::float8 / 1000)
where e.id = any (array(
  select q.id
  from payonce.effects q
  where q.rail = $1
    and q.state = 'SEALED'
    and q.next_at <= (select payonce.now())
  order by q.next_at, q.id
  limit $2
  for update skip locked))
returning e.id`;

/** Takes a lease on due sealed effects; answers their ids. */
export async function claimSealed(tx: Tx, rail: string, limit: number, leaseMs: number): Promise<bigint[]> {
  return (await tx.query<{ id: bigint }>(CLAIM_SEALED, [rail, limit, leaseMs])).rows.map((row) => row.id);
}

const CLAIM_PENDING = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $4::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $4::float8 / 1000)
where e.id = any (array(
  select x.id
  from unnest($2::text[], $3::int[]) as w (signer, room)
  cross join lateral (
    select q.id
    from payonce.effects q
    where q.rail = $1
      and q.signer = w.signer
      and q.state = 'PENDING'
      and q.next_at <= (select payonce.now())
    order by q.next_at, q.id
    limit w.room
    for update skip locked) x))
returning e.id`;

/** Takes a lease on due pending effects, per signer no more than there is room for. */
export async function claimPending(
  tx: Tx,
  rail: string,
  room: readonly { signer: string; room: number }[],
  leaseMs: number,
): Promise<bigint[]> {
  if (room.length === 0) return [];
  const { rows } = await tx.query<{ id: bigint }>(CLAIM_PENDING, [
    rail,
    room.map((one) => one.signer),
    room.map((one) => one.room),
    leaseMs,
  ]);
  return rows.map((row) => row.id);
}

const CLAIM_ONE = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $2::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $2::float8 / 1000)
where e.id = any (array(
  select q.id
  from payonce.effects q
  where q.id = $1
    and (q.lease_until is null or q.lease_until <= (select payonce.now()))
  for update skip locked))
returning e.id`;

/** A lease on one effect in whatever state; 0 rows: somebody else has it (`busy`). */
export async function claimOne(tx: Tx, id: bigint, leaseMs: number): Promise<'claimed' | 'busy'> {
  return (await tx.query(CLAIM_ONE, [id, leaseMs])).rowCount === 1 ? 'claimed' : 'busy';
}

const LOAD = `select ${COLUMNS}
from payonce.effects e
${JOINS}
where e.id = any ($1::bigint[])
order by e.id`;

export async function loadEffects(query: Query, ids: readonly bigint[]): Promise<EffectRow[]> {
  if (ids.length === 0) return [];
  return (await query.query(LOAD, [ids])).rows.map(toEffect);
}

const LOCK = `${LOAD}
for no key update of e`;

export async function lockEffects(tx: Tx, ids: readonly bigint[]): Promise<EffectRow[]> {
  if (ids.length === 0) return [];
  return (await tx.query(LOCK, [ids])).rows.map(toEffect);
}

const LOCK_SUBJECT = `select ${COLUMNS}
from payonce.effects e
${JOINS}
where e.subject_type = $1
  and e.subject_id = $2
order by e.id
for no key update of e`;

export async function lockEffectsOfSubject(tx: Tx, type: string, id: string): Promise<EffectRow[]> {
  return (await tx.query(LOCK_SUBJECT, [type, id])).rows.map(toEffect);
}

const SIGNER_ROOM = `select g.address as signer,
       (select count(*) from payonce.effects e
        where e.rail = g.rail and e.signer = g.address and e.state = 'SEALED' and e.included_at is null)::int as open
from payonce.signers g
where g.rail = $1
  and g.quarantined_at is null
order by g.address`;

/** Sealed and unmined per signer that may seal. */
export async function loadSignerLoad(query: Query, rail: string): Promise<{ signer: string; open: number }[]> {
  return (await query.query<{ signer: string; open: number }>(SIGNER_ROOM, [rail])).rows;
}

const IN_FLIGHT = `select wallet, asset_id, sum(amount) as amount
from payonce.effects
where rail = $1
  and state = 'SEALED'
  and included_at is null
group by wallet, asset_id`;

export async function loadInFlight(
  query: Query,
  rail: string,
): Promise<{ wallet: string; assetId: string; amount: bigint }[]> {
  const { rows } = await query.query<{ wallet: string; asset_id: string; amount: bigint }>(IN_FLIGHT, [rail]);
  return rows.map((row) => ({ wallet: row.wallet, assetId: row.asset_id, amount: toUnits(row.amount, 'sum(amount)') }));
}

const GIVE_BACK = `update payonce.effects e
set lease_until = null,
    next_at = payonce.now() + make_interval(secs => u.wait_ms::float8 / 1000),
    wait_reason = u.reason,
    failures = case when u.counts then e.failures + 1 else 0 end
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::bool[]) as u (id, token, wait_ms, reason, counts)
where e.id = u.id
  and e.lease_token = u.token
  and e.lease_until is not null`;

export interface GiveBack {
  readonly id: bigint;
  readonly token: bigint;
  readonly waitMs: number;
  readonly reason: string | null;
  /** Counts as a failure in a row. */
  readonly counts: boolean;
}
/** Ends leases with the time of the next look; a stale token touches nothing. */
export async function giveBack(tx: Tx, list: readonly GiveBack[]): Promise<void> {
  if (list.length === 0) return;
  const sorted = [...list].sort((left, right) => (left.id < right.id ? -1 : 1));
  await tx.query(GIVE_BACK, [
    sorted.map((one) => one.id),
    sorted.map((one) => one.token),
    sorted.map((one) => Math.round(one.waitMs)),
    sorted.map((one) => one.reason),
    sorted.map((one) => one.counts),
  ]);
}

const RAISE = `update payonce.effects e
set send_count = e.send_count + 1,
    last_sent_at = payonce.now(),
    send_by = payonce.now() + make_interval(secs => $3::float8 / 1000),
    evidence_version = e.evidence_version + 1
from unnest($1::bigint[], $2::bigint[]) as u (id, token)
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
returning e.id, e.send_count`;

/**
 * Permission for one more send of the same identity: tests lease and key window on the database's clock. Not in the
 * answer = do not send. `keyWindowMs` null: the identity is for ever; outside it (0: a rail without keys) only while every
 * earlier send is known never to have left. `stopContradicted`: the live effect of a
 * contradicted subject is not sent on (its cancel may be).
 */
export async function raiseSends(
  tx: Tx,
  list: readonly { id: bigint; token: bigint }[],
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
  ]);
  return new Map(rows.map((row) => [row.id, row.send_count]));
}

const VARIANTS = `select effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee
from payonce.effect_variants
where effect_id = any ($1::bigint[])
order by id`;

export async function loadVariants(query: Query, effectIds: readonly bigint[]): Promise<Map<bigint, Signed[]>> {
  const found = new Map<bigint, Signed[]>();
  if (effectIds.length === 0) return found;
  const { rows } = await query.query(VARIANTS, [effectIds]);
  for (const row of rows) {
    const id = toUnits(row['effect_id'], 'effect_variants.effect_id');
    const list = found.get(id) ?? [];
    list.push({
      kind: row['kind'] as VariantKind,
      hash: toText(row['hash'], 'effect_variants.hash'),
      raw: row['raw'] as Uint8Array,
      to: toText(row['to_address'], 'effect_variants.to_address'),
      value: toUnits(row['value'], 'effect_variants.value').toString(),
      data: toText(row['data'], 'effect_variants.data'),
      gasLimit: toUnits(row['gas_limit'], 'effect_variants.gas_limit').toString(),
      maxFeePerGas: toUnits(row['max_fee'], 'effect_variants.max_fee').toString(),
      maxPriorityFeePerGas: toUnits(row['max_priority_fee'], 'effect_variants.max_priority_fee').toString(),
    });
    found.set(id, list);
  }
  return found;
}

const STORE_VARIANTS = `insert into payonce.effect_variants
  (effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::numeric[], $7::text[], $8::numeric[], $9::numeric[], $10::numeric[])
on conflict (hash) do nothing`;

/** Stores signed variants before they are sent; the same bytes twice are one. */
export async function storeVariants(tx: Tx, list: readonly { effectId: bigint; signed: Signed }[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE_VARIANTS, [
    list.map((one) => one.effectId),
    list.map((one) => one.signed.kind),
    list.map((one) => one.signed.hash),
    list.map((one) => Buffer.from(one.signed.raw)),
    list.map((one) => one.signed.to),
    list.map((one) => one.signed.value),
    list.map((one) => one.signed.data),
    list.map((one) => one.signed.gasLimit),
    list.map((one) => one.signed.maxFeePerGas),
    list.map((one) => one.signed.maxPriorityFeePerGas),
  ]);
}

export interface StoredEvidence {
  readonly id: bigint;
  readonly effectId: bigint;
  readonly kind: EvidenceKind;
  readonly rank: Rank;
  readonly source: string;
  readonly operator: string;
  readonly objectId: string | null;
  readonly struck: boolean;
}

const LOAD_EVIDENCE = `select id, effect_id, kind, rank, source, operator, object_id, struck_at is not null as struck
from payonce.effect_evidence
where effect_id = any ($1::bigint[])
order by id`;

export async function loadEvidence(query: Query, effectIds: readonly bigint[]): Promise<Map<bigint, StoredEvidence[]>> {
  const found = new Map<bigint, StoredEvidence[]>();
  if (effectIds.length === 0) return found;
  const { rows } = await query.query(LOAD_EVIDENCE, [effectIds]);
  for (const row of rows) {
    const one: StoredEvidence = {
      id: toUnits(row['id'], 'effect_evidence.id'),
      effectId: toUnits(row['effect_id'], 'effect_evidence.effect_id'),
      kind: row['kind'] as EvidenceKind,
      rank: row['rank'] as Rank,
      source: row['source'] as string,
      operator: row['operator'] as string,
      objectId: row['object_id'] as string | null,
      struck: row['struck'] as boolean,
    };
    const list = found.get(one.effectId) ?? [];
    list.push(one);
    found.set(one.effectId, list);
  }
  return found;
}

const STORE_EVIDENCE = `insert into payonce.effect_evidence
  (effect_id, kind, rank, source, operator, object_id, detail, send_number, lease_token, proposal_id)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bigint[], $10::text[])
returning id`;

export interface NewEvidence {
  readonly effectId: bigint;
  readonly kind: EvidenceKind;
  readonly rank: Rank;
  readonly source: string;
  readonly operator: string;
  readonly objectId: string | null;
  readonly detail: string;
  readonly sendNumber: number;
  readonly token: bigint;
  readonly proposalId?: string | null;
}
/** Stores evidence in order; the trigger counts testimony on the effects' own rows. Answers the ids in order. */
export async function storeEvidence(tx: Tx, list: readonly NewEvidence[]): Promise<bigint[]> {
  if (list.length === 0) return [];
  const { rows } = await tx.query<{ id: bigint }>(STORE_EVIDENCE, [
    list.map((one) => one.effectId),
    list.map((one) => one.kind),
    list.map((one) => one.rank),
    list.map((one) => one.source),
    list.map((one) => one.operator),
    list.map((one) => one.objectId),
    list.map((one) => one.detail.slice(0, 2_000)),
    list.map((one) => one.sendNumber),
    list.map((one) => one.token),
    list.map((one) => one.proposalId ?? null),
  ]);
  return rows.map((row) => row.id);
}

const SEND_OUTCOMES = `select effect_id, send_number,
       bool_and(reach = 'never_connected') as never_left,
       bool_or(refused is not null) as refused,
       bool_or(refused = 'at_once') as at_once
from payonce.effect_answers
where effect_id = any ($1::bigint[])
  and operation = 'send'
group by effect_id, send_number`;

/** What became of one send, as far as it was answered. */
export interface SendOutcome {
  readonly sendNumber: number;
  readonly neverLeft: boolean;
  readonly refused: boolean;
  readonly atOnce: boolean;
}
export async function loadSendOutcomes(
  query: Query,
  effectIds: readonly bigint[],
): Promise<Map<bigint, SendOutcome[]>> {
  const found = new Map<bigint, SendOutcome[]>();
  if (effectIds.length === 0) return found;
  const { rows } = await query.query<{
    effect_id: bigint;
    send_number: number;
    never_left: boolean;
    refused: boolean;
    at_once: boolean | null;
  }>(SEND_OUTCOMES, [effectIds]);
  for (const row of rows) {
    const list = found.get(row.effect_id) ?? [];
    list.push({
      sendNumber: row.send_number,
      neverLeft: row.never_left,
      refused: row.refused,
      atOnce: row.at_once === true,
    });
    found.set(row.effect_id, list);
  }
  return found;
}

const STORE_ANSWERS = `with given as (
  select * from unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
    with ordinality as g (effect_id, send_number, token, operation, source, operator, reach, status, body, variant_hash, digest, observed, why, refused, n)
),
repeated as (
  update payonce.effect_answers a
  set repeats = a.repeats + 1, last_received_at = payonce.now(), body = g.body, observed_why = g.why
  from given g
  where g.operation = 'look'
    and a.digest = g.digest
    and a.id = (select max(p.id) from payonce.effect_answers p where p.effect_id = g.effect_id and p.operation = 'look' and p.source = g.source)
  returning g.n
)
insert into payonce.effect_answers (effect_id, send_number, lease_token, operation, source, operator, reach, status, body, variant_hash, digest, observed, observed_why, refused)
select effect_id, send_number, token, operation, source, operator, reach, status, body, variant_hash, digest, observed, why, refused
from given
where n not in (select n from repeated)
order by n`;

export interface NewAnswer {
  readonly effectId: bigint;
  readonly sendNumber: number;
  readonly token: bigint;
  readonly operation: 'send' | 'look';
  readonly source: string;
  readonly operator: string;
  readonly reach: string;
  readonly status: number | null;
  readonly body: string;
  readonly variantHash: string | null;
  /** Of what was read: a look that shows the same again only raises `repeats` and replaces the body. */
  readonly digest: string;
  readonly observed: string;
  readonly why: string;
  readonly refused: 'at_once' | 'other' | null;
}
export async function storeAnswers(tx: Tx, list: readonly NewAnswer[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE_ANSWERS, [
    list.map((one) => one.effectId),
    list.map((one) => one.sendNumber),
    list.map((one) => one.token),
    list.map((one) => one.operation),
    list.map((one) => one.source),
    list.map((one) => one.operator),
    list.map((one) => one.reach),
    list.map((one) => one.status),
    // PostgreSQL text cannot hold NUL; a body with one is garbage anyway and is kept readable.
    list.map((one) => one.body.replaceAll('\u0000', '\uFFFD')),
    list.map((one) => one.variantHash),
    list.map((one) => one.digest),
    list.map((one) => one.observed),
    list.map((one) => one.why.slice(0, 2_000)),
    list.map((one) => one.refused),
  ]);
}
