/*
 * Goal: orders and legs of an older system are taken over once, with their own times and without money; the doubtful are told and
 * nothing is written for them. Method: one file with every old shape, taken in again and again; a corrected file; hostile files; the
 * real command. Each test ends with the books.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { importP2p, type Imported } from '../../src/flows/p2p/import/index.ts';
import { addOperator } from '../../src/engine/administration.ts';
import type { PayonceError } from '../../src/kernel/errors.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { firstAdmin, payonceOn } from '../cli/cli-scene.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, SELLER } from '../support/p2p-scene.ts';

type Row = Readonly<Record<string, unknown>>;

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'payonce-import-'));
});
after(() => rm(folder, { recursive: true, force: true }));

const CREATED = '2025-03-01T10:00:00Z';
const ENDED = '2025-03-01T11:00:00Z';
const COMPLETED = '2025-03-01T12:00:00Z';
const CANCELLED = '2025-03-01T13:00:00Z';
const UPDATED = '2025-03-02T00:00:00Z';

interface Old {
  buy(id: string, status: string, fields?: Row): Row;
  sell(id: string, status: string, fields?: Row): Row;
  /** A settled leg with the line of the old ledger that credits it. */
  paid(id: string, order: string, amount: string, fields?: Row): Row[];
  leg(id: string, order: string, amount: string, status: string, fields?: Row): Row;
  book(id: string, leg: string, amount: unknown): Row;
}

async function oldSystem(scene: P2pScene): Promise<Old> {
  const { rows } = await scene.world.pool.query<{ code: string }>('select code from payonce.assets where id = $1', [
    scene.world.assetId,
  ]);
  const order = (kind: string, partner: string, id: string, status: string, fields: Row): Row => ({
    kind,
    id,
    partner,
    asset: rows[0]?.code,
    fiat: 'KRW',
    user_ref: `user-${id}`,
    amount: '100',
    price: '1300',
    status,
    created_at: CREATED,
    updated_at: UPDATED,
    completed_at: null,
    cancelled_at: null,
    ...fields,
  });
  const leg: Old['leg'] = (id, deposit, amount, status, fields = {}) => ({
    kind: 'leg',
    id,
    deposit_order: deposit,
    withdraw_order: null,
    rail: 'rail' in fields || 'withdraw_order' in fields ? null : scene.rail.name,
    amount,
    price: '1300',
    status,
    created_at: CREATED,
    settled_at: status === 'SETTLED' ? ENDED : null,
    updated_at: UPDATED,
    ...fields,
  });
  const book: Old['book'] = (id, of, amount) => ({ kind: 'ledger', id, leg: of, amount, at: ENDED });
  return {
    buy: (id, status, fields = {}) => order('deposit_order', BUYER, id, status, fields),
    sell: (id, status, fields = {}) =>
      order('withdraw_order', SELLER, id, status, {
        bank_code: '004',
        account_number: '1234567890',
        holder_name: 'Kim',
        ...fields,
      }),
    leg,
    book,
    paid: (id, deposit, amount, fields = {}) => [
      leg(id, deposit, amount, 'SETTLED', fields),
      book(`b-${id}`, id, amount),
    ],
  };
}

const toText = (rows: readonly Row[]): string => `${rows.map((row) => JSON.stringify(row)).join('\n')}\n`;

async function* chunksOf(text: string, bytes = 1_000): AsyncGenerator<Uint8Array> {
  const whole = Buffer.from(text);
  for (let at = 0; at < whole.length; at += bytes) yield whole.subarray(at, at + bytes);
}

interface Importing {
  readonly scene: P2pScene;
  readonly old: Old;
  readonly key: string;
  readonly take: (rows: readonly Row[] | string, isDry?: boolean) => Promise<Imported>;
  /** The order of ours that an old one became. */
  readonly newId: (kind: string, oldId: string) => Promise<string | null>;
  readonly tables: () => Promise<Record<string, bigint>>;
}

