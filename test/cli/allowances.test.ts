/*
 * Goal: the command that a waiting payment names works as it stands: one person runs it, another approves, and the payment goes
 * (req R15, R18). Method: the real program, a real chain behind two nodes, the command read out of the payment's own reason.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import type { Rail } from '../../src/engine/rail.ts';
import { makeAllowanceFlow } from '../../src/flows/allowances/index.ts';
import { createWithdrawals, makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeEvmWorld } from '../support/evm-world.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

test('the command that a payment waits for gives its relayer an allowance, by two persons; revoke takes it away (req R15, R18)', async (t) => {
  const made: { rail?: Rail } = {};
  const world = await makeEvmWorld({
    label: 'cli allowances',
    walletCount: 2,
    flows: (chart, makeId) => [makeWithdrawals(chart), makeAllowanceFlow(chart, makeId, () => made.rail)],
  });
  t.after(() => world.end());
  made.rail = world.rail;
  const [master = '', relayer = ''] = world.wallets;
  await world.pool.query('update payonce.asset_policies set relayers = $1', [[relayer]]);
  const folder = mkdtempSync(join(tmpdir(), 'payonce-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'chains.json');
  const chain = {
    chainId: String(world.anvil.chainId),
    nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
    finality: { tag: 'finalized' },
    feeCapWei: '1000000000000',
    gasLimitCap: '1000000',
    assets: [
      { code: 'USDT', contract: world.token, decimals: 6 },
      { code: 'COIN', contract: null, decimals: 18 },
    ],
  };
  writeFileSync(file, JSON.stringify({ chains: [chain] }));
  const run = payonceOn(world.url, { PAYONCE_CONFIG: file });
  const admin = await firstAdmin(run);
  const otto = await addOperator(run, admin, 'Otto', 'operator');
  const paula = await addOperator(run, admin, 'Paula', 'approver');

  await createWithdrawals(world, [world.request({ destination: world.outsider() })]);
  await world.pass();
  const shown = await run(['effect', 'list', '--json']);
  const [, named = ''] = /payonce (wallet approve [^"]*)/.exec(shown.stdout) ?? [];
  const approveIt = named.split(' ');

  assert.equal((await run(approveIt)).code === 0, false, 'not by nobody');
  const proposed = await run([...approveIt, '--json'], otto);
  assert.equal(proposed.code, 0, proposed.stderr);
  const { proposal_id: proposal, case_id: caseId } = proposed.json<{ proposal_id: string; case_id: string }>();
  assert.match(
    (await run(['case', 'show', caseId])).stdout,
    /shall let 0x.* move any amount of USDT; now it is 0 USDT/,
  );
  assert.equal((await run(['case', 'approve', proposal], otto)).code === 0, false, 'not by the same person');
  const approved = await run(['case', 'approve', proposal], paula);
  assert.equal(approved.code, 0, approved.stderr);
  await world.drain();
  assert.equal((await world.paid()).length, 1);
  assert.match((await run(['case', 'list'])).stdout, /No open case/);
  assert.match((await run(['effect', 'show', '2'])).stdout, /allowance/);

  const revoke = ['wallet', 'revoke', '--chain', `eip155:${chain.chainId}`, '--wallet', master, '--relayer', relayer];
  const wrong = await run([...revoke.slice(0, -1), relayer.slice(0, -1), '--asset', 'USDT', '--json'], otto);
  assert.match(wrong.problem().detail, /^--relayer: got .*expected an address/);
  const taken = await run([...revoke, '--asset', 'USDT', '--json'], otto);
  assert.equal(taken.code, 0, taken.stderr);
  await run(['case', 'approve', taken.json<{ proposal_id: string }>().proposal_id], paula);
  await world.drain();
  const again = await run([...revoke, '--asset', 'USDT', '--json'], otto);
  assert.match(again.problem().detail, /allows 0x\w+ exactly that already/);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});
