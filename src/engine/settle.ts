/**
 * Settling: the only place that ends an effect, together with everything that follows from the end.
 *
 * One transaction: the edge (whose affected rows are the verdict), the flow's postings, the hold posted or given back, the
 * successor or the partner's `failed`, the partner's event. The loser of a race is simply not in the answer and nothing is
 * written for it (W2, W7).
 *
 * Lock order: effects (locked by the caller), accounts by id (in `post`), subjects' counters (in `emit`).
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import { holdKey, postingKey } from '../kernel/ids.ts';
import { accountName } from '../ledger/accounts.ts';
import { type LedgerItem, post, type Verdict as LedgerVerdict } from '../ledger/post.ts';
import { emit, type NewEvent } from '../outbox/emit.ts';
import { closeCases, openCase } from './cases.ts';
import { intendEffects, releaseEffects, releasePending, settleEffects } from './edges.ts';
import { EVIDENCE, type EvidenceKind, type Rank } from './effect.ts';
import type { EngineDeps } from './deps.ts';
import { currentHold, type EndedEffect, type Flow, type Then } from './flow.ts';
import { quarantineSigners } from './quarantine.ts';
import type { LineTruth, Rail, RailCost } from './rail.ts';
import { looksAgainAfterMs } from './second-look.ts';
import { callToJson, type EffectRow } from './store.ts';
import { wakeNeeding } from './supply.ts';

export interface Verdict {
  readonly act: 'settle' | 'release';
  readonly effect: EffectRow;
  readonly token: bigint;
  readonly evidenceId: bigint;
  readonly kind: EvidenceKind;
  readonly rank: Rank;
  readonly objectId: string | null;
  readonly detail: string;
  readonly cost: RailCost | null;
  /** When the pass' look began, on the database's clock: a believed release needs it. */
  readonly lookedAt?: Date | null;
  readonly final?: boolean;
  /** Batches: what the rail showed of each line. */
  readonly lines?: readonly LineTruth[];
}

/** Ends these effects; answers the ids whose end is ours. The effects are locked and lie in id order. */
export async function settleBatch(
  tx: Tx,
  deps: EngineDeps,
  rail: Rail | null,
  verdicts: readonly Verdict[],
): Promise<Set<bigint>> {
  if (verdicts.length === 0) return new Set();
  const settles = verdicts.filter((one) => one.act === 'settle');
  const releases = verdicts.filter((one) => one.act === 'release');
  const sealed = releases.filter((one) => one.effect.state === 'SEALED');
  const pending = releases.filter((one) => one.effect.state === 'PENDING');
  const won = new Set<bigint>([
    ...(await settleEffects(
      tx,
      settles.map((one) => ({
        id: one.effect.id,
        evidenceId: one.evidenceId,
        againAfterMs: looksAgainAfterMs(deps.rails.get(one.effect.rail)),
      })),
    )),
    ...(await releaseEffects(
      tx,
      sealed.map((one) => ({
        id: one.effect.id,
        token: one.token,
        evidenceId: one.evidenceId,
        rank: one.rank === 'believed' ? ('believed' as const) : ('dead' as const),
        lookedAt: one.lookedAt ?? null,
        overWord: EVIDENCE[one.kind].chainFinal || one.kind === 'PROVIDER_FAILED',
      })),
    )),
    ...(await releasePending(
      tx,
      pending.map((one) => ({ id: one.effect.id, evidenceId: one.evidenceId })),
    )),
  ]);
  const winners = verdicts.filter((one) => won.has(one.effect.id));
  const plan = new EndPlan(deps);
  for (const flow of deps.flows.values())
    await plan.add(
      tx,
      flow,
      winners.filter((one) => one.effect.subjectType === flow.subjectType),
    );
  if (rail !== null) {
    const flowBooks = (one: Verdict): boolean => deps.flows.get(one.effect.subjectType)?.booksCost === true;
    await plan.addCosts(
      tx,
      winners.filter((one) => !flowBooks(one)),
    );
  }
  await plan.carryOut(tx);
  await closeCases(
    tx,
    winners.map((one) => one.effect.id),
    ['undecided', 'plan_fails', 'books_refused', 'released_on_statement'],
    'the effect ended',
  );
  await quarantineSigners(
    tx,
    deps,
    winners
      .filter((one) => one.kind === 'NONCE_SPENT_BY_OTHER')
      .map(({ effect, objectId }) => ({
        rail: effect.rail,
        signer: effect.signer,
        reason: `nonce ${effect.nonce} was spent by ${objectId ?? 'another transaction'}`,
      })),
  );
  await quarantineForeign(tx, deps, winners);
  await wakeNeeding(
    tx,
    winners.flatMap((one) => (one.act === 'settle' && one.effect.lane !== null ? [one.effect.lane] : [])),
  );
  return won;
}

