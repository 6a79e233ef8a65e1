/*
 * One node of two lies, whole, over real sockets (rails.md §3.3, §3.4): about its head, its solid time, or what became of a payment. No
 * lie of one operator seals what nobody can end, stops a rail, or frees money that went.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDepositAddress } from '../../src/flows/deposits/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { hexAddress } from '../../src/rails/tron/address.ts';
import { canonicalAddress } from '../../src/rails/tron/index.ts';
import { PARTNER, startTronApp, type TronApp, TRX } from '../support/tron-app.ts';
import { type Liar, liarsBefore } from '../support/tron-liar.ts';

const YEAR_MS = 365 * 86_400_000;

async function appWithLiars(label: string): Promise<{ one: TronApp; first: Liar; second: Liar }> {
  let liars: Liar[] = [];
  const one = await startTronApp({
    label,
    prepare: async (tron) => {
      liars = await liarsBefore(tron);
      return { nodes: liars.map(({ url }, index) => ({ url, operator: `operator-${index + 1}` })) };
    },
  });
  const [first, second] = liars;
  assert.ok(first !== undefined && second !== undefined);
  await one.fund(100n * TRX);
  return { one, first, second };
}

let payments = 0;
async function pay(one: TronApp): Promise<string> {
  payments += 1;
  const to = canonicalAddress(`0x${(0xa000 + payments).toString(16).padStart(8, '0').repeat(5)}`);
  one.tron.fund(to, 1n);
  const [made] = await createWithdrawals(one.app.engine, [
    {
      partnerId: PARTNER,
      idempotencyKey: `k${payments}`,
      fingerprint: '',
      externalId: null,
      purpose: 'customer',
      assetId: one.tokenAssetId,
      amount: 1_000_000n,
      destination: to,
      reference: null,
    },
  ]);
  assert.equal(made?.outcome, 'created');
  return to;
}

async function paidTo(one: TronApp, to: string): Promise<number> {
  return (await one.tron.books.movements()).filter((moved) => moved.to === to && moved.from === one.master).length;
}

const statesOf = async (one: TronApp): Promise<string[]> =>
  (await one.rows<{ state: string }>('select state from payonce.effects order by id')).map((row) => row.state);
const rest = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 120));

test('a head that one node puts a year ahead frames no payment: it is paid by what the others show', async () => {
  const { one, first } = await appWithLiars('liar_head');
  first.lie = (path, _request, answer) => {
    if (path !== 'wallet/getnowblock') return undefined;
    const raw = answer.block_header.raw_data;
    raw.timestamp += YEAR_MS;
    // Newer than the others', so that it would be preferred.
    raw.number += 1;
    answer.blockID = BigInt(raw.number).toString(16).padStart(16, '0') + String(answer.blockID).slice(16);
    return answer;
  };
  const to = await pay(one);
  await one.pass();
  const [sealed] = await one.rows<{ expect: { expiration?: unknown } }>('select expect from payonce.effects');
  assert.ok(Number(sealed?.expect.expiration) < Date.now() + YEAR_MS / 2, JSON.stringify(sealed));
  first.lie = null;
  await one.drain();
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 1]);
  await one.end();
});

test('times that are none stop nobody: the rail goes on by the other node', async () => {
  const { one, first } = await appWithLiars('liar_absurd');
  first.lie = (path, _request, answer) => {
    if (!path.endsWith('getnowblock')) return undefined;
    answer.block_header.raw_data.timestamp = 9e15;
    return answer;
  };
  const to = await pay(one);
  await one.drain();
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 1]);
  await one.end();
});

test('a solid time that one node puts far ahead, once, withholds no later send', async () => {
  const { one, first } = await appWithLiars('liar_solid');
  await pay(one);
  await one.pass();
  first.lie = (path, _request, answer) => {
    if (path !== 'walletsolidity/getnowblock') return undefined;
    answer.block_header.raw_data.timestamp += YEAR_MS;
    return answer;
  };
  await rest();
  await one.pass();
  first.lie = null;
  one.mine(25);
  await one.pass();
  one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind: 'lose_request' } });
  const to = await pay(one);
  await one.pass();
  for (let round = 0; round < 4; round += 1) {
    await rest();
    await one.pass();
    one.mine(1);
  }
  await one.drain();
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED', 'SETTLED'], 1]);
  await one.end();
});

test('what one node says was reverted and another shows in a block is not released: nodes contradict each other (inv E1, E11)', async () => {
  const { one, first, second } = await appWithLiars('liar_revert');
  const to = await pay(one);
  await one.pass();
  one.mine(22);
  first.lie = (path, _request, answer) => {
    if (path.endsWith('gettransactioninfobyid') && answer.id !== undefined) {
      answer.result = 'FAILED';
      answer.receipt.result = 'REVERT';
      delete answer.log;
      return answer;
    }
    if (path.endsWith('gettransactionbyid') && answer.txID !== undefined) {
      answer.ret = [{ contractRet: 'REVERT' }];
      return answer;
    }
    return undefined;
  };
  // The honest one is behind in solidity, and shows what is in the head's blocks.
  second.lie = (path, request) =>
    path.startsWith('walletsolidity/gettransaction') && request.value !== undefined ? {} : undefined;
  await one.pass();
  assert.deepEqual(await statesOf(one), ['SEALED']);
  first.lie = null;
  second.lie = null;
  await one.drain();
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 1]);
  await one.end();
});

test('a node that is slow holds up nothing: what the quick ones show is recorded within the lease', async () => {
  const { one, first } = await appWithLiars('liar_slow');
  const to = await pay(one);
  await one.pass();
  first.delayMs = 900;
  one.mine(25);
  const began = performance.now();
  await rest();
  await one.pass();
  assert.ok(performance.now() - began < 2_000, 'a pass is over within the lease');
  first.delayMs = 0;
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 1]);
  await one.end();
});

async function depositAddress(one: TronApp): Promise<string> {
  const { pool, engine } = one.app;
  const made = await createDepositAddress(
    { pool, makeId: engine.makeId, newAddress: () => one.app.newDepositAddress(one.chain.chain) },
    { partnerId: PARTNER, chain: one.chain.chain, userRef: 'a', reuse: true },
  );
  return made.address.address;
}

test('a deposit that one node invents, or leaves out, under a hash that is right is not believed: the scan waits, and says why (case F5, inv I1)', async () => {
  for (const lie of ['invents', 'leaves out'] as const) {
    const { one, first } = await appWithLiars(`liar_deposit_${lie.length}`);
    await one.chain.scanner.runOnce();
    const to = await depositAddress(one);
    const before = await one.balance(`partner:${PARTNER}`, one.tokenAssetId);
    const real = lie === 'leaves out' ? 7n * TRX : 0n;
    one.tron.act(one.stranger, {
      kind: 'send_token',
      token: one.token,
      to: lie === 'invents' ? one.gas : to,
      units: lie === 'invents' ? 1n : real,
    });
    one.mine(26);
    first.lie = (path, _request, answer) => {
      if (!path.endsWith('gettransactioninfobyblocknum') || !Array.isArray(answer)) return undefined;
      for (const info of answer) {
        if (lie === 'leaves out') delete info.log;
        for (const log of info.log ?? []) {
          log.topics[2] = '0'.repeat(24) + hexAddress(to).slice(2);
          log.data = (1_000_000n * TRX).toString(16).padStart(64, '0');
        }
      }
      return answer;
    };
    const waited = await one.chain.scanner.runOnce();
    assert.equal(waited.outcome, 'waiting', lie);
    assert.match(waited.why ?? '', /nodes differ in what a block holds for us/);
    assert.equal(await one.balance(`partner:${PARTNER}`, one.tokenAssetId), before, lie);
    first.lie = null;
    assert.equal((await one.chain.scanner.runOnce()).outcome, 'scanned');
    assert.equal(await one.balance(`partner:${PARTNER}`, one.tokenAssetId), before + real, lie);
    await one.end();
  }
});
