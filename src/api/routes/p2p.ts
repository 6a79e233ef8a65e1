/**
 * P2P over HTTP: buyers' deposit orders, sellers' withdraw orders, and what partners say of legs. A POST writes and answers; the
 * matching is a worker's (M1). A leg is its order's: of another partner's it is told that there is none.
 */
import {
  cancelDepositOrder,
  cancelLeg,
  cancelWithdrawOrder,
  confirmLeg,
  createDepositOrders,
  createWithdrawOrders,
  type DepositOrderRequest,
  disputeLeg,
  markPaid,
  PRICE_DECIMALS,
  type WithdrawOrderRequest,
} from '../../flows/p2p/index.ts';
import {
  listDepositOrders,
  listWithdrawOrders,
  readDepositOrder,
  type ReadDeposit,
  type ReadWithdraw,
  readWithdrawOrder,
} from '../../flows/p2p/reads.ts';
import { type Payee, toDepositView, toWithdrawView } from '../../flows/p2p/view.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { parseAmount } from '../../kernel/money.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { fingerprintOf, idempotencyKeyOf } from '../idempotency.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { amountOf, answerIntake, loadDetail, makeIntake, nudge, type ReadableOrders } from '../orders.ts';
import * as shapes from '../p2p-schemas.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

type View = { readonly status: string };

