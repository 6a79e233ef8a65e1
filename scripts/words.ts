/*
 * Reads every text file of the tree for what belongs to nobody's product: paths of one machine, left-overs, loose typing,
 * and amounts that pass through a floating-point number. The lint gate sees types; this sees words.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, treeFiles } from './copy-tree.ts';

type Rule = { what: string; pattern: RegExp; files: RegExp };

const CODE = /\.(?:ts|tsx|js|mjs|cjs|sql)$/;
const TEXT = /\.(?:ts|tsx|js|mjs|cjs|sql|md|json|yml|yaml|sh)$|(?:^|\/)(?:\.npmrc|\.gitignore|\.ci\/run)$/;
const MONEY = '(?:amount|balance|units|wei|fee|price|held|deficit|value)s?';

/** The patterns are written so that this file does not match itself. */
const RULES: Rule[] = [
  {
    what: 'a path of one machine',
    pattern: /(?:\/wor[k]\/|\/hom[e]\/\w|\/User[s]\/|[A-Z]:\\User[s]|\.\.\/share[d]\b)/,
    files: TEXT,
  },
  { what: 'a package registry by host', pattern: /registry\.npm[j]s|\bnpm\.pkg\.git[h]ub|verdacci[o]/i, files: TEXT },
  { what: 'a left-over', pattern: /\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b/, files: TEXT },
  { what: 'a debugger statement', pattern: /^\s*debugge[r];/m, files: CODE },
  { what: 'a test that runs alone or never', pattern: /\.(?:onl[y]|ski[p]|tod[o])\(/, files: /^test\/.*\.ts$/ },
  { what: 'a silenced type error', pattern: /@ts-(?:ignor[e]|nochec[k]|expect-erro[r])/, files: CODE },
  { what: 'an any', pattern: /:\s*an[y]\b(?!['"`])|\bas\s+an[y]\b|<an[y]>/, files: /^(?:src|sim)\/.*\.ts$/ },
  {
    what: 'an amount as a number (kernel/money.ts keeps bigint)',
    pattern: new RegExp(`\\b(?:Number|parseInt|Number\\.parseInt)\\([^()]*\\b\\w*${MONEY}\\b[^()]*\\)`, 'i'),
    files: /^(?:src|sim)\/.*\.ts$/,
  },
  {
    what: 'an amount as a number',
    pattern: new RegExp(`[=(,:]\\s*\\+(?:\\w+\\.)*${MONEY}\\b`, 'i'),
    files: /^src\/.*\.ts$/,
  },
  {
    what: 'a float column',
    pattern: /\b(?:double precision|real|float[48]?|money)\s+(?:not\s+null|default|check|,)/i,
    files: /^migrations\//,
  },
];

/** A line may say why it is right, as "words: reason", where the pattern is too coarse. */
const EXCUSE = /words: \S/;

const found: string[] = [];
let count = 0;
for (const file of treeFiles()) {
  const rules = RULES.filter((rule) => rule.files.test(file));
  if (rules.length === 0 || file === 'package-lock.json') continue;
  count += 1;
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  for (const [index, line] of lines.entries()) {
    if (EXCUSE.test(line)) continue;
    for (const rule of rules)
      if (rule.pattern.test(line)) found.push(`${file}:${index + 1}: ${rule.what}: ${line.trim()}`);
  }
}
for (const line of found) console.error(line);
console.log(
  found.length === 0 ? `${count} files carry no stray words` : `${found.length} stray words in ${count} files`,
);
if (found.length > 0) process.exitCode = 1;