async function importing(label: string): Promise<Importing> {
  const scene = await makeP2pScene({ label });
  const { pool, engine } = scene.world;
  const { key } = await pool.tx('operator', (tx) =>
    addOperator(tx, { makeId: engine.makeId, chance: systemPorts().chance, key: null }, 'Ada', 'admin'),
  );
  return {
    scene,
    old: await oldSystem(scene),
    key,
    take: (rows, isDry = false) =>
      importP2p(
        { pool, makeId: engine.makeId, chart: engine.chart },
        key,
        { name: 'old.jsonl', bytes: chunksOf(typeof rows === 'string' ? rows : toText(rows)) },
        { isDry },
      ),
    async newId(kind, oldId) {
      const { rows } = await pool.query<{ new_id: string | null }>(
        'select new_id from payonce.p2p_imported where kind = $1 and old_id = $2',
        [kind, oldId],
      );
      return rows[0]?.new_id ?? null;
    },
    async tables() {
      const { rows } = await pool.query<Record<string, bigint>>(
        `select (select count(*) from payonce.p2p_deposit_orders) as deposits, (select count(*) from payonce.p2p_withdraw_orders) as withdraws,
                (select count(*) from payonce.p2p_legs) as legs, (select count(*) from payonce.postings) as postings,
                (select count(*) from payonce.events) as events, (select count(*) from payonce.p2p_imported) as taken,
                (select count(*) from payonce.p2p_import_lines) as lines`,
      );
      return { ...rows[0] };
    },
  };
}

const reasons = ({ listed }: Imported): Record<string, string> =>
  Object.fromEntries(listed.map((one) => [`${one.kind} ${one.id ?? ''}`, one.reason]));

/** Every shape that stands. */
function soundRows(old: Old): Row[] {
  return [
    // Legs before their orders: nothing of a file's order is promised.
    ...old.paid('l1', 'completed', '60', { withdraw_order: 's-part' }),
    ...old.paid('l2', 'completed', '40'),
    old.buy('completed', 'COMPLETED', { completed_at: COMPLETED, external_id: 'ext-1' }),
    ...old
      .paid('l3', 'short', '40', { withdraw_order: 's-full', amount: '40.5' })
      .map((row) => (row['kind'] === 'ledger' ? { ...row, amount: '40.5' } : row)),
    old.leg('l4', 'short', '20', 'EXPIRED', { withdraw_order: 's-full' }),
    old.buy('short', 'EXPIRED'),
    old.buy('empty', 'EXPIRED', { cancelled_at: CANCELLED }),
    old.buy('cancelled', 'CANCELLED', { cancelled_at: CANCELLED, close_reason: 'USER' }),
    // Credited less its fee, recalled, and credited again: once in sum.
    old.leg('l5', 'thrice', '30', 'SETTLED', { fee: '0.3' }),
    ...[
      ['1', '29.7'],
      ['2', '-29.7'],
      ['3', '29.7'],
    ].map(([n, amount]) => old.book(`t${n}`, 'l5', amount)),
    old.buy('thrice', 'CANCELLED', { cancelled_at: CANCELLED }),
    old.buy('pending', 'PENDING', { expires_at: '2099-01-01T00:00:00Z' }),
    old.buy('matching', 'MATCHING', { expires_at: '2099-01-01T00:00:00Z' }),
    ...old.paid('l6', 'matching', '10', { withdraw_order: 's-open' }),
    old.sell('s-part', 'EXPIRED'),
    old.sell('s-full', 'COMPLETED', { amount: '40.5', completed_at: COMPLETED }),
    old.sell('s-open', 'PENDING', { expires_at: '2099-01-01T00:00:00Z' }),
    old.sell('s-none', 'CANCELLED', { cancelled_at: CANCELLED }),
    // The same row again, its names in another order.
    Object.fromEntries(Object.entries(old.sell('s-none', 'CANCELLED', { cancelled_at: CANCELLED })).reverse()),
  ];
}

