/**
 * The signer port: who signs is behind it (a local keystore now; a remote signer later), what is signed is not its
 * business. `sign` builds the transaction from the sealed payload, passes the signer gate, and then reads the signed
 * bytes back: a signer that changed a field, or signed with another key, would have made another identity.
 */
import { keccak256, parseTransaction, recoverTransactionAddress, type TransactionSerializedEIP1559 } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import type { SealedEffect, Signed, VariantSpec } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import type { Ports } from '../../kernel/ports.ts';
import { canonicalAddress } from './address.ts';
import { type Payload, readPayload } from './payload.ts';

export interface UnsignedTransaction {
  readonly chainId: bigint;
  readonly nonce: bigint;
  readonly to: `0x${string}`;
  readonly value: bigint;
  readonly data: `0x${string}`;
  readonly gasLimit: bigint;
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
}

export interface EvmSigner {
  /** Addresses that it can sign for, in lower case. */
  addresses(): readonly string[];
  /** Whether `sign` has a key for this address. */
  holds(address: string): Promise<boolean>;
  /** An EIP-1559 signature by RFC 6979: the same fields give the same bytes. Returns the raw transaction. */
  sign(address: string, transaction: UnsignedTransaction): Promise<`0x${string}`>;
}

/** Keys in memory: for tests, the demo, and what a keystore has opened. */
export function makeLocalSigner(privateKeys: readonly `0x${string}`[]): EvmSigner {
  const accounts = new Map(
    privateKeys.map((key) => {
      const account = privateKeyToAccount(key);
      return [canonicalAddress(account.address), account] as const;
    }),
  );
  return {
    addresses: () => [...accounts.keys()],
    holds: (address) => Promise.resolve(accounts.has(canonicalAddress(address))),
    async sign(address, transaction) {
      const account = accounts.get(canonicalAddress(address));
      if (account === undefined) throw new Error(`no key for ${address}: add its keystore file, or correct the wallet`);
      return account.signTransaction({
        type: 'eip1559',
        // viem wants numbers here; both are far below 2^53 on every chain, and asserted after signing.
        chainId: Number(transaction.chainId),
        nonce: Number(transaction.nonce),
        to: transaction.to,
        value: transaction.value,
        data: transaction.data,
        gas: transaction.gasLimit,
        maxFeePerGas: transaction.maxFeePerGas,
        maxPriorityFeePerGas: transaction.maxPriorityFeePerGas,
      });
    },
  };
}

/** The transaction of one variant: fees and gas from the spec, all else from the seal; a cancel pays nobody. */
export function transactionOf(payload: Payload, spec: VariantSpec): UnsignedTransaction {
  const body =
    spec.kind === 'cancel'
      ? { to: payload.from, value: 0n, data: '0x' as const }
      : { to: payload.to, value: payload.value, data: payload.data };
  return {
    chainId: payload.chainId,
    nonce: payload.nonce,
    ...body,
    gasLimit: BigInt(spec.gasLimit),
    maxFeePerGas: BigInt(spec.maxFeePerGas),
    maxPriorityFeePerGas: BigInt(spec.maxPriorityFeePerGas),
  };
}

export async function signVariant(
  ports: Ports,
  signer: EvmSigner,
  sealed: SealedEffect,
  spec: VariantSpec,
): Promise<Signed> {
  const payload = readPayload(sealed.seal.payload);
  const transaction = transactionOf(payload, spec);
  const raw = await ports.gate.pass('signer', `sign ${spec.kind}`, () => signer.sign(payload.from, transaction));
  await assertSigned(raw, payload.from, transaction);
  return {
    ...spec,
    hash: keccak256(raw),
    raw: Buffer.from(raw.slice(2), 'hex'),
    to: transaction.to,
    value: transaction.value.toString(),
    data: transaction.data,
  };
}

async function assertSigned(raw: `0x${string}`, from: string, wanted: UnsignedTransaction): Promise<void> {
  const got = parseTransaction(raw);
  assert(
    got.type === 'eip1559' &&
      BigInt(got.chainId) === wanted.chainId &&
      BigInt(got.nonce ?? 0) === wanted.nonce &&
      got.to?.toLowerCase() === wanted.to &&
      (got.value ?? 0n) === wanted.value &&
      (got.data ?? '0x').toLowerCase() === wanted.data &&
      got.gas === wanted.gasLimit &&
      got.maxFeePerGas === wanted.maxFeePerGas &&
      (got.maxPriorityFeePerGas ?? 0n) === wanted.maxPriorityFeePerGas,
    'the signer signed something else than the seal says',
  );
  const signedBy = await recoverTransactionAddress({ serializedTransaction: raw as TransactionSerializedEIP1559 });
  assert(signedBy.toLowerCase() === from, 'the signer used another key than the seal names');
}
