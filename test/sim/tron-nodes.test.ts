/*
 * Goal: nodes that lag, that keep no past, that are lite, closed or limited, and pages of events, answer as such nodes do.
 * Method: plain HTTP calls of nodes before one chain.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { startTron, type Tron, type TronOptions } from '../../sim/tron/tron.ts';
import { broadcast, get, makePerson, post } from './tron-client.ts';

const running: Tron[] = [];
afterEach(async () => {
  for (const tron of running.splice(0)) await tron.stop();
});

async function scene(options: TronOptions = {}) {
  const tron = await startTron(options);
  running.push(tron);
  const payer = makePerson(tron, '1');
  const payee = makePerson(tron, '2');
  tron.fund(payer.address, 1_000_000_000_000n);
  tron.fund(payee.address, 1n);
  return { tron, payer, payee };
}

test('a lagging node, one without receipts and a lite one each miss what the others have', async () => {
  const { tron, payer, payee } = await scene({
    nodes: [
      { name: 'full' },
      { name: 'slow', lagBlocks: 4 },
      { name: 'short', history: false },
      { name: 'lite', lite: true },
    ],
  });
  const signed = await payer.trx(payee.address, 5);
  assert.equal(await broadcast(tron.node('slow'), signed), 'SUCCESS');
  const { number } = tron.mine(2);
  const receipt = async (name: string) =>
    post(tron.node(name).url, '/wallet/gettransactioninfobyid', { value: signed.txID });
  assert.equal((await receipt('full')).json.blockNumber, number - 1);
  assert.deepEqual((await receipt('slow')).json, {});
  assert.deepEqual((await receipt('short')).json, {});
  const lite = await receipt('lite');
  assert.equal(lite.status, 200);
  assert.equal(lite.text, 'this API is closed because this node is a lite fullnode');
  assert.equal(
    (await post(tron.node('short').url, '/wallet/gettransactionbyid', { value: signed.txID })).json.txID,
    signed.txID,
  );
  const byBlock = { num: number - 1 };
  assert.equal((await post(tron.node('full').url, '/wallet/gettransactioninfobyblocknum', byBlock)).json.length, 1);
  assert.deepEqual((await post(tron.node('short').url, '/wallet/gettransactioninfobyblocknum', byBlock)).json, []);
  // The balance is the one of the block that the node is at.
  const balance = async (name: string, side: string) =>
    (await post(tron.node(name).url, `/${side}/getaccount`, { address: payee.address, visible: true })).json.balance;
  assert.equal(await balance('full', 'wallet'), 6);
  assert.equal(await balance('slow', 'wallet'), 1);
  assert.equal(await balance('full', 'walletsolidity'), 1);
});

test('blocks are found by number and in rows, up to the height of the side that is asked', async () => {
  const { tron } = await scene();
  tron.mine(3);
  const { number, id } = tron.head();
  const one = await post(tron.url, '/wallet/getblockbynum', { num: number });
  assert.equal(one.json.blockID, id);
  assert.equal(one.json.block_header.raw_data.timestamp, tron.head().timeMs);
  assert.deepEqual((await post(tron.url, '/walletsolidity/getblockbynum', { num: number })).json, {});
  assert.deepEqual((await post(tron.url, '/wallet/getblockbynum', { num: number + 1 })).json, {});
  const row = await post(tron.url, '/wallet/getblockbylimitnext', { startNum: number - 2, endNum: number + 5 });
  assert.deepEqual(
    row.json.block.map(
      (block: { block_header: { raw_data: { number: number } } }) => block.block_header.raw_data.number,
    ),
    [number - 2, number - 1, number],
  );
  const asGet = await get(`${tron.url}/walletsolidity/getnowblock`);
  assert.equal(asGet.json.blockID, tron.solid().id);
});

test('a limit is HTTP 200 with an Error at a node and 403 or 429 before one; closed and unknown routes are 404', async () => {
  const { tron } = await scene({ nodes: [{ closed: ['/wallet/getnodeinfo'] }] });
  const { settings } = tron.nodes[0] ?? assert.fail('no node');
  assert.equal((await post(tron.url, '/wallet/getnodeinfo', {})).status, 404);
  assert.equal((await post(tron.url, '/wallet/nosuchthing', {})).status, 404);
  assert.equal((await post(tron.url, '/walletsolidity/getaccountresource', {})).status, 404);
  for (const answer of [200, 403, 429] as const) {
    settings.limit = { perSecond: 0, answer };
    const said = await post(tron.url, '/wallet/getnowblock', {});
    assert.equal(said.status, answer);
    assert.ok(typeof said.json.Error === 'string');
  }
  settings.limit = null;
  settings.apiKey = 'k';
  assert.equal((await post(tron.url, '/wallet/getnowblock', {})).status, 401);
});

test('rows of transfers come in pages, and each page but the last has the cursor of the next', async () => {
  const { tron, payer, payee } = await scene();
  const usdt = tron.deployToken();
  tron.fundToken(usdt, payer.address, 1_000n);
  for (let count = 0; count < 7; count += 1) {
    tron.act(payer.address, { kind: 'send_token', token: usdt, to: payee.address, units: BigInt(count + 1) });
    tron.mine();
  }
  // Look-alikes are in the rows of whoever does not name the contract (case H3).
  const fake = tron.deployToken();
  tron.fundToken(fake, payer.address, 9n);
  tron.act(payer.address, { kind: 'send_token', token: fake, to: payee.address, units: 9n });
  tron.mine();
  const path = `/v1/accounts/${payee.address}/transactions/trc20?only_to=true&limit=3&contract_address=${usdt}`;
  const page = async (cursor?: string) => {
    const asked = cursor === undefined ? path : `${path}&fingerprint=${cursor}`;
    return (await get(`${tron.url}${asked}`)).json;
  };
  const values: string[] = [];
  let cursor: string | undefined;
  do {
    const { data, meta } = await page(cursor);
    values.push(...data.map(({ value }: { value: string }) => value));
    cursor = meta.fingerprint;
  } while (cursor !== undefined);
  assert.deepEqual(values, ['7', '6', '5', '4', '3', '2', '1']);
  const confirmed = await get(`${tron.url}${path}&only_confirmed=true`);
  assert.deepEqual(confirmed.json.data, []);
  tron.script({ on: 'events', hitsMax: 1, fault: { kind: 'empty_page' } });
  const empty = await page();
  assert.deepEqual(empty.data, []);
  assert.ok(typeof empty.meta.fingerprint === 'string');
  tron.script({ on: 'events', fault: { kind: 'no_fingerprint' } });
  const full = await page();
  assert.equal(full.data.length, 3);
  assert.equal(full.meta.fingerprint, undefined);
  assert.deepEqual({ ...tron.counts }, { empty_page: 1, no_fingerprint: 1 });
});

test('lost, late and doubled broadcasts, and answers that are none, are executed as their names say', async () => {
  const { tron, payer, payee } = await scene({
    faults: [
      { on: 'broadcast', calls: [1], fault: { kind: 'lose_request' } },
      { on: 'broadcast', calls: [2], fault: { kind: 'lose_answer' } },
      { on: 'broadcast', calls: [3], fault: { kind: 'deliver_later', ms: 9_000 } },
      { on: 'broadcast', calls: [4], fault: { kind: 'deliver_twice' } },
      { on: 'broadcast', calls: [5], fault: { kind: 'garble', how: 'html', status: 502 } },
      { on: 'broadcast', calls: [6], fault: { kind: 'http', status: 504, html: true } },
    ],
  });
  const send = async (sun: number) => broadcast(tron, await payer.trx(payee.address, sun));
  for (const sun of [1, 2, 3]) await assert.rejects(send(sun));
  assert.equal(await send(4), 'DUP_TRANSACTION_ERROR Dup transaction.');
  for (const sun of [5, 6]) assert.match(await send(sun), /^undefined/);
  tron.mine();
  const moved = async () =>
    (await tron.books.movements()).map(({ amount }) => Number(amount)).sort((one, other) => one - other);
  assert.deepEqual(await moved(), [2, 4, 5]);
  tron.mine(2);
  await new Promise((done) => setTimeout(done, 50));
  tron.mine(2);
  assert.deepEqual(await moved(), [2, 3, 4, 5]);
  assert.equal(tron.counts.executed_for_nobody, 1);
});

test('a look that is blind or behind finds nothing, and counts only when there was something', async () => {
  const { tron, payer, payee } = await scene();
  const id = tron.act(payer.address, { kind: 'send', to: payee.address, sun: 5n });
  const look = async () => (await post(tron.url, '/wallet/gettransactionbyid', { value: id })).json;
  const withdraw = tron.script({ on: 'head', fault: { kind: 'blind' } });
  assert.deepEqual(await look(), {});
  assert.equal(tron.counts.blind, undefined);
  tron.mine();
  assert.deepEqual(await look(), {});
  assert.equal(tron.counts.blind, 1);
  withdraw();
  tron.script({ on: 'head', fault: { kind: 'lag', blocks: 1 } });
  assert.deepEqual(await look(), {});
  assert.equal(tron.counts.lag, 1);
  tron.heal();
  assert.equal((await look()).txID, id);
});
