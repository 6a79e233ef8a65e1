/**
 * Intake of files with many transfers: the lines that can be paid are taken, the others are told with line and column.
 *
 * A file is known by its key, or, where the caller gives none, by its bytes: the same one again is the same batch. Where the
 * provider pays one by one, each good line becomes a transfer under a key derived from the file's and the line's own
 * reference, or its number: a crash in the middle is finished by the same file, or by a worker, and never pays twice. Where
 * the provider takes many lines at once the file is one order, held and paid as one, whose lines have fates of their own.
 * A line that pays what is being paid already is not taken: the same reference, or, without one, the same payee and amount
 * in another file of these days (a corrected file is uploaded whole).
 */
import { createHash } from 'node:crypto';
import { type Query, sqlState, type Tx } from '../../db/pool.ts';
import {
  type CreateDeps,
  type CreateOutcome,
  feeBy,
  type Objection,
  type Order,
  type OrderKind,
  outsideLimits,
  replay,
  takeOrders,
} from '../../engine/intake.ts';
import { loadKnownKeys, loadPolicies, lockKeys, type Policy, storeKeys } from '../../engine/intake-store.ts';
import type { BatchLine } from '../../engine/rail.ts';
import { InvariantBroken, type Problem, toProblem } from '../../kernel/errors.ts';
import { deriveLineKey, lengthPrefixed, naturalKey } from '../../kernel/ids.ts';
import { GROUP_COMMIT_ITEMS_MAX } from '../../kernel/limits.ts';
import type { Log } from '../../kernel/log.ts';
import { formatUnits } from '../../kernel/money.ts';
import { emit } from '../../outbox/emit.ts';
import type { LineFault, RawLine } from './batch-file.ts';
import { REPEATED_WITHIN_HOURS } from './batch-limits.ts';
import { type GoodLine, judgeLines, twice } from './batch-lines.ts';
import { loadBatches, toBatchView } from './batch-reads.ts';
import {
  type Batch,
  findByFile,
  findTaken,
  findUntaken,
  type Line,
  loadWaiting,
  markTaken,
  storeBatches,
  storeFaults,
  storeLines,
  storeSubject,
} from './batch-store.ts';
import { createTransfers, type PayeeCheck, type TransferRequest } from './intake.ts';
import { lockFiles } from './references.ts';

const SUBJECT = 'transfer_batch';
const OPERATION = 'transfer_batch.create';
/** An uploader takes the lines of its file itself, in seconds; what is older than this it left behind. */
const LEFT_BEHIND_MS = 30_000;
const FILES_AT_ONCE = 10;

export interface BatchFile {
  readonly partnerId: string;
  /** The caller's own, or `null`: the file's bytes are its key. */
  readonly idempotencyKey: string | null;
  readonly sha256: string;
  readonly format: 'csv' | 'json';
  readonly asset: { readonly id: string; readonly code: string; readonly decimals: number };
  readonly lines: readonly RawLine[];
}

/** Of the rail that pays this asset. */
export interface BatchRules {
  readonly readPayee: PayeeCheck;
  /** Lines in one order; 1: one by one. */
  readonly linesMax: number;
}

export interface BatchCheck {
  readonly good: readonly GoodLine[];
  readonly faults: readonly LineFault[];
  readonly amount: bigint;
  /** By today's terms. */
  readonly fee: bigint;
  /** Some lines are refused because something else pays them, or paid them. */
  readonly paidElsewhere: boolean;
}

export type BatchOutcome =
  | CreateOutcome
  /** No line can be paid: nothing is stored. */
  | { readonly outcome: 'nothing_good'; readonly faults: readonly LineFault[]; readonly paidElsewhere: boolean };

