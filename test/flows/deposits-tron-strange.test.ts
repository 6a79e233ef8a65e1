/*
 * Goal: what strangers' contracts do on TRON credits only what moved, stops nobody's deposits, and tells people of what we
 * do not understand. Method: the application over the simulated TRON, whose contracts play the opcodes of java-tron and whose
 * nodes keep of them what each is set to; its own books judge at the end.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData, type Hex } from 'viem';
import { createDepositAddress } from '../../src/flows/deposits/index.ts';
import { machineAddress } from '../../src/rails/tron/address.ts';
import { PAYER_ABI } from '../../sim/tron/programs.ts';
import { assertBooksClean } from '../support/books.ts';
import type { TronConfig } from '../../src/main/config.ts';
import { PARTNER, startTronApp, TRX, type TronApp } from '../support/tron-app.ts';

interface Stage {
  readonly one: TronApp;
  /** A deposit address of the partner; the chain has its account. */
  readonly to: string;
  readonly contract: string;
}

async function begin(label: string, network: Partial<TronConfig> = {}): Promise<Stage> {
  const one = await startTronApp({ label, network });
  await scan(one);
  const to = await addressFor(one, 'user-1');
  one.tron.fund(to, 1n);
  const contract = one.tron.deployPayer();
  one.tron.fund(contract, 100_000n * TRX);
  one.tron.stake(contract, { energy: 50_000_000n });
  return { one, to, contract };
}

async function addressFor(one: TronApp, userRef: string): Promise<string> {
  const { pool, engine } = one.app;
  const deps = { pool, makeId: engine.makeId, newAddress: () => one.app.newDepositAddress(one.chain.chain) };
  const wish = { partnerId: PARTNER, chain: one.chain.chain, userRef, reuse: true };
  return (await createDepositAddress(deps, wish)).address.address;
}

async function scan(one: TronApp): Promise<void> {
  const result = await one.chain.scanner.runOnce();
  assert.ok(['scanned', 'idle'].includes(result.outcome), `${result.outcome}: ${result.why ?? ''}`);
}

function callOf({ one, contract }: Stage, data: Hex, sun = 0n): string {
  return one.tron.act(one.stranger, { kind: 'call', contract, data: data.slice(2), sun });
}

async function credited({ one }: Stage): Promise<{ trx: bigint; usdt: bigint }> {
  return {
    trx: await one.balance(`partner:${PARTNER}`, one.chain.coinAssetId),
    usdt: await one.balance(`partner:${PARTNER}`, one.tokenAssetId),
  };
}

interface Told extends Record<string, unknown> {
  readonly kind: string;
  readonly summary: string;
}
async function casesOf({ one }: Stage): Promise<Told[]> {
  return one.rows<Told>('select kind, summary from payonce.cases where closed_at is null order by summary');
}

async function finish({ one }: Stage): Promise<void> {
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
}

test('energy that a contract lends to a deposit address and takes back is no TRX, and credits nobody (case G8)', async () => {
  const stage = await begin('strange_energy');
  const { one, to } = stage;
  const args = [machineAddress(to), 50n * TRX] as const;
  callOf(stage, encodeFunctionData({ abi: PAYER_ABI, functionName: 'lend', args }));
  callOf(stage, encodeFunctionData({ abi: PAYER_ABI, functionName: 'takeBack', args }));
  one.mine(26);
  await scan(one);
  assert.equal(await one.tron.books.balance(to, 'native'), 1n, 'nothing moved');
  assert.deepEqual(await credited(stage), { trx: 0n, usdt: 0n });
  assert.deepEqual(await casesOf(stage), [], 'what is known to move nothing needs nobody');
  await finish(stage);
});

