/*
 * Goal: over TRON, whose nodes tell balances of their solid head alone, comparing finds exactly what was planted, TRX and TRC-20, per
 * partner; a clean range has nothing and adds up to the sun, burned energy and bandwidth included; and a report never calls equal
 * what it could not compare. A solid block that changes, nodes that disagree and a restored backup stop new payments.
 * Method: the application over the simulated TRON; then somebody acts by hand, and the chain's own books are the judge.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeChainWatch } from '../../src/audit/reconcile/chain-watch.ts';
import { type ChainReport, howCompared } from '../../src/audit/reconcile/chain-report.ts';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import { openRepairCase } from '../../src/audit/repair/index.ts';
import { makePool } from '../../src/db/pool.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { recheckSettledOnce } from '../../src/engine/vanished.ts';
import { createWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { openApp } from '../../src/main/serve.ts';
import { registerChain } from '../../src/main/register.ts';
import type { App } from '../../src/main/wire.ts';
import { reconciledChains } from '../../src/main/wire-reconcile.ts';
import { devKeys } from '../../src/rails/dev-keys.ts';
import { canonicalAddress } from '../../src/rails/tron/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { testDatabase } from '../support/postgres.ts';
import { PARTNER, RELAYER, startTronApp, TRX, type TronApp, type TronAppOptions } from '../support/tron-app.ts';
import { said } from './chain-scene.ts';

const OTHER_PARTNER = 'par_other';
const SETTLED_AT = canonicalAddress(`0x${'5e77'.padEnd(40, '7')}`);
/** A master wallet of the other partner. */
const OTHER_MASTER = RELAYER;

interface Scene extends TronApp {
  /** Pays; answers the subject's id. */
  order(fields?: Partial<WithdrawalRequest>): Promise<string>;
  scan(): Promise<void>;
  compare(wallets: readonly string[], range?: { from?: bigint; to?: bigint }): Promise<ChainReport[]>;
  /** Somebody has the key and does this; answers the transaction's id. */
  byHand(owner: string, to: string, what: { sun: bigint } | { units: bigint }): string;
  solid(): bigint;
}

async function orderOn(app: App, fields: Partial<WithdrawalRequest> & { assetId: string; destination: string }) {
  const key = `order-${Math.random()}`;
  const [made] = await createWithdrawals(app.engine, [
    {
      partnerId: PARTNER,
      idempotencyKey: key,
      fingerprint: key,
      externalId: null,
      purpose: 'customer',
      amount: TRX,
      reference: null,
      ...fields,
    },
  ]);
  assert.ok(made?.outcome === 'created', JSON.stringify(made));
  return made.id;
}

