/*
 * A TRON transaction, from its bytes or from its JSON. The id is the hash of raw_data as it is encoded again: a txID or a
 * raw_data_hex that came with the JSON is not looked at, exactly as in java-tron.
 */
import { recoverAddress } from 'viem';
import { at, isWireObject, type Wire, type WireObject } from '../bank/wire-json.ts';
import { type Address, fromEvm, sha256 } from './address.ts';
import {
  type ContractName,
  decodeMessage,
  encodeMessage,
  isContractName,
  nameOfType,
  NullPointer,
  printMessage,
  readHex,
  readMessage,
  readWhole,
  typeOf,
  type Values,
  WireParseError,
} from './messages.ts';
import { allBytesIn, bytesIn, type ProtoField, readFields, wholeIn, writeFields } from './proto.ts';

export type Contract = {
  /** `null`: a kind that this chain does not play. */
  readonly name: ContractName | null;
  readonly values: Values;
  readonly typeUrl: string;
  readonly permissionId: number;
};

export type TronTransaction = {
  readonly id: string;
  readonly raw: Buffer;
  /** With signatures, without results: what bandwidth is counted on. */
  readonly sizeBytes: number;
  readonly refBlockBytes: string;
  readonly refBlockHash: string;
  readonly expiration: number;
  readonly timestamp: number;
  readonly feeLimit: bigint;
  readonly data: string;
  readonly contracts: readonly Contract[];
  readonly signatures: readonly string[];
  /** Who signed, by recovery; `null` where the signature is none. */
  readonly signers: readonly (Address | null)[];
};

const RAW = { refBytes: 1, refHash: 4, expiration: 8, data: 10, contract: 11, timestamp: 14, feeLimit: 18 } as const;
const CONTRACT = { type: 1, parameter: 2, permission: 5 } as const;
const SIGNATURE_BYTES = 65;

export type Draft = {
  readonly refBlockBytes: string;
  readonly refBlockHash: string;
  readonly expiration: number;
  readonly timestamp: number;
  readonly feeLimit?: bigint;
  readonly data?: string;
  readonly contract: ContractName;
  readonly values: Values;
  readonly permissionId?: number;
};

export function encodeDraft(draft: Draft): Buffer {
  const contract = encodeContract(draft.contract, draft.values, typeUrlOf(draft.contract), draft.permissionId ?? 0);
  return writeFields([
    { number: RAW.refBytes, value: Buffer.from(draft.refBlockBytes, 'hex') },
    { number: RAW.refHash, value: Buffer.from(draft.refBlockHash, 'hex') },
    { number: RAW.expiration, value: BigInt(draft.expiration) },
    { number: RAW.data, value: Buffer.from(draft.data ?? '', 'hex') },
    { number: RAW.contract, value: contract },
    { number: RAW.timestamp, value: BigInt(draft.timestamp) },
    { number: RAW.feeLimit, value: draft.feeLimit ?? 0n },
  ]);
}

export async function fromRaw(raw: Buffer, signatures: readonly string[]): Promise<TronTransaction> {
  const id = sha256(raw).toString('hex');
  return readRaw(raw, signatures, await Promise.all(signatures.map(async (signature) => recover(id, signature))));
}

/** Signers as they are known already. */
export function readRaw(
  raw: Buffer,
  signatures: readonly string[],
  signers: readonly (Address | null)[],
): TronTransaction {
  const fields = readFields(raw);
  const whole = writeFields([
    { number: 1, value: raw },
    ...signatures.map((signature): ProtoField => ({ number: 2, value: Buffer.from(signature, 'hex') })),
  ]);
  return {
    id: sha256(raw).toString('hex'),
    raw,
    sizeBytes: whole.length,
    refBlockBytes: bytesIn(fields, RAW.refBytes).toString('hex'),
    refBlockHash: bytesIn(fields, RAW.refHash).toString('hex'),
    expiration: Number(wholeIn(fields, RAW.expiration)),
    timestamp: Number(wholeIn(fields, RAW.timestamp)),
    feeLimit: wholeIn(fields, RAW.feeLimit),
    data: bytesIn(fields, RAW.data).toString('hex'),
    contracts: allBytesIn(fields, RAW.contract).map(readContract),
    signatures,
    signers,
  };
}

export async function fromHex(given: Wire): Promise<TronTransaction> {
  // fromHexString(null) is an empty message, not an error.
  const fields = readFields(Buffer.from(given === null ? '' : readHex(given), 'hex'));
  const signatures = allBytesIn(fields, 2).map((signature) => signature.toString('hex'));
  return fromRaw(Buffer.from(bytesIn(fields, 1)), signatures);
}

