/**
 * Several objects under one key of ours, in one answer or in the answers of one look: which of them counts. Pure.
 *
 * One that failed may leave the key to another, so the living one counts, whichever look-up shows it, and a failed one beside
 * it ends nothing. Two that live are two payments. An id listed twice is one object.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Shown } from './answer-body.ts';
import type { Item } from './keyed-profile.ts';

/** The objects that carry our key or reference, each id once. */
export function ownObjects<One extends Item>(key: string, objects: readonly One[]): readonly One[] {
  const own = objects.filter((object) => object.key === key || object.reference === key);
  return own.filter(
    (object, index) => object.id === null || !own.slice(0, index).some((one) => isDeepStrictEqual(one, object)),
  );
}

/** An id that is listed twice, and not the same both times: the list was read while it changed, or cannot be relied on. */
export function listedTwice(own: readonly Item[]): string | null {
  const ids = own.flatMap((one) => (one.id === null ? [] : [one.id]));
  return ids.find((id, index) => ids.indexOf(id) !== index) ?? null;
}

export interface UnderKey<One> {
  /** Not known to have failed: of this answer, and of the look's other answers. */
  readonly living: readonly One[];
  readonly livingBeside: readonly Shown[];
  readonly failed: readonly Shown[];
}

/** `hasFailed` knows the profile's states. A state that it does not know lives: only a failure that is known ends anything. */
export function underKey<One extends Item>(
  hasFailed: (shown: Shown) => boolean,
  own: readonly One[],
  beside: readonly Shown[],
  toShown: (one: One) => Shown,
): UnderKey<One> {
  const others = beside.filter((shown) => own.every((one) => one.id !== shown.id));
  return {
    living: own.filter((one) => !hasFailed(toShown(one))),
    livingBeside: others.filter((one) => !hasFailed(one)),
    failed: [...own.map(toShown), ...others].filter(hasFailed),
  };
}

export function namesOf(objects: readonly Shown[]): string {
  return objects.map((one) => `${one.id ?? 'one'} (${one.state ?? 'no state'})`).join(', ');
}
