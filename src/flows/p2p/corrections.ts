/**
 * Corrections of legs by two persons, each a posting of its own key, counted on the leg (W4): what a settled leg moved is taken back
 * or moved once more, and what a provider released beyond need goes out of suspense to whom it belongs.
 *
 * Promises: never more than the leg's own amount is taken back, and never more than once more is credited; what stands in suspense is
 * given out once, whatever is proposed beside it. What an account has not got is refused in words, and nothing is done.
 * Never: a change of a posting that stands, of an order or of a leg's state.
 *
 * Lock order: the desk's (deposit order, its legs, sellers), then accounts in `post`.
 */
import { type Query, toUnits, type Tx } from '../../db/pool.ts';
import { OWN_PARTNER } from '../../engine/own-move.ts';
import { postingKey } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { accountName, type AccountName } from '../../ledger/accounts.ts';
import { post } from '../../ledger/post.ts';
import { type DeskDeps, openDesk } from './desk.ts';

/** A leg as a decision about it needs it. */
export interface CorrectedLeg {
  readonly id: string;
  readonly depositOrderId: string;
  readonly buyerId: string;
  /** `null`: a provider's. */
  readonly sellerId: string | null;
  readonly rail: string | null;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  readonly fixes: number;
}

export type Direction = 'recall' | 'credit_again';
export const SURPLUS_TO = ['returned', 'treasury', 'partner'] as const;
export type SurplusTo = (typeof SURPLUS_TO)[number];

type Done = string | { readonly refused: string };

const MOVED = `select coalesce(sum(l.amount) filter (where a.code = 'suspense'), 0) as suspense,
       coalesce(sum(l.amount) filter (where a.code = 'partner:' || $2 and p.idem_key <> $3), 0) as buyer
from payonce.postings p
join payonce.ledger_entries l on l.posting_id = p.id
join payonce.accounts a on a.id = l.account_id
where p.idem_key = any ($1::text[])`;

/** What corrections have moved so far: still in suspense, and to the buyer's partner (less than zero: taken from it). */
async function movedOf(
  query: Query,
  { id, buyerId, fixes }: CorrectedLeg,
): Promise<{ readonly inSuspense: bigint; readonly toBuyer: bigint }> {
  const surplus = postingKey.p2pSurplus(id);
  const keys = [surplus, ...Array.from({ length: fixes }, (_, index) => postingKey.p2pFix(id, index + 1))];
  const [row] = (await query.query(MOVED, [keys, buyerId, surplus])).rows;
  return { inSuspense: toUnits(row?.['suspense'], 'suspense'), toBuyer: toUnits(row?.['buyer'], 'buyer') };
}

/** Units of a released surplus that nobody has been given yet. */
export async function leftInSuspense(query: Query, leg: CorrectedLeg): Promise<bigint> {
  return (await movedOf(query, leg)).inSuspense;
}

/** Why that much cannot be taken back or credited once more, or `null`. */
export async function objectionToCorrection(
  query: Query,
  leg: CorrectedLeg,
  amount: bigint,
  direction: Direction,
): Promise<string | null> {
  const { toBuyer } = await movedOf(query, leg);
  const after = direction === 'recall' ? toBuyer - amount : toBuyer + amount;
  if (after >= -leg.amount && after <= leg.amount) return null;
  const inWords = (units: bigint): string => `${formatUnits(units, leg.decimals)} ${leg.assetCode}`;
  return direction === 'recall'
    ? `the leg is of ${inWords(leg.amount)}, and corrections have taken back ${inWords(toBuyer < 0n ? -toBuyer : 0n)} of it already`
    : `the leg is of ${inWords(leg.amount)}, and corrections have credited ${inWords(toBuyer > 0n ? toBuyer : 0n)} once more already`;
}

