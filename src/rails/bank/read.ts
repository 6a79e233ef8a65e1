/**
 * From a raw answer to an observation. Pure: the stored answer, the seal and the profile are all it sees. Default
 * `unreadable`.
 *
 * Order: how far the request got; is the body whole; whose answer is it (echo, refusals too: T4); only then what it says. A
 * status alone is never enough (rails.md §0.1): a code without a row in the profile is unreadable, whatever its status, and
 * so is a state. A refusal is read from an answer to a send only, and never from a 5xx.
 */
import type { Answer, Json, Observation, ObservationKind, Returned, SealedEffect } from '../../engine/rail.ts';
import { excerpt, isObject, parseLossless } from '../json.ts';
import { type AnswerBody, type Page, readAnswerBody, type Shown } from './answer-body.ts';
import { matchObject, unitsIn } from './echo.ts';
import { idText, reasonText, toldText } from './foreign-text.ts';
import { batchKind, linesBack, lineTruths } from './lines.ts';
import {
  type CodeRow,
  keyHeaderOf,
  type LookUp,
  type Profile,
  type ProviderError,
  type ProviderObject,
  type ProviderReturn,
  type StateMeaning,
} from './profile.ts';
import { type Expect, readExpect, readRequest } from './seal.ts';
import { listedTwice, namesOf, ownObjects, type UnderKey, underKey } from './under-key.ts';

/** Answers of a door-keeper or a gateway, whatever the body says: they come before the key is looked at. */
const DOOR = new Set([401, 403, 407, 408, 413, 415, 429, 502, 503, 504]);

interface Scene {
  readonly profile: Profile;
  readonly answer: Answer;
  readonly expect: Expect;
  readonly body: AnswerBody;
}

type Told = Omit<Observation, 'source' | 'operator' | 'witness' | 'cost'>;

export function readBankAnswer(profile: Profile, answer: Answer, sealed: SealedEffect): Observation {
  const told = readAny(profile, answer, sealed);
  return { source: answer.source, operator: answer.operator, witness: false, cost: null, ...told };
}

function readAny(profile: Profile, answer: Answer, sealed: SealedEffect): Told {
  if (answer.reach === 'withheld') return says('blocked', `not sent: ${excerpt(answer.body)}`);
  if (answer.reach === 'never_connected') {
    return answer.operation === 'send'
      ? says('never_left', `no byte left: ${excerpt(answer.body)}`)
      : says('unreadable', `the look never left: ${excerpt(answer.body)}`);
  }
  if (answer.reach !== 'answer') return says('unreadable', `${answer.reach}: ${excerpt(answer.body)}`);
  const body = readAnswerBody(answer.body);
  if (body === null) return says('unreadable', 'the stored answer is not one of this rail');
  if (body.pages.some((page) => page.cut)) return says('unreadable', 'the answer is longer than what is kept of it');
  const scene: Scene = { profile, answer, expect: readExpect(sealed), body };
  if (answer.operation === 'send') return readSend(scene);
  const told = readLook(scene);
  if (told.kind === 'not_found' && body.credential !== readRequest(sealed).credentialId) {
    return says('unreadable', 'not found under another credential than the sealed one: that is no absence');
  }
  return told;
}

function says(kind: ObservationKind, detail: string, rest: Partial<Told> = {}): Told {
  return { kind, detail: toldText(detail), objectId: null, ...rest };
}

// --- what is common to sends and looks

type Opened =
  | { readonly opened: 'objects'; readonly objects: readonly ProviderObject[] }
  | { readonly opened: 'error'; readonly error: ProviderError }
  | { readonly opened: 'told'; readonly told: Told };

function open(scene: Scene, page: Page): Opened {
  const { profile } = scene;
  const where = `HTTP ${page.status}`;
  const told = (kind: ObservationKind, detail: string): Opened => ({ opened: 'told', told: says(kind, detail) });
  const foreign = foreignKey(scene, page);
  if (foreign !== null) return told('unreadable', `${where}: ${foreign}`);
  if (DOOR.has(page.status)) return told('blocked', `${where}: ${excerpt(page.body)}`);
  const json = parseLossless(page.body);
  if (json === undefined || (!isObject(json) && !Array.isArray(json)))
    return told('unreadable', `${where}, no JSON object: ${excerpt(page.body)}`);
  if (page.status >= 200 && page.status <= 299) {
    const objects = profile.objects(json);
    if (objects === null) return told('unreadable', `${where}, not a transfer: ${excerpt(page.body)}`);
    return { opened: 'objects', objects: objects.map(cleaned) };
  }
  if (page.status < 400) return told('unreadable', `${where}: redirects are not followed`);
  return openError(scene, page, json);
}

