/**
 * The API's own statements: keys, webhook endpoints, and what partners list that no flow owns (events, cases, assets).
 * Every one that reads names the partner. Locks: the partner's row while an endpoint is added. Isolation: READ COMMITTED.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../db/pool.ts';

const INSERT_KEY = `insert into payonce.api_keys (id, partner_id, key_hash, hint)
values ($1, $2, $3, $4)`;

export async function insertApiKey(
  query: Query,
  key: { id: string; partnerId: string; keyHash: string; hint: string },
): Promise<void> {
  await query.query(INSERT_KEY, [key.id, key.partnerId, key.keyHash, key.hint]);
}

const LOAD_KEYS = `select id, partner_id, key_hash, revoked_at is not null as is_revoked
from payonce.api_keys
where key_hash = any ($1::text[])`;

export interface ApiKeyRow {
  readonly id: string;
  readonly partnerId: string;
  readonly keyHash: string;
  readonly isRevoked: boolean;
}

export async function loadApiKeys(query: Query, hashes: readonly string[]): Promise<ApiKeyRow[]> {
  const { rows } = await query.query(LOAD_KEYS, [hashes]);
  return rows.map((row) => ({
    id: toText(row['id'], 'api_keys.id'),
    partnerId: toText(row['partner_id'], 'api_keys.partner_id'),
    keyHash: toText(row['key_hash'], 'api_keys.key_hash'),
    isRevoked: row['is_revoked'] === true,
  }));
}

const REVOKE_KEY = `update payonce.api_keys
set revoked_at = payonce.now()
where partner_id = $1
  and id = $2
  and revoked_at is null`;

/** False: no such key of this partner, or it was revoked before. */
export async function revokeApiKey(query: Query, partnerId: string, keyId: string): Promise<boolean> {
  return (await query.query(REVOKE_KEY, [partnerId, keyId])).rowCount === 1;
}

export interface Asset {
  readonly id: string;
  readonly code: string;
  readonly chain: string;
  readonly decimals: number;
}

const FIND_ASSETS = `select u.name, a.id, a.code, a.chain, a.decimals
from unnest($1::text[]) as u (name)
join payonce.assets a on a.id = u.name or a.code = u.name`;

const TOKEN_ID = /^[^/]+\/erc20:(0x[0-9a-fA-F]{40})$/;

/** A token's id with its contract in lower case, as ids are stored: people copy contracts with their checksum (CAIP-19). */
function toAssetName(text: string): string {
  const [, contract = ''] = TOKEN_ID.exec(text) ?? [];
  return text.slice(0, text.length - contract.length) + contract.toLowerCase();
}

/** By id or code. A name that fits two assets fits none: money must not go by a guess. */
export async function findAssets(query: Query, texts: readonly string[]): Promise<(Asset | null)[]> {
  const names = texts.map(toAssetName);
  const { rows } = await query.query(FIND_ASSETS, [[...new Set(names)]]);
  const byName = Map.groupBy(rows, (row) => toText(row['name'], 'name'));
  return names.map((name) => {
    const [row, another] = byName.get(name) ?? [];
    return row === undefined || another !== undefined ? null : toAsset(row);
  });
}

function toAsset(row: Row): Asset {
  return {
    id: toText(row['id'], 'assets.id'),
    code: toText(row['code'], 'assets.code'),
    chain: toText(row['chain'], 'assets.chain'),
    decimals: row['decimals'] as number,
  };
}

const LIST_ASSETS = `select a.id, a.code, a.chain, a.contract, a.decimals, p.withdrawal_min, p.withdrawal_max, p.withdrawal_day_max,
       p.withdrawal_fee_flat, p.withdrawal_fee_bp, p.deposit_fee_flat, p.deposit_fee_bp
from payonce.assets a
left join lateral (
  select *
  from payonce.asset_policies q
  where q.asset_id = a.id
    and q.partner_id in ($1, '*')
  order by q.partner_id = '*'
  limit 1) p on true
where ($2::text is null or a.id > $2)
order by a.id
limit $3`;

