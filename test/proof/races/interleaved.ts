/* What isolationtester runs: the incident's own algorithm, and beside it ours; then the edges and the ledger's statement. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { releaseEffects, releasePending, sealEffects, settleEffects } from '../../../src/engine/edges.ts';
import { storeEvidence } from '../../../src/engine/evidence-store.ts';
import { type EffectRow, lockEffects } from '../../../src/engine/store.ts';
import { accountName } from '../../../src/ledger/accounts.ts';
import { type LedgerItem, post } from '../../../src/ledger/post.ts';
import type { Tx } from '../../../src/db/pool.ts';
import type { World } from '../../support/world.ts';
import { evidenceOf, makeNoopWorld } from '../../engine/noop-scene.ts';
import { AMOUNT, fateOf, planned, SEND_FOR_MS, sealed } from './effects.ts';
import { type Interleaved, interleave, recorded, type Steps } from './isolation.ts';
import type { Level } from './session.ts';

const FUNDS = 10n ** 14n;

export interface Count extends Interleaved {
  readonly name: string;
  readonly level: Level;
  readonly doubles: number;
}

export async function makeIsolationWorld(t: TestContext, label: string): Promise<World> {
  const world = await makeNoopWorld({}, { world: { label, fundUnits: FUNDS } });
  t.after(() => world.end());
  return world;
}

/**
 * The incident's way (req W1): read the withdrawal and the balance, book a DEBIT if it was pending, write the balance that was
 * computed, write `confirmed`. Four statements of their own, no key, no condition.
 */
export async function incidentWay(world: World, level: Level): Promise<Count> {
  await world.pool.query('create schema if not exists incident');
  await world.pool.query(
    'create table if not exists incident.withdrawals (id int primary key, status text, balance int)',
  );
  await world.pool.query('create table if not exists incident.debits (withdrawal int)');
  await world.pool.query('truncate incident.withdrawals, incident.debits');
  const found = await interleave(world.url, level, [4, 4], async (nth) => {
    await world.pool.query("insert into incident.withdrawals values ($1, 'pending', 100)", [nth]);
    const steps: Steps = [
      [
        `select set_config('incident.status', status, false) as status, set_config('incident.balance', balance::text, false) as balance
         from incident.withdrawals where id = ${nth}`,
      ],
      [`insert into incident.debits select ${nth} where current_setting('incident.status') = 'pending'`],
      [
        `update incident.withdrawals set balance = current_setting('incident.balance')::int - 60
         where id = ${nth} and current_setting('incident.status') = 'pending'`,
      ],
      [`update incident.withdrawals set status = 'confirmed' where id = ${nth}`],
    ];
    return [steps, steps];
  });
  const { rows } = await world.pool.query<{ n: number }>(
    'select count(*)::int as n from (select 1 from incident.debits group by withdrawal having count(*) > 1) d',
  );
  return { ...found, name: 'the incident’s way: confirm || confirm', level, doubles: rows[0]?.n ?? -1 };
}

async function debitOf(world: World, effect: EffectRow): Promise<LedgerItem> {
  const [from, custody] = await world.pool.tx('accounts', (tx) =>
    world.chart.ids(tx, [
      accountName.partner(world.partnerId, world.assetId),
      accountName.custody('noop', world.wallet, world.assetId),
    ]),
  );
  assert.ok(from !== undefined && custody !== undefined);
  return {
    kind: 'post',
    key: `WDR_CONFIRM:${effect.subjectId}`,
    reference: effect.subjectId,
    effectId: effect.id,
    entries: [
      { accountId: from, amount: -AMOUNT },
      { accountId: custody, amount: AMOUNT },
    ],
    closesHold: effect.holdKey ?? undefined,
  };
}

