/** The keys of development chains, which are everybody's: the accounts that anvil and hardhat hand out. */
import { mnemonicToAccount } from 'viem/accounts';

const DEV_PHRASE = 'test test test test test test test test test test test junk';
export const DEV_ACCOUNTS = 10;
let made: readonly { readonly address: `0x${string}`; readonly key: `0x${string}` }[] | null = null;

/** Addresses are 20 bytes in lower-case hex with 0x; each chain spells them in its own way. */
export function devKeys(): readonly { readonly address: `0x${string}`; readonly key: `0x${string}` }[] {
  made ??= Array.from({ length: DEV_ACCOUNTS }, (_, addressIndex) => {
    const account = mnemonicToAccount(DEV_PHRASE, { addressIndex });
    const key = account.getHdKey().privateKey;
    if (key === null) throw new Error('the development phrase gives no key');
    return {
      address: `0x${account.address.slice(2).toLowerCase()}` as const,
      key: `0x${Buffer.from(key).toString('hex')}` as const,
    };
  });
  return made;
}
