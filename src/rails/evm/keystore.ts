/** The keystore as the EVM rail sees it, and the keys of development chains, which are everybody's. */
import { mnemonicToAccount } from 'viem/accounts';
import type { Chance } from '../../kernel/ports.ts';
import { openKeyFiles, SCRYPT_N } from '../keystore.ts';
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
  const opened = new Map<string, EvmSigner>();
  return {
    signer: {
      addresses: () => files.addresses(),
      holds: (address) => files.holds(canonicalAddress(address)),
      async sign(address, transaction) {
        const canonical = canonicalAddress(address);
        const signer = opened.get(canonical) ?? makeLocalSigner([await files.keyOf(canonical)]);
        opened.set(canonical, signer);
        return signer.sign(canonical, transaction);
      },
    },
    createAddress: () => files.createAddress(),
  };
}

/** The phrase that every development chain starts with: its keys are everybody's. */
const DEV_PHRASE = 'test test test test test test test test test test test junk';
const DEV_ACCOUNTS = 10;
let devAccounts: readonly { readonly address: string; readonly key: `0x${string}` }[] | null = null;

function devAccountsOf(): readonly { readonly address: string; readonly key: `0x${string}` }[] {
  devAccounts ??= Array.from({ length: DEV_ACCOUNTS }, (_, addressIndex) => {
    const account = mnemonicToAccount(DEV_PHRASE, { addressIndex });
    const key = account.getHdKey().privateKey;
    if (key === null) throw new Error('the development phrase gives no key');
    return { address: canonicalAddress(account.address), key: `0x${Buffer.from(key).toString('hex')}` as const };
  });
  return devAccounts;
}

/** `true` for the accounts that anvil and hardhat hand out: production refuses them. */
export function isDevKey(address: string): boolean {
  const wanted = canonicalAddress(address);
  return devAccountsOf().some((account) => account.address === wanted);
}

/** A signer over the first development accounts, for the demo and tests. */
export function makeDevSigner(count: number = DEV_ACCOUNTS): EvmSigner {
  return makeLocalSigner(
    devAccountsOf()
      .slice(0, count)
      .map((account) => account.key),
  );
}
