/* The guards of calls that pay many, and of calls that a quote binds. Fields: guard.ts. */
import type { PlacedGuard } from './guard.ts';

const LINES = 'test/rails/multi-send.test.ts';
const CHAIN = 'test/rails/evm-multi-send.test.ts';
const BATCHES = 'test/flows/payout-batches.test.ts';

export const SENT_TO_MANY: PlacedGuard[] = [
  {
    name: 'a paid line has a transfer of its own, not the contract’s word alone (P8, H10)',
    file: 'src/rails/multi-send.ts',
    find: 'if (sent.token !== null && !takeTransfer(line))',
    replace: 'if (sent.token === "never" && !takeTransfer(line))',
    test: LINES,
    title: /what does not fit together is unknown, never paid and never failed/,
    expect: /paid without a transfer/,
  },
  {
    name: 'no log stands for two lines (H10)',
    file: 'src/rails/multi-send.ts',
    find: 'return found !== undefined && unused.delete(found);',
    replace: 'return found !== undefined;',
    test: LINES,
    title: /no log stands for two lines: two equal lines need two transfers/,
    expect: /unknown/,
  },
  {
    name: 'a line that is called failed, and whose receiver got a transfer, is no line that did not move (H10)',
    file: 'src/rails/multi-send.ts',
    find: "if (truth.outcome !== 'not_paid' || !stray.has(sent.lines[index]?.to)) return truth;",
    replace: "if (truth.outcome !== 'not_paid' || stray.size >= 0) return truth;",
    test: LINES,
    title: /what does not fit together is unknown, never paid and never failed/,
    expect: /called failed, and a transfer went there/,
  },
  {
    name: 'the minimum that was planned is the one that is sealed (P8, E8)',
    file: 'src/rails/evm/payload.ts',
    find: 'const intent = quotedIntent(planned, quoteInPlan(plan));',
    replace: 'const intent = quotedIntent(planned, quoteInPlan({}));',
    test: CHAIN,
    title: /a swap is bound by the minimum of the quote at its plan/,
    expect: /falsy value/,
  },
  {
    name: 'a quote under the least that is accepted is not sealed (P8)',
    file: 'src/rails/call-terms.ts',
    find: 'if (quoted === undefined || least === undefined || quoted >= least) return null;',
    replace: 'if (quoted === undefined || least === undefined || quoted >= 0n) return null;',
    test: CHAIN,
    title: /a quote below the least that is accepted is not sealed/,
    expect: /QUOTE_TOO_LOW/,
  },
  {
    name: 'a payout that the call’s logs do not show is unknown, never payable again by itself (P8, I2)',
    file: 'src/flows/payouts/batch-lines.ts',
    find: "fate: isKnown ? truth.outcome : 'unknown',",
    replace: "fate: isKnown ? truth.outcome : 'not_paid',",
    test: BATCHES,
    title: /of a payout that the logs do not show the money is in suspense/,
    expect: /unknown/,
  },
  {
    name: 'an unknown payout is decided once (P8, I2)',
    file: 'src/flows/payouts/batch-verbs.ts',
    find: "if (payout.taken !== 'unknown')",
    replace: "if (payout.taken === 'in_flight')",
    test: BATCHES,
    title: /of a payout that the logs do not show the money is in suspense/,
    expect: /only an unknown one is decided|payouts_edge|cannot go from/,
  },
];
