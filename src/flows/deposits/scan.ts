/**
 * The scanner: from final blocks to booked deposits, and from the head to detected ones.
 *
 * A run looks for the highest block that enough operators call final, reads on from the cursor (with an overlap) batch by
 * batch, and books each batch in one transaction with the cursor's step. Each batch's last hash is compared with every
 * node that has it as final: another hash anywhere stops credits until they agree (case F5). A final block that differs
 * from the one read earlier stops them until a person lets the scan go on. Either stops the rail's new seals too. What a batch
 * holds for us is read from as many operators as must agree, and compared, before it is booked. Any number of scanners may run;
 * the cursor's row decides which of two books a batch, and the transfers' own rows would if it did not (W11).
 */
import type { Tx } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { goOnAfterDisagreement, stopOnBrokenFinality, stopWhileNodesDisagree } from '../../engine/chain-doubt.ts';
import { assert } from '../../kernel/errors.ts';
import { agreedHeight, askAgreement, type Final, readFinals } from './agreement.ts';
import { type Block, type BlockHeader, type BlockSource, readRun } from './block-source.ts';
import { bookFinal, type Booked, NOTHING_BOOKED } from './book.ts';
import { agreeOnContent } from './content-agreement.ts';
import * as cursors from './cursor-store.ts';
import { type DetectDeps, detectAtHead } from './detect.ts';
import * as limits from './limits.ts';
import { tellOfBrokenFinality, tellOfDisagreement, tellOfOffChain } from './people.ts';
import { findSightings, NOTHING_SKIPPED, type Skipped } from './sightings.ts';
import { loadOffChain } from './store.ts';

export interface ScannerDeps extends DetectDeps {
  readonly nodes: readonly BlockSource[];
  /** Operators that must show the same final block; absent: 2, or 1 where one operator runs all nodes. */
  readonly agreeing?: number;
  /** Where a chain that was never scanned begins; absent: after the block that is final now. */
  readonly firstBlock?: bigint;
  readonly overlapBlocks?: bigint;
  readonly batchBlocks?: number;
}

export interface ScanResult extends Booked {
  /** `scanned` blocks were booked · `idle` nothing new is final · `waiting` nodes are short of what is needed ·
   *  `halted` credits are stopped · `lost` another scanner was there. */
  readonly outcome: 'scanned' | 'idle' | 'waiting' | 'halted' | 'lost';
  readonly why: string | null;
  /** The first block that is not booked yet. */
  readonly next: bigint | null;
  readonly skipped: Skipped;
}

export interface Scanner {
  runOnce(): Promise<ScanResult>;
  /** Reads booked blocks again, up to the cursor: what was left out then is booked now, nothing twice. `idle`: none of them is
   *  booked yet. `next`: the first block that was not read again. */
  rescan(from: bigint, to: bigint): Promise<ScanResult>;
}

/** What one batch came to. */
type Step =
  | { readonly step: 'booked'; readonly booked: Booked; readonly skipped: Skipped; readonly next: bigint }
  | Stop;
interface Stop {
  readonly step: 'waiting' | 'halted' | 'lost';
  readonly why: string;
}
interface Range {
  readonly from: bigint;
  readonly to: bigint;
  readonly overlap: bigint;
  /** The cursor moves with it; otherwise it lies behind the cursor. */
  readonly fresh: boolean;
}

