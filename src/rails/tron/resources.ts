/** What an account has to pay with: TRX, bandwidth and energy; and the chain's prices. Read strictly. Pure. */
import { field, isArray, isObject, textOf, longOf } from '../json.ts';
import type { Json } from '../../engine/rail.ts';
import { SUN_MAX } from './limits.ts';
import type { TronResult } from './wire.ts';

export interface Account {
  /** `false`: the chain has no such account; TRX sent there makes it, for a fee. */
  readonly exists: boolean;
  readonly isContract: boolean;
  readonly balanceSun: bigint;
}

export function readAccount(result: TronResult | undefined): Account | null {
  if (result?.kind !== 'value' || !isObject(result.value)) return null;
  if (Object.keys(result.value).length === 0) return { exists: false, isContract: false, balanceSun: 0n };
  if (textOf(result.value['address']) === null) return null;
  // Defaults of protobuf are not printed.
  const balanceSun = longOf(result.value['balance'] ?? '0');
  return balanceSun === null
    ? null
    : { exists: true, isContract: field(result.value, 'type') === 'Contract', balanceSun };
}

export interface Resources {
  readonly energy: bigint;
  /** Staked bandwidth, and what is free each day: a transaction takes all of its bytes from one of the two. */
  readonly stakedBandwidth: bigint;
  readonly freeBandwidth: bigint;
}

export function readResources(result: TronResult | undefined): Resources | null {
  if (result?.kind !== 'value' || !isObject(result.value)) return null;
  const figure = (name: string): bigint | null => longOf(field(result.value, name) ?? '0');
  const left = (limit: string, used: string): bigint | null => {
    const [all, gone] = [figure(limit), figure(used)];
    return all === null || gone === null ? null : all > gone ? all - gone : 0n;
  };
  const energy = left('EnergyLimit', 'EnergyUsed');
  const stakedBandwidth = left('NetLimit', 'NetUsed');
  const freeBandwidth = left('freeNetLimit', 'freeNetUsed');
  return energy === null || stakedBandwidth === null || freeBandwidth === null
    ? null
    : { energy, stakedBandwidth, freeBandwidth };
}

/** Sun per unit, and sun for making an account. */
export interface Prices {
  readonly energy: bigint;
  readonly bandwidth: bigint;
  readonly newAccount: bigint;
}

export function readPrices(result: TronResult): Prices | null {
  const list = result.kind === 'value' ? field(result.value, 'chainParameter') : undefined;
  if (!isArray(list)) return null;
  const figures = new Map(list.map((one) => [textOf(field(one, 'key')), priceOf(field(one, 'value') ?? '0')]));
  const energy = figures.get('getEnergyFee') ?? null;
  const bandwidth = figures.get('getTransactionFee') ?? null;
  if (energy === null || bandwidth === null || energy === 0n || bandwidth === 0n) return null;
  const newAccount =
    (figures.get('getCreateNewAccountFeeInSystemContract') ?? 0n) + (figures.get('getCreateAccountFee') ?? 0n);
  return { energy, bandwidth, newAccount };
}

/** More sun than there is TRX is no price: multiplied by a size it would not fit where needs are written down. */
function priceOf(value: Json): bigint | null {
  const sun = longOf(value);
  return sun === null || sun > SUN_MAX ? null : sun;
}

/** What the virtual machine made of a call that was not sent. */
export type Simulation =
  | { readonly kind: 'ran'; readonly energy: bigint; readonly word: string | null }
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'unreadable'; readonly why: string };

export function readSimulation(result: TronResult | undefined): Simulation {
  if (result?.kind !== 'value') return { kind: 'unreadable', why: result?.detail ?? 'not asked' };
  const told = field(result.value, 'result');
  const code = textOf(field(told, 'code'));
  const message = fromHex(textOf(field(told, 'message')));
  const ret = field(field(result.value, 'transaction'), 'ret');
  const failed = isArray(ret) && field(ret[0], 'ret') === 'FAILED';
  if (failed || (code !== null && code !== 'SUCCESS' && FAILED_CODES.has(code))) {
    return { kind: 'failed', why: message === '' ? (code ?? 'REVERT') : message };
  }
  const energy = longOf(field(result.value, 'energy_used') ?? '0');
  if (field(told, 'result') !== true || energy === null) {
    return { kind: 'unreadable', why: `${code ?? 'no result'}: ${message}` };
  }
  const words = field(result.value, 'constant_result');
  return { kind: 'ran', energy, word: isArray(words) ? textOf(words[0]) : null };
}

/** What the contract itself, or the account, says of this call; all other codes speak of the node. */
const FAILED_CODES: ReadonlySet<string> = new Set(['CONTRACT_VALIDATE_ERROR', 'CONTRACT_EXE_ERROR']);

function fromHex(text: string | null): string {
  return text !== null && /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, 'hex').toString('utf8') : (text ?? '');
}

/** A word of 32 bytes as a figure. */
export function figureOf(word: string | null): bigint | null {
  return word !== null && /^[0-9a-fA-F]{64}$/.test(word) ? BigInt(`0x${word}`) : null;
}
