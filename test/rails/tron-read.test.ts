/*
 * Goal: what a node shows of a transaction is read as what it proves and nothing more. Method: hand-written answers in
 * java-tron's form over one sealed payment, each changed in one thing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json, ObservationKind, SealedEffect } from '../../src/engine/rail.ts';
import { EXPIRY_MARGIN_MS } from '../../src/rails/tron/limits.ts';
import { LOOK_FORM } from '../../src/rails/tron/look-body.ts';
import {
  block,
  blockId,
  CALL,
  EXPIRATION_MS,
  GENESIS,
  intentOf,
  lookAnswer,
  OWNER,
  REFERENCE,
  sealOf,
  testRail,
  transferLog,
  txIdOf,
} from './tron-scene.ts';

type Body = { readonly [name: string]: Json };

const rail = testRail();
const token = sealOf(rail);
const coin = sealOf(rail, intentOf({}, null));
const call = sealOf(rail, intentOf({ call: CALL }));

const SOLID = 70_200n;
const value = (one: Json): Json => ({ value: one });
const nothing = value({});

function look(sealed: SealedEffect, changes: Body = {}, source?: string): ReturnType<typeof rail.read> {
  const body: Body = {
    form: LOOK_FORM,
    genesis: value(block(0n, 0, GENESIS)),
    solid: value(block(SOLID, REFERENCE.timeMs + 600_000)),
    solidInfo: nothing,
    headInfo: nothing,
    solidAgain: value(block(SOLID, REFERENCE.timeMs + 600_000)),
    oneConnection: true,
    ...changes,
  };
  return rail.read(lookAnswer(body, source), sealed);
}

/** Included, executed and solid, unless told otherwise. */
function info(sealed: SealedEffect, fields: Body = {}): Json {
  return value({
    id: txIdOf(sealed),
    fee: 345_000,
    blockNumber: 70_050,
    receipt: { result: 'SUCCESS', energy_usage_total: 64_285 },
    // USDT answers false on success.
    contractResult: ['0'.repeat(64)],
    log: [transferLog()],
    ...fields,
  });
}
function transaction(sealed: SealedEffect, contractRet: string | null = 'SUCCESS'): Json {
  return value({ txID: txIdOf(sealed), ret: contractRet === null ? [{}] : [{ contractRet }] });
}

const EARLY: Body = {
  block: value(block(69_999n, REFERENCE.timeMs - 3_000)),
  txId: 'e1'.repeat(32),
  info: value({ id: 'e1'.repeat(32), blockNumber: 69_999 }),
};
const LATE: Body = {
  block: value(block(70_199n, REFERENCE.timeMs + 597_000)),
  txId: 'e2'.repeat(32),
  info: value({ id: 'e2'.repeat(32), blockNumber: 70_199 }),
};
/** What a witness shows beside the absence. */
const WITNESSED: Body = {
  solidTransaction: nothing,
  reference: value(block(REFERENCE.number, REFERENCE.timeMs, REFERENCE.id)),
  early: EARLY,
  late: LATE,
};

test('a solid receipt with the transfer that was meant is success, though the contract answers false (case G3, H2)', () => {
  const seen = look(token, { solidInfo: info(token), solidTransaction: transaction(token) });
  assert.equal(seen.kind, 'final_success');
  assert.equal(seen.objectId, txIdOf(token));
  assert.deepEqual(seen.cost, { assetId: 'trx', payer: OWNER, units: 345_000n });
  // A node may lack the transaction by id; the receipt says all that counts for a call.
  assert.equal(look(token, { solidInfo: info(token), solidTransaction: nothing }).kind, 'final_success');
});

test('a TRX transfer has no result in its receipt: contractRet decides, and without it nothing is said', () => {
  const bare = info(coin, { receipt: { net_usage: 268 }, log: [] });
  const cases: readonly (readonly [Json, ObservationKind])[] = [
    [transaction(coin), 'final_success'],
    [transaction(coin, 'REVERT'), 'reverted_final'],
    [transaction(coin, 'SHARDED'), 'unreadable'],
    [transaction(coin, null), 'unreadable'],
    [nothing, 'unreadable'],
    [transaction(token), 'unreadable'],
  ];
  for (const [shown, kind] of cases) {
    assert.equal(look(coin, { solidInfo: bare, solidTransaction: shown }).kind, kind, JSON.stringify(shown));
  }
});

