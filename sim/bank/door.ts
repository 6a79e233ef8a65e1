/*
 * One call from the wire to the wire: which faults hit it, whether and when it is executed, what becomes of its answer.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BankBooks } from './books.ts';
import type { TaskClock } from './clock.ts';
import type { Core } from './core.ts';
import { type BankFault, type CallKind, type FaultPlan, nameOf } from './faults.ts';
import type { Answer, BankRequest, Desk, Profile } from './profile.ts';
import { breakOff, gatewayPage, respond, respondGarbled } from './respond.ts';
import { bareAnswer, disguiseOf, pick, shapeOf } from './shape.ts';
import type { Batch } from './transfer.ts';

export type DoorParts = {
  readonly profile: Profile;
  readonly plan: FaultPlan;
  readonly core: Core;
  readonly desk: Desk;
  readonly books: BankBooks;
  readonly clock: TaskClock;
  readonly settle: (batch: Batch, toTheEnd: boolean) => void;
};

const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;
/** Korean time: most Korean banks close around midnight. */
const KST_OFFSET_MINUTES = 9 * 60;

export function makeDoor(parts: DoorParts): { serve(request: BankRequest, response: ServerResponse): Promise<void> } {
  const { profile, plan, core, desk, books, clock } = parts;
  const { note } = plan;
  const shapeParts = { ...parts, note };

  const execute = async (kind: CallKind, request: BankRequest, faults: readonly BankFault[]): Promise<Answer> => {
    if (kind === 'other') return core.other(request);
    if (kind === 'look') {
      const blind = pick(faults, 'blind') !== null;
      return core.look(request, disguiseOf(faults, { note }), blind, () => note(blind ? 'blind' : 'lag'));
    }
    const outcome = core.create(request, shapeOf(faults, shapeParts));
    if (outcome.kind === 'answer') return outcome.answer;
    const slow = pick(faults, 'slow');
    if (slow === null || slow.what === 'answer') return outcome.finish();
    note('slow');
    return new Promise((resolve) => clock.after(slow.ms, () => resolve(outcome.finish())));
  };

  const executeLater = (
    ms: number,
    name: 'deliver_later' | 'deliver_twice',
    kind: CallKind,
    request: BankRequest,
    faults: readonly BankFault[],
  ): void =>
    clock.after(ms, () => {
      note(name);
      // Nobody waits for this answer; an error in here must still be seen.
      execute(kind, request, faults).catch((error: unknown) =>
        setImmediate(() => {
          throw error;
        }),
      );
    });

  /** Answers that need no execution; `null`: go on. */
  const atTheDoor = (kind: CallKind, faults: readonly BankFault[]): Answer | null => {
    for (const fault of faults) {
      if (fault.kind === 'maintenance' && isInside(fault, desk.now())) {
        note('maintenance');
        return profile.refuse('maintenance', desk);
      }
      const bends = kind === 'create' && fault.kind === 'http' && (fault.effect === true || fault.stored === true);
      if (fault.kind === 'http' && !bends) {
        note(nameOf(fault));
        return bareAnswer(fault, profile, desk);
      }
    }
    return null;
  };

  const leave = async (response: ServerResponse, answer: Answer, faults: readonly BankFault[]): Promise<void> => {
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
      const kind = profile.classify(request);
      const faults = plan.next(kind, request);

      const lost = pick(faults, 'lose_request');
      if (lost !== null) {
        note('lose_request');
        return breakOff(response, lost.how ?? 'reset');
      }
      const refusal = atTheDoor(kind, faults);
      if (refusal !== null) return respond(response, refusal);
      const garbled = pick(faults, 'garble');
      if (garbled?.effect === false) {
        note(nameOf(garbled));
        return respondGarbled(response, gatewayPage(garbled.status ?? 200, undefined), garbled);
      }

      const late = pick(faults, 'deliver_later');
      if (late !== null) {
        executeLater(late.ms, 'deliver_later', kind, request, faults);
        if (late.how === 504) return respond(response, gatewayPage(504, undefined));
        return breakOff(response, late.how ?? 'reset');
      }

      const gone = response.destroyed;
      const before = books.all().length;
      let answer = await execute(kind, request, faults);
      if (gone && books.all().length > before) note('executed_for_nobody');
      const twice = pick(faults, 'deliver_twice');
      // The copy meets no fault of its own: what bent the first delivery was the bank, not the bytes.
      if (twice?.ms !== undefined) executeLater(twice.ms, 'deliver_twice', kind, request, []);
      else if (twice !== null) {
        note('deliver_twice');
        const second = await execute(kind, request, []);
        if (twice.answer !== 'first') answer = second;
      }
      await leave(response, answer, faults);
    },
  };
}

function isInside(fault: Extract<BankFault, { kind: 'maintenance' }>, now: Date): boolean {
  const offset = fault.utcOffsetMinutes ?? KST_OFFSET_MINUTES;
  const minute = (Math.floor(now.getTime() / MINUTE_MS) + offset) % DAY_MINUTES;
  const from = minuteOf(fault.from ?? '23:30');
  const to = minuteOf(fault.to ?? '00:30');
  return from <= to ? minute >= from && minute < to : minute >= from || minute < to;
}

function minuteOf(text: string): number {
  const match = /^([01][0-9]|2[0-3]):([0-5][0-9])$/.exec(text);
  if (match === null) throw new RangeError(`"${text}" is no time of day: write 23:30`);
  return Number(match[1]) * 60 + Number(match[2]);
}
