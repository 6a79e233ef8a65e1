/*
 * Goal: a person decides a case over HTTP with all that is known, and never alone; who may not, cannot; a changed audit row
 * is found. Method: a real database and a simulated bank that loses requests and shows nothing; every answer is held to the
 * operators' document and searched for secrets.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { openCase } from '../../src/engine/cases.ts';
import { readTransferById } from '../../src/flows/transfers/store.ts';
import { balanceOf } from '../support/world.ts';
import { AMOUNT, makeOpsScene, type OpsOptions, type OpsScene } from './ops-scene.ts';

let open: OpsScene | null = null;
async function scene(options: OpsOptions = {}): Promise<OpsScene> {
  open = await makeOpsScene(options);
  return open;
}
afterEach(async () => {
  const ending = open;
  open = null;
  await ending?.end();
});

/** A transfer that is not decided, with its case. */
async function undecided(options: OpsOptions = {}) {
  const one = await scene(options);
  const transferId = await one.pay();
  await one.pass();
  return { one, transferId, caseId: await one.caseId(), effectId: (await one.effect()).id };
}

const propose = (one: OpsScene, caseId: string, by: 'otto' | 'bob', body: object) =>
  one.ask('POST', `/ops/cases/${caseId}/proposals`, by, body);

test('two persons settle a lost answer over HTTP; nobody does it alone, and a viewer does nothing (req T13)', async () => {
  const { one, transferId, caseId } = await undecided();
  const saw = { verb: 'settled', reason: 'the receiver has the money' };
  const refused = await one.ask('POST', `/ops/cases/${caseId}/proposals`, 'vera', saw);
  assert.deepEqual([refused.status, refused.body.code], [403, 'PO_OPERATOR_FORBIDDEN']);
  const made = await propose(one, caseId, 'bob', saw);
  assert.equal(made.status, 201);
  assert.equal(made.body.evidence_version, (await one.effect()).evidence_version);
  const path = `/ops/proposals/${String(made.body.proposal_id)}/approve`;
  for (const by of ['bob', 'otto', 'vera'] as const) {
    const answer = await one.ask('POST', path, by);
    assert.deepEqual([answer.status, answer.body.code], [403, 'PO_OPERATOR_FORBIDDEN'], by);
  }
  assert.equal((await readTransferById(one.world.pool, one.world.partnerId, transferId))?.status, 'in_review');
  const done = await one.ask('POST', path, 'cyd');
  assert.deepEqual([done.status, done.body.outcome, done.body.did], [200, 'done', 'settled it']);
  const again = await one.ask('POST', path, 'cyd');
  assert.deepEqual([again.status, again.body.outcome], [200, 'done'], 'sent again it gets the first answer');
  assert.equal((await readTransferById(one.world.pool, one.world.partnerId, transferId))?.status, 'confirmed');
  assert.deepEqual(await balanceOf(one.world), { balance: 1_000_000n - AMOUNT, held: 0n });
  const story = (await one.ask('GET', `/ops/cases/${caseId}`, 'vera')).body;
  assert.equal(story.proposals[0].proposed_by, 'bob');
  assert.equal(story.proposals[0].approved_by, 'cyd');
  assert.match(story.effect.postings[0].key, /^TRF_CONFIRM:/);
  assert.ok(
    story.verbs.every((verb: { possible: boolean; why_not: string }) => !verb.possible && verb.why_not !== null),
  );
  const audit = (await one.ask('GET', `/ops/audit?object=${caseId}`, 'vera')).body;
  assert.deepEqual(
    audit.items.map((act: { action: string; actor_name: string }) => `${act.actor_name} ${act.action}`),
    ['cyd case.approved.settled', 'bob case.proposed.settled'],
  );
});

