/** What a partner sees of a transfer, in the API and in events. Amounts are decimal text. */
import { formatUnits } from '../../kernel/money.ts';
import type { Transfer } from './store.ts';

export interface TransferView {
  id: string;
  external_id: string | null;
  status: string;
  asset: string;
  amount: string;
  fee: string;
  bank_code: string;
  account_number: string;
  holder_name: string;
  memo: string;
  repays: string | null;
  payee_flagged: boolean;
  requested_at: string;
}

export function toPartnerView(transfer: Transfer, status: string): TransferView {
  return {
    id: transfer.id,
    external_id: transfer.externalId,
    status,
    asset: transfer.assetCode,
    amount: formatUnits(transfer.amount, transfer.decimals),
    fee: formatUnits(transfer.fee, transfer.decimals),
    bank_code: transfer.bankCode,
    account_number: transfer.accountNumber,
    holder_name: transfer.holderName,
    memo: transfer.memo,
    repays: transfer.repays,
    payee_flagged: transfer.payeeFlagged,
    requested_at: transfer.requestedAt.toISOString(),
  };
}
