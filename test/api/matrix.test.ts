/*
 * Goal: a partner reaches its own things and nobody else's, on every route there is. Method: the routes come from the
 * OpenAPI document, so a new one without a line here fails; each is called with no key, with a wrong one, by the owner and
 * by another partner who names the owner's ids. What is another's must be answered like what never was, byte for byte.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openCase } from '../../src/engine/cases.ts';
import { makeMatcher } from '../../src/flows/p2p/index.ts';
import { emit } from '../../src/outbox/emit.ts';
import { type Answer, type Ask, SOMEBODY } from './api-world.ts';
import { openMarket } from '../support/p2p-scene.ts';
import { type BankApi, makeBankApi } from './bank-world.ts';

interface Things {
  withdrawal: string;
  transfer: string;
  batch: string;
  address: string;
  deposit: string;
  event: string;
  endpoint: string;
  case: string;
  depositOrder: string;
  withdrawOrder: string;
  legToConfirm: string;
  legToMark: string;
  legToDispute: string;
  legToCancel: string;
  payout: string;
  programme: string;
}

interface Recipe {
  /** With the owner's ids in it. */
  path: (own: Things) => string;
  ask?: Ask;
  /** What the owner is answered. */
  status: number;
  kind: 'one' | 'list' | 'create' | 'public';
}

const one = (path: (own: Things) => string, status = 200, ask: Ask = {}): Recipe => ({
  path,
  status,
  ask,
  kind: 'one',
});
const list = (path: string): Recipe => ({ path: () => path, status: 200, kind: 'list' });

const ORDER = { asset: 'USDT', amount: '1', fiat: 'KRW', price: '1300' };
const ACCOUNT = { bank_code: '004', account_number: '110-123-0456', holder_name: '홍길동' };

const RECIPES: Record<string, Recipe> = {
  live: { path: () => '/livez', status: 200, kind: 'public' },
  ready: { path: () => '/readyz', status: 200, kind: 'public' },
  readProblem: { path: () => '/problems/PO_NOT_FOUND', status: 200, kind: 'public' },
  receiveInbound: { path: () => '/v1/inbound/monitor', status: 401, kind: 'public' },
  createWithdrawal: {
    path: () => '/v1/withdrawals',
    ask: { idempotencyKey: 'matrix', body: { asset: 'USDT', amount: '1', destination: SOMEBODY } },
    status: 201,
    kind: 'create',
  },
  createTransfer: {
    path: () => '/v1/transfers',
    ask: {
      idempotencyKey: 'matrix-bank',
      body: { asset: 'KRW', amount: '1', bank_code: '004', account_number: '0012', holder_name: '홍길동' },
    },
    status: 201,
    kind: 'create',
  },
  createTransferBatch: {
    path: () => '/v1/transfer-batches',
    ask: {
      body: {
        asset: 'KRW',
        lines: [{ amount: '1', bank_code: '004', account_number: '0013', holder_name: '홍길동' }],
      },
    },
    status: 201,
    kind: 'create',
  },
  createDepositOrder: {
    path: () => '/v1/p2p/deposit-orders',
    ask: { idempotencyKey: 'matrix-buy', body: { ...ORDER, user_ref: 'buyer' } },
    status: 201,
    kind: 'create',
  },
  createWithdrawOrder: {
    path: () => '/v1/p2p/withdraw-orders',
    ask: { idempotencyKey: 'matrix-sell', body: { ...ORDER, ...ACCOUNT, user_ref: 'seller' } },
    status: 201,
    kind: 'create',
  },
  putProgramme: {
    path: () => '/v1/programmes/matrix',
    ask: { body: { asset: 'USDT', rate: '1', threshold: '10' } },
    status: 201,
    kind: 'create',
  },
  putCreator: {
    path: () => '/v1/creators/matrix',
    ask: { body: { asset: 'USDT', address: SOMEBODY } },
    status: 200,
    kind: 'create',
  },
  createAccruals: {
    path: () => '/v1/accruals',
    ask: { body: { items: [{ source_id: 'matrix', programme: 'matrix', creator: 'c', volume: '1' }] } },
    status: 200,
    kind: 'create',
  },
  readPayout: one((own) => `/v1/payouts/${own.payout}`),
  cancelPayout: one((own) => `/v1/payouts/${own.payout}/cancel`),
  listPayouts: list('/v1/payouts'),
  listProgrammes: list('/v1/programmes'),
  readPayoutStatement: list('/v1/payout-statement'),
  createAddress: { path: () => '/v1/addresses', ask: { body: { chain: 'noop' } }, status: 201, kind: 'create' },
  createEndpoint: {
    path: () => '/v1/endpoints',
    ask: { body: { url: 'https://partner.example/hook' } },
    status: 201,
    kind: 'create',
  },
  readWithdrawal: one((own) => `/v1/withdrawals/${own.withdrawal}`),
  cancelWithdrawal: one((own) => `/v1/withdrawals/${own.withdrawal}/cancel`),
  readTransfer: one((own) => `/v1/transfers/${own.transfer}`),
  cancelTransfer: one((own) => `/v1/transfers/${own.transfer}/cancel`),
  readTransferBatch: one((own) => `/v1/transfer-batches/${own.batch}`),
  listTransferBatchLines: one((own) => `/v1/transfer-batches/${own.batch}/lines`),
  readAddress: one((own) => `/v1/addresses/${own.address}`),
  readDeposit: one((own) => `/v1/deposits/${own.deposit}`),
  readEvent: one((own) => `/v1/events/${own.event}`),
  deleteEndpoint: one((own) => `/v1/endpoints/${own.endpoint}`, 204),
  readDepositOrder: one((own) => `/v1/p2p/deposit-orders/${own.depositOrder}`),
  readWithdrawOrder: one((own) => `/v1/p2p/withdraw-orders/${own.withdrawOrder}`),
  cancelDepositOrder: one((own) => `/v1/p2p/deposit-orders/${own.depositOrder}/cancel`),
  cancelWithdrawOrder: one((own) => `/v1/p2p/withdraw-orders/${own.withdrawOrder}/cancel`),
  confirmLeg: one((own) => `/v1/p2p/legs/${own.legToConfirm}/confirm`, 200, { body: { fiat_amount: '1300' } }),
  markLegPaid: one((own) => `/v1/p2p/legs/${own.legToMark}/mark-paid`),
  disputeLeg: one((own) => `/v1/p2p/legs/${own.legToDispute}/dispute`, 200, { body: { reason: 'not paid' } }),
  cancelLeg: one((own) => `/v1/p2p/legs/${own.legToCancel}/cancel`),
  listDepositOrders: list('/v1/p2p/deposit-orders'),
  listWithdrawOrders: list('/v1/p2p/withdraw-orders'),
  listWithdrawals: list('/v1/withdrawals'),
  listTransfers: list('/v1/transfers'),
  listTransferBatches: list('/v1/transfer-batches'),
  listAddresses: list('/v1/addresses'),
  listDeposits: list('/v1/deposits'),
  listEvents: list('/v1/events'),
  listCases: list('/v1/cases'),
  listEndpoints: list('/v1/endpoints'),
  listBalances: list('/v1/balances'),
  listEntries: list('/v1/entries?asset=USDT'),
  listAssets: list('/v1/assets'),
};

