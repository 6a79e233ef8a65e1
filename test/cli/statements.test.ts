/*
 * Goal: a statement is taken in and compared at the command line: by an operator, whole or not at all, and with an exit code
 * that a script can act on. Method: the real program on files that the simulated bank wrote of what it really paid.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeCamt, writeCsv } from '../../sim/bank/statement.ts';
import { assertBooksClean } from '../support/books.ts';
import { CSV, payingScene, PERIOD, RAIL, TODAY } from '../audit/reconcile-scene.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'payonce-statements-'));
});
after(() => rm(folder, { recursive: true, force: true }));

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

test('a statement with a double and a hole is taken in once, and its report ends with exit code 1', async () => {
  const one = await payingScene();
  const [, second, third] = await one.pay(3);
  const run = payonceOn(one.world.url);
  const admin = await firstAdmin(run);
  const written = await writeCamt(one.bank, {
    ...PERIOD,
    plant: ([first, double]) => (first && double ? [first, double, { ...double, id: 'again' }] : []),
  });
  const path = await file('may.xml', written.text);
  assert.equal((await run(['statement', 'import', path, '--rail', RAIL])).code, 2, 'nobody said who it is');
  const viewer = await addOperator(run, admin, 'Vera', 'viewer');
  const barred = await run(['statement', 'import', path, '--rail', RAIL, '--json'], viewer);
  assert.equal(barred.problem().code, 'PO_OPERATOR_FORBIDDEN');

  const taken = await run(['statement', 'import', path, '--rail', RAIL], admin);
  assert.equal(taken.code, 0, taken.stderr);
  assert.match(
    taken.stdout,
    /^Taken in: 3 lines, 3 of them new\.\ncovers KRW \S+ to \S+, account DE02120300000000202051\n/,
  );
  const again = (await run(['statement', 'import', path, '--rail', RAIL, '--json'], admin)).json<{
    outcome: string;
    fresh: number;
  }>();
  assert.deepEqual([again.outcome, again.fresh], ['known', 0]);

  const report = await run(['reconcile', 'bank', '--rail', RAIL]);
  assert.equal(report.code, 1, report.stderr);
  for (const part of [
    /3 lines of 1 statements, 3 of them matched/,
    new RegExp(
      `double +${TODAY} +par_test +12502 KRW +${second ?? ''} +\\d+ SETTLED +2 lines; may\\.xml Stmt\\[1\\]/Ntry\\[2\\]`,
    ),
    new RegExp(`missing +${TODAY} +par_test +12503 KRW +${third ?? ''} +\\d+ SETTLED +no line by`),
    /Balances\nDAYS .*\n.* 1000000000 KRW +-37505 KRW +999962495 KRW +-37506 KRW +1 KRW/,
  ])
    assert.match(report.stdout, part);
  const json = (await run(['reconcile', 'bank', '--rail', RAIL, '--json'])).json<{
    ok: boolean;
    findings: { kind: string; amount: string; reference: string; effect_id: string; lines: unknown[] }[];
  }>();
  assert.equal(json.ok, false);
  assert.deepEqual(
    json.findings.map((found) => [found.kind, found.amount, found.reference, found.lines.length]),
    [
      ['double', '12502', second, 2],
      ['missing', '12503', third, 0],
    ],
  );
  const alerts = await run(['alerts']);
  assert.match(alerts.stdout, /bank_reconcile +bank:generic .* 2 differences between bank:generic and its statements/);
  const acts = await run(['audit', 'list', '--object', RAIL]);
  assert.match(acts.stdout, /Ada +statement\.import +bank:generic/);
  assert.equal((await run(['reconcile', 'bank', '--rail', 'bank:nobody'])).code, 3);
  await assertBooksClean(one.world.pool);
});

test('a CSV is read by the columns that are named, and one that is not what it says names line and column', async () => {
  const one = await payingScene();
  await one.pay(2);
  const run = payonceOn(one.world.url);
  const admin = await firstAdmin(run);
  const { text } = await writeCsv(one.bank, { ...PERIOD, delimiter: ';' });
  const columns = Object.entries(CSV.columns).flatMap(([name, header]) => ['--column', `${name}=${header}`]);
  const bad = await file('bad.csv', text.replace('12502', '1.1E+11'));
  const refused = await run(['statement', 'import', bad, '--rail', RAIL, ...columns], admin);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /Nothing was taken in\. line 3, column 3: "1\.1E\+11" is no amount of KRW/);
  const unnamed = await run(['statement', 'import', bad, '--rail', RAIL], admin);
  assert.match(unnamed.stderr, /no such column: date; the header has Booked, Entry, Debit/);
  assert.equal((await run(['statement', 'import', join(folder, 'none'), '--rail', RAIL], admin)).code, 2);
  assert.equal((await run(['statement', 'import', bad, '--rail', RAIL, '--column', 'colour=Red'], admin)).code, 2);

  const good = await file('good.csv', text);
  const period = ['--from', PERIOD.from, '--to', PERIOD.to];
  const taken = await run(['statement', 'import', good, '--rail', RAIL, ...columns, ...period, '--json'], admin);
  assert.equal(taken.code, 0, taken.stderr);
  assert.deepEqual(taken.json<{ statements: unknown[] }>().statements, [
    { currency: 'KRW', from: PERIOD.from, to: PERIOD.to },
  ]);
  const clean = await run(['reconcile', 'bank', '--rail', RAIL, '--from', PERIOD.from, '--to', PERIOD.to]);
  assert.equal(clean.code, 0, clean.stdout + clean.stderr);
  assert.match(clean.stdout, /2 lines of 1 statements, 2 of them matched\.\nNothing differs\./);
  assert.match((await run(['alerts'])).stdout, /No open alert/);
  assert.equal((await run(['reconcile', 'bank', '--rail', RAIL, '--from', 'yesterday'])).code, 2);
  await assertBooksClean(one.world.pool);
});

test('a file that was read wrongly is listed, shown, voided by two persons and taken in again; then the story shows its line', async () => {
  const one = await payingScene();
  const [id = ''] = await one.pay(1);
  const run = payonceOn(one.world.url);
  const admin = await firstAdmin(run);
  const bob = await addOperator(run, admin, 'Bob', 'approver');
  const { rows } = await one.world.pool.query<{ key: string }>("select expect ->> 'key' as key from payonce.effects");
  const path = await file('swapped.csv', `date,amount,id,mine,other\n${TODAY},-12501,E1,${rows[0]?.key ?? ''},rent\n`);
  const take = [
    'statement',
    'import',
    path,
    '--rail',
    RAIL,
    '--currency',
    'KRW',
    '--from',
    PERIOD.from,
    '--to',
    PERIOD.to,
  ];
  const wrongly = await run([...take, '--column', 'reference=other'], admin);
  assert.equal(wrongly.code, 0, wrongly.stderr);
  const report = await run(['reconcile', 'bank', '--rail', RAIL]);
  assert.match(
    report.stdout,
    new RegExp(`orphan +${TODAY} .* rent +`),
    'what the bank wrote, not its number of the entry',
  );
  const again = await run([...take, '--column', 'reference=mine'], admin);
  const sha256 = /payonce statement void ([0-9a-f]{12})/.exec(again.stdout)?.[1] ?? assert.fail(again.stdout);
  assert.match((await run(['statement', 'list'])).stdout, new RegExp(`${sha256} +${RAIL} +swapped\\.csv .* Ada `));
  assert.match((await run(['statement', 'show', sha256])).stdout, /line 2 +\S+ +out +12501 KRW +E1 rent/);
  const made = await run(['statement', 'void', sha256, '--reason', 'columns swapped', '--json'], admin);
  const { proposal_id: proposal } = made.json<{ proposal_id: string }>();
  assert.match((await run(['case', 'approve', proposal], bob)).stdout, /is void: 1 of its 1 lines count no longer/);
  assert.equal((await run([...take, '--column', 'reference=mine'], admin)).code, 0);
  assert.match((await run(['reconcile', 'bank', '--rail', RAIL])).stdout, /Nothing differs/);
  assert.match(
    (await run(['effect', 'show', id])).stdout,
    new RegExp(`On the bank’s statement\n.*\n${TODAY} +out +12501 KRW +E1 .*swapped\\.csv line 2`),
  );
  assert.equal((await run(['statement', 'void', 'ffffff', '--reason', 'x'], admin)).code, 3);
});
