/*
 * Goal: the guard runner has teeth. A guard counts as proved only if the named test, and no other, goes red for the named
 * reason; everything else must be reported as a fault. Method: a copy of the tree with a guard list of its own: one guard
 * that is right, and one for each way in which an entry can be wrong.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { GUARDS } from '../../guards/guards.ts';
import { copyTree, root } from '../../scripts/copy-tree.ts';
import { STEPS } from '../cases.ts';

const run = promisify(execFile);

const FLOOR = `export function take(balance: bigint, amount: bigint): bigint | 'insufficient' {
  if (amount > balance) return 'insufficient';
  return balance - amount;
}
`;

const FLOOR_TESTS = `
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { take } from '../src/floor.ts';
test('an account never goes below its floor', () => assert.equal(take(1n, 2n), 'insufficient', 'went below its floor'));
test('what is there can be taken', () => assert.equal(take(2n, 1n), 1n));
`;

const PLANTED = `
const place = {
  file: 'src/floor.ts',
  find: "  if (amount > balance) return 'insufficient';\\n",
  replace: '',
  test: 'test/floor.test.ts',
  title: /never goes below its floor/,
  expect: /went below its floor/,
};
export type Guard = { name: string } & (typeof place | { step: number });
export const GUARDS: Guard[] = [
  { name: 'right', ...place },
  { name: 'test stays green', ...place, title: /what is there can be taken/ },
  { name: 'other reason', ...place, expect: /was never written/ },
  { name: 'syntax error', ...place, replace: 'if (' },
  { name: 'text is gone', ...place, find: 'if (balance < amount)' },
  { name: 'text occurs twice', ...place, find: 'balance' },
  { name: 'later', step: 6 },
];
`;

const copy = copyTree('guard-runner');
after(() => rmSync(copy, { recursive: true, force: true }));

async function runGuards(guards: string): Promise<{ name: string; verdict: string; text: string }[]> {
  writeFileSync(join(copy, 'guards/guards.ts'), guards);
  const { stdout } = await run(process.execPath, ['scripts/guards.ts', '--json'], { cwd: copy }).catch(
    (failed: { stdout: string }) => failed,
  );
  return JSON.parse(stdout) as { name: string; verdict: string; text: string }[];
}

test('the guard runner accepts only the named test going red for the named reason', async () => {
  for (const folder of ['src', 'test/support']) rmSync(join(copy, folder), { recursive: true, force: true });
  mkdirSync(join(copy, 'src'));
  writeFileSync(join(copy, 'src/floor.ts'), FLOOR);
  writeFileSync(join(copy, 'test/floor.test.ts'), FLOOR_TESTS);
  execFileSync('git', ['init', '--quiet'], { cwd: copy });

  const outcomes = new Map((await runGuards(PLANTED)).map((outcome) => [outcome.name, outcome]));
  const verdicts = Object.fromEntries([...outcomes].map(([name, outcome]) => [name, outcome.verdict]));
  assert.deepEqual(verdicts, {
    right: 'red',
    'test stays green': 'fault',
    'other reason': 'fault',
    'syntax error': 'fault',
    'text is gone': 'fault',
    'text occurs twice': 'fault',
    later: 'not yet',
  });
  assert.match(outcomes.get('test stays green')?.text ?? '', /stays green/);
  assert.match(outcomes.get('other reason')?.text ?? '', /for another reason/);
  assert.match(outcomes.get('syntax error')?.text ?? '', /test file broke/);
  assert.match(outcomes.get('text is gone')?.text ?? '', /occurs 0 times/);
});

test('the guard runner refuses a named test that is red or missing with every guard in place', async () => {
  const missing = PLANTED.replace('/never goes below its floor/', '/no such title/');
  const outcomes = await runGuards(missing);
  assert.ok(outcomes.some((outcome) => outcome.name.startsWith('sanity') && /has no test like/.test(outcome.text)));
});

test('every guard names a place that exists once, or the step that brings it', () => {
  for (const guard of GUARDS) {
    if ('step' in guard) {
      assert.ok(STEPS[guard.step] !== undefined, `${guard.name}: there is no step ${guard.step}`);
      continue;
    }
    const occurrences = readFileSync(join(root, guard.file), 'utf8').split(guard.find).length - 1;
    assert.equal(occurrences, 1, `${guard.name}: its text occurs ${occurrences} times in ${guard.file}`);
  }
});

test('what the bank incident was proved by is taken out here too: the evidence filter, the lock, the key of a re-request (req T14)', () => {
  const named = new Map(GUARDS.map((guard) => [guard.name, guard]));
  for (const name of [
    'evidence filter (only codes after the key check)',
    'busy instead of waiting (while leased)',
    'same key on re-request',
  ]) {
    const guard = named.get(name);
    assert.ok(guard !== undefined && 'test' in guard, `${name} has a named test`);
  }
});