/** The wallets' openings are booked, and the partner has some of each. */
async function startScene(label: string, options: Partial<TronAppOptions> = {}): Promise<Scene> {
  const one = await startTronApp({ label, gasWallet: true, ...options });
  const { app, chain } = one;
  const coin = chain.coinAssetId;
  await one.rows("insert into payonce.partners (id, name) values ($1, 'Another partner')", [OTHER_PARTNER]);
  for (const [address, kind, partner] of [
    [SETTLED_AT, 'SETTLEMENT', PARTNER],
    [OTHER_MASTER, 'MASTER', OTHER_PARTNER],
  ])
    await one.rows('insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, $4, $5)', [
      app.engine.makeId('adr'),
      chain.chain,
      address,
      kind,
      partner,
    ]);
  one.tron.fund(OTHER_MASTER, 500n * TRX);
  one.tron.fundToken(one.token, OTHER_MASTER, 900n * TRX);
  one.mine(25);
  await app.pool.tx('openings', async (tx) => {
    for (const [wallet, partner] of [
      [one.master, PARTNER],
      [OTHER_MASTER, OTHER_PARTNER],
    ] as const)
      for (const assetId of [coin, one.tokenAssetId]) {
        const [custody, owed] = await app.engine.chart.ids(tx, [
          accountName.custody(chain.chain, wallet, assetId),
          accountName.partner(partner, assetId),
        ]);
        assert.ok(custody !== undefined && owed !== undefined);
        const units = one.tron.books.balanceAt(wallet, assetId === coin ? 'native' : one.token);
        const entries = [
          { accountId: custody, amount: -units },
          { accountId: owed, amount: units },
        ];
        await post(tx, [
          {
            kind: 'post',
            key: `MIGRATED:${wallet}:${assetId === coin ? 'trx' : 'usdt'}`,
            reference: 'opening',
            entries,
          },
        ]);
      }
  });
  await chain.scanner.runOnce();
  const [reconciled] = reconciledChains(app);
  assert.ok(reconciled);
  return {
    ...one,
    order: (fields = {}) => orderOn(app, { assetId: one.tokenAssetId, destination: one.stranger, ...fields }),
    async scan() {
      one.mine(25);
      const { outcome, why } = await chain.scanner.runOnce();
      assert.ok(['scanned', 'idle'].includes(outcome), why ?? outcome);
    },
    compare: (wallets, range = {}) => reconcileChain({ pool: app.pool }, reconciled, { wallets, ...range }),
    byHand: (owner, to, what) =>
      one.tron.act(
        owner,
        'sun' in what ? { kind: 'send', to, sun: what.sun } : { kind: 'send_token', token: one.token, to, ...what },
      ),
    solid: () => BigInt(one.tron.solid().number),
  };
}

function sumsIn(report: ChainReport | undefined, assetId: string) {
  const sums = report?.sums.find((one) => one.assetId === assetId);
  assert.ok(sums, `no sums of ${assetId}`);
  return sums;
}

async function burnedBy(one: Scene, payer: string, from: bigint, to: bigint): Promise<bigint> {
  const inBlock = new Map(one.tron.books.transactions().map(({ tx, block }) => [tx, BigInt(block)]));
  return (await one.tron.books.costs())
    .filter((cost) => cost.payer === payer)
    .filter(({ tx }) => (inBlock.get(tx) ?? 0n) >= from && (inBlock.get(tx) ?? 0n) <= to)
    .reduce((sum, { amount }) => sum + amount, 0n);
}

const GAS = /^gas_unbooked /;

