/*
 * Goal: what two persons may correct, and how much of it at most; and that what a provider released beyond need does not lie in
 * suspense for ever. Method: a market with its matcher, a provider on a real socket that says no and has opened a trade all the same.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { disputeLeg, makeLegVerbs } from '../../src/flows/p2p/index.ts';
import { makeEscrowRail, TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import { type Provider, startProvider } from '../rails/escrow-provider.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, SELLER } from '../support/p2p-scene.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function ended({ world }: P2pScene): Promise<void> {
  await assertBooksClean(world.pool);
  await world.end();
}

type Named = Readonly<Record<string, string>>;
type VerbName = keyof ReturnType<typeof makeLegVerbs>;

/** What both persons are told: the objection at the proposal, or what carrying it out answered. */
async function decide({ world }: P2pScene, kind: string, leg: string, verb: VerbName, detail: Named): Promise<string> {
  const act = makeLegVerbs(world.pool, world.engine)[verb];
  const about = { kind, subjectKey: `leg:${leg}` };
  const objection = await act.objection(about, detail);
  if (objection !== null) return `objection: ${objection}`;
  const refused = new Error('undone');
  let said = '';
  try {
    await world.pool.tx('approve', async (tx) => {
      const done = await act.carryOut?.(tx, { id: 'prop_1', about, detail });
      assert.ok(done !== undefined);
      said = 'did' in done ? `${done.did}${done.closesCase ? '; closed' : ''}` : `refused: ${done.refused}`;
      if ('refused' in done) throw refused;
    });
  } catch (error) {
    if (error !== refused) throw error;
  }
  return said;
}

async function settledLeg(scene: P2pScene): Promise<string> {
  await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? assert.fail('no leg');
  assert.deepEqual(await scene.confirm(leg), { outcome: 'settled' });
  return leg;
}

test('a settled leg is never taken back more than once over, nor credited more than once more (req W4)', async () => {
  const scene = await makeP2pScene({ label: 'p2p corrections', routes: [] });
  const leg = await settledLeg(scene);
  const correct = (direction: string, amount: string) =>
    decide(scene, 'leg_correction', leg, 'p2p_correct', { direction, amount });
  const seller = await scene.available(SELLER);
  assert.match(await correct('recall', '70'), /was corrected \(recall\); closed/);
  assert.match(
    await correct('recall', '31'),
    /objection: the leg is of 100 USDT, and corrections have taken back 70 USDT/,
  );
  assert.match(await correct('recall', '30'), /was corrected/);
  assert.deepEqual([await scene.available(BUYER), await scene.available(SELLER)], [0n, seller + 100n * ONE]);
  assert.match(await correct('credit_again', '100'), /was corrected \(credit_again\)/);
  assert.match(await correct('credit_again', '100'), /was corrected/);
  assert.match(await correct('credit_again', '0.000001'), /have credited 100 USDT once more already/);
  assert.equal(await scene.available(BUYER), 200n * ONE);
  await ended(scene);
});

test('what the partner has spent already is refused in words, and the process goes on (req W4)', async () => {
  const scene = await makeP2pScene({ label: 'p2p corrections short', routes: [] });
  const leg = await settledLeg(scene);
  // It sells what it has bought.
  await scene.sell({ partnerId: BUYER, amount: 80n * ONE });
  const spent = await decide(scene, 'leg_correction', leg, 'p2p_correct', { direction: 'recall', amount: '40' });
  assert.match(spent, /refused: par_buyer has less than 40 USDT available/);
  assert.match(
    await decide(scene, 'leg_correction', leg, 'p2p_correct', { direction: 'recall', amount: '20' }),
    /was corrected/,
  );
  assert.equal(await scene.available(BUYER), 0n);
  await ended(scene);
});

test('a case about one leg decides no other, and is not closed over a frozen leg', async () => {
  const scene = await makeP2pScene({ label: 'p2p corrections frozen', routes: [] });
  const other = await settledLeg(scene);
  await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? assert.fail('no leg');
  await disputeLeg(scene.world.pool, scene.world.engine, { partnerId: BUYER, legId: leg, reason: 'paid' });
  assert.match(await decide(scene, 'leg_disputed', leg, 'p2p_void', { leg: other }), /this case is about leg/);
  const { close } = makeLegVerbs(scene.world.pool, scene.world.engine);
  const about = { kind: 'leg_disputed', subjectKey: `leg:${leg}` };
  assert.match((await close.objection(about, {})) ?? '', /its leg is frozen as long as it is disputed/);
  assert.match(await decide(scene, 'leg_disputed', leg, 'p2p_void', {}), /is void; closed/);
  assert.equal(await close.objection(about, {}), null);
  await ended(scene);
});

interface Surplus {
  readonly scene: P2pScene;
  readonly provider: Provider;
  readonly leg: string;
  readonly openCases: () => Promise<string[]>;
  readonly lookAgain: () => Promise<void>;
}

