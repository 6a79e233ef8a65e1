/*
 * One call from the wire to the wire: limits and closed routes first, then which faults hit it, whether and when it is
 * executed, what becomes of its answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TaskClock } from '../bank/clock.ts';
import type { Answer } from '../bank/profile.ts';
import { breakOff, gatewayPage, readBody, respond, respondGarbled } from '../bank/respond.ts';
import { isWireObject, parseWire, printWire, type Wire, type WireObject } from '../bank/wire-json.ts';
import { buildRoute } from './build-routes.ts';
import type { Chain } from './chain.ts';
import { answerEvents } from './event-api.ts';
import { ContractRefused } from './execute.ts';
import { type CallKind, type FaultPlan, faultNameOf, pick, type TronFault } from './faults.ts';
import { NullPointer, WireParseError } from './messages.ts';
import type { Network } from './network.ts';
import type { ResponseCode, Said, TronNode } from './node.ts';
import { printSaid, printSaidInFull } from './print.ts';
import { ProtoError } from './proto.ts';
import { type Ask, isOfThePast, type Reach, readRoute } from './read-routes.ts';
import { fromHex, fromJson, type TronTransaction } from './transaction.ts';

export type DoorParts = {
  readonly chain: Chain;
  readonly clock: TaskClock;
  readonly network: Network;
  readonly plan: FaultPlan;
};

type Call = {
  readonly node: TronNode;
  readonly kind: CallKind;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: string;
  readonly origin: string;
};

const JSON_HEADERS = { 'content-type': 'application/json; charset=utf-8' };
const LITE_ANSWER = 'this API is closed because this node is a lite fullnode';
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;

const STANDARD_MESSAGES: Partial<Record<string, string>> = {
  SIGERROR: 'Validate signature error: sig error',
  CONTRACT_VALIDATE_ERROR: 'Contract validate error : Validate TransferContract error, balance is not sufficient.',
  CONTRACT_EXE_ERROR: 'Contract execute error : null',
  BANDWITH_ERROR: 'Account resource insufficient error.',
  DUP_TRANSACTION_ERROR: 'Dup transaction.',
  TAPOS_ERROR: 'Tapos check error.',
  TOO_BIG_TRANSACTION_ERROR: 'Too big transaction with result',
  TRANSACTION_EXPIRATION_ERROR: 'Transaction expired',
  SERVER_BUSY: 'Server busy.',
  NO_CONNECTION: 'No connection.',
  NOT_ENOUGH_EFFECTIVE_CONNECTION: 'P2P broadcast failed.',
  BLOCK_UNSOLIDIFIED: 'Block unsolidified.',
  OTHER_ERROR: 'Error: null',
};

export function makeDoor({ chain, clock, network, plan }: DoorParts) {
  const { note } = plan;

  /** Who takes it in on the node's side, what is in store for it, and what is said. */
  const broadcast = async (call: Call, faults: readonly TronFault[]): Promise<Answer> => {
    const body = parseBody(call.body);
    const visible = isVisible(body);
    const hex = call.path.endsWith('/broadcasthex');
    const transaction = hex ? await fromHex(body.transaction ?? null) : await fromJson(body, visible);
    const said = takeIn(call.node, transaction, faults);
    const printed = hex ? printSaidInFull(said, transaction) : { ...printSaid(said, visible), txid: transaction.id };
    return json(printed);
  };

  const takeIn = (node: TronNode, transaction: TronTransaction, faults: readonly TronFault[]): Said => {
    const refuse = pick(faults, 'refuse');
    if (refuse !== null) {
      note('refuse');
      return saying(refuse);
    }
    const drop = pick(faults, 'drop');
    const dropsNow = drop !== null && drop.afterMs === undefined;
    const staysHere = pick(faults, 'not_spread') !== null;
    const said = node.broadcast(transaction, { drops: dropsNow, staysHere });
    const taken = said.code === 'SUCCESS' || said.message === 'P2P broadcast failed.';
    if (taken) destine(transaction, faults);
    if (taken && drop?.afterMs !== undefined) {
      clock.after(drop.afterMs, () => {
        if (chain.find(transaction.id) !== null) return;
        network.forget(transaction.id);
        note('drop');
      });
    }
    if (taken && dropsNow) note('drop');
    if (taken && staysHere) note('not_spread');
    const lie = pick(faults, 'lie');
    if (lie === null || !taken) return said;
    note('lie');
    return saying(lie);
  };

  const destine = (transaction: TronTransaction, faults: readonly TronFault[]): void => {
    const later = pick(faults, 'include_later');
    const forkOut = pick(faults, 'fork_out');
    const endAs = pick(faults, 'end_as');
    const hold = faults.some(({ kind }) => kind === 'never_include')
      ? 'never'
      : faults.some(({ kind }) => kind === 'include_at_last')
        ? 'last'
        : later === null
          ? undefined
          : { blocks: later.blocks };
    if (hold !== undefined) network.destine(transaction, { hold });
    if (forkOut !== null) {
      network.destine(transaction, {
        forkOut: { afterBlocks: forkOut.afterBlocks, comesBack: forkOut.comesBack ?? true },
      });
    }
    if (endAs !== null) network.destine(transaction, { endsAs: endAs.result });
  };

  const look = async (call: Call, faults: readonly TronFault[]): Promise<Answer> => {
    if (call.kind === 'events') return events(call, faults);
    const [, side = '', name = ''] = call.path.split('/');
    const solid = side === 'walletsolidity';
    if (call.node.settings.lite && isOfThePast(name)) return { status: 200, headers: JSON_HEADERS, body: LITE_ANSWER };
    const ask = readAsk(call);
    const lag = pick(faults, 'lag');
    const natural = solid ? call.node.solid() : call.node.head();
    const reach: Reach = {
      node: call.node,
      chain,
      height: natural - (lag?.blocks ?? 0),
      solid,
      nowMs: clock.now().getTime(),
    };
    const read = readRoute(name, solid);
    if (read !== null) return observed(read(ask, reach), () => read(ask, { ...reach, height: natural }), lag, faults);
    const build = buildRoute(name, solid);
    if (build === null) return { status: 404, headers: { 'content-type': 'text/html' }, body: NOT_FOUND_PAGE };
    return json(await build(ask, reach));
  };

  const observed = (
    seen: Wire,
    truth: () => Wire,
    lag: { readonly blocks: number } | null,
    faults: readonly TronFault[],
  ): Answer => {
    if (lag !== null && printWire(truth()) !== printWire(seen)) note('lag');
    if (pick(faults, 'other_branch') !== null) {
      const other = ofOtherBranch(seen);
      if (other !== seen) note('other_branch');
      return json(other);
    }
    if (pick(faults, 'blind') === null) return json(seen);
    const nothing = Array.isArray(seen) ? [] : {};
    if (printWire(nothing) !== printWire(seen)) note('blind');
    return json(nothing);
  };

  const events = (call: Call, faults: readonly TronFault[]): Answer => {
    const found = answerEvents(call, {
      chain,
      head: call.node.head(),
      solid: call.node.solid(),
      nowMs: clock.now().getTime(),
      withoutCursor: pick(faults, 'no_fingerprint') === null ? null : () => note('no_fingerprint'),
      emptyPage: pick(faults, 'empty_page') === null ? null : () => note('empty_page'),
    });
    if (found === null) return { ...json({ success: false, error: 'not found', statusCode: 404n }), status: 404 };
    return { ...json(found), status: found.success === false ? 400 : 200 };
  };

  /** Whatever fails inside is an Error with HTTP 200, as the servlets do it. */
  const execute = async (call: Call, faults: readonly TronFault[]): Promise<Answer> => {
    try {
      return call.kind === 'broadcast' ? await broadcast(call, faults) : await look(call, faults);
    } catch (error) {
      return json({ Error: javaErrorOf(error) });
    }
  };

  const forNobody = (call: Call, faults: readonly TronFault[]): void => {
    execute(call, faults).then(
      () => note('executed_for_nobody'),
      () => undefined,
    );
  };

  const bare = (fault: Extract<TronFault, { kind: 'http' }>): Answer =>
    fault.html === true
      ? gatewayPage(fault.status, fault.retryAfterS)
      : {
          ...json({ Error: `request rate exceeded the allowed_rps(15), and the query server is suspended for 5s` }),
          status: fault.status,
          headers: {
            ...JSON_HEADERS,
            ...(fault.retryAfterS === undefined ? {} : { 'retry-after': String(fault.retryAfterS) }),
          },
        };

  const serve = async (call: Call, response: ServerResponse): Promise<void> => {
    const faults = plan.next(call.kind, { node: call.node.settings.name, path: call.path, body: call.body });
    for (const fault of faults) {
      switch (fault.kind) {
        case 'lose_request':
          note('lose_request');
          return breakOff(response, fault.how ?? 'reset');
        case 'deliver_later':
          note('deliver_later');
          clock.after(fault.ms, () => forNobody(call, faults));
          return breakOff(response, fault.how ?? 'reset');
        case 'rate_limited':
          note('rate_limited');
          return respond(response, limited(200));
        case 'http':
          note(faultNameOf(fault));
          if (fault.effect === true) await execute(call, faults);
          return respond(response, bare(fault));
        case 'garble':
          if (fault.effect !== false) break;
          note(faultNameOf(fault));
          return respondGarbled(response, json({}), fault);
        default:
      }
    }
    if (pick(faults, 'deliver_twice') !== null) {
      note('deliver_twice');
      await execute(call, faults);
    }
    const answer = await execute(call, faults);
    const slow = pick(faults, 'slow');
    if (slow !== null) {
      note('slow');
      await sleep(slow.ms);
    }
    const lost = pick(faults, 'lose_answer');
    if (lost !== null) {
      note('lose_answer');
      return breakOff(response, lost.how ?? 'reset');
    }
    const garble = pick(faults, 'garble');
    if (garble === null) return respond(response, answer);
    note(faultNameOf(garble));
    return respondGarbled(response, answer, garble);
  };

  return {
    async serve(node: TronNode, gate: Gate, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
      const body = (await readBody(incoming)).toString('utf8');
      const target = new URL(incoming.url ?? '/', 'http://node');
      const { settings } = node;
      const key = incoming.headers['tron-pro-api-key'];
      if (settings.apiKey !== null && key !== settings.apiKey) {
        return respond(response, { ...json({ Error: 'ApiKey not exists' }), status: 401 });
      }
      if (gate.isOver(settings.limit?.perSecond)) return respond(response, limited(settings.limit?.answer ?? 200));
      if (settings.closed.includes(target.pathname)) {
        return respond(response, { ...json({ Error: 'this API is unavailable due to config' }), status: 404 });
      }
      const origin = `http://${incoming.headers.host ?? '127.0.0.1'}`;
      const { pathname: path, searchParams: query } = target;
      await serve({ node, kind: kindOf(path), path, query, body, origin }, response);
    },
  };
}

