/** Where a buyer pays a trade, as the provider showed it: for the buyer to see, and for nothing else. Pure. */
import { readAnswerBody } from '../answer-body.ts';
import { field, parseJson, textOf } from '../json.ts';
import { ESCROW_KIND } from './kind.ts';
import { tradesIn } from './profiles/standard.ts';

export interface TradePayment {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
}

/** From a stored answer about the trade, in the shape that all profiles share; `null` where that shows none. Texts only: an
 *  account that came as a number has lost its zeros (M5). */
export function readTradePayment(storedAnswer: string, tradeId: string): TradePayment | null {
  const pages = readAnswerBody(ESCROW_KIND.answerForm, storedAnswer)?.pages ?? [];
  for (const { body, status, cut } of pages) {
    const value = cut || status > 299 ? undefined : parseJson(body);
    const trades = value === undefined ? null : tradesIn(value);
    const payment = field(
      trades?.find((one) => textOf(field(one, 'id')) === tradeId),
      'payment',
    );
    const bankCode = textOf(field(payment, 'bank_code'));
    const accountNumber = textOf(field(payment, 'account_number'));
    const holderName = textOf(field(payment, 'holder_name'));
    if (bankCode !== null && accountNumber !== null && holderName !== null)
      return { bankCode, accountNumber, holderName };
  }
  return null;
}
