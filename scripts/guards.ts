/*
 * Proves the guards of guards/guards.ts one by one: in a copy of the tree one guard is taken out, its named test alone is
 * run, and that test must go red for the named reason. First the same tests must be green with every guard in place: a
 * test that is always red proves nothing. `--only PART` selects by name, `--json` for machines.
 *
 * Exit 1: a guard that is not red, red for another reason, or whose text no longer occurs exactly once.
 */
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs, styleText } from 'node:util';
import { GUARDS, type Guard } from '../guards/guards.ts';
import { STEPS } from '../test/cases.ts';
import { copyTree, root } from './copy-tree.ts';
import type { TestEnd } from './test-events.ts';

/** Each run has a database of its own and mostly waits for it; more than two would only slow each other on two cores. */
const COPIES = 2;

/** A test that hangs without its guard is not "red for that reason"; none of the named tests takes half as long. */
const RUN_TIMEOUT_MS = 180_000;

/** By this the test files find a server that runs already (test/support/postgres.ts). */
const SERVER_VARIABLE = 'PAYONCE_TEST_POSTGRES_URL';

type Placed = Extract<Guard, { file: string }>;
type Outcome = { name: string; verdict: 'red' | 'not yet' | 'fault'; seconds: number; text: string };
type TestRun = { ends: TestEnd[]; code: number | null; output: string };

const { values } = parseArgs({ options: { only: { type: 'string' }, json: { type: 'boolean', default: false } } });

function isPlaced(guard: Guard): guard is Placed {
  return 'file' in guard;
}

/** One server for all runs whose migrations are whole: the template database is made of the migrations once per server. */
let sharedServer: { url: string; stop: () => Promise<void> } | undefined;

async function startSharedServer(): Promise<void> {
  const support = join(root, 'test/support/postgres.ts');
  if (!existsSync(support) || process.env[SERVER_VARIABLE] !== undefined) return;
  const module = (await import(support)) as { startTestServer: () => Promise<NonNullable<typeof sharedServer>> };
  sharedServer = await module.startTestServer();
}

function environmentFor(file: string | undefined): NodeJS.ProcessEnv {
  const own = file?.startsWith('migrations/') === true;
  const server = own ? undefined : (sharedServer?.url ?? process.env[SERVER_VARIABLE]);
  // Inside another test run node's runner would take this one for a part of that.
  const cache = join(root, 'node_modules/.cache/node');
  return { NODE_COMPILE_CACHE: cache, ...process.env, [SERVER_VARIABLE]: server, NODE_TEST_CONTEXT: undefined };
}

async function runTests(folder: string, file: string, titles: RegExp[], mutated?: string): Promise<TestRun> {
  const setup = join(folder, 'test/support/global-setup.ts');
  const child = spawn(
    process.execPath,
    [
      '--test',
      '--test-reporter=./scripts/test-events.ts',
      '--test-reporter-destination=stdout',
      ...titles.map((title) => `--test-name-pattern=${title.source}`),
      ...(existsSync(setup) ? [`--test-global-setup=${setup}`] : []),
      file,
    ],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], env: environmentFor(mutated) },
  );
  // Node's runner answers the signal with an exit code of its own, so the time-out must be told apart here.
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill();
  }, RUN_TIMEOUT_MS);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve(isLate ? null : status));
  });
  clearTimeout(timer);
  const ends = stdout.split('\n').flatMap((line) => (line.startsWith('{"name"') ? [JSON.parse(line) as TestEnd] : []));
  return { ends, code, output: `${stdout}\n${stderr}` };
}

/** The tests themselves: not the file, which node's runner reports as a test of its own when it fails, nor suites. */
function testsOf(run: TestRun, guard: Placed): TestEnd[] {
  return run.ends.filter((end) => !end.suite && !end.name.endsWith(guard.test) && !end.skipped);
}

function judgeRed(guard: Placed, run: TestRun): string | null {
  const failed = testsOf(run, guard).filter((end) => !end.ok);
  const named = failed.filter((end) => guard.title.test(end.name));
  if (run.code === null) return `its test did not end within ${RUN_TIMEOUT_MS / 1000} s`;
  if (failed.length === 0)
    return run.code === 0 ? 'its test stays green without it' : `the test file broke: ${tail(run.output)}`;
  if (named.length === 0) return `another test went red: "${failed[0]?.name}"`;
  const stray = failed.find((end) => !guard.expect.test(end.message));
  if (stray !== undefined) return `red for another reason, expected ${guard.expect}: ${stray.message.slice(0, 300)}`;
  return null;
}

