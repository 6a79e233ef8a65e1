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
import { encryptKey } from '../../src/rails/keystore.ts';
import { devAccounts } from '../../sim/anvil.ts';
import { payonce, type Ran, type Settings } from './cli-scene.ts';

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

test('one node under two operators is refused: witnesses are counted by operator (rails.md §2.6)', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-config-'));
  const file = join(folder, 'chains.json');
  const asset = { code: 'ETH', contract: null, decimals: 18 };
  const nodes = [
    { url: 'https://node.example/v1?key=a', operator: 'one' },
    { url: 'https://NODE.example:443/v1/', operator: 'two' },
    { url: 'https://node.example/v2', operator: 'three' },
  ];
  const chain = { chainId: '1', nodes, finality: { depth: 2 }, feeCapWei: '1', gasLimitCap: '1', assets: [asset] };
  writeFileSync(file, JSON.stringify({ chains: [chain] }));
  const ran = await payonce(['config', '--check'], { PAYONCE_CONFIG: file });
  assert.equal(ran.code, 2);
  assert.match(ran.stderr, /chains\[0\]\.nodes\[1\]\.operator: got "two", expected "one"/);
  assert.doesNotMatch(ran.stderr, /nodes\[2\]/);
  assert.doesNotMatch(ran.stderr, /key=a/);
  rmSync(folder, { recursive: true });
});

