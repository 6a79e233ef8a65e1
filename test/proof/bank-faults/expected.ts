/*
 * What each cell of the table ends as: judged by hand, compared with every run, printed as docs/bank-faults.md. A row gives
 * the end with most providers, then those that differ.
 */
import type { ProfileName } from '../../../sim/bank/profile.ts';
import type { Outcome } from './outcomes.ts';

export const PROVIDERS = [
  'generic',
  'toss',
  'stripe',
  'increase',
  'modern-treasury',
  'paypal-payouts',
  'unkeyed',
] as const satisfies readonly ProfileName[];

/** A fault that a provider cannot have, by its documents: why not. */
export interface NotApplicable {
  readonly why: string;
}
export type Cell = Outcome | NotApplicable;
export type Row = Readonly<Record<ProfileName, Cell>>;

const NO_KEY: NotApplicable = { why: 'it knows no keys' };
const DIRECT: NotApplicable = {
  why: 'it is configured only where nothing between delivers a request again (direct)',
};
const SUCCESSES_ONLY: NotApplicable = { why: 'it keeps successes only under a key' };
const WHOLE_RETURNS: NotApplicable = { why: 'by its documents, what comes back comes back whole' };

function row(most: Cell, others: Partial<Row> = {}): Row {
  return { ...(Object.fromEntries(PROVIDERS.map((name) => [name, most])) as Record<ProfileName, Cell>), ...others };
}

/** Without a look-up by key or reference, the way to know is to ask again. */
const BY_A_LOOK = row('paid', { 'paypal-payouts': 'paid, asked again' });
const ASKED_AGAIN = row('paid, asked again', { unkeyed: 'paid' });
/** Without keys nothing is ever asked again after a doubt. */
const ASKED_OR_HELD = row('paid, asked again', { unkeyed: 'held, a case' });
const KEPT_REFUSAL = row('held, a case', {
  increase: SUCCESSES_ONLY,
  'modern-treasury': SUCCESSES_ONLY,
  'paypal-payouts': SUCCESSES_ONLY,
  unkeyed: NO_KEY,
});

export const EXPECTED: Readonly<Record<string, Row>> = {
  none: row('paid'),
  lost_before: ASKED_OR_HELD,
  lost_after: BY_A_LOOK,
  late_10m: ASKED_AGAIN,
  late_5h: ASKED_AGAIN,
  twice: row('paid', { unkeyed: DIRECT }),
  copy_30h: row('paid twice, on record', { toss: 'paid', increase: 'paid', 'paypal-payouts': 'paid', unkeyed: DIRECT }),
  slow: ASKED_AGAIN,
  down: row('paid'),
  stopped: BY_A_LOOK,

  lag: ASKED_AGAIN,
  flapping: row('paid, asked again', { generic: 'paid', unkeyed: 'paid' }),
  blind_50h: row('paid, asked again', { generic: 'a case, then paid', unkeyed: 'a case, then paid' }),

  other_key: BY_A_LOOK,
  other_amount: row('paid'),
  other_amount_always: row('held, a case'),
  html: BY_A_LOOK,
  empty: BY_A_LOOK,
  truncated: BY_A_LOOK,
  huge: BY_A_LOOK,
  drip: BY_A_LOOK,
  unknown_code: row('held, a case', {
    increase: 'paid, asked again',
    'modern-treasury': 'paid, asked again',
    'paypal-payouts': 'paid, asked again',
  }),
  unknown_code_paid: BY_A_LOOK,
  unknown_state: ASKED_AGAIN,

  http_500_paid: BY_A_LOOK,
  http_500_stored: KEPT_REFUSAL,
  http_500_stored_paid: { ...KEPT_REFUSAL, generic: 'paid', toss: 'paid', stripe: 'paid' },
  conflict_in_progress: ASKED_OR_HELD,
  conflict_done: BY_A_LOOK,
  conflict_other_body: ASKED_OR_HELD,
  conflict_new_key: ASKED_OR_HELD,
  http_429: ASKED_OR_HELD,
  maintenance: ASKED_OR_HELD,
  maintenance_told: row('paid'),

  refuse_account: row('paid, asked again', {
    generic: 'failed',
    toss: 'held, a case',
    stripe: 'held, a case',
    unkeyed: 'failed',
  }),
  refuse_request: row('failed', {
    toss: 'paid, asked again',
    stripe: 'paid, asked again',
    'modern-treasury': 'failed after lateness',
  }),
  refuse_limit_stored: KEPT_REFUSAL,
  refuse_limit: row('paid, asked again', { unkeyed: 'failed after lateness' }),
  balance_first: row('paid, asked again', { 'paypal-payouts': 'held, a case', unkeyed: NO_KEY }),
  lie_account: row('paid', {
    generic: 're-opened, paid',
    'paypal-payouts': 'paid, asked again',
    unkeyed: 're-opened, paid',
  }),
  lie_limit: BY_A_LOOK,
  refused_copy: row('re-opened, paid', {
    toss: 'paid, asked again',
    stripe: 'paid, asked again',
    'paypal-payouts': 'failed, then paid unseen',
  }),

  key_expiry: row('paid, asked again', {
    generic: 'a case, then paid',
    toss: 'a case, then paid',
    'paypal-payouts': 'held, a case',
    unkeyed: NO_KEY,
  }),
  forget_key: row('paid twice, on record', { 'paypal-payouts': 'paid twice, unseen', unkeyed: NO_KEY }),
  rotated: row('paid', { 'paypal-payouts': 'held, a case' }),

  fails: row('failed', { generic: 'held, a case', toss: 'held, a case', unkeyed: 'held, a case' }),
  returned: row('returned', { toss: 'paid, return in a case' }),
  returned_partly: row('returned in part', {
    toss: WHOLE_RETURNS,
    stripe: WHOLE_RETURNS,
    increase: WHOLE_RETURNS,
    'paypal-payouts': WHOLE_RETURNS,
  }),
  returned_unseen: row('returned', { toss: 'held, a case', stripe: 'failed, it came back' }),
};
