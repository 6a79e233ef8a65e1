/*
 * Goal: what was taken in wrongly can be put right, what a later file knows more is not lost, and a file that was broken on
 * purpose costs nothing. Method: real payments at a simulated bank, its statements as files, and two persons.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEffects } from '../../src/audit/story.ts';
import { type Imported, importStatement } from '../../src/audit/statements/import.ts';
import {
  listStatementFiles,
  makeStatementVerbs,
  openVoidCase,
  showStatementFile,
} from '../../src/audit/statements/void.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import { OPERATOR, payingScene, PERIOD, RAIL, type Scene, TODAY } from './reconcile-scene.ts';

const { from, to, currency } = PERIOD;

function take(
  { world }: Scene,
  text: string,
  columns: Record<string, string> = {},
  name = 'may.csv',
): Promise<Imported> {
  const bytes = Buffer.from(text);
  return importStatement(world, OPERATOR, { rail: RAIL, name, bytes, csv: { currency, from, to, columns } });
}

function fresh(done: Imported): number | string {
  return done.outcome === 'refused' ? JSON.stringify(done.faults) : done.fresh;
}

async function person({ world }: Scene, who: string): Promise<Operator> {
  const { pool, makeId, ports } = world;
  return (await pool.tx('op', (tx) => createOperator(tx, makeId, ports.chance, who, 'approver', 'test'))).operator;
}

async function keysOf({ world }: Scene): Promise<string[]> {
  const { rows } = await world.pool.query<{ key: string }>(
    "select expect ->> 'key' as key from payonce.effects order by id",
  );
  return rows.map((row) => row.key);
}

async function kinds(one: Scene): Promise<string[]> {
  return (await one.reconcile({ from, to })).findings.map((found) => found.kind);
}

test('a file that was read by wrong columns is voided by two persons and taken in again; what another file shows stays', async () => {
  const one = await payingScene();
  await one.pay(1);
  const [key = ''] = await keysOf(one);
  const text = `date,amount,id,reference,other\n${TODAY},-12501,E1,${key},nothing\n`;
  const wrongly = { reference: 'other', text: 'other' };
  assert.equal(fresh(await take(one, text, wrongly)), 1);
  assert.deepEqual(await kinds(one), ['orphan', 'missing']);
  const again = await take(one, text);
  assert.equal(again.outcome, 'known', 'it is known by its bytes, however it is read');

  const { world } = one;
  const engine = { ...world.engine, verbs: new Map(Object.entries(makeStatementVerbs(world.pool))) };
  const [ann, bob] = [await person(one, 'ann'), await person(one, 'bob')];
  const sha256 = again.outcome === 'known' ? again.sha256 : '';
  const shown = await showStatementFile(world.pool, sha256.slice(0, 12));
  assert.deepEqual([shown.file.lines, shown.lines[0]?.refs, shown.lines[0]?.is_void], [1, ['E1', 'nothing'], false]);
  const caseId = await openVoidCase(world.pool, world.makeId, sha256.slice(0, 12));
  const { proposalId } = await propose(engine, ann, caseId, 'void_statement', { reason: 'columns swapped' });
  await assert.rejects(approve(engine, ann, proposalId), /second person/);
  assert.match(JSON.stringify(await approve(engine, bob, proposalId)), /is void: 1 of its 1 lines count no longer/);
  await assert.rejects(one.reconcile({ from, to }), /No statement/, 'nothing of it counts');
  await assert.rejects(openVoidCase(world.pool, world.makeId, sha256), /void already/);

  assert.equal(fresh(await take(one, text)), 1);
  assert.deepEqual(await kinds(one), []);
  assert.deepEqual(
    (await listStatementFiles(world.pool, { rail: RAIL, sha256: null })).map((file) => [
      file.take,
      file.voided_at === null,
    ]),
    [
      [2, true],
      [1, false],
    ],
  );
  assert.equal((await take(one, text)).outcome, 'known', 'and once only');
});

test('nobody voids a statement but two persons, and none is taken in twice while it counts', async () => {
  const one = await payingScene();
  await take(one, `date,amount,id\n${TODAY},-1,E1\n`);
  const { pool } = one.world;
  await assert.rejects(
    pool.query(
      "insert into payonce.statement_voids (file_sha256, take, proposal_id) select sha256, take, 'prop_x' from payonce.statement_files",
    ),
    /voided by two persons/,
  );
  await assert.rejects(
    pool.query(`insert into payonce.statement_files (sha256, take, rail, name, format, imported_by)
      select sha256, take + 1, rail, name, format, imported_by from payonce.statement_files`),
    /is not void/,
  );
});

test('a later file that shows a known line with our key tells it to everybody: report, story, and what was released', async () => {
  const one = await payingScene({ otherAccounts: 'unknown' });
  await one.pay(1);
  const [key = ''] = await keysOf(one);
  const [state] = (await one.world.pool.query<{ state: string }>('select state from payonce.effects')).rows;
  assert.equal(state?.state, 'RELEASED');
  const first = await take(one, `date,amount,id\n${TODAY},-12501,E1\n`);
  assert.deepEqual(first.outcome === 'imported' && first.woken.cases, []);
  const second = await take(one, `date,amount,id,reference\n${TODAY},-12501,E1,${key}\n`, {}, 'june.csv');
  assert.deepEqual([fresh(second), second.outcome === 'imported' && second.woken.cases.length], [0, 1]);
  assert.deepEqual(await kinds(one), ['released_on_statement']);
  const { rows } = await one.world.pool.query<{ id: bigint }>('select id from payonce.effects');
  const [story] = await readEffects(
    one.world.pool,
    rows.map((row) => row.id),
  );
  assert.deepEqual(
    story?.statement_lines.map((line) => [line.booked_on, line.direction, line.amount, line.own_reference]),
    [[TODAY, 'out', '12501', 'E1']],
  );
});

test('our key is found inside a cell, with a name behind it', async () => {
  const one = await payingScene();
  await one.pay(2);
  const [key = '', other = ''] = await keysOf(one);
  await take(
    one,
    `date,amount,id,reference,text\n${TODAY},-12501,E1,${key} 홍길동,\n${TODAY},-12502,E2,,급여/${other}\n${TODAY},-7,E3,rent,\n`,
  );
  const { findings } = await one.reconcile({ from, to });
  assert.deepEqual(
    findings.map((found) => [found.kind, found.reference]),
    [['orphan', 'E3']],
  );
});

const XML = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">';

test('a file that was broken on purpose is refused at its first fault, in a moment and in words', async () => {
  const one = await payingScene();
  const started = performance.now();
  for (const [text, fault] of [
    [`${XML}${'<a>'.repeat(200_000)}`, /more than 64 deep/],
    [
      `${XML}<a ${Array.from({ length: 100_000 }, (_, n) => `a${n}="1"`).join(' ')}/></Document>`,
      /more than 64 attributes/,
    ],
    [`${XML}&#0;${'<a>'.repeat(200_000)}`, /no well-formed XML/],
    [`date,amount,id,text\n${TODAY},-1,E1,a\u0000b\n`, /NUL/],
    ['date,amount,id\n0000-01-01,-1,E1\n', /no day such as/],
    [`date,amount,id\n${TODAY},-1,${'x'.repeat(600)}\n`, /a reference has 600 characters/],
  ] as const) {
    const done = await take(one, text);
    assert.match(done.outcome === 'refused' ? JSON.stringify(done.faults) : done.outcome, fault);
  }
  assert.ok(performance.now() - started < 5_000, `${performance.now() - started} ms`);
});
