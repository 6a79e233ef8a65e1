/*
 * Builds dist/, which the published package carries because Node strips no types under node_modules. dist/ mirrors the
 * clone: src/ and what it imports of sim/ compiled, and beside them the files that the program reads at run time.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const dist = resolve(root, 'dist');

rmSync(dist, { recursive: true, force: true });
const compiler = resolve(root, 'node_modules/typescript/bin/tsc');
const compiled = spawnSync(process.execPath, [compiler, '--project', resolve(root, 'tsconfig.build.json')], {
  cwd: root,
  stdio: ['ignore', 'inherit', 'inherit'],
});
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

mkdirSync(dist, { recursive: true });
const { name, version, type } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as Record<
  string,
  string
>;
writeFileSync(resolve(dist, 'package.json'), `${JSON.stringify({ name, version, type, private: true }, null, 2)}\n`);
for (const folder of ['migrations', 'sim/contracts']) {
  if (existsSync(resolve(root, folder))) cpSync(resolve(root, folder), resolve(dist, folder), { recursive: true });
}
