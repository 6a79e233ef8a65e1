/** Kinds of fields of the configuration file: each with its pattern and what is expected, in words for a fault. */
import { Type } from 'typebox';

/** Beside what JSON schema says: what is expected, in words for a fault, and what holds when a field is absent. */
export interface Words {
  readonly expected?: string;
  readonly absent?: string;
  /** What was got is never told. */
  readonly hushed?: boolean;
}
export const says = (expected: string) => ({ expected }) satisfies Words;
export const closed = { additionalProperties: false } as const;

export const Decimal = (description: string, words: Words = {}) =>
  Type.String({
    pattern: '^(0|[1-9][0-9]*)(\\.[0-9]+)?$',
    description,
    ...says('a decimal string in the asset, such as "12.50"'),
    ...words,
  });
export const Units = (description: string) =>
  Type.String({ pattern: '^(0|[1-9][0-9]*)$', description, ...says('a whole number as a string, such as "1"') });
export const BasisPoints = (description: string) =>
  Type.Integer({ minimum: 0, maximum: 10_000, description, ...says('a whole number from 0 to 10000; 25 is 0.25 %') });
export const Whole = (minimum: number, description: string, absent: string) =>
  Type.Optional(Type.Integer({ minimum, description, absent, ...says(`a whole number from ${minimum}`) }));
export const SecretName = (prefix: string, description: string) =>
  Type.String({
    pattern: `^${prefix}[A-Z0-9_]{1,60}$`,
    description,
    // A secret pasted here in place of its variable's name is not told.
    hushed: true,
    ...says(`the name of an environment variable that begins with ${prefix}; the secret itself stands there`),
  });
