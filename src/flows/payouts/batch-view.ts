/** What a partner sees of a call that pays many: in events; each payout is read by itself. Amounts are decimal text. */
import type { EffectRow } from '../../engine/store.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { sumOf } from './batch-lines.ts';
import type { BatchedPayout } from './reads.ts';
import type { NewBatch } from './store.ts';
import { toStored } from './view.ts';

export const BATCH_SUBJECT = 'payout_batch';

const STATUS_OF = {
  created: 'pending',
  processing: 'processing',
  sent: 'sent',
  reopened: 'processing',
  retried: 'processing',
  finished: 'finished',
  lines_decided: 'finished',
  failed: 'failed',
  cancelled: 'cancelled',
  in_review: 'in_review',
} as const;
const OUTCOME_OF = { in_flight: 'processing', unknown: 'in_review', paid: 'confirmed', returned: 'failed' } as const;

type Shown = Omit<BatchedPayout, 'requestedAt'>;

export function batchEvent(
  { subjectId }: Pick<EffectRow, 'subjectId'>,
  payouts: readonly Shown[],
  name: keyof typeof STATUS_OF,
  extra: Record<string, string | null> = {},
): NewEvent {
  const [first] = payouts;
  return {
    subjectType: BATCH_SUBJECT,
    subjectId,
    type: `${BATCH_SUBJECT}.${name}`,
    data: {
      id: subjectId,
      status: STATUS_OF[name],
      programme: first?.programme ?? null,
      asset: first?.assetCode ?? null,
      amount: formatUnits(sumOf(payouts), first?.decimals ?? 0),
      payouts: payouts.map((one) => ({
        id: one.id,
        creator: one.creator,
        amount: formatUnits(one.amount, one.decimals),
        status: OUTCOME_OF[one.taken],
      })),
      ...extra,
    },
  };
}

export function batchCreatedEvent({ id, payouts }: NewBatch): NewEvent {
  return batchEvent(
    { subjectId: id },
    payouts.map((one) => ({ ...toStored(one), taken: 'in_flight' })),
    'created',
  );
}
