/*
 * Goal: what the configuration says of a bank becomes rows, rules and a rail, again at each start; and the doctor tells what
 * such a bank promises and whether it is reached. Method: the real wiring and the real program on a database of the test's.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { startBank } from '../../sim/bank/bank.ts';
import type { Finding } from '../../src/audit/finding.ts';
import { type Config, readConfig } from '../../src/main/config.ts';
import { openApp } from '../../src/main/serve.ts';
import { PROFILES } from '../../src/rails/bank/index.ts';
import { testDatabase } from '../support/postgres.ts';
import { payonceOn } from './cli-scene.ts';

const folder = mkdtempSync(join(tmpdir(), 'payonce-banks-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const SECRET = { PAYONCE_BANK_MAIN: 'secret-of-the-test' };

const BANK = {
  name: 'main',
  profile: 'generic',
  baseUrl: 'http://127.0.0.1:9',
  account: 'Acc_1',
  credential: { id: 'key-1', secretFrom: 'PAYONCE_BANK_MAIN' },
  assets: [
    {
      code: 'USD',
      decimals: 2,
      transfer: { min: '0.01', max: '500', dayMax: '9000', feeFlat: '0.30', feeBasisPoints: 5 },
    },
  ],
};

function fileOf(change: object): string {
  const file = join(folder, 'file.json');
  writeFileSync(file, JSON.stringify({ chains: [], banks: [{ ...BANK, ...change }] }));
  return file;
}

function configOf(change: object = {}): Config {
  return readConfig({ ...SECRET, PAYONCE_CONFIG: fileOf(change), PAYONCE_LOG: 'silent' });
}

test('a bank’s assets, limits and account are rows after a start, and a second start leaves them as they are', async () => {
  const database = await testDatabase('banks rows');
  for (let start = 1; start <= 2; start += 1) {
    const app = await openApp(configOf(), { url: database.url, stop: () => Promise.resolve() });
    const { rows } = await app.pool.query(
      `select a.id, a.code, a.chain, a.contract, a.decimals, p.rail, p.wallet, p.withdrawal_min, p.withdrawal_max,
              p.withdrawal_day_max, p.withdrawal_fee_flat, p.withdrawal_fee_bp, g.next_nonce
       from payonce.assets a
       join payonce.asset_policies p on p.asset_id = a.id
       join payonce.signers g on g.rail = p.rail and g.address = p.wallet
       join payonce.rails r on r.name = p.rail`,
    );
    assert.deepEqual(rows, [
      {
        id: 'bank:main/iso4217:USD',
        code: 'USD',
        chain: 'bank:main',
        contract: 'USD',
        decimals: 2,
        rail: 'bank:main',
        wallet: 'Acc_1',
        withdrawal_min: 1n,
        withdrawal_max: 50_000n,
        withdrawal_day_max: 900_000n,
        withdrawal_fee_flat: 30n,
        withdrawal_fee_bp: 5,
        next_nonce: 0n,
      },
    ]);
    const payee = { bankCode: '004', accountNumber: '110-123-0456', holderName: 'Kim Minji' };
    const check = app.readPayee('bank:main/iso4217:USD');
    assert.deepEqual([check?.(payee).ok, check?.({ ...payee, accountNumber: 1101230456 }).ok], [true, false]);
    assert.equal(app.readPayee('eip155:1/slip44:60'), null);
    assert.equal(app.batchLinesMax('bank:main/iso4217:USD'), 1);
    const destination = app.readDestination('bank:main', '0x70997970C51812dc3A010C7d01b50e0d17dc79C8');
    assert.equal(destination.ok, false, 'a bank pays no address');
    for (const flow of ['transfer', 'transfer_batch']) assert.ok(app.engine.flows.has(flow), flow);
    await app.close();
  }
  const changed = configOf({ assets: [{ ...BANK.assets[0], decimals: 3 }] });
  await assert.rejects(openApp(changed, { url: database.url, stop: () => Promise.resolve() }), {
    code: 'PO_CONFIG_INVALID',
    message: /USD: registered with 2 decimals, configured with 3; decimals are frozen/,
  });
  await database.drop();
});

test('one bank pays in two currencies, each an asset of its own', async () => {
  const database = await testDatabase('banks currencies');
  const won = {
    ...BANK.assets[0],
    code: 'KRW',
    decimals: 0,
    transfer: { ...BANK.assets[0]?.transfer, min: '1', feeFlat: '300' },
  };
  const app = await openApp(configOf({ assets: [...BANK.assets, won] }), {
    url: database.url,
    stop: () => Promise.resolve(),
  });
  const { rows } = await app.pool.query<{ id: string }>('select id from payonce.assets order by id');
  assert.deepEqual(
    rows.map((row) => row.id),
    ['bank:main/iso4217:KRW', 'bank:main/iso4217:USD'],
  );
  await app.close();
  await database.drop();
});

test('a provider of batches says how many lines one may have', async () => {
  const database = await testDatabase('banks batches');
  const app = await openApp(configOf({ profile: 'paypal-payouts' }), {
    url: database.url,
    stop: () => Promise.resolve(),
  });
  const { linesMax } = PROFILES.find((one) => one.name === 'paypal-payouts') ?? assert.fail();
  assert.ok(linesMax > 1);
  assert.equal(app.batchLinesMax('bank:main/iso4217:USD'), linesMax);
  assert.equal(app.batchLinesMax('eip155:1/slip44:60'), 1);
  await app.close();
  await database.drop();
});

test('the doctor tells what a bank promises in words, and that it is not reached is a warning', async () => {
  const database = await testDatabase('banks doctor');
  const examine = async (change: object): Promise<(name: string) => Finding> => {
    const ran = await payonceOn(database.url, { ...SECRET, PAYONCE_CONFIG: fileOf(change) })(['doctor', '--json']);
    assert.doesNotMatch(ran.stdout + ran.stderr, /secret-of-the-test/);
    const { findings } = ran.json<{ findings: Finding[] }>();
    return (name) => findings.find((one) => one.name === name) ?? assert.fail(`${name}: ${ran.stdout}`);
  };
  const down = await examine({});
  assert.equal(down('bank main').level, 'ok');
  for (const part of [
    /generic at http:\/\/127\.0\.0\.1:9 pays USD from Acc_1 as key-1/,
    /keeps keys for 1 day: the same bytes are sent again for 12 hours at most/,
    /may still be executed 30 minutes after it was sent/,
    /no refusal frees money/,
    /can be looked up/,
  ])
    assert.match(down('bank main').found, part);
  assert.equal(down('rail bank:main').level, 'warn');
  assert.match(down('rail bank:main').found, /127\.0\.0\.1:9 is not reached: ECONNREFUSED/);

  const bank = await startBank({ profile: 'generic' });
  const up = await examine({ baseUrl: bank.url, direct: true });
  assert.match(up('bank main').found, /freed by refusals at once \(\d+ codes\)/);
  assert.equal(up('rail bank:main').level, 'ok');
  assert.equal(bank.calls.look + bank.calls.create + bank.calls.other, 0, 'a connection and not a word');
  await bank.stop();

  const short = await examine({ narrower: { retentionMs: 1_800_000 } });
  assert.equal(short('bank main').level, 'warn');
  assert.match(short('bank main').found, /keys for 30 minutes, which its lateness uses up: nothing is ever sent again/);
  const unkeyed = await examine({ profile: 'unkeyed', direct: true });
  assert.equal(unkeyed('bank main').level, 'warn');
  assert.match(unkeyed('bank main').found, /it knows no keys: nothing is ever sent again/);
  assert.match(unkeyed('bank main').hint, /decided by people/);
  await database.drop();
});
