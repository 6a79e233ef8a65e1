/** What a partner sees of a payout, in the API and in events. Amounts and volumes are decimal text. */
import { type HistoryLine, toHistoryView } from '../../engine/order-store.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import type { NewPayout } from './store.ts';

export interface StoredPayout {
  readonly id: string;
  readonly partnerId: string;
  readonly programmeId: string;
  readonly programme: string;
  readonly creator: string;
  readonly poolId: bigint;
  readonly ordinal: number;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly volumeDecimals: number;
  readonly amount: bigint;
  readonly volume: bigint;
  readonly destination: string;
  readonly origin: string;
  readonly cutDate: string | null;
  readonly minOutput: bigint | null;
  readonly batchId: string | null;
  readonly requestedAt: Date;
}

export interface PayoutView {
  id: string;
  status: string;
  programme: string;
  creator: string;
  ordinal: number;
  asset: string;
  amount: string;
  volume: string;
  destination: string;
  origin: string;
  cut_date: string | null;
  min_output: string | null;
  batch_id: string | null;
}

export function toPayoutView(payout: Omit<StoredPayout, 'requestedAt'>, status: string): PayoutView {
  return {
    id: payout.id,
    status,
    programme: payout.programme,
    creator: payout.creator,
    ordinal: payout.ordinal,
    asset: payout.assetCode,
    amount: formatUnits(payout.amount, payout.decimals),
    volume: formatUnits(payout.volume, payout.volumeDecimals),
    destination: payout.destination,
    origin: payout.origin,
    cut_date: payout.cutDate,
    min_output: payout.minOutput?.toString() ?? null,
    batch_id: payout.batchId,
  };
}

export function toPayoutDetail(
  payout: StoredPayout & { readonly status: string },
  history: readonly HistoryLine[],
): PayoutView & { requested_at: string; tx_hash: string | null; history: ReturnType<typeof toHistoryView> } {
  const last = history.at(-1);
  return {
    ...toPayoutView(payout, payout.status),
    requested_at: payout.requestedAt.toISOString(),
    tx_hash: last?.objectId ?? last?.hashes.at(-1) ?? null,
    history: toHistoryView(history),
  };
}

export function toStored(one: NewPayout): Omit<StoredPayout, 'requestedAt'> {
  const { programme, pool } = one;
  return {
    id: one.id,
    partnerId: programme.partnerId,
    programmeId: programme.id,
    programme: programme.name,
    creator: pool.creator,
    poolId: pool.id,
    ordinal: pool.ordinal,
    assetId: programme.assetId,
    assetCode: programme.assetCode,
    decimals: programme.decimals,
    volumeDecimals: programme.volumeDecimals,
    amount: pool.payable,
    volume: pool.volume,
    destination: one.destination,
    origin: one.origin,
    cutDate: one.cutDate,
    minOutput: one.minOutput,
    batchId: one.batchId,
  };
}

export const STATUS_OF = {
  created: 'pending',
  processing: 'processing',
  sent: 'sent',
  reopened: 'processing',
  retried: 'processing',
  confirmed: 'confirmed',
  failed: 'failed',
  cancelled: 'cancelled',
  in_review: 'in_review',
} as const;

export function payoutEvent(
  payout: Omit<StoredPayout, 'requestedAt'>,
  name: keyof typeof STATUS_OF,
  extra: Record<string, string | null> = {},
): NewEvent {
  return {
    subjectType: 'payout',
    subjectId: payout.id,
    type: `payout.${name}`,
    data: { ...toPayoutView(payout, STATUS_OF[name]), ...extra },
  };
}

export function createdEvent(one: NewPayout): NewEvent {
  return payoutEvent(toStored(one), 'created');
}
