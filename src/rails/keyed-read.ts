/**
 * From a raw answer of a provider that is asked under keys to an observation, as far as it is the same for all of them. Pure:
 * the stored answer, the seal and the profile are all it sees. Default `unreadable`.
 *
 * Order: how far the request got; is the body whole; whose answer is it (echo, refusals too: T4); only then what it says. A
 * status alone is never enough (rails.md §0.1): a code without a row in the profile is unreadable, whatever its status. A
 * refusal is read from an answer to a send only, and never from a 5xx. What an object of ours shows is the rail's to say.
 */
import type { Answer, Json, Observation, ObservationKind, SealedEffect } from '../engine/rail.ts';
import { type AnswerBody, type Page, readAnswerBody, type Shown } from './answer-body.ts';
import { idText, toldText } from './foreign-text.ts';
import { excerpt, isObject, parseLossless } from './json.ts';
import {
  type CodeRow,
  type Item,
  type KeyedProfile,
  keyHeaderOf,
  type LookFacts,
  type ProviderError,
} from './keyed-profile.ts';
import { readSealedRequest } from './keyed-request.ts';
import type { KeyedKind } from './keyed-wire.ts';
import { listedTwice, namesOf, ownObjects, type UnderKey, underKey } from './under-key.ts';

/** Answers of a door-keeper or a gateway, whatever the body says: they come before the key is looked at. */
const DOOR = new Set([401, 403, 407, 408, 413, 415, 429, 502, 503, 504]);

export type Told = Omit<Observation, 'source' | 'operator' | 'witness' | 'cost'>;

/** Where an object stands: among others of a list, or alone, perhaps on several pages, perhaps not whole. */
export type Seen<One> =
  | { readonly in: 'list' }
  | { readonly in: 'one'; readonly pages: readonly One[]; readonly whole: boolean };

/** What a rail says of its own to the reader. */
export interface Reader<One extends Item> {
  readonly kind: Pick<KeyedKind<One, LookFacts>, 'requestForm' | 'answerForm' | 'toShown'>;
  readonly profile: Pick<
    KeyedProfile<One, never>,
    'key' | 'codes' | 'echoesKeyInErrors' | 'replayMark' | 'lookUps' | 'objects' | 'error'
  >;
  /** What the objects of the effect carry: the key, or our reference. */
  readonly ours: string;
  /** One of them, for people: `transfer`. */
  readonly noun: string;
  readonly hasFailed: (shown: Shown) => boolean;
  /** Of several that live, the one that a double is told by. */
  isDone(shown: Shown): boolean;
  /** The pages of one object as one, or `null` where they are not of one. */
  join(pages: readonly One[]): One | null;
  /** What one object shows that is perhaps ours. */
  judge(object: One, seen: Seen<One>): Told;
  /** Its ids as far as they can be stored and asked by, its words as they may be told. */
  clean(object: One): One;
}

interface Scene<One extends Item> extends Reader<One> {
  readonly answer: Answer;
  readonly body: AnswerBody;
  readonly key: string;
}

export function says(kind: ObservationKind, detail: string, rest: Partial<Told> = {}): Told {
  return { kind, detail: toldText(detail), objectId: null, ...rest };
}

export function readKeyed<One extends Item>(reader: Reader<One>, answer: Answer, sealed: SealedEffect): Observation {
  const told = readAny(reader, answer, sealed);
  return { source: answer.source, operator: answer.operator, witness: false, cost: null, ...told };
}

function readAny<One extends Item>(reader: Reader<One>, answer: Answer, sealed: SealedEffect): Told {
  if (answer.reach === 'withheld') return says('blocked', `not sent: ${excerpt(answer.body)}`);
  if (answer.reach === 'never_connected') {
    return answer.operation === 'send'
      ? says('never_left', `no byte left: ${excerpt(answer.body)}`)
      : says('unreadable', `the look never left: ${excerpt(answer.body)}`);
  }
  if (answer.reach !== 'answer') return says('unreadable', `${answer.reach}: ${excerpt(answer.body)}`);
  const body = readAnswerBody(reader.kind.answerForm, answer.body);
  if (body === null) return says('unreadable', 'the stored answer is not one of this rail');
  if (body.pages.some((page) => page.cut)) return says('unreadable', 'the answer is longer than what is kept of it');
  const request = readSealedRequest(reader.kind.requestForm, sealed);
  const scene: Scene<One> = { ...reader, answer, body, key: request.key };
  if (answer.operation === 'send') return readSend(scene);
  const told = readLook(scene);
  if (told.kind === 'not_found' && body.credential !== request.credentialId) {
    return says('unreadable', 'not found under another credential than the sealed one: that is no absence');
  }
  return told;
}

