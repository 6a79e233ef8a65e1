/*
 * Goal: a transaction either happened or the caller knows what is the matter. Method: a real server; a proxy before it that
 * swallows the answer to a COMMIT, or the COMMIT itself; many callers on pools of one and two connections.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { constraintOf, makePool, type Pool, type PoolOptions } from '../../src/db/pool.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { startTcpProxy } from '../../sim/tcp-proxy.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

let database: TestDatabase;
let pool: Pool;
const pools: Pool[] = [];

function poolOf(url: string, options: Partial<PoolOptions> = {}): Pool {
  const made = makePool({ url, ports: systemPorts(), log: silentLog, ...options });
  pools.push(made);
  return made;
}

before(async () => {
  database = await testDatabase('db tx');
  pool = poolOf(database.url);
  await pool.query('create table notes (id int primary key, text text not null)');
});
after(async () => {
  for (const one of pools) await one.end();
  await database.drop();
});

const noteCount = async (id: number): Promise<number> =>
  (await pool.query('select 1 from notes where id = $1', [id])).rowCount;

test('what a transaction wrote is there after it, and not when its work throws', async () => {
  await pool.tx('writes', (tx) => tx.query("insert into notes values (1, 'kept')"));
  await assert.rejects(
    pool.tx('throws', async (tx) => {
      await tx.query("insert into notes values (2, 'lost')");
      throw new Error('changed my mind');
    }),
    /changed my mind/,
  );
  assert.equal(await noteCount(1), 1);
  assert.equal(await noteCount(2), 0);
});

test('a COMMIT that PostgreSQL answers with ROLLBACK is a failure, though the statement that aborted was caught', async () => {
  const work = pool.tx('aborted', async (tx) => {
    await tx.query("insert into notes values (3, 'first')");
    await tx.query('select 1 / 0').catch(() => {});
  });
  await assert.rejects(work, (error: unknown) => error instanceof PayonceError && error.code === 'PO_INTERNAL');
  assert.equal(await noteCount(3), 0);
});

test('what is to run after the commit runs after it, once, and never without it', async () => {
  const acts: string[] = [];
  await pool.tx('acts', async (tx) => {
    tx.afterCommit(() => acts.push('acted'));
    await tx.query("insert into notes values (4, 'x')");
    assert.deepEqual(acts, []);
  });
  await pool
    .tx('no acts', async (tx) => {
      tx.afterCommit(() => acts.push('never'));
      await tx.query("insert into notes values (4, 'twice')");
    })
    .catch(() => {});
  assert.deepEqual(acts, ['acted']);
});

test('a serialization failure and a dead-lock run the whole transaction again, and the caller sees neither', async () => {
  for (const state of ['40001', '40P01']) {
    let runs = 0;
    const value = await pool.tx('again', async (tx) => {
      runs += 1;
      await tx.query('insert into notes values ($1, $2)', [state === '40001' ? 5 : 6, `run ${runs}`]);
      if (runs < 3) await tx.query(`do $$ begin raise exception 'again' using errcode = '${state}'; end $$`);
      return runs;
    });
    assert.equal(value, 3);
  }
  const { rows } = await pool.query<{ text: string }>('select text from notes where id in (5, 6)');
  assert.deepEqual(rows, [{ text: 'run 3' }, { text: 'run 3' }]);
});

test('a real dead-lock of two transactions ends with both done', async () => {
  await pool.query("insert into notes values (7, 'a'), (8, 'b')");
  const met = Promise.withResolvers<void>();
  let arrived = 0;
  const cross = (first: number, second: number) =>
    pool.tx('cross', async (tx) => {
      await tx.query("update notes set text = text || '.' where id = $1", [first]);
      arrived += 1;
      if (arrived === 2) met.resolve();
      await met.promise;
      await tx.query("update notes set text = text || '.' where id = $1", [second]);
    });
  await Promise.all([cross(7, 8), cross(8, 7)]);
  const { rows } = await pool.query<{ text: string }>('select text from notes where id in (7, 8) order by id');
  assert.deepEqual(rows, [{ text: 'a..' }, { text: 'b..' }]);
});

test('a transaction that fails with 40001 for ever is told after a few runs', async () => {
  let runs = 0;
  const hopeless = pool.tx('hopeless', async (tx) => {
    runs += 1;
    await tx.query("do $$ begin raise exception 'again' using errcode = '40001'; end $$");
  });
  await assert.rejects(hopeless, { code: '40001' });
  assert.equal(runs, 8);
});

test('another error is not run again', async () => {
  let runs = 0;
  const twice = pool.tx('twice', async (tx) => {
    runs += 1;
    await tx.query("insert into notes values (1, 'again')");
  });
  await assert.rejects(twice, (error: unknown) => constraintOf(error) === 'notes_pkey');
  assert.equal(runs, 1);
});

test('case L10: no second connection inside a transaction, be it another transaction or a single statement', async () => {
  const inner = (work: () => Promise<unknown>) => pool.tx('outer', () => work());
  await assert.rejects(
    inner(() => pool.tx('inner', async () => {})),
    /second connection .* inside transaction "outer"/,
  );
  await assert.rejects(
    inner(() => pool.query('select 1')),
    /second connection/,
  );
  await assert.rejects(
    inner(() => pool.one('one', 'select 1')),
    /second connection/,
  );
});

test('case L10: pools of one and two connections serve 20 transactions at once', async () => {
  for (const connectionsMax of [1, 2]) {
    const small = poolOf(database.url, { connectionsMax });
    const sums = await Promise.all(
      Array.from({ length: 20 }, (_, nth) =>
        small.tx('small', async (tx) => {
          await tx.query('select pg_sleep(0.002)');
          return (await tx.query<{ sum: number }>('select $1::int + 1 as sum', [nth])).rows[0]?.sum;
        }),
      ),
    );
    assert.deepEqual(
      sums,
      Array.from({ length: 20 }, (_, nth) => nth + 1),
    );
  }
});

test('a server that cannot be reached is told as unavailable, with nothing sent', async () => {
  const blocked = poolOf('postgres://nobody@127.0.0.1:1/none', { connectionsMax: 1 });
  await assert.rejects(blocked.query('select 1'), (error: unknown) => {
    assert(error instanceof PayonceError);
    assert.equal(error.code, 'PO_DB_UNAVAILABLE');
    assert.equal(error.facts.moneyState, 'not_sent');
    return true;
  });
});

test('inv E12: a wire call inside a transaction is refused before it is made', async () => {
  const ports = systemPorts();
  let called = false;
  const send = (): Promise<void> =>
    ports.gate.pass('http', 'POST /pay', async () => {
      called = true;
    });
  await assert.rejects(pool.tx('with wire', send), /http call "POST \/pay" inside transaction "with wire"/);
  assert.equal(called, false);
  await send();
  assert.equal(called, true);
});

test('req W14: transactions are READ COMMITTED whatever the database defaults to', async () => {
  const other = await testDatabase('db isolation');
  const admin = new pg.Client({ connectionString: other.url });
  await admin.connect();
  for (const level of ['repeatable read', 'serializable']) {
    await admin.query(
      `alter database "${new URL(other.url).pathname.slice(1)}" set default_transaction_isolation = '${level}'`,
    );
    const host = poolOf(other.url);
    const plain = await host.query("select current_setting('transaction_isolation') as level");
    assert.equal(plain.rows[0]?.['level'], level);
    const inTx = await host.tx('level', (tx) => tx.query("select current_setting('transaction_isolation') as level"));
    assert.equal(inTx.rows[0]?.['level'], 'read committed');
    const alone = await host.one('level', "select current_setting('transaction_isolation') as level");
    assert.equal(alone.rows[0]?.['level'], 'read committed');
  }
  await admin.end();
});

test("limits on statements, locks and idle transactions are the transaction's own and end with it", async () => {
  const settings = "select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout') as limits";
  const single = poolOf(database.url, { connectionsMax: 1 });
  assert.equal((await single.tx('limits', (tx) => tx.query(settings))).rows[0]?.['limits'], '15s 10s');
  assert.equal((await single.query(settings)).rows[0]?.['limits'], '0 0');
});

for (const connectionsMax of [1, 4]) {
  test(`an unanswered COMMIT that happened is found out: the work is done once (pool of ${connectionsMax})`, async () => {
    await withProxy(connectionsMax, async (proxied, proxy, id) => {
      let runs = 0;
      proxy.cutWhenServer((frame) => frame.text().startsWith('COMMIT'), 'before');
      await proxied.tx('unanswered', async (tx) => {
        runs += 1;
        await tx.query('insert into notes values ($1, $2)', [id, `run ${runs}`]);
      });
      assert.deepEqual([runs, proxied.counts.unknownCommits, proxied.counts.commits], [1, 1, 1]);
      assert.equal(await noteCount(id), 1);
    });
  });

  test(`an unanswered COMMIT that never arrived is found out: the work is run again (pool of ${connectionsMax})`, async () => {
    await withProxy(connectionsMax, async (proxied, proxy, id) => {
      let runs = 0;
      proxy.cutWhenClient((frame) => frame.text().startsWith('commit'), 'before');
      await proxied.tx('never arrived', async (tx) => {
        runs += 1;
        await tx.query('insert into notes values ($1, $2)', [id, `run ${runs}`]);
      });
      assert.deepEqual([runs, proxied.counts.unknownCommits, proxied.counts.commits], [2, 1, 1]);
      assert.equal(await noteCount(id), 1);
    });
  });

  test(`a single statement whose answer or COMMIT is lost is asked again (pool of ${connectionsMax})`, async () => {
    const insert = 'insert into notes values ($1, $2) on conflict (id) do nothing returning id';
    for (const lost of ['INSERT', 'COMMIT']) {
      await withProxy(connectionsMax, async (proxied, proxy, id) => {
        proxy.cutWhenServer((frame) => frame.text().startsWith(lost), 'before');
        const { rowCount } = await proxied.one('one', insert, [id, lost]);
        // With the statement's answer in hand it stands; without it the second run tells what the first one left.
        assert.equal(rowCount, lost === 'COMMIT' ? 1 : 0);
        assert.equal(await noteCount(id), 1);
      });
    }
  });
}

test('a COMMIT whose fate nobody can tell is reported as unknown, never as failed', async () => {
  await withProxy(1, async (proxied, proxy, id) => {
    proxy.cutWhenServer((frame) => frame.text().startsWith('COMMIT'), 'before');
    const lost = proxied.tx('nobody knows', async (tx) => {
      await tx.query('insert into notes values ($1, $2)', [id, 'x']);
      await proxy.refuse(true);
    });
    await assert.rejects(
      lost,
      (error: unknown) => error instanceof PayonceError && error.code === 'PO_DB_COMMIT_UNKNOWN',
    );
    await proxy.refuse(false);
  });
});

test('a backend that is killed between two statements fails the transaction and not the process', async () => {
  const work = pool.tx('killed', async (tx) => {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
    const killer = new pg.Client({ connectionString: database.url });
    await killer.connect();
    await killer.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid]);
    await killer.end();
    await tx.query("insert into notes values (90, 'never')");
  });
  await assert.rejects(work);
  assert.equal(await noteCount(90), 0);
});

let nextId = 100;
async function withProxy(
  connectionsMax: number,
  work: (proxied: Pool, proxy: Awaited<ReturnType<typeof startTcpProxy>>, id: number) => Promise<void>,
): Promise<void> {
  const url = new URL(database.url);
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port), protocol: 'postgres' });
  url.port = String(proxy.port);
  // The pauses between two questions for a fate are a server's restart long; here nothing restarts.
  const ports = systemPorts();
  const hurried = { ...ports, clock: { ...ports.clock, sleep: (ms: number) => ports.clock.sleep(Math.min(ms, 20)) } };
  const proxied = makePool({ url: url.href, ports: hurried, log: silentLog, connectionsMax });
  try {
    nextId += 1;
    await work(proxied, proxy, nextId);
    assert.ok(proxy.counts.cutByRule > 0, 'the fault never fired');
  } finally {
    await proxied.end();
    await proxy.stop();
  }
}
