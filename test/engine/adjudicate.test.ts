/**
 * People decide by safe verbs: two of them, on the evidence that the first one saw, and every act is on a chain of hashes.
 * Method: the engine's verbs on a real database, on a rail that answers nothing readable.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { approve, note, propose, wish } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { verifyAudit } from '../../src/engine/audit-log.ts';
import { makeEngine } from '../../src/engine/engine.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createOperator, type Operator, type Role } from '../../src/engine/operators.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

async function scene(): Promise<{ one: World; id: string; caseId: string; people: Record<string, Operator> }> {
  const one = await makeWorld({
    label: 'adjudicate',
    rails: () => [
      makeNoopRail(
        'noop',
        { send: () => Promise.resolve({ kind: 'unreadable' }), look: () => Promise.resolve([{ kind: 'not_found' }]) },
        { decideWithinMs: 0, latenessMs: null },
      ),
    ],
  });
  const [created] = await createWithdrawals(one, [one.request()]);
  const rail = one.engine.rails.get('noop');
  assert.ok(rail !== undefined && created?.outcome === 'created');
  for (let pass = 0; pass < 2; pass += 1) {
    await one.pool.query('update payonce.effects set next_at = payonce.now(), lease_until = null');
    await advanceOnce(one.engine, rail);
  }
  const { rows } = await one.pool.query<{ id: string }>("select id from payonce.cases where kind = 'undecided'");
  const people: Record<string, Operator> = {};
  for (const [name, role] of Object.entries({ ann: 'approver', bob: 'approver', vera: 'viewer' })) {
    people[name] = (
      await one.pool.tx('operator', (tx) =>
        createOperator(tx, one.makeId, one.ports.chance, name, role as Role, 'test'),
      )
    ).operator;
  }
  return { one, id: created.id, caseId: rows[0]?.id ?? '', people };
}
function person(people: Record<string, Operator>, name: string): Operator {
  const found = people[name];
  assert.ok(found);
  return found;
}

test('two persons settle what they saw; one alone cannot, nor a viewer; the case closes and the ledger moves once', async () => {
  const { one, id, caseId, people } = await scene();
  const [ann, bob, vera] = [person(people, 'ann'), person(people, 'bob'), person(people, 'vera')];
  await assert.rejects(propose(one.engine, vera, caseId, 'settled', { reason: 'saw it' }), {
    code: 'PO_OPERATOR_FORBIDDEN',
  });
  const { proposalId } = await propose(one.engine, ann, caseId, 'settled', { reason: 'the receiver has the money' });
  await assert.rejects(approve(one.engine, ann, proposalId), { code: 'PO_OPERATOR_FORBIDDEN' });
  assert.equal((await readWithdrawal(one.pool, one.partnerId, id))?.status, 'in_review');
  assert.deepEqual(await approve(one.engine, bob, proposalId), { outcome: 'done', did: 'settled it' });
  assert.deepEqual(
    await approve(one.engine, bob, proposalId),
    { outcome: 'done', did: 'settled it' },
    'sent again it gets the first answer, and nothing is done twice',
  );
  assert.equal((await readWithdrawal(one.pool, one.partnerId, id))?.status, 'confirmed');
  assert.deepEqual(await balanceOf(one), { balance: 999_000_000n, held: 0n });
  assert.equal((await one.pool.query('select 1 from payonce.cases where closed_at is null')).rowCount, 0);
  await assertBooksClean(one.pool);
  await one.end();
});

test('an approval on evidence that has changed since is void, and absence is refused while the rail can decide', async () => {
  const { one, caseId, people } = await scene();
  const [ann, bob] = [person(people, 'ann'), person(people, 'bob')];
  await assert.rejects(propose(one.engine, ann, caseId, 'absent', { reason: 'nothing there' }), {
    code: 'PO_EVIDENCE_REFUSED',
  });
  const { proposalId } = await propose(one.engine, ann, caseId, 'settled', { reason: 'saw it' });
  await one.pool.query("update payonce.effects set wanted = 'ask', next_at = payonce.now(), lease_until = null");
  const rail = one.engine.rails.get('noop');
  assert.ok(rail);
  await advanceOnce(one.engine, rail);
  const answer = await approve(one.engine, bob, proposalId);
  assert.equal(answer.outcome, 'void');
  assert.match(answer.outcome === 'void' ? answer.why : '', /evidence has changed/);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a wish is carried out with the same identity; a bump needs a chain; a note changes nothing (case A1)', async () => {
  const { one, caseId, people } = await scene();
  const ann = person(people, 'ann');
  const { rows } = await one.pool.query<{ id: bigint; identity: string; send_count: number }>(
    'select id, identity, send_count from payonce.effects',
  );
  const before = rows[0];
  assert.ok(before);
  await assert.rejects(wish(one.engine, ann, before.id, 'bump'), { code: 'PO_EVIDENCE_REFUSED' });
  await note(one.engine, ann, caseId, 'asked the bank');
  assert.equal(await wish(one.engine, ann, before.id, 'ask'), 'wished');
  await one.pool.query('update payonce.effects set next_at = payonce.now(), lease_until = null');
  const rail = one.engine.rails.get('noop');
  assert.ok(rail);
  await advanceOnce(one.engine, rail);
  const after = await one.pool.query<{ identity: string; send_count: number; wanted: string | null }>(
    'select identity, send_count, wanted from payonce.effects',
  );
  assert.deepEqual(after.rows, [{ identity: before.identity, send_count: before.send_count + 1, wanted: null }]);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a verb of a flow runs in the approving transaction, and closing takes two persons too', async () => {
  const { one, caseId, people } = await scene();
  const seen: string[] = [];
  const engine = await makeEngine({
    ...one.engine,
    flows: [...one.engine.flows.values()],
    rails: [...one.engine.rails.values()],
    verbs: {
      resume_scan: {
        objection: (_about, detail) => Promise.resolve(detail['chain'] === 'eip155:1' ? null : 'another chain'),
        carryOut(tx, proposal) {
          seen.push(`${tx.name} ${proposal.detail['chain'] ?? ''}`);
          return Promise.resolve(
            proposal.detail['from_block'] === '7' ? { did: 'resumed', closesCase: true } : { refused: 'not halted' },
          );
        },
      },
    },
  });
  const [ann, bob] = [person(people, 'ann'), person(people, 'bob')];
  await assert.rejects(propose(engine, ann, caseId, 'reverse_deposit', { reason: 'gone', deposit_id: 'dep_1' }), {
    code: 'PO_EVIDENCE_REFUSED',
  });
  const { proposalId } = await propose(engine, ann, caseId, 'resume_scan', {
    reason: 'nodes agree',
    chain: 'eip155:1',
    from_block: '7',
  });
  await assert.rejects(
    propose(engine, ann, caseId, 'resume_scan', { reason: 'x', chain: 'eip155:2', from_block: '7' }),
    {
      code: 'PO_EVIDENCE_REFUSED',
    },
  );
  const idle = await propose(engine, ann, caseId, 'resume_scan', {
    reason: 'typing error',
    chain: 'eip155:1',
    from_block: '9',
  });
  assert.deepEqual(await approve(engine, bob, idle.proposalId), { outcome: 'void', why: 'not halted' });
  const open = await one.pool.query('select 1 from payonce.cases where id = $1 and closed_at is null', [caseId]);
  assert.equal(open.rowCount, 1, 'an act that changed nothing leaves the case open');
  const again = await propose(engine, ann, caseId, 'resume_scan', {
    reason: 'nodes agree',
    chain: 'eip155:1',
    from_block: '7',
  });
  assert.notEqual(again.proposalId, proposalId);
  assert.deepEqual(await approve(engine, bob, again.proposalId), { outcome: 'done', did: 'resumed' });
  assert.deepEqual(seen, ['approve eip155:1', 'approve eip155:1']);
  await assertBooksClean(one.pool);
  await one.end();
});

test('the audit log holds every act, an erased detail leaves it whole, and a changed row breaks it by name', async () => {
  const { one, caseId, people } = await scene();
  const [ann, bob] = [person(people, 'ann'), person(people, 'bob')];
  await note(one.engine, ann, caseId, 'a name: Jane');
  const { proposalId } = await propose(one.engine, ann, caseId, 'settled', { reason: 'saw it' });
  await approve(one.engine, bob, proposalId);
  const acts = await one.pool.query<{ action: string }>('select action from payonce.audit_log order by seq');
  assert.deepEqual(
    acts.rows.map((row) => row.action),
    [
      'operator.created',
      'operator.created',
      'operator.created',
      'case.noted',
      'case.proposed.settled',
      'case.approved.settled',
    ],
  );
  await one.pool.query("update payonce.audit_log set detail = null where action = 'case.noted'");
  assert.deepEqual(await verifyAudit(one.pool), []);
  await one.pool.query('alter table payonce.audit_log disable trigger all');
  await one.pool.query("update payonce.audit_log set actor = 'somebody else' where seq = 5");
  const faults = await verifyAudit(one.pool);
  assert.deepEqual(
    faults.map((fault) => fault.seq),
    [5n],
  );
  await one.end();
});