test('closed orders are taken over with their own times, and no money moves for them (req M14)', async () => {
  const { scene, old, take, newId } = await importing('p2p-import-sound');
  const { pool } = scene.world;
  const before = await scene.available(SELLER);
  const buyerBefore = await scene.available(BUYER);
  const done = await take(soundRows(old));
  assert.deepEqual(reasons(done), {});
  assert.deepEqual([done.imported, done.same, done.doubtful, done.refused], [24n, 1n, 0n, 0n]);

  const deposit = async (oldId: string) => scene.deposit((await newId('deposit_order', oldId)) ?? '');
  const completed = await deposit('completed');
  assert.deepEqual(
    [completed.order.status, completed.order.remaining, completed.order.externalId, completed.order.closeReason],
    ['COMPLETED', 0n, 'ext-1', 'PAID_IN_FULL'],
  );
  assert.deepEqual(
    [completed.order.createdAt, completed.order.closedAt].map((at) => at?.toISOString()),
    [new Date(CREATED).toISOString(), new Date(COMPLETED).toISOString()],
  );
  assert.deepEqual(
    completed.legs.map((leg) => [leg.kind, leg.state, leg.amount, leg.fiatAmount, leg.endedAt?.toISOString()]),
    [
      ['SELLER', 'SETTLED', 60n * ONE, 78_000n, new Date(ENDED).toISOString()],
      ['LP', 'SETTLED', 40n * ONE, 52_000n, new Date(ENDED).toISOString()],
    ],
  );
  const short = await deposit('short');
  assert.equal(short.order.status, 'PARTIALLY_SETTLED', 'EXPIRED with a settled leg');
  assert.deepEqual([short.order.remaining, short.legs.length], [59_500_000n, 1]);
  assert.equal(short.order.closedAt?.toISOString(), new Date(UPDATED).toISOString(), 'the first that stands');
  const ends = await Promise.all(['empty', 'cancelled', 'thrice'].map(deposit));
  assert.deepEqual(
    ends.map(({ order }) => [order.status, order.closeReason, order.closedAt?.toISOString()]),
    [
      ['EXPIRED', 'IMPORTED_EXPIRED', new Date(CANCELLED).toISOString()],
      ['CANCELLED', 'USER', new Date(CANCELLED).toISOString()],
      ['PARTIALLY_SETTLED', 'IMPORTED_CANCELLED', new Date(CANCELLED).toISOString()],
    ],
  );
  const withdraw = async (oldId: string) => (await scene.withdraw((await newId('withdraw_order', oldId)) ?? '')).order;
  const [part, full, open] = await Promise.all(['s-part', 's-full', 's-open'].map(withdraw));
  assert.deepEqual([part?.status, part?.settled, part?.givenBack], ['PARTIALLY_SETTLED', 60n * ONE, 40n * ONE]);
  assert.deepEqual([full?.status, full?.settled], ['COMPLETED', 40_500_000n]);
  assert.deepEqual([open?.status, open?.settled], ['OPEN', 10n * ONE]);
  assert.deepEqual(
    [(await deposit('pending')).order.status, (await deposit('matching')).order.status],
    ['PENDING', 'PENDING'],
  );

  assert.equal(await scene.available(SELLER), before - 90n * ONE, 'only what the open order has not sold is set aside');
  assert.equal(await scene.available(BUYER), buyerBefore, 'history credits nobody');
  const { rows } = await pool.query("select 1 from payonce.postings where idem_key like 'P2P_LEG:%'");
  assert.equal(rows.length, 0);
  assert.deepEqual(await scene.events((await newId('deposit_order', 'completed')) ?? ''), [], 'told at the time');
  assert.deepEqual(await scene.events((await newId('deposit_order', 'pending')) ?? ''), ['created']);
  await assertBooksClean(pool);

  // What goes on here is a live order like any other.
  await scene.settleDown();
  const live = await Promise.all(['pending', 'matching'].map(deposit));
  const leg = live.flatMap(({ legs }) => legs).find((one) => one.kind === 'SELLER' && one.state === 'OPEN');
  assert.equal(leg?.withdrawOrderId, await newId('withdraw_order', 's-open'));
  assert.equal((await scene.confirm(leg?.id ?? '')).outcome, 'settled');
  await assertBooksClean(pool);
  assert.deepEqual(
    await take(soundRows(old)).then((again) => [again.imported, again.same, again.doubtful]),
    [0n, 25n, 0n],
    'and what became of it since changes nothing of what was taken over',
  );
  await assertBooksClean(pool);
  await scene.world.end();
});

