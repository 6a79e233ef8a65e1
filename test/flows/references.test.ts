/*
 * Goal: a payment is made once whatever asks for it: a reference, or without one the same payee and amount, over single
 * transfers, files and providers' batches, in both directions, and after a failure that was none. Method: a real database,
 * which refuses by itself too, and a simulated bank whose own books are the judge.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sqlState } from '../../src/db/pool.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { openCase } from '../../src/engine/cases.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { makeBatchVerbs } from '../../src/flows/transfers/batch.ts';
import {
  cancelTransfer,
  createTransfers,
  readTransfer,
  type TransferRequest,
} from '../../src/flows/transfers/index.ts';
import { payeeKey } from '../../src/flows/transfers/payee-key.ts';
import { readTransferById } from '../../src/flows/transfers/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { type BatchScene, batchScene } from './batch-scene.ts';

const HEADER = 'bank_code,account_number,holder_name,amount,memo\n';
const PAYEE = { bank_code: 'paypal', account_number: 'r1@example.invalid', holder_name: 'A B' };
const salary = (amount = '10.00', reference = 'salary-1'): Record<string, string> => ({
  external_id: reference,
  amount,
  ...PAYEE,
});

interface Change {
  readonly externalId?: string | null;
  readonly amount?: bigint;
  readonly bankCode?: string;
  readonly accountNumber?: string;
  readonly repays?: string;
  readonly partnerId?: string;
}

function request({ world, rules }: BatchScene, key: string, change: Change = {}): TransferRequest {
  const isDollars = world.assetId.endsWith('USD');
  const read = readTransfer(rules.readPayee, {
    partnerId: world.partnerId,
    idempotencyKey: key,
    fingerprint: key,
    externalId: null,
    assetId: world.assetId,
    amount: 1_000n,
    bankCode: isDollars ? 'paypal' : '004',
    accountNumber: isDollars ? 'r1@example.invalid' : '110-123-0456',
    holderName: 'A B',
    ...change,
  });
  return read.ok ? read.request : assert.fail(JSON.stringify(read.faults));
}

async function take(one: BatchScene, key: string, change: Change = {}): Promise<string> {
  const [made] = await createTransfers(one.world, [request(one, key, change)]);
  return made?.outcome === 'created' ? made.id : (codeOf(made) ?? assert.fail(JSON.stringify(made)));
}

function codeOf(made: Awaited<ReturnType<typeof createTransfers>>[number] | undefined): string | undefined {
  return made?.outcome === 'refused' ? made.problem.code : undefined;
}

async function person({ world }: BatchScene, who: string): Promise<Operator> {
  const { pool, makeId, ports } = world;
  return (await pool.tx('op', (tx) => createOperator(tx, makeId, ports.chance, who, 'approver', 'test'))).operator;
}

/** The provider knows nobody of this name and refuses the batch. */
const NOBODY = {
  otherAccounts: 'unknown',
  accounts: [{ bankCode: '1', accountNumber: '1', handle: 'else@example.invalid' }],
} as const;

/** Refused, and two persons find later that it was paid all the same. */
async function failedThenMoved(one: BatchScene): Promise<string> {
  const { world } = one;
  const id = await one.create(one.json([salary()]));
  await one.pass();
  assert.equal(await one.status(id), 'failed');
  const [effect] = (await world.pool.query<{ id: bigint }>('select id from payonce.effects')).rows;
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'released_on_statement',
    severity: 3,
    subjectKey: `effect:${effect?.id}`,
    effectId: effect?.id,
    summary: 'the statement shows it',
  });
  const { proposalId } = await propose(world.engine, await person(one, 'ann'), caseId, 'settled', { reason: 'seen' });
  assert.equal((await approve(world.engine, await person(one, 'bob'), proposalId)).outcome, 'done');
  return id;
}

test('a reference of a line in a provider’s batch is refused to a single transfer, and the other way round (case I2, M7)', async () => {
  const one = await batchScene('paypal-payouts');
  const batch = await one.create(one.json([salary()]));
  const [made] = await createTransfers(one.world, [request(one, 'single', { externalId: 'salary-1' })]);
  assert.equal(codeOf(made), 'PO_EXTERNAL_ID_TAKEN');
  assert.deepEqual(made?.outcome === 'refused' && made.problem.resource, { type: 'transfer_batch', id: batch });
  const single = await take(one, 'other', { externalId: 'salary-2' });
  const file = await one.take(one.json([salary('11.00', 'salary-2')]));
  assert.match(JSON.stringify(file), new RegExp(`nothing_good.*transfer ${single} has this one`));
  await one.pass(2);
  one.bank.clock.advance(200_000);
  await one.pass(3);
  assert.deepEqual(await one.outflows(), [1_000n, 1_000n]);
  await assertBooksClean(one.world.pool, one.judged());
});

