/**
 * Intake: a flow's subjects become effects, PENDING, in the flow's own transaction, with their holds. One statement each
 * for a batch. What cannot be held is answered as `insufficient` and has neither subject nor effect.
 *
 * Lock order: accounts by id (in `post`), then inserts.
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import { holdKey } from '../kernel/ids.ts';
import { post } from '../ledger/post.ts';
import { intendEffects } from './edges.ts';
import type { BankPayee, BatchLine, ContractCall, TradeTerms } from './rail.ts';
import { callToJson } from './store.ts';

export interface Intent {
  readonly subjectType: string;
  readonly subjectId: string;
  readonly partnerId: string;
  readonly naturalKey: string;
  readonly rail: string;
  readonly lane?: string;
  readonly assetId: string;
  readonly amount: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly call?: ContractCall;
  readonly payee?: BankPayee;
  readonly lines?: readonly BatchLine[];
  readonly trade?: TradeTerms;
  /** What is set aside until the effect ends; absent where the partner's money is not concerned (W8). */
  readonly hold?: { readonly accountId: bigint; readonly amount: bigint };
}

const SUBJECTS = `insert into payonce.subjects (type, id, partner_id, natural_key)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[])`;

/** What a flow's rows, effects and events are about. Once for ever per natural key. */
export async function storeSubjects(
  tx: Tx,
  list: readonly Pick<Intent, 'subjectType' | 'subjectId' | 'partnerId' | 'naturalKey'>[],
): Promise<void> {
  await tx.query(SUBJECTS, [
    list.map((one) => one.subjectType),
    list.map((one) => one.subjectId),
    list.map((one) => one.partnerId),
    list.map((one) => one.naturalKey),
  ]);
}

/** Holds first; answers one verdict per intent, in order. `write` inserts the flow's own rows of those that were held. */
export async function intend(
  tx: Tx,
  intents: readonly Intent[],
  write: (held: readonly number[]) => Promise<void>,
): Promise<('intended' | 'insufficient')[]> {
  const holding = intents.map((intent, index) => ({ intent, index })).filter((one) => one.intent.hold !== undefined);
  const verdicts = await post(
    tx,
    holding.map(({ intent }) => {
      if (intent.hold === undefined) throw new InvariantBroken('an intent without a hold');
      return { kind: 'hold', holdKey: holdKey(intent.subjectType, intent.subjectId, 1), ...intent.hold };
    }),
  );
  const short = new Set<number>();
  holding.forEach((one, index) => {
    const verdict = verdicts[index]?.verdict;
    if (verdict === 'insufficient') short.add(one.index);
    else if (verdict !== 'held')
      throw new InvariantBroken(`the hold of ${one.intent.subjectId} answered ${verdict ?? 'nothing'}`);
  });
  const held = intents.map((_, index) => index).filter((index) => !short.has(index));
  const chosen = held.flatMap((index) => intents[index] ?? []);
  if (chosen.length > 0) {
    await storeSubjects(tx, chosen);
    await write(held);
    await intendEffects(
      tx,
      chosen.map((one) => ({
        subjectType: one.subjectType,
        subjectId: one.subjectId,
        seq: 1,
        partnerId: one.partnerId,
        rail: one.rail,
        lane: one.lane ?? null,
        assetId: one.assetId,
        amount: one.amount,
        destination: one.destination,
        wallet: one.wallet,
        signer: one.signer,
        call: callToJson(one),
        holdKey: one.hold === undefined ? null : holdKey(one.subjectType, one.subjectId, 1),
      })),
    );
  }
  return intents.map((_, index) => (short.has(index) ? 'insufficient' : 'intended'));
}
