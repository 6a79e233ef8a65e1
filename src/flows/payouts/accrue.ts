/**
 * Accrual (P6, P7): events of volume become running sums, each event once for ever by its source id; who crosses the threshold by
 * it has a payout in the same transaction. Each item is judged alone; what is refused is listed and leaves nothing behind.
 */
import { createHash } from 'node:crypto';
import type { Query, Tx } from '../../db/pool.ts';
import { lengthPrefixed } from '../../kernel/ids.ts';
import { parseAmount } from '../../kernel/money.ts';
import { makePayouts, type PayoutDeps } from './enqueue.ts';
import { AHEAD_MS_MAX, VOLUME_UNITS_MAX } from './limits.ts';
import type { Programme } from './programme.ts';
import {
  ensureCreators,
  loadDigests,
  loadNamed,
  loadNow,
  type LockedPool,
  lockPools,
  type NewAccrual,
  storeAccruals,
} from './store.ts';

/** One event as it was given: nothing of it is believed yet. */
export type RawAccrual = unknown;

export interface AccrualFault {
  /** Its place in the list, from 0. */
  readonly item: number;
  readonly sourceId: string | null;
  readonly field: string;
  readonly got: string;
  readonly expected: string;
}

export interface Accrued {
  /** On record now, whether this request or an earlier one brought them. */
  readonly accrued: number;
  /** Of those, what this request brought. */
  readonly fresh: number;
  readonly refused: readonly AccrualFault[];
}

interface GoodItem {
  readonly item: number;
  readonly programme: Programme;
  readonly sourceId: string;
  readonly creator: string;
  readonly volume: bigint;
  readonly occurredAt: Date;
  readonly digest: Buffer;
}

const FIELDS = ['source_id', 'programme', 'creator', 'volume', 'occurred_at'];
const NAME = /^[\x21-\x7e]{1,128}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Durable on return. Answers the same for the same items, however often they are sent. */
export async function accrue(deps: PayoutDeps, partnerId: string, items: readonly RawAccrual[]): Promise<Accrued> {
  const { good, faults } = await judge(deps.pool, partnerId, items);
  const { single, repeated, differing } = onceEach(good);
  faults.push(...differing);
  if (single.length === 0) return { accrued: 0, fresh: 0, refused: sorted(faults) };
  const stored = await deps.pool.tx('accrue', (tx) => store(tx, deps, partnerId, single));
  faults.push(...stored.differing.map(differs));
  // Of an item that is refused for its content, an equal one in the same list is refused too.
  const lost = new Set(stored.differing.map(keyOf));
  const alsoLost = repeated.filter((one) => lost.has(keyOf(one)));
  faults.push(...alsoLost.map(differs));
  return {
    accrued: single.length - stored.differing.length + repeated.length - alsoLost.length,
    fresh: stored.fresh,
    refused: sorted(faults),
  };
}

function sorted(faults: readonly AccrualFault[]): AccrualFault[] {
  return [...faults].sort((left, right) => left.item - right.item);
}

function keyOf(one: GoodItem): string {
  return `${one.programme.number}\n${one.sourceId}`;
}

function differs(one: GoodItem): AccrualFault {
  return {
    item: one.item,
    sourceId: one.sourceId,
    field: 'source_id',
    got: one.sourceId,
    expected:
      'the same creator, volume and occurred_at as before under this source_id; another event needs another one',
  };
}

/** Two under one source id: the same event twice, or the later one is refused. */
function onceEach(good: readonly GoodItem[]): { single: GoodItem[]; repeated: GoodItem[]; differing: AccrualFault[] } {
  const first = new Map<string, GoodItem>();
  const repeated: GoodItem[] = [];
  const differing: AccrualFault[] = [];
  for (const one of good) {
    const before = first.get(keyOf(one));
    if (before === undefined) first.set(keyOf(one), one);
    else if (before.digest.equals(one.digest)) repeated.push(one);
    else differing.push(differs(one));
  }
  return { single: [...first.values()], repeated, differing };
}

async function judge(
  query: Query,
  partnerId: string,
  items: readonly RawAccrual[],
): Promise<{ good: GoodItem[]; faults: AccrualFault[] }> {
  const names = new Set(items.flatMap((one) => textOf(one, 'programme') ?? []));
  const programmes = await loadNamed(query, partnerId, [...names]);
  const now = await loadNow(query);
  const good: GoodItem[] = [];
  const faults: AccrualFault[] = [];
  items.forEach((raw, item) => {
    const judged = judgeItem(raw, item, programmes, now);
    if ('field' in judged) faults.push(judged);
    else good.push(judged);
  });
  return { good, faults };
}