/** Takes from one partner (or the provider) what another gets. Durable with the caller's commit. */
export async function correctLeg(
  tx: Tx,
  deps: DeskDeps,
  leg: CorrectedLeg,
  amount: bigint,
  direction: Direction,
): Promise<Done> {
  const buyer = accountName.partner(leg.buyerId, leg.assetId);
  const giver =
    leg.sellerId === null
      ? accountName.lp(leg.rail ?? '', leg.assetId)
      : accountName.partner(leg.sellerId, leg.assetId);
  const [from, to] = direction === 'recall' ? [buyer, giver] : [giver, buyer];
  const payer = direction === 'recall' ? leg.buyerId : (leg.sellerId ?? leg.rail);
  return book(tx, deps, leg, amount, {
    from,
    to,
    objection: (locked) => objectionToCorrection(tx, locked, amount, direction),
    short: `${payer} has less than ${formatUnits(amount, leg.decimals)} ${leg.assetCode} available: it must bring that first`,
    did: `leg ${leg.id} was corrected (${direction})`,
  });
}

/** Gives out what a provider released beyond need. Durable with the caller's commit. */
export async function giveOutSurplus(
  tx: Tx,
  deps: DeskDeps,
  leg: CorrectedLeg,
  amount: bigint,
  { to, partnerId }: { readonly to: SurplusTo; readonly partnerId: string },
): Promise<Done> {
  const accounts: Readonly<Record<SurplusTo, AccountName>> = {
    returned: accountName.lp(leg.rail ?? '', leg.assetId),
    treasury: accountName.treasury(leg.assetId),
    partner: accountName.partner(partnerId, leg.assetId),
  };
  const whose: Readonly<Record<SurplusTo, string>> = {
    returned: 'was given back to the provider',
    treasury: 'is our own',
    partner: `was credited to ${partnerId}`,
  };
  return book(tx, deps, leg, amount, {
    from: accountName.suspense(leg.assetId),
    to: accounts[to],
    objection: async (locked) => {
      const left = await leftInSuspense(tx, locked);
      return amount <= left ? null : notSoMuch(leg, left);
    },
    short: 'suspense has not so much',
    did: `${formatUnits(amount, leg.decimals)} ${leg.assetCode} of the surplus of leg ${leg.id} ${whose[to]}`,
  });
}

export function notSoMuch({ id, decimals, assetCode }: CorrectedLeg, left: bigint): string {
  return left === 0n
    ? `nothing of leg ${id} stands in suspense: it was not released to us, or is given out already`
    : `of leg ${id} only ${formatUnits(left, decimals)} ${assetCode} stand in suspense`;
}

export async function isPartner(query: Query, id: string): Promise<boolean> {
  const { rowCount } = await query.query('select 1 from payonce.partners where id = $1 and id <> $2', [
    id,
    OWN_PARTNER,
  ]);
  return rowCount === 1;
}

/** One posting under the leg's next key, if nothing stands against it under the leg's lock. */
async function book(
  tx: Tx,
  deps: DeskDeps,
  leg: CorrectedLeg,
  amount: bigint,
  how: {
    readonly from: AccountName;
    readonly to: AccountName;
    objection(locked: CorrectedLeg): Promise<string | null>;
    readonly short: string;
    readonly did: string;
  },
): Promise<Done> {
  const desk = await openDesk(tx, { deposits: [leg.depositOrderId] });
  const n = desk.countFix(leg.id);
  const objection = await how.objection({ ...leg, fixes: n - 1 });
  if (objection !== null) return { refused: objection };
  await desk.writeAndBook(tx, deps);
  const [from, to] = await deps.chart.ids(tx, [how.from, how.to]);
  const [verdict] = await post(tx, [
    {
      kind: 'post',
      key: postingKey.p2pFix(leg.id, n),
      reference: leg.depositOrderId,
      entries: [
        { accountId: from ?? 0n, amount: -amount },
        { accountId: to ?? 0n, amount },
      ],
    },
  ]);
  return verdict?.verdict === 'posted' ? how.did : { refused: how.short };
}
