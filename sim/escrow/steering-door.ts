/*
 * The provider's levers over HTTP, for tests whose product runs in other processes.
 *
 *   POST /pay | /release | /cancel | /expire | /dispute | /refund | /hold   { "reference": "leg_…", "amount": "12.5" }
 *   POST /latency { "ms": 30000 } · POST /clock { "ms": 3600000 } · GET /trades → { "trades": [ … ] }
 */
import { openLevers, type SteeringDoor } from '../bank/levers.ts';
import { textAt, wholeAt, type Wire } from '../bank/wire-json.ts';
import type { Escrow } from './escrow.ts';

export function openEscrowDoor(escrow: Escrow): Promise<SteeringDoor> {
  return openLevers((what, body) => steer(escrow, what, body));
}

function steer(escrow: Escrow, what: string, body: Wire): Wire {
  const { trades, book } = escrow;
  const acts: Readonly<Record<string, (id: string, amount?: string) => void>> = {
    'POST /pay': trades.markPaid,
    'POST /release': trades.release,
    'POST /cancel': trades.cancel,
    'POST /expire': trades.expire,
    'POST /dispute': trades.dispute,
    'POST /refund': trades.refund,
    'POST /hold': trades.hold,
  };
  const act = acts[what];
  if (act !== undefined) {
    const all = book.of(textAt(body, 'reference') ?? '');
    if (all.length === 0) throw new RangeError('there is no trade with this reference');
    const amount = textAt(body, 'amount');
    for (const trade of all) act(trade.id, ...(amount === null ? [] : [amount]));
    return {};
  }
  switch (what) {
    case 'POST /latency':
      escrow.latency(Number(wholeAt(body, 'ms') ?? 0n));
      return {};
    case 'POST /clock':
      escrow.clock.advance(Number(wholeAt(body, 'ms') ?? 0n));
      return {};
    case 'GET /trades':
      return {
        trades: book.trades().map(({ id, reference, amount, stage }) => ({ id, reference, amount, stage })),
      };
    default:
      throw new RangeError(`${what}: no such lever`);
  }
}