export type Door = ReturnType<typeof makeDoor>;

export type Gate = { readonly isOver: (perSecond: number | undefined) => boolean };

const SECOND_MS = 1_000;

/** Counts the calls of one node by real time. */
export function makeGate(): Gate {
  let sinceMs = 0;
  let calls = 0;
  return {
    isOver(perSecond) {
      if (perSecond === undefined) return false;
      const nowMs = performance.now();
      if (nowMs - sinceMs >= SECOND_MS) {
        sinceMs = nowMs;
        calls = 0;
      }
      calls += 1;
      return calls > perSecond;
    },
  };
}

const NOT_FOUND_PAGE =
  '<html><head><title>Error 404 Not Found</title></head><body><h2>HTTP ERROR 404</h2></body></html>';

function kindOf(path: string): CallKind {
  if (path.startsWith('/v1/')) return 'events';
  const name = path.split('/').at(-1) ?? '';
  if (name === 'broadcasttransaction' || name === 'broadcasthex') return 'broadcast';
  const solid = path.startsWith('/walletsolidity/');
  if (buildRoute(name, solid) !== null) return 'build';
  return solid ? 'solid' : 'head';
}

function json(value: Wire): Answer {
  return { status: 200, headers: JSON_HEADERS, body: `${printWire(value)}\n` };
}

