/**
 * What orders to pay out have in common over HTTP, whatever they pay. A POST answers after the commit and never waits for a
 * rail; once it is committed nothing that fails afterwards can make the answer an error (case B7, C5).
 */
import type { FastifyReply } from 'fastify';
import { type Batcher, makeBatcher } from '../db/batcher.ts';
import { sqlState } from '../db/pool.ts';
import type { CancelOutcome } from '../engine/cancel.ts';
import type { CreateDeps, CreateOutcome, Order } from '../engine/intake.ts';
import { readTransferById } from '../flows/transfers/store.ts';
import { readWithdrawal } from '../flows/withdrawals/store.ts';
import { type ErrorFacts, InvariantBroken, PayonceError } from '../kernel/errors.ts';
import { GROUP_COMMIT_ITEMS_MAX } from '../kernel/limits.ts';
import { parseAmount } from '../kernel/money.ts';
import type { ApiDeps } from './deps.ts';
import { moneyStateOf } from './idempotency.ts';
import { INTAKE_LANES } from './limits.ts';
import { sendProblem } from './problems.ts';

/** Orders of one kind as their routes see them. */
export interface ReadableOrders {
  /** As in `resource.type` of a problem. */
  readonly type: string;
  /** Where they are listed. */
  readonly path: string;
  /** `null`: there is none of this partner. */
  readDetail(partnerId: string, id: string): Promise<{ readonly status: string } | null>;
}
export interface OrderResource extends ReadableOrders {
  cancel(partnerId: string, id: string, by: string): Promise<CancelOutcome>;
}

/** Orders that come together share a commit; one that the database refuses fails alone. */
export function makeIntake<One extends Pick<Order, 'partnerId'>>(
  deps: ApiDeps,
  create: (deps: CreateDeps, orders: readonly One[]) => Promise<CreateOutcome[]>,
): Batcher<One, CreateOutcome> {
  return makeBatcher<One, CreateOutcome>({
    run: (orders) => create(deps, orders),
    // SQLSTATE classes 22 (data), 23 (constraint) and P0 (our guards) are what a single request can cause.
    isItemsFault: (error) => error instanceof InvariantBroken || /^(?:22|23|P0)/.test(sqlState(error) ?? ''),
    lanes: INTAKE_LANES,
    laneOf: (order) => laneOf(order.partnerId),
    itemsMax: GROUP_COMMIT_ITEMS_MAX,
  });
}

function laneOf(partnerId: string): number {
  let sum = 0;
  for (const character of partnerId) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521;
  return sum % INTAKE_LANES;
}

/** What a POST answers: 201 with the order, 200 for a repetition, 202 where it is stored and cannot be read back now. */
export async function answerIntake(
  deps: ApiDeps,
  kind: ReadableOrders,
  reply: FastifyReply,
  partnerId: string,
  outcome: CreateOutcome,
  beside: object = {},
): Promise<FastifyReply> {
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
  reply.header('location', `${kind.path}/${outcome.id}`);
  const detail = await readBack(deps, kind, partnerId, outcome.id);
  if (detail === null) return reply.code(202).send({ id: outcome.id, status: 'pending', ...beside });
  return reply.code(outcome.outcome === 'created' ? 201 : 200).send({ ...detail, ...beside });
}

export async function loadDetail(kind: ReadableOrders, partnerId: string, id: string): Promise<{ status: string }> {
  const detail = await kind.readDetail(partnerId, id);
  if (detail === null) throw new PayonceError('PO_NOT_FOUND');
  return detail;
}

/** Null where it cannot be read right now. */
async function readBack(
  deps: ApiDeps,
  kind: ReadableOrders,
  partnerId: string,
  id: string,
): Promise<{ status: string } | null> {
  try {
    return await loadDetail(kind, partnerId, id);
  } catch (error) {
    deps.log.warn({ err: error, [kind.type]: id }, `a stored ${kind.type} could not be read back`);
    return null;
  }
}

/** Before anything left; 409 afterwards, with where the money is. */
export async function answerCancel(
  deps: ApiDeps,
  kind: OrderResource,
  caller: { readonly partnerId: string; readonly keyId: string },
  id: string,
): Promise<{ status: string }> {
  const outcome = await kind.cancel(caller.partnerId, id, caller.keyId);
  switch (outcome) {
    case 'not_found':
      throw new PayonceError('PO_NOT_FOUND');
    case 'too_late': {
      const now = await loadDetail(kind, caller.partnerId, id);
      throw new PayonceError('PO_TOO_LATE', {
        detail: `The ${kind.type} is ${now.status}`,
        resource: { type: kind.type, id },
        moneyState: moneyStateOf(now.status),
      });
    }
    case 'cancelled':
      nudge(deps);
      return loadDetail(kind, caller.partnerId, id);
  }
}

/** It is committed: what does not wake up now finds it by itself. */
export function nudge(deps: ApiDeps): void {
  try {
    deps.wake();
  } catch (error) {
    deps.log.warn({ err: error }, 'the workers could not be woken; they look by themselves');
  }
}

export function amountOf(text: string, decimals: number): bigint {
  const parsed = parseAmount(text, decimals);
  if (!parsed.ok)
    throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: text, expected: parsed.expected });
  if (parsed.units === 0n)
    throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: text, expected: 'more than zero' });
  return parsed.units;
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
  const status = await statusOf(deps, partnerId, resource);
  return { ...facts, resource: { ...resource }, moneyState: moneyStateOf(status ?? 'unknown') };
}

/** A key may hold another kind of order than the one that is asked for now. */
async function statusOf(
  deps: ApiDeps,
  partnerId: string,
  { type, id }: { readonly type: string; readonly id: string },
): Promise<string | undefined> {
  switch (type) {
    case 'withdrawal':
      return (await readWithdrawal(deps.pool, partnerId, id))?.status;
    case 'transfer':
      return (await readTransferById(deps.pool, partnerId, id))?.status;
    default:
      return undefined;
  }
}
