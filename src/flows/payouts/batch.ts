/**
 * Payouts that go many in one call to a multi-send contract. The batch is the subject of the effect; each payout in it is a line.
 *
 * What holds. The sum is held with the batch. It settles when its call is final and paid somebody; then each payout has the fate
 * that the contract's own logs give it: one that is paid left the partner's account, one that failed with proof has its volume
 * payable again and its money back, and of one that is neither the money is in suspense and a case is open, until two persons decide
 * it. A call that moved nothing is released whole, and all volumes are payable again.
 * Never: a payout of a batch sent again by itself while it is not known to have failed.
 */
import type { Tx } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { EndedEffect, Flow, Outcome } from '../../engine/flow.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Chart } from '../../ledger/accounts.ts';
import type { LedgerItem } from '../../ledger/post.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import {
  type BatchScene,
  confirmation,
  type Fate,
  fatesOf,
  loadBatches,
  scenesOf,
  sumOf,
  withFate,
} from './batch-lines.ts';
import { BATCH_SUBJECT, batchEvent } from './batch-view.ts';
import { afterRelease, at, giveBack } from './ends.ts';
import { markTaken, type Taken } from './store.ts';

export function makePayoutBatches(chart: Chart, makeId: MakeId): Flow {
  return {
    subjectType: BATCH_SUBJECT,
    settled: (tx, ended) => settled(tx, chart, makeId, ended),
    afterRelease,
    async released(tx, ended) {
      const batches = await loadBatches(
        tx,
        ended.map((one) => one.effect),
      );
      await giveBack(
        tx,
        ended.flatMap(({ next, detail }, index) => at(batches, index).map((payout) => ({ payout, next, detail }))),
      );
      return ended.map(({ effect, next, kind }, index) => {
        const payouts = at(batches, index);
        switch (next.step) {
          case 'again':
            return batchEvent(effect, payouts, 'retried', {
              reason: `try ${effect.seq} did not go through (${kind})`,
            });
          case 'fail':
            return batchEvent(effect, payouts, 'failed', { reason: next.reason });
          case 'cancelled':
            return batchEvent(effect, payouts, 'cancelled', { reason: next.reason });
          case 'review':
            return batchEvent(effect, payouts, 'in_review', { reason: next.why });
        }
      });
    },
    async shown(tx, effects) {
      const batches = await loadBatches(
        tx,
        effects.map((one) => one.effect),
      );
      return effects.map(({ effect, included, objectId }, index) =>
        batchEvent(
          effect,
          at(batches, index),
          included ? 'sent' : 'processing',
          included ? { tx_hash: objectId } : { reason: 'its block left the chain; it is being sent again' },
        ),
      );
    },
    async believed(tx, effects) {
      const batches = await loadBatches(
        tx,
        effects.map((one) => one.effect),
      );
      return effects.map(({ effect, reason, finalAt }, index) =>
        batchEvent(effect, at(batches, index), 'processing', { reason, final_at: finalAt.toISOString() }),
      );
    },
    reopened: (tx, effects) => reopened(tx, effects),
    async holdOf(tx, effect) {
      const [scene] = await scenesOf(tx, chart, [effect]);
      if (scene === undefined) throw new InvariantBroken('a batch is missing');
      return { accountId: scene.accounts.partner, amount: sumOf(scene.payouts) };
    },
  };
}

async function reopened(tx: Tx, effects: readonly EffectRow[]): Promise<NewEvent[]> {
  const batches = await loadBatches(tx, effects);
  await markTaken(
    tx,
    batches.flat().map((one) => ({ id: one.id, taken: 'in_flight', detail: null })),
  );
  return effects.map((effect, index) =>
    batchEvent(effect, at(batches, index), 'reopened', { reason: 'it moved after all' }),
  );
}

const TAKEN_BY: Readonly<Record<Fate['fate'], Taken['taken']>> = {
  paid: 'paid',
  not_paid: 'returned',
  unknown: 'unknown',
};

async function settled(tx: Tx, chart: Chart, makeId: MakeId, ended: readonly EndedEffect[]): Promise<Outcome> {
  const scenes = await scenesOf(
    tx,
    chart,
    ended.map((one) => one.effect),
  );
  const all = scenes.map((scene, index) => fatesOf(scene, ended[index]?.lines));
  await markTaken(
    tx,
    all.flat().flatMap(({ payout, fate, objectId, detail }) =>
      // What failed goes back with its pools below.
      fate === 'not_paid' ? [] : [{ id: payout.id, taken: TAKEN_BY[fate], detail: objectId ?? detail }],
    ),
  );
  await giveBack(
    tx,
    all
      .flat()
      .filter((one) => one.fate === 'not_paid')
      .map(({ payout, detail }) => ({ payout, next: { step: 'fail', reason: detail }, detail })),
  );
  for (const [index, scene] of scenes.entries()) await askForUnknown(tx, makeId, scene, at(all, index));
  return {
    items: scenes.map((scene, index): LedgerItem => confirmation(scene, at(all, index))),
    events: scenes.map(({ effect }, index) =>
      batchEvent(
        effect,
        at(all, index).map(({ payout, fate }) => ({ ...payout, taken: TAKEN_BY[fate] })),
        'finished',
        { tx_hash: ended[index]?.objectId ?? null },
      ),
    ),
  };
}

async function askForUnknown(tx: Tx, makeId: MakeId, { effect, payouts }: BatchScene, fates: Fate[]): Promise<void> {
  const unknown = withFate(fates, 'unknown');
  if (unknown.length === 0) return;
  const numbers = unknown.map((one) => payouts.findIndex(({ id }) => id === one.id) + 1).join(', ');
  await openCase(tx, makeId, {
    kind: 'lines_unknown',
    severity: 2,
    subjectKey: `${BATCH_SUBJECT}:${effect.subjectId}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: sumOf(unknown),
    summary: `${BATCH_SUBJECT} ${effect.subjectId}: of ${payouts.length} payouts (${numbers.slice(0, 100)}) the contract's logs do not say whether they were paid`,
  });
}
