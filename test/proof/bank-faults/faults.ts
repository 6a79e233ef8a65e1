/*
 * The columns of the table of bank faults: what goes wrong, as rules of the simulated bank and acts on it, and by what the
 * run shows that it really happened. Times are the bank's clock since the transfer was taken in.
 */
import assert from 'node:assert/strict';
import type { Bank, BankOptions } from '../../../sim/bank/bank.ts';
import type { BankFault, BankFaultRule, FaultName } from '../../../sim/bank/faults.ts';
import type { ProfileName } from '../../../sim/bank/profile.ts';
import type { Maintenance } from '../../../src/rails/bank/index.ts';

export const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export const AMOUNT = 12_500n;

/** What an act of a fault may do to its cell. */
export interface Hands {
  readonly bank: Bank;
  /** As after a restart with the new secret under a new name. */
  readonly rotate: () => Promise<void>;
}

export interface Fault {
  readonly id: string;
  /** The column's head. */
  readonly head: string;
  readonly what: string;
  /** `since`: ms since the transfer was taken in. */
  readonly rules?: (since: () => number, profile: ProfileName) => readonly BankFaultRule[];
  readonly options?: Partial<BankOptions>;
  /** What the rail was told. */
  readonly maintenance?: readonly Maintenance[];
  /** Acts by minute, before the pass of that minute. */
  readonly acts?: Readonly<Record<number, (hands: Hands) => void | Promise<void>>>;
  /** Counters of the bank, each of which must have risen; a run whose fault did not fire is red. */
  readonly fired: (profile: ProfileName) => readonly FaultName[];
}

const always =
  (...names: FaultName[]) =>
  () =>
    names;
const first = (fault: BankFault): BankFaultRule => ({ on: 'create', calls: [1], fault });
const onFirst =
  (...faults: BankFault[]) =>
  () =>
    faults.map(first);
const LOST: BankFaultRule = first({ kind: 'lose_answer' });
const blindUntil = (since: () => number, ms: number): BankFaultRule => ({
  on: 'look',
  when: () => since() < ms,
  fault: { kind: 'blind' },
});
/** A provider that finds a transfer by the name that it gave it only: until it gave one, nobody can ask. */
const looks = (profile: ProfileName, ...names: FaultName[]): FaultName[] =>
  profile === 'paypal-payouts' ? names.filter((name) => name !== 'blind') : names;

/** As the provider's document says; where a profile claims less, asking again ends before. */
const RETENTION_MS: Readonly<Partial<Record<ProfileName, number>>> = {
  toss: 15 * DAY_MS,
  'paypal-payouts': 30 * DAY_MS,
};
const outageMs = (profile: ProfileName): number => (RETENTION_MS[profile] ?? DAY_MS) + HOUR_MS;

const ON_THE_WAY: readonly Fault[] = [
  { id: 'none', head: 'no fault', what: 'nothing goes wrong', fired: always() },
  {
    id: 'lost_before',
    head: 'answer lost, nothing done',
    what: 'the connection breaks; the request was never executed',
    rules: onFirst({ kind: 'lose_request' }),
    fired: always('lose_request'),
  },
  {
    id: 'lost_after',
    head: 'answer lost, done',
    what: 'executed; the connection breaks before the answer',
    rules: () => [LOST],
    fired: always('lose_answer'),
  },
  {
    id: 'late_10m',
    head: 'executed 10 min later',
    what: 'a gateway answers 504 and delivers the request ten minutes later, within lateness',
    rules: onFirst({ kind: 'deliver_later', ms: 10 * MINUTE_MS, how: 504 }),
    fired: always('deliver_later'),
  },
  {
    id: 'late_5h',
    head: 'executed 5 h later',
    what: 'the request is executed five hours after its connection broke, long after lateness',
    rules: onFirst({ kind: 'deliver_later', ms: 5 * HOUR_MS }),
    fired: always('deliver_later'),
  },
  {
    id: 'twice',
    head: 'delivered twice',
    what: 'a proxy delivers the bytes twice at once',
    rules: onFirst({ kind: 'deliver_twice' }),
    fired: always('deliver_twice'),
  },
  {
    id: 'copy_30h',
    head: 'a copy 30 h later',
    what: 'a proxy delivers a copy when lateness, and with some providers the key, is long over',
    rules: onFirst({ kind: 'deliver_twice', ms: 30 * HOUR_MS }),
    fired: always('deliver_twice'),
  },
  {
    id: 'slow',
    head: 'takes 20 min',
    what: 'the bank works on it for twenty minutes; we have given up waiting long before',
    rules: onFirst({ kind: 'slow', ms: 20 * MINUTE_MS }),
    fired: always('slow'),
  },
  {
    id: 'down',
    head: 'refuses connections',
    what: 'no server listens at first',
    acts: {
      0: ({ bank }) => bank.down(),
      4: ({ bank }) => {
        assert.equal(bank.calls.create, 0);
        return bank.up();
      },
    },
    fired: always(),
  },
  {
    id: 'stopped',
    head: 'stopped and resumed',
    what: 'the server is stopped, and resumed when we have given up: it executes requests of a client long gone',
    acts: { 0: ({ bank }) => bank.pause(), 2: ({ bank }) => bank.resume() },
    fired: always('executed_for_nobody'),
  },
];

