/*
 * Runs the test files: the fast ones first, so that a broken build is told within seconds, the heavy proofs (test/proof/)
 * last. One run of node's runner, hence one summary at the end. Arguments: paths or parts of paths that select files;
 * `--name REGEX` selects tests by title; `--concurrency N`.
 * Where CI is set, a skipped test fails the run: there everything that a test needs is to be installed.
 */
import { existsSync, globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { relative, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';

const root = resolve(import.meta.dirname, '..');
const globalSetup = resolve(root, 'test/support/global-setup.ts');

/** Two files at once on two cores: each file has a database of its own, and a third only makes time-outs tighter. */
const CONCURRENCY_MAX = 4;

/** A file that hangs would otherwise eat CI's whole time; the heaviest proof is allowed to take this long. */
const FILE_TIMEOUT_MS = 20 * 60_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { name: { type: 'string' }, concurrency: { type: 'string' } },
});

function isHeavy(file: string): boolean {
  return relative(root, file).startsWith('test/proof/');
}

function testFiles(): string[] {
  const all = globSync('test/**/*.test.ts', { cwd: root }).map((file) => resolve(root, file));
  const asked = positionals.length === 0 ? all : all.filter((file) => positionals.some((part) => file.includes(part)));
  return asked.sort((a, b) => Number(isHeavy(a)) - Number(isHeavy(b)) || (a < b ? -1 : 1));
}

// Each file is a process that reads the whole product again; Node keeps what it made of it (unless told otherwise).
process.env['NODE_COMPILE_CACHE'] ??= resolve(root, 'node_modules/.cache/node');

const files = testFiles();
if (files.length === 0) {
  console.error(`No test file matches ${positionals.join(' ') || 'test/**/*.test.ts'}.`);
  process.exit(2);
}

const stream = run({
  files,
  cwd: root,
  concurrency: Number(values.concurrency ?? Math.min(CONCURRENCY_MAX, Math.max(1, availableParallelism()))),
  timeout: FILE_TIMEOUT_MS,
  ...(values.name === undefined ? {} : { testNamePatterns: [new RegExp(values.name)] }),
  ...(existsSync(globalSetup) ? { globalSetupPath: globalSetup } : {}),
});

stream.on('test:pass', (test) => {
  if (test.skip === undefined || test.skip === false || !process.env['CI']) return;
  console.error(
    `A skip is refused where CI is set: "${test.name}" (${String(test.skip)}). Install what it needs in .ci/run.`,
  );
  process.exitCode = 1;
});
stream.on('test:fail', (test) => {
  if (test.todo === undefined || test.todo === false) process.exitCode = 1;
});
stream.compose(spec).pipe(process.stdout);
