/*
 * Goal: comparing the wallets with their chains finds the incident of the doubled fee sweeps, exactly, and nothing else. Method: the
 * incident's own figures as chains: five partners, 15 sweeps twice (13 on TRON, 2 on a chain with nonces), 508.554238 in all; a
 * settlement wallet with 82 inflows of which 62 are on record as realizations; a master wallet with 154 transfers whose balance has 18
 * decimals. TRON's half is mined on the simulated chain and read by the rail's own readers; the other is data. The scan reads the same
 * blocks first, as it does in life. The judge is the report, and TRON's own books beside it.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import type { ReconciledChain } from '../../src/audit/reconcile/chain-read.ts';
import { type ChainReport, sumByPartner, toChainJson } from '../../src/audit/reconcile/chain-report.ts';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { quarantineWallet } from '../../src/engine/quarantine.ts';
import { makeScanner } from '../../src/flows/deposits/index.ts';
import { makeIds } from '../../src/kernel/ids.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { formatUnits } from '../../src/kernel/money.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeChart } from '../../src/ledger/accounts.ts';
import { canonicalAddress } from '../../src/rails/tron/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { mineHistory, type MinedHistory } from './incident-tron.ts';
import { type Planted, type PlantedEffect, plantedNode, plantSettled } from './planted-chain.ts';

const TRON = 'tron:728126428';
const BSC = 'eip155:56';
const E12 = 10n ** 12n;
/** The first page of TRON's addresses is the chain's own. */
const address = (number: number): string => `0xa1${number.toString(16).padStart(38, '0')}`;
type ChainName = typeof TRON | typeof BSC;
const onChain = (chain: string, number: number): string =>
  chain === TRON ? canonicalAddress(address(number)) : address(number);
const TOKEN = { [TRON]: onChain(TRON, 0x70), [BSC]: onChain(BSC, 0x71) };
const SETTLEMENT = { [TRON]: onChain(TRON, 0x51), [BSC]: onChain(BSC, 0x52) };
const adminOf = (chain: string): string => onChain(chain, 0xad);
const PARTNERS = ['par_a', 'par_b', 'par_c', 'par_d', 'par_e'] as const;
const masterOf = (chain: string, partner: string): string =>
  onChain(chain, 0x100 + PARTNERS.findIndex((one) => one === partner));
const customer = (chain: string, number: number): string => onChain(chain, 0x9000 + number);

/** The doubled sweeps of each partner, in millionths; those of BSC stand there with 18 decimals. */
const DOUBLED: { partner: string; chain: ChainName; amount: bigint }[] = [
  ...spread('par_a', 289_150_214n, [TRON, TRON, TRON, TRON, TRON, BSC]),
  ...spread('par_b', 98_028_605n, [TRON, TRON, TRON, TRON]),
  ...spread('par_c', 56_804_305n, [TRON]),
  ...spread('par_d', 46_061_677n, [TRON, TRON, BSC]),
  ...spread('par_e', 18_509_437n, [TRON]),
];

/** Unequal parts that give the sum. */
function spread(partner: string, sum: bigint, chains: ChainName[]) {
  let left = sum;
  return chains.map((chain, index) => {
    const rest = BigInt(chains.length - index);
    const amount = rest === 1n ? left : left / rest - BigInt(index) * 1_003n;
    left -= amount;
    return { partner, chain, amount };
  });
}

let hashes = 0;
const nextHash = (): string => {
  hashes += 1;
  return `0x${hashes.toString(16).padStart(64, '0')}`;
};

interface History {
  readonly transfers: Planted[];
  readonly effects: PlantedEffect[];
}
const histories: Record<string, History> = {
  [TRON]: { transfers: [], effects: [] },
  [BSC]: { transfers: [], effects: [] },
};
function plant(chain: string, one: Omit<Planted, 'txHash'>, effect?: { type: string; partner: string }): void {
  const history = histories[chain];
  assert.ok(history);
  const moved = { ...one, txHash: nextHash() };
  history.transfers.push(moved);
  if (effect === undefined) return;
  const subjectId = `${effect.type}_${hashes}`;
  const at = { rail: `rail:${chain}`, chain, assetId: `usdt:${chain}` };
  history.effects.push({ ...moved, ...at, subjectType: effect.type, subjectId, partnerId: effect.partner });
}

