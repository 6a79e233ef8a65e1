/**
 * Intake of transfers: what the engine's intake does not know of them, their payees and what they pay again.
 *
 * The payee passed the rail's rules at the edge (`readTransfer`): texts throughout, names in NFC with the original kept,
 * nothing cut (M2, M5). A correction is a new transfer; `repays` names the one that it replaces, which must have ended
 * without the money staying away, and which is paid again once.
 */
import type { Tx } from '../../db/pool.ts';
import {
  type CreateDeps,
  type CreateOutcome,
  type Objection,
  type Order,
  type OrderKind,
  takeOrders,
} from '../../engine/intake.ts';
import type { BankPayee } from '../../engine/rail.ts';
import { findHolders, holderInWords, shareFiles } from './references.ts';
import { loadExternalIds, lockRepaid, type Repaid, storeTransfers } from './store.ts';
import { toPartnerView } from './view.ts';

export interface TransferRequest extends Order {
  readonly payee: BankPayee;
  /** As the caller wrote it. */
  readonly holderName: string;
  readonly repays: string | null;
}

/** One thing that a rail has against a payee, or a warning about it. */
interface PayeeFault {
  readonly field: 'bank_code' | 'account_number' | 'holder_name' | 'memo';
  readonly got: string;
  readonly expected: string;
}

/** The rules of the rail that will pay. */
export type PayeeCheck = (input: {
  readonly bankCode: unknown;
  readonly accountNumber: unknown;
  readonly holderName: unknown;
  readonly memo?: unknown;
}) =>
  | {
      readonly ok: true;
      readonly payee: BankPayee;
      readonly destination: string;
      readonly originalName: string;
      readonly warnings: readonly PayeeFault[];
    }
  | { readonly ok: false; readonly faults: readonly PayeeFault[] };

interface TransferInput extends Omit<Order, 'destination'> {
  readonly bankCode: unknown;
  readonly accountNumber: unknown;
  readonly holderName: unknown;
  readonly memo?: unknown;
  readonly repays?: string | null;
}

type ReadTransfer =
  | { readonly ok: true; readonly request: TransferRequest; readonly warnings: readonly PayeeFault[] }
  | { readonly ok: false; readonly faults: readonly PayeeFault[] };

/** The edge: a payee that the rail cannot carry unchanged is refused here, with place and reason. */
export function readTransfer(check: PayeeCheck, input: TransferInput): ReadTransfer {
  const read = check(input);
  if (!read.ok) return read;
  const { partnerId, idempotencyKey, fingerprint, externalId, assetId, amount } = input;
  return {
    ok: true,
    warnings: read.warnings,
    request: {
      partnerId,
      idempotencyKey,
      fingerprint,
      externalId,
      assetId,
      amount,
      destination: read.destination,
      payee: read.payee,
      holderName: read.originalName,
      repays: input.repays ?? null,
    },
  };
}

const TRANSFER: OrderKind<TransferRequest> = {
  operation: 'transfer.create',
  subjectType: 'transfer',
  idPrefix: 'tr',
  debits: () => true,
  refuses: (_request, _policy, own) => (own === undefined ? null : 'it is an account of this system'),
  payee: (request) => request.payee,
  // Another partner's order says nothing about this one's.
  judgedAlone: ({ partnerId, repays }) => (repays === null ? [] : [`repays\n${partnerId}\n${repays}`]),
  objections,
  loadExternalIds,
  store: (tx, drafts) =>
    storeTransfers(
      tx,
      drafts.map(({ id, order, fee, policy }) => ({
        ...order,
        ...order.payee,
        id,
        fee,
        day: policy.day,
        ...namesOf(order),
      })),
    ),
  view: ({ id, order, fee, policy }) => ({
    ...toPartnerView(
      {
        ...order,
        ...order.payee,
        ...namesOf(order),
        id,
        fee,
        day: policy.day,
        assetCode: policy.assetCode,
        decimals: policy.decimals,
        payeeFlagged: false,
        requestedAt: new Date(0),
      },
      'pending',
    ),
    requested_at: undefined,
    payee_flagged: undefined,
  }),
};

function namesOf(order: TransferRequest): { holderName: string; holderNameNfc: string } {
  return { holderName: order.holderName, holderNameNfc: order.payee.holderName };
}

/** Durable on return for every request in the batch; answers in order. */
export function createTransfers(deps: CreateDeps, requests: readonly TransferRequest[]): Promise<CreateOutcome[]> {
  return takeOrders(deps, TRANSFER, requests);
}

async function objections(tx: Tx, orders: readonly TransferRequest[]): Promise<readonly (Objection | null)[]> {
  await shareFiles(
    tx,
    orders.flatMap((order) => (order.externalId === null ? [] : [order.partnerId])),
  );
  const holders = await findHolders(tx, orders);
  const repaid = await lockRepaid(
    tx,
    orders.flatMap((order) => (order.repays === null ? [] : [order.repays])),
  );
  return orders.map((order, index) => {
    const holder = holders.get(index);
    if (holder !== undefined)
      return {
        code: 'PO_EXTERNAL_ID_TAKEN',
        facts: {
          pointer: '/external_id',
          got: order.externalId ?? '',
          detail: `This external_id is that of ${holderInWords(holder)}`,
          resource: { type: holder.type, id: holder.id },
        },
      };
    const fault = order.repays === null ? null : repayFault(order, repaid.get(order.repays));
    if (fault === null) return null;
    return {
      code: 'PO_REPAYS_REFUSED',
      facts: {
        pointer: '/repays',
        got: order.repays ?? '',
        detail: `This cannot be paid again: ${fault}`,
        // Nothing of this one went; of the one that it names, perhaps all.
        ...(fault === NO_SUCH ? {} : { moneyState: 'unknown' as const }),
      },
    };
  });
}

const NO_SUCH = 'there is no such transfer';

/** Only what is proved not to be with the payee is paid again: released and undoubted, or come back to the last unit. */
function repayFault(order: TransferRequest, repaid: Repaid | undefined): string | null {
  if (repaid === undefined || repaid.partnerId !== order.partnerId) return NO_SUCH;
  if (repaid.repaidBy !== null) return `${repaid.repaidBy} pays it again already`;
  if (repaid.inDoubt) return 'a case about it is open';
  switch (repaid.status) {
    case 'returned':
      return repaid.cameBack === repaid.amount
        ? null
        : 'only a part of it came back; pay that part by a transfer of its own';
    case 'failed':
    case 'cancelled':
      return null;
    default:
      return `it is ${repaid.status}`;
  }
}
