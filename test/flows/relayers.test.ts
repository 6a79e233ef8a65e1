/*
 * Goal: who signs, pays gas and owns the nonce may be another than the wallet that the token leaves; who is short is not
 * chosen, and nothing is sealed for it (R7, R15; issue 4, show 4). Method: a real chain, a wallet that gave relayers an
 * allowance, the chain's own books as the judge.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { encodeFunctionData, erc20Abi } from 'viem';
import { sendAndMine } from '../../sim/evm-send.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { endWaitAlerts } from '../../src/engine/wait.ts';
import { leaveQuarantinedOnce } from '../../src/engine/relayers.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';

const ALLOWANCE = 10n ** 15n;

interface Scene {
  readonly world: EvmWorld;
  readonly master: string;
  readonly relayers: readonly string[];
}

async function scene(t: TestContext): Promise<Scene> {
  const world = await makeEvmWorld({ label: 'relayers', walletCount: 3 });
  t.after(() => world.end());
  const [master, ...relayers] = world.wallets;
  assert.ok(master !== undefined && relayers.length === 2);
  for (const relayer of relayers) await allow(world, relayer, ALLOWANCE);
  await world.anvil.mine(4);
  await world.pool.query('update payonce.asset_policies set relayers = $1', [relayers]);
  await world.pool.query("update payonce.addresses set kind = 'RELAYER' where address = any ($1::text[])", [relayers]);
  // The allowances were the master's own transactions: its counter begins after them.
  await world.pool.query('update payonce.signers set next_nonce = 2 where address = $1', [master]);
  return { world, master, relayers };
}

async function allow(world: EvmWorld, relayer: string, units: bigint): Promise<void> {
  const key = world.anvil.accounts[0]?.privateKey ?? assert.fail();
  await sendAndMine(world.anvil, key, {
    to: world.token,
    data: encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args: [relayer as `0x${string}`, units] }),
  });
}

async function take({ world }: Scene, count: number): Promise<void> {
  const outcomes = await createWithdrawals(
    world,
    Array.from({ length: count }, () => world.request({ destination: world.outsider() })),
  );
  assert.ok(outcomes.every((one) => one.outcome === 'created'));
}

async function signersOf({ world }: Scene): Promise<Map<string, { n: bigint; sealed: bigint }>> {
  const { rows } = await world.pool.query<{ signer: string; n: bigint; sealed: bigint }>(
    'select signer, count(*) as n, count(sealed_at) as sealed from payonce.effects group by signer order by signer',
  );
  return new Map(rows.map(({ signer, n, sealed }) => [signer, { n, sealed }]));
}

async function alerts({ world }: Scene): Promise<string[]> {
  const { rows } = await world.pool.query<{ kind: string }>(
    'select kind from payonce.alerts where cleared_at is null order by kind',
  );
  return rows.map((row) => row.kind);
}

async function setCoin({ world }: Scene, address: string, wei: bigint): Promise<void> {
  await world.anvil.rpc('anvil_setBalance', [address, `0x${wei.toString(16)}`]);
}

test('tokens leave the master wallet, signed and paid for by relayers: each its own nonces, spread by what is open (req R15)', async (t) => {
  const one = await scene(t);
  const { world, master, relayers } = one;
  await take(one, 10);
  assert.deepEqual([...(await signersOf(one)).keys()].sort(), [...relayers].sort());
  for (const { n } of (await signersOf(one)).values()) assert.equal(n, 5n);
  await world.drain();
  const paid = await world.paid();
  assert.equal(paid.length, 10);
  const books = await world.books();
  const out = (await books.movements()).filter(
    (movement) => movement.asset === world.token && movement.from === master,
  );
  assert.equal(out.length, 10, 'the token left the master');
  const nonces = await world.pool.query<{ address: string; next_nonce: bigint }>(
    'select address, next_nonce from payonce.signers order by address',
  );
  for (const { address, next_nonce: next } of nonces.rows) assert.equal(next, address === master ? 2n : 5n);
  await assertBooksClean(world.pool, { books, wallets: world.wallets });
});

test('a relayer without gas is not chosen: what waits for it goes to another one, unsealed until then (req R2, R7)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  const [poor, rich] = relayers;
  assert.ok(poor !== undefined && rich !== undefined);
  await setCoin(one, poor, 0n);
  await take(one, 4);
  await world.pass();
  await world.drain();
  const signers = await signersOf(one);
  assert.deepEqual([...signers.keys()], [rich]);
  assert.equal((await world.paid()).length, 4);
  // While it is short it is not chosen at intake either.
  await take(one, 2);
  assert.deepEqual([...(await signersOf(one)).keys()], [rich]);
  await world.drain();
  assert.equal((await world.paid()).length, 6);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('with no relayer that can pay nothing is sealed: back to the queue with the reason, told once; refilled, it goes on (req R2, R7)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  for (const relayer of relayers) await setCoin(one, relayer, 0n);
  await take(one, 3);
  for (let pass = 0; pass < 4; pass += 1) await world.pass();
  for (const { sealed } of (await signersOf(one)).values()) assert.equal(sealed, 0n);
  assert.equal((await world.paid()).length, 0);
  assert.ok((await alerts(one)).includes('no_relayer'));
  const told = await world.pool.query<{ times: bigint }>("select times from payonce.alerts where kind = 'no_relayer'");
  assert.equal(told.rows.length, 1, 'one alert, however often it was seen');
  const { rows } = await world.pool.query<{ wait_reason: string }>(
    "select distinct split_part(wait_reason, ':', 1) as wait_reason from payonce.effects",
  );
  assert.deepEqual(rows, [{ wait_reason: 'GAS_SHORT' }]);
  for (const relayer of relayers) await setCoin(one, relayer, 10n ** 20n);
  await world.pool.query('update payonce.signers set short_until = null');
  await world.drain();
  assert.equal((await world.paid()).length, 3);
  assert.equal((await alerts(one)).includes('no_relayer'), false, 'the alert is cleared when one relays again');
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('without an allowance nothing is sealed, and the reason says what to approve (req R15)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  for (const relayer of relayers) await allow(world, relayer, 1n);
  await world.pool.query('update payonce.signers set next_nonce = 4 where address = $1', [one.master]);
  await take(one, 1);
  await world.pass();
  const { rows } = await world.pool.query<{ wait_reason: string; sealed_at: Date | null }>(
    'select wait_reason, sealed_at from payonce.effects',
  );
  assert.equal(rows[0]?.sealed_at, null);
  assert.match(rows[0]?.wait_reason ?? '', /^ALLOWANCE_SHORT: .*payonce wallet approve --chain /);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('a relayer without an allowance, or in quarantine, keeps nothing: another of the pool pays, and the alert is over (req R7, R15)', async (t) => {
  const its = await scene(t);
  const { world } = its;
  const [first = '', second = ''] = its.relayers;
  await allow(world, first, 0n);
  await world.anvil.mine(4);
  await world.pool.query('update payonce.signers set next_nonce = 3 where address = $1', [its.master]);
  await take(its, 4);
  await world.drain();
  assert.deepEqual([...(await signersOf(its))], [[second, { n: 4n, sealed: 4n }]]);
  await endWaitAlerts(world.pool, world.rail.name);
  assert.deepEqual(await alerts(its), []);

  await world.pool.query('update payonce.signers set short_until = null');
  await allow(world, first, ALLOWANCE);
  await world.anvil.mine(4);
  await world.pool.query('update payonce.signers set next_nonce = 4 where address = $1', [its.master]);
  await take(its, 2);
  await world.pool.query("update payonce.effects set signer = $1 where state = 'PENDING'", [first]);
  await world.pool.query(
    "update payonce.signers set quarantined_at = payonce.now(), quarantine_reason = 'test' where address = $1",
    [first],
  );
  assert.equal(await leaveQuarantinedOnce(world.engine, world.rail), 2);
  await world.drain();
  assert.deepEqual([...(await signersOf(its))], [[second, { n: 6n, sealed: 6n }]]);
});

test('who relays is frozen by the seal: another one afterwards is refused by the database (req R15, inv E8)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  await take(one, 1);
  await world.pass();
  await assert.rejects(
    world.pool.query('update payonce.effects set signer = $1 where sealed_at is not null and signer <> $1', [
      [...(await signersOf(one)).keys()][0] === relayers[0] ? relayers[1] : relayers[0],
    ]),
    /frozen/,
  );
  await world.drain();
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('a relayer that left the configuration gets nothing planned, bought or sealed: what it was given goes to the pool as it is, or to the wallet itself (req R15)', async (t) => {
  const one = await scene(t);
  const { world, master, relayers } = one;
  const [gone = '', kept = ''] = relayers;
  await take(one, 4);
  assert.equal((await signersOf(one)).size, 2);
  // It has nothing to pay with: planned for it, gas would be bought.
  await setCoin(one, gone, 0n);
  await world.pool.query('update payonce.asset_policies set relayers = $1', [[kept]]);
  await world.drain();
  assert.deepEqual([...(await signersOf(one))], [[kept, { n: 4n, sealed: 4n }]]);
  assert.deepEqual(await alerts(one), []);

  await take(one, 2);
  await world.pool.query("update payonce.asset_policies set relayers = '{}'");
  await world.drain();
  assert.deepEqual((await signersOf(one)).get(master), { n: 2n, sealed: 2n });
  assert.equal((await world.paid()).length, 6);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('a relayer that leaves the configuration between plan and seal seals nothing (req R15)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  const [gone = '', kept = ''] = relayers;
  await world.pool.query('update payonce.asset_policies set relayers = $1', [[gone]]);
  await take(one, 1);
  await advanceOnce(world.engine, {
    ...world.rail,
    async plan(effects, context) {
      const verdicts = await world.rail.plan(effects, context);
      await world.pool.query('update payonce.asset_policies set relayers = $1', [[kept]]);
      return verdicts;
    },
  });
  assert.deepEqual([...(await signersOf(one))], [[gone, { n: 1n, sealed: 0n }]]);
  const { rows } = await world.pool.query<{ why: string }>('select wait_reason as why from payonce.effects');
  assert.match(rows[0]?.why ?? '', /^RELAYER_REMOVED: /);
  await world.drain();
  assert.deepEqual([...(await signersOf(one))], [[kept, { n: 1n, sealed: 1n }]]);
});

test('at intake a relayer whose coin runs out, or that lacks this wallet’s allowance, is not chosen while another one is there (req R7, R15)', async (t) => {
  const one = await scene(t);
  const { world, relayers } = one;
  const [poor = '', rich = ''] = relayers;
  const chain = `eip155:${world.anvil.chainId}`;
  await world.pool.query(
    `insert into payonce.wallet_levels (chain, address, asset_id, units, warn_below, burned, burned_ms, is_short, source)
     values ($1, $2, $3, 1, 5, 0, 1, true, 'chain')`,
    [chain, poor, world.coinAssetId],
  );
  await take(one, 3);
  assert.deepEqual([...(await signersOf(one)).keys()], [rich], 'known short of coin: the other one has all');
  // Where it is the only one, it is taken: nothing says that it cannot pay for this one.
  await world.pool.query('update payonce.asset_policies set relayers = $1', [[poor]]);
  await take(one, 1);
  assert.equal((await signersOf(one)).get(poor)?.n, 1n);
  await world.drain();

  await world.pool.query('delete from payonce.wallet_levels');
  await world.pool.query('update payonce.asset_policies set relayers = $1', [relayers]);
  await allow(world, poor, 0n);
  await world.anvil.mine(4);
  await world.pool.query('update payonce.signers set next_nonce = 3 where address = $1', [one.master]);
  await take(one, 2);
  await world.drain();
  const before = (await signersOf(one)).get(poor)?.n;
  await take(one, 4);
  assert.equal((await signersOf(one)).get(poor)?.n, before, 'seen without an allowance: the other one has all');
  await world.drain();
  assert.equal((await world.paid()).length, 10);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
