/*
 * Goal: what is wrong with an address or an amount over TRON is told where it is given, by its field, with what came and what
 * was expected, and nothing is kept of it; every spelling that is right is one address. Method: the application over the
 * simulated chain, asked over HTTP and at the command line as partners and operators do.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createApiKey } from '../../src/api/keys.ts';
import { quarantineSigners } from '../../src/engine/quarantine.ts';
import { systemChance } from '../../src/kernel/ports.ts';
import { startApi } from '../../src/main/api.ts';
import { canonicalAddress, hexAddress, machineAddress } from '../../src/rails/tron/address.ts';
import { firstAdmin, payonceOn } from '../cli/cli-scene.ts';
import { assertBooksClean } from '../support/books.ts';
import { PARTNER, startTronApp, TRX, type TronApp } from '../support/tron-app.ts';

interface Told {
  readonly code?: string;
  readonly detail?: string;
  readonly id?: string;
  readonly destination?: string;
  readonly status?: string;
  readonly pointer?: string;
  readonly got?: unknown;
  readonly expected?: string;
}

let one: TronApp;
let api: Awaited<ReturnType<typeof startApi>>;
let key = '';
let asked = 0;
let folder = '';

before(async () => {
  const limits = { min: '0.000001', max: '100000000000000', dayMax: '100000000000000', feeFlat: '0' };
  one = await startTronApp({
    label: 'tron_bad_input',
    config: { port: 0 },
    asset: { withdrawal: { ...limits, feeBasisPoints: 0 } },
  });
  const by = { makeId: one.app.engine.makeId, chance: systemChance };
  key = (await one.app.pool.tx('key', (tx) => createApiKey(tx, by, PARTNER, 'test'))).key;
  api = await startApi(one.app);
  await one.fund(1_000n * TRX);
  folder = await mkdtemp(join(tmpdir(), 'payonce-tron-input-'));
});
after(async () => {
  await api.stop();
  await one.end();
  await rm(folder, { recursive: true, force: true });
});

async function pay(destination: unknown, amount: string, asset = one.tokenAssetId) {
  asked += 1;
  const answer = await fetch(`${api.url}/v1/withdrawals`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': `key-${asked}`,
    },
    body: JSON.stringify({ asset, amount, destination }),
  });
  return { status: answer.status, body: (await answer.json()) as Told };
}

async function show(id: string): Promise<Told> {
  const answer = await fetch(`${api.url}/v1/withdrawals/${id}`, { headers: { authorization: `Bearer ${key}` } });
  return (await answer.json()) as Told;
}

/** Twenty bytes that begin with the prefix themselves, beside an ordinary address. */
const TWICE_41 = canonicalAddress(`0x41${'ab'.repeat(19)}`);

test('all four spellings are one address, also where its own bytes begin with 41 (case H11)', async () => {
  for (const address of [one.stranger, TWICE_41]) {
    const [hex, machine] = [hexAddress(address), machineAddress(address)];
    for (const spelling of [address, hex, `0x${hex}`, machine]) {
      const { status, body } = await pay(spelling, '1');
      assert.deepEqual([status, body.destination], [201, address], `${spelling}: ${JSON.stringify(body)}`);
    }
  }
});

test('an address that is none is refused with its field, what came and what was expected, and nothing is kept (case H11)', async () => {
  const right = one.stranger;
  const swapped = `${right.slice(0, 10)}${right[10] === 'x' ? 'y' : 'x'}${right.slice(11)}`;
  const before = await one.rows('select id from payonce.effects');
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [swapped, /a character is wrong or two are swapped/],
    [right.slice(0, -1), /34 characters/],
    [`${right} `, /without blanks in it or around it/],
    [`${right.slice(0, 20)}0${right.slice(21)}`, /base58: digits and letters without 0, O, I and l/],
    [machineAddress(TWICE_41).slice(2), /0x and 40 hex digits, or 41 and 40 more/],
    [hexAddress(right).slice(0, -1), /0x and 40 hex digits, or 41 and 40 more/],
    [`0x${hexAddress(right)}0`, /0x and 40 hex digits, or 41 and 40 more/],
    ['0xA614f803B6FD780986A42c78Ec9c7f77e6DeD13c', /a letter is wrong or in the wrong case/],
    ['T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb', /an address that somebody owns/],
    ['1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2', /begins with T/],
  ];
  for (const [destination, expected] of wrong) {
    const { status, body } = await pay(destination, '1');
    assert.deepEqual(
      [status, body.code],
      [400, 'PO_ADDRESS_INVALID'],
      `${String(destination)}: ${JSON.stringify(body)}`,
    );
    assert.deepEqual([body.pointer, body.got], ['/destination', destination]);
    assert.match(body.expected ?? '', expected, String(destination));
  }
  assert.deepEqual(await one.rows('select id from payonce.effects'), before);
});