export function makeScanner(deps: ScannerDeps): Scanner {
  const operators = new Set(deps.nodes.map((node) => node.operator)).size;
  const agreeing = deps.agreeing ?? Math.min(2, operators);
  const batch = BigInt(deps.batchBlocks ?? limits.BATCH_BLOCKS);
  const told = makeWaitTeller(deps);

  /** Batches until `last`, or until one stops. */
  async function bookUpTo(finals: readonly Final[], first: bigint, last: bigint, fresh: boolean): Promise<ScanResult> {
    let total: ScanResult = { ...NOTHING_BOOKED, outcome: 'scanned', why: null, next: first, skipped: NOTHING_SKIPPED };
    for (let from = first; from <= last; ) {
      const overlap = fresh && from === first ? (deps.overlapBlocks ?? limits.OVERLAP_BLOCKS) : 0n;
      const step = await bookBatch(deps, agreeing, finals, {
        from,
        to: least(last, from + batch - 1n),
        overlap,
        fresh,
      });
      if (step.step !== 'booked') return { ...total, outcome: step.step, why: step.why };
      total = {
        ...total,
        ...addBooked(total, step.booked),
        skipped: addSkipped(total.skipped, step.skipped),
        next: step.next,
      };
      from = step.next;
    }
    return total;
  }

  return {
    async runOnce() {
      const finals = await readFinals(deps.nodes);
      const target = agreedHeight(finals, agreeing);
      if (target === null) return told.of(stopped('waiting', null, tooFew(finals, deps, agreeing)));
      const cursor = await loadOrCreateCursor(deps, target);
      if (cursor.halted === 'finality_broken') {
        return stopped('halted', cursor.next, 'finality was broken: a person lets the scan go on');
      }
      const last = least(target, cursor.next + BigInt(limits.RUN_BLOCKS_MAX) - 1n);
      if (cursor.halted === 'nodes_disagree' && last < cursor.next) {
        const stop = await agreeAgain(deps, agreeing, finals, cursor.next);
        if (stop !== null) return told.of(stopped(stop.step, cursor.next, stop.why));
      }
      const booked = await bookUpTo(finals, cursor.next, last, true);
      if (booked.outcome !== 'scanned' || booked.next === null || last < target) return told.of(booked);
      const seen = await detectAtHead(deps, finals, booked.next);
      const outcome = booked.next > cursor.next ? 'scanned' : 'idle';
      return told.of({ ...booked, ...addBooked(booked, seen), outcome });
    },
    async rescan(from, to) {
      const finals = await readFinals(deps.nodes);
      const target = agreedHeight(finals, agreeing);
      const cursor = await cursors.loadCursor(deps.pool, deps.chain);
      if (target === null) return stopped('waiting', null, tooFew(finals, deps, agreeing));
      if (cursor === null) return stopped('waiting', null, 'it was never scanned: nothing was left out');
      if (cursor.halted === 'finality_broken')
        return stopped('halted', cursor.next, 'finality was broken: a person lets the scan go on first');
      if (from >= cursor.next) return stopped('idle', cursor.next, `the scan itself comes to block ${from} next`);
      return bookUpTo(finals, from, least(least(to, target), cursor.next - 1n), false);
    },
  };
}

/** A person lets the scan go on after broken finality, from the first block that is not common any more. */
export async function resumeScan(tx: Tx, chain: string, from: bigint): Promise<'resumed' | 'not_halted'> {
  if (!(await cursors.resumeCursor(tx, chain, from))) return 'not_halted';
  await cursors.deleteBlocksFrom(tx, chain, from);
  return 'resumed';
}

async function loadOrCreateCursor(deps: ScannerDeps, target: bigint): Promise<cursors.Cursor> {
  const found = await cursors.loadCursor(deps.pool, deps.chain);
  if (found !== null) return found;
  await deps.pool.tx('begin to scan', (tx) => cursors.createCursor(tx, deps.chain, deps.firstBlock ?? target + 1n));
  const created = await cursors.loadCursor(deps.pool, deps.chain);
  if (created === null) throw new Error(`the scan of ${deps.chain} has no cursor`);
  return created;
}

