/** The keystore as the EVM rail sees it, and the keys of development chains, which are everybody's. */
import type { Chance } from '../../kernel/ports.ts';
import { DEV_ACCOUNTS, devKeys } from '../dev-keys.ts';
import { type KeyFiles, openKeyFiles, SCRYPT_N } from '../keystore.ts';
import { canonicalAddress } from './address.ts';
import { type EvmSigner, makeLocalSigner } from './signer.ts';

export interface Keystore {
  readonly signer: EvmSigner;
  /** Makes a key, writes its file, and only then tells the address (lower case). */
  createAddress(): Promise<string>;
}

/** Opens `folder` (`rails/keystore.ts`). */
export async function openKeystore(
  folder: string,
  passphrase: string,
  chance: Chance,
  scryptN: number = SCRYPT_N,
): Promise<Keystore> {
  const files = await openKeyFiles(folder, passphrase, chance, scryptN);
  return { signer: signerOf(files), createAddress: () => files.createAddress() };
}

/** A signer over key files that are open already. */
export function signerOf(files: KeyFiles): EvmSigner {
  const opened = new Map<string, EvmSigner>();
  return {
    addresses: () => files.addresses(),
    holds: (address) => files.holds(canonicalAddress(address)),
    async sign(address, transaction) {
      const canonical = canonicalAddress(address);
      const signer = opened.get(canonical) ?? makeLocalSigner([await files.keyOf(canonical)]);
      opened.set(canonical, signer);
      return signer.sign(canonical, transaction);
    },
  };
}

/** `true` for the accounts that anvil and hardhat hand out: production refuses them. */
export function isDevKey(address: string): boolean {
  const wanted = canonicalAddress(address);
  return devKeys().some((account) => account.address === wanted);
}

/** A signer over the first development accounts, for the demo and tests. */
export function makeDevSigner(count: number = DEV_ACCOUNTS): EvmSigner {
  return makeLocalSigner(
    devKeys()
      .slice(0, count)
      .map((account) => account.key),
  );
}
