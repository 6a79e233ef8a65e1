/*
 * The reading half of `/wallet/*` and `/walletsolidity/*`: the same questions, asked of the head or of the solid block. What is
 * not there is `{}`, with HTTP 200.
 */
import type { Wire, WireObject } from '../bank/wire-json.ts';
import { fromBase58, isAddress } from './address.ts';
import type { Block, Chain } from './chain.ts';
import { readAddress, readHex, readWhole } from './messages.ts';
import type { TronNode } from './node.ts';
import { printAccount, printBlock, printIncluded, printReceipt, printResources } from './print.ts';
import { slotOf } from './resources.ts';
import { DELEGATIONS } from './execute.ts';
import { printTransaction } from './transaction.ts';

export type Ask = { readonly params: WireObject; readonly visible: boolean };

/** From where a question is answered. */
export type Reach = {
  readonly node: TronNode;
  readonly chain: Chain;
  readonly height: number;
  readonly solid: boolean;
  readonly nowMs: number;
};

type Route = (ask: Ask, reach: Reach) => Wire;

const BLOCKS_MAX = 100n;

const BOTH: Record<string, Route> = {
  getnowblock: ({ visible }, reach) => block(blockAt(reach, BigInt(reach.height)), visible),
  getblock({ params, visible }, reach) {
    const wanted = params.id_or_num;
    const detail = params.detail === true || params.detail === 'true';
    if (wanted === undefined || wanted === null) return block(blockAt(reach, BigInt(reach.height)), visible, detail);
    const text = typeof wanted === 'bigint' ? wanted.toString() : typeof wanted === 'string' ? wanted : '';
    if (!/^[0-9]{1,18}$|^[0-9a-f]{64}$/.test(text)) return { Error: 'incorrect block id or number' };
    const found = text.length === 64 ? blockById(reach, text) : blockAt(reach, BigInt(text));
    return block(found, visible, detail);
  },
  getblockbynum: ({ params, visible }, reach) => block(blockAt(reach, whole(params.num)), visible),
  getblockbyid: ({ params, visible }, reach) => block(blockById(reach, readHex(params.value ?? null)), visible),
  getblockbylimitnext({ params, visible }, reach) {
    const from = whole(params.startNum);
    const to = whole(params.endNum);
    if (to <= 0n || to <= from || to - from > BLOCKS_MAX) return {};
    return { block: blocksBetween(reach, from, to).map((one) => printBlock(one, visible)) };
  },
  getblockbylatestnum({ params, visible }, reach) {
    const count = whole(params.num);
    if (count <= 0n || count >= BLOCKS_MAX) return {};
    const top = BigInt(reach.height) + 1n;
    return { block: blocksBetween(reach, top - count, top).map((one) => printBlock(one, visible)) };
  },
  getaccount({ params, visible }, reach) {
    const address = readAddress(params.address ?? null, visible);
    const account = reach.chain.world.at(reach.height).account(address);
    return account === null ? {} : printAccount(address, account, visible);
  },
  gettransactionbyid({ params, visible }, reach) {
    const found = find(reach, params.value);
    return found === null ? {} : printIncluded(found.included, visible);
  },
  gettransactioninfobyid({ params, visible }, reach) {
    const found = reach.node.settings.history ? find(reach, params.value) : null;
    return found === null ? {} : printReceipt(found.block, found.included, visible, reach.node.settings);
  },
  gettransactioninfobyblocknum({ params, visible }, reach) {
    const number = whole(params.num);
    if (number <= 0n) return {};
    const found = reach.node.settings.history ? blockAt(reach, number) : null;
    return found === null ? [] : found.included.map((one) => printReceipt(found, one, visible, reach.node.settings));
  },
  gettransactioncountbyblocknum({ params }, reach) {
    const found = blockAt(reach, whole(params.num));
    return { count: found === null ? -1n : BigInt(found.included.length) };
  },
  getnodeinfo: (_ask, { chain, node }) => ({
    beginSyncNum: BigInt(node.head()),
    block: `Num:${node.head()},ID:${chain.block(node.head())?.id ?? ''}`,
    solidityBlock: `Num:${node.solid()},ID:${chain.block(node.solid())?.id ?? ''}`,
    currentConnectCount: BigInt(node.settings.peers + node.settings.unsyncedPeers),
    activeConnectCount: BigInt(node.settings.peers),
    configNodeInfo: { codeVersion: '4.8.0', supportConstant: true, minEffectiveConnection: 1n },
  }),
};

