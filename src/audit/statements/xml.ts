/**
 * XML as a small tree with line numbers, for files of strangers: no DTD, no entity but XML's own five, no more depth than a
 * statement has, nothing read after the first fault. A document type is refused before anything of it is used, so nothing expands and nothing is fetched.
 */
import { SaxesParser } from 'saxes';
import type { Faults } from './statement.ts';

export interface Element {
  /** Local name in the document's own namespace; `{…}name` in any other. */
  readonly name: string;
  readonly line: number;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: Element[];
  text: string;
}

/** A statement is some 12 deep. */
const DEPTH_MAX = 64;
/** An element of a statement has one or two. */
const ATTRIBUTES_MAX = 64;
/** Nothing is read after the first fault but the rest of a piece; what is broken on purpose costs more the longer it is read. */
const PIECE_CHARACTERS = 4_096;

export interface Document {
  readonly root: Element;
  readonly namespace: string;
}

export function readXml(text: string, faults: Faults): Document | null {
  const parser = new SaxesParser({ xmlns: true, position: true });
  const open: Element[] = [];
  let root: Element | null = null;
  let namespace = '';
  let bad = false;
  // The parser's own handlers set it.
  const isBad = (): boolean => bad;
  const refuse = (detail: string): void => {
    if (!bad) faults.add(`line ${parser.line}, column ${parser.column}`, detail);
    bad = true;
  };
  parser.on('error', (error) => refuse(`it is no well-formed XML: ${error.message.replace(/^[^a-z]*/i, '')}`));
  parser.on('doctype', () => refuse('it carries a document type; statements have none, and none is read'));
  parser.on('xmldecl', ({ encoding }) => {
    if (encoding !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(encoding))
      refuse(`it says that it is ${encoding}; save it as UTF-8`);
  });
  let attributes = 0;
  parser.on('attribute', () => {
    attributes += 1;
    if (attributes > ATTRIBUTES_MAX) refuse(`an element has more than ${ATTRIBUTES_MAX} attributes`);
  });
  parser.on('opentag', (tag) => {
    attributes = 0;
    if (bad) return;
    if (open.length >= DEPTH_MAX) return refuse(`elements stand more than ${DEPTH_MAX} deep`);
    if (root === null) namespace = tag.uri;
    const element: Element = {
      name: tag.uri === namespace ? tag.local : `{${tag.uri}}${tag.local}`,
      line: parser.line,
      attributes: new Map(Object.values(tag.attributes).map((one) => [one.name, one.value])),
      children: [],
      text: '',
    };
    open.at(-1)?.children.push(element);
    root ??= element;
    open.push(element);
  });
  const append = (part: string): void => {
    const element = open.at(-1);
    if (element !== undefined && !bad) element.text += part;
  };
  parser.on('text', append);
  parser.on('cdata', append);
  parser.on('closetag', () => void open.pop());
  for (let at = 0; at < text.length && !isBad(); at += PIECE_CHARACTERS)
    parser.write(text.slice(at, at + PIECE_CHARACTERS));
  if (isBad()) return null;
  parser.close();
  return isBad() || root === null ? null : { root, namespace };
}

export function childrenOf(element: Element, name: string): readonly Element[] {
  return element.children.filter((child) => child.name === name);
}

/** The first element at `A/B/C` below. */
export function find(element: Element, path: string): Element | null {
  let at: Element | null = element;
  for (const name of path.split('/'))
    at = at === null ? null : (at.children.find((child) => child.name === name) ?? null);
  return at;
}

/** Its text without blanks around; `null` where there is none. */
export function textAt(element: Element, ...paths: readonly string[]): string | null {
  for (const path of paths) {
    const text = find(element, path)?.text.trim();
    if (text !== undefined && text !== '') return text;
  }
  return null;
}