test('an approval on evidence that has changed since is void, and says so (req T8)', async () => {
  const { one, caseId, effectId } = await undecided();
  const made = await propose(one, caseId, 'otto', { verb: 'settled', reason: 'saw it' });
  const asked = await one.ask('POST', `/ops/effects/${effectId}/ask`, 'otto');
  assert.equal(asked.body.sent, 1);
  assert.ok(asked.body.evidence_version > made.body.evidence_version);
  const listed = (await one.ask('GET', `/ops/cases/${caseId}`, 'vera')).body.proposals[0];
  assert.deepEqual([listed.state, listed.is_stale], ['open', true]);
  const answer = await one.ask('POST', `/ops/proposals/${String(made.body.proposal_id)}/approve`, 'bob');
  assert.deepEqual([answer.status, answer.body.code], [409, 'PO_STALE']);
  assert.match(answer.body.detail, /^Void, nothing was done: the evidence has changed since/);
  assert.equal((await one.effect()).state, 'SEALED');
  assert.deepEqual((await balanceOf(one.world)).held, AMOUNT);
});

test('a case tells every answer as it came and how it was read, for and against, and what can be done now and why not the rest', async () => {
  const { one, caseId } = await undecided({
    faults: [
      { on: 'create', calls: [1], fault: { kind: 'garble', how: 'html', status: 502, effect: false } },
      { on: 'create', fault: { kind: 'lose_request', how: 'reset' } },
      { on: 'look', fault: { kind: 'blind' } },
    ],
  });
  const markup = '<script>alert("\u2028&")</script>';
  await one.world.pool.query(
    "update payonce.effect_answers set body = $1 || repeat('x', 20000) where operation = 'send' and send_number = 1",
    [markup],
  );
  await one.ask('POST', `/ops/cases/${caseId}/notes`, 'otto', { note: '<b>asked</b> the bank\nby telephone' });
  const answer = await one.ask('GET', `/ops/cases/${caseId}`, 'vera');
  assert.equal(answer.status, 200);
  assert.match(String(answer.headers['content-type']), /^application\/json/);
  assert.equal(answer.headers['x-content-type-options'], 'nosniff');
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.doesNotMatch(answer.text, /[<>&\u2028]/, 'markup would come through');
  const story = answer.body;
  assert.deepEqual(
    [story.kind, story.amount, story.asset, story.effect.state, story.effect.attempt],
    ['undecided', '12500', 'KRW', 'SEALED', 1],
  );
  assert.match(story.age_seconds, /^\d+$/);
  const [first] = story.effect.answers;
  assert.equal(first.operation, 'send');
  assert.ok(first.body.startsWith(markup));
  assert.equal(first.body.length, 16_384);
  assert.equal(first.body_characters, markup.length + 20_000);
  assert.ok(first.read_as !== null && first.why !== null);
  const whole = await one.ask('GET', `/ops/answers/${String(first.id)}`, 'vera');
  assert.equal(whole.body.body.length, first.body_characters);
  assert.deepEqual(new Set(story.effect.evidence.map((piece: { says: string }) => piece.says)), new Set(['nothing']));
  assert.deepEqual(story.notes, [{ by: 'otto', note: '<b>asked</b> the bank\nby telephone', at: story.notes[0].at }]);
  const can = Object.fromEntries(
    story.verbs.map((verb: { verb: string; possible: boolean; why_not: string | null }) => [verb.verb, verb]),
  );
  assert.ok(can.settled.possible && can.close.possible);
  assert.deepEqual([can.unwind.possible, can.unwind.why_not], [false, 'only what is settled can be unwound']);
  assert.deepEqual([can.strike.possible, can.strike.needs], [false, ['evidenceId']]);
  const acts = Object.fromEntries(story.effect.acts.map((act: { act: string }) => [act.act, act]));
  assert.ok(acts.look.possible && acts.ask.possible && !acts.bump.possible && !acts.cancel.possible);
  assert.match(acts.cancel.why_not, /not a sealed transaction of a chain/);
});

test('of very many answers the first and the last are shown, and how many are left out', async () => {
  const { one, effectId } = await undecided();
  await one.world.pool.query(
    `insert into payonce.effect_answers (effect_id, send_number, lease_token, operation, source, operator, reach, body, digest)
     select $1, 1, 1, 'look', 'bank', 'bank', 'answered', n::text, n::text from generate_series(1, 500) n`,
    [effectId],
  );
  const { effects } = (await one.ask('GET', `/ops/effects/${effectId}`, 'vera')).body;
  assert.equal(effects[0].answers.length, 200);
  assert.equal(effects[0].answers.at(-1).body, '500');
  assert.ok(effects[0].answers_left_out >= 300);
});

