/*
 * What a node knows, as java-tron prints it: what is zero or empty is left out, bytes are hexadecimal, and addresses are
 * base58 where the caller said `visible`.
 */
import { printWire, type WireObject } from '../bank/wire-json.ts';
import { type Address, sha256, toBase58 } from './address.ts';
import type { Block, Included } from './chain.ts';
import type { NodeSettings, Said } from './node.ts';
import { printAddress } from './messages.ts';
import { type Log, MOVING_NOTES } from './programs.ts';
import { energyLimit, FREE_NET_BYTES, netLimit, type Prices, usedNow } from './resources.ts';
import type { Account } from './state.ts';
import { printTransaction, type TronTransaction } from './transaction.ts';

/** Contract calls that failed are told apart by this word only; a plain transfer in a block has succeeded. */
export function printIncluded({ transaction, outcome }: Included, visible: boolean): WireObject {
  return { ret: [{ contractRet: outcome.result }], ...printTransaction(transaction, visible) };
}

export function printBlock(block: Block, visible: boolean, detail = true): WireObject {
  return {
    blockID: block.id,
    block_header: {
      raw_data: {
        number: BigInt(block.number),
        txTrieRoot: block.root,
        witness_address: printAddress(block.witness, visible),
        parentHash: block.parentId,
        version: 31n,
        timestamp: BigInt(block.timeMs),
      },
      witness_signature: block.signature,
    },
    ...(block.included.length === 0 || !detail
      ? {}
      : { transactions: block.included.map((one) => printIncluded(one, visible)) }),
  };
}

export function printReceipt(
  block: Block,
  { transaction, outcome }: Included,
  visible: boolean,
  keeps: Pick<NodeSettings, 'saveInternalTx' | 'saveFeaturedInternalTx'>,
): WireObject {
  const { called, fee, result } = outcome;
  const internal = outcome.internal
    .map((one, place) => ({ ...one, place }))
    .filter(({ note }) => keeps.saveInternalTx && (keeps.saveFeaturedInternalTx || MOVING_NOTES.has(note)));
  return {
    id: transaction.id,
    ...positive({ fee }),
    blockNumber: BigInt(block.number),
    blockTimeStamp: BigInt(block.timeMs),
    contractResult: [outcome.output],
    ...(called === null ? {} : { contract_address: printAddress(called, visible) }),
    receipt: {
      ...positive({
        energy_usage: outcome.energyUsage,
        energy_fee: outcome.energyFee,
        energy_usage_total: outcome.energyTotal,
        net_usage: outcome.netUsage,
        net_fee: outcome.netFee,
      }),
      ...(called === null ? {} : { result }),
      ...positive({ energy_penalty_total: outcome.energyPenalty }),
    },
    ...(outcome.logs.length === 0 ? {} : { log: outcome.logs.map((log) => printLog(log, visible)) }),
    ...(result === 'SUCCESS' ? {} : { result: 'FAILED', resMessage: printText(outcome.message, visible) }),
    ...(internal.length === 0
      ? {}
      : {
          internal_transactions: internal.map(({ from, to, sun, note, place }) => ({
            hash: sha256(Buffer.from(`${transaction.id}:${place}`)).toString('hex'),
            caller_address: printAddress(from, visible),
            transferTo_address: printAddress(to, visible),
            callValueInfo: [positive({ callValue: sun })],
            note: Buffer.from(note).toString('hex'),
          })),
        }),
  };
}

/** Without `visible` a log's address has the 20 bytes of the virtual machine. */
export function printLog(log: Log, visible: boolean): WireObject {
  return {
    address: visible ? toBase58(log.address) : log.address.slice(2),
    topics: [...log.topics],
    ...(log.data === '' ? {} : { data: log.data }),
  };
}

export function printText(text: string, visible: boolean): string {
  return visible ? text : Buffer.from(text, 'utf8').toString('hex');
}

/** SUCCESS is the zero of its list, so that only `result` says it. */
export function printSaid(said: Said, visible: boolean): WireObject {
  if (said.code === 'SUCCESS') return { result: true };
  return { code: said.code, message: printText(said.message, visible) };
}

export function printSaidInFull(said: Said, transaction: TronTransaction): WireObject {
  return {
    result: said.code === 'SUCCESS',
    code: said.code,
    message: said.message,
    transaction: printWire(printTransaction(transaction, true)),
    txid: transaction.id,
  };
}

export function printAccount(address: Address, account: Account, visible: boolean): WireObject {
  const owner = account.permission ?? { threshold: 1, keys: [{ address, weight: 1 }] };
  const permission = {
    threshold: BigInt(owner.threshold),
    keys: owner.keys.map((key) => ({ address: printAddress(key.address, visible), weight: BigInt(key.weight) })),
  };
  return {
    address: printAddress(address, visible),
    ...(account.isContract ? { type: 'Contract' } : {}),
    ...positive({
      balance: account.balance,
      create_time: BigInt(account.createdMs),
      latest_opration_time: BigInt(account.lastMs),
      net_usage: account.net.used,
      free_net_usage: account.freeNet.used,
      delegated_frozenV2_balance_for_bandwidth: account.lentNet,
      acquired_delegated_frozenV2_balance_for_bandwidth: account.borrowedNet,
    }),
    account_resource: positive({
      energy_usage: account.energy.used,
      delegated_frozenV2_balance_for_energy: account.lentEnergy,
      acquired_delegated_frozenV2_balance_for_energy: account.borrowedEnergy,
    }),
    owner_permission: { permission_name: 'owner', ...permission },
    active_permission: [{ type: 'Active', id: 2n, permission_name: 'active', ...permission }],
    frozenV2: [
      positive({ amount: account.stakedNet }),
      { type: 'ENERGY', ...positive({ amount: account.stakedEnergy }) },
      { type: 'TRON_POWER' },
    ],
  };
}

export function printResources(account: Account, prices: Prices, slot: number): WireObject {
  return {
    ...positive({ freeNetUsed: usedNow(account.freeNet, slot) }),
    freeNetLimit: FREE_NET_BYTES,
    ...positive({
      NetUsed: usedNow(account.net, slot),
      NetLimit: netLimit(account, prices),
      TotalNetLimit: prices.totalNetLimit,
      TotalNetWeight: prices.totalNetWeight,
      EnergyUsed: usedNow(account.energy, slot),
      EnergyLimit: energyLimit(account, prices),
      TotalEnergyLimit: prices.totalEnergyLimit,
      TotalEnergyWeight: prices.totalEnergyWeight,
    }),
  };
}

function positive(values: Record<string, bigint>): WireObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0n));
}