/** What people chose after a release that the flow had left to them: its hold went back when it was released. */
export async function followRelease(
  tx: Tx,
  deps: EngineDeps,
  flow: Flow,
  ended: EndedEffect & { readonly next: Then },
): Promise<void> {
  const plan = new EndPlan(deps);
  await plan.follow(tx, flow, [ended]);
  await plan.carryOut(tx);
}

const OWN = `select hash
from payonce.effect_variants
where hash = any ($1::text[])`;

/** Our payload was mined under a signature that we never made: it is our one payment, and somebody else has the key. */
async function quarantineForeign(tx: Tx, deps: EngineDeps, winners: readonly Verdict[]): Promise<void> {
  const mined = winners.filter(
    (one) => one.kind === 'FINAL_SUCCESS' && one.effect.nonce !== null && one.objectId !== null,
  );
  if (mined.length === 0) return;
  const own = new Set(
    (await tx.query<{ hash: string }>(OWN, [mined.map((one) => one.objectId)])).rows.map((row) => row.hash),
  );
  const foreign = mined.filter((one) => !own.has(one.objectId ?? ''));
  await quarantineSigners(
    tx,
    deps,
    foreign.map(({ effect, objectId }) => ({
      rail: effect.rail,
      signer: effect.signer,
      reason: `${objectId ?? ''} is our payment under a signature that we never made`,
    })),
  );
}

const CLOSE_SUBJECTS = `update payonce.subjects s
set closed_at = payonce.now(), closed_as = u.closed_as
from unnest($1::text[], $2::text[], $3::text[]) as u (type, id, closed_as)
where s.type = u.type
  and s.id = u.id
  and s.closed_at is null`;

/** Gathers what the ends of a batch ask for, then does each kind of it once. */
class EndPlan {
  readonly items: { item: LedgerItem; effect: EffectRow; purpose: 'flow' | 'void' | 'successor' | 'gas' }[] = [];
  readonly events: NewEvent[] = [];
  readonly closes: { effect: EffectRow; as: 'failed' | 'cancelled' }[] = [];
  readonly successors: { effect: EffectRow; hold: { accountId: bigint; amount: bigint } | null }[] = [];
  readonly reviews: { effect: EffectRow; why: string }[] = [];
  readonly deps: EngineDeps;
  constructor(deps: EngineDeps) {
    this.deps = deps;
  }

  async add(tx: Tx, flow: Flow, verdicts: readonly Verdict[]): Promise<void> {
    const settled = verdicts.filter((one) => one.act === 'settle').map(toEnded);
    if (settled.length > 0) {
      const outcome = await flow.settled(tx, settled);
      const byEffect = new Map(settled.map((one) => [one.effect.id, one.effect]));
      for (const item of outcome.items) {
        const effect = item.kind === 'post' && item.effectId !== undefined ? byEffect.get(item.effectId) : undefined;
        if (effect === undefined)
          throw new InvariantBroken(`flow ${flow.subjectType} posts for an effect that did not settle here`);
        this.items.push({ item, effect, purpose: 'flow' });
      }
      this.events.push(...outcome.events);
    }
    const released = verdicts
      .filter((one) => one.act === 'release')
      .map((one) => {
        const ended = toEnded(one);
        return { ...ended, next: flow.afterRelease(ended) };
      });
    for (const { effect } of released) {
      const key = currentHold(effect);
      // FREES: the hold, because the named no on the effect's row proves that no copy of it can still move money.
      if (key !== null) this.items.push({ item: { kind: 'void', holdKey: key }, effect, purpose: 'void' });
    }
    await this.follow(tx, flow, released);
  }