function limited(status: 200 | 403 | 429): Answer {
  const Error =
    status === 200
      ? 'class java.lang.IllegalAccessException : lack of computing resources'
      : 'Exceed the frequency limit, please retry later';
  return { ...json({ Error }), status };
}

function saying(fault: { readonly code: string; readonly message?: string }): Said {
  const message = fault.message ?? STANDARD_MESSAGES[fault.code] ?? '';
  // A newer node's code is none of ours: it goes out as it was given.
  return { code: fault.code as ResponseCode, message };
}

function parseBody(text: string): WireObject {
  if (Buffer.byteLength(text) > MESSAGE_BYTES_MAX) {
    throw new RangeError(`body size is too big, the limit is ${MESSAGE_BYTES_MAX}`);
  }
  const body = text.trim() === '' ? {} : parseWire(text);
  if (body === undefined) throw new SyntaxError('syntax error, expect {, actual error, pos 0');
  return isWireObject(body) ? body : {};
}

function isVisible(body: WireObject): boolean {
  return body.visible === true || body.visible === 'true';
}

function readAsk(call: Call): Ask {
  const body = parseBody(call.body);
  const asked: WireObject = {};
  for (const [name, value] of call.query) asked[name] = /^-?[0-9]{1,18}$/.test(value) ? BigInt(value) : value;
  const params = { ...asked, ...body };
  return { params, visible: isVisible(params) };
}

function javaErrorOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof WireParseError) return `class org.tron.core.services.http.JsonFormat$ParseException : ${text}`;
  if (error instanceof NullPointer) return 'class java.lang.NullPointerException : null';
  if (error instanceof ContractRefused) return `class org.tron.core.exception.ContractValidateException : ${text}`;
  if (error instanceof ProtoError) return `class com.google.protobuf.InvalidProtocolBufferException : ${text}`;
  if (error instanceof SyntaxError) return `class com.alibaba.fastjson.JSONException : ${text}`;
  return `class java.lang.Exception : ${text}`;
}

/** The same block under the id that it would have on another branch; the first block is everybody's. */
function ofOtherBranch(seen: Wire): Wire {
  if (!isWireObject(seen)) return seen;
  const { blockID: id } = seen;
  if (typeof id !== 'string' || /^0{16}/.test(id)) return seen;
  return { ...seen, blockID: `${id.slice(0, -8)}${id.endsWith('0badb10c') ? '0badb10d' : '0badb10c'}` };
}
