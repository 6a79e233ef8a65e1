/**
 * Many lines in one call to a multi-send contract: its bytes, and each line's own truth out of the receipt's logs. Pure, and
 * the same for all chains whose logs look alike.
 *
 * The contract says of every line, by our own name of it, `Paid` or `Failed`; what failed moved nothing, since it ran in a frame of
 * its own. Of a token that word is not enough: a paid line has a Transfer log of its own, from the payer to its payee, of exactly
 * its amount, and no log stands for two lines. What does not fit together is unknown, for people, never success, never failure.
 */
import { encodeFunctionData, parseAbi, stringToHex } from 'viem';
import type { ChainLine, EffectIntent, Json, LineTruth, ObservationKind } from '../engine/rail.ts';
import { assert } from '../kernel/errors.ts';
import { type ShownLog, TRANSFER_TOPIC } from './expected-logs.ts';
import { field, isArray, textOf, unitsOf } from './json.ts';

/** One call must fit into a block beside others: 200 lines are 15 million gas, half of the smallest block of a large chain. */
export const LINES_MAX = 200;

export const MULTI_SEND_ABI = parseAbi([
  'function payTokens(address token, bytes32[] refs, address[] to, uint256[] amounts) returns (uint256 paid)',
  'function payCoins(bytes32[] refs, address[] to, uint256[] amounts) payable returns (uint256 paid)',
]);
/** `Paid(bytes32,address,uint256)` and `Failed(bytes32,address,uint256)`. */
export const PAID_TOPIC = '0x606160394df2742a67735645b7e783304d61d2dbc5b550e8c6acfaf27b6291d7';
export const FAILED_TOPIC = '0xa338f16afa39e4a08a21fdbadc74229990a1d008cbdb4267a349bae09744bc2b';

/** How a chain writes an address. */
export interface Spelling {
  canonical(address: string): string;
  machine(address: string): `0x${string}`;
  word(address: string): string;
}

export interface MultiSend {
  readonly contract: string;
  /** `null`: the chain's coin. */
  readonly token: string | null;
  /** Words of 32 bytes, as in logs. */
  readonly payer: string;
  readonly lines: readonly {
    readonly ref: string;
    readonly name: string;
    readonly to: string;
    readonly amount: bigint;
  }[];
}

const REF = /^[\x21-\x7e]{1,32}$/;

function refWord(ref: string): `0x${string}` {
  return stringToHex(ref, { size: 32 });
}

/** The lines that a call pays, or `null` where the effect is no batch. Why it cannot be one, in words. */
export function chainLines(effect: EffectIntent): readonly ChainLine[] | { readonly fault: string } | null {
  const { lines } = effect;
  if (lines === undefined) return null;
  const ours = lines.flatMap((line) => ('to' in line ? [line] : []));
  if (ours.length !== lines.length || ours.length === 0) return { fault: 'a line names no address' };
  if (ours.length > LINES_MAX) return { fault: `${ours.length} lines; one call takes ${LINES_MAX}` };
  if (ours.some((line) => !REF.test(line.ref))) return { fault: 'a line’s name does not fit into one word' };
  if (new Set(ours.map((line) => line.ref)).size !== ours.length) return { fault: 'two lines have one name' };
  if (ours.some((line) => line.amount <= 0n)) return { fault: 'an amount of zero or less' };
  const sum = ours.reduce((total, line) => total + line.amount, 0n);
  return sum === effect.amount ? ours : { fault: 'the lines do not add up' };
}

function linesOf(effect: EffectIntent): readonly ChainLine[] {
  const lines = chainLines(effect);
  assert(lines !== null && !('fault' in lines), `effect ${effect.effectId} is no batch that can be sealed`);
  return lines;
}

/** Target, value and data of the call. */
export function multiSendBody(effect: EffectIntent, spell: Spelling) {
  const lines = linesOf(effect);
  const refs = lines.map((line) => refWord(line.ref));
  const to = lines.map((line) => spell.machine(line.to));
  const amounts = lines.map((line) => line.amount);
  const { contract } = effect.asset;
  const data =
    contract === null
      ? encodeFunctionData({ abi: MULTI_SEND_ABI, functionName: 'payCoins', args: [refs, to, amounts] })
      : encodeFunctionData({
          abi: MULTI_SEND_ABI,
          functionName: 'payTokens',
          args: [spell.machine(contract), refs, to, amounts],
        });
  return { to: effect.destination, value: contract === null ? effect.amount : 0n, data };
}

