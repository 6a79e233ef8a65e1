/*
 * Goal: wallets that the configuration calls GAS and RELAYER do what their kinds say, on chains of both families: a relayer
 * that lacks gas is filled by the gas wallet, then signs in the wallet's place; one that no asset names stands by (R15, R16).
 * Method: the application as it is wired from a configuration, over a real chain and the simulated TRON, whose books judge.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData, erc20Abi } from 'viem';
import { startAnvil } from '../../sim/anvil.ts';
import { makeEvmBooks } from '../../sim/evm-books.ts';
import { deployToken, mintTokens, sendAndMine } from '../../sim/evm-send.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { type Config, readConfig, type WalletConfig } from '../../src/main/config.ts';
import { registerChain } from '../../src/main/register.ts';
import { openApp } from '../../src/main/serve.ts';
import type { App } from '../../src/main/wire.ts';
import { devKeys } from '../../src/rails/dev-keys.ts';
import { canonicalAddress, machineAddress } from '../../src/rails/tron/address.ts';
import { assertBooksClean } from '../support/books.ts';
import { testDatabase } from '../support/postgres.ts';
import { PARTNER, RELAYER, startTronApp, TRX } from '../support/tron-app.ts';

const UNITS = 1_000_000n;

async function pay(app: App, assetId: string, destination: string): Promise<void> {
  const request = {
    partnerId: PARTNER,
    idempotencyKey: 'first',
    fingerprint: 'first',
    externalId: null,
    purpose: 'customer',
    assetId,
    amount: UNITS,
    destination,
    reference: null,
  } as const;
  const [created] = await createWithdrawals(app.engine, [request]);
  assert.equal(created?.outcome, 'created');
}

async function effectsOf(app: App): Promise<string[]> {
  const { rows } = await app.pool.query<{ text: string }>(
    "select subject_type || ' ' || state || ' by ' || signer as text from payonce.effects order by subject_type",
  );
  return rows.map((row) => row.text);
}

/** Kinds and sequences as the database has them. */
async function walletsOf(app: App): Promise<Map<string, string>> {
  const { rows } = await app.pool.query<{ address: string; kind: string; signs: boolean }>(
    `select a.address, a.kind, exists (select 1 from payonce.signers g where g.address = a.address) as signs
     from payonce.addresses a`,
  );
  return new Map(rows.map((row) => [row.address, row.signs ? `${row.kind} signs` : row.kind]));
}

test('over TRON: a configured relayer without TRX is filled by the configured gas wallet and signs; one unnamed stands by (req R15, R16)', async () => {
  const idle = canonicalAddress(`0x${'1d'.repeat(20)}`);
  const gas = canonicalAddress(devKeys()[1]?.address ?? '');
  const wallets: WalletConfig[] = [];
  const one = await startTronApp({
    label: 'kinds_tron',
    asset: { relayers: [RELAYER] },
    network: { gas: { level: '60', topUpMax: '100' } },
    config: { wallets },
    prepare({ rail: chain }) {
      wallets.push({ chain, address: gas, kind: 'GAS' });
      for (const address of [RELAYER, idle]) wallets.push({ chain, address, kind: 'RELAYER' });
      return Promise.resolve({});
    },
  });
  const kinds = await walletsOf(one.app);
  assert.deepEqual(
    [gas, RELAYER, idle].map((address) => kinds.get(address)),
    ['GAS signs', 'RELAYER signs', 'RELAYER signs'],
  );
  const args = [machineAddress(RELAYER), 10n * TRX] as const;
  const approve = encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args });
  one.tron.act(one.master, { kind: 'call', contract: one.token, data: approve.slice(2) });
  one.mine(1);
  await one.fund(100n * TRX);
  await pay(one.app, one.tokenAssetId, one.stranger);
  await one.drain();
  assert.deepEqual(await effectsOf(one.app), [`topup SETTLED by ${gas}`, `withdrawal SETTLED by ${RELAYER}`]);
  const moves = await one.tron.books.movements();
  const paid = moves.filter(({ asset, from }) => asset === one.token && from === one.master);
  assert.deepEqual(
    paid.map(({ amount, to, signer }) => [amount, to, signer]),
    [[UNITS, one.stranger, RELAYER]],
  );
  assert.equal(moves.filter(({ from, to }) => from === gas && to === RELAYER).length, 1);
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});