test('whatever code asks, the database refuses a reference that may be paid already (inv E15)', async () => {
  const one = await batchScene('paypal-payouts');
  const id = await one.create(one.json([salary()]));
  const copies = [
    `insert into payonce.transfer_batch_lines select batch_id, line + 1, ref || 'x', partner_id, external_id, amount, fee, bank_code, account_number, holder_name, holder_name_nfc, memo from payonce.transfer_batch_lines where batch_id = $1`,
    `insert into payonce.transfers (id, partner_id, idempotency_key, external_id, asset_id, amount, fee, bank_code, account_number, holder_name, holder_name_nfc, memo, day)
     select 'tr_x', partner_id, 'x', external_id, '${one.world.assetId}', amount, 0, bank_code, account_number, holder_name, holder_name_nfc, memo, current_date from payonce.transfer_batch_lines where batch_id = $1`,
  ];
  for (const sql of copies)
    await assert.rejects(
      one.world.pool.query(sql, [id]),
      (error) => sqlState(error) === '23505' && /pays transfer_batch/.test(String(error)),
    );
});

test('a failed batch’s reference is free only while the failure stands: testimony and a re-opening take it back (case I2, req T6)', async () => {
  const one = await batchScene('paypal-payouts', [], NOBODY);
  const id = await failedThenMoved(one);
  assert.equal(await one.status(id), 'in_review', 'an end that somebody doubts is told as none');
  const refused = async (key: string): Promise<void> => {
    assert.equal(await take(one, key, { externalId: 'salary-1' }), 'PO_EXTERNAL_ID_TAKEN');
    assert.equal((await one.take(one.json([salary('10.00'), { ...salary(), external_id: key }]))).outcome, 'created');
  };
  await refused('testimony');
  assert.equal(await reopenOnce(one.world.engine), 1);
  await refused('re-opened');
  await one.pass(2);
  assert.equal((await one.take(one.json([salary('12.00')]))).outcome, 'nothing_good');
});

test('a failed batch’s reference is free while the failure stands (case M7)', async () => {
  const one = await batchScene('paypal-payouts', [], NOBODY);
  const id = await one.create(one.json([salary()]));
  await one.pass();
  assert.equal(await one.status(id), 'failed');
  assert.notEqual((await one.take(one.json([salary('11.00')]))).outcome, 'nothing_good');
});

test('the corrected file does not pay again where only the writing of the account differs (case M5)', async () => {
  const one = await batchScene('generic');
  await one.create(one.file(`${HEADER}004,110-123-0456,A,100,\n004,1.1E+11,B,200,\n`));
  const again = await one.create(one.file(`${HEADER}004,1101230456,A,100,\n004,1100000013,B,200,\n`));
  assert.deepEqual(
    (await one.lines(again)).map((line) => line.account_number),
    ['1100000013'],
  );
  const single = await take(one, 'single', { amount: 300n });
  const third = await one.take(one.file(`${HEADER}004,1101230456,A,300,\n`));
  assert.match(JSON.stringify(third), new RegExp(`transfer ${single} pays it already`), 'a single transfer counts too');
  await one.pass();
  one.bank.clock.advance(120_000);
  await one.pass(3);
  assert.deepEqual(await one.outflows(), [100n, 200n, 300n]);
  await assertBooksClean(one.world.pool, one.judged());
});

test('the database and the code agree on what is the same payee (case M5)', async () => {
  const one = await batchScene('generic');
  const accounts = [
    '110-123-0456',
    '1101230456',
    '110 123 0456',
    'R1@Example.invalid',
    'seller-1',
    'seller1',
    'DE-1',
    '0',
    '-1',
    'a-B@c',
  ];
  for (const accountNumber of accounts)
    for (const bankCode of ['004', 'DeutDEFF', 'paypal']) {
      const { rows } = await one.world.pool.query<{ key: string }>('select payonce.payee_key($1, $2) as key', [
        bankCode,
        accountNumber,
      ]);
      assert.equal(rows[0]?.key, payeeKey({ bankCode, accountNumber }));
    }
});

