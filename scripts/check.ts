/*
 * Everything about the tree that can be judged without running the tests, in under 50 seconds: each piece with its time
 * and one line; what a failing piece printed comes at the end. `--json` for machines, a name for one piece alone.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { root } from './copy-tree.ts';

type Piece = { name: string; args: string[]; when?: string };
type Result = { name: string; ok: boolean; seconds: number; line: string; output: string };

const bin = (path: string) => join(root, 'node_modules', path);

/** The slow ones first, so that the last one to start is a short one. `when`: only once that file exists. */
const PIECES: Piece[] = [
  { name: 'schema', args: ['scripts/schema-print.ts'], when: 'migrations' },
  { name: 'contracts', args: ['scripts/compile-contracts.ts', '--check'], when: 'scripts/compile-contracts.ts' },
  { name: 'types', args: [bin('typescript/bin/tsc'), '--project', '.'] },
  { name: 'lint', args: [bin('oxlint/bin/oxlint'), '--type-aware', '--deny-warnings'] },
  {
    name: 'walls',
    args: [
      bin('dependency-cruiser/bin/dependency-cruise.mjs'),
      '--config',
      '.dependency-cruiser.mjs',
      ...['src', 'sim', 'bin', 'scripts', 'guards', 'bench', 'test'].filter((folder) => existsSync(join(root, folder))),
    ],
  },
  { name: 'dead code', args: [bin('knip/bin/knip.js'), '--no-progress', '--no-config-hints'] },
  { name: 'format', args: [bin('@biomejs/biome/bin/biome'), 'format', '--reporter=summary'] },
  { name: 'cases', args: ['scripts/cases-index.ts'] },
  { name: 'states', args: ['scripts/states-doc.ts'] },
  { name: 'bank faults', args: ['scripts/bank-faults-doc.ts'] },
  { name: 'errors', args: ['scripts/errors-doc.ts', '--check'], when: 'scripts/errors-doc.ts' },
  { name: 'settings', args: ['scripts/config-doc.ts', '--check'] },
  { name: 'words', args: ['scripts/words.ts'] },
];

/** A piece that hangs is a failure, told within the time that the whole check may take. */
const PIECE_TIMEOUT_MS = 240_000;

/** Of a failing piece, when several run: enough to see what it is about. Alone (`npm run check -- lint`) it prints all. */
const SHOWN_LINES_MAX = 60;

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1)?.trim() || 'nothing found';
}

async function runPiece(piece: Piece): Promise<Result> {
  const began = performance.now();
  const child = spawn(process.execPath, piece.args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PIECE_TIMEOUT_MS,
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const ok = code === 0;
  const line = ok ? lastLine(output) : `failed${code === null ? ' (ended by a signal or too slow)' : ''}`;
  return { name: piece.name, ok, seconds: (performance.now() - began) / 1000, line, output };
}

function shown(output: string): string {
  const lines = output.trim().split('\n');
  if (asked.length === 1 || lines.length <= SHOWN_LINES_MAX) return lines.join('\n');
  return [...lines.slice(0, SHOWN_LINES_MAX), `… ${lines.length - SHOWN_LINES_MAX} more lines`].join('\n');
}

function show(result: Result): void {
  const word = result.ok ? styleText('green', 'ok  ') : styleText('red', 'FAIL');
  console.log(
    `${word} ${result.name.padEnd(10)} ${result.seconds.toFixed(1).padStart(5)} s  ${result.line.slice(0, 100)}`,
  );
}

const asJson = process.argv.includes('--json');
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const queue = PIECES.filter((piece) => piece.when === undefined || existsSync(join(root, piece.when))).filter(
  (piece) => asked.length === 0 || asked.includes(piece.name),
);
if (queue.length === 0) {
  console.error(`No such piece. There are: ${PIECES.map((piece) => piece.name).join(', ')}.`);
  process.exit(2);
}

const began = performance.now();
const results: Result[] = [];
async function worker(): Promise<void> {
  for (let piece = queue.shift(); piece !== undefined; piece = queue.shift()) {
    const result = await runPiece(piece);
    results.push(result);
    if (!asJson) show(result);
  }
}
await Promise.all(Array.from({ length: Math.min(3, availableParallelism() + 1) }, worker));

const failed = results.filter((result) => !result.ok);
const seconds = (performance.now() - began) / 1000;
if (asJson) {
  console.log(JSON.stringify({ ok: failed.length === 0, seconds, pieces: results }, null, 2));
} else {
  for (const result of failed) console.log(`\n--- ${result.name}\n${shown(result.output)}`);
  const verdict = failed.length === 0 ? 'all good' : `failed: ${failed.map((result) => result.name).join(', ')}`;
  console.log(`\ncheck: ${verdict}, ${seconds.toFixed(1)} s`);
}
process.exitCode = failed.length === 0 ? 0 : 1;
