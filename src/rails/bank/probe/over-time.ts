/** What holds over time: the key of a transfer that failed, and how long a key is remembered. */
import { DAY_MS, MINUTE_MS } from '../limits.ts';
import { compare, type Finding, finding, lasting } from './report.ts';
import { denies, recognises, type Session, stands, told } from './session.ts';

/** Beside the declared retention, both ways: a provider may round, the kit's own requests take a moment. */
const EDGE_MS_MAX = MINUTE_MS;
/** "For ever" is tried for so long. */
const FOR_EVER_MS = 400 * DAY_MS;

export async function failedKeepsKey(session: Session): Promise<Finding[]> {
  const cite = session.input.profile.failedKeepsKey;
  const name = 'a failed transfer keeps its key';
  const declared = cite === null ? 'not known' : 'the same key shows the failed one again';
  const trial = session.trial('fails');
  const first = await session.send(trial, 'a transfer that is made to fail');
  if (!stands(first)) return [finding(name, declared, `it was not accepted: ${told(first)}`, 'not_tried', cite)];
  await session.fail(trial);
  await session.payments(trial, 'after it failed');
  const { heard: second, anew: freed } = await session.sendAndCount(trial, 'the key of the failed transfer');
  if (!freed && !recognises(second)) return [finding(name, declared, `not clear: ${told(second)}`, 'not_tried', cite)];
  const observed = freed ? `the key was free: ${told(second)}` : `no other transfer: ${told(second)}`;
  return [finding(name, declared, observed, compare(cite !== null, !freed), cite)];
}

export async function retention(session: Session): Promise<Finding[]> {
  const { retentionMs, retentionCite } = session.input.profile;
  const name = 'retention';
  const wholeMs = retentionMs ?? FOR_EVER_MS;
  const edgeMs = Math.min(EDGE_MS_MAX, Math.ceil(wholeMs / 100));
  const declared =
    retentionMs === null ? 'a key is remembered for ever' : `a key is remembered for ${lasting(wholeMs)}`;
  const trial = session.trial('retention');
  const first = await session.send(trial, 'a key that is to be remembered');
  if (!stands(first))
    return [finding(name, declared, `it was not accepted: ${told(first)}`, 'not_tried', retentionCite)];
  await session.payments(trial, 'before time goes by');

  await session.wait(wholeMs - edgeMs - session.lagMs);
  const asked = await session.sendAndCount(trial, 'just before the retention ends');
  const { heard: early, anew: forgotten } = asked;
  if (forgotten || denies(early.observation)) {
    const observed = `forgotten after ${lasting(wholeMs - edgeMs)}: ${told(early)}`;
    return [finding(name, declared, observed, 'promises_more', retentionCite)];
  }
  if (!recognises(early)) return [finding(name, declared, `not clear: ${told(early)}`, 'not_tried', retentionCite)];
  const known = `known after ${lasting(wholeMs - edgeMs)}`;
  if (retentionMs === null) return [finding(name, declared, known, 'agrees', retentionCite)];
  await session.wait(2 * edgeMs);
  const { heard: late, anew } = await session.sendAndCount(trial, 'just after the retention ended');
  const longer = !anew;
  const observed = `${known}, ${longer ? 'and longer' : 'not longer'}: ${told(late)}`;
  return [finding(name, declared, observed, longer ? 'promises_less' : 'agrees', retentionCite)];
}
