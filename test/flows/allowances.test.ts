/*
 * Goal: a wallet lets its relayers move a token by effects of its own that two persons decide, on both kinds of chain; it moves
 * nothing, quarantines nothing, and what waited for it goes on (req R15, R18). Method: a real chain and the simulated TRON, tokens
 * that change an allowance from 0 only, the chains' own books as the judge.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { encodeFunctionData, erc20Abi, hexToBigInt } from 'viem';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { sendAndMine } from '../../sim/evm-send.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { cancelSubject } from '../../src/engine/cancel.ts';
import type { Operator } from '../../src/engine/operators.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { endWaitAlerts } from '../../src/engine/wait.ts';
import {
  type AllowanceWish,
  makeAllowanceFlow,
  makeAllowanceVerbs,
  openAllowanceCase,
} from '../../src/flows/allowances/index.ts';
import { createWithdrawals, makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { UNITS_MAX } from '../../src/kernel/money.ts';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import { reconciledChains } from '../../src/main/wire-reconcile.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';
import { PARTNER, RELAYER, startTronApp, TRX } from '../support/tron-app.ts';

const OTTO: Operator = { id: 'op_otto', name: 'Otto', role: 'operator' };
const ADA: Operator = { id: 'op_ada', name: 'Ada', role: 'admin' };

interface Scene {
  readonly world: EvmWorld;
  readonly engine: EngineDeps;
  readonly master: string;
  readonly relayers: readonly [string, string];
  /** Proposed by one and approved by another; answers what was done. */
  decide(relayer: string, amount: string): Promise<string>;
  allowed(relayer: string): Promise<bigint>;
}

async function addPeople(engine: Pick<EngineDeps, 'pool'>): Promise<void> {
  for (const { id, name, role } of [OTTO, ADA])
    await engine.pool.query('insert into payonce.operators (id, name, role, key_hash) values ($1, $2, $3, $4)', [
      id,
      name,
      role,
      Buffer.from(id),
    ]);
}

async function decideOn(engine: EngineDeps, wish: AllowanceWish): Promise<string> {
  const railOf = (name: string): Rail | undefined => engine.rails.get(name);
  const { caseId, detail } = await openAllowanceCase({ pool: engine.pool, makeId: engine.makeId, railOf }, wish);
  const { proposalId } = await propose(engine, OTTO, caseId, 'allowance', { ...detail, reason: 'it relays' });
  const done = await approve(engine, ADA, proposalId);
  return done.outcome === 'done' ? done.did : done.why;
}

async function scene(t: TestContext, strict: boolean): Promise<Scene> {
  const made: { rail?: Rail } = {};
  const world = await makeEvmWorld({
    label: 'allowances',
    walletCount: 3,
    flows: (chart, makeId) => [makeWithdrawals(chart), makeAllowanceFlow(chart, makeId, () => made.rail)],
  });
  made.rail = world.rail;
  t.after(() => world.end());
  const [master, one, two] = world.wallets;
  assert.ok(master !== undefined && one !== undefined && two !== undefined);
  await world.pool.query('update payonce.asset_policies set relayers = $1', [[one, two]]);
  await world.pool.query("update payonce.addresses set kind = 'RELAYER' where address = any ($1::text[])", [
    [one, two],
  ]);
  if (strict)
    await sendAndMine(world.anvil, world.anvil.accounts[9]?.privateKey ?? assert.fail(), {
      to: world.token,
      data: encodeFunctionData({ abi: testToken.abi, functionName: 'setStrictAllowance', args: [true] }),
    });
  const verbs = makeAllowanceVerbs({ pool: world.pool, makeId: world.makeId, railOf: () => world.rail });
  const engine: EngineDeps = { ...world.engine, verbs: new Map(Object.entries(verbs)) };
  await addPeople(engine);
  const chain = `eip155:${world.anvil.chainId}`;
  return {
    world,
    engine,
    master,
    relayers: [one, two],
    decide: (relayer, amount) =>
      decideOn(engine, { chain, rail: world.rail.name, wallet: master, relayer, asset: 'USDT', amount }),
    async allowed(relayer) {
      const args = [master as `0x${string}`, relayer as `0x${string}`] as const;
      const data = encodeFunctionData({ abi: erc20Abi, functionName: 'allowance', args });
      return hexToBigInt((await world.anvil.rpc('eth_call', [{ to: world.token, data }, 'latest'])) as `0x${string}`);
    },
  };
}

