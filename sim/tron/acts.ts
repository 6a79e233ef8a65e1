/*
 * What other people do on the chain: transactions whose keys nobody here has. They run like all others, with fees and failures;
 * only their signatures are not looked at.
 */
import { type Address, addressOf, topicOf } from './address.ts';
import type { Chain } from './chain.ts';
import type { ContractName, Values } from './messages.ts';
import { encodeDraft, readRaw, type TronTransaction } from './transaction.ts';

export type ActOf =
  | { readonly kind: 'send'; readonly to: string; readonly sun: bigint }
  | { readonly kind: 'send_token'; readonly token: string; readonly to: string; readonly units: bigint }
  /** `data`: hexadecimal, without 0x. */
  | { readonly kind: 'call'; readonly contract: string; readonly data: string; readonly sun?: bigint }
  | { readonly kind: 'lend_energy' | 'take_energy_back'; readonly to: string; readonly sun: bigint };

/** Long enough for any test to mine its next block. */
const EXPIRATION_MS = 3_600_000;
const FEE_LIMIT_SUN = 1_000_000_000n;
const NO_SIGNATURE = '00'.repeat(65);
/** transfer(address,uint256) */
const TRANSFER_SELECTOR = 'a9059cbb';

/** `ordinal` makes two equal acts two transactions. */
export function makeAct(chain: Chain, owner: Address, act: ActOf, ordinal: number): TronTransaction {
  const reference = chain.block(chain.solid())?.id ?? '';
  const { contract, values } = messageOf(owner, act);
  const raw = encodeDraft({
    refBlockBytes: reference.slice(12, 16),
    refBlockHash: reference.slice(16, 32),
    expiration: chain.head().timeMs + EXPIRATION_MS,
    timestamp: chain.head().timeMs + ordinal,
    feeLimit: contract === 'TriggerSmartContract' ? FEE_LIMIT_SUN : 0n,
    contract,
    values,
  });
  return readRaw(raw, [NO_SIGNATURE], [owner]);
}

function messageOf(owner: Address, act: ActOf): { contract: ContractName; values: Values } {
  switch (act.kind) {
    case 'send':
      return {
        contract: 'TransferContract',
        values: { owner_address: owner, to_address: addressOf(act.to), amount: act.sun },
      };
    case 'send_token': {
      const data = `${TRANSFER_SELECTOR}${topicOf(addressOf(act.to))}${act.units.toString(16).padStart(64, '0')}`;
      return messageOf(owner, { kind: 'call', contract: act.token, data });
    }
    case 'call':
      return {
        contract: 'TriggerSmartContract',
        values: {
          owner_address: owner,
          contract_address: addressOf(act.contract),
          call_value: act.sun ?? 0n,
          data: act.data,
        },
      };
    case 'lend_energy':
    case 'take_energy_back':
      return {
        contract: act.kind === 'lend_energy' ? 'DelegateResourceContract' : 'UnDelegateResourceContract',
        values: { owner_address: owner, resource: 1n, balance: act.sun, receiver_address: addressOf(act.to) },
      };
  }
}
