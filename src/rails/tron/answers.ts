/**
 * What nodes answer to a broadcast, as a table over code and message (rails.md §3.2). Pure.
 *
 * No row says that a payment failed, and none that it happened: SUCCESS is "pooled here", a refusal is one node's opinion
 * at one moment, and the same bytes may sit in another node or in a block already. The expiry is even tested before the
 * duplicate, so that an included transaction, sent again late, is told to have expired. What no row names is `unreadable`
 * (case G10). Whether money moved is decided by solid receipts and by solid time alone (look, read).
 */
import type { Json, Observation, Reach } from '../../engine/rail.ts';
import { excerpt, field, parseLossless, textOf } from '../json.ts';

export type SendKind = Extract<Observation['kind'], 'never_left' | 'in_progress' | 'blocked' | 'unreadable'>;
export interface SendReading {
  readonly kind: SendKind;
  readonly advice: NonNullable<Observation['advice']>;
  readonly detail: string;
}

interface Row {
  readonly code: string;
  /** Where one code means several things, its message tells them apart. */
  readonly message?: RegExp;
  readonly kind: SendKind;
  readonly advice: SendReading['advice'];
  readonly means: string;
}

/** First match wins: the particular stands before the general. */
const ROWS: readonly Row[] = [
  { code: 'SUCCESS', kind: 'in_progress', advice: 'wait', means: 'the node took the bytes, and may forget them' },
  {
    code: 'DUP_TRANSACTION_ERROR',
    message: /already exists/i,
    kind: 'in_progress',
    advice: 'resend',
    means: 'the node saw this id within an hour, perhaps in a try that it refused',
  },
  {
    code: 'DUP_TRANSACTION_ERROR',
    kind: 'in_progress',
    advice: 'wait',
    means: "pending, or in this node's head chain",
  },
  {
    code: 'NOT_ENOUGH_EFFECTIVE_CONNECTION',
    message: /P2P broadcast failed/i,
    kind: 'in_progress',
    advice: 'resend',
    means: 'taken into pending here, and no peer took it or every peer had it',
  },
  {
    code: 'TRANSACTION_EXPIRATION_ERROR',
    kind: 'blocked',
    advice: 'wait',
    means: 'expired for this node, and perhaps included before',
  },
  { code: 'TAPOS_ERROR', kind: 'blocked', advice: 'wait', means: "the reference block is not on this node's chain" },
  { code: 'SIGERROR', kind: 'blocked', advice: 'wait', means: 'the signature does not fit the permissions of now' },
  { code: 'CONTRACT_VALIDATE_ERROR', kind: 'blocked', advice: 'fund', means: 'not valid at this node now' },
  { code: 'CONTRACT_EXE_ERROR', kind: 'blocked', advice: 'resend', means: 'it failed when this node tried it' },
  { code: 'BANDWITH_ERROR', kind: 'blocked', advice: 'fund', means: 'bandwidth and coin do not pay for it now' },
  { code: 'TOO_BIG_TRANSACTION_ERROR', kind: 'blocked', advice: 'wait', means: 'too big: it will expire' },
  { code: 'SERVER_BUSY', kind: 'blocked', advice: 'resend', means: 'the node is full' },
  { code: 'NO_CONNECTION', kind: 'blocked', advice: 'resend', means: 'the node has no peers' },
  { code: 'NOT_ENOUGH_EFFECTIVE_CONNECTION', kind: 'blocked', advice: 'resend', means: 'the node has too few peers' },
  { code: 'BLOCK_UNSOLIDIFIED', kind: 'blocked', advice: 'resend', means: 'the chain does not solidify' },
  // An exception may come after the node has taken it.
  { code: 'OTHER_ERROR', kind: 'unreadable', advice: 'resend', means: 'an exception in the node' },
];

/** Brakes before the pool, told with HTTP 200. */
const BRAKE = /lack of computing resources|rate limit|too many requests|exceeds? the frequency limit/i;
/** Gateways and door-keepers, and what a node answers where it does not offer the call. */
const DOOR = new Set([401, 403, 404, 405, 407, 413, 429]);

/** Reads one answer to a broadcast of the transaction `txId`. */
export function readSendAnswer(
  answer: { readonly reach: Reach; readonly status: number | null; readonly body: string },
  txId: string,
): SendReading {
  if (answer.reach === 'never_connected') {
    return { kind: 'never_left', advice: 'resend', detail: `no byte left: ${excerpt(answer.body)}` };
  }
  if (answer.reach !== 'answer') return unreadable(`${answer.reach}: ${excerpt(answer.body)}`);
  if (answer.status !== null && (DOOR.has(answer.status) || answer.status >= 500)) {
    return { kind: 'blocked', advice: 'resend', detail: `HTTP ${answer.status}: ${excerpt(answer.body)}` };
  }
  const parsed = parseLossless(answer.body);
  const error = field(parsed, 'Error');
  if (error !== undefined) {
    const text = excerpt(JSON.stringify(error));
    return BRAKE.test(text)
      ? { kind: 'blocked', advice: 'resend', detail: `the node limits our rate: ${text}` }
      : unreadable(`Error: ${text}`);
  }
  const named = textOf(field(parsed, 'txid'));
  if (named !== null && named.toLowerCase() !== txId) return unreadable(`the answer is about ${excerpt(named)}`);
  return readCode(parsed, answer.body);
}

function readCode(parsed: Json | undefined, body: string): SendReading {
  const taken = field(parsed, 'result') === true;
  const code = textOf(field(parsed, 'code')) ?? (taken ? 'SUCCESS' : null);
  if (code === null) return unreadable(`neither result nor code: ${excerpt(body)}`);
  const message = messageOf(field(parsed, 'message'));
  // The two words of one answer must not contradict each other.
  if (taken !== (code === 'SUCCESS')) return unreadable(`result ${String(taken)} with ${code}: ${excerpt(message)}`);
  const found = ROWS.find((row) => row.code === code && (row.message === undefined || row.message.test(message)));
  if (found === undefined) return unreadable(`unknown code ${excerpt(code)}: ${excerpt(message)}`);
  return {
    kind: found.kind,
    advice: found.advice,
    detail: `${found.code}: ${found.means}. ${excerpt(message)}`.trim(),
  };
}

/** Messages come as hex unless they were asked for in the clear. */
export function messageOf(value: Json | undefined): string {
  const text = textOf(value) ?? '';
  return /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, 'hex').toString('utf8') : text;
}

function unreadable(detail: string): SendReading {
  return { kind: 'unreadable', advice: 'resend', detail };
}
