/** A batch's lines: each has its own truth, whatever the batch as a whole is called (I2, I7). Pure. */
import type { LineTruth, ObservationKind, Returned } from '../../engine/rail.ts';
import { unitsIn } from '../amount-text.ts';
import { reasonText } from '../foreign-text.ts';
import type { Profile, ProviderLine } from './profile.ts';
import type { Expect } from './seal.ts';

/** One truth for each sealed line, in order. */
export function lineTruths(profile: Profile, expect: Expect, lines: readonly ProviderLine[]): readonly LineTruth[] {
  return expect.lines.map((wanted): LineTruth => {
    const found = lines.filter((line) => line.ref === wanted.ref);
    const [line, second] = found;
    if (line === undefined)
      return { ref: wanted.ref, outcome: 'unknown', objectId: null, detail: 'no such line in the answer' };
    const says = (outcome: LineTruth['outcome'], detail: string): LineTruth => ({
      ref: wanted.ref,
      outcome,
      objectId: line.id,
      detail: reasonText(detail) ?? '',
    });
    if (second !== undefined) return says('unknown', 'two lines carry our name');
    if (unitsIn(line.amount, expect.decimals) !== wanted.amount)
      return says('unknown', `its amount is ${line.amount?.text ?? 'missing'}`);
    if (line.currency?.toUpperCase() !== expect.currency)
      return says('unknown', `its currency is ${line.currency ?? 'missing'}`);
    if (line.receiver !== wanted.receiver) return says('unknown', 'it names another receiver');
    const { state } = line;
    if (state === null || !Object.hasOwn(profile.lineStates, state))
      return says('unknown', `its state ${state ?? '(none)'} is not known`);
    return says(profile.lineStates[state] ?? 'unknown', state);
  });
}

/**
 * What a batch that the provider calls done shows as a whole. Unknown lines beside a paid one are a person's; where no line
 * is known to have gone, what stands under our key cannot be matched: never success, never failure.
 */
export function batchKind(
  truths: readonly LineTruth[],
): Extract<ObservationKind, 'accepted' | 'object_failed' | 'came_back' | 'final_success' | 'key_taken'> {
  if (truths.some((line) => line.outcome === 'open')) return 'accepted';
  if (truths.every((line) => line.outcome === 'not_paid')) return 'object_failed';
  if (truths.every((line) => line.outcome === 'came_back')) return 'came_back';
  return truths.some((line) => line.outcome === 'paid' || line.outcome === 'came_back') ? 'final_success' : 'key_taken';
}

/** Of the lines that came back: whole, once each, whatever the provider calls it next. */
export function linesBack(expect: Expect, truths: readonly LineTruth[]): readonly Returned[] {
  return truths.flatMap((truth, index): Returned[] => {
    const line = expect.lines[index];
    return truth.outcome !== 'came_back' || line === undefined
      ? []
      : [{ id: truth.objectId ?? truth.ref, amount: line.amount, reason: truth.detail, line: truth.ref }];
  });
}
