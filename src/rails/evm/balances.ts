/**
 * For reconciliation: what an address held at one block, and in which final block a transaction stands. A balance is asked by the
 * block's hash (EIP-1898), so a node on another fork says so instead of telling another balance. A node that has dropped the
 * block's state answers with a fault, never with a figure of another block.
 */
import type { Json } from '../../engine/rail.ts';
import { type EvmNode, faultOf, quantityIn, type Read } from './nodes.ts';
import { field, quantityOf } from './json.ts';
import type { RpcCall } from './rpc.ts';

/** `balanceOf(address)`. */
const BALANCE_OF = '0x70a08231';
const WORD = /^0x[0-9a-f]{64}$/;

export interface Holder {
  readonly address: string;
  /** `null`: the chain's own coin. */
  readonly contract: string | null;
}

/** One per holder, in order; units. */
export async function readBalances(
  node: EvmNode,
  block: { readonly hash: string },
  holders: readonly Holder[],
): Promise<readonly Read<bigint>[]> {
  const at = { blockHash: block.hash };
  const results = await node.checked.ask(
    holders.map(({ address, contract }): RpcCall => {
      if (contract === null) return { method: 'eth_getBalance', params: [address, at] };
      const data = `${BALANCE_OF}${address.slice(2).toLowerCase().padStart(64, '0')}`;
      return { method: 'eth_call', params: [{ to: contract, data }, at] };
    }),
  );
  return Promise.all(
    holders.map(async ({ contract }, index): Promise<Read<bigint>> => {
      const result = results[index];
      const value: Json | undefined = result?.kind === 'result' ? result.value : undefined;
      if (contract === null) {
        const units = quantityIn(result);
        return units === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: units };
      }
      if (typeof value === 'string' && WORD.test(value.toLowerCase())) return { ok: true, value: BigInt(value) };
      if (value !== '0x') return { ok: false, fault: faultOf(result) };
      // Nothing comes back from where no contract stands (yet): nobody holds anything of it.
      const [code] = await node.checked.ask([{ method: 'eth_getCode', params: [contract, at] }]);
      const isAbsent = code?.kind === 'result' && code.value === '0x';
      return isAbsent ? { ok: true, value: 0n } : { ok: false, fault: `${contract} tells no balance` };
    }),
  );
}

/** The number of the block in which each stands; `null`: this node knows no such mined transaction. */
export async function findTransactions(
  node: EvmNode,
  hashes: readonly string[],
): Promise<readonly Read<bigint | null>[]> {
  const results = await node.checked.ask(
    hashes.map((hash): RpcCall => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  );
  return hashes.map((_, index): Read<bigint | null> => {
    const result = results[index];
    if (result?.kind !== 'result') return { ok: false, fault: faultOf(result) };
    if (result.value === null) return { ok: true, value: null };
    const number = quantityOf(field(result.value, 'blockNumber'));
    return number === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: number };
  });
}
