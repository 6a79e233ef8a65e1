/*
 * The contracts of this chain: TRC-20 tokens in the manners that are found on the real one, and a payer that pays many in one
 * transaction. They are programs of ours, no byte code; what they cost and log is what a caller of the real ones sees.
 */
import { encodeAbiParameters, parseAbi } from 'viem';
import { type Address, fromEvm, topicOf } from './address.ts';
import { decode, runMultiSend, runSwap } from './payout-programs.ts';
import type { Call, InternalTransfer, Log, Returned } from './program-run.ts';
import type { PayerProgram, Program, TokenProgram } from './program-kinds.ts';
import { emptyAccount, type Layer } from './state.ts';

export type { InternalTransfer, Log, Returned, SunTransfer } from './program-run.ts';

/** Of these TRX moves from one account to another; java-tron keeps them alone unless it is told to keep all. */
export const MOVING_NOTES: ReadonlySet<string> = new Set(['call', 'create', 'suicide']);

export type VmResult =
  | 'SUCCESS'
  | 'REVERT'
  | 'OUT_OF_ENERGY'
  | 'OUT_OF_TIME'
  | 'ILLEGAL_OPERATION'
  | 'TRANSFER_FAILED'
  /** Exceptions that java-tron has no word for: a static call that writes, return data read beyond its end. */
  | 'UNKNOWN'
  /** A word that only a later java-tron has. */
  | 'NOT_NAMED_YET';

export const TRANSFER_TOPIC = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
export const APPROVAL_TOPIC = '8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925';

/** What USDT takes: to somebody who has some, and to somebody who has none, whose storage has to be made. */
const ENERGY_KNOWN_RECEIVER = 64_285n;
const ENERGY_NEW_RECEIVER = 130_285n;
/** A look into storage, or a revert before the first write. */
const ENERGY_SMALL = 3_500n;
const ENERGY_APPROVE = 22_700n;
const ENERGY_TRX_TRANSFER = 9_000n;

export const BALANCE = 'balance';
/** Cells that steering writes: 1 is yes. */
export const PAUSED = 'paused';
export const BARRED = 'barred';
/** By how many per cent the network makes a contract in demand dearer. */
export const PENALTY_PERCENT = 'penalty';

const TOKEN_ABI = parseAbi([
  'function name() view returns (string)',
  'function symbol() view returns (string)',
  'function decimals() view returns (uint8)',
  'function totalSupply() view returns (uint256)',
  'function balanceOf(address holder) view returns (uint256)',
  'function allowance(address holder, address spender) view returns (uint256)',
  'function approve(address spender, uint256 units) returns (bool)',
  'function transfer(address to, uint256 units) returns (bool)',
  'function transferFrom(address from, address to, uint256 units) returns (bool)',
]);

export const PAYER_ABI = parseAbi([
  'function pay(address[] to, uint256[] sun) payable',
  'function payToken(address token, address[] to, uint256[] units)',
  'function freezeAndPay(uint256 frozen, address[] to, uint256[] sun) payable',
  'function lend(address to, uint256 sun)',
  'function takeBack(address to, uint256 sun)',
  'function dieFor(address heir)',
  'function opcodeOfTomorrow(address to, uint256 sun)',
  'function writeInStaticCall(address named)',
  'function endInWordOfTomorrow(address named)',
]);

export function cellOf(contract: Address, field: string): string {
  return `${contract}.${field}`;
}

export function balanceOf(state: Pick<Layer, 'cell'>, token: Address, holder: Address): bigint {
  return state.cell(cellOf(token, BALANCE), holder);
}

/** Writes into the state of the call; who calls drops it unless the result is SUCCESS. */
export function runProgram(program: Program, call: Call): Returned {
  const returned = runKind(program, call);
  const percent = call.state.cell(call.self, PENALTY_PERCENT);
  const penalty = (returned.energy * percent) / 100n;
  return { ...returned, energy: returned.energy + penalty, penalty };
}

function runKind(program: Program, call: Call): Returned {
  switch (program.kind) {
    case 'token':
      return runToken(program, call);
    case 'payer':
      return runPayer(program, call);
    case 'multi_send':
      return runMultiSend(call, runProgram);
    case 'swap':
      return runSwap(program, call, runProgram);
  }
}

const plain = { penalty: 0n, logs: [], internal: [] };

function revert(reason = '', energy = ENERGY_SMALL): Returned {
  const output = reason === '' ? '' : `08c379a0${encodeAbiParameters([{ type: 'string' }], [reason]).slice(2)}`;
  return { ...plain, result: 'REVERT', output, energy };
}

