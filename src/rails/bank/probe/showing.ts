/** What the provider shows: look-ups and their lag, echoes, states, codes, and what it says of a key that was never sent. */
import { matchObject } from '../echo.ts';
import type { LookUp } from '../../keyed-profile.ts';
import { rowOf } from '../../keyed-read.ts';
import type { Profile, TransferLook } from '../profile.ts';
import { readExpect } from '../seal.ts';
import { compare, type Finding, finding, lasting } from './report.ts';
import { type Heard, type Session, type Trial } from './session.ts';

export async function lookUps(session: Session, trial: Trial): Promise<Finding[]> {
  const shown = await session.lookUntilShown(trial);
  return session.input.profile.lookUps.map((lookUp) => {
    const name = `look-up ${lookUp.name}`;
    const declared = `finds it${lookUp.lagMs === null ? '; how late is not stated' : ` within ${lasting(lookUp.lagMs)}`}`;
    const afterMs = shown.get(lookUp.name);
    if (afterMs === undefined) return finding(name, declared, 'it could not be asked yet', 'not_tried');
    if (afterMs === null) return finding(name, declared, 'it never found it', 'promises_more');
    const late = lookUp.lagMs !== null && afterMs > lookUp.lagMs;
    const observed = afterMs === 0 ? 'found at once' : `found within ${lasting(afterMs)}`;
    return finding(name, declared, observed, late ? 'promises_more' : 'agrees');
  });
}

/** Due in every success. A batch's lines are due once a look-up asks for them. */
export function echoes(session: Session, trial: Trial): Finding[] {
  const { profile } = session.input;
  const expect = readExpect(trial.sealed);
  const objects = trial.heard.flatMap((heard) => heard.objects);
  const missing = profile.echoes.filter((echo) =>
    echo === 'lines'
      ? objects.every((one) => one.lines === null)
      : objects.some((one) => one[echo] === null || !isOurs({ ...profile, echoes: [echo] }, expect, one)),
  );
  const optional = (
    ['key', 'reference', 'amount', 'currency', 'bankCode', 'accountNumber', 'holderName'] as const
  ).filter((echo) => !profile.echoes.includes(echo) && objects.every((one) => one[echo] !== null));
  const declared = profile.echoes.join(', ');
  if (objects.length === 0) return [finding('echoes', declared, 'nothing was shown', 'not_tried')];
  if (missing.length > 0)
    return [finding('echoes', declared, `not shown, or another: ${missing.join(', ')}`, 'promises_more')];
  const observed = optional.length === 0 ? 'all are shown' : `all are shown, and ${optional.join(', ')}`;
  return [finding('echoes', declared, observed, optional.length === 0 ? 'agrees' : 'promises_less')];
}

function isOurs(
  profile: Profile,
  expect: Parameters<typeof matchObject>[1],
  object: Parameters<typeof matchObject>[2],
) {
  return matchObject(profile, expect, object).match === 'ours';
}

export async function unknownKey(session: Session, used: Trial): Promise<Finding[]> {
  const { profile } = session.input;
  const trial = session.trial('never-sent');
  // An id of the provider's own look, with an end that it never gave.
  const id = `${[...used.ids][0]?.slice(0, -6) ?? 'unknown'}zzzzzz`;
  const heard = await session.look(trial, 'a key that was never sent', id);
  return profile.lookUps.flatMap((lookUp) => {
    const answer = heard.find((one) => one.what.endsWith(lookUp.name));
    return answer === undefined ? [] : [absence(lookUp, answer)];
  });
}

function absence(lookUp: LookUp<TransferLook>, { observation, status, error }: Heard): Finding {
  const name = `nothing there ${lookUp.name}`;
  const codes = lookUp.absent.map((row) => `${row.status} ${row.code}`);
  const declared = codes.length > 0 ? `told by ${codes.join(' or ')}, or an empty list` : 'told by an empty list only';
  const observed = `${status ?? 'no answer'}${error === null ? '' : ` ${error.code}`}, read as ${observation.kind}`;
  switch (observation.kind) {
    case 'not_found':
      return finding(name, declared, observed, 'agrees');
    case 'unreadable':
      return finding(name, declared, observed, 'promises_less');
    case 'blocked':
      return finding(name, declared, observed, 'not_tried');
    default:
      return finding(name, declared, observed, 'promises_more');
  }
}