/** Ours, as long as theirs: lock, the edge, the DEBIT under its key, commit. */
export async function ourWay(world: World, level: Level): Promise<Count> {
  const effects: EffectRow[] = [];
  const found = await interleave(world.url, level, [4, 4], async () => {
    const effect = await sealed(world);
    effects.push(effect);
    const evidenceId = await evidenceOf(world, effect, 'FINAL_SUCCESS');
    const item = await debitOf(world, effect);
    const side = async (): Promise<Steps> => {
      const [lock, edge, debit] = await recorded(world.pool, async (tx) => {
        await lockEffects(tx, [effect.id]);
        await settleEffects(tx, [{ id: effect.id, evidenceId, againAfterMs: null }]);
        await post(tx, [item]);
      });
      assert.ok(lock !== undefined && edge !== undefined && debit !== undefined);
      return [['begin', lock], [edge], [debit], ['commit']];
    };
    return [await side(), await side()];
  });
  return { ...found, name: 'ours: confirm || confirm', level, doubles: await doublesOf(world, effects) };
}

/** Subjects with more than one DEBIT or edge; each has one of both, since somebody committed. */
async function doublesOf(world: World, effects: readonly EffectRow[]): Promise<number> {
  let doubles = 0;
  for (const effect of effects) {
    const { debits, settledEdges } = await fateOf(world, effect.id);
    assert.ok(debits >= 1 && settledEdges >= 1, `effect ${effect.id} was not settled`);
    if (debits > 1 || settledEdges > 1) doubles += 1;
  }
  return doubles;
}

type Pair = readonly [left: (tx: Tx) => Promise<unknown>, right: (tx: Tx) => Promise<unknown>];

/**
 * The edges against one another, each as [begin and statement, commit]: whoever of two is second finds no row. Run apart, since
 * an edge without what belongs to it (the DEBIT, the hold) leaves no clean books.
 */
export async function edgesApart(world: World, level: Level): Promise<Count[]> {
  const counts: Count[] = [];
  const run = async (
    name: string,
    make: (effect: EffectRow) => Promise<Pair>,
    prepare: (world: World) => Promise<EffectRow> = sealed,
  ): Promise<void> => {
    const effects: EffectRow[] = [];
    const found = await interleave(world.url, level, [2, 2], async () => {
      const effect = await prepare(world);
      effects.push(effect);
      const [left, right] = await make(effect);
      return [
        [['begin', ...(await recorded(world.pool, left))], ['commit']],
        [['begin', ...(await recorded(world.pool, right))], ['commit']],
      ];
    });
    let doubles = 0;
    for (const effect of effects) if ((await edgesOf(world, effect)) !== 1) doubles += 1;
    counts.push({ ...found, name, level, doubles });
  };
  const releases = (effect: EffectRow, evidenceId: bigint) => (tx: Tx) =>
    releaseEffects(tx, [{ id: effect.id, token: effect.leaseToken, evidenceId, rank: 'dead', overWord: true }]);
  await run('release || release', async (effect) => {
    const no = await evidenceOf(world, effect, 'REVERTED_FINAL');
    return [releases(effect, no), releases(effect, no)];
  });
  await run(
    'seal || cancel',
    async (effect) => {
      const [evidenceId] = await world.pool.tx('evidence', (tx) =>
        storeEvidence(tx, [
          {
            effectId: effect.id,
            kind: 'NEVER_SEALED',
            rank: 'dead',
            source: 'race',
            operator: 'payonce',
            objectId: null,
            detail: 'cancelled by the race',
            sendNumber: 0,
            token: effect.leaseToken,
          },
        ]),
      );
      assert.ok(evidenceId !== undefined);
      const seal = {
        id: effect.id,
        token: effect.leaseToken,
        identity: `noop:race:${effect.id}`,
        payload: Buffer.from('a payload'),
        expect: {},
        plan: {},
        nonce: null,
      };
      return [
        (tx) => sealEffects(tx, [seal], SEND_FOR_MS),
        (tx) => releasePending(tx, [{ id: effect.id, evidenceId }]),
      ];
    },
    planned,
  );
  return counts;
}

/** How often it left the state in which the pair found it. */
async function edgesOf(world: World, effect: EffectRow): Promise<number> {
  const { rows } = await world.pool.query<{ n: number }>(
    'select count(*)::int as n from payonce.effect_history where effect_id = $1 and from_state = $2',
    [effect.id, effect.state],
  );
  return rows[0]?.n ?? -1;
}
