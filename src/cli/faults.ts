/** Errors at the command line: what happened, what to do next, and an exit code that a script can act on. */
import { sqlState } from '../db/pool.ts';
import { type ErrorCode, ERRORS, type ErrorFacts, PayonceError, toProblem } from '../kernel/errors.ts';
import { EXIT, paint, printable } from './output.ts';

/** Where the table's hint speaks to a caller of the API, people at the command line need another one. */
const HINTS: Partial<Record<ErrorCode, string>> = {
  PO_AUTH_MISSING:
    'Set PAYONCE_OPERATOR_KEY to your key. An admin makes one with: payonce operator create NAME --role ROLE',
  PO_AUTH_WRONG:
    'Check PAYONCE_OPERATOR_KEY, or have an admin make you a new key: payonce operator create NAME --role ROLE',
  PO_REQUEST_INVALID: 'Correct it and run the command again; nothing was changed.',
  PO_NOT_FOUND:
    'Check the id with the matching list: payonce case list, repair list, partner list, operator list, wallet list, rail list, p2p groups, payouts programmes.',
  PO_BUSY: 'Run the command again in a moment.',
  PO_TOO_LATE: 'Look at it again (payonce case show, payonce effect show) before you do anything else.',
  PO_STALE: 'Read the case again (payonce case show) and propose anew.',
  PO_DB_COMMIT_UNKNOWN: 'It may have been stored. Look (show, list) before you run the command again.',
  PO_DB_UNAVAILABLE: 'Check DATABASE_URL and that PostgreSQL runs, then run the command again.',
  PO_DB_SCHEMA: 'Run: payonce migrate. With a newer schema: run the version that made it.',
  PO_CONFIG_INVALID: 'Correct all of these; payonce config --reference says what there is.',
  PO_INTERNAL: 'Look (show, list) what was done before you run the command again.',
};

/** No connection to be had, or refused by the server itself. Other faults of the system (a file, a disk) are not its. */
const DATABASE_AWAY = /^(?:ECONN\w+|ENOTFOUND|EAI_\w+|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|28|3D|57P|08)/;

interface Fault {
  readonly exit: number;
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;
  readonly hint: string;
}

/** What whoever runs the command gave wrong or not at all, the key of PAYONCE_OPERATOR_KEY included. */
const USAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PO_CONFIG_INVALID',
  'PO_REQUEST_INVALID',
  'PO_AUTH_MISSING',
  'PO_AUTH_WRONG',
]);

function exitOf(code: ErrorCode): number {
  if (USAGE.has(code)) return EXIT.usage;
  if (code === 'PO_NOT_FOUND') return EXIT.notFound;
  if (code === 'PO_DB_COMMIT_UNKNOWN') return EXIT.unknown;
  return ERRORS[code].status === 409 ? EXIT.conflict : EXIT.failed;
}

function portTaken(error: unknown, message: string): Fault {
  const { port } = error as { port?: unknown };
  const which = typeof port === 'number' ? `Port ${port} is in use` : `A port is in use (${message})`;
  return {
    exit: EXIT.failed,
    code: 'PO_CONFIG_INVALID',
    facts: { detail: `${which}; set PAYONCE_PORT (0 takes a free one)` },
    hint: 'Nothing is left running. Stop what uses it (another payonce, perhaps), or take another port.',
  };
}

function toFault(error: unknown): Fault {
  if (error instanceof PayonceError) {
    return {
      exit: exitOf(error.code),
      code: error.code,
      facts: error.facts,
      hint: HINTS[error.code] ?? ERRORS[error.code].hint,
    };
  }
  const state = sqlState(error);
  // No such table, no such schema, no such column or function.
  if (state !== undefined && ['42P01', '3F000', '42703', '42883'].includes(state))
    return toFault(new PayonceError('PO_DB_SCHEMA', { detail: 'The database has not the schema of this version' }));
  const detail = error instanceof Error ? error.message : String(error);
  if (state === 'EADDRINUSE') return portTaken(error, detail);
  if (state !== undefined && DATABASE_AWAY.test(state))
    return toFault(
      new PayonceError('PO_DB_UNAVAILABLE', { detail: `The database cannot be used: ${detail || state}` }),
    );
  return { exit: EXIT.failed, code: 'PO_INTERNAL', facts: { detail }, hint: HINTS.PO_INTERNAL ?? '' };
}

/** Tells it on stderr; answers the exit code. */
export function tellFault(error: unknown, asJson: boolean): number {
  const fault = toFault(error);
  const problem = toProblem(fault.code, fault.facts);
  if (asJson) {
    process.stderr.write(`${JSON.stringify({ ...problem, hint: fault.hint, exit: fault.exit }, null, 2)}\n`);
    return fault.exit;
  }
  const lines = problem.detail.split('\n').map(printable);
  const [first, ...rest] =
    lines.length === 1 ? lines : [`${ERRORS[fault.code].title}:`, ...lines.map((line) => `  ${line}`)];
  process.stderr.write(
    [`${paint('red', 'error')} ${first ?? ''}`, ...rest, `${paint('dim', 'next ')} ${fault.hint}`, ''].join('\n'),
  );
  return fault.exit;
}
