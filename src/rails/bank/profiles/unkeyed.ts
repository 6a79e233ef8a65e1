/**
 * A provider without idempotency keys (B15, T15): the same request twice is two payments, so nothing is ever sent again after
 * an unknown, and a person is the way out. The reference in the body is for look-ups, where a hit is a yes and a miss nothing.
 * Wire: that of `generic`, without the key.
 */
import type { Profile } from '../profile.ts';
import { generic, GENERIC_BY_OBJECT, genericList } from './generic.ts';

export const unkeyed: Profile = {
  ...generic,
  name: 'unkeyed',
  operator: 'unkeyed',
  key: null,
  retentionMs: null,
  retentionCite: 'there is no key',
  sameKeyOtherBody: 'unknown',
  replayMark: null,
  codes: generic.codes.filter((row) => row.means.reads === 'refused'),
  lookUps: [genericList('by_reference', 'reference'), GENERIC_BY_OBJECT],
};
