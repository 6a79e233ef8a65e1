/*
 * Goal: over TRON as it is configured and wired, a night moves each partner's fees from MASTER to SETTLEMENT once, whatever
 * the nodes answer, the chain does with it, or the energy for it takes. Method: the application over the simulated chain and
 * the simulated energy market; fees are what withdrawals cost that the chain has; the chain's own books judge.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import { advanceEffect, advanceOnce } from '../../src/engine/advance.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { cancelSubject } from '../../src/engine/cancel.ts';
import { createOperator } from '../../src/engine/operators.ts';
import { realizeDate, runNightly, tickOnce } from '../../src/flows/realizations/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { reconciledChains } from '../../src/main/wire-reconcile.ts';
import { type EnergyMarket, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import type { TronFault } from '../../sim/tron/faults.ts';
import { assertBooksClean } from '../support/books.ts';
import { FEE, type RealizeTron, startRealizeTron } from '../support/realize-tron.ts';
import { SETTLEMENT, TRX } from '../support/tron-app.ts';

/** What the incident's doubles came to, and what was sent back for them. */
const RETURNED = 508_554_238n;
/** A night that cannot end in so many rounds of five blocks each does not end. */
const ROUNDS = 120;
/** Real time passes, so that the same bytes may be sent again. */
const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 120));

async function custodyOf({ one }: RealizeTron, wallet: string): Promise<bigint> {
  return -(await one.balance(`custody:${one.chain.chain}:${wallet}`, one.tokenAssetId));
}
async function amountsOf(its: RealizeTron): Promise<bigint[]> {
  return (await its.realized()).map(({ amount }) => amount).sort((a, b) => Number(a - b));
}
async function partnersSum({ one }: RealizeTron): Promise<bigint> {
  const rows = await one.rows<{ sum: bigint }>(
    "select coalesce(sum(balance), 0) as sum from payonce.accounts where code like 'partner:%' or code = 'fees'",
  );
  return rows[0]?.sum ?? 0n;
}

/** SETTLEMENT has on the books what the chain shows, and nothing else moved. */
async function finish(its: RealizeTron): Promise<void> {
  const { one } = its;
  assert.equal(await custodyOf(its, SETTLEMENT), await one.tron.books.balance(SETTLEMENT, one.token));
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
}

test('each partner’s fees of the day move once from MASTER to SETTLEMENT on the chain; nobody is debited or credited (case A2, req R8, R11, R17)', async () => {
  const its = await startRealizeTron({ label: 'rlz_tron' });
  const { one } = its;
  for (const partner of ['par_a', 'par_b', 'par_c']) await its.partner(partner);
  await its.earn('par_a', 3);
  await its.earn('par_b', 1);
  const before = await partnersSum(its);
  await its.nextDay();
  const nights = await Promise.all([1, 2, 3, 4].map(() => runNightly(its.nights())));
  assert.equal(nights.flat().flatMap((night) => night.made).length, 2, 'four at once make one set');
  const date = nights.flat()[0]?.date ?? '';
  assert.deepEqual(await its.recorded(), [`0 par_a 0: ${3n * FEE}`, `0 par_b 0: ${FEE}`]);
  await Promise.all([tickOnce(one.app.engine), tickOnce(one.app.engine), one.pass()]);
  assert.equal(await its.verdict(date), 'pending', 'sent is not settled');
  await one.drain();
  assert.deepEqual(await runNightly(its.nights()), [], 'once');
  assert.deepEqual(await amountsOf(its), [FEE, 3n * FEE]);
  assert.ok((await its.realized()).every(({ final, signer }) => final && signer === one.master));
  assert.equal(await partnersSum(its), before);
  const postings = await one.rows<{ text: string }>(
    `select split_part(p.idem_key, ':', 1) || ' ' || string_agg(replace(a.code, $1, '') || ' ' || e.amount, ', ' order by a.code) as text
     from payonce.postings p
     join payonce.ledger_entries e on e.posting_id = p.id
     join payonce.accounts a on a.id = e.account_id
     where p.idem_key like 'RLZ%' group by p.id order by 1`,
    [`custody:${one.chain.chain}:`],
  );
  const moved = (units: bigint): string =>
    [`${one.master} ${units}`, `${SETTLEMENT} ${-units}`].sort((a, b) => (a < b ? -1 : 1)).join(', ');
  assert.deepEqual(
    postings.map(({ text }) => text).sort(),
    [`RLZ_MOVE ${moved(3n * FEE)}`, `RLZ_MOVE ${moved(FEE)}`].sort(),
  );
  one.mine(25);
  for (let run = 0; run < 3; run += 1) await one.chain.scanner.runOnce();
  assert.match(await its.verdict(date), /^(?:pass|inconclusive)$/);
  const [chain] = reconciledChains(one.app);
  assert.ok(chain);
  const [report] = await reconcileChain({ pool: one.app.pool }, chain, { wallets: [SETTLEMENT], from: 1n });
  assert.deepEqual([report?.counts.inflows, report?.counts.byEffect, report?.findings.length], [2, 2, 0]);
  await finish(its);
});

