/*
 * Goal: the operators' routes are for operators: by key, by role, and nowhere in the partners' document; what is undecided is
 * always in view. Method: the routes come from the operators' own document, so a new one without a line here fails.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root } from '../../scripts/copy-tree.ts';
import { STORY_ANSWER_CHARACTERS_MAX } from '../../src/api/limits.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { raiseAlert } from '../../src/engine/alerts.ts';
import { AMOUNT, makeOpsScene, type OpsScene } from './ops-scene.ts';

let one: OpsScene;
let caseId: string;
before(async () => {
  one = await makeOpsScene({ label: 'ops keys' });
  await one.pay();
  await one.pass();
  caseId = await one.caseId();
});
after(() => one.end());

interface Route {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

/** By operation; `acts` takes more than a viewer. */
function routes(): Record<string, Route & { readonly acts: boolean }> {
  const read = (path: string) => ({ method: 'GET', path, acts: false });
  const act = (path: string, body?: object) => ({
    method: 'POST',
    path,
    acts: true,
    ...(body === undefined ? {} : { body }),
  });
  return {
    whoAmI: read('/ops/me'),
    listCases: read('/ops/cases'),
    readCase: read(`/ops/cases/${caseId}`),
    readEffect: read('/ops/effects/1'),
    readAnswer: read('/ops/answers/1'),
    undecided: read('/ops/undecided'),
    listAlerts: read('/ops/alerts'),
    listActs: read('/ops/audit'),
    verifyAudit: read('/ops/audit/verify'),
    listRails: read('/ops/rails'),
    propose: act(`/ops/cases/${caseId}/proposals`, { verb: 'close', reason: 'x' }),
    note: act(`/ops/cases/${caseId}/notes`, { note: 'x' }),
    approve: act('/ops/proposals/prop_nobody/approve'),
    withdraw: act('/ops/proposals/prop_nobody/withdraw'),
    look: act('/ops/effects/1/look'),
    ask: act('/ops/effects/1/ask'),
    bumpEffect: act('/ops/effects/1/bump'),
    cancelEffect: act('/ops/effects/1/cancel'),
    stopRail: act('/ops/rails/bank:generic/stop', { reason: 'x' }),
    resumeRail: act('/ops/rails/bank:generic/resume'),
  };
}

test('every route of the operators has its line here, and the partners are not told of any', async () => {
  const operations = Object.values(one.document.paths).flatMap((path) => Object.values(path));
  assert.deepEqual(new Set(operations.map((operation) => operation.operationId)), new Set(Object.keys(routes())));
  assert.ok(Object.keys(one.document.paths).every((path) => path.startsWith('/ops/')));
  const partners = (await one.app.inject('/openapi.json')).body;
  assert.ok(!partners.includes('/ops') && !partners.includes('OPS') && partners.includes('/v1/transfers'));
});

test('docs/operators.md lists every route, with the words of the document', () => {
  const text = readFileSync(join(root, 'docs/operators.md'), 'utf8');
  const rows = [...text.matchAll(/^\| `([A-Z]+ \/ops\/\S+)` \| (.*) \|$/gm)].map(([, route, words]) => [route, words]);
  const documented = Object.entries(one.document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { summary }]) => [`${method.toUpperCase()} ${path}`, summary]),
  );
  assert.deepEqual(Object.fromEntries(rows), Object.fromEntries(documented));
  assert.ok(text.includes(STORY_ANSWER_CHARACTERS_MAX.toLocaleString('en')));
});

test('without the key of an operator no route answers: none, a wrong one, a partner’s, or of one who was disabled', async () => {
  const { pool } = one.world;
  await pool.query('update payonce.operators set disabled_at = payonce.now() where id = $1', [one.ids.cyd]);
  const before = await one.effect();
  const keys = [null, one.partnerKey, one.keys.cyd, `ok_${'0'.repeat(51)}`, `${one.keys.ada}x`, one.keys.ada.slice(3)];
  for (const { method, path, body } of [
    ...Object.values(routes()),
    { method: 'GET', path: '/ops/openapi.json', body: undefined },
  ]) {
    for (const key of keys) {
      const answer = await one.ask(method, path, { key }, body);
      const code = key === null ? 'PO_AUTH_MISSING' : 'PO_AUTH_WRONG';
      assert.deepEqual([answer.status, answer.body.code], [401, code], `${method} ${path}`);
    }
  }
  assert.deepEqual(await one.effect(), before);
  await pool.query('update payonce.operators set disabled_at = null where id = $1', [one.ids.cyd]);
  assert.equal((await one.ask('GET', '/ops/me', 'cyd')).status, 200);
});

test('an operator’s key opens nothing of the partners’', async () => {
  for (const path of ['/v1/transfers', '/v1/balances', '/v1/cases']) {
    const answer = await one.ask('GET', path, 'ada');
    assert.deepEqual([answer.status, answer.body.code], [401, 'PO_AUTH_WRONG'], path);
  }
});

