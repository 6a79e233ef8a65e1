/**
 * What a trade of ours shows, or what became of cancelling one (rails.md §6.4). Pure; what comes before (whose answer it is,
 * codes, lists) is `keyed-read.ts`. Default `unreadable`: so is a state that the profile does not know, since lists of states grow.
 *
 * A trade that ended is a no only where the provider says itself that nobody marked it as paid: after a mark, fiat may be on
 * its way, and a person decides. Whatever the provider has stopped for (a dispute, a refund, a part released) is a person's too;
 * the trade stands until then.
 */
import type { Answer, Observation, SealedEffect } from '../../engine/rail.ts';
import { unitsIn } from '../amount-text.ts';
import { idText } from '../foreign-text.ts';
import { type Reader, readKeyed, says, type Told } from '../keyed-read.ts';
import { differenceIn } from './echo.ts';
import { ESCROW_KIND, isUntouched, plainState } from './kind.ts';
import type { TradeMeaning, TradeObject, TradeProfile } from './profile.ts';
import { type Expect, readExpect } from './seal.ts';

export function readTradeAnswer(profile: TradeProfile, answer: Answer, sealed: SealedEffect): Observation {
  const expect = readExpect(sealed);
  const meaningOf = (state: string | null): TradeMeaning | undefined =>
    state !== null && Object.hasOwn(profile.states, state) ? profile.states[state] : undefined;
  const reader: Reader<TradeObject> = {
    kind: ESCROW_KIND,
    profile,
    ours: expect.reference,
    noun: 'trade',
    hasFailed: ({ state }) => meaningOf(state) === 'ended',
    isDone: ({ state }) => meaningOf(plainState(state)) === 'released',
    join: ([first, ...more]) => (first !== undefined && more.length === 0 ? first : null),
    judge(trade) {
      const name = trade.id ?? 'a trade';
      if (trade.reference !== expect.reference)
        return says('unreadable', `${name}: its reference is ${trade.reference ?? 'missing'}, not ours`);
      const meaning = meaningOf(trade.state);
      const known = `${name} is ${trade.state ?? '(no state)'}`;
      if (expect.act === 'cancel') return judgeCancel(expect, trade, meaning, known);
      const differs = differenceIn(profile, expect, trade);
      if (differs !== null)
        return says('key_taken', `${name}: under our reference, but its ${differs}`, {
          objectId: trade.id,
          otherContent: true,
        });
      return judgeTrade(profile, expect, trade, meaning, known);
    },
    clean: (trade) => ({ ...trade, id: idText(trade.id) }),
  };
  return readKeyed(reader, answer, sealed);
}

function judgeTrade(
  profile: TradeProfile,
  expect: Expect,
  trade: TradeObject,
  meaning: TradeMeaning | undefined,
  known: string,
): Told {
  const about = { objectId: trade.id };
  const asks = (why: string): Told =>
    says('accepted', `${known}: ${why}`, { ...about, asksPeople: `trade ${trade.id ?? ''}: ${why}` });
  switch (meaning) {
    case undefined:
      return says('unreadable', `ours, but its state ${trade.state ?? '(none)'} is not known`, about);
    case 'stands':
      return says('accepted', known, about);
    case 'released': {
      const released = unitsIn(trade.releasedAmount, expect.decimals);
      if (released === expect.amount) return says('final_success', known, about);
      const shown = trade.releasedAmount?.text ?? 'an amount that it does not show';
      return asks(`the provider released ${shown}, not what was traded; agree with it what becomes of the rest`);
    }
    case 'ended':
      return isUntouched(trade)
        ? says('object_failed', known, { ...about, keyStaysBound: profile.failedKeepsKey !== null })
        : asks('it ended, and nothing shows that it was never marked as paid; the buyer’s money may be on its way');
    case 'ended_paid':
      return asks('it ended although a payment was claimed; find out where the buyer’s money is');
    case 'pay_failed':
      return asks('the provider calls the payment failed; find out where the buyer’s money is');
    case 'disputed':
      return asks('it is disputed; nothing moves it until the provider has decided');
    case 'refunded':
      return asks('the provider gave the buyer’s money back; what came back is booked by people');
  }
}

/** Success is the trade's own state. Whether its end frees anything is the trade's effect to say, not this one's. */
function judgeCancel(expect: Expect, trade: TradeObject, meaning: TradeMeaning | undefined, known: string): Told {
  if (trade.id !== expect.tradeId)
    return says('unreadable', `asked about ${expect.tradeId ?? ''}, got ${trade.id ?? 'a trade without an id'}`);
  const about = { objectId: trade.id };
  switch (meaning) {
    case undefined:
      return says('unreadable', `its state ${trade.state ?? '(none)'} is not known`, about);
    case 'ended':
    case 'ended_paid':
      return says('final_success', known, about);
    case 'released':
    case 'refunded':
      // What was released or refunded is never cancelled, whoever asks and under whatever key.
      return says('object_failed', `${known}: too late to cancel`, { ...about, keyStaysBound: true });
    case 'stands':
    case 'disputed':
    case 'pay_failed':
      return says('in_progress', `${known}: not cancelled yet`, about);
  }
}
