/*
 * Goal: what is published runs where it is installed. Method: the tree is packed in a copy (prepack builds dist/), the
 * tarball is installed into an empty folder, and there the command and the import are used as a user would. Node strips no
 * types under node_modules, so this fails if anything of src/ is reached.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { copyTree, root } from '../../scripts/copy-tree.ts';

const run = promisify(execFile);
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** npm hands its own settings down by environment; a user's shell has none of them. */
const env = Object.fromEntries(
  Object.entries({
    ...process.env,
    PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
  }).filter(
    ([name]) => !/^npm_(?:config_local_prefix|package_|lifecycle_|execpath)/.test(name) && name !== 'NODE_TEST_CONTEXT',
  ),
);

const copy = copyTree('pack');
const home = mkdtempSync(join(tmpdir(), 'payonce-installed-'));
after(() => [copy, home].forEach((folder) => rmSync(folder, { recursive: true, force: true })));

before(async () => {
  await run('npm', ['pack', '--silent', '--pack-destination', home], { cwd: copy, env });
  const tarball = readdirSync(home).find((file) => file.endsWith('.tgz'));
  assert.ok(tarball !== undefined, 'npm pack left no tarball');
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name: 'host', private: true, type: 'module' }));
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', `./${tarball}`], { cwd: home, env });
  chmodSync(home, 0o755);
});

test('a packed tarball carries the compiled product and no TypeScript source', () => {
  const installed = join(home, 'node_modules/payonce');
  assert.deepEqual(readdirSync(installed).sort(), [
    'ARCHITECTURE.md',
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'bin',
    'dist',
    'docs',
    'package.json',
  ]);
  assert.ok(existsSync(join(installed, 'dist/src/index.js')));
  assert.ok(existsSync(join(installed, 'dist/src/index.d.ts')));
  assert.deepEqual(
    readdirSync(join(installed, 'dist/migrations')).sort(),
    readdirSync(join(root, 'migrations')).sort(),
  );
});

test('npx payonce runs from an installed tarball', async () => {
  const { stdout } = await run('npx', ['--no-install', 'payonce', '--version'], { cwd: home, env });
  assert.equal(stdout.trim(), version);
});

test('a host imports payonce from an installed tarball', async () => {
  const script = "const payonce = await import('payonce'); console.log(payonce.version);";
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: home, env });
  assert.equal(stdout.trim(), version);
});

test('the program of docs/library.md runs under the package’s own name, as it stands, and the page says what to build first', async () => {
  const text = readFileSync(join(root, 'docs/library.md'), 'utf8');
  const [program, printed] = ['js', 'text'].map((kind) => text.split(`\`\`\`${kind}\n`)[1]?.split('```')[0]);
  assert.ok(program !== undefined && printed !== undefined);
  assert.match(text, /npm ci && npm run build/);
  // `prepack` has built the copy: the package finds itself by its name there, as in a clone.
  writeFileSync(join(copy, 'try.mjs'), program);
  const { stdout } = await run(process.execPath, ['try.mjs'], { cwd: copy, env });
  assert.equal(stdout, printed);
});

test('every migration that the installed program knows is the one in the tree', async () => {
  const script =
    "const { readMigrations } = await import('./node_modules/payonce/dist/src/db/migrate.js'); console.log(JSON.stringify(readMigrations().map((m) => m.id)));";
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: home, env });
  const inTree = readdirSync(join(root, 'migrations')).filter((file) => file.endsWith('.sql'));
  assert.deepEqual(JSON.parse(stdout), inTree.map((file) => file.replace(/\.sql$/, '')).sort());
});