export async function fromJson(body: Wire, visible: boolean): Promise<TronTransaction> {
  const json = at(body, 'raw_data');
  if (!isWireObject(json)) throw new NullPointer();
  const listed = json.contract;
  if (!Array.isArray(listed)) throw new NullPointer();
  // A contract that cannot be read is left out, and the transaction is refused later for having none.
  const contracts = listed.flatMap((one) => contractFromJson(one, visible));
  const raw = writeFields([
    { number: RAW.refBytes, value: hexField(json, 'ref_block_bytes') },
    { number: RAW.refHash, value: hexField(json, 'ref_block_hash') },
    { number: RAW.expiration, value: wholeField(json, 'expiration') },
    { number: RAW.data, value: hexField(json, 'data') },
    ...contracts.map((value): ProtoField => ({ number: RAW.contract, value })),
    { number: RAW.timestamp, value: wholeField(json, 'timestamp') },
    { number: RAW.feeLimit, value: wholeField(json, 'fee_limit') },
  ]);
  const signed = at(body, 'signature');
  return fromRaw(raw, Array.isArray(signed) ? signed.map(readHex) : []);
}

export function printTransaction(transaction: TronTransaction, visible: boolean): WireObject {
  const { data, feeLimit } = transaction;
  return {
    ...(transaction.signatures.length === 0 ? {} : { signature: [...transaction.signatures] }),
    txID: transaction.id,
    raw_data: {
      ...(data === '' ? {} : { data }),
      contract: transaction.contracts.flatMap(({ name, values, typeUrl, permissionId }): WireObject[] =>
        name === null
          ? []
          : [
              {
                parameter: { value: printMessage(name, values, visible), type_url: typeUrl },
                type: name,
                ...(permissionId === 0 ? {} : { Permission_id: BigInt(permissionId) }),
              },
            ],
      ),
      ref_block_bytes: transaction.refBlockBytes,
      ref_block_hash: transaction.refBlockHash,
      expiration: BigInt(transaction.expiration),
      ...(feeLimit === 0n ? {} : { fee_limit: feeLimit }),
      ...(transaction.timestamp === 0 ? {} : { timestamp: BigInt(transaction.timestamp) }),
    },
    raw_data_hex: transaction.raw.toString('hex'),
  };
}

/** Of the first contract: whose transaction it is. */
export function ownerOf(transaction: TronTransaction): Address {
  return textOf(transaction.contracts[0]?.values ?? {}, 'owner_address');
}

export function textOf(values: Values, name: string): string {
  const value = values[name];
  return typeof value === 'string' ? value : '';
}

export function numberOf(values: Values, name: string): bigint {
  const value = values[name];
  return typeof value === 'bigint' ? value : 0n;
}

function typeUrlOf(name: ContractName): string {
  return `type.googleapis.com/protocol.${name}`;
}

function encodeContract(name: ContractName, values: Values, typeUrl: string, permissionId: number): Buffer {
  const parameter = writeFields([
    { number: 1, value: Buffer.from(typeUrl, 'utf8') },
    { number: 2, value: encodeMessage(name, values) },
  ]);
  return writeFields([
    { number: CONTRACT.type, value: BigInt(typeOf(name)) },
    { number: CONTRACT.parameter, value: parameter },
    { number: CONTRACT.permission, value: BigInt(permissionId) },
  ]);
}

function readContract(bytes: Buffer): Contract {
  const fields = readFields(bytes);
  const parameter = readFields(bytesIn(fields, CONTRACT.parameter));
  const name = nameOfType(Number(wholeIn(fields, CONTRACT.type)));
  return {
    name,
    values: name === null ? {} : decodeMessage(name, bytesIn(parameter, 2)),
    typeUrl: bytesIn(parameter, 1).toString('utf8'),
    permissionId: Number(wholeIn(fields, CONTRACT.permission)),
  };
}

function contractFromJson(given: Wire, visible: boolean): Buffer[] {
  const name = at(given, 'type');
  const value = at(given, 'parameter', 'value');
  const typeUrl = at(given, 'parameter', 'type_url');
  const permission = at(given, 'Permission_id');
  if (typeof name !== 'string' || !isContractName(name) || !isWireObject(value)) return [];
  try {
    const values = readMessage(name, value, visible);
    return [
      encodeContract(
        name,
        values,
        typeof typeUrl === 'string' ? typeUrl : '',
        typeof permission === 'bigint' ? Number(permission) : 0,
      ),
    ];
  } catch (error) {
    if (error instanceof WireParseError || error instanceof NullPointer) return [];
    throw error;
  }
}

function hexField(json: WireObject, name: string): Buffer {
  const given = json[name];
  return given === undefined || given === null ? Buffer.alloc(0) : Buffer.from(readHex(given), 'hex');
}

function wholeField(json: WireObject, name: string): bigint {
  const given = json[name];
  return given === undefined || given === null ? 0n : readWhole(given);
}

async function recover(id: string, signature: string): Promise<Address | null> {
  if (signature.length < 2 * SIGNATURE_BYTES) return null;
  try {
    return fromEvm(
      await recoverAddress({ hash: `0x${id}`, signature: `0x${signature.slice(0, 2 * SIGNATURE_BYTES)}` }),
    );
  } catch {
    return null;
  }
}
