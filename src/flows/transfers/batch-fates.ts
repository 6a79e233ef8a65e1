/**
 * The fates of a batch's lines, and what each of them posts: at the end, and when a line that was unknown then is decided, by a
 * later look or by two persons. A line is decided once.
 */
import type { Tx } from '../../db/pool.ts';
import { currentHold } from '../../engine/flow.ts';
import { addToDays } from '../../engine/intake-store.ts';
import type { LineTruth } from '../../engine/rail.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { Entry, LedgerItem } from '../../ledger/post.ts';
import { loadBatches } from './batch-reads.ts';
import { type Fate, type LineWithFate, loadLines, type NewFate, type StoredBatch, storeFates } from './batch-store.ts';
import { type Accounts, accountsOf, at } from './ends.ts';

export interface Scene {
  readonly effect: EffectRow;
  readonly batch: StoredBatch;
  readonly lines: readonly LineWithFate[];
  readonly accounts: Accounts;
  readonly suspense: bigint;
}

/** What a line takes from the partner. */
function takenBy(line: Pick<LineWithFate, 'amount' | 'fee'>): bigint {
  return line.amount + (line.fee ?? 0n);
}
export function sumOf(lines: readonly LineWithFate[]): bigint {
  return lines.reduce((sum, line) => sum + takenBy(line), 0n);
}

/** What the rail showed of a line. Open is not shown: no batch with an open line settles but by two persons' word. */
export function fateOf(
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

export function withFate(scene: Scene, fates: readonly NewFate[], fate: Fate): LineWithFate[] {
  const named = new Set(fates.filter((one) => one.fate === fate).map((one) => one.line));
  return scene.lines.filter((line) => named.has(line.line));
}

export function confirmation(scene: Scene, fates: readonly NewFate[]): LedgerItem {
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

/** What was not paid counts towards its day no longer; a re-opened batch was taken off its day when it was released. */
async function giveDayBack(tx: Tx, { batch, effect }: Scene, lines: readonly LineWithFate[]): Promise<void> {
  if (lines.length === 0 || batch.day === null || effect.reopens > 0) return;
  const amount = lines.reduce((sum, line) => sum - line.amount, 0n);
  await addToDays(tx, [{ partnerId: batch.partnerId, assetId: batch.assetId, day: batch.day, amount }]);
}

/** Writes the fates down, with what follows for lines that were not paid. */
export async function storeWithFates(tx: Tx, scenes: readonly Scene[], fates: readonly NewFate[]): Promise<void> {
  await storeFates(tx, fates);
  for (const scene of scenes) {
    const mine = fates.filter((one) => one.batchId === scene.batch.id);
    await giveDayBack(tx, scene, withFate(scene, mine, 'not_paid'));
  }
}

/** Lines that were unknown get the fates that are given here; answers what it posts, a posting each. */
export async function decideLines(tx: Tx, scene: Scene, fates: readonly NewFate[]): Promise<LedgerItem[]> {
  await storeWithFates(tx, [scene], fates);
  return scene.lines.flatMap((line) => {
    const mine = fates.find((one) => one.line === line.line);
    return mine === undefined ? [] : [decision(scene, line, mine.fate === 'paid')];
  });
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

/** One for each effect, in order. */
export async function scenesOf(tx: Tx, chart: Chart, effects: readonly EffectRow[]): Promise<Scene[]> {
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
