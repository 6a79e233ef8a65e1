/*
 * Goal: a file of many transfers pays each good line once, tells each bad one with its place, and gives each line a fate of
 * its own. Method: a real database, and a simulated bank that keeps its own books: one that pays one by one, and one that takes
 * batches.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import { makeBatchVerbs, takeBatch, takeLeftBehindOnce } from '../../src/flows/transfers/batch.ts';
import { readTransferById } from '../../src/flows/transfers/store.ts';
import { assertBooksClean, findBreaches } from '../support/books.ts';
import { balanceOf } from '../support/world.ts';
import { batchScene, type BatchScene, FEE, FUNDS, singleTransfer } from './batch-scene.ts';

const HEADER = 'external_id,amount,bank_code,account_number,holder_name,memo\n';

describe('where the provider pays one by one', { concurrency: 1 }, () => {
  test('a CSV with one bad line: the others are paid once, the bad one is listed with line and column', async () => {
    const one = await batchScene('generic');
    const csv =
      '\uFEFF은행코드;계좌번호;예금주;금액;메모;참조\r\n' +
      '004;110-123-0456;홍길동;12500;급여;s-1\r\n' +
      '004;1.1E+11;김철수;9900;급여;s-2\r\n' +
      '088;0012345678;이영희;7000;급여;s-3\r\n';
    const id = await one.create(one.file(csv));
    await one.pass();
    one.bank.clock.advance(120_000);
    await one.pass(3);
    assert.deepEqual(await one.outflows(), [7_000n, 12_500n]);
    assert.deepEqual(
      (await one.lines(id)).map(({ line, external_id, fate }) => [line, external_id, fate]),
      [
        [2, 's-1', 'confirmed'],
        [4, 's-3', 'confirmed'],
      ],
    );
    const { rows: faults } = await one.world.pool.query(
      'select line, column_name, column_number, got, expected from payonce.transfer_batch_faults',
    );
    assert.deepEqual(faults, [
      {
        line: 3,
        column_name: '계좌번호',
        column_number: 2,
        got: '1.1E+11',
        expected: 'the account number as text; a spreadsheet has turned this one into a rounded number',
      },
    ]);
    assert.equal(await one.status(id), 'finished');
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - 19_500n - 2n * FEE, held: 0n });

    const again = await one.take(one.file(csv));
    assert.deepEqual(again, { outcome: 'replayed', id });
    await one.pass(2);
    assert.equal((await one.outflows()).length, 2, 'the same file again pays nothing again');
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a crash between the file and its transfers is finished by the same file, or by a worker, and pays once (case A7, C5)', async () => {
    for (const by of ['the same file', 'a worker'] as const) {
      const one = await batchScene('generic');
      const file = one.file(`${HEADER}a,100,004,1100000011,A,\nb,200,004,1100000012,B,\nc,300,004,1100000013,C,\n`);
      const broken = { ...one.world, pool: stopsAt(one.world.pool, 'transfer.create') };
      const made = await takeBatch(broken, file, one.rules);
      assert.equal(made.outcome, 'created', 'what is stored is answered as done');
      const id = made.outcome === 'created' ? made.id : '';
      assert.deepEqual(await one.fates(id), ['waiting', 'waiting', 'waiting']);
      assert.equal(await one.status(id), 'pending');
      if (by === 'the same file') assert.deepEqual(await one.take(file), { outcome: 'replayed', id });
      else {
        assert.equal(await takeLeftBehindOnce(one.world), 0, 'its uploader may be at it');
        await one.world.pool.query(
          "alter table payonce.transfer_batches disable trigger transfer_batches_kept; update payonce.transfer_batches set requested_at = payonce.now() - interval '1 minute'; alter table payonce.transfer_batches enable trigger transfer_batches_kept",
        );
        assert.equal(await takeLeftBehindOnce(one.world), 1);
        assert.equal(await takeLeftBehindOnce(one.world), 0);
      }
      assert.deepEqual(await one.fates(id), ['pending', 'pending', 'pending']);
      await one.pass();
      one.bank.clock.advance(120_000);
      await one.pass(3);
      assert.deepEqual(await one.outflows(), [100n, 200n, 300n]);
      assert.deepEqual(await one.fates(id), ['confirmed', 'confirmed', 'confirmed']);
      await assertBooksClean(one.world.pool, one.judged());
    }
  });

  test('ten uploads of one file at once are one batch and one payment per line (case A7, C4)', async () => {
    const one = await batchScene('generic');
    const file = one.file(`${HEADER}a,100,004,1100000011,A,\nb,200,004,1100000012,B,\n`);
    const made = await Promise.all(Array.from({ length: 10 }, () => one.take(file)));
    const ids = new Set(made.map((each) => ('id' in each ? each.id : assert.fail(JSON.stringify(each)))));
    assert.equal(ids.size, 1);
    assert.equal(made.filter((each) => each.outcome === 'created').length, 1);
    await one.pass();
    one.bank.clock.advance(120_000);
    await one.pass(3);
    assert.deepEqual(await one.outflows(), [100n, 200n]);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('the same key with other bytes is refused, and the same bytes for another asset too (case A8)', async () => {
    const one = await batchScene('generic');
    const csv = `${HEADER}a,100,004,1100000011,A,\n`;
    const id = await one.create(one.file(csv, { idempotencyKey: 'may' }));
    const resource = { type: 'transfer_batch', id };
    assert.deepEqual(await one.take(one.file(`${HEADER}a,101,004,1100000011,A,\n`, { idempotencyKey: 'may' })), {
      outcome: 'key_reused',
      resource,
    });
    assert.deepEqual(
      await one.take(one.file(csv)),
      { outcome: 'replayed', id },
      'the bytes are known, whatever the key',
    );
    const other = { id: 'bank:x/iso4217:USD', code: 'USD', decimals: 2 };
    assert.deepEqual(await one.take(one.file(csv, { asset: other })), { outcome: 'key_reused', resource });
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a corrected file pays only what the first one did not (case A8)', async () => {
    const one = await batchScene('generic');
    const good = '004,1100000011,A,100,\n004,1100000012,B,200,\n';
    const header = 'bank_code,account_number,holder_name,amount,memo\n';
    const first = await one.create(one.file(`${header}${good}004,1.1E+11,C,300,\n`));
    const second = await one.create(one.file(`${header}${good}004,1100000013,C,300,\n`));
    assert.deepEqual(await one.fates(second), ['pending']);
    const { rows } = await one.world.pool.query<{ line: number; expected: string }>(
      'select line, expected from payonce.transfer_batch_faults where batch_id = $1 order by n',
      [second],
    );
    assert.deepEqual(
      rows.map((row) => row.line),
      [2, 3],
    );
    assert.ok(rows[0]?.expected.includes(`line 2 of ${first} pays it already`), rows[0]?.expected);
    await one.pass();
    one.bank.clock.advance(120_000);
    await one.pass(3);
    assert.deepEqual(await one.outflows(), [100n, 200n, 300n]);
    assert.equal((await one.take(one.file(`${header}${good}`))).outcome, 'nothing_good');
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a corrected file of thousands of lines without references is compared in moments', {
    timeout: 30_000,
  }, async () => {
    const one = await batchScene('generic', [], { fundUnits: 10n ** 9n });
    const row = (n: number): string => `004,1100${String(n).padStart(6, '0')},A,${n + 1}\n`;
    const csv = `bank_code,account_number,holder_name,amount\n${Array.from({ length: 3_000 }, (_, n) => row(n)).join('')}`;
    await one.create(one.file(csv));
    const corrected = await one.create(one.file(csv.replace(row(7), row(9_999))));
    assert.deepEqual(
      (await one.lines(corrected)).map((line) => line.line),
      [9],
    );
    await assertBooksClean(one.world.pool);
  });

  test('a line without funds is refused by itself, and may be in a later file', async () => {
    const one = await batchScene('generic', [], { fundUnits: 500n });
    const id = await one.create(one.file(`${HEADER},300,004,1100000011,A,\n,300,004,1100000012,B,\n`));
    assert.deepEqual(await one.fates(id), ['pending', 'refused']);
    assert.equal((await one.lines(id))[1]?.code, 'PO_INSUFFICIENT_FUNDS');
    await one.world.fund(1_000n);
    const later = await one.create(one.file(`${HEADER},300,004,1100000012,B,\n`));
    assert.deepEqual(await one.fates(later), ['pending']);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('the judge sees a file whose lines have no answer, and a key that answers nothing (inv E15, V2)', async () => {
    const one = await batchScene('generic');
    await one.create(one.file(`${HEADER}a,100,004,1100000011,A,\n`));
    await assertBreaches(one, [
      ["delete from payonce.idempotency_keys where key like 'line_%'", 'V2', /its key has no answer/],
      ["delete from payonce.idempotency_keys where key like 'file:%'", 'E15', /answers nothing/],
    ]);
  });
});

/** A provider's batch of these amounts, each to a receiver and with a reference of its own. */
function payouts(...amounts: readonly string[]): { reference: string[]; lines: unknown[] } {
  const lines = amounts.map((amount, index) => ({
    external_id: `l-${index + 1}`,
    amount,
    bank_code: 'paypal',
    account_number: `r${index + 1}@example.invalid`,
    holder_name: 'A B',
  }));
  return { reference: lines.map((line) => line.external_id), lines };
}