/** What the masters have on TRON at first, from outside; then 62 sweeps, 13 of them again, and 7 inflows of our own making. */
function plantTron(): void {
  const settlement = SETTLEMENT[TRON] ?? '';
  for (const [index, partner] of PARTNERS.entries())
    plant(TRON, {
      block: BigInt(10 + index),
      from: customer(TRON, index),
      to: masterOf(TRON, partner),
      amount: 5_000_000_000n,
    });
  const doubled = DOUBLED.filter((one) => one.chain === TRON);
  const sweeps = Array.from({ length: 62 }, (_, index) => {
    const again = doubled[index];
    const partner = again?.partner ?? PARTNERS[index % PARTNERS.length] ?? '';
    return { partner, amount: again?.amount ?? BigInt(3_000_001 + index * 7_919), isDoubled: again !== undefined };
  });
  for (const [index, { partner, amount, isDoubled }] of sweeps.entries()) {
    const block = BigInt(100 + index * 3);
    const moved = { block, from: masterOf(TRON, partner), to: settlement, amount };
    plant(TRON, moved, { type: 'realization', partner });
    if (isDoubled) plant(TRON, { ...moved, block: block + 1n });
  }
  for (let index = 0; index < 7; index += 1)
    plant(TRON, { block: BigInt(400 + index), from: adminOf(TRON), to: settlement, amount: BigInt(1_000_000 + index) });
}

/** 154 transfers at the master wallet of the first partner: 100 in, 54 out, one of them a sweep that went twice. */
function plantBsc(): void {
  const master = masterOf(BSC, 'par_a');
  const settlement = SETTLEMENT[BSC] ?? '';
  const IN = 28_425_674_707_654_559_775_198n;
  const OUT = 28_179_195_396_000_000_000_000n;
  const [ofFirst, ofFourth] = DOUBLED.filter((one) => one.chain === BSC);
  assert.ok(ofFirst && ofFourth);
  const part = IN / 100n;
  for (let index = 0; index < 100; index += 1)
    plant(BSC, {
      block: BigInt(20 + index),
      from: customer(BSC, 100 + index),
      to: master,
      amount: index === 99 ? IN - 99n * part : part,
    });
  const sweep = { from: master, to: settlement, amount: ofFirst.amount * E12 };
  plant(BSC, { ...sweep, block: 130n }, { type: 'realization', partner: 'par_a' });
  plant(BSC, { ...sweep, block: 137n });
  const left = OUT - 2n * sweep.amount;
  const each = left / 52n;
  for (let index = 0; index < 52; index += 1)
    plant(
      BSC,
      {
        block: BigInt(140 + index),
        from: master,
        to: customer(BSC, 300 + index),
        amount: index === 51 ? left - 51n * each : each,
      },
      { type: 'payment', partner: 'par_a' },
    );
  const fourth = { from: masterOf(BSC, 'par_d'), to: settlement, amount: ofFourth.amount * E12 };
  plant(BSC, { block: 21n, from: customer(BSC, 7), to: fourth.from, amount: 500n * 10n ** 18n });
  plant(BSC, { ...fourth, block: 200n }, { type: 'realization', partner: 'par_d' });
  plant(BSC, { ...fourth, block: 204n });
}
plantTron();
plantBsc();

let database: TestDatabase;
let pool: Pool;
let mined: MinedHistory | undefined;
const chains = new Map<string, ReconciledChain>();
const HEAD = 500n;

