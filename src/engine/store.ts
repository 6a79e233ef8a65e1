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
import { storableText } from '../kernel/foreign-text.ts';
import type { State } from './effect.ts';
import type {
  AssetRef,
  BankLine,
  BankPayee,
  BatchLine,
  ChainLine,
  ContractCall,
  Json,
  Plan,
  TradeTerms,
} from './rail.ts';

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
  readonly lines: readonly BatchLine[] | null;
  readonly trade: TradeTerms | null;
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
  readonly releasedBy: bigint | null;
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
  e.testimonies, e.evidence_version, e.accepted_object, e.included_at, e.believed_evidence, e.released_by, e.lateness_until, e.contradicted_at, e.reopens,
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
    lines: linesFromJson(row['call'] as Json),
    trade: tradeFromJson(row['call'] as Json),
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
    releasedBy: row['released_by'] as bigint | null,
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
  minimum?: { word: number; log: number; least: string };
}
/** What an effect should do beyond amount and destination; at most one of them. */
export interface Terms {
  readonly call?: ContractCall | null | undefined;
  readonly payee?: BankPayee | null | undefined;
  readonly lines?: readonly BatchLine[] | null | undefined;
  readonly trade?: TradeTerms | null | undefined;
}

/** The one frozen column `call` holds a contract call, a bank's payee, a batch's lines or a trade's terms. */
export function callToJson({ call, payee, lines, trade }: Terms): string | null {
  if (payee !== null && payee !== undefined) return JSON.stringify({ payee });
  if (trade !== null && trade !== undefined) return JSON.stringify({ trade });
  if (lines !== null && lines !== undefined)
    return JSON.stringify({ lines: lines.map((line) => ({ ...line, amount: line.amount.toString() })) });
  if (call === null || call === undefined) return null;
  const json: CallJson = {
    to: call.to,
    data: call.data,
    value: call.value.toString(),
    logs: call.logs.map((log) => {
      const { minimum, ...rest } = log;
      return { ...rest, topics: [...log.topics], ...(minimum === undefined ? {} : { minimum: minimum.toString() }) };
    }),
    ...(call.minimum === undefined ? {} : { minimum: { ...call.minimum, least: call.minimum.least.toString() } }),
  };
  return JSON.stringify(json);
}

function payeeFromJson(value: Json): BankPayee | null {
  return value !== null && typeof value === 'object' && 'payee' in value ? (value.payee as unknown as BankPayee) : null;
}

function tradeFromJson(value: Json): TradeTerms | null {
  return value !== null && typeof value === 'object' && 'trade' in value
    ? (value.trade as unknown as TradeTerms)
    : null;
}

function linesFromJson(value: Json): readonly BatchLine[] | null {
  if (value === null || typeof value !== 'object' || !('lines' in value)) return null;
  const lines = value.lines as unknown as readonly ((Omit<BankLine, 'amount'> | Omit<ChainLine, 'amount'>) & {
    readonly amount: string;
  })[];
  return lines.map((line): BatchLine => ({ ...line, amount: BigInt(line.amount) }));
}

function callFromJson(value: Json): ContractCall | null {
  if (value === null || typeof value !== 'object' || !('data' in value)) return null;
  const json = value as unknown as CallJson;
  return {
    to: json.to,
    data: json.data,
    value: BigInt(json.value),
    logs: json.logs.map((log) => {
      const { minimum, ...rest } = log;
      return minimum === undefined ? rest : { ...rest, minimum: BigInt(minimum) };
    }),
    ...(json.minimum === undefined ? {} : { minimum: { ...json.minimum, least: BigInt(json.minimum.least) } }),
  };
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

const OPEN_OF = `select e.signer, count(*)::int as open
from payonce.effects e
where e.rail = $1
  and e.signer = any ($2::text[])
  and e.state = 'SEALED'
  and e.included_at is null
group by e.signer`;

/** Sealed and unmined per signer; one that has nothing open is not in the answer. */
export async function loadOpenOf(
  query: Query,
  rail: string,
  signers: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await query.query<{ signer: string; open: number }>(OPEN_OF, [rail, signers]);
  return new Map(rows.map((row) => [row.signer, row.open]));
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
    sorted.map((one) => (one.reason === null ? null : storableText(one.reason))),
    sorted.map((one) => one.counts),
  ]);
}