  /** What comes after releases, and the events that tell it. */
  async follow(tx: Tx, flow: Flow, released: readonly (EndedEffect & { next: Then })[]): Promise<void> {
    for (const one of released) await this.followOne(tx, flow, one);
    if (released.length > 0) this.events.push(...(await flow.released(tx, released)));
  }

  private async followOne(tx: Tx, flow: Flow, { effect, next }: EndedEffect & { next: Then }): Promise<void> {
    switch (next.step) {
      case 'fail':
        this.closes.push({ effect, as: 'failed' });
        return;
      case 'cancelled':
        this.closes.push({ effect, as: 'cancelled' });
        return;
      case 'review':
        this.reviews.push({ effect, why: next.why });
        return;
      case 'again': {
        const hold = await flow.holdOf(tx, effect);
        if (hold !== null) {
          this.items.push({
            item: { kind: 'hold', holdKey: holdKey(effect.subjectType, effect.subjectId, effect.seq + 1), ...hold },
            effect,
            purpose: 'successor',
          });
        }
        this.successors.push({ effect, hold });
      }
    }
  }

  /** Gas that the chain burned, success or not: custody of the payer's coin → gas. */
  async addCosts(tx: Tx, verdicts: readonly Verdict[]): Promise<void> {
    const costly = verdicts.filter(
      (one): one is Verdict & { cost: RailCost } => one.cost !== null && one.cost.units > 0n,
    );
    if (costly.length === 0) return;
    const ids = await this.deps.chart.ids(
      tx,
      costly.flatMap((one) => [
        accountName.custody(one.effect.asset.chain, one.cost.payer, one.cost.assetId),
        accountName.gas(one.cost.assetId),
      ]),
    );
    costly.forEach((one, index) => {
      const [custody, gas] = [ids[index * 2], ids[index * 2 + 1]];
      if (custody === undefined || gas === undefined) throw new InvariantBroken('an account is missing');
      this.items.push({
        item: {
          kind: 'post',
          key: postingKey.gas(one.effect.id),
          reference: one.objectId ?? '',
          effectId: one.effect.id,
          entries: [
            { accountId: custody, amount: one.cost.units },
            { accountId: gas, amount: -one.cost.units },
          ],
        },
        effect: one.effect,
        purpose: 'gas',
      });
    });
  }

  async carryOut(tx: Tx): Promise<void> {
    const verdicts = await post(
      tx,
      this.items.map((one) => one.item),
    );
    const unheld = new Set<bigint>();
    const doubles: EffectRow[] = [];
    this.items.forEach((one, index) => {
      const verdict = verdicts[index];
      if (verdict === undefined) throw new InvariantBroken('a ledger item has no verdict');
      this.judge(one, verdict, unheld, doubles, tx);
    });
    await this.bookDoubles(tx, doubles);
    // A posting that stood already closed no hold: what it would have closed goes back.
    const stale = this.items.flatMap(({ item }, index) =>
      item.kind === 'post' && item.closesHold !== undefined && verdicts[index]?.verdict === 'exists'
        ? [{ kind: 'void' as const, holdKey: item.closesHold }]
        : [],
    );
    if (stale.length > 0) await post(tx, stale);
    if (this.closes.length > 0) {
      await tx.query(CLOSE_SUBJECTS, [
        this.closes.map((one) => one.effect.subjectType),
        this.closes.map((one) => one.effect.subjectId),
        this.closes.map((one) => one.as),
      ]);
    }
    await intendEffects(
      tx,
      this.successors
        .filter((one) => !unheld.has(one.effect.id))
        .map(({ effect, hold }) => ({
          subjectType: effect.subjectType,
          subjectId: effect.subjectId,
          seq: effect.seq + 1,
          partnerId: effect.partnerId,
          rail: effect.rail,
          lane: effect.lane,
          assetId: effect.asset.id,
          amount: effect.amount,
          destination: effect.destination,
          wallet: effect.wallet,
          signer: effect.signer,
          call: callToJson(effect),
          holdKey: hold === null ? null : holdKey(effect.subjectType, effect.subjectId, effect.seq + 1),
        })),
    );
    for (const one of this.reviews) await this.review(tx, one.effect, one.why);
    for (const id of unheld) {
      const one = this.successors.find((successor) => successor.effect.id === id);
      if (one !== undefined) await this.review(tx, one.effect, 'the next try could not be held: the balance is short');
    }
    await emit(tx, this.deps.makeId, this.events);
  }

