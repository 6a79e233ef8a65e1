/**
 * What the tables of orders have in common (withdrawals, transfers …): their columns, who holds an external id, the pages of a
 * list, and an order's history. Each flow keeps its own complete statements; here they are run and their rows decoded.
 * Isolation: READ COMMITTED. No locks.
 */
import { type Query, type Row, toText, toUnits } from '../db/pool.ts';

export interface StoredOrder {
  readonly id: string;
  readonly partnerId: string;
  readonly externalId: string | null;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  readonly fee: bigint;
  readonly requestedAt: Date;
  readonly day: string;
}

export function toStoredOrder(row: Row): StoredOrder {
  return {
    id: toText(row['id'], 'id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    externalId: row['external_id'] as string | null,
    assetId: toText(row['asset_id'], 'asset_id'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'amount'),
    fee: toUnits(row['fee'], 'fee'),
    requestedAt: row['requested_at'] as Date,
    day: toText(row['day'], 'day'),
  };
}

/** A flow's statements. */
interface OrderStatements {
  /** By ids ($1). */
  readonly load: string;
  /** Who holds an external id: `partner_id, external_id, id` of the pairs ($1, $2). */
  readonly external: string;
  /** One of a partner ($1, $2), with its status. */
  readonly read: string;
  /** A page: partner, place and id to begin before, status, external id, limit ($1 … $6); with status and `place`. */
  readonly list: string;
}

export interface OrderPage {
  readonly before: { readonly at: string; readonly id: string } | null;
  readonly status: string | null;
  readonly externalId: string | null;
  readonly limit: number;
}

export type WithStatus<One> = One & { readonly status: string };
/** `place`: where it stands in a list, at the database's own precision; a Date would cut the microseconds and skip rows. */
export type Listed<One> = WithStatus<One> & { readonly place: string };

export interface OrderReader<One> {
  readonly load: (query: Query, ids: readonly string[]) => Promise<Map<string, One>>;
  readonly loadExternalIds: (
    query: Query,
    list: readonly { partnerId: string; externalId: string }[],
  ) => Promise<Map<string, string>>;
  /** `null` for another partner's as well. */
  readonly read: (query: Query, partnerId: string, id: string) => Promise<WithStatus<One> | null>;
  readonly list: (query: Query, partnerId: string, page: OrderPage) => Promise<Listed<One>[]>;
}

export function makeOrderReader<One extends StoredOrder>(
  sql: OrderStatements,
  toOrder: (row: Row) => One,
): OrderReader<One> {
  const withStatus = (row: Row): WithStatus<One> => ({
    ...toOrder(row),
    status: toText(row['status'], 'status'),
  });
  return {
    async load(query, ids) {
      const { rows } = await query.query(sql.load, [ids]);
      return new Map(rows.map(toOrder).map((one) => [one.id, one]));
    },
    async loadExternalIds(query, list) {
      if (list.length === 0) return new Map();
      const { rows } = await query.query<{ partner_id: string; external_id: string; id: string }>(sql.external, [
        list.map((one) => one.partnerId),
        list.map((one) => one.externalId),
      ]);
      return new Map(rows.map((row) => [`${row.partner_id}\n${row.external_id}`, row.id]));
    },
    async read(query, partnerId, id) {
      const [row] = (await query.query(sql.read, [partnerId, id])).rows;
      return row === undefined ? null : withStatus(row);
    },
    async list(query, partnerId, page) {
      const { rows } = await query.query(sql.list, [
        partnerId,
        page.before?.at ?? null,
        page.before?.id ?? null,
        page.status,
        page.externalId,
        page.limit,
      ]);
      return rows.map((row) => ({ ...withStatus(row), place: toText(row['place'], 'place') }));
    },
  };
}

const HISTORY = `select h.to_state, h.reason, h.at, e.seq,
       (select v.object_id from payonce.effect_evidence v where v.id = coalesce(e.settled_by, e.released_by)) as object_id,
       (select array_agg(x.hash order by x.id) from payonce.effect_variants x where x.effect_id = e.id) as hashes
from payonce.effects e
join payonce.effect_history h on h.effect_id = e.id
where e.subject_type = $1
  and e.subject_id = $2
order by e.seq, h.seq`;

export interface HistoryLine {
  readonly attempt: number;
  readonly state: string;
  readonly reason: string | null;
  readonly at: Date;
  readonly objectId: string | null;
  readonly hashes: readonly string[];
}

export async function loadHistory(query: Query, subjectType: string, id: string): Promise<HistoryLine[]> {
  const { rows } = await query.query<{
    to_state: string;
    reason: string | null;
    at: Date;
    seq: number;
    object_id: string | null;
    hashes: string[] | null;
  }>(HISTORY, [subjectType, id]);
  return rows.map((row) => ({
    attempt: row.seq,
    state: row.to_state,
    reason: row.reason,
    at: row.at,
    objectId: row.object_id,
    hashes: row.hashes ?? [],
  }));
}

/** An order's history as its partner sees it. */
export function toHistoryView(
  history: readonly HistoryLine[],
): { attempt: number; state: string; reason: string | null; at: string }[] {
  return history.map(({ attempt, state, reason, at }) => ({ attempt, state, reason, at: at.toISOString() }));
}