before(async () => {
  database = await testDatabase('incident_reconcile');
  const ports = systemPorts();
  pool = makePool({ url: database.url, ports, log: silentLog, connectionsMax: 4 });
  const makeId = makeIds(ports.clock, ports.chance);
  await pool.tx('scene', async (tx) => {
    for (const partner of PARTNERS)
      await tx.query('insert into payonce.partners (id, name) values ($1, $1)', [partner]);
    for (const chain of [TRON, BSC]) {
      await tx.query('insert into payonce.rails (name) values ($1)', [`rail:${chain}`]);
      await tx.query('insert into payonce.assets (id, code, chain, contract, decimals) values ($1, $2, $3, $4, $5)', [
        `usdt:${chain}`,
        chain === TRON ? 'USDT' : 'USDT-BSC',
        chain,
        TOKEN[chain as ChainName],
        chain === TRON ? 6 : 18,
      ]);
      const wallets = [
        ...PARTNERS.map((partner) => [masterOf(chain, partner), 'MASTER', partner]),
        [SETTLEMENT[chain as ChainName], 'SETTLEMENT', null],
        [adminOf(chain), 'ADMIN', null],
      ];
      for (const [wallet, kind, partner] of wallets)
        await tx.query(
          'insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, $4, $5)',
          [makeId('adr'), chain, wallet, kind, partner],
        );
    }
  });
  const { transfers, effects } = histories[TRON] ?? assert.fail('no history');
  const outsiders = [...PARTNERS.map((_, index) => customer(TRON, index)), adminOf(TRON)];
  mined = await mineHistory(TRON, TOKEN[TRON], transfers, outsiders);
  chains.set(TRON, mined.chain);
  const onTron = mined;
  await plantSettled(
    pool,
    effects.map((one) => ({ ...one, ...onTron.mined(one) })),
  );
  const bsc = histories[BSC] ?? assert.fail('no history');
  await plantSettled(pool, bsc.effects);
  const firstSeconds = BigInt(Math.floor(ports.clock.now().getTime() / 1_000)) - HEAD;
  chains.set(BSC, {
    chain: BSC,
    rail: `rail:${BSC}`,
    nodes: [plantedNode({ token: TOKEN[BSC], head: HEAD, transfers: bsc.transfers, firstSeconds })],
    canonical: (text) => text.toLowerCase(),
  });
  for (const one of chains.values()) {
    const scanner = makeScanner({
      pool,
      log: silentLog,
      makeId,
      chart: makeChart(),
      ...one,
      firstBlock: 1n,
      onUnknownMovement: (tx, moved) =>
        quarantineWallet(tx, { makeId, log: silentLog }, { ...moved, reason: moved.txHash }),
    });
    for (let run = 0; run < 3; run += 1) await scanner.runOnce();
  }
});
after(async () => {
  await assertBooksClean(pool, { only: ['L1', 'L2', 'L3', 'L4', 'L7', 'L8', 'I1', 'N2'] });
  await pool.end();
  await database.drop();
  await mined?.end();
});

async function compare(chain: string, wallets: readonly string[], from = 1n): Promise<ChainReport[]> {
  const reconciled = chains.get(chain);
  assert.ok(reconciled);
  return reconcileChain({ pool }, reconciled, { wallets, from });
}
const allOf = (chain: string): string[] => [
  ...PARTNERS.map((partner) => masterOf(chain, partner)),
  SETTLEMENT[chain as ChainName] ?? '',
];

