/**
 * The whole story of an effect, for people: what was meant, what was sealed, each answer as it came and how it was read, the
 * evidence for and against, what was booked and what the partner was told.
 *
 * Promises: several reads without locks, so a story may be a moment old but never waits for a worker; every field is text, a
 * date or a whole count, amounts as decimal text of the asset. Never: a judgement, a write.
 */
import type { Query } from '../db/pool.ts';
import { WAITS_FOR } from '../engine/quarantine.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';
import { casesOfEffects, type ListedCase } from './case-list.ts';
import { loadAnswers, type StoryAnswers } from './story-answers.ts';
import { loadBankStories, type StoryBank } from './story-bank.ts';

type Rows<T> = T & Record<string, unknown>;

export interface StoryLine {
  readonly from_state: string | null;
  readonly to_state: string;
  readonly reason: string | null;
  readonly at: Date;
}
export interface StoryVariant {
  readonly kind: string;
  readonly hash: string;
  readonly to_address: string;
  readonly value: bigint;
  readonly gas_limit: bigint;
  readonly max_fee: bigint;
  readonly max_priority_fee: bigint;
  readonly signed_at: Date;
}
export interface StoryEvidence {
  readonly id: string;
  readonly kind: string;
  readonly says: 'yes' | 'no' | 'nothing';
  readonly rank: string;
  readonly source: string;
  readonly operator: string;
  readonly object_id: string | null;
  readonly detail: string;
  readonly proposal_id: string | null;
  readonly at: Date;
  readonly struck_at: Date | null;
}
export interface StoryPosting {
  readonly id: string;
  readonly key: string;
  readonly reverses: string | null;
  readonly created_at: Date;
  readonly entries: readonly { readonly account: string; readonly asset: string; readonly amount: string }[];
}
export interface StoryEvent {
  readonly event_id: string;
  readonly sequence: bigint;
  readonly type: string;
  readonly created_at: Date;
  readonly delivered: number;
  readonly waiting: number;
  readonly dead: number;
}
export interface EffectStory extends StoryAnswers, StoryBank {
  readonly id: string;
  readonly subject_type: string;
  readonly subject_id: string;
  readonly attempt: number;
  readonly partner_id: string;
  readonly rail: string;
  readonly state: string;
  readonly asset: string;
  readonly amount: string;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly lane: string | null;
  readonly created_at: Date;
  readonly wait_reason: string | null;
  readonly failures: number;
  readonly next_at: Date;
  readonly lease_until: Date | null;
  readonly wanted: string | null;
  readonly evidence_version: number;
  readonly testimonies: number;
  readonly hold: { readonly key: string; readonly state: string } | null;
  readonly seal: {
    readonly identity: string;
    readonly nonce: string | null;
    /** The exact bytes, base64. */
    readonly payload: string;
    readonly expect: unknown;
    readonly plan: unknown;
    readonly sealed_at: Date;
    readonly send_count: number;
    readonly send_by: Date | null;
    readonly last_sent_at: Date | null;
    readonly no_send: boolean;
  } | null;
  readonly end: {
    readonly at: Date;
    readonly evidence_id: string | null;
    readonly rank: string | null;
  } | null;
  readonly included_at: Date | null;
  readonly accepted_object: string | null;
  readonly contradicted_at: Date | null;
  readonly reopens: number;
  readonly history: readonly StoryLine[];
  readonly variants: readonly StoryVariant[];
  readonly evidence: readonly StoryEvidence[];
  readonly postings: readonly StoryPosting[];
  readonly cases: readonly ListedCase[];
}

interface EffectColumns {
  readonly id: bigint;
  readonly subject_type: string;
  readonly subject_id: string;
  readonly seq: number;
  readonly partner_id: string;
  readonly rail: string;
  readonly state: string;
  readonly asset: string;
  readonly decimals: number;
  readonly units: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly lane: string | null;
  readonly created_at: Date;
  readonly wait_reason: string | null;
  readonly failures: number;
  readonly next_at: Date;
  readonly lease_until: Date | null;
  readonly wanted: string | null;
  readonly evidence_version: number;
  readonly testimonies: number;
  readonly hold_key: string | null;
  readonly hold_state: string | null;
  readonly identity: string | null;
  readonly nonce: bigint | null;
  readonly payload: Uint8Array | null;
  readonly expect: unknown;
  readonly plan: unknown;
  readonly sealed_at: Date | null;
  readonly send_count: number;
  readonly send_by: Date | null;
  readonly last_sent_at: Date | null;
  readonly no_send: boolean;
  readonly ended_at: Date | null;
  readonly ended_by: bigint | null;
  readonly release_rank: string | null;
  readonly included_at: Date | null;
  readonly accepted_object: string | null;
  readonly contradicted_at: Date | null;
  readonly reopens: number;
}

