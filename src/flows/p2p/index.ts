/**
 * P2P: buyers pay fiat and get an asset, sellers give the asset and get fiat; a provider's liquidity fills what sellers do not.
 *
 * What holds: creating an order writes it and answers (M1); matching is a worker's, off every request, with no lock held through
 * any call (M3, M9). A buyer's order is filled by at most three legs (M8), each credited once, in one transaction with both orders
 * (M13); a seller's amount is set aside at intake, is never given twice (a check), and what is left goes back. A trade at a
 * provider is an effect, opened once whatever dies in between; its state is the leg's state (M10). What is paid late is credited if
 * its amount is still there, else it is kept for people (case I1). No timer ends what is paid for, disputed, or unknown.
 * Never: a wire, a lock through I/O, a status that does not follow from what remains, the legs and the deadline (M2).
 *
 * Files: order (rows), edges (data), intake, claim (the queue), match, find-legs, plan-legs (pure), desk (what every later change goes
 * through), trades (effects), payments, notices (inbound), timers, watch (alerts), cancel, members, verbs and corrections (two persons),
 * reads, view.
 */
import type { EngineDeps } from '../../engine/deps.ts';
import type { Flow } from '../../engine/flow.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { MATCH_IDLE_MS } from './limits.ts';
import { type MatchCounts, matchOnce } from './match.ts';
import { expireOnce, standOnce } from './timers.ts';
import { makeCancelTradeFlow, makeTradeFlow } from './trades.ts';

export { cancelDepositOrder, cancelLeg, cancelWithdrawOrder, switchMatching } from './cancel.ts';
export {
  createDepositOrders,
  createWithdrawOrders,
  type DepositOrderRequest,
  type WithdrawOrderRequest,
} from './intake.ts';
export { PRICE_DECIMALS } from './limits.ts';
export { joinGroup, leaveGroup, setMatching } from './members.ts';
export { confirmLeg, countPayment, disputeLeg, markPaid, type PaymentNotice } from './payments.ts';
export { makePaymentHandler, makeTradeHints, PAYMENT_SOURCE, TRADE_SOURCE } from './notices.ts';
export { SURPLUS_TO } from './corrections.ts';
export { makeLegVerbs, openCorrectionCase } from './verbs.ts';
export { watchOrders, watchParts } from './watch.ts';

export interface Matcher {
  readonly counts: MatchCounts;
  /** Between two passes with nothing to do (M12). */
  readonly idleMs: number;
  /** One pass; `true` when there was work. */
  runOnce(): Promise<boolean>;
}

/** For the role `matcher`; many processes may run it at once. */
export function makeMatcher(engine: EngineDeps, log: Log): Matcher {
  const counts: MatchCounts = { matched: 0, waiting: 0, failed: 0, lost: 0 };
  return {
    counts,
    idleMs: MATCH_IDLE_MS,
    async runOnce() {
      const stood = await standOnce(engine.pool, { ...engine, log });
      const claimed = await matchOnce({ ...engine, log }, counts);
      return stood + claimed + (await expireOnce(engine)) > 0;
    },
  };
}

export function makeP2pFlows(chart: Chart, makeId: MakeId): Flow[] {
  return [makeTradeFlow(chart, makeId), makeCancelTradeFlow()];
}
