/** Runs the real bin/payonce.js as people and scripts do: a process of its own, with an environment of its own. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const BIN = fileURLToPath(new URL('../../bin/payonce.js', import.meta.url));
/** A command that hangs is a failed one; starting a database of its own takes the longest. */
const TIMEOUT_MS = 60_000;

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** stdout read as JSON, in the shape that the test knows; throws where it is none. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the shape that it asserts
  json<Shape>(): Shape;
  /** stderr read as JSON. */
  problem(): { code: string; detail: string; hint: string; exit: number };
}

export type Settings = Readonly<Record<string, string>>;

/** For commands that run until they are told to stop. */
export function startPayonce(args: readonly string[], settings: Settings) {
  return spawn(process.execPath, [BIN, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
  });
}

export async function payonce(args: readonly string[], settings: Settings = {}): Promise<Ran> {
  const child = startPayonce(args, settings);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  return {
    code,
    stdout,
    stderr,
    // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as declared above
    json: <Shape>() => JSON.parse(stdout) as Shape,
    problem: () => JSON.parse(stderr) as ReturnType<Ran['problem']>,
  };
}

/** Bound to a database; `as` is an operator's key. */
export function payonceOn(url: string, settings: Settings = {}) {
  return (args: readonly string[], as?: string): Promise<Ran> =>
    payonce(args, { DATABASE_URL: url, ...settings, ...(as === undefined ? {} : { PAYONCE_OPERATOR_KEY: as }) });
}

/** The first admin, made as the first start makes it. */
export async function firstAdmin(run: ReturnType<typeof payonceOn>): Promise<string> {
  const made = await run(['operator', 'create', 'Ada', '--role', 'admin', '--json']);
  if (made.code !== 0) throw new Error(made.stderr);
  return made.json<{ key: string }>().key;
}

export async function addOperator(
  run: ReturnType<typeof payonceOn>,
  admin: string,
  name: string,
  role: string,
): Promise<string> {
  const made = await run(['operator', 'create', name, '--role', role, '--json'], admin);
  if (made.code !== 0) throw new Error(made.stderr);
  return made.json<{ key: string }>().key;
}