function tail(text: string): string {
  return text.trim().split('\n').slice(-6).join(' / ').slice(0, 400);
}

async function proveRed(folder: string, guard: Placed): Promise<string | null> {
  const path = join(folder, guard.file);
  if (!existsSync(path)) return `${guard.file} does not exist`;
  const source = readFileSync(path, 'utf8');
  const occurrences = source.split(guard.find).length - 1;
  if (occurrences !== 1) return `its text occurs ${occurrences} times in ${guard.file}, must be once`;
  if (!existsSync(join(folder, guard.test))) return `${guard.test} does not exist`;
  writeFileSync(
    path,
    source.replace(guard.find, () => guard.replace),
  );
  try {
    return judgeRed(guard, await runTests(folder, guard.test, [guard.title], guard.file));
  } finally {
    writeFileSync(path, source);
  }
}

/** One run for each test file, with every guard in place: the named tests must exist and be green. */
async function proveGreen(folder: string, guards: Placed[]): Promise<string | null> {
  const first = guards[0];
  if (first === undefined || !existsSync(join(folder, first.test))) return `${first?.test} does not exist`;
  const run = await runTests(
    folder,
    first.test,
    guards.map((guard) => guard.title),
  );
  const ends = testsOf(run, first);
  const red = ends.find((end) => !end.ok);
  if (red !== undefined || run.code !== 0) return `red with every guard in place: ${red?.name ?? tail(run.output)}`;
  const missing = guards.find((guard) => !ends.some((end) => guard.title.test(end.name)));
  return missing === undefined ? null : `${first.test} has no test like ${missing.title} (guard "${missing.name}")`;
}

async function spread<T>(
  items: T[],
  folders: string[],
  work: (folder: string, item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    folders.map(async (folder) => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(folder, item);
    }),
  );
}

function show(outcome: Outcome): void {
  if (values.json) return;
  const colour = { red: 'green', 'not yet': 'gray', fault: 'red' } as const;
  const word = styleText(colour[outcome.verdict], outcome.verdict.toUpperCase().padEnd(8));
  const seconds = outcome.verdict === 'not yet' ? '' : `${outcome.seconds.toFixed(1)} s`;
  console.log(`${word} ${outcome.name.padEnd(52)} ${seconds.padStart(8)}  ${outcome.text}`);
}

const asked = GUARDS.filter((guard) => values.only === undefined || guard.name.includes(values.only));
const placed = asked.filter(isPlaced);
const outcomes: Outcome[] = [];
const add = (outcome: Outcome): void => {
  outcomes.push(outcome);
  show(outcome);
};

if (placed.length > 0) {
  const folders = Array.from({ length: Math.min(COPIES, placed.length) }, () => copyTree('guards'));
  // The server's account must be able to enter, whoever runs this.
  for (const folder of folders) chmodSync(folder, 0o755);
  const drop = (): void => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
  process.on('exit', drop);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

  await startSharedServer();
  await spread([...Map.groupBy(placed, (guard) => guard.test).values()], folders, async (folder, guards) => {
    const began = performance.now();
    const fault = await proveGreen(folder, guards);
    const seconds = (performance.now() - began) / 1000;
    if (fault !== null) add({ name: `sanity of ${guards[0]?.test}`, verdict: 'fault', seconds, text: fault });
  });
  await spread(placed, folders, async (folder, guard) => {
    const began = performance.now();
    const fault = await proveRed(folder, guard);
    const seconds = (performance.now() - began) / 1000;
    add({ name: guard.name, verdict: fault === null ? 'red' : 'fault', seconds, text: fault ?? guard.test });
  });
  await sharedServer?.stop();
}
for (const guard of asked) {
  if ('step' in guard) {
    add({ name: guard.name, verdict: 'not yet', seconds: 0, text: `step ${guard.step}, ${STEPS[guard.step]}` });
  }
}

const count = (verdict: Outcome['verdict']): number => outcomes.filter((outcome) => outcome.verdict === verdict).length;
if (values.json) console.log(JSON.stringify(outcomes, null, 2));
else console.log(`\nguards: ${count('red')} red when removed, ${count('fault')} at fault, ${count('not yet')} not yet`);
if (asked.length === 0) console.error(`No guard's name contains "${values.only}".`);
process.exitCode = count('fault') > 0 || asked.length === 0 ? 1 : 0;
