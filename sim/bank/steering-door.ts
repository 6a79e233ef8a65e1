/*
 * A second door of the bank, as sandboxes have one beside their API: over HTTP it moves the clock, empties and fills the
 * account, tells its balance, and makes a transfer fail before it left. Amounts are decimal text in smallest units.
 *
 *   POST /clock    { "ms": 3600000 }     time goes on by so much
 *   POST /drain    {}                    the account is empty
 *   POST /top-up   { "units": "5000" }   so much comes in
 *   GET  /balance                        { "units": "5000" }
 *   POST /fail     { "key": "…" }        what was accepted under this key fails
 *
 * Never does: tell how the bank was set up.
 */
import type { Bank } from './bank.ts';
import { openLevers, type SteeringDoor } from './levers.ts';
import { textAt, wholeAt, type Wire } from './wire-json.ts';

export type { SteeringDoor } from './levers.ts';

export type DoorOptions = {
  /** A bank that frees the key of what failed: the next request under it is a new one. */
  readonly failFreesKey?: boolean;
};

export async function openSteeringDoor(bank: Bank, options: DoorOptions = {}): Promise<SteeringDoor> {
  const steer = (what: string, body: Wire): Wire => {
    switch (what) {
      case 'POST /clock':
        bank.clock.advance(Number(wholeAt(body, 'ms') ?? 0n));
        return {};
      case 'POST /drain':
        bank.balance.set(0n);
        return {};
      case 'POST /top-up':
        bank.balance.set(bank.balance.get() + BigInt(textAt(body, 'units') ?? '0'));
        return {};
      case 'GET /balance':
        return { units: bank.balance.get().toString() };
      case 'POST /fail':
        bank.transfers.fail({ key: textAt(body, 'key') ?? '' });
        if (options.failFreesKey === true) bank.script({ on: 'create', fault: { kind: 'forget_key' }, hitsMax: 1 });
        return {};
      default:
        throw new RangeError(`${what}: no such lever`);
    }
  };
  return openLevers(steer);
}