test('a clean range has nothing, and IN less OUT less what was burned is the balance to the sun (req R11, inv I2)', async () => {
  const one = await startScene('tron_clean');
  const coin = one.chain.coinAssetId;
  const [first] = await one.compare([one.master], { from: one.solid() });
  const opening = sumsIn(first, coin);
  assert.deepEqual([opening.openingFrom, opening.difference, opening.ledgerDifference], ['untold', null, 0n]);
  assert.match(
    howCompared(opening),
    /^not compared: the chain told the balance at block \d+, but no node tells the opening/,
  );
  assert.deepEqual(said(first === undefined ? [] : [first]), []);
  const from = (first?.to ?? 0n) + 1n;

  for (let count = 1n; count <= 3n; count += 1n) await one.order({ amount: 2n * TRX + count });
  await one.order({ purpose: 'settlement', destination: SETTLED_AT, amount: 5n * TRX });
  await one.order({ assetId: coin, amount: 7n * TRX + 1n });
  await one.drain();
  // One payment that fails in its block: nothing moves, and what it burned is booked.
  const heal = one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind: 'end_as', result: 'OUT_OF_ENERGY' } });
  await one.order({ amount: TRX });
  await one.drain();
  heal();
  one.byHand(one.gas, one.master, { sun: 11n * TRX });
  await one.scan();

  const [master, settlement] = await one.compare([one.master, SETTLED_AT], { from });
  assert.ok(master && settlement);
  assert.deepEqual(said([master, settlement]), []);
  const [trx, usdt] = [sumsIn(master, coin), sumsIn(master, one.tokenAssetId)];
  const burned = await burnedBy(one, one.master, from, master.to);
  assert.ok(burned > 0n && trx.cost === burned, `${trx.cost} of ${burned} sun burned`);
  assert.deepEqual(
    [trx.came, trx.went, trx.closing],
    [11n * TRX, 7n * TRX + 1n, one.tron.books.balanceAt(one.master, 'native', Number(master.to))],
  );
  assert.equal(usdt.went, 12n * TRX + 6n);
  for (const sums of [trx, usdt]) {
    assert.deepEqual([sums.openingFrom, sums.difference, sums.ledgerDifference], ['report', 0n, 0n]);
    assert.match(howCompared(sums), /the opening is what it told an earlier run at block/);
  }
  assert.equal(sumsIn(settlement, one.tokenAssetId).openingFrom, 'first_movement');

  // An end below the head: the chain tells the head's balance only, and what moved since is taken off.
  await one.order({ amount: 3n * TRX });
  await one.order({ assetId: coin, amount: 4n * TRX });
  await one.drain();
  await one.scan();
  const [past] = await one.compare([one.master], { from, to: master.to - 3n });
  for (const assetId of [coin, one.tokenAssetId]) {
    const sums = sumsIn(past, assetId);
    assert.ok(sums.told !== null && sums.told.block.number > sums.to);
    assert.deepEqual([sums.difference, sums.ledgerDifference], [0n, 0n]);
    assert.equal(
      sums.closing,
      one.tron.books.balanceAt(one.master, assetId === coin ? 'native' : one.token, Number(master.to) - 3),
    );
  }
  assert.deepEqual(said(past === undefined ? [] : [past]), []);
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});

test('doubles and orphans of TRX and of a token are found exactly, per partner, with block and transaction (req R11)', async () => {
  const one = await startScene('tron_planted');
  const coin = one.chain.coinAssetId;
  await one.compare([one.master, OTHER_MASTER], { from: one.solid() });
  const from = one.solid() + 1n;
  await one.order({ purpose: 'settlement', destination: SETTLED_AT, amount: 5n * TRX });
  await one.order({ assetId: coin, amount: 6n * TRX });
  await one.drain();
  const planted = [
    one.byHand(one.master, SETTLED_AT, { units: 5n * TRX }),
    one.byHand(one.master, one.stranger, { sun: 6n * TRX }),
    one.byHand(one.master, one.stranger, { sun: 123n }),
    one.byHand(OTHER_MASTER, one.stranger, { units: 9n * TRX + 1n }),
    one.byHand(one.stranger, one.gas, { sun: 77n }),
  ];
  await one.scan();
  const reports = await one.compare([one.master, OTHER_MASTER, one.gas], { from });
  const [master, other] = reports;
  assert.deepEqual(
    said(reports)
      .filter((text) => !GAS.test(text))
      .sort(),
    [
      `double out 5 USDT ${PARTNER}`,
      `double out 6 TRX ${PARTNER}`,
      // Nobody booked what the wallet for fees had before us.
      'ledger - -10000 TRX -',
      'orphan out 0.000123 TRX -',
      `orphan out 9.000001 USDT ${OTHER_PARTNER}`,
      'unknown_inflow in 0.000077 TRX -',
    ],
  );
  // What is left over is no opening that anybody told: the next run has one, and only then may people book it.
  const booking = async (report: ChainReport | undefined): Promise<string | null> => {
    const id = String(report?.findingIds[report.findings.findIndex(({ kind }) => kind === 'ledger')]);
    const detail = { finding: id, as: 'treasury', reason: 'the opening' };
    return openRepairCase(one.app.pool, one.app.engine.makeId, id, detail).then(
      () => null,
      (error: Error) => error.message,
    );
  };
  assert.match((await booking(reports[2])) ?? '', /no node told the report of finding \d+ what the wallet had/);
  const [again] = await one.compare([one.gas]);
  assert.deepEqual(said(again === undefined ? [] : [again]), ['ledger - -10000 TRX -']);
  assert.equal(await booking(again), null);

  const found = reports.flatMap((report) => report.findings).filter(({ txHash }) => txHash !== null);
  const inBlock = new Map(one.tron.books.transactions().map(({ tx, block }) => [tx, BigInt(block)]));
  assert.deepEqual(new Set(found.map(({ txHash }) => txHash)), new Set(planted));
  for (const { txHash, blockNumber } of found) assert.equal(blockNumber, inBlock.get(txHash ?? ''));
  // What the acts by hand burned is found to the sun, and nothing else.
  for (const report of [master, other]) {
    const gas = report?.findings.filter(({ kind }) => kind === 'gas_unbooked') ?? [];
    const costs = (await one.tron.books.costs()).filter(
      ({ payer, tx }) => payer === report?.wallet.address && planted.includes(tx),
    );
    assert.deepEqual(
      gas.map(({ txHash, amount }) => `${txHash} ${amount}`).sort(),
      costs.map(({ tx, amount }) => `${tx} ${amount}`).sort(),
    );
    for (const sums of report?.sums ?? []) assert.deepEqual([sums.difference, sums.ledgerDifference], [0n, 0n]);
  }
  const alerts = await one.rows("select 1 from payonce.alerts where kind = 'chain_reconcile' and cleared_at is null");
  assert.equal(alerts.length, 3);
  assert.deepEqual(
    said(await one.compare([one.master], { from, to: (master?.findings[0]?.blockNumber ?? 0n) - 1n })),
    [],
  );
  await one.end();
});