test('a viewer reads everything and does nothing', async () => {
  const before = await one.effect();
  const acts = await one.world.pool.query('select 1 from payonce.audit_log');
  for (const [name, { method, path, body, acts }] of Object.entries(routes())) {
    const answer = await one.ask(method, path, 'vera', body);
    // On a bank there is nothing to bump or cancel; that is found out only after the role was.
    assert.equal(answer.status, acts ? 403 : 200, `${name}: ${answer.text}`);
    if (acts) assert.equal(answer.body.code, 'PO_OPERATOR_FORBIDDEN');
  }
  assert.deepEqual(await one.effect(), before);
  assert.equal((await one.world.pool.query('select 1 from payonce.audit_log')).rowCount, acts.rowCount);
  assert.deepEqual((await one.ask('GET', '/ops/me', 'vera')).body, { id: one.ids.vera, name: 'vera', role: 'viewer' });
});

test('the undecided are in view: how many, how old, how much, by rail, partner and asset (req T13)', async () => {
  const two = await makeOpsScene({ label: 'ops undecided' });
  try {
    assert.deepEqual((await two.ask('GET', '/ops/undecided', 'vera')).body.items, []);
    await two.pay('one');
    await two.pay('two');
    await two.pass();
    await two.world.pool.query(
      "update payonce.effects set lease_until = payonce.now() - interval '1 second' where subject_id = (select min(subject_id) from payonce.effects)",
    );
    await raiseAlert(two.world.pool, 'long_stay', 'effect:1', 'stays too long');
    const { body } = await two.ask('GET', '/ops/undecided', 'vera');
    assert.deepEqual([body.count, body.with_case, body.cases.count], [2, 2, 2]);
    assert.equal(body.items.length, 1);
    const [item] = body.items;
    assert.deepEqual(
      [item.rail, item.partner_id, item.asset, item.count, item.amount],
      ['bank:generic', two.world.partnerId, 'KRW', 2, String(2n * AMOUNT)],
    );
    assert.match(item.oldest_seconds, /^\d+$/);
    assert.equal(item.oldest_seconds, body.oldest_seconds);
    assert.ok(item.in_doubt.count >= 1 && item.in_doubt.oldest_seconds !== null);
    assert.equal(body.attention.long_stays, 1);
    const alerts = (await two.ask('GET', '/ops/alerts', 'vera')).body.items;
    assert.ok(
      alerts.some((alert: { kind: string; times: string }) => alert.kind === 'long_stay' && alert.times === '1'),
    );
  } finally {
    await two.end();
  }
});

test('a rail is stopped by an operator and let go on by an admin; what is sealed is followed meanwhile', async () => {
  const path = '/ops/rails/bank:generic';
  const stopped = await one.ask('POST', `${path}/stop`, 'otto', { reason: 'the provider is odd' });
  assert.deepEqual(stopped.body, { name: 'bank:generic', outcome: 'stopped', reason: 'the provider is odd' });
  const again = await one.ask('POST', `${path}/stop`, 'bob', { reason: 'again' });
  assert.deepEqual([again.body.outcome, again.body.reason], ['was_stopped', 'the provider is odd']);
  const [rail] = (await one.ask('GET', '/ops/rails', 'vera')).body.items;
  assert.deepEqual([rail.name, rail.sealed, rail.seals_stopped_reason], ['bank:generic', 1, 'the provider is odd']);
  assert.equal((await one.ask('POST', `${path}/resume`, 'bob')).status, 403);
  const view = (await one.ask('GET', '/ops/undecided', 'vera')).body;
  assert.deepEqual(view.attention.rails_stopped, [{ name: 'bank:generic', reason: 'the provider is odd' }]);
  await advanceOnce(one.world.engine, one.rail);
  const resumed = await one.ask('POST', `${path}/resume`, 'ada');
  assert.equal(resumed.body.outcome, 'resumed');
  assert.equal((await one.ask('POST', `${path}/resume`, 'ada')).body.outcome, 'was_running');
  const acts = (await one.ask('GET', '/ops/audit?object=bank:generic', 'vera')).body.items;
  assert.deepEqual(
    acts.map((act: { action: string; actor_name: string }) => `${act.actor_name} ${act.action}`),
    ['ada rail.resumed', 'otto rail.stopped'],
  );
});

test('a loop gone wild is stopped per operator, and another one still works', async () => {
  const two = await makeOpsScene({ label: 'ops rate', deps: { requestsPerMinuteMax: 3 } });
  try {
    const answers = [];
    for (let n = 0; n < 4; n += 1) answers.push(await two.ask('GET', '/ops/me', 'otto'));
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [200, 200, 200, 429],
    );
    assert.equal(answers[3]?.body.code, 'PO_RATE_LIMITED');
    assert.equal((await two.ask('GET', '/ops/me', 'bob')).status, 200);
  } finally {
    await two.end();
  }
});
