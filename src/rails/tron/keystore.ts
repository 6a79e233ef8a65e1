/** The keystore as the TRON rail sees it: the same key files, addresses in base58; and the keys of development chains. */
import type { Chance } from '../../kernel/ports.ts';
import { DEV_ACCOUNTS, devKeys } from '../dev-keys.ts';
import { type KeyFiles, openKeyFiles } from '../keystore.ts';
import { canonicalAddress, machineAddress } from './address.ts';
import { makeLocalSigner, type TronSigner } from './signer.ts';

export interface Keystore {
  readonly signer: TronSigner;
  /** Makes a key, writes its file, and only then tells the address in base58. */
  createAddress(): Promise<string>;
}

/** Opens `folder` (`rails/keystore.ts`). */
export async function openKeystore(
  folder: string,
  passphrase: string,
  chance: Chance,
  scryptN?: number,
): Promise<Keystore> {
  const files = await openKeyFiles(folder, passphrase, chance, scryptN);
  return { signer: signerOf(files), createAddress: async () => canonicalAddress(await files.createAddress()) };
}

/** A signer over key files that are open already. */
export function signerOf(files: KeyFiles): TronSigner {
  const opened = new Map<string, TronSigner>();
  return {
    addresses: () => files.addresses().map(canonicalAddress),
    holds: (address) => files.holds(machineAddress(address)),
    async sign(address, txId) {
      const canonical = canonicalAddress(address);
      const signer = opened.get(canonical) ?? makeLocalSigner([await files.keyOf(machineAddress(canonical))]);
      opened.set(canonical, signer);
      return signer.sign(canonical, txId);
    },
  };
}

/** A signer over the first development accounts, for the demo and tests: production refuses their keys. */
export function makeDevSigner(count: number = DEV_ACCOUNTS): TronSigner {
  return makeLocalSigner(
    devKeys()
      .slice(0, count)
      .map((account) => account.key),
  );
}