/** What the seal expects of the receipt, line by line. */
export function multiSendExpect(effect: EffectIntent, spell: Spelling): Json {
  return {
    contract: spell.canonical(effect.destination),
    token: effect.asset.contract === null ? null : spell.canonical(effect.asset.contract),
    payer: spell.word(effect.wallet),
    lines: linesOf(effect).map((line) => ({
      ref: line.ref,
      to: spell.word(line.to),
      amount: line.amount.toString(),
    })),
  };
}

/** Reads it back; `null`: the effect is no batch. */
export function readMultiSend(value: Json | undefined): MultiSend | null {
  if (value === undefined || value === null) return null;
  const contract = textOf(field(value, 'contract'));
  const payer = textOf(field(value, 'payer'));
  const lines = field(value, 'lines');
  assert(contract !== null && payer !== null && isArray(lines), 'sealed lines are not ours');
  return {
    contract,
    token: textOf(field(value, 'token')),
    payer,
    lines: lines.map((line) => {
      const [ref, to, amount] = [textOf(field(line, 'ref')), textOf(field(line, 'to')), unitsOf(field(line, 'amount'))];
      assert(ref !== null && to !== null && amount !== null, 'a sealed line is not ours');
      return { ref, name: refWord(ref), to, amount };
    }),
  };
}

function wordOf(amount: bigint): string {
  return `0x${amount.toString(16).padStart(64, '0')}`;
}

/** One truth for each sealed line, in order, out of the logs of one successful transaction. */
export function lineTruths(sent: MultiSend, logs: readonly ShownLog[], hash: string): readonly LineTruth[] {
  const said = new Map<string, ShownLog[]>();
  for (const log of logs) {
    const [topic, name] = log.topics;
    if (log.address !== sent.contract || (topic !== PAID_TOPIC && topic !== FAILED_TOPIC) || name === undefined)
      continue;
    said.set(name, [...(said.get(name) ?? []), log]);
  }
  const unused = new Set(sent.token === null ? [] : logs.filter((log) => isTransfer(sent, log)));
  const takeTransfer = (line: MultiSend['lines'][number]): boolean => {
    const found = [...unused].find((log) => log.topics[2] === line.to && log.data === wordOf(line.amount));
    return found !== undefined && unused.delete(found);
  };
  const first = sent.lines.map((line): LineTruth => {
    const says = (outcome: LineTruth['outcome'], detail: string): LineTruth => ({
      ref: line.ref,
      outcome,
      objectId: `${hash}:${line.ref}`,
      detail,
    });
    const [log, second] = said.get(line.name) ?? [];
    if (log === undefined) return says('unknown', 'the contract says nothing of this line');
    if (second !== undefined) return says('unknown', 'the contract speaks of this line twice');
    if (log.topics.length !== 3 || log.topics[2] !== line.to || log.data !== wordOf(line.amount))
      return says('unknown', 'the contract names another receiver or amount');
    if (log.topics[0] === FAILED_TOPIC)
      return says('not_paid', 'the contract logged it as failed: nothing of it moved');
    if (sent.token !== null && !takeTransfer(line))
      return says('unknown', 'the contract calls it paid, and no transfer of its own shows it');
    return says('paid', 'the contract logged it as paid');
  });
  // What no paid line accounts for may have paid one that is called failed.
  const stray = new Set([...unused].map((log) => log.topics[2]));
  return first.map((truth, index): LineTruth => {
    if (truth.outcome !== 'not_paid' || !stray.has(sent.lines[index]?.to)) return truth;
    return {
      ...truth,
      outcome: 'unknown',
      detail: 'the contract calls it failed, and a transfer went to its receiver',
    };
  });
}

function isTransfer(sent: MultiSend, log: ShownLog): boolean {
  return (
    log.address === sent.token &&
    log.topics.length === 3 &&
    log.topics[0] === TRANSFER_TOPIC &&
    log.topics[1] === sent.payer
  );
}

/** What a final, successful call shows as a whole. Where every line failed nothing moved, as if it had reverted. */
export function multiSendKind(
  truths: readonly LineTruth[],
): Extract<ObservationKind, 'final_success' | 'reverted_final' | 'moved_otherwise'> {
  if (truths.every((line) => line.outcome === 'not_paid')) return 'reverted_final';
  return truths.some((line) => line.outcome === 'paid') ? 'final_success' : 'moved_otherwise';
}

export function linesInWords(truths: readonly LineTruth[]): string {
  const count = (outcome: LineTruth['outcome']): number => truths.filter((line) => line.outcome === outcome).length;
  return `${count('paid')} lines paid, ${count('not_paid')} failed, ${count('unknown')} not clear`;
}
