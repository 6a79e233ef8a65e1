/*
 * Goal: what a bank's statements and our books do not agree on is reported, all of it and nothing else, and a statement's word
 * sets a look going and books nothing. Method: transfers really paid over the simulated bank; its own statements of them, with
 * doubles, strangers' lines and holes planted; as camt.053, batch-booked, and as CSV.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type StatementScript, writeCamt, writeCsv, type WrittenStatement } from '../../sim/bank/statement.ts';
import type { Bank } from '../../sim/bank/bank.ts';
import { daysAfter } from '../../src/audit/statements/statement.ts';
import { findDifferences } from '../../src/audit/reconcile/findings.ts';
import { type Effect, type Line, match, type Part } from '../../src/audit/reconcile/match.ts';
import { seenOnStatement } from '../../src/audit/reconcile/moved-after-all.ts';
import { propose } from '../../src/engine/adjudicate.ts';
import { loadOpenAlerts } from '../../src/engine/alerts.ts';
import { openCase } from '../../src/engine/cases.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, type World } from '../support/world.ts';
import { AMOUNT, findingsOf, OPERATOR, payingScene, PERIOD, type Plant, said, TODAY } from './reconcile-scene.ts';

const FORMATS: Readonly<Record<string, (bank: Bank, script: StatementScript) => Promise<WrittenStatement>>> = {
  'camt.053.001.08': (bank, script) => writeCamt(bank, script),
  'camt.053.001.02': (bank, script) => writeCamt(bank, { ...script, version: 2 }),
  'camt.053, batch-booked': (bank, script) => writeCamt(bank, { ...script, batchBooked: true }),
  CSV: (bank, script) => writeCsv(bank, script),
  'CSV, newest first': (bank, script) => writeCsv(bank, { ...script, newestFirst: true, delimiter: ';' }),
};

/** A double of the first, the third left out, another amount for the second, and two lines of strangers. */
const plantAll: Plant = (entries) => {
  const [first, second, , fourth] = entries;
  assert.ok(first && second && fourth);
  return [
    first,
    { ...first, id: `${first.id ?? ''}-again` },
    { ...second, amount: second.amount + 1n },
    fourth,
    // Whom it paid is the third's payee, with its amount: a suggestion, never a match.
    { ...first, id: 'S1', reference: 'somebody', transferId: null, account: '1101233', amount: AMOUNT + 3n },
    { ...first, id: 'S2', reference: null, transferId: null, account: '999', direction: 'in', amount: 77n },
  ];
};

async function bankAlerts(world: World): Promise<string[]> {
  return (await loadOpenAlerts(world.pool)).filter((one) => one.kind === 'bank_reconcile').map((one) => one.key);
}

describe('doubles, orphans, other amounts and a missing line are reported exactly', () => {
  for (const [format, write] of Object.entries(FORMATS)) {
    test(`${format}: what was planted is reported, and nothing else`, async () => {
      const one = await payingScene();
      const [first, second, third] = await one.pay(4);
      const taken = await one.take(await write(one.bank, { ...PERIOD, plant: plantAll }));
      assert.deepEqual([taken.outcome, taken.fresh], ['imported', 6]);
      const report = await one.reconcile();
      assert.deepEqual(said(report), [
        `double 12501 ${first ?? ''}`,
        'orphan 12503 S1',
        'unknown_inflow 77 S2',
        `missing 12503 ${third ?? ''}`,
        `amount_mismatch 12503 ${second ?? ''}`,
      ]);
      const [double, orphan] = findingsOf(report);
      assert.equal(double?.lines.length, 2);
      assert.deepEqual(
        orphan?.may_be.map((may) => may.subject),
        [`transfer ${third ?? ''}`],
      );
      assert.deepEqual(report.counts, { statements: 1, lines: 6, matched: 4 });
      assert.ok(
        report.findings.every((finding) => finding.partnerId === null || finding.partnerId === one.world.partnerId),
      );
      assert.deepEqual(await bankAlerts(one.world), ['bank:generic']);
      assert.deepEqual(said(await one.reconcile()), said(report), 'the same books, the same report');
      await assertBooksClean(one.world.pool);
    });

    test(`${format}: a true statement differs in nothing, and its balances are our books`, async () => {
      const one = await payingScene();
      await one.pay(3);
      await one.take(await write(one.bank, PERIOD));
      const report = await one.reconcile();
      assert.deepEqual(said(report), []);
      assert.deepEqual(report.counts, { statements: 1, lines: 3, matched: 3 });
      const [balance] = report.balances;
      assert.deepEqual([balance?.moved, balance?.booked, balance?.difference], [-37_506n, -37_506n, 0n]);
      assert.deepEqual(await bankAlerts(one.world), []);
      await assertBooksClean(one.world.pool);
    });
  }
});

