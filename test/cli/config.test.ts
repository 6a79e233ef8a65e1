/*
 * Goal: a broken configuration is told at once and whole, secrets are never shown, and the reference is what the program
 * reads. Method: the real program with environments of the test's making; no database is needed.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { systemChance } from '../../src/kernel/ports.ts';
import { encryptKey } from '../../src/rails/evm/keystore.ts';
import { devAccounts } from '../../sim/anvil.ts';
import { payonce } from './cli-scene.ts';

const ROOT = new URL('../../', import.meta.url);

test('all faults of a configuration are told at once, with exit 2', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-config-'));
  const file = join(folder, 'chains.json');
  writeFileSync(file, JSON.stringify({ chains: [{ chainId: 'one', nodes: [] }] }));
  const settings = {
    DATABASE_URL: 'mysql://x',
    PAYONCE_PORT: 'http',
    PAYONCE_LOG: 'loud',
    PAYONCE_TYPO: '1',
    PAYONCE_MASTER_SECRET: 'short-secret',
    PAYONCE_KEYSTORE: folder,
    PAYONCE_CONFIG: file,
  };
  for (const args of [['config'], ['config', '--check'], ['serve'], ['worker'], ['alerts']]) {
    const ran = await payonce(args, settings);
    assert.equal(ran.code, 2, args.join(' '));
    for (const part of [
      /DATABASE_URL/,
      /PAYONCE_PORT/,
      /PAYONCE_LOG/,
      /PAYONCE_TYPO/,
      /PAYONCE_MASTER_SECRET/,
      /PAYONCE_PASSPHRASE/,
      /chains\[0\]\.chainId: got "one", expected a whole number as a string/,
      /chains\[0\]\.nodes: got \[\], expected a list of at least one node/,
      /chains\[0\]\.assets: got nothing, expected/,
    ])
      assert.match(ran.stderr, part);
    assert.doesNotMatch(ran.stderr, /short-secret/);
  }
  rmSync(folder, { recursive: true });
});

test('production needs what development does without', async () => {
  const ran = await payonce(['config', '--check', '--json'], { PAYONCE_ENV: 'production' });
  assert.equal(ran.code, 2);
  for (const name of ['DATABASE_URL', 'PAYONCE_MASTER_SECRET', 'PAYONCE_DEPLOYMENT'])
    assert.ok(ran.problem().detail.includes(name));
  assert.equal((await payonce(['config', '--check'])).code, 0);
});

test('a check finds the keys that a start refuses: development keys in production, and a wrong passphrase', async () => {
  const keys = mkdtempSync(join(tmpdir(), 'payonce-keys-'));
  const known = devAccounts(1)[0]?.privateKey ?? '0x';
  writeFileSync(join(keys, 'one.json'), JSON.stringify(await encryptKey(known, 'correct horse', systemChance, 1_024)));
  const settings = {
    DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none',
    PAYONCE_ENV: 'production',
    PAYONCE_DEPLOYMENT: 'proof',
    PAYONCE_MASTER_SECRET: 'a-secret-of-the-test-with-32-characters',
    PAYONCE_METRICS_TOKEN: 'a-token-of-the-test',
    PAYONCE_KEYSTORE: keys,
    PAYONCE_PASSPHRASE: 'correct horse',
  };
  const refused = await payonce(['config', '--check', '--json'], settings);
  assert.equal(refused.code, 2, refused.stdout);
  assert.match(refused.problem().detail, /everybody knows the keys of 0xf39f/i);
  const wrong = await payonce(['config', '--check', '--json'], { ...settings, PAYONCE_PASSPHRASE: 'wrong' });
  assert.match(wrong.problem().detail, /PAYONCE_KEYSTORE: .*does not open/);
  assert.equal((await payonce(['config', '--check'], { ...settings, PAYONCE_ENV: 'development' })).code, 0);
  rmSync(keys, { recursive: true });
});

test('a mistyped data folder is told and makes no database', async () => {
  const folder = join(mkdtempSync(join(tmpdir(), 'payonce-config-')), 'mistyped');
  for (const args of [['alerts'], ['doctor'], ['verify'], ['operator', 'create', 'Ada', '--role', 'admin']]) {
    const ran = await payonce([...args, '--json'], { PAYONCE_DATA: folder });
    assert.equal(ran.code, 2, ran.stderr);
    assert.ok(ran.problem().detail.includes(`there is no payonce data in ${folder}`));
    assert.equal(existsSync(folder), false);
  }
});

test('a usage error is JSON where JSON was asked for', async () => {
  for (const args of [
    ['case', 'lst'],
    ['operator', 'create', 'Ada'],
    ['audit', 'list', '--limit', 'many'],
  ]) {
    const ran = await payonce([...args, '--json']);
    assert.equal(ran.code, 2);
    assert.deepEqual([ran.problem().code, ran.problem().exit], ['PO_REQUEST_INVALID', 2]);
  }
  for (const options of [['resume_scan', '--chain', 'eip155:1'], ['reverse_deposit'], ['strike']]) {
    const ran = await payonce(['case', 'propose', 'case_1', ...options, '--reason', 'seen', '--json']);
    assert.equal(ran.code, 2, ran.stderr);
    assert.match(ran.problem().detail, /needs --/);
  }
});

test('the configuration is shown without its secrets', async () => {
  const secrets = {
    DATABASE_URL: 'postgres://pay:hush-1@db/pay',
    PAYONCE_MASTER_SECRET: 'hush-2-hush-2-hush-2-hush-2-hush-2',
    PAYONCE_OPERATOR_KEY: 'ok_hush-3',
    PAYONCE_INBOUND: 'monitor=whsec_hush-4',
    PAYONCE_KEYSTORE: 'keys',
    PAYONCE_PASSPHRASE: 'hush-5',
    PAYONCE_METRICS_TOKEN: 'hush-6',
  };
  for (const args of [['config'], ['config', '--json']]) {
    const ran = await payonce(args, secrets);
    assert.equal(ran.code, 0, ran.stderr);
    assert.doesNotMatch(ran.stdout + ran.stderr, /hush/);
    assert.match(ran.stdout, /postgres:\/\/pay:…@db\/pay/);
  }
});

test('the reference that the program prints is docs/config.md', async () => {
  const ran = await payonce(['config', '--reference'], { PAYONCE_TYPO: '1' });
  assert.equal(ran.code, 0);
  assert.equal(ran.stdout, readFileSync(new URL('docs/config.md', ROOT), 'utf8'));
});