/** At the end of a run: every state that came by, in its order. */
export function states({ trials, input: { profile } }: Session): Finding[] {
  const seen = new Set<string>();
  const wrong: string[] = [];
  for (const trial of trials) {
    if (trial.failed) continue;
    const paid = new Map<string, string>();
    for (const object of trial.heard.flatMap((heard) => heard.objects)) {
      const { state, id } = object;
      for (const line of object.lines ?? []) if (line.state !== null) seen.add(`line ${line.state}`);
      if (state === null) continue;
      seen.add(state);
      const meaning = meaningOf(profile, state);
      const before = paid.get(id ?? '');
      if (meaning === 'failed') wrong.push(`${state} is called failed, and nothing failed`);
      if (meaning === 'paid') paid.set(id ?? '', state);
      else if (before !== undefined && meaning !== 'returned')
        wrong.push(`${before} is called paid, and ${state} came after`);
    }
  }
  const unknown = [...seen].filter((state) => !isKnown(profile, state));
  const declared = Object.entries(profile.states)
    .map(([state, meaning]) => `${state} (${meaning})`)
    .join(', ');
  const observed = [
    ...new Set(wrong),
    ...(unknown.length > 0 ? [`not known: ${unknown.join(', ')}`] : []),
    ...seen,
  ].join('; ');
  const verdict = wrong.length > 0 ? 'promises_more' : unknown.length > 0 ? 'promises_less' : 'agrees';
  return [finding('states', declared, observed, seen.size === 0 ? 'not_tried' : verdict)];
}

function isKnown(profile: Profile, state: string): boolean {
  const line = /^line (.*)$/.exec(state)?.[1];
  return line === undefined ? Object.hasOwn(profile.states, state) : Object.hasOwn(profile.lineStates, line);
}

function meaningOf(profile: Profile, state: string): string | undefined {
  return Object.hasOwn(profile.states, state) ? profile.states[state] : undefined;
}

/** At the end of a run: every code that came by, and whether refusals say whose they are. */
export function codes({ trials, input: { profile } }: Session): Finding[] {
  const refusals = trials.flatMap((trial) =>
    trial.heard.filter((heard) => heard.answer.operation === 'send' && heard.error !== null),
  );
  const name = (heard: Heard): string => `${heard.status ?? ''} ${heard.error?.code ?? ''}`;
  const unknown = refusals.filter((heard) => rowOf(profile, heard.status ?? 0, heard.error?.code ?? '') === undefined);
  const all = [...new Set(refusals.map(name))];
  const strange = [...new Set(unknown.map(name))];
  const rows = [
    finding(
      'codes',
      'every code that comes is known',
      strange.length > 0
        ? `not known, so nothing is read in them: ${strange.join(', ')}`
        : all.join(', ') || 'none came',
      strange.length > 0 ? 'promises_less' : all.length === 0 ? 'not_tried' : 'agrees',
    ),
  ];
  const inAll = refusals.length > 0 && refusals.every((heard) => heard.error?.key !== null);
  const inNone = `${refusals.filter((heard) => heard.error?.key !== null).length} of ${refusals.length} refusals name it`;
  const declared = profile.echoesKeyInErrors ? 'every refusal names its key' : 'refusals need not name their key';
  const verdict = refusals.length === 0 ? 'not_tried' : compare(profile.echoesKeyInErrors, inAll);
  return [...rows, finding('key in refusals', declared, inNone, verdict)];
}

/** At the end of a run: a no that would have ended an effect whose transfer stands. */
export function falseNos({ falseNos: found }: Session): Finding[] {
  return [
    finding(
      'no against a standing transfer',
      'no refusal that counts comes while one stands',
      found.length === 0 ? 'none came' : found.join('; '),
      found.length === 0 ? 'agrees' : 'promises_more',
    ),
  ];
}
