/**
 * Orders and legs of an older system, taken over from a file of JSON lines (M14).
 *
 * What holds: closed orders and their settled legs become rows with their own times, and no money moves for them (why: the head of
 * migration 0023); an order that is still open goes on here, a seller's with what it has not sold set aside, or refused where its
 * partner is short. What is doubtful is told and nothing is written for it, nor guessed. Each old row is taken over once, whatever
 * is run again: the same file gives the same answer, a killed run goes on where it was, and a row that changed meanwhile is doubtful.
 * Never: a file in memory, a statement over all of it, two imports that write at once, money of history.
 *
 * Files: batch (types), lines (bytes → lines), fields, judge (pure), marks and store (statements), take-withdraws, take-deposits.
 */
import { createHash } from 'node:crypto';
import type { Pool, Tx } from '../../../db/pool.ts';
import { needOperator } from '../../../engine/administration.ts';
import { audit } from '../../../engine/audit-log.ts';
import { PayonceError } from '../../../kernel/errors.ts';
import type { Batch, ImportDeps } from './batch.ts';
import { cutLines, readLine, type StagedLine } from './lines.ts';
import { AFTER_ORDERS, BEFORE_ORDERS, FORGET, LINK_LEGS } from './marks.ts';
import {
  ANALYZE,
  beginImport,
  type Counts,
  countLines,
  dropImport,
  finishImport,
  forgetReplaced,
  holdImport,
  type ListedLine,
  listDoubtful,
  loadOrders,
  loadRails,
  type OrderLine,
  stageLines,
} from './store.ts';
import { takeDeposits } from './take-deposits.ts';
import { takeWithdraws } from './take-withdraws.ts';

/** Orders of one transaction: what is locked and lost at most when it fails. */
const BATCH_ORDERS = 500;
/** Lines that are stored or marked at once: a second or less of a statement's time. */
const STRETCH_LINES = 5_000;
const STAGE_LINES = 500;
/** Enough to see what is wrong with a file. */
const UNREADABLE_NAMED_MAX = 20;
/** More than a person reads; the rest stays in payonce.p2p_import_lines and is counted. */
const LISTED_MAX = 10_000;

export type { ImportDeps } from './batch.ts';

export interface ImportFile {
  readonly name: string;
  readonly bytes: AsyncIterable<Uint8Array>;
}

export type ImportStage = 'reading' | 'sorting' | 'sellers' | 'buyers' | 'finishing';

export interface ImportOptions {
  readonly isDry: boolean;
  /** `done` of `total` lines; while reading the total is not known, and `done` is in bytes. */
  readonly onProgress?: (stage: ImportStage, done: bigint, total: bigint | null) => void;
}

export interface Imported extends Counts {
  readonly isDry: boolean;
  readonly sha256: string;
  /** Doubtful and refused rows in the order of the file, 10,000 at most. */
  readonly listed: readonly ListedLine[];
  readonly leftOff: bigint;
}

/**
 * Takes a file over; durable on return, and batch by batch before. A dry run says what would happen and leaves nothing.
 * Throws PO_REQUEST_INVALID for a file with lines that cannot be read at all, PO_BUSY when another import began meanwhile, and what `needOperator` throws.
 */
