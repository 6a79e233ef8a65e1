/**
 * The JSON of request bodies. `JSON.parse` takes what two readers understand in two ways (of a field that stands twice it
 * keeps the last) and what later readers die of (a list in a list in a list …). Money must not hang on either, so both are
 * refused here, by name. Everything else is RFC 8259 to the letter; a byte-order mark is not.
 */
import { PayonceError } from '../kernel/errors.ts';
import { JSON_DEPTH_MAX } from './limits.ts';
import { toGot, toPointerPart } from './problems.ts';

const BLANK = /[ \t\n\r]*/y;
// The form of JSON.parse's own grammar: no plus, no leading zero, no bare point.
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;
// oxlint-disable-next-line no-control-regex -- control characters are what a JSON string may not hold
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SHAPE = 'one JSON object in UTF-8';

/** Of the whole body. Throws the refusal. */
export function readJson(bytes: Uint8Array): unknown {
  return new JsonReader(decode(bytes)).readAll();
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // A replaced character would be another reference.
    throw unreadable();
  }
}

class JsonReader {
  readonly #text: string;
  readonly #path: string[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readAll(): unknown {
    const value = this.#readValue();
    if (this.#at !== this.#text.length) throw unreadable();
    return value;
  }

  #readValue(): unknown {
    this.#take(BLANK);
    const value = this.#readBare();
    this.#take(BLANK);
    return value;
  }

  #readBare(): unknown {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#readObject();
      case '[':
        return this.#readArray();
      case '"':
        return this.#readString();
      default: {
        const token = this.#take(LITERAL) || this.#take(NUMBER);
        if (token === '') throw unreadable();
        return JSON.parse(token) as unknown;
      }
    }
  }

  #readObject(): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.#readItems('}', () => {
      this.#take(BLANK);
      const name = this.#readString();
      this.#take(BLANK);
      this.#expect(':');
      this.#enter(name);
      this.#refuseName(object, name);
      object[name] = this.#readValue();
      this.#path.pop();
    });
    return object;
  }

  #readArray(): unknown[] {
    const array: unknown[] = [];
    this.#readItems(']', () => {
      this.#enter(String(array.length));
      array.push(this.#readValue());
      this.#path.pop();
    });
    return array;
  }

  /** From the opening bracket, on which we stand, to the closing one. */
  #readItems(closing: string, readItem: () => void): void {
    this.#at += 1;
    this.#take(BLANK);
    if (this.#text[this.#at] !== closing) {
      readItem();
      while (this.#text[this.#at] === ',') {
        this.#at += 1;
        readItem();
      }
    }
    this.#expect(closing);
  }

  #enter(name: string): void {
    this.#path.push(name);
    if (this.#path.length > JSON_DEPTH_MAX)
      throw new PayonceError('PO_REQUEST_INVALID', {
        detail: 'The body is nested too deep',
        pointer: '',
        got: `more than ${JSON_DEPTH_MAX} levels`,
        expected: `at most ${JSON_DEPTH_MAX} levels of objects and lists`,
      });
  }

  #refuseName(object: Record<string, unknown>, name: string): void {
    const isPrototype = name === '__proto__' || (name === 'prototype' && this.#path.at(-2) === 'constructor');
    const isTwice = Object.hasOwn(object, name);
    if (!isPrototype && !isTwice) return;
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: isTwice ? `The field "${toGot(name)}" stands twice in one object` : `There is no field "${toGot(name)}"`,
      pointer: this.#path.map((part) => `/${toPointerPart(part)}`).join(''),
      got: toGot(name),
      expected: isTwice ? 'each field once' : 'only fields that the API document names',
    });
  }

  #readString(): string {
    const from = this.#at;
    this.#expect('"');
    do this.#take(PLAIN);
    while (this.#take(ESCAPE) !== '');
    this.#expect('"');
    return JSON.parse(this.#text.slice(from, this.#at)) as string;
  }

  #expect(character: string): void {
    if (this.#text[this.#at] !== character) throw unreadable();
    this.#at += 1;
  }

  /** What stands here, stepped over; empty when it is something else. */
  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [token = ''] = pattern.exec(this.#text) ?? [];
    this.#at += token.length;
    return token;
  }
}

function unreadable(): PayonceError {
  return new PayonceError('PO_REQUEST_INVALID', {
    detail: 'The body cannot be read as JSON',
    pointer: '',
    expected: SHAPE,
  });
}

/** No other charset is decoded: guessing one would make other letters of the same bytes. Absent is UTF-8 (RFC 8259). */
export function assertUtf8(contentType: string): void {
  const named = contentType.matchAll(/;\s*charset\s*=\s*("[^"]*"|[^;\s]*)/gi);
  for (const [, charset = ''] of named) {
    if (/^"?utf-?8"?$/i.test(charset)) continue;
    throw new PayonceError('PO_REQUEST_MEDIA', {
      detail: 'The body is JSON in another charset than UTF-8',
      pointer: '/headers/content-type',
      got: toGot(charset),
      expected: 'application/json, in utf-8',
    });
  }
}
