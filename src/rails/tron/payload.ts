/**
 * The seal: the exact bytes of one transaction, its id, and what must be seen for success. Pure.
 *
 * `txid = sha256(raw_data)`: nothing of the bytes may differ once they are sealed. They name a solid block as reference,
 * so that no small fork makes them invalid, and an expiration, after which they can never be included.
 *
 * TRON has no nonce: two effects with the same content would be one transaction and pay once for two. What differs is
 * `timestamp`, which no node checks: the reference block's time less (effect id mod 10⁷) milliseconds. Two effects of one
 * database that are sealed upon one block never share it, since their ids do not lie 10⁷ apart; and where they did, the
 * identity's uniqueness refuses the second seal. A memo would do as well and costs a fee of its own.
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { txJsonToPb } from 'tronweb/utils';
import { encodeFunctionData, erc20Abi } from 'viem';
import type { EffectIntent, Json, Plan, Seal } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { quotedIntent, quoteInPlan } from '../call-terms.ts';
import { type ExpectedLog, logOfTransfer, logsOfCall, readExpectedLogs } from '../expected-logs.ts';
import { field, parseJson, textOf, unitsOf } from '../json.ts';
import { type MultiSend, multiSendBody, multiSendExpect, readMultiSend, type Spelling } from '../multi-send.ts';
import { canonicalAddress, hexAddress, machineAddress, wordOfAddress } from './address.ts';
import { SUN_MAX, TIMESTAMP_SPREAD_MS } from './limits.ts';

export interface Body {
  readonly kind: 'transfer' | 'call';
  /** The receiver, or the contract that is called. */
  readonly to: string;
  /** Sun. */
  readonly value: bigint;
  readonly data: `0x${string}`;
}

/** A solid block that was known when the effect was planned: a witness must show it. */
export interface Reference {
  readonly number: bigint;
  readonly id: string;
  readonly timeMs: number;
}

/** What the bytes say beside the body. Times are the chain's, in milliseconds. */
export interface Frame {
  readonly reference: Reference;
  readonly expirationMs: number;
  readonly feeLimitSun: bigint;
}

export interface Payload {
  readonly from: string;
  readonly to: string;
  readonly value: bigint;
  readonly data: string;
  readonly txId: string;
  /** `raw_data`, byte by byte. */
  readonly raw: Buffer;
}

export interface Expect {
  /** `transfer`: `contractRet` SUCCESS is enough, since TRX in a block has moved. */
  readonly kind: Body['kind'];
  readonly logs: readonly ExpectedLog[];
  /** A batch, whose lines are judged one by one; `null`: it is none. */
  readonly lines: MultiSend | null;
  readonly reference: Reference;
  readonly expirationMs: number;
}

const SPELLING: Spelling = { canonical: canonicalAddress, machine: machineAddress, word: wordOfAddress };

export function bodyOf(intent: EffectIntent): Body {
  if (intent.lines !== undefined)
    return { kind: 'call', ...multiSendBody(intent, SPELLING), to: canonicalAddress(intent.destination) };
  if (intent.call !== null) {
    const { to, value, data } = intent.call;
    return { kind: 'call', to: canonicalAddress(to), value, data: `0x${data.slice(2).toLowerCase()}` };
  }
  if (intent.asset.contract === null) {
    return { kind: 'transfer', to: canonicalAddress(intent.destination), value: intent.amount, data: '0x' };
  }
  const [wallet, to] = [machineAddress(intent.wallet), machineAddress(intent.destination)];
  // A relayer moves the wallet's tokens by the allowance that the wallet gave it (R15).
  const data =
    machineAddress(intent.signer) === wallet
      ? encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [to, intent.amount] })
      : encodeFunctionData({ abi: erc20Abi, functionName: 'transferFrom', args: [wallet, to, intent.amount] });
  return { kind: 'call', to: canonicalAddress(intent.asset.contract), value: 0n, data };
}

/** An amount that the bytes cannot hold, in words, or `null`. `contract` `null`: sun. */
export function amountFault(contract: string | null, amount: bigint): string | null {
  if (contract === null && amount > SUN_MAX) return `more than ${SUN_MAX} sun do not fit into one transfer: split it`;
  if (amount >= 2n ** 256n) return 'more than a token can hold';
  return amount < 0n ? 'less than nothing' : null;
}

interface RawPb {
  getRawData(): { serializeBinary(): Uint8Array };
}

/** The bytes of `raw_data`. */
export function rawBytes(from: string, body: Body, frame: Frame, effectId: bigint): Buffer {
  const { reference } = frame;
  const raw = {
    contract: [contractJson(from, body)],
    ref_block_bytes: (reference.number & 0xffffn).toString(16).padStart(4, '0'),
    ref_block_hash: reference.id.slice(16, 32),
    expiration: frame.expirationMs,
    timestamp: reference.timeMs - Number(effectId % TIMESTAMP_SPREAD_MS),
    ...(body.kind === 'transfer' ? {} : { fee_limit: toSun(frame.feeLimitSun) }),
  };
  const built = txJsonToPb({ visible: false, raw_data: raw }) as RawPb;
  return Buffer.from(built.getRawData().serializeBinary());
}

