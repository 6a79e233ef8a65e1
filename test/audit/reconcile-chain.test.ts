/*
 * Goal: comparing wallets with a real chain finds exactly what was planted, in both directions and to the unit, and nothing in a
 * clean range; two persons book what was found, once. Method: the engine pays on a real chain, the scan and the books beside it;
 * then somebody with the key acts by hand, a record is forged, a backup is restored.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { mintTokens, sendAndMine } from '../../sim/evm-send.ts';
import { makeChainWatch } from '../../src/audit/reconcile/chain-watch.ts';
import { toChainCsv } from '../../src/audit/reconcile/chain-report.ts';
import { listOpenFindings, openRepairCase } from '../../src/audit/repair/index.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { raiseAlert } from '../../src/engine/alerts.ts';
import type { Operator } from '../../src/engine/operators.ts';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import { quarantineWallet } from '../../src/engine/quarantine.ts';
import { makeScanner } from '../../src/flows/deposits/index.ts';
import { makePool } from '../../src/db/pool.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeChart } from '../../src/ledger/accounts.ts';
import { assertBooksClean } from '../support/books.ts';
import { CHAIN, RAIL, textIn } from '../support/deposit-scene.ts';
import { testDatabase } from '../support/postgres.ts';
import { type ChainScene, E18, said, startChainScene } from './chain-scene.ts';
import { plantSettled } from './planted-chain.ts';

const open: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.end();
});
async function scene(label: string): Promise<ChainScene> {
  const made = await startChainScene(label);
  open.push(made);
  return made;
}

async function twoPersons(one: ChainScene): Promise<[Operator, Operator]> {
  const people: [Operator, Operator] = [
    { id: 'op_1', name: 'Ada', role: 'operator' },
    { id: 'op_2', name: 'Bea', role: 'approver' },
  ];
  for (const person of people)
    await one.pool.query('insert into payonce.operators (id, name, key_hash, role) values ($1, $2, $1, $3)', [
      person.id,
      person.name,
      person.role,
    ]);
  return people;
}

async function repair(one: ChainScene, people: [Operator, Operator], finding: string, detail: Record<string, string>) {
  const caseId = await openRepairCase(one.pool, one.engine.makeId, finding, null);
  const made = await propose(one.engine, people[0], caseId, 'repair', {
    reason: 'seen on the chain',
    finding,
    ...detail,
  });
  return approve(one.engine, people[1], made.proposalId);
}

test('a clean range has no finding, and IN less OUT is the balance to 18 decimals, in the ledger too (req R11, inv I2, case H9)', async () => {
  const one = await scene('reconcile_clean');
  for (let count = 1n; count <= 4n; count += 1n) await one.order({ amount: 3n * E18 + count });
  await one.order({ purpose: 'customer', destination: one.stranger, amount: 7n * E18 + 123_456_789n });
  await one.drain();
  await one.byHand(one.payer, one.masterAddress, 11n * E18 + 1n);
  await one.scan();
  const [master, settlement] = await one.compare([one.masterAddress, one.settlement]);
  assert.ok(master && settlement);
  assert.deepEqual(said([master, settlement]), []);
  const sums = master.sums.find((each) => each.assetId === 'bsc');
  assert.deepEqual(
    [sums?.came, sums?.went, sums?.difference, sums?.ledgerDifference, sums?.closing],
    [11n * E18 + 1n, 19n * E18 + 123_456_799n, 0n, 0n, sums?.booked],
  );
  assert.deepEqual(
    [
      master.counts.outflows,
      master.counts.byEffect,
      master.counts.inflows,
      master.counts.byRecord,
      master.counts.transactions,
    ],
    [5, 5, 1, 1, 5],
  );
  const coin = master.sums.find((each) => each.assetId === 'coin');
  assert.ok(coin !== undefined && coin.cost > 0n, 'what gas took is in the sums, and booked');
  assert.deepEqual([settlement.counts.inflows, settlement.counts.byEffect], [4, 4]);
  const alerts = await one.rows("select 1 from payonce.alerts where kind = 'chain_reconcile'");
  assert.equal(alerts.length, 0);
  await assertBooksClean(one.pool);
});

test('a double, an orphan, an inflow of nobody, a settled effect that never moved: each is found, and nothing else (req R11)', async () => {
  const one = await scene('reconcile_planted');
  await one.order({ amount: 5n * E18 });
  await one.drain();
  const again = await one.byHand(one.master, one.settlement, 5n * E18);
  await one.byHand(one.master, one.stranger, 2n * E18 + 1n);
  await one.byHand(one.payer, one.settlement, 9n);
  await one.scan();
  await plantSettled(one.pool, [
    {
      block: 0n,
      txHash: `0x${'ab'.repeat(32)}`,
      from: one.masterAddress,
      to: one.settlement,
      amount: 4n,
      subjectType: 'withdrawal',
      subjectId: 'wd_never',
      partnerId: 'par_a',
      rail: RAIL,
      chain: CHAIN,
      assetId: 'bsc',
    },
  ]);
  const reports = await one.compare([one.masterAddress, one.settlement]);
  const gas = /^gas_unbooked out 0\.\d+ ETH par_a$/;
  assert.deepEqual(
    said(reports).filter((text) => !gas.test(text)),
    [
      'double out 5 USDT-BSC par_a',
      'orphan out 2.000000000000000001 USDT-BSC par_a',
      'missing out 0.000000000000000004 USDT-BSC par_a',
      'double in 5 USDT-BSC par_a',
      'unknown_inflow in 0.000000000000000009 USDT-BSC par_a',
      'ledger - 0.000000000000000004 USDT-BSC par_a',
    ],
    'what was booked for the settled effect is too much at the receiver',
  );
  assert.equal(
    said(reports).filter((text) => gas.test(text)).length,
    2,
    'what the two acts by hand cost is not booked',
  );
  const [double] = reports[0]?.findings ?? [];
  assert.equal(double?.txHash, again);
  assert.match(
    double?.detail ?? '',
    /^withdrawal wd_\w+ was paid in block \d+ \(0x\w+\) and again; the scan says UNKNOWN_INTERNAL$/,
  );
  const csv = toChainCsv(reports).split('\r\n');
  assert.equal(csv.length, 1 + said(reports).length);
  assert.ok(csv[1]?.startsWith(`${CHAIN},${one.masterAddress},`) && csv[1].includes(`,double,out,par_a,USDT-BSC,5,`));
  const alerts = await one.rows<{ message: string }>(
    "select message from payonce.alerts where kind = 'chain_reconcile' and cleared_at is null order by key",
  );
  assert.equal(alerts.length, 2);
  // The part before the acts by hand shows nothing of them and does not clear them; what never moved is missing from any part.
  const before = await one.compare([one.masterAddress], { to: (double?.blockNumber ?? 0n) - 1n });
  assert.deepEqual(said(before), ['missing out 0.000000000000000004 USDT-BSC par_a']);
  assert.equal(
    (await one.rows("select 1 from payonce.alerts where kind = 'chain_reconcile' and cleared_at is null")).length,
    2,
  );
});

test('an outflow that moves another amount than its effect says is a mismatch, never a match by being near (req R11)', async () => {
  const one = await scene('reconcile_mismatch');
  const hash = await one.byHand(one.master, one.settlement, 6n * E18);
  await plantSettled(one.pool, [
    {
      block: 0n,
      txHash: hash,
      from: one.masterAddress,
      to: one.settlement,
      amount: 5n * E18,
      subjectType: 'withdrawal',
      subjectId: 'wd_other',
      partnerId: 'par_a',
      rail: RAIL,
      chain: CHAIN,
      assetId: 'bsc',
    },
  ]);
  await one.scan();
  const [report] = await one.compare([one.masterAddress]);
  assert.ok(report);
  assert.deepEqual(
    said([report]).filter((text) => !text.includes('ETH')),
    ['mismatch out 6 USDT-BSC par_a'],
  );
  assert.deepEqual(
    said([report])
      .filter((text) => text.includes('ETH'))
      .map((text) => text.split(' ')[0]),
    ['gas_mismatch'],
  );
});

test('two persons book an orphan once; the next report names them, and nothing is booked twice (req R18)', async () => {
  const one = await scene('reconcile_repair');
  await one.order({ amount: 5n * E18 });
  await one.drain();
  await one.byHand(one.master, one.settlement, 5n * E18);
  await one.byHand(one.master, one.stranger, 2n * E18);
  await one.scan();
  const people = await twoPersons(one);
  const wallets = [one.masterAddress, one.settlement];
  const [master] = await one.compare(wallets);
  const idOf = (kind: string): string =>
    master?.findingIds[master.findings.findIndex((finding) => finding.kind === kind)]?.toString() ?? assert.fail(kind);

  const orphan = idOf('orphan');
  await assert.rejects(
    repair(one, people, orphan, { as: 'own' }),
    /stands in suspense is booked as loss, partner or treasury/,
  );
  await assert.rejects(
    repair(one, people, idOf('double'), { as: 'loss' }),
    /both wallets are ours and custody followed the chain/,
  );
  await assert.rejects(
    repair(one, people, orphan, { as: 'partner', partner_id: 'par_x' }),
    /there is no partner par_x/,
  );
  const caseId = await openRepairCase(one.pool, one.engine.makeId, orphan, null);
  const detail = { reason: 'a leaked key', finding: orphan, as: 'loss' };
  const alone = await propose(one.engine, people[0], caseId, 'repair', detail);
  await assert.rejects(approve(one.engine, { ...people[0], role: 'approver' }, alone.proposalId), /second person/);
  assert.equal((await approve(one.engine, people[1], alone.proposalId)).outcome, 'done');
  assert.equal(await one.balance('suspense', 'bsc'), 0n);
  assert.equal(await one.balance('loss', 'bsc'), -2n * E18);
  await assert.rejects(
    repair(one, people, orphan, { as: 'loss' }),
    /was repaired by proposal prop_\w+: nothing is booked twice/,
  );

  assert.equal((await repair(one, people, idOf('double'), { as: 'own' })).outcome, 'done');
  for (const [index, finding] of (master?.findings ?? []).entries()) {
    if (finding.kind === 'gas_unbooked')
      assert.equal((await repair(one, people, String(master?.findingIds[index]), { as: 'gas' })).outcome, 'done');
  }
  const after = await one.compare(wallets);
  assert.deepEqual(said(after), []);
  assert.deepEqual(
    after[0]?.repaired.map(({ finding, repair: { bookedAs, by } }) => [finding.kind, bookedAs, ...by]),
    [
      ['double', 'own', 'Ada', 'Bea'],
      ['orphan', 'loss', 'Ada', 'Bea'],
      ['gas_unbooked', 'gas', 'Ada', 'Bea'],
      ['gas_unbooked', 'gas', 'Ada', 'Bea'],
    ],
  );
  assert.deepEqual(
    after[1]?.repaired.map(({ finding }) => [finding.kind, finding.direction]),
    [['double', 'in']],
    'the receiver’s side of a double that was booked is booked too',
  );
  assert.deepEqual(await listOpenFindings(one.pool, { chain: null, wallet: null }), []);
  const left = await one.rows("select 1 from payonce.alerts where kind = 'chain_reconcile' and cleared_at is null");
  assert.equal(left.length, 0);
  const keys = await one.rows<{ key: string }>(
    "select idem_key as key from payonce.postings where idem_key like 'REPAIR:%'",
  );
  assert.equal(keys.length, 3);
  const acts = await one.rows<{ action: string }>(
    "select action from payonce.audit_log where action like '%repair' order by seq",
  );
  assert.deepEqual([...new Set(acts.map((act) => act.action))], ['case.proposed.repair', 'case.approved.repair']);
  await assertBooksClean(one.pool, { without: ['E9'] });
});

test('inflows of nobody have one case, which ends with its alert when the last of them is booked (req R18)', async () => {
  const one = await scene('reconcile_inflows');
  const people = await twoPersons(one);
  for (const units of [9n, 7n]) await one.byHand(one.payer, one.settlement, units);
  await one.scan();
  const [report] = await one.compare([one.settlement]);
  assert.deepEqual(
    report?.findings.map((finding) => finding.kind),
    ['unknown_inflow', 'unknown_inflow'],
  );
  const left = async () => [
    ...(await one.rows<{ of: string }>('select kind as of from payonce.cases where closed_at is null')),
    ...(await one.rows<{ of: string }>('select kind as of from payonce.alerts where cleared_at is null order by kind')),
  ];
  const standing = [{ of: 'unmatched_inbound' }, { of: 'chain_reconcile' }, { of: 'unknown_inbound' }];
  assert.deepEqual(await left(), standing);
  for (const [index, id] of (report?.findingIds ?? []).entries()) {
    const done = await repair(one, people, String(id), { as: 'treasury' });
    assert.equal(done.outcome, 'done');
    assert.equal(done.outcome === 'done' && /more came there that nobody booked/.test(done.did), index === 0);
    assert.deepEqual(await left(), index === 0 ? standing : []);
  }
  assert.equal(await one.balance('treasury', 'bsc'), 16n);
});

test('an opening balance that nobody booked is a difference of the ledger, and two persons name it (req R11, R18)', async () => {
  const one = await scene('reconcile_opening');
  const people = await twoPersons(one);
  await one.scan();
  // A hole in the scan: nobody has it in the books, and the range begins after it.
  await mintTokens(one.chain, one.owner.privateKey, one.token, one.master.address, 5n);
  await one.chain.mine(10);
  const from = BigInt(textIn(await one.chain.rpc('eth_blockNumber', []))) + 1n;
  await one.pool.query('update payonce.scan_cursors set next_block = $1', [from]);
  await one.finalize();
  await one.scan();
  const [report] = await one.compare([one.masterAddress], { from });
  assert.deepEqual(said(report === undefined ? [] : [report]), ['ledger - -0.000005 USDT par_a']);
  const outcome = await repair(one, people, String(report?.findingIds[0]), { as: 'treasury' });
  assert.equal(outcome.outcome, 'done', JSON.stringify(outcome));
  assert.deepEqual(said(await one.compare([one.masterAddress], { from })), []);
  assert.equal(await one.balance('treasury', 'usdt'), 5n);
  await assertBooksClean(one.pool);
});

test('a backup without an outflow lists it within one scan, and stops the wallet (case B13, inv E2)', async () => {
  const one = await scene('reconcile_restored');
  await one.order({ purpose: 'customer', destination: one.stranger, amount: 3n * E18 });
  await one.drain();
  await one.finalize();
  const restored = await testDatabase('restored');
  const pool = makePool({ url: restored.url, ports: systemPorts(), log: one.log, connectionsMax: 4 });
  open.unshift({ end: () => pool.end().then(() => restored.drop()) });
  for (const table of ['partners', 'assets', 'rails', 'addresses', 'signers']) {
    const { rows } = await one.pool.query<{ line: unknown }>(`select to_jsonb(t) as line from payonce.${table} t`);
    await pool.query(
      `insert into payonce.${table} select r.* from jsonb_populate_recordset(null::payonce.${table}, $1::jsonb) r on conflict do nothing`,
      [JSON.stringify(rows.map((row) => row.line))],
    );
  }
  const scanner = makeScanner({
    ...one.deps,
    pool,
    chart: makeChart(),
    firstBlock: one.firstBlock,
    onUnknownMovement: (tx, moved) => quarantineWallet(tx, one.deps, { ...moved, reason: moved.txHash }),
  });
  await scanner.runOnce();
  const { rows } = await pool.query<{ kind: string }>(
    "select kind from payonce.alerts where cleared_at is null and kind in ('unknown_outbound', 'signer_quarantined') order by kind",
  );
  assert.deepEqual(
    rows.map((row) => row.kind),
    ['signer_quarantined', 'unknown_outbound'],
  );
  const reports = await reconcileChain({ pool }, one.reconciled, {
    wallets: [one.masterAddress],
    from: one.firstBlock,
  });
  assert.deepEqual(
    said(reports).filter((text) => text.includes('USDT-BSC') && !text.startsWith('ledger')),
    ['orphan out 3 USDT-BSC par_a'],
  );
});

test('a wallet with less than the ledger says is compared at once, and nothing is sealed (req R14)', async () => {
  const one = await scene('reconcile_short');
  await one.byHand(one.master, one.stranger, 999n * E18);
  await one.scan();
  await one.pool.query('update payonce.signers set quarantined_at = null, quarantine_reason = null, next_nonce = 1');
  await one.order({ purpose: 'customer', destination: one.stranger, amount: 5n * E18 });
  const watch = makeChainWatch({ pool: one.pool, log: one.log }, [one.reconciled]);
  assert.equal((await watch.runOnce()).length, 0, 'nothing is due yet');
  await advanceOnce(one.engine, one.rail);
  const [waits] = await one.rows<{ state: string; wait_reason: string }>(
    'select state, wait_reason from payonce.effects',
  );
  assert.equal(waits?.state, 'PENDING');
  assert.match(waits?.wait_reason ?? '', /^ONCHAIN_INSUFFICIENT/);
  const reports = await watch.runOnce();
  assert.deepEqual(
    reports.map((report) => report.wallet.address),
    [one.masterAddress],
  );
  assert.ok(said(reports).includes('orphan out 999 USDT-BSC par_a'), said(reports).join('\n'));
  assert.equal((await watch.runOnce()).length, 0, 'and not again at once, though the shortage goes on');
  const [still] = await one.rows<{ state: string }>('select state from payonce.effects');
  assert.equal(still?.state, 'PENDING');

  // A shortage that is over is no alert any more; the next one is looked at anew.
  await raiseAlert(one.pool, 'onchain_insufficient', `${RAIL}:ONCHAIN_INSUFFICIENT:${one.settlement}`, 'a test');
  await watch.runOnce();
  const left = await one.rows<{ key: string }>(
    "select key from payonce.alerts where kind = 'onchain_insufficient' and cleared_at is null",
  );
  assert.deepEqual(
    left.map((row) => row.key),
    [`${RAIL}:ONCHAIN_INSUFFICIENT:${one.masterAddress}`],
  );
});

test('each wallet but deposit addresses is compared on schedule, by one process, from where the last run ended (req R11)', async () => {
  const one = await scene('reconcile_schedule');
  await one.own('DEPOSIT', 'par_b');
  await one.order();
  await one.drain();
  await one.scan();
  const watch = makeChainWatch({ pool: one.pool, log: one.log }, [one.reconciled]);
  await watch.runOnce();
  await one.pool.query('update payonce.chain_checks set next_at = payonce.now(), next_block = $1', [one.firstBlock]);
  const runs = await Promise.all([watch.runOnce(), watch.runOnce()]);
  assert.deepEqual(
    runs
      .flat()
      .map((report) => report.wallet.address)
      .sort(),
    [one.masterAddress, one.settlement].sort(),
  );
  assert.deepEqual(said(runs.flat()), []);
  const checks = await one.rows<{ due: boolean; next_block: bigint }>(
    'select next_at <= payonce.now() as due, next_block from payonce.chain_checks',
  );
  assert.ok(checks.every((check) => !check.due && check.next_block >= 1n));
});

test('a block that is not final, a wallet of somebody else, and a range that ends before it begins are refused with a reason', async () => {
  const one = await scene('reconcile_refused');
  await assert.rejects(one.compare([one.stranger]), /is no wallet of ours on eip155:31337/);
  await assert.rejects(one.compare(['0x12']), /--wallet: got "0x12", expected an address of eip155:31337/);
  await assert.rejects(one.compare([one.masterAddress], { to: 10n ** 9n }), /Block 1000000000 is not final/);
  await assert.rejects(one.compare([one.masterAddress], { from: 3n, to: 2n }), /not after the last/);
  await sendAndMine(one.chain, one.payer.privateKey, { to: one.owner.address, value: 1n });
  for (const node of one.nodes) await node.stop();
  await assert.rejects(
    one.compare([one.masterAddress]),
    /cannot be compared now: fewer than 1 operators tell a final block/,
  );
});