export async function importP2p(
  deps: ImportDeps,
  operatorKey: string | null,
  file: ImportFile,
  { isDry, onProgress = () => undefined }: ImportOptions,
): Promise<Imported> {
  const { pool } = deps;
  const operator = await needOperator(pool, operatorKey, 'operator');
  const importId = await pool.tx('begin import', (tx) => beginImport(tx, file.name, operator.id));
  while ((await forgetReplaced(pool, STRETCH_LINES)) > 0);
  const { lines, sha256, unreadable } = await stage(pool, importId, file, onProgress);
  // The planner knows nothing of lines that were stored a moment ago.
  await pool.query(ANALYZE);
  const inStretches = async (name: ImportStage, statements: readonly string[]): Promise<void> => {
    for (const sql of statements)
      for (let from = 0n; from < lines; from += BigInt(STRETCH_LINES)) {
        onProgress(name, from, lines);
        await pool.tx('mark lines', async (tx) => {
          await holdImport(tx, importId);
          await tx.query(sql, [importId, from, from + BigInt(STRETCH_LINES)]);
        });
      }
  };
  if (unreadable.length > 0) {
    await inStretches('finishing', FORGET.all);
    await dropImport(pool, importId);
    throw new PayonceError('PO_REQUEST_INVALID', { detail: unreadableText(unreadable) });
  }
  await inStretches('sorting', BEFORE_ORDERS);
  const rails = await loadRails(pool);
  const { rows } = await pool.query<{ now: Date }>('select payonce.now() as now');
  const batch: Batch = { importId, deps, isDry, rails, dryNeeds: new Map(), now: rows[0]?.now ?? new Date(0) };
  await takeAll(batch, 'withdraw_order', takeWithdraws, (done) => onProgress('sellers', done, lines));
  await takeAll(batch, 'deposit_order', takeDeposits, (done) => onProgress('buyers', done, lines));
  await inStretches('finishing', isDry ? AFTER_ORDERS : [...AFTER_ORDERS, ...LINK_LEGS]);

  const counts = await countLines(pool, importId);
  const listed = await listDoubtful(pool, importId, LISTED_MAX);
  await inStretches('finishing', isDry ? FORGET.all : FORGET.done);
  if (isDry) await dropImport(pool, importId);
  else
    await pool.tx('finish import', async (tx) => {
      await holdImport(tx, importId);
      await finishImport(tx, importId, sha256, counts);
      const told = Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, String(count)]));
      await audit(tx, operator.id, 'p2p.import', String(importId), { file: file.name, sha256, ...told });
    });
  return {
    ...counts,
    isDry,
    sha256,
    listed,
    leftOff: counts.doubtful + counts.refused - BigInt(listed.length),
  };
}

async function stage(
  pool: Pool,
  importId: bigint,
  file: ImportFile,
  onProgress: NonNullable<ImportOptions['onProgress']>,
): Promise<{ lines: bigint; sha256: string; unreadable: StagedLine[] }> {
  const hash = createHash('sha256');
  let bytes = 0n;
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of file.bytes) {
      hash.update(chunk);
      bytes += BigInt(chunk.length);
      yield chunk;
    }
  }
  let waiting: StagedLine[] = [];
  const store = async (): Promise<void> => {
    const batch = waiting;
    waiting = [];
    if (batch.length === 0) return;
    await pool.tx('stage lines', async (tx) => {
      await holdImport(tx, importId);
      await stageLines(tx, importId, batch);
    });
    onProgress('reading', bytes, null);
  };
  let line = 0;
  const unreadable: StagedLine[] = [];
  for await (const cut of cutLines(counted())) {
    line += 1;
    const read = readLine(line, cut);
    if (read?.kind === 'unreadable') unreadable.push({ ...read, content: null });
    else if (read !== null) waiting.push(read);
    if (unreadable.length > UNREADABLE_NAMED_MAX) break;
    if (waiting.length >= STAGE_LINES) await store();
  }
  await store();
  return { lines: BigInt(line), sha256: hash.digest('hex'), unreadable };
}

/** A line that cannot be read may be a settled leg of any order: without it an order would seem to have ended with nothing. */
function unreadableText(lines: readonly StagedLine[]): string {
  const named = lines.slice(0, UNREADABLE_NAMED_MAX).map(({ line, doubt }) => `line ${line} ${doubt ?? ''}`);
  const more = lines.length > named.length ? '; and there are more' : '';
  return `Nothing was taken over, since any line may be a leg that an order needs: ${named.join('; ')}${more}. Correct them and run it again`;
}

async function takeAll(
  batch: Batch,
  kind: 'deposit_order' | 'withdraw_order',
  take: (tx: Tx, batch: Batch, lines: readonly OrderLine[]) => Promise<void>,
  onProgress: (done: bigint) => void,
): Promise<void> {
  const { importId, deps } = batch;
  let done = 0n;
  for (let after = ''; ; ) {
    const orders = await loadOrders(deps.pool, importId, kind, after, BATCH_ORDERS);
    const last = orders.at(-1);
    if (last === undefined) return;
    await deps.pool.tx('import orders', async (tx) => {
      await holdImport(tx, importId);
      await take(tx, batch, orders);
    });
    after = last.oldId;
    done += BigInt(orders.length);
    onProgress(done);
  }
}