function doubtfulRows(old: Old): Row[] {
  return [
    old.buy('done-late', 'EXPIRED', { completed_at: COMPLETED }),
    old.leg('n1', 'netted', '30', 'SETTLED'),
    ...['30', '-30', '30', '-30'].map((amount, at) => old.book(`n1-${at}`, 'n1', amount)),
    old.buy('netted', 'EXPIRED'),
    old.leg('u1', 'unbooked', '30', 'SETTLED'),
    old.buy('unbooked', 'EXPIRED'),
    old.leg('d1', 'doubled', '30', 'SETTLED'),
    ...['30', '30'].map((amount, at) => old.book(`d1-${at}`, 'd1', amount)),
    old.buy('doubled', 'EXPIRED'),
    ...old.paid('o1', 'over', '60'),
    ...old.paid('o2', 'over', '60'),
    old.buy('over', 'EXPIRED'),
    ...['f1', 'f2', 'f3', 'f4'].flatMap((id) => old.paid(id, 'four', '10')),
    old.buy('four', 'EXPIRED'),
    old.buy('status', 'REFUNDED'),
    old.buy('number', 'CANCELLED', { amount: 100, cancelled_at: CANCELLED }),
    { ...old.buy('', 'CANCELLED'), id: undefined },
    old.buy('twice', 'CANCELLED'),
    old.buy('twice', 'CANCELLED', { amount: '99' }),
    old.buy('stranger', 'CANCELLED', { partner: 'par_nobody' }),
    old.buy('market', 'CANCELLED', { fiat: 'JPY' }),
    old.buy('still', 'MATCHED'),
    old.leg('p1', 'paying', '30', 'OPEN'),
    old.buy('paying', 'MATCHING'),
    old.buy('unpaid', 'COMPLETED', { completed_at: COMPLETED }),
    ...old.paid('w1', 'whole', '100'),
    old.buy('whole', 'EXPIRED'),
    old.buy('zone', 'CANCELLED', { cancelled_at: '2025-03-01 10:00:00' }),
    old.buy('february', 'CANCELLED', { cancelled_at: '2025-02-30T10:00:00Z' }),
    old.buy('endless', 'CANCELLED', { updated_at: null }),
    ...old.paid('r1', 'railless', '30', { rail: 'escrow:gone' }),
    old.buy('railless', 'EXPIRED'),
    ...old.paid('i1', 'idless', '30', { withdraw_order: {} }),
    old.buy('idless', 'EXPIRED'),
    { ...old.leg('', 'legless', '30', 'SETTLED'), id: null },
    old.buy('legless', 'EXPIRED'),
    ...old.paid('x1', 'nowhere', '30'),
    old.book('x2', 'no-leg', '30'),
    // A seller's order is as doubtful as its legs; one that is doubtful for itself leaves the buyer's standing.
    ...old.paid('y1', 'buyer-stands', '30', { withdraw_order: 'seller-doubtful' }),
    old.buy('buyer-stands', 'EXPIRED'),
    old.sell('seller-doubtful', 'COMPLETED', { completed_at: COMPLETED }),
    old.leg('z1', 'both', '30', 'SETTLED', { withdraw_order: 'both-seller' }),
    old.book('z1-1', 'z1', '30'),
    old.book('z1-2', 'z1', '-30'),
    old.buy('both', 'EXPIRED'),
    old.sell('both-seller', 'EXPIRED'),
    old.sell('rich', 'PENDING', { amount: '99999', expires_at: '2099-01-01T00:00:00Z' }),
  ];
}

