/**
 * What two persons may decide about legs: `p2p_settle` (it was paid: also late, if its amount is still there), `p2p_void` (it was
 * not, and both sides are free again), `p2p_correct` (what a settled leg moved is taken back, or moved once more: a posting of its own).
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import type { AboutCase, FlowVerb } from '../../engine/deps.ts';
import { parseAmount } from '../../kernel/money.ts';
import { type Desk, type DeskDeps, openDesk } from './desk.ts';

/** What a decision about a leg ends; a case about anything else is still open after it. */
const ABOUT_LEGS: ReadonlySet<string> = new Set(['leg_disputed', 'payment_unclear']);

const LEG = `select g.id, g.state, g.kind, g.deposit_order_id, g.withdraw_order_id, a.decimals, g.amount
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
join payonce.assets a on a.id = o.asset_id
where g.id = $1`;

interface LegRow extends Record<string, unknown> {
  id: string;
  state: string;
  kind: string;
  deposit_order_id: string;
  /** `null` also for a seller's leg of an older system whose order is not taken over. */
  withdraw_order_id: string | null;
  decimals: number;
  amount: bigint;
}

async function legOf(
  query: Query,
  about: AboutCase,
  detail: Readonly<Record<string, string>>,
): Promise<LegRow | string> {
  const id = detail['leg'] ?? (about.subjectKey.startsWith('leg:') ? about.subjectKey.slice(4) : '');
  const [row] = (await query.query<LegRow>(LEG, [id])).rows;
  return row ?? `there is no leg "${id}": name it by "leg"`;
}

export function makeLegVerbs(pool: Pool, deps: DeskDeps): Record<'p2p_settle' | 'p2p_void' | 'p2p_correct', FlowVerb> {
  const verb = (
    objects: (leg: LegRow, detail: Readonly<Record<string, string>>) => string | null,
    act: (desk: Desk, leg: LegRow, detail: Readonly<Record<string, string>>) => string | { readonly refused: string },
  ): FlowVerb => ({
    async objection(about, detail) {
      const leg = await legOf(pool, about, detail);
      return typeof leg === 'string' ? leg : objects(leg, detail);
    },
    async carryOut(tx: Tx, { about, detail }) {
      const leg = await legOf(tx, about, detail);
      if (typeof leg === 'string') return { refused: leg };
      const desk = await openDesk(tx, { deposits: [leg.deposit_order_id] });
      const did = act(desk, leg, detail);
      if (typeof did !== 'string') return did;
      await desk.writeAndBook(tx, deps);
      return { did, closesCase: ABOUT_LEGS.has(about.kind) };
    },
  });
  return {
    p2p_settle: verb(
      (leg) =>
        leg.kind === 'LP'
          ? 'a provider’s leg is settled by its trade: two persons say "settled" of the effect'
          : leg.state === 'SETTLED'
            ? 'it is settled'
            : null,
      (desk, leg) => {
        desk.dispute(leg.id, false);
        const settled = desk.settle(leg.id, { reason: 'TWO_PERSONS' });
        return settled === 'settled' ? `leg ${leg.id} was settled` : settled;
      },
    ),
    p2p_void: verb(
      (leg) =>
        leg.kind === 'LP'
          ? 'a provider’s leg ends with its trade'
          : leg.state === 'OPEN'
            ? null
            : `it is ${leg.state.toLowerCase()}`,
      (desk, leg) => {
        if (desk.leg(leg.id)?.state !== 'OPEN') return { refused: 'it is not open any more' };
        desk.dispute(leg.id, false);
        desk.end(leg.id, 'VOID', 'TWO_PERSONS', 'NOT_PAID_IN_TIME');
        return `leg ${leg.id} is void`;
      },
    ),
    p2p_correct: verb(
      (leg, detail) => {
        if (leg.state !== 'SETTLED') return `it is ${leg.state.toLowerCase()}; only what was settled is corrected`;
        if (leg.kind === 'SELLER' && leg.withdraw_order_id === null)
          return 'its seller’s order is of the older system and not taken over: see payonce p2p import';
        if (detail['direction'] !== 'recall' && detail['direction'] !== 'credit_again')
          return '"direction" must be recall (from the buyer’s partner) or credit_again';
        const amount = parseAmount(detail['amount'], leg.decimals);
        if (!amount.ok) return `"amount": ${amount.expected}`;
        return amount.units > 0n && amount.units <= leg.amount
          ? null
          : '"amount" must be above zero and at most the leg’s';
      },
      (desk, leg, detail) => {
        const amount = parseAmount(detail['amount'], leg.decimals);
        if (!amount.ok) return { refused: 'the amount cannot be read' };
        desk.fix(leg.id, amount.units, detail['direction'] === 'recall' ? 'recall' : 'credit_again');
        return `leg ${leg.id} was corrected (${detail['direction'] ?? ''})`;
      },
    ),
  };
}