const LOOK_UPS: readonly Fault[] = [
  {
    id: 'lag',
    head: '3 h behind',
    what: 'the answer is lost, and look-ups show the transfer three hours late',
    rules: onFirst({ kind: 'lose_answer' }, { kind: 'lag', ms: 3 * HOUR_MS }),
    fired: always('lose_answer', 'lag'),
  },
  {
    id: 'flapping',
    head: 'flapping',
    what: 'the answer is lost, and every other look-up reads a replica that has nothing',
    rules: () => [LOST, { on: 'look', calls: [1, 3, 5, 7, 9, 11, 13], fault: { kind: 'blind' } }],
    fired: always('lose_answer', 'blind'),
  },
  {
    id: 'blind_50h',
    head: 'nothing for 50 h',
    what: 'the answer is lost, look-ups find nothing for two days, and asking again meets 503 for one',
    rules: (since) => [
      LOST,
      blindUntil(since, 50 * HOUR_MS),
      { on: 'create', when: () => since() > 0 && since() < DAY_MS, fault: { kind: 'http', status: 503 } },
    ],
    fired: (profile) =>
      looks(profile, 'lose_answer', 'blind', ...(profile === 'unkeyed' ? [] : (['http_503'] as const))),
  },
];

const ODD_ANSWERS: readonly Fault[] = [
  {
    id: 'other_key',
    head: 'another’s key',
    what: 'the answer to the first request carries the key and reference of somebody else’s transfer',
    rules: onFirst({ kind: 'other_transfer', fields: ['key', 'reference'] }),
    fired: always('other_transfer'),
  },
  {
    id: 'other_amount',
    head: 'another amount, once',
    what: 'the answer to the first request shows another amount',
    rules: onFirst({ kind: 'other_transfer', fields: ['amount'] }),
    fired: always('other_transfer'),
  },
  {
    id: 'other_amount_always',
    head: 'another amount, always',
    what: 'every answer and look-up shows another amount under our key',
    rules: () => [{ fault: { kind: 'other_transfer', fields: ['amount'] } }],
    fired: always('other_transfer'),
  },
  ...(['html', 'empty', 'truncated', 'huge', 'drip'] as const).map(
    (how): Fault => ({
      id: how,
      head: { html: 'HTML', empty: 'empty', truncated: 'truncated', huge: '10 MB', drip: 'too slow' }[how],
      what: {
        html: 'executed; a page of HTML comes as the answer',
        empty: 'executed; the answer is empty',
        truncated: 'executed; the answer ends in the middle',
        huge: 'executed; the answer has ten megabytes',
        drip: 'executed; the answer comes byte by byte, longer than we wait',
      }[how],
      rules: onFirst({ kind: 'garble', how, ...(how === 'drip' ? { ms: 12_000 } : {}) }),
      fired: always(`garble_${how}`),
    }),
  ),
  {
    id: 'unknown_code',
    head: 'unknown code, nothing done',
    what: 'a refusal with a code that stands in no document, kept where the provider keeps refusals',
    rules: onFirst({ kind: 'unknown_code' }),
    fired: always('unknown_code'),
  },
  {
    id: 'unknown_code_paid',
    head: 'unknown code, done',
    what: 'the same after it paid',
    rules: onFirst({ kind: 'unknown_code', effect: true }),
    fired: always('unknown_code'),
  },
  {
    id: 'unknown_state',
    head: 'unknown state, 3 h',
    what: 'answers show a state that stands in no document, for three hours',
    rules: (since) => [{ when: () => since() < 3 * HOUR_MS, fault: { kind: 'unknown_state' } }],
    fired: always('unknown_state'),
  },
];

