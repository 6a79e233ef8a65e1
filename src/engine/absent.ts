/**
 * `absent`: two persons say that nothing moved (`OPERATOR_ABSENT`, design §2; T8, T11, T17).
 *
 * The second approval takes the effect's lease, or is told `busy` at once and stays open. Under it the rail is asked once
 * with the same identity (a look where the key must not be sent again), and the word is recorded unless the answer is a yes
 * or `IN_PROGRESS`: then the persons are told what really happened. The word is a belief: it stops all sends, lateness
 * starts, and a fresh look by the machine completes it. Where the machine cannot get one (no look-up, or one that stays
 * unclear past the time to decide), the persons' word given anew after lateness is that look.
 *
 * Never: a connection held while the rail is asked, or a release over testimony.
 */
import { PayonceError } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import type { EngineDeps } from './deps.ts';
import { lookWithHints } from './hints.ts';
import { loadVariants } from './evidence-store.ts';
import type { Found, Pass } from './judge.ts';
import { leaseMsOf, sendWindowMs } from './lease.ts';
import type { Operator } from './operators.ts';
import { type Approval, type Approved, completeProposal, openApproval, voidProposal } from './proposals.ts';
import type { ObservationKind, Rail } from './rail.ts';
import { record, type Recorded } from './record.ts';
import { readSafely, toSealed } from './sealed.ts';
import { keyWindowMs, sendAll } from './send.ts';
import { type EffectRow, lockEffects } from './store.ts';
import { claimOne } from './claims.ts';
import { raiseSends } from './raise.ts';

interface Opened extends Approved {
  /** As claimed: its token is our lease. */
  readonly claimed: EffectRow;
  readonly rail: Rail;
}

/** Durable on return. `PO_BUSY` where somebody else advances the effect now; the proposal stays open. */
export async function approveAbsent(deps: EngineDeps, operator: Operator, proposalId: string): Promise<Approval> {
  const opened = await open(deps, operator, proposalId);
  if (opened.outcome !== 'approved') return opened;
  const { rail, claimed, detail } = opened;
  const asked = await askOnce(deps, opened, deps.ports.clock.monotonicMs());
  const against = asked.find((one) => AGAINST.includes(one.observation.kind));
  const pass: Pass = {
    effectId: claimed.id,
    token: claimed.leaseToken,
    found: against === undefined ? [...asked, wordOf(claimed, detail.reason)] : asked,
    nextAfterMs: limits.BACKOFF_MS,
    lookedAt: claimed.now,
    proposalId,
  };
  const recorded = (await record(deps, rail, [pass])).get(claimed.id);
  return end(deps, operator, opened, against === undefined ? outcomeOf(recorded) : inconclusive(against));
}

/** Answers that two persons' word does not stand beside (T11: they are told what really happened, not what they hoped). */
const AGAINST: readonly ObservationKind[] = [
  'included',
  'accepted',
  'key_taken',
  'moved_otherwise',
  'final_success',
  'came_back',
  'in_progress',
];

function inconclusive({ observation }: Found): Approval {
  const { kind, detail } = observation;
  const what = kind === 'in_progress' ? 'is still working on it' : `answered ${kind}`;
  return { outcome: 'void', why: `inconclusive: asked, the bank ${what}: ${detail}` };
}

function open(deps: EngineDeps, operator: Operator, proposalId: string): Promise<Opened | Approval> {
  return deps.pool.tx('approve absent', async (tx) => {
    const approved = await openApproval(tx, deps, operator, proposalId, null);
    if (approved.outcome !== 'approved') return approved;
    const id = approved.effect?.id;
    const rail = deps.rails.get(approved.effect?.rail ?? '');
    if (id === undefined || rail === undefined) throw new PayonceError('PO_INTERNAL');
    if ((await claimOne(tx, id, leaseMsOf(deps, rail))) === 'busy') {
      deps.counters.busy += 1;
      throw new PayonceError('PO_BUSY', { detail: `Effect ${id} is being advanced now; approve again in a moment` });
    }
    const [claimed] = await lockEffects(tx, [id]);
    if (claimed === undefined) throw new PayonceError('PO_INTERNAL');
    return { ...approved, claimed, rail };
  });
}

/** One send of the same bytes where that is allowed, else one look. */
async function askOnce(deps: EngineDeps, opened: Opened, started: number): Promise<readonly Found[]> {
  const { claimed, rail } = opened;
  const variants = (await loadVariants(deps.pool, [claimed.id])).get(claimed.id) ?? [];
  const sealed = toSealed(claimed, variants);
  const allowed = (rail.withholds?.(sealed) ?? null) === null;
  const raised = allowed
    ? await deps.pool.tx('raise', (tx) =>
        raiseSends(
          tx,
          [{ id: claimed.id, token: claimed.leaseToken, asked: true }],
          leaseMsOf(deps, rail),
          keyWindowMs(rail),
          true,
        ),
      )
    : new Map<bigint, number>();
  const sendNumber = raised.get(claimed.id);
  if (sendNumber !== undefined) {
    const sends = [{ sealed, signed: sealed.variants.at(-1) ?? null, sendNumber }];
    return [...(await sendAll(deps, rail, sends, started + sendWindowMs(deps, rail))).values()];
  }
  const [looked = []] = await lookWithHints(deps, rail, [sealed]);
  return looked.map((answer) => ({
    answer,
    observation: readSafely(deps, rail, answer, sealed),
    sendNumber: claimed.sendCount,
  }));
}

function wordOf(effect: EffectRow, reason: string): Found {
  const from = { source: 'operators', operator: 'operators' } as const;
  return {
    answer: { ...from, operation: 'look', reach: 'answer', status: null, body: reason, variantHash: null },
    observation: { ...from, kind: 'operator_absent', witness: false, objectId: null, detail: reason, cost: null },
    sendNumber: effect.sendCount,
  };
}

function outcomeOf(recorded: Recorded | undefined): Approval {
  if (recorded !== undefined && !recorded.lost) {
    const { decision } = recorded;
    if (decision.act === 'believe' && decision.by.kind === 'OPERATOR_ABSENT')
      return { outcome: 'done', did: 'recorded that nothing moved; after lateness a fresh look completes it' };
    if (decision.act === 'believe')
      return {
        outcome: 'done',
        did: `the bank itself said no (${decision.by.kind}); after lateness a fresh look completes it`,
      };
    if (decision.act === 'release') return { outcome: 'done', did: `released it by ${decision.by.kind}` };
  }
  return { outcome: 'void', why: 'inconclusive: something else was recorded meanwhile; see the case' };
}

async function end(deps: EngineDeps, operator: Operator, opened: Opened, approval: Approval): Promise<Approval> {
  await deps.pool.tx('absent ends', async (tx) => {
    if (approval.outcome === 'done') await completeProposal(tx, operator, opened, approval.did);
    else await voidProposal(tx, operator, opened.proposalId, opened.about.id, approval.why);
  });
  return approval;
}
