/*
 * TronGrid's `/v1`: TRC-20 transfers of an account and events of a contract, in pages, with a fingerprint for the next.
 *
 * Rows carry no log index of the receipt, native transfers are no events, and what is not confirmed is shown unless the
 * caller asks otherwise: all as on the real one.
 */
import type { Wire, WireObject } from '../bank/wire-json.ts';
import { addressOf, sha256, toBase58, topicOf } from './address.ts';
import type { Block, Chain, Included } from './chain.ts';
import { APPROVAL_TOPIC, type Log, TRANSFER_TOPIC } from './programs.ts';

const PAGE_ROWS = 20;
const PAGE_ROWS_MAX = 200;

export type EventAsk = { readonly path: string; readonly query: URLSearchParams; readonly origin: string };

export type EventReach = {
  readonly chain: Chain;
  readonly head: number;
  readonly solid: number;
  readonly nowMs: number;
  /** Faults: called when they changed something. */
  readonly withoutCursor: (() => void) | null;
  readonly emptyPage: (() => void) | null;
};

type Row = { readonly block: Block; readonly included: Included; readonly log: Log; readonly logIndex: number };

/** `null`: no such path. */
export function answerEvents(ask: EventAsk, reach: EventReach): WireObject | null {
  const account = /^\/v1\/accounts\/([^/]+)\/transactions\/trc20$/.exec(ask.path);
  if (account !== null) return transfersOf(account[1] ?? '', ask, reach);
  const contract = /^\/v1\/contracts\/([^/]+)\/events$/.exec(ask.path);
  if (contract !== null) return eventsOf(contract[1] ?? '', ask, reach);
  const transaction = /^\/v1\/transactions\/([0-9a-f]{64})\/events$/.exec(ask.path);
  if (transaction !== null) {
    return paged(ask, reach, (row) => row.included.transaction.id === transaction[1], printEvent(reach));
  }
  const number = /^\/v1\/blocks\/([0-9]+|latest)\/events$/.exec(ask.path);
  if (number === null) return null;
  const wanted = number[1] === 'latest' ? reach.head : Number(number[1]);
  return paged(ask, reach, (row) => row.block.number === wanted, printEvent(reach));
}

function transfersOf(named: string, ask: EventAsk, reach: EventReach): WireObject {
  const topic = topicOf(addressOf(named));
  const { query } = ask;
  const contract = query.get('contract_address');
  const token = contract === null ? null : addressOf(contract);
  const toOnly = query.get('only_to') === 'true';
  const fromOnly = query.get('only_from') === 'true';
  const mine = ({ log }: Row): boolean => {
    if (log.topics[0] !== TRANSFER_TOPIC || (token !== null && log.address !== token)) return false;
    const from = log.topics[1] === topic;
    const to = log.topics[2] === topic;
    return toOnly ? to : fromOnly ? from : from || to;
  };
  return paged(ask, reach, mine, ({ block, included, log }) => {
    const program = reach.chain.world.at(block.number).program(log.address);
    return {
      transaction_id: included.transaction.id,
      token_info:
        program?.kind === 'token'
          ? {
              symbol: program.symbol,
              address: toBase58(log.address),
              decimals: BigInt(program.decimals),
              name: program.name,
            }
          : {},
      block_timestamp: BigInt(block.timeMs),
      from: toBase58(holderIn(log.topics[1])),
      to: toBase58(holderIn(log.topics[2])),
      type: 'Transfer',
      value: BigInt(`0x${log.data}`).toString(),
    };
  });
}

function eventsOf(named: string, ask: EventAsk, reach: EventReach): WireObject {
  const contract = addressOf(named);
  const name = ask.query.get('event_name');
  const number = ask.query.get('block_number');
  const wanted = ({ block, log }: Row): boolean =>
    log.address === contract &&
    (name === null || name === nameOf(log)) &&
    (number === null || Number(number) === block.number);
  return paged(ask, reach, wanted, printEvent(reach));
}