function contractJson(from: string, body: Body): Json {
  const owner = hexAddress(from);
  const type = body.kind === 'transfer' ? 'TransferContract' : 'TriggerSmartContract';
  const value =
    body.kind === 'transfer'
      ? { to_address: hexAddress(body.to), owner_address: owner, amount: toSun(body.value) }
      : {
          owner_address: owner,
          contract_address: hexAddress(body.to),
          data: body.data.slice(2),
          ...(body.value === 0n ? {} : { call_value: toSun(body.value) }),
        };
  return { parameter: { value, type_url: `type.googleapis.com/protocol.${type}` }, type };
}

/** tronweb writes 64-bit figures from JavaScript numbers; what is not exact there is not written. */
export function toSun(amount: bigint): number {
  assert(amount >= 0n && amount <= SUN_MAX, 'an amount of sun that tronweb would round');
  return Number(amount); // words: asserted to be exact, and only for tronweb and a node's JSON
}

export function txIdOf(raw: Uint8Array): string {
  return createHash('sha256').update(raw).digest('hex');
}

export function identityOf(txId: string): string {
  return `tron:${txId}`;
}

export function sealEffect(planned: EffectIntent, plan: Plan): Seal {
  const intent = quotedIntent(planned, quoteInPlan(plan));
  const from = canonicalAddress(intent.signer);
  const body = bodyOf(intent);
  const frame = readFrame(plan);
  const raw = rawBytes(from, body, frame, intent.effectId);
  const txId = txIdOf(raw);
  const payload = canonicalize({
    data: body.data,
    from,
    raw: raw.toString('hex'),
    to: body.to,
    txId,
    value: body.value.toString(),
  });
  assert(payload !== undefined, 'a payload is an object');
  return {
    identity: identityOf(txId),
    payload: new TextEncoder().encode(payload),
    expect: {
      kind: body.kind,
      logs: expectedLogs(intent),
      ...(intent.lines === undefined ? {} : { lines: multiSendExpect(intent, SPELLING) }),
      reference: writeReference(frame.reference),
      expiration: String(frame.expirationMs),
    },
    signer: from,
    nonce: null,
    finalBlock: frame.reference.number,
  };
}

function expectedLogs(intent: EffectIntent): Json {
  if (intent.call !== null) return logsOfCall(intent.call, canonicalAddress);
  if (intent.lines !== undefined || intent.asset.contract === null) return [];
  const contract = canonicalAddress(intent.asset.contract);
  return [logOfTransfer(contract, wordOfAddress(intent.wallet), wordOfAddress(intent.destination), intent.amount)];
}

export function writeReference(reference: Reference): Json {
  return { number: reference.number.toString(), id: reference.id, time: String(reference.timeMs) };
}

function readReference(value: Json | undefined): Reference | null {
  const number = unitsOf(field(value, 'number'));
  const id = textOf(field(value, 'id'));
  const time = unitsOf(field(value, 'time'));
  return number === null || id === null || time === null ? null : { number, id, timeMs: Number(time) };
}

function readFrame(plan: Plan): Frame {
  const reference = readReference(plan['reference']);
  const expiration = unitsOf(plan['expiration']);
  const feeLimitSun = unitsOf(plan['feeLimit']);
  assert(reference !== null && expiration !== null && feeLimitSun !== null, 'the plan has no frame');
  return { reference, expirationMs: Number(expiration), feeLimitSun };
}

/** Reads the sealed payload back. One that is not ours, or whose bytes have another id, is a broken invariant. */
export function readPayload(bytes: Uint8Array): Payload {
  const value = parseJson(new TextDecoder().decode(bytes));
  const from = textOf(field(value, 'from'));
  const to = textOf(field(value, 'to'));
  const data = textOf(field(value, 'data'));
  const txId = textOf(field(value, 'txId'));
  const rawHex = textOf(field(value, 'raw'));
  const amount = unitsOf(field(value, 'value'));
  assert(from !== null && to !== null && data !== null && amount !== null, 'sealed payload: a part is missing');
  assert(txId !== null && rawHex !== null, 'sealed payload: the bytes are missing');
  const raw = Buffer.from(rawHex, 'hex');
  assert(txIdOf(raw) === txId, 'sealed payload: the bytes have another id');
  return { from, to, value: amount, data, txId, raw };
}

/** Reads the sealed `expect` back. */
export function readExpect(value: Json): Expect {
  const kind = field(value, 'kind');
  const reference = readReference(field(value, 'reference'));
  const expiration = unitsOf(field(value, 'expiration'));
  assert((kind === 'transfer' || kind === 'call') && reference !== null && expiration !== null, 'expect is not ours');
  const logs = readExpectedLogs(field(value, 'logs'));
  return { kind, logs, lines: readMultiSend(field(value, 'lines')), reference, expirationMs: Number(expiration) };
}
