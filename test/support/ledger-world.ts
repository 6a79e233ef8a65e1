/*
 * A database with accounts and nothing else, for tests of the ledger alone. Its books are judged by `verify` at the end.
 */
import assert from 'node:assert/strict';
import { makePool, type Pool, type PoolOptions } from '../../src/db/pool.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { type Entry, post, type LedgerItem, type Posting, type Verdict } from '../../src/ledger/post.ts';
import { describeFault, verify } from '../../src/ledger/verify.ts';
import { type TestDatabase, testDatabase } from './postgres.ts';

export interface LedgerWorld {
  readonly url: string;
  readonly pool: Pool;
  /** Without a floor: what is credited elsewhere comes from here. */
  readonly house: bigint;
  account(floor?: bigint | null, assetId?: string): Promise<bigint>;
  /** An account with floor 0 that has so much. */
  funded(units: bigint): Promise<bigint>;
  post(...items: LedgerItem[]): Promise<Verdict[]>;
  balance(accountId: bigint): Promise<{ balance: bigint; held: bigint; deficit: bigint; seq: bigint }>;
  end(): Promise<void>;
}

export const ASSET = 'usdt';

export async function makeLedgerWorld(label: string, options: Partial<PoolOptions> = {}): Promise<LedgerWorld> {
  const database: TestDatabase = await testDatabase(label);
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, ...options });
  await pool.query(`insert into payonce.assets (id, code, chain, decimals)
    values ('${ASSET}', 'USDT', 'eip155:31337', 6), ('eur', 'EUR', 'none', 2)`);
  let ordinal = 0;
  async function account(floor: bigint | null = 0n, assetId: string = ASSET): Promise<bigint> {
    ordinal += 1;
    const { rows } = await pool.query<{ id: bigint }>(
      'insert into payonce.accounts (code, asset_id, floor) values ($1, $2, $3) returning id',
      [`account-${ordinal}`, assetId, floor],
    );
    return rows[0]?.id ?? 0n;
  }
  const house = await account(null);
  const world: LedgerWorld = {
    url: database.url,
    pool,
    house,
    account,
    async funded(units) {
      const id = await account();
      if (units > 0n) await world.post(posting(`FUND:${id}`, [house, -units], [id, units]));
      return id;
    },
    post: (...items) => pool.tx('test post', (tx) => post(tx, items)),
    async balance(accountId) {
      const { rows } = await pool.query<{ balance: bigint; held: bigint; deficit: bigint; seq: bigint }>(
        'select balance, held, deficit, seq from payonce.accounts where id = $1',
        [accountId],
      );
      assert(rows[0] !== undefined);
      return rows[0];
    },
    async end() {
      await assertLedgerClean(pool);
      await pool.end();
      await database.drop();
    },
  };
  return world;
}

export function posting(key: string, ...lines: readonly (readonly [bigint, bigint])[]): Posting {
  const entries: Entry[] = lines.map(([accountId, amount]) => ({ accountId, amount }));
  return { kind: 'post', key, reference: `ref of ${key}`, entries };
}

export function words(verdicts: readonly Verdict[]): string[] {
  return verdicts.map((one) => one.verdict);
}

export async function assertLedgerClean(pool: Pool): Promise<void> {
  const { faults } = await verify(pool);
  assert.deepEqual(faults.map(describeFault), []);
}
