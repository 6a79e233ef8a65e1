/**
 * What an old order means today, or why that is doubtful (M14). Pure: rows in, a verdict out.
 *
 * An order is judged with its legs, and a settled leg with its lines of the old ledger. EXPIRED or CANCELLED with settled legs is
 * PARTIALLY_SETTLED now; closed_at is the first of completed_at, cancelled_at, updated_at that stands. Whatever contradicts itself
 * is doubtful: it is told, and nothing is written for it.
 */
import { formatUnits } from '../../../kernel/money.ts';
import { PRICE_DECIMALS, LEGS_MAX } from '../limits.ts';
import { fiatOf } from '../plan-legs.ts';
import { Fields } from './fields.ts';
import type { Content } from './lines.ts';

/** The market of an order's partner, asset and fiat. */
export interface ImportMarket {
  readonly groupName: string;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly fiatDecimals: number;
  readonly legMin: bigint;
  readonly feeBp: number;
  readonly payWithinMs: bigint;
  readonly forMs: bigint;
}

/** What is known of a leg beside its own row. */
export interface LegRow {
  readonly oldId: string;
  readonly content: Content;
  /** Why its line is doubtful already. */
  readonly doubt: string | null;
  /** Whether the order on its other side is in the file, or was taken over. */
  readonly hasOtherSide: boolean;
  readonly ledger: readonly { readonly content: Content; readonly doubt: string | null }[];
}

export interface SettledLeg {
  readonly oldId: string;
  readonly kind: 'SELLER' | 'LP';
  readonly rail: string | null;
  readonly amount: bigint;
  readonly price: bigint;
  readonly fiatAmount: bigint;
  readonly createdAt: Date;
  readonly endedAt: Date;
}

type JudgedLeg =
  | { readonly state: 'settled'; readonly leg: SettledLeg }
  | { readonly state: 'unpaid' | 'open' }
  | { readonly state: 'doubtful'; readonly why: string };

type End = 'COMPLETED' | 'PARTIALLY_SETTLED' | 'EXPIRED' | 'CANCELLED';

interface TakenOrder {
  readonly externalId: string | null;
  readonly userRef: string;
  readonly amount: bigint;
  readonly price: bigint;
  readonly createdAt: Date;
  readonly expiresAt: Date;
  /** `null`: it is open, and goes on here. */
  readonly closed: { readonly as: End; readonly at: Date; readonly reason: string } | null;
  readonly settled: bigint;
  readonly legs: readonly SettledLeg[];
}
export interface TakenDeposit extends TakenOrder {
  readonly takesPart: boolean;
}
export interface TakenWithdraw extends TakenOrder {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
}

export interface Doubts {
  readonly why: string;
  /** Legs that are doubtful themselves, by their old id. */
  readonly legs: ReadonlyMap<string, string>;
}
export type Judged<T> = { readonly taken: T } | { readonly doubt: Doubts };

export function judgeDeposit(
  content: Content,
  market: ImportMarket,
  rows: readonly LegRow[],
  rails: ReadonlySet<string>,
): Judged<TakenDeposit> {
  const fields = new Fields(content);
  const partial = fields.textOrNull('partial') ?? 'accept';
  fields.doubtIf(partial !== 'accept' && partial !== 'wait', '"partial" is neither accept nor wait');
  const judged = judgeOrder(fields, market, rows, rails);
  if ('doubt' in judged) return judged;
  const { taken } = judged;
  fields.doubtIf(
    taken.legs.length > LEGS_MAX,
    `it has ${taken.legs.length} settled legs, and at most ${LEGS_MAX} may be`,
  );
  fields.doubtIf(
    taken.closed === null && taken.legs.length === LEGS_MAX,
    `it is open with ${LEGS_MAX} settled legs: no other leg can fill the rest`,
  );
  const late = taken.legs.find((leg) => taken.closed !== null && leg.createdAt > taken.closed.at);
  fields.doubtIf(late !== undefined, `leg ${late?.oldId ?? ''} was made after it had closed`);
  return fields.doubt === null ? { taken: { ...taken, takesPart: partial === 'accept' } } : doubtful(fields.doubt);
}

