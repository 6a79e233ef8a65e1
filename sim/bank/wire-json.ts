/*
 * JSON as a bank writes it: whole numbers are bigint, so that an amount beyond 2^53 arrives as it was written. A fraction
 * stays a number, and no profile takes one for an amount.
 */
export type Wire = null | boolean | number | bigint | string | Wire[] | WireObject;
export type WireObject = { [name: string]: Wire };

type SourceReviver = (this: unknown, name: string, value: unknown, context: { readonly source?: string }) => unknown;
type WithRawJson = { rawJSON(text: string): unknown };

const reviveWhole: SourceReviver = (_name, value, { source }) =>
  typeof value === 'number' && source !== undefined && /^-?[0-9]+$/.test(source) ? BigInt(source) : value;

/** `undefined` for what is not JSON. */
export function parseWire(text: string): Wire | undefined {
  try {
    return JSON.parse(text, reviveWhole as (this: unknown, name: string, value: unknown) => unknown) as Wire;
  } catch {
    return undefined;
  }
}

export function printWire(value: Wire): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'bigint' ? (JSON as unknown as WithRawJson).rawJSON(part.toString()) : part,
  );
}

/** The same text for the same content in another order: what a bank compares that compares parameters, not bytes. */
export function canonicalWire(value: Wire): string {
  if (Array.isArray(value)) return `[${value.map(canonicalWire).join(',')}]`;
  if (!isWireObject(value)) return printWire(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalWire(value[name] ?? null)}`).join(',')}}`;
}

export function isWireObject(value: Wire | undefined): value is WireObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What lies at a path of names and places, `null` where the path ends early. */
export function at(value: Wire, ...path: (string | number)[]): Wire {
  let here: Wire | undefined = value;
  for (const step of path) {
    if (typeof step === 'number') here = Array.isArray(here) ? here[step] : null;
    else here = isWireObject(here) ? here[step] : null;
  }
  return here ?? null;
}

export function textAt(value: Wire, ...path: (string | number)[]): string | null {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : null;
}

export function wholeAt(value: Wire, ...path: (string | number)[]): bigint | null {
  const found = at(value, ...path);
  return typeof found === 'bigint' ? found : null;
}
