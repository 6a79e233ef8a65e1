/*
 * The API over a world of its own: two partners with keys, the no-op rail, the EVM rail's reading of addresses. Every
 * answer is held to the schema of the OpenAPI document, so that the document cannot promise what the server does not do.
 */
import assert from 'node:assert/strict';
import type { FastifyInstance } from 'fastify';
import Schema from 'typebox/schema';
import { type ApiDeps, makeApi } from '../../src/api/server.ts';
import { createApiKey } from '../../src/api/keys.ts';
import type { Flow } from '../../src/engine/flow.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { makePayoutFlow } from '../../src/flows/payouts/index.ts';
import { makeP2pFlows } from '../../src/flows/p2p/index.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeReceiver } from '../../src/inbox/receive.ts';
import type { Ports } from '../../src/kernel/ports.ts';
import type { Chart } from '../../src/ledger/accounts.ts';
import { readAddress } from '../../src/rails/evm/address.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld, type World } from '../support/world.ts';

export const SOMEBODY = '0x52908400098527886e0f7030069857d2e4169ee7';
export const SOURCE_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
export const MASTER_SECRET = Buffer.alloc(32, 3);

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read JSON of every shape
  readonly body: any;
  readonly text: string;
}

export interface Ask {
  readonly key?: string | null;
  readonly idempotencyKey?: string | undefined;
  readonly body?: unknown;
  /** Sent as it is, in place of `body`. */
  readonly raw?: string | Buffer;
  readonly headers?: Record<string, string>;
}

export interface ApiWorld {
  readonly world: World;
  readonly app: FastifyInstance;
  /** What `app` was made of, for a second one beside it. */
  readonly deps: ApiDeps;
  readonly document: OpenApi;
  readonly key: string;
  readonly otherPartnerId: string;
  readonly otherKey: string;
  readonly woken: { times: number; fails: boolean };
  ask(method: string, path: string, ask?: Ask): Promise<Answer>;
  /** POST /v1/withdrawals with a good body, fields as given; a fresh key unless one is given. */
  pay(fields?: Record<string, unknown>, ask?: Ask): Promise<Answer>;
  /** Rows of every table that a request could write. */
  countRows(): Promise<Record<string, bigint>>;
  end(): Promise<void>;
}

export interface OpenApi {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, Record<string, Operation>>;
}
export interface Operation {
  operationId: string;
  summary?: string;
  security?: unknown[];
  responses: Record<string, { content?: Record<string, { schema: object }> }>;
}

const WRITTEN = [
  'withdrawals',
  'transfers',
  'p2p_deposit_orders',
  'p2p_withdraw_orders',
  'p2p_legs',
  'p2p_payments',
  'programmes',
  'creators',
  'creator_addresses',
  'pools',
  'accruals',
  'payouts',
  'effects',
  'subjects',
  'holds',
  'postings',
  'ledger_entries',
  'idempotency_keys',
  'events',
  'addresses',
  'endpoints',
  'inbox',
  'day_totals',
  'api_keys',
];

