/** What the escrow rail says of its own to the wire and the reader that it shares with other rails. */
import { assert } from '../../kernel/errors.ts';
import { idText } from '../foreign-text.ts';
import { field, textOf } from '../json.ts';
import type { KeyedKind } from '../keyed-wire.ts';
import type { TradeLook, TradeObject } from './profile.ts';

const TOUCHED = ', paid or released';

export const ESCROW_KIND: KeyedKind<TradeObject, TradeLook> = {
  requestForm: { kind: 'escrow', form: 'escrow-request-1' },
  answerForm: 'escrow-answer-1',
  factsOf(sealed) {
    const { expect } = sealed.seal;
    const reference = textOf(field(expect, 'reference'));
    assert(reference !== null, `sealed expectation of effect ${sealed.effectId}: reference is missing`);
    // To cancel is to ask of one trade, known before; opening one, its id is what was accepted.
    const tradeId = textOf(field(expect, 'tradeId'));
    return {
      act: tradeId === null ? 'open' : 'cancel',
      key: reference,
      objectId: tradeId ?? idText(sealed.acceptedObject ?? null),
    };
  },
  // What may have moved lives, whatever its state is called: beside others it must not look like one that ended unpaid.
  toShown: (trade) => ({
    id: trade.id,
    state: isUntouched(trade) ? trade.state : `${trade.state ?? ''}${TOUCHED}`,
  }),
};

/** The provider's own word, of a state as it is shown beside others. */
export function plainState(state: string | null): string | null {
  return state?.endsWith(TOUCHED) === true ? state.slice(0, -TOUCHED.length) : state;
}

/** The provider itself says that nobody marked it as paid, and shows nothing released. */
export function isUntouched({ markedPaid, releasedAmount }: TradeObject): boolean {
  return markedPaid === 'never' && (releasedAmount === null || /^0(?:\.0{1,40})?$/.test(releasedAmount.text));
}
