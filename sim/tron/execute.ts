/*
 * One transaction on one state: the checks of its contract, what it moves, what it costs. The same code runs when a node
 * takes a transaction into its pending and when it goes into a block, as in java-tron.
 *
 * Promises: a refusal leaves the state as it was (the caller drops the layer); a failure of the virtual machine does not: it
 * is included, its fee is burnt, and nothing else moved.
 */
import type { Address } from './address.ts';
import { isAddress, toBase58 } from './address.ts';
import {
  type InternalTransfer,
  type Log,
  moveSun,
  type Returned,
  runProgram,
  type SunTransfer,
  type VmResult,
} from './programs.ts';
import type { Program } from './program-kinds.ts';
import {
  energyLeft,
  type NetBill,
  payBandwidth,
  payEnergy,
  type Prices,
  slotOf,
  SUN_PER_TRX,
  usageOfLoan,
  usedNow,
} from './resources.ts';
import { type Account, emptyAccount, type Layer, makeLayer, type Usage } from './state.ts';
import { type Contract, numberOf, ownerOf, textOf, type TronTransaction } from './transaction.ts';

/** The answer is CONTRACT_VALIDATE_ERROR with this text. */
export class ContractRefused extends Error {}

export type Outcome = {
  readonly result: VmResult;
  /** Only contract calls carry a result in their receipt. */
  readonly called: Address | null;
  readonly output: string;
  readonly message: string;
  readonly logs: readonly Log[];
  readonly internal: readonly InternalTransfer[];
  /** TRX that moved by itself: a transfer, or the value of a call. */
  readonly native: SunTransfer | null;
  /** All that was burnt, sun. */
  readonly fee: bigint;
  readonly netUsage: bigint;
  readonly netFee: bigint;
  readonly energyUsage: bigint;
  readonly energyFee: bigint;
  readonly energyTotal: bigint;
  readonly energyPenalty: bigint;
};

export type Surroundings = {
  readonly prices: Prices;
  readonly nowMs: number;
  /** A fault: the virtual machine ends like this whatever the program does. */
  readonly endsAs?: VmResult | undefined;
};

const DAY_MS = 86_400_000;
export const DELEGATIONS = 'delegation';
export const DELEGATION_LOCKS = 'delegation-lock';

export function execute(state: Layer, transaction: TronTransaction, around: Surroundings): Outcome {
  const { prices, nowMs } = around;
  const contract = transaction.contracts[0];
  const owner = ownerOf(transaction);
  if (contract === undefined || contract.name === null) throw new ContractRefused('No contract!');
  if (state.account(owner) === null) {
    throw new ContractRefused(`account [${isAddress(owner) ? toBase58(owner) : owner}] does not exist`);
  }
  const to = textOf(contract.values, contract.name === 'TransferContract' ? 'to_address' : 'account_address');
  const makesAccount =
    contract.name === 'AccountCreateContract' || (contract.name === 'TransferContract' && state.account(to) === null);
  const net = payBandwidth(state, owner, transaction.sizeBytes, makesAccount, prices, slotOf(nowMs));
  if (contract.name === 'TriggerSmartContract') return call(state, transaction, contract, net, around);
  const native = actOf(state, owner, contract, around);
  const making = makesAccount ? prices.createNewAccountFeeInSystemContract : 0n;
  const after = state.account(owner);
  if (after !== null) state.setAccount(owner, { ...after, balance: after.balance - making, lastMs: nowMs });
  return { ...NOTHING, native, fee: net.fee + making, netUsage: net.usage, netFee: net.fee };
}

/** The checks alone, as `createtransaction` makes them: no bandwidth is asked for. */
export function validate(state: Layer, owner: Address, contract: Contract, around: Surroundings): void {
  if (contract.name !== 'TriggerSmartContract') actOf(makeLayer(state), owner, contract, around);
}

/** A call that changes nothing: `triggerconstantcontract`. */
export function callConstant(state: Layer, program: Program, contract: Contract, nowMs: number): Returned {
  const { values } = contract;
  return runProgram(program, {
    state: makeLayer(state),
    self: textOf(values, 'contract_address'),
    caller: textOf(values, 'owner_address'),
    data: textOf(values, 'data'),
    sun: numberOf(values, 'call_value'),
    nowMs,
  });
}

const NOTHING: Outcome = {
  result: 'SUCCESS',
  called: null,
  output: '',
  message: '',
  logs: [],
  internal: [],
  native: null,
  fee: 0n,
  netUsage: 0n,
  netFee: 0n,
  energyUsage: 0n,
  energyFee: 0n,
  energyTotal: 0n,
  energyPenalty: 0n,
};