async function refs({ world }: BatchScene): Promise<string[]> {
  const { rows } = await world.pool.query<{ ref: string }>(
    'select ref from payonce.transfer_batch_lines order by batch_id, line',
  );
  return rows.map((row) => row.ref);
}

const at = (list: readonly string[], index: number): { reference: string } => ({
  reference: list[index] ?? assert.fail(`no line ${index}`),
});

describe('where the provider takes batches', { concurrency: 1 }, () => {
  test('each line has its own fate: paid, failed, unclaimed until it is returned (case I2, I7, M6)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const { lines } = payouts('100.00', '50.00', '20.00', '10.00');
    const id = await one.create(one.json(lines));
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 18_000n + 4n * FEE });
    await one.pass(2);
    assert.equal(one.bank.calls.create, 1);
    const ref = await refs(one);
    one.bank.transfers.moveTo(at(ref, 0), 'SUCCESS', true);
    one.bank.transfers.fail(at(ref, 1));
    one.bank.transfers.moveTo(at(ref, 2), 'UNCLAIMED');
    one.bank.transfers.moveTo(at(ref, 3), 'ONHOLD');
    await one.pass(3);
    assert.equal(await one.status(id), 'processing', 'a batch with an open line is not ended');
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 18_000n + 4n * FEE });
    assert.deepEqual(await one.openCases(), []);

    one.bank.clock.advance(30 * 24 * 3_600_000);
    one.bank.transfers.giveBack(at(ref, 2), { state: 'RETURNED' });
    one.bank.transfers.moveTo(at(ref, 3), 'SUCCESS', true);
    await one.pass();
    assert.equal(await one.status(id), 'finished');
    assert.deepEqual(await one.fates(id), ['confirmed', 'failed', 'returned', 'confirmed']);
    // Paid: 100 and 10; paid and back: 20, whose fee stays; not paid: 50, with its fee.
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - 11_000n - 3n * FEE, held: 0n });
    assert.equal((await balanceOf(one.world, 'fees')).balance, 3n * FEE);
    assert.deepEqual(await one.events(), [
      'transfer_batch.created',
      'transfer_batch.finished',
      'transfer_batch.returned',
    ]);
    assert.equal(one.bank.calls.create, 1, 'nothing is sent again');
    const day = await one.world.pool.query<{ amount: bigint }>('select amount from payonce.day_totals');
    assert.deepEqual(day.rows, [{ amount: 13_000n }]);
    await assertBooksClean(one.world.pool, one.judged());

    // Only the line that failed may come again, under its own reference.
    const again = await one.create(one.json(lines, { idempotencyKey: 'again' }));
    assert.deepEqual(
      (await one.lines(again)).map((line) => line.external_id),
      ['l-2'],
    );
    await assertBreaches(one, [
      ["update payonce.transfer_batch_fates set fate = 'paid' where fate = 'not_paid'", 'L5', /books/],
      ['update payonce.transfer_batch_lines set fee = 1', 'L6', /pays a batch and holds/],
      ['update payonce.returns set line_ref = $$x$$', 'E17', /got back 2000 of 0/],
      ["delete from payonce.transfer_batch_fates where fate = 'paid'", 'E3', /has no fate/],
      [
        "update payonce.postings set effect_id = null where idem_key like 'TRB_%'",
        'E3',
        /SETTLED with 0 confirmations/,
      ],
      ["delete from payonce.events where type = 'transfer_batch.finished'", 'N1', /is settled and no event/],
      ["delete from payonce.events where type = 'transfer_batch.returned'", 'N1', /no event says so/],
    ]);
  });

  test('a lost answer is the same batch again, and each line moves once (case B7, I2)', async () => {
    const one = await batchScene('paypal-payouts', [{ on: 'create', calls: [1], fault: { kind: 'lose_answer' } }], {
      capabilities: { resendAfterMs: 0 },
    });
    const id = await one.create(one.json(payouts('1.00', '2.00').lines));
    await one.pass();
    assert.equal(await one.status(id), 'processing');
    await one.pass(2);
    one.bank.clock.advance(120_000);
    await one.pass(3);
    assert.equal(one.bank.calls.create, 2);
    assert.deepEqual(await one.outflows(), [100n, 200n]);
    assert.deepEqual(await one.fates(id), ['confirmed', 'confirmed']);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a line that comes back after the batch settled is returned once, however often it is seen (case M1, M6, inv E17)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const id = await one.create(one.json(payouts('1.00', '2.00', '3.00').lines));
    await one.pass(2);
    const ref = await refs(one);
    for (const index of [0, 1, 2]) one.bank.transfers.moveTo(at(ref, index), 'SUCCESS', true);
    await one.pass();
    assert.deepEqual(await one.fates(id), ['confirmed', 'confirmed', 'confirmed']);
    one.bank.transfers.giveBack(at(ref, 1), { state: 'REFUNDED' });
    await one.watch();
    await one.watch();
    one.bank.transfers.moveTo(at(ref, 1), 'REVERSED');
    await one.watch();
    assert.deepEqual(await one.fates(id), ['confirmed', 'returned', 'confirmed']);
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - 400n - 3n * FEE, held: 0n });
    assert.equal((await one.events()).filter((type) => type === 'transfer_batch.returned').length, 1);
    const flagged = await one.world.pool.query('select account_number from payonce.payees_flagged');
    assert.deepEqual(flagged.rows, [{ account_number: 'r2@example.invalid' }]);
    await assert.rejects(
      one.world.pool.query(
        "insert into payonce.returns (id, effect_id, provider_return_id, amount, line_ref) select 'ret_x', effect_id, 'x', 1, line_ref from payonce.returns",
      ),
      /no part of it/,
    );
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a line in a state that nobody knows goes to suspense with a case, and a later look books it (case I2, I7)', async () => {
    for (const end of ['paid', 'not_paid', 'came_back'] as const) {
      const one = await batchScene('paypal-payouts', [], { settleMs: null });
      const id = await one.create(one.json(payouts('1.00', '2.00').lines));
      await one.pass(2);
      const ref = await refs(one);
      one.bank.transfers.moveTo(at(ref, 0), 'SUCCESS', true);
      one.bank.transfers.moveTo(at(ref, 1), 'PONDERED');
      await one.pass();
      assert.deepEqual(await one.fates(id), ['confirmed', 'in_review']);
      assert.equal(await one.status(id), 'in_review');
      assert.deepEqual(await one.openCases(), ['lines_unknown']);
      assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - 300n - 2n * FEE, held: 0n });
      assert.equal((await balanceOf(one.world, 'suspense')).balance, 200n + FEE);
      await assertBooksClean(one.world.pool, one.judged());
      await one.watch();
      assert.deepEqual(await one.openCases(), ['lines_unknown'], 'nothing is known yet');

      if (end === 'paid') one.bank.transfers.moveTo(at(ref, 1), 'SUCCESS', true);
      if (end === 'not_paid') one.bank.transfers.fail(at(ref, 1));
      if (end === 'came_back') one.bank.transfers.giveBack(at(ref, 1), { state: 'RETURNED' });
      await one.watch();
      await one.watch();
      const fate = { paid: 'confirmed', not_paid: 'failed', came_back: 'returned' }[end];
      assert.deepEqual(await one.fates(id), ['confirmed', fate]);
      assert.equal(await one.status(id), 'finished');
      assert.deepEqual(await one.openCases(), []);
      const taken = { paid: 300n + 2n * FEE, not_paid: 100n + FEE, came_back: 100n + 2n * FEE }[end];
      assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - taken, held: 0n });
      assert.equal((await balanceOf(one.world, 'suspense')).balance, 0n);
      await assertBooksClean(one.world.pool, one.judged());
    }
  });

  test('two persons say that a batch went: its lines are unknown until a look shows them, or two persons decide one (case I2, I7)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null, capabilities: { decideWithinMs: 0 } });
    const { world } = one;
    const { chart, makeId, ports } = world;
    const engine = { ...world.engine, verbs: new Map(Object.entries(makeBatchVerbs(chart, makeId, world.pool))) };
    const people: Operator[] = [];
    for (const name of ['ann', 'bob'])
      people.push(
        await world.pool.tx(
          'operator',
          async (tx) => (await createOperator(tx, makeId, ports.chance, name, 'approver', 'test')).operator,
        ),
      );
    const [ann, bob] = people;
    assert.ok(ann !== undefined && bob !== undefined);
    const decide = async (verb: 'settled' | 'decide_line', detail: Record<string, string>): Promise<string> => {
      const { rows } = await world.pool.query<{ id: string }>('select id from payonce.cases where closed_at is null');
      const { proposalId } = await propose(engine, ann, rows[0]?.id ?? '', verb, {
        reason: 'by their page',
        ...detail,
      });
      const done = await approve(engine, bob, proposalId);
      return done.outcome === 'done' ? done.did : done.why;
    };

    const id = await one.create(one.json(payouts('1.00', '2.00').lines));
    await one.pass(3);
    const ref = await refs(one);
    one.bank.transfers.moveTo(at(ref, 0), 'SUCCESS', true);
    one.bank.transfers.moveTo(at(ref, 1), 'ONHOLD');
    await one.pass(2);
    assert.deepEqual(await one.openCases(), ['undecided']);
    await decide('settled', {});
    assert.deepEqual(await one.fates(id), ['in_review', 'in_review'], 'nobody showed the lines');
    assert.equal((await balanceOf(world, 'suspense')).balance, 300n + 2n * FEE);
    await assertBooksClean(world.pool);

    await one.watch();
    assert.deepEqual(await one.fates(id), ['confirmed', 'in_review']);
    await assert.rejects(decide('decide_line', { line: '2', fate: 'lost' }), /expected paid or not_paid/);
    assert.equal(
      await decide('decide_line', { line: '1', fate: 'not_paid' }),
      'line 1 is paid: only an unknown one is decided',
    );
    assert.equal(
      await decide('decide_line', { line: '2', fate: 'not_paid' }),
      'line 2 is not_paid; 0 lines are unknown still',
    );
    assert.deepEqual(await one.fates(id), ['confirmed', 'failed']);
    assert.deepEqual(await one.openCases(), []);
    assert.deepEqual(await balanceOf(world), { balance: FUNDS - 100n - FEE, held: 0n });
    assert.equal((await balanceOf(world, 'suspense')).balance, 0n);
    await assertBooksClean(world.pool);
  });

  test('a line that turns round after it was booked is a case, and nothing is booked anew (case I7)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const id = await one.create(one.json(payouts('1.00', '2.00').lines));
    await one.pass(2);
    const ref = await refs(one);
    one.bank.transfers.moveTo(at(ref, 0), 'SUCCESS', true);
    one.bank.transfers.moveTo(at(ref, 1), 'FAILED');
    await one.pass();
    const before = await balanceOf(one.world);
    one.bank.transfers.moveTo(at(ref, 1), 'SUCCESS', true);
    await one.watch();
    assert.deepEqual(await one.openCases(), ['lines_unknown']);
    assert.deepEqual(await balanceOf(one.world), before);
    one.bank.transfers.giveBack(at(ref, 1), { state: 'RETURNED' });
    await one.watch();
    assert.deepEqual(await one.openCases(), ['lines_unknown', 'return_unclear'], 'it was never paid by our books');
    assert.deepEqual(await balanceOf(one.world), before);
    assert.deepEqual(await one.fates(id), ['confirmed', 'failed']);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a batch of which no line was paid gives everything back (case I2)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const { lines } = payouts('1.00', '2.00');
    const id = await one.create(one.json(lines));
    await one.pass(2);
    for (const reference of await refs(one)) one.bank.transfers.fail({ reference });
    await one.pass(2);
    assert.equal(await one.status(id), 'failed');
    assert.deepEqual(await one.fates(id), ['failed', 'failed']);
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 0n });
    assert.deepEqual(await one.events(), ['transfer_batch.created', 'transfer_batch.failed']);
    await assertBooksClean(one.world.pool, one.judged());
    await one.create(one.json(lines, { idempotencyKey: 'again' }));
  });

  test('a request refused for one of its lines, with no batch, fails whole and at once (case M7)', async () => {
    const one = await batchScene('paypal-payouts', [], {
      otherAccounts: 'unknown',
      accounts: [{ bankCode: '1', accountNumber: '1', handle: 'r1@example.invalid' }],
    });
    const id = await one.create(one.json(payouts('1.00', '2.00').lines));
    await one.pass();
    assert.equal(await one.status(id), 'failed');
    assert.deepEqual(await one.fates(id), ['failed', 'failed']);
    assert.deepEqual(await one.outflows(), []);
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 0n });
    const kinds = await one.world.pool.query<{ kind: string }>(
      'select v.kind from payonce.effects e join payonce.effect_evidence v on v.id = e.released_by',
    );
    assert.deepEqual(kinds.rows, [{ kind: 'REFUSED_AT_ONCE' }]);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('without funds for all of it the whole file is refused, for ever, and holds nothing (inv E15)', async () => {
    const one = await batchScene('paypal-payouts', [], { fundUnits: 250n });
    const file = one.json(payouts('1.00', '2.00').lines);
    const refused = await one.take(file);
    assert.equal(refused.outcome === 'refused' ? refused.problem.code : refused.outcome, 'PO_INSUFFICIENT_FUNDS');
    await one.world.fund(10_000n);
    const again = await one.take(file);
    assert.equal(again.outcome === 'refused' && again.replayed, true);
    assert.deepEqual((await balanceOf(one.world)).held, 0n);
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a single transfer is a batch of one line: unclaimed, it waits; returned, it is paid and back (case M6)', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const id = await singleTransfer(one, 'r1@example.invalid', 5_000n);
    const status = async (): Promise<string | undefined> =>
      (await readTransferById(one.world.pool, one.world.partnerId, id))?.status;
    await one.pass(2);
    one.bank.transfers.moveTo({}, 'UNCLAIMED');
    await one.pass(2);
    assert.equal(await status(), 'processing');
    one.bank.transfers.giveBack({}, { state: 'RETURNED' });
    await one.pass();
    assert.equal(await status(), 'returned');
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS - FEE, held: 0n });
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('a single transfer whose line is not the one that we sent is never a success', async () => {
    const one = await batchScene('paypal-payouts', [], { settleMs: null });
    const id = await singleTransfer(one, 'r1@example.invalid', 5_000n);
    await one.pass(2);
    one.bank.transfers.moveTo({}, 'PONDERED', true);
    await one.pass(2);
    assert.equal((await readTransferById(one.world.pool, one.world.partnerId, id))?.status, 'processing');
    assert.deepEqual(await balanceOf(one.world), { balance: FUNDS, held: 5_000n + FEE });
    await assertBooksClean(one.world.pool, one.judged());
  });

  test('more lines than can be read back are refused before anything is stored', async () => {
    const one = await batchScene('paypal-payouts');
    const { lines } = payouts(...Array.from({ length: one.rules.linesMax + 1 }, () => '1.00'));
    const refused = await one.take(one.json(lines));
    assert.equal(refused.outcome === 'refused' ? refused.problem.code : refused.outcome, 'PO_FILE_INVALID');
    const id = await one.create(one.json(lines.slice(0, one.rules.linesMax)));
    await one.pass(2);
    one.bank.clock.advance(120_000);
    await one.pass(3);
    assert.equal(await one.status(id), 'finished', 'as many as the profile allows settle');
    assert.equal((await one.outflows()).length, one.rules.linesMax);
    await assertBooksClean(one.world.pool, one.judged());
  });
});

async function assertBreaches(one: BatchScene, breaches: [sql: string, name: string, said: RegExp][]): Promise<void> {
  for (const [sql, name, said] of breaches) {
    await assert.rejects(
      one.world.pool.tx('breach', async (tx) => {
        await tx.query('set local session_replication_role = replica');
        await tx.query(sql);
        const found = await findBreaches(tx);
        assert.ok(
          found.some((each) => each.invariant === name && said.test(each.detail)),
          `${sql}: ${found.map((each) => `${each.invariant} ${each.detail}`).join('; ')}`,
        );
        throw new Error('undone');
      }),
      /undone/,
    );
  }
  await assertBooksClean(one.world.pool, one.judged());
}

/** A pool whose transactions of this name never come to be, as in a process that died before them. */
function stopsAt(pool: BatchScene['world']['pool'], name: string): BatchScene['world']['pool'] {
  return {
    ...pool,
    query: pool.query.bind(pool),
    tx: (label, run) => (label === name ? Promise.reject(new Error('died here')) : pool.tx(label, run)),
  };
}
