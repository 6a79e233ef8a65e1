/** Where a buyer pays a trade, as the provider showed it: for the buyer to see, and for nothing else. */
import { readAnswerBody } from '../answer-body.ts';
import { field, isArray, isObject, parseJson, textOf } from '../json.ts';
import { ESCROW_KIND } from './kind.ts';

export interface TradePayment {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
}

/** From a stored answer about the trade; `null` where that shows none. */
export function readTradePayment(storedAnswer: string, tradeId: string): TradePayment | null {
  const answer = readAnswerBody(ESCROW_KIND.answerForm, storedAnswer);
  for (const page of answer?.pages ?? []) {
    const value = parseJson(page.body);
    const items = [
      value,
      field(value, 'trade'),
      ...(isArray(field(value, 'items')) ? listOf(field(value, 'items')) : []),
    ];
    const trade = [...items, ...listOf(field(value, 'trades')), ...listOf(value)].find(
      (one) => textOf(field(one, 'id')) === tradeId,
    );
    const payment = field(trade, 'payment');
    if (!isObject(payment)) continue;
    const [bankCode, accountNumber, holderName] = ['bank_code', 'account_number', 'holder_name'].map((name) =>
      textOf(field(payment, name)),
    );
    if (bankCode != null && accountNumber != null && holderName != null) return { bankCode, accountNumber, holderName };
  }
  return null;
}

function listOf(value: ReturnType<typeof field>): readonly NonNullable<ReturnType<typeof field>>[] {
  return isArray(value) ? value.flatMap((one) => (one === null ? [] : [one])) : [];
}
