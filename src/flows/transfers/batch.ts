/**
 * Batches: one order to a provider that takes many lines at once. The batch is the subject of one effect.
 *
 * What holds: amounts and fees of all lines are held at intake. The effect settles when no line is open and at least one went;
 * then each line has a fate of its own, whatever the provider calls the batch (I2): a paid one leaves the partner's account
 * with its fee, the hold of one that is proved not paid goes back, one that came back is paid and returned, now or later. A
 * batch of which no line went is released whole, hold and all; so is a request that was refused for one of its lines (M7).
 * A line that the provider does not show, or shows as another one, is unknown: what it took goes to suspense, which is
 * neither the partner's again nor spent, and a case for people is open until a later look is clear, which books it. Where
 * later looks contradict what was booked, nothing is booked by itself: a case.
 * HELD, UNCLAIMED and the like are no failures (M6): the batch stays open until the provider decides, for 32 days.
 * Never: a line sent again by itself. Its reference is free again once it is proved not paid.
 */
import type { Tx } from '../../db/pool.ts';
import { closeCases, openCase } from '../../engine/cases.ts';
import {
  type BookedReturn,
  currentHold,
  type EndedEffect,
  type Flow,
  type Outcome,
  type Then,
} from '../../engine/flow.ts';
import { addToDays, giveBackDay } from '../../engine/intake-store.ts';
import type { LineTruth } from '../../engine/rail.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { type MakeId, postingKey } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { Entry, LedgerItem } from '../../ledger/post.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { linesForEvent, loadBatches, toBatchView } from './batch-reads.ts';
import {
  type Fate,
  flagLinePayees,
  freeLines,
  type LineWithFate,
  loadLines,
  type NewFate,
  type StoredBatch,
  storeFates,
} from './batch-store.ts';
import { type Accounts, accountsOf, afterRelease, at, returnItems } from './ends.ts';

export { readCsv, type RawLine } from './batch-file.ts';
export { BATCH_BYTES_MAX, BATCH_LINES_MAX } from './batch-limits.ts';
export { linesFromJson } from './batch-lines.ts';
export { type BatchFile, type BatchRules, checkBatch, takeBatch, takeLeftBehindOnce } from './batch-intake.ts';

const SUBJECT = 'transfer_batch';

interface Scene {
  readonly effect: EffectRow;
  readonly batch: StoredBatch;
  readonly lines: readonly LineWithFate[];
  readonly accounts: Accounts;
  readonly suspense: bigint;
}

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

/** What a line takes from the partner. */
function takenBy(line: Pick<LineWithFate, 'amount' | 'fee'>): bigint {
  return line.amount + (line.fee ?? 0n);
}
function sumOf(lines: readonly LineWithFate[]): bigint {
  return lines.reduce((sum, line) => sum + takenBy(line), 0n);
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
  await storeFates(tx, fates);
  await freeLines(
    tx,
    fates.filter((one) => one.fate === 'not_paid'),
  );
  for (const scene of scenes) {
    const mine = fates.filter((one) => one.batchId === scene.batch.id);
    await giveDayBack(tx, scene, withFate(scene, mine, 'not_paid'));
    const unknown = withFate(scene, mine, 'unknown');
    if (unknown.length > 0) await askForLines(tx, makeId, scene, unknown, 2, 'are not shown, or shown as others');
  }
  const events: NewEvent[] = [];
  for (const [index, { batch }] of scenes.entries())
    events.push(
      toEvent(batch, 'finished', { bank_id: at(ended, index).objectId, ...(await linesForEvent(tx, batch)) }),
    );
  return { items, events };
}

/** What the rail showed of a line. Open is not shown: no batch with an open line settles but by two persons' word. */
function fateOf(
  batchId: string,
  { line, ref }: LineWithFate,
  seq: 1 | 2,
  truths: readonly LineTruth[] | undefined,
): NewFate {
  const truth = truths?.find((one) => one.ref === ref);
  const fate: Fate =
    truth?.outcome === 'paid' || truth?.outcome === 'came_back'
      ? 'paid'
      : truth?.outcome === 'not_paid'
        ? 'not_paid'
        : 'unknown';
  const detail = truth?.detail ?? 'nobody showed this line';
  return { batchId, line, seq, fate, objectId: truth?.objectId ?? null, detail };
}