function actOf(state: Layer, owner: Address, contract: Contract, around: Surroundings): SunTransfer | null {
  const { values } = contract;
  switch (contract.name) {
    case 'TransferContract':
      return transfer(state, owner, textOf(values, 'to_address'), numberOf(values, 'amount'), around);
    case 'AccountCreateContract':
      return create(state, textOf(values, 'account_address'), around);
    case 'FreezeBalanceV2Contract':
      return freeze(state, owner, numberOf(values, 'frozen_balance'), numberOf(values, 'resource'));
    case 'DelegateResourceContract':
    case 'UnDelegateResourceContract':
      return delegate(state, owner, contract, around);
    default:
      throw new ContractRefused(`${contract.name ?? 'this contract'} is not played on this chain`);
  }
}

function transfer(
  state: Layer,
  owner: Address,
  to: Address,
  sun: bigint,
  { prices, nowMs }: Surroundings,
): SunTransfer {
  if (!isAddress(owner)) throw new ContractRefused('Invalid ownerAddress!');
  if (!isAddress(to)) throw new ContractRefused('Invalid toAddress!');
  if (to === owner) throw new ContractRefused('Cannot transfer TRX to yourself.');
  const account = state.account(owner);
  if (account === null) throw new ContractRefused('Validate TransferContract error, no OwnerAccount.');
  if (sun <= 0n) throw new ContractRefused('Amount must be greater than 0.');
  const receiver = state.account(to);
  if (receiver?.isContract === true) throw new ContractRefused('Cannot transfer TRX to a smartContract.');
  const fee = receiver === null ? prices.createNewAccountFeeInSystemContract : 0n;
  if (account.balance < sun + fee) {
    throw new ContractRefused('Validate TransferContract error, balance is not sufficient.');
  }
  moveSun(state, owner, to, sun, nowMs);
  return { from: owner, to, sun };
}

function create(state: Layer, address: Address, { nowMs }: Surroundings): null {
  if (!isAddress(address)) throw new ContractRefused('Invalid account address');
  if (state.account(address) !== null) throw new ContractRefused('Account has existed');
  state.setAccount(address, emptyAccount(nowMs));
  return null;
}

function freeze(state: Layer, owner: Address, sun: bigint, resource: bigint): null {
  const account = state.account(owner);
  if (account === null) throw new ContractRefused(`Account[${owner}] does not exist`);
  if (sun < SUN_PER_TRX) throw new ContractRefused('frozenBalance must be greater than or equal to 1 TRX');
  if (sun > account.balance) throw new ContractRefused('frozenBalance must be less than or equal to accountBalance');
  const staked =
    resource === 1n ? { stakedEnergy: account.stakedEnergy + sun } : { stakedNet: account.stakedNet + sun };
  state.setAccount(owner, { ...account, balance: account.balance - sun, ...staked });
  return null;
}

function delegate(state: Layer, owner: Address, contract: Contract, { nowMs, prices }: Surroundings): null {
  const { values } = contract;
  const gives = contract.name === 'DelegateResourceContract';
  const sun = numberOf(values, 'balance');
  const energy = numberOf(values, 'resource') === 1n;
  const to = textOf(values, 'receiver_address');
  const lender = state.account(owner);
  const borrower = state.account(to);
  if (lender === null) throw new ContractRefused(`Account[${toBase58(owner)}] does not exist`);
  if (!isAddress(to)) throw new ContractRefused('Invalid receiverAddress');
  if (to === owner) throw new ContractRefused('receiverAddress must not be the same as ownerAddress');
  if (borrower === null) throw new ContractRefused(`Account[${toBase58(to)}] does not exist`);
  if (borrower.isContract) throw new ContractRefused('Do not allow delegate resources to contract addresses');
  const key = `${owner}:${to}:${energy ? 'energy' : 'net'}`;
  const lent = state.cell(DELEGATIONS, key);
  if (gives) {
    if (sun < SUN_PER_TRX) throw new ContractRefused('delegateBalance must be greater than or equal to 1 TRX');
    if (sun > (energy ? lender.stakedEnergy : lender.stakedNet)) {
      throw new ContractRefused('delegateBalance must be less than or equal to available FreezeEnergyV2 balance');
    }
    if (numberOf(values, 'lock') === 1n) {
      const slots = numberOf(values, 'lock_period');
      const lockMs = slots === 0n ? 3 * DAY_MS : Number(slots) * 3_000;
      state.setCell(DELEGATION_LOCKS, key, BigInt(nowMs + lockMs));
    }
  } else {
    const freeFrom = Number(state.cell(DELEGATION_LOCKS, key));
    if (sun <= 0n || lent < sun || freeFrom > nowMs) {
      throw new ContractRefused(
        `insufficient delegatedFrozenBalance(${energy ? 'Energy' : 'BANDWIDTH'}), request=${sun}`,
      );
    }
  }
  const given = gives ? sun : -sun;
  state.setCell(DELEGATIONS, key, lent + given);
  const slot = slotOf(nowMs);
  const what = energy ? 'energy' : 'net';
  const goes = gives ? 0n : usageOfLoan(borrower, what, sun, prices, slot);
  const lenders: Account = gives ? lender : { ...lender, [what]: used(usedNow(lender[what], slot) + goes, slot) };
  const borrowers: Account = gives
    ? borrower
    : { ...borrower, [what]: used(usedNow(borrower[what], slot) - goes, slot) };
  state.setAccount(
    owner,
    energy
      ? { ...lenders, stakedEnergy: lender.stakedEnergy - given, lentEnergy: lender.lentEnergy + given }
      : { ...lenders, stakedNet: lender.stakedNet - given, lentNet: lender.lentNet + given },
  );
  state.setAccount(
    to,
    energy
      ? { ...borrowers, borrowedEnergy: borrower.borrowedEnergy + given }
      : { ...borrowers, borrowedNet: borrower.borrowedNet + given },
  );
  return null;
}

