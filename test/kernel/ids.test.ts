/*
 * Goal: names that cannot be confused: ids that sort and do not repeat, keys that say the same for the same thing and never
 * the same for two. Method: random parts, and the limits of each key.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { deriveRailKey, lengthPrefixed, makeIds, naturalKey, postingKey, toBase32 } from '../../src/kernel/ids.ts';
import { systemChance, systemClock } from '../../src/kernel/ports.ts';

test('ids of one millisecond differ, and ids of later milliseconds sort after', () => {
  let time = Date.UTC(2026, 0, 1);
  const makeId = makeIds({ ...systemClock, now: () => new Date(time) }, systemChance);
  const ids = Array.from({ length: 1_000 }, () => {
    time += 1;
    return makeId('wd');
  });
  assert.deepEqual(ids.toSorted(), ids);
  time = 0;
  assert.equal(new Set(Array.from({ length: 1_000 }, () => makeId('dep'))).size, 1_000);
  for (const id of ids) assert.match(id, /^wd_[0-9a-hjkmnp-tv-z]{26}$/);
});

test('base32 gives different texts for different bytes', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 20, maxLength: 20 }),
      fc.uint8Array({ minLength: 20, maxLength: 20 }),
      (a, b) => {
        const same = Buffer.compare(a, b) === 0;
        assert.equal(toBase32(a, 32) === toBase32(b, 32), same);
      },
    ),
  );
});

test('two lists of parts never give one text, however the parts are cut', () => {
  const parts = fc.array(fc.string({ maxLength: 8 }), { maxLength: 5 });
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      assert.equal(lengthPrefixed(a) === lengthPrefixed(b), JSON.stringify(a) === JSON.stringify(b));
    }),
  );
  assert.notEqual(naturalKey('par_1', '2x'), naturalKey('par_12', 'x'));
});

test('a rail key is the same for the same subject for ever, and another for each next try', () => {
  const key = deriveRailKey('live', 'hot-1', naturalKey('par_1', 'invoice 7'), 1);
  assert.match(key, /^[0-9a-z]{32}$/);
  assert.equal(deriveRailKey('live', 'hot-1', naturalKey('par_1', 'invoice 7'), 1), key);
  assert.notEqual(deriveRailKey('live', 'hot-1', naturalKey('par_1', 'invoice 7'), 2), key);
  assert.notEqual(deriveRailKey('test', 'hot-1', naturalKey('par_1', 'invoice 7'), 1), key);
});

test('req W3: every posting key is at most 80 characters, even of the longest ids', () => {
  const id = `wd_${'z'.repeat(26)}`;
  const number = 2n ** 63n - 1n;
  const longest: Record<keyof typeof postingKey, string> = {
    withdrawalConfirm: postingKey.withdrawalConfirm(id),
    withdrawalMove: postingKey.withdrawalMove(id),
    transferConfirm: postingKey.transferConfirm(id),
    batchConfirm: postingKey.batchConfirm(id),
    batchLine: postingKey.batchLine(id, 1_000_000),
    realizationMove: postingKey.realizationMove(id),
    collectionMove: postingKey.collectionMove(id),
    topup: postingKey.topup(id),
    energy: postingKey.energy(id),
    allowance: postingKey.allowance(id),
    depositCredit: postingKey.depositCredit(id),
    depositFee: postingKey.depositFee(id),
    depositSuspense: postingKey.depositSuspense(number),
    depositMove: postingKey.depositMove(number),
    depositClaim: postingKey.depositClaim(number),
    depositReversal: postingKey.depositReversal(id),
    gas: postingKey.gas(number),
    gasOfVariant: postingKey.gasOfVariant(number, number),
    overpaid: postingKey.overpaid(number),
    unwound: postingKey.unwound(number),
    returned: postingKey.returned(id),
    adjust: postingKey.adjust(id),
    repair: postingKey.repair(number.toString()),
    p2pSell: postingKey.p2pSell(id),
    p2pBack: postingKey.p2pBack(id, 1_000_000),
    p2pCredit: postingKey.p2pCredit(id),
    p2pSurplus: postingKey.p2pSurplus(id),
    p2pFix: postingKey.p2pFix(id, 1_000_000),
    payoutConfirm: postingKey.payoutConfirm(id),
    payoutBatchConfirm: postingKey.payoutBatchConfirm(id),
    payoutLine: postingKey.payoutLine(id),
    migrated: postingKey.migrated(id),
  };
  const keys = Object.values(longest);
  for (const key of keys) assert.ok(key.length <= 80, key);
  assert.equal(new Set(keys).size, keys.length);
  assert.equal(postingKey.withdrawalConfirm('wd_1'), 'WDR_CONFIRM:wd_1');
  assert.equal(postingKey.migrated('17'), 'MIGRATED:17');
});
