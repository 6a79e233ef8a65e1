/*
 * docs/config.md is what `payonce config --reference` prints. Compares them (`--check`, or nothing); `--write` writes the
 * page.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { configReference } from '../src/main/config.ts';
import { root } from './copy-tree.ts';

const PAGE = join(root, 'docs/config.md');

const text = configReference();
if (process.argv.includes('--write')) {
  mkdirSync(dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, text);
}
if (existsSync(PAGE) && readFileSync(PAGE, 'utf8') === text) {
  console.log('docs/config.md is what the program reads');
} else {
  console.error(
    'docs/config.md differs from what src/main/config.ts reads: run `node scripts/config-doc.ts --write` and commit it',
  );
  process.exitCode = 1;
}
