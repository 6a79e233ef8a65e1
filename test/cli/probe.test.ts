/*
 * Goal: `payonce probe` asks before it sends, sends to what is called a sandbox only, and its exit code is its verdict.
 * Method: the real program against a simulated provider behind real sockets.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROFILES } from '../../src/rails/bank/profiles/index.ts';
import { startProvider, type Provider } from '../rails/bank-probe-scene.ts';
import { payonce } from './cli-scene.ts';

interface Told {
  ok: boolean;
  rows: { probe: string; verdict: string; answers: unknown[] }[];
}

const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();

async function withProvider(
  options: Parameters<typeof startProvider>[1],
  work: (provider: Provider, run: (...more: string[]) => ReturnType<typeof payonce>) => Promise<void>,
): Promise<void> {
  const provider = await startProvider(generic, options);
  const { input, bank } = provider;
  const { levers, refused } = input;
  const given = {
    '--base-url': bank.url,
    '--account': 'acc_1',
    '--secret-from': 'PAYONCE_BANK_TRY',
    '--currency': 'KRW',
    '--decimals': '0',
    '--amount': '12500',
    '--bank-code': '004',
    '--account-number': input.payee.accountNumber,
    '--holder-name': '홍길동',
    '--refused-account-number': refused?.accountNumber ?? '',
    '--clock-url': levers.clock ?? '',
    '--drain-url': levers.drain ?? '',
    '--top-up-url': levers.topUp ?? '',
    '--balance-url': levers.balance ?? '',
  };
  const args = ['probe', 'generic', ...Object.entries(given).flat()];
  const settings = { PAYONCE_BANK_TRY: bank.credentials.current() };
  try {
    await work(provider, (...more) => payonce([...args, ...more], settings));
  } finally {
    await provider.stop();
  }
}

test('an honest profile ends with 0, a table, and what was announced before', () =>
  withProvider({}, async ({ bank }, run) => {
    const ran = await run('--sandbox', '--yes');
    assert.equal(ran.code, 0, ran.stderr);
    const announced = /^At most (\d+) requests of 12500 KRW from acc_1 at http:\S+: (\d+) transfers/.exec(ran.stderr);
    assert.ok(announced !== null, ran.stderr);
    assert.ok(bank.calls.create <= Number(announced[1]));
    assert.match(ran.stderr, /not tried scope: credential: no second credential was given/);
    assert.match(ran.stdout, /^VERDICT +WHAT +DECLARED +OBSERVED\n/);
    assert.match(ran.stdout, /agrees +retention +a key is remembered for 1 d +known after 23 h 59 min/);
    assert.match(
      ran.stdout,
      /rows could not be tried and prove nothing\.\nThe profile promises no more than was seen\./,
    );
  }));

test('a provider that forgets keys ends with 1, and --json carries every raw answer', () =>
  withProvider({ behave: { retentionMs: 0 } }, async ({ bank }, run) => {
    const ran = await run('--sandbox', '--yes', '--json');
    assert.equal(ran.code, 1, ran.stderr);
    const told = ran.json<Told>();
    assert.equal(told.ok, false);
    assert.equal(told.rows.find((row) => row.probe === 'same key, same body')?.verdict, 'promises_more');
    assert.ok(told.rows.flatMap((row) => row.answers).length >= bank.calls.create);
    assert.ok(!ran.stdout.includes(bank.credentials.current()) && !ran.stderr.includes(bank.credentials.current()));
    const text = await run('--sandbox', '--yes');
    assert.match(text.stdout, /PROMISES MORE +same key, same body/);
    assert.match(text.stdout, /Narrow what your configuration counts on .*before money goes that way\./);
  }));

test('nothing is sent unless it is called a sandbox and somebody agreed', () =>
  withProvider({}, async ({ bank }, run) => {
    const unnamed = await run('--yes');
    assert.deepEqual([unnamed.code, /say --sandbox/.test(unnamed.stderr)], [2, true]);
    const unasked = await run('--sandbox');
    assert.deepEqual([unasked.code, /say --yes/.test(unasked.stderr)], [2, true]);
    assert.equal(bank.calls.create, 0);
  }));

test('everything that is wrong is told at once, and a live secret is refused', async () => {
  const args = [
    'probe',
    'toss',
    '--base-url',
    'http://bank.invalid',
    '--account',
    'a',
    '--secret-from',
    'PAYONCE_BANK_X',
  ];
  const rest = ['--currency', 'USD', '--amount', '1,5', '--bank-code', 'seller', '--account-number', 'sel_1'];
  const settings = { PAYONCE_BANK_X: 'live_sk_abcdef' };
  const ran = await payonce(
    [...args, ...rest, '--holder-name', '김', '--memo', '여덟글자를넘는메모', '--sandbox', '--yes'],
    settings,
  );
  assert.equal(ran.code, 2);
  for (const part of [
    /--secret-from: PAYONCE_BANK_X holds a live secret/,
    /--base-url: the base URL must be https/,
    /credential\.encryptionKey: toss needs it/,
    /--currency: toss pays KRW only/,
    /--amount: digits/,
    /--memo: got/,
  ])
    assert.match(ran.stderr, part);
  assert.ok(!ran.stderr.includes('live_sk_abcdef'));
  const nobody = await payonce([
    ...args.map((one) => (one === 'toss' ? 'nobank' : one)),
    ...rest,
    '--holder-name',
    'x',
    '--sandbox',
  ]);
  assert.match(nobody.stderr, /there is no profile "nobank"; known are generic, toss/);
});