let api: BankApi;
let own: Things;
let theirs: Things;
before(async () => {
  api = await makeBankApi({ label: 'matrix' });
  await api.world.fund(77_000_000n, api.otherPartnerId);
  own = await makeThings(api.world.partnerId, api.key, 1);
  theirs = await makeThings(api.otherPartnerId, api.otherKey, 2);
});
after(() => api.end());

async function makeThings(partnerId: string, key: string, n: number): Promise<Things> {
  const { pool, makeId, assetId } = api.world;
  const withdrawal = await api.pay({ external_id: `of-${partnerId}` }, { key, idempotencyKey: `things-${n}` });
  const transfer = await api.transfer({ external_id: `bank-of-${partnerId}` }, { key, idempotencyKey: `bank-${n}` });
  const batch = await api.ask('POST', '/v1/transfer-batches', {
    key,
    body: {
      asset: 'KRW',
      lines: [
        {
          amount: '2',
          bank_code: '004',
          account_number: '0014',
          holder_name: 'A',
          external_id: `line-of-${partnerId}`,
        },
      ],
    },
  });
  const address = await api.ask('POST', '/v1/addresses', {
    key,
    body: { chain: 'noop', user_ref: `user-${partnerId}` },
  });
  const endpoint = await api.ask('POST', '/v1/endpoints', { key, body: { url: `https://${n}.partner.example/hook` } });
  const deposit = makeId('dep');
  await pool.tx('a deposit', async (tx) => {
    const { rows } = await tx.query<{ id: bigint }>(
      `insert into payonce.chain_transfers
         (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason)
       values ('noop', $1, 0, 1, 'block', $2, 'somebody', $3, 5, 'DEPOSIT', 'test') returning id`,
      [`hash-${n}`, assetId, address.body.address],
    );
    await tx.query("insert into payonce.subjects (type, id, partner_id, natural_key) values ('deposit', $1, $2, $1)", [
      deposit,
      partnerId,
    ]);
    await tx.query(
      'insert into payonce.deposits (id, transfer_id, partner_id, address_id, asset_id, amount) values ($1, $2, $3, $4, $5, 5)',
      [deposit, rows[0]?.id, partnerId, address.body.id, assetId],
    );
    await emit(tx, makeId, [{ subjectType: 'deposit', subjectId: deposit, type: 'deposit.detected', data: {} }]);
  });
  const traded = await makeLegs(partnerId, key, n);
  const earned = await makePayout(partnerId, key, n);
  const events = await api.ask('GET', '/v1/events', { key });
  const caseId = await openCase(pool, makeId, {
    kind: 'unknown_movement',
    severity: 1,
    subjectKey: deposit,
    partnerId,
    assetId,
    amount: 5n,
    summary: 'what an operator wrote stays inside',
  });
  return {
    withdrawal: withdrawal.body.id,
    transfer: transfer.body.id,
    batch: batch.body.id,
    address: address.body.id,
    deposit,
    event: events.body.items[0].id,
    endpoint: endpoint.body.id,
    case: caseId,
    ...traded,
    ...earned,
  };
}

