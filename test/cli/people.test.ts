/*
 * Goal: partners, operators and their keys at the command line; who may what; what a key is shown for; exit codes. Method:
 * the real program against a real database, its output read as a script reads it.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { makePool } from '../../src/db/pool.ts';
import { verifyAudit } from '../../src/engine/audit-log.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { testDatabase } from '../support/postgres.ts';
import { addOperator, firstAdmin, payonce, payonceOn } from './cli-scene.ts';

test('help, usage errors and unknown words exit as documented', async () => {
  const help = await payonce(['--help']);
  assert.equal(help.code, 0);
  for (const word of [
    'up',
    'serve',
    'worker',
    'migrate',
    'doctor',
    'case',
    'effect',
    'wallet',
    'rail',
    'verify',
    'audit',
    'alerts',
  ])
    assert.match(help.stdout, new RegExp(`^  ${word}\\b`, 'm'));
  assert.equal((await payonce(['retry'])).code, 2);
  assert.equal((await payonce(['case'])).code, 2);
  assert.equal((await payonce(['operator', 'create', 'Ada', '--role', 'king'])).code, 2);
  const role = await payonce(['worker', '--only', 'sender,forger']);
  assert.equal(role.code, 2);
  assert.match(role.stderr, /There is no role forger\. There are: sender, watcher/);
});

test('without a database a command says which setting is missing, and with a dead one that it is down', async () => {
  const none = await payonce(['alerts']);
  assert.equal(none.code, 2);
  assert.match(none.stderr, /DATABASE_URL/);
  assert.match(none.stderr, /next {2}/);
  const dead = await payonce(['alerts', '--json'], { DATABASE_URL: 'postgres://nobody:secret-word@127.0.0.1:9/none' });
  assert.equal(dead.code, 1);
  assert.equal(dead.problem().code, 'PO_DB_UNAVAILABLE');
  assert.doesNotMatch(dead.stderr, /secret-word/);
});

test('the first operator is an admin and needs no key; from then on an admin is needed, also after all were disabled', async () => {
  const database = await testDatabase('cli people');
  const { url } = database;
  const run = payonceOn(url);
  const viewer = await run(['operator', 'create', 'Vera', '--role', 'viewer', '--json']);
  assert.equal(viewer.code, 2);
  assert.match(viewer.problem().detail, /first operator must be an admin/);
  const admin = await firstAdmin(run);
  const anonymous = await run(['operator', 'create', 'Eve', '--role', 'admin', '--json']);
  assert.equal(anonymous.code, 2);
  assert.equal(anonymous.problem().code, 'PO_AUTH_MISSING');
  assert.match(anonymous.problem().hint, /PAYONCE_OPERATOR_KEY/);
  const operator = await addOperator(run, admin, 'Otto', 'operator');
  const lesser = await run(['operator', 'create', 'Eve', '--role', 'admin', '--json'], operator);
  assert.equal(lesser.code, 1);
  assert.equal(lesser.problem().code, 'PO_OPERATOR_FORBIDDEN');
  assert.equal((await run(['operator', 'create', 'Otto', '--role', 'viewer'], admin)).code, 4);
  const last = await run(['operator', 'disable', 'Ada', '--json'], admin);
  assert.equal(last.code, 4);
  assert.match(last.problem().detail, /only admin/);
  assert.equal((await run(['operator', 'disable', 'Otto'], admin)).code, 0);
  assert.equal((await run(['operator', 'disable', 'Nobody'], admin)).code, 3);
  const refused = await run(['rail', 'stop', 'noop', '--reason', 'x', '--json'], operator);
  assert.equal(refused.problem().code, 'PO_AUTH_WRONG');
  const { operators } = (await run(['operator', 'list', '--json'])).json<{
    operators: { name: string; role: string; disabled_at: string | null }[];
  }>();
  assert.deepEqual(
    operators.map((one) => [one.name, one.role, one.disabled_at !== null]),
    [
      ['Ada', 'admin', false],
      ['Otto', 'operator', true],
    ],
  );
  await database.drop();
});

test('two first operators at once become one', async () => {
  const database = await testDatabase('cli first');
  const { url } = database;
  const run = payonceOn(url);
  const made = await Promise.all(
    ['Ada', 'Eve'].map((name) => run(['operator', 'create', name, '--role', 'admin', '--json'])),
  );
  assert.deepEqual(
    made.map((one) => one.code).sort((left, right) => (left ?? 0) - (right ?? 0)),
    [0, 2],
  );
  await database.drop();
});

test('a partner gets keys that are shown once, listed by hint and revoked at once, each in the audit log', async () => {
  const database = await testDatabase('cli partners');
  const { url } = database;
  const run = payonceOn(url);
  const admin = await firstAdmin(run);
  const wrong = await run(['partner', 'create', '--name', 'Kim', '--time-zone', 'Asia/Soul', '--json'], admin);
  assert.equal(wrong.code, 2);
  assert.match(wrong.problem().detail, /Asia\/Soul/);
  const made = await run(['partner', 'create', '--name', '김 상점', '--time-zone', 'Asia/Seoul', '--json'], admin);
  assert.equal(made.code, 0);
  const { id } = made.json<{ id: string }>();
  const key = (await run(['partner', 'key', 'create', id, '--json'], admin)).json<{ id: string; key: string }>();
  assert.match(key.key, /^pk_test_[0-9a-z]{51}$/);
  assert.equal((await run(['partner', 'key', 'create', 'par_nobody'], admin)).code, 3);
  const listed = await run(['partner', 'key', 'list', id]);
  assert.ok(!listed.stdout.includes(key.key));
  assert.ok(listed.stdout.includes(key.id));
  assert.match((await run(['partner', 'list'])).stdout, /김 상점 {2}Asia\/Seoul {2}1 /);
  assert.equal((await run(['partner', 'key', 'revoke', id, 'key_nobody'], admin)).code, 3);
  for (const outcome of ['revoked', 'was_revoked']) {
    const revoked = await run(['partner', 'key', 'revoke', id, key.id, '--json'], admin);
    assert.equal(revoked.json<{ outcome: string }>().outcome, outcome);
  }
  const audit = await run(['audit', 'list', '--json']);
  const { acts } = audit.json<{ acts: { action: string; actor_name: string | null; actor: string }[] }>();
  assert.deepEqual(
    acts.map((act) => [act.actor_name ?? act.actor, act.action]),
    [
      ['Ada', 'partner.key_revoked'],
      ['Ada', 'partner.key_created'],
      ['Ada', 'partner.created'],
      ['bootstrap', 'operator.created'],
    ],
  );
  assert.ok(!audit.stdout.includes(key.key) && !audit.stdout.includes(admin), 'a secret stands in the audit log');
  assert.equal(
    (await run(['audit', 'list', '--object', id, '--limit', '2', '--json'])).json<{ acts: unknown[] }>().acts.length,
    2,
  );
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  assert.deepEqual(await verifyAudit(pool), []);
  assert.equal((await run(['audit', 'verify'])).code, 0);
  await pool.query('alter table payonce.audit_log disable trigger user');
  await pool.query("update payonce.audit_log set actor = 'nobody' where seq = 2");
  const broken = await run(['audit', 'verify', '--json']);
  assert.equal(broken.code, 1);
  assert.match(broken.stdout, /"seq": "2"/);
  await pool.end();
  await database.drop();
});

test('an empty database is told apart from a wrong one, and migrate brings it up to date once', async () => {
  const database = await testDatabase('cli migrate');
  const { url } = database;
  const run = payonceOn(url);
  assert.deepEqual((await run(['migrate', '--json'])).json(), { applied: [] });
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  await pool.query('drop schema payonce cascade');
  await pool.end();
  const empty = await run(['partner', 'list', '--json']);
  assert.equal(empty.problem().code, 'PO_DB_SCHEMA');
  assert.match(empty.problem().hint, /payonce migrate/);
  const { applied } = (await run(['migrate', '--json'])).json<{ applied: string[] }>();
  assert.equal(applied[0], '0001_ledger');
  assert.match((await run(['partner', 'list'])).stdout, /No partner yet/);
  await database.drop();
});
