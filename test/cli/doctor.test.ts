/*
 * Goal: the doctor proves a right database, refuses what would lose or double money, explains what is in flight, and a
 * refusal stops seals. Method: the real program on durable servers and on ones that are wrong in one thing each.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { runDoctor, stopOnRefusal } from '../../src/audit/doctor.ts';
import { makePool } from '../../src/db/pool.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemClock, systemPorts } from '../../src/kernel/ports.ts';
import { durableDataFolder, testDatabase } from '../support/postgres.ts';
import { makeWorld } from '../support/world.ts';
import { payonce, payonceOn, type Ran, startPayonce } from './cli-scene.ts';

interface Report {
  level: string;
  findings: { name: string; level: string; found: string; hint: string }[];
}

function levelOf(ran: Ran, name: string): string | undefined {
  return ran.json<Report>().findings.find((one) => one.name === name)?.level;
}

test('a durable PostgreSQL is found right in every point, and nothing of the examination stays', async () => {
  const data = durableDataFolder();
  const settings = { PAYONCE_DATA: data.folder };
  assert.equal((await payonce(['migrate'], settings)).code, 0);
  const ran = await payonce(['doctor', '--json'], settings);
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  assert.deepEqual(
    ran.json<Report>().findings.map((one) => [one.name, one.level]),
    [
      ['development keys', 'ok'],
      ['fsync', 'ok'],
      ['full_page_writes', 'ok'],
      ['synchronous_commit', 'ok'],
      ['primary', 'ok'],
      ['clock', 'ok'],
      ['schema', 'ok'],
      ['skip_locked', 'ok'],
      ['unique', 'ok'],
      ['advisory_lock', 'ok'],
      ['read_committed', 'ok'],
      ['identity', 'ok'],
      ['seals', 'ok'],
      ['scans', 'ok'],
      ['quarantine', 'ok'],
      ['unknown outflows', 'ok'],
      ['alerts', 'ok'],
      ['long stays', 'ok'],
      ['wallets', 'ok'],
      ['in flight', 'ok'],
      ['matchers', 'ok'],
      ['trade surplus', 'ok'],
      ['payments', 'ok'],
    ],
  );
  const text = await payonce(['doctor'], settings);
  assert.match(text.stdout, /ok {6}skip_locked {9}SKIP LOCKED skips/);
  assert.match(text.stdout, /All is well\./);
  data.remove();
});

test('a server that may forget commits is refused, and so is one without the schema or with a newer one', async () => {
  const database = await testDatabase('cli doctor');
  const { url } = database;
  const run = payonceOn(url);
  // The tests' own server runs without fsync.
  const careless = await run(['doctor', '--json']);
  assert.equal(careless.code, 1);
  assert.equal(levelOf(careless, 'fsync'), 'refuse');
  assert.equal(levelOf(careless, 'skip_locked'), 'ok');
  const world = await makeWorld({ label: 'cli doctor stops', rails: () => [makeNoopRail('noop')] });
  await world.pool.query("insert into payonce.migrations (id, checksum) values ('9999_future', 'x')");
  const newer = await payonceOn(world.url)(['doctor', '--json']);
  assert.match(newer.json<Report>().findings.find((one) => one.name === 'schema')?.found ?? '', /newer.*9999_future/);
  await world.pool.query('drop schema payonce cascade');
  const empty = await payonceOn(world.url)(['doctor', '--json']);
  assert.equal(empty.code, 1);
  assert.match(empty.json<Report>().findings.find((one) => one.name === 'schema')?.hint ?? '', /payonce migrate/);
  await world.end();
  await database.drop();
});

test('a changed identity, a stopped rail and open effects that nobody works are found; a refusal stops seals (req R18)', async () => {
  const world = await makeWorld({ label: 'cli doctor rows', rails: () => [makeNoopRail('noop')] });
  await createWithdrawals(world, [world.request()]);
  await world.pool.query("insert into payonce.database_marks (system_identifier, timeline) values ('1', 1)");
  await world.pool.query("update payonce.effects set next_at = payonce.now() - interval '1 day'");
  const options = {
    url: world.url,
    ports: systemPorts(),
    log: silentLog,
    production: true,
    developmentKeys: ['0xf39f'],
    rails: [{ name: 'noop', ask: () => Promise.resolve({ ok: false, found: 'no node answers' }) }],
  };
  const report = await runDoctor({ ...options, works: { rails: ['other'], subjectTypes: ['withdrawal'] } });
  const bad = report.findings
    .filter((one) => one.level !== 'ok')
    .map((one) => `${one.level} ${one.name}: ${one.found}`);
  assert.equal(report.level, 'refuse');
  for (const part of [
    /refuse development keys/,
    /refuse identity: system 1 timeline 1 became/,
    /refuse in flight: 1 open effects of withdrawal on noop/,
    /warn in flight: 1 open effects are overdue/,
    /warn rail noop: no node answers/,
  ])
    assert.match(bad.join('\n'), part);
  assert.deepEqual(await stopOnRefusal(world.pool, report, silentLog), ['noop']);
  assert.deepEqual(await stopOnRefusal(world.pool, report, silentLog), [], 'a stop that stands is left as it is');
  const rails = await world.pool.query<{ reason: string }>('select seals_stopped_reason as reason from payonce.rails');
  assert.match(rails.rows[0]?.reason ?? '', /^doctor: .*identity/);
  const known = await runDoctor({ ...options, works: { rails: ['noop'], subjectTypes: ['withdrawal'] } });
  assert.ok(!known.findings.some((one) => one.name === 'in flight' && one.level === 'refuse'));
  assert.ok(known.findings.some((one) => one.name === 'seals' && one.level === 'warn'));
  await world.pool.query(
    "insert into payonce.scan_cursors (chain, next_block, halted_at, halted_reason) values ('eip155:1', 9, payonce.now(), 'finality_broken: x')",
  );
  await world.pool.query(
    "insert into payonce.alerts (kind, key, message) values ('reopen_fails', 'effect:1', 'x'), ('long_stay', 'effect:1', 'x')",
  );
  const halted = await runDoctor({ ...options, works: null });
  for (const name of ['scans', 'alerts', 'long stays'])
    assert.equal(halted.findings.find((one) => one.name === name)?.level, 'warn', name);
  const left = await world.pool.query("select 1 from payonce.settings where name like 'doctor:%'");
  assert.equal(left.rowCount, 0);
  await world.end();
});

test('a worker in production seals nothing on a database that may forget commits, and still drains', async () => {
  const world = await makeWorld({ label: 'cli doctor worker', rails: () => [makeNoopRail('noop')] });
  const keys = mkdtempSync(join(tmpdir(), 'payonce-keys-'));
  const worker = startPayonce(['worker', '--only', 'courier'], {
    DATABASE_URL: world.url,
    PAYONCE_ENV: 'production',
    PAYONCE_DEPLOYMENT: 'proof',
    PAYONCE_MASTER_SECRET: 'a-secret-of-the-test-with-32-characters',
    PAYONCE_METRICS_TOKEN: 'a-token-of-the-test',
    PAYONCE_KEYSTORE: keys,
    PAYONCE_PASSPHRASE: 'correct horse',
  });
  const gone = once(worker, 'exit');
  let log = '';
  for (const stream of [worker.stdout, worker.stderr]) stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  while (!log.includes('payonce works') && worker.exitCode === null && worker.signalCode === null)
    await systemClock.sleep(50);
  const { rows } = await world.pool.query<{ reason: string | null }>(
    'select seals_stopped_reason as reason from payonce.rails',
  );
  const reason = rows[0]?.reason ?? '';
  worker.kill('SIGTERM');
  assert.deepEqual(await gone, [0, null], log);
  assert.match(reason, /^doctor: fsync: fsync is off/);
  const { alerts } = (await payonceOn(world.url)(['alerts', '--json'])).json<{ alerts: { kind: string }[] }>();
  assert.ok(alerts.some((one) => one.kind === 'doctor_refused'));
  rmSync(keys, { recursive: true });
  await world.end();
});

test('eight doctors at once disturb neither each other nor what they find', async () => {
  const database = await testDatabase('cli doctors');
  const { url } = database;
  const reports = await Promise.all(
    Array.from({ length: 8 }, () =>
      runDoctor({
        url,
        ports: systemPorts(),
        log: silentLog,
        production: false,
        developmentKeys: [],
        works: null,
        rails: [],
      }),
    ),
  );
  for (const report of reports)
    assert.deepEqual(
      report.findings.filter((one) => one.level !== 'ok').map((one) => one.name),
      ['fsync', 'full_page_writes'],
    );
  await database.drop();
});

test('a rail whose node is down or elsewhere is a warning with the node by name, and a development wallet too', async () => {
  const wrong = createServer((_request, response) => response.end('<html>hello</html>'));
  await new Promise<void>((resolve) => {
    wrong.listen(0, '127.0.0.1', resolve);
  });
  const address = wrong.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const folder = mkdtempSync(join(tmpdir(), 'payonce-doctor-'));
  const file = join(folder, 'chains.json');
  writeFileSync(
    file,
    JSON.stringify({
      chains: [
        {
          chainId: '31337',
          nodes: [
            { url: 'http://127.0.0.1:9', operator: 'a' },
            { url: `http://127.0.0.1:${port}`, operator: 'b' },
          ],
          finality: { tag: 'finalized' },
          feeCapWei: '1',
          gasLimitCap: '1',
          assets: [
            { code: 'COIN', contract: null, decimals: 18, wallet: '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266' },
          ],
        },
      ],
    }),
  );
  const database = await testDatabase('cli doctor rails');
  const { url } = database;
  const ran = await payonceOn(url, { PAYONCE_CONFIG: file })(['doctor', '--json']);
  assert.equal(levelOf(ran, 'rail evm:31337'), 'warn');
  assert.equal(levelOf(ran, 'development keys'), 'warn');
  assert.match(ran.stdout, /0 of 2 nodes answer/);
  // A wallet that only the database knows, as beside `payonce up`, is found too.
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  await pool.query("insert into payonce.rails (name) values ('evm:1')");
  await pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ('evm:1', '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', 'x', 0)",
  );
  await pool.end();
  assert.equal(levelOf(await payonceOn(url)(['doctor', '--json']), 'development keys'), 'warn');
  wrong.close();
  rmSync(folder, { recursive: true });
  await database.drop();
});
