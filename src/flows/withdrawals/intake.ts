/**
 * Intake of withdrawals: what the engine's intake does not know of them, their purposes and destinations.
 */
import type { Policy } from '../../engine/intake-store.ts';
import { type CreateDeps, type CreateOutcome, type Order, type OrderKind, takeOrders } from '../../engine/intake.ts';
import { loadExternalIds, type Purpose, storeWithdrawals } from './store.ts';
import { toPartnerView } from './view.ts';

export interface WithdrawalRequest extends Order {
  readonly purpose: Purpose;
  readonly reference: string | null;
}

const WITHDRAWAL: OrderKind<WithdrawalRequest> = {
  operation: 'withdrawal.create',
  subjectType: 'withdrawal',
  idPrefix: 'wd',
  debits: (request) => request.purpose === 'customer',
  refuses: destinationFault,
  loadExternalIds,
  store: (tx, drafts) =>
    storeWithdrawals(
      tx,
      drafts.map(({ id, order, fee, policy }) => ({ ...order, id, fee, day: policy.day })),
    ),
  view: ({ id, order, fee, policy }) => ({
    ...toPartnerView(
      {
        ...order,
        id,
        fee,
        day: policy.day,
        assetCode: policy.assetCode,
        decimals: policy.decimals,
        requestedAt: new Date(0),
      },
      'pending',
    ),
    requested_at: undefined,
  }),
};

/** Durable on return for every request in the batch; answers in order. */
export function createWithdrawals(deps: CreateDeps, requests: readonly WithdrawalRequest[]): Promise<CreateOutcome[]> {
  return takeOrders(deps, WITHDRAWAL, requests);
}

/** Purposes other than customer move our own custody and need a receiving wallet that is registered for this partner. */
function destinationFault(
  request: WithdrawalRequest,
  policy: Policy,
  own: { kind: string; partnerId: string | null } | undefined,
): string | null {
  if (request.destination === policy.wallet) return 'the wallet cannot pay itself';
  if (own?.kind === 'TOKEN') return "it is a token's contract: what is sent there is lost";
  switch (request.purpose) {
    case 'customer':
      if (own === undefined || (own.kind === 'DEPOSIT' && policy.ownAddress === 'allow_deposit_addresses')) return null;
      return 'it is an address of this system; use an internal transfer';
    case 'settlement':
      return own?.kind === 'SETTLEMENT' && own.partnerId === request.partnerId
        ? null
        : 'a settlement withdrawal goes to a settlement wallet that is registered for you';
    case 'self':
      return own !== undefined && own.kind === 'MASTER' && own.partnerId === request.partnerId
        ? null
        : 'a self withdrawal goes to a wallet that is registered for you';
  }
}
