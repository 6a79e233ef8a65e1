/*
 * Goal: every movement at our addresses gets exactly one class, and none but a customer's deposit credits anybody. Method:
 * all combinations of sender, receiver and effect are held against the requirement, written down again in plain words.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Block } from '../../src/flows/deposits/block-source.ts';
import {
  classifyTransfer,
  type OwnEffect,
  type Side,
  TRANSFER_RULES,
} from '../../src/flows/deposits/classify-transfer.ts';
import { readMovements } from '../../src/flows/deposits/read-movements.ts';

const SIDES: Side[] = ['OUTSIDE', 'MASTER', 'PARTNER_MASTER', 'DEPOSIT', 'SETTLEMENT', 'GAS', 'RELAYER', 'ADMIN'];
const INFRASTRUCTURE: Side[] = ['SETTLEMENT', 'GAS', 'RELAYER', 'ADMIN'];
const EFFECTS: OwnEffect[] = ['none', 'partner_pays', 'own'];

function expected(from: Side, to: Side, effect: OwnEffect): string | null {
  if (from === 'OUTSIDE' && to === 'OUTSIDE') return null;
  if (effect === 'partner_pays' && from !== 'OUTSIDE' && to === 'DEPOSIT') return 'DEPOSIT';
  if (effect !== 'none') return 'OWN_EFFECT';
  if (from === 'OUTSIDE') return to === 'DEPOSIT' || to === 'PARTNER_MASTER' ? 'DEPOSIT' : 'UNKNOWN_INBOUND';
  if (to === 'OUTSIDE') return 'UNKNOWN_OUTBOUND';
  return INFRASTRUCTURE.includes(from) ? 'FUNDING' : 'UNKNOWN_INTERNAL';
}

test('each combination of sender, receiver and effect has the one class that the requirement gives it (inv I1)', () => {
  for (const from of SIDES) {
    for (const to of SIDES) {
      for (const effect of EFFECTS) {
        const classed = classifyTransfer({ from, to, effect });
        assert.equal(classed?.class ?? null, expected(from, to, effect), `${from} to ${to}, effect ${effect}`);
      }
    }
  }
});

test('a transfer between our own wallets is never a deposit, unless a partner pays for it', () => {
  const ours = SIDES.filter((side) => side !== 'OUTSIDE');
  for (const from of ours) {
    for (const to of ours) {
      for (const effect of ['none', 'own'] as const) {
        assert.notEqual(classifyTransfer({ from, to, effect })?.class, 'DEPOSIT', `${from} to ${to}`);
      }
    }
  }
});

test('every row of the table decides some movement, and every reason is told once', () => {
  const reasons = new Set<string>();
  for (const from of SIDES) {
    for (const to of SIDES) {
      for (const effect of EFFECTS) reasons.add(classifyTransfer({ from, to, effect })?.reason ?? 'none');
    }
  }
  const rows = TRANSFER_RULES.map((rule) => rule.reason);
  assert.equal(new Set(rows).size, rows.length);
  assert.deepEqual(
    [...rows].filter((reason) => !reasons.has(reason)),
    [],
  );
});

const TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const word = (hex: string): string => `0x${hex.padStart(64, '0')}`;
const USDT = `0x${'11'.repeat(20)}`;
const ASSETS = { contracts: new Map([[USDT, 'usdt']]), nativeAssetId: 'coin' };

function blockOf(
  logs: Block['transactions'][number]['receipt']['logs'],
  change: { value?: bigint; succeeded?: boolean } = {},
): Block {
  const receipt = { hash: '0xt', blockHash: '0xb', succeeded: change.succeeded ?? true, logs };
  const transaction = { hash: '0xt', from: '0xf', to: '0xd', value: change.value ?? 0n, nonce: 0n, receipt };
  return { number: 1n, hash: '0xb', parentHash: '0xa', transactions: [transaction] };
}

test('a log that does not read as a transfer is left out and counted, and its neighbours are kept (case H11)', () => {
  const good = { address: USDT, topics: [TOPIC, word('aa'), word('bb')], data: word('5') };
  const odd = [
    { ...good, data: '0x' },
    { ...good, data: `${word('5')}00` },
    { ...good, topics: [TOPIC, word('aa'), word('bb'), word('1')] },
    { ...good, topics: [TOPIC], data: word('1') },
    { ...good, topics: [TOPIC, `0x${'ff'.repeat(32)}`, word('bb')] },
  ];
  const read = readMovements(blockOf([good, ...odd, good]), ASSETS);
  assert.deepEqual(
    read.movements.map((one) => one.position),
    [0, odd.length + 1],
  );
  assert.equal(read.malformed.length, odd.length);
});

test('nothing is read from a transaction that failed as a whole, its value included (case H1)', () => {
  const good = { address: USDT, topics: [TOPIC, word('aa'), word('bb')], data: word('5') };
  assert.deepEqual(readMovements(blockOf([good], { value: 7n, succeeded: false }), ASSETS).movements, []);
  assert.equal(readMovements(blockOf([good], { value: 7n }), ASSETS).movements.length, 2);
});

test('a transfer of nothing is no movement: such logs are used to plant addresses', () => {
  const zero = { address: USDT, topics: [TOPIC, word('aa'), word('bb')], data: word('0') };
  const read = readMovements(blockOf([zero]), ASSETS);
  assert.deepEqual([read.movements.length, read.zeroAmounts], [0, 1]);
});
