/*
 * Goal: two persons may say that nothing moved, and their word frees money only after the rail was asked under the same
 * lease, lateness, and a fresh look (T8, T11, T13, T17). Method: the engine's verbs on a real database, on a rail that
 * answers as each test says and counts what it was asked; lateness is a part of a second.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import type { Capabilities, Observation } from '../../src/engine/rail.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, type World } from '../support/world.ts';
import { effectOf, intendOne, leaseOne, makeDue, makeNoopWorld, railOf } from './noop-scene.ts';

const LATENESS_MS = 300;
const FUNDS = 1_000_000_000n;
type Seen = Partial<Observation>;

interface Scene {
  readonly one: World;
  readonly id: bigint;
  readonly caseId: string;
  readonly ann: Operator;
  readonly bob: Operator;
  readonly sends: bigint[];
  /** What the rail answers from now on. */
  answer: { send: Seen; look: readonly Seen[] };
  say(): Promise<string>;
}

/** One effect of which nothing is known, with its case. */
async function scene(capabilities: Partial<Capabilities> = {}): Promise<Scene> {
  const sends: bigint[] = [];
  const answer: Scene['answer'] = { send: { kind: 'unreadable' }, look: [{ kind: 'not_found' }] };
  const one = await makeNoopWorld(
    {
      send: (sealed) => {
        sends.push(sealed.effectId);
        return Promise.resolve(held.answer.send);
      },
      look: () => Promise.resolve(held.answer.look),
    },
    { capabilities: { latenessMs: LATENESS_MS, decideWithinMs: 0, resendAfterMs: 3_600_000, ...capabilities } },
  );
  const held = { answer };
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  await sleep(5);
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  const { rows } = await one.pool.query<{ id: string }>("select id from payonce.cases where kind = 'undecided'");
  const caseId = rows[0]?.id ?? assert.fail('no case');
  const [ann, bob] = [await operator(one, 'ann'), await operator(one, 'bob')];
  return Object.assign(held, {
    one,
    id,
    caseId,
    ann,
    bob,
    sends,
    async say() {
      return (await propose(one.engine, ann, caseId, 'absent', { reason: 'not on the statement' })).proposalId;
    },
  });
}

async function operator(one: World, name: string): Promise<Operator> {
  return (
    await one.pool.tx('operator', (tx) => createOperator(tx, one.makeId, one.ports.chance, name, 'approver', 'test'))
  ).operator;
}

async function pass({ one }: Scene): Promise<void> {
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
}

async function kinds({ one, id }: Scene): Promise<string[]> {
  const { rows } = await one.pool.query<{ kind: string }>(
    'select kind from payonce.effect_evidence where effect_id = $1 order by id',
    [id],
  );
  return rows.map((row) => row.kind);
}

async function openCases({ one }: Scene): Promise<string[]> {
  const { rows } = await one.pool.query<{ kind: string }>(
    'select kind from payonce.cases where closed_at is null order by kind',
  );
  return rows.map((row) => row.kind);
}

async function done(its: Scene): Promise<void> {
  await assertBooksClean(its.one.pool);
  await its.one.end();
}

test('two persons say absent: asked once with the same identity, then lateness and a fresh look free the money (req T17, inv E11)', async () => {
  const its = await scene();
  const { one, id } = its;
  const proposalId = await its.say();
  assert.equal(its.sends.length, 1);
  const approved = await approve(one.engine, its.bob, proposalId);
  assert.equal(approved.outcome, 'done');
  assert.equal(its.sends.length, 2, 'asked once under the lease');
  const waiting = await effectOf(one, id);
  assert.equal(waiting.state, 'SEALED');
  assert.notEqual(waiting.believedEvidence, null);
  assert.equal((await balanceOf(one)).held > 0n, true, 'the money is held while it waits');
  await pass(its);
  assert.equal((await effectOf(one, id)).state, 'SEALED', 'lateness has not ended');
  await sleep(LATENESS_MS + 50);
  // send_by lies a lease ahead, and lateness runs from there.
  await one.pool.query(
    "update payonce.effects set lateness_until = payonce.now() - interval '1 second' where id = $1",
    [id],
  );
  await pass(its);
  assert.equal((await effectOf(one, id)).state, 'RELEASED');
  assert.equal(its.sends.length, 2, 'a believed no stops all sends');
  assert.deepEqual(await balanceOf(one), { balance: FUNDS, held: 0n });
  assert.deepEqual(await openCases(its), ['after_release'], 'a withdrawal leaves the choice to people');
  await done(its);
});

test('a yes or "in progress" to the ask is told as inconclusive, and no absence is recorded (req T10, T11)', async () => {
  for (const kind of ['accepted', 'key_taken', 'in_progress'] as const) {
    const its = await scene();
    const proposalId = await its.say();
    its.answer = { send: { kind, objectId: kind === 'in_progress' ? null : 'obj_1' }, look: [{ kind: 'not_found' }] };
    const outcome = await approve(its.one.engine, its.bob, proposalId);
    assert.equal(outcome.outcome, 'void');
    assert.match(outcome.outcome === 'void' ? outcome.why : '', /^inconclusive/);
    const effect = await effectOf(its.one, its.id);
    assert.deepEqual([effect.state, effect.believedEvidence], ['SEALED', null]);
    assert.equal((await kinds(its)).includes('OPERATOR_ABSENT'), false);
    if (kind !== 'in_progress') {
      assert.equal(effect.testimonies, 1, 'the testimony is stored');
      await assert.rejects(its.say(), { code: 'PO_EVIDENCE_REFUSED' });
    }
    await done(its);
  }
});