/** What would become of the file, without storing it. A refusal: why none of it can be paid. */
export async function checkBatch(
  query: Query,
  file: BatchFile,
  rules: BatchRules,
): Promise<BatchCheck | { readonly problem: Problem }> {
  const { partnerId, asset } = file;
  const [policy] = await loadPolicies(query, [{ partnerId, assetId: asset.id }]);
  if (policy === undefined)
    return {
      problem: toProblem('PO_ASSET_UNKNOWN', {
        pointer: '/asset',
        detail: 'This asset cannot be paid out',
        got: asset.code,
      }),
    };
  const judged = judgeLines(file.lines, {
    readPayee: rules.readPayee,
    decimals: asset.decimals,
    assetNames: [asset.code, asset.id],
    limit: (amount) => outsideLimits(amount, policy)?.expected ?? null,
  });
  const taken = await takenBy(query, file, judged.good);
  const good = judged.good.filter((line) => !taken.has(line.line));
  if (rules.linesMax > 1 && good.length > rules.linesMax) return { problem: tooMany(good.length, rules.linesMax) };
  const faults = [...judged.faults, ...taken.values()].sort((left, right) => left.line - right.line);
  return {
    good,
    faults,
    amount: sumOf(good),
    fee: good.reduce((sum, one) => sum + feeBy(policy, one.amount), 0n),
    paidElsewhere: taken.size > 0,
  };
}

/** Durable on return: the file with its lines, good and bad. Then its transfers are taken, as far as nothing fails. */
export async function takeBatch(
  deps: CreateDeps & { readonly log: Log },
  file: BatchFile,
  rules: BatchRules,
): Promise<BatchOutcome> {
  const key = file.idempotencyKey ?? `file:${file.sha256}`;
  const known = await findKnown(deps.pool, file, key);
  if (known !== null) {
    // The same file again finishes what a crash left.
    if (known.outcome === 'replayed') await takeLinesIfOpen(deps, known.id);
    return known;
  }
  const check = await checkBatch(deps.pool, file, rules);
  if ('problem' in check) return { outcome: 'refused', problem: check.problem, replayed: false };
  if (check.good.length === 0)
    return { outcome: 'nothing_good', faults: check.faults, paidElsewhere: check.paidElsewhere };
  const order = toOrder(file, key, check);
  if (rules.linesMax > 1) {
    const [outcome] = await takeOrders(deps, BATCH, [order]);
    if (outcome === undefined) throw new Error('a batch was not answered');
    return outcome;
  }
  const outcome = await storeFile(deps, order);
  if (outcome.outcome === 'created') await takeLinesIfOpen(deps, outcome.id);
  return outcome;
}

/** Files whose uploader died: their lines are taken now. Answers how many files there were. */
export async function takeLeftBehindOnce(deps: CreateDeps & { readonly log: Log }): Promise<number> {
  const ids = await findUntaken(deps.pool, LEFT_BEHIND_MS, FILES_AT_ONCE);
  for (const id of ids) await takeLinesIfOpen(deps, id);
  return ids.length;
}

async function findKnown(query: Query, file: BatchFile, key: string): Promise<CreateOutcome | null> {
  const { partnerId, sha256 } = file;
  const [before] = await loadKnownKeys(query, [{ partnerId, key }]);
  if (before !== undefined) return replay(OPERATION, before, { fingerprint: fingerprintOf(file) });
  if (file.idempotencyKey !== null) return null;
  // It was uploaded under a key of its own before, and now without: it is the same file.
  const twin = await findByFile(query, partnerId, sha256);
  if (twin === null) return null;
  return twin.assetId === file.asset.id
    ? { outcome: 'replayed', id: twin.id }
    : { outcome: 'key_reused', resource: { type: SUBJECT, id: twin.id } };
}

/** The same bytes for another asset are another order. */
function fingerprintOf(file: Pick<BatchFile, 'sha256' | 'format' | 'asset'>): string {
  return createHash('sha256')
    .update(lengthPrefixed([file.format, file.asset.id, file.sha256]))
    .digest('hex');
}

async function takenBy(query: Query, file: BatchFile, good: readonly GoodLine[]): Promise<Map<number, LineFault>> {
  const taken = await findTaken(
    query,
    file.partnerId,
    file.asset.id,
    good.map((line) => ({ ...line, ...line.payee })),
    REPEATED_WITHIN_HOURS,
  );
  return new Map(
    good.flatMap((line, index) => {
      const where = taken.get(index);
      return where === undefined ? [] : [[line.line, twice(line, where, file.asset.decimals)] as const];
    }),
  );
}