const STATUSES: readonly Fault[] = [
  {
    id: 'http_500_paid',
    head: '500, done',
    what: 'executed; the answer is a 500 that is not kept',
    rules: onFirst({ kind: 'http', status: 500, effect: true }),
    fired: always('http_500'),
  },
  {
    id: 'http_500_stored',
    head: '500 kept, nothing done',
    what: 'a 500 that the key answers from now on; nothing was executed',
    rules: onFirst({ kind: 'http', status: 500, stored: true }),
    fired: always('http_500'),
  },
  {
    id: 'http_500_stored_paid',
    head: '500 kept, done',
    what: 'executed, and yet the key answers 500 from now on',
    rules: onFirst({ kind: 'http', status: 500, effect: true, stored: true }),
    fired: always('http_500'),
  },
  ...(['in_progress', 'done', 'other_body', 'new_key'] as const).map(
    (meaning): Fault => ({
      id: `conflict_${meaning}`,
      head: {
        in_progress: '409 in progress',
        done: '409 done',
        other_body: '409 other body',
        new_key: '409 new key, please',
      }[meaning],
      what: {
        in_progress: '409: the first request is still in progress (it was never executed)',
        done: '409 with the transfer that was made',
        other_body: '409: the key was used with another body (it was not)',
        new_key: '409: try again with a new key (we never do)',
      }[meaning],
      rules: onFirst({ kind: 'conflict', meaning }),
      fired: always(`conflict_${meaning}`),
    }),
  ),
  {
    id: 'http_429',
    head: '429',
    what: 'too many requests; nothing was executed',
    rules: onFirst({ kind: 'http', status: 429 }),
    fired: always('http_429'),
  },
  {
    id: 'maintenance',
    head: 'maintenance',
    what: 'from 23:30 to 00:30 the bank answers 503, and nobody told us of it',
    rules: () => [{ fault: { kind: 'maintenance' } }],
    fired: always('maintenance'),
  },
  {
    id: 'maintenance_told',
    head: 'maintenance, configured',
    what: 'the same, and the configuration names the window: nothing is sent in it',
    rules: () => [{ fault: { kind: 'maintenance' } }],
    maintenance: [{ from: '23:30', until: '00:30', timeZone: 'Asia/Seoul' }],
    acts: { 40: ({ bank }) => assert.deepEqual([bank.calls.create, bank.calls.look], [0, 0]) },
    fired: always(),
  },
];

const REFUSALS: readonly Fault[] = [
  {
    id: 'refuse_account',
    head: 'account closed',
    what: 'the receiver’s account is closed, and the bank says so',
    rules: onFirst({ kind: 'refuse', reason: 'account_closed' }),
    fired: always('refuse'),
  },
  {
    id: 'refuse_request',
    head: 'request wrong',
    what: 'the bank calls the request invalid, and keeps nothing',
    rules: onFirst({ kind: 'refuse', reason: 'bad_request', stored: false }),
    fired: always('refuse'),
  },
  {
    id: 'refuse_limit_stored',
    head: 'over a limit, kept',
    what: 'over a limit; the key answers so from now on',
    rules: onFirst({ kind: 'refuse', reason: 'limit', stored: true }),
    fired: always('refuse'),
  },
  {
    id: 'refuse_limit',
    head: 'over a limit, not kept',
    what: 'over a limit once; the key stays free',
    rules: onFirst({ kind: 'refuse', reason: 'limit', stored: false }),
    fired: always('refuse'),
  },
  {
    id: 'balance_first',
    head: 'balance before the key',
    what: 'executed, the answer is lost, and asking again is refused for want of balance: the first one took it (T12)',
    options: { balance: AMOUNT },
    rules: (since) => [LOST, blindUntil(since, 30 * MINUTE_MS), { on: 'create', fault: { kind: 'balance_first' } }],
    fired: (profile) => looks(profile, 'lose_answer', 'blind', 'balance_first'),
  },
  {
    id: 'lie_account',
    head: 'a lie: account closed',
    what: 'the bank paid, and says that the account is closed',
    rules: onFirst({ kind: 'lie', reason: 'account_closed' }),
    fired: always('lie'),
  },
  {
    id: 'lie_limit',
    head: 'a lie: over a limit',
    what: 'the bank paid, and says that it is over a limit',
    rules: onFirst({ kind: 'lie', reason: 'limit' }),
    fired: always('lie'),
  },
  {
    id: 'refused_copy',
    head: 'refused, a copy is paid',
    what: 'a wrong request by the bank’s word; a copy that a proxy delivers five hours later is paid: lateness was broken',
    rules: onFirst(
      { kind: 'refuse', reason: 'bad_request', stored: false },
      { kind: 'deliver_twice', ms: 5 * HOUR_MS },
    ),
    fired: always('refuse', 'deliver_twice'),
  },
];