test('a check finds what a start refuses, all of it at once, each with its place, what was got and what is expected', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-config-'));
  const file = join(folder, 'chains.json');
  const master = 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8';
  const token = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
  const limits = { min: '2', max: '1', dayMax: '0.5', feeFlat: '0.0000001', feeBasisPoints: 0 };
  const network = {
    network: 'mainnet',
    genesisId: '00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc',
    nodes: [{ url: 'https://one.example', operator: 'one' }],
    feeLimitCapSun: '1000',
    energy: { burnUpToSun: '2000' },
    expiresAfterMs: 172_800_000,
    agreeing: 2,
    gas: { level: '5', topUpMax: '1' },
    assets: [
      { code: 'TRX', contract: null, decimals: 6, relayers: [master] },
      {
        code: 'USDT',
        contract: token,
        decimals: 6,
        wallet: master,
        withdrawal: limits,
        relayers: [master, `${master.slice(0, -1)}9`],
        collect: { min: '0' },
      },
      { code: 'AGAIN', contract: token, decimals: 6, collect: { min: '1' } },
    ],
  };
  const wallets = [
    { chain: 'tron:mainnet', address: master, kind: 'SETTLEMENT' },
    { chain: 'tron:0x2b6653dc', address: '0x12', kind: 'MASTER' },
    { chain: 'tron:0x2b6653dc', address: master, kind: 'GAS' },
    { chain: 'tron:0x2b6653dc', address: master, kind: 'MASTER' },
  ];
  writeFileSync(file, JSON.stringify({ chains: [], tron: [network], wallets }));
  const expected = [
    'tron[0].agreeing: got 2, expected at most 1: that many operators run its nodes',
    'tron[0].assets[2].contract: got T',
    'tron[0].assets[0].relayers: got relayers of a coin, expected none',
    'tron[0].assets[1].relayers[1]: got "TJR',
    'tron[0].assets[1].relayers[0]: got "TJR',
    'tron[0].assets[1].withdrawal.feeFlat: got "0.0000001", expected an amount with at most 6 decimals',
    'tron[0].assets[1].withdrawal.max: got "1", expected at least "min", 2',
    'tron[0].assets[1].withdrawal.dayMax: got "0.5", expected at least "max", 1',
    'tron[0].assets[1].collect.min: got "0", expected more than 0',
    'tron[0].assets[2].wallet: got nothing, expected one beside "collect", which needs it',
    'tron[0].assets[2].withdrawal: got nothing, expected one beside "collect", which needs it',
    'tron[0].gas.topUpMax: got "1", expected at least "level", 5',
    'tron[0].expiresAfterMs: got 172800000, expected less than 86400000',
    'tron[0].energy.burnUpToSun: got 2000, expected at most "feeLimitCapSun", 1000',
    'wallets[0].chain: got "tron:mainnet", expected one of tron:0x2b6653dc (the end of tron[0].genesisId)',
    'wallets[1].address: got "0x12", expected',
    'wallets[2].kind: got "GAS", expected "MASTER", or another address: tron[0].assets[1] is paid from it',
    'wallets[3]: got T',
  ];
  for (const args of [['config', '--check'], ['serve']]) {
    const ran = await payonce(args, { PAYONCE_CONFIG: file, PAYONCE_PORT: '0' });
    assert.equal(ran.code, 2, args.join(' '));
    const told = ran.stderr.split('\n').flatMap((line) => line.split('PAYONCE_CONFIG: ')[1] ?? []);
    assert.deepEqual(
      told.map((line, at) => line.slice(0, expected[at]?.length)),
      expected,
    );
    assert.doesNotMatch(ran.stderr, /not_address/);
  }
  const other = { ...network, genesisId: network.genesisId.replace(/.{8}$/, '00000000'), assets: [network.assets[0]] };
  writeFileSync(
    file,
    JSON.stringify({
      chains: [],
      tron: [
        {
          ...other,
          agreeing: 1,
          expiresAfterMs: 60_000,
          energy: {},
          gas: { level: '5', topUpMax: '5' },
          assets: [{ code: 'TRX', contract: null, decimals: 6 }],
        },
      ],
      wallets: [{ chain: 'tron:0x2b6653dc', address: master, kind: 'GAS' }],
    }),
  );
  const wrong = (await payonce(['config', '--check', '--json'], { PAYONCE_CONFIG: file })).problem().detail;
  assert.equal(
    wrong,
    'PAYONCE_CONFIG: wallets[0].chain: got "tron:0x2b6653dc", expected one of tron:0x00000000 (the end of tron[0].genesisId)',
    'a gas wallet that names another chain is no missing gas wallet',
  );
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

const BANK = {
  name: 'main',
  profile: 'toss',
  baseUrl: 'https://api.bank.example',
  account: 'acc_1',
  credential: { id: 'key-1', secretFrom: 'PAYONCE_BANK_MAIN', encryptionKeyFrom: 'PAYONCE_BANK_MAIN_AES' },
  assets: [
    {
      code: 'KRW',
      decimals: 0,
      transfer: { min: '1', max: '5000000', dayMax: '90000000', feeFlat: '300', feeBasisPoints: 0 },
    },
  ],
};
const BANK_SECRETS = { PAYONCE_BANK_MAIN: 'hush-7', PAYONCE_BANK_MAIN_AES: '0123456789abcdef'.repeat(4) };

async function withBanks(
  banks: readonly object[],
  settings: Settings,
  args: readonly string[] = ['config', '--check'],
): Promise<Ran> {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-config-'));
  const file = join(folder, 'file.json');
  writeFileSync(file, JSON.stringify({ chains: [], banks }));
  const ran = await payonce(args, { ...settings, PAYONCE_CONFIG: file });
  rmSync(folder, { recursive: true });
  return ran;
}

test('a bank with its secrets is a right configuration, in production too, and its secrets are never shown', async () => {
  const production = {
    PAYONCE_ENV: 'production',
    DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none',
    PAYONCE_DEPLOYMENT: 'proof',
    PAYONCE_MASTER_SECRET: 'a-secret-of-the-test-with-32-characters',
    PAYONCE_METRICS_TOKEN: 'a-token-of-the-test',
  };
  for (const settings of [BANK_SECRETS, { ...BANK_SECRETS, ...production }]) {
    const ran = await withBanks([BANK], settings);
    assert.equal(ran.code, 0, ran.stderr);
  }
  for (const args of [['config'], ['config', '--json']]) {
    const ran = await withBanks([BANK], BANK_SECRETS, args);
    assert.match(ran.stdout, /bank:main \(toss at https:\/\/api\.bank\.example\)/);
    assert.match(ran.stdout, /PAYONCE_BANK_MAIN/);
    assert.doesNotMatch(ran.stdout + ran.stderr, /hush|0123456789abcdef/);
  }
});

test('what is wrong with a bank is told by its field, all at once, and no secret with it', async () => {
  const generic = { ...BANK, name: 'second', profile: 'generic' };
  const cases: readonly (readonly [string, readonly object[], Settings, readonly RegExp[]])[] = [
    [
      'the shape',
      [{ ...BANK, profile: 'tosss', account: 'a b', credential: { id: 'k', secretFrom: 'hush-8' }, maintenance: [{}] }],
      BANK_SECRETS,
      [
        /banks\[0\]\.profile: got "tosss", expected one of generic, toss, stripe,/,
        /banks\[0\]\.account: got "a b", expected/,
        /banks\[0\]\.credential\.secretFrom: got something else, expected the name of an environment variable/,
        /banks\[0\]\.maintenance\[0\]\.from: got nothing/,
      ],
    ],
    [
      'the secrets',
      [BANK, { ...generic, credential: { id: 'k', secretFrom: 'PAYONCE_BANK_TWO' }, assets: [] }],
      BANK_SECRETS,
      [/banks\[1\]\.assets: got \[\], expected a list of at least one asset/],
    ],
    [
      'what is missing',
      [BANK],
      { PAYONCE_BANK_MAIN_AES: 'hush-9' },
      [
        /banks\[0\]\.credential\.secretFrom: PAYONCE_BANK_MAIN is not set in the environment/,
        /banks\[0\]\.credential\.encryptionKeyFrom: toss needs it: 64 hexadecimal characters/,
      ],
    ],
    [
      'what is there twice',
      [BANK, { ...BANK, assets: [BANK.assets[0], BANK.assets[0]] }],
      BANK_SECRETS,
      [
        /banks\[1\]\.name: another bank is named "main" already/,
        /banks\[1\]\.assets\[1\]\.code: got "KRW", which banks\[1\]\.assets\[0\]\.code has already/,
      ],
    ],
    [
      'what the profile does not carry',
      [
        {
          ...BANK,
          narrower: { retentionMs: 999_999_999_999_999, latenessMs: 1 },
          maintenance: [{ from: '23:30', until: '00:30', timeZone: 'Mars/Olympus' }],
          assets: [
            { ...BANK.assets[0], decimals: 2 },
            { code: 'USD', decimals: 2, transfer: { ...BANK.assets[0]?.transfer, min: '0.001' } },
          ],
        },
      ],
      BANK_SECRETS,
      [
        /banks\[0\]\.narrower\.retentionMs: .* is a widening/,
        /banks\[0\]\.narrower\.latenessMs: .* is a widening/,
        /banks\[0\]\.maintenance\[0\]: .*Mars\/Olympus/,
        /banks\[0\]\.assets\[0\]\.decimals: got 2, expected 0/,
        /banks\[0\]\.assets\[1\]\.code: toss pays KRW only/,
        /banks\[0\]\.assets\[1\]\.transfer\.min: "0\.001" is no amount with 2 decimals/,
      ],
    ],
    ['a wire in the clear', [{ ...BANK, baseUrl: 'http://bank.example' }], BANK_SECRETS, [/baseUrl: .* must be https/]],
    [
      'this machine in production',
      [{ ...BANK, baseUrl: 'http://127.0.0.1:9' }],
      { ...BANK_SECRETS, PAYONCE_ENV: 'production' },
      [/banks\[0\]\.baseUrl: http is refused in production/, /banks\[0\]\.baseUrl: 127\.0\.0\.1 is this machine/],
    ],
  ];
  for (const [what, banks, settings, parts] of cases) {
    const ran = await withBanks(banks, settings);
    assert.equal(ran.code, 2, `${what}: ${ran.stdout}`);
    for (const part of parts) assert.match(ran.stderr, part, what);
    assert.doesNotMatch(ran.stderr, /hush/);
  }
});

test('the reference that the program prints is docs/config.md', async () => {
  const ran = await payonce(['config', '--reference'], { PAYONCE_TYPO: '1' });
  assert.equal(ran.code, 0);
  assert.equal(ran.stdout, readFileSync(new URL('docs/config.md', ROOT), 'utf8'));
});
