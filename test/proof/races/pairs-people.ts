/* Critical pairs at the doors: orders taken in under keys, and what two persons decide while something else happens. */
import assert from 'node:assert/strict';
import { approve, propose } from '../../../src/engine/adjudicate.ts';
import { openCase } from '../../../src/engine/cases.ts';
import type { CreateOutcome } from '../../../src/engine/intake.ts';
import type { Operator } from '../../../src/engine/operators.ts';
import { createOperator } from '../../../src/engine/operators.ts';
import { record } from '../../../src/engine/record.ts';
import type { EffectRow } from '../../../src/engine/store.ts';
import { withdraw } from '../../../src/engine/withdraw.ts';
import { createWithdrawals, type WithdrawalRequest } from '../../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../../support/books.ts';
import { balanceOf, type World } from '../../support/world.ts';
import { effectOf, makeNoopWorld, railOf } from '../../engine/noop-scene.ts';
import { AMOUNT, assertPaidOnce, fateOf, seen, sealed } from './effects.ts';
import { openStage, type Side, type Stage } from './explore.ts';
import { countOf, engineOf, race, type Race, type Races } from './race.ts';

const FUNDS = 10n ** 14n;

export async function doorRaces(): Promise<Races> {
  const world = await makeNoopWorld({}, { world: { label: 'races doors', fundUnits: FUNDS } });
  const stage = await openStage(world.url);
  return {
    races: [...intakes(world, stage), ...(await decisions(world, stage))],
    check: () => assertBooksClean(world.pool),
    async end() {
      await stage.end();
      await world.end();
    },
  };
}

const words = (answers: readonly unknown[]): string[] => answers.map((one) => (one as CreateOutcome).outcome).sort();

function intakes(world: World, stage: Stage): Race[] {
  const take = async (side: Side, request: WithdrawalRequest): Promise<CreateOutcome> => {
    const [outcome] = await createWithdrawals({ pool: side.pool, makeId: world.makeId, chart: world.chart }, [request]);
    assert.ok(outcome !== undefined);
    return outcome;
  };
  const effectsUnder = (key: string): Promise<number> =>
    countOf(
      world.pool,
      'payonce.effects e join payonce.idempotency_keys k on k.resource_id = e.subject_id where k.key = $1',
      [key],
    );
  return [
    race(stage, {
      name: 'intake || intake of one key and body',
      prepare: () => Promise.resolve(world.request({ amount: AMOUNT })),
      left: take,
      right: take,
      async judge(request, left, right) {
        assert.deepEqual(words([left, right]), ['created', 'replayed']);
        assert.equal((left as { id: string }).id, (right as { id: string }).id);
        assert.equal(await effectsUnder(request.idempotencyKey), 1);
        return 'created once, and the same for both';
      },
    }),
    race(stage, {
      name: 'intake || intake of one key, another body',
      prepare: () => Promise.resolve(world.request({ amount: AMOUNT })),
      left: take,
      right: (side, request) => take(side, { ...request, amount: AMOUNT * 2n, fingerprint: 'another body' }),
      async judge(request, left, right) {
        assert.deepEqual(words([left, right]), ['created', 'key_reused']);
        assert.equal(await effectsUnder(request.idempotencyKey), 1);
        return (left as CreateOutcome).outcome === 'created' ? 'the left body stands' : 'the right body stands';
      },
    }),
    race(stage, {
      name: 'intake || intake of one external id under two keys',
      async prepare() {
        const first = world.request({ amount: AMOUNT });
        const externalId = `order of ${first.idempotencyKey}`;
        return { first: { ...first, externalId }, second: world.request({ amount: AMOUNT, externalId }) };
      },
      left: (side, { first }) => take(side, first),
      right: (side, { second }) => take(side, second),
      judge(_, left, right) {
        assert.deepEqual(words([left, right]), ['created', 'refused']);
        return Promise.resolve('one is taken, the other told');
      },
    }),
    race(stage, {
      name: 'intake || intake of the last funds',
      async prepare() {
        const { balance, held } = await balanceOf(world);
        const half = (balance - held) / 2n + 1n;
        await world.pool.query('update payonce.asset_policies set withdrawal_max = $1, withdrawal_day_max = $2', [
          balance,
          balance * 1_000n,
        ]);
        const requests = { first: world.request({ amount: half }), second: world.request({ amount: half }) };
        return { ...requests, half };
      },
      left: (side, { first }) => take(side, first),
      right: (side, { second }) => take(side, second),
      async judge({ half }, left, right) {
        assert.deepEqual(words([left, right]), ['created', 'refused']);
        // Given back for the next order.
        await world.fund(half);
        return (left as CreateOutcome).outcome === 'created' ? 'the left one has them' : 'the right one has them';
      },
    }),
  ];
}