const KEYS: readonly Fault[] = [
  {
    id: 'key_expiry',
    head: 'outage past the key’s life',
    what: 'the answer is lost, and bank and look-ups are away for an hour longer than keys are kept',
    rules: (since, profile) => [
      LOST,
      blindUntil(since, outageMs(profile) + HOUR_MS),
      {
        on: 'create',
        when: () => since() > 0 && since() < outageMs(profile),
        fault: { kind: 'http', status: 503 },
      },
    ],
    fired: (profile) => looks(profile, 'lose_answer', 'blind', 'http_503'),
  },
  {
    id: 'forget_key',
    head: 'key forgotten early',
    what: 'the answer is lost, and the bank forgets the key within minutes: the one promise on which asking again rests',
    rules: (since) => [
      LOST,
      blindUntil(since, 3 * MINUTE_MS),
      { on: 'create', calls: [2], fault: { kind: 'forget_key' } },
    ],
    fired: (profile) => looks(profile, 'lose_answer', 'blind', 'forget_key'),
  },
  {
    id: 'rotated',
    head: 'credential rotated',
    what: 'the answer is lost, look-ups find nothing for an hour, and the credential is changed meanwhile',
    rules: (since) => [LOST, blindUntil(since, HOUR_MS)],
    acts: { 2: ({ rotate }) => rotate() },
    fired: (profile) => looks(profile, 'lose_answer', 'blind'),
  },
];

const AFTERWARDS: readonly Fault[] = [
  {
    id: 'fails',
    head: 'accepted, then failed',
    what: 'accepted, and failed ten minutes later before it left',
    rules: onFirst({ kind: 'fail_later', ms: 10 * MINUTE_MS }),
    fired: always('fail_later'),
  },
  {
    id: 'returned',
    head: 'returned after 3 days',
    what: 'paid, and three days later it is back, whole, told twice where returns are listed',
    rules: onFirst({ kind: 'return_later', ms: 3 * DAY_MS, reports: 2 }),
    fired: always('return_later'),
  },
  {
    id: 'returned_partly',
    head: 'returned in part',
    what: 'paid, and three days later a part is back',
    rules: onFirst({ kind: 'return_later', ms: 3 * DAY_MS, units: 5_000n }),
    fired: always('return_later'),
  },
  {
    id: 'returned_unseen',
    head: 'returned before it was seen',
    what: 'the answer is lost, look-ups find nothing for an hour, and meanwhile it was paid and came back',
    rules: (since) => [
      first({ kind: 'lose_answer' }),
      first({ kind: 'return_later', ms: 30 * MINUTE_MS }),
      blindUntil(since, HOUR_MS),
    ],
    fired: always('lose_answer', 'return_later'),
  },
];

export const GROUPS: readonly { readonly name: string; readonly faults: readonly Fault[] }[] = [
  { name: 'On the way', faults: ON_THE_WAY },
  { name: 'Look-ups', faults: LOOK_UPS },
  { name: 'Answers that are odd', faults: ODD_ANSWERS },
  { name: 'Statuses', faults: STATUSES },
  { name: 'Refusals', faults: REFUSALS },
  { name: 'Keys and credentials', faults: KEYS },
  { name: 'After it was accepted', faults: AFTERWARDS },
];

export const FAULTS: readonly Fault[] = GROUPS.flatMap((group) => group.faults);