/** The provider refused and had opened a trade all the same; the order was filled by a seller meanwhile. */
async function surplus(label: string, holdsOn = false): Promise<Surplus> {
  const provider = await startProvider();
  closing.push(() => provider.stop());
  const [standard] = TRADE_PROFILES;
  assert.ok(standard !== undefined);
  const scene = await makeP2pScene({
    label,
    rail(ports) {
      const rail = makeEscrowRail(
        {
          name: 'escrow:lp',
          profile: standard,
          baseUrl: provider.url,
          account: 'lp-account',
          credential: { id: 'cred_1', secret: () => 'lp-secret-1' },
          deployment: 'test',
          capabilities: { resendAfterMs: 1 },
        },
        { ports, http: { timeoutMs: 500 } },
      );
      closing.push(() => rail.close());
      return rail;
    },
  });
  const { pool, engine } = scene.world;
  const order = await scene.buy();
  provider.next = { status: 422, body: '{"code":"no_liquidity","message":"a lie"}', done: true };
  provider.lags = true;
  await scene.settleDown();
  const leg = (await scene.deposit(order)).legs[0];
  assert.equal(leg?.state, 'VOID', 'believed: a refusal that is stored under the key');
  await scene.sell();
  await scene.later(60_000);
  await scene.settleDown();
  assert.equal((await scene.deposit(order)).order.status, 'MATCHED');
  provider.lags = false;
  const lookAgain = async (): Promise<void> => {
    await pool.query('update payonce.effects set watch_at = payonce.now() where watch_at is not null');
    await watchReleasedOnce(engine, scene.rail);
    await reopenOnce(engine);
    await scene.settleDown();
  };
  // It goes on with the trade whatever is asked of it.
  if (holdsOn) for (const trade of provider.trades.values()) trade['state'] = 'on_hold';
  await lookAgain();
  assert.equal((await scene.deposit(order)).legs[0]?.state, 'SURPLUS');
  return {
    scene,
    provider,
    leg: leg.id,
    lookAgain,
    async openCases() {
      const { rows } = await pool.query<{ kind: string }>(
        'select kind from payonce.cases where closed_at is null order by kind',
      );
      return rows.map((row) => row.kind);
    },
  };
}

test('a trade that stands beside its order’s legs is cancelled by itself, and its case closes with it', async () => {
  const { scene, provider, openCases, lookAgain } = await surplus('p2p surplus cancelled');
  await lookAgain();
  assert.deepEqual(
    [...provider.trades.values()].map((trade) => trade['state']),
    ['cancelled'],
  );
  assert.deepEqual(
    await openCases(),
    ['told_failed'],
    'the partner is to be spoken with; nothing is left of the trade',
  );
  await ended(scene);
});

test('what a provider released beyond need goes out of suspense once, by two persons: to it, to us, to a partner', async () => {
  const { scene, provider, leg, openCases, lookAgain } = await surplus('p2p surplus', true);
  assert.deepEqual(await openCases(), ['told_failed', 'trade_surplus']);
  const give = (detail: Named): Promise<string> => decide(scene, 'trade_surplus', leg, 'p2p_surplus', detail);
  assert.match(await give({ as: 'treasury' }), /nothing of leg leg_\w+ stands in suspense: it was not released/);
  for (const trade of provider.trades.values())
    Object.assign(trade, { state: 'released', paid_marked_at: '2030-01-02T03:30:00Z', released_amount: '100' });
  await lookAgain();
  assert.equal(await scene.available(BUYER), 0n, 'the order has its amount from a seller');
  const { close } = makeLegVerbs(scene.world.pool, scene.world.engine);
  const about = { kind: 'trade_surplus', subjectKey: `leg:${leg}` };
  assert.match((await close.objection(about, {})) ?? '', /100 USDT of it stand in suspense: say p2p_surplus/);
  for (const [detail, why] of [
    [{}, /"as" must be returned/],
    [{ as: 'partner' }, /there is no partner ""/],
    [{ as: 'partner', partner_id: 'par_own' }, /there is no partner "par_own"/],
    [{ as: 'treasury', amount: '0' }, /must be above zero/],
    [{ as: 'treasury', amount: '1.0000001' }, /"amount"/],
    [{ as: 'treasury', amount: '100.000001' }, /only 100 USDT stand in suspense/],
  ] as const)
    assert.match(await give(detail), why);
  assert.match(await decide(scene, 'leg_disputed', leg, 'p2p_surplus', { as: 'treasury' }), /is not about a surplus/);
  assert.match(await give({ as: 'returned', amount: '60' }), /60 USDT .* was given back to the provider$/);
  assert.match(await give({ as: 'treasury', amount: '50' }), /only 40 USDT stand in suspense/);
  assert.match(await give({ as: 'partner', partner_id: BUYER, amount: '15.5' }), /was credited to par_buyer$/);
  assert.match(await give({ as: 'treasury' }), /24.5 USDT .* is our own; closed$/);
  assert.match(await give({ as: 'treasury' }), /is given out already/);
  assert.equal(await close.objection(about, {}), null);
  const { rows } = await scene.world.pool.query<{ code: string; balance: bigint }>(
    "select code, balance from payonce.accounts where code in ('suspense', 'lp:escrow:lp') order by code",
  );
  assert.deepEqual(
    rows.map((row) => [row.code, row.balance]),
    [
      ['lp:escrow:lp', -40n * ONE],
      ['suspense', 0n],
    ],
  );
  assert.equal(await scene.available(BUYER), 15_500_000n);
  await ended(scene);
});

test('the books’ own rule finds no fault in fees of amounts with more digits than a division shows (inv L5)', async () => {
  const amount = 333_333_333_333_333_333n;
  const scene = await makeP2pScene({ label: 'p2p large amounts', routes: [], feeBp: 9_999, fundUnits: 10n * amount });
  await scene.world.pool.query('update payonce.p2p_markets set order_max = $1', [10n ** 30n]);
  await scene.sell({ amount });
  const bought = await scene.buy({ amount });
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? assert.fail('no leg');
  assert.deepEqual(await scene.confirm(leg), { outcome: 'settled' });
  assert.equal(await scene.available(BUYER), amount - (amount * 9_999n) / 10_000n);
  await ended(scene);
});
