/*
 * Goal: a chain monitor's word makes us look, and does nothing else. Method: bodies in several providers' shapes against
 * rows of ours.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeChainMonitor, type Mentions, mentionsIn } from '../../src/inbox/chain-monitor.ts';
import { type InboxWorld, letter, makeInboxWorld } from './inbox-world.ts';

const OURS = `0x${'ab'.repeat(20)}`;
const OUR_TX = `0x${'cd'.repeat(32)}`;
const FOREIGN = `0x${'12'.repeat(20)}`;

let world: InboxWorld;
let wakes = 0;
const hurried: Mentions[] = [];

before(async () => {
  world = await makeInboxWorld('chain monitor', ['monitor']);
  await world.pool.query("insert into payonce.partners (id, name) values ('par_1', 'one')");
  await world.pool.query(
    "insert into payonce.assets (id, code, chain, decimals) values ('eip155:31337/slip44:60', 'ETH', 'eip155:31337', 18)",
  );
  await world.pool.query(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ('adr_1', 'eip155:31337', $1, 'DEPOSIT', 'par_1')",
    [OURS],
  );
  await world.pool.query(
    `insert into payonce.chain_transfers (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason)
     values ('eip155:31337', $1, -1, 1, '0x1', 'eip155:31337/slip44:60', $2, $3, 1, 'deposit', 'test')`,
    [OUR_TX, FOREIGN, OURS],
  );
});
after(() => world.close());

async function deliver(id: string, body: unknown): Promise<string | undefined> {
  await world.post('monitor', letter(id, body));
  const worker = world.worker({
    monitor: makeChainMonitor({
      wake: () => {
        wakes += 1;
      },
      hurry: (_tx, mentions) => {
        hurried.push(mentions);
        return Promise.resolve();
      },
    }),
  });
  await worker.runOnce();
  return (await world.rows('monitor')).find((row) => row.headers['webhook-id'] === id)?.state;
}

test('a body in any shape that names an address or a transaction of ours wakes the readers once (case D5)', async () => {
  const bodies = [
    {
      event: {
        activity: [{ toAddress: OURS.toUpperCase().replace('0X', '0x'), value: 1.0, unknown: { kind: 'NEW_KIND' } }],
      },
    },
    { confirmed: true, txs: [{ hash: OUR_TX, block: 7 }] },
    `not json, but it says ${OUR_TX}`,
  ];
  for (const [index, body] of bodies.entries()) {
    wakes = 0;
    assert.equal(await deliver(`msg_shape_${index}`, body), 'done');
    assert.equal(wakes, 1);
  }
  assert.deepEqual(hurried[1]?.hashes, [OUR_TX]);
});

test('a body that names only strangers stays unmatched (case D4)', async () => {
  wakes = 0;
  assert.equal(await deliver('msg_stranger', { from: FOREIGN, hash: `0x${'99'.repeat(32)}` }), 'unmatched');
  assert.equal(wakes, 0);
});

test('a ping, and words that we do not know, make us look and are done', async () => {
  wakes = 0;
  assert.equal(await deliver('msg_ping', {}), 'done');
  assert.equal(wakes, 1);
});

test('only whole hashes and addresses are read, each once and in canonical spelling', () => {
  const body = Buffer.from(
    JSON.stringify({
      a: OURS,
      b: OURS.toUpperCase().replace('0X', '0x'),
      data: `0x${'0'.repeat(24)}${'ab'.repeat(20)}`,
      long: `${OUR_TX}ff`,
      tx: OUR_TX,
    }),
  );
  // 32 bytes of call data look like a hash; that only asks the database once more.
  assert.deepEqual(mentionsIn({ body }), {
    hashes: [`0x${'0'.repeat(24)}${'ab'.repeat(20)}`, OUR_TX],
    addresses: [OURS],
  });
});
