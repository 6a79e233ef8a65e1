/**
 * Adjudication: a person decides, with the evidence in front of them, by safe verbs only (design §8).
 *
 * `ask`, `look`, `bump` and `cancel` are wishes that the next advance carries out under the lease, with the same identity.
 * What frees or books money takes two persons: the first proposes, and what the second approves is bound to the
 * `evidence_version` that the first saw; anything that changed it makes the proposal void. There is no retry and no force.
 * A person's word becomes evidence and goes through the same settle as everything else.
 *
 * Lock order: case, effects by id, then what `settle.ts` takes; the audit head last.
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken, PayonceError } from '../kernel/errors.ts';
import { postingKey } from '../kernel/ids.ts';
import { reverse } from '../ledger/reverse.ts';
import { audit } from './audit-log.ts';
import type { EngineDeps } from './deps.ts';
import { type Operator, requireRole } from './operators.ts';
import { settleBatch } from './settle.ts';
import { type EffectRow, loadEffects, lockEffects } from './store.ts';
import { storeEvidence } from './evidence-store.ts';

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

export const VERBS = ['settled', 'absent', 'strike', 'close', 'unwind', 'reverse_deposit', 'resume_scan'] as const;
export type Verb = (typeof VERBS)[number];
/** Decided here; the others belong to a flow (`EngineDeps.verbs`). */
const FLOW_VERBS: readonly Verb[] = ['reverse_deposit', 'resume_scan'];

/** `evidenceId`: strike · `deposit_id`: reverse_deposit · `chain`, `from_block`: resume_scan. */
export type Detail = { readonly reason: string; readonly evidenceId?: string } & Readonly<Record<string, string>>;

interface CaseRow {
  readonly id: string;
  readonly kind: string;
  readonly subjectKey: string;
  readonly effectId: bigint | null;
  readonly closed: boolean;
}

const LOCK_CASE = `select id, kind, subject_key, effect_id, closed_at is not null as closed
from payonce.cases
where id = $1
for no key update`;

const ABOUT = `select kind, subject_key
from payonce.cases
where id = $1`;

/** A flow's own objection: it may ask the rail, so no transaction is open. */
async function flowObjection(deps: EngineDeps, caseId: string, verb: Verb, detail: Detail): Promise<string | null> {
  const act = deps.verbs.get(verb);
  if (act === undefined) return null;
  const about = (await deps.pool.query<{ kind: string; subject_key: string }>(ABOUT, [caseId])).rows[0];
  return about === undefined ? null : act.objection({ kind: about.kind, subjectKey: about.subject_key }, detail);
}