export function judgeWithdraw(
  content: Content,
  market: ImportMarket,
  rows: readonly LegRow[],
  rails: ReadonlySet<string>,
): Judged<TakenWithdraw> {
  const fields = new Fields(content);
  const payee = {
    bankCode: fields.text('bank_code', 40),
    accountNumber: fields.text('account_number', 60),
    holderName: fields.text('holder_name'),
  };
  const judged = judgeOrder(fields, market, rows, rails);
  return 'doubt' in judged ? judged : { taken: { ...judged.taken, ...payee } };
}

function doubtful(why: string, legs: ReadonlyMap<string, string> = new Map()): { readonly doubt: Doubts } {
  return { doubt: { why, legs } };
}

function judgeOrder(
  fields: Fields,
  market: ImportMarket,
  rows: readonly LegRow[],
  rails: ReadonlySet<string>,
): Judged<TakenOrder> {
  const order = {
    externalId: fields.textOrNull('external_id'),
    userRef: fields.text('user_ref'),
    amount: fields.units('amount', market.decimals),
    price: fields.units('price', PRICE_DECIMALS),
    createdAt: fields.time('created_at'),
  };
  const expiresAt = fields.timeOrNull('expires_at') ?? new Date(order.createdAt.getTime() + Number(market.forMs));
  fields.doubtIf(expiresAt <= order.createdAt, 'it expired before it was made');

  const judged = rows.map((row) => ({ row, verdict: judgeLeg(row, market, rails) }));
  const bad = new Map(
    judged.flatMap(({ row, verdict }) => (verdict.state === 'doubtful' ? [[row.oldId, verdict.why]] : [])),
  );
  const [firstBad] = bad;
  fields.doubtIf(firstBad !== undefined, `leg ${firstBad?.[0] ?? ''}: ${firstBad?.[1] ?? ''}`);
  const open = judged.find(({ verdict }) => verdict.state === 'open');
  fields.doubtIf(open !== undefined, `leg ${open?.row.oldId ?? ''} is open: let it end in the old system first`);
  const legs = judged
    .flatMap(({ verdict }) => (verdict.state === 'settled' ? [verdict.leg] : []))
    .sort((one, other) => one.createdAt.getTime() - other.createdAt.getTime() || (one.oldId < other.oldId ? -1 : 1));
  const settled = legs.reduce((sum, leg) => sum + leg.amount, 0n);
  fields.doubtIf(
    settled > order.amount,
    `its settled legs (${formatUnits(settled, market.decimals)}) are more than its amount (${formatUnits(order.amount, market.decimals)})`,
  );
  const closed = judgeEnd(fields, order.amount, settled, order.createdAt);
  return fields.doubt === null
    ? { taken: { ...order, expiresAt, closed, settled, legs } }
    : doubtful(fields.doubt, bad);
}

const OPEN: ReadonlySet<string> = new Set(['PENDING', 'MATCHING', 'OPEN']);
const ENDS: ReadonlySet<string> = new Set(['COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED']);

function judgeEnd(fields: Fields, amount: bigint, settled: bigint, createdAt: Date): TakenOrder['closed'] {
  const status = fields.text('status');
  const completedAt = fields.timeOrNull('completed_at');
  const cancelledAt = fields.timeOrNull('cancelled_at');
  const updatedAt = fields.timeOrNull('updated_at');
  const reason = fields.textOrNull('close_reason', 100);
  if (OPEN.has(status)) {
    fields.doubtIf(completedAt !== null, `${status} with completed_at`);
    fields.doubtIf(cancelledAt !== null, `${status} with cancelled_at`);
    fields.doubtIf(settled >= amount, `${status} with its whole amount settled`);
    return null;
  }
  fields.doubtIf(status === 'MATCHED', 'it is MATCHED: let its legs end in the old system first');
  fields.doubtIf(!ENDS.has(status), `"status" is ${status.slice(0, 40)}, which has no meaning here`);
  // Credited and read EXPIRED: what really happened is a person's to find out.
  fields.doubtIf(
    (status === 'EXPIRED' || status === 'CANCELLED') && completedAt !== null,
    `${status} with completed_at`,
  );
  fields.doubtIf(status === 'COMPLETED' && cancelledAt !== null, 'COMPLETED with cancelled_at');
  if (status === 'COMPLETED')
    fields.doubtIf(settled < amount, 'COMPLETED, and its settled legs do not reach its amount');
  else {
    fields.doubtIf(settled === amount, `${status} with its whole amount settled`);
    fields.doubtIf(status === 'PARTIALLY_SETTLED' && settled === 0n, 'PARTIALLY_SETTLED without a settled leg');
  }
  const at = completedAt ?? cancelledAt ?? updatedAt;
  fields.doubtIf(at === null, 'it is closed, and has none of completed_at, cancelled_at, updated_at');
  fields.doubtIf(at !== null && at < createdAt, 'it closed before it was made');
  return {
    as: status === 'COMPLETED' ? 'COMPLETED' : settled > 0n ? 'PARTIALLY_SETTLED' : (status as End),
    at: at ?? createdAt,
    reason: reason ?? (status === 'COMPLETED' ? 'PAID_IN_FULL' : `IMPORTED_${status}`),
  };
}