/** Its ids as far as they can be stored and asked by, its words as they may be told. */
function cleaned(object: ProviderObject): ProviderObject {
  return {
    ...object,
    id: idText(object.id),
    reason: reasonText(object.reason),
    returns: object.returns.map((one) => ({ ...one, reason: reasonText(one.reason) })),
    lines: object.lines?.map((line) => ({ ...line, id: idText(line.id) })) ?? null,
  };
}

function openError({ profile, expect, answer }: Scene, page: Page, json: Json): Opened {
  const error = profile.error(json);
  if (error === null) {
    return {
      opened: 'told',
      told: says('unreadable', `HTTP ${page.status}, not an error we know: ${excerpt(page.body)}`),
    };
  }
  if (error.key !== null && error.key !== expect.key) {
    return {
      opened: 'told',
      told: says('unreadable', `HTTP ${page.status} ${error.code}: about another key, ${error.key}`),
    };
  }
  if (answer.operation === 'send' && profile.echoesKeyInErrors && error.key === null) {
    return { opened: 'told', told: says('unreadable', `HTTP ${page.status} ${error.code}: it echoes no key`) };
  }
  return { opened: 'error', error };
}

/** A response header that echoes a key is compared wherever it stands. */
function foreignKey({ profile, expect, answer }: Scene, page: Page): string | null {
  const header = keyHeaderOf(profile);
  if (answer.operation !== 'send' || header === null) return null;
  const shown = page.headers[header];
  if (shown === undefined) return null;
  const key = shown.trim().replace(/^"(.*)"$/, '$1');
  return key === expect.key ? null : `the answer is about another key, ${excerpt(key)}`;
}

// --- sends

function readSend(scene: Scene): Told {
  const page = scene.body.pages[0];
  if (page === undefined) return says('unreadable', 'no answer is kept');
  const opened = open(scene, page);
  if (opened.opened === 'told') return opened.told;
  if (opened.opened === 'error') return readRefusal(scene, page, opened.error);
  const own = ownObjects(scene.expect.key, opened.objects);
  const [object, second] = own.length > 0 ? own : opened.objects;
  if (object === undefined) return says('unreadable', 'a success without a transfer in it');
  if (second !== undefined) return says('unreadable', 'a success with more than one transfer in it');
  return judge(scene, object, object.lines === null ? 'none' : 'all');
}

/** The row for a status and a code; a code of its own goes before `*`. */
export function rowOf(profile: Profile, status: number, code: string): CodeRow | undefined {
  const rows = profile.codes.filter((row) => row.statuses.includes(status));
  return rows.find((row) => row.code === code) ?? rows.find((row) => row.code === '*');
}

function readRefusal({ profile }: Scene, page: Page, error: ProviderError): Told {
  const what = `HTTP ${page.status} ${excerpt(error.code)}: ${excerpt(error.message)}`;
  // What a refusal points at may be another's: only a look that shows our key under it makes it ours.
  const hint = hintOf(error);
  const row = rowOf(profile, page.status, error.code);
  if (row === undefined) return says('unreadable', `${what} (no such code in the profile)`, hint);
  const { means } = row;
  if (means.reads !== 'refused') return says(means.reads, `${what}: ${means.why}`, hint);
  if (error.inWords === true) return says('unreadable', `${what} (words, and no code)`);
  // A failing server's refusal is no refusal: it may have executed, and may be rolled forward (rails.md §1.3).
  if (page.status >= 500) return says('unreadable', what);
  const mark = profile.replayMark;
  return says('refused', `${what}: ${means.why}`, {
    refusal: {
      stage: means.afterKeyCheck === undefined ? 'unknown' : 'after_key_check',
      storedUnderKey: means.storedUnderKey !== undefined,
      replayed: mark !== null && page.headers[mark.header]?.trim().toLowerCase() === mark.value,
      final: means.final,
      atOnce: means.atOnce !== undefined,
    },
  });
}

function hintOf(error: ProviderError): Pick<Told, 'objectHint'> {
  const id = idText(error.objectId);
  return id === null ? {} : { objectHint: id };
}

// --- looks

function readLook(scene: Scene): Told {
  const { profile, body } = scene;
  const lookUp = profile.lookUps.find((one) => one.name === body.look);
  if (lookUp === undefined) return says('unreadable', `no look-up ${body.look ?? ''} in the profile`);
  const objects: ProviderObject[] = [];
  for (const page of body.pages) {
    if (isAbsent(profile, lookUp, page)) return says('not_found', `${lookUp.name}: HTTP ${page.status}`);
    const opened = open(scene, page);
    if (opened.opened === 'told') return opened.told;
    if (opened.opened === 'error') return readLookError(scene, page, opened.error);
    objects.push(...opened.objects);
  }
  if (lookUp.name === 'by_object') return readObject(scene, objects);
  const own = ownObjects(scene.expect.key, objects);
  if (own.length > 0) return readListed(scene, lookUp, own);
  if (lookUp.name === 'by_key' && objects.length > 0)
    return says('unreadable', 'asked by our key, got another’s transfer');
  return body.whole
    ? says('not_found', `${lookUp.name}: none among ${objects.length}`)
    : says('unreadable', `${lookUp.name}: none among ${objects.length}, and there is more to read`);
}