export interface AssetTerms extends Asset {
  readonly contract: string | null;
  /** Null: it cannot be withdrawn. */
  readonly terms: {
    readonly withdrawalMin: bigint;
    readonly withdrawalMax: bigint;
    readonly withdrawalDayMax: bigint;
    readonly withdrawalFeeFlat: bigint;
    readonly withdrawalFeeBasisPoints: number;
    readonly depositFeeFlat: bigint;
    readonly depositFeeBasisPoints: number;
  } | null;
}

export async function listAssets(
  query: Query,
  partnerId: string,
  page: { after: string | null; limit: number },
): Promise<AssetTerms[]> {
  const { rows } = await query.query(LIST_ASSETS, [partnerId, page.after, page.limit]);
  return rows.map((row) => ({
    ...toAsset(row),
    contract: row['contract'] as string | null,
    terms:
      row['withdrawal_min'] === null
        ? null
        : {
            withdrawalMin: toUnits(row['withdrawal_min'], 'withdrawal_min'),
            withdrawalMax: toUnits(row['withdrawal_max'], 'withdrawal_max'),
            withdrawalDayMax: toUnits(row['withdrawal_day_max'], 'withdrawal_day_max'),
            withdrawalFeeFlat: toUnits(row['withdrawal_fee_flat'], 'withdrawal_fee_flat'),
            withdrawalFeeBasisPoints: row['withdrawal_fee_bp'] as number,
            depositFeeFlat: toUnits(row['deposit_fee_flat'], 'deposit_fee_flat'),
            depositFeeBasisPoints: row['deposit_fee_bp'] as number,
          },
  }));
}

const READ_EVENT = `select id, body
from payonce.events
where partner_id = $1
  and event_id = $2`;

/** The text as it was and will be delivered. */
export async function readEvent(query: Query, partnerId: string, eventId: string): Promise<string | null> {
  const [row] = (await query.query(READ_EVENT, [partnerId, eventId])).rows;
  return row === undefined ? null : toText(row['body'], 'events.body');
}

const LIST_EVENTS = `select id, body
from payonce.events
where partner_id = $1
  and ($2::bigint is null or id < $2)
  and ($3::text is null or type = $3)
  and ($4::text is null or subject_id = $4)
order by id desc
limit $5`;

export interface EventPage {
  readonly before: bigint | null;
  readonly type: string | null;
  readonly subjectId: string | null;
  readonly limit: number;
}

export async function listEvents(
  query: Query,
  partnerId: string,
  page: EventPage,
): Promise<{ readonly id: bigint; readonly body: string }[]> {
  const { rows } = await query.query(LIST_EVENTS, [partnerId, page.before, page.type, page.subjectId, page.limit]);
  return rows.map((row) => ({ id: toUnits(row['id'], 'events.id'), body: toText(row['body'], 'events.body') }));
}

// What an operator wrote, found or suspects stays inside: the partner sees what is being looked at, and since when.
const LIST_CASES = `select k.id, k.opened_at, k.closed_at, k.amount, a.code as asset_code, a.decimals,
       coalesce(e.subject_type, s.type) as subject_type, coalesce(e.subject_id, s.id) as subject_id
from payonce.cases k
left join payonce.effects e on e.id = k.effect_id
left join payonce.assets a on a.id = k.asset_id
left join payonce.subjects s on s.id = k.subject_key and s.type in ('withdrawal', 'deposit') and s.partner_id = k.partner_id
where k.partner_id = $1
  and ($2::text is null or k.id < $2)
  and ($3::boolean is null or (k.closed_at is null) = $3)
order by k.id desc
limit $4`;

export interface PartnerCase {
  readonly id: string;
  readonly openedAt: Date;
  readonly closedAt: Date | null;
  readonly subject: { readonly type: string; readonly id: string } | null;
  readonly atRisk: { readonly assetCode: string; readonly decimals: number; readonly amount: bigint } | null;
}