function used(units: bigint, slot: number): Usage {
  return { used: units, slot };
}

function call(
  state: Layer,
  transaction: TronTransaction,
  contract: Contract,
  net: NetBill,
  around: Surroundings,
): Outcome {
  const { prices, nowMs } = around;
  const owner = ownerOf(transaction);
  const self = textOf(contract.values, 'contract_address');
  const sun = numberOf(contract.values, 'call_value');
  const program = state.program(self);
  if (program === null) throw new ContractRefused('No contract or not a smart contract');
  if (sun < 0n) throw new ContractRefused('callValue must be >= 0');
  const { feeLimit } = transaction;
  if (feeLimit < 0n || feeLimit > prices.maxFeeLimit) {
    throw new ContractRefused(`feeLimit must be >= 0 and <= ${prices.maxFeeLimit}`);
  }
  const caller = state.account(owner) ?? emptyAccount(nowMs);
  if (caller.balance < sun) {
    throw new ContractRefused('Validate InternalTransfer error, balance is not sufficient.');
  }
  const energyMax = least(
    energyLeft(caller, prices, slotOf(nowMs)) + (caller.balance - sun) / prices.energyFee,
    feeLimit / prices.energyFee,
  );
  const inner = makeLayer(state);
  moveSun(inner, owner, self, sun, nowMs);
  const data = textOf(contract.values, 'data');
  const returned = runProgram(program, { state: inner, self, caller: owner, data, sun, nowMs });
  const ended = endOf(returned, energyMax, around.endsAs);
  if (ended.result === 'SUCCESS') inner.mergeInto(state);
  const bill = payEnergy(state, owner, ended.energy, prices, slotOf(nowMs));
  const moved = ended.result === 'SUCCESS';
  return {
    ...NOTHING,
    result: ended.result,
    called: self,
    output: ended.result === 'SUCCESS' || ended.result === 'REVERT' ? returned.output : '',
    message: ended.message,
    logs: moved ? returned.logs : [],
    internal: moved ? returned.internal : [],
    native: moved && sun > 0n ? { from: owner, to: self, sun } : null,
    fee: net.fee + bill.fee,
    netUsage: net.usage,
    netFee: net.fee,
    energyUsage: bill.usage,
    energyFee: bill.fee,
    energyTotal: ended.energy,
    energyPenalty: least(returned.penalty, ended.energy),
  };
}

type Ended = { readonly result: VmResult; readonly energy: bigint; readonly message: string };

/** Everything but a revert takes all the energy that there is. */
function endOf(returned: Returned, energyMax: bigint, endsAs: VmResult | undefined): Ended {
  if (endsAs !== undefined && endsAs !== 'SUCCESS' && endsAs !== 'REVERT') {
    return { result: endsAs, energy: energyMax, message: endsAs.toLowerCase().replaceAll('_', ' ') };
  }
  if (returned.energy > energyMax) {
    const message = `Not enough energy for 'SSTORE' operation executing: curInvokeEnergyLimit[${energyMax}], curOpEnergy[20000], usedEnergy[${energyMax}]`;
    return { result: 'OUT_OF_ENERGY', energy: energyMax, message };
  }
  const result = endsAs ?? returned.result;
  if (result !== 'SUCCESS' && result !== 'REVERT') return { result, energy: energyMax, message: 'Unknown Exception' };
  return { result, energy: returned.energy, message: result === 'REVERT' ? 'REVERT opcode executed' : '' };
}

function least(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}
