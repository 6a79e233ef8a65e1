/*
 * Goal: a figure that no chain can have is none, at the edge of each rail: nothing of it comes to where it is added up, written
 * down or made a date. Method: what a node would answer, honest but for one figure.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json } from '../../src/engine/rail.ts';
import { headerOf as evmHeader } from '../../src/rails/evm/nodes.ts';
import { readReceipt } from '../../src/rails/evm/receipt.ts';
import { surveySigners } from '../../src/rails/evm/survey.ts';
import { headerOf as tronHeader } from '../../src/rails/tron/nodes.ts';
import { readInfo } from '../../src/rails/tron/receipt.ts';
import { readAccount } from '../../src/rails/tron/resources.ts';

const LONG_MAX = 2n ** 63n - 1n;
const hex = (value: bigint): string => `0x${value.toString(16)}`;
const HASH = `0x${'ab'.repeat(32)}`;
const ID = 'ab'.repeat(32);
const MUCH = '9'.repeat(80);

test('an EVM node’s heights, times, gas and costs are read up to what 64 bits, clocks and accounts hold', () => {
  const header = (change: Record<string, Json>) =>
    evmHeader({ number: '0x10', hash: HASH, parentHash: HASH, timestamp: '0x65000000', ...change });
  assert.equal(header({ number: hex(LONG_MAX) })?.number, LONG_MAX);
  assert.equal(header({ number: hex(LONG_MAX + 1n) }), null);
  assert.equal(header({ timestamp: hex(8_640_000_000_001n) }), null);
  const receipt = (change: Record<string, Json>) =>
    readReceipt({
      transactionHash: HASH,
      status: '0x1',
      blockNumber: '0x10',
      blockHash: HASH,
      gasUsed: '0x5208',
      effectiveGasPrice: '0x3b9aca00',
      logs: [],
      ...change,
    });
  assert.equal(receipt({})?.cost, 21_000n * 10n ** 9n);
  for (const change of [
    { blockNumber: hex(LONG_MAX + 1n) },
    { gasUsed: hex(2n ** 255n) },
    { effectiveGasPrice: hex(2n ** 128n) },
    { l1Fee: hex(2n ** 200n) },
  ])
    assert.equal(receipt(change), null, JSON.stringify(change));
});

test('a count of a signer’s transactions that no chain has is no answer: another node’s counts', async () => {
  const answering = (count: bigint) => ({
    checked: { ask: () => Promise.resolve([{ kind: 'result' as const, value: hex(count) }]) },
  });
  const signer = `0x${'11'.repeat(20)}`;
  const nodes = [answering(2n ** 200n), answering(7n)] as unknown as Parameters<typeof surveySigners>[0];
  assert.deepEqual(
    (await surveySigners(nodes, 1_000, [signer])).map((one) => one.nonceHead),
    [7n],
  );
});

test('a TRON node’s figures are read up to the 64 bits with a sign that java-tron keeps them in', () => {
  const info = (change: Record<string, Json>) => readInfo({ id: ID, blockNumber: '70', fee: '100', ...change });
  assert.equal(info({ fee: LONG_MAX.toString() })?.fee, LONG_MAX);
  for (const change of [{ fee: (LONG_MAX + 1n).toString() }, { fee: MUCH }, { blockNumber: MUCH }])
    assert.equal(info(change), null, JSON.stringify(change));
  const passed = (callValue: string) =>
    info({
      receipt: { result: 'SUCCESS' },
      internal_transactions: [
        {
          note: Buffer.from('call').toString('hex'),
          caller_address: `41${'11'.repeat(20)}`,
          transferTo_address: `41${'22'.repeat(20)}`,
          callValueInfo: [{ callValue }],
        },
      ],
    });
  assert.equal(passed('5')?.internal[0]?.value, 5n);
  assert.equal(passed(MUCH), null);
  const numbered = (number: bigint) =>
    tronHeader({
      blockID: number.toString(16).padStart(16, '0') + 'c'.repeat(48),
      block_header: { raw_data: { number: number.toString(), timestamp: '1700000000000', parentHash: ID } },
    });
  assert.equal(numbered(LONG_MAX)?.number, LONG_MAX);
  assert.equal(numbered(LONG_MAX + 1n), null);
  const account = (balance: string) => readAccount({ kind: 'value', value: { address: ID, balance } });
  assert.equal(account('9')?.balanceSun, 9n);
  assert.equal(account(MUCH), null);
});