test('the doubtful are listed by what is wrong with them, nothing is written for them, and a second run says the same (req M14)', async () => {
  const { scene, old, take, newId, tables } = await importing('p2p-import-doubtful');
  const rows = [...soundRows(old), ...doubtfulRows(old)];
  const dryBefore = await tables();
  const dry = await take(rows, true);
  assert.deepEqual(await tables(), dryBefore, 'a dry run leaves nothing');
  const first = await take(rows);
  assert.deepEqual(reasons(dry), reasons(first), 'and says what will happen');
  const why = reasons(first);
  const expected: Record<string, RegExp> = {
    'deposit_order done-late': /^EXPIRED with completed_at$/,
    'deposit_order netted': /leg n1: is SETTLED, and its 4 lines of the old ledger come to 0/,
    'leg n1': /come to 0: it was credited and taken back/,
    'ledger n1-0': /goes with leg n1/,
    'deposit_order unbooked': /leg u1: .* no line of the old ledger/,
    'deposit_order doubled': /leg d1: is SETTLED with 30, and the old ledger has 60/,
    'deposit_order over': /settled legs \(120\) are more than its amount \(100\)/,
    'leg o1': /goes with deposit order over/,
    'deposit_order four': /it has 4 settled legs/,
    'deposit_order status': /"status" is REFUNDED/,
    'deposit_order number': /"amount" is a number/,
    'deposit_order ': /"id" is missing/,
    'deposit_order twice': /twice, with other content/,
    'deposit_order stranger': /no partner "par_nobody"/,
    'deposit_order market': /no market of .* for "JPY"/,
    'deposit_order still': /MATCHED: let its legs end in the old system/,
    'deposit_order paying': /leg p1 is open/,
    'deposit_order unpaid': /COMPLETED, and its settled legs do not reach/,
    'deposit_order whole': /EXPIRED with its whole amount settled/,
    'deposit_order zone': /"cancelled_at" is no time with its zone/,
    'deposit_order february': /"cancelled_at" is no time/,
    'deposit_order endless': /none of completed_at, cancelled_at, updated_at/,
    'deposit_order railless': /no such rail/,
    'deposit_order idless': /leg i1: names an order that is neither in the file nor taken over/,
    'deposit_order legless': /leg \(line \d+\): "id" is missing/,
    'leg x1': /its deposit order is not in the file/,
    'ledger x2': /its leg is not in the file/,
    'withdraw_order seller-doubtful': /COMPLETED, and its settled legs do not reach/,
    'deposit_order both': /^leg z1: is SETTLED.* come to 0/,
    'withdraw_order both-seller': /^leg z1: is SETTLED.* come to 0/,
    'withdraw_order rich': /^99999 must be set aside, and partner par_test has less/,
  };
  for (const [name, pattern] of Object.entries(expected)) assert.match(why[name] ?? `${name} is not listed`, pattern);
  for (const id of ['buyer-stands', 'completed']) assert.ok(!(`deposit_order ${id}` in why), id);
  assert.equal(first.refused, 1n);
  assert.equal(first.listed.find((one) => one.id === 'rich')?.outcome, 'refused');
  assert.ok(first.listed.every((one, at) => at === 0 || one.line > (first.listed[at - 1]?.line ?? 0n)));
  assert.equal(await newId('deposit_order', 'netted'), null);
  await assertBooksClean(scene.world.pool);

  const before = await tables();
  const second = await take(rows);
  assert.deepEqual(second.listed, first.listed);
  assert.deepEqual(
    [second.imported, second.same, second.doubtful, second.refused],
    [0n, first.imported + first.same, first.doubtful, first.refused],
  );
  assert.equal(second.sha256, first.sha256);
  const afterwards = await tables();
  assert.deepEqual({ ...afterwards, lines: 0n }, { ...before, lines: 0n }, 'nothing was written twice');
  await assertBooksClean(scene.world.pool);

  // Corrected: the seller's order stands, and the leg that waited for it names it. Changed: what was taken over stays.
  const corrected = rows.flatMap((row): Row[] =>
    row['id'] === 'seller-doubtful'
      ? [{ ...row, status: 'EXPIRED', completed_at: null }]
      : row['id'] === 'completed'
        ? [{ ...row, user_ref: 'somebody else' }]
        : [row],
  );
  const third = await take([...corrected, ...old.paid('new-leg', 'short', '10'), old.book('b-late', 'l1', '-60')]);
  assert.equal(third.imported, 1n);
  const seller = await newId('withdraw_order', 'seller-doubtful');
  const { order, legs } = await scene.withdraw(seller ?? '');
  assert.deepEqual([order.status, legs.map((leg) => leg.amount)], ['PARTIALLY_SETTLED', [30n * ONE]]);
  const changed = reasons(third);
  assert.match(changed['deposit_order completed'] ?? '', /taken over before, with other content/);
  assert.match(changed['leg new-leg'] ?? '', /taken over before, without this leg/);
  assert.match(changed['ledger b-late'] ?? '', /taken over before, without this line/);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a file that cannot be read whole takes nothing over, and says which lines (req M14)', async () => {
  const { scene, old, take, tables } = await importing('p2p-import-unreadable');
  const before = await tables();
  const refusedBy = async (text: string): Promise<string> => {
    const error = await take(text).then(
      () => null,
      (thrown: unknown) => thrown as PayonceError,
    );
    return error?.message ?? 'it was taken';
  };
  const sound = toText([old.buy('fine', 'CANCELLED')]);
  assert.match(await refusedBy(`${sound}{"kind":"leg","id":"1",`), /line 2 is not one JSON object/);
  assert.match(
    await refusedBy(`${sound}\n[]\n{"kind":"trade","id":"1"}\n`),
    /line 3 is not one JSON object; line 4 "kind" is not one of/,
  );
  assert.match(await refusedBy(`${sound}{"kind":"leg","id":"1"}`), /names no "deposit_order"/);
  assert.match(await refusedBy(`${sound}${'x'.repeat(70_000)}`), /line 2 is longer than/);
  assert.match(await refusedBy('['.repeat(60_000)), /line 1 is not one JSON object/);
  assert.match(await refusedBy('{"a":1\n'.repeat(1_000)), /; and there are more/);
  assert.deepEqual(await tables(), before);
  const hostile = await take([
    old.buy('nul', 'CANCELLED', { user_ref: 'a\u0000b' }),
    old.buy('long', 'CANCELLED', { amount: '9'.repeat(90) }),
    old.buy('sql', 'CANCELLED', { partner: "x'\u0000" }),
  ]);
  assert.equal(hostile.doubtful, 3n);
  assert.equal((await take('')).lines, 0n);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('the database takes a leg of history only with its order, and changes none of it (req M14, M17)', async () => {
  const { scene, old, take, newId } = await importing('p2p-import-guards');
  const { pool } = scene.world;
  await take(soundRows(old));
  const id = await newId('deposit_order', 'short');
  const live = await scene.buy();
  const insert = `insert into payonce.p2p_legs (id, deposit_order_id, ordinal, slot, kind, rail, amount, price, fiat_amount, state, claim_token, ended_at, is_history)
    values ('leg_x', $1, 9, 3, 'LP', $2, 1, 1, 1, 'SETTLED', 0, now(), $3)`;
  for (const order of [id, live])
    for (const isHistory of [true, false])
      await assert.rejects(pool.query(insert, [order, scene.rail.name, isHistory]), /taken over|not claimed/);
  await assert.rejects(
    pool.query("update payonce.p2p_deposit_orders set status = 'COMPLETED', remaining_amount = 0 where id = $1", [id]),
    /append_only/,
  );
  await assert.rejects(
    pool.query("update payonce.p2p_deposit_orders set imported_as = 'history' where id = $1", [live]),
    /append_only/,
  );
  const seller = await newId('withdraw_order', 's-part');
  await assert.rejects(
    pool.query('update payonce.p2p_withdraw_orders set settled = amount, given_back = 0 where id = $1', [seller]),
    /append_only/,
  );
  await assert.rejects(
    pool.query('update payonce.p2p_legs set withdraw_order_id = null where withdraw_order_id = $1', [seller]),
    /append_only/,
  );
  await assert.rejects(pool.query("update payonce.p2p_imported set digest = ''"), /append_only/);
  await assertBooksClean(pool);
  await scene.world.end();
});

test('an import that was killed goes on where it was, and one that was replaced writes nothing more (req M14)', async () => {
  const { scene, old, take, key, newId } = await importing('p2p-import-replaced');
  const { pool, engine } = scene.world;
  const text = toText(
    Array.from({ length: 1_200 }, (_, at) => old.buy(`many-${at}`, 'CANCELLED', { cancelled_at: CANCELLED })),
  );
  const deps = { pool, makeId: engine.makeId, chart: engine.chart };
  await assert.rejects(
    importP2p(
      deps,
      key,
      { name: 'old.jsonl', bytes: chunksOf(text) },
      {
        isDry: false,
        onProgress: (stage) => {
          if (stage === 'buyers') throw new Error('killed');
        },
      },
    ),
    /killed/,
  );
  await assertBooksClean(pool);
  // Another one begins, and ends, while this one reads.
  const others: Imported[] = [];
  async function* slow(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunksOf(text, 100_000)) {
      yield chunk;
      if (others.length === 0) others.push(await take(text));
    }
  }
  await assert.rejects(
    importP2p(deps, key, { name: 'old.jsonl', bytes: slow() }, { isDry: false }),
    /Another import began/,
  );
  const [other] = others;
  assert.deepEqual([other?.imported, other?.same, other?.doubtful], [700n, 500n, 0n]);
  assert.deepEqual(await take(text).then((one) => [one.imported, one.same]), [0n, 1_200n]);
  assert.ok((await newId('deposit_order', 'many-7')) !== null);
  const { rowCount } = await pool.query('select 1 from payonce.p2p_import_lines');
  assert.equal(rowCount, 0, 'lines of imports that are over are gone');
  await assertBooksClean(pool);
  await scene.world.end();
});

test('the command takes a file over, lists the doubtful, and exits with 1 where there are any (req M14)', async () => {
  const scene = await makeP2pScene({ label: 'p2p-import-command' });
  const old = await oldSystem(scene);
  const run = payonceOn(scene.world.url);
  const admin = await firstAdmin(run);
  const path = join(folder, 'old.jsonl');
  await writeFile(path, toText(soundRows(old)));
  const dry = await run(['p2p', 'import', path, '--dry-run'], admin);
  assert.equal(dry.code, 0, dry.stderr);
  assert.match(
    dry.stdout,
    /^A dry run, nothing was written: 25 rows, 24 would be new, 1 known before, 0 doubtful, 0 refused\.\n$/,
  );
  assert.equal((await run(['p2p', 'import', path])).code, 2, 'nobody said who it is');
  assert.match((await run(['p2p', 'import', path], admin)).stdout, /^Taken over: 25 rows, 24 new, 1 known before/);
  await writeFile(path, toText([...soundRows(old), ...doubtfulRows(old)]));
  const doubtful = await run(['p2p', 'import', path], admin);
  assert.equal(doubtful.code, 1);
  assert.match(doubtful.stdout, /26 +deposit order +done-late +doubtful +EXPIRED with completed_at\n/);
  const again = await run(['p2p', 'import', path, '--json'], admin);
  assert.equal(again.code, 1);
  const { listed, imported } = again.json<{ listed: { line: string }[]; imported: string }>();
  assert.deepEqual([String(listed[0]?.line), imported], ['26', '0']);
  assert.equal((await run(['p2p', 'import', join(folder, 'none')], admin)).code, 2);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('the file of docs/p2p-import.md is taken over as the page says (req M14)', async () => {
  const { scene, take, newId } = await importing('p2p-import-page');
  const page = await readFile(new URL('../../docs/p2p-import.md', import.meta.url), 'utf8');
  const [, file = ''] = /```jsonl\n([^`]+)```/.exec(page) ?? [];
  const done = await take(file.replaceAll('par_seller', SELLER));
  assert.deepEqual([done.lines, done.imported, reasons(done)], [5n, 5n, {}]);
  const { order } = await scene.deposit((await newId('deposit_order', '17')) ?? '');
  assert.deepEqual([order.status, order.remaining], ['PARTIALLY_SETTLED', 60n * ONE]);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});
