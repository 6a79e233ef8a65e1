/** What people are told about the scan: alerts and cases, each keyed so that the same trouble is one row. */
import type { Tx } from '../../db/pool.ts';
import { raiseAlert } from '../../engine/alerts.ts';
import { type NewCase, openCase } from '../../engine/cases.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { amountInWords, type AssetWords, loadAssetWords } from '../../ledger/amount-words.ts';
import type { Doubt } from './doubts.ts';
import type { Sighting } from './sightings.ts';
import type { OffChain } from './store.ts';

export interface TellDeps {
  readonly chain: string;
  readonly makeId: MakeId;
  readonly log: Log;
}

interface Notice {
  readonly alert: string;
  readonly kind: NewCase['kind'];
  readonly severity: NewCase['severity'];
  readonly key: string;
  readonly message: string;
}

export async function tellOfSightings(tx: Tx, deps: TellDeps, sightings: readonly Sighting[]): Promise<void> {
  const told = new Set<string>();
  const strange = sightings.filter((one) => one.class.startsWith('UNKNOWN_'));
  if (strange.length === 0) return;
  const words = await loadAssetWords(tx);
  for (const sighting of strange) {
    const notice = noticeOf(deps.chain, sighting, words);
    if (notice === null || told.has(notice.key)) continue;
    told.add(notice.key);
    const { assetId, amount } = sighting.movement;
    const { alert, kind, severity, key, message } = notice;
    await raiseAlert(tx, alert, key, message, deps.log);
    await openCase(tx, deps.makeId, { kind, severity, subjectKey: key, assetId, amount, summary: message });
  }
}

function noticeOf(chain: string, { class: cls, reason, movement }: Sighting, words: AssetWords): Notice | null {
  const { txHash, position, from, to, assetId, amount } = movement;
  const what = `${amountInWords(words, assetId, amount)} from ${from} to ${to} on ${chain} in ${txHash}`;
  switch (cls) {
    case 'DEPOSIT':
    case 'OWN_EFFECT':
    case 'FUNDING':
      return null;
    case 'UNKNOWN_INBOUND':
      return {
        alert: 'unknown_inbound',
        kind: 'unmatched_inbound',
        severity: 1,
        // One per wallet and asset: dust is cheap for whoever sends it, cases are not for us.
        key: `${chain}:${to}:${assetId}`,
        message: `Inflow that belongs to nobody (${reason}): ${what}. It is in suspense: find its owner.`,
      };
    case 'UNKNOWN_INTERNAL':
      return {
        alert: 'unknown_internal',
        kind: 'unknown_movement',
        severity: 2,
        key: `${chain}:${txHash}:${position}`,
        message: `Movement between our own without a record (${reason}): ${what}. Nobody was credited: find out who sent it.`,
      };
    case 'UNKNOWN_OUTBOUND':
      return {
        alert: 'unknown_outbound',
        kind: 'unknown_movement',
        severity: 3,
        key: `${chain}:${txHash}:${position}`,
        message: `Outflow without a record (${reason}): ${what}. If nobody of you sent it, somebody else has the key.`,
      };
  }
}

/** Transfers of reversed deposits that are final again after all. */
export async function tellOfReturned(
  tx: Tx,
  deps: TellDeps,
  list: readonly { transferId: bigint; txHash: string }[],
): Promise<void> {
  for (const { transferId, txHash } of list) {
    const summary = `Transaction ${txHash}, whose deposit was reversed, is final again. It is not credited by itself: two persons give it to its owner.`;
    await openCase(tx, deps.makeId, {
      kind: 'broken_finality',
      severity: 2,
      subjectKey: `${deps.chain}:transfer:${transferId}`,
      summary,
    });
  }
}

/** Booked transfers that the chain does not show any more, after a person let the scan go on. */
export async function tellOfOffChain(tx: Tx, deps: TellDeps, list: readonly OffChain[]): Promise<void> {
  for (const one of list) {
    const who = one.depositId === null ? `Transfer ${one.transferId} (${one.class})` : `Deposit ${one.depositId}`;
    await openCase(tx, deps.makeId, {
      kind: 'broken_finality',
      severity: 3,
      subjectKey: `${deps.chain}:transfer:${one.transferId}`,
      partnerId: one.partnerId ?? undefined,
      assetId: one.assetId,
      amount: one.amount,
      summary: `${who} was booked and transaction ${one.txHash} is not in the chain any more. Unless it is mined again, reverse it.`,
    });
  }
}

/** Alerts and cases of one key each, so that the alert goes with the case. */
export async function tellOfDoubts(tx: Tx, deps: TellDeps, doubts: readonly Doubt[]): Promise<void> {
  for (const { key, message, severity } of doubts) {
    await raiseAlert(tx, 'unknown_inbound', key, message, deps.log);
    await openCase(tx, deps.makeId, { kind: 'unmatched_inbound', severity, subjectKey: key, summary: message });
  }
}

export async function tellOfUnreadable(tx: Tx, deps: TellDeps, complaints: ReadonlyMap<string, string>): Promise<void> {
  for (const [key, message] of complaints) await raiseAlert(tx, 'deposit_unreadable', key, message, deps.log);
}

export async function tellOfBrokenFinality(tx: Tx, deps: TellDeps, why: string): Promise<void> {
  const summary = `Deposits of ${deps.chain} stopped: ${why}. Find the last common block, and let the scan go on from there.`;
  await raiseAlert(tx, 'deposit_scan_halted', deps.chain, summary, deps.log);
  await openCase(tx, deps.makeId, { kind: 'broken_finality', severity: 3, subjectKey: deps.chain, summary });
}

export async function tellOfDisagreement(tx: Tx, deps: TellDeps, why: string): Promise<void> {
  const message = `Deposits of ${deps.chain} wait until its nodes agree: ${why}.`;
  await raiseAlert(tx, 'deposit_scan_halted', deps.chain, message, deps.log);
}