function readObject(scene: Scene, pages: readonly ProviderObject[]): Told {
  const { body, profile } = scene;
  const object = joined(pages);
  if (object === null || object.id !== body.objectId)
    return says('unreadable', `asked for ${body.objectId ?? ''}, got something else`);
  const found = underKey(profile, [object], body.beside);
  // Its own life is its own: that another lives too is told where the look shows the other one.
  if (found.living.length > 0) return judge(scene, object, linesShown(pages, body.whole));
  if (found.livingBeside.length > 0) return anotherLives('by_object', found);
  return judgeFailed(scene, object, found, linesShown(pages, body.whole));
}

/** A list that shows objects of ours, each id once. */
function readListed(scene: Scene, lookUp: LookUp, own: readonly ProviderObject[]): Told {
  const twice = listedTwice(own);
  if (twice !== null)
    return says('unreadable', `${lookUp.name}: ${twice} is listed twice, and not the same both times`);
  const found = underKey(scene.profile, own, scene.body.beside);
  const [failed] = own;
  const [living] = found.living;
  if (living === undefined && found.livingBeside.length > 0) return anotherLives(lookUp.name, found);
  if (living === undefined)
    return failed === undefined ? says('unreadable', 'nothing of ours') : judgeFailed(scene, failed, found, 'all');
  if (found.living.length + found.livingBeside.length > 1) return doubled(scene, lookUp.name, found);
  const told = judge(scene, living, 'all');
  return found.failed.length === 0
    ? told
    : { ...told, detail: toldText(`${told.detail}; beside it failed ${namesOf(found.failed)}`) };
}

/** What failed here ends nothing: the answer that shows the living one tells of it. */
function anotherLives(lookUp: LookUp['name'], { failed, livingBeside }: UnderKey): Told {
  return says('unreadable', `${lookUp}: ${namesOf(failed)}, but under our key lives ${namesOf(livingBeside)}`);
}

function doubled({ profile }: Scene, lookUp: LookUp['name'], found: UnderKey): Told {
  const alive: readonly Shown[] = [...found.living, ...found.livingBeside];
  const named = alive.find(({ state }) => state !== null && profile.states[state] === 'paid') ?? alive[0];
  const all = namesOf([...alive, ...found.failed]);
  return says('key_taken', `${lookUp}: more than one transfer carries our key: ${all}`, {
    objectId: named?.id ?? null,
    doubled: true,
  });
}

/** A key that several failed objects had did not stay with the first: another may come, and which had been paid is a person's. */
function judgeFailed(scene: Scene, object: ProviderObject, found: UnderKey, lines: LinesShown): Told {
  const told = judge(scene, object, lines);
  if (found.failed.length < 2 || told.kind !== 'object_failed') return told;
  return {
    ...told,
    detail: toldText(`${told.detail}; failed under our key: ${namesOf(found.failed)}`),
    keyStaysBound: false,
    ...(told.returned === undefined ? {} : { returned: [] }),
  };
}

/** Of a batch's lines: all, none at all, or not all of them. */
type LinesShown = 'all' | 'none' | 'some';

function linesShown(pages: readonly ProviderObject[], whole: boolean): LinesShown {
  const showing = pages.filter((page) => page.lines !== null).length;
  if (!whole) return 'some';
  return showing === 0 ? 'none' : showing === pages.length ? 'all' : 'some';
}

/** The pages of one object as one. */
function joined(pages: readonly ProviderObject[]): ProviderObject | null {
  const [first] = pages;
  if (first === undefined || pages.some((page) => page.id !== first.id)) return null;
  const shown = pages.flatMap((page) => page.lines ?? []);
  return { ...first, lines: shown.length > 0 ? shown : null };
}

function isAbsent(profile: Profile, lookUp: LookUp, page: Page): boolean {
  const json = parseLossless(page.body);
  const error = json === undefined ? null : profile.error(json);
  if (error === null || error.inWords === true) return false;
  return lookUp.absent.some((row) => row.status === page.status && row.code === error.code);
}

/** What a refusal says of a look is about the look: no evidence. */
function readLookError({ profile }: Scene, page: Page, error: ProviderError): Told {
  const what = `HTTP ${page.status} ${excerpt(error.code)}: ${excerpt(error.message)}`;
  const reads = rowOf(profile, page.status, error.code)?.means.reads;
  return says(reads === 'blocked' || reads === 'refused' ? 'blocked' : 'unreadable', what);
}

// --- objects

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