test('an alert is raised once, stays while less than its days is clean, and goes with a clean run over them', async () => {
  const one = await payingScene();
  await one.pay(2);
  const without: Plant = (entries) => entries.slice(1);
  await one.take(await writeCamt(one.bank, { ...PERIOD, plant: without }));
  assert.equal((await one.reconcile()).findings.length, 1);
  assert.equal((await one.reconcile({ from: daysAfter(TODAY, 5) })).findings.length, 0);
  assert.deepEqual(await bankAlerts(one.world), ['bank:generic']);
  // The bank corrects itself: the line stands on a later statement of the same days.
  await one.take(await writeCamt(one.bank, PERIOD), 'corrected');
  assert.deepEqual(said(await one.reconcile()), []);
  assert.deepEqual(await bankAlerts(one.world), []);
  const { rows } = await one.world.pool.query<{ findings: number }>(
    'select findings from payonce.reconcile_reports order by id',
  );
  assert.deepEqual(
    rows.map((row) => row.findings),
    [1, 0, 0],
  );
  await assert.rejects(one.world.pool.query('delete from payonce.reconcile_reports'), { code: 'P0A01' });
  await assertBooksClean(one.world.pool);
});

test('a payment is missing only after its grace, and only where every day is covered', async () => {
  const one = await payingScene();
  await one.pay(1);
  const none: Plant = () => [];
  await one.take(await writeCamt(one.bank, { ...PERIOD, to: daysAfter(TODAY, 2), plant: none }));
  assert.deepEqual(said(await one.reconcile()), [], 'it may still come');
  assert.equal((await one.reconcile({ graceDays: 2 })).findings.length, 1);
  await one.take(await writeCamt(one.bank, { ...PERIOD, from: daysAfter(TODAY, 4), plant: none }), 'later');
  assert.deepEqual(
    said(await one.reconcile()).map((finding) => finding.split(' ')[0]),
    ['gap'],
    'the day that nobody covers may be its day',
  );
  await one.take(
    await writeCamt(one.bank, { ...PERIOD, from: daysAfter(TODAY, 3), to: daysAfter(TODAY, 3), plant: none }),
    'between',
  );
  assert.deepEqual(
    said(await one.reconcile()).map((finding) => finding.split(' ')[0]),
    ['missing'],
  );
  await assertBooksClean(one.world.pool);
});

test('overlapping statements count a line once, and statements that do not continue each other are told', async () => {
  const one = await payingScene();
  await one.pay(3);
  const early = { ...PERIOD, to: TODAY };
  const late = { ...PERIOD, from: TODAY };
  await one.take(await writeCamt(one.bank, early), 'early');
  const again = await one.take(await writeCamt(one.bank, late), 'late');
  assert.deepEqual([again.lines, again.fresh], [3, 0]);
  assert.deepEqual(said(await one.reconcile()), []);
  const next = { ...PERIOD, from: daysAfter(PERIOD.to, 1), to: daysAfter(PERIOD.to, 1), opening: 5n };
  await one.take(await writeCamt(one.bank, next), 'next');
  const [off] = findingsOf(await one.reconcile());
  assert.equal(off?.kind, 'balance');
  await assertBooksClean(one.world.pool);
});

