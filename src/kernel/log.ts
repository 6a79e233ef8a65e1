/** The log: structured lines by pino, with what must never be shown redacted by name. */
import pino from 'pino';

export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  debug(fields: object, message: string): void;
}

/** Field names whose values are never written, wherever they stand. */
export const REDACTED = [
  'authorization',
  'api_key',
  'apiKey',
  'secret',
  'password',
  'private_key',
  'privateKey',
  'passphrase',
];

export function makeLog(level: string, destination?: { write(line: string): void }): Log {
  const options = {
    level,
    base: {},
    formatters: { level: (label: string) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: REDACTED.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[redacted]' },
    serializers: { err: pino.stdSerializers.err },
  };
  // Money is bigint: pino writes JSON, where a bigint must become text, never a number.
  const hooked = { ...options, hooks: { logMethod: textOfBigints } };
  return destination === undefined ? pino(hooked) : pino(hooked, destination);
}

function textOfBigints(this: pino.Logger, args: Parameters<pino.LogFn>, method: pino.LogFn): void {
  const first: unknown = args[0];
  if (typeof first === 'object' && first !== null && !(first instanceof Error)) {
    const fields = Object.entries(first).map(([key, value]: [string, unknown]) => [
      key,
      typeof value === 'bigint' ? value.toString() : value,
    ]);
    method.apply(this, [Object.fromEntries(fields), ...args.slice(1)] as unknown as Parameters<pino.LogFn>);
    return;
  }
  method.apply(this, args);
}

export const silentLog: Log = { info: () => {}, warn: () => {}, error: () => {}, debug: () => {} };