test('the scheduled watch compares wallets on TRON from where it ended, though balances of the past are not told (req R11)', async () => {
  const one = await startScene('tron_watch');
  const watch = makeChainWatch({ pool: one.app.pool, log: silentLog }, reconciledChains(one.app));
  const runAll = async () => {
    await one.rows('update payonce.chain_checks set next_at = payonce.now()');
    return watch.runOnce();
  };
  await watch.runOnce();
  await one.rows('update payonce.chain_checks set next_block = $1', [one.solid()]);
  await runAll();
  await one.order({ amount: 5n * TRX });
  await one.drain();
  one.byHand(one.master, one.stranger, { sun: 8n });
  await one.scan();
  const reports = await runAll();
  const master = reports.find((report) => report.wallet.address === one.master);
  assert.deepEqual(
    said(master === undefined ? [] : [master]).filter((text) => !GAS.test(text)),
    ['orphan out 0.000008 TRX -'],
  );
  const trx = sumsIn(master, one.chain.coinAssetId);
  assert.deepEqual([trx.openingFrom, trx.difference, trx.ledgerDifference], ['report', 0n, 0n]);
  await one.end();
});

test('what moved before comparing began is in the opening, and no later run of the watch calls it unrecorded (req R11)', async () => {
  const one = await startScene('tron_opening', {
    prepare: (tron, token) => {
      const [from = '', to = ''] = [2, 0].map((at) => canonicalAddress(devKeys()[at]?.address ?? ''));
      tron.act(from, { kind: 'send_token', token, to, units: 3n * TRX });
      return Promise.resolve({});
    },
  });
  const watch = makeChainWatch({ pool: one.app.pool, log: silentLog }, reconciledChains(one.app));
  await one.scan();
  await watch.runOnce();
  for (let run = 0; run < 3; run += 1) {
    await one.rows('update payonce.chain_checks set next_at = payonce.now()');
    // The wallet for fees and the other one are no matter here: nobody booked what the first had.
    const reports = (await watch.runOnce()).filter(({ wallet }) => wallet.address === one.master);
    assert.equal(reports.length, 1);
    assert.deepEqual(said(reports), []);
    await one.scan();
  }
  await one.end();
});