async function makePayout(partnerId: string, key: string, n: number): Promise<Pick<Things, 'payout' | 'programme'>> {
  const creator = `creator-of-${partnerId}`;
  const terms = { asset: 'USDT', rate: '0.01', threshold: '1' };
  const { body: programme } = await api.ask('PUT', `/v1/programmes/things-${n}`, { key, body: terms });
  await api.ask('PUT', `/v1/creators/${creator}`, { key, body: { asset: 'USDT', address: SOMEBODY } });
  const items = [{ source_id: 'one', programme: `things-${n}`, creator, volume: '1' }];
  await api.ask('POST', '/v1/accruals', { key, body: { items } });
  const { body } = await api.ask('GET', '/v1/payouts', { key });
  return { programme: programme.id, payout: body.items[0].id };
}

/** Orders of two users of one partner, matched with each other, and one more of each side that is not. */
async function makeLegs(
  partnerId: string,
  key: string,
  n: number,
): Promise<Pick<Things, 'depositOrder' | 'withdrawOrder' | `legTo${'Confirm' | 'Mark' | 'Dispute' | 'Cancel'}`>> {
  await openMarket(api.world, `group-${n}`, [partnerId]);
  const order = async (side: 'deposit' | 'withdraw', at: number, more: object): Promise<string> => {
    const body = { ...ORDER, ...more, external_id: `${side}-${at}-of-${partnerId}` };
    const made = await api.ask('POST', `/v1/p2p/${side}-orders`, { key, idempotencyKey: `${side}-${at}`, body });
    assert.equal(made.status, 201, made.text);
    return made.body.id;
  };
  const legs: string[] = [];
  for (let at = 0; at < 4; at += 1) {
    await order('withdraw', at, { ...ACCOUNT, user_ref: 'seller' });
    const bought = await order('deposit', at, { user_ref: 'buyer' });
    await makeMatcher(api.world.engine, api.world.log).runOnce();
    const found = await api.ask('GET', `/v1/p2p/deposit-orders/${bought}`, { key });
    legs.push(found.body.legs[0].id);
  }
  const [legToConfirm = '', legToMark = '', legToDispute = '', legToCancel = ''] = legs;
  return {
    withdrawOrder: await order('withdraw', 4, { ...ACCOUNT, user_ref: 'seller', price: '9999' }),
    depositOrder: await order('deposit', 4, { user_ref: 'buyer', price: '1' }),
    legToConfirm,
    legToMark,
    legToDispute,
    legToCancel,
  };
}

function routes(): { method: string; operationId: string; isPublic: boolean }[] {
  return Object.values(api.document.paths).flatMap((methods) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      operationId: operation.operationId,
      isPublic: operation.security?.length === 0,
    })),
  );
}

function recipeOf(operationId: string): Recipe {
  const recipe = RECIPES[operationId];
  assert.ok(recipe !== undefined, `${operationId} has no line in this test`);
  return recipe;
}

test('every route of the document has its line here, and no line is for nothing', () => {
  assert.deepEqual(
    routes()
      .map((route) => route.operationId)
      .sort(),
    Object.keys(RECIPES).sort(),
  );
  for (const route of routes())
    assert.equal(route.isPublic, recipeOf(route.operationId).kind === 'public', route.operationId);
});