function judgeItem(
  raw: RawAccrual,
  item: number,
  programmes: ReadonlyMap<string, Programme>,
  now: Date,
): GoodItem | AccrualFault {
  const sourceId = textOf(raw, 'source_id');
  const fault = (field: string, got: unknown, expected: string): AccrualFault => ({
    item,
    sourceId: sourceId !== null && NAME.test(sourceId) ? sourceId : null,
    field,
    got: shown(got),
    expected,
  });
  if (raw === null || typeof raw !== 'object' || Array.isArray(raw))
    return fault('', raw, `an object with ${FIELDS.slice(0, 4).join(', ')}`);
  const strange = Object.keys(raw).find((name) => !FIELDS.includes(name));
  if (strange !== undefined) return fault(strange, strange, `only ${FIELDS.join(', ')}`);
  const value = (field: string): unknown => Reflect.get(raw, field) as unknown;
  if (sourceId === null || !NAME.test(sourceId))
    return fault('source_id', value('source_id'), 'your own id of the event, 1 to 128 visible ASCII characters');
  const named = textOf(raw, 'programme');
  const programme = named === null ? undefined : programmes.get(named);
  if (programme === undefined)
    return fault('programme', value('programme'), 'the name or id of a programme of yours (GET /v1/programmes)');
  const creator = textOf(raw, 'creator');
  if (creator === null || !NAME.test(creator))
    return fault('creator', value('creator'), 'your own id of the creator, 1 to 128 visible ASCII characters');
  const volume = parseAmount(value('volume'), programme.volumeDecimals);
  if (!volume.ok) return fault('volume', value('volume'), volume.expected);
  if (volume.units === 0n) return fault('volume', value('volume'), 'more than zero');
  if (volume.units > VOLUME_UNITS_MAX) return fault('volume', value('volume'), 'at most 10^30 smallest units');
  const at = value('occurred_at');
  const occurredAt = at === undefined ? now : typeof at === 'string' && TIME.test(at) ? new Date(at) : null;
  if (occurredAt === null || Number.isNaN(occurredAt.getTime()))
    return fault('occurred_at', at, 'a time such as "2026-03-10T12:00:00Z", or nothing');
  if (occurredAt.getTime() > now.getTime() + AHEAD_MS_MAX)
    return fault('occurred_at', at, `a time that has been; it is ${now.toISOString()} now`);
  const digest = createHash('sha256')
    .update(lengthPrefixed([creator, volume.units.toString(), at === undefined ? '' : occurredAt.toISOString()]))
    .digest();
  return { item, programme, sourceId, creator, volume: volume.units, occurredAt, digest };
}

function textOf(raw: RawAccrual, field: string): string | null {
  if (raw === null || typeof raw !== 'object') return null;
  const value: unknown = Reflect.get(raw, field);
  return typeof value === 'string' ? value : null;
}

const SHOWN_CHARACTERS_MAX = 100;
function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  return text.toWellFormed().slice(0, SHOWN_CHARACTERS_MAX);
}

async function store(
  tx: Tx,
  deps: PayoutDeps,
  partnerId: string,
  items: readonly GoodItem[],
): Promise<{ fresh: number; differing: GoodItem[] }> {
  const names = [...new Set(items.map((one) => one.creator))].sort();
  const creators = await ensureCreators(
    tx,
    partnerId,
    names.map((externalId) => ({ id: deps.makeId('crt'), externalId })),
  );
  const poolKey = (programmeId: string, creatorId: string): string => `${programmeId}\n${creatorId}`;
  const keyOfItem = (one: GoodItem): string => poolKey(one.programme.id, creators.get(one.creator) ?? '');
  const wanted = new Map(
    items.map((one) => [
      keyOfItem(one),
      {
        programmeId: one.programme.id,
        creatorId: creators.get(one.creator) ?? '',
        divisor: one.programme.rewardDivisor,
      },
    ]),
  );
  const pools = new Map(
    (await lockPools(tx, [...wanted.values()])).map((one) => [poolKey(one.programmeId, one.creatorId), one]),
  );
  const places = new Map<bigint, bigint>();
  const rows = items.map((one): NewAccrual => {
    const pool = poolOf(pools, keyOfItem(one));
    const seq = (places.get(pool.id) ?? pool.seq) + 1n;
    places.set(pool.id, seq);
    return {
      programme: one.programme.number,
      sourceId: one.sourceId,
      poolId: pool.id,
      seq,
      volume: one.volume,
      digest: one.digest,
      occurredAt: one.occurredAt,
    };
  });
  const { fresh, due } = await storeAccruals(tx, rows);
  const differing = fresh === items.length ? [] : await findDiffering(tx, items);
  await makePayouts(tx, deps, due, { origin: 'threshold' });
  return { fresh, differing };
}

function poolOf(pools: ReadonlyMap<string, LockedPool>, key: string): LockedPool {
  const pool = pools.get(key);
  if (pool === undefined) throw new Error('a pool that was made is not there');
  return pool;
}

async function findDiffering(query: Query, items: readonly GoodItem[]): Promise<GoodItem[]> {
  const differing: GoodItem[] = [];
  for (const [number, own] of Map.groupBy(items, (one) => one.programme.number)) {
    const digests = await loadDigests(
      query,
      number,
      own.map((one) => one.sourceId),
    );
    differing.push(...own.filter((one) => !one.digest.equals(digests.get(one.sourceId) ?? Buffer.alloc(0))));
  }
  return differing;
}
