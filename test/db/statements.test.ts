/*
 * Goal: no statement waits for its first use to be found broken. Method: every SQL literal of the product is PREPAREd
 * against the migrated schema, which checks tables, columns and types without running it. Literals are found in the source
 * as text: whatever begins with select, insert, update, delete or with. `${…}` may name a constant of the file, or of one that
 * it imports.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

const ROOT = join(import.meta.dirname, '../..');

interface Statement {
  readonly place: string;
  readonly sql: string;
}

let database: TestDatabase;
let client: pg.Client;
before(async () => {
  database = await testDatabase('statements');
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
after(async () => {
  await client.end();
  await database.drop();
});

/** Comments, regular expressions of one line that hold quotes, and strings: of these only the strings are taken. */
const TOKENS =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|\/(?![*/\s])(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\\\n[])+\/[a-z]*(?=[.,;)\s])|'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)"|`((?:\\.|[^`\\])*)`/g;
const SQL = /^\s*(?:select|insert into|update|delete from|with)\s/i;

function literalsIn(source: string): { text: string; at: number }[] {
  return [...source.matchAll(TOKENS)].flatMap((match) => {
    const text = match[1] ?? match[2] ?? match[3];
    return text === undefined ? [] : [{ text: text.replaceAll(/\\(['"`$\\])/g, '$1'), at: match.index }];
  });
}

/** `const NAME = '…'`, or of a template. */
function constantsIn(source: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { text, at } of literalsIn(source)) {
    const named = /(?:const|let) (\w+) =\s*$/.exec(source.slice(0, at));
    if (named?.[1] !== undefined) found.set(named[1], text);
  }
  for (const [, name, value] of source.matchAll(/const (\w+) = ([\d_]+);/g)) {
    if (name !== undefined && value !== undefined) found.set(name, value.replaceAll('_', ''));
  }
  return found;
}

function filledIn(text: string, constants: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => {
    const value = constants.get(name);
    return value === undefined ? whole : filledIn(value, constants);
  });
}

function statementsOf(file: string): Statement[] {
  const source = readFileSync(join(ROOT, file), 'utf8');
  const constants = new Map(
    [
      ...[...source.matchAll(/from '(\.[\w./-]+\.ts)'/g)].map(([, name]) => readBeside(file, name ?? '')),
      source,
    ].flatMap((text) => [...constantsIn(text)]),
  );
  return literalsIn(source)
    .filter(({ text }) => SQL.test(text) && /payonce\.|pg_|\$1/.test(text))
    .map(({ text, at }) => ({
      place: `${file}:${source.slice(0, at).split('\n').length}`,
      sql: filledIn(text, constants),
    }));
}

function readBeside(file: string, name: string): string {
  return readFileSync(join(ROOT, dirname(file), name), 'utf8');
}

const statements = globSync('src/**/*.ts', { cwd: ROOT }).sort().flatMap(statementsOf);
/** Made at run time from a closed list, and run by a test of its own. */
const MADE = statements.filter(({ sql }) => /\$\{/.test(sql));

test('every statement of the product fits the schema', async () => {
  const broken: string[] = [];
  for (const { place, sql } of statements) {
    if (/\$\{/.test(sql)) continue;
    try {
      await client.query(`prepare statement as ${sql}`);
      await client.query('deallocate statement');
    } catch (error) {
      broken.push(`${place}: ${(error as Error).message}`);
    }
  }
  assert.deepEqual(broken, []);
  assert.ok(statements.length > 100, `only ${statements.length} statements were found`);
});

test('few statements are made at run time', () => {
  assert.deepEqual([...new Set(MADE.map(({ place }) => place.replace(/:\d+$/, '')))], ['src/audit/invariants.ts']);
});

test('a statement that does not fit is found', async () => {
  assert.deepEqual(
    literalsIn("const A = `select ${B}`; // 'no'\nconst B = 'x';").map(({ text }) => text),
    ['select ${B}', 'x'],
  );
  assert.equal(filledIn('select ${B}', constantsIn("const B = 'x';")), 'select x');
  await assert.rejects(client.query('prepare statement as select no_such_column from payonce.effects'), {
    code: '42703',
  });
});
