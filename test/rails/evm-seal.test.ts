/*
 * Goal: what the rail does without a chain is exact: addresses, the seal, fees of later variants, signatures, key files.
 * Method: known vectors (EIP-55, the keystore format's own test vector) and properties of the fee ladder.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { keccak256 } from 'viem';
import type { EffectIntent, Plan, SealedEffect, Signed, VariantKind, VariantSpec } from '../../src/engine/rail.ts';
import { systemChance, systemPorts } from '../../src/kernel/ports.ts';
import { readAddress } from '../../src/rails/evm/address.ts';
import { FeeCapReached, firstFees, nextSpec, originalSpec } from '../../src/rails/evm/fees.ts';
import { isDevKey, makeDevSigner, openKeystore } from '../../src/rails/evm/keystore.ts';
import { decryptKey } from '../../src/rails/keystore.ts';
import { identityOf, readExpect, readPayload, sealEffect } from '../../src/rails/evm/payload.ts';
import { makeLocalSigner, signVariant, transactionOf } from '../../src/rails/evm/signer.ts';

const ports = systemPorts();
const signer = makeDevSigner(2);
const [WALLET = '', OTHER = ''] = signer.addresses();
const TOKEN = '0x00000000000000000000000000000000000c0ffe';
const RECEIVER = '0x00000000000000000000000000000000000a11ce';
const LIMITS = { feeCapWei: 500_000n, gasLimitCap: 1_000_000n, bumpsMax: 5 };

const plan: Plan = {
  gasLimit: '60000',
  maxFeePerGas: '1001',
  maxPriorityFeePerGas: '11',
  reference: { number: '7', hash: `0x${'0f'.repeat(32)}` },
};

function intent(change: Partial<EffectIntent> = {}): EffectIntent {
  return {
    effectId: 1n,
    subjectType: 'withdrawal',
    subjectId: 'wd_1',
    seq: 1,
    partnerId: 'par_1',
    naturalKey: '5:par_11:1',
    rail: 'evm:31337',
    asset: { id: 'usdt', code: 'USDT', decimals: 6, chain: 'eip155:31337', contract: TOKEN },
    amount: 5_000_000n,
    destination: RECEIVER,
    wallet: WALLET,
    signer: WALLET,
    call: null,
    payee: null,
    ...change,
  };
}

function sealed(variants: readonly Signed[] = [], change: Partial<EffectIntent> = {}): SealedEffect {
  const seal = sealEffect(31_337n, intent(change), plan, { signer: WALLET, nonce: 3n });
  return { ...intent(change), seal, plan, variants, sealedAt: new Date(0) };
}

function variant(kind: VariantKind, fee: bigint, tip: bigint): Signed {
  const spec = { kind, gasLimit: '60000', maxFeePerGas: fee.toString(), maxPriorityFeePerGas: tip.toString() };
  return { ...spec, hash: '0x', raw: new Uint8Array(), to: TOKEN, value: '0', data: '0x' };
}

test('addresses are canonical inside, checksummed for people, and a broken checksum is refused (case H11)', () => {
  const vectors = [
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
    '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
  ];
  for (const display of vectors) {
    const address = display.toLowerCase();
    assert.deepEqual(readAddress(display), { ok: true, address, display });
    assert.deepEqual(readAddress(address), { ok: true, address, display });
    assert.deepEqual(readAddress(`0x${display.slice(2).toUpperCase()}`), { ok: true, address, display });
    const swapped = display.replace(/[a-f](?=[^a-f]*$)/, (letter) => letter.toUpperCase());
    const fault = readAddress(swapped);
    assert.equal(fault.ok ? '' : fault.fault, 'checksum');
  }
  const faults = [
    12,
    null,
    '',
    '0x12',
    ' 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed',
    '5aaeb6053f3e94c9b9a09f33669435e7ef1beaed',
    `0X${'a'.repeat(40)}`,
    `0x${'0'.repeat(40)}`,
  ].map((text) => {
    const read = readAddress(text);
    return read.ok ? 'ok' : read.fault;
  });
  assert.deepEqual(faults, [
    'not_text',
    'not_text',
    'not_address',
    'not_address',
    'not_address',
    'not_address',
    'not_address',
    'zero_address',
  ]);
});

test('addresses of the chain’s own code are refused, and the first one after them is not', () => {
  const at = (number: bigint): string => `0x${number.toString(16).padStart(40, '0')}`;
  for (const number of [1n, 9n, 0x0an, 0x100n, 0x6fn, 0xffffn]) {
    const read = readAddress(at(number));
    assert.equal(read.ok ? '' : read.fault, 'precompile', at(number));
    assert.match(read.ok ? '' : read.expected, /tokens sent there are lost/);
  }
  const zero = readAddress(at(0n));
  assert.equal(zero.ok ? '' : zero.fault, 'zero_address');
  for (const number of [0x10000n, 0xa11cen, 1n << 159n]) assert.ok(readAddress(at(number)).ok, at(number));
});

test('a seal is the same for the same intent and nonce, and reads back', () => {
  const first = sealed().seal;
  assert.deepEqual(first, sealed().seal);
  assert.equal(first.identity, `evm:31337:${WALLET}:3`);
  assert.equal(first.identity, identityOf(31_337n, WALLET.toUpperCase().replace('0X', '0x'), 3n));
  const payload = readPayload(first.payload);
  assert.deepEqual(payload, {
    chainId: 31_337n,
    from: WALLET,
    nonce: 3n,
    to: TOKEN,
    value: 0n,
    data: `0xa9059cbb${RECEIVER.slice(2).padStart(64, '0')}${5_000_000n.toString(16).padStart(64, '0')}`,
  });
  const expect = readExpect(first.expect);
  assert.equal(expect.logs.length, 1);
  assert.equal(expect.reference.number, 7n);
});

test('a seal without a nonce, or with another signer, is a broken invariant', () => {
  assert.throws(() => sealEffect(1n, intent(), plan, null), /nonce/);
  assert.throws(() => sealEffect(1n, intent(), plan, { signer: OTHER, nonce: 1n }), /another signer/);
  assert.throws(() => sealEffect(1n, intent(), {}, { signer: WALLET, nonce: 1n }), /reference/);
});

test('a native payment and a call carry their own target, value and data', () => {
  const coin = { id: 'coin', code: 'ETH', decimals: 18, chain: 'eip155:31337', contract: null };
  const native = readPayload(sealed([], { asset: coin, amount: 9n }).seal.payload);
  assert.deepEqual([native.to, native.value, native.data], [RECEIVER, 9n, '0x']);
  const call = { to: TOKEN, data: '0xDEADBEEF', value: 4n, logs: [] };
  const called = readPayload(sealed([], { call }).seal.payload);
  assert.deepEqual([called.to, called.value, called.data], [TOKEN, 4n, '0xdeadbeef']);
});

test('the same variant signed twice is the same bytes, and keeps nonce, target, value and data', async () => {
  const effect = sealed();
  const spec = originalSpec(plan);
  const first = await signVariant(ports, signer, effect, spec);
  assert.deepEqual(first, await signVariant(ports, signer, effect, spec));
  assert.equal(first.hash, keccak256(first.raw));
  const bump = await signVariant(ports, signer, effect, nextSpec(effect, 'bump', null, null, LIMITS));
  assert.deepEqual([bump.to, bump.value, bump.data], [first.to, first.value, first.data]);
  assert.notEqual(bump.hash, first.hash);
});

test('a signer that signs something else is found out before anything is stored', async () => {
  const honest = signer;
  const lying = (change: object) => ({
    ...honest,
    sign: (address: string, transaction: Parameters<typeof honest.sign>[1]) =>
      honest.sign(address, { ...transaction, ...change }),
  });
  for (const change of [
    { nonce: 4n },
    { value: 1n },
    { to: OTHER as `0x${string}` },
    { data: '0x00' as const },
    { chainId: 1n },
  ]) {
    await assert.rejects(signVariant(ports, lying(change), sealed(), originalSpec(plan)), /something else/);
  }
  const otherKey = {
    ...honest,
    sign: (_: string, transaction: Parameters<typeof honest.sign>[1]) => honest.sign(OTHER, transaction),
  };
  await assert.rejects(signVariant(ports, otherKey, sealed(), originalSpec(plan)), /another key/);
});

test('a bump raises both fees by an eighth over all stored variants, and to the market', () => {
  const effect = sealed([variant('original', 1001n, 11n), variant('bump', 2000n, 13n)]);
  const spec = nextSpec(effect, 'bump', null, null, LIMITS);
  assert.deepEqual(spec, { kind: 'bump', gasLimit: '60000', maxFeePerGas: '2250', maxPriorityFeePerGas: '15' });
  const dear = nextSpec(effect, 'bump', { baseFee: 5_000n, tip: 77n }, 80_000n, LIMITS);
  assert.deepEqual(dear, { kind: 'bump', gasLimit: '100000', maxFeePerGas: '10077', maxPriorityFeePerGas: '77' });
});

test('once a cancel is stored only cancels follow, above all that is stored', () => {
  const effect = sealed([variant('original', 1001n, 11n), variant('cancel', 3000n, 20n)]);
  const spec = nextSpec(effect, 'bump', null, null, LIMITS);
  assert.deepEqual(spec, { kind: 'cancel', gasLimit: '21000', maxFeePerGas: '3375', maxPriorityFeePerGas: '23' });
});

test('an effect that was never signed is cancelled above its plan', () => {
  assert.equal(nextSpec(sealed(), 'cancel', null, null, LIMITS).maxFeePerGas, '1127');
});

test('every first variant leaves room for all bumps and a cancel, each a tenth above the last on both fees', () => {
  const wei = fc.bigInt({ min: 1n, max: 10n ** 12n });
  fc.assert(
    fc.property(wei, wei, fc.bigInt({ min: 100n, max: 10n ** 14n }), (baseFee, tip, feeCapWei) => {
      const fees = firstFees({ baseFee, tip }, feeCapWei, 5);
      if (fees === null) return;
      const first: VariantSpec = {
        kind: 'original',
        gasLimit: '60000',
        maxFeePerGas: fees.maxFeePerGas.toString(),
        maxPriorityFeePerGas: fees.maxPriorityFeePerGas.toString(),
      };
      let effect: SealedEffect = { ...sealed(), plan: { ...plan, ...first } };
      let last = first;
      for (const kind of ['bump', 'bump', 'bump', 'bump', 'bump', 'cancel'] as const) {
        const spec = nextSpec(effect, kind, { baseFee, tip }, null, {
          feeCapWei,
          gasLimitCap: 1_000_000n,
          bumpsMax: 5,
        });
        assert.ok(BigInt(spec.maxFeePerGas) * 10n >= BigInt(last.maxFeePerGas) * 11n);
        assert.ok(BigInt(spec.maxPriorityFeePerGas) * 10n >= BigInt(last.maxPriorityFeePerGas) * 11n);
        assert.ok(BigInt(spec.maxPriorityFeePerGas) <= BigInt(spec.maxFeePerGas));
        assert.ok(BigInt(spec.maxFeePerGas) <= feeCapWei);
        effect = { ...effect, variants: [...effect.variants, { ...variant(kind, 0n, 0n), ...spec }] };
        last = spec;
      }
    }),
  );
});

test('above the cap nothing is specified, and the error says what to do', () => {
  const effect = sealed([variant('original', 450_000n, 11n)]);
  assert.throws(() => nextSpec(effect, 'bump', null, null, LIMITS), FeeCapReached);
  assert.throws(() => nextSpec(effect, 'cancel', null, null, LIMITS), /raise the fee cap/);
});

test('a key file opens with its passphrase alone, is private, and holds no key in the clear', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keys-'));
  try {
    const store = await openKeystore(folder, 'correct horse', systemChance, 1_024);
    const address = await store.createAddress();
    const [name = ''] = await readdir(folder);
    assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600);
    const again = await openKeystore(folder, 'correct horse', systemChance, 1_024);
    assert.deepEqual(again.signer.addresses(), [address]);
    await assert.rejects(openKeystore(folder, 'wrong', systemChance, 1_024), /passphrase/);
    const file = await readFile(join(folder, name), 'utf8');
    const key = await decryptKey(JSON.parse(file), 'correct horse');
    assert.ok(key !== null && !file.includes(key.slice(2)));
    assert.deepEqual(makeLocalSigner([key]).addresses(), [address]);
    assert.equal(isDevKey(address), false);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('keys that another process made are found when they are needed, and all open with one derivation', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keys-'));
  try {
    const worker = await openKeystore(folder, 'correct horse', systemChance, 1_024);
    const api = await openKeystore(folder, 'correct horse', systemChance, 1_024);
    const made = [await api.createAddress(), await api.createAddress(), await api.createAddress()];
    assert.deepEqual(await Promise.all(made.map((address) => worker.signer.holds(address))), [true, true, true]);
    assert.equal(await worker.signer.holds(OTHER), false);
    const transaction = { ...transactionOf(readPayload(sealed().seal.payload), originalSpec(plan)) };
    for (const address of made) assert.match(await worker.signer.sign(address, transaction), /^0x02/);
    const files = await Promise.all(
      (await readdir(folder)).map(async (name) => JSON.parse(await readFile(join(folder, name), 'utf8'))),
    );
    assert.equal(new Set(files.map((file) => file.crypto.kdfparams.salt)).size, 1, 'one salt, derived once');
    assert.equal(new Set(files.map((file) => file.crypto.cipherparams.iv)).size, 3, 'an IV for each file');
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a key file of another program opens (the format's published vectors)", async () => {
  const file = (iv: string, ciphertext: string, salt: string, mac: string) => ({
    crypto: {
      cipher: 'aes-128-ctr',
      cipherparams: { iv },
      ciphertext,
      kdf: 'scrypt',
      kdfparams: { dklen: 32, n: 2, r: 8, p: 1, salt },
      mac,
    },
    version: 3,
  });
  const short = file(
    'e0c41130a323adc1446fc82f724bca2f',
    '9517cd5bdbe69076f9bf5057248c6c050141e970efa36ce53692d5d59a3984',
    '711f816911c92d649fb4c84b047915679933555030b3552c1212609b38208c63',
    'd5e116151c6aa71470e67a7d42c9620c75c4d23229847dcc127794f0732b0db5',
  );
  const key = '0x00fa7b3db73dc7dfdf8c5fbdb796d741e4488628c41fc4febd9160a866ba0f35';
  assert.equal(await decryptKey(short, 'foo'), key);
  assert.equal(await decryptKey(short, 'bar'), null);
  assert.equal(await decryptKey({ ...short, crypto: { ...short.crypto, kdf: 'pbkdf2' } }, 'foo'), null);
  const greedy = { ...short.crypto, kdfparams: { ...short.crypto.kdfparams, n: 2 ** 30 } };
  assert.equal(await decryptKey({ ...short, crypto: greedy }, 'foo'), null);
});

test('development keys are recognised in any spelling', () => {
  assert.equal(isDevKey('0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'), true);
  assert.equal(isDevKey('0xA0EE7A142D267C1F36714E4A8F75612F20A79720'), true);
  assert.equal(isDevKey(RECEIVER), false);
});
