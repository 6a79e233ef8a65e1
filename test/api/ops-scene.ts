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
import { createOperator, type Role } from '../../src/engine/operators.ts';
import { createTransfers, makeTransfers, readTransfer } from '../../src/flows/transfers/index.ts';
import { toJsonText } from '../../src/kernel/json-text.ts';
import type { Log } from '../../src/kernel/log.ts';
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

export interface OpsScene {
  readonly bank: Bank;
  readonly world: World;
  readonly rail: BankRail;
  readonly app: FastifyInstance;
  readonly keys: Readonly<Record<Person, string>>;
  readonly ids: Readonly<Record<Person, string>>;
  readonly partnerKey: string;
  readonly document: OpenApi;
  readonly logged: ReturnType<typeof collectingLog>;
  readonly woken: { times: number };
  /** What must stand in no answer and no line of the log. */
  secrets(): readonly string[];
  /** By an operator, or with a key (null: none). */
  ask(method: string, path: string, by: Person | { key: string | null }, body?: unknown): Promise<Answer>;
  /** A transfer, sealed and sent once. */
  pay(key?: string): Promise<string>;
  /** One pass of a worker over everything that is open. */
  pass(times?: number): Promise<void>;
  /** The one effect that there is. */
  effect(): Promise<{ id: bigint; state: string; send_count: number; wanted: string | null; evidence_version: number }>;
  /** The one open case. */
  caseId(): Promise<string>;
  /** Also where a check of it fails: a scene left open would keep the file's process alive. */
  end(books?: BooksOptions): Promise<void>;
}

export async function makeOpsScene(
  options: {
    label?: string;
    faults?: NonNullable<BankOptions['faults']>;
    deps?: Partial<ApiDeps>;
    connectionsMax?: number;
    timeoutMs?: number;
  } = {},
): Promise<OpsScene> {
  const profile = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const bank = await startBank({ profile: 'generic', faults: options.faults ?? SILENT });
  const { asset, payee } = intentFor(profile);
  assert.ok(payee !== null);
  const logged = collectingLog();
  const log: Log = logged;
  let made: BankRail | undefined;
  const world = await makeWorld({
    label: options.label ?? 'ops',
    log,
    rails: (ports) => {
      made = makeBankRail(
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
        { ports, http: { timeoutMs: options.timeoutMs ?? 2_000 } },
      );
      return [made];
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
  const rail = made ?? assert.fail();
  const { pool, makeId, ports } = world;
  const keys: Partial<Record<Person, string>> = {};
  const ids: Partial<Record<Person, string>> = {};
  for (const [name, role] of Object.entries(PEOPLE) as [Person, Role][]) {
    const one = await pool.tx('operator', (tx) => createOperator(tx, makeId, ports.chance, name, role, 'test'));
    keys[name] = one.key;
    ids[name] = one.operator.id;
  }
  const partnerKey = (await createApiKey(pool, { makeId, chance: ports.chance }, world.partnerId, 'test')).key;
  const woken = { times: 0 };
  const app = await makeApi({
    pool,
    ports,
    log,
    makeId,
    chart: world.chart,
    engine: world.engine,
    version: '0.0.0-test',
    readDestination: () => ({ ok: false, fault: 'none', expected: 'none' }),
    readPayee: () => null,
    batchLinesMax: () => 1,
    depositChains: [],
    newDepositAddress: () => Promise.reject(new Error('no chain here')),
    inbox: { receive: () => Promise.reject(new Error('no source here')) },
    webhooks: { masterSecret: MASTER_SECRET, urlPolicy: { allowPrivate: false } },
    wake: () => {
      woken.times += 1;
    },
    requestsPerMinuteMax: 0,
    ...options.deps,
  });
  await app.ready();
  const every = keys as Record<Person, string>;
  const read = await app.inject({ url: '/ops/openapi.json', headers: { authorization: `Bearer ${every.vera}` } });
  const document = JSON.parse(read.body) as OpenApi;

  const scene: OpsScene = {
    bank,
    world,
    rail,
    app,
    keys: every,
    ids: ids as Record<Person, string>,
    partnerKey,
    document,
    logged,
    woken,
    secrets: () => [...Object.values(every), partnerKey, bank.credentials.current(), MASTER_SECRET.toString('base64')],
    async ask(method, path, by, body) {
      const key = typeof by === 'string' ? every[by] : by.key;
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
      for (const secret of scene.secrets())
        assert.ok(!answer.text.includes(secret), `${method} ${path} shows a secret`);
      return answer;
    },
    async pay(key = 'one') {
      const request = readTransfer((input) => rail.readPayee(input), {
        partnerId: world.partnerId,
        idempotencyKey: key,
        fingerprint: `body of ${key}`,
        externalId: null,
        assetId: world.assetId,
        amount: AMOUNT,
        ...payee,
      });
      assert.ok(request.ok);
      const [created] = await createTransfers(world, [request.request]);
      assert.equal(created?.outcome, 'created');
      await scene.pass();
      return created.outcome === 'created' ? created.id : '';
    },
    async pass(times = 1) {
      for (let time = 0; time < times; time += 1) {
        await pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
        await advanceOnce(world.engine, rail);
      }
    },
    async effect() {
      const { rows } = await pool.query<{
        id: bigint;
        state: string;
        send_count: number;
        wanted: string | null;
        evidence_version: number;
      }>('select id, state, send_count, wanted, evidence_version from payonce.effects');
      assert.equal(rows.length, 1);
      return rows[0] ?? assert.fail();
    },
    async caseId() {
      const { rows } = await pool.query<{ id: string }>('select id from payonce.cases where closed_at is null');
      assert.equal(rows.length, 1);
      return rows[0]?.id ?? '';
    },
    async end(books) {
      try {
        await app.close();
        await assertBooksClean(pool, books);
        const log = toJsonText(logged.lines);
        for (const secret of scene.secrets()) assert.ok(!log.includes(secret), 'the log shows a secret');
      } finally {
        await rail.close();
        await world.end();
        await bank.stop();
      }
    },
  };
  return scene;
}
