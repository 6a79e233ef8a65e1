/**
 * What a finding may be booked as, and by which entries. Pure, a table.
 *
 * Where the scan saw an unknown movement, custody has followed the chain already and the other side stands in suspense (or at the
 * other wallet of ours): what is left is to say whose it was. Gas that nobody booked and a difference of the whole account move
 * custody itself.
 */
import { accountName, type AccountName } from '../../ledger/accounts.ts';
import type { ChainFindingKind } from '../reconcile/chain-match.ts';

/** `own`: both wallets are ours and custody followed the chain; nothing is left to post. */
export const REPAIR_AS = ['loss', 'partner', 'treasury', 'suspense', 'gas', 'own'] as const;
export type RepairAs = (typeof REPAIR_AS)[number];

export interface Line {
  readonly account: AccountName;
  readonly amount: bigint;
}

export type Planned =
  | { readonly outcome: 'planned'; readonly lines: readonly Line[] }
  | { readonly outcome: 'refused'; readonly why: string };

interface Found {
  readonly id: string;
  readonly kind: ChainFindingKind;
  readonly chain: string;
  readonly wallet: string;
  readonly assetId: string;
  readonly amount: bigint;
}

/** Findings that another verb ends, or that are no matter of booking. */
const ELSEWHERE: Partial<Readonly<Record<ChainFindingKind, string>>> = {
  released_moved: 'its effect is opened again by a look: payonce effect look ID',
  missing: 'two persons unwind the effect in a case of its own, if the chain never shows it',
  mismatch: 'see the effect and the transaction: what moved otherwise is settled or contradicted there',
  unrecorded: 'let the scan read its block again (payonce deposits rescan), then compare again',
  gas_mismatch: 'see the effect: its cost is booked when it ends',
  balance: 'what moves without a log is not seen here: find it on the chain, then compare the ledger',
  unproved: 'nothing is known to be wrong: ask a node that keeps its state',
};

/** `cls`: what the scan says of the movement; `null`: nothing. */
export function planRepair(finding: Found, cls: string | null, detail: Readonly<Record<string, string>>): Planned {
  const elsewhere = ELSEWHERE[finding.kind];
  if (elsewhere !== undefined) return refused(`${finding.kind} is not repaired by a posting: ${elsewhere}`);
  const as = REPAIR_AS.find((one) => one === detail['as']);
  if (as === undefined) return refused(`as: got "${detail['as'] ?? ''}", expected one of ${REPAIR_AS.join(', ')}`);
  if (as === 'partner' && (detail['partner_id'] ?? '') === '')
    return refused('as partner: it needs the partner (partner_id)');
  if (finding.kind === 'gas_unbooked') return ofCustody(finding, as, finding.amount, ['gas', 'loss']);
  if (finding.kind === 'ledger') return ofCustody(finding, as, finding.amount, ['treasury', 'loss', 'suspense']);
  if (cls === null)
    return refused(
      'the scan has no record of it, so custody has not followed: let the scan read the block first (payonce deposits rescan)',
    );
  if (cls === 'UNKNOWN_INTERNAL')
    return as === 'own'
      ? { outcome: 'planned', lines: [] }
      : refused('both wallets are ours and custody followed the chain, so there is nothing to post: as own');
  if (cls !== 'UNKNOWN_OUTBOUND' && cls !== 'UNKNOWN_INBOUND') return refused(`the scan knows what it is: ${cls}`);
  const other = otherAccount(as, finding, detail);
  if (other === null || as === 'gas')
    return refused(`a movement that stands in suspense is booked as loss, partner or treasury`);
  // Out: suspense stands below zero by it. In: above.
  const amount = cls === 'UNKNOWN_OUTBOUND' ? finding.amount : -finding.amount;
  return {
    outcome: 'planned',
    lines: [
      { account: accountName.suspense(finding.assetId), amount },
      { account: other, amount: -amount },
    ],
  };
}

/** `units` less in custody, against what it is booked as. */
function ofCustody(finding: Found, as: RepairAs, units: bigint, allowed: readonly RepairAs[]): Planned {
  const other = allowed.includes(as) ? otherAccount(as, finding, {}) : null;
  if (other === null) return refused(`${finding.kind} is booked as ${allowed.join(' or ')}`);
  const { chain, wallet, assetId } = finding;
  return {
    outcome: 'planned',
    lines: [
      { account: accountName.custody(chain, wallet, assetId), amount: units },
      { account: other, amount: -units },
    ],
  };
}

function otherAccount(as: RepairAs, finding: Found, detail: Readonly<Record<string, string>>): AccountName | null {
  const { assetId } = finding;
  switch (as) {
    case 'loss':
      return accountName.loss(assetId);
    case 'treasury':
      return accountName.treasury(assetId);
    case 'suspense':
      return finding.kind === 'ledger' ? accountName.suspense(assetId) : null;
    case 'gas':
      return accountName.gas(assetId);
    case 'partner':
      return accountName.partner(detail['partner_id'] ?? '', assetId);
    case 'own':
      return null;
  }
}

function refused(why: string): Planned {
  return { outcome: 'refused', why };
}