test('a return is matched; one that nobody booked is looked at, booked by the rail’s word alone, and then agrees (case M1)', async () => {
  const one = await payingScene();
  const [first, second] = await one.pay(2);
  const before = await balanceOf(one.world);
  const [one1, two] = one.bank.transfers.all();
  one.bank.transfers.giveBack({ id: one1?.id ?? '' }, { units: 5_000n, feeUnits: 500n });
  await one.take(await writeCamt(one.bank, PERIOD));
  assert.deepEqual(said(await one.reconcile()), [`return_not_booked 4500 ${first ?? ''}`]);
  assert.deepEqual(await balanceOf(one.world), before, 'a statement books nothing');
  assert.equal(await watchReleasedOnce(one.world.engine, one.rail), 1, 'the rail is asked at once');
  assert.deepEqual(await balanceOf(one.world), { ...before, balance: before.balance + 4_500n });
  assert.deepEqual(said(await one.reconcile()), []);
  assert.deepEqual(await bankAlerts(one.world), []);

  one.bank.transfers.giveBack({ id: two?.id ?? '' }, {});
  await one.world.pool.query('update payonce.effects set watch_at = payonce.now()');
  await watchReleasedOnce(one.world.engine, one.rail);
  assert.deepEqual(said(await one.reconcile()), [`return_not_on_statement 12502 ${second ?? ''}`]);
  await assertBooksClean(one.world.pool);
});

test('a line of a released payment opens the highest case and has the rail looked at; its answer re-opens and settles (req T6)', async () => {
  const one = await payingScene({
    faults: [
      { on: 'create', calls: [1], fault: { kind: 'lie', reason: 'account_unknown' } },
      { on: 'look', fault: { kind: 'blind' } },
    ],
  });
  const [id] = await one.pay(1);
  const state = async (): Promise<string | undefined> =>
    (await one.world.pool.query<{ state: string }>('select state from payonce.effects')).rows[0]?.state;
  assert.equal(await state(), 'RELEASED', 'the bank said no, and paid');
  const written = await writeCamt(one.bank, PERIOD);
  const taken = await one.take(written);
  assert.equal(taken.woken.cases.length, 1);
  assert.equal(taken.woken.looks.length, 1);
  const cases = await one.world.pool.query<{ kind: string; severity: number; summary: string }>(
    'select kind, severity, summary from payonce.cases where closed_at is null order by kind',
  );
  assert.deepEqual(
    cases.rows.map((row) => [row.kind, row.severity]),
    [['released_on_statement', 3]],
  );
  assert.match(cases.rows[0]?.summary ?? '', /statement Stmt\[1\]\/Ntry\[1\] \(line \d+\), reference E-/);
  assert.equal(await state(), 'RELEASED', 'a statement alone re-opens nothing');
  assert.deepEqual(await balanceOf(one.world), { balance: 1_000_000n, held: 0n });
  const report = await one.reconcile();
  assert.deepEqual(said(report), [`released_on_statement 12501 ${id ?? ''}`]);
  assert.deepEqual(report.woken.cases, taken.woken.cases, 'the same case');

  one.bank.heal();
  await watchReleasedOnce(one.world.engine, one.rail);
  await reopenOnce(one.world.engine);
  await one.pass(2);
  assert.equal(await state(), 'SETTLED');
  assert.deepEqual(said(await one.reconcile()), []);
  const left = await one.world.pool.query<{ kind: string }>('select kind from payonce.cases where closed_at is null');
  assert.deepEqual(
    left.rows.map((row) => row.kind),
    ['told_failed'],
    'the partner was told that it failed',
  );
  assert.equal((await one.take(written)).outcome, 'known');
  await assertBooksClean(one.world.pool);
});