function answer(
  type: 'string' | 'uint256' | 'bool',
  value: string | bigint | boolean,
  energy = ENERGY_SMALL,
): Returned {
  return { ...plain, result: 'SUCCESS', output: encodeAbiParameters([{ type }], [value]).slice(2), energy };
}

function runToken(token: TokenProgram, call: Call): Returned {
  const { state, self, caller } = call;
  const asked = decode(TOKEN_ABI, call.data);
  if (asked === null || call.sun > 0n) return revert();
  switch (asked.functionName) {
    case 'name':
      return answer('string', token.name);
    case 'symbol':
      return answer('string', token.symbol);
    case 'decimals':
      return answer('uint256', BigInt(token.decimals));
    case 'totalSupply':
      return answer('uint256', state.cell(cellOf(self, 'supply'), ''));
    case 'balanceOf':
      return answer('uint256', balanceOf(state, self, fromEvm(asked.args[0])));
    case 'allowance':
      return answer(
        'uint256',
        state.cell(cellOf(self, 'allowance'), `${fromEvm(asked.args[0])}:${fromEvm(asked.args[1])}`),
      );
    case 'approve': {
      const [spender, units] = asked.args;
      const key = `${caller}:${fromEvm(spender)}`;
      if (token.strictAllowance && units > 0n && state.cell(cellOf(self, 'allowance'), key) > 0n) return revert();
      state.setCell(cellOf(self, 'allowance'), key, units);
      const log = {
        address: self,
        topics: [APPROVAL_TOPIC, topicOf(caller), topicOf(fromEvm(spender))],
        data: word(units),
      };
      return { ...answer('bool', true, ENERGY_APPROVE), logs: [log] };
    }
    case 'transfer':
      return moveToken(token, call, caller, fromEvm(asked.args[0]), asked.args[1]);
    case 'transferFrom': {
      const [from, to, units] = asked.args;
      const key = `${fromEvm(from)}:${caller}`;
      const allowed = state.cell(cellOf(self, 'allowance'), key);
      if (allowed < units) return revert();
      state.setCell(cellOf(self, 'allowance'), key, allowed - units);
      return moveToken(token, call, fromEvm(from), fromEvm(to), units);
    }
  }
}

function moveToken(token: TokenProgram, call: Call, from: Address, to: Address, units: bigint): Returned {
  const { state, self } = call;
  if (!token.moves) return answer('bool', false);
  if (state.cell(self, PAUSED) > 0n || state.cell(cellOf(self, BARRED), from) > 0n) return revert();
  const space = cellOf(self, BALANCE);
  const fee = (units * token.feeBasisPoints) / 10_000n;
  const energy = state.cell(space, to) > 0n || units === 0n ? ENERGY_KNOWN_RECEIVER : ENERGY_NEW_RECEIVER;
  if (state.cell(space, from) < units) return revert();
  // The zero address of the virtual machine: a burn by mistake, which USDT refuses.
  if (/^410+$/.test(to)) return revert();
  state.setCell(space, from, state.cell(space, from) - units);
  state.setCell(space, to, state.cell(space, to) + units - fee);
  const logs = [transferLog(self, from, to, units - fee)];
  if (fee > 0n) {
    state.setCell(space, token.owner, state.cell(space, token.owner) + fee);
    logs.push(transferLog(self, from, token.owner, fee));
  }
  if (token.returns === 'nothing') return { ...plain, result: 'SUCCESS', output: '', energy, logs };
  return { ...answer('bool', token.returns === 'true', energy), logs };
}

function runPayer(payer: PayerProgram, call: Call): Returned {
  const { state, self } = call;
  const asked = decode(PAYER_ABI, call.data);
  if (asked === null) return revert();
  switch (asked.functionName) {
    case 'pay':
    case 'payToken':
      return payMany(payer, call, asked);
    case 'freezeAndPay': {
      const [sun, to, amounts] = asked.args;
      const frozen = stake(call, self, sun);
      if (frozen === null) return revert();
      const paid = payMany(payer, call, { functionName: 'pay', args: [to, amounts] });
      return { ...paid, internal: [frozen, ...paid.internal] };
    }
    case 'lend':
      return noted(lend(call, fromEvm(asked.args[0]), asked.args[1], 'delegateResourceOfEnergy'));
    case 'takeBack':
      return noted(lend(call, fromEvm(asked.args[0]), -asked.args[1], 'unDelegateResourceOfEnergy'));
    case 'dieFor': {
      const heir = fromEvm(asked.args[0]);
      const sun = state.account(self)?.balance ?? 0n;
      moveSun(state, self, heir, sun, call.nowMs);
      return noted({ from: self, to: heir, sun, note: 'suicide' });
    }
    case 'opcodeOfTomorrow':
      return noted({ from: self, to: fromEvm(asked.args[0]), sun: asked.args[1], note: 'opcodeOfTomorrow' });
    case 'writeInStaticCall':
      return { ...revert(), result: 'UNKNOWN' };
    case 'endInWordOfTomorrow':
      return { ...plain, result: 'NOT_NAMED_YET', output: '', energy: ENERGY_SMALL };
  }
}