export async function listCases(
  query: Query,
  partnerId: string,
  page: { before: string | null; isOpen: boolean | null; limit: number },
): Promise<PartnerCase[]> {
  const { rows } = await query.query(LIST_CASES, [partnerId, page.before, page.isOpen, page.limit]);
  return rows.map((row) => ({
    id: toText(row['id'], 'cases.id'),
    openedAt: row['opened_at'] as Date,
    closedAt: row['closed_at'] as Date | null,
    subject:
      row['subject_id'] === null
        ? null
        : { type: toText(row['subject_type'], 'subject_type'), id: toText(row['subject_id'], 'subject_id') },
    atRisk:
      row['amount'] === null || row['asset_code'] === null
        ? null
        : {
            assetCode: toText(row['asset_code'], 'assets.code'),
            decimals: row['decimals'] as number,
            amount: toUnits(row['amount'], 'cases.amount'),
          },
  }));
}

export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly secretVersion: number;
  readonly createdAt: Date;
  readonly disabledAt: Date | null;
  readonly disabledReason: string | null;
}

const ENDPOINT_COLUMNS = 'id, url, secret_version, created_at, disabled_at, disabled_reason';

const LOCK_PARTNER = `select 1
from payonce.partners
where id = $1
for no key update`;

const SAME_ENDPOINT = `select ${ENDPOINT_COLUMNS}
from payonce.endpoints
where partner_id = $1
  and url = $2
  and disabled_at is null
order by id
limit 1`;

const ADD_ENDPOINT = `insert into payonce.endpoints (id, partner_id, url)
select $1, $2, $3
where (select count(*) from payonce.endpoints where partner_id = $2 and disabled_at is null) < $4
returning ${ENDPOINT_COLUMNS}`;

export type Added =
  | { readonly outcome: 'added' | 'exists'; readonly endpoint: Endpoint }
  /** The partner has as many as it may have. */
  | { readonly outcome: 'full' };

/** `exists`: this URL has one that is enabled; a second would send every event there twice. */
export async function addEndpoint(
  tx: Tx,
  endpoint: { id: string; partnerId: string; url: string },
  endpointsMax: number,
): Promise<Added> {
  await tx.query(LOCK_PARTNER, [endpoint.partnerId]);
  const [same] = (await tx.query(SAME_ENDPOINT, [endpoint.partnerId, endpoint.url])).rows;
  if (same !== undefined) return { outcome: 'exists', endpoint: toEndpoint(same) };
  const [row] = (await tx.query(ADD_ENDPOINT, [endpoint.id, endpoint.partnerId, endpoint.url, endpointsMax])).rows;
  return row === undefined ? { outcome: 'full' } : { outcome: 'added', endpoint: toEndpoint(row) };
}

/** The reason by which a deleted endpoint is known; the row stays, for the deliveries that name it. */
const DELETED = 'deleted by the partner';

const LIST_ENDPOINTS = `select ${ENDPOINT_COLUMNS}
from payonce.endpoints
where partner_id = $1
  and disabled_reason is distinct from $2
  and ($3::text is null or id < $3)
order by id desc
limit $4`;

export async function listEndpoints(
  query: Query,
  partnerId: string,
  page: { before: string | null; limit: number },
): Promise<Endpoint[]> {
  const { rows } = await query.query(LIST_ENDPOINTS, [partnerId, DELETED, page.before, page.limit]);
  return rows.map(toEndpoint);
}

const DELETE_ENDPOINT = `update payonce.endpoints
set disabled_at = coalesce(disabled_at, payonce.now()), disabled_reason = $3
where partner_id = $1
  and id = $2`;

/** False: no such endpoint of this partner. A second time does nothing new and is true as well. */
export async function deleteEndpoint(query: Query, partnerId: string, id: string): Promise<boolean> {
  return (await query.query(DELETE_ENDPOINT, [partnerId, id, DELETED])).rowCount === 1;
}

function toEndpoint(row: Row): Endpoint {
  return {
    id: toText(row['id'], 'endpoints.id'),
    url: toText(row['url'], 'endpoints.url'),
    secretVersion: row['secret_version'] as number,
    createdAt: row['created_at'] as Date,
    disabledAt: row['disabled_at'] as Date | null,
    disabledReason: row['disabled_reason'] as string | null,
  };
}