const EFFECTS = `select e.id, e.subject_type, e.subject_id, e.seq, e.partner_id, e.rail, e.state, a.code as asset, a.decimals,
       e.amount as units, e.destination, e.wallet, e.signer, e.lane, e.created_at, ${WAITS_FOR} as wait_reason, e.failures, e.next_at,
       e.lease_until, e.wanted, e.evidence_version, e.testimonies, e.hold_key, h.state as hold_state, e.identity, e.nonce,
       e.payload, e.expect, e.plan, e.sealed_at, e.send_count, e.send_by, e.last_sent_at, e.no_send, e.ended_at,
       coalesce(e.settled_by, e.released_by) as ended_by, e.release_rank, e.included_at, e.accepted_object,
       e.contradicted_at, e.reopens
from payonce.effects e
join payonce.assets a on a.id = e.asset_id
left join payonce.holds h on h.key = e.hold_key
where e.id = any ($1::bigint[])
order by e.id`;

const HISTORY = `select effect_id, from_state, to_state, reason, at
from payonce.effect_history
where effect_id = any ($1::bigint[])
order by effect_id, seq`;

const VARIANTS = `select effect_id, kind, hash, to_address, value, gas_limit, max_fee, max_priority_fee, signed_at
from payonce.effect_variants
where effect_id = any ($1::bigint[])
order by id`;

const EVIDENCE = `select v.effect_id, v.id::text, v.kind, k.says, v.rank, v.source, v.operator, v.object_id, v.detail,
       v.proposal_id, v.at, v.struck_at
from payonce.effect_evidence v
join payonce.evidence_kinds k on k.kind = v.kind
where v.effect_id = any ($1::bigint[])
order by v.id`;

const POSTINGS = `select p.effect_id, p.id::text, p.idem_key as key, p.reverses::text, p.created_at, c.code as account, a.code as asset,
       a.decimals, e.amount as units
from payonce.postings p
join payonce.ledger_entries e on e.posting_id = p.id
join payonce.accounts c on c.id = e.account_id
join payonce.assets a on a.id = e.asset_id
where p.effect_id = any ($1::bigint[])
order by p.id, e.amount desc, c.code`;

type OfEffect<T> = Rows<T & { effect_id: bigint }>;
interface PostingLine {
  readonly id: string;
  readonly key: string;
  readonly reverses: string | null;
  readonly created_at: Date;
  readonly account: string;
  readonly asset: string;
  readonly decimals: number;
  readonly units: bigint;
}

/** `bodyCharactersMax`: raw answers are cut there. */
export async function readEffects(
  query: Query,
  ids: readonly bigint[],
  bodyCharactersMax?: number,
): Promise<EffectStory[]> {
  const of = async <T>(sql: string): Promise<Map<bigint, T[]>> => {
    const found = new Map<bigint, T[]>();
    for (const { effect_id, ...rest } of (await query.query<OfEffect<T>>(sql, [ids])).rows)
      found.set(effect_id, [...(found.get(effect_id) ?? []), rest as unknown as T]);
    return found;
  };
  const { rows } = await query.query<Rows<EffectColumns>>(EFFECTS, [ids]);
  const history = await of<StoryLine>(HISTORY);
  const variants = await of<StoryVariant>(VARIANTS);
  const answers = await loadAnswers(query, ids, bodyCharactersMax);
  const evidence = await of<StoryEvidence>(EVIDENCE);
  const postings = await of<PostingLine>(POSTINGS);
  const banks = await loadBankStories(query, ids);
  const cases = await casesOfEffects(query, ids);
  return rows.map((row) => ({
    ...toEffect(row),
    ...(banks.get(row.id) ?? { payee: null, believed: null, returns: [], statement_lines: [] }),
    history: history.get(row.id) ?? [],
    variants: variants.get(row.id) ?? [],
    ...(answers.get(row.id) ?? { answers: [], answers_left_out: 0 }),
    evidence: evidence.get(row.id) ?? [],
    postings: toPostings(postings.get(row.id) ?? []),
    cases: cases.filter((one) => one.effect_id === row.id.toString()),
  }));
}

type Listed = 'history' | 'variants' | 'evidence' | 'postings' | 'cases' | keyof StoryAnswers | keyof StoryBank;