export function p2pRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const buyers = makeIntake<DepositOrderRequest>(deps, createDepositOrders);
  const sellers = makeIntake<WithdrawOrderRequest>(deps, createWithdrawOrders);
  app.addHook('onClose', async () => void (await Promise.all([buyers.drain(), sellers.drain()])));
  const deposits: ReadableOrders = {
    type: 'deposit_order',
    path: '/v1/p2p/deposit-orders',
    async readDetail(partnerId, id) {
      const found = await readDepositOrder(deps.pool, partnerId, id);
      return found === null ? null : toView(deps, found);
    },
  };
  const withdraws: ReadableOrders = {
    type: 'withdraw_order',
    path: '/v1/p2p/withdraw-orders',
    async readDetail(partnerId, id) {
      const found = await readWithdrawOrder(deps.pool, partnerId, id);
      return found === null ? null : toSellerView(found);
    },
  };
  const tags = ['p2p'];
  const created = (full: typeof shapes.DepositOrder | typeof shapes.WithdrawOrder) => ({
    201: full,
    200: { ...full, description: 'A repetition: the order as it is now' },
    202: shapes.OrderStored,
    ...schemas.problems,
  });

  app.post(
    '/p2p/deposit-orders',
    {
      schema: {
        tags,
        operationId: 'createDepositOrder',
        summary: 'A buyer pays fiat and gets an asset',
        description:
          'Written and answered at once; it is matched by a worker, with sellers of your group first, then with liquidity providers, into at most three legs. `deposit_order.matched` says whom to pay, and until when.',
        headers: schemas.KeyHeader,
        body: shapes.NewDepositOrder,
        response: created(shapes.DepositOrder),
      },
      preValidation: async (request) => void idempotencyKeyOf(request),
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const { body } = request;
      const asset = await assetOf(findAsset, body.asset, '/asset');
      const outcome = await buyers.submit({
        partnerId,
        idempotencyKey: idempotencyKeyOf(request),
        fingerprint: fingerprintOf(request),
        externalId: body.external_id ?? null,
        assetId: asset.id,
        fiat: body.fiat,
        userRef: body.user_ref,
        amount: amountOf(body.amount, asset.decimals),
        price: priceOf(body.price),
        forMs: body.expires_in_seconds === undefined ? null : body.expires_in_seconds * 1_000,
        takesPart: body.partial !== 'wait',
      });
      return answerIntake(deps, deposits, reply, partnerId, outcome);
    },
  );

  app.post(
    '/p2p/withdraw-orders',
    {
      schema: {
        tags,
        operationId: 'createWithdrawOrder',
        summary: 'A seller gives an asset and gets fiat',
        description:
          'Its amount is set aside from your balance. Several buyers may fill it; what is left when it expires or is cancelled goes back.',
        headers: schemas.KeyHeader,
        body: shapes.NewWithdrawOrder,
        response: created(shapes.WithdrawOrder),
      },
      preValidation: async (request) => void idempotencyKeyOf(request),
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const { body } = request;
      const asset = await assetOf(findAsset, body.asset, '/asset');
      const outcome = await sellers.submit({
        partnerId,
        idempotencyKey: idempotencyKeyOf(request),
        fingerprint: fingerprintOf(request),
        externalId: body.external_id ?? null,
        assetId: asset.id,
        fiat: body.fiat,
        userRef: body.user_ref,
        amount: amountOf(body.amount, asset.decimals),
        price: priceOf(body.price),
        forMs: body.expires_in_seconds === undefined ? null : body.expires_in_seconds * 1_000,
        bankCode: body.bank_code,
        accountNumber: body.account_number,
        holderName: body.holder_name.normalize('NFC'),
      });
      return answerIntake(deps, withdraws, reply, partnerId, outcome);
    },
  );

  app.get(
    '/p2p/deposit-orders/:id',
    {
      schema: {
        tags,
        operationId: 'readDepositOrder',
        summary: 'One deposit order with its legs: how it stands, what it got, what it did not get',
        params: schemas.IdParams,
        response: { 200: shapes.DepositOrder, ...schemas.problems },
      },
    },
    async (request) => loadDetail(deposits, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/p2p/withdraw-orders/:id',
    {
      schema: {
        tags,
        operationId: 'readWithdrawOrder',
        summary: 'One withdraw order with its legs',
        params: schemas.IdParams,
        response: { 200: shapes.WithdrawOrder, ...schemas.problems },
      },
    },
    async (request) => loadDetail(withdraws, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/p2p/deposit-orders',
    {
      schema: {
        tags,
        operationId: 'listDepositOrders',
        summary: 'Deposit orders, newest first',
        querystring: shapes.DepositOrderQuery,
        response: { 200: schemas.pageOf(shapes.DepositOrder), ...schemas.problems },
      },
    },
    async (request) => {
      const page = pageOfOrders(request.query, 'deposit_orders', callerOf(request).partnerId);
      // A claim of the matcher is no status of a partner's.
      const statuses = request.query.status === 'pending' ? ['PENDING', 'MATCHING'] : page.statuses;
      const rows = await listDepositOrders(deps.pool, page.name.partnerId, { ...page.filter, statuses });
      return toPage(
        rows,
        page.limit,
        (row) => toView(deps, row),
        (row) => toCursor(page.name, [row.place, row.order.id]),
      );
    },
  );

  app.get(
    '/p2p/withdraw-orders',
    {
      schema: {
        tags,
        operationId: 'listWithdrawOrders',
        summary: 'Withdraw orders, newest first',
        querystring: shapes.WithdrawOrderQuery,
        response: { 200: schemas.pageOf(shapes.WithdrawOrder), ...schemas.problems },
      },
    },
    async (request) => {
      const page = pageOfOrders(request.query, 'withdraw_orders', callerOf(request).partnerId);
      const rows = await listWithdrawOrders(deps.pool, page.name.partnerId, {
        ...page.filter,
        statuses: page.statuses,
      });
      return toPage(rows, page.limit, toSellerView, (row) => toCursor(page.name, [row.place, row.order.id]));
    },
  );

  app.post(
    '/p2p/deposit-orders/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelDepositOrder',
        summary: 'Cancel a deposit order that is not matched',
        description: 'May be repeated. Once it is matched: 409, and its legs decide.',
        params: schemas.IdParams,
        response: { 200: shapes.DepositOrder, ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const { id } = request.params;
      const outcome = await cancelDepositOrder(deps.engine, partnerId, id);
      return answerCancelled(deps, deposits, partnerId, id, outcome);
    },
  );

  app.post(
    '/p2p/withdraw-orders/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelWithdrawOrder',
        summary: 'Take no more buyers for a withdraw order',
        description:
          'What no leg has goes back to your balance at once; legs that are open decide the rest, and meanwhile it is `closing`.',
        params: schemas.IdParams,
        response: { 200: shapes.WithdrawOrder, ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const { id } = request.params;
      const outcome = await cancelWithdrawOrder(deps.engine, partnerId, id);
      return answerCancelled(deps, withdraws, partnerId, id, outcome);
    },
  );

  legRoutes(app, deps, tags);
}

function legRoutes(app: Routes, deps: ApiDeps, tags: string[]): void {
  const { pool, engine } = deps;
  const leg = { tags, params: shapes.LegParams, response: { 200: shapes.LegAnswer, ...schemas.problems } };
  app.post(
    '/p2p/legs/:id/confirm',
    {
      schema: {
        ...leg,
        operationId: 'confirmLeg',
        summary: 'The seller was paid',
        description:
          'Said by the seller’s partner, for exactly the leg’s amount. The buyer’s partner is credited in the same transaction. May be repeated: it moves once.',
        body: shapes.Confirmation,
      },
    },
    async (request) => {
      const { id } = request.params;
      const said = await confirmLeg(pool, engine, {
        partnerId: callerOf(request).partnerId,
        legId: id,
        fiatAmount: request.body.fiat_amount,
      });
      switch (said.outcome) {
        case 'settled':
          nudge(deps);
          return { id, outcome: 'settled' };
        case 'already':
          return { id, outcome: 'already_settled' };
        case 'not_found':
          throw legNotFound('seller');
        case 'differs':
          throw new PayonceError('PO_PAYMENT_DIFFERS', {
            pointer: '/fiat_amount',
            got: request.body.fiat_amount,
            expected: `${said.expected} (${said.fiat})`,
            resource: { type: 'leg', id },
          });
        case 'ended':
          throw legEnded(id, said.state);
      }
    },
  );

  app.post(
    '/p2p/legs/:id/mark-paid',
    {
      schema: {
        ...leg,
        operationId: 'markLegPaid',
        summary: 'The buyer says that it has paid',
        description: 'A claim, not money: nothing is credited by it. But no timer ends the leg from here.',
      },
    },
    async (request) => {
      const { id } = request.params;
      const said = await markPaid(pool, engine, { partnerId: callerOf(request).partnerId, legId: id });
      return answerLeg(id, said, 'buyer', { marked: 'marked' });
    },
  );

  app.post(
    '/p2p/legs/:id/dispute',
    {
      schema: {
        ...leg,
        operationId: 'disputeLeg',
        summary: 'Freeze a leg for both sides',
        description: 'Said by either partner. Nothing moves it until two persons have said what happened.',
        body: shapes.Dispute,
      },
    },
    async (request) => {
      const { id } = request.params;
      const { partnerId } = callerOf(request);
      const said = await disputeLeg(pool, engine, { partnerId, legId: id, reason: request.body.reason });
      return answerLeg(id, said, 'either', { disputed: 'disputed' });
    },
  );

  app.post(
    '/p2p/legs/:id/cancel',
    {
      schema: {
        ...leg,
        operationId: 'cancelLeg',
        summary: 'The buyer gives a leg up',
        description:
          'A seller’s leg that nobody says was paid is void at once. A liquidity provider is asked to end its trade; until it has, the leg stands.',
      },
    },
    async (request) => {
      const { id } = request.params;
      const said = await cancelLeg(engine, callerOf(request).partnerId, id);
      nudge(deps);
      return answerLeg(id, said, 'buyer', { cancelled: 'cancelled', asked: 'cancel_asked' });
    },
  );
}

type Side = 'buyer' | 'seller' | 'either';

/** The same words whether the leg is there or not: whoever sees it on the other side reads why its verb is refused. */
function legNotFound(side: Side): PayonceError {
  const whose = side === 'either' ? 'you are on no side of one' : `you are not the ${side}’s partner of one`;
  return new PayonceError('PO_NOT_FOUND', { detail: `There is no leg with this id, or ${whose}; nothing was changed` });
}

function answerLeg<Said extends string>(
  id: string,
  said: Said | 'not_found' | { readonly ended: string },
  side: Side,
  outcomes: Readonly<Record<Exclude<Said, 'not_found'>, string>>,
): { id: string; outcome: string } {
  if (said === 'not_found') throw legNotFound(side);
  if (typeof said === 'object') throw legEnded(id, said.ended);
  return { id, outcome: outcomes[said as Exclude<Said, 'not_found'>] };
}

function legEnded(id: string, state: string): PayonceError {
  return new PayonceError('PO_LEG_ENDED', { detail: `The leg is ${state}`, resource: { type: 'leg', id } });
}

async function answerCancelled(
  deps: ApiDeps,
  kind: ReadableOrders,
  partnerId: string,
  id: string,
  outcome: Awaited<ReturnType<typeof cancelDepositOrder>>,
): Promise<View> {
  const resource = { type: kind.type, id };
  if (outcome === 'not_found') throw new PayonceError('PO_NOT_FOUND');
  if (outcome === 'opening')
    throw new PayonceError('PO_ORDER_MATCHED', {
      detail: 'A trade at a liquidity provider is being opened for it; whether it stands is known soon',
      resource,
    });
  if (typeof outcome === 'object') {
    if ('matched' in outcome)
      throw new PayonceError('PO_ORDER_MATCHED', {
        detail: `Its legs ${outcome.matched.join(', ')} are open`,
        resource,
      });
    throw new PayonceError('PO_TOO_LATE', { detail: `The order is ${outcome.ended}`, resource });
  }
  nudge(deps);
  return loadDetail(kind, partnerId, id);
}

function pageOfOrders(
  query: { readonly cursor?: string; readonly limit?: string; readonly status?: string; readonly external_id?: string },
  list: string,
  partnerId: string,
) {
  const name = { list, partnerId };
  const place = fromCursor(name, query.cursor, [PLACE.time, PLACE.id]);
  const limit = pageItems(query.limit);
  return {
    name,
    limit,
    statuses: query.status === undefined ? null : [query.status.toUpperCase()],
    filter: {
      before: place === null ? null : { at: place[0] ?? '', id: place[1] ?? '' },
      externalId: query.external_id ?? null,
      limit: limit + 1,
    },
  };
}

/** A provider's account, where its trade showed one, beside those of sellers. */
function toView(deps: ApiDeps, { order, legs, sellers, trades }: ReadDeposit): View {
  const payees = new Map<string, Payee>(sellers);
  for (const [leg, { tradeId, answer }] of trades) {
    const payee = tradeId === null || answer === null ? null : deps.readTradePayment(answer, tradeId);
    if (payee !== null) payees.set(leg, payee);
  }
  return toDepositView(order, legs, payees);
}
function toSellerView({ order, legs }: ReadWithdraw): View {
  return toWithdrawView(order, legs);
}

function priceOf(text: string): bigint {
  const parsed = parseAmount(text, PRICE_DECIMALS);
  if (parsed.ok && parsed.units > 0n) return parsed.units;
  throw new PayonceError('PO_AMOUNT_INVALID', {
    pointer: '/price',
    got: text,
    expected: parsed.ok ? 'more than zero' : parsed.expected,
  });
}
