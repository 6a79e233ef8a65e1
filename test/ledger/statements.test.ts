/*
 * Goal: what an account's owner reads is what was booked: page by page, at a past time, per partner. Method: a known history
 * under a shifted clock, read while others post.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PayonceError } from '../../src/kernel/errors.ts';
import { accountName, makeChart } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { balanceAt, balanceAtSeq, loadBalances, loadEntries } from '../../src/ledger/statements.ts';
import { ASSET, type LedgerWorld, makeLedgerWorld, posting } from '../support/ledger-world.ts';

let world: LedgerWorld;
before(async () => {
  world = await makeLedgerWorld('ledger statements');
});
after(() => world.end());

test('the pages of an account give every entry once, newest first, while new ones are booked', async () => {
  const account = await world.account();
  const credit = (nth: number) => world.post(posting(`page:${nth}`, [world.house, -1n], [account, 1n]));
  for (let nth = 0; nth < 25; nth += 1) await credit(nth);
  const seen: bigint[] = [];
  let cursor: string | undefined;
  do {
    const page = await loadEntries(world.pool, account, { itemsMax: 10, ...(cursor === undefined ? {} : { cursor }) });
    seen.push(...page.entries.map((entry) => entry.seq));
    cursor = page.next ?? undefined;
    await credit(100 + seen.length);
  } while (cursor !== undefined);
  assert.deepEqual(
    seen,
    Array.from({ length: 25 }, (_, nth) => BigInt(25 - nth)),
  );
});

test('an entry tells its posting, key and reference, and the balance after it', async () => {
  const account = await world.account();
  const [verdict] = await world.post(posting('told', [world.house, -7n], [account, 7n]));
  const { entries, next } = await loadEntries(world.pool, account);
  assert.equal(next, null);
  assert.equal(entries.length, 1);
  const { createdAt, ...told } = entries[0] ?? assert.fail();
  assert.ok(Math.abs(createdAt.getTime() - Date.now()) < 60_000);
  const postingId = verdict?.verdict === 'posted' ? verdict.postingId : 0n;
  assert.deepEqual(told, { seq: 1n, amount: 7n, balanceAfter: 7n, postingId, key: 'told', reference: 'ref of told' });
});

test('a cursor of another account, or one that was tampered with, is refused', async () => {
  const [one, other] = [await world.account(), await world.account()];
  for (const nth of [1, 2]) await world.post(posting(`cursor:${nth}`, [world.house, -1n], [one, 1n]));
  const { next } = await loadEntries(world.pool, one, { itemsMax: 1 });
  assert(next !== null);
  for (const cursor of [next, '', 'x', `${next}x`, Buffer.from(`${other}.-1`).toString('base64url')]) {
    await assert.rejects(
      loadEntries(world.pool, other, { cursor }),
      (error: unknown) => error instanceof PayonceError && error.code === 'PO_REQUEST_INVALID',
    );
  }
});

test('the balance at a past time is the last one that stood then, for every moment of a history', async () => {
  const account = await world.account();
  const start = Date.UTC(2030, 0, 1);
  const times: number[] = [];
  for (let nth = 0; nth < 33; nth += 1) {
    const at = start + Math.floor(nth / 2) * 60_000;
    times.push(at);
    await world.pool.tx('at a time', async (tx) => {
      await tx.query("select set_config('payonce.clock_shift_ms', $1, true)", [String(at - Date.now())]);
      await post(tx, [posting(`time:${nth}`, [world.house, -1n], [account, 1n])]);
    });
  }
  const { entries } = await loadEntries(world.pool, account, { itemsMax: 100 });
  assert.equal(entries.length, 33);
  for (const moment of [start - 1, ...times.flatMap((at) => [at - 30_000, at + 30_000]), start + 10 ** 9]) {
    const booked = BigInt(times.filter((at) => at <= moment).length);
    const { balance, seq } = await balanceAt(world.pool, account, new Date(moment));
    assert.deepEqual([balance, seq], [booked, booked]);
  }
  const exact = entries[10] ?? assert.fail();
  // Dates carry milliseconds, entries microseconds: the next millisecond is the first that surely counts this entry.
  const { seq } = await balanceAt(world.pool, account, new Date(exact.createdAt.getTime() + 1));
  assert.ok(seq >= exact.seq);
});

test('the balance after an entry, before the first and past the last', async () => {
  const account = await world.funded(5n);
  await world.post(posting('after', [account, -2n], [world.house, 2n]));
  const at = async (seq: bigint) => (await balanceAtSeq(world.pool, account, seq)).balance;
  assert.deepEqual([await at(0n), await at(1n), await at(2n), await at(99n)], [0n, 5n, 3n, 3n]);
  assert.deepEqual(await balanceAt(world.pool, 999_999n, new Date()), { balance: 0n, seq: 0n });
});

test("a partner sees its accounts, with what is held and what is left, and nobody else's", async () => {
  await world.pool.query("insert into payonce.partners (id, name) values ('par_a', 'A'), ('par_b', 'B')");
  const chart = makeChart();
  const [usdt, eur] = await chart.ids(world.pool, [
    accountName.partner('par_a', ASSET),
    accountName.partner('par_a', 'eur'),
  ]);
  await chart.ids(world.pool, [accountName.partner('par_b', ASSET)]);
  assert(usdt !== undefined && eur !== undefined);
  await world.post(posting('partner', [world.house, -10n], [usdt, 10n]), {
    kind: 'hold',
    holdKey: 'partner',
    accountId: usdt,
    amount: 4n,
  });
  const code = 'partner:par_a';
  assert.deepEqual(await loadBalances(world.pool, 'par_a'), [
    { accountId: eur, code, assetId: 'eur', balance: 0n, held: 0n, available: 0n, deficit: 0n },
    { accountId: usdt, code, assetId: ASSET, balance: 10n, held: 4n, available: 6n, deficit: 0n },
  ]);
  assert.deepEqual(await loadBalances(world.pool, 'par_nobody'), []);
});