test('a call that failed in a solid block is a proven no, with the fee that it burned (case E8)', () => {
  // UNKNOWN is an exception without a word of its own: the machine rolls back as with every other.
  for (const word of ['REVERT', 'OUT_OF_ENERGY', 'OUT_OF_TIME', 'TRANSFER_FAILED', 'ILLEGAL_OPERATION', 'UNKNOWN']) {
    const failed = { receipt: { result: word }, result: 'FAILED', resMessage: '4f7574', log: [], fee: 30_000_000 };
    const seen = look(token, { solidInfo: info(token, failed), solidTransaction: transaction(token, word) });
    assert.equal(seen.kind, 'reverted_final', word);
    assert.match(seen.detail, new RegExp(`${word}: Out`));
    assert.equal(seen.cost?.units, 30_000_000n);
  }
});

const SOLID_CASES: readonly (readonly [what: string, changes: Body, kind: ObservationKind])[] = [
  ['no log', { log: [] }, 'moved_otherwise'],
  ['another amount', { log: [transferLog({ amount: 1n })] }, 'moved_otherwise'],
  ['another receiver', { log: [transferLog({ to: OWNER })] }, 'moved_otherwise'],
  ['another contract', { log: [transferLog({ address: OWNER })] }, 'moved_otherwise'],
  ['logs of a failed call', { receipt: { result: 'REVERT' }, result: 'FAILED' }, 'reverted_final'],
  ['an unknown word', { receipt: { result: 'SHARDED' } }, 'unreadable'],
  ['words that contradict', { result: 'FAILED' }, 'unreadable'],
  ['a failure that is not printed above', { receipt: { result: 'REVERT' } }, 'unreadable'],
  ['no result of a call', { receipt: {} }, 'unreadable'],
  ['another id', { id: 'cd'.repeat(32) }, 'unreadable'],
  ['no block', { blockNumber: null }, 'unreadable'],
  ['a block above the solid head', { blockNumber: 70_201 }, 'in_progress'],
  ['a fee that is no figure', { fee: 'much' }, 'unreadable'],
  ['a log that does not read', { log: [{ address: 'xx' }] }, 'unreadable'],
];
for (const [what, changes, kind] of SOLID_CASES) {
  test(`a solid receipt with ${what} is ${kind}`, () => {
    const seen = look(token, { solidInfo: info(token, changes), solidTransaction: nothing });
    assert.equal(seen.kind, kind, seen.detail);
  });
}

test('a receipt that the transaction contradicts is unreadable', () => {
  const seen = look(token, { solidInfo: info(token), solidTransaction: transaction(token, 'OUT_OF_ENERGY') });
  assert.equal(seen.kind, 'unreadable');
});

test('a call without logs to expect is done when it succeeded', () => {
  const solidInfo = info(call, { log: [] });
  assert.equal(look(call, { solidInfo, solidTransaction: transaction(call) }).kind, 'final_success');
});

test('at the head alone it is included, for display: the head may be rolled back (case G3)', () => {
  const early = value(block(SOLID, EXPIRATION_MS - 60_000));
  assert.equal(look(token, { solid: early, headInfo: info(token, { blockNumber: 70_210 }) }).kind, 'included');
  const failed = info(token, { receipt: { result: 'REVERT' }, result: 'FAILED', log: [] });
  assert.equal(look(token, { solid: early, headInfo: failed }).kind, 'in_progress');
  assert.equal(look(coin, { solid: early, headInfo: info(coin, { receipt: {}, log: [] }) }).kind, 'included');
});