test('cases are listed by urgency and age, page by page, with how many are open and how old the oldest is', async () => {
  const { one, caseId } = await undecided();
  const { pool, makeId, partnerId, assetId } = one.world;
  for (let n = 1; n <= 5; n += 1)
    await openCase(pool, makeId, {
      kind: 'unknown_movement',
      severity: n === 3 ? 3 : 1,
      subjectKey: `movement:${n}`,
      partnerId,
      assetId,
      amount: BigInt(n),
      summary: `movement ${n}`,
    });
  await pool.query(
    "update payonce.cases set opened_at = opened_at - interval '2 hours' where subject_key = 'movement:2'",
  );
  await pool.query(
    "update payonce.cases set closed_at = payonce.now(), closed_how = 'x' where subject_key = 'movement:5'",
  );
  const all: { subject: string; severity: number; closed_at: string | null }[] = [];
  let next: string | null = null;
  do {
    const query: string = next === null ? '' : `&cursor=${next}`;
    const page = (await one.ask('GET', `/ops/cases?status=all&limit=2${query}`, 'vera')).body;
    assert.equal(page.open.count, 5);
    assert.ok(Number(page.open.oldest_seconds) >= 7_200);
    all.push(...page.items);
    next = page.next;
  } while (next !== null);
  assert.deepEqual(
    all.filter((row) => row.subject.startsWith('movement')).map((row) => row.subject),
    ['movement:3', 'movement:2', 'movement:1', 'movement:4', 'movement:5'],
  );
  assert.equal(all.length, 6);
  assert.equal(new Set(all.map((row) => row.subject)).size, 6);
  const some = (await one.ask('GET', '/ops/cases?kind=undecided', 'vera')).body;
  assert.deepEqual([some.items.length, some.items[0].id, some.open.count], [1, caseId, 1]);
  const urgent = (await one.ask('GET', `/ops/cases?severity=3&partner=${partnerId}`, 'vera')).body;
  assert.ok(urgent.items.every((row: { severity: number }) => row.severity === 3) && urgent.open.count >= 1);
  const foreign = await one.ask('GET', '/ops/cases?cursor=bm9wZQ', 'vera');
  assert.deepEqual([foreign.status, foreign.body.pointer], [400, '/query/cursor']);
});

test('a proposal is withdrawn by its proposer alone, and only while nobody has decided it', async () => {
  const { one, caseId } = await undecided();
  const made = await propose(one, caseId, 'otto', { verb: 'settled', reason: 'the wrong case' });
  const path = `/ops/proposals/${String(made.body.proposal_id)}`;
  assert.equal((await one.ask('POST', `${path}/withdraw`, 'bob')).status, 403);
  assert.deepEqual((await one.ask('POST', `${path}/withdraw`, 'otto')).body, {
    proposal_id: made.body.proposal_id,
    outcome: 'withdrawn',
  });
  const twice = await one.ask('POST', `${path}/withdraw`, 'otto');
  assert.deepEqual([twice.status, twice.body.code, twice.body.detail], [409, 'PO_TOO_LATE', 'The proposal is void']);
  const approved = await one.ask('POST', `${path}/approve`, 'bob');
  assert.deepEqual([approved.status, approved.body.code], [409, 'PO_STALE']);
  assert.equal((await one.effect()).state, 'SEALED');
  const acts = (await one.ask('GET', '/ops/audit', 'vera')).body.items;
  assert.equal(acts[0].action, 'case.withdrawn');
});

