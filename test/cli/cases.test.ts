/*
 * Goal: a case is read and decided at the command line: the whole story, wishes, two persons, void on changed evidence;
 * wallets, rails and the database's identity are stopped and let go on. Method: the real program against a world whose rail
 * answers as each test likes; strangers' answers carry terminal codes.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { quarantineSigners } from '../../src/engine/quarantine.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld, type World } from '../support/world.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

interface Scene {
  readonly world: World;
  readonly run: ReturnType<typeof payonceOn>;
  readonly admin: string;
  readonly withdrawalId: string;
  readonly caseId: string;
}

/** One withdrawal that was sent and not decided, with its case. */
async function undecided(label: string): Promise<Scene> {
  const world = await makeWorld({
    label,
    rails: () => [
      makeNoopRail('noop', {
        send: () => Promise.resolve({ kind: 'in_progress' }),
        look: () => Promise.resolve([{ kind: 'not_found' }]),
      }),
    ],
  });
  const rail = world.engine.rails.get('noop');
  assert.ok(rail);
  const [created] = await createWithdrawals(world, [world.request()]);
  assert.equal(created?.outcome, 'created');
  const withdrawalId = created.outcome === 'created' ? created.id : '';
  await advanceOnce(world.engine, rail);
  const [effect] = (await world.pool.query<{ id: bigint; amount: bigint }>('select id, amount from payonce.effects'))
    .rows;
  assert.ok(effect);
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: world.partnerId,
    assetId: world.assetId,
    amount: effect.amount,
    summary: 'no answer for an hour',
  });
  const run = payonceOn(world.url);
  return { world, run, admin: await firstAdmin(run), withdrawalId, caseId };
}

test('a case shows its whole story, and what a stranger answered cannot move the cursor', async () => {
  const { world, run, withdrawalId, caseId, admin } = await undecided('cli story');
  await world.pool.query("update payonce.effect_answers set body = e'\\x1b[2J\\x1b[31mhello\\r\\nyou'");
  const list = await run(['case', 'list']);
  assert.match(list.stdout, new RegExp(`${caseId} +today +\\d+ s +undecided +1 USDT +1 +- +no answer for an hour`));
  assert.equal((await run(['case', 'note', caseId, 'asked', 'the', 'provider'], admin)).code, 0);
  const shown = await run(['case', 'show', caseId]);
  for (const part of [
    /Case case_\w+: undecided/,
    /state +SEALED: it may have left/,
    new RegExp(`for +withdrawal ${withdrawalId}, try 1, partner par_test`),
    /identity +\S/,
    /bytes +\S/,
    /send 1 /,
    /got {2}hello. you/,
    /read as in_progress/,
    /Answers that prove nothing\nEVIDENCE.*\n.*IN_PROGRESS/,
    /Evidence that it moved\nNone/,
    /asked the provider/,
    /withdrawal\.created/,
    /hold +\S+ \(open\)/,
  ])
    assert.match(shown.stdout, part);
  assert.ok(!shown.stdout.includes('\u001b'), 'a terminal code came through');
  const json = (await run(['case', 'show', caseId, '--json'])).json<{
    amount: string;
    effect: { seal: { payload: string }; answers: { body: string }[] };
    notes: { by: string }[];
  }>();
  assert.equal(json.amount, '1');
  assert.ok(Buffer.from(json.effect.seal.payload, 'base64').length > 0);
  assert.match(json.effect.answers[0]?.body ?? '', /hello/);
  assert.equal(json.notes[0]?.by, 'Ada');
  assert.equal((await run(['case', 'show', 'case_nobody'])).code, 3);
  const byEffect = await run(['effect', 'show', '1', '--json']);
  const byWithdrawal = await run(['effect', 'show', withdrawalId, '--json']);
  assert.equal(byEffect.json<{ effects: unknown[] }>().effects.length, 1);
  assert.equal(byWithdrawal.json<{ effects: { id: string }[] }>().effects[0]?.id, '1');
  assert.equal((await run(['effect', 'show', '0xdead'])).code, 3);
  assert.equal((await run(['effect', 'show', '77'])).code, 3);
  await assertBooksClean(world.pool);
  await world.end();
});