test('what a contract leaves to a deposit address when it ends is a deposit', async () => {
  const stage = await begin('strange_heir');
  const { one, to } = stage;
  callOf(stage, encodeFunctionData({ abi: PAYER_ABI, functionName: 'dieFor', args: [machineAddress(to)] }));
  one.mine(26);
  await scan(one);
  assert.deepEqual(await credited(stage), { trx: 100_000n * TRX, usdt: 0n });
  await finish(stage);
});

test('an opcode that we do not know credits nobody, and people are told where it names an address of ours', async () => {
  const stage = await begin('strange_opcode');
  const { one, to } = stage;
  const tomorrow = (address: string, sun: bigint): string =>
    callOf(
      stage,
      encodeFunctionData({ abi: PAYER_ABI, functionName: 'opcodeOfTomorrow', args: [machineAddress(address), sun] }),
    );
  const [first] = [tomorrow(to, 7n), tomorrow(to, 8n), tomorrow(one.stranger, 9n)];
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 5n });
  one.mine(26);
  await scan(one);
  assert.deepEqual(await credited(stage), { trx: 0n, usdt: 5n });
  const cases = await casesOf(stage);
  assert.equal(cases.length, 1, 'one for the address and the opcode, however often it comes');
  assert.equal(cases[0]?.kind, 'unmatched_inbound');
  assert.match(cases[0]?.summary ?? '', new RegExp(`opcodeOfTomorrow.*${to}.*${first}`));
  await finish(stage);
});

test('a stranger’s call that ends in UNKNOWN failed, moved nothing, and stops nobody’s deposits', async () => {
  const stage = await begin('strange_unknown');
  const { one, to } = stage;
  callOf(
    stage,
    encodeFunctionData({ abi: PAYER_ABI, functionName: 'writeInStaticCall', args: [machineAddress(to)] }),
    3n * TRX,
  );
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 5n });
  one.mine(26);
  await scan(one);
  assert.deepEqual(await credited(stage), { trx: 0n, usdt: 5n });
  assert.deepEqual(await casesOf(stage), []);
  await finish(stage);
});

test('a transaction that does not read is left out alone, and is a case only where it names an address of ours', async () => {
  const stage = await begin('strange_word');
  const { one, to } = stage;
  const end = (named: string): string =>
    callOf(
      stage,
      encodeFunctionData({ abi: PAYER_ABI, functionName: 'endInWordOfTomorrow', args: [machineAddress(named)] }),
    );
  const [ours] = [end(to), end(one.stranger)];
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 5n });
  one.mine(26);
  await scan(one);
  assert.deepEqual(await credited(stage), { trx: 0n, usdt: 5n });
  const cases = await casesOf(stage);
  assert.equal(cases.length, 1, JSON.stringify(cases));
  assert.match(cases[0]?.summary ?? '', new RegExp(`${ours}.*NOT_NAMED_YET.*rescan`));
  one.mine(5);
  await scan(one);
  assert.deepEqual(await credited(stage), { trx: 0n, usdt: 5n });
  await finish(stage);
});

test('TRX that a contract pays is one deposit, whichever node shows it and whatever else that node keeps (req W11)', async () => {
  // Else each block is compared between the two before it is booked, and a node without receipts has no say.
  const stage = await begin('strange_position', { agreeing: 1 });
  const { one, to } = stage;
  const [a, b] = [one.tron.node('a'), one.tron.node('b')];
  b.settings.saveFeaturedInternalTx = false;
  const args = [7n * TRX, [machineAddress(to)], [21n * TRX]] as const;
  callOf(stage, encodeFunctionData({ abi: PAYER_ABI, functionName: 'freezeAndPay', args }));
  one.mine(26);
  const first = BigInt(one.tron.head().number - 26);
  await scan(one);
  assert.equal((await credited(stage)).trx, 21n * TRX);
  // Without receipts the first node gives no block: the second one is read.
  a.settings.history = false;
  assert.equal((await one.chain.scanner.rescan(first, first + 3n)).outcome, 'scanned');
  assert.equal((await credited(stage)).trx, 21n * TRX);
  await finish(stage);
});
