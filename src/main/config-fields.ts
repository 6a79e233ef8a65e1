/** What the schema of the configuration file says to people: a table of its fields, and its faults as sentences. */
import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';

/** What of a schema speaks to people; `expected` and `absent` are this product's own. */
interface Spoken {
  readonly description?: string;
  readonly expected?: string;
  readonly absent?: string;
  readonly hushed?: boolean;
  readonly properties?: Readonly<Record<string, Spoken>>;
  readonly required?: readonly string[];
  readonly items?: Spoken;
}

/** The name of what has none. */
const THE_FILE = 'the file';

/** One row for each field, as Markdown. */
export function fieldRows(shape: TSchema): string[] {
  return rowsOf(shape, '');
}

function rowsOf(shape: Spoken, path: string): string[] {
  return Object.entries(shape.properties ?? {}).flatMap(([name, field]) => {
    const own = path === '' ? name : `${path}.${name}`;
    const absent = shape.required?.includes(name) === true ? 'needed' : (field.absent ?? '');
    const expected = field.expected ?? 'an object';
    const row = `| \`${own}\` | ${field.description ?? ''} | ${expected} | ${absent} |`;
    return [row, ...(field.items === undefined ? rowsOf(field, own) : rowsOf(field.items, `${own}[]`))];
  });
}

/** Each fault once: the field, what was got, what was expected. The file holds no secrets but node URLs: those are cut. */
export function fileFaults(shape: TSchema, file: unknown): string[] {
  const faults = Value.Errors(shape, file).flatMap((fault) => {
    const found = follow(shape, file, fault.instancePath.split('/').slice(1));
    if (found.field === null) return [`${found.path}: there is no such field; expected only ${found.known}`];
    const fields = found.field.properties;
    if (fields === undefined || fault.keyword === 'type')
      return [
        `${found.path}: got ${found.field.hushed === true ? 'something else' : shown(found.value)}, expected ${found.field.expected ?? 'an object'}`,
      ];
    if (fault.keyword !== 'required') return [];
    return fault.params.requiredProperties.map((name) => {
      const path = found.path === THE_FILE ? name : `${found.path}.${name}`;
      return `${path}: got nothing, expected ${fields[name]?.expected ?? 'an object'}`;
    });
  });
  return [...new Set(faults)];
}

/** As far down as fields have names: what lies inside a choice is told as the choice. `field` null: no such field. */
function follow(
  shape: Spoken,
  file: unknown,
  parts: readonly string[],
): { path: string; field: Spoken | null; value: unknown; known: string } {
  let [path, field, value]: [string, Spoken, unknown] = ['', shape, file];
  for (const part of parts) {
    const next = field.items ?? field.properties?.[part];
    if (field.items === undefined && field.properties === undefined) break;
    path += field.items === undefined ? `${path === '' ? '' : '.'}${part}` : `[${part}]`;
    if (next === undefined) return { path, field: null, value, known: Object.keys(field.properties ?? {}).join(', ') };
    value = (value as Readonly<Record<string, unknown>>)[part];
    field = next;
  }
  return { path: path === '' ? THE_FILE : path, field, value, known: '' };
}

/** Enough to recognise a value; a URL may carry a key in its path. */
const SHOWN_CHARACTERS_MAX = 60;
function shown(value: unknown): string {
  const text = (value === undefined ? 'nothing' : JSON.stringify(value)).replace(/(\w+:\/\/[^/"?]*)[^"]*/g, '$1');
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}