type Payments =
  | { readonly functionName: 'pay'; readonly args: readonly [readonly string[], readonly bigint[]] }
  | { readonly functionName: 'payToken'; readonly args: readonly [string, readonly string[], readonly bigint[]] };

function payMany(payer: PayerProgram, call: Call, asked: Payments): Returned {
  const { state, self } = call;
  const logs: Log[] = [];
  const internal: InternalTransfer[] = [];
  let energy = ENERGY_SMALL;
  const receivers = asked.functionName === 'pay' ? asked.args[0] : asked.args[1];
  const amounts = asked.functionName === 'pay' ? asked.args[1] : asked.args[2];
  for (const [place, receiver] of receivers.entries()) {
    const units = amounts[place] ?? 0n;
    const to = fromEvm(receiver);
    if (asked.functionName === 'pay') {
      energy += ENERGY_TRX_TRANSFER;
      if (!moveSun(state, self, to, units, call.nowMs)) return revert('', energy);
      internal.push({ from: self, to, sun: units, note: 'call' });
    } else {
      const token = fromEvm(asked.args[0]);
      const program = state.program(token);
      if (program?.kind !== 'token') return revert('', energy);
      const one = moveToken(program, { ...call, self: token, caller: self, sun: 0n }, self, to, units);
      energy += one.energy;
      if (one.result !== 'SUCCESS') return revert('', energy);
      logs.push(...one.logs);
    }
  }
  if (payer.revertsAtEnd) return revert('the last call failed', energy);
  return { ...plain, result: 'SUCCESS', output: '', energy, logs, internal };
}

/** `null`: the opcode pushed 0 and was rejected; nothing is noted of it here. */
function noted(one: InternalTransfer | null): Returned {
  return { ...plain, result: 'SUCCESS', output: '', energy: ENERGY_SMALL, internal: one === null ? [] : [one] };
}

function stake({ state }: Call, self: Address, sun: bigint): InternalTransfer | null {
  const account = state.account(self);
  if (account === null || account.balance < sun) return null;
  state.setAccount(self, { ...account, balance: account.balance - sun, stakedEnergy: account.stakedEnergy + sun });
  return { from: self, to: self, sun, note: 'freezeBalanceV2ForEnergy' };
}

/** Below 0: what was lent is taken back. Only energy goes over; the stake stays with the lender. */
function lend({ state, self }: Call, to: Address, sun: bigint, note: string): InternalTransfer | null {
  const [lender, borrower] = [state.account(self), state.account(to)];
  if (lender === null || borrower === null || lender.stakedEnergy < sun || lender.lentEnergy < -sun) return null;
  state.setAccount(self, {
    ...lender,
    stakedEnergy: lender.stakedEnergy - sun,
    lentEnergy: lender.lentEnergy + sun,
  });
  state.setAccount(to, { ...borrower, borrowedEnergy: borrower.borrowedEnergy + sun });
  return { from: self, to, sun: sun < 0n ? -sun : sun, note };
}

/** False: not enough there. The receiver's account is made if it is none. */
export function moveSun(state: Layer, from: Address, to: Address, sun: bigint, nowMs: number): boolean {
  const payer = state.account(from);
  if (payer === null || payer.balance < sun) return false;
  state.setAccount(from, { ...payer, balance: payer.balance - sun });
  const receiver = state.account(to) ?? emptyAccount(nowMs);
  state.setAccount(to, { ...receiver, balance: receiver.balance + sun });
  return true;
}

function transferLog(token: Address, from: Address, to: Address, units: bigint): Log {
  return { address: token, topics: [TRANSFER_TOPIC, topicOf(from), topicOf(to)], data: word(units) };
}

function word(units: bigint): string {
  return units.toString(16).padStart(64, '0');
}
