/**
 * Batches: one order to a provider that takes many lines at once. The batch is the subject of one effect.
 *
 * What holds: amounts and fees of all lines are held at intake. The effect settles when no line is open and at least one went;
 * then each line has a fate of its own, whatever the provider calls the batch (I2): a paid one leaves the partner's account
 * with its fee, the hold of one that is proved not paid goes back, one that came back is paid and returned, now or later. A
 * batch of which no line went is released whole, hold and all; so is a request that was refused for one of its lines (M7).
 * A line that the provider does not show, or shows as another one, is unknown: what it took goes to suspense, which is
 * neither the partner's again nor spent, and a case is open until a later look is clear, or two persons decide the line. Where
 * later looks contradict what was booked, nothing is booked by itself: a case.
 * HELD, UNCLAIMED and the like are no failures (M6): the batch stays open until the provider decides, for 32 days.
 * Never: a line sent again by itself. Its reference is free while it stands that it was not paid (references.ts).
 */
import type { Query, Tx } from '../../db/pool.ts';
import { closeCases, openCase } from '../../engine/cases.ts';
import type { FlowVerb } from '../../engine/deps.ts';
import type { BookedReturn, EndedEffect, Flow, Outcome, Then } from '../../engine/flow.ts';
import { giveBackDay } from '../../engine/intake-store.ts';
import type { LineTruth } from '../../engine/rail.ts';
import { type EffectRow, lockEffectsOfSubject } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { type LedgerItem, post } from '../../ledger/post.ts';
import { emit, type NewEvent } from '../../outbox/emit.ts';
import {
  confirmation,
  decideLines,
  fateOf,
  type Scene,
  scenesOf,
  storeWithFates,
  sumOf,
  withFate,
} from './batch-fates.ts';
import { linesForEvent, toBatchView } from './batch-reads.ts';
import { flagLinePayees, type LineWithFate, loadLines, type NewFate, type StoredBatch } from './batch-store.ts';
import { afterRelease, at, returnItems } from './ends.ts';

export { readCsv, type RawLine } from './batch-file.ts';
export { BATCH_BYTES_MAX, BATCH_LINES_MAX } from './batch-limits.ts';
export { linesFromJson } from './batch-lines.ts';
export { type BatchFile, type BatchRules, checkBatch, takeBatch, takeLeftBehindOnce } from './batch-intake.ts';

const SUBJECT = 'transfer_batch';

export function makeTransferBatches(chart: Chart, makeId: MakeId): Flow {
  return {
    subjectType: SUBJECT,
    settled: (tx, ended) => settled(tx, chart, makeId, ended),
    afterRelease,
    released: (tx, ended) => released(tx, chart, ended),
    shown: () => Promise.resolve([]),
    async believed(tx, effects) {
      const scenes = await scenesOf(
        tx,
        chart,
        effects.map((one) => one.effect),
      );
      return scenes.map(({ batch }, index) =>
        toEvent(batch, 'processing', {
          reason: effects[index]?.reason ?? null,
          final_at: effects[index]?.finalAt.toISOString() ?? null,
        }),
      );
    },
    async reopened(tx, effects) {
      return (await scenesOf(tx, chart, effects)).map(({ batch }) =>
        toEvent(batch, 'reopened', { reason: 'it moved after all' }),
      );
    },
    returned: (tx, returns) => returned(tx, chart, returns),
    linesSeen: (tx, seen) => linesSeen(tx, chart, makeId, seen),
    async paidLines(tx, effects) {
      const lines = await loadLines(
        tx,
        effects.map((effect) => effect.subjectId),
      );
      return new Map(
        effects.map((effect) => {
          const paid = (lines.get(effect.subjectId) ?? []).filter((line) => line.fate === 'paid');
          return [effect.id, new Set(paid.map((line) => line.ref))];
        }),
      );
    },
    async holdOf(tx, effect) {
      const [scene] = await scenesOf(tx, chart, [effect]);
      if (scene === undefined) throw new InvariantBroken('a row is missing');
      return { accountId: scene.accounts.partner, amount: sumOf(scene.lines) };
    },
  };
}