// --- what is common to sends and looks

type Opened<One> =
  | { readonly opened: 'objects'; readonly objects: readonly One[] }
  | { readonly opened: 'error'; readonly error: ProviderError }
  | { readonly opened: 'told'; readonly told: Told };

function open<One extends Item>(scene: Scene<One>, page: Page): Opened<One> {
  const { profile, noun } = scene;
  const where = `HTTP ${page.status}`;
  const told = (kind: ObservationKind, detail: string): Opened<One> => ({ opened: 'told', told: says(kind, detail) });
  const foreign = foreignKey(scene, page);
  if (foreign !== null) return told('unreadable', `${where}: ${foreign}`);
  if (DOOR.has(page.status)) return told('blocked', `${where}: ${excerpt(page.body)}`);
  const json = parseLossless(page.body);
  if (json === undefined || (!isObject(json) && !Array.isArray(json)))
    return told('unreadable', `${where}, no JSON object: ${excerpt(page.body)}`);
  if (page.status >= 200 && page.status <= 299) {
    const objects = profile.objects(json);
    if (objects === null) return told('unreadable', `${where}, not a ${noun}: ${excerpt(page.body)}`);
    return { opened: 'objects', objects: objects.map((one) => scene.clean(one)) };
  }
  if (page.status < 400) return told('unreadable', `${where}: redirects are not followed`);
  return openError(scene, page, json);
}

function openError<One extends Item>({ profile, key, ours, answer }: Scene<One>, page: Page, json: Json): Opened<One> {
  const unreadable = (detail: string): Opened<One> => ({
    opened: 'told',
    told: says('unreadable', `HTTP ${page.status}${detail}`),
  });
  const error = profile.error(json);
  if (error === null) return unreadable(`, not an error we know: ${excerpt(page.body)}`);
  if (error.key !== null && error.key !== key && error.key !== ours)
    return unreadable(` ${error.code}: about another key, ${error.key}`);
  if (answer.operation === 'send' && profile.echoesKeyInErrors && error.key === null)
    return unreadable(` ${error.code}: it echoes no key`);
  return { opened: 'error', error };
}

/** A response header that echoes a key is compared wherever it stands. */
function foreignKey<One extends Item>({ profile, key, answer }: Scene<One>, page: Page): string | null {
  const header = keyHeaderOf(profile);
  if (answer.operation !== 'send' || header === null) return null;
  const shown = page.headers[header];
  if (shown === undefined) return null;
  const plain = shown.trim().replace(/^"(.*)"$/, '$1');
  return plain === key ? null : `the answer is about another key, ${excerpt(plain)}`;
}

// --- sends

function readSend<One extends Item>(scene: Scene<One>): Told {
  const page = scene.body.pages[0];
  if (page === undefined) return says('unreadable', 'no answer is kept');
  const opened = open(scene, page);
  if (opened.opened === 'told') return opened.told;
  if (opened.opened === 'error') return readRefusal(scene, page, opened.error);
  const own = ownObjects(scene.ours, opened.objects);
  const [object, second] = own.length > 0 ? own : opened.objects;
  if (object === undefined) return says('unreadable', `a success without a ${scene.noun} in it`);
  if (second !== undefined) return says('unreadable', `a success with more than one ${scene.noun} in it`);
  return scene.judge(object, { in: 'one', pages: [object], whole: true });
}

/** The row for a status and a code; a code of its own goes before `*`. */
export function rowOf(
  { codes }: { readonly codes: readonly CodeRow[] },
  status: number,
  code: string,
): CodeRow | undefined {
  const rows = codes.filter((row) => row.statuses.includes(status));
  return rows.find((row) => row.code === code) ?? rows.find((row) => row.code === '*');
}