function printEvent(reach: EventReach) {
  return ({ block, included, log, logIndex }: Row): WireObject => {
    const [first, second, third] = nameOf(log) === 'Transfer' ? ['from', 'to', 'value'] : ['owner', 'spender', 'value'];
    const one = `0x${holderIn(log.topics[1]).slice(2)}`;
    const other = `0x${holderIn(log.topics[2]).slice(2)}`;
    const value = BigInt(`0x${log.data}`).toString();
    return {
      block_number: BigInt(block.number),
      block_timestamp: BigInt(block.timeMs),
      caller_contract_address: toBase58(log.address),
      contract_address: toBase58(log.address),
      event_index: BigInt(logIndex),
      event_name: nameOf(log),
      result: { '0': one, '1': other, '2': value, [first ?? '']: one, [second ?? '']: other, [third ?? '']: value },
      result_type: { [first ?? '']: 'address', [second ?? '']: 'address', [third ?? '']: 'uint256' },
      event: `${nameOf(log)}(address indexed ${first}, address indexed ${second}, uint256 ${third})`,
      transaction_id: included.transaction.id,
      ...(block.number > reach.solid ? { _unconfirmed: true } : {}),
    };
  };
}

function paged(
  ask: EventAsk,
  reach: EventReach,
  wanted: (row: Row) => boolean,
  print: (row: Row) => WireObject,
): WireObject {
  const { query } = ask;
  const limit = Math.min(Number(query.get('limit') ?? PAGE_ROWS), PAGE_ROWS_MAX);
  const confirmed = query.get('only_confirmed') === 'true';
  const unconfirmed = query.get('only_unconfirmed') === 'true';
  const fromMs = Number(query.get('min_timestamp') ?? query.get('min_block_timestamp') ?? 0);
  const toMs = Number(query.get('max_timestamp') ?? query.get('max_block_timestamp') ?? Number.MAX_SAFE_INTEGER);
  const rows = rowsUpTo(reach.chain, confirmed ? reach.solid : reach.head).filter(
    (row) =>
      row.block.timeMs >= fromMs &&
      row.block.timeMs <= toMs &&
      (!unconfirmed || row.block.number > reach.solid) &&
      wanted(row),
  );
  // Newest first unless the caller turns it round.
  if (!(query.get('order_by') ?? '').endsWith(',asc')) rows.reverse();
  // The cursor is good for the very question it was given for.
  const question = new URLSearchParams([...query].filter(([name]) => name !== 'fingerprint' && name !== 'limit'));
  question.sort();
  const seal = sha256(Buffer.from(`${ask.path}?${question.toString()}`))
    .toString('hex')
    .slice(0, 16);
  const cursor = query.get('fingerprint');
  const from = cursor === null ? 0 : placeOf(cursor, seal);
  if (from === null) return { success: false, error: 'Invalid fingerprint', statusCode: 400n };
  let page = rows.slice(from, from + limit);
  let next = from + page.length;
  if (reach.emptyPage !== null && page.length > 0) {
    reach.emptyPage();
    page = [];
    next = from;
  }
  const more = next < rows.length;
  const hides = more && reach.withoutCursor !== null;
  if (hides) reach.withoutCursor?.();
  const fingerprint = Buffer.from(`${seal}:${next}`).toString('base64url');
  const meta: WireObject = { at: BigInt(reach.nowMs), page_size: BigInt(page.length) };
  if (more && !hides) {
    const following = new URLSearchParams(query);
    following.set('fingerprint', fingerprint);
    meta.fingerprint = fingerprint;
    meta.links = { next: `${ask.origin}${ask.path}?${following.toString()}` };
  }
  const data: Wire[] = page.map(print);
  return { data, success: true, meta };
}

function rowsUpTo(chain: Chain, height: number): Row[] {
  const rows: Row[] = [];
  for (const block of chain.blocksWithTransactions()) {
    if (block.number > height) break;
    for (const included of block.included) {
      for (const [logIndex, log] of included.outcome.logs.entries()) rows.push({ block, included, log, logIndex });
    }
  }
  return rows;
}

function placeOf(cursor: string, seal: string): number | null {
  const [given, place] = Buffer.from(cursor, 'base64url').toString('utf8').split(':');
  return given === seal && place !== undefined ? Number(place) : null;
}

function nameOf(log: Log): string {
  return log.topics[0] === TRANSFER_TOPIC ? 'Transfer' : log.topics[0] === APPROVAL_TOPIC ? 'Approval' : 'Unknown';
}

function holderIn(topic: string | undefined): string {
  return `41${(topic ?? '').slice(-40)}`;
}
