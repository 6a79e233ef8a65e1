/**
 * Withdrawals over HTTP. A POST answers after the commit and never waits for a rail; once it is committed nothing that
 * fails afterwards can make the answer an error (case B7, C5).
 */
import { type Batcher, makeBatcher } from '../../db/batcher.ts';
import { sqlState } from '../../db/pool.ts';
import {
  cancelWithdrawal,
  createWithdrawals,
  type CreateOutcome,
  type WithdrawalRequest,
} from '../../flows/withdrawals/index.ts';
import { listWithdrawals, loadHistory, readWithdrawal } from '../../flows/withdrawals/store.ts';
import { toDetail, toPartnerView, type WithdrawalDetail } from '../../flows/withdrawals/view.ts';
import { type ErrorFacts, InvariantBroken, PayonceError } from '../../kernel/errors.ts';
import { GROUP_COMMIT_ITEMS_MAX } from '../../kernel/limits.ts';
import { parseAmount } from '../../kernel/money.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { fingerprintOf, idempotencyKeyOf, moneyStateOf } from '../idempotency.ts';
import { INTAKE_LANES } from '../limits.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { sendProblem } from '../problems.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

export function withdrawalRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const intake = makeIntake(deps);
  app.addHook('onClose', () => intake.drain());
  const tags = ['withdrawals'];

  app.post(
    '/withdrawals',
    {
      schema: {
        tags,
        operationId: 'createWithdrawal',
        summary: 'Pay out',
        description:
          'Durable when answered. The same Idempotency-Key and body give the same withdrawal for ever; another body under a key is refused with 422.',
        headers: schemas.KeyHeader,
        body: schemas.NewWithdrawal,
        response: {
          201: schemas.WithdrawalFull,
          200: { ...schemas.WithdrawalFull, description: 'A repetition: the withdrawal as it is now' },
          202: schemas.WithdrawalStored,
          ...schemas.problems,
        },
      },
      // Before the body is judged: without a key nothing else matters (case A8).
      preValidation: async (request) => {
        idempotencyKeyOf(request);
      },
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const { body } = request;
      const asset = await assetOf(findAsset, body.asset, '/asset');
      const wish: WithdrawalRequest = {
        partnerId,
        idempotencyKey: idempotencyKeyOf(request),
        fingerprint: fingerprintOf(request),
        externalId: body.external_id ?? null,
        purpose: body.purpose ?? 'customer',
        assetId: asset.id,
        amount: amountOf(body.amount, asset.decimals),
        destination: destinationOf(deps, asset.chain, body.destination),
        reference: body.reference ?? null,
      };
      const outcome = await intake.submit(wish);
      switch (outcome.outcome) {
        case 'refused':
          if (outcome.replayed) reply.header('idempotent-replayed', 'true');
          return sendProblem(reply, outcome.problem);
        case 'key_reused':
          throw new PayonceError('PO_KEY_REUSED', await reusedFacts(deps, partnerId, outcome.resource));
        case 'replayed':
          reply.header('idempotent-replayed', 'true');
          break;
        case 'created':
          nudge(deps);
          break;
      }
      reply.header('location', `/v1/withdrawals/${outcome.id}`);
      const detail = await readBack(deps, partnerId, outcome.id);
      if (detail === null) return reply.code(202).send({ id: outcome.id, status: 'pending' });
      return reply.code(outcome.outcome === 'created' ? 201 : 200).send(detail);
    },
  );

  app.get(
    '/withdrawals/:id',
    {
      schema: {
        tags,
        operationId: 'readWithdrawal',
        summary: 'One withdrawal, with its history',
        params: schemas.IdParams,
        response: { 200: schemas.WithdrawalFull, ...schemas.problems },
      },
    },
    async (request) => loadDetail(deps, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/withdrawals',
    {
      schema: {
        tags,
        operationId: 'listWithdrawals',
        summary: 'Withdrawals, newest first',
        querystring: schemas.WithdrawalQuery,
        response: { 200: schemas.pageOf(schemas.WithdrawalItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'withdrawals', partnerId: callerOf(request).partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listWithdrawals(deps.pool, name.partnerId, {
        before: place === null ? null : { at: place[0] ?? '', id: place[1] ?? '' },
        status: request.query.status ?? null,
        externalId: request.query.external_id ?? null,
        limit: limit + 1,
      });
      return toPage(
        rows,
        limit,
        (row) => toPartnerView(row, row.status),
        (row) => toCursor(name, [row.place, row.id]),
      );
    },
  );

  app.post(
    '/withdrawals/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelWithdrawal',
        summary: 'Cancel before anything left',
        description: 'May be repeated. Once it may have left: 409, and its status decides.',
        params: schemas.IdParams,
        response: { 200: schemas.WithdrawalFull, ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId, keyId } = callerOf(request);
      const { id } = request.params;
      const outcome = await cancelWithdrawal(deps.engine, partnerId, id, keyId);
      switch (outcome) {
        case 'not_found':
          throw new PayonceError('PO_NOT_FOUND');
        case 'too_late': {
          const now = await loadDetail(deps, partnerId, id);
          throw new PayonceError('PO_TOO_LATE', {
            detail: `The withdrawal is ${now.status}`,
            resource: { type: 'withdrawal', id },
            moneyState: moneyStateOf(now.status),
          });
        }
        case 'cancelled':
          nudge(deps);
          return loadDetail(deps, partnerId, id);
      }
    },
  );
}

function makeIntake(deps: ApiDeps): Batcher<WithdrawalRequest, CreateOutcome> {
  return makeBatcher<WithdrawalRequest, CreateOutcome>({
    run: (requests) => createWithdrawals(deps, requests),
    // SQLSTATE classes 22 (data), 23 (constraint) and P0 (our guards) are what a single request can cause.
    isItemsFault: (error) => error instanceof InvariantBroken || /^(?:22|23|P0)/.test(sqlState(error) ?? ''),
    lanes: INTAKE_LANES,
    laneOf: (request) => laneOf(request.partnerId),
    itemsMax: GROUP_COMMIT_ITEMS_MAX,
  });
}

function laneOf(partnerId: string): number {
  let sum = 0;
  for (const character of partnerId) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521;
  return sum % INTAKE_LANES;
}

/** It is committed: what does not wake up now finds it by itself. */
function nudge(deps: ApiDeps): void {
  try {
    deps.wake();
  } catch (error) {
    deps.log.warn({ err: error }, 'the workers could not be woken; they look by themselves');
  }
}

function amountOf(text: string, decimals: number): bigint {
  const parsed = parseAmount(text, decimals);
  if (!parsed.ok)
    throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: text, expected: parsed.expected });
  if (parsed.units === 0n)
    throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: text, expected: 'more than zero' });
  return parsed.units;
}

