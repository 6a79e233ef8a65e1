/*
 * Goal: what would fail on TRON, or move another's money, is said before anything is sealed. Method: the rail's plan against
 * a simulated chain, one payment changed in one thing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EffectIntent, PlanVerdict } from '../../src/engine/rail.ts';
import { SUN_MAX } from '../../src/rails/tron/limits.ts';
import { readPrices } from '../../src/rails/tron/resources.ts';
import { makeStage, NOTHING_OPEN, type Stage, TRX } from './tron-stage.ts';

async function planned({ rail, intents }: Stage, change: Partial<EffectIntent>): Promise<PlanVerdict> {
  const [intent] = intents;
  assert.ok(intent !== undefined);
  const [verdict] = await rail.plan([{ ...intent, ...change }], NOTHING_OPEN);
  assert.ok(verdict !== undefined);
  return verdict;
}

test('TRX is signed by the wallet that it leaves: a relayer would pay it out of its own (req R15)', async (t) => {
  const stage = await makeStage(t, 1);
  const other = stage.intents[0]?.destination ?? '';
  stage.tron.fund(other, 10n * TRX);
  const verdict = await planned(stage, { wallet: other });
  assert.ok(verdict.verdict === 'wait', JSON.stringify(verdict));
  assert.equal(verdict.reason, 'SIGNER_IS_NOT_WALLET');
  assert.match(verdict.detail, new RegExp(`signed by its owner ${other}, not by `));
});

test('2^63 sun and more is refused with the most that one transfer holds, and its neighbour is planned', async (t) => {
  const stage = await makeStage(t, 2);
  const [first, second] = stage.intents;
  assert.ok(first !== undefined && second !== undefined);
  for (const amount of [2n ** 63n, 2n ** 63n - 1n, SUN_MAX + 1n]) {
    const [large, small] = await stage.rail.plan([{ ...first, amount }, second], NOTHING_OPEN);
    assert.ok(large?.verdict === 'wait');
    assert.deepEqual([large.reason, large.lasts], ['AMOUNT_TOO_LARGE', 'for_good']);
    assert.match(large.detail, new RegExp(`${SUN_MAX} sun`));
    assert.equal(small?.verdict, 'ready');
  }
});

test('blocks too old to refer to: nothing is planned on a node that has only such, and how old they are is told (case G2)', async (t) => {
  const late = await makeStage(t, 1, 121_000);
  const behind = await planned(late, {});
  assert.ok(behind.verdict === 'wait');
  assert.deepEqual([behind.reason, behind.lasts], ['NODE_DOWN', 'a_while']);
  assert.match(behind.detail, /it is behind: its head is 12\d s old/);
  const stage = await makeStage(t, 1);
  Object.assign(stage.tron.node('a').settings, { lagBlocks: 45 });
  stage.tron.mine(50);
  assert.equal((await planned(stage, {})).verdict, 'ready', 'the other node is up to date');
  stage.tron.stallSolidity(true);
  stage.tron.mine(60);
  const stalled = await planned(stage, {});
  assert.ok(stalled.verdict === 'wait');
  assert.match(stalled.detail, /does not solidify: head \d+, solid \d+/);
});

test('a price above all the TRX that there is, or of more digits than a figure has, is none: another node is asked', () => {
  const pricesOf = (fee: string) =>
    readPrices({
      kind: 'value',
      value: {
        chainParameter: [
          { key: 'getEnergyFee', value: '100' },
          { key: 'getTransactionFee', value: fee },
        ],
      },
    });
  assert.equal(pricesOf('1000')?.bandwidth, 1_000n);
  for (const fee of [String(SUN_MAX + 1n), `1${'0'.repeat(90)}`, `1${'0'.repeat(400)}`, '-1', '1.5'])
    assert.equal(pricesOf(fee), null, fee);
});
