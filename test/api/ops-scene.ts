/*
 * The stage for the operators' routes: a simulated bank behind a real socket, a transfer whose answer was lost, the API over
 * its world, and people with a key each. Every answer is held to the operators' document.
 */
import assert from 'node:assert/strict';
import type { FastifyInstance } from 'fastify';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { createApiKey } from '../../src/api/keys.ts';
import { type ApiDeps, makeApi } from '../../src/api/server.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { createOperator, type Operator, type Role } from '../../src/engine/operators.ts';
import { createTransfers, makeTransfers, readTransfer } from '../../src/flows/transfers/index.ts';
import { toJsonText } from '../../src/kernel/json-text.ts';
import { type BankRail, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { intentFor } from '../rails/bank-scene.ts';
import { assertBooksClean, type BooksOptions } from '../support/books.ts';
import { collectingLog, makeWorld, type World } from '../support/world.ts';
import { type Answer, assertAsDocumented, MASTER_SECRET, type OpenApi } from './api-world.ts';

export const AMOUNT = 12_500n;
const FUNDS = 1_000_000n;

/** The bank executes nothing, says nothing and shows nothing. */
export const SILENT: NonNullable<BankOptions['faults']> = [
  { on: 'create', fault: { kind: 'lose_request', how: 'reset' } },
  { on: 'look', fault: { kind: 'blind' } },
];

const PEOPLE = {
  ada: 'admin',
  bob: 'approver',
  cyd: 'approver',
  otto: 'operator',
  vera: 'viewer',
} as const satisfies Record<string, Role>;
type Person = keyof typeof PEOPLE;

/** The API over a world, and people with a key each. */
export interface OpsApi {
  readonly app: FastifyInstance;
  /** What `app` was made of, for a second one beside it. */
  readonly deps: ApiDeps;
  readonly keys: Readonly<Record<Person, string>>;
  readonly ids: Readonly<Record<Person, string>>;
  readonly partnerKey: string;
  readonly document: OpenApi;
  readonly woken: { times: number };
  /** What must stand in no answer and no line of the log. */
  readonly secrets: readonly string[];
  /** By an operator, or with a key (null: none). */
  ask(method: string, path: string, by: Person | { key: string | null }, body?: unknown): Promise<Answer>;
}

export async function makeOpsApi(world: World, overrides: Partial<ApiDeps> = {}): Promise<OpsApi> {
  const { pool, makeId, ports } = world;
  const people = await pool.tx('people', async (tx) => {
    const made: [Person, { operator: Operator; key: string }][] = [];
    for (const [name, role] of Object.entries(PEOPLE) as [Person, Role][])
      made.push([name, await createOperator(tx, makeId, ports.chance, name, role, 'test')]);
    return made;
  });
  const keys = Object.fromEntries(people.map(([name, one]) => [name, one.key])) as Record<Person, string>;
  const ids = Object.fromEntries(people.map(([name, one]) => [name, one.operator.id])) as Record<Person, string>;
  const partnerKey = (await createApiKey(pool, { makeId, chance: ports.chance }, world.partnerId, 'test')).key;
  const woken = { times: 0 };
  const deps: ApiDeps = {
    pool,
    ports,
    log: world.log,
    makeId,
    chart: world.chart,
    engine: world.engine,
    version: '0.0.0-test',
    readDestination: () => ({ ok: false, fault: 'none', expected: 'none' }),
    readPayee: () => null,
    batchLinesMax: () => 1,
    readTradePayment: () => null,
    wordOf: () => '0'.repeat(64),
    mayCall: () => false,
    depositChains: [],
    newDepositAddress: () => Promise.reject(new Error('no chain here')),
    inbox: { receive: () => Promise.reject(new Error('no source here')) },
    webhooks: { masterSecret: MASTER_SECRET, urlPolicy: { allowPrivate: false } },
    wake: () => {
      woken.times += 1;
    },
    requestsPerMinuteMax: 0,
    ...overrides,
  };
  const app = await makeApi(deps);
  await app.ready();
  const read = await app.inject({ url: '/ops/openapi.json', headers: { authorization: `Bearer ${keys.vera}` } });
  const document = JSON.parse(read.body) as OpenApi;
  const secrets = [...Object.values(keys), partnerKey, MASTER_SECRET.toString('base64')];
  return {
    app,
    deps,
    keys,
    ids,
    partnerKey,
    document,
    woken,
    secrets,
    async ask(method, path, by, body) {
      const key = typeof by === 'string' ? keys[by] : by.key;
      const response = await app.inject({
        method: method as 'GET',
        url: path,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      });
      const answer: Answer = {
        status: response.statusCode,
        headers: response.headers,
        text: response.body,
        body: /json/.test(String(response.headers['content-type'])) ? JSON.parse(response.body) : null,
      };
      assertAsDocumented(document, method, path, answer);
      for (const secret of secrets) assert.ok(!answer.text.includes(secret), `${method} ${path} shows a secret`);
      return answer;
    },
  };
}

export interface EffectNow {
  readonly id: bigint;
  readonly state: string;
  readonly send_count: number;
  readonly wanted: string | null;
  readonly evidence_version: number;
  readonly lease_until: Date | null;
}

/** The one effect that there is. */
export async function effectIn(world: World): Promise<EffectNow> {
  const { rows } = await world.pool.query<EffectNow & Record<string, unknown>>(
    'select id, state, send_count, wanted, evidence_version, lease_until from payonce.effects',
  );
  assert.equal(rows.length, 1);
  return rows[0] ?? assert.fail();
}

export interface OpsScene extends OpsApi {
  readonly bank: Bank;
  readonly world: World;
  readonly rail: BankRail;
  /** Taken in; nothing is sealed. */
  take(key?: string): Promise<string>;
  /** Taken in, sealed and sent once. */
  pay(key?: string): Promise<string>;
  /** One pass of a worker over everything that is open. */
  pass(times?: number): Promise<void>;
  effect(): Promise<EffectNow>;
  /** The one open case. */
  caseId(): Promise<string>;
  /** Also where a check of it fails: a scene left open would keep the file's process alive. */
  end(books?: BooksOptions): Promise<void>;
}

export interface OpsOptions {
  readonly label?: string;
  readonly faults?: NonNullable<BankOptions['faults']>;
  readonly deps?: Partial<ApiDeps>;
  readonly connectionsMax?: number;
  /** Changes the rail that the engine has. */
  readonly change?: (rail: BankRail) => BankRail;
}

export async function makeOpsScene(options: OpsOptions = {}): Promise<OpsScene> {
  const profile = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const bank = await startBank({ profile: 'generic', faults: options.faults ?? SILENT });
  const { asset, payee } = intentFor(profile);
  assert.ok(payee !== null);
  const logged = collectingLog();
  const rails: BankRail[] = [];
  const world = await makeWorld({
    label: options.label ?? 'ops',
    log: logged,
    rails(ports) {
      const rail = makeBankRail(
        {
          name: 'bank:generic',
          profile,
          baseUrl: bank.url,
          account: 'acc_1',
          credential: { id: 'cred_1', secret: () => bank.credentials.current() },
          deployment: 'test',
          direct: true,
          capabilities: { resendAfterMs: 0, decideWithinMs: 0 },
        },
        { ports, http: { timeoutMs: 2_000 } },
      );
      rails.push(options.change?.(rail) ?? rail);
      return rails;
    },
    flows: (chart) => [makeTransfers(chart)],
    chain: 'bank:generic',
    contract: asset.code,
    assetCode: asset.code,
    decimals: asset.decimals,
    wallet: 'acc_1',
    fundUnits: FUNDS,
    endedByHook: true,
    ...(options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax }),
  });
  const rail = rails[0] ?? assert.fail();
  const { pool } = world;
  const api = await makeOpsApi(world, options.deps);
  const secrets = [...api.secrets, bank.credentials.current()];

  const scene: OpsScene = {
    ...api,
    secrets,
    bank,
    world,
    rail,
    async take(key = 'one') {
      const read = readTransfer((input) => rail.readPayee(input), {
        partnerId: world.partnerId,
        idempotencyKey: key,
        fingerprint: `body of ${key}`,
        externalId: null,
        assetId: world.assetId,
        amount: AMOUNT,
        ...payee,
      });
      assert.ok(read.ok);
      const [created] = await createTransfers(world, [read.request]);
      return created?.outcome === 'created' ? created.id : assert.fail(JSON.stringify(created));
    },
    async pay(key) {
      const id = await scene.take(key);
      await scene.pass();
      return id;
    },
    async pass(times = 1) {
      for (let time = 0; time < times; time += 1) {
        await pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
        await advanceOnce(world.engine, rail);
      }
    },
    effect: () => effectIn(world),
    async caseId() {
      const { rows } = await pool.query<{ id: string }>('select id from payonce.cases where closed_at is null');
      assert.equal(rows.length, 1);
      return rows[0]?.id ?? '';
    },
    async end(books) {
      try {
        await api.app.close();
        await assertBooksClean(pool, books);
        const log = toJsonText(logged.lines);
        for (const secret of secrets) assert.ok(!log.includes(secret), 'the log shows a secret');
      } finally {
        await rail.close();
        await world.end();
        await bank.stop();
      }
    },
  };
  return scene;
}