test('two persons cannot say that it did not move against our own statement of it (req T11)', async () => {
  const one = await payingScene({
    faults: [
      { on: 'create', fault: { kind: 'lose_answer' } },
      { on: 'look', fault: { kind: 'blind' } },
    ],
  });
  await one.pay(1);
  const { rows } = await one.world.pool.query<{ id: bigint; state: string }>('select id, state from payonce.effects');
  assert.equal(rows[0]?.state, 'SEALED');
  await one.take(await writeCamt(one.bank, PERIOD));
  const engine = { ...one.world.engine, seenElsewhere: seenOnStatement };
  const caseId = await openCase(one.world.pool, one.world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${rows[0].id}`,
    effectId: rows[0].id,
    summary: 'given by the test',
  });
  await assert.rejects(propose(engine, OPERATOR, caseId, 'absent', { reason: 'not there' }), /statement shows it on/);
  await assertBooksClean(one.world.pool);
});

test('a stranger’s line to the payee of a released payment matches nothing, and has the rail looked at all the same', async () => {
  const one = await payingScene({ otherAccounts: 'unknown' });
  const [id] = await one.pay(1);
  await one.world.pool.query("update payonce.effects set watch_at = payonce.now() + interval '1 day'");
  const stranger: Plant = () => [
    {
      id: 'X1',
      direction: 'out',
      amount: AMOUNT + 1n,
      day: TODAY,
      reference: 'by hand',
      transferId: null,
      account: '1101231',
      name: null,
      memo: null,
      returnReason: null,
      isCharge: false,
    },
  ];
  const taken = await one.take(await writeCsv(one.bank, { ...PERIOD, plant: stranger }));
  assert.deepEqual([taken.woken.cases.length, taken.woken.looks.length], [0, 1]);
  const report = await one.reconcile();
  assert.deepEqual(said(report), ['orphan 12501 X1']);
  assert.deepEqual(
    findingsOf(report)[0]?.may_be.map((may) => may.subject),
    [`transfer ${id ?? ''}`],
  );
  assert.equal(await watchReleasedOnce(one.world.engine, one.rail), 1);
  await assertBooksClean(one.world.pool);
});

test('the bank’s charges are lines of no payment, told as what they are', async () => {
  const one = await payingScene({ feeUnits: 300n });
  await one.pay(1);
  await one.take(await writeCamt(one.bank, PERIOD));
  const report = await one.reconcile();
  assert.deepEqual(
    findingsOf(report).map((finding) => [finding.kind, finding.amount, finding.detail]),
    [['orphan', '300', 'a charge of the bank']],
  );
  assert.equal(report.balances[0]?.difference, -300n);
  await assertBooksClean(one.world.pool);
});

test('a batch is paid line by line or as a whole, and a line that two payments could be is nobody’s', () => {
  const part = (ref: string, isPaid: boolean): Part => ({ ref, receiver: '1', amount: 10n, isPaid });
  const batch: Effect = {
    id: 1n,
    subjectType: 'transfer_batch',
    subjectId: 'trb_1',
    partnerId: 'par_1',
    state: 'SETTLED',
    contradicted: false,
    assetId: 'krw',
    amount: 30n,
    key: 'whole',
    sealedOn: '2030-01-02',
    endedOn: '2030-01-02',
    objectIds: ['obj_1'],
    parts: [part('a', true), part('b', true), part('c', false)],
    returns: [],
  };
  const line = (id: bigint, amount: bigint, references: readonly string[]): Line => ({
    id,
    assetId: 'krw',
    direction: 'out',
    amount,
    bookedOn: '2030-01-02',
    ownReference: null,
    references,
    counterpartyName: null,
    counterpartyAccount: null,
    remittance: null,
    isReversal: false,
    isCharge: false,
    returnReason: null,
    place: '',
  });
  const days = { from: '2030-01-01', to: '2030-01-31', graceDays: 1, isCovered: () => true };
  const found = (...lines: Line[]): string[] =>
    findDifferences(match(lines, [batch]), days).map((one) => `${one.kind}: ${one.detail}`);
  assert.deepEqual(found(line(1n, 10n, ['a', 'whole']), line(2n, 10n, ['b'])), []);
  assert.deepEqual(found(line(1n, 30n, ['obj_1'])), [], 'what was not paid comes back by itself');
  assert.deepEqual(found(line(1n, 20n, ['whole'])), []);
  assert.deepEqual(found(line(1n, 10n, ['a']), line(2n, 10n, ['c'])), [
    'released_on_statement: line c of the batch is not paid by our books',
    'missing: line b: no line by 2030-01-03',
  ]);
  assert.deepEqual(found(line(1n, 30n, ['whole']), line(2n, 10n, ['a', 'b'])), [
    'orphan: it names more than one payment',
  ]);
});

test('what no statement covers is not reconciled, and an unknown rail is none', async () => {
  const one = await payingScene();
  await assert.rejects(one.reconcile(), /No statement of bank:generic covers any of these days/);
  await one.take(await writeCamt(one.bank, PERIOD));
  await assert.rejects(one.reconcile({ from: daysAfter(PERIOD.to, 5) }), /No statement/);
});