async function pay({ world }: Scene, count: number): Promise<void> {
  const outcomes = await createWithdrawals(
    world,
    Array.from({ length: count }, () => world.request({ destination: world.outsider() })),
  );
  assert.ok(outcomes.every((one) => one.outcome === 'created'));
}

interface Seen extends Record<string, unknown> {
  readonly id: bigint;
  readonly subject_type: string;
  readonly state: string;
  readonly signer: string;
  readonly why: string | null;
}

async function effects({ pool }: Pick<EngineDeps, 'pool'>, type?: string): Promise<Seen[]> {
  const { rows } = await pool.query<Seen>(
    'select id, subject_type, state, signer, wait_reason as why from payonce.effects where $1::text is null or subject_type = $1 order by id',
    [type ?? null],
  );
  return rows;
}

test('what waits for an allowance names the command, in the asset’s units; two persons give it, and the payments go at once (req R15, R18)', async (t) => {
  const its = await scene(t, false);
  const { world, relayers, master } = its;
  await pay(its, 2);
  for (let pass = 0; pass < 3; pass += 1) await world.pass();
  const chain = `eip155:${world.anvil.chainId}`;
  for (const { why, signer } of await effects(world))
    assert.equal(
      why,
      `ALLOWANCE_SHORT: ${master} lets the relayer ${signer} move 0 USDT, 1 USDT are needed. Two persons give it: payonce wallet approve --chain ${chain} --wallet ${master} --relayer ${signer} --asset USDT --amount max`,
    );
  assert.match(await its.decide(relayers[1], 'max'), /^alw_\w+ sets it: payonce effect list$/);
  await world.drain();
  assert.equal(await its.allowed(relayers[1]), UNITS_MAX - 2_000_000n);
  const all = await effects(world);
  assert.deepEqual(
    all.map((one) => `${one.subject_type} ${one.state} ${one.signer}`),
    [`withdrawal SETTLED ${relayers[1]}`, `withdrawal SETTLED ${relayers[1]}`, `allowance SETTLED ${master}`],
  );
  assert.equal((await world.paid()).length, 2);
  const { rows: booked } = await world.pool.query<{ idem_key: string }>(
    'select idem_key from payonce.postings where effect_id = $1',
    [all[2]?.id],
  );
  assert.deepEqual(
    booked.map((row) => row.idem_key),
    [`GAS:${all[2]?.id}`],
    'its gas is booked, and nothing else',
  );
  const { rows: held } = await world.pool.query('select 1 from payonce.signers where quarantined_at is not null');
  assert.equal(held.length, 0, 'no quarantine of the wallet that signed it');
  await endWaitAlerts(world.pool, world.rail.name);
  assert.equal((await world.pool.query('select 1 from payonce.alerts where cleared_at is null')).rowCount, 0);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('an allowance is decided by two, for a relayer of the configuration, once; what stands already is no effect (req R18)', async (t) => {
  const its = await scene(t, false);
  const { world, engine, relayers, master } = its;
  const chain = `eip155:${world.anvil.chainId}`;
  const railOf = (): Rail => world.rail;
  const wish = { chain, rail: world.rail.name, wallet: master, relayer: relayers[0], asset: 'USDT', amount: '5' };
  const deps = { pool: world.pool, makeId: world.makeId, railOf };
  for (const [changed, why] of [
    [{ relayer: world.outsider() }, /is not in "relayers" of USDT/],
    [{ wallet: relayers[1] }, /is not the "wallet" of USDT/],
    [{ wallet: world.outsider() }, /is no wallet of ours/],
    [{ relayer: master }, /is the wallet itself/],
    [{ asset: 'COIN' }, /the chain's own coin/],
    [{ asset: 'DAI' }, /there is no asset DAI/],
    [{ amount: '5.0000001' }, /expected max, or a decimal string with 6 decimals/],
    [{ amount: '0' }, /exactly that already/],
  ] as const)
    await assert.rejects(openAllowanceCase(deps, { ...wish, ...changed }), why);
  assert.equal((await world.pool.query('select 1 from payonce.cases')).rowCount, 0, 'what is refused opens no case');

  const { caseId, detail } = await openAllowanceCase(deps, wish);
  const { proposalId } = await propose(engine, OTTO, caseId, 'allowance', { ...detail, reason: 'r' });
  await assert.rejects(approve(engine, { ...OTTO, role: 'approver' }, proposalId), /A second person/);
  assert.equal((await effects(world)).length, 0);
  await approve(engine, ADA, proposalId);
  assert.equal((await approve(engine, ADA, proposalId)).outcome, 'done', 'told again, not done again');
  // While it is open another one of this relayer waits for its end.
  assert.match(await its.decide(relayers[0], '7'), /another allowance of this relayer is under way/);
  await world.drain();
  assert.equal((await effects(world)).length, 1);
  assert.equal(await its.allowed(relayers[0]), 5_000_000n);
  await assert.rejects(openAllowanceCase(deps, wish), /exactly that already/);
});

test('a token that changes an allowance from 0 only is set to 0 first, by an effect of its own (req R15)', async (t) => {
  const its = await scene(t, true);
  const { world, relayers } = its;
  await its.decide(relayers[0], '5');
  await world.drain();
  assert.match(await its.decide(relayers[0], '10'), /to 0 first/);
  await pay(its, 1);
  await world.drain();
  assert.equal(await its.allowed(relayers[0]), 9_000_000n);
  assert.deepEqual(
    (await effects(world, 'allowance')).map((one) => one.state),
    ['SETTLED', 'SETTLED', 'SETTLED'],
  );
  assert.equal((await world.paid()).length, 1);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('an allowance is lowered only when what the relayer sent is in a block; nothing is sealed for it meanwhile, and it is not chosen (req R15)', async (t) => {
  const its = await scene(t, false);
  const { world, relayers } = its;
  const [kept, left] = relayers;
  await its.decide(left, 'max');
  await world.drain();
  await pay(its, 2);
  // Planned at the one that has none, then handed over.
  for (let pass = 0; pass < 3; pass += 1) await world.pass();
  const sealed = (await effects(world, 'withdrawal')).map((one) => `${one.state} ${one.signer}`);
  assert.deepEqual(sealed, [`SEALED ${left}`, `SEALED ${left}`]);
  await its.decide(left, '0');
  await pay(its, 1);
  await world.pass();
  const [lowering] = (await effects(world, 'allowance')).filter((one) => one.state !== 'SETTLED');
  assert.match(lowering?.why ?? '', /^BARRED: 2 payments that .* sent are in no block yet$/);
  await world.pool.query(
    "update payonce.effects set signer = $1 where state = 'PENDING' and subject_type = 'withdrawal'",
    [left],
  );
  await world.pass();
  const [last] = (await effects(world, 'withdrawal')).slice(-1);
  assert.match(`${last?.state} ${last?.why}`, /^PENDING RELAYER_HELD: alw_/);
  await world.anvil.mine(3);
  await world.pass();
  for (let pass = 0; pass < 6; pass += 1) {
    await world.pass();
    await world.anvil.mine(3);
    await new Promise((resolve) => setTimeout(resolve, 120));
  }
  assert.equal(await its.allowed(left), 0n);
  assert.equal((await world.paid()).length, 2, 'what was sent before was paid, what came after waits');
  await its.decide(kept, 'max');
  await world.drain();
  assert.equal((await world.paid()).length, 3);
  assert.equal((await effects(world, 'withdrawal')).at(-1)?.signer, kept);
  const { rows } = await world.pool.query<{ kind: string }>(
    "select kind from payonce.effect_evidence where kind = 'REVERTED_FINAL'",
  );
  assert.deepEqual(rows, [], 'nothing failed in its block');
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('an allowance that is called off before its seal ends quietly, and its relayer is held no longer (req R2)', async (t) => {
  const its = await scene(t, false);
  const { world, relayers } = its;
  await its.decide(relayers[0], 'max');
  await world.drain();
  await its.decide(relayers[0], '0');
  const { rows } = await world.pool.query<{ id: string }>(
    "select subject_id as id from payonce.effects where state = 'PENDING'",
  );
  assert.equal(await cancelSubject(its.engine, 'allowance', 'par_own', rows[0]?.id ?? '', 'operator'), 'cancelled');
  await pay(its, 2);
  await world.drain();
  assert.equal((await world.paid()).length, 2);
  assert.equal(await its.allowed(relayers[0]), UNITS_MAX - 2_000_000n);
});

test('over TRON an allowance is given, changed and taken away; it costs what a call costs, the comparison with the chain is clean (req R11, R15)', async () => {
  const one = await startTronApp({
    label: 'allow_tron',
    token: { strictAllowance: true },
    asset: { relayers: [RELAYER] },
  });
  const { app, chain, tron, master } = one;
  tron.fund(RELAYER, 1_000n * TRX);
  await addPeople(app.engine);
  await one.fund(100n * TRX);
  const wish = { chain: chain.chain, rail: chain.rail.name, wallet: master, relayer: RELAYER, asset: 'USDT' };
  const to = one.stranger;
  const [made] = await createWithdrawals(app.engine, [
    {
      partnerId: PARTNER,
      idempotencyKey: 'k1',
      fingerprint: '',
      externalId: null,
      purpose: 'customer',
      assetId: one.tokenAssetId,
      amount: 2_000_000n,
      destination: to,
      reference: null,
    },
  ]);
  assert.equal(made?.outcome, 'created');
  await one.pass();
  assert.match(
    (await effects(app.engine))[0]?.why ?? '',
    /^ALLOWANCE_SHORT: .* move 0 USDT, 2 USDT are needed\..*payonce wallet approve --chain tron:0x/,
  );
  assert.match(await decideOn(app.engine, { ...wish, amount: '3' }), /sets it: /);
  await one.drain();
  assert.match(await decideOn(app.engine, { ...wish, amount: 'max' }), /to 0 first/);
  await one.drain();
  assert.match(await decideOn(app.engine, { ...wish, amount: '0' }), /sets it: /);
  await one.drain();
  assert.deepEqual(
    (await effects(app.engine)).map((seen) => `${seen.subject_type} ${seen.state} ${seen.signer}`),
    [`withdrawal SETTLED ${RELAYER}`, ...Array.from({ length: 4 }, () => `allowance SETTLED ${master}`)],
  );
  const told = await chain.rail.allowances?.ask({ contract: one.token, wallet: master, relayer: RELAYER, units: 1n });
  assert.deepEqual(told, { units: 0n, takes: true });
  const paid = (await tron.books.movements()).filter((moved) => moved.to === to && moved.from === master);
  assert.equal(paid.length, 1);
  assert.deepEqual(await one.rows('select address from payonce.signers where quarantined_at is not null'), []);
  const [wired] = reconciledChains(app);
  const reports = await reconcileChain({ pool: app.pool }, wired ?? assert.fail(), { wallets: [master], from: 20n });
  assert.deepEqual(
    reports
      .flatMap((report) => report.findings.map((finding) => `${finding.kind} ${finding.detail}`))
      .filter((kind) => !/^(?:ledger|balance|unproved)/.test(kind)),
    [],
    'each transaction of the wallet is an effect of ours, and its cost is booked',
  );
  await one.end();
});
