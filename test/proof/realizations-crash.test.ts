/*
 * A worker dies by SIGKILL at each turn of a realization: when the night is made (KM), when it is claimed and not sealed (K0),
 * sealed and not sent (K1), sent and the answer not stored (K2), settled (K3). Method: real processes that make each night
 * themselves, a night later each time (the database's clock is moved), on a real chain; then one worker drains, and the
 * chain's own logs count. At the end what the incident sent back, 508.554238 USDT, goes from SETTLEMENT to MASTER (issue 4,
 * shows 6 and 8).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Address } from 'viem';
import { sendAndMine, tokenBalance, transferData } from '../../sim/evm-send.ts';
import { judgeNight } from '../../src/flows/realizations/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';
import { processesOn, type WorkerStarter } from '../support/processes.ts';
import { balanceOf } from '../support/world.ts';

const ROUNDS = 4;
const POINTS = {
  KM: 'db:/commit realize/:1:after',
  K0: 'db:/commit claim pending/:1:after',
  K1: 'db:/commit store variants/:1:after',
  K2: 'http:/eth_sendRawTransaction/:1:after',
  K3: "db:/state = 'SETTLED'>commit record/:1:after",
} as const;
const ROLES = 'scheduler,sender,watcher';
const DAY_MS = 86_400_000;
const DRAIN_MS_MAX = 120_000;
const FEE = 60_000_000n;
const RETURNED = 508_554_238n;

async function workersAt(world: EvmWorld, settlement: string, night: number): Promise<WorkerStarter> {
  const url = new URL(world.url);
  url.searchParams.set('options', `-c payonce.clock_shift_ms=${night * DAY_MS}`);
  const amounts = { min: '0.000001', max: '1000000', dayMax: '1000000000', feeFlat: '0', feeBasisPoints: 0 };
  return processesOn(url.href, {
    chains: [
      {
        chainId: String(world.anvil.chainId),
        nodes: world.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
        finality: { tag: 'finalized' },
        feeCapWei: '1000000000000',
        gasLimitCap: '1000000',
        lookEveryMs: 200,
        resendAfterMs: 1_000,
        assets: [
          { code: 'USDT', contract: world.token, decimals: 6, wallet: world.wallet, withdrawal: amounts },
          { code: 'COIN', contract: null, decimals: 18 },
        ],
      },
    ],
    wallets: [{ chain: `eip155:${world.anvil.chainId}`, address: settlement, kind: 'SETTLEMENT' }],
    realizations: { timeZone: 'UTC' },
  });
}

/** A fee of a partner of its own, booked in the night's day. */
async function feeOn(world: EvmWorld, night: number): Promise<void> {
  const partnerId = `par_${night}`;
  await world.pool.query('insert into payonce.partners (id, name) values ($1, $1)', [partnerId]);
  await world.pool.tx('fee', async (tx) => {
    await tx.query("select set_config('payonce.clock_shift_ms', $1, true)", [String((night - 1) * DAY_MS)]);
    const [earned, custody] = await world.chart.ids(tx, [
      accountName.fees(world.assetId),
      accountName.custody(`eip155:${world.anvil.chainId}`, world.wallet, world.assetId),
    ]);
    const [partner] = await world.chart.ids(tx, [accountName.partner(partnerId, world.assetId)]);
    assert.ok(partner !== undefined && earned !== undefined && custody !== undefined);
    await post(tx, [
      {
        kind: 'post',
        key: `MIGRATED:fee-of-${partnerId}`,
        reference: partnerId,
        entries: [
          { accountId: partner, amount: 1n },
          { accountId: earned, amount: FEE },
          { accountId: custody, amount: -FEE - 1n },
        ],
      },
    ]);
  });
}

