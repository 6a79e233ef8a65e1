/**
 * Adjudication: a person decides, with the evidence in front of them, by safe verbs only (design §8).
 *
 * `ask`, `look`, `bump` and `cancel` are wishes that the next advance carries out under the lease, with the same identity.
 * What frees or books money takes two persons: the first proposes, and what the second approves is bound to the
 * `evidence_version` that the first saw; anything that changed it makes the proposal void. There is no retry and no force.
 * A person's word becomes evidence and goes through the same settle as everything else. What is proposed and what stands
 * against it: `proposals.ts`; that nothing moved: `absent.ts`; what comes after a release: `after-release.ts`.
 *
 * Lock order: case, effects by id, then what `settle.ts` takes; the audit head last.
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken, PayonceError } from '../kernel/errors.ts';
import { postingKey } from '../kernel/ids.ts';
import { reverse } from '../ledger/reverse.ts';
import { approveAbsent } from './absent.ts';
import { chooseAfterRelease } from './after-release.ts';
import { audit } from './audit-log.ts';
import type { EngineDeps } from './deps.ts';
import { type Operator, requireRole } from './operators.ts';
import {
  type Approval,
  type Approved,
  closeOne,
  completeProposal,
  type Detail,
  flowObjection,
  lockCase,
  openApproval,
  type Verb,
  voidProposal,
} from './proposals.ts';
import { settleBatch } from './settle.ts';
import { type EffectRow, loadEffects } from './store.ts';
import { storeEvidence } from './evidence-store.ts';

export { type Approval, type Detail, propose, type Verb, VERBS } from './proposals.ts';

export const WISHES = ['look', 'ask', 'bump', 'cancel'] as const;
export type Wish = (typeof WISHES)[number];

const WISH = `update payonce.effects
set wanted = $2, next_at = case when lease_until is null then payonce.now() else next_at end
where id = $1
  and ended_at is null
  and (state = 'SEALED' or $2 in ('look', 'ask'))
returning id`;

/** Leaves a wish for the next advance of a sealed effect. `ended` where there is nothing left to do. */
export async function wish(
  deps: EngineDeps,
  operator: Operator,
  effectId: bigint,
  what: Wish,
): Promise<'wished' | 'ended'> {
  requireRole(operator, 'operator');
  return deps.pool.tx('wish', async (tx) => {
    const [effect] = await loadEffects(tx, [effectId]);
    if (effect === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no effect ${effectId}` });
    if ((what === 'bump' || what === 'cancel') && effect.nonce === null) {
      throw new PayonceError('PO_EVIDENCE_REFUSED', {
        detail: `effect ${effectId} is not a sealed transaction of a chain: it has nothing to ${what}`,
      });
    }
    const done = (await tx.query(WISH, [effectId, what])).rowCount === 1;
    await audit(tx, operator.id, `effect.${what}`, `effect:${effectId}`, { outcome: done ? 'wished' : 'ended' });
    return done ? 'wished' : 'ended';
  });
}

/** The second person: carries the proposal out if the evidence is still what the first saw. Durable on return. */
export async function approve(deps: EngineDeps, operator: Operator, proposalId: string): Promise<Approval> {
  requireRole(operator, 'approver');
  const read = (
    await deps.pool.query<{ case_id: string; verb: Verb; detail: Detail }>(
      'select case_id, verb, detail from payonce.proposals where id = $1',
      [proposalId],
    )
  ).rows[0];
  if (read?.verb === 'absent') return approveAbsent(deps, operator, proposalId);
  const foreign = read === undefined ? null : await flowObjection(deps, read.case_id, read.verb, read.detail);
  try {
    return await deps.pool.tx('approve', async (tx) => {
      const opened = await openApproval(tx, deps, operator, proposalId, foreign);
      if (opened.outcome !== 'approved') return opened;
      const did = await carryOut(tx, deps, opened);
      await completeProposal(tx, operator, opened, did);
      return { outcome: 'done', did };
    });
  } catch (error) {
    if (!(error instanceof ActRefused) || read === undefined) throw error;
    const why = error.message;
    await deps.pool.tx('void', (tx) => voidProposal(tx, operator, proposalId, read.case_id, why));
    return { outcome: 'void', why };
  }
}

/** The act changed nothing: everything of the approval is undone and the case stays open. */
class ActRefused extends Error {}

async function carryOut(tx: Tx, deps: EngineDeps, approved: Approved): Promise<string> {
  const { verb, detail, proposalId, about: one, effect } = approved;
  switch (verb) {
    case 'close':
      await closeOne(tx, one.id, `closed by two persons: ${detail.reason}`);
      return 'closed the case';
    case 'settled':
      return sayItMoved(tx, deps, needed(effect), proposalId, detail.reason, one.id);
    case 'strike': {
      const struck = await tx.query(
        'update payonce.effect_evidence set struck_at = payonce.now(), struck_by = $3 where id = $1 and effect_id = $2 and struck_at is null',
        [detail.evidenceId ?? '0', needed(effect).id, proposalId],
      );
      if (struck.rowCount !== 1) throw new ActRefused('there is no such evidence to strike');
      return `struck evidence ${detail.evidenceId}`;
    }
    case 'unwind':
      return unwind(tx, needed(effect), one.id, detail.reason);
    case 'fail':
    case 'next_try': {
      const chosen = await chooseAfterRelease(tx, deps, needed(effect), verb, detail.reason);
      if ('refused' in chosen) throw new ActRefused(chosen.refused);
      await closeOne(tx, one.id, `${chosen.did} by two persons: ${detail.reason}`);
      return chosen.did;
    }
    default: {
      const act = deps.verbs.get(verb);
      if (act?.carryOut === undefined) throw new InvariantBroken(`nothing knows the verb ${verb}`);
      const about = { kind: one.kind, subjectKey: one.subjectKey };
      const result = await act.carryOut(tx, { id: proposalId, about, detail });
      if ('refused' in result) throw new ActRefused(result.refused);
      if (result.closesCase) await closeOne(tx, one.id, `${verb} by two persons: ${detail.reason}`);
      return result.did;
    }
  }
}

function needed(effect: EffectRow | undefined): EffectRow {
  if (effect === undefined) throw new InvariantBroken('a verb on an effect without one');
  return effect;
}

async function sayItMoved(
  tx: Tx,
  deps: EngineDeps,
  effect: EffectRow,
  proposalId: string,
  reason: string,
  caseId: string,
): Promise<string> {
  const [evidenceId] = await storeEvidence(tx, [
    {
      effectId: effect.id,
      kind: 'OPERATOR_SAW',
      rank: 'object',
      source: 'operators',
      operator: 'operators',
      objectId: null,
      detail: reason,
      sendNumber: effect.sendCount,
      token: effect.leaseToken,
      proposalId,
    },
  ]);
  if (evidenceId === undefined) throw new InvariantBroken('evidence without an id');
  if (effect.state === 'RELEASED') return 'recorded that it moved; the effect is being re-opened';
  const won = await settleBatch(tx, deps, null, [
    {
      act: 'settle',
      effect,
      token: effect.leaseToken,
      evidenceId,
      kind: 'OPERATOR_SAW',
      rank: 'object',
      objectId: null,
      detail: reason,
      cost: null,
      lookedAt: null,
    },
  ]);
  await closeOne(tx, caseId, `two persons saw it: ${reason}`);
  return won.has(effect.id) ? 'settled it' : 'it had ended already';
}

/** A settled effect that never happened after all (broken finality): the postings are reversed, nothing is sent again. */
async function unwind(tx: Tx, effect: EffectRow, caseId: string, reason: string): Promise<string> {
  const back = await tx.query('select 1 from payonce.returns where effect_id = $1 limit 1', [effect.id]);
  if (back.rowCount > 0)
    throw new ActRefused('money of it came back and is booked: to reverse all of it too would credit it twice');
  const { rows } = await tx.query<{ id: bigint }>(
    "select id from payonce.postings where effect_id = $1 and idem_key not like 'GAS:%' order by id limit 1",
    [effect.id],
  );
  const posting = rows[0];
  if (posting === undefined && effect.amount === 0n) {
    await closeOne(tx, caseId, `unwound by two persons: ${reason}`);
    return 'unwound it: it moved nothing, so nothing of it was booked';
  }
  if (posting === undefined) throw new InvariantBroken(`effect ${effect.id} has no posting`);
  const verdict = await reverse(tx, {
    postingId: posting.id,
    key: postingKey.unwound(effect.id),
    reference: effect.subjectId,
  });
  await closeOne(tx, caseId, `unwound by two persons: ${reason}`);
  return `unwound posting ${posting.id}: ${verdict.verdict}`;
}

/** A remark for whoever looks next; changes nothing else. */
export async function note(deps: EngineDeps, operator: Operator, caseId: string, text: string): Promise<void> {
  requireRole(operator, 'operator');
  await deps.pool.tx('note', async (tx) => {
    await lockCase(tx, caseId);
    await tx.query('insert into payonce.case_notes (case_id, operator_id, note) values ($1, $2, $3)', [
      caseId,
      operator.id,
      text,
    ]);
    await audit(tx, operator.id, 'case.noted', caseId, { note: text });
  });
}
