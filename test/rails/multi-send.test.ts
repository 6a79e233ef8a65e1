/*
 * Goal: the truth of each line of a multi-send is read from the receipt's logs and from nothing else, and no reading of odd logs
 * takes one line's transfer for two. Method: logs as the contract writes them, and as it never should; pure.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { toEventSelector, toFunctionSelector } from 'viem';
import { multiSend } from '../../sim/contracts/artifacts.ts';
import type { EffectIntent } from '../../src/engine/rail.ts';
import { canonicalAddress } from '../../src/rails/evm/address.ts';
import { wordOfAddress } from '../../src/rails/evm/payload.ts';
import { type ShownLog, TRANSFER_TOPIC } from '../../src/rails/expected-logs.ts';
import {
  chainLines,
  FAILED_TOPIC,
  LINES_MAX,
  lineTruths,
  MULTI_SEND_ABI,
  multiSendExpect,
  multiSendKind,
  PAID_TOPIC,
  readMultiSend,
} from '../../src/rails/multi-send.ts';

const CONTRACT = '0x00000000000000000000000000000000000c0de5';
const TOKEN = '0x00000000000000000000000000000000000c0ffe';
const SPELLING = { canonical: canonicalAddress, machine: canonicalAddress, word: wordOfAddress };
const HASH = `0x${'ab'.repeat(32)}`;

const payee = (number: number): string => `0x${number.toString(16).padStart(40, '0')}`;
const LINES = [
  { ref: 'pay_1', to: payee(0xa1), amount: 5n },
  { ref: 'pay_2', to: payee(0xa2), amount: 7n },
  { ref: 'pay_3', to: payee(0xa1), amount: 5n },
];

const SINGLE: EffectIntent = {
  effectId: 1n,
  subjectType: 'payout_batch',
  subjectId: 'batch_1',
  seq: 1,
  partnerId: 'par_1',
  naturalKey: '5:par_11:1',
  rail: 'evm:31337',
  asset: { id: 'usdt', code: 'USDT', decimals: 6, chain: 'eip155:31337', contract: TOKEN },
  amount: 17n,
  destination: CONTRACT,
  wallet: payee(0xf1),
  signer: payee(0xf1),
  call: null,
  payee: null,
};
function batch(change: Partial<EffectIntent> = {}): EffectIntent {
  return { ...SINGLE, lines: LINES, ...change };
}

const sent = (change: Partial<EffectIntent> = {}) => {
  const read = readMultiSend(multiSendExpect(batch(change), SPELLING));
  assert.ok(read);
  return read;
};
const SENT = sent();

const word = (amount: bigint): string => `0x${amount.toString(16).padStart(64, '0')}`;
const transfer = (line: number, change: Partial<ShownLog> = {}): ShownLog => ({
  address: TOKEN,
  topics: [TRANSFER_TOPIC, SENT.payer, SENT.lines[line]?.to ?? ''],
  data: word(SENT.lines[line]?.amount ?? 0n),
  ...change,
});
const said = (topic: string, line: number, change: Partial<ShownLog> = {}): ShownLog => ({
  address: CONTRACT,
  topics: [topic, SENT.lines[line]?.name ?? '', SENT.lines[line]?.to ?? ''],
  data: word(SENT.lines[line]?.amount ?? 0n),
  ...change,
});
const paid = (line: number): ShownLog[] => [transfer(line), said(PAID_TOPIC, line)];
const outcomes = (logs: readonly ShownLog[], of = SENT): string[] =>
  lineTruths(of, logs, HASH).map((one) => one.outcome);

test('the rail speaks of the contract as it is compiled', () => {
  const abi = new Map(multiSend.abi.map((item) => [item.name, item]));
  for (const item of MULTI_SEND_ABI)
    assert.equal(toFunctionSelector(item), toFunctionSelector(abi.get(item.name) as typeof item));
  const events = multiSend.abi.filter((item) => item.type === 'event');
  assert.deepEqual(
    events.map((item) => [item.name, toEventSelector(item)]),
    [
      ['Failed', FAILED_TOPIC],
      ['Paid', PAID_TOPIC],
    ],
  );
});

test('each line has its own truth: paid by a transfer of its own, or failed by the contract’s word (req P8, case H10)', () => {
  assert.deepEqual(outcomes([...paid(0), ...paid(1), ...paid(2)]), ['paid', 'paid', 'paid']);
  assert.deepEqual(outcomes([...paid(0), said(FAILED_TOPIC, 1), ...paid(2)]), ['paid', 'not_paid', 'paid']);
  const truths = lineTruths(SENT, [...paid(0), said(FAILED_TOPIC, 1), ...paid(2)], HASH);
  assert.deepEqual(
    truths.map((one) => [one.ref, one.objectId]),
    LINES.map((line) => [line.ref, `${HASH}:${line.ref}`]),
  );
});

test('no log stands for two lines: two equal lines need two transfers', () => {
  assert.deepEqual(outcomes([transfer(0), said(PAID_TOPIC, 0), ...paid(1), said(PAID_TOPIC, 2)]), [
    'paid',
    'paid',
    'unknown',
  ]);
});

test('what does not fit together is unknown, never paid and never failed', () => {
  const rest = paid(1);
  const cases: Record<string, ShownLog[]> = {
    'nothing said': [transfer(0)],
    'said twice': [...paid(0), said(PAID_TOPIC, 0)],
    'said both': [...paid(0), said(FAILED_TOPIC, 0)],
    'paid without a transfer': [said(PAID_TOPIC, 0)],
    'a transfer of another amount': [transfer(0, { data: word(4n) }), said(PAID_TOPIC, 0)],
    'a transfer of another token': [transfer(0, { address: payee(9) }), said(PAID_TOPIC, 0)],
    'a transfer by another payer': [
      transfer(0, { topics: [TRANSFER_TOPIC, wordOfAddress(payee(8)), SENT.lines[0]?.to ?? ''] }),
      said(PAID_TOPIC, 0),
    ],
    'another receiver in the contract’s log': [
      transfer(0),
      said(PAID_TOPIC, 0, { topics: [PAID_TOPIC, SENT.lines[0]?.name ?? '', wordOfAddress(payee(7))] }),
    ],
    'another amount in the contract’s log': [transfer(0), said(PAID_TOPIC, 0, { data: word(4n) })],
    'the word of another contract': [transfer(0), said(PAID_TOPIC, 0, { address: payee(6) })],
    'called failed, and a transfer went there': [transfer(0), said(FAILED_TOPIC, 0)],
  };
  for (const [name, logs] of Object.entries(cases)) assert.deepEqual(outcomes([...logs, ...rest])[0], 'unknown', name);
});

test('coin has no logs of its own: the contract’s word is the line’s truth', () => {
  const coin = sent({ asset: { id: 'coin', code: 'ETH', decimals: 18, chain: 'eip155:31337', contract: null } });
  const logs = [said(PAID_TOPIC, 0), said(FAILED_TOPIC, 1)];
  assert.deepEqual(outcomes(logs, coin), ['paid', 'not_paid', 'unknown']);
});

test('a call that paid nobody with proof is a no; one that paid somebody is a yes; else people look', () => {
  const kind = (logs: readonly ShownLog[]): string => multiSendKind(lineTruths(SENT, logs, HASH));
  assert.equal(kind([0, 1, 2].map((line) => said(FAILED_TOPIC, line))), 'reverted_final');
  assert.equal(kind([...paid(0), said(FAILED_TOPIC, 1)]), 'final_success');
  assert.equal(kind([said(FAILED_TOPIC, 0), said(FAILED_TOPIC, 1)]), 'moved_otherwise');
  assert.equal(kind([]), 'moved_otherwise');
});

test('whatever the order of the logs, as many lines are paid as have word and transfer', () => {
  const logs = [...paid(0), said(FAILED_TOPIC, 1), ...paid(2)];
  fc.assert(
    fc.property(fc.shuffledSubarray(logs, { minLength: logs.length, maxLength: logs.length }), (shuffled) => {
      assert.deepEqual(outcomes(shuffled), ['paid', 'not_paid', 'paid']);
    }),
  );
  fc.assert(
    fc.property(fc.subarray(logs), (some) => {
      const moved = some.filter((log) => log.topics[0] === TRANSFER_TOPIC).length;
      assert.ok(outcomes(some).filter((one) => one === 'paid').length <= moved);
    }),
  );
});

test('lines that no call can carry are refused before anything is sealed', () => {
  const fault = (change: Partial<EffectIntent>): string => {
    const read = chainLines(batch(change));
    return read !== null && 'fault' in read ? read.fault : '';
  };
  const line = { ref: 'pay_1', to: payee(1), amount: 17n };
  assert.equal(fault({}), '');
  assert.equal(chainLines(SINGLE), null);
  assert.match(fault({ amount: 18n }), /do not add up/);
  assert.match(fault({ lines: [] }), /names no address/);
  const twice = [line, line].map((one) => ({ ...one, amount: 9n }));
  assert.match(fault({ lines: twice, amount: 18n }), /one name/);
  assert.match(fault({ lines: [{ ...line, ref: 'x'.repeat(33) }] }), /one word/);
  assert.match(fault({ lines: [{ ...line, ref: 'a b' }] }), /one word/);
  assert.match(fault({ lines: [{ ...line, amount: 0n }], amount: 0n }), /zero or less/);
  const many = Array.from({ length: LINES_MAX + 1 }, (_, index) => ({ ...line, ref: `p${index}`, amount: 1n }));
  assert.match(fault({ lines: many, amount: BigInt(LINES_MAX + 1) }), /one call takes 200/);
});
