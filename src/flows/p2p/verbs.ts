/**
 * What two persons may decide about legs: `p2p_settle` (it was paid: also late, if its amount is still there), `p2p_void` (it was
 * not, and both sides are free again), `p2p_correct` (what a settled leg moved is taken back, or moved once more), `p2p_surplus` (what
 * a provider released beyond need: given back to it, ours, or a partner's). And what may not be closed: a case whose leg stays frozen
 * with it, or whose money stays in suspense.
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { AboutCase, FlowVerb } from '../../engine/deps.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { formatUnits, parseAmount } from '../../kernel/money.ts';
import {
  type CorrectedLeg,
  correctLeg,
  type Direction,
  giveOutSurplus,
  isPartner,
  leftInSuspense,
  notSoMuch,
  objectionToCorrection,
  SURPLUS_TO,
  type SurplusTo,
} from './corrections.ts';
import { type DeskDeps, openDesk } from './desk.ts';

/** What a decision about a leg ends; a case about anything else is still open after it. */
const ABOUT_LEGS: ReadonlySet<string> = new Set(['leg_disputed', 'payment_unclear']);

const LEG = `select g.id, g.state, g.kind, g.deposit_order_id, g.withdraw_order_id, g.rail, g.amount, g.fixes, g.disputed_at is not null as disputed,
       o.partner_id as buyer_id, w.partner_id as seller_id, o.asset_id, a.code as asset_code, a.decimals
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
join payonce.assets a on a.id = o.asset_id
left join payonce.p2p_withdraw_orders w on w.id = g.withdraw_order_id
where g.id = $1`;

interface LegRow extends CorrectedLeg {
  readonly state: string;
  readonly kind: string;
  /** `null` also for a seller's leg of an older system whose order is not taken over. */
  readonly withdrawOrderId: string | null;
  readonly disputed: boolean;
}

type Detail = Readonly<Record<string, string>>;

async function loadLeg(query: Query, id: string): Promise<LegRow | null> {
  const [row] = (
    await query.query<{
      id: string;
      state: string;
      kind: string;
      deposit_order_id: string;
      withdraw_order_id: string | null;
      rail: string | null;
      amount: bigint;
      fixes: number;
      disputed: boolean;
      buyer_id: string;
      seller_id: string | null;
      asset_id: string;
      asset_code: string;
      decimals: number;
    }>(LEG, [id])
  ).rows;
  if (row === undefined) return null;
  const { deposit_order_id, withdraw_order_id, buyer_id, seller_id, asset_id, asset_code, ...rest } = row;
  return {
    ...rest,
    depositOrderId: deposit_order_id,
    withdrawOrderId: withdraw_order_id,
    buyerId: buyer_id,
    sellerId: seller_id,
    assetId: asset_id,
    assetCode: asset_code,
  };
}

async function legOf(query: Query, about: AboutCase, detail: Detail): Promise<LegRow | string> {
  const own = about.subjectKey.startsWith('leg:') ? about.subjectKey.slice(4) : null;
  const id = detail['leg'] ?? own ?? '';
  if (own !== null && own !== id) return `this case is about leg ${own}, not ${id}`;
  return (await loadLeg(query, id)) ?? `there is no leg "${id}": name it by "leg"`;
}

type LegVerbs = Record<'p2p_settle' | 'p2p_void' | 'p2p_correct' | 'p2p_surplus' | 'close', FlowVerb>;