test('an end far below the head is not compared and not called equal (req R11)', async () => {
  const one = await startScene('tron_far');
  const to = one.solid();
  one.tron.mine(2_100);
  const [report] = await one.compare([one.master], { from: to - 2n, to });
  assert.ok(report);
  assert.deepEqual(said([report]), []);
  const trx = sumsIn(report, one.chain.coinAssetId);
  assert.deepEqual(
    [trx.closing, trx.difference, trx.ledgerDifference, report.comparedLedger],
    [null, null, null, false],
  );
  assert.match(howCompared(trx), /^not compared: no node tells the balance at block \d+, which is far below the head/);
  await one.end();
});

test('a movement that the scan left out is read again from its block, booked by its own path, and once (req R11, W11)', async () => {
  const one = await startScene('tron_unrecorded');
  await one.compare([OTHER_MASTER], { from: one.solid() });
  const from = one.solid() + 1n;
  const late = canonicalAddress(`0x${'1a7e'.padEnd(40, '1')}`);
  one.byHand(one.stranger, late, { sun: 40n * TRX });
  one.byHand(one.stranger, late, { units: 50n * TRX });
  await one.scan();
  await one.rows(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ('adr_late', $1, $2, 'MASTER', $3)",
    [one.chain.chain, late, OTHER_PARTNER],
  );
  const [report] = await one.compare([late], { from });
  assert.deepEqual(
    said(report === undefined ? [] : [report])
      .filter((text) => text.startsWith('unrecorded'))
      .sort(),
    [`unrecorded in 40 TRX ${OTHER_PARTNER}`, `unrecorded in 50 USDT ${OTHER_PARTNER}`],
  );
  const [finding] = report?.findings ?? [];
  assert.match(
    finding?.detail ?? '',
    new RegExp(`it is DEPOSIT; .* payonce deposits rescan --chain ${one.chain.chain} --from (\\d+) --to \\1$`),
  );
  const block = finding?.blockNumber ?? 0n;
  const before = await one.balance(`partner:${OTHER_PARTNER}`, one.tokenAssetId);
  const first = await one.chain.scanner.rescan(block, block);
  assert.deepEqual([first.outcome, first.credited], ['scanned', 2]);
  const again = await one.chain.scanner.rescan(block, block);
  assert.deepEqual([again.outcome, again.credited, again.transfers], ['scanned', 0, 0]);
  assert.equal(await one.balance(`partner:${OTHER_PARTNER}`, one.tokenAssetId), before + 50n * TRX);
  assert.deepEqual(said(await one.compare([late], { from })), []);
  const next = await one.chain.scanner.rescan(one.solid() + 5n, one.solid() + 6n);
  assert.deepEqual([next.outcome, next.credited], ['idle', 0]);
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});

async function stopOf(one: TronApp): Promise<string> {
  const [rail] = await one.rows<{ reason: string | null }>(
    'select seals_stopped_reason as reason from payonce.rails where name = $1',
    [one.chain.rail.name],
  );
  return rail?.reason ?? 'runs';
}
async function casesOf(one: TronApp): Promise<string[]> {
  const rows = await one.rows<{ what: string }>(
    "select subject_key as what from payonce.cases where kind = 'broken_finality' and closed_at is null order by 1",
  );
  return rows.map(({ what }) => what);
}