async function lockCase(tx: Tx, id: string): Promise<CaseRow> {
  const { rows } = await tx.query<{
    id: string;
    kind: string;
    subject_key: string;
    effect_id: bigint | null;
    closed: boolean;
  }>(LOCK_CASE, [id]);
  const row = rows[0];
  if (row === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no case ${id}` });
  return { id: row.id, kind: row.kind, subjectKey: row.subject_key, effectId: row.effect_id, closed: row.closed };
}

/** The first person: what should be done with a case, on the evidence as it stands now. Durable on return. */
export async function propose(
  deps: EngineDeps,
  operator: Operator,
  caseId: string,
  verb: Verb,
  detail: Detail,
): Promise<{ proposalId: string; evidenceVersion: number }> {
  requireRole(operator, 'operator');
  const foreign = await flowObjection(deps, caseId, verb, detail);
  return deps.pool.tx('propose', async (tx) => {
    const one = await lockCase(tx, caseId);
    if (one.closed) throw new PayonceError('PO_TOO_LATE', { detail: 'The case is closed', moneyState: 'unknown' });
    const effect = one.effectId === null ? undefined : (await lockEffects(tx, [one.effectId]))[0];
    const objection = objectionTo(deps, verb, effect) ?? foreign;
    if (objection !== null) throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: objection });
    const proposalId = deps.makeId('prop');
    const evidenceVersion = effect?.evidenceVersion ?? 0;
    await tx.query(
      "update payonce.proposals set state = 'void', decided_at = payonce.now() where case_id = $1 and verb = $2 and state = 'open'",
      [caseId, verb],
    );
    await tx.query(
      'insert into payonce.proposals (id, case_id, verb, detail, evidence_version, proposed_by) values ($1, $2, $3, $4::jsonb, $5, $6)',
      [proposalId, caseId, verb, JSON.stringify(detail), evidenceVersion, operator.id],
    );
    await audit(tx, operator.id, `case.proposed.${verb}`, caseId, { proposalId, evidenceVersion, ...detail });
    return { proposalId, evidenceVersion };
  });
}

/** What stands against a verb, in words, or `null`. The rail's own proof goes before a person's belief. */
function objectionTo(deps: EngineDeps, verb: Verb, effect: EffectRow | undefined): string | null {
  if (verb === 'close') return null;
  if (FLOW_VERBS.includes(verb)) return deps.verbs.has(verb) ? null : `nothing here knows the verb ${verb}`;
  if (effect === undefined) return 'the case is not about an effect';
  switch (verb) {
    case 'settled':
      return effect.state === 'PENDING'
        ? 'nothing was sealed, so nothing of it can have moved'
        : effect.state === 'SETTLED'
          ? 'it is settled'
          : null;
    case 'absent': {
      if (effect.state !== 'SEALED') return `it is ${effect.state}`;
      const rail = deps.rails.get(effect.rail);
      if (effect.nonce !== null || rail?.capabilities.sequenced === true)
        return 'the chain itself can decide: cancel it on chain with the same nonce, and its finality frees the money';
      return effect.testimonies > 0
        ? 'testimony says that it moved'
        : 'this rail has no proof of absence by people yet';
    }
    case 'strike':
      return effect.testimonies === 0 ? 'there is no testimony to strike' : null;
    case 'unwind':
      return effect.state === 'SETTLED' ? null : 'only what is settled can be unwound';
    default:
      return `nothing here knows the verb ${verb}`;
  }
}

export type Approval =
  | { readonly outcome: 'done'; readonly did: string }
  | { readonly outcome: 'void'; readonly why: string };

/** The second person: carries the proposal out if the evidence is still what the first saw. Durable on return. */
export async function approve(deps: EngineDeps, operator: Operator, proposalId: string): Promise<Approval> {
  requireRole(operator, 'approver');
  const read = (
    await deps.pool.query<{ case_id: string; verb: Verb; detail: Detail }>(
      'select case_id, verb, detail from payonce.proposals where id = $1',
      [proposalId],
    )
  ).rows[0];
  const foreign = read === undefined ? null : await flowObjection(deps, read.case_id, read.verb, read.detail);
  try {
    return await approveIn(deps, operator, proposalId, foreign);
  } catch (error) {
    if (!(error instanceof ActRefused) || read === undefined) throw error;
    const why = error.message;
    await deps.pool.tx('void', async (tx) => {
      await tx.query(
        "update payonce.proposals set state = 'void', decided_at = payonce.now() where id = $1 and state = 'open'",
        [proposalId],
      );
      await audit(tx, operator.id, 'case.void', read.case_id, { proposalId, why });
    });
    return { outcome: 'void', why };
  }
}

/** The act changed nothing: everything of the approval is undone and the case stays open. */
class ActRefused extends Error {}

function approveIn(
  deps: EngineDeps,
  operator: Operator,
  proposalId: string,
  foreign: string | null,
): Promise<Approval> {
  return deps.pool.tx('approve', async (tx) => {
    const { rows } = await tx.query<{
      case_id: string;
      verb: Verb;
      detail: Detail;
      evidence_version: number;
      proposed_by: string;
      state: string;
    }>('select case_id, verb, detail, evidence_version, proposed_by, state from payonce.proposals where id = $1', [
      proposalId,
    ]);
    const proposal = rows[0];
    if (proposal === undefined)
      throw new PayonceError('PO_NOT_FOUND', { detail: `There is no proposal ${proposalId}` });
    if (proposal.proposed_by === operator.id)
      throw new PayonceError('PO_OPERATOR_FORBIDDEN', { detail: 'A second person must approve what you proposed' });
    const one = await lockCase(tx, proposal.case_id);
    const effect = one.effectId === null ? undefined : (await lockEffects(tx, [one.effectId]))[0];
    const locked = await tx.query<{ state: string }>(
      'select state from payonce.proposals where id = $1 for no key update',
      [proposalId],
    );
    if (locked.rows[0]?.state !== 'open')
      return { outcome: 'void', why: `the proposal is ${locked.rows[0]?.state ?? 'gone'}` };
    const objection = one.closed ? 'the case is closed' : (objectionTo(deps, proposal.verb, effect) ?? foreign);
    const stale = (effect?.evidenceVersion ?? 0) !== proposal.evidence_version;
    if (stale || objection !== null) {
      const why =
        objection ?? `the evidence has changed since (${proposal.evidence_version} → ${effect?.evidenceVersion ?? 0})`;
      await tx.query("update payonce.proposals set state = 'void', decided_at = payonce.now() where id = $1", [
        proposalId,
      ]);
      await audit(tx, operator.id, 'case.void', proposal.case_id, { proposalId, why });
      return { outcome: 'void', why };
    }
    await tx.query(
      "update payonce.proposals set state = 'approved', approved_by = $2, decided_at = payonce.now() where id = $1",
      [proposalId, operator.id],
    );
    const did = await carryOut(tx, deps, proposal.verb, proposal.detail, proposalId, one, effect);
    await tx.query("update payonce.proposals set state = 'done' where id = $1", [proposalId]);
    await audit(tx, operator.id, `case.approved.${proposal.verb}`, proposal.case_id, {
      proposalId,
      proposedBy: proposal.proposed_by,
      did,
    });
    return { outcome: 'done', did };
  });
}

async function carryOut(
  tx: Tx,
  deps: EngineDeps,
  verb: Verb,
  detail: Detail,
  proposalId: string,
  one: CaseRow,
  effect: EffectRow | undefined,
): Promise<string> {
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
    case 'absent':
      throw new InvariantBroken('absence is not decided here yet');
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
  const { rows } = await tx.query<{ id: bigint }>(
    "select id from payonce.postings where effect_id = $1 and idem_key not like 'GAS:%' order by id limit 1",
    [effect.id],
  );
  const posting = rows[0];
  if (posting === undefined) throw new InvariantBroken(`effect ${effect.id} has no posting`);
  const verdict = await reverse(tx, {
    postingId: posting.id,
    key: postingKey.unwound(effect.id),
    reference: effect.subjectId,
  });
  await closeOne(tx, caseId, `unwound by two persons: ${reason}`);
  return `unwound posting ${posting.id}: ${verdict.verdict}`;
}

async function closeOne(tx: Tx, id: string, how: string): Promise<void> {
  await tx.query(
    'update payonce.cases set closed_at = payonce.now(), closed_how = $2 where id = $1 and closed_at is null',
    [id, how.slice(0, 1_000)],
  );
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