/** Reads, compares and books one range, as far as the nodes give it. */
async function bookBatch(deps: ScannerDeps, agreeing: number, finals: readonly Final[], range: Range): Promise<Step> {
  const { from, to, fresh } = range;
  const rows = await cursors.loadBlocks(deps.pool, deps.chain, from - range.overlap - 1n, to);
  // Above the cursor stand the hashes of the head, which may change.
  const known = fresh ? rows.filter((block) => block.number < from) : rows;
  // The lowest known block is the parent of the first one read again.
  const start = fresh ? (known[1]?.number ?? from) : from;
  const { blocks, fault, by } = await readSomewhere(finals, start, from, to);
  const end = blocks.at(-1);
  if (end === undefined) return { step: 'waiting', why: fault };
  const agreement = await askAgreement(finals, end, agreeing);
  if (agreement.verdict === 'too_few') return { step: 'waiting', why: agreement.why };
  if (agreement.verdict === 'disagree') return halt(deps, 'nodes_disagree', agreement.why);
  const changed = firstChanged(blocks, known);
  if (changed !== null)
    return halt(deps, 'finality_broken', `final block ${changed} is another one than was read before`);
  const found = await findSightings(deps.pool, deps, blocks);
  if (by !== null) {
    const content = await agreeOnContent(
      deps.pool,
      deps,
      finals,
      { ...by, blocks, sightings: found.sightings },
      agreeing,
    );
    // Nothing of it is booked, and payments go on: what they are final by is the block, and that is one.
    if (content.verdict !== 'agreed') return { step: 'waiting', why: content.why };
  }
  return deps.pool.tx('book deposits', async (tx): Promise<Step> => {
    const cursor = await cursors.lockCursor(tx, deps.chain);
    const ours =
      cursor !== null &&
      cursor.halted !== 'finality_broken' &&
      (fresh ? cursor.next === from : cursor.next > end.number);
    if (!ours) return { step: 'lost', why: 'another scanner was there' };
    // Before anything is booked: rails come before wallets in the order of locks.
    if (fresh && cursor.halted === 'nodes_disagree') await goOnAfterDisagreement(tx, deps);
    await cursors.writeBlocks(tx, deps.chain, blocks);
    const booked = await bookFinal(tx, deps, found);
    await tellOfOffChain(tx, deps, await loadOffChain(tx, deps.chain, start, end.number));
    if (fresh) {
      const moved = await cursors.advanceCursor(tx, deps.chain, from, end.number + 1n);
      assert(moved, `the cursor of ${deps.chain} moved under its lock`);
      await cursors.pruneBlocks(tx, deps.chain, end.number - limits.BLOCKS_KEPT);
    }
    // DURABLE: the batch's deposits are credited, posted and told, and the cursor stands after it.
    return { step: 'booked', booked, skipped: found.skipped, next: end.number + 1n };
  });
}

/**
 * The first node that gives the whole run; where none does, half of it, down to the one block that is needed. A node that
 * leaves a transaction out because it does not read gives it only if no other one reads more.
 */
async function readSomewhere(
  finals: readonly Final[],
  start: bigint,
  from: bigint,
  to: bigint,
): Promise<{ blocks: readonly Block[]; fault: string; by: { operator: string; source: string } | null }> {
  let fault = `no node has block ${to} as final`;
  for (let first = start, last = to; ; first = from, last = from + (last - from) / 2n) {
    let best: { blocks: readonly Block[]; by: { operator: string; source: string } } | null = null;
    for (const { node } of finals.filter(({ head }) => head.number >= last)) {
      const run = await readRun(node, first, last);
      if (run.fault !== null) fault = run.fault;
      else if (best === null || countUnread(run.blocks) < countUnread(best.blocks))
        best = { blocks: run.blocks, by: { operator: node.operator, source: node.source } };
      if (best !== null && countUnread(best.blocks) === 0) break;
    }
    if (best !== null) return { ...best, fault };
    if (first === from && last === from) return { blocks: [], fault, by: null };
  }
}

function countUnread(blocks: readonly Block[]): number {
  return blocks.reduce((sum, block) => sum + (block.unread?.length ?? 0), 0);
}

/** The height at which the blocks differ from what was read before, their parent included; `null`: nowhere. */
function firstChanged(blocks: readonly Block[], known: readonly BlockHeader[]): bigint | null {
  const hashes = new Map(known.map((block) => [block.number, block.hash]));
  for (const [index, block] of blocks.entries()) {
    const parent = hashes.get(block.number - 1n);
    if (index === 0 && parent !== undefined && parent !== block.parentHash) return block.number - 1n;
    if ((hashes.get(block.number) ?? block.hash) !== block.hash) return block.number;
  }
  return null;
}

