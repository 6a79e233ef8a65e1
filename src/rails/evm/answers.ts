/**
 * What nodes answer to `eth_sendRawTransaction`, as a table over the raw text (rails.md §2.2). Pure.
 *
 * Codes are not standardised, so the text decides, case-insensitively; what no row names is `unreadable`. No row here
 * ever says that a payment failed: each refusal is one pool's opinion at one moment, and the same bytes may sit in
 * another pool or in a block. Whether the money moved is decided by receipts and by finality alone (look, read).
 */
import type { Json, Observation, Reach } from '../../engine/rail.ts';
import { excerpt } from '../json.ts';
import { field, parseJson } from './json.ts';
import { readItem } from './rpc.ts';

/** Each send is one request on its own, so one constant id serves. */
export const SEND_ID = 1;

export type SendKind = Extract<Observation['kind'], 'never_left' | 'in_progress' | 'blocked' | 'unreadable'>;
export interface SendReading {
  readonly kind: SendKind;
  readonly advice: NonNullable<Observation['advice']>;
  readonly detail: string;
}

interface Row {
  readonly text: RegExp;
  readonly kind: SendKind;
  readonly advice: SendReading['advice'];
  readonly means: string;
}

/** First match wins: the particular stands before the general. */
const ROWS: readonly Row[] = [
  // Known: the node has or had these bytes. `unknown transaction` must not match.
  row(
    /already ?known|existing txn with same hash|already (?:been )?imported|(?<!un)known transaction/,
    'in_progress',
    'wait',
    'the node knows these bytes',
  ),
  row(/either in pool2 or pool3/, 'in_progress', 'wait', 'kept in a lower pool of this node'),
  row(/added to the mempool but wasn't confirmed/, 'in_progress', 'wait', 'in the pool, not confirmed in time'),
  // Another transaction with this nonce stands in that pool: perhaps our older variant.
  row(
    /replacement (?:transaction|fee)[^,]* (?:underpriced|too low)|could not replace existing tx|replaced by transaction with higher tip|insufficient gas price to replace|replacementnotallowed/,
    'in_progress',
    'bump',
    'another transaction with this nonce is in the pool',
  ),
  // In the head chain: ours or another; receipts say which. (`authority nonce too low` is about EIP-7702.)
  row(
    /(?<!authority )nonce(?: is)? too low|^mined$|^oldnonce|nonce below|lower than the current nonce/,
    'in_progress',
    'wait',
    'a transaction with this nonce is in the head chain',
  ),
  // Fees: not wanted here now.
  row(
    /max(?:imum)? fee per gas (?:is )?less than (?:the )?block base fee|fee ?cap (?:\d+ )?(?:less than block base fee|below chain minimum)|transaction is outdated/,
    'blocked',
    'bump',
    'the fee is below the base fee',
  ),
  row(
    /underpriced|gas price (?:is )?(?:below|too low)|below (?:configured )?minimum(?: gas price)?|below current base fee|fee ?too ?low|tip (?:cap )?.*below/,
    'blocked',
    'bump',
    'the fee is too low for this pool',
  ),
  // Money: valid as soon as coin arrives, so it proves nothing.
  row(
    /insufficient ?funds|upfront cost exceeds|overdraws from account|insufficient balance/,
    'blocked',
    'fund',
    'the signer has too little coin for gas and value',
  ),
  row(
    /nonce too high|too far in the future|exceeds next nonce|nonce ?gap|incorrect nonce|gapped-nonce|future transaction tries to replace/,
    'blocked',
    'fill_gap',
    'an earlier nonce is missing',
  ),
  // The pool's room and state.
  row(
    /pool is full|pool overflow|account limit exceeded|spammer|discarded outright|in-flight transaction limit/,
    'blocked',
    'resend',
    'no room in this pool',
  ),
  row(/syncing|initial sync|world state not available/, 'blocked', 'resend', 'the node is not in step with the chain'),
  // This rule comes before the deterministic ones: `gas limit` texts are this node's policy.
  row(
    /exceeds block gas limit|gas limit (?:is )?too high|gas limit .*exceeds block|gaslimitexceeded|exceeds the configured cap|fee cap exceeded|oversized data|data too large|black ?list|only replay-protected/,
    'blocked',
    'wait',
    "against this node's policy",
  ),
  row(
    /already reserved|conflicts with existing transaction|delegat/,
    'blocked',
    'wait',
    'the account is reserved for another kind of transaction',
  ),
  // Deterministic: these bytes are invalid under present rules. Same nonce, corrected variant.
  row(/intrinsic ?gas|gas for floor data/, 'blocked', 'bump', 'the gas limit is too low'),
  row(
    /max ?priority ?fee ?per ?gas (?:is )?higher than|tip above fee cap|tip higher than/,
    'blocked',
    'bump',
    'the tip is above the fee',
  ),
  row(
    /invalid sender|invalid signature|wrong chain ?id|invalid chain ?id|chain ?id not supported|transaction type not supported|invalid transaction type|negative value|gas ?uint(?:64)? ?overflow|rlp|typed transaction too short|failed to recover/,
    'blocked',
    'wait',
    'the bytes are invalid for this node',
  ),
  // Brakes before the pool.
  row(
    /rate ?limit|too many requests|request limit|daily request count|capacity exceeded|compute units/,
    'blocked',
    'resend',
    'the node limits our rate',
  ),
  row(
    /unauthori[sz]ed|forbidden|invalid api key|must be authenticated/,
    'blocked',
    'wait',
    'the node does not let us in',
  ),
];

function row(text: RegExp, kind: SendKind, advice: SendReading['advice'], means: string): Row {
  return { text: new RegExp(text.source, 'i'), kind, advice, means };
}

/** Statuses that a gateway or a door-keeper gives, whatever the body says. */
const DOOR = new Set([401, 403, 407, 429]);

/** Reads one answer to a send of the transaction `hash`. */
export function readSendAnswer(
  answer: { readonly reach: Reach; readonly status: number | null; readonly body: string },
  hash: string,
): SendReading {
  if (answer.reach === 'never_connected') {
    return { kind: 'never_left', advice: 'resend', detail: `no byte left: ${excerpt(answer.body)}` };
  }
  if (answer.reach !== 'answer') return unreadable(`${answer.reach}: ${excerpt(answer.body)}`);
  if (answer.status !== null && DOOR.has(answer.status)) {
    return { kind: 'blocked', advice: 'resend', detail: `HTTP ${answer.status}: ${excerpt(answer.body)}` };
  }
  const parsed = parseJson(answer.body);
  const item = parsed === undefined ? null : readItem(parsed);
  // Another id answers another question: a proxy mixed up two callers.
  if (item !== null && field(parsed, 'id') === SEND_ID) return readSendItem(item, hash);
  if (answer.status !== null && answer.status >= 500) {
    return {
      kind: 'blocked',
      advice: 'resend',
      detail: `HTTP ${answer.status} from a gateway: ${excerpt(answer.body)}`,
    };
  }
  return unreadable(`not a JSON-RPC answer: ${excerpt(answer.body)}`);
}

function readSendItem(item: NonNullable<ReturnType<typeof readItem>>, hash: string): SendReading {
  if (item.kind === 'result') return readSendResult(item.value, hash);
  if (item.kind === 'unreadable') return unreadable(item.detail);
  const found = ROWS.find((candidate) => candidate.text.test(item.message.trim()));
  if (found === undefined) return unreadable(`unknown answer ${item.code ?? ''}: ${excerpt(item.message)}`);
  return { kind: found.kind, advice: found.advice, detail: `${found.means}: ${excerpt(item.message)}` };
}

function readSendResult(value: Json, hash: string): SendReading {
  // A hash is not "in the pool": geth returns it for what it only keeps to send again later (rails.md §0.9).
  if (typeof value === 'string' && value.toLowerCase() === hash.toLowerCase()) {
    return { kind: 'in_progress', advice: 'wait', detail: 'the node took the bytes' };
  }
  return unreadable(`answered with another hash: ${excerpt(JSON.stringify(value))}`);
}

function unreadable(detail: string): SendReading {
  return { kind: 'unreadable', advice: 'resend', detail };
}
