/*
 * One node of two lies, whole, over real sockets (rails.md §3.3, §3.4): about its head, its solid time, or what became of a payment. No
 * lie of one operator seals what nobody can end, stops a rail, or frees money that went.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDepositAddress } from '../../src/flows/deposits/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { recheckSettledOnce } from '../../src/engine/vanished.ts';
import { checkHealth } from '../../src/main/register.ts';
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

test('a head hours ahead of our clock frames no payment, also where no other node answers; people are told which node it is', async () => {
  const { one, first, second } = await appWithLiars('liar_alone');
  first.lie = (path, _request, answer) => {
    if (path !== 'wallet/getnowblock') return undefined;
    answer.block_header.raw_data.timestamp += 2 * 3_600_000;
    return answer;
  };
  second.lie = (path) => (path.endsWith('getnowblock') ? {} : undefined);
  const to = await pay(one);
  await one.pass();
  const [held] = await one.rows<{ state: string; why: string }>(
    'select state, wait_reason as why from payonce.effects',
  );
  assert.equal(held?.state, 'PENDING');
  assert.match(held?.why ?? '', /^HEAD_AHEAD: .* s ahead of our clock/);
  await checkHealth(one.app, one.chain);
  const told = "select message from payonce.alerts where kind = 'node_ahead' and cleared_at is null";
  const alerts = await one.rows<{ message: string }>(told);
  assert.equal(alerts.length, 1);
  assert.ok(alerts[0]?.message.includes(new URL(first.url).host), JSON.stringify(alerts));
  first.lie = null;
  second.lie = null;
  await checkHealth(one.app, one.chain);
  assert.deepEqual(await one.rows(told), []);
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

/** The second look at what was settled, as when its time has come. */
async function lookAgain(one: TronApp): Promise<number> {
  await one.rows(
    "update payonce.effects set watch_at = payonce.now() where watch_at is not null and state = 'SETTLED'",
  );
  const rail = one.app.engine.rails.get(one.chain.rail.name);
  assert.ok(rail);
  return recheckSettledOnce(one.app.engine, rail);
}

const doubtsOf = (one: TronApp): Promise<{ summary: string }[]> =>
  one.rows("select summary from payonce.cases where kind = 'broken_finality' and closed_at is null");

test('a payment that one node alone calls paid is looked at again: where the others prove that it never went it is a case, and the rail stops (case F5, inv E1)', async () => {
  for (const honestAfterwards of [true, false]) {
    const { one, first } = await appWithLiars(`liar_paid_${honestAfterwards ? 'once' : 'on'}`);
    one.tron.script({ on: 'broadcast', fault: { kind: 'never_include' } });
    const to = await pay(one);
    await one.pass();
    one.mine(22);
    const [sealed] = await one.rows<{ tx: string; logs: { topics: string[]; data: string }[] }>(
      "select substr(identity, 6) as tx, expect->'logs' as logs from payonce.effects",
    );
    const block = one.tron.solid().number - 1;
    first.lie = (path, request) => {
      if (request.value !== sealed?.tx) return undefined;
      if (path.endsWith('transactionbyid')) return { txID: sealed?.tx, ret: [{ contractRet: 'SUCCESS' }] };
      const log = sealed?.logs.map(({ topics, data }) => ({
        address: hexAddress(one.token).slice(2),
        topics: topics.map((topic) => topic.slice(2)),
        data: data.slice(2),
      }));
      return { id: sealed?.tx, blockNumber: block, receipt: { result: 'SUCCESS' }, log };
    };
    await one.pass();
    assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 0]);
    if (honestAfterwards) first.lie = null;
    // Before the others can prove anything it stays as it is, and is looked at once more later.
    assert.equal(await lookAgain(one), 0);
    assert.deepEqual(await doubtsOf(one), []);
    one.mine(120);
    assert.equal(await lookAgain(one), 1, `honest afterwards: ${honestAfterwards}`);
    const [told] = await doubtsOf(one);
    assert.match(told?.summary ?? '', /two persons unwind it/);
    if (!honestAfterwards) assert.match(told?.summary ?? '', /nodes contradict each other: .* final_success/);
    const [rail] = await one.rows<{ why: string }>('select seals_stopped_reason as why from payonce.rails');
    assert.match(rail?.why ?? '', /^finality was broken/);
    // Its next looks neither close the case on the liar's word nor tell it anew.
    await lookAgain(one);
    assert.equal((await doubtsOf(one)).length, 1);
    await one.end();
  }
});

test('a payment that went is looked at again once and left alone; a node that lags or is silent makes no doubt of it', async () => {
  const { one, second } = await appWithLiars('liar_again');
  const to = await pay(one);
  await one.pass();
  one.mine(25);
  await one.pass();
  assert.deepEqual([await statesOf(one), await paidTo(one, to)], [['SETTLED'], 1]);
  const due = async (): Promise<boolean> =>
    (await one.rows('select 1 from payonce.effects where watch_at is not null')).length > 0;
  assert.ok(await due());
  // Nothing of it, by a node that does not cover its time: this proves nothing, and the look is made once more later.
  second.lie = (path, request) => (path.includes('gettransaction') && request.value !== undefined ? {} : undefined);
  assert.equal(await lookAgain(one), 0);
  assert.ok(await due());
  second.lie = null;
  assert.equal(await lookAgain(one), 0);
  assert.equal(await due(), false);
  assert.deepEqual(await doubtsOf(one), []);
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