test('wishes are left for the worker, need an operator, and have nothing to do on what has ended', async () => {
  const { world, run, admin, withdrawalId } = await undecided('cli wishes');
  assert.equal((await run(['effect', 'look', '1'])).code, 2);
  const viewer = await addOperator(run, admin, 'Vera', 'viewer');
  assert.equal((await run(['effect', 'look', '1', '--json'], viewer)).problem().code, 'PO_OPERATOR_FORBIDDEN');
  const asked = await run(['effect', 'ask', withdrawalId], admin);
  assert.equal(asked.code, 0);
  assert.match(asked.stdout, /next worker does it.*same bytes/);
  const wanted = await world.pool.query<{ wanted: string }>('select wanted from payonce.effects');
  assert.equal(wanted.rows[0]?.wanted, 'ask');
  const bump = await run(['effect', 'bump', '1', '--json'], admin);
  assert.equal(bump.code, 4);
  assert.match(bump.problem().detail, /nothing to bump/);
  assert.equal((await run(['effect', 'cancel', '99'], admin)).code, 3);
  await assertBooksClean(world.pool);
  await world.end();
});

test('two persons settle a case; nobody approves an own proposal, and changed evidence makes it void', async () => {
  const { world, run, admin, withdrawalId, caseId } = await undecided('cli two');
  const [otto, pia] = [
    await addOperator(run, admin, 'Otto', 'operator'),
    await addOperator(run, admin, 'Pia', 'approver'),
  ];
  const proposed = async (): Promise<string> => {
    const made = await run(['case', 'propose', caseId, 'settled', '--reason', 'seen in the bank', '--json'], otto);
    assert.equal(made.code, 0, made.stderr);
    return made.json<{ proposal_id: string }>().proposal_id;
  };
  const first = await proposed();
  assert.equal((await run(['case', 'approve', first], otto)).code, 1);
  const own = await run(['case', 'propose', caseId, 'settled', '--reason', 'me too', '--json'], pia);
  const ownId = own.json<{ proposal_id: string }>().proposal_id;
  assert.equal((await run(['case', 'approve', ownId, '--json'], pia)).problem().code, 'PO_OPERATOR_FORBIDDEN');
  assert.equal((await run(['case', 'approve', first], pia)).code, 4, 'a newer proposal voids the older one');
  const stale = await proposed();
  await world.pool.query('update payonce.effects set evidence_version = evidence_version + 1');
  assert.match((await run(['case', 'show', caseId])).stdout, new RegExp(`${stale} +settled +stale`));
  const voided = await run(['case', 'approve', stale], pia);
  assert.equal(voided.code, 4);
  assert.match(voided.stdout, /Void, nothing was done: the evidence has changed/);
  await Promise.all(
    Object.entries({ retry: 2, unwind: 4, strike: 2 }).map(async ([verb, code]) => {
      assert.equal((await run(['case', 'propose', caseId, verb, '--reason', 'x'], otto)).code, code, verb);
    }),
  );
  const last = await proposed();
  const done = await run(['case', 'approve', last, '--json'], pia);
  assert.deepEqual(done.json(), { proposal_id: last, outcome: 'done', did: 'settled it' });
  assert.equal((await run(['case', 'approve', 'prop_nobody'], pia)).code, 3);
  assert.match((await run(['case', 'list'])).stdout, /No open case/);
  assert.match((await run(['case', 'list', '--all'])).stdout, new RegExp(`${caseId} +closed`));
  const shown = await run(['effect', 'show', withdrawalId]);
  assert.match(shown.stdout, /state +SETTLED: it happened/);
  assert.match(shown.stdout, /OPERATOR_SAW +object .*decided it: seen in the bank/);
  assert.match(shown.stdout, /WDR_CONFIRM:\S+ +.*partner:par_test -1 USDT/);
  assert.equal((await run(['effect', 'ask', withdrawalId], admin)).code, 4);
  await assertBooksClean(world.pool);
  await world.end();
});