test('who closes while another advances is told busy at once, and the proposal stays open (req T8)', async () => {
  const its = await scene();
  const proposalId = await its.say();
  await leaseOne(its.one, its.id);
  const started = performance.now();
  await assert.rejects(approve(its.one.engine, its.bob, proposalId), { code: 'PO_BUSY' });
  assert.ok(performance.now() - started < 2_000);
  assert.equal(its.sends.length, 1);
  await its.one.pool.query('update payonce.effects set lease_until = null');
  assert.equal((await approve(its.one.engine, its.bob, proposalId)).outcome, 'done');
  await done(its);
});

test('past the key window an absence is only looked for, never sent (req T2, T17, inv E14)', async () => {
  const its = await scene({ keyRetentionMs: LATENESS_MS + 1 });
  const proposalId = await its.say();
  await sleep(50);
  assert.equal((await approve(its.one.engine, its.bob, proposalId)).outcome, 'done');
  assert.equal(its.sends.length, 1);
  await done(its);
});

test('testimony after two persons said absent re-opens, and while it waits bars the release (req T6, inv E13)', async () => {
  const its = await scene();
  await approve(its.one.engine, its.bob, await its.say());
  its.answer = { send: { kind: 'unreadable' }, look: [{ kind: 'accepted', objectId: 'obj_1' }] };
  await pass(its);
  await its.one.pool.query(
    "update payonce.effects set lateness_until = payonce.now() - interval '1 second' where id = $1",
    [its.id],
  );
  its.answer = { send: { kind: 'unreadable' }, look: [{ kind: 'not_found' }] };
  await pass(its);
  const effect = await effectOf(its.one, its.id);
  assert.deepEqual([effect.state, effect.testimonies], ['SEALED', 1]);
  await done(its);
});

test('without a look-up two persons look again after lateness, and only that frees the money (req T13, T15)', async () => {
  const its = await scene({ lookUp: false });
  its.answer = { send: { kind: 'unreadable' }, look: [] };
  assert.equal((await approve(its.one.engine, its.bob, await its.say())).outcome, 'done');
  await assert.rejects(its.say(), /waits until/);
  await its.one.pool.query(
    "update payonce.effects set lateness_until = payonce.now() - interval '1 second' where id = $1",
    [its.id],
  );
  await pass(its);
  assert.equal((await effectOf(its.one, its.id)).state, 'SEALED', 'the machine has nothing to look at');
  assert.deepEqual(await openCases(its), ['undecided']);
  assert.equal((await approve(its.one.engine, its.bob, await its.say())).outcome, 'done');
  assert.equal((await effectOf(its.one, its.id)).state, 'RELEASED');
  await done(its);
});

test('after a release people choose: the partner is told failed, or a next try begins, once (req T7)', async () => {
  for (const verb of ['fail', 'next_try'] as const) {
    const its = await scene();
    const { one } = its;
    await approve(one.engine, its.bob, await its.say());
    await one.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
    await pass(its);
    const { rows } = await one.pool.query<{ id: string }>("select id from payonce.cases where kind = 'after_release'");
    const caseId = rows[0]?.id ?? assert.fail('no case');
    await assert.rejects(propose(one.engine, its.ann, caseId, 'close', { reason: 'enough' }), {
      code: 'PO_EVIDENCE_REFUSED',
    });
    const { proposalId } = await propose(one.engine, its.ann, caseId, verb, { reason: 'spoke with the partner' });
    assert.equal((await approve(one.engine, its.bob, proposalId)).outcome, 'done');
    assert.equal((await approve(one.engine, its.bob, proposalId)).outcome, 'done', 'the first answer again');
    assert.deepEqual(await openCases(its), []);
    const effects = await one.pool.query<{ seq: number; state: string }>(
      'select seq, state from payonce.effects order by seq',
    );
    const closed = (await one.pool.query<{ closed_as: string | null }>('select closed_as from payonce.subjects'))
      .rows[0];
    if (verb === 'fail') {
      assert.deepEqual(effects.rows, [{ seq: 1, state: 'RELEASED' }]);
      assert.equal(closed?.closed_as, 'failed');
      assert.deepEqual(await balanceOf(one), { balance: FUNDS, held: 0n });
    } else {
      assert.deepEqual(effects.rows, [
        { seq: 1, state: 'RELEASED' },
        { seq: 2, state: 'PENDING' },
      ]);
      assert.equal(closed?.closed_as, null);
      assert.ok((await balanceOf(one)).held > 0n, 'the next try has a hold of its own');
    }
    await done(its);
  }
});
