/*
 * The contracts that a transaction can carry, as tables: each field's name, number and kind. From the tables come the bytes,
 * what is read from JSON, and what is printed to it.
 */
import { fromBase58, isAddress, toBase58 } from './address.ts';
import { isWireObject, type Wire, type WireObject } from '../bank/wire-json.ts';
import { bytesIn, type ProtoField, readFields, wholeIn, writeFields } from './proto.ts';

type Kind = 'address' | 'hex' | 'name' | 'whole' | 'flag' | 'resource';
type Field = { readonly name: string; readonly number: number; readonly kind: Kind };

/** Bytes as hexadecimal text, whole numbers as bigint; what is absent is '' or 0. */
export type Values = Readonly<Record<string, string | bigint>>;

/** As java-tron's reader says it; the class is part of what the caller gets to see. */
export class WireParseError extends Error {}
export class NullPointer extends Error {
  constructor() {
    super('null');
  }
}

const owner: Field = { name: 'owner_address', number: 1, kind: 'address' };
const receiver: Field = { name: 'receiver_address', number: 4, kind: 'address' };
const to: Field = { name: 'to_address', number: 2, kind: 'address' };

const whole = (name: string, number: number): Field => ({ name, number, kind: 'whole' });
const resource = (number: number): Field => ({ name: 'resource', number, kind: 'resource' });

const CONTRACTS = {
  AccountCreateContract: {
    type: 0,
    fields: [owner, { name: 'account_address', number: 2, kind: 'address' }, whole('type', 3)],
  },
  TransferContract: { type: 1, fields: [owner, to, whole('amount', 3)] },
  TransferAssetContract: {
    type: 2,
    fields: [
      { name: 'asset_name', number: 1, kind: 'name' },
      { ...owner, number: 2 },
      { ...to, number: 3 },
      whole('amount', 4),
    ],
  },
  TriggerSmartContract: {
    type: 31,
    fields: [
      owner,
      { name: 'contract_address', number: 2, kind: 'address' },
      whole('call_value', 3),
      { name: 'data', number: 4, kind: 'hex' },
      whole('call_token_value', 5),
      whole('token_id', 6),
    ],
  },
  FreezeBalanceV2Contract: { type: 54, fields: [owner, whole('frozen_balance', 2), resource(3)] },
  DelegateResourceContract: {
    type: 57,
    fields: [
      owner,
      resource(2),
      whole('balance', 3),
      receiver,
      { name: 'lock', number: 5, kind: 'flag' },
      whole('lock_period', 6),
    ],
  },
  UnDelegateResourceContract: { type: 58, fields: [owner, resource(2), whole('balance', 3), receiver] },
} as const satisfies Record<string, { type: number; fields: readonly Field[] }>;

export type ContractName = keyof typeof CONTRACTS;

export function isContractName(name: string): name is ContractName {
  return Object.hasOwn(CONTRACTS, name);
}

export function typeOf(name: ContractName): number {
  return CONTRACTS[name].type;
}

export function nameOfType(type: number): ContractName | null {
  return (
    Object.keys(CONTRACTS).find((name): name is ContractName => isContractName(name) && typeOf(name) === type) ?? null
  );
}

export function decodeMessage(name: ContractName, bytes: Buffer): Values {
  const read = readFields(bytes);
  const values: Record<string, string | bigint> = {};
  for (const { name: field, number, kind } of fieldsOf(name)) {
    values[field] = isBytes(kind) ? bytesIn(read, number).toString('hex') : wholeIn(read, number);
  }
  return values;
}

export function encodeMessage(name: ContractName, values: Values): Buffer {
  const fields = fieldsOf(name).map(({ name: field, number }): ProtoField => {
    const value = values[field] ?? 0n;
    return { number, value: typeof value === 'bigint' ? value : Buffer.from(value, 'hex') };
  });
  return writeFields(fields);
}

/** Fields that no table names are passed over, as java-tron does. */
export function readMessage(name: ContractName, json: WireObject, visible: boolean): Values {
  const values: Record<string, string | bigint> = {};
  for (const { name: field, kind } of fieldsOf(name)) {
    const given = json[field];
    if (given === undefined || given === null) continue;
    values[field] = readValue(kind, given, visible);
  }
  return values;
}

export function printMessage(name: ContractName, values: Values, visible: boolean): WireObject {
  const json: WireObject = {};
  for (const { name: field, kind } of fieldsOf(name)) {
    const value = values[field] ?? 0n;
    if (value === 0n || value === '') continue;
    json[field] = printValue(kind, value, visible);
  }
  return json;
}

export function readHex(given: Wire): string {
  if (typeof given !== 'string') throw new WireParseError('1:1: Expected string.');
  const bare = given.startsWith('0x') ? given.slice(2) : given;
  if (!/^[0-9a-fA-F]*$/.test(bare)) throw new WireParseError('1:1: INVALID hex String');
  return (bare.length % 2 === 1 ? `0${bare}` : bare).toLowerCase();
}

export function readAddress(given: Wire, visible: boolean): string {
  if (!visible) return readHex(given);
  if (typeof given !== 'string') throw new WireParseError('1:1: Expected string.');
  const address = fromBase58(given);
  // java-tron's decoder gives null for a wrong checksum, and the copy of null fails.
  if (address === null) throw new NullPointer();
  return address;
}

export function readWhole(given: Wire): bigint {
  if (typeof given !== 'bigint')
    throw new WireParseError(`1:1: Couldn't parse integer: For input string: "${show(given)}"`);
  if (BigInt.asIntN(64, given) !== given) {
    throw new WireParseError(`1:1: Couldn't parse integer: Number out of range for 64-bit signed integer: ${given}`);
  }
  return given;
}

export function printAddress(hex: string, visible: boolean): string {
  return visible && isAddress(hex) ? toBase58(hex) : hex;
}

function fieldsOf(name: ContractName): readonly Field[] {
  return CONTRACTS[name].fields;
}

function isBytes(kind: Kind): boolean {
  return kind === 'address' || kind === 'hex' || kind === 'name';
}

function readValue(kind: Kind, given: Wire, visible: boolean): string | bigint {
  switch (kind) {
    case 'address':
      return readAddress(given, visible);
    case 'hex':
      return readHex(given);
    case 'name':
      return visible && typeof given === 'string' ? Buffer.from(given, 'utf8').toString('hex') : readHex(given);
    case 'whole':
      return readWhole(given);
    case 'flag':
      if (typeof given !== 'boolean') throw new WireParseError('1:1: Expected "true" or "false".');
      return given ? 1n : 0n;
    case 'resource':
      if (given === 'BANDWIDTH' || given === 0n) return 0n;
      if (given === 'ENERGY' || given === 1n) return 1n;
      throw new WireParseError(`1:1: Enum type "protocol.ResourceCode" has no value named "${show(given)}".`);
  }
}

function printValue(kind: Kind, value: string | bigint, visible: boolean): Wire {
  if (typeof value === 'string') {
    if (kind === 'address') return printAddress(value, visible);
    return kind === 'name' && visible ? Buffer.from(value, 'hex').toString('utf8') : value;
  }
  if (kind === 'flag') return value === 1n;
  if (kind === 'resource') return value === 1n ? 'ENERGY' : 'BANDWIDTH';
  return value;
}

function show(given: Wire): string {
  return isWireObject(given) || Array.isArray(given) ? '{' : String(given);
}
