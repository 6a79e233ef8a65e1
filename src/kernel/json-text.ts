/** JSON of what people and machines read: money and other whole numbers are bigint here and decimal text there. */
export function toJsonText(value: unknown, indent?: number): string {
  return JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? one.toString() : one), indent);
}