  private judge(
    one: EndPlan['items'][number],
    verdict: LedgerVerdict,
    unheld: Set<bigint>,
    doubles: EffectRow[],
    tx: Tx,
  ): void {
    const key = one.item.kind === 'post' ? one.item.key : one.item.holdKey;
    switch (verdict.verdict) {
      case 'posted':
      case 'held':
      case 'voided':
        return;
      case 'exists':
        if (one.item.kind === 'post' && verdict.effectId !== one.effect.id) doubles.push(one.effect);
        tx.afterCommit(() => this.deps.log.warn({ key, reference: one.effect.subjectId }, 'already recorded'));
        return;
      case 'insufficient':
        if (one.purpose === 'successor') {
          unheld.add(one.effect.id);
          return;
        }
        throw new InvariantBroken(`${key} of effect ${one.effect.id} does not fit, though its hold stood`);
      case 'hold_gone':
        throw new InvariantBroken(`the hold of effect ${one.effect.id} is gone (${key})`);
    }
  }

  private async bookDoubles(tx: Tx, doubles: readonly EffectRow[]): Promise<void> {
    for (const effect of doubles) await bookOverpaid(tx, this.deps, effect, 'its posting stands under another effect');
  }

  private async review(tx: Tx, effect: EffectRow, why: string): Promise<void> {
    await openCase(tx, this.deps.makeId, {
      kind: 'after_release',
      severity: 2,
      subjectKey: `${effect.subjectType}:${effect.subjectId}`,
      effectId: effect.id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary: `${effect.subjectType} ${effect.subjectId}: ${why}`,
    });
  }
}

/** Money went a second time: custody → loss (or where it arrived, if that is with us), never the partner's account; the
 *  highest case until two persons close it. */
export async function bookOverpaid(tx: Tx, deps: EngineDeps, effect: EffectRow, why: string): Promise<void> {
  const [custody, loss] = await deps.chart.ids(tx, [
    accountName.custody(effect.asset.chain, effect.wallet, effect.asset.id),
    deps.flows.get(effect.subjectType)?.arrivesAt?.(effect) ?? accountName.loss(effect.asset.id),
  ]);
  if (custody === undefined || loss === undefined) throw new InvariantBroken('an account is missing');
  if (effect.amount > 0n) {
    await post(tx, [
      {
        kind: 'post',
        key: postingKey.overpaid(effect.id),
        reference: effect.subjectId,
        effectId: effect.id,
        entries: [
          { accountId: custody, amount: effect.amount },
          { accountId: loss, amount: -effect.amount },
        ],
      },
    ]);
  }
  await openCase(tx, deps.makeId, {
    kind: 'contradiction',
    severity: 3,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary: `${effect.subjectType} ${effect.subjectId} was paid again: ${why}`,
  });
}

function toEnded(verdict: Verdict): EndedEffect {
  return {
    effect: verdict.effect,
    kind: verdict.kind,
    objectId: verdict.objectId,
    detail: verdict.detail,
    final: verdict.final === true,
    cost: verdict.cost,
    ...(verdict.lines === undefined ? {} : { lines: verdict.lines }),
  };
}