test('not shown is no information until solid time is past expiration and margin, and then only of a witness (case G2)', () => {
  const at = (ms: number): Body => {
    const solid = value(block(SOLID, ms));
    return { ...WITNESSED, solid, solidAgain: solid };
  };
  assert.equal(look(token, at(EXPIRATION_MS - 1)).kind, 'not_found');
  assert.equal(look(token, at(EXPIRATION_MS - 1)).advice, 'resend');
  assert.equal(look(token, at(EXPIRATION_MS + 1)).kind, 'not_found');
  assert.equal(look(token, at(EXPIRATION_MS + EXPIRY_MARGIN_MS)).kind, 'not_found');
  const proven = look(token, WITNESSED);
  assert.equal(proven.kind, 'expired_unincluded', proven.detail);
  assert.equal(proven.witness, true);
  assert.equal(proven.objectId, txIdOf(token));
});

const NO_WITNESS: readonly (readonly [what: string, changes: Body, source?: string])[] = [
  ['it answered over two connections', { oneConnection: false }],
  ['its solid head went back', { solidAgain: value(block(SOLID - 5n, REFERENCE.timeMs + 585_000)) }],
  ['it did not show the solid head again', { solidAgain: { fault: 'HTTP 502', status: 502 } }],
  ['it has another block at the reference', { reference: value(block(70_000n, 1, blockId(70_000n, 'cd'))) }],
  ['it does not have the reference', { reference: nothing }],
  ['it keeps no receipts before the seal', { early: { ...EARLY, info: nothing } }],
  ['it keeps no receipts after the margin', { late: { ...LATE, info: nothing } }],
  ['its late transaction is before the margin', { late: EARLY }],
  ['its early transaction is after the reference', { early: LATE }],
  ['it has no transaction to show', { late: { fault: 'no transaction in 60 blocks' } }],
  [
    'it finds the known id in another block',
    {
      early: { ...EARLY, info: value({ id: 'e1'.repeat(32), blockNumber: 5 }) },
    },
  ],
];
for (const [what, changes] of NO_WITNESS) {
  test(`a node is no witness of absence where ${what}`, () => {
    const seen = look(token, { ...WITNESSED, ...changes });
    assert.equal(seen.kind, 'not_found', seen.detail);
    assert.equal(seen.witness, false);
    assert.match(seen.detail, /no witness/);
  });
}

test('a gap that is declared for a node between reference and solid head makes it no witness', () => {
  const solid = value(block(90_100n, REFERENCE.timeMs + 600_000));
  const moved: Body = {
    ...WITNESSED,
    solid,
    solidAgain: solid,
  };
  assert.match(look(token, moved, 'node-b.invalid').detail, /gap from block 90000 to 90010/);
  assert.equal(look(token, WITNESSED, 'node-b.invalid').kind, 'expired_unincluded');
});

test('a transaction without its receipt is a contradiction, not an absence', () => {
  assert.equal(look(token, { ...WITNESSED, solidTransaction: transaction(token) }).kind, 'unreadable');
});

const FOREIGN: readonly (readonly [what: string, body: Json, kind: ObservationKind])[] = [
  ['a lite node', 'not JSON: this API is closed because this node is a lite fullnode', 'unreadable'],
  ['a rate limit', 'Error: lack of computing resources', 'unreadable'],
  ['JSON of another form', { result: true }, 'unreadable'],
];
for (const [what, body, kind] of FOREIGN) {
  test(`${what} says nothing`, () => {
    assert.equal(rail.read(lookAnswer(body), token).kind, kind);
  });
}

test('another chain, a missing solid block and items that fault are unreadable', () => {
  assert.match(look(token, { genesis: value(block(0n, 0, blockId(0n, 'cc'))) }).detail, /another chain/);
  assert.equal(look(token, { solid: { fault: 'x', status: null } }).kind, 'unreadable');
  assert.equal(look(token, { solidInfo: { fault: 'not JSON: closed', status: 200 } }).kind, 'unreadable');
  assert.equal(look(token, { headInfo: { fault: 'HTTP 500', status: 500 } }).kind, 'unreadable');
});

test('a stored answer reads the same years later: the reader sees it and the seal alone', () => {
  const first = look(token, WITNESSED);
  assert.deepEqual(look(token, WITNESSED), first);
});