interface Decision {
  readonly effect: EffectRow;
  readonly caseId: string;
  readonly proposalId: string;
}

async function decisions(world: World, stage: Stage): Promise<Race[]> {
  const rail = railOf(world);
  const person = async (name: string): Promise<Operator> =>
    (
      await world.pool.tx('operator', (tx) =>
        createOperator(tx, world.makeId, world.ports.chance, name, 'approver', 'race'),
      )
    ).operator;
  const [ann, bob, cat] = [await person('ann'), await person('bob'), await person('cat')];
  /** Undecided, and one person says that it moved. */
  const prepare = async (): Promise<Decision> => {
    const effect = await sealed(world);
    const caseId = await openCase(world.pool, world.makeId, {
      kind: 'undecided',
      severity: 2,
      subjectKey: `effect:${effect.id}`,
      effectId: effect.id,
      summary: 'given by the race',
    });
    const { proposalId } = await propose(world.engine, ann, caseId, 'settled', {
      reason: 'it is on the statement',
      objectId: '0x1',
    });
    return { effect, caseId, proposalId };
  };
  const approved = async (side: Side, who: Operator, proposalId: string): Promise<string> =>
    (await approve(engineOf(world.engine, side), who, proposalId)).outcome;
  const finish = async (id: bigint): Promise<void> => {
    const now = await effectOf(world, id);
    if (now.state === 'SEALED') await record(world.engine, rail, [seen(now, 'final_success', { source: 'later' })]);
    assertPaidOnce(await fateOf(world, id));
  };
  return [
    race(stage, {
      name: 'approve || approve of one proposal',
      prepare,
      left: (side, { proposalId }) => approved(side, bob, proposalId),
      right: (side, { proposalId }) => approved(side, cat, proposalId),
      async judge({ effect, proposalId }, left, right) {
        assert.deepEqual([left, right], ['done', 'done'], 'the second is told what was done');
        const acts = await countOf(
          world.pool,
          "payonce.audit_log where action = 'case.approved.settled' and detail ->> 'proposalId' = $1",
          [proposalId],
        );
        assert.equal(acts, 1);
        await finish(effect.id);
        return 'carried out once';
      },
    }),
    race(stage, {
      name: 'approve || new evidence',
      prepare,
      left: (side, { proposalId }) => approved(side, bob, proposalId),
      right: (side, { effect }) =>
        record(engineOf(world.engine, side), rail, [
          seen({ ...effect, leaseToken: 0n }, 'accepted', { source: 'webhook', objectId: 'object-9' }),
        ]),
      async judge({ effect }, left) {
        const { states } = await fateOf(world, effect.id);
        assert.equal(states, left === 'done' ? 'SETTLED' : 'SEALED');
        await finish(effect.id);
        return left === 'done' ? 'approved before it came' : 'void: the evidence has changed';
      },
    }),
    race(stage, {
      name: 'approve || the rail settles it',
      prepare,
      left: (side, { proposalId }) => approved(side, bob, proposalId),
      right: (side, { effect }) =>
        record(engineOf(world.engine, side), rail, [seen(effect, 'final_success', { source: 'rail' })]),
      async judge({ effect }, left) {
        assertPaidOnce(await fateOf(world, effect.id));
        return left === 'done' ? 'people were first' : 'the rail was first';
      },
    }),
    race(stage, {
      name: 'approve || the proposer withdraws it',
      prepare,
      left: (side, { proposalId }) => approved(side, bob, proposalId),
      right: async (side, { proposalId }) => (await withdraw(engineOf(world.engine, side), ann, proposalId)).outcome,
      async judge({ effect }, left, right) {
        assert.deepEqual([left, right], left === 'done' ? ['done', 'too_late'] : ['void', 'withdrawn']);
        await finish(effect.id);
        return left === 'done' ? 'approved' : 'withdrawn';
      },
    }),
    race(stage, {
      name: 'propose || propose in one case',
      prepare,
      left: async (side, { caseId }) =>
        (await propose(engineOf(world.engine, side), bob, caseId, 'settled', { reason: 'seen', objectId: '0x1' }))
          .proposalId,
      right: async (side, { caseId }) =>
        (await propose(engineOf(world.engine, side), cat, caseId, 'settled', { reason: 'seen', objectId: '0x1' }))
          .proposalId,
      async judge({ effect, caseId }) {
        const open = await countOf(world.pool, "payonce.proposals where case_id = $1 and state = 'open'", [caseId]);
        assert.equal(open, 1);
        await finish(effect.id);
        return 'one stands, the others are void';
      },
    }),
  ];
}
