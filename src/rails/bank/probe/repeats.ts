/** One key, asked again: the same body, another one, the same in another order, two at once, elsewhere. */
import { compare, type Finding, finding, type Verdict } from './report.ts';
import { codeOf, denies, type Heard, type Session, stands, told, type Trial } from './session.ts';

/** Nothing was decided about a transfer. */
const NOT_LET_IN = new Set([401, 403, 404, 405, 429]);
const NOTHING_COUNTS = 'only answers say how many there are: no look-up lists them and no balance is told';

export async function sameBody(session: Session, trial: Trial, before: bigint | null): Promise<Finding[]> {
  const { profile, amount } = session.input;
  const first = trial.heard[0];
  const second = await session.send(trial, 'the same request again');
  const shown = await session.payments(trial, 'after the same request again');
  const after = await session.balance();
  const paid = before === null || after === null ? null : Number((before - after) / amount);
  const payments = Math.max(shown, paid ?? 0);
  const observed = `${count(payments)}; the second answer: ${told(second)}`;
  const rows: Finding[] = [];
  if (profile.key === null) {
    const verdict = payments > 1 ? 'agrees' : 'promises_less';
    rows.push(finding('same key, same body', 'no key: each request is a transfer', observed, verdict));
  } else {
    const declared = 'one transfer, however often it is asked for';
    const verdict: Verdict =
      payments > 1 || denies(second.observation)
        ? 'promises_more'
        : trial.listed || paid !== null
          ? 'agrees'
          : 'not_tried';
    const why = verdict === 'not_tried' ? `${observed}; ${NOTHING_COUNTS}` : observed;
    rows.push(finding('same key, same body', declared, why, verdict));
  }
  return first === undefined ? rows : [...rows, replayMark(session, first, second, payments)];
}

/** A mark on an answer that is no replay would make a refusal count that was made now. */
function replayMark(session: Session, first: Heard, second: Heard, payments: number): Finding {
  const mark = session.input.profile.replayMark;
  const name = 'replay mark';
  if (mark === null) {
    const other = second.headers['idempotent-replayed'];
    return other !== undefined && first.headers['idempotent-replayed'] === undefined
      ? finding(name, 'none', `idempotent-replayed: ${other} on the second answer`, 'promises_less')
      : finding(name, 'none', 'none', 'agrees');
  }
  const bears = (heard: Heard): boolean => heard.headers[mark.header]?.trim().toLowerCase() === mark.value;
  const declared = `${mark.header}: ${mark.value} on replays only`;
  if (bears(first)) return finding(name, declared, 'on the very first answer too', 'promises_more', mark.cite);
  if (!bears(second)) {
    return finding(name, declared, 'on no answer; without it nothing is concluded', 'not_tried', mark.cite);
  }
  const verdict = payments > 1 ? 'promises_more' : 'agrees';
  return finding(name, declared, 'on the second answer, not on the first', verdict, mark.cite);
}

export async function otherBody(session: Session, trial: Trial): Promise<Finding[]> {
  const { profile, amount } = session.input;
  const change = { amount: amount + 1n };
  const { heard, anew } = await session.sendAndCount(trial, 'another amount under the used key', change);
  const seen = anew ? 'a second transfer' : stands(heard) ? 'first_answer' : heard.error === null ? null : 'error';
  const declared = profile.sameKeyOtherBody;
  const observed = `${seen ?? 'no answer that says so'}: ${told(heard)}`;
  let verdict: Verdict = 'promises_less';
  if (anew || denies(heard.observation)) verdict = 'promises_more';
  else if (seen === null) verdict = 'not_tried';
  else if (seen === declared) verdict = 'agrees';
  else if (declared === 'error') verdict = 'promises_more';
  return [finding('same key, other body', declared, observed, verdict)];
}

export async function otherOrder(session: Session, trial: Trial): Promise<Finding[]> {
  const change = { reordered: true } as const;
  const { heard, anew } = await session.sendAndCount(trial, 'the same content in another order', change);
  const observed = anew
    ? `a second transfer: ${told(heard)}`
    : `${stands(heard) ? 'the first result' : 'refused'}: ${told(heard)}`;
  const verdict = anew || denies(heard.observation) ? 'promises_more' : 'agrees';
  return [finding('same key, other order', 'no second transfer (a seal is sent byte by byte)', observed, verdict)];
}

export async function twoAtOnce(session: Session): Promise<Finding[]> {
  const { profile, amount } = session.input;
  const trial = session.trial('at-once');
  const before = await session.balance();
  const both = await Promise.all([
    session.send(trial, 'one of two at once'),
    session.send(trial, 'two of two at once'),
  ]);
  const shown = await session.payments(trial, 'after two at once');
  const after = await session.balance();
  const paid = before === null || after === null ? 0 : Number((before - after) / amount);
  const payments = Math.max(shown, paid);
  const codes = profile.codes.filter((row) => row.means.reads === 'in_progress');
  const declared = `one transfer; the other waits or is told so (${codes.map((row) => row.code).join(', ') || 'no code is known'})`;
  const observed = `${count(payments)}; ${both.map(told).join(' and ')}`;
  const denied = payments > 0 && both.some((heard) => denies(heard.observation));
  const unread = both.some((heard) => heard.observation.kind === 'unreadable');
  let verdict: Verdict = unread ? 'promises_less' : 'agrees';
  if (payments > 1 || denied) verdict = 'promises_more';
  else if (payments === 0) verdict = 'not_tried';
  return [finding('in progress', declared, observed, verdict)];
}

export async function otherCredential(session: Session, trial: Trial): Promise<Finding[]> {
  const { second } = session.input;
  if (second === undefined) return [];
  const what = 'the used key under the second credential';
  return [scope(session, 'credential', await session.sendAndCount(trial, what, {}, second))];
}

export async function otherPath(session: Session, trial: Trial): Promise<Finding[]> {
  const path = session.input.otherPath;
  if (path === undefined) return [];
  return [scope(session, 'path', await session.sendAndCount(trial, `the used key at ${path}`, { path }))];
}

/** What stands in the declared scope makes a key a new one, which bars sending again; what is missing there is a promise. */
function scope(
  session: Session,
  part: 'credential' | 'path',
  { heard, anew }: { readonly heard: Heard; readonly anew: boolean },
): Finding {
  const bars = session.input.profile.scope.includes(part);
  const declared = bars ? `another ${part} may be another key` : `the same key whatever the ${part}`;
  const name = `scope: ${part}`;
  if (heard.status === null || heard.status >= 500 || NOT_LET_IN.has(heard.status))
    return finding(name, declared, `no transfer is taken there: ${codeOf(heard)}`, 'not_tried');
  const observed = anew ? `another transfer: ${told(heard)}` : `no other transfer: ${told(heard)}`;
  return finding(name, declared, observed, compare(!bars, !anew));
}

export function count(payments: number): string {
  return payments === 1 ? '1 transfer' : `${payments} transfers`;
}