function withFate(scene: Scene, fates: readonly NewFate[], fate: Fate): LineWithFate[] {
  const named = new Set(fates.filter((one) => one.fate === fate).map((one) => one.line));
  return scene.lines.filter((line) => named.has(line.line));
}

function confirmation(scene: Scene, fates: readonly NewFate[]): LedgerItem {
  const { accounts, suspense, effect, batch } = scene;
  const paid = withFate(scene, fates, 'paid');
  const unknown = withFate(scene, fates, 'unknown');
  const entries: Entry[] = [
    { accountId: accounts.partner, amount: -(sumOf(paid) + sumOf(unknown)) },
    { accountId: accounts.custody, amount: paid.reduce((sum, line) => sum + line.amount, 0n) },
    { accountId: accounts.fees, amount: paid.reduce((sum, line) => sum + (line.fee ?? 0n), 0n) },
    { accountId: suspense, amount: sumOf(unknown) },
  ];
  return {
    kind: 'post',
    key: postingKey.batchConfirm(batch.id),
    reference: batch.id,
    effectId: effect.id,
    entries: entries.filter((entry) => entry.amount !== 0n),
    closesHold: currentHold(effect) ?? undefined,
  };
}

async function giveDayBack(tx: Tx, { batch }: Scene, lines: readonly LineWithFate[]): Promise<void> {
  if (lines.length === 0 || batch.day === null) return;
  const amount = lines.reduce((sum, line) => sum - line.amount, 0n);
  await addToDays(tx, [{ partnerId: batch.partnerId, assetId: batch.assetId, day: batch.day, amount }]);
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
    await storeFates(tx, fates);
    await freeLines(
      tx,
      fates.filter((one) => one.fate === 'not_paid'),
    );
    await giveDayBack(tx, scene, withFate(scene, fates, 'not_paid'));
    items.push(...decided.map((line) => decision(scene, line, now.get(line)?.fate === 'paid')));
    if (decided.length === unknown.length && differ.length === 0)
      await closeCases(tx, [scene.effect.id], ['lines_unknown'], 'the provider shows the lines now');
    events.push(toEvent(scene.batch, 'lines_decided', await linesForEvent(tx, scene.batch)));
  }
  return { items, events };
}

function decision({ accounts, suspense, batch, effect }: Scene, line: LineWithFate, isPaid: boolean): LedgerItem {
  const entries: Entry[] = isPaid
    ? [
        { accountId: accounts.custody, amount: line.amount },
        { accountId: accounts.fees, amount: line.fee ?? 0n },
      ]
    : [{ accountId: accounts.partner, amount: takenBy(line) }];
  return {
    kind: 'post',
    key: postingKey.batchLine(batch.id, line.line),
    reference: batch.id,
    effectId: effect.id,
    entries: [{ accountId: suspense, amount: -takenBy(line) }, ...entries.filter((entry) => entry.amount !== 0n)],
  };
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
  await freeLines(
    tx,
    closing.flatMap((scene) => scene.lines),
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

/** One for each effect, in order. */
async function scenesOf(tx: Tx, chart: Chart, effects: readonly EffectRow[]): Promise<Scene[]> {
  const ids = effects.map((effect) => effect.subjectId);
  const batches = await loadBatches(tx, ids);
  const lines = await loadLines(tx, ids);
  const accounts = await accountsOf(tx, chart, effects);
  const suspense = await chart.ids(
    tx,
    effects.map((effect) => accountName.suspense(effect.asset.id)),
  );
  return effects.map((effect, index) => {
    const batch = batches.get(effect.subjectId);
    if (batch === undefined) throw new InvariantBroken(`effect ${effect.id} names no batch`);
    return {
      effect,
      batch,
      lines: lines.get(batch.id) ?? [],
      accounts: at(accounts, index),
      suspense: at(suspense, index),
    };
  });
}
