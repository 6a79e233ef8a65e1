/** What a partner sees of a transfer, in the API and in events. Amounts are decimal text. */
import { type HistoryLine, toHistoryView, type WithStatus } from '../../engine/order-store.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { Transfer, TransferFate } from './store.ts';

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

export interface TransferDetail extends TransferView {
  /** The provider's id of it. */
  bank_id: string | null;
  /** While a no waits to become final: why, and when at the earliest. */
  reason: string | null;
  final_at: string | null;
  repaid_by: string | null;
  returns: { id: string; amount: string; fee: string; reason: string | null; at: string }[];
  history: ReturnType<typeof toHistoryView>;
}

export function toDetail(
  transfer: WithStatus<Transfer>,
  history: readonly HistoryLine[],
  fate: TransferFate,
): TransferDetail {
  const waits = transfer.status === 'processing';
  return {
    ...toPartnerView(transfer, transfer.status),
    bank_id: fate.bankId,
    reason: waits ? fate.reason : null,
    final_at: waits ? (fate.finalAt?.toISOString() ?? null) : null,
    repaid_by: fate.repaidBy,
    returns: fate.returns.map((one) => ({
      id: one.id,
      amount: formatUnits(one.amount, transfer.decimals),
      fee: formatUnits(one.fee, transfer.decimals),
      reason: one.reason,
      at: one.at.toISOString(),
    })),
    history: toHistoryView(history),
  };
}