test('a rail is stopped by an operator and let go on by an admin, and both stand in the audit log', async () => {
  const { world, run, admin } = await undecided('cli rails');
  const otto = await addOperator(run, admin, 'Otto', 'operator');
  assert.equal((await run(['rail', 'stop', 'nowhere', '--reason', 'x'], otto)).code, 3);
  assert.equal((await run(['rail', 'stop', 'noop'], otto)).code, 2);
  assert.equal((await run(['rail', 'stop', 'noop', '--reason', 'the provider is odd'], otto)).code, 0);
  assert.match((await run(['rail', 'stop', 'noop', '--reason', 'again'], otto)).stdout, /already: the provider is odd/);
  assert.match((await run(['alerts'])).stdout, /seals_stopped +noop .*the provider is odd/);
  assert.match((await run(['rail', 'list'])).stdout, /noop +0 +1 +stopped since .*: the provider is odd/);
  assert.equal((await run(['rail', 'resume', 'noop'], otto)).code, 1);
  assert.match((await run(['rail', 'resume', 'noop'], admin)).stdout, /noop seals again/);
  assert.match((await run(['rail', 'list'])).stdout, /noop +0 +1 +seals/);
  assert.doesNotMatch((await run(['alerts'])).stdout, /seals_stopped/);
  assert.equal((await run(['audit', 'list', '--object', 'noop', '--json'])).json<{ acts: unknown[] }>().acts.length, 2);
  await world.end();
});

test('after a fail-over only the sign-off lets seals go on, and a sign-off is one admin with a reason', async () => {
  const { world, run, admin } = await undecided('cli marks');
  await world.pool.query("insert into payonce.database_marks (system_identifier, timeline) values ('1', 1)");
  await world.pool.query(
    "update payonce.rails set seals_stopped_at = payonce.now(), seals_stopped_reason = 'the database changed: system 1 timeline 1 became another'",
  );
  const resume = await run(['rail', 'resume', 'noop', '--json'], admin);
  assert.equal(resume.code, 4);
  assert.match(resume.problem().detail, /payonce database sign-off/);
  assert.equal((await run(['database', 'sign-off'], admin)).code, 2);
  assert.equal((await run(['database', 'sign-off', '--reason', 'compared'])).code, 2);
  const signed = await run(['database', 'sign-off', '--reason', 'compared with the rail', '--json'], admin);
  assert.equal(signed.json<{ outcome: string }>().outcome, 'signed_off');
  assert.deepEqual(signed.json<{ resumed: string[] }>().resumed, ['noop']);
  assert.match((await run(['database', 'sign-off', '--reason', 'again'], admin)).stdout, /nothing to do/);
  await world.end();
});

test('wallets are listed with what waits on them; one is released only with its chain at hand', async () => {
  const { world, run, admin } = await undecided('cli wallets');
  await world.pool.tx('quarantine', (tx) =>
    quarantineSigners(tx, world.engine, [{ rail: 'noop', signer: world.wallet, reason: 'a foreign transaction' }]),
  );
  const list = await run(['wallet', 'list']);
  assert.match(list.stdout, /noop +MASTER +wallet-1 +- +noop +0 +1 +0 +\d[\d.]* USDT +since .*: a foreign transaction/);
  const release = await run(['wallet', 'release', 'noop', world.wallet, '--reason', 'ours', '--json'], admin);
  assert.equal(release.code, 2);
  assert.match(release.problem().detail, /its chain cannot be asked/);
  assert.equal((await run(['wallet', 'release', 'noop', 'nobody', '--reason', 'ours'], admin)).code, 3);
  assert.match((await run(['alerts'])).stdout, /signer_quarantined +noop:wallet-1 .*a foreign transaction/);
  await world.end();
});