function tooMany(lines: number, max: number): Problem {
  return toProblem('PO_FILE_INVALID', {
    detail: 'The file has more lines than the provider of this asset takes at once',
    pointer: '/file',
    got: `${lines} lines`,
    expected: `at most ${max}: split it`,
  });
}

function sumOf(lines: readonly Pick<GoodLine, 'amount'>[]): bigint {
  return lines.reduce((sum, line) => sum + line.amount, 0n);
}

/** A file as one order to pay. */
interface BatchOrder extends Order {
  readonly file: BatchFile;
  readonly good: readonly GoodLine[];
  readonly faults: readonly LineFault[];
}

function toOrder(file: BatchFile, key: string, check: BatchCheck): BatchOrder {
  return {
    partnerId: file.partnerId,
    idempotencyKey: key,
    fingerprint: fingerprintOf(file),
    externalId: null,
    assetId: file.asset.id,
    amount: check.amount,
    destination: `${check.good.length} lines`,
    file,
    good: check.good,
    faults: check.faults,
  };
}

function refOf(order: BatchOrder, { externalId, line }: GoodLine): string {
  const name = externalId === null ? lengthPrefixed(['line', String(line)]) : lengthPrefixed(['reference', externalId]);
  return deriveLineKey(naturalKey(order.partnerId, order.idempotencyKey), name);
}

const BATCH: OrderKind<BatchOrder> = {
  operation: OPERATION,
  subjectType: SUBJECT,
  idPrefix: 'tb',
  debits: () => true,
  refuses: () => null,
  lines: (order) =>
    order.good.map((line): BatchLine => ({ ref: refOf(order, line), payee: line.payee, amount: line.amount })),
  objections,
  loadExternalIds: () => Promise.resolve(new Map()),
  async store(tx, drafts) {
    for (const { id, order, policy, fee } of drafts) await storeAll(tx, order, id, 'batch', { policy, fee });
  },
  view: ({ id, order, policy, fee }) => createdView(order, id, 'batch', formatUnits(fee, policy.decimals)),
};

/** Two files at once with a line in common: the second is refused whole, and may come again under another key. */
async function objections(tx: Tx, orders: readonly BatchOrder[]): Promise<readonly (Objection | null)[]> {
  const all: (Objection | null)[] = [];
  for (const order of orders) {
    await lockFiles(tx, order.partnerId);
    const [first] = (await takenBy(tx, order.file, order.good)).values();
    all.push(
      first === undefined
        ? null
        : {
            code: 'PO_EXTERNAL_ID_TAKEN',
            facts: {
              pointer: `/line ${first.line}`,
              got: first.got,
              expected: first.expected,
              detail:
                'Another file with this line came at the same moment: upload this one again with an Idempotency-Key',
            },
          },
    );
  }
  return all;
}

async function storeAll(
  tx: Tx,
  order: BatchOrder,
  id: string,
  paysAs: Batch['paysAs'],
  terms: { readonly policy: Policy; readonly fee: bigint } | null,
): Promise<void> {
  const { partnerId, idempotencyKey, assetId, amount, file } = order;
  const { sha256, format } = file;
  const fee = terms?.fee ?? null;
  const day = terms?.policy.day ?? null;
  await storeBatches(tx, [
    { id, partnerId, idempotencyKey, fileSha256: sha256, format, paysAs, assetId, amount, fee, day },
  ]);
  await storeLines(
    tx,
    order.good.map(
      (line): Line => ({
        batchId: id,
        line: line.line,
        ref: refOf(order, line),
        partnerId,
        externalId: line.externalId,
        amount: line.amount,
        fee: terms === null ? null : feeBy(terms.policy, line.amount),
        bankCode: line.payee.bankCode,
        accountNumber: line.payee.accountNumber,
        holderName: line.holderName,
        holderNameNfc: line.payee.holderName,
        memo: line.payee.memo,
      }),
    ),
  );
  await storeFaults(tx, id, order.faults);
}

function createdView(
  order: BatchOrder,
  id: string,
  paysAs: Batch['paysAs'],
  fee: string | null,
): Record<string, unknown> {
  const { file, good, faults } = order;
  const { asset } = file;
  const batch = { ...order, id, paysAs, fee: null, day: null, fileSha256: file.sha256, format: file.format };
  const view = toBatchView(
    { ...batch, assetCode: asset.code, decimals: asset.decimals, requestedAt: new Date(0) },
    'pending',
  );
  return {
    ...view,
    fee,
    requested_at: undefined,
    lines: { good: good.length, bad: new Set(faults.map((fault) => fault.line)).size },
  };
}

