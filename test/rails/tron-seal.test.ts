/*
 * Goal: a seal is the exact bytes of one transaction: the same plan gives the same bytes, other effects other ones, and
 * what we write is what tronweb writes. Method: against tronweb's own builder and signer, offline, and against bytes
 * written down once (a tronweb that encodes otherwise would give other identities).
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TronWeb } from 'tronweb';
import type { SealedEffect, VariantSpec } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { amountFault, canonicalAddress, makeLocalSigner, openKeystore } from '../../src/rails/tron/index.ts';
import { readPayload } from '../../src/rails/tron/payload.ts';
import {
  blockId,
  CALL,
  EXPIRATION_MS,
  intentOf,
  KEY,
  OWNER,
  PAYEE,
  REFERENCE,
  sealOf,
  testRail,
  txIdOf,
  USDT,
} from './tron-scene.ts';

const tronWeb = new TronWeb({ fullHost: 'http://node.invalid' });
const BLOCK_HEADER = {
  ref_block_bytes: '1170',
  ref_block_hash: blockId(70_000n, 'ab').slice(16, 32),
  expiration: EXPIRATION_MS,
  timestamp: REFERENCE.timeMs - 7,
};

async function builtByTronWeb(kind: 'trx' | 'token') {
  if (kind === 'trx') {
    return tronWeb.transactionBuilder.sendTrx(PAYEE, 5_000_000, OWNER, { blockHeader: BLOCK_HEADER });
  }
  const built = await tronWeb.transactionBuilder.triggerSmartContract(
    USDT,
    'transfer(address,uint256)',
    { feeLimit: 30_000_000, txLocal: true, blockHeader: BLOCK_HEADER },
    [
      { type: 'address', value: PAYEE },
      { type: 'uint256', value: '5000000' },
    ],
    OWNER,
  );
  return built.transaction;
}

/** SHA-256 of the sealed payload of `intentOf()` upon `PLAN`. */
const GOLDEN = 'e4c4f74297ef69bd48ce229cc9625d2c1c21e79bdc51a73c0ba92503b632f7a2';

const rail = testRail();

async function signedOf(sealed: SealedEffect): Promise<{ spec: VariantSpec; raw: string; hash: string }> {
  const spec = await rail.specify?.(sealed, 'original');
  assert.ok(spec);
  const signed = await rail.sign?.(sealed, spec);
  assert.ok(signed);
  return { spec, raw: Buffer.from(signed.raw).toString('hex'), hash: signed.hash };
}

for (const kind of ['trx', 'token'] as const) {
  test(`the sealed bytes of a ${kind} transfer are those that tronweb makes, and so is the signed whole`, async () => {
    const sealed = sealOf(rail, intentOf({}, kind === 'trx' ? null : USDT));
    const built = await builtByTronWeb(kind);
    const payload = readPayload(sealed.seal.payload);
    assert.equal(payload.raw.toString('hex'), built.raw_data_hex);
    assert.equal(txIdOf(sealed), built.txID);
    assert.equal(createHash('sha256').update(payload.raw).digest('hex'), built.txID);

    const theirs = await tronWeb.trx.sign(built, KEY.slice(2));
    const ours = await signedOf(sealed);
    assert.equal(ours.hash, built.txID);
    const signature = theirs.signature[0] ?? '';
    assert.ok(ours.raw.endsWith(signature.toLowerCase()));
    const pb = tronWeb.utils.transaction.txJsonToPb(theirs) as {
      addSignature(bytes: Uint8Array): void;
      serializeBinary(): Uint8Array;
    };
    pb.addSignature(Buffer.from(signature, 'hex'));
    assert.equal(ours.raw, Buffer.from(pb.serializeBinary()).toString('hex'));
    assert.deepEqual(await signedOf(sealed), ours, 'the same signature again');
  });
}

