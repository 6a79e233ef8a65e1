/**
 * Judging one effect's pass: the facts under its lock, what each answer is worth, and what follows. Pure: it reads rows
 * that were read before and writes nothing; `record.ts` does both.
 */
import { classify, decide, type Decision, provesAbsence } from './classify.ts';
import type { Evidence, Facts } from './effect.ts';
import type { SendOutcome, StoredEvidence } from './evidence-store.ts';
import type { Answer, Observation, Rail } from './rail.ts';
import type { EffectRow } from './store.ts';

export interface Found {
  readonly answer: Answer;
  readonly observation: Observation;
  readonly sendNumber: number;
}
export interface Pass {
  readonly effectId: bigint;
  /** The lease under which the answers were got. */
  readonly token: bigint;
  readonly found: readonly Found[];
  /** Ends the lease with this wait; `null` keeps it (more calls follow under it). */
  readonly nextAfterMs: number | null;
  /** When the looks among the answers began, on the database's clock; `null` where they are no look under a lease. */
  readonly lookedAt?: Date | null;
  readonly reason?: string;
  /** The two persons' proposal whose word is among what was found. */
  readonly proposalId?: string;
}
export interface Judged {
  readonly pass: Pass;
  readonly effect: EffectRow;
  readonly fresh: boolean;
  readonly evidence: readonly Evidence[];
  readonly decision: Decision;
  readonly stored: readonly StoredEvidence[];
}

export function judge(
  rail: Rail,
  effect: EffectRow,
  pass: Pass,
  stored: readonly StoredEvidence[],
  outcomes: readonly SendOutcome[],
): Judged {
  const facts = toFacts(rail, effect, pass, stored, outcomes);
  const evidence = pass.found.map((found) => classify(facts, found.observation));
  const fresh = effect.leaseToken === pass.token && effect.leaseUntil !== null;
  // Object testimony on record that has not settled yet (two persons saw it, or a verdict that was refused) counts again.
  const standing = stored
    .filter((one) => one.rank === 'object' && !one.struck && effect.state === 'SEALED')
    .map((one): Evidence => ({ ...one, detail: 'on record' }));
  const usable = [...standing, ...evidence].filter(
    (one) => fresh || one.rank === 'object' || one.rank === 'word' || one.rank === 'display',
  );
  const decision = decide(facts, usable);
  const kept = evidence.filter(
    (one) => fresh || one.rank === 'object' || one.rank === 'word' || one.rank === 'display',
  );
  // What the decision itself concluded (that no send ever left) is evidence of its own.
  if (decision.act === 'release' && decision.by.source === 'engine') kept.push(decision.by);
  return { pass, effect, fresh, evidence: kept, decision, stored };
}

function toFacts(
  rail: Rail,
  effect: EffectRow,
  pass: Pass,
  stored: readonly StoredEvidence[],
  outcomes: readonly SendOutcome[],
): Facts {
  const { capabilities } = rail;
  const sends = countSends(pass, outcomes);
  const believed = stored.find((one) => one.id === effect.believedEvidence);
  const age = effect.sealedAt === null ? 0 : effect.now.getTime() - effect.sealedAt.getTime();
  return {
    state: effect.state,
    sends: effect.sendCount,
    ...sends,
    testimonies: effect.testimonies,
    objectTestimony: stored.some((one) => one.rank === 'object' && !one.struck),
    acceptedObject: effect.acceptedObject,
    namedObjects: stored.filter((one) => one.rank === 'word' && !one.struck).map((one) => one.objectId),
    absence: pass.found
      .filter(
        (found) =>
          found.observation.witness &&
          (found.observation.kind === 'spent_by_other' || found.observation.kind === 'expired_unincluded'),
      )
      .map((found) => ({ operator: found.observation.operator, objectId: found.observation.objectId })),
    absenceWitnesses: capabilities.absenceWitnesses,
    keyed: capabilities.keyed,
    latenessWithinKey:
      capabilities.keyRetentionMs === null || (capabilities.latenessMs ?? 0) < capabilities.keyRetentionMs / 2,
    refusedAtOnceCounts: capabilities.refusedAtOnceCounts === true,
    pastDecide: age > capabilities.decideWithinMs,
    sequenced: capabilities.sequenced,
    provesAbsence: provesAbsence(capabilities),
    canBelieve: capabilities.lookUp && capabilities.latenessMs !== null,
    failedObject:
      stored.find((one) => one.kind === 'PROVIDER_FAILED' && one.id === effect.releasedBy)?.objectId ?? null,
    believing: believed === undefined ? null : { ...believed, detail: 'on record' },
    freshLook: freshLookOf(effect, pass, capabilities.lookUp),
  };
}

/** What became of the sends: stored ones, and those that this pass brings. Each send number counts once. */
function countSends(
  pass: Pass,
  outcomes: readonly SendOutcome[],
): Pick<Facts, 'sendsNeverLeft' | 'sendsRefused' | 'sendsRefusedAtOnce'> {
  const brought = pass.found
    .filter((found) => found.answer.operation === 'send')
    .map(
      (found): SendOutcome => ({
        sendNumber: found.sendNumber,
        neverLeft: found.answer.reach === 'never_connected',
        refused: found.observation.kind === 'refused',
        atOnce: found.observation.refusal?.atOnce === true,
      }),
    );
  const all = [...new Map([...outcomes, ...brought].map((one) => [one.sendNumber, one])).values()];
  return {
    sendsNeverLeft: all.filter((one) => one.neverLeft).length,
    sendsRefused: all.filter((one) => one.refused).length,
    sendsRefusedAtOnce: all.filter((one) => one.atOnce).length,
  };
}

/**
 * A look counts as fresh if it began after lateness had ended; every look-up must then say, readably, that nothing is there.
 * Beside two persons' word, given after lateness, it may show the object that failed; and without any look-up they are it.
 */
function freshLookOf(effect: EffectRow, pass: Pass, lookUp: boolean): Facts['freshLook'] {
  const lookedAt = pass.lookedAt ?? null;
  if (effect.latenessUntil === null || lookedAt === null || lookedAt < effect.latenessUntil) return 'none';
  const kinds = pass.found.flatMap(({ answer, observation }) =>
    answer.operation === 'look' ? [observation.kind] : [],
  );
  const looks = kinds.filter((kind) => kind !== 'operator_absent');
  const said = looks.length < kinds.length;
  if (looks.length === 0) return said && !lookUp ? 'absent' : 'none';
  return looks.every((kind) => kind === 'not_found' || (said && kind === 'object_failed')) ? 'absent' : 'unclear';
}