async function halt(deps: ScannerDeps, kind: cursors.HaltKind, why: string): Promise<Stop> {
  await deps.pool.tx('stop credits', async (tx) => {
    if (!(await cursors.haltCursor(tx, deps.chain, kind, why))) return;
    if (kind === 'finality_broken') {
      await stopOnBrokenFinality(tx, deps.rail, why, deps.log);
      await tellOfBrokenFinality(tx, deps, why);
    } else {
      await stopWhileNodesDisagree(tx, deps, { rail: deps.rail, chain: deps.chain, why });
      await tellOfDisagreement(tx, deps, why);
    }
  });
  return { step: 'halted', why };
}

/** After a disagreement with nothing new to read: the last booked block is asked about again. `null`: they agree. */
async function agreeAgain(
  deps: ScannerDeps,
  agreeing: number,
  finals: readonly Final[],
  next: bigint,
): Promise<Stop | null> {
  const [last] = await cursors.loadBlocks(deps.pool, deps.chain, next - 1n, next - 1n);
  if (last !== undefined) {
    const agreement = await askAgreement(finals, last, agreeing);
    if (agreement.verdict !== 'agreed')
      return { step: agreement.verdict === 'disagree' ? 'halted' : 'waiting', why: agreement.why };
  }
  await deps.pool.tx('the nodes agree again', async (tx) => {
    if (await cursors.advanceCursor(tx, deps.chain, next, next)) await goOnAfterDisagreement(tx, deps);
  });
  return null;
}

/** Counts runs that could not go on, and tells people of the trouble and of its end. */
function makeWaitTeller(deps: ScannerDeps): { of(result: ScanResult): Promise<ScanResult> } {
  let waits = 0;
  // A process before this one may have left an alert open.
  let alertsOpen = true;
  return {
    async of(result) {
      if (result.outcome === 'halted') alertsOpen = true;
      if (result.outcome === 'waiting') {
        waits += 1;
        deps.log.warn({ chain: deps.chain, why: result.why }, 'the deposit scan waits');
        if (waits < limits.WAITS_ALERTED) return result;
        alertsOpen = true;
        const message = `Deposits of ${deps.chain} wait: ${result.why ?? 'no reason was given'}. Look after its nodes.`;
        await raiseAlert(deps.pool, 'deposit_scan_waits', deps.chain, message, deps.log);
      } else if (result.outcome === 'scanned' || result.outcome === 'idle') {
        waits = 0;
        if (!alertsOpen) return result;
        await clearAlert(deps.pool, 'deposit_scan_waits', deps.chain);
        await clearAlert(deps.pool, 'deposit_scan_halted', deps.chain);
        alertsOpen = false;
      }
      return result;
    },
  };
}

function stopped(outcome: ScanResult['outcome'], next: bigint | null, why: string): ScanResult {
  return { ...NOTHING_BOOKED, outcome, next, why, skipped: NOTHING_SKIPPED };
}

function tooFew(finals: readonly Final[], deps: ScannerDeps, agreeing: number): string {
  const silent = deps.nodes.filter((node) => !finals.some((one) => one.node === node)).map((node) => node.source);
  return `fewer than ${agreeing} operators tell a final block; silent: ${silent.join(', ') || 'none'}`;
}

function addBooked(one: Booked, other: Booked): Booked {
  return {
    credited: one.credited + other.credited,
    detected: one.detected + other.detected,
    vanished: one.vanished + other.vanished,
    transfers: one.transfers + other.transfers,
  };
}

function addSkipped(one: Skipped, other: Skipped): Skipped {
  return {
    lookAlikes: one.lookAlikes + other.lookAlikes,
    malformed: one.malformed + other.malformed,
    zeroAmounts: one.zeroAmounts + other.zeroAmounts,
  };
}

function least(left: bigint, right: bigint): bigint {
  return left < right ? left : right;
}
