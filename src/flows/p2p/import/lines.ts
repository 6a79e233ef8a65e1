/** A file cut into lines, and a line read as far as its kind, its id and what it refers to. Nothing of it is judged here. */
import { createHash } from 'node:crypto';

/** Longer than any row of orders or legs; a file without line ends must not be held in memory. */
const LINE_BYTES_MAX = 64 * 1024;
const ID_CHARACTERS_MAX = 100;

export type Kind = 'deposit_order' | 'withdraw_order' | 'leg' | 'ledger';
const KINDS: ReadonlySet<string> = new Set<Kind>(['deposit_order', 'withdraw_order', 'leg', 'ledger']);

export interface StagedLine {
  readonly line: number;
  readonly kind: Kind | 'unreadable';
  readonly oldId: string | null;
  readonly depositOldId: string | null;
  readonly withdrawOldId: string | null;
  readonly legOldId: string | null;
  readonly digest: string;
  /** As it stands in the file; `null` where it cannot be read at all. */
  readonly content: string | null;
  /** Why it is doubtful already. */
  readonly doubt: string | null;
}

export type Content = Readonly<Record<string, unknown>>;

/** Lines without their end; `null` for one that is too long. Blank lines count, and are answered too. */
export async function* cutLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array | null> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const take = (): Uint8Array | null => {
    const line = bytes > LINE_BYTES_MAX ? null : Buffer.concat(parts);
    parts = [];
    bytes = 0;
    return line;
  };
  const keep = (part: Uint8Array): void => {
    bytes += part.length;
    if (bytes <= LINE_BYTES_MAX) parts.push(part);
    else parts = [];
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      keep(chunk.subarray(from, end));
      yield take();
      from = end + 1;
    }
    keep(chunk.subarray(from));
  }
  if (bytes > 0) yield take();
}

/** `null` for a blank line. */
export function readLine(line: number, bytes: Uint8Array | null): StagedLine | null {
  if (bytes === null) return unreadable(line, `is longer than ${LINE_BYTES_MAX} bytes`);
  const text = decode(bytes);
  if (text === null) return unreadable(line, 'is not UTF-8 text');
  if (text.trim() === '') return null;
  const content = toContent(text);
  if (content === null) return unreadable(line, 'is not one JSON object');
  const { kind } = content;
  if (typeof kind !== 'string' || !KINDS.has(kind))
    return unreadable(line, `"kind" is not one of ${[...KINDS].join(', ')}`);
  const oldId = toOldId(content['id']);
  const depositOldId = kind === 'leg' ? toOldId(content['deposit_order']) : null;
  if (kind === 'leg' && depositOldId === null) return unreadable(line, 'is a leg that names no "deposit_order"');
  return {
    line,
    kind: kind as Kind,
    oldId,
    depositOldId,
    withdrawOldId: kind === 'leg' ? toOldId(content['withdraw_order']) : null,
    legOldId: kind === 'ledger' ? toOldId(content['leg']) : null,
    digest: digestOf(content),
    content: text,
    doubt: oldId === null ? '"id" is missing, or no text of 1 to 100 printable characters' : null,
  };
}

function unreadable(line: number, doubt: string): StagedLine {
  return {
    line,
    kind: 'unreadable',
    oldId: null,
    depositOldId: null,
    withdrawOldId: null,
    legOldId: null,
    digest: '',
    content: null,
    doubt,
  };
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

export function toContent(text: string): Content | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Content) : null;
  } catch {
    return null;
  }
}

/** Exported numbers of rows are ids too, as long as JSON keeps all their digits. */
export function toOldId(value: unknown): string | null {
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  return typeof text === 'string' && text.length <= ID_CHARACTERS_MAX && /^[^\p{Cc}\p{Cs}]+$/u.test(text) ? text : null;
}

/** The same for the same content, in whatever order its names stand. */
function digestOf(content: Content): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(content)))
    .digest('hex');
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const pairs = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  // A list of pairs, since an object would put names that are numbers first.
  return pairs.map(([name, inner]) => [name, sorted(inner)]);
}
