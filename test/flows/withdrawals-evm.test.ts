/**
 * Withdrawals on a real chain, through everything that a chain and its nodes do to a payment (issue 1, shows 5). Method:
 * the engine, the EVM rail and anvil; the wallet's key is also held by "somebody else", who takes nonces; nodes lie by
 * proxy. Each ends right, by name, and the chain's own logs are the judge.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { createWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { recheckSettledOnce } from '../../src/engine/vanished.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { sendAs, transferData, tokenBalance } from '../../sim/evm-send.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';
import { balanceOf } from '../support/world.ts';

async function pay(one: EvmWorld, fields: Partial<WithdrawalRequest> = {}): Promise<{ id: string; to: string }> {
  const to = fields.destination ?? one.outsider();
  const [created] = await createWithdrawals(one, [one.request({ destination: to, ...fields })]);
  assert.equal(created?.outcome, 'created');
  return { id: created.outcome === 'created' ? created.id : '', to };
}
async function statusOf(one: EvmWorld, id: string): Promise<string | undefined> {
  return (await readWithdrawal(one.pool, one.partnerId, id))?.status;
}
async function paidTo(one: EvmWorld, to: string): Promise<bigint[]> {
  return (await one.paid()).filter((movement) => movement.to === to).map((movement) => movement.amount);
}
async function variantsOf(one: EvmWorld, id: string): Promise<{ kind: string; hash: string; raw: Buffer }[]> {
  const { rows } = await one.pool.query<{ kind: string; hash: string; raw: Buffer }>(
    'select v.kind, v.hash, v.raw from payonce.effect_variants v join payonce.effects e on e.id = v.effect_id where e.subject_id = $1 order by v.id',
    [id],
  );
  return rows;
}
async function wish(one: EvmWorld, id: string, what: string): Promise<void> {
  await one.pool.query('update payonce.effects set wanted = $2 where subject_id = $1 and ended_at is null', [id, what]);
}
async function finish(one: EvmWorld): Promise<void> {
  const books = await one.books();
  await assertBooksClean(one.pool, { books, wallets: one.wallets });
  await one.end();
}

test('a payment is sent, shown as sent when mined, and confirmed only at finality (case F7, req P2, P4)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  assert.equal(await statusOf(one, id), 'processing');
  assert.equal((await variantsOf(one, id)).length, 1);
  await one.anvil.mine(1);
  await one.pass();
  assert.equal(await statusOf(one, id), 'sent');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  await one.anvil.mine(3);
  await one.pass();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  assert.deepEqual(await balanceOf(one), { balance: 999_000_000n, held: 0n });
  const events = await one.pool.query<{ type: string }>(
    'select type from payonce.events where subject_id = $1 order by sequence',
    [id],
  );
  assert.deepEqual(
    events.rows.map((row) => row.type),
    ['withdrawal.created', 'withdrawal.sent', 'withdrawal.confirmed'],
  );
  await finish(one);
});

test('our own mined transaction answers "nonce too low" to its re-send, and is still one payment (case E1, B9)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  // The answer to the first send is lost; the block is made; then the nodes forget the hash.
  const withdraw = one.nodes.map((node) =>
    node.script({ method: 'eth_sendRawTransaction', hitsMax: 1, fault: { kind: 'lose_answer', how: 'close' } }),
  );
  await one.pass();
  for (const stop of withdraw) stop();
  const [variant] = await variantsOf(one, id);
  assert.ok(variant);
  for (const node of one.nodes) node.hide(variant.hash);
  await one.anvil.mine(1);
  for (let round = 0; round < 3; round += 1) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    await one.pass();
  }
  const tooLow = await one.pool.query(
    "select 1 from payonce.effect_answers where operation = 'send' and body like '%nonce too low%'",
  );
  assert.ok((tooLow.rowCount ?? 0) > 0, 'the node said nonce too low');
  assert.notEqual(await statusOf(one, id), 'failed');
  for (const node of one.nodes) node.heal();
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

test('dropped from the pool, the same bytes are sent again (case F1, E2)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.pass();
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.equal((await variantsOf(one, id)).length, 1);
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

for (const mined of ['original', 'bump'] as const) {
  test(`bumped: the ${mined} is the one that is mined, and it is one payment (case E1, F8)`, async () => {
    const one = await makeEvmWorld();
    const { id, to } = await pay(one);
    await one.pass();
    await wish(one, id, 'bump');
    await one.pass();
    const variants = await variantsOf(one, id);
    assert.deepEqual(
      variants.map((variant) => variant.kind),
      ['original', 'bump'],
    );
    if (mined === 'original') {
      await one.anvil.rpc('anvil_dropTransaction', [variants[1]?.hash ?? '']);
      await one.anvil.rpc('eth_sendRawTransaction', [`0x${variants[0]?.raw.toString('hex') ?? ''}`]);
    }
    await one.anvil.mine(1);
    await one.drain();
    assert.equal(await statusOf(one, id), 'confirmed');
    const settled = await one.pool.query<{ object_id: string }>(
      'select v.object_id from payonce.effects e join payonce.effect_evidence v on v.id = e.settled_by',
    );
    assert.equal(settled.rows[0]?.object_id, variants[mined === 'original' ? 0 : 1]?.hash);
    assert.deepEqual(await paidTo(one, to), [1_000_000n]);
    await finish(one);
  });
}

test('cancelled on chain: the cancel is final, nothing was paid, the hold is back (case E2)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  await wish(one, id, 'cancel');
  await one.pass();
  assert.deepEqual(
    (await variantsOf(one, id)).map((variant) => variant.kind),
    ['original', 'cancel'],
  );
  await one.anvil.mine(1);
  await one.drain();
  assert.equal(await statusOf(one, id), 'failed');
  assert.deepEqual(await paidTo(one, to), []);
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 0n });
  await finish(one);
});

test('a cancel that comes too late ends as the payment that it was', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  await one.anvil.mine(1);
  await wish(one, id, 'cancel');
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

test('displaced by a foreign transaction: proved by two witnesses, the wallet is quarantined, the next try waits (case E5, F8)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  for (const node of one.nodes)
    node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'lose_request', how: 'close' } });
  await one.pass();
  // Somebody with the wallet's key uses its nonce 0 for something else.
  const key = one.anvil.accounts[0];
  assert.ok(key);
  await sendAs(one.anvil, key.privateKey, { to: key.address, value: 5n });
  await one.anvil.mine(4);
  for (const node of one.nodes) node.heal();
  for (let round = 0; round < 4; round += 1) await one.pass();
  const effects = await one.pool.query<{ state: string; kind: string | null }>(
    'select e.state, v.kind from payonce.effects e left join payonce.effect_evidence v on v.id = e.released_by order by e.seq',
  );
  assert.deepEqual(effects.rows[0], { state: 'RELEASED', kind: 'NONCE_SPENT_BY_OTHER' });
  assert.equal(effects.rows[1]?.state, 'PENDING');
  const signer = await one.pool.query<{ quarantined_at: Date | null }>('select quarantined_at from payonce.signers');
  assert.notEqual(signer.rows[0]?.quarantined_at, null);
  assert.deepEqual(await paidTo(one, to), []);
  // A person has matched the wallet's transfers: the next try goes out once, under the next nonce.
  await one.pool.query('update payonce.signers set quarantined_at = null, quarantine_reason = null');
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await assertBooksClean(one.pool);
  await one.end();
});

test('one witness alone proves no absence: the money stays held (case F1, F5)', async () => {
  const one = await makeEvmWorld();
  const { id } = await pay(one);
  for (const node of one.nodes)
    node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'lose_request', how: 'close' } });
  await one.pass();
  const key = one.anvil.accounts[0];
  assert.ok(key);
  one.nodes[1]?.freezeAt(1);
  await sendAs(one.anvil, key.privateKey, { to: key.address, value: 5n });
  await one.anvil.mine(4);
  for (let round = 0; round < 4; round += 1) await one.pass();
  assert.equal(await statusOf(one, id), 'processing');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('our payload under a foreign hash is our payment (inv E2)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  for (const node of one.nodes)
    node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'lose_request', how: 'close' } });
  await one.pass();
  const key = one.anvil.accounts[0];
  assert.ok(key);
  // The same call and nonce, signed elsewhere with other fees: a hash that we never stored.
  await sendAs(one.anvil, key.privateKey, { to: one.token, data: transferData(to as `0x${string}`, 1_000_000n) });
  await one.anvil.mine(4);
  for (const node of one.nodes) node.heal();
  for (let round = 0; round < 3; round += 1) await one.pass();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  const signer = await one.pool.query<{ quarantine_reason: string }>('select quarantine_reason from payonce.signers');
  assert.match(signer.rows[0]?.quarantine_reason ?? '', /signature that we never made/);
  await assertBooksClean(one.pool);
  await one.end();
});

test('reorged out: shown as processing again, the same bytes are sent again, confirmed once (case F7, F8)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  await one.anvil.mine(1);
  await one.pass();
  assert.equal(await statusOf(one, id), 'sent');
  await one.anvil.rpc('anvil_reorg', [1, []]);
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  await one.pass();
  assert.equal(await statusOf(one, id), 'processing');
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.equal((await variantsOf(one, id)).length, 1);
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

test('three nodes that all say "nonce too low" as an internal error stop nobody (case E3)', async () => {
  const one = await makeEvmWorld({ nodeCount: 3 });
  const { id, to } = await pay(one);
  for (const node of one.nodes)
    node.script({
      method: 'eth_sendRawTransaction',
      hitsMax: 2,
      fault: { kind: 'rpc_error', code: -32603, message: 'nonce too low', forwarded: true },
    });
  await one.pass();
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

test('a token that says false and moves nothing pays nobody: two persons decide, nothing is released (case H2)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  const owner = one.anvil.accounts[9];
  assert.ok(owner);
  const { encodeFunctionData } = await import('viem');
  const { testToken } = await import('../../sim/contracts/artifacts.ts');
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  await sendAs(one.anvil, owner.privateKey, {
    to: one.token,
    data: encodeFunctionData({ abi: testToken.abi, functionName: 'setLies', args: [true] }),
  });
  await one.anvil.mine(1);
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.pass();
  await one.anvil.mine(4);
  await one.pass();
  assert.equal(await statusOf(one, id), 'in_review');
  assert.equal(await tokenBalance(one.anvil, one.token, to as `0x${string}`), 0n);
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  const cases = await one.pool.query<{ kind: string }>('select kind from payonce.cases');
  assert.deepEqual(
    cases.rows.map((row) => row.kind),
    ['moved_otherwise'],
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('blacklisted after the seal: reverted at finality frees the money, tried twice, then failed (case E8)', async () => {
  const one = await makeEvmWorld();
  const owner = one.anvil.accounts[9];
  assert.ok(owner);
  const { encodeFunctionData } = await import('viem');
  const { testToken } = await import('../../sim/contracts/artifacts.ts');
  const { id, to } = await pay(one);
  await one.pass();
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  await sendAs(one.anvil, owner.privateKey, {
    to: one.token,
    data: encodeFunctionData({ abi: testToken.abi, functionName: 'blacklist', args: [to as `0x${string}`, true] }),
  });
  await one.anvil.mine(1);
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.pass();
  await one.anvil.mine(1);
  await one.pass();
  assert.equal(await statusOf(one, id), 'processing');
  await one.anvil.mine(3);
  await one.pass();
  const effects = await one.pool.query<{ state: string }>('select state from payonce.effects order by seq');
  assert.deepEqual(
    effects.rows.map((row) => row.state),
    ['RELEASED', 'PENDING'],
  );
  // The next try is stopped by the simulation, before any seal: no gas is burned again, a person sees it.
  for (let round = 0; round < 6; round += 1) await one.pass();
  assert.deepEqual(
    (await one.pool.query<{ kind: string }>('select kind from payonce.cases')).rows.map((row) => row.kind),
    ['plan_fails'],
  );
  assert.deepEqual(await paidTo(one, to), []);
  assert.equal((await one.pool.query("select 1 from payonce.postings where idem_key like 'GAS:%'")).rowCount, 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('the ledger has enough and the wallet does not: nothing is sealed, it waits with the reason (req R2, R14)', async () => {
  const one = await makeEvmWorld();
  await one.fund(10_000_000_000_000n);
  await one.pool.query('update payonce.asset_policies set withdrawal_max = 100000000000000');
  const { id } = await pay(one, { amount: 2_000_000_000_000n });
  await one.pass();
  assert.equal(await statusOf(one, id), 'pending');
  const waits = await one.pool.query<{ wait_reason: string }>('select wait_reason from payonce.effects');
  assert.match(waits.rows[0]?.wait_reason ?? '', /^ONCHAIN_INSUFFICIENT/);
  assert.equal((await one.pool.query("select 1 from payonce.alerts where kind = 'onchain_insufficient'")).rowCount, 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('ten reserved nonces and a node that is down: the gaps are filled by the same signed bytes (case E2, E5)', async () => {
  const one = await makeEvmWorld();
  const ids: string[] = [];
  for (let index = 0; index < 10; index += 1) ids.push((await pay(one)).id);
  for (const node of one.nodes)
    node.script({ method: 'eth_sendRawTransaction', calls: [1, 2], fault: { kind: 'lose_request', how: 'close' } });
  await one.pass();
  for (const node of one.nodes) node.heal();
  await new Promise((resolve) => setTimeout(resolve, 250));
  await one.drain();
  for (const id of ids) assert.equal(await statusOf(one, id), 'confirmed');
  const nonces = await one.pool.query<{ nonce: bigint }>('select nonce from payonce.effects order by nonce');
  assert.deepEqual(
    nonces.rows.map((row) => row.nonce),
    Array.from({ length: 10 }, (_, index) => BigInt(index)),
  );
  assert.equal((await one.paid()).length, 10);
  await finish(one);
});

test('settled and then taken back by the chain: a case, no new seals, and the same bytes until it is final again (case F5, F7)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  await one.anvil.mine(4);
  await one.pass();
  assert.equal(await statusOf(one, id), 'confirmed');
  await one.anvil.rpc('anvil_reorg', [5, []]);
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  assert.deepEqual(await paidTo(one, to), []);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 0, 'nothing is asked without a reason to doubt');
  // The scanner, or the next plan, raises the doubt: here the wallet's open nonce lies above the chain's count.
  const second = await pay(one);
  await one.pass();
  await pay(one);
  await one.pass();
  assert.equal(
    (await one.pool.query("select 1 from payonce.alerts where kind = 'chain_went_back' and cleared_at is null"))
      .rowCount,
    1,
  );
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 1);
  const cases = await one.pool.query<{ kind: string; about: boolean }>(
    'select kind, effect_id is not null as about from payonce.cases',
  );
  assert.deepEqual(cases.rows, [{ kind: 'broken_finality', about: true }]);
  const rail = await one.pool.query<{ stopped: boolean }>(
    'select seals_stopped_at is not null as stopped from payonce.rails',
  );
  assert.deepEqual(rail.rows, [{ stopped: true }]);
  await one.anvil.mine(4);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 0);
  assert.equal((await one.pool.query('select 1 from payonce.cases where closed_at is null')).rowCount, 0);
  await one.pool.query('update payonce.rails set seals_stopped_at = null, seals_stopped_reason = null');
  await one.drain();
  assert.equal(await statusOf(one, second.id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});

test('what was settled is looked at once more after a while: taken back without any other doubt, it is a case and goes out again (case F5, F7)', async () => {
  const one = await makeEvmWorld();
  const { id, to } = await pay(one);
  await one.pass();
  await one.anvil.mine(4);
  await one.pass();
  assert.equal(await statusOf(one, id), 'confirmed');
  await one.anvil.rpc('anvil_reorg', [5, []]);
  const [variant] = await variantsOf(one, id);
  await one.anvil.rpc('anvil_dropTransaction', [variant?.hash ?? '']);
  const due = "update payonce.effects set watch_at = payonce.now() where state = 'SETTLED'";
  await one.pool.query(due);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 0, 'the nodes are not past its end yet');
  await one.anvil.rpc('evm_increaseTime', [3_600]);
  await one.anvil.mine(4);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 0, 'its time has not come');
  await one.pool.query(due);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 1);
  const open = 'select kind from payonce.cases where closed_at is null';
  assert.deepEqual((await one.pool.query(open)).rows, [{ kind: 'broken_finality' }]);
  await one.anvil.mine(4);
  assert.equal(await recheckSettledOnce(one.engine, one.rail), 0);
  assert.deepEqual((await one.pool.query(open)).rows, []);
  assert.deepEqual(await paidTo(one, to), [1_000_000n]);
  await finish(one);
});
