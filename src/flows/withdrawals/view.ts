/** What a partner sees of a withdrawal, in the API and in events. Amounts are decimal text. */
import { type HistoryLine, toHistoryView, type WithStatus } from '../../engine/order-store.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { Withdrawal } from './store.ts';

export interface WithdrawalView {
  id: string;
  external_id: string | null;
  status: string;
  purpose: string;
  asset: string;
  amount: string;
  fee: string;
  destination: string;
  reference: string | null;
  requested_at: string;
}

export function toPartnerView(withdrawal: Withdrawal, status: string): WithdrawalView {
  return {
    id: withdrawal.id,
    external_id: withdrawal.externalId,
    status,
    purpose: withdrawal.purpose,
    asset: withdrawal.assetCode,
    amount: formatUnits(withdrawal.amount, withdrawal.decimals),
    fee: formatUnits(withdrawal.fee, withdrawal.decimals),
    destination: withdrawal.destination,
    reference: withdrawal.reference,
    requested_at: withdrawal.requestedAt.toISOString(),
  };
}

export interface WithdrawalDetail extends WithdrawalView {
  tx_hash: string | null;
  tx_hashes: string[];
  history: { attempt: number; state: string; reason: string | null; at: string }[];
}

export function toDetail(withdrawal: WithStatus<Withdrawal>, history: readonly HistoryLine[]): WithdrawalDetail {
  const last = history.at(-1);
  return {
    ...toPartnerView(withdrawal, withdrawal.status),
    tx_hash: last?.objectId ?? last?.hashes.at(-1) ?? null,
    tx_hashes: [...new Set(history.flatMap((line) => line.hashes))],
    history: toHistoryView(history),
  };
}