test('what was given back comes as a correction with the next ordinal; the next night moves what was earned since (req R8, R18)', async () => {
  const its = await startRealizeTron({ label: 'rlz_tron_again' });
  const { one } = its;
  await its.partner('par_a');
  await its.earn('par_a', 2);
  const { date, made } = await its.night();
  await cancelSubject(one.app.engine, 'realization', 'par_a', made[0] ?? '', 'an operator');
  await one.drain();
  assert.deepEqual(await amountsOf(its), []);
  const corrected = await realizeDate(its.nights(), date, false);
  assert.deepEqual(
    corrected.made.map(({ ordinal, amount }) => [ordinal, amount]),
    [[1, 2n * FEE]],
  );
  assert.deepEqual((await realizeDate(its.nights(), date, false)).made, [], 'it is there');
  await one.drain();
  assert.deepEqual((await realizeDate(its.nights(), date, false)).made, [], 'and nothing is due');
  assert.deepEqual(await amountsOf(its), [2n * FEE]);
  await its.earn('par_a', 1);
  await its.night();
  await one.drain();
  assert.deepEqual(await its.recorded(), [`0 par_a 0: ${2n * FEE}`, `0 par_a 1: ${2n * FEE}`, `1 par_a 0: ${FEE}`]);
  assert.deepEqual(await amountsOf(its), [FEE, 2n * FEE]);
  await finish(its);
});

/** Energy is rented and never burned for. */
async function startRenting(t: TestContext, label: string): Promise<RealizeTron & { readonly market: EnergyMarket }> {
  let market: EnergyMarket | undefined;
  t.after(() => market?.stop());
  const its = await startRealizeTron({
    label,
    async prepare(tron) {
      const started = await startEnergyMarket({ tron });
      market = started;
      const terms = { name: 'main', baseUrl: started.url, account: 'prepaid-1', priceMaxSun: '60' };
      return { energy: { market: { ...terms, secret: () => started.apiKey } } };
    },
  });
  return { ...its, market: market ?? assert.fail('no market') };
}

test('where the rail asks for energy it is bought first, once for each, and nothing is burned for it (req R16, inv E1)', async (t) => {
  const its = await startRenting(t, 'rlz_tron_energy');
  const { one, market } = its;
  for (const [partner, units] of [
    ['par_a', 3n * FEE],
    ['par_b', FEE],
  ] as const) {
    await its.partner(partner);
    await its.owe(partner, units);
  }
  await its.night();
  await one.pass();
  const waits = await one.rows<{ text: string }>(
    "select state || ' ' || coalesce(identity, 'unsealed') || ' ' || split_part(wait_reason, ':', 1) as text from payonce.effects where subject_type = 'realization'",
  );
  assert.deepEqual(
    waits.map(({ text }) => text),
    ['PENDING unsealed ENERGY_SHORT', 'PENDING unsealed ENERGY_SHORT'],
  );
  await one.drain(ROUNDS);
  assert.deepEqual(await its.tries(), ['par_a 1 SETTLED', 'par_b 1 SETTLED']);
  assert.deepEqual(await amountsOf(its), [FEE, 3n * FEE]);
  const energy = await one.rows('select 1 from payonce.effects where subject_type = $1', ['energy']);
  assert.equal(market.books.orders().length, energy.length);
  assert.equal(energy.length, 2);
  assert.equal(
    await one.balance(`custody:${one.chain.chain}:prepaid-1`, one.chain.coinAssetId),
    market.books.paidSun(),
  );
  await finish(its);
});

test('energy rented for one realization is not used up by what else leaves the wallet, and what is left over is counted on once (req R16)', async (t) => {
  const its = await startRenting(t, 'rlz_tron_shared');
  const { one, market } = its;
  const { engine } = one.app;
  for (const partner of ['par_a', 'par_b', 'par_c']) await its.partner(partner);
  await its.owe('par_a', FEE);
  await its.night();
  await tickOnce(engine);
  const energy = engine.rails.get('energy:main') ?? assert.fail('no market is wired');
  for (let round = 0; round < 4; round += 1) {
    await advanceOnce(engine, energy);
    one.mine(2);
    await rest();
  }
  assert.equal(market.books.orders().length, 1, 'its energy is there, and it has not come for it');
  const [created] = await createWithdrawals(engine, [its.withdrawal('par_b')]);
  assert.equal(created?.outcome, 'created');
  const [second] = await one.rows<{ id: bigint }>("select id from payonce.effects where subject_type = 'withdrawal'");
  await advanceEffect(engine, second?.id ?? 0n);
  assert.deepEqual(
    await one.rows('select state, send_count from payonce.effects where id = $1', [second?.id]),
    [{ state: 'PENDING', send_count: 0 }],
    'it has to rent its own',
  );
  await one.drain(ROUNDS);
  assert.deepEqual(await amountsOf(its), [FEE]);
  assert.equal(market.books.orders().length, 2);
  // Whatever the two left unused, both of these see it.
  assert.ok(one.tron.energyOf(one.master) > 0n);
  await its.owe('par_b', FEE);
  await its.owe('par_c', FEE);
  await its.night();
  await one.drain(ROUNDS);
  assert.deepEqual(await amountsOf(its), [FEE, FEE, 2n * FEE], 'none waits for its rental to run out');
  await finish(its);
});

