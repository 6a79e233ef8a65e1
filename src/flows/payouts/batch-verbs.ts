/** Two persons say what became of a payout in a batch that the contract's logs do not show: its money leaves suspense. */
import type { Query } from '../../db/pool.ts';
import type { FlowVerb } from '../../engine/deps.ts';
import { lockEffectsOfSubject } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { post } from '../../ledger/post.ts';
import { emit } from '../../outbox/emit.ts';
import { decision, scenesOf } from './batch-lines.ts';
import { BATCH_SUBJECT, batchEvent } from './batch-view.ts';
import { giveBack } from './ends.ts';
import { loadOfBatches } from './reads.ts';
import { markTaken } from './store.ts';

const FATES = ['paid', 'not_paid'];

export function makePayoutBatchVerbs(
  query: Query,
  { chart, makeId }: { readonly chart: Chart; readonly makeId: MakeId },
): { readonly decide_line: FlowVerb; readonly close: FlowVerb } {
  const batchOf = (subjectKey: string): string => subjectKey.slice(BATCH_SUBJECT.length + 1);
  return {
    // Only this case moves a payout's money out of suspense.
    close: {
      async objection({ kind, subjectKey }) {
        if (kind !== 'lines_unknown' || !subjectKey.startsWith(`${BATCH_SUBJECT}:`)) return null;
        const batchId = batchOf(subjectKey);
        const payouts = (await loadOfBatches(query, [batchId])).get(batchId) ?? [];
        const unknown = payouts.flatMap((one, index) => (one.taken === 'unknown' ? [index + 1] : []));
        return unknown.length === 0
          ? null
          : `the money of ${unknown.length} payouts is in suspense (${unknown.slice(0, 20).join(', ')}): decide each, with decide_line`;
      },
    },
    decide_line: {
      objection({ kind, subjectKey }, { line, fate }) {
        if (kind !== 'lines_unknown' || !subjectKey.startsWith(`${BATCH_SUBJECT}:`))
          return Promise.resolve('this case is not about payouts of a batch');
        if (!/^[1-9][0-9]{0,3}$/.test(line ?? ''))
          return Promise.resolve(`line: got "${line ?? ''}", expected the payout’s number in the batch`);
        if (!FATES.includes(fate ?? '')) return Promise.resolve(`fate: got "${fate ?? ''}", expected paid or not_paid`);
        return Promise.resolve(null);
      },
      async carryOut(tx, { id, about, detail }) {
        const effect = (await lockEffectsOfSubject(tx, BATCH_SUBJECT, batchOf(about.subjectKey))).at(-1);
        const [scene] = effect === undefined ? [] : await scenesOf(tx, chart, [effect]);
        const payout = scene?.payouts[Number(detail['line']) - 1];
        if (scene === undefined || payout === undefined)
          return { refused: `there is no payout ${detail['line'] ?? ''} in it` };
        if (payout.taken !== 'unknown')
          return { refused: `payout ${payout.id} is ${payout.taken}: only an unknown one is decided` };
        const isPaid = detail['fate'] === 'paid';
        const why = `two persons (${id}): ${detail['reason'] ?? ''}`;
        if (isPaid) await markTaken(tx, [{ id: payout.id, taken: 'paid', detail: why }]);
        else await giveBack(tx, [{ payout, next: { step: 'fail', reason: why }, detail: why }]);
        const [verdict] = await post(tx, [decision(scene, payout, isPaid)]);
        if (verdict?.verdict !== 'posted') throw new InvariantBroken(`payout ${payout.id} was booked before`);
        const now = (await loadOfBatches(tx, [scene.effect.subjectId])).get(scene.effect.subjectId) ?? [];
        await emit(tx, makeId, [batchEvent(scene.effect, now, 'lines_decided')]);
        const open = now.filter((one) => one.taken === 'unknown').length;
        return {
          did: `payout ${payout.id} is ${isPaid ? 'paid' : 'not paid'}; ${open} are unknown still`,
          closesCase: open === 0,
        };
      },
    },
  };
}
