/**
 * The statements of what is known of an effect: signed variants, evidence, raw answers, and what became of each send.
 * Lock order and isolation: as in `store.ts`; the trigger that counts testimony locks the effects by id.
 */
import { type Query, toText, toUnits, type Tx } from '../db/pool.ts';
import type { EvidenceKind, Rank } from './effect.ts';
import type { Signed, VariantKind } from './rail.ts';

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
