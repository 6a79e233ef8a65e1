/*
 * The two contracts that payouts call, as programs of this chain: what they check, log and cost is what their sources in
 * sim/contracts do. A line of a multi-send runs in a frame of its own, and nothing of a failed one stays.
 */
import {
  type Abi,
  decodeFunctionData,
  encodeAbiParameters,
  encodeFunctionData,
  erc20Abi,
  type Hex,
  toEventSelector,
} from 'viem';
import { multiSend, swapAndAllocate } from '../contracts/artifacts.ts';
import { type Address, fromEvm, toEvm, topicOf } from './address.ts';
import type { Program, SwapProgram } from './program-kinds.ts';
import type { Call, Log, Returned } from './program-run.ts';
import { makeLayer } from './state.ts';

type Run = (program: Program, call: Call) => Returned;

/** The cell of a swap's price: units of what comes out for 10^18 of what comes in. */
export const PRICE = 'price';

/** Two looks at a balance and the call around a line; beside that what the token takes. */
const ENERGY_LINE = 12_000n;
const ENERGY_SMALL = 5_000n;
const [PAID, FAILED] = [
  toEventSelector('Paid(bytes32,address,uint256)'),
  toEventSelector('Failed(bytes32,address,uint256)'),
];
const [SWAPPED, ALLOCATED] = [
  toEventSelector('Swapped(bytes32,address,uint256,uint256)'),
  toEventSelector('Allocated(bytes32,address,uint256)'),
];
const SHARE_DIGITS = 44;

export function decode<const A extends Abi>(abi: A, data: string) {
  try {
    return decodeFunctionData({ abi, data: `0x${data}` });
  } catch {
    return null;
  }
}

function ended(result: 'SUCCESS' | 'REVERT', output: string, energy: bigint, logs: readonly Log[] = []): Returned {
  return { result, output, energy, penalty: 0n, logs: result === 'SUCCESS' ? logs : [], internal: [] };
}

function reverted(reason: string, energy: bigint): Returned {
  return ended('REVERT', `08c379a0${encodeAbiParameters([{ type: 'string' }], [reason]).slice(2)}`, energy);
}

function word(units: bigint): string {
  return units.toString(16).padStart(64, '0');
}

function event(self: Address, topic: string, ref: Hex, who: Address, units: readonly bigint[]): Log {
  return { address: self, topics: [topic.slice(2), ref.slice(2), topicOf(who)], data: units.map(word).join('') };
}

/** A call of a contract to a token, in the same frame; `null`: it failed, or is no token. */
function callToken(call: Call, run: Run, token: Address, data: Hex): Returned | null {
  const program = call.state.program(token);
  if (program === null) return null;
  const one = run(program, { ...call, self: token, caller: call.self, data: data.slice(2), sun: 0n });
  return one.result === 'SUCCESS' ? one : null;
}

function balanceAt(call: Call, run: Run, token: Address, holder: Address): bigint | null {
  const data = encodeFunctionData({ abi: erc20Abi, functionName: 'balanceOf', args: [toEvm(holder)] });
  const output = callToken(call, run, token, data)?.output ?? '';
  return output.length === 64 ? BigInt(`0x${output}`) : null;
}

/** Of coin it pays nobody here: no test sends TRX to many. */
export function runMultiSend(call: Call, run: Run): Returned {
  const asked = decode(multiSend.abi, call.data);
  if (asked?.functionName !== 'payTokens' || call.sun > 0n) return ended('REVERT', '', ENERGY_SMALL);
  const [tokenHex, refs, to, amounts] = asked.args;
  if (refs.length !== to.length || to.length !== amounts.length) return reverted('lengths differ', ENERGY_SMALL);
  const token = fromEvm(tokenHex);
  const logs: Log[] = [];
  let [energy, paid] = [ENERGY_SMALL, 0n];
  for (const [place, ref] of refs.entries()) {
    const [receiver, units] = [fromEvm(to[place] ?? ''), amounts[place] ?? 0n];
    const frame = makeLayer(call.state);
    const inside: Call = { ...call, state: frame };
    const before = balanceAt(inside, run, token, receiver);
    const data = encodeFunctionData({
      abi: erc20Abi,
      functionName: 'transferFrom',
      args: [toEvm(call.caller), toEvm(receiver), units],
    });
    const moved = callToken(inside, run, token, data);
    energy += ENERGY_LINE + (moved?.energy ?? 0n);
    const hasArrived = before !== null && balanceAt(inside, run, token, receiver) === before + units;
    if (moved === null || !hasArrived) {
      logs.push(event(call.self, FAILED, ref, receiver, [units]));
      continue;
    }
    frame.mergeInto(call.state);
    paid += 1n;
    logs.push(...moved.logs, event(call.self, PAID, ref, receiver, [units]));
  }
  return ended('SUCCESS', word(paid), energy, logs);
}

/** A token comes in: with TRX it reverts, since no test swaps any here. */
export function runSwap({ tokenOut }: SwapProgram, call: Call, run: Run): Returned {
  const asked = decode(swapAndAllocate.abi, call.data);
  if (asked?.functionName !== 'swapAndAllocate' || call.sun > 0n) return ended('REVERT', '', ENERGY_SMALL);
  const [ref, tokenIn, amountIn, minimumOut, packed] = asked.args;
  const taken = callToken(
    call,
    run,
    fromEvm(tokenIn),
    encodeFunctionData({
      abi: erc20Abi,
      functionName: 'transferFrom',
      args: [toEvm(call.caller), toEvm(call.self), amountIn],
    }),
  );
  if (taken === null) return reverted('the token refused', ENERGY_SMALL);
  let energy = ENERGY_SMALL + taken.energy;
  const amountOut = (amountIn * call.state.cell(`${call.self}.${PRICE}`, '')) / 10n ** 18n;
  if (amountOut < minimumOut) return reverted('output below minimum', energy);
  const shares = packed.slice(2).match(new RegExp(`.{${SHARE_DIGITS}}`, 'g')) ?? [];
  const logs: Log[] = [...taken.logs];
  let [left, basisPoints] = [amountOut, 0n];
  for (const [place, share] of shares.entries()) {
    const [receiver, part] = [fromEvm(`0x${share.slice(0, 40)}`), BigInt(`0x${share.slice(40)}`)];
    basisPoints += part;
    const output = place === shares.length - 1 ? left : (amountOut * part) / 10_000n;
    left -= output;
    const given = callToken(
      call,
      run,
      tokenOut,
      encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [toEvm(receiver), output] }),
    );
    if (given === null) return reverted('the token refused', energy);
    energy += given.energy;
    logs.push(...given.logs, event(call.self, ALLOCATED, ref, receiver, [output]));
  }
  if (basisPoints !== 10_000n) return reverted('shares do not make a whole', energy);
  logs.push(event(call.self, SWAPPED, ref, call.caller, [amountIn, amountOut]));
  return ended('SUCCESS', word(amountOut), energy, logs);
}
