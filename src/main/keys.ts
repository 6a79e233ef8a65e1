/** The keys that are signed with: one keystore for all chains, each of which spells an address in its own way. */
import type { Ports } from '../kernel/ports.ts';
import { PayonceError } from '../kernel/errors.ts';
import { type EvmSigner, isDevKey, makeDevSigner, signerOf } from '../rails/evm/index.ts';
import { type KeyFiles, openKeyFiles } from '../rails/keystore.ts';
import * as tron from '../rails/tron/index.ts';
import type { Config } from './config.ts';

export interface Keys {
  readonly evm: EvmSigner;
  readonly tron: tron.TronSigner;
  /** A fresh address of 20 bytes in hex with 0x, whose key is safely stored when this resolves. */
  newAddress(): Promise<string>;
}

/** Those of the keystore; without one, in development, everybody's. */
export async function openKeys(config: Config, ports: Ports): Promise<Keys> {
  if (config.keystore === null) return { ...devKeyring(), newAddress: () => Promise.reject(new Error(NO_KEYSTORE)) };
  const files = await openKeyFiles(config.keystore.folder, config.keystore.passphrase, ports.chance);
  return { evm: signerOf(files), tron: tron.signerOf(files), newAddress: () => files.createAddress() };
}

const NO_KEYSTORE = 'set PAYONCE_KEYSTORE to make deposit addresses';

/** Signers over the keys of development chains. */
export function devKeyring(): Pick<Keys, 'evm' | 'tron'> {
  return { evm: makeDevSigner(), tron: tron.makeDevSigner() };
}

/** The same, and those of deposit addresses that are made meanwhile: what is paid in is swept with the address's own key. */
export function devKeysBeside(files: KeyFiles): Keys {
  const dev = devKeyring();
  return {
    evm: either(dev.evm, signerOf(files)),
    tron: either(dev.tron, tron.signerOf(files)),
    newAddress: () => files.createAddress(),
  };
}

interface Signer<Unsigned, Signed> {
  addresses(): readonly string[];
  holds(address: string): Promise<boolean>;
  sign(address: string, unsigned: Unsigned): Promise<Signed>;
}

function either<U, S>(first: Signer<U, S>, second: Signer<U, S>): Signer<U, S> {
  return {
    addresses: () => [...first.addresses(), ...second.addresses()],
    holds: async (address) => (await first.holds(address)) || second.holds(address),
    sign: async (address, unsigned) => ((await first.holds(address)) ? first : second).sign(address, unsigned),
  };
}

export function refuseDevKeys(config: Config, keys: Keys): void {
  // Without a chain nothing is signed.
  if (config.production && config.chains.length + config.tron.length > 0 && keys.evm.addresses().some(isDevKey))
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: 'PAYONCE_KEYSTORE: a development key is in use; refused in production',
    });
}

/** Those of these addresses, in any chain's spelling, whose keys everybody has. */
export function developmentAddresses(addresses: readonly string[]): string[] {
  return addresses.filter((address) => {
    const read = tron.readAddress(address);
    return isDevKey(read.ok ? tron.machineAddress(read.address) : address);
  });
}