for (const kind of ['lose_request', 'lose_answer', 'deliver_twice', 'drop', 'include_at_last'] as const) {
  test(`the first broadcasts ${kind}: the fees move once (case B1, B9, G1, inv E1)`, async () => {
    const its = await startRealizeTron({ label: `rlz_tron_${kind}` });
    const { one } = its;
    await its.partner('par_a');
    await its.owe('par_a', FEE);
    one.tron.script({ on: 'broadcast', hitsMax: 2, fault: { kind } });
    await its.night();
    for (let round = 0; round < 4; round += 1) {
      await tickOnce(one.app.engine);
      await one.pass();
      await rest();
    }
    await one.drain();
    assert.deepEqual(await its.tries(), ['par_a 1 SETTLED']);
    assert.deepEqual(await amountsOf(its), [FEE]);
    await finish(its);
  });
}

const DEAD: readonly (readonly [string, TronFault, string])[] = [
  ['OUT_OF_ENERGY', { kind: 'end_as', result: 'OUT_OF_ENERGY' }, 'REVERTED_FINAL'],
  ['REVERT', { kind: 'end_as', result: 'REVERT' }, 'REVERTED_FINAL'],
  ['never included', { kind: 'never_include' }, 'EXPIRED_UNINCLUDED'],
];
for (const [what, fault, proof] of DEAD) {
  test(`${what}: tried again by the policy, three times, then a person is asked; decided, the fees are due again and move once (case E8, G2, req R8)`, async () => {
    const its = await startRealizeTron({ label: 'rlz_tron_dead' });
    const { one } = its;
    await its.partner('par_a');
    await its.owe('par_a', FEE);
    one.tron.script({ on: 'broadcast', fault });
    await its.night();
    await one.pass();
    one.tron.heal();
    await one.drain(ROUNDS);
    assert.deepEqual(await its.tries(), [`par_a 1 ${proof}`, 'par_a 2 SETTLED']);
    assert.deepEqual(await amountsOf(its), [FEE]);

    await its.owe('par_a', 3n * FEE);
    one.tron.script({ on: 'broadcast', fault });
    const { date } = await its.night();
    await one.drain(ROUNDS);
    one.tron.heal();
    assert.deepEqual(
      (await its.tries()).slice(2),
      [1, 2, 3].map((seq) => `par_a ${seq} ${proof}`),
    );
    const [found] = await one.rows<{ id: string }>(
      "select id from payonce.cases where kind = 'after_release' and closed_at is null",
    );
    assert.ok(found);
    assert.deepEqual((await realizeDate(its.nights(), date, false)).made, [], 'undecided, nothing else moves it');
    const { engine } = one.app;
    const operator = (name: string) =>
      engine.pool.tx('operator', async (tx) => {
        const made = await createOperator(tx, engine.makeId, engine.ports.chance, name, 'approver', 'test');
        return made.operator;
      });
    const [ann, bob] = [await operator('ann'), await operator('bob')];
    const { proposalId } = await propose(engine, ann, found.id, 'fail', { reason: 'the next night takes it' });
    assert.equal((await approve(engine, bob, proposalId)).outcome, 'done');
    await its.night();
    await one.drain(ROUNDS);
    assert.deepEqual(await amountsOf(its), [FEE, 3n * FEE]);
    await finish(its);
  });
}

test('508.554238 USDT back from SETTLEMENT to MASTER credits nobody, and is one of ours on both sides (case H3, req R10, R13)', async () => {
  const its = await startRealizeTron({ label: 'rlz_tron_return' });
  const { one } = its;
  await its.partner('par_a');
  await its.owe('par_a', 600n * TRX);
  const { date } = await its.night();
  await one.drain();
  const before = await partnersSum(its);
  const master = await custodyOf(its, one.master);
  one.tron.fund(SETTLEMENT, 100n * TRX);
  one.tron.act(SETTLEMENT, { kind: 'send_token', token: one.token, to: one.master, units: RETURNED });
  one.mine(26);
  for (let run = 0; run < 3; run += 1) await one.chain.scanner.runOnce();
  const seen = await one.rows<{ class: string; class_reason: string }>(
    'select class, class_reason from payonce.chain_transfers where from_address = $1 and amount = $2',
    [SETTLEMENT, RETURNED],
  );
  assert.deepEqual(seen, [{ class: 'FUNDING', class_reason: 'infrastructure_sends_to_ourselves' }]);
  assert.equal(await partnersSum(its), before, 'nobody is credited');
  assert.equal((await custodyOf(its, one.master)) - master, RETURNED);
  assert.equal(await one.balance('suspense', one.tokenAssetId), 0n);
  assert.equal((await one.rows('select 1 from payonce.signers where quarantined_at is not null')).length, 0);
  assert.match(await its.verdict(date), /^(?:pass|inconclusive)$/, 'what is sent back is no inflow');
  assert.deepEqual((await realizeDate(its.nights(), date, false)).made, [], 'and nothing is due again');
  await finish(its);
});