export function makeLegVerbs(pool: Pool, deps: DeskDeps): LegVerbs {
  const verb = (
    objects: (query: Query, leg: LegRow, detail: Detail, about: AboutCase) => Promise<string | null> | string | null,
    act: (
      tx: Tx,
      leg: LegRow,
      detail: Detail,
      about: AboutCase,
    ) => Promise<{ readonly did: string; readonly closesCase: boolean } | { readonly refused: string }>,
  ): FlowVerb => ({
    async objection(about, detail) {
      const leg = await legOf(pool, about, detail);
      return typeof leg === 'string' ? leg : objects(pool, leg, detail, about);
    },
    async carryOut(tx, { about, detail }) {
      const leg = await legOf(tx, about, detail);
      if (typeof leg === 'string') return { refused: leg };
      return act(tx, leg, detail, about);
    },
  });
  return {
    p2p_settle: verb(
      (_query, leg) =>
        leg.kind === 'LP'
          ? 'a provider’s leg is settled by its trade: two persons say "settled" of the effect'
          : leg.state === 'SETTLED'
            ? 'it is settled'
            : null,
      async (tx, leg, _detail, about) => {
        const desk = await openDesk(tx, { deposits: [leg.depositOrderId] });
        desk.dispute(leg.id, false);
        const settled = desk.settle(leg.id, { reason: 'TWO_PERSONS' });
        if (settled !== 'settled') return settled;
        await desk.writeAndBook(tx, deps);
        return { did: `leg ${leg.id} was settled`, closesCase: ABOUT_LEGS.has(about.kind) };
      },
    ),
    p2p_void: verb(
      (_query, leg) =>
        leg.kind === 'LP'
          ? 'a provider’s leg ends with its trade'
          : leg.state === 'OPEN'
            ? null
            : `it is ${leg.state.toLowerCase()}`,
      async (tx, leg, _detail, about) => {
        const desk = await openDesk(tx, { deposits: [leg.depositOrderId] });
        if (desk.leg(leg.id)?.state !== 'OPEN') return { refused: 'it is not open any more' };
        desk.dispute(leg.id, false);
        desk.end(leg.id, 'VOID', 'TWO_PERSONS', 'NOT_PAID_IN_TIME');
        await desk.writeAndBook(tx, deps);
        return { did: `leg ${leg.id} is void`, closesCase: ABOUT_LEGS.has(about.kind) };
      },
    ),
    p2p_correct: verb(
      async (query, leg, detail) => {
        const asked = readCorrection(leg, detail);
        return typeof asked === 'string' ? asked : objectionToCorrection(query, leg, asked.units, asked.direction);
      },
      async (tx, leg, detail, about) => {
        const asked = readCorrection(leg, detail);
        if (typeof asked === 'string') return { refused: asked };
        const done = await correctLeg(tx, deps, leg, asked.units, asked.direction);
        // What is about the leg by another reason is still to be decided.
        return typeof done === 'string'
          ? { did: done, closesCase: ABOUT_LEGS.has(about.kind) || about.kind === CORRECTION }
          : done;
      },
    ),
    p2p_surplus: verb(
      async (query, leg, detail, about) => {
        if (about.kind !== 'trade_surplus') return 'this case is not about a surplus';
        const asked = await readSurplus(query, leg, detail);
        return typeof asked === 'string' ? asked : null;
      },
      async (tx, leg, detail) => {
        const asked = await readSurplus(tx, leg, detail);
        if (typeof asked === 'string') return { refused: asked };
        const done = await giveOutSurplus(tx, deps, leg, asked.units, asked);
        return typeof done === 'string' ? { did: done, closesCase: asked.units === asked.left } : done;
      },
    ),
    close: {
      async objection(about) {
        const leg = about.subjectKey.startsWith('leg:') ? await loadLeg(pool, about.subjectKey.slice(4)) : null;
        if (leg === null) return null;
        if (about.kind === 'leg_disputed' && leg.kind === 'SELLER' && leg.state === 'OPEN' && leg.disputed)
          return 'its leg is frozen as long as it is disputed: say p2p_settle (it was paid) or p2p_void (it was not), and the case closes with it';
        if (about.kind !== 'trade_surplus') return null;
        const left = await leftInSuspense(pool, leg);
        return left === 0n
          ? null
          : `${formatUnits(left, leg.decimals)} ${leg.assetCode} of it stand in suspense: say p2p_surplus, and the case closes with the last of it`;
      },
    },
  };
}

function readCorrection(leg: LegRow, detail: Detail): { units: bigint; direction: Direction } | string {
  if (leg.state !== 'SETTLED') return `it is ${leg.state.toLowerCase()}; only what was settled is corrected`;
  if (leg.kind === 'SELLER' && leg.withdrawOrderId === null)
    return 'its seller’s order is of the older system and not taken over: see payonce p2p import';
  const { direction } = detail;
  if (direction !== 'recall' && direction !== 'credit_again')
    return '"direction" must be recall (from the buyer’s partner) or credit_again';
  const amount = parseAmount(detail['amount'], leg.decimals);
  if (!amount.ok) return `"amount": ${amount.expected}`;
  return amount.units > 0n && amount.units <= leg.amount
    ? { units: amount.units, direction }
    : '"amount" must be above zero and at most the leg’s';
}

async function readSurplus(
  query: Query,
  leg: LegRow,
  detail: Detail,
): Promise<{ units: bigint; left: bigint; to: SurplusTo; partnerId: string } | string> {
  const left = await leftInSuspense(query, leg);
  if (left === 0n) return notSoMuch(leg, left);
  const to = SURPLUS_TO.find((one) => one === detail['as']);
  if (to === undefined)
    return '"as" must be returned (given back to the provider), treasury (ours) or partner (with "partner_id")';
  const partnerId = detail['partner_id'] ?? '';
  if (to === 'partner' && !(await isPartner(query, partnerId)))
    return `there is no partner "${partnerId}": name it by "partner_id"`;
  const asked = detail['amount'];
  if (asked === undefined) return { units: left, left, to, partnerId };
  const amount = parseAmount(asked, leg.decimals);
  if (!amount.ok) return `"amount": ${amount.expected}`;
  if (amount.units === 0n) return '"amount" must be above zero';
  return amount.units <= left ? { units: amount.units, left, to, partnerId } : notSoMuch(leg, left);
}

const CORRECTION = 'leg_correction';

/** The case that two persons correct a settled leg in: nothing else opens one. Durable with the caller's commit. */
export async function openCorrectionCase(
  query: Query,
  makeId: MakeId,
  wish: { readonly leg: string; readonly amount: string; readonly direction: string },
): Promise<{ readonly caseId: string; readonly detail: Detail }> {
  const { leg: id, amount, direction } = wish;
  const leg = await loadLeg(query, id);
  if (leg === null)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `<leg>: got "${id}", expected the id of a leg (payonce p2p order)`,
    });
  const detail = { leg: id, amount, direction };
  const asked = readCorrection(leg, detail);
  const objection =
    typeof asked === 'string' ? asked : await objectionToCorrection(query, leg, asked.units, asked.direction);
  if (objection !== null || typeof asked === 'string')
    throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: `leg ${id}: ${objection ?? ''}` });
  const caseId = await openCase(query, makeId, {
    kind: CORRECTION,
    severity: 2,
    subjectKey: `leg:${id}`,
    partnerId: leg.buyerId,
    assetId: leg.assetId,
    amount: asked.units,
    summary: `${amount} ${leg.assetCode} of settled leg ${id} (order ${leg.depositOrderId}) ${direction === 'recall' ? `to be taken back from ${leg.buyerId}` : `to be credited to ${leg.buyerId} once more`}`,
  });
  return { caseId, detail };
}
