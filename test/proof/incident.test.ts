/**
 * The incident, replayed (issue 1, shows 2; W1–W3, W13): one confirmation, delivered twenty times at once. Method: the
 * real inbox with signed deliveries, a real chain, two inbox workers at once; then the same with each of the two layers
 * taken away in this database; and the incident's own algorithm beside it, which books the DEBIT twice.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { confirmNamed } from '../../src/engine/confirm.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeChainMonitor, mentionsIn } from '../../src/inbox/chain-monitor.ts';
import { makeReceiver } from '../../src/inbox/receive.ts';
import { makeInboxWorker } from '../../src/inbox/work.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { signatureOf } from '../../src/outbox/signature.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';
import { testDatabase } from '../support/postgres.ts';
import { collectingLog, makeWorld } from '../support/world.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';

const COPIES = 20;
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** A withdrawal whose transaction is final on chain and which nobody has looked at yet; its hash. */
async function finalButUnseen(one: EvmWorld): Promise<{ id: string; hash: string }> {
  const [created] = await createWithdrawals(one, [one.request({ destination: one.outsider() })]);
  assert.equal(created?.outcome, 'created');
  await one.pass();
  await one.anvil.mine(4);
  await one.pool.query("update payonce.effects set next_at = payonce.now() + interval '1 hour'");
  const { rows } = await one.pool.query<{ hash: string }>(
    'select hash from payonce.effect_variants order by id desc limit 1',
  );
  return { id: created.outcome === 'created' ? created.id : '', hash: rows[0]?.hash ?? '' };
}

function inboxOf(one: EvmWorld, log: ReturnType<typeof collectingLog>) {
  return makeInboxWorker({
    pool: one.pool,
    log,
    handlers: { monitor: makeChainMonitor({ wake: () => {} }) },
    people: {
      openCase: () => Promise.resolve(),
      raiseAlert: () => Promise.resolve(),
      clearAlert: () => Promise.resolve(),
    },
    readTruth: (event) => confirmNamed(one.engine, mentionsIn(event).hashes),
  });
}

async function assertOnce(one: EvmWorld, id: string): Promise<void> {
  const debits = await one.pool.query('select 1 from payonce.postings where reference = $1', [id]);
  assert.equal(debits.rowCount, 1, 'one DEBIT');
  const events = await one.pool.query(
    "select 1 from payonce.events where subject_id = $1 and type = 'withdrawal.confirmed'",
    [id],
  );
  assert.equal(events.rowCount, 1, 'one event');
  const history = await one.pool.query(
    "select 1 from payonce.effect_history h join payonce.effects e on e.id = h.effect_id where e.subject_id = $1 and h.to_state = 'SETTLED'",
    [id],
  );
  assert.equal(history.rowCount, 1, 'one line of history');
}

test('one confirmation under twenty delivery ids: one DEBIT, one event, nineteen lines "already transitioned" (req W1, W2, W12, case D1, D2, D6, J9)', async (t) => {
  const log = collectingLog();
  const one = await makeEvmWorld({ log });
  const { id, hash } = await finalButUnseen(one);
  const receiver = makeReceiver({
    pool: one.pool,
    ports: one.ports,
    log,
    sources: [{ name: 'monitor', secrets: [SECRET] }],
    wake: () => {},
  });
  const body = Buffer.from(JSON.stringify({ confirmed: true, txs: [{ hash }] }));
  const received = await Promise.all(
    Array.from({ length: COPIES }, (_, index) => {
      const [delivery, timestamp] = [`delivery-${index}`, String(Math.floor(Date.now() / 1_000))];
      return receiver.receive(
        'monitor',
        {
          'webhook-id': delivery,
          'webhook-timestamp': timestamp,
          'webhook-signature': signatureOf(SECRET, delivery, timestamp, body),
        },
        body,
      );
    }),
  );
  assert.ok(
    received.every((answer) => answer.kind === 'stored'),
    'all are answered with success',
  );
  const workers = [inboxOf(one, log), inboxOf(one, log)];
  while ((await Promise.all(workers.map((worker) => worker.runOnce()))).some((result) => result.worked > 0));
  await assertOnce(one, id);
  const lines = log.lines.filter((line) => line.message === 'already transitioned');
  t.diagnostic(`${COPIES} deliveries: 1 DEBIT, 1 event, ${lines.length} lines "already transitioned"`);
  assert.equal(lines.length, COPIES - 1);
  assert.equal(one.engine.counters.alreadyTransitioned, COPIES - 1);
  await assertBooksClean(one.pool, { books: await one.books(), wallets: one.wallets });
  await one.end();
});