test('killed when the night is made, and at K0, K1, K2 and K3: as many transfers as realizations; what comes back credits nobody (case A2, H3, req R1, R8, R10, R13, inv E1, E2, E4, I2)', async (t) => {
  const world = await makeEvmWorld({ label: 'realize crash', anvil: { mining: 'ticks', blockTimeSec: 0.2 } });
  const owner = world.anvil.accounts[8];
  assert.ok(owner);
  const settlement = owner.address.toLowerCase() as Address;
  const chain = `eip155:${world.anvil.chainId}`;
  const starters: WorkerStarter[] = [];
  t.after(async () => {
    for (const one of starters) await one.stopAll();
    await world.end();
  });
  const custodyOf = async (wallet: string): Promise<bigint> =>
    -(await balanceOf(world, `custody:${chain}:${wallet}`)).balance;
  const heldBy = (wallet: string): Promise<bigint> => tokenBalance(world.anvil, world.token, wallet as Address);

  let night = 0;
  for (const [name, cut] of Object.entries(POINTS)) {
    for (let round = 0; round < ROUNDS; round += 1) {
      night += 1;
      await feeOn(world, night);
      const workers = await workersAt(world, settlement, night);
      starters.push(workers);
      const worker = workers.start({ cut, roles: ROLES });
      const gone = await worker.gone;
      assert.equal(gone.signal, 'SIGKILL', `${name} round ${round}: ${worker.lines.slice(-5).join('\n')}`);
    }
  }

  const last = starters.at(-1);
  assert.ok(last);
  const worker = last.start({ roles: ROLES });
  const until = async (what: string, done: () => Promise<boolean>): Promise<void> => {
    const deadline = Date.now() + DRAIN_MS_MAX;
    while (!(await done())) {
      assert.ok(Date.now() < deadline, `${what}; last lines:\n${worker.lines.slice(-5).join('\n')}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  await until('not all was settled', async () => {
    const { rows } = await world.pool.query<{ settled: bigint }>(
      "select count(*) as settled from payonce.effects where state = 'SETTLED'",
    );
    return rows[0]?.settled === BigInt(night);
  });
  const paid = (await world.paid()).filter((one) => one.to === settlement);
  t.diagnostic(`${night} nights, ${night} kills, ${paid.length} transfers on chain`);
  assert.equal(paid.length, night);
  assert.ok(paid.every((one) => one.amount === FEE));
  assert.equal(await custodyOf(settlement), await heldBy(settlement));
  await until('a night’s transfer was not seen', async () => {
    const { rows } = await world.pool.query<{ date: string }>(
      'select distinct business_date::text as date from payonce.realizations',
    );
    const verdicts = await Promise.all(rows.map(({ date }) => judgeNight(world.pool, date)));
    assert.deepEqual(
      verdicts.filter((one) => one.verdict === 'fail'),
      [],
    );
    return rows.length === night && verdicts.every((one) => one.verdict !== 'pending');
  });

  const before = {
    master: (await custodyOf(world.wallet)) - (await heldBy(world.wallet)),
    partners: await partnersSum(world),
  };
  await sendAndMine(world.anvil, owner.privateKey, {
    to: world.token,
    data: transferData(world.wallet as Address, RETURNED),
  });
  await until('the return was not seen', async () => {
    const { rows } = await world.pool.query<{ class: string; class_reason: string }>(
      'select class, class_reason from payonce.chain_transfers where from_address = $1',
      [settlement],
    );
    if (rows.length === 0) return false;
    assert.deepEqual(
      rows.map((row) => [row.class, row.class_reason]),
      [['FUNDING', 'infrastructure_sends_to_ourselves']],
    );
    return (await custodyOf(settlement)) === (await heldBy(settlement));
  });
  assert.equal((await custodyOf(world.wallet)) - (await heldBy(world.wallet)), before.master);
  assert.equal(await partnersSum(world), before.partners, 'somebody was credited');
  assert.equal((await balanceOf(world, 'suspense')).balance, 0n, 'custody ↔ custody: both sides are ours and known');
  const quarantined = await world.pool.query('select 1 from payonce.signers where quarantined_at is not null');
  assert.equal(quarantined.rowCount, 0);
  await last.stopAll();
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

async function partnersSum(world: EvmWorld): Promise<bigint> {
  const { rows } = await world.pool.query<{ sum: bigint }>(
    "select sum(balance) as sum from payonce.accounts where code like 'partner:%'",
  );
  return rows[0]?.sum ?? 0n;
}
