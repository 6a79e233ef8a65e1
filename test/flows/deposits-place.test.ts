/*
 * Goal: what a deposit is known by: the chain, the transaction and the place in the transaction's own receipt, none of the
 * three alone or in pairs (case H5). Method: plain statements on a migrated database.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { testDatabase } from '../support/postgres.ts';

test('a transfer is its chain, its transaction and its place in it (case H5, inv I1)', async (t) => {
  const database = await testDatabase('deposits place');
  const psql = new pg.Client({ connectionString: database.url });
  await psql.connect();
  t.after(async () => {
    await psql.end();
    await database.drop();
  });
  await psql.query("insert into payonce.assets (id, code, chain, decimals) values ('coin', 'COIN', 'a', 18)");
  const see = (chain: string, hash: string, position: number): Promise<unknown> =>
    psql.query(
      `insert into payonce.chain_transfers (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason)
       values ($1, $2, $3, 1, '0xblock', 'coin', '0xout', '0xin', 5, 'DEPOSIT', '')`,
      [chain, hash, position],
    );
  await see('a', '0x1', 0);
  await see('a', '0x1', 1);
  await see('a', '0x2', 0);
  // Chains that were split from one history, or are replayed, have the same hashes.
  await see('b', '0x1', 0);
  await assert.rejects(see('a', '0x1', 0), { constraint: 'chain_transfers_place' });
});