async function settled(tx: Tx, chart: Chart, makeId: MakeId, ended: readonly EndedEffect[]): Promise<Outcome> {
  const scenes = await scenesOf(
    tx,
    chart,
    ended.map((one) => one.effect),
  );
  const items: LedgerItem[] = [];
  const fates: NewFate[] = [];
  for (const [index, scene] of scenes.entries()) {
    const mine = scene.lines.map((line) => fateOf(scene.batch.id, line, 1, at(ended, index).lines));
    fates.push(...mine);
    items.push(confirmation(scene, mine));
  }
  await storeWithFates(tx, scenes, fates);
  for (const scene of scenes) {
    const unknown = withFate(
      scene,
      fates.filter((one) => one.batchId === scene.batch.id),
      'unknown',
    );
    if (unknown.length > 0) await askForLines(tx, makeId, scene, unknown, 2, 'are not shown, or shown as others');
  }
  const events: NewEvent[] = [];
  for (const [index, { batch }] of scenes.entries())
    events.push(
      toEvent(batch, 'finished', { bank_id: at(ended, index).objectId, ...(await linesForEvent(tx, batch)) }),
    );
  return { items, events };
}

async function askForLines(
  tx: Tx,
  makeId: MakeId,
  { batch, effect }: Scene,
  lines: readonly LineWithFate[],
  severity: 2 | 3,
  what: string,
): Promise<void> {
  const numbers = lines.map((line) => line.line).join(', ');
  await openCase(tx, makeId, {
    kind: 'lines_unknown',
    severity,
    subjectKey: `${SUBJECT}:${batch.id}`,
    effectId: effect.id,
    partnerId: batch.partnerId,
    assetId: batch.assetId,
    amount: lines.reduce((sum, line) => sum + line.amount, 0n),
    summary: `${SUBJECT} ${batch.id}: of ${lines.length} lines (${numbers.slice(0, 100)}) ${what}`,
  });
}

/** A later look at a batch that settled: what was unknown may be clear by now. */
async function linesSeen(
  tx: Tx,
  chart: Chart,
  makeId: MakeId,
  seen: readonly { readonly effect: EffectRow; readonly lines: readonly LineTruth[] }[],
): Promise<Outcome> {
  const scenes = await scenesOf(
    tx,
    chart,
    seen.map((one) => one.effect),
  );
  const items: LedgerItem[] = [];
  const events: NewEvent[] = [];
  for (const [index, scene] of scenes.entries()) {
    const now = new Map(scene.lines.map((line) => [line, fateOf(scene.batch.id, line, 2, at(seen, index).lines)]));
    const differ = scene.lines.filter(
      (line) => line.fate !== 'unknown' && now.get(line)?.fate !== 'unknown' && now.get(line)?.fate !== line.fate,
    );
    if (differ.length > 0)
      await askForLines(
        tx,
        makeId,
        scene,
        differ,
        3,
        'the provider now says the opposite of what is booked; nothing was booked anew',
      );
    const unknown = scene.lines.filter((line) => line.fate === 'unknown');
    const decided = unknown.filter((line) => now.get(line)?.fate !== 'unknown');
    if (decided.length === 0) continue;
    const fates = decided.flatMap((line) => now.get(line) ?? []);
    items.push(...(await decideLines(tx, scene, fates)));
    if (decided.length === unknown.length && differ.length === 0)
      await closeCases(tx, [scene.effect.id], ['lines_unknown'], 'the provider shows the lines now');
    events.push(toEvent(scene.batch, 'lines_decided', await linesForEvent(tx, scene.batch)));
  }
  return { items, events };
}

async function released(
  tx: Tx,
  chart: Chart,
  ended: readonly (EndedEffect & { readonly next: Then })[],
): Promise<NewEvent[]> {
  const scenes = await scenesOf(
    tx,
    chart,
    ended.map((one) => one.effect),
  );
  const closing = scenes.filter((_, index) => ['fail', 'cancelled'].includes(at(ended, index).next.step));
  await giveBackDay(
    tx,
    SUBJECT,
    closing.flatMap(({ batch }) => (batch.day === null ? [] : [{ ...batch, day: batch.day }])),
  );
  return scenes.map(({ batch }, index) => toReleased(batch, at(ended, index).next));
}

function toReleased(batch: StoredBatch, next: Then): NewEvent {
  switch (next.step) {
    case 'fail':
      return toEvent(batch, 'failed', { reason: next.reason });
    case 'cancelled':
      return toEvent(batch, 'cancelled', { reason: next.reason });
    case 'review':
      return toEvent(batch, 'in_review', { reason: next.why });
    // Never by itself: two persons chose it after a release.
    case 'again':
      return toEvent(batch, 'processing', { reason: 'it did not move; the next try began' });
  }
}

