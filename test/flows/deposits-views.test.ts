/*
 * Goal: addresses are made once per user where that is asked for, lists go by opaque cursors and show a partner what is
 * theirs alone, and an asset whose decimals are not the chain's refuses the start. Method: a real database and chain.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deployToken } from '../../sim/evm-send.ts';
import { constraintOf } from '../../src/db/pool.ts';
import {
  type AddressWish,
  type AssetSaid,
  checkAssets,
  createDepositAddress,
  listDepositAddresses,
  listDeposits,
  readDeposit,
  readDepositAddress,
} from '../../src/flows/deposits/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { CHAIN, type DepositScene, startDepositScene, UNIT } from '../support/deposit-scene.ts';

let scene: DepositScene;
before(async () => {
  scene = await startDepositScene({ label: 'deposits_views' });
});
after(async () => {
  await assertBooksClean(scene.pool);
  await scene.end();
});

let made = 0;
const create = (wish: Partial<AddressWish>) =>
  createDepositAddress(
    {
      pool: scene.pool,
      makeId: scene.deps.makeId,
      newAddress: () => {
        made += 1;
        return Promise.resolve(`0x${(0xe0000 + made).toString(16).padStart(40, '0')}`);
      },
    },
    { partnerId: 'par_a', chain: CHAIN, userRef: null, reuse: false, ...wish },
  );

test('an address is made once per partner, user and chain where that is asked for, ten callers at once included', async () => {
  const results = await Promise.all(Array.from({ length: 10 }, () => create({ userRef: 'user-1', reuse: true })));
  assert.equal(new Set(results.map((one) => one.address.address)).size, 1);
  assert.equal(results.filter((one) => one.outcome === 'created').length, 1);
  const other = await create({ userRef: 'user-1', reuse: true, partnerId: 'par_b' });
  assert.equal(other.outcome, 'created');
  const second = await create({ userRef: 'user-1' });
  assert.equal(second.outcome, 'created', 'without it each call makes a new one');
});

test('addresses are listed newest first by an opaque cursor, each once, and only to their partner', async () => {
  for (let index = 0; index < 5; index += 1) await create({ userRef: `list-${index}` });
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await listDepositAddresses(scene.pool, 'par_a', { limit: 2, cursor });
    assert.ok(page.outcome === 'page');
    seen.push(...page.items.map((one) => one.id));
    assert.ok(page.items.every((one) => one.partnerId === 'par_a'));
    if (page.next === null) break;
    cursor = page.next;
  }
  assert.equal(new Set(seen).size, seen.length);
  assert.equal(seen.length, 7);
  const [first] = seen;
  assert.ok(first !== undefined);
  assert.notEqual(await readDepositAddress(scene.pool, 'par_a', first), null);
  assert.equal(await readDepositAddress(scene.pool, 'par_b', first), null);
});

test('deposits are listed newest first by an opaque cursor, and another partner sees none of them', async () => {
  const { address } = await create({ userRef: 'payer' });
  for (let index = 0; index < 5; index += 1) await scene.pay(address.address, UNIT);
  await scene.finalize();
  assert.equal((await scene.scanner().runOnce()).credited, 5);
  const first = await listDeposits(scene.pool, 'par_a', { limit: 3, state: 'credited' });
  assert.ok(first.outcome === 'page' && first.next !== null);
  const rest = await listDeposits(scene.pool, 'par_a', { limit: 3, state: 'credited', cursor: first.next });
  assert.ok(rest.outcome === 'page' && rest.next === null);
  const ids = [...first.items, ...rest.items].map((one) => one.id);
  assert.deepEqual([ids.length, new Set(ids).size], [5, 5]);
  assert.ok([...first.items, ...rest.items].every((one) => one.userRef === 'payer' && one.address === address.address));
  const none = await listDeposits(scene.pool, 'par_b');
  assert.ok(none.outcome === 'page' && none.items.length === 0);
  assert.equal(await readDeposit(scene.pool, 'par_b', ids[0] ?? ''), null);
  assert.notEqual(await readDeposit(scene.pool, 'par_a', ids[0] ?? ''), null);
});

test('a text that is no cursor of ours is told as such and never as an empty list', async () => {
  const texts = [
    '',
    'x',
    Buffer.from('[1,2]').toString('base64url'),
    Buffer.from('["now","id"]').toString('base64url'),
    '"',
  ];
  for (const cursor of texts) {
    assert.equal((await listDeposits(scene.pool, 'par_a', { cursor })).outcome, 'cursor_invalid', cursor);
  }
  assert.equal((await listDepositAddresses(scene.pool, 'par_a', { cursor: 'zz' })).outcome, 'cursor_invalid');
});

async function checked() {
  return checkAssets(scene.pool, CHAIN, async (asset): Promise<AssetSaid> => {
    const said = await scene.rail.checkAsset(asset);
    return said.ok ? said : { ...said, certain: said.reason !== 'NODE_DOWN' };
  });
}

test('an asset whose decimals are not those of its contract refuses the start, and they never change here (case H9)', async () => {
  assert.deepEqual(await checked(), { verdict: 'right', faults: [] });
  await scene.nodes[0]?.down();
  assert.equal((await checked()).verdict, 'unknown');
  await scene.nodes[0]?.up();

  const token = await deployToken(scene.chain, scene.owner.privateKey, { decimals: 18 });
  await scene.pool.query(
    `insert into payonce.assets (id, code, chain, contract, decimals) values ('bsc', 'USDT-BSC', $1, $2, 6)`,
    [CHAIN, token],
  );
  const refused = await checked();
  assert.equal(refused.verdict, 'refused');
  assert.match(refused.faults.join(), /USDT-BSC: .*18 decimals/);
  await assert.rejects(
    scene.pool.query(`update payonce.assets set decimals = 18 where id = 'bsc'`),
    (error: unknown) => {
      assert.equal(constraintOf(error), 'assets_frozen');
      return true;
    },
  );
  await scene.pool.query(`update payonce.assets set code = 'USDT-18' where id = 'bsc'`);
});