test('nobody is refused for ever because of a neighbour: another partner’s order, or one of ours that was refused (inv E15)', async () => {
  const one = await batchScene('generic');
  const { world } = one;
  const id = await take(one, 'a', { amount: 100n });
  assert.equal(await cancelTransfer(world.engine, world.partnerId, id, 'x'), 'cancelled');
  await world.pool.query("insert into payonce.partners (id, name, time_zone) values ('par_other', 'Other', 'UTC')");
  const made = await createTransfers(world, [
    request(one, 'theirs', { amount: 1n, repays: id, partnerId: 'par_other' }),
    request(one, 'too much', { amount: 900_000_000n, repays: id }),
    request(one, 'good', { amount: 100n, repays: id }),
    request(one, 'late', { amount: 100n, repays: id }),
  ]);
  assert.deepEqual(
    made.map((each) => codeOf(each) ?? each.outcome),
    ['PO_REPAYS_REFUSED', 'PO_INSUFFICIENT_FUNDS', 'created', 'PO_REPAYS_REFUSED'],
  );
});

test('what is said to have moved is not paid again, before the machine has re-opened it (req T6)', async () => {
  const one = await batchScene('generic', [
    { on: 'create', calls: [1], fault: { kind: 'refuse', reason: 'account_closed' } },
  ]);
  const { world } = one;
  const id = await take(one, 'a');
  await one.pass();
  const status = async (): Promise<string | undefined> =>
    (await readTransferById(world.pool, world.partnerId, id))?.status;
  assert.equal(await status(), 'failed');
  const [effect] = (await world.pool.query<{ id: bigint }>('select id from payonce.effects')).rows;
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'released_on_statement',
    severity: 3,
    subjectKey: `effect:${effect?.id}`,
    effectId: effect?.id,
    summary: 'the statement shows it',
  });
  assert.equal(await take(one, 'doubt', { repays: id }), 'PO_REPAYS_REFUSED', 'a case is open');
  const { proposalId } = await propose(world.engine, await person(one, 'ann'), caseId, 'settled', { reason: 'seen' });
  await approve(world.engine, await person(one, 'bob'), proposalId);
  await world.pool.query(
    "update payonce.cases set closed_at = payonce.now(), closed_how = 'x' where closed_at is null",
  );
  assert.equal(await status(), 'in_review');
  assert.equal(await take(one, 'testimony', { repays: id }), 'PO_REPAYS_REFUSED');
});

test('a case of unknown lines stays while their money is in suspense; a proposal for one line leaves another’s open (inv L1)', async () => {
  const one = await batchScene('paypal-payouts', [], { settleMs: null });
  const { world } = one;
  const verbs = makeBatchVerbs(world.chart, world.makeId, world.pool);
  const engine = { ...world.engine, verbs: new Map(Object.entries(verbs)) };
  await one.create(one.json([salary(), salary('5.00', 'salary-2')]));
  await one.pass(2);
  const [ann, bob] = [await person(one, 'ann'), await person(one, 'bob')];
  const [effect] = (await world.pool.query<{ id: bigint }>('select id from payonce.effects')).rows;
  const undecided = await openCase(world.pool, world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${effect?.id}`,
    effectId: effect?.id,
    summary: 'nobody says',
  });
  const { proposalId } = await propose(engine, ann, undecided, 'settled', { reason: 'seen' });
  assert.equal((await approve(engine, bob, proposalId)).outcome, 'done');
  const unknown = "select id from payonce.cases where kind = 'lines_unknown' and closed_at is null";
  const caseId = (await world.pool.query<{ id: string }>(unknown)).rows[0]?.id ?? assert.fail();
  await assert.rejects(
    propose(engine, ann, caseId, 'close', { reason: 'seen' }),
    /2 lines is in suspense .*decide_line/,
  );
  const first = await propose(engine, ann, caseId, 'decide_line', { reason: 'x', line: '1', fate: 'paid' });
  const second = await propose(engine, ann, caseId, 'decide_line', { reason: 'x', line: '2', fate: 'not_paid' });
  assert.equal((await approve(engine, bob, first.proposalId)).outcome, 'done');
  assert.equal((await approve(engine, bob, second.proposalId)).outcome, 'done');
  assert.equal((await world.pool.query(unknown)).rowCount, 0, 'the last line closes it');
});