/** The same from both of its sides. */
function judgeLeg(
  { oldId, content, doubt, hasOtherSide, ledger }: LegRow,
  { decimals, fiatDecimals }: ImportMarket,
  rails: ReadonlySet<string>,
): JudgedLeg {
  const fields = new Fields(content);
  fields.doubtIf(doubt !== null, doubt ?? '');
  const status = fields.text('status');
  if (fields.doubt === null && status === 'OPEN') return { state: 'open' };
  const bookings = ledger.map((line) => {
    const booked = new Fields(line.content);
    booked.doubtIf(line.doubt !== null, line.doubt ?? '');
    const units = booked.signedUnits('amount', decimals);
    fields.doubtIf(booked.doubt !== null, `has a doubtful line of the old ledger: ${booked.doubt ?? ''}`);
    return units;
  });
  const net = bookings.reduce((sum, units) => sum + units, 0n);
  const inWords = formatUnits(net, decimals);
  if (status === 'EXPIRED' || status === 'CANCELLED') {
    fields.doubtIf(net !== 0n, `is ${status}, and the old ledger has ${inWords} for it`);
    return fields.doubt === null ? { state: 'unpaid' } : { state: 'doubtful', why: fields.doubt };
  }
  fields.doubtIf(status !== 'SETTLED', `has the status ${status.slice(0, 40)}, which has no meaning here`);
  const rail = fields.textOrNull('rail', 100);
  fields.doubtIf(rail !== null && !rails.has(rail), `was filled by ${rail ?? ''}, and there is no such rail`);
  const isSeller = (content['withdraw_order'] ?? null) !== null;
  fields.doubtIf(isSeller === (rail !== null), 'names not exactly one of "withdraw_order" and "rail"');
  fields.doubtIf(!hasOtherSide, 'names an order that is neither in the file nor taken over');
  const amount = fields.units('amount', decimals);
  const price = fields.units('price', PRICE_DECIMALS);
  const fee = fields.unitsOrNull('fee', decimals) ?? 0n;
  const fiatAmount = fields.unitsOrNull('fiat_amount', fiatDecimals) ?? fiatOf(amount, price, decimals, fiatDecimals);
  fields.doubtIf(fiatAmount <= 0n, 'has a "fiat_amount" of nothing');
  const createdAt = fields.time('created_at');
  const endedAt = fields.timeOrNull('settled_at') ?? fields.time('updated_at');
  fields.doubtIf(bookings.length === 0, 'is SETTLED, and no line of the old ledger in the file credits it');
  fields.doubtIf(
    net === 0n,
    `is SETTLED, and its ${bookings.length} lines of the old ledger come to 0: it was credited and taken back`,
  );
  fields.doubtIf(
    net !== amount && net !== amount - fee,
    `is SETTLED with ${formatUnits(amount, decimals)}, and the old ledger has ${inWords} for it`,
  );
  if (fields.doubt !== null) return { state: 'doubtful', why: fields.doubt };
  return {
    state: 'settled',
    leg: { oldId, kind: isSeller ? 'SELLER' : 'LP', rail, amount, price, fiatAmount, createdAt, endedAt },
  };
}