const HEAD_ONLY: Record<string, Route> = {
  getaccountresource({ params, visible }, reach) {
    const address = readAddress(params.address ?? null, visible);
    const account = reach.node.view().account(address);
    return account === null ? {} : printResources(account, reach.chain.prices, slotOf(headMs(reach)));
  },
  getaccountnet({ params, visible }, reach) {
    const address = readAddress(params.address ?? null, visible);
    const account = reach.node.view().account(address);
    if (account === null) return {};
    const {
      EnergyUsed: _used,
      EnergyLimit: _limit,
      ...net
    } = printResources(account, reach.chain.prices, slotOf(headMs(reach)));
    return net;
  },
  getdelegatedresourcev2({ params, visible }, reach) {
    const from = readAddress(params.fromAddress ?? null, visible);
    const to = readAddress(params.toAddress ?? null, visible);
    const energy = reach.node.view().cell(DELEGATIONS, `${from}:${to}:energy`);
    if (energy === 0n) return {};
    return {
      delegatedResource: [
        { from: params.fromAddress ?? '', to: params.toAddress ?? '', frozen_balance_for_energy: energy },
      ],
    };
  },
  getchainparameters: (_ask, { chain }) => ({
    chainParameter: [
      { key: 'getMaintenanceTimeInterval', value: 21_600_000n },
      { key: 'getTransactionFee', value: chain.prices.transactionFee },
      { key: 'getCreateAccountFee', value: chain.prices.createAccountFee },
      { key: 'getCreateNewAccountFeeInSystemContract', value: chain.prices.createNewAccountFeeInSystemContract },
      { key: 'getEnergyFee', value: chain.prices.energyFee },
      { key: 'getTotalEnergyCurrentLimit', value: chain.prices.totalEnergyLimit },
      { key: 'getTotalEnergyLimit', value: chain.prices.totalEnergyLimit },
      { key: 'getFreeNetLimit', value: 600n },
      { key: 'getTotalNetLimit', value: chain.prices.totalNetLimit },
      { key: 'getMaxFeeLimit', value: chain.prices.maxFeeLimit },
      { key: 'getMaxDelegateLockPeriod', value: 864_000n },
      { key: 'getAllowDelegateResource', value: 1n },
      { key: 'getUnfreezeDelayDays', value: 14n },
    ],
  }),
  getenergyprices: (_ask, { chain }) => ({ prices: `0:${chain.prices.energyFee}` }),
  getbandwidthprices: (_ask, { chain }) => ({ prices: `0:${chain.prices.transactionFee}` }),
  getcontract({ params, visible }, reach) {
    const address = readAddress(params.value ?? null, visible);
    const program = reach.chain.world.at(reach.height).program(address);
    if (program === null) return {};
    return {
      origin_address: program.kind === 'token' ? program.owner : address,
      contract_address: visible ? (params.value ?? '') : address,
      consume_user_resource_percent: 100n,
      name: program.kind === 'token' ? program.name : 'Payer',
      origin_energy_limit: 10_000_000n,
      // tronweb wants an interface to speak to a contract by its methods' names.
      abi: { entrys: program.kind === 'token' ? TOKEN_INTERFACE : [] },
    };
  },
  validateaddress({ params }) {
    const text = typeof params.address === 'string' ? params.address : '';
    if (text.length === 42) return verdict(isAddress(text.toLowerCase()), 'Hex string format');
    if (text.length === 34) return verdict(fromBase58(text) !== null, 'Base58check format');
    return { result: false, message: 'Length error' };
  },
  gettransactionfrompending({ params, visible }, { node }) {
    const id = readHex(params.value ?? null);
    const found = node.pending().find((one) => one.id === id);
    return found === undefined ? {} : printTransaction(found, visible);
  },
  gettransactionlistfrompending: (_ask, { node }) => ({ txId: node.pending().map(({ id }) => id) }),
  getpendingsize: (_ask, { node }) => ({ pendingSize: BigInt(node.pending().length) }),
};

/** Closed on a lite node. */
const OF_THE_PAST = new Set([
  'getblockbyid',
  'getblockbylatestnum',
  'getblockbylimitnext',
  'getblockbynum',
  'gettransactionbyid',
  'gettransactioncountbyblocknum',
  'gettransactioninfobyid',
  'gettransactioninfobyblocknum',
]);

export function isOfThePast(name: string): boolean {
  return OF_THE_PAST.has(name);
}

/** `null`: no such route on this side. */
export function readRoute(name: string, solid: boolean): Route | null {
  if (Object.hasOwn(BOTH, name)) return BOTH[name] ?? null;
  return !solid && Object.hasOwn(HEAD_ONLY, name) ? (HEAD_ONLY[name] ?? null) : null;
}

export function whole(given: Wire | undefined): bigint {
  return given === undefined || given === null ? 0n : readWhole(given);
}

export function headMs({ chain, node }: Reach): number {
  return chain.block(node.head())?.timeMs ?? 0;
}

function blockAt(reach: Reach, number: bigint): Block | null {
  return number > BigInt(reach.height) ? null : reach.chain.block(Number(number));
}

function blockById(reach: Reach, id: string): Block | null {
  const found = blockAt(reach, BigInt(`0x${id.slice(0, 16) || '0'}`));
  return found?.id === id ? found : null;
}

function blocksBetween(reach: Reach, from: bigint, to: bigint): Block[] {
  const found: Block[] = [];
  for (let number = from; number < to; number += 1n) {
    const one = blockAt(reach, number);
    if (one !== null) found.push(one);
  }
  return found;
}

function block(found: Block | null, visible: boolean, detail = true): Wire {
  return found === null ? {} : printBlock(found, visible, detail);
}

function find(reach: Reach, value: Wire | undefined) {
  const found = reach.chain.find(readHex(value ?? null));
  return found === null || found.block.number > reach.height ? null : found;
}

function verdict(good: boolean, format: string): WireObject {
  return { result: good, message: good ? format : 'Invalid address' };
}

const address = (name: string): WireObject => ({ name, type: 'address' });
const uint = (name: string): WireObject => ({ name, type: 'uint256' });
const view = (name: string, inputs: WireObject[], type: string): WireObject => ({
  name,
  type: 'Function',
  stateMutability: 'View',
  inputs,
  outputs: [{ type }],
});
const act = (name: string, inputs: WireObject[]): WireObject => ({
  name,
  type: 'Function',
  stateMutability: 'Nonpayable',
  inputs,
  outputs: [{ type: 'bool' }],
});
const TOKEN_INTERFACE: WireObject[] = [
  view('name', [], 'string'),
  view('symbol', [], 'string'),
  view('decimals', [], 'uint8'),
  view('totalSupply', [], 'uint256'),
  view('balanceOf', [address('who')], 'uint256'),
  view('allowance', [address('owner'), address('spender')], 'uint256'),
  act('transfer', [address('to'), uint('value')]),
  act('transferFrom', [address('from'), address('to'), uint('value')]),
  act('approve', [address('spender'), uint('value')]),
];