test('the same with the uniqueness of the inbox dropped: still one DEBIT, one event, nineteen lines (req W2, W13)', async (t) => {
  const log = collectingLog();
  const one = await makeEvmWorld({ log });
  const { id, hash } = await finalButUnseen(one);
  await one.pool.query('alter table payonce.inbox drop constraint inbox_once');
  for (let copy = 0; copy < COPIES; copy += 1) {
    await one.pool.query(
      "insert into payonce.inbox (source, external_id, headers, body) values ('monitor', 'the-same', '{}', $1)",
      [Buffer.from(JSON.stringify({ hash }))],
    );
  }
  const workers = [inboxOf(one, log), inboxOf(one, log)];
  while ((await Promise.all(workers.map((worker) => worker.runOnce()))).some((result) => result.worked > 0));
  await assertOnce(one, id);
  const lines = log.lines.filter((line) => line.message === 'already transitioned');
  t.diagnostic(`${COPIES} copies of one delivery: 1 DEBIT, 1 event, ${lines.length} lines "already transitioned"`);
  assert.equal(lines.length, COPIES - 1);
  await assertBooksClean(one.pool, { books: await one.books(), wallets: one.wallets });
  await one.end();
});

test('the transition alone holds with the key layer taken away (req W13)', async () => {
  const log = collectingLog();
  const one = await makeEvmWorld({ log });
  const { id, hash } = await finalButUnseen(one);
  const { rows } = await one.pool.query<{ name: string; source: string }>(
    "select oid::regprocedure::text as name, pg_get_functiondef(oid) as source from pg_proc where pronamespace = 'payonce'::regnamespace and prokind = 'f'",
  );
  for (const { source } of rows.filter((row) => row.source.includes('on conflict (idem_key) do nothing'))) {
    await one.pool.query(source.replaceAll('on conflict (idem_key) do nothing', ''));
  }
  await one.pool.query('alter table payonce.postings drop constraint postings_idem_key');
  await Promise.all(Array.from({ length: COPIES }, () => confirmNamed(one.engine, [hash])));
  await assertOnce(one, id);
  assert.equal(log.lines.filter((line) => line.message === 'already transitioned').length, COPIES - 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('the key alone holds against a path that posts past the transition (req W3, W5, W13)', async () => {
  const one = await makeWorld({ rails: () => [makeNoopRail('noop')] });
  const [created] = await createWithdrawals(one, [one.request()]);
  const id = created?.outcome === 'created' ? created.id : '';
  const verdicts = await Promise.all(
    Array.from({ length: COPIES }, () =>
      one.pool.tx('direct', async (tx) => {
        const [partner, custody] = await one.chart.ids(tx, [
          accountName.partner(one.partnerId, one.assetId),
          accountName.custody('noop', one.wallet, one.assetId),
        ]);
        assert.ok(partner !== undefined && custody !== undefined);
        const entries = [
          { accountId: partner, amount: -1_000_000n },
          { accountId: custody, amount: 1_000_000n },
        ];
        return (await post(tx, [{ kind: 'post', key: `WDR_CONFIRM:${id}`, reference: id, entries }]))[0]?.verdict;
      }),
    ),
  );
  assert.equal(verdicts.filter((verdict) => verdict === 'posted').length, 1);
  assert.equal(verdicts.filter((verdict) => verdict === 'exists').length, COPIES - 1);
  const balance = await one.pool.query<{ balance: bigint }>('select balance from payonce.accounts where code = $1', [
    `partner:${one.partnerId}`,
  ]);
  assert.equal(balance.rows[0]?.balance, 999_000_000n);
  await assertBooksClean(one.pool, { without: ['E3', 'L5', 'L6'] });
  await one.end();
});

test("the incident's own algorithm, read and then overwrite, books the DEBIT twice (req W1)", async (t) => {
  const database = await testDatabase('incident');
  const handlers = [database, database].map(({ url }) => new pg.Client({ connectionString: url }));
  for (const handler of handlers) await handler.connect();
  const [first, second] = handlers;
  assert.ok(first !== undefined && second !== undefined);
  await first.query(
    "create table incident_withdrawals (id int primary key, status text not null); create table incident_entries (withdrawal int, amount int); insert into incident_withdrawals values (1, 'BROADCASTING')",
  );
  const read = async (client: pg.Client): Promise<string> => {
    await client.query('begin');
    return (
      (await client.query<{ status: string }>('select status from incident_withdrawals where id = 1')).rows[0]
        ?.status ?? ''
    );
  };
  const confirm = async (client: pg.Client, seen: string): Promise<void> => {
    if (seen === 'CONFIRMED') return;
    await client.query("update incident_withdrawals set status = 'CONFIRMED' where id = 1");
    await client.query('insert into incident_entries values (1, -100)');
    await client.query('commit');
  };
  // The first handler's transaction is long (it talked to a chat service); the monitor delivers again meanwhile.
  const seen = [await read(first), await read(second)];
  await Promise.all([confirm(first, seen[0] ?? ''), confirm(second, seen[1] ?? '')]);
  const debits = (await first.query('select 1 from incident_entries')).rowCount;
  t.diagnostic(`the incident's algorithm: ${debits} DEBITs`);
  assert.equal(debits, 2);
  for (const handler of handlers) await handler.end();
  await database.drop();
});
