/** Taking back what one proposed, while nobody has decided it: the proposal is void and stays in the story of its case. */
import { PayonceError } from '../kernel/errors.ts';
import { audit } from './audit-log.ts';
import type { EngineDeps } from './deps.ts';
import { type Operator, requireRole } from './operators.ts';

export type Withdrawal =
  | { readonly outcome: 'withdrawn' }
  /** Somebody decided it before, or it was withdrawn already: nothing was changed. */
  | { readonly outcome: 'too_late'; readonly state: string };

const LOCK = `select case_id, proposed_by, state
from payonce.proposals
where id = $1
for no key update`;
const VOID = `update payonce.proposals
set state = 'void', decided_at = payonce.now()
where id = $1
  and state = 'open'`;

/** By the proposer alone: a second person who disagrees leaves it, or notes why. Durable on return. Lock order: as at an
 *  approval, of which it takes the proposal and the audit head. */
export async function withdraw(
  deps: Pick<EngineDeps, 'pool'>,
  operator: Operator,
  proposalId: string,
): Promise<Withdrawal> {
  requireRole(operator, 'operator');
  return deps.pool.tx('withdraw', async (tx) => {
    const { rows } = await tx.query<{ case_id: string; proposed_by: string; state: string }>(LOCK, [proposalId]);
    const proposal = rows[0];
    if (proposal === undefined)
      throw new PayonceError('PO_NOT_FOUND', { detail: `There is no proposal ${proposalId}` });
    if (proposal.proposed_by !== operator.id)
      throw new PayonceError('PO_OPERATOR_FORBIDDEN', { detail: 'Only who proposed it may withdraw it' });
    if ((await tx.query(VOID, [proposalId])).rowCount === 0) return { outcome: 'too_late', state: proposal.state };
    await audit(tx, operator.id, 'case.withdrawn', proposal.case_id, { proposalId });
    return { outcome: 'withdrawn' };
  });
}
