/*
 * Goal: nobody is left to believe that wallets are compared with their chain while they are not. Method: a real chain whose nodes
 * fail to show a block, and the schedule run by hand at the times that it asks for.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { makeChainWatch } from '../../src/audit/reconcile/chain-watch.ts';
import type { ChainNode } from '../../src/audit/reconcile/chain-read.ts';
import { type ChainScene, startChainScene } from './chain-scene.ts';

const open: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.end();
});

/** A node that shows each block but one. */
function blindTo(node: ChainNode, block: bigint): ChainNode {
  return {
    source: node.source,
    operator: node.operator,
    latestHead: () => node.latestHead(),
    finalizedHead: () => node.finalizedHead(),
    readHeader: (number) => node.readHeader(number),
    readBlocks: async (numbers) =>
      (await node.readBlocks(numbers)).map((read, at) =>
        numbers[at] === block ? { ok: false, fault: `block ${block} does not read` } : read,
      ),
    readBalances: (at, holders) => node.readBalances(at, holders),
    findTransactions: (hashes) => node.findTransactions(hashes),
  };
}

const alertsOf = (one: ChainScene) =>
  one.rows<{ key: string; message: string }>(
    "select key, message from payonce.alerts where kind = 'chain_uncompared' and cleared_at is null order by key",
  );
const makeDue = (one: ChainScene) => one.pool.query('update payonce.chain_checks set next_at = payonce.now()');

test('a block that does not read is told per wallet that goes uncompared, and told no more when it reads again (req R11)', async () => {
  const one = await startChainScene('watch_unread');
  open.push(one);
  await one.order();
  await one.drain();
  await one.scan();
  const { nodes } = one.reconciled;
  const quiet = { pool: one.pool, log: one.log };
  const watch = makeChainWatch(quiet, [one.reconciled]);
  const blind = makeChainWatch(quiet, [
    { ...one.reconciled, nodes: nodes.map((node) => blindTo(node, one.firstBlock + 1n)) },
  ]);
  await watch.runOnce();
  await one.pool.query('update payonce.chain_checks set next_block = $1', [one.firstBlock]);
  await makeDue(one);
  assert.equal((await blind.runOnce()).length, 0);
  const told = await alertsOf(one);
  assert.deepEqual(
    told.map((row) => row.key.split(':').at(-1)),
    [one.masterAddress, one.settlement].sort(),
  );
  assert.match(told[0]?.message ?? '', /has never been compared with .* block \d+ does not read/s);

  await makeDue(one);
  assert.equal((await watch.runOnce()).length, 2);
  assert.deepEqual(await alertsOf(one), []);

  // Compared just now: one failed run says nothing, the node may be back in a minute.
  await one.pool.query('update payonce.chain_checks set next_block = $1', [one.firstBlock]);
  await makeDue(one);
  assert.equal((await blind.runOnce()).length, 0);
  assert.deepEqual(await alertsOf(one), []);
});