test('2^63 and more: refused with the field, what came and the most; what a partner has not, is not sent', async () => {
  const coin = one.chain.coinAssetId;
  for (const [amount, asset] of [
    ['9223372036854.775807', coin],
    ['9223372036854.775808', coin],
    [`${2n ** 64n}`, one.tokenAssetId],
    [`${2n ** 256n}`, one.tokenAssetId],
  ] as const) {
    const { status, body } = await pay(one.stranger, amount, asset);
    assert.ok(status >= 400 && status < 500, JSON.stringify(body));
    assert.deepEqual([body.pointer, body.got], ['/amount', amount], JSON.stringify(body));
    assert.match(
      body.expected ?? '',
      /^from 0\.000001 to \d+$|^at most 2\^256 − 1 smallest units$/,
      JSON.stringify(body),
    );
  }
  // Below its limit, and more than 2^63 units of the token: only the balance says no.
  const { body } = await pay(one.stranger, '9223372036854.775808');
  assert.equal(body.code, 'PO_INSUFFICIENT_FUNDS', JSON.stringify(body));
});

test('an account that the chain does not have gets its tokens', async () => {
  const fresh = canonicalAddress(`0x${'f5'.repeat(20)}`);
  const paid = await pay(fresh, '2');
  assert.equal(paid.status, 201, JSON.stringify(paid.body));
  await one.drain();
  assert.equal((await show(paid.body.id ?? '')).status, 'confirmed');
  assert.equal(await one.tron.books.balance(fresh, one.token), 2n * TRX);
  await assertBooksClean(one.app.pool, { books: one.tron.books });
});

test('at the command line a wallet is named in any spelling, and a mistyped one is told by its field; a released one seals again (case H11, req R10)', async () => {
  const file = join(folder, 'payonce.json');
  await writeFile(file, JSON.stringify({ chains: [], tron: one.config.tron }));
  const run = payonceOn(one.url, { PAYONCE_CONFIG: file });
  const admin = await firstAdmin(run);
  const mistyped = `${one.master.slice(0, 10)}${one.master[10] === 'x' ? 'y' : 'x'}${one.master.slice(11)}`;
  const compared = await run(['reconcile', 'chain', '--wallet', mistyped, '--from', '1', '--json'], admin);
  assert.equal(compared.code, 2, compared.stdout + compared.stderr);
  assert.match(compared.problem().detail, new RegExp(`--wallet: got "${mistyped}", expected an address of tron:`));
  const rail = one.chain.rail.name;
  const quarantine = (): Promise<void> =>
    one.app.pool.tx('quarantine', (tx) =>
      quarantineSigners(tx, one.app.engine, [{ rail, signer: one.master, reason: 'a foreign transaction' }]),
    );
  await quarantine();
  const refused = await run(['wallet', 'release', rail, mistyped, '--reason', 'ours', '--json'], admin);
  assert.equal(refused.code, 2, refused.stdout + refused.stderr);
  assert.match(refused.problem().detail, new RegExp(`<address>: got "${mistyped}", expected an address of tron:`));
  for (const spelling of [one.master, hexAddress(one.master), machineAddress(one.master)]) {
    await quarantine();
    const released = await run(['wallet', 'release', rail, spelling, '--reason', 'ours', '--json'], admin);
    assert.equal(released.code, 0, released.stderr);
    assert.deepEqual(released.json(), { rail, address: one.master, outcome: 'released', nonce_head: null });
  }
  const paid = await pay(one.stranger, '3');
  await one.drain();
  assert.equal((await show(paid.body.id ?? '')).status, 'confirmed');
});