function readRefusal<One extends Item>({ profile }: Scene<One>, page: Page, error: ProviderError): Told {
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

function readLook<One extends Item>(scene: Scene<One>): Told {
  const { profile, body } = scene;
  const lookUp = profile.lookUps.find((one) => one.name === body.look);
  if (lookUp === undefined) return says('unreadable', `no look-up ${body.look ?? ''} in the profile`);
  const { name } = lookUp;
  const objects: One[] = [];
  for (const page of body.pages) {
    if (isAbsent(scene, lookUp.absent, page)) return says('not_found', `${name}: HTTP ${page.status}`);
    const opened = open(scene, page);
    if (opened.opened === 'told') return opened.told;
    if (opened.opened === 'error') return readLookError(scene, page, opened.error);
    objects.push(...opened.objects);
  }
  if (name === 'by_object') return readObject(scene, objects);
  const own = ownObjects(scene.ours, objects);
  if (own.length > 0) return readListed(scene, name, own);
  if (name === 'by_key' && objects.length > 0)
    return says('unreadable', `asked by our key, got another’s ${scene.noun}`);
  return body.whole
    ? says('not_found', `${name}: none among ${objects.length}`)
    : says('unreadable', `${name}: none among ${objects.length}, and there is more to read`);
}

function readObject<One extends Item>(scene: Scene<One>, pages: readonly One[]): Told {
  const { body } = scene;
  const object = scene.join(pages);
  if (object === null || object.id !== body.objectId)
    return says('unreadable', `asked for ${body.objectId ?? ''}, got something else`);
  const found = underKey(scene.hasFailed, [object], body.beside, scene.kind.toShown);
  const seen: Seen<One> = { in: 'one', pages, whole: body.whole };
  // Its own life is its own: that another lives too is told where the look shows the other one.
  if (found.living.length > 0) return scene.judge(object, seen);
  if (found.livingBeside.length > 0) return anotherLives('by_object', found);
  return judgeFailed(scene, object, found, seen);
}

/** A list that shows objects of ours, each id once. */
function readListed<One extends Item>(scene: Scene<One>, name: string, own: readonly One[]): Told {
  const twice = listedTwice(own);
  if (twice !== null) return says('unreadable', `${name}: ${twice} is listed twice, and not the same both times`);
  const found = underKey(scene.hasFailed, own, scene.body.beside, scene.kind.toShown);
  const [failed] = own;
  const [living] = found.living;
  if (living === undefined && found.livingBeside.length > 0) return anotherLives(name, found);
  if (living === undefined)
    return failed === undefined
      ? says('unreadable', 'nothing of ours')
      : judgeFailed(scene, failed, found, { in: 'list' });
  if (found.living.length + found.livingBeside.length > 1) return doubled(scene, name, found);
  const told = scene.judge(living, { in: 'list' });
  return found.failed.length === 0
    ? told
    : { ...told, detail: toldText(`${told.detail}; beside it failed ${namesOf(found.failed)}`) };
}

/** What failed here ends nothing: the answer that shows the living one tells of it. */
function anotherLives<One>(name: string, { failed, livingBeside }: UnderKey<One>): Told {
  return says('unreadable', `${name}: ${namesOf(failed)}, but under our key lives ${namesOf(livingBeside)}`);
}

function doubled<One extends Item>(scene: Scene<One>, name: string, found: UnderKey<One>): Told {
  const alive: readonly Shown[] = [...found.living.map(scene.kind.toShown), ...found.livingBeside];
  const named = alive.find((one) => scene.isDone(one)) ?? alive[0];
  const all = namesOf([...alive, ...found.failed]);
  return says('key_taken', `${name}: more than one ${scene.noun} carries our key: ${all}`, {
    objectId: named?.id ?? null,
    doubled: true,
  });
}

/** A key that several failed objects had did not stay with the first: another may come, and which had been paid is a person's. */
function judgeFailed<One extends Item>(scene: Scene<One>, object: One, found: UnderKey<One>, seen: Seen<One>): Told {
  const told = scene.judge(object, seen);
  if (found.failed.length < 2 || told.kind !== 'object_failed') return told;
  return {
    ...told,
    detail: toldText(`${told.detail}; failed under our key: ${namesOf(found.failed)}`),
    keyStaysBound: false,
    ...(told.returned === undefined ? {} : { returned: [] }),
  };
}

function isAbsent<One extends Item>(
  { profile }: Scene<One>,
  absent: readonly { readonly status: number; readonly code: string }[],
  page: Page,
): boolean {
  const json = parseLossless(page.body);
  const error = json === undefined ? null : profile.error(json);
  if (error === null || error.inWords === true) return false;
  return absent.some((row) => row.status === page.status && row.code === error.code);
}

/** What a refusal says of a look is about the look: no evidence. */
function readLookError<One extends Item>({ profile }: Scene<One>, page: Page, error: ProviderError): Told {
  const what = `HTTP ${page.status} ${excerpt(error.code)}: ${excerpt(error.message)}`;
  const reads = rowOf(profile, page.status, error.code)?.means.reads;
  return says(reads === 'blocked' || reads === 'refused' ? 'blocked' : 'unreadable', what);
}