test('the 15 doubled sweeps are found, 13 on one chain and 2 on the other, and each partner’s sum to the unit (req R11)', async () => {
  const reports = [...(await compare(TRON, allOf(TRON))), ...(await compare(BSC, allOf(BSC)))];
  const findings = reports.flatMap((report) => report.findings);
  assert.deepEqual([...new Set(findings.map((one) => one.kind))], ['double'], 'and nothing else');
  const left = findings.filter((one) => one.direction === 'out');
  assert.deepEqual(
    [
      left.filter((one) => one.assetId === `usdt:${TRON}`).length,
      left.filter((one) => one.assetId === `usdt:${BSC}`).length,
    ],
    [13, 2],
  );
  const perPartner = new Map<string, { count: number; units: bigint }>();
  for (const { partnerId, assetId, count, amount } of sumByPartner(left)) {
    const before = perPartner.get(partnerId ?? '') ?? { count: 0, units: 0n };
    const units = assetId === `usdt:${TRON}` ? amount * E12 : amount;
    perPartner.set(partnerId ?? '', { count: before.count + count, units: before.units + units });
  }
  assert.deepEqual(
    [...perPartner].map(([partner, { count, units }]) => `${partner} ${count} ${formatUnits(units, 18)}`).sort(),
    ['par_a 6 289.150214', 'par_b 4 98.028605', 'par_c 1 56.804305', 'par_d 3 46.061677', 'par_e 1 18.509437'],
  );
  const total = [...perPartner.values()].reduce((sum, one) => sum + one.units, 0n);
  assert.equal(formatUnits(total, 18), '508.554238');
  for (const one of findings) {
    assert.match(
      one.detail,
      /^realization realization_\d+ was paid in block \d+ \((?:0x)?[0-9a-f]{64}\) and again; the scan says UNKNOWN_INTERNAL$/,
    );
    assert.ok(one.txHash !== null && one.blockNumber !== null && one.effect !== null);
  }
});

test('a settlement wallet with 82 inflows and 62 records: each is classed, and 13 are doubles (req R11, R10)', async () => {
  const [report] = await compare(TRON, [SETTLEMENT[TRON] ?? '']);
  assert.ok(report);
  assert.deepEqual(
    [report.counts.inflows, report.counts.byEffect, report.counts.byRecord, report.findings.length],
    [82, 62, 7, 13],
  );
  assert.ok(report.findings.every((one) => one.direction === 'in' && one.kind === 'double'));
  assert.equal(report.sums[0]?.openingFrom, 'first_movement', 'this chain tells no balance of the past');
  assert.equal(report.sums[0]?.difference, 0n);
  assert.equal(report.sums[0]?.ledgerDifference, 0n, 'custody followed the chain');
  assert.equal(report.sums[0]?.closing, await mined?.tron.books.balance(SETTLEMENT[TRON], TOKEN[TRON]));
});

test('154 transfers of a master wallet: IN less OUT is the balance to 18 decimals, in the ledger too (req R11, inv I2)', async () => {
  const [report] = await compare(BSC, [masterOf(BSC, 'par_a')]);
  const [sums] = report?.sums ?? [];
  assert.ok(report && sums);
  assert.equal(report.counts.inflows + report.counts.outflows, 154);
  const shown = (units: bigint | null): string => formatUnits(units ?? -1n, 18);
  assert.deepEqual(
    [
      shown(sums.came),
      shown(sums.went),
      shown(sums.closing),
      sums.difference,
      shown(sums.booked),
      sums.ledgerDifference,
    ],
    ['28425.674707654559775198', '28179.195396', '246.479311654559775198', 0n, '246.479311654559775198', 0n],
  );
  assert.equal(report.findings.length, 1);
});

test('a range without a double has no finding, and the same range gives the same report twice', async () => {
  const clean = await compare(BSC, allOf(BSC), 205n);
  assert.deepEqual(
    clean.map((report) => report.findings.length),
    allOf(BSC).map(() => 0),
  );
  const told = async (): Promise<string[]> =>
    (await compare(TRON, allOf(TRON))).map(({ reportId: _id, findingIds: _ids, ...report }) =>
      JSON.stringify(toChainJson(report)),
    );
  assert.deepEqual(await told(), await told());
});

test('an alert stands for each wallet with findings, until a clean run covers what was found', async () => {
  const { rows } = await pool.query<{ key: string }>(
    "select key from payonce.alerts where kind = 'chain_reconcile' and cleared_at is null order by key",
  );
  assert.equal(
    rows.length,
    9,
    'five masters and a settlement wallet on one chain, two masters and a settlement wallet on the other',
  );
  assert.ok(
    rows.some((row) => row.key === `${BSC}:${masterOf(BSC, 'par_d')}`),
    'the clean range did not cover its double',
  );
});