test('a solid block that changed stops new payments and the scan, and what was settled in it is a case (case F5, design §2)', async () => {
  const one = await startScene('tron_broken');
  const kept = await one.order({ amount: 5n * TRX });
  await one.drain();
  await one.scan();
  await one.order({ amount: 6n * TRX });
  await one.drain();
  const settled = (await one.tron.books.movements()).find(
    ({ from, amount }) => from === one.master && amount === 6n * TRX,
  );
  const rail = [...one.app.engine.rails.values()].find(({ name }) => name === one.chain.rail.name);
  assert.ok(settled && rail);
  assert.equal(await recheckSettledOnce(one.app.engine, rail), 0, 'nothing is asked without a doubt');
  await one.chain.scanner.runOnce();
  const depth =
    one.tron.head().number - (one.tron.books.transactions().find(({ tx }) => tx === settled.tx)?.block ?? 0) + 1;
  one.tron.fork(depth, { beyondSolid: true, comesBack: false });
  one.mine(3);
  assert.equal((await one.chain.scanner.runOnce()).outcome, 'halted');
  assert.match(await stopOf(one), /^finality was broken: final block \d+ is another one than was read before/);
  assert.deepEqual(await casesOf(one), [one.chain.chain]);
  const waits = await one.order({ amount: TRX });
  await one.pass();
  const [held] = await one.rows<{ state: string; wait_reason: string }>(
    'select state, wait_reason from payonce.effects where subject_id = $1',
    [waits],
  );
  assert.equal(held?.state, 'PENDING');
  assert.match(held?.wait_reason ?? '', /^SEALS_STOPPED: finality was broken/);

  // The settled payment is told of, its own bytes go out again, and when they are solid once more the case is closed.
  assert.equal(await recheckSettledOnce(one.app.engine, rail), 1);
  assert.equal((await casesOf(one)).length, 2);
  one.mine(25);
  assert.equal(await recheckSettledOnce(one.app.engine, rail), 0);
  assert.deepEqual(await casesOf(one), [one.chain.chain]);
  const paid = (await one.tron.books.movements()).filter(
    ({ from, asset }) => from === one.master && asset === one.token,
  );
  assert.deepEqual(
    paid.map(({ amount }) => amount),
    [5n * TRX, 6n * TRX],
    kept,
  );
  assert.match(await stopOf(one), /^finality was broken/, 'a person lets it go on');
  await one.end();
});