/** The file whose lines will be transfers: stored whole before the first of them. */
async function storeFile(deps: CreateDeps, order: BatchOrder): Promise<CreateOutcome> {
  const { partnerId, idempotencyKey: key, fingerprint } = order;
  const natural = naturalKey(partnerId, key);
  return deps.pool.tx(OPERATION, async (tx): Promise<CreateOutcome> => {
    await lockKeys(tx, [natural]);
    const [before] = await loadKnownKeys(tx, [{ partnerId, key }]);
    if (before !== undefined) return replay(OPERATION, before, { fingerprint });
    const [objection] = await objections(tx, [order]);
    if (objection !== null && objection !== undefined)
      return { outcome: 'refused', problem: toProblem(objection.code, objection.facts), replayed: false };
    const id = deps.makeId('tb');
    await storeSubject(tx, id, partnerId, natural);
    await storeAll(tx, order, id, 'transfers', null);
    await storeKeys(tx, [
      { partnerId, key, operation: OPERATION, fingerprint, resourceType: SUBJECT, resourceId: id, refusal: null },
    ]);
    await emit(tx, deps.makeId, [
      {
        subjectType: SUBJECT,
        subjectId: id,
        type: 'transfer_batch.created',
        data: createdView(order, id, 'transfers', null),
      },
    ]);
    return { outcome: 'created', id };
  });
}

/** Never fails: the file is stored, and what is not taken now is taken by whoever comes next. */
async function takeLinesIfOpen(deps: CreateDeps & { readonly log: Log }, id: string): Promise<void> {
  try {
    await takeLines(deps, id);
  } catch (error) {
    deps.log.error({ err: error, batch: id }, 'lines of a file are not taken yet; they are tried again');
  }
}

async function takeLines(deps: CreateDeps & { readonly log: Log }, id: string): Promise<void> {
  const batch = (await loadBatches(deps.pool, [id])).get(id);
  if (batch === undefined || batch.paysAs !== 'transfers') return;
  for (;;) {
    const waiting = await loadWaiting(deps.pool, id, GROUP_COMMIT_ITEMS_MAX);
    if (waiting.length === 0) break;
    await takeTogether(
      deps,
      waiting.map((line) => toTransfer(line, batch.assetId)),
    );
  }
  await markTaken(deps.pool, id);
}

/** One that cannot be stored must not stand before the others. */
async function takeTogether(
  deps: CreateDeps & { readonly log: Log },
  requests: readonly TransferRequest[],
): Promise<void> {
  try {
    await createTransfers(deps, requests);
  } catch (error) {
    if (requests.length === 1 || !isLinesFault(error)) throw error;
    deps.log.warn({ err: error, lines: requests.length }, 'lines could not be taken together; trying half of them');
    const half = Math.ceil(requests.length / 2);
    const failures: unknown[] = [];
    for (const part of [requests.slice(0, half), requests.slice(half)]) {
      await takeTogether(deps, part).catch((failure: unknown) => failures.push(failure));
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** SQLSTATE classes 22 (data), 23 (constraint) and P0 (our guards) are what a single line can cause. */
function isLinesFault(error: unknown): boolean {
  return error instanceof InvariantBroken || /^(?:22|23|P0)/.test(sqlState(error) ?? '');
}

function toTransfer(line: Line, assetId: string): TransferRequest {
  const { partnerId, externalId, amount, bankCode, accountNumber, holderName, holderNameNfc, memo } = line;
  const texts = [externalId ?? '', amount.toString(), assetId, bankCode, accountNumber, holderName, memo];
  return {
    partnerId,
    idempotencyKey: line.ref,
    fingerprint: createHash('sha256').update(lengthPrefixed(texts)).digest('hex'),
    externalId,
    assetId,
    amount,
    destination: `${bankCode}:${accountNumber}`,
    payee: { bankCode, accountNumber, holderName: holderNameNfc, memo },
    holderName,
    repays: null,
  };
}