function toEffect(row: EffectColumns): Omit<EffectStory, Listed> {
  return {
    id: row.id.toString(),
    subject_type: row.subject_type,
    subject_id: row.subject_id,
    attempt: row.seq,
    partner_id: row.partner_id,
    rail: row.rail,
    state: row.state,
    asset: row.asset,
    amount: formatUnits(row.units, row.decimals),
    destination: row.destination,
    wallet: row.wallet,
    signer: row.signer,
    lane: row.lane,
    created_at: row.created_at,
    wait_reason: row.wait_reason,
    failures: row.failures,
    next_at: row.next_at,
    lease_until: row.lease_until,
    wanted: row.wanted,
    evidence_version: row.evidence_version,
    testimonies: row.testimonies,
    hold: row.hold_key === null || row.hold_state === null ? null : { key: row.hold_key, state: row.hold_state },
    seal:
      row.identity === null || row.payload === null || row.sealed_at === null
        ? null
        : {
            identity: row.identity,
            nonce: row.nonce?.toString() ?? null,
            payload: Buffer.from(row.payload).toString('base64'),
            expect: row.expect,
            plan: row.plan,
            sealed_at: row.sealed_at,
            send_count: row.send_count,
            send_by: row.send_by,
            last_sent_at: row.last_sent_at,
            no_send: row.no_send,
          },
    end:
      row.ended_at === null
        ? null
        : { at: row.ended_at, evidence_id: row.ended_by?.toString() ?? null, rank: row.release_rank },
    included_at: row.included_at,
    accepted_object: row.accepted_object,
    contradicted_at: row.contradicted_at,
    reopens: row.reopens,
  };
}

function toPostings(lines: readonly PostingLine[]): StoryPosting[] {
  return [...Map.groupBy(lines, (line) => line.id).values()].flatMap((of) =>
    of.slice(0, 1).map(({ id, key, reverses, created_at }) => ({
      id,
      key,
      reverses,
      created_at,
      entries: of.map((line) => ({
        account: line.account,
        asset: line.asset,
        amount: formatUnits(line.units, line.decimals),
      })),
    })),
  );
}

const EVENTS = `select e.event_id, e.sequence, e.type, e.created_at,
       count(d.id) filter (where d.state = 'delivered')::int as delivered,
       count(d.id) filter (where d.state = 'waiting')::int as waiting,
       count(d.id) filter (where d.state = 'dead')::int as dead
from payonce.events e
left join payonce.deliveries d on d.event_id = e.id
where e.subject_type = $1
  and e.subject_id = $2
group by e.id
order by e.sequence`;

export async function readEvents(query: Query, subjectType: string, subjectId: string): Promise<StoryEvent[]> {
  return (await query.query<Rows<StoryEvent>>(EVENTS, [subjectType, subjectId])).rows;
}

const OF_SUBJECT = `select id
from payonce.effects
where subject_id = $1
order by id`;
const OF_HASH = `select effect_id as id from payonce.effect_variants where hash = $1
union
select effect_id from payonce.effect_evidence where object_id = $1
union
select id from payonce.effects where identity = $1
order by 1`;

// By partner first: that is how the references are indexed.
const OF_REFERENCE = `select e.id
from payonce.partners p
cross join lateral (
  select 'withdrawal' as type, w.id from payonce.withdrawals w where w.partner_id = p.id and w.external_id = $1
  union all
  select 'transfer', t.id from payonce.transfers t where t.partner_id = p.id and t.external_id = $1
  union all
  select 'transfer_batch', l.batch_id from payonce.transfer_batch_lines l where l.partner_id = p.id and l.external_id = $1) s
join payonce.effects e on e.subject_type = s.type and e.subject_id = s.id
order by e.id`;

/** By effect id, by the id of what it is for (a withdrawal, a transfer), by transaction hash, provider's object or identity, by a
 *  partner's own reference (external_id) of it or of a line of it. */
export async function findEffects(query: Query, asked: string): Promise<bigint[]> {
  const statements = /^\d{1,18}$/.test(asked)
    ? ['select id from payonce.effects where id = $1::bigint', OF_HASH, OF_REFERENCE]
    : [OF_SUBJECT, OF_HASH, OF_REFERENCE];
  const text = /^0x[0-9a-f]+$/i.test(asked) ? asked.toLowerCase() : asked;
  for (const sql of statements) {
    const { rows } = await query.query<{ id: bigint }>(sql, [text]);
    if (rows.length > 0) return rows.map((row) => row.id);
  }
  throw new PayonceError('PO_NOT_FOUND', {
    detail: `There is no effect ${asked}: give an effect's number, a withdrawal's or transfer's id or the partner's reference of it, a transaction's hash or a bank's id of it (payonce effect list)`,
  });
}