export async function makeApiWorld(
  options: {
    label: string;
    deps?: Partial<ApiDeps>;
    behave?: NoopBehaviour;
    fundUnits?: bigint;
    /** Beside the no-op rail and withdrawals. */
    rails?: (ports: Ports) => readonly Rail[];
    flows?: (chart: Chart) => readonly Flow[];
  } = { label: 'api' },
): Promise<ApiWorld> {
  const world = await makeWorld({
    label: options.label,
    endedByHook: true,
    rails: (ports) => [makeNoopRail('noop', options.behave), ...(options.rails?.(ports) ?? [])],
    flows: (chart, makeId) => [
      makeWithdrawals(chart),
      ...makeP2pFlows(chart, makeId),
      makePayoutFlow(chart),
      ...(options.flows?.(chart) ?? []),
    ],
    ...(options.fundUnits === undefined ? {} : { fundUnits: options.fundUnits }),
  });
  const { pool, ports, makeId } = world;
  const otherPartnerId = 'par_other';
  await pool.query('insert into payonce.partners (id, name) values ($1, $2)', [otherPartnerId, 'Other partner']);
  const by = { makeId, chance: ports.chance };
  const key = (await createApiKey(pool, by, world.partnerId, 'test')).key;
  const otherKey = (await createApiKey(pool, by, otherPartnerId, 'live')).key;
  const woken = { times: 0, fails: false };
  let addresses = 0;
  const inbox = makeReceiver({
    pool,
    ports,
    log: world.log,
    sources: [{ name: 'monitor', secrets: [SOURCE_SECRET] }],
    wake: () => {},
  });
  const deps: ApiDeps = {
    pool,
    ports,
    log: world.log,
    makeId,
    chart: world.chart,
    engine: world.engine,
    version: '0.0.0-test',
    readDestination: (_chain, text) => readAddress(text),
    readPayee: () => null,
    batchLinesMax: () => 1,
    readTradePayment: () => null,
    wordOf: (_chain, address) => address.slice(2).padStart(64, '0'),
    mayCall: (_chain, { data }) => data.startsWith('0xa110cca7'),
    depositChains: ['noop'],
    newDepositAddress: () => {
      addresses += 1;
      return Promise.resolve(`0x${addresses.toString(16).padStart(40, 'a')}`);
    },
    inbox,
    webhooks: { masterSecret: MASTER_SECRET, urlPolicy: { allowPrivate: false } },
    wake() {
      woken.times += 1;
      if (woken.fails) throw new Error('nobody to wake');
    },
    requestsPerMinuteMax: 0,
    ...options.deps,
  };
  const app = await makeApi(deps);
  await app.ready();
  const document = JSON.parse((await app.inject('/openapi.json')).body) as OpenApi;
  let counter = 0;

  async function ask(method: string, path: string, ask: Ask = {}): Promise<Answer> {
    const bearer = ask.key === undefined ? key : ask.key;
    const payload = ask.raw ?? (ask.body === undefined ? undefined : JSON.stringify(ask.body));
    const response = await app.inject({
      method: method as 'GET',
      url: path,
      headers: {
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...(ask.idempotencyKey === undefined ? {} : { 'idempotency-key': ask.idempotencyKey }),
        ...ask.headers,
      },
      ...(payload === undefined ? {} : { payload }),
    });
    const isJson = /json/.test(String(response.headers['content-type']));
    const answer: Answer = {
      status: response.statusCode,
      headers: response.headers,
      text: response.body,
      body: isJson ? JSON.parse(response.body) : null,
    };
    assertAsDocumented(document, method, path, answer);
    return answer;
  }

  return {
    world,
    app,
    deps,
    document,
    key,
    otherPartnerId,
    otherKey,
    woken,
    ask,
    pay(fields = {}, more = {}) {
      counter += 1;
      return ask('POST', '/v1/withdrawals', {
        idempotencyKey: `pay-${counter}`,
        body: { asset: 'USDT', amount: '1.5', destination: SOMEBODY, ...fields },
        ...more,
      });
    },
    async countRows() {
      const counts: Record<string, bigint> = {};
      for (const table of WRITTEN) {
        const { rows } = await pool.query<{ n: bigint }>(`select count(*) as n from payonce.${table}`);
        counts[table] = rows[0]?.n ?? -1n;
      }
      return counts;
    },
    async end() {
      await app.close();
      await assertBooksClean(pool);
      await world.end();
    },
  };
}

/** The operation that a path belongs to, with its pattern. */
export function operationOf(document: OpenApi, method: string, path: string): Operation | undefined {
  const plain = path.split('?', 1)[0] ?? '';
  const patterns = Object.keys(document.paths).sort((a, b) => a.split('{').length - b.split('{').length);
  const found = patterns.find(
    (pattern) =>
      document.paths[pattern]?.[method.toLowerCase()] !== undefined &&
      new RegExp(`^${pattern.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`).test(plain),
  );
  return found === undefined ? undefined : document.paths[found]?.[method.toLowerCase()];
}

export function assertAsDocumented(document: OpenApi, method: string, path: string, answer: Answer): void {
  const operation = operationOf(document, method, path);
  if (answer.status >= 400 && answer.status !== 503) {
    assert.match(
      String(answer.headers['content-type']),
      /^application\/problem\+json/,
      `${method} ${path}: ${answer.text}`,
    );
    assert.equal(answer.body.status, answer.status);
    assert.equal(answer.body.type, `/problems/${String(answer.body.code)}`);
    assert.ok(answer.body.hint.length > 0);
  }
  if (operation === undefined) return;
  const response = operation.responses[answer.status] ?? operation.responses[`${String(answer.status)[0]}XX`];
  assert.ok(response !== undefined, `${method} ${path} answers ${answer.status}, which the document does not know`);
  const type = String(answer.headers['content-type']).split(';', 1)[0] ?? '';
  const schema = response.content?.[type]?.schema;
  if (answer.text === '') return;
  assert.ok(
    schema !== undefined,
    `${method} ${path} ${answer.status} answers ${type}, which the document does not know`,
  );
  const [, faults] = Schema.Errors(schema, /json/.test(type) ? answer.body : answer.text);
  assert.deepEqual(faults, [], `${method} ${path} ${answer.status}: ${answer.text}`);
}
