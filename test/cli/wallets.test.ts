/*
 * Goal: what needs a chain or a data folder at the command line: a wallet is released at the chain's own nonce, a sealed
 * transaction is wished a bump and a cancel, a key is made, and a running `payonce up` is found by its folder. Method: the
 * real program, a real chain behind two nodes, a keystore and a data folder of the test's own.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { quarantineSigners } from '../../src/engine/quarantine.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeEvmWorld } from '../support/evm-world.ts';
import { durableDataFolder, testDatabase } from '../support/postgres.ts';
import { addOperator, firstAdmin, payonce, payonceOn } from './cli-scene.ts';

test('a wallet is released at the nonce that its chain shows now, by an approver and not by less', async () => {
  const world = await makeEvmWorld({ label: 'cli release' });
  const folder = mkdtempSync(join(tmpdir(), 'payonce-cli-'));
  const file = join(folder, 'chains.json');
  const assets = [{ code: 'COIN', contract: null, decimals: 18 }];
  const chain = {
    chainId: String(world.anvil.chainId),
    nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
    finality: { tag: 'finalized' },
    feeCapWei: '1000000000000',
    gasLimitCap: '1000000',
    assets,
  };
  writeFileSync(file, JSON.stringify({ chains: [chain] }));
  const run = payonceOn(world.url, { PAYONCE_CONFIG: file });
  const [wallet, admin] = [world.wallets[0] ?? '', await firstAdmin(run)];
  const otto = await addOperator(run, admin, 'Otto', 'operator');

  await createWithdrawals(world, [world.request({ destination: world.outsider() })]);
  await world.pass();
  for (const wish of ['bump', 'cancel']) {
    assert.equal((await run(['effect', wish, '1'], otto)).code, 0);
    const { rows } = await world.pool.query<{ wanted: string }>('select wanted from payonce.effects');
    assert.equal(rows[0]?.wanted, wish);
  }
  await world.pool.query('update payonce.effects set wanted = null');
  await world.drain();
  const hash =
    (await world.pool.query<{ hash: string }>('select hash from payonce.effect_variants')).rows[0]?.hash ?? '';
  assert.match((await run(['effect', 'show', hash.toUpperCase().replace('0X', '0x')])).stdout, /state +SETTLED/);

  await world.pool.tx('quarantine', (tx) =>
    quarantineSigners(tx, world.engine, [{ rail: world.rail.name, signer: wallet, reason: 'a foreign transaction' }]),
  );
  const release = [
    'wallet',
    'release',
    world.rail.name,
    wallet.toUpperCase().replace('0X', '0x'),
    '--reason',
    'our own test',
    '--json',
  ];
  assert.equal((await run(release, otto)).problem().code, 'PO_OPERATOR_FORBIDDEN');
  for (const node of world.nodes) await node.stop();
  const down = await run(release, admin);
  assert.equal(down.code, 4);
  assert.match(down.problem().detail, /nothing was changed/);
  writeFileSync(
    file,
    JSON.stringify({ chains: [{ ...chain, nodes: [{ url: world.anvil.url, operator: 'direct' }] }] }),
  );
  const released = await run(release, admin);
  assert.equal(released.code, 0, released.stderr);
  assert.deepEqual(released.json(), { rail: world.rail.name, address: wallet, outcome: 'released', nonce_head: '1' });
  assert.equal((await run(release, admin)).code, 4);
  assert.match((await run(['case', 'list'])).stdout, /No open case/);
  assert.match((await run(['alerts'])).stdout, /No open alert/);
  await assertBooksClean(world.pool);
  await world.end();
  rmSync(folder, { recursive: true });
});

test('wallets are listed per chain, with what each is for, and what the books say of one chain is not told of another', async () => {
  const world = await makeEvmWorld({ label: 'cli wallet list' });
  const folder = mkdtempSync(join(tmpdir(), 'payonce-cli-'));
  const file = join(folder, 'chains.json');
  const here = `eip155:${world.anvil.chainId}`;
  writeFileSync(
    file,
    JSON.stringify({
      chains: [
        {
          chainId: String(world.anvil.chainId),
          nodes: [{ url: world.anvil.url, operator: 'direct' }],
          finality: { depth: 1 },
          feeCapWei: '1000000000000',
          gasLimitCap: '1000000',
          assets: [{ code: 'COIN', contract: null, decimals: 18 }],
        },
      ],
    }),
  );
  const run = payonceOn(world.url, { PAYONCE_CONFIG: file });
  const [wallet = '', settlement] = [world.wallets[0], world.outsider()];
  await world.pool.query(
    `insert into payonce.addresses (id, chain, address, kind, partner_id) values
      ('adr_1', $1, $2, 'SETTLEMENT', null), ('adr_2', 'eip155:56', $3, 'MASTER', null), ('adr_3', $1, $4, 'DEPOSIT', $5)`,
    [here, settlement, wallet, '0x00000000000000000000000000000000000000de', world.partnerId],
  );
  await world.pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ($1, $2, 'deposit address', 0)",
    [world.rail.name, '0x00000000000000000000000000000000000000de'],
  );
  const listed = (await run(['wallet', 'list', '--on-chain', '--json'])).json<{
    wallets: {
      chain: string;
      address: string;
      kind: string;
      next_nonce: string | null;
      in_the_books: { asset: string }[];
      on_chain: { asset: string; amount: string | null }[];
    }[];
  }>().wallets;
  const of = (chain: string, address: string) =>
    listed.find((one) => one.chain === chain && one.address === address) ?? assert.fail(`${address} on ${chain}`);
  assert.ok(of(here, wallet).in_the_books.length > 0);
  assert.ok(of(here, wallet).on_chain.every((one) => one.amount !== null));
  assert.deepEqual(of('eip155:56', wallet).in_the_books, [], 'the same address on another chain holds nothing of it');
  assert.deepEqual([of(here, settlement).kind, of(here, settlement).next_nonce], ['SETTLEMENT', null]);
  assert.ok(!listed.some((one) => one.kind === 'DEPOSIT'));
  assert.match((await run(['wallet', 'list'])).stdout, /CHAIN +KIND +WALLET .*IN THE BOOKS +QUARANTINE/);
  await world.end();
  rmSync(folder, { recursive: true });
});

test('a wallet is made in the keystore by an admin, and only there', async () => {
  const database = await testDatabase('cli keystore');
  const { url } = database;
  const folder = mkdtempSync(join(tmpdir(), 'payonce-keys-'));
  const without = payonceOn(url);
  const admin = await firstAdmin(without);
  assert.equal((await without(['wallet', 'create'], admin)).code, 2);
  const run = payonceOn(url, { PAYONCE_KEYSTORE: folder, PAYONCE_PASSPHRASE: 'correct horse' });
  assert.equal((await run(['wallet', 'create'])).code, 2, 'a missing operator key is a setting that is missing');
  assert.deepEqual(readdirSync(folder), []);
  const made = await run(['wallet', 'create', '--json'], admin);
  const { address } = made.json<{ address: string }>();
  assert.deepEqual(readdirSync(folder), [`${address}.json`]);
  assert.match((await run(['audit', 'list', '--object', address])).stdout, /wallet\.created/);
  rmSync(folder, { recursive: true });
  await database.drop();
});

test('a data folder leads to the database that runs on it, or else to one started for the command', async () => {
  const database = await testDatabase('cli folder');
  const { url } = database;
  const data = durableDataFolder();
  const settings = { PAYONCE_DATA: data.folder };
  const mistyped = await payonce(['partner', 'list'], settings);
  assert.equal(mistyped.code, 2, 'a mistyped folder is no new database');
  assert.match(mistyped.stderr, /there is no payonce data in/);
  assert.equal((await payonce(['migrate'], settings)).code, 0);
  const made = await payonce(['partner', 'create', '--name', 'Own', '--json'], settings);
  assert.equal(made.code, 0, made.stderr);
  assert.match((await payonce(['partner', 'list'], settings)).stdout, /Own/);
  writeFileSync(join(data.folder, 'database-url'), `${url}\n`, { mode: 0o600 });
  assert.match((await payonce(['partner', 'list'], settings)).stdout, /No partner yet/);
  writeFileSync(join(data.folder, 'database-url'), 'postgres://postgres:stale@127.0.0.1:9/postgres');
  assert.match((await payonce(['partner', 'list'], settings)).stdout, /Own/);
  data.remove();
  await database.drop();
});