test('without a key, or with one that never was, no route of a partner answers anything', async () => {
  for (const { method, operationId, isPublic } of routes()) {
    if (isPublic) continue;
    const { path, ask } = recipeOf(operationId);
    const rows = await api.countRows();
    const without = await api.ask(method, path(own), { ...ask, key: null });
    assert.deepEqual([without.status, without.body.code], [401, 'PO_AUTH_MISSING'], operationId);
    const wrong = await api.ask(method, path(own), { ...ask, key: `sk_live_${'0'.repeat(51)}` });
    assert.deepEqual([wrong.status, wrong.body.code], [401, 'PO_AUTH_WRONG'], operationId);
    assert.deepEqual(await api.countRows(), rows, operationId);
  }
});

test("another partner's ids are answered like ids that never were, and nothing of it is changed", async () => {
  const never = Object.fromEntries(
    Object.entries(own).map(([name, id]) => [name, id.replaceAll(/[^_]{5}$/g, '00000')]),
  ) as unknown as Things;
  for (const { method, operationId } of routes()) {
    const { path, kind, ask } = recipeOf(operationId);
    if (kind !== 'one') continue;
    const rows = await api.countRows();
    const foreign = await api.ask(method, path(own), { ...ask, key: api.otherKey });
    const unknown = await api.ask(method, path(never), { ...ask, key: api.otherKey });
    assert.equal(foreign.status, 404, operationId);
    assert.equal(foreign.text, unknown.text, operationId);
    if (operationId.endsWith('Leg') || operationId === 'markLegPaid')
      assert.match(
        foreign.body.detail,
        /you are (?:not the (?:buyer|seller)’s partner|on no side) of one/,
        operationId,
      );
    assert.deepEqual(await api.countRows(), rows, operationId);
  }
  assert.equal((await api.ask('GET', `/v1/withdrawals/${own.withdrawal}`)).body.status, 'pending');
  assert.equal((await api.ask('GET', '/v1/endpoints')).body.items[0].disabled_at, null);
});

test("a list shows the caller's own and nothing of another's", async () => {
  const mine: Record<string, string> = {
    listWithdrawals: own.withdrawal,
    listTransfers: own.transfer,
    listTransferBatches: own.batch,
    listDepositOrders: own.depositOrder,
    listWithdrawOrders: own.withdrawOrder,
    listAddresses: own.address,
    listDeposits: own.deposit,
    listEvents: own.event,
    listCases: own.case,
    listPayouts: own.payout,
    listProgrammes: own.programme,
    readPayoutStatement: `creator-of-${api.world.partnerId}`,
    listEndpoints: own.endpoint,
    listBalances: '"balance":"995"',
    listEntries: '"balance_after":"1000"',
    listAssets: '"code":"USDT"',
  };
  const marks = (things: Things, partnerId: string): string[] => [...Object.values(things), partnerId];
  for (const { method, operationId } of routes()) {
    const { path, kind } = recipeOf(operationId);
    if (kind !== 'list') continue;
    const answers: [Answer, string[]][] = [
      [await api.ask(method, path(own)), [...marks(theirs, api.otherPartnerId), '"77"', '"72"']],
      [
        await api.ask(method, path(own), { key: api.otherKey }),
        [...marks(own, api.world.partnerId), '"1000"', '"995"'],
      ],
    ];
    assert.ok(answers[0]?.[0].text.includes(mine[operationId] ?? 'no mark'), `${operationId}: ${answers[0]?.[0].text}`);
    for (const [answer, foreign] of answers) {
      assert.equal(answer.status, 200);
      for (const mark of foreign) assert.ok(!answer.text.includes(mark), `${operationId} shows ${mark}`);
    }
  }
});

test('a case shows that something is looked at, not what operators wrote or suspect', async () => {
  const { body, text } = await api.ask('GET', '/v1/cases?status=open');
  assert.deepEqual(body.items[0].subject, { type: 'deposit', id: own.deposit });
  assert.deepEqual([body.items[0].asset, body.items[0].amount, body.items[0].status], ['USDT', '0.000005', 'open']);
  assert.ok(!text.includes('operator') && !text.includes('unknown_movement'));
  assert.deepEqual((await api.ask('GET', '/v1/cases?status=closed')).body.items, []);
});

test('the owner is answered on every route, as the document says', async () => {
  for (const { method, operationId } of routes()) {
    const { path, ask, status } = recipeOf(operationId);
    const answer = await api.ask(method, path(own), ask);
    assert.equal(answer.status, status, `${operationId}: ${answer.text}`);
  }
});
