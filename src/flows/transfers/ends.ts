/** How transfers and batches of them end alike: the accounts they touch, what a return posts, what follows a release. */
import type { Tx } from '../../db/pool.ts';
import type { BookedReturn, EndedEffect, Then } from '../../engine/flow.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { LedgerItem } from '../../ledger/post.ts';

export interface Accounts {
  readonly effect: EffectRow;
  readonly partner: bigint;
  readonly custody: bigint;
  readonly fees: bigint;
}

/** One for each effect, in order. */
export async function accountsOf(tx: Tx, chart: Chart, effects: readonly EffectRow[]): Promise<Accounts[]> {
  const ids = await chart.ids(
    tx,
    effects.flatMap(({ partnerId, wallet, asset }) => [
      accountName.partner(partnerId, asset.id),
      accountName.custody(asset.chain, wallet, asset.id),
      accountName.fees(asset.id),
    ]),
  );
  return effects.map((effect, index) => ({
    effect,
    partner: at(ids, index * 3),
    custody: at(ids, index * 3 + 1),
    fees: at(ids, index * 3 + 2),
  }));
}

/** The partner gets what we got. What the bank kept whole has nothing to book; its row stands. */
export function returnItems(one: BookedReturn, { partner, custody, effect }: Accounts): LedgerItem[] {
  const back = one.amount - one.fee;
  if (back === 0n) return [];
  return [
    {
      kind: 'post',
      key: postingKey.returned(one.id),
      reference: effect.subjectId,
      effectId: effect.id,
      entries: [
        { accountId: custody, amount: -back },
        { accountId: partner, amount: back },
      ],
    },
  ];
}

/** A dead no about request or account ends it; a stored refusal that is no fault of it (balance, limit, hours) asks a person. */
export function afterRelease(ended: EndedEffect): Then {
  switch (ended.kind) {
    case 'NEVER_SEALED':
      return { step: 'cancelled', reason: 'cancelled before anything was sent' };
    case 'REFUSED_AT_ONCE':
    case 'PROVIDER_FAILED':
    case 'REJECTED':
      return { step: 'fail', reason: ended.detail };
    case 'OPERATOR_ABSENT':
      return { step: 'fail', reason: 'the bank has no such transfer' };
    case 'REJECTION_STORED':
      return ended.final === true
        ? { step: 'fail', reason: ended.detail }
        : {
            step: 'review',
            why: `the bank keeps a refusal under the key, and it is no fault of the transfer: ${ended.detail}`,
          };
    default:
      return { step: 'review', why: `released by ${ended.kind}` };
  }
}

export function at<One>(list: readonly One[], index: number): One {
  const one = list[index];
  if (one === undefined) throw new InvariantBroken(`nothing at ${index}`);
  return one;
}
