/*
 * Which test proves which number. Reads test titles and compares them with test/cases.ts; with --list the whole list is
 * printed (no file holds it: nothing can go stale). Fails when a number of the step in hand has no test and is not listed as
 * pending, and when a title names a number that does not exist. Pending numbers are printed, those that have got their test
 * by now as well, so that they are taken off.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './copy-tree.ts';
import { NUMBERS, PENDING, STEP_NOW, STEPS, TOTALS, type Kind } from '../test/cases.ts';

const KINDS: Kind[] = ['case', 'req', 'inv'];
const HEADINGS: Record<Kind, string> = { case: 'Field cases', req: 'Requirements', inv: 'Invariants' };

const pending = new Set(KINDS.flatMap((kind) => expand(PENDING[kind]).map((number) => `${kind} ${number}`)));

type Claim = { file: string; title: string };

/** "A1-A3 B2" and "A1–A3, B2" both give A1 A2 A3 B2; "A1, 2" is not a list of numbers. */
export function expand(text: string): string[] {
  const found: string[] = [];
  for (const match of text.matchAll(/([A-Z])(\d+)(?:\s*[-–]\s*([A-Z])(\d+))?/g)) {
    const [, letter, first, , last] = match;
    for (let n = Number(first); n <= Number(last ?? first); n += 1) found.push(`${letter}${n}`);
  }
  return found;
}

/** Every "case X1", "req W1, W2" or "inv L1–L3" in a title, as "case X1". */
export function claimsIn(title: string): string[] {
  const list = /\b(case|req|inv)s?\.?\s+([A-Z]\d+(?:\s*(?:,|and|-|–)\s*[A-Z]\d+)*)/g;
  return [...title.matchAll(list)].flatMap((match) => expand(match[2] ?? '').map((number) => `${match[1]} ${number}`));
}

/** Titles given to test(), describe() and the like, and `title:` of tables that tests are made from. */
export function titlesIn(source: string): string[] {
  const literal = /(?:\b(?:test|it|describe|suite)(?:\.\w+)?\(\s*|\btitle:\s*)(['"`])((?:\\.|(?!\1)[^\\])*)\1/gs;
  return [...source.matchAll(literal)].map((match) => (match[2] ?? '').replaceAll(/\\(['"`])/g, '$1'));
}

function readClaims(): Map<string, Claim[]> {
  const claims = new Map<string, Claim[]>();
  for (const file of globSync('test/**/*.test.ts', { cwd: root }).sort()) {
    for (const title of titlesIn(readFileSync(join(root, file), 'utf8'))) {
      for (const number of new Set(claimsIn(title)))
        claims.set(number, [...(claims.get(number) ?? []), { file, title }]);
    }
  }
  return claims;
}

function stepOf(): Map<string, number> {
  const steps = new Map<string, number>();
  for (const kind of KINDS) {
    for (const [step, text] of Object.entries(NUMBERS[kind])) {
      for (const number of expand(text)) steps.set(`${kind} ${number}`, Number(step));
    }
  }
  return steps;
}

function faults(steps: Map<string, number>, claims: Map<string, Claim[]>): string[] {
  const found: string[] = [];
  for (const kind of KINDS) {
    const count = [...steps.keys()].filter((number) => number.startsWith(kind)).length;
    if (count !== TOTALS[kind])
      found.push(`test/cases.ts lists ${count} numbers of kind "${kind}", expected ${TOTALS[kind]}`);
  }
  for (const [number, step] of steps) {
    if (step <= STEP_NOW && !claims.has(number) && !pending.has(number)) {
      found.push(`${number} (step ${step}) has no test: name it in a title, or list it in PENDING of test/cases.ts`);
    }
  }
  for (const number of pending) {
    if (!steps.has(number)) found.push(`${number} is pending in test/cases.ts but is no known number`);
  }
  for (const [number, by] of claims) {
    if (!steps.has(number)) found.push(`${by[0]?.file}: "${by[0]?.title}" names ${number}, which does not exist`);
  }
  return found;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
}

function page(steps: Map<string, number>, claims: Map<string, Claim[]>): string {
  const out = ['# Which test proves what', '', 'From the titles of the tests and `test/cases.ts`.'];
  for (const kind of KINDS) {
    const rows = [...steps].filter(([number]) => number.startsWith(kind));
    rows.sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
    const tested = rows.filter(([number]) => claims.has(number)).length;
    out.push('', `## ${HEADINGS[kind]}`, '', `${tested} of ${rows.length} have a test.`);
    if (tested > 0) out.push('', '| number | proved by |', '|---|---|');
    for (const [number] of rows) {
      const by = claims.get(number) ?? [];
      const text = by.map((claim) => `"${cell(claim.title)}" (\`${claim.file}\`)`).join('<br>');
      if (text !== '') out.push(`| ${number} | ${text} |`);
    }
    for (const [step, title] of Object.entries(STEPS)) {
      const missing = rows.filter(([number, of]) => of === Number(step) && !claims.has(number));
      const numbers = missing.map(([number]) => number.replace(/^\w+ /, ''));
      if (missing.length > 0) out.push('', `Brought by step ${step}, ${title}: ${numbers.join(', ')}.`);
    }
  }
  return `${out.join('\n')}\n`;
}

function main(): void {
  const steps = stepOf();
  const claims = readClaims();
  const found = faults(steps, claims);
  if (process.argv.includes('--list')) console.log(page(steps, claims));
  const waiting = [...pending].filter((number) => !claims.has(number));
  const done = [...pending].filter((number) => claims.has(number));
  if (waiting.length > 0) console.log(`pending: ${waiting.join(', ')}`);
  if (done.length > 0) console.log(`tested by now, to be taken off PENDING in test/cases.ts: ${done.join(', ')}`);
  for (const fault of found) console.error(fault);
  const tested = [...steps.keys()].filter((number) => claims.has(number)).length;
  console.log(
    `${tested} of ${steps.size} numbers have a test, ${pending.size} of step ${STEP_NOW} are listed as pending`,
  );
  if (found.length > 0) process.exitCode = 1;
}

if (process.argv[1] === import.meta.filename) main();
