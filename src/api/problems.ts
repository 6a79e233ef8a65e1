/**
 * Every refusal leaves as RFC 9457 problem+json: framework faults, validation, business refusals, errors of ours.
 *
 * A caller that repeats a payment after silence reads `money_state` to decide whether it may pay another way. A refusal
 * that was given before the idempotency key was looked up (a revoked key, the rate limit, no database) knows nothing of
 * what the same key did earlier: it says `unknown`, whatever the table says of a first request. A GET moves nothing and has no key: it speaks of neither.
 */
import type { FastifyError, FastifyReply, FastifyRequest, FastifySchemaValidationError } from 'fastify';
import { sqlState } from '../db/pool.ts';
import {
  type ErrorCode,
  type ErrorFacts,
  InvariantBroken,
  PayonceError,
  type Problem,
  toProblem,
} from '../kernel/errors.ts';
import { BODY_BYTES_MAX, PAGE_ITEMS_MAX } from '../kernel/limits.ts';
import { DECIMALS_MAX, parseAmount } from '../kernel/money.ts';
import type { ApiDeps } from './deps.ts';
import { GOT_CHARACTERS_MAX } from './limits.ts';

export const PROBLEM_TYPE = 'application/problem+json';

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer realm="payonce"');
  return reply
    .code(problem.status)
    .type(PROBLEM_TYPE)
    .send(inOrder(aboutMoney(problem, reply.request)));
}

/** Where neither table nor case says what became of the money, nothing may be concluded from a request that can move it. */
function aboutMoney(problem: Problem, request: FastifyRequest): Problem {
  return request.method === 'GET' ? problem : { ...problem, money_state: problem.money_state ?? 'unknown' };
}

/** A refusal that was stored comes back with its fields in the database's order; its bytes are to be the first ones. */
function inOrder(problem: Problem): Problem {
  const { type, title, status, code, hint, pointer, got, expected, faults, resource, money_state } = problem;
  const detail = inOneSentence(problem);
  const named = resource === undefined ? undefined : { type: resource.type, id: resource.id };
  const fields = {
    type,
    title,
    status,
    code,
    detail,
    hint,
    pointer,
    got,
    expected,
    faults,
    resource: named,
    money_state,
  };
  return fields as Problem;
}

const REFUSES_A_VALUE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PO_REQUEST_INVALID',
  'PO_KEY_MISSING',
  'PO_KEY_INVALID',
  'PO_AMOUNT_INVALID',
  'PO_AMOUNT_OUT_OF_LIMITS',
  'PO_DAY_LIMIT',
  'PO_ASSET_UNKNOWN',
  'PO_FILE_INVALID',
  'PO_ADDRESS_INVALID',
  'PO_PAYEE_INVALID',
]);

/** Many clients show `detail` and nothing else: it says what was got and expected as well, unless it does already. */
function inOneSentence({ code, detail, got, expected }: Problem): string {
  if (!REFUSES_A_VALUE.has(code) || expected === undefined || detail.includes(expected)) return detail;
  if (got === undefined || got === NOTHING || detail.includes(got)) return `${detail}: expected ${expected}`;
  return `${detail}: got ${NO_TEXT.test(got) ? got : JSON.stringify(got)}, expected ${expected}`;
}

/** Where the table's hint speaks of a key or of a payment, a read needs another one. */
const READ_HINTS: Partial<Record<ErrorCode, string>> = {
  PO_REQUEST_INVALID: 'Correct the named field and ask again.',
  PO_RATE_LIMITED: 'Wait for the time in Retry-After, then ask again.',
  PO_DB_COMMIT_UNKNOWN: 'Ask again in a moment.',
  PO_DB_UNAVAILABLE: 'Ask again in a moment.',
  PO_INTERNAL: 'Ask again in a moment; if it stays, tell us the x-request-id of the answer.',
};

function forARead({ money_state: _none, ...problem }: Problem): Problem {
  return { ...problem, hint: READ_HINTS[problem.code] ?? problem.hint };
}

/**
 * The boundary: whatever was thrown becomes an answer that shows nothing of the inside. It never throws itself: what the
 * framework would then say is no problem+json and says nothing of the money.
 */
export function answerError(deps: Pick<ApiDeps, 'log' | 'fatal'>, error: unknown, request: FastifyRequest): Problem {
  try {
    return judgeError(deps, error, request);
  } catch (fault) {
    tellOf(deps, request, fault);
    return toProblem('PO_INTERNAL');
  }
}

function judgeError(deps: Pick<ApiDeps, 'log' | 'fatal'>, error: unknown, request: FastifyRequest): Problem {
  if (error instanceof InvariantBroken) deps.fatal?.(error);
  const { code, facts } = toRefusal(error);
  const problem = toProblem(code, request.headers['idempotency-key'] !== undefined ? beforeTheKey(code, facts) : facts);
  if (problem.status >= 500)
    deps.log.error({ request_id: request.id, code, err: facts.internal ?? error }, problem.title);
  return request.method === 'GET' ? forARead(problem) : problem;
}

function tellOf(deps: Pick<ApiDeps, 'log'>, request: FastifyRequest, fault: unknown): void {
  try {
    deps.log.error({ request_id: request.id, err: fault }, 'an error could not be judged');
  } catch {
    // The log is what failed, and the caller waits for its answer.
  }
}

interface Refusal {
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;
}

const LOST_DATABASE = /^(?:57P0\d|08\w{3}|53300|E[A-Z]+)$/;
/** The driver's own words for a server that went away in the middle: they carry no code. */
const LOST_CONNECTION = /^Connection terminated|connection error and is not queryable/;

