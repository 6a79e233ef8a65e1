/*
 * Files of transfers over a simulated bank behind a real socket, whose own books are the judge; a real database.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { afterEach } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import type { PayeeCheck } from '../../src/flows/transfers/index.ts';
import { createTransfers, makeTransfers, readTransfer } from '../../src/flows/transfers/index.ts';
import {
  type BatchFile,
  type BatchRules,
  linesFromJson,
  makeTransferBatches,
  readCsv,
  takeBatch,
} from '../../src/flows/transfers/batch.ts';
import { type LineView, readBatch, readLines } from '../../src/flows/transfers/batch-reads.ts';
import { type BankRail, type BankRailConfig, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { bankBooks } from '../support/bank-books.ts';
import type { BooksOptions } from '../support/books.ts';
import { makeWorld, type World } from '../support/world.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

export const FUNDS = 1_000_000n;
export const FEE = 100n;

export interface BatchScene {
  readonly bank: Bank;
  readonly world: World;
  readonly rail: BankRail;
  readonly rules: BatchRules;
  file(csv: string, change?: Partial<BatchFile>): BatchFile;
  json(lines: readonly unknown[], change?: Partial<BatchFile>): BatchFile;
  take(file: BatchFile): ReturnType<typeof takeBatch>;
  /** Its id; fails unless it was created. */
  create(file: BatchFile): Promise<string>;
  pass(times?: number): Promise<void>;
  /** A look at what settled. */
  watch(): Promise<void>;
  lines(id: string): Promise<LineView[]>;
  fates(id: string): Promise<string[]>;
  status(id: string): Promise<string | undefined>;
  /** The bank's own books beside ours, for the judge. */
  judged(): BooksOptions;
  /** By the bank's own books, the smallest first. */
  outflows(): Promise<bigint[]>;
  events(): Promise<string[]>;
  openCases(): Promise<string[]>;
}

export async function batchScene(
  name: 'generic' | 'paypal-payouts',
  faults: BankOptions['faults'] = [],
  more: Partial<BankOptions> & { fundUnits?: bigint; capabilities?: BankRailConfig['capabilities'] } = {},
): Promise<BatchScene> {
  const { fundUnits = FUNDS, capabilities, ...options } = more;
  const profile = PROFILES.find((one) => one.name === name) ?? assert.fail(name);
  const bank = await startBank({ profile: name, faults, ...options });
  closing.push(() => bank.stop());
  const isDollars = name === 'paypal-payouts';
  const asset = { code: isDollars ? 'USD' : 'KRW', decimals: isDollars ? 2 : 0 };
  const rails: BankRail[] = [];
  const world = await makeWorld({
    label: 'batches',
    rails: (ports) => {
      const rail = makeBankRail(
        {
          name: `bank:${name}`,
          profile,
          baseUrl: bank.url,
          account: 'acc_1',
          credential: { id: 'cred_1', secret: () => bank.credentials.current() },
          deployment: 'test',
          direct: true,
          ...(capabilities === undefined ? {} : { capabilities }),
        },
        { ports, http: { timeoutMs: 2_000 } },
      );
      rails.push(rail);
      return [rail];
    },
    flows: (chart, makeId) => [makeTransfers(chart), makeTransferBatches(chart, makeId)],
    chain: `bank:${name}`,
    contract: asset.code,
    assetCode: asset.code,
    decimals: asset.decimals,
    wallet: 'acc_1',
    fundUnits,
    feeFlat: FEE,
  });
  closing.push(() => world.end());
  const rail = rails[0] ?? assert.fail();
  closing.push(() => rail.close());
  const readPayee: PayeeCheck = (input) => rail.readPayee(input);
  const rules: BatchRules = { readPayee, linesMax: profile.linesMax };
  const base = (bytes: string): Omit<BatchFile, 'lines' | 'format'> => ({
    partnerId: world.partnerId,
    idempotencyKey: null,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    asset: { id: world.assetId, ...asset },
  });
  const take = (file: BatchFile): ReturnType<typeof takeBatch> => takeBatch(world, file, rules);
  const lines = (id: string): Promise<LineView[]> =>
    readLines(world.pool, { id, decimals: asset.decimals }, { after: 0, limit: 10_000 });
  return {
    bank,
    world,
    rail,
    rules,
    file(csv, change = {}) {
      const read = readCsv(Buffer.from(csv));
      return { ...base(csv), format: 'csv', lines: read.ok ? read.lines : assert.fail(read.fault.detail), ...change };
    },
    json: (list, change = {}) => ({
      ...base(JSON.stringify(list)),
      format: 'json',
      lines: linesFromJson(list),
      ...change,
    }),
    take,
    async create(file) {
      const made = await take(file);
      return made.outcome === 'created' ? made.id : assert.fail(JSON.stringify(made));
    },
    async pass(times = 1) {
      for (let time = 0; time < times; time += 1) {
        await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
        await advanceOnce(world.engine, rail);
      }
    },
    async watch() {
      await world.pool.query(
        "update payonce.effects set watch_at = payonce.now() - interval '1 second' where watch_at is not null",
      );
      await watchReleasedOnce(world.engine, rail);
    },
    lines,
    fates: async (id) => (await lines(id)).map((line) => line.fate),
    status: async (id) => (await readBatch(world.pool, world.partnerId, id))?.status,
    judged: () => ({ books: bankBooks(bank, `bank:${name}`), wallets: ['acc_1'] }),
    async outflows() {
      const out = (await bank.books.movements()).filter((movement) => movement.kind === 'out');
      return out.map((movement) => movement.amount).sort((left, right) => (left < right ? -1 : 1));
    },
    async events() {
      const { rows } = await world.pool.query<{ type: string }>('select type from payonce.events order by id');
      return rows.map((row) => row.type);
    },
    async openCases() {
      const { rows } = await world.pool.query<{ kind: string }>(
        'select kind from payonce.cases where closed_at is null order by kind',
      );
      return rows.map((row) => row.kind);
    },
  };
}

/** A single transfer of the same asset, as the API makes it. */
export async function singleTransfer(one: BatchScene, account: string, amount: bigint): Promise<string> {
  const { world, rules } = one;
  const read = readTransfer(rules.readPayee, {
    partnerId: world.partnerId,
    idempotencyKey: 'single',
    fingerprint: 'single',
    externalId: null,
    assetId: world.assetId,
    amount,
    bankCode: 'paypal',
    accountNumber: account,
    holderName: 'A B',
  });
  assert.ok(read.ok);
  const [made] = await createTransfers(world, [read.request]);
  return made?.outcome === 'created' ? made.id : assert.fail(JSON.stringify(made));
}
