/**
 * Proposals: what one person says should be done with a case, bound to the evidence as it stood, and what stands against it.
 *
 * `propose` is the first person. `openApproval` is where every second person's approval begins, in one transaction: four
 * eyes, the same `evidence_version`, no objection; whatever is not so makes the proposal void, and nothing is done.
 *
 * Lock order: case, effects by id, proposal.
 */
import type { Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { audit } from './audit-log.ts';
import { clearAlertsOf } from './cases.ts';
import { provesAbsence } from './classify.ts';
import type { EngineDeps } from './deps.ts';
import { type Operator, requireRole } from './operators.ts';
import { type EffectRow, lockEffects } from './store.ts';

export const VERBS = [
  'settled',
  'absent',
  'strike',
  'close',
  'unwind',
  'fail',
  'next_try',
  'reverse_deposit',
  'resume_scan',
  'decide_line',
  'repair',
  'fund',
  'allowance',
  'void_statement',
  'p2p_settle',
  'p2p_void',
  'p2p_correct',
  'p2p_surplus',
] as const;
export type Verb = (typeof VERBS)[number];
/** Decided here; the others belong to a flow (`EngineDeps.verbs`). */
const FLOW_VERBS: readonly Verb[] = [
  'reverse_deposit',
  'resume_scan',
  'decide_line',
  'repair',
  'fund',
  'allowance',
  'void_statement',
  'p2p_settle',
  'p2p_void',
  'p2p_correct',
  'p2p_surplus',
];

/** `evidenceId`: strike · `deposit_id`: reverse_deposit · `chain`, `from_block`: resume_scan · `line`, `fate`: decide_line ·
 *  `finding`, `as`, and where it is whose, `partner_id`, `effect_id`: repair · `asset`, `amount`, `reference`, `partner_id`: fund ·
 *  what `payonce wallet approve` writes: allowance ·
 *  `leg`, where the case is not about one: p2p_…; `amount`, `direction`: p2p_correct · `as`, `partner_id`, `amount`: p2p_surplus. */
export type Detail = { readonly reason: string; readonly evidenceId?: string } & Readonly<Record<string, string>>;

export interface CaseRow {
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
export async function flowObjection(
  deps: EngineDeps,
  caseId: string,
  verb: Verb,
  detail: Detail,
): Promise<string | null> {
  const act = deps.verbs.get(verb);
  if (act === undefined) return null;
  const about = (await deps.pool.query<{ kind: string; subject_key: string }>(ABOUT, [caseId])).rows[0];
  return about === undefined ? null : act.objection({ kind: about.kind, subjectKey: about.subject_key }, detail);
}

export async function lockCase(tx: Tx, id: string): Promise<CaseRow> {
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

// One that was approved and never completed (its process died while it asked) is not left standing either.
const REPLACE = `update payonce.proposals
set state = 'void', decided_at = payonce.now()
where case_id = $1
  and verb = $2
  and about_line = $4
  and (state = 'open' or state = 'approved' and decided_at < payonce.now() - make_interval(secs => 2 * $3::float8 / 1000))
returning id`;

/** The first person: what should be done with a case, on the evidence as it stands now. Durable on return. */
export async function propose(
  deps: EngineDeps,
  operator: Operator,
  caseId: string,
  verb: Verb,
  detail: Detail,
): Promise<{ proposalId: string; evidenceVersion: number; replaced: readonly string[] }> {
  requireRole(operator, 'operator');
  const foreign = await flowObjection(deps, caseId, verb, detail);
  return deps.pool.tx('propose', async (tx) => {
    const one = await lockCase(tx, caseId);
    if (one.closed) throw new PayonceError('PO_TOO_LATE', { detail: 'The case is closed', moneyState: 'unknown' });
    const effect = one.effectId === null ? undefined : (await lockEffects(tx, [one.effectId]))[0];
    const objection = objectionTo(deps, verb, one, effect) ?? (await seen(tx, deps, verb, effect)) ?? foreign;
    if (objection !== null) throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: objection });
    const proposalId = deps.makeId('prop');
    const evidenceVersion = effect?.evidenceVersion ?? 0;
    const { rows: replaced } = await tx.query<{ id: string }>(REPLACE, [
      caseId,
      verb,
      deps.leaseMs,
      detail['line'] ?? '',
    ]);
    for (const before of replaced)
      await audit(tx, operator.id, 'case.replaced', caseId, { proposalId: before.id, by: proposalId });
    await tx.query(
      'insert into payonce.proposals (id, case_id, verb, detail, evidence_version, proposed_by) values ($1, $2, $3, $4::jsonb, $5, $6)',
      [proposalId, caseId, verb, JSON.stringify(detail), evidenceVersion, operator.id],
    );
    await audit(tx, operator.id, `case.proposed.${verb}`, caseId, { proposalId, evidenceVersion, ...detail });
    return { proposalId, evidenceVersion, replaced: replaced.map((before) => before.id) };
  });
}

/** What stands against a verb, in words, or `null`. The rail's own proof goes before a person's belief. */
export function objectionTo(
  deps: EngineDeps,
  verb: Verb,
  about: CaseRow,
  effect: EffectRow | undefined,
): string | null {
  if (FLOW_VERBS.includes(verb)) return deps.verbs.has(verb) ? null : `nothing here knows the verb ${verb}`;
  if (verb === 'close')
    return about.kind === 'after_release'
      ? 'the partner waits for an end: propose fail, or next_try, and the case closes with it'
      : null;
  if (effect === undefined) return 'the case is not about an effect';
  switch (verb) {
    case 'settled':
      return effect.state === 'PENDING'
        ? 'nothing was sealed, so nothing of it can have moved'
        : effect.state === 'SETTLED'
          ? 'it is settled'
          : null;
    case 'absent':
      return objectionToAbsent(deps, effect);
    case 'strike':
      return effect.testimonies === 0 ? 'there is no testimony to strike' : null;
    case 'unwind':
      return effect.state === 'SETTLED' ? null : 'only what is settled can be unwound';
    case 'fail':
    case 'next_try':
      return about.kind !== 'after_release'
        ? `${verb} is the choice after a release; this case is about something else`
        : effect.state !== 'RELEASED'
          ? `it is ${effect.state}`
          : effect.testimonies > 0
            ? 'testimony says that it moved'
            : null;
    default:
      return `nothing here knows the verb ${verb}`;
  }
}

/** What was taken in from elsewhere (a bank's statement) stands against saying that it did not move. */
async function seen(tx: Tx, deps: EngineDeps, verb: Verb, effect: EffectRow | undefined): Promise<string | null> {
  const denies = verb === 'absent' || verb === 'fail' || verb === 'next_try';
  if (!denies || effect === undefined || deps.seenElsewhere === undefined) return null;
  return deps.seenElsewhere(tx, effect.id);
}

/** Two persons' "it did not move" is a belief: it may not stand where the rail can prove it, nor against testimony (T11). */
function objectionToAbsent(deps: EngineDeps, effect: EffectRow): string | null {
  if (effect.state !== 'SEALED') return `it is ${effect.state}`;
  const rail = deps.rails.get(effect.rail);
  if (rail === undefined) return `the rail ${effect.rail} is not configured here, so it cannot be asked`;
  const { sequenced, lookUp, decideWithinMs } = rail.capabilities;
  if (effect.nonce !== null || sequenced)
    return 'the chain itself can decide: cancel it on chain with the same nonce, and its finality frees the money';
  if (provesAbsence(rail.capabilities))
    return 'the chain itself decides: what expired is freed once two witnesses show that no block has it. Look after its nodes; what stands in a block with a word that this version does not know needs a version that does';
  if (effect.testimonies > 0) return 'inconclusive: testimony says that it moved';
  if (effect.believedEvidence === null || effect.latenessUntil === null) return null;
  if (effect.latenessUntil > effect.now)
    return `a no is on record and waits until ${effect.latenessUntil.toISOString()}; look at the bank's own statement again after that`;
  const overdue = effect.sealedAt !== null && effect.now.getTime() - effect.sealedAt.getTime() > decideWithinMs;
  return lookUp && !overdue ? 'a no is on record, and a fresh look by the machine completes it' : null;
}

export type Approval =
  | { readonly outcome: 'done'; readonly did: string }
  | { readonly outcome: 'void'; readonly why: string };

/** A proposal that is approved and must be carried out now. */
export interface Approved {
  readonly outcome: 'approved';
  readonly proposalId: string;
  readonly proposedBy: string;
  readonly verb: Verb;
  readonly detail: Detail;
  readonly about: CaseRow;
  readonly effect: EffectRow | undefined;
}

const PROPOSAL = `select case_id, verb, detail, evidence_version, proposed_by, state
from payonce.proposals
where id = $1`;

const LOCK_PROPOSAL = `select state
from payonce.proposals
where id = $1
for no key update`;

const DID = `select detail ->> 'did' as did
from payonce.audit_log
where object = $1
  and action like 'case.approved.%'
  and detail ->> 'proposalId' = $2
order by seq desc
limit 1`;

/** An approval that is sent again gets the first one's answer. */
async function whatWasDone(tx: Tx, caseId: string, proposalId: string): Promise<string> {
  const { rows } = await tx.query<{ did: string | null }>(DID, [caseId, proposalId]);
  return rows[0]?.did ?? 'carried out before';
}

/** Who may decide nothing any more has proposed nothing. */
async function gone(tx: Tx, operatorId: string): Promise<string | null> {
  const { rowCount } = await tx.query('select 1 from payonce.operators where id = $1 and disabled_at is not null', [
    operatorId,
  ]);
  return rowCount === 0 ? null : 'who proposed it has been disabled since: propose it anew';
}

/** Locks case, effect and proposal; `approved` where nothing stands against it. Durable with the caller's commit. */
export async function openApproval(
  tx: Tx,
  deps: EngineDeps,
  operator: Operator,
  proposalId: string,
  foreign: string | null,
): Promise<Approved | Approval> {
  const proposal = (
    await tx.query<{
      case_id: string;
      verb: Verb;
      detail: Detail;
      evidence_version: number;
      proposed_by: string;
      state: string;
    }>(PROPOSAL, [proposalId])
  ).rows[0];
  if (proposal === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no proposal ${proposalId}` });
  if (proposal.proposed_by === operator.id)
    throw new PayonceError('PO_OPERATOR_FORBIDDEN', { detail: 'A second person must approve what you proposed' });
  const about = await lockCase(tx, proposal.case_id);
  const effect = about.effectId === null ? undefined : (await lockEffects(tx, [about.effectId]))[0];
  const locked = (await tx.query<{ state: string }>(LOCK_PROPOSAL, [proposalId])).rows[0];
  if (locked?.state === 'done') return { outcome: 'done', did: await whatWasDone(tx, proposal.case_id, proposalId) };
  if (locked?.state !== 'open') return { outcome: 'void', why: `the proposal is ${locked?.state ?? 'gone'}` };
  const objection = about.closed
    ? 'the case is closed'
    : ((await gone(tx, proposal.proposed_by)) ??
      objectionTo(deps, proposal.verb, about, effect) ??
      (await seen(tx, deps, proposal.verb, effect)) ??
      foreign);
  const stale = (effect?.evidenceVersion ?? 0) !== proposal.evidence_version;
  if (stale || objection !== null) {
    const why =
      objection ?? `the evidence has changed since (${proposal.evidence_version} → ${effect?.evidenceVersion ?? 0})`;
    await voidProposal(tx, operator, proposalId, proposal.case_id, why);
    return { outcome: 'void', why };
  }
  await tx.query(
    "update payonce.proposals set state = 'approved', approved_by = $2, decided_at = payonce.now() where id = $1",
    [proposalId, operator.id],
  );
  const { verb, detail, proposed_by: proposedBy } = proposal;
  return { outcome: 'approved', proposalId, proposedBy, verb, detail, about, effect };
}

/** Nothing of it is carried out, and why. */
export async function voidProposal(
  tx: Tx,
  operator: Operator,
  proposalId: string,
  caseId: string,
  why: string,
): Promise<void> {
  await tx.query(
    "update payonce.proposals set state = 'void', decided_at = payonce.now() where id = $1 and state in ('open', 'approved')",
    [proposalId],
  );
  await audit(tx, operator.id, 'case.void', caseId, { proposalId, why });
}

export async function completeProposal(tx: Tx, operator: Operator, approved: Approved, did: string): Promise<void> {
  await tx.query("update payonce.proposals set state = 'done' where id = $1", [approved.proposalId]);
  await audit(tx, operator.id, `case.approved.${approved.verb}`, approved.about.id, {
    proposalId: approved.proposalId,
    proposedBy: approved.proposedBy,
    did,
  });
}

export async function closeOne(tx: Tx, id: string, how: string): Promise<void> {
  await tx.query(
    'update payonce.cases set closed_at = payonce.now(), closed_how = $2 where id = $1 and closed_at is null',
    [id, how.slice(0, 1_000)],
  );
  await clearAlertsOf(tx, [id]);
}