test('over EVM: a configured relayer without gas is filled by the configured gas wallet and signs; one unnamed stands by (req R15, R16)', async (t) => {
  const anvil = await startAnvil({ mining: 'manual', accountCount: 10 });
  t.after(() => anvil.stop());
  const [master, gas, relayer, idle] = anvil.accounts.map(({ address }) => address.toLowerCase());
  const key = (index: number): `0x${string}` => anvil.accounts[index]?.privateKey ?? assert.fail();
  assert.ok(master !== undefined && gas !== undefined && relayer !== undefined && idle !== undefined);
  const token = (await deployToken(anvil, key(9))).toLowerCase() as `0x${string}`;
  await mintTokens(anvil, key(9), token, master as `0x${string}`, 1_000n * UNITS);
  const args = [relayer as `0x${string}`, 10n * UNITS] as const;
  await sendAndMine(anvil, key(0), {
    to: token,
    data: encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args }),
  });
  await anvil.rpc('anvil_setBalance', [relayer, '0x0']);
  await anvil.mine(4);
  const chain = `eip155:${anvil.chainId}`;
  const limits = { min: '0.000001', max: '1000000', dayMax: '1000000000', feeFlat: '0', feeBasisPoints: 0 };
  const config: Config = {
    ...readConfig({ PAYONCE_LOG: 'silent', PAYONCE_LEASE_MS: '2000' }),
    chains: [
      {
        chainId: String(anvil.chainId),
        nodes: [1, 2].map((operator) => ({ url: anvil.url, operator: `operator-${operator}` })),
        finality: { tag: 'finalized' },
        feeCapWei: String(10n ** 12n),
        gasLimitCap: '1000000',
        lookEveryMs: 50,
        gas: { level: '0.5', topUpMax: '1' },
        assets: [
          { code: 'USDT', contract: token, decimals: 6, wallet: master, withdrawal: limits, relayers: [relayer] },
          { code: 'ETH', contract: null, decimals: 18, wallet: master, withdrawal: limits },
        ],
      },
    ],
    wallets: [
      { chain, address: gas, kind: 'GAS' },
      { chain, address: relayer, kind: 'RELAYER' },
      { chain, address: idle, kind: 'RELAYER' },
    ],
  };
  const database = await testDatabase('kinds_evm');
  const app = await openApp(config, { url: database.url, stop: () => Promise.resolve() });
  t.after(async () => {
    await app.close();
    await database.drop();
  });
  const [wired] = app.chains;
  assert.ok(wired !== undefined);
  assert.equal(await registerChain(app, wired), 'registered');
  const kinds = await walletsOf(app);
  assert.deepEqual(
    [master, gas, relayer, idle].map((address) => kinds.get(address)),
    ['MASTER signs', 'GAS signs', 'RELAYER signs', 'RELAYER signs'],
  );
  await app.pool.query("insert into payonce.partners (id, name) values ($1, 'Test partner')", [PARTNER]);
  const assetId = wired.assetIdOf(token);
  await app.pool.tx('fund', async (tx) => {
    const [to = -1n, from = -1n] = await app.engine.chart.ids(tx, [
      accountName.partner(PARTNER, assetId),
      accountName.custody(chain, master, assetId),
    ]);
    const entries = [
      { accountId: to, amount: 100n * UNITS },
      { accountId: from, amount: -100n * UNITS },
    ];
    await post(tx, [{ kind: 'post', key: 'MIGRATED:fund', reference: 'fund', entries }]);
  });
  const stranger = anvil.accounts[8]?.address.toLowerCase() ?? assert.fail();
  await pay(app, assetId, stranger);
  for (let round = 0; round < 40; round += 1) {
    await app.pool.query(
      "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
    );
    await advanceOnce(app.engine, wired.rail);
    await anvil.mine(3);
    const open = await app.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
    if (open.rowCount === 0) break;
  }
  assert.deepEqual(await effectsOf(app), [`topup SETTLED by ${gas}`, `withdrawal SETTLED by ${relayer}`]);
  const books = await makeEvmBooks({ url: anvil.url, tokens: [token] });
  const paid = (await books.movements()).filter(({ asset, from }) => asset === token && from === master);
  assert.deepEqual(
    paid.map(({ amount, to }) => [amount, to]),
    [[UNITS, stranger]],
  );
  await assertBooksClean(app.pool, { books });
});
