/*
 * Goal: the rules of how the code reads, as far as a machine can see them, hold everywhere: sizes, names, head comments, the
 * three markers in their places, titles that are sentences. Method: every file that git would commit is read.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { titlesIn } from '../../scripts/cases-index.ts';
import { root, treeFiles } from '../../scripts/copy-tree.ts';

/** A file past this is two things. Written by machines or compared by them: no limit. */
const FILE_LINES_MAX = 450;
/** A test file is a list, read by its titles; past this nobody finds the one that is meant. */
const TEST_LINES_MAX = 650;
const WRITTEN_BY_MACHINES = /^(?:schema\.sql|sim\/contracts\/artifacts\.ts)$/;

/** Each says nothing about what is inside. */
const NAMES_THAT_SAY_NOTHING =
  /(?:^|[-/.])(?:utils?|helpers?|commons?|managers?|services?|handlers?|misc|info)(?:[-/.]|$)/;

/** A folder's leading file tells in its head comment what the folder promises and never does. */
const HEAD_LINES_MIN = 3;
const HEAD_LINES_MAX = 40;

const files = treeFiles();
const code = files.filter((file) => /\.(?:ts|tsx|js|mjs)$/.test(file));
const source = (file: string): string => readFileSync(join(root, file), 'utf8');

function linesWith(pattern: RegExp, among: string[]): string[] {
  return among.flatMap((file) =>
    source(file)
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
  );
}

function headComment(text: string): string[] {
  const head = /^(?:#!.*\n)?\s*\/\*([\s\S]*?)\*\//.exec(text);
  return head === null ? [] : (head[1] ?? '').split('\n').filter((line) => line.replaceAll(/[\s*]/g, '') !== '');
}

test('no file is longer than one thing needs', () => {
  const long = files
    .filter((file) => /\.(?:ts|tsx|js|mjs|sql)$/.test(file) && !WRITTEN_BY_MACHINES.test(file))
    .map((file) => ({ file, lines: source(file).split('\n').length - 1 }))
    .filter(({ file, lines }) => lines > (file.endsWith('.test.ts') ? TEST_LINES_MAX : FILE_LINES_MAX));
  assert.deepEqual(long, []);
});

test('no file or folder has a name that says nothing', () => {
  const own = files.filter((file) => /^(?:src|sim|test|scripts|bench|guards|migrations)\//.test(file));
  assert.deepEqual(
    own.filter((file) => NAMES_THAT_SAY_NOTHING.test(file)),
    [],
  );
});

test('files of code have kebab-case names', () => {
  const own = code.filter((file) => /^(?:src|sim|test|scripts|bench|guards)\//.test(file));
  assert.deepEqual(
    own.filter((file) => !/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.test|\.d)?\.(?:ts|tsx|js|mjs)$/.test(basename(file))),
    [],
  );
});

test('each folder of the product has a leading file that begins with what it promises', () => {
  const folders = Map.groupBy(
    code.filter((file) => /^(?:src|sim)\/.+\//.test(file) && !WRITTEN_BY_MACHINES.test(file)),
    (file) => dirname(file),
  );
  const without = [...folders].filter(([, members]) => {
    const heads = members.map((file) => headComment(source(file)).length);
    return !heads.some((lines) => lines >= HEAD_LINES_MIN && lines <= HEAD_LINES_MAX);
  });
  assert.deepEqual(
    without.map(([folder]) => folder),
    [],
  );
});

test('each test file begins with its goal and method', () => {
  const tests = files.filter((file) => file.endsWith('.test.ts'));
  assert.deepEqual(
    tests.filter((file) => headComment(source(file)).length === 0),
    [],
  );
});

test('bytes leave only in the wire clients of rails and the courier', () => {
  const elsewhere = code.filter((file) => file.startsWith('src/') && !/^src\/(?:rails\/|outbox\/)/.test(file));
  assert.deepEqual(linesWith(/\bLEAVES:/, elsewhere), []);
});

test('money is freed only in settle', () => {
  const elsewhere = code.filter((file) => file.startsWith('src/') && !/^src\/engine\/settle[^/]*\.ts$/.test(file));
  assert.deepEqual(linesWith(/\bFREES:/, elsewhere), []);
});

test('no loop runs on an interval timer (req R3)', () => {
  const own = code.filter((file) => /^(?:src|sim|bench)\//.test(file));
  assert.deepEqual(linesWith(/\bsetInterval\s*\(/, own), []);
});

test('only main/config reads the environment', () => {
  const own = code.filter((file) => file.startsWith('src/') && file !== 'src/main/config.ts');
  assert.deepEqual(linesWith(/\bprocess\.env\b|\bprocess\['env'\]/, own), []);
});

test('every title of a test is a sentence', () => {
  const tests = files.filter((file) => file.endsWith('.test.ts'));
  const short = tests.flatMap((file) =>
    titlesIn(source(file))
      .filter((title) => title.trim().split(/\s+/).length < 3)
      .map((title) => `${file}: ${title}`),
  );
  assert.deepEqual(short, []);
});