function toRefusal(error: unknown): Refusal {
  if (error instanceof PayonceError) return { code: error.code, facts: error.facts };
  if (isFrameworkError(error)) return frameworkRefusal(error);
  if (isLost(error)) return { code: 'PO_DB_UNAVAILABLE', facts: { internal: error } };
  return { code: 'PO_INTERNAL', facts: { internal: error } };
}

function isLost(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) return LOST_DATABASE.test(state);
  return error instanceof Error && LOST_CONNECTION.test(error.message);
}

function isFrameworkError(error: unknown): error is FastifyError {
  if (!(error instanceof Error) || !('statusCode' in error)) return false;
  return typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500;
}

function frameworkRefusal(error: FastifyError): Refusal {
  const [fault] = error.validation ?? [];
  if (fault !== undefined) return validationRefusal(fault, error.validationContext ?? 'body');
  switch (error.statusCode) {
    case 413:
      return { code: 'PO_REQUEST_TOO_LARGE', facts: { pointer: '', expected: `at most ${BODY_BYTES_MAX} bytes` } };
    case 415:
      return { code: 'PO_REQUEST_MEDIA', facts: { pointer: '/headers/content-type', expected: 'application/json' } };
    // 414: an id longer than any of ours.
    case 404:
    case 414:
      return { code: 'PO_NOT_FOUND', facts: {} };
    default:
      if (error.code === 'FST_ERR_BAD_URL')
        return {
          code: 'PO_REQUEST_INVALID',
          facts: { detail: 'The path is not valid', expected: 'a percent-encoded path' },
        };
      return {
        code: 'PO_REQUEST_INVALID',
        facts: {
          detail: 'The body cannot be read as JSON',
          pointer: '',
          expected: 'one JSON object in UTF-8, with its length as declared',
        },
      };
  }
}

/** One word of the JSON schema's error per case; the rest says what the schema says. */
function validationRefusal(fault: FastifySchemaValidationError, context: string): Refusal {
  const parameters = fault.params as { missingProperty?: string; additionalProperty?: string };
  const schema = (fault as { parentSchema?: JsonSchema }).parentSchema ?? {};
  const value = (fault as { data?: unknown }).data;
  // An id of another shape than ours names nothing.
  if (context === 'params') return { code: 'PO_NOT_FOUND', facts: {} };
  const base = context === 'body' ? '' : `/${context === 'querystring' ? 'query' : context}`;
  const named = parameters.missingProperty ?? parameters.additionalProperty;
  const pointer = base + fault.instancePath + (named === undefined ? '' : `/${toPointerPart(named)}`);
  if (fault.keyword === 'additionalProperties') {
    const known = Object.keys(schema.properties ?? {});
    const expected = known.length === 0 ? 'no fields here' : `only ${known.join(', ')}`;
    return {
      code: 'PO_REQUEST_INVALID',
      facts: { detail: `There is no field "${toShown(named ?? '')}"`, pointer, got: toShown(named ?? ''), expected },
    };
  }
  if (fault.keyword === 'required') {
    const expected = schema.properties?.[named ?? '']?.description ?? 'a value';
    const code = pointer === '/amount' ? 'PO_AMOUNT_INVALID' : 'PO_REQUEST_INVALID';
    return { code, facts: { detail: `"${named ?? ''}" is missing`, pointer, got: NOTHING, expected } };
  }
  if (pointer === '/amount')
    return { code: 'PO_AMOUNT_INVALID', facts: { pointer, got: toGot(value), expected: amountExpected(value) } };
  if (pointer === '') return { code: 'PO_REQUEST_INVALID', facts: bodyFacts(value) };
  const detail = `"${toShown(fault.instancePath.slice(1))}" is not valid`;
  return { code: 'PO_REQUEST_INVALID', facts: { detail, pointer, got: toGot(value), expected: expectedOf() } };

  function expectedOf(): string {
    if (pointer === '/query/limit') return `a whole number from 1 to ${PAGE_ITEMS_MAX}`;
    if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`;
    return schema.description ?? fault.message ?? 'another value';
  }
}

function bodyFacts(value: unknown): ErrorFacts {
  const expected = 'a JSON object';
  if (value === undefined || value === null)
    return { detail: 'The body is empty', pointer: '', got: NOTHING, expected };
  return { detail: 'The body is not an object', pointer: '', got: toGot(value), expected };
}

interface JsonSchema {
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

/** An amount that the schema refuses fails here as well, and here it is said how. */
function amountExpected(value: unknown): string {
  const parsed = parseAmount(value, DECIMALS_MAX);
  return parsed.ok ? 'a decimal string' : parsed.expected;
}

function beforeTheKey(code: ErrorCode, facts: ErrorFacts): ErrorFacts {
  switch (code) {
    case 'PO_RATE_LIMITED':
    case 'PO_DB_UNAVAILABLE':
      return { ...facts, moneyState: 'unknown' };
    default:
      return facts;
  }
}

export function toPointerPart(name: string): string {
  return toShown(name.replaceAll('~', '~0').replaceAll('/', '~1'));
}

const NOTHING = 'nothing';
/** A `got` that is no text of the caller's. */
const NO_TEXT = /^(?:nothing$|null$|the (?:number|boolean|array|object) )/;

/** What was got, cut: a text as it is, anything else by its kind and JSON. Bodies of this API carry no secrets; headers
 *  are never shown but the idempotency key. */
export function toGot(value: unknown): string {
  if (value === undefined) return NOTHING;
  if (value === null) return 'null';
  if (typeof value === 'string') return toShown(value);
  return toShown(`the ${Array.isArray(value) ? 'array' : typeof value} ${JSON.stringify(value) ?? ''}`);
}

function toShown(text: string): string {
  return text.length <= GOT_CHARACTERS_MAX ? text : `${text.slice(0, GOT_CHARACTERS_MAX)}…`;
}
