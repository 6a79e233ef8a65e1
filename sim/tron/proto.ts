/*
 * The little of protocol buffers that a TRON transaction needs: fields of varints and of bytes, in the order of their numbers.
 */
export type ProtoField = { readonly number: number; readonly value: bigint | Buffer };

export class ProtoError extends Error {}

const WIRE_VARINT = 0n;
const WIRE_BYTES = 2n;
/** 64 bits in groups of seven. */
const VARINT_BYTES_MAX = 10;

export function readFields(bytes: Buffer): ProtoField[] {
  const fields: ProtoField[] = [];
  let place = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let count = 0; count < VARINT_BYTES_MAX; count += 1) {
      const byte = bytes[place];
      if (byte === undefined) break;
      place += 1;
      value |= BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new ProtoError('While parsing a protocol message, the input ended unexpectedly in the middle of a field.');
  };
  while (place < bytes.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wire = tag & 7n;
    if (number === 0) throw new ProtoError('Protocol message contained an invalid tag (zero).');
    if (wire === WIRE_VARINT) {
      fields.push({ number, value: varint() });
    } else if (wire === WIRE_BYTES) {
      const length = Number(varint());
      if (length < 0 || place + length > bytes.length) {
        throw new ProtoError(
          'While parsing a protocol message, the input ended unexpectedly in the middle of a field.',
        );
      }
      fields.push({ number, value: bytes.subarray(place, place + length) });
      place += length;
    } else {
      throw new ProtoError('Protocol message tag had invalid wire type.');
    }
  }
  return fields;
}

/** Zeros and empty bytes are left out, as proto3 does; repeated fields that may be empty are not among TRON's. */
export function writeFields(fields: readonly ProtoField[]): Buffer {
  const pieces: Buffer[] = [];
  const ordered = [...fields].sort((one, other) => one.number - other.number);
  for (const { number, value } of ordered) {
    if (typeof value === 'bigint') {
      if (value === 0n) continue;
      pieces.push(varint((BigInt(number) << 3n) | WIRE_VARINT), varint(value));
    } else if (value.length > 0) {
      pieces.push(varint((BigInt(number) << 3n) | WIRE_BYTES), varint(BigInt(value.length)), value);
    }
  }
  return Buffer.concat(pieces);
}

export function bytesIn(fields: readonly ProtoField[], number: number): Buffer {
  const found = fields.findLast((field) => field.number === number)?.value;
  return Buffer.isBuffer(found) ? found : Buffer.alloc(0);
}

export function wholeIn(fields: readonly ProtoField[], number: number): bigint {
  const found = fields.findLast((field) => field.number === number)?.value;
  return typeof found === 'bigint' ? found : 0n;
}

export function allBytesIn(fields: readonly ProtoField[], number: number): Buffer[] {
  return fields.flatMap((field) => (field.number === number && Buffer.isBuffer(field.value) ? [field.value] : []));
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, value);
  do {
    const low = Number(left & 0x7fn);
    left >>= 7n;
    bytes.push(left > 0n ? low | 0x80 : low);
  } while (left > 0n);
  return Buffer.from(bytes);
}
