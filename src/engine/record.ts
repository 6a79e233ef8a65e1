/**
 * Recording: what a pass found becomes answers, evidence and, where it decides, an end. One transaction for a batch.
 *
 * Raw answers, testimony and settlement share one commit. Testimony is stored whatever the effect's state and whoever
 * brings it, also a stale worker (design §1, 6); a no counts only under the lease. A verdict that cannot be booked never
 * takes its neighbours with it: the batch is tried again one by one, and what fails alone keeps its answers and testimony,
 * and after five times is a case.
 *
 * Lock order: effects by id, then what `settle.ts` takes.
 */
import { createHash } from 'node:crypto';
import type { Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import { emit } from '../outbox/emit.ts';
import { isOutage, messageOf } from './alone.ts';
import { believe, waitAnew } from './believe.ts';
import { openCase } from './cases.ts';
import type { Decision } from './classify.ts';
import { showInclusion } from './inclusion.ts';
import { judge, type Judged, type Pass, type Found } from './judge.ts';
import { EVIDENCE, type Evidence } from './effect.ts';
import type { EngineDeps } from './deps.ts';
import { openDoubles } from './doubles.ts';
import type { LineTruth, Rail, RailCost } from './rail.ts';
import { bookReturns, showLines } from './returns.ts';
import { settleBatch, type Verdict } from './settle.ts';
import { type EffectRow, giveBack, lockEffects } from './store.ts';
import {
  loadEvidence,
  type NewAnswer,
  loadSendOutcomes,
  type NewEvidence,
  storeAnswers,
  storeEvidence,
  type StoredEvidence,
} from './evidence-store.ts';

export interface Recorded {
  readonly effect: EffectRow;
  readonly decision: Decision;
  /** The rail has accepted it under an object that it named, now or before. */
  readonly named: boolean;
  /** Somebody else ended it first. */
  readonly lost: boolean;
  /** The lease is still ours. */
  readonly leased: boolean;
}

/** Records a batch of passes of one rail. Durable on return. */
export async function record(deps: EngineDeps, rail: Rail, passes: readonly Pass[]): Promise<Map<bigint, Recorded>> {
  if (passes.length === 0) return new Map();
  try {
    return await deps.pool.tx('record', (tx) => recordIn(tx, deps, rail, passes, true));
  } catch (error) {
    if (isOutage(error)) throw error;
    if (passes.length > 1) {
      deps.log.warn({ err: error, passes: passes.length }, 'a batch could not be booked; trying one by one');
      const all = new Map<bigint, Recorded>();
      for (const pass of passes) for (const [id, one] of await record(deps, rail, [pass])) all.set(id, one);
      return all;
    }
    try {
      return await poison(deps, rail, passes, error);
    } catch (worse) {
      if (isOutage(worse)) throw worse;
      return unrecorded(deps, passes, worse);
    }
  }
}

/** Not even its testimony can be stored: a person must look now, and its neighbours go on. */
async function unrecorded(deps: EngineDeps, passes: readonly Pass[], error: unknown): Promise<Map<bigint, Recorded>> {
  const [pass] = passes;
  if (pass === undefined) return new Map();
  deps.log.error({ err: error, effect_id: pass.effectId }, 'what a rail answered could not be stored');
  await deps.pool.tx('not recorded', async (tx) => {
    const [effect] = await lockEffects(tx, [pass.effectId]);
    if (effect === undefined) return;
    await openRefused(tx, deps, effect, 'What the rail answered cannot be stored; see the log');
    const waitMs = limits.BACKOFF_MS_MAX;
    await giveBack(tx, [{ id: effect.id, token: pass.token, waitMs, reason: 'NOT_RECORDED', counts: true }]);
  });
  return new Map();
}

/** The verdict fails alone: its answers and testimony are committed without it. */
async function poison(
  deps: EngineDeps,
  rail: Rail,
  passes: readonly Pass[],
  error: unknown,
): Promise<Map<bigint, Recorded>> {
  const [pass] = passes;
  if (pass === undefined) return new Map();
  deps.log.error({ err: error, effect_id: pass.effectId }, 'a verdict could not be booked; its testimony is kept');
  return deps.pool.tx('record testimony', async (tx) => {
    const recorded = await recordIn(tx, deps, rail, [{ ...pass, nextAfterMs: null }], false);
    const effect = recorded.get(pass.effectId)?.effect;
    if (effect === undefined) return recorded;
    const failures = effect.failures + 1;
    await giveBack(tx, [
      {
        id: effect.id,
        token: pass.token,
        waitMs: limits.BACKOFF_MS * 2 ** Math.min(failures, 6),
        reason: `BOOKS_REFUSED: ${messageOf(error)}`,
        counts: true,
      },
    ]);
    // A look beside every lease has nothing to count by: what it cannot book is a case at once.
    if (failures >= limits.SETTLE_FAILURES_MAX || effect.leaseToken !== pass.token)
      await openRefused(tx, deps, effect, `A verdict could not be booked: ${messageOf(error)}`);
    return recorded;
  });
}

async function openRefused(tx: Tx, deps: EngineDeps, effect: EffectRow, summary: string): Promise<void> {
  await openCase(tx, deps.makeId, {
    kind: 'books_refused',
    severity: 3,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary,
  });
}

async function recordIn(
  tx: Tx,
  deps: EngineDeps,
  rail: Rail,
  passes: readonly Pass[],
  decides: boolean,
): Promise<Map<bigint, Recorded>> {
  const byId = new Map(passes.map((pass) => [pass.effectId, pass]));
  const rows = await lockEffects(tx, [...byId.keys()]);
  const known = await loadEvidence(
    tx,
    rows.map((row) => row.id),
  );
  const outcomes = await loadSendOutcomes(
    tx,
    rows.map((row) => row.id),
  );
  const judged = rows.map((effect): Judged => {
    const pass = byId.get(effect.id);
    if (pass === undefined) throw new InvariantBroken('a row that was not asked for');
    return judge(rail, effect, pass, known.get(effect.id) ?? [], outcomes.get(effect.id) ?? []);
  });
  await storeAnswers(
    tx,
    judged.flatMap((one) => one.pass.found.map((found, index) => toAnswerRow(one, found, index))),
  );
  const evidenceIds = await storeNew(tx, judged);

  const verdicts: Verdict[] = [];
  for (const one of judged) {
    if (!decides) continue;
    const verdict = toVerdict(one, evidenceIds);
    if (verdict !== null) verdicts.push(verdict);
  }
  const judgedToEnd = new Set(verdicts.map((verdict) => verdict.effect.id));
  const ended = await settleBatch(tx, deps, rail, verdicts);
  if (decides) {
    await showLines(tx, deps, judged);
    await bookReturns(tx, deps, judged, ended);
  }
  await showInclusion(tx, deps, judged, ended);
  await startBelieving(tx, deps, rail, judged, evidenceIds);
  await openCases(tx, deps, rail, judged);
  await openDoubles(tx, deps, judged);
  const leftOpen = judged.filter((one) => one.fresh && one.pass.nextAfterMs !== null && !ended.has(one.effect.id));
  await giveBack(
    tx,
    leftOpen.map((one) => ({
      id: one.effect.id,
      token: one.pass.token,
      waitMs: one.pass.nextAfterMs ?? 0,
      reason: one.pass.reason ?? null,
      counts: false,
    })),
  );
  return new Map(
    judged.map((one) => {
      const wanted = judgedToEnd.has(one.effect.id);
      const lost = wanted && !ended.has(one.effect.id);
      if (lost || (one.effect.state === 'SETTLED' && one.evidence.some((piece) => piece.rank === 'object'))) {
        deps.counters.alreadyTransitioned += 1;
        tx.afterCommit(() =>
          deps.log.info(
            { effect_id: one.effect.id, subject: one.effect.subjectId, state: one.effect.state },
            'already transitioned',
          ),
        );
      }
      return [
        one.effect.id,
        {
          effect: one.effect,
          decision: one.decision,
          named: one.stored.some(isNaming) || one.evidence.some(isNaming),
          lost,
          leased: one.fresh && !ended.has(one.effect.id) && one.pass.nextAfterMs === null,
        },
      ];
    }),
  );
}

function isNaming(one: Evidence | StoredEvidence): boolean {
  return one.kind === 'ACCEPTED' && one.objectId !== null && !('struck' in one && one.struck);
}

/** What people wrote for each other is not the partner's to read. */
function toldReason(by: Evidence): string {
  return by.kind === 'OPERATOR_ABSENT' ? 'people found no such payment on the other side' : by.detail;
}

async function startBelieving(
  tx: Tx,
  deps: EngineDeps,
  rail: Rail,
  judged: readonly Judged[],
  ids: ReadonlyMap<Evidence, bigint>,
): Promise<void> {
  const latenessMs = rail.capabilities.latenessMs ?? 0;
  const fresh = judged.filter((one) => one.fresh);
  await waitAnew(
    tx,
    fresh
      .filter((one) => one.decision.act === 'wait_anew')
      .map((one) => ({ id: one.effect.id, token: one.pass.token, latenessMs })),
  );
  const believing = fresh.flatMap((one) => {
    if (one.decision.act !== 'believe') return [];
    const evidenceId =
      ids.get(one.decision.by) ??
      one.stored.find((stored) => stored.kind === (one.decision.act === 'believe' ? one.decision.by.kind : ''))?.id;
    return evidenceId === undefined ? [] : [{ id: one.effect.id, token: one.pass.token, evidenceId, latenessMs }];
  });
  const until = await believe(tx, believing);
  for (const flow of deps.flows.values()) {
    const mine = fresh.flatMap((one) => {
      const finalAt = until.get(one.effect.id);
      return finalAt === undefined || one.effect.subjectType !== flow.subjectType || one.decision.act !== 'believe'
        ? []
        : [{ effect: one.effect, reason: toldReason(one.decision.by), finalAt }];
    });
    if (mine.length > 0) await emit(tx, deps.makeId, await flow.believed(tx, mine));
  }
}

function toAnswerRow(one: Judged, found: Found, index: number): NewAnswer {
  const { answer, observation } = found;
  return {
    effectId: one.effect.id,
    sendNumber: found.sendNumber,
    token: one.pass.token,
    operation: answer.operation,
    source: answer.source,
    operator: answer.operator,
    reach: answer.reach,
    status: answer.status,
    body: answer.body.slice(0, limits.ANSWER_BYTES_MAX),
    variantHash: answer.variantHash,
    digest: createHash('sha256')
      .update(
        answer.operation === 'look' ? `${observation.kind}\n${observation.objectId ?? ''}` : `${index}\n${answer.body}`,
      )
      .digest('hex'),
    observed: observation.kind,
    why: observation.detail,
    refused: observation.kind !== 'refused' ? null : observation.refusal?.atOnce === true ? 'at_once' : 'other',
  };
}

/** Keeps a piece of evidence when it differs from that source's last one; repeated nothings raise no version. */
async function storeNew(tx: Tx, judged: readonly Judged[]): Promise<Map<Evidence, bigint>> {
  const ids = new Map<Evidence, bigint>();
  const fresh: { evidence: Evidence; row: NewEvidence }[] = [];
  for (const one of judged) {
    const last = new Map<string, { kind: string; objectId: string | null; id: bigint | null }>();
    for (const stored of one.stored) if (!stored.struck) last.set(stored.source, stored);
    one.evidence.forEach((evidence, index) => {
      const before = last.get(evidence.source);
      // A no that is older than a testimony has been answered by it: to count again it must be said anew.
      const answered =
        EVIDENCE[evidence.kind].says === 'no' &&
        before !== undefined &&
        before.id !== null &&
        one.stored.some((stored) => EVIDENCE[stored.kind].says === 'yes' && stored.id > (before.id ?? 0n));
      if (!answered && before !== undefined && before.kind === evidence.kind && before.objectId === evidence.objectId) {
        if (before.id !== null) ids.set(evidence, before.id);
        return;
      }
      last.set(evidence.source, { kind: evidence.kind, objectId: evidence.objectId, id: null });
      fresh.push({
        evidence,
        row: {
          ...evidence,
          effectId: one.effect.id,
          sendNumber: one.pass.found[index]?.sendNumber ?? one.effect.sendCount,
          token: one.pass.token,
          proposalId: one.pass.proposalId ?? null,
        },
      });
    });
  }
  const stored = await storeEvidence(
    tx,
    fresh.map((one) => one.row),
  );
  fresh.forEach((one, index) => {
    const id = stored[index];
    if (id !== undefined) ids.set(one.evidence, id);
  });
  return ids;
}

function toVerdict(one: Judged, ids: ReadonlyMap<Evidence, bigint>): Verdict | null {
  const { decision } = one;
  if (decision.act !== 'settle' && decision.act !== 'release') return null;
  const { by } = decision;
  const evidenceId =
    ids.get(by) ??
    one.stored.find(
      (stored) =>
        stored.kind === by.kind && stored.objectId === by.objectId && stored.source === by.source && !stored.struck,
    )?.id ??
    [...ids].find(
      ([evidence]) => one.evidence.includes(evidence) && evidence.kind === by.kind && evidence.objectId === by.objectId,
    )?.[1];
  if (evidenceId === undefined) throw new InvariantBroken(`no evidence row for ${by.kind} of effect ${one.effect.id}`);
  return {
    act: decision.act,
    effect: one.effect,
    token: one.pass.token,
    evidenceId,
    kind: by.kind,
    rank: by.rank,
    objectId: by.objectId,
    detail: by.detail,
    cost: costOf(one),
    lookedAt: by.rank === 'believed' ? (one.pass.lookedAt ?? null) : null,
    final: one.pass.found[one.evidence.indexOf(by)]?.observation.refusal?.final === true,
    ...linesOf(one, by),
  };
}

/** What the answer that decides shows of a batch's lines; where what decides stood on record already, the latest that shows them. */
function linesOf(one: Judged, by: Evidence): { readonly lines?: readonly LineTruth[] } {
  const { found } = one.pass;
  const lines =
    found[one.evidence.indexOf(by)]?.observation.lines ??
    found.findLast((each) => each.observation.lines !== undefined)?.observation.lines;
  return lines === undefined ? {} : { lines };
}

function costOf(one: Judged): RailCost | null {
  return (
    one.pass.found.find(
      (found) =>
        found.observation.cost !== null &&
        ['final_success', 'reverted_final', 'cancel_mined', 'moved_otherwise'].includes(found.observation.kind),
    )?.observation.cost ?? null
  );
}

function caseOf({
  decision,
  effect,
  pass,
}: Judged): { kind: 'undecided' | 'moved_otherwise' | 'contradiction'; why: string } | null {
  if (decision.act === 'case') return decision;
  // A batch whose lines say otherwise than its head: nothing that is waited for makes it clear.
  const torn = pass.found.find(
    ({ observation: { kind, lines } }) =>
      kind === 'key_taken' && lines?.some((line) => line.outcome === 'paid') === true,
  );
  if (torn !== undefined && effect.state === 'SEALED') return { kind: 'undecided', why: torn.observation.detail };
  if (decision.act !== 'wait_anew' || !decision.overdue) return null;
  return { kind: 'undecided', why: 'a no whose fresh look never becomes clear' };
}

/** What stays undecided for long is for now, not for today (case B1). */
function isOverdue(rail: Rail, effect: EffectRow): boolean {
  const age = effect.sealedAt === null ? 0 : effect.now.getTime() - effect.sealedAt.getTime();
  return age > Math.max(2 * rail.capabilities.decideWithinMs, limits.OVERDUE_MS_MIN);
}

async function openCases(tx: Tx, deps: EngineDeps, rail: Rail, judged: readonly Judged[]): Promise<void> {
  for (const one of judged) {
    const opens = caseOf(one);
    if (opens === null || !one.fresh) continue;
    const { effect } = one;
    await openCase(tx, deps.makeId, {
      kind: opens.kind,
      severity: opens.kind === 'undecided' && !isOverdue(rail, effect) ? 2 : 3,
      subjectKey: `effect:${effect.id}`,
      effectId: effect.id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary: `${effect.subjectType} ${effect.subjectId}: ${opens.why}`,
    });
  }
}