test('a proposal that lacks what its verb needs is refused by name, and so is a verb that there is not', async () => {
  const { one, caseId } = await undecided();
  const strike = await propose(one, caseId, 'otto', { verb: 'strike', reason: 'wrong word' });
  assert.deepEqual([strike.status, strike.body.pointer], [400, '/evidence_id']);
  const scan = await propose(one, caseId, 'otto', { verb: 'resume_scan', reason: 'nodes agree', chain: 'eip155:1' });
  assert.deepEqual([scan.status, scan.body.pointer], [400, '/from_block']);
  for (const body of [
    { verb: 'retry', reason: 'x' },
    { verb: 'settled' },
    { verb: 'settled', reason: '' },
    { verb: 'settled', reason: 'x', force: true },
    { verb: 'settled', reason: 'a\u0000b' },
  ])
    assert.equal((await propose(one, caseId, 'otto', body)).status, 400, JSON.stringify(body));
  const unwind = await propose(one, caseId, 'otto', { verb: 'unwind', reason: 'x' });
  assert.deepEqual([unwind.status, unwind.body.code], [409, 'PO_EVIDENCE_REFUSED']);
});

test('what never was is answered 404 on every path that names one', async () => {
  const one = await scene();
  const body = { verb: 'close', reason: 'x' };
  for (const [method, path, sent] of [
    ['GET', '/ops/cases/case_nobody', undefined],
    ['POST', '/ops/cases/case_nobody/proposals', body],
    ['POST', '/ops/cases/case_nobody/notes', { note: 'x' }],
    ['POST', '/ops/proposals/prop_nobody/approve', undefined],
    ['POST', '/ops/proposals/prop_nobody/withdraw', undefined],
    ['GET', '/ops/effects/77', undefined],
    ['GET', '/ops/effects/tr_nobody', undefined],
    ['GET', '/ops/answers/77', undefined],
    ['GET', '/ops/answers/nothing', undefined],
    ['POST', '/ops/effects/77/look', undefined],
    ['POST', '/ops/effects/77/ask', undefined],
    ['POST', '/ops/effects/77/bump', undefined],
    ['POST', '/ops/effects/77/cancel', undefined],
    ['POST', '/ops/rails/nowhere/stop', { reason: 'x' }],
    ['POST', '/ops/rails/nowhere/resume', undefined],
    ['GET', '/ops/nothing', undefined],
  ] as const) {
    const answer = await one.ask(method, path, 'ada', sent);
    assert.deepEqual([answer.status, answer.body.code], [404, 'PO_NOT_FOUND'], `${method} ${path}: ${answer.text}`);
  }
});

test('a row of the audit log that somebody changed in the database is named by verify, over HTTP (case I7)', async () => {
  const { one, caseId } = await undecided();
  await one.ask('POST', `/ops/cases/${caseId}/notes`, 'otto', { note: 'asked the bank' });
  assert.deepEqual((await one.ask('GET', '/ops/audit/verify', 'vera')).body, { ok: true, broken_count: 0, broken: [] });
  const [noted] = (await one.ask('GET', `/ops/audit?object=${caseId}`, 'vera')).body.items;
  assert.equal(noted.action, 'case.noted');
  await one.world.pool.tx('a superuser', async (tx) => {
    await tx.query("set local session_replication_role = 'replica'");
    await tx.query('update payonce.audit_log set actor = $2 where seq = $1', [noted.seq, one.ids.bob]);
  });
  const broken = (await one.ask('GET', '/ops/audit/verify', 'vera')).body;
  assert.equal(broken.ok, false);
  assert.deepEqual(broken.broken, [{ seq: noted.seq, fault: 'it, or the row before it, was changed' }]);
  open = null;
  await one.end({ without: ['AUDIT'] });
});

test('the audit log is read page by page and misses no act', async () => {
  const { one, caseId } = await undecided();
  for (let n = 0; n < 5; n += 1) await one.ask('POST', `/ops/cases/${caseId}/notes`, 'otto', { note: `note ${n}` });
  const seen: string[] = [];
  let next: string | null = null;
  do {
    const query: string = next === null ? '' : `&cursor=${next}`;
    const page = (await one.ask('GET', `/ops/audit?limit=2${query}`, 'vera')).body;
    seen.push(...page.items.map((act: { seq: string }) => act.seq));
    next = page.next;
  } while (next !== null);
  const { rows } = await one.world.pool.query<{ seq: bigint }>('select seq from payonce.audit_log order by seq desc');
  assert.deepEqual(
    seen,
    rows.map((row) => row.seq.toString()),
  );
});
