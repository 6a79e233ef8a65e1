/*
 * The provider's levers over HTTP, for tests whose product runs in other processes. Amounts are decimal text.
 *
 *   POST /pay | /release | /cancel | /expire | /dispute | /refund | /hold   { "reference": "leg_…", "amount": "12.5" }
 *        each trade under the reference; `amount`: a part is released
 *   POST /say      { "reference": "leg_…", "state": "cancelled_with_payment" }   shown in this word until its next step
 *   POST /refuse   { "code": "no_liquidity" }   new trades; without a code they are opened again
 *   POST /freeze   {} · POST /thaw {}           requests are taken in, and executed when it thaws
 *   POST /latency  { "ms": 30000, "on": "create" }   `on` absent: of all answers
 *   POST /script   { "on": "look", "calls": [1, 2], "chance": 0.5, "hits_max": 3, "fault": { "kind": "blind" } }
 *   POST /heal     {}                           no rules, no refusal, awake
 *   POST /clock    { "ms": 3600000 }            time goes on by so much
 *   GET  /trades → { "trades": [ … ] } with steps · GET /counts → { "counts": { … }, "calls": { … } }
 */
import { openLevers, type SteeringDoor } from '../bank/levers.ts';
import { at, isWireObject, textAt, type Wire, type WireObject, wholeAt } from '../bank/wire-json.ts';
import type { Trade } from './book.ts';
import type { Escrow } from './escrow.ts';
import type { EscrowCall, EscrowFault, EscrowFaultRule, Refusal } from './faults.ts';

const CALLS: ReadonlySet<string> = new Set(['create', 'look', 'cancel'] satisfies EscrowCall[]);
const REFUSALS: Readonly<Record<Refusal, true>> = {
  no_liquidity: true,
  amount_out_of_range: true,
  market_closed: true,
  bad_request: true,
  account_disabled: true,
};
const FAULTS: Readonly<Record<EscrowFault['kind'], true>> = {
  lose_request: true,
  lose_answer: true,
  deliver_later: true,
  deliver_twice: true,
  slow: true,
  garble: true,
  http: true,
  refuse: true,
  lie: true,
  unknown_code: true,
  conflict: true,
  unknown_state: true,
  other_trade: true,
  lag: true,
  stale: true,
  blind: true,
  forget_key: true,
};

export function openEscrowDoor(escrow: Escrow): Promise<SteeringDoor> {
  return openLevers((what, body) => steer(escrow, what, body));
}

function steer(escrow: Escrow, what: string, body: Wire): Wire {
  const { trades } = escrow;
  const acts: Readonly<Record<string, (id: string, amount?: string) => void>> = {
    'POST /pay': trades.markPaid,
    'POST /release': trades.release,
    'POST /cancel': trades.cancel,
    'POST /expire': trades.expire,
    'POST /dispute': trades.dispute,
    'POST /refund': trades.refund,
    'POST /hold': trades.hold,
    'POST /say': (id) => trades.say(id, textAt(body, 'state') ?? ''),
  };
  const act = acts[what];
  if (act !== undefined) {
    const all = escrow.book.of(textAt(body, 'reference') ?? '');
    if (all.length === 0) throw new RangeError('there is no trade with this reference');
    const amount = textAt(body, 'amount');
    for (const trade of all) act(trade.id, ...(amount === null ? [] : [amount]));
    return {};
  }
  switch (what) {
    case 'POST /refuse':
      escrow.refuse(refusalIn(body));
      return {};
    case 'POST /freeze':
      escrow.pause();
      return {};
    case 'POST /thaw':
      escrow.resume();
      return {};
    case 'POST /latency': {
      const [ms, on] = [Number(wholeAt(body, 'ms') ?? 0n), callIn(body)];
      escrow.latency(on === null ? ms : { [on]: ms });
      return {};
    }
    case 'POST /script':
      escrow.script(ruleIn(body));
      return {};
    case 'POST /heal':
      escrow.heal();
      return {};
    case 'POST /clock':
      escrow.clock.advance(Number(wholeAt(body, 'ms') ?? 0n));
      return {};
    case 'GET /trades':
      return { trades: escrow.book.trades().map(printTrade) };
    case 'GET /counts':
      return { counts: printCounts(escrow.counts), calls: printCounts(escrow.calls) };
    default:
      throw new RangeError(`${what}: no such lever`);
  }
}

function refusalIn(body: Wire): Refusal | null {
  const code = textAt(body, 'code');
  if (code !== null && !Object.hasOwn(REFUSALS, code)) throw new RangeError(`${code}: no code of the contract`);
  return code as Refusal | null;
}

function callIn(body: Wire): EscrowCall | null {
  const on = textAt(body, 'on');
  if (on !== null && !CALLS.has(on)) throw new RangeError(`${on}: write create, look or cancel`);
  return on as EscrowCall | null;
}

function ruleIn(body: Wire): EscrowFaultRule {
  const fault = numbered(at(body, 'fault'));
  const kind = isWireObject(fault) ? fault['kind'] : null;
  if (typeof kind !== 'string' || !Object.hasOwn(FAULTS, kind)) throw new RangeError('fault: no such kind');
  const [on, calls, chance, hitsMax] = [callIn(body), at(body, 'calls'), at(body, 'chance'), wholeAt(body, 'hits_max')];
  return {
    ...(on === null ? {} : { on }),
    ...(Array.isArray(calls) ? { calls: calls.map(Number) } : {}),
    ...(chance === null ? {} : { chance: Number(chance) }),
    ...(hitsMax === null ? {} : { hitsMax: Number(hitsMax) }),
    fault: fault as EscrowFault,
  };
}

/** Whole numbers of a fault are times and statuses, never money. */
function numbered(value: Wire): Wire {
  if (!isWireObject(value)) return value;
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    typeof field === 'bigint' ? Number(field) : field,
  ]);
  return Object.fromEntries(fields) as WireObject;
}

function printCounts(counts: Readonly<Record<string, number | undefined>>): WireObject {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count ?? 0]));
}

function printTrade(trade: Trade): WireObject {
  return {
    id: trade.id,
    reference: trade.reference,
    key: trade.key,
    asset: trade.asset,
    amount: trade.amount,
    stage: trade.stage,
    released_amount: trade.releasedAmount,
    steps: trade.steps.map(({ stage, at: when, by, key, released }) => ({
      stage,
      at: when.toISOString(),
      by,
      key,
      released,
    })),
  };
}
