/**
 * Files with many transfers over HTTP: upload, look at them, look at their lines. Answered after the file is stored; its
 * transfers are taken before the answer too, as far as nothing fails, and by the workers otherwise (case C5).
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { FastifyRequest } from 'fastify';
import {
  BATCH_BYTES_MAX,
  type BatchFile,
  type BatchRules,
  checkBatch,
  linesFromJson,
  type RawLine,
  readCsv,
  takeBatch,
} from '../../flows/transfers/batch.ts';
import { listBatches, loadBatches, readBatch, readLines, toFaultView } from '../../flows/transfers/batch-reads.ts';
import { PayonceError, toProblem } from '../../kernel/errors.ts';
import { formatUnits } from '../../kernel/money.ts';
import { loadBalances } from '../../ledger/statements.ts';
import { callerOf } from '../auth.ts';
import * as shapes from '../batch-schemas.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { idempotencyKeyOf } from '../idempotency.ts';
import { assertUtf8 } from '../json.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { answerIntake, loadDetail, type ReadableOrders } from '../orders.ts';
import { answerError, sendProblem, toGot } from '../problems.ts';
import * as schemas from '../schemas.ts';
import type { Asset } from '../store.ts';
import type { Routes } from './routes.ts';
import { payeeCheckOf } from './transfers.ts';

interface Upload {
  readonly asset: string;
  readonly format: BatchFile['format'];
  readonly sha256: string;
  readonly lines: readonly RawLine[];
}

/** In a scope of its own: CSV is read here and nowhere else. */
export function transferBatchRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const tags = ['transfers'];
  const kind: ReadableOrders = {
    type: 'transfer_batch',
    path: '/v1/transfer-batches',
    readDetail: (partnerId, id) => readBatch(deps.pool, partnerId, id),
  };
  app.addContentTypeParser('text/csv', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    assertUtf8(request.headers['content-type'] ?? '');
    return bytes;
  });

  app.post(
    '/transfer-batches',
    {
      bodyLimit: BATCH_BYTES_MAX,
      errorHandler(error, request, reply) {
        const told =
          error.statusCode === 413
            ? new PayonceError('PO_REQUEST_TOO_LARGE', {
                pointer: '',
                expected: `at most ${BATCH_BYTES_MAX} bytes: split the file`,
              })
            : error.statusCode === 415
              ? new PayonceError('PO_REQUEST_MEDIA', {
                  detail: 'The body is neither CSV nor JSON',
                  pointer: '/headers/content-type',
                  expected: 'text/csv or application/json, in utf-8',
                })
              : error;
        sendProblem(reply, answerError(deps, told, request));
      },
      schema: {
        tags,
        operationId: 'createTransferBatch',
        summary: 'Upload a file with many transfers',
        description:
          'Good lines are paid, bad ones are listed in bad_lines with line and column. Durable when answered. The same file is the same batch for ever: by its Idempotency-Key, or, without one, by its bytes. A file without a good line is refused with 422 and stores nothing.',
        headers: shapes.OptionalKeyHeader,
        querystring: shapes.UploadQuery,
        body: {
          content: { 'application/json': { schema: shapes.NewBatch }, 'text/csv': { schema: shapes.CsvFile } },
        },
        response: {
          201: shapes.BatchFull,
          200: {
            anyOf: [shapes.BatchFull, shapes.BatchChecked],
            description: 'A repetition: the batch as it is now; or the result of a dry run',
          },
          202: schemas.OrderStored,
          ...schemas.problems,
        },
      },
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const upload = readUpload(request.body, request.query.asset ?? null);
      const asset = await assetOf(findAsset, upload.asset, '/asset');
      const rules: BatchRules = { readPayee: payeeCheckOf(deps, asset), linesMax: deps.batchLinesMax(asset.id) };
      const { format, sha256, lines } = upload;
      const idempotencyKey = request.headers['idempotency-key'] === undefined ? null : idempotencyKeyOf(request);
      const file: BatchFile = { partnerId, idempotencyKey, sha256, format, asset, lines };
      if (request.query.dry_run === 'true') {
        const checked = await checkBatch(deps.pool, file, rules);
        if ('problem' in checked) return sendProblem(reply, checked.problem);
        return reply.send(toCheckedView(asset, checked, await loadSpendable(deps, partnerId, asset)));
      }
      const outcome = await takeBatch(deps, file, rules);
      if (outcome.outcome === 'nothing_good') {
        const [first] = outcome.faults;
        const faults = outcome.faults.map(({ line, column, got, expected }) => ({
          pointer: `/lines/${line}/${column}`,
          got,
          expected,
        }));
        return sendProblem(
          reply,
          toProblem('PO_FILE_REFUSED', {
            detail: `None of the ${lines.length} lines can be paid; the first fault is in line ${first?.line ?? 0}, column ${first?.column ?? ''}`,
            faults,
            ...(outcome.paidElsewhere ? { moneyState: 'unknown' as const } : {}),
          }),
        );
      }
      return answerIntake(deps, kind, reply, partnerId, outcome);
    },
  );

  app.get(
    '/transfer-batches/:id',
    {
      schema: {
        tags,
        operationId: 'readTransferBatch',
        summary: 'One batch: how many lines have which fate, and its bad lines',
        params: schemas.IdParams,
        response: { 200: shapes.BatchFull, ...schemas.problems },
      },
    },
    async (request) => loadDetail(kind, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/transfer-batches/:id/lines',
    {
      schema: {
        tags,
        operationId: 'listTransferBatchLines',
        summary: 'The good lines of a batch, in the order of the file, each with its fate',
        params: schemas.IdParams,
        querystring: schemas.PageQuery,
        response: { 200: schemas.pageOf(shapes.BatchLineItem), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const { id } = request.params;
      const name = { list: `transfer-batch ${id}`, partnerId };
      const [after] = fromCursor(name, request.query.cursor, [PLACE.line]) ?? [];
      const limit = pageItems(request.query.limit);
      const batch = (await loadBatches(deps.pool, [id])).get(id);
      if (batch === undefined || batch.partnerId !== partnerId) throw new PayonceError('PO_NOT_FOUND');
      const rows = await readLines(deps.pool, batch, { after: Number(after ?? 0), limit: limit + 1 });
      return toPage(
        rows,
        limit,
        (row) => row,
        (row) => toCursor(name, [String(row.line)]),
      );
    },
  );

  app.get(
    '/transfer-batches',
    {
      schema: {
        tags,
        operationId: 'listTransferBatches',
        summary: 'Batches, newest first',
        querystring: shapes.BatchQuery,
        response: { 200: schemas.pageOf(shapes.BatchItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'transfer-batches', partnerId: callerOf(request).partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listBatches(deps.pool, name.partnerId, {
        before: place === null ? null : { at: place[0] ?? '', id: place[1] ?? '' },
        status: request.query.status ?? null,
        limit: limit + 1,
      });
      return toPage(
        rows,
        limit,
        ({ place: _place, ...row }) => row,
        (row) => toCursor(name, [row.place, row.id]),
      );
    },
  );
}

function readUpload(body: unknown, named: string | null): Upload {
  if (body instanceof Uint8Array) return readCsvUpload(body, named);
  const { asset, lines } = body as { readonly asset: string; readonly lines: readonly unknown[] };
  if (named !== null && named !== asset)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: 'Body and query name two assets',
      pointer: '/query/asset',
      got: toGot(named),
      expected: `${asset}, or nothing`,
    });
  // As with every body of this API: fields in another order are the same file.
  return { asset, format: 'json', sha256: sha256(canonicalize(hashable(body)) ?? ''), lines: linesFromJson(lines) };
}

/** RFC 8785 has no form for half a character or a number beyond all; a line that holds one is refused as a line. */
function hashable(value: unknown): unknown {
  if (typeof value === 'string') return value.isWellFormed() ? value : JSON.stringify(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (Array.isArray(value)) return value.map(hashable);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [hashable(name), hashable(one)]));
}

function readCsvUpload(bytes: Uint8Array, named: string | null): Upload {
  const read = readCsv(bytes);
  if (!read.ok) throw new PayonceError('PO_FILE_INVALID', { ...read.fault });
  const column = read.lines.map((line) => line.cells.asset?.value).find((value) => value !== undefined && value !== '');
  const asset = named ?? column;
  if (typeof asset !== 'string')
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: 'Nothing says which asset is paid',
      pointer: '/query/asset',
      got: 'nothing',
      expected: '?asset=…, or a column "asset"',
    });
  return { asset, format: 'csv', sha256: sha256(bytes), lines: read.lines };
}

function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

async function loadSpendable(deps: ApiDeps, partnerId: string, asset: Asset): Promise<bigint> {
  const all = await loadBalances(deps.pool, partnerId);
  const own = all.find((one) => one.assetId === asset.id && one.code === `partner:${partnerId}`);
  return own?.available ?? 0n;
}

function toCheckedView(
  asset: Asset,
  { good, faults, amount, fee }: Extract<Awaited<ReturnType<typeof checkBatch>>, { good: unknown }>,
  spendable: bigint,
): object {
  return {
    dry_run: true,
    asset: asset.code,
    amount: formatUnits(amount, asset.decimals),
    fee: formatUnits(fee, asset.decimals),
    lines: { good: good.length, bad: new Set(faults.map((fault) => fault.line)).size },
    bad_lines: faults.map(toFaultView),
    warnings: good.flatMap((line) => line.warnings).map(toFaultView),
    available: formatUnits(spendable, asset.decimals),
    covered: amount + fee <= spendable,
  };
}
