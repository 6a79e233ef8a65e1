/**
 * Texts that somebody else wrote (a node, a bank, a contract's revert) as PostgreSQL can keep them. A NUL or half a
 * character would make the whole statement fail, and with it whatever else stands in its transaction; they are shown as
 * such in their place, and nothing is lost with them.
 */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\uFFFD');
}

/** Every text within. Values of classes (bytes, dates, maps) stay what they are. */
export function storable<T>(value: T): T {
  if (typeof value === 'string') return storableText(value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => storable(one)) as T;
  if (value === null || typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, storable(one as unknown)])) as T;
}
