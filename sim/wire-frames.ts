/*
 * Bytes to frames: chunks as they come, or PostgreSQL's wire messages (protocol 3.0). Frames together are the bytes read,
 * none added, none lost; an incomplete message waits for its rest.
 */

export type Frame = {
  /** PostgreSQL's message type (one letter), `start` for the client's untyped first messages, or `chunk`. */
  readonly type: string;
  readonly bytes: Buffer;
  /** Without type and length: for a CommandComplete its tag, for a Query its statement. */
  text(): string;
};

export type FrameReader = (chunk: Buffer) => Frame[];

const LENGTH_BYTES = 4;
/** A client may ask for encryption first; the server answers with one naked byte. */
const ASKS_FOR_ENCRYPTION = new Set([80_877_103, 80_877_104]);

export function makeChunkReader(): FrameReader {
  return (bytes) => [{ type: 'chunk', bytes, text: () => bytes.toString('utf8') }];
}

export function makePostgresReader(): { client: FrameReader; server: FrameReader } {
  let started = false;
  let nakedBytes = 0;
  const readStart = (buffer: Buffer): Frame | undefined => {
    if (buffer.length < LENGTH_BYTES * 2 || buffer.length < buffer.readInt32BE(0)) return undefined;
    const frame = toFrame('start', buffer.subarray(0, buffer.readInt32BE(0)), LENGTH_BYTES);
    if (ASKS_FOR_ENCRYPTION.has(buffer.readInt32BE(LENGTH_BYTES))) nakedBytes += 1;
    else started = true;
    return frame;
  };
  const readNaked = (buffer: Buffer): Frame | undefined => {
    if (buffer.length === 0) return undefined;
    nakedBytes -= 1;
    return toFrame('naked', buffer.subarray(0, 1), 0);
  };
  return {
    client: makeReader((buffer) => (started ? readMessage(buffer) : readStart(buffer))),
    server: makeReader((buffer) => (nakedBytes > 0 ? readNaked(buffer) : readMessage(buffer))),
  };
}

function makeReader(readOne: (buffer: Buffer) => Frame | undefined): FrameReader {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const frames: Frame[] = [];
    for (let frame = readOne(rest); frame !== undefined; frame = readOne(rest)) {
      frames.push(frame);
      rest = rest.subarray(frame.bytes.length);
    }
    return frames;
  };
}

function readMessage(buffer: Buffer): Frame | undefined {
  if (buffer.length < 1 + LENGTH_BYTES) return undefined;
  const length = 1 + buffer.readInt32BE(1);
  if (buffer.length < length) return undefined;
  return toFrame(String.fromCharCode(buffer[0] ?? 0), buffer.subarray(0, length), 1 + LENGTH_BYTES);
}

function toFrame(type: string, bytes: Buffer, headBytes: number): Frame {
  return { type, bytes, text: () => bytes.subarray(headBytes).toString('utf8').replaceAll('\0', ' ').trim() };
}

/** The server's word that a transaction is durable. Swallow it, and the caller does not know that it committed. */
export function isCommitDone(frame: Frame): boolean {
  return frame.type === 'C' && frame.text() === 'COMMIT';
}

/** The client asks for the commit, in a plain query or by parsing the statement. */
export function isCommitAsked(frame: Frame): boolean {
  return (frame.type === 'Q' || frame.type === 'P') && /^commit\b/i.test(frame.text());
}
