/** The seal: what exactly is promised to the chain, and what must be seen for success. Pure. */
import canonicalize from 'canonicalize';
import { encodeFunctionData, erc20Abi } from 'viem';
import type { Allotment, EffectIntent, Json, Plan, Seal } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { quotedIntent, quoteInPlan } from '../call-terms.ts';
import { type ExpectedLog, logOfTransfer, logsOfCall, readExpectedLogs } from '../expected-logs.ts';
import { type MultiSend, multiSendBody, multiSendExpect, readMultiSend, type Spelling } from '../multi-send.ts';
import { canonicalAddress } from './address.ts';
import { field, hexOf, unitsOf } from './json.ts';

/** What the transaction says, whatever its fees: the same for every variant but a cancel. */
export interface Payload {
  readonly chainId: bigint;
  readonly from: `0x${string}`;
  readonly nonce: bigint;
  readonly to: `0x${string}`;
  readonly value: bigint;
  readonly data: `0x${string}`;
}

/** A finalized block that was known when the effect was planned: a witness must show it. */
export interface Reference {
  readonly number: bigint;
  readonly hash: string;
}

/** `logs` empty: status 1 is enough (a value transfer). */
export interface Expect {
  readonly logs: readonly ExpectedLog[];
  /** A batch, whose lines are judged one by one; `null`: it is none. */
  readonly lines: MultiSend | null;
  readonly reference: Reference;
}

const SPELLING: Spelling = { canonical: canonicalAddress, machine: canonicalAddress, word: wordOfAddress };

/** The target, value and data of an intent. */
export function bodyOf(intent: EffectIntent): Pick<Payload, 'to' | 'value' | 'data'> {
  if (intent.call !== null) {
    const { to, value, data } = intent.call;
    return { to: canonicalAddress(to), value, data: `0x${data.slice(2).toLowerCase()}` };
  }
  const destination = canonicalAddress(intent.destination);
  if (intent.lines !== undefined) return { ...multiSendBody(intent, SPELLING), to: destination };
  if (intent.asset.contract === null) return { to: destination, value: intent.amount, data: '0x' };
  const wallet = canonicalAddress(intent.wallet);
  // A relayer moves the wallet's tokens by the allowance that the wallet gave it (R15).
  const data =
    canonicalAddress(intent.signer) === wallet
      ? encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [destination, intent.amount] })
      : encodeFunctionData({
          abi: erc20Abi,
          functionName: 'transferFrom',
          args: [wallet, destination, intent.amount],
        });
  return { to: canonicalAddress(intent.asset.contract), value: 0n, data };
}

export function identityOf(chainId: bigint, signer: string, nonce: bigint): string {
  return `evm:${chainId}:${canonicalAddress(signer)}:${nonce}`;
}

export function sealEffect(chainId: bigint, planned: EffectIntent, plan: Plan, allotment: Allotment | null): Seal {
  const intent = quotedIntent(planned, quoteInPlan(plan));
  assert(allotment !== null, 'an EVM effect is sealed with a nonce from its signer row');
  const signer = canonicalAddress(allotment.signer);
  assert(signer === canonicalAddress(intent.signer), 'the nonce was allotted to another signer');
  const payload: Payload = { chainId, from: signer, nonce: allotment.nonce, ...bodyOf(intent) };
  const reference = referenceOf(plan['reference']);
  assert(reference !== null, 'the plan names no reference block');
  return {
    identity: identityOf(chainId, signer, allotment.nonce),
    payload: writePayload(payload),
    expect: {
      logs: expectedLogs(intent),
      ...(intent.lines === undefined ? {} : { lines: multiSendExpect(intent, SPELLING) }),
      reference: { number: reference.number.toString(), hash: reference.hash },
    },
    signer,
    nonce: allotment.nonce,
  };
}

function expectedLogs(intent: EffectIntent): Json {
  if (intent.call !== null) return logsOfCall(intent.call, canonicalAddress);
  if (intent.lines !== undefined || intent.asset.contract === null) return [];
  const contract = canonicalAddress(intent.asset.contract);
  return [logOfTransfer(contract, wordOfAddress(intent.wallet), wordOfAddress(intent.destination), intent.amount)];
}

export function wordOfAddress(address: string): string {
  return `0x${canonicalAddress(address).slice(2).padStart(64, '0')}`;
}

/** RFC 8785 text: one payload, one text. */
export function writePayload(payload: Payload): Uint8Array {
  const text = canonicalize({
    chainId: payload.chainId.toString(),
    data: payload.data,
    from: payload.from,
    nonce: payload.nonce.toString(),
    to: payload.to,
    value: payload.value.toString(),
  });
  assert(text !== undefined, 'a payload is an object');
  return new TextEncoder().encode(text);
}

/** The inverse of `writePayload`. A sealed payload that does not read back is a broken invariant. */
export function readPayload(bytes: Uint8Array): Payload {
  const value = JSON.parse(new TextDecoder().decode(bytes)) as Json;
  const chainId = unitsOf(field(value, 'chainId'));
  const nonce = unitsOf(field(value, 'nonce'));
  const amount = unitsOf(field(value, 'value'));
  const from = hexOf(field(value, 'from'));
  const to = hexOf(field(value, 'to'));
  const data = hexOf(field(value, 'data'));
  assert(chainId !== null && nonce !== null && amount !== null, 'sealed payload: a figure is missing');
  assert(from !== null && to !== null && data !== null, 'sealed payload: an address or the data is missing');
  return { chainId, from: asHex(from), nonce, to: asHex(to), value: amount, data: asHex(data) };
}

export function asHex(text: string): `0x${string}` {
  return `0x${text.slice(2)}`;
}

export function referenceOf(value: Json | undefined): Reference | null {
  const number = unitsOf(field(value, 'number'));
  const hash = hexOf(field(value, 'hash'));
  return number === null || hash === null ? null : { number, hash };
}

/** Reads the sealed `expect` back. */
export function readExpect(value: Json): Expect {
  const reference = referenceOf(field(value, 'reference'));
  assert(reference !== null, 'sealed expect is not ours');
  return { reference, logs: readExpectedLogs(field(value, 'logs')), lines: readMultiSend(field(value, 'lines')) };
}