test('a settled payment whose bytes have expired when its block goes is a case that says so, and nothing is sent (design §2)', async () => {
  const one = await startScene('tron_expired');
  await one.order({ amount: 6n * TRX });
  await one.drain();
  await one.scan();
  // Past the expiration and the margin in the chain's own time.
  one.mine(100);
  await one.chain.scanner.runOnce();
  const [settled] = (await one.tron.books.movements()).filter(
    ({ from, asset }) => from === one.master && asset === one.token,
  );
  const block = one.tron.books.transactions().find(({ tx }) => tx === settled?.tx)?.block ?? 0;
  one.tron.fork(one.tron.head().number - block + 1, { beyondSolid: true, comesBack: false });
  one.mine(3);
  assert.equal((await one.chain.scanner.runOnce()).outcome, 'halted');
  const rail = [...one.app.engine.rails.values()].find(({ name }) => name === one.chain.rail.name);
  assert.ok(rail);
  const sent = one.tron.calls.broadcast ?? 0;
  assert.equal(await recheckSettledOnce(one.app.engine, rail), 1);
  assert.equal(one.tron.calls.broadcast ?? 0, sent, 'bytes that expired are not sent');
  const [told] = await one.rows<{ summary: string }>(
    "select summary from payonce.cases where kind = 'broken_finality' and effect_id is not null",
  );
  assert.match(told?.summary ?? '', /Nothing is sent again \(.*(expired).*two persons unwind it/);
  await one.end();
});

test('nodes that show two solid blocks of one height stop new payments until they agree, with a case meanwhile (case F5)', async () => {
  const one = await startScene('tron_disagree');
  one.mine(3);
  const heal = one.tron.script({ on: 'solid', node: 'b', fault: { kind: 'other_branch' } });
  assert.equal((await one.chain.scanner.runOnce()).outcome, 'halted');
  assert.match(await stopOf(one), /^its nodes disagree: block \d+ was read as/);
  assert.deepEqual(await casesOf(one), [`${one.chain.chain}:nodes`]);
  const id = await one.order({ amount: TRX });
  await one.pass();
  const stateOf = async () =>
    (await one.rows<{ state: string }>('select state from payonce.effects where subject_id = $1', [id]))[0]?.state;
  assert.equal(await stateOf(), 'PENDING');
  await assert.rejects(
    one.compare([one.master], { from: one.solid() }),
    /cannot be compared now: block \d+ was read as/,
  );
  heal();
  one.mine(1);
  await one.chain.scanner.runOnce();
  assert.deepEqual([await stopOf(one), await casesOf(one)], ['runs', []]);
  await one.drain();
  assert.equal(await stateOf(), 'SETTLED');
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});

test('a restored older backup lists the outflow that it lacks within one scan, and pays nothing from that wallet (case B13, inv E2)', async (t) => {
  const one = await startScene('tron_backup');
  await one.scan();
  const restored = await testDatabase('tron_restored');
  const app = await openApp(one.config, { url: restored.url, stop: () => Promise.resolve() });
  const pool = makePool({ url: restored.url, ports: systemPorts(), log: silentLog, connectionsMax: 2 });
  t.after(async () => {
    await pool.end();
    await app.close();
    await restored.drop();
  });
  for (const table of ['partners', 'addresses', 'scan_cursors', 'scanned_blocks']) {
    const rows = await one.rows<{ line: unknown }>(`select to_jsonb(t) as line from payonce.${table} t`);
    await pool.query(
      `insert into payonce.${table} select r.* from jsonb_populate_recordset(null::payonce.${table}, $1::jsonb) r on conflict do nothing`,
      [JSON.stringify(rows.map((row) => row.line))],
    );
  }
  const [chain] = app.chains;
  assert.ok(chain);
  await registerChain(app, chain);
  await pool.tx('opening', async (tx) => {
    const [custody, owed] = await app.engine.chart.ids(tx, [
      accountName.custody(chain.chain, one.master, one.tokenAssetId),
      accountName.partner(PARTNER, one.tokenAssetId),
    ]);
    assert.ok(custody !== undefined && owed !== undefined);
    const entries = [
      { accountId: custody, amount: -100n * TRX },
      { accountId: owed, amount: 100n * TRX },
    ];
    await post(tx, [{ kind: 'post', key: 'MIGRATED:backup', reference: 'opening', entries }]);
  });

  await one.order({ amount: 3n * TRX });
  await one.drain();
  one.mine(25);
  const from = one.solid() - 60n;
  await chain.scanner.runOnce();
  const { rows } = await pool.query<{ what: string }>(
    "select kind || ' ' || key as what from payonce.alerts where cleared_at is null and kind in ('unknown_outbound', 'signer_quarantined') order by 1",
  );
  const [paid] = (await one.tron.books.movements()).filter(
    ({ amount, asset }) => asset === one.token && amount === 3n * TRX,
  );
  assert.deepEqual(
    rows.map(({ what }) => what),
    [`signer_quarantined ${chain.rail.name}:${one.master}`, `unknown_outbound ${chain.chain}:${paid?.tx}:0`],
  );
  const [reconciled] = reconciledChains(app);
  assert.ok(reconciled);
  const reports = await reconcileChain({ pool }, reconciled, { wallets: [one.master], from });
  assert.deepEqual(
    said(reports).filter((text) => text.startsWith('orphan')),
    ['orphan out 3 USDT -'],
  );
  const id = await orderOn(app, { assetId: one.tokenAssetId, destination: one.stranger });
  const pass = async (): Promise<string | undefined> => {
    for (const rail of app.engine.rails.values()) await advanceOnce(app.engine, rail);
    const { rows: effects } = await pool.query<{ state: string }>(
      'select state from payonce.effects where subject_id = $1',
      [id],
    );
    return effects[0]?.state;
  };
  assert.equal(await pass(), 'PENDING');
  // It is the quarantine that holds it: a person lifts it.
  await pool.query('update payonce.signers set quarantined_at = null, quarantine_reason = null');
  assert.equal(await pass(), 'SEALED');
  await one.end();
});
