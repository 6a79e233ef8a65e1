/*
 * Compares docs/bank-faults.md with the table that test/proof/bank-faults.test.ts proves, or writes it with --write.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROVIDERS } from '../test/proof/bank-faults/expected.ts';
import { FAULTS } from '../test/proof/bank-faults/faults.ts';
import { bankFaultsPage } from '../test/proof/bank-faults/page.ts';
import { root } from './copy-tree.ts';

const PAGE = join(root, 'docs/bank-faults.md');

const text = bankFaultsPage();
if (process.argv.includes('--write')) writeFileSync(PAGE, text);
if (existsSync(PAGE) && readFileSync(PAGE, 'utf8') === text) {
  console.log(`docs/bank-faults.md shows ${PROVIDERS.length} providers × ${FAULTS.length} faults`);
} else {
  console.error('docs/bank-faults.md is stale: run `npm run bank-faults` and commit it with test/proof/bank-faults/');
  process.exitCode = 1;
}
