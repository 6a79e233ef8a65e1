/**
 * The one table of operating errors: code → HTTP status, public title, what to do next, and whether money is at risk.
 *
 * Expected outcomes (busy, exists, insufficient …) are return values and only become errors at the API's edge. The
 * public half is what a caller sees; `internal` goes to the log alone.
 */

export type MoneyState = 'not_sent' | 'unknown' | 'sent';

interface ErrorRow {
  readonly status: number;
  readonly title: string;
  readonly hint: string;
  readonly moneyState?: MoneyState;
}

export const ERRORS = {
  PO_REQUEST_INVALID: {
    status: 400,
    title: 'The request is not valid',
    hint: 'Correct the named field and send again with the same key.',
    moneyState: 'not_sent',
  },
  PO_REQUEST_TOO_LARGE: {
    status: 413,
    title: 'The body is too large',
    hint: 'Send at most 256 kB.',
    moneyState: 'not_sent',
  },
  PO_REQUEST_MEDIA: {
    status: 415,
    title: 'The body is not JSON',
    hint: 'Send application/json.',
    moneyState: 'not_sent',
  },
  PO_AUTH_MISSING: {
    status: 401,
    title: 'No API key',
    hint: 'Send "Authorization: Bearer <key>".',
    moneyState: 'not_sent',
  },
  PO_AUTH_WRONG: {
    status: 401,
    title: 'The API key is not known',
    hint: 'Check the key, or have a new one made.',
    moneyState: 'not_sent',
  },
  PO_SIGNATURE_INVALID: {
    status: 401,
    title: 'The signature is not valid',
    hint: 'Sign id.timestamp.body with the secret of this source, over the exact bytes, with a clock that is right.',
  },
  PO_RATE_LIMITED: {
    status: 429,
    title: 'Too many requests',
    hint: 'Wait for the time in Retry-After, then repeat with the same key.',
    moneyState: 'not_sent',
  },
  PO_NOT_FOUND: { status: 404, title: 'There is no such thing', hint: 'Check the id; you see only what is yours.' },
  PO_METHOD_UNKNOWN: {
    status: 405,
    title: 'This path has no such method',
    hint: 'The Allow header names those that it has; GET /openapi.json lists every route.',
  },
  PO_KEY_MISSING: {
    status: 400,
    title: 'Idempotency-Key is missing',
    hint: 'Send a key of your own for each new payment, and the same one when you repeat.',
    moneyState: 'not_sent',
  },
  PO_KEY_INVALID: {
    status: 400,
    title: 'Idempotency-Key is not valid',
    hint: 'Use 1 to 255 visible ASCII characters.',
    moneyState: 'not_sent',
  },
  PO_KEY_REUSED: {
    status: 422,
    title: 'This key was used with another body',
    hint: 'Use a new key for a new payment; look at the named resource before you do.',
  },
  PO_KEY_IN_PROGRESS: {
    status: 409,
    title: 'A request with this key is being worked on',
    hint: 'Repeat with the same key in a moment.',
    moneyState: 'unknown',
  },
  PO_EXTERNAL_ID_TAKEN: {
    status: 409,
    title: 'This external_id is in use',
    hint: 'The named resource has it: its status says whether that payment went. Another payment needs another external_id.',
    moneyState: 'unknown',
  },
  PO_AMOUNT_INVALID: {
    status: 400,
    title: 'The amount is not valid',
    hint: 'Send a decimal as text, in quotes, with no more places than the asset has.',
    moneyState: 'not_sent',
  },
  PO_AMOUNT_OUT_OF_LIMITS: {
    status: 422,
    title: 'The amount is outside the limits',
    hint: 'See the limits of the asset.',
    moneyState: 'not_sent',
  },
  PO_DAY_LIMIT: {
    status: 422,
    title: "The day's limit is used up",
    hint: 'Wait for the next day in your time zone, or ask for a higher limit.',
    moneyState: 'not_sent',
  },
  PO_ASSET_UNKNOWN: {
    status: 400,
    title: 'The asset is not known',
    hint: 'See GET /v1/assets.',
    moneyState: 'not_sent',
  },
  PO_ADDRESS_INVALID: {
    status: 400,
    title: 'The address is not valid',
    hint: 'Check it with the receiver; a broken checksum means a typing error.',
    moneyState: 'not_sent',
  },
  PO_PAYEE_INVALID: {
    status: 400,
    title: 'The payee is not valid',
    hint: 'Correct the named fields with the receiver; all of them go as text, as the bank prints them, and nothing is cut.',
    moneyState: 'not_sent',
  },
  PO_REPAYS_REFUSED: {
    status: 422,
    title: 'This transfer cannot be paid again',
    hint: 'See its status: only one that failed, was cancelled or came back is paid again, once; then use a new key.',
    moneyState: 'not_sent',
  },
  PO_FILE_INVALID: {
    status: 400,
    title: 'The file cannot be read',
    hint: 'Correct it at the named place and upload it again; nothing of it was stored.',
    moneyState: 'not_sent',
  },
  PO_FILE_REFUSED: {
    status: 422,
    title: 'No line of the file can be paid',
    hint: 'Correct the listed lines and upload it again; nothing of it was stored.',
    moneyState: 'not_sent',
  },
  PO_DESTINATION_REFUSED: {
    status: 422,
    title: 'This destination is refused',
    hint: 'The detail says why.',
    moneyState: 'not_sent',
  },
  PO_INSUFFICIENT_FUNDS: {
    status: 422,
    title: 'The available balance is too small',
    hint: 'Deposit more, or wait for open payments to end; then use a new key.',
    moneyState: 'not_sent',
  },
  PO_MARKET_UNKNOWN: {
    status: 422,
    title: 'This is not traded in your group',
    hint: 'Use an asset and a currency that your group trades; ask which those are.',
    moneyState: 'not_sent',
  },
  PO_ORDER_MATCHED: {
    status: 409,
    title: 'Part of this order is matched',
    hint: 'Its legs decide: pay, confirm or cancel each of them.',
    moneyState: 'unknown',
  },
  PO_LEG_ENDED: {
    status: 409,
    title: 'This leg does not allow that',
    hint: 'The detail says how it stands; a payment that came for it is kept and shown to people.',
    moneyState: 'unknown',
  },
  PO_PAYMENT_DIFFERS: {
    status: 422,
    title: 'The payment is not what this leg is about',
    hint: 'Confirm a leg only for exactly its fiat amount; tell people about another one.',
    moneyState: 'unknown',
  },
  PO_TOO_LATE: {
    status: 409,
    title: 'It is too late for that',
    hint: 'It may have left already; follow its status.',
    moneyState: 'unknown',
  },
  PO_BUSY: { status: 409, title: 'Somebody else is at it', hint: 'Try again in a moment.', moneyState: 'unknown' },
  PO_OPERATOR_FORBIDDEN: {
    status: 403,
    title: 'This operator may not do that',
    hint: 'A second person must approve, or the role is missing.',
  },
  PO_STALE: { status: 409, title: 'The evidence has changed since', hint: 'Read the case again and propose anew.' },
  PO_EVIDENCE_REFUSED: {
    status: 409,
    title: 'The evidence does not allow that',
    hint: 'The detail says what stands against it.',
  },
  PO_DB_COMMIT_UNKNOWN: {
    status: 503,
    title: 'Whether it was stored is not known',
    hint: 'Repeat with the same key: it will not be done twice.',
    moneyState: 'unknown',
  },
  PO_DB_UNAVAILABLE: {
    status: 503,
    title: 'The database does not answer',
    hint: 'Repeat with the same key in a moment.',
    moneyState: 'unknown',
  },
  PO_DB_SCHEMA: {
    status: 500,
    title: 'The database schema does not fit this version',
    hint: 'Run "payonce migrate" with the matching version.',
  },
  PO_CONFIG_INVALID: { status: 500, title: 'The configuration is not valid', hint: 'Correct all faults listed.' },
  PO_SEALS_STOPPED: {
    status: 503,
    title: 'Nothing new is sent now',
    hint: 'An operator must look at the named reason; what is open is still followed.',
  },
  PO_INTERNAL: {
    status: 500,
    title: 'An error of ours',
    hint: 'Repeat with the same key: it will not be done twice.',
    moneyState: 'unknown',
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

export interface FieldFault {
  readonly pointer: string;
  readonly got: string;
  readonly expected: string;
}

export interface ErrorFacts {
  /** Public: what happened, in a sentence. */
  detail?: string;
  /** JSON pointer of the field. */
  pointer?: string;
  /** What was got, never a secret. */
  got?: string;
  expected?: string;
  /** Where more than one field is at fault: all of them, the first one as above. */
  faults?: readonly FieldFault[];
  /** The resource that the error is about. */
  resource?: { type: string; id: string };
  moneyState?: MoneyState;
  /** For the log only. */
  internal?: unknown;
}

export class PayonceError extends Error {
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;
  constructor(code: ErrorCode, facts: ErrorFacts = {}) {
    super(facts.detail ?? ERRORS[code].title);
    this.name = 'PayonceError';
    this.code = code;
    this.facts = facts;
  }
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: ErrorCode;
  detail: string;
  hint: string;
  pointer?: string;
  got?: string;
  expected?: string;
  faults?: readonly FieldFault[];
  resource?: { type: string; id: string };
  money_state?: MoneyState;
}

/** The public half as RFC 9457 problem+json. */
export function toProblem(code: ErrorCode, facts: ErrorFacts = {}): Problem {
  const row: ErrorRow = ERRORS[code];
  const moneyState = facts.moneyState ?? row.moneyState;
  return {
    type: `/problems/${code}`,
    title: row.title,
    status: row.status,
    code,
    detail: facts.detail ?? row.title,
    hint: row.hint,
    ...(facts.pointer === undefined ? {} : { pointer: facts.pointer }),
    ...(facts.got === undefined ? {} : { got: facts.got }),
    ...(facts.expected === undefined ? {} : { expected: facts.expected }),
    ...(facts.faults === undefined ? {} : { faults: facts.faults }),
    ...(facts.resource === undefined ? {} : { resource: facts.resource }),
    ...(moneyState === undefined ? {} : { money_state: moneyState }),
  };
}

/** A broken invariant: the process stops. A stopped process is a small harm, a wrong ledger is not. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantBroken(message);
}

export class InvariantBroken extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InvariantBroken';
  }
}
