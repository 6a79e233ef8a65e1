/*
 * One call from the wire to the wire: which faults hit it, whether and when it is executed, what becomes of its answer.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TaskClock } from '../bank/clock.ts';
import type { Answer, BankRequest } from '../bank/profile.ts';
import { breakOff, gatewayPage, respond, respondGarbled } from '../bank/respond.ts';
import type { EscrowBook, Trade } from './book.ts';
import { type Bent, type Counter, jsonAnswer, kindOf, refusal } from './counter.ts';
import { type EscrowCall, type EscrowFault, type EscrowPlan, nameOf, pick, type Refusal } from './faults.ts';

export type DoorParts = {
  readonly plan: EscrowPlan;
  readonly counter: Counter;
  readonly book: EscrowBook;
  readonly clock: TaskClock;
  readonly latencyMsOf: (call: EscrowCall) => number;
  /** What the provider itself says to new trades now. */
  readonly refusing: () => Refusal | null;
};

type FaultOf<K extends EscrowFault['kind']> = Extract<EscrowFault, { kind: K }>;

export function makeEscrowDoor(parts: DoorParts): {
  serve(request: BankRequest, response: ServerResponse): Promise<void>;
} {
  const { plan, counter, book, clock } = parts;
  const { note } = plan;

  const execute = async (request: BankRequest, faults: readonly EscrowFault[]): Promise<Answer> => {
    const begun = counter.begin(request, bentBy(faults, parts.refusing()));
    if (!('finish' in begun)) return begun;
    const slow = pick(faults, 'slow');
    if (slow === null || slow.what === 'answer') return begun.finish();
    note('slow');
    return new Promise((resolve) => clock.after(slow.ms, () => resolve(begun.finish())));
  };

  const executeLater = (ms: number, name: 'deliver_later' | 'deliver_twice', request: BankRequest): void =>
    clock.after(ms, () => {
      note(name);
      // Nobody waits for this answer; an error in here must still be seen.
      execute(request, []).catch((error: unknown) =>
        setImmediate(() => {
          throw error;
        }),
      );
    });

  /** Answers that need no execution; `null`: go on. */
  const atTheDoor = (call: EscrowCall, faults: readonly EscrowFault[]): Answer | null => {
    for (const fault of faults) {
      if (fault.kind === 'http' && !bends(call, fault)) {
        note(nameOf(fault));
        return bare(fault);
      }
      if (fault.kind === 'conflict' && call !== 'look' && fault.effect !== true) {
        note(nameOf(fault));
        return conflictOf(fault, null);
      }
    }
    return null;
  };

  const leave = async (response: ServerResponse, answer: Answer, faults: readonly EscrowFault[]): Promise<void> => {
    const lost = pick(faults, 'lose_answer');
    if (lost !== null) {
      note('lose_answer');
      return breakOff(response, lost.how ?? 'reset');
    }
    const slow = pick(faults, 'slow');
    if (slow?.what === 'answer') {
      note('slow');
      await sleep(slow.ms, undefined, { ref: false });
    }
    const garbled = pick(faults, 'garble');
    if (garbled === null) return respond(response, answer);
    note(nameOf(garbled));
    return respondGarbled(response, answer, garbled);
  };

  return {
    async serve(request, response) {
      const call = kindOf(request);
      const faults = plan.next(call, request);

      const lost = pick(faults, 'lose_request');
      if (lost !== null) {
        note('lose_request');
        return breakOff(response, lost.how ?? 'reset');
      }
      const refused = atTheDoor(call, faults);
      if (refused !== null) return respond(response, refused);
      const garbled = pick(faults, 'garble');
      if (garbled?.effect === false) {
        note(nameOf(garbled));
        return respondGarbled(response, gatewayPage(garbled.status ?? 200, undefined), garbled);
      }
      const late = pick(faults, 'deliver_later');
      if (late !== null) {
        executeLater(late.ms, 'deliver_later', request);
        if (late.how === 504) return respond(response, gatewayPage(504, undefined));
        return breakOff(response, late.how ?? 'reset');
      }

      const isGone = response.destroyed;
      const before = book.count();
      let answer = await execute(request, faults);
      if (isGone && book.count() > before) note('executed_for_nobody');
      const twice = pick(faults, 'deliver_twice');
      // The copy meets no fault of its own: what bent the first delivery was the provider, not the bytes.
      if (twice?.ms !== undefined) executeLater(twice.ms, 'deliver_twice', request);
      else if (twice !== null) {
        note('deliver_twice');
        const second = await execute(request, []);
        if (twice.answer !== 'first') answer = second;
      }
      const latencyMs = parts.latencyMsOf(call);
      if (latencyMs > 0) await sleep(latencyMs, undefined, { ref: false });
      await leave(response, answer, faults);
    },
  };
}

/** Said in place of what was done, or kept under the key: it has to pass the counter. */
function bends(call: EscrowCall, fault: FaultOf<'http'>): boolean {
  return call !== 'look' && (fault.effect === true || fault.stored === true);
}

function bentBy(faults: readonly EscrowFault[], refusing: Refusal | null): Bent {
  const refuse = pick(faults, 'refuse');
  const unknown = pick(faults, 'unknown_state');
  const own = refusing === null ? null : { reason: refusing, stored: true };
  return {
    lagMs: pick(faults, 'lag')?.ms ?? 0,
    staleMs: pick(faults, 'stale')?.ms ?? 0,
    forgetKey: pick(faults, 'forget_key') !== null,
    blind: pick(faults, 'blind') !== null,
    refuse:
      refuse === null
        ? own
        : { reason: refuse.reason ?? 'no_liquidity', stored: refuse.stored ?? true, name: 'refuse' },
    instead: insteadOf(faults),
    state: unknown === null ? null : (unknown.state ?? 'NEW_STATE_9'),
    foreign: pick(faults, 'other_trade')?.fields ?? [],
  };
}

function insteadOf(faults: readonly EscrowFault[]): Bent['instead'] {
  for (const fault of faults) {
    const name = nameOf(fault);
    switch (fault.kind) {
      case 'lie':
        return {
          answer: () => refusal(fault.reason ?? 'no_liquidity'),
          effect: true,
          stored: fault.stored ?? true,
          name,
        };
      case 'unknown_code':
        return {
          answer: () => refusal('code_of_tomorrow'),
          effect: fault.effect === true,
          stored: fault.stored ?? true,
          name,
        };
      case 'http':
        return {
          answer: () => bare(fault),
          effect: fault.effect === true,
          stored: fault.stored === true,
          name,
        };
      case 'conflict':
        return { answer: (trade) => conflictOf(fault, trade), effect: true, stored: false, name };
      default:
    }
  }
  return null;
}

function conflictOf({ meaning }: FaultOf<'conflict'>, trade: Trade | null): Answer {
  switch (meaning) {
    case 'in_progress':
      return jsonAnswer(409, { code: 'in_progress' });
    case 'other_body':
      return jsonAnswer(409, { code: 'idempotency_mismatch', trade_id: trade?.id ?? 'trd_of_somebody_else' });
    case 'not_cancellable':
      return jsonAnswer(409, { code: 'not_cancellable' });
  }
}

function bare(fault: FaultOf<'http'>): Answer {
  if (fault.html === true) return gatewayPage(fault.status, fault.retryAfterS);
  const headers: Readonly<Record<string, string>> =
    fault.retryAfterS === undefined ? {} : { 'retry-after': String(fault.retryAfterS) };
  return jsonAnswer(fault.status, { error: `status ${fault.status}` }, headers);
}