function destinationOf(deps: ApiDeps, chain: string, text: string): string {
  const read = deps.readDestination(chain, text);
  if (!read.ok)
    throw new PayonceError('PO_ADDRESS_INVALID', { pointer: '/destination', got: text, expected: read.expected });
  return read.address;
}

async function loadDetail(deps: ApiDeps, partnerId: string, id: string): Promise<WithdrawalDetail> {
  const withdrawal = await readWithdrawal(deps.pool, partnerId, id);
  if (withdrawal === null) throw new PayonceError('PO_NOT_FOUND');
  return toDetail(withdrawal, await loadHistory(deps.pool, id));
}

/** Null where it cannot be read right now. */
async function readBack(deps: ApiDeps, partnerId: string, id: string): Promise<WithdrawalDetail | null> {
  try {
    return await loadDetail(deps, partnerId, id);
  } catch (error) {
    deps.log.warn({ err: error, withdrawal: id }, 'a stored withdrawal could not be read back');
    return null;
  }
}

async function reusedFacts(
  deps: ApiDeps,
  partnerId: string,
  resource: { readonly type: string; readonly id: string } | null,
): Promise<ErrorFacts> {
  const facts = { pointer: '/headers/idempotency-key', expected: 'a new key, or the first body under this one' };
  if (resource === null)
    return {
      ...facts,
      detail: 'The first request under this key was refused and moved nothing',
      moneyState: 'not_sent',
    };
  const first = await readWithdrawal(deps.pool, partnerId, resource.id);
  return { ...facts, resource: { ...resource }, moneyState: moneyStateOf(first?.status ?? 'unknown') };
}