test('the bytes of a transfer stand as they were written down once', () => {
  const hash = createHash('sha256').update(sealOf(rail).seal.payload).digest('hex');
  assert.equal(hash, GOLDEN);
});

test('a call carries its value and data, and its fee limit', () => {
  const sealed = sealOf(rail, intentOf({ call: CALL }));
  const payload = readPayload(sealed.seal.payload);
  assert.equal(payload.to, USDT);
  assert.equal(payload.value, 3n);
  const hex = payload.raw.toString('hex');
  // call_value = 3 (field 3), data (field 4), fee_limit (field 18) at the end.
  assert.ok(hex.includes('18032204deadbeef'), hex);
  assert.ok(hex.endsWith('90018087a70e'), hex);
});

test('the seal is pure: the same effect and plan give the same bytes, another effect other ones (inv E7)', () => {
  const first = sealOf(rail).seal;
  assert.deepEqual(sealOf(rail).seal, first);
  const identities = new Set<string>();
  for (let id = 1n; id <= 500n; id += 1n) identities.add(sealOf(rail, intentOf({ effectId: id })).seal.identity);
  assert.equal(identities.size, 500, 'effects with one content are transactions of their own');
});

test('there is no second variant: no bump and no cancel, whoever wishes for it (case G2)', async () => {
  const sealed = sealOf(rail);
  for (const kind of ['bump', 'cancel'] as const) {
    await assert.rejects(async () => rail.specify?.(sealed, kind), /it is included or it expires/);
  }
});

test('a signer with another key is found out before anything is stored', async () => {
  const other = makeLocalSigner([`0x${'22'.repeat(32)}`]);
  const [address] = other.addresses();
  assert.ok(address);
  await assert.rejects(() => other.sign(OWNER, '00'.repeat(32)), /no key for/);
  const sealed = sealOf(rail, intentOf({ signer: address, wallet: address }));
  await assert.rejects(async () => {
    const spec = await rail.specify?.(sealed, 'original');
    if (spec !== undefined) await rail.sign?.(sealed, spec);
  }, /no key for/);
});

test('a key in the keystore signs as tronweb would, and its address is known only once its file is there', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-tron-keys-'));
  try {
    const { chance } = systemPorts();
    const store = await openKeystore(folder, 'phrase', chance, 1_024);
    const address = await store.createAddress();
    const again = await openKeystore(folder, 'phrase', chance, 1_024);
    assert.deepEqual(again.signer.addresses(), [address]);
    assert.equal(await again.signer.holds(address), true);
    assert.equal(await again.signer.holds(OWNER), false);
    const txId = 'ab'.repeat(32);
    const signature = Buffer.from(await again.signer.sign(address, txId)).toString('hex');
    assert.equal(canonicalAddress(tronWeb.utils.crypto.ecRecover(txId, signature)), address);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('amounts that the bytes cannot hold are refused: 2^63 sun, and what tronweb would round', () => {
  assert.equal(amountFault(null, 2n ** 53n - 1n), null);
  assert.match(amountFault(null, 2n ** 53n) ?? '', /split it/);
  assert.match(amountFault(null, 2n ** 63n) ?? '', /split it/);
  assert.equal(amountFault(USDT, 2n ** 63n), null, 'tokens have 256 bits');
  assert.match(amountFault(USDT, 2n ** 256n) ?? '', /more than a token/);
  assert.throws(() => sealOf(rail, intentOf({ amount: 2n ** 53n }, null)), /tronweb would round/);
  const most = sealOf(rail, intentOf({ amount: 2n ** 53n - 1n }, null));
  assert.ok(readPayload(most.seal.payload).raw.toString('hex').includes('18ffffffffffffff0f'));
});

test('a sealed payload whose bytes were changed is a broken invariant', () => {
  const sealed = sealOf(rail);
  const text = new TextDecoder().decode(sealed.seal.payload).replace('"raw":"0a', '"raw":"0b');
  assert.throws(() => readPayload(new TextEncoder().encode(text)), /another id/);
});
