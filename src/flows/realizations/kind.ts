/** What a realization is to the engine. */
import type { OwnMoveKind } from '../../engine/own-move.ts';
import { postingKey } from '../../kernel/ids.ts';

/** Each reverted try burns gas; a person sees why before a fourth. */
const TRIES_MAX = 3;

export const REALIZATION: OwnMoveKind = {
  subjectType: 'realization',
  idPrefix: 'rlz',
  key: postingKey.realizationMove,
  arrivesAt: 'custody',
  triesMax: TRIES_MAX,
};
