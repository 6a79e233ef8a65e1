/*
 * docs/errors.md from the one table of errors: every code with its status, meaning, money risk and what to do. `--check`
 * fails when the committed page is stale; without it the page is written.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeProblem, isErrorCode, type ProblemPage } from '../src/api/problem-pages.ts';
import { ERRORS } from '../src/kernel/errors.ts';
import { root } from './copy-tree.ts';

const PAGE = join(root, 'docs/errors.md');

const HEAD = `# Errors

<!-- Made by scripts/errors-doc.ts from src/kernel/errors.ts; edit there. -->

Every refusal of the API is \`application/problem+json\` (RFC 9457): \`type\` (\`/problems/{code}\`, which the server answers
with the words below), \`title\`, \`status\`, \`code\`, \`detail\`, \`hint\`, and where it helps \`pointer\` (a JSON pointer into
the body; \`/query/…\` and \`/headers/…\` for the rest), \`got\`, \`expected\` and \`resource\`; \`faults\` lists every field
that is at fault where a payee has more than one.

\`money_state\` says what may be concluded about the payment: \`not_sent\`, \`sent\`, or \`unknown\` (repeat with the same
Idempotency-Key, or follow the resource; never pay another way meanwhile). The table shows what an answer says unless it
knows better: a refusal that came before the key was looked up (429, no database, a revoked API key) says \`unknown\` when
the request carried an Idempotency-Key, since an earlier request with that key may have been taken.

Business refusals (limits, funds, destination, a taken external_id) are stored under the key and repeated for ever; wrong
API keys, malformed requests and 429 are not. Codes whose status is 500 without a request behind them are met at start.
`;

function toRow(page: ProblemPage): string {
  return `| \`${page.code}\` | ${page.status} | ${page.meaning} | ${page.money_state === null ? '–' : `\`${page.money_state}\``} | ${page.what_to_do} |`;
}

function print(): string {
  const rows = Object.keys(ERRORS)
    .filter(isErrorCode)
    .map((code) => toRow(describeProblem(code)));
  return [HEAD, '| code | status | meaning | money_state | what to do |', '|---|---|---|---|---|', ...rows, ''].join(
    '\n',
  );
}

const text = print();
if (!process.argv.includes('--check')) writeFileSync(PAGE, text);
const committed = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
if (committed === text) {
  console.log(`docs/errors.md is the table of ${Object.keys(ERRORS).length} errors`);
} else {
  console.error('docs/errors.md differs from src/kernel/errors.ts: run `node scripts/errors-doc.ts` and commit it');
  process.exitCode = 1;
}
