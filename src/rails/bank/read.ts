/**
 * What an object of ours shows: a transfer, or a batch of them. Pure; what comes before (whose answer it is, codes, lists) is
 * `keyed-read.ts`. Default `unreadable`: so is a state that the profile does not know.
 */
import type { Answer, Observation, Returned, SealedEffect } from '../../engine/rail.ts';
import { unitsIn } from '../amount-text.ts';
import { idText, reasonText } from '../foreign-text.ts';
import { excerpt } from '../json.ts';
import { type Reader, readKeyed, says, type Seen, type Told } from '../keyed-read.ts';
import { matchObject } from './echo.ts';
import { BANK_KIND } from './kind.ts';
import { batchKind, linesBack, lineTruths } from './lines.ts';
import type { Profile, ProviderObject, ProviderReturn, StateMeaning } from './profile.ts';
import { type Expect, readExpect } from './seal.ts';

interface Scene {
  readonly profile: Profile;
  readonly expect: Expect;
}

export function readBankAnswer(profile: Profile, answer: Answer, sealed: SealedEffect): Observation {
  const expect = readExpect(sealed);
  const meaningOf = (state: string | null): StateMeaning | undefined =>
    state !== null && Object.hasOwn(profile.states, state) ? profile.states[state] : undefined;
  const reader: Reader<ProviderObject> = {
    kind: BANK_KIND,
    profile,
    ours: expect.key,
    noun: 'transfer',
    hasFailed: ({ state }) => meaningOf(state) === 'failed',
    isDone: ({ state }) => meaningOf(state) === 'paid',
    join: joined,
    judge: (object, seen) => judge({ profile, expect }, object, linesShown(seen)),
    clean: cleaned,
  };
  return readKeyed(reader, answer, sealed);
}

function cleaned(object: ProviderObject): ProviderObject {
  return {
    ...object,
    id: idText(object.id),
    reason: reasonText(object.reason),
    returns: object.returns.map((one) => ({ ...one, reason: reasonText(one.reason) })),
    lines: object.lines?.map((line) => ({ ...line, id: idText(line.id) })) ?? null,
  };
}

/** Of a batch's lines: all, none at all, or not all of them. */
type LinesShown = 'all' | 'none' | 'some';

/** A list shows of each object all that it shows. */
function linesShown(seen: Seen<ProviderObject>): LinesShown {
  if (seen.in === 'list') return 'all';
  const showing = seen.pages.filter((page) => page.lines !== null).length;
  if (!seen.whole) return 'some';
  return showing === 0 ? 'none' : showing === seen.pages.length ? 'all' : 'some';
}

/** The pages of one object as one. */
function joined(pages: readonly ProviderObject[]): ProviderObject | null {
  const [first] = pages;
  if (first === undefined || pages.some((page) => page.id !== first.id)) return null;
  const shown = pages.flatMap((page) => page.lines ?? []);
  return { ...first, lines: shown.length > 0 ? shown : null };
}

function judge(scene: Scene, object: ProviderObject, shown: LinesShown): Told {
  const { profile, expect } = scene;
  const about = { objectId: object.id };
  const match = matchObject(profile, expect, object);
  if (match.match === 'not_ours') return says('unreadable', `${object.id ?? 'a transfer'}: ${match.why}`);
  if (match.match === 'other_content')
    return says('key_taken', `${object.id ?? 'a transfer'}: ${match.why}`, { ...about, otherContent: true });
  const { state } = object;
  const meaning = state !== null && Object.hasOwn(profile.states, state) ? profile.states[state] : undefined;
  if (meaning === undefined) return says('unreadable', `ours, but its state ${state ?? '(none)'} is not known`, about);
  const detail = `${object.id ?? 'ours'} is ${state ?? ''}${object.reason === null ? '' : `: ${excerpt(object.reason)}`}`;
  if (profile.linesMax > 1) return judgeBatch(scene, object, shown, meaning, detail);
  const returned = returnsOf(object, expect);
  switch (meaning) {
    case 'returned':
      return says('came_back', detail, { ...about, returned: returned ?? wholeBack(object, expect) });
    case 'failed':
      return says('object_failed', detail, {
        ...about,
        keyStaysBound: profile.failedKeepsKey !== null,
        ...(profile.paidMayFail === null ? {} : { returned: wholeBack(object, expect) }),
      });
    case 'paid':
    case 'accepted':
    case 'open':
      if (returned !== null) return says('came_back', `${detail}, and something came back`, { ...about, returned });
      return says(meaning === 'paid' ? 'final_success' : 'accepted', detail, about);
  }
}

/** The lines' own truth goes first: what the batch is called says nothing about a line (I2). */
function judgeBatch(
  scene: Scene,
  object: ProviderObject,
  shown: LinesShown,
  meaning: StateMeaning,
  detail: string,
): Told {
  const { profile, expect } = scene;
  const about = { objectId: object.id };
  const bound = { keyStaysBound: profile.failedKeepsKey !== null };
  if (meaning === 'failed' && shown === 'none') {
    const lines = expect.lines.map((line) => ({ ref: line.ref, outcome: 'not_paid', objectId: null, detail }) as const);
    return says('object_failed', detail, { ...about, lines, ...bound });
  }
  // Under our key, but not to be compared line by line: the object is looked up by its id, or by a person.
  if (object.lines === null || shown !== 'all')
    return says('key_taken', `${detail}; its lines are not shown, or not all of them`, about);
  const lines = lineTruths(profile, expect, object.lines);
  if (meaning === 'failed') {
    return lines.every((line) => line.outcome === 'not_paid')
      ? says('object_failed', detail, { ...about, lines, ...bound })
      : says('key_taken', `${detail}, and its lines say otherwise`, { ...about, lines });
  }
  if (meaning !== 'paid') return says('accepted', detail, { ...about, lines });
  const kind = batchKind(lines);
  const returned = linesBack(expect, lines);
  return says(kind, detail, {
    ...about,
    lines,
    ...(kind === 'object_failed' ? bound : {}),
    ...(returned.length > 0 ? { returned } : {}),
  });
}

/** The returns that the object lists, or `null` where it lists none. Sums that cannot be ours are left to a person. */
function returnsOf(object: ProviderObject, expect: Expect): readonly Returned[] | null {
  if (object.returns.length === 0) return null;
  const read = object.returns.map((one) => returnOf(one, expect));
  const whole = read.flatMap((one) => (one === null ? [] : [one]));
  // A sloppy provider lists one return twice; listed with two amounts it is no return that we can read.
  const once = new Map(whole.map((one) => [one.id, one]));
  const agree = whole.every((one) => once.get(one.id)?.amount === one.amount && once.get(one.id)?.fee === one.fee);
  const sum = [...once.values()].reduce((total, one) => total + one.amount, 0n);
  return whole.length === read.length && agree && sum <= expect.amount ? [...once.values()] : [];
}

function returnOf(one: ProviderReturn, expect: Expect): Returned | null {
  const fee = one.fee === undefined || one.fee === null ? 0n : unitsIn(one.fee, expect.decimals);
  const back = one.amount === null ? null : unitsIn(one.amount, expect.decimals);
  if (fee === null || (one.amount !== null && back === null)) return null;
  const amount = back === null ? expect.amount : back + fee;
  return amount <= 0n || fee > amount || idText(one.id) === null
    ? null
    : { id: one.id, amount, ...(fee > 0n ? { fee } : {}), reason: one.reason };
}

function wholeBack(object: ProviderObject, expect: Expect): readonly Returned[] {
  return [{ id: `${object.id ?? expect.key}:${object.state ?? ''}`, amount: expect.amount, reason: object.reason }];
}
