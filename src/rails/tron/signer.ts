/**
 * The signer port: who signs is behind it, and it signs a transaction's id. The signature is by RFC 6979, so the same
 * bytes get the same signature; it is read back, since another key's would be refused by every node until the expiry.
 * The signed transaction is put around the sealed bytes: they are never encoded anew.
 */
import { recoverAddress } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import type { SealedEffect, Signed, VariantKind, VariantSpec } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import type { Ports } from '../../kernel/ports.ts';
import { unitsOf } from '../json.ts';
import { canonicalAddress, machineAddress } from './address.ts';
import { readPayload } from './payload.ts';

export interface TronSigner {
  /** Addresses that it can sign for, in base58. */
  addresses(): readonly string[];
  /** Whether `sign` has a key for this address. */
  holds(address: string): Promise<boolean>;
  /** 65 bytes: r, s and 27 or 28. */
  sign(address: string, txId: string): Promise<Uint8Array>;
}

/** Keys in memory: for tests, the demo, and what a keystore has opened. */
export function makeLocalSigner(privateKeys: readonly `0x${string}`[]): TronSigner {
  const accounts = new Map(
    privateKeys.map((key) => {
      const account = privateKeyToAccount(key);
      return [canonicalAddress(account.address), account] as const;
    }),
  );
  return {
    addresses: () => [...accounts.keys()],
    holds: (address) => Promise.resolve(accounts.has(canonicalAddress(address))),
    async sign(address, txId) {
      const account = accounts.get(canonicalAddress(address));
      if (account === undefined) throw new Error(`no key for ${address}: add its key file, or correct the wallet`);
      return Buffer.from((await account.sign({ hash: `0x${txId}` })).slice(2), 'hex');
    },
  };
}

/** There is one variant: another fee limit or expiration would be another transaction, and both could be included. */
export function specOf(sealed: SealedEffect, kind: VariantKind): VariantSpec {
  if (kind !== 'original') {
    throw new Error(`a transaction of TRON has no ${kind}: it is included or it expires, and then its money is freed`);
  }
  const feeLimit = unitsOf(sealed.plan['feeLimit']) ?? 0n;
  // In the port's words: the most that the contract may burn, in sun; TRON knows no price that could be raised.
  return { kind, gasLimit: feeLimit.toString(), maxFeePerGas: '0', maxPriorityFeePerGas: '0' };
}

export async function signSealed(
  ports: Ports,
  signer: TronSigner,
  sealed: SealedEffect,
  spec: VariantSpec,
): Promise<Signed> {
  const payload = readPayload(sealed.seal.payload);
  assert(spec.kind === 'original', 'TRON signs what was sealed and nothing else');
  const signature = await ports.gate.pass('signer', 'sign original', () => signer.sign(payload.from, payload.txId));
  assert(signature.length === 65, 'a signature of TRON has 65 bytes');
  const signedBy = await recoverAddress({
    hash: `0x${payload.txId}`,
    signature: `0x${Buffer.from(signature).toString('hex')}`,
  });
  assert(signedBy.toLowerCase() === machineAddress(payload.from), 'the signer used another key than the seal names');
  return {
    ...spec,
    hash: payload.txId,
    raw: signedBytes(payload.raw, signature),
    to: payload.to,
    value: payload.value.toString(),
    data: payload.data,
  };
}

/** `Transaction { raw_data = 1, signature = 2 }` in protobuf. */
export function signedBytes(raw: Uint8Array, signature: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from([0x0a]),
    varint(raw.length),
    raw,
    Buffer.from([0x12]),
    varint(signature.length),
    signature,
  ]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 0x7f) | 0x80);
  }
}