async function returned(tx: Tx, chart: Chart, returns: readonly BookedReturn[]): Promise<Outcome> {
  const scenes = await scenesOf(
    tx,
    chart,
    returns.map((one) => one.effect),
  );
  const ofLine = returns.map((one, index) => {
    const scene = at(scenes, index);
    const line = scene.lines.find((each) => each.ref === one.line);
    if (line === undefined) throw new InvariantBroken(`return ${one.id} is of no line of ${scene.batch.id}`);
    return { one, scene, line };
  });
  await flagLinePayees(
    tx,
    ofLine.map(({ one, line }) => ({ ...one, line })),
  );
  return {
    items: ofLine.flatMap(({ one, scene }) => returnItems(one, scene.accounts)),
    events: ofLine.map(({ one, scene: { batch }, line }) =>
      toEvent(batch, 'returned', {
        line: line.line,
        external_id: line.externalId,
        return_id: one.id,
        returned_amount: formatUnits(one.amount, batch.decimals),
        return_fee: formatUnits(one.fee, batch.decimals),
        reason: one.reason,
      }),
    ),
  };
}

const STATUS_OF = {
  processing: 'processing',
  reopened: 'processing',
  finished: 'finished',
  lines_decided: 'finished',
  returned: 'finished',
  failed: 'failed',
  cancelled: 'cancelled',
  in_review: 'in_review',
} as const;

function toEvent(batch: StoredBatch, name: keyof typeof STATUS_OF, extra: Record<string, unknown>): NewEvent {
  return {
    subjectType: SUBJECT,
    subjectId: batch.id,
    type: `transfer_batch.${name}`,
    data: { ...toBatchView(batch, STATUS_OF[name]), ...extra },
  };
}

const DECISIONS = ['paid', 'not_paid'] as const;

/** Two persons say what became of a line that the provider does not show: its money leaves suspense. */
export function makeBatchVerbs(
  chart: Chart,
  makeId: MakeId,
  query: Query,
): { readonly decide_line: FlowVerb; readonly close: FlowVerb } {
  return {
    // Only this case moves a line's money out of suspense.
    close: {
      async objection(about) {
        if (about.kind !== 'lines_unknown') return null;
        const batchId = about.subjectKey.slice(SUBJECT.length + 1);
        const lines = (await loadLines(query, [batchId])).get(batchId) ?? [];
        const unknown = lines.filter((line) => line.fate === 'unknown').map((line) => line.line);
        return unknown.length === 0
          ? null
          : `the money of ${unknown.length} lines is in suspense (${unknown.slice(0, 20).join(', ')}): decide each, with decide_line`;
      },
    },
    decide_line: {
      objection(about, { line, fate }) {
        if (about.kind !== 'lines_unknown') return Promise.resolve('this case is not about lines of a batch');
        if (!/^[1-9][0-9]{0,8}$/.test(line ?? ''))
          return Promise.resolve(`line: got "${line ?? ''}", expected its number in the file`);
        if (!DECISIONS.some((one) => one === fate))
          return Promise.resolve(`fate: got "${fate ?? ''}", expected paid or not_paid`);
        return Promise.resolve(null);
      },
      async carryOut(tx, { id, about, detail }) {
        const effect = (await lockEffectsOfSubject(tx, SUBJECT, about.subjectKey.slice(SUBJECT.length + 1))).at(-1);
        const [scene] = effect === undefined ? [] : await scenesOf(tx, chart, [effect]);
        const line = scene?.lines.find((one) => String(one.line) === detail['line']);
        if (scene === undefined || line === undefined) return { refused: `there is no line ${detail['line'] ?? ''}` };
        if (line.fate !== 'unknown')
          return { refused: `line ${line.line} is ${line.fate ?? 'open'}: only an unknown one is decided` };
        const fate = detail['fate'] === 'paid' ? 'paid' : 'not_paid';
        const why = `two persons (${id}): ${detail['reason'] ?? ''}`;
        const decided: NewFate = {
          batchId: scene.batch.id,
          line: line.line,
          seq: 2,
          fate,
          objectId: null,
          detail: why,
        };
        const verdicts = await post(tx, await decideLines(tx, scene, [decided]));
        if (verdicts.some((one) => one.verdict !== 'posted'))
          throw new InvariantBroken(`line ${line.line} was booked before`);
        await emit(tx, makeId, [toEvent(scene.batch, 'lines_decided', await linesForEvent(tx, scene.batch))]);
        const open = scene.lines.filter((one) => one.fate === 'unknown').length - 1;
        return { did: `line ${line.line} is ${fate}; ${open} lines are unknown still`, closesCase: open === 0 };
      },
    },
  };
}
