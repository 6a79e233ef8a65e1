/* A real chain whose wallets the engine pays from, with the scan and the books beside it: what people plant on it by hand is found. */
import assert from 'node:assert/strict';
import { deployToken, mintTokens, sendAndMine, transferData } from '../../sim/evm-send.ts';
import type { DevAccount } from '../../sim/anvil.ts';
import type { Hex } from 'viem';
import { reconcileChain } from '../../src/audit/reconcile/chain.ts';
import type { ReconciledChain } from '../../src/audit/reconcile/chain-read.ts';
import { type ChainReport, toChainJson } from '../../src/audit/reconcile/chain-report.ts';
import { makeRepairVerbs } from '../../src/audit/repair/index.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { makeEngine } from '../../src/engine/engine.ts';
import { createWithdrawals, makeWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { CHAIN, type DepositScene, RAIL, startDepositScene, textIn } from '../support/deposit-scene.ts';

/** A token with 18 places, as on some chains. */
export const E18 = 10n ** 18n;
export const FUNDS = 1_000n * E18;

export interface ChainScene extends DepositScene {
  readonly engine: EngineDeps;
  readonly reconciled: ReconciledChain;
  /** The partner's wallet, which the engine signs for. */
  readonly master: DevAccount;
  readonly masterAddress: string;
  readonly settlement: string;
  readonly stranger: string;
  /** After the set-up: what came before is the opening. */
  readonly firstBlock: bigint;
  /** Takes a withdrawal in; answers its id. */
  order(fields?: Partial<WithdrawalRequest>): Promise<string>;
  /** Passes, and mines, until nothing is open. */
  drain(): Promise<void>;
  scan(): Promise<void>;
  /** By somebody who has the key: no effect of ours. Answers the hash. */
  byHand(from: DevAccount, to: string, units: bigint): Promise<string>;
  compare(wallets: readonly string[], range?: { from?: bigint; to?: bigint }): Promise<ChainReport[]>;
}

export async function startChainScene(label: string): Promise<ChainScene> {
  const scene = await startDepositScene({ label });
  const master = scene.chain.accounts[2];
  assert.ok(master);
  const masterAddress = master.address.toLowerCase();
  const token = await deployToken(scene.chain, scene.owner.privateKey, { decimals: 18 });
  await mintTokens(scene.chain, scene.owner.privateKey, token, master.address, FUNDS);
  await mintTokens(scene.chain, scene.owner.privateKey, token, scene.payer.address, FUNDS);
  const settlement = `0x${'5e'.repeat(20)}`;
  const coin = BigInt(textIn(await scene.chain.rpc('eth_getBalance', [master.address, 'latest'])));
  const { chart } = scene.deps;
  await scene.pool.tx('chain scene', async (tx) => {
    await tx.query(
      `insert into payonce.assets (id, code, chain, contract, decimals) values ('bsc', 'USDT-BSC', $1, $2, 18)`,
      [CHAIN, token.toLowerCase()],
    );
    await tx.query(
      `insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max) values ('bsc', $1, $2, $3, $3)`,
      [RAIL, masterAddress, 10n ** 24n],
    );
    await tx.query('insert into payonce.signers (rail, address, label, next_nonce) values ($1, $2, $3, 0)', [
      RAIL,
      masterAddress,
      'hot',
    ]);
    // What the wallet had before us is money of ours, and of the partner.
    const [partner, custody, gas, treasury] = await chart.ids(tx, [
      accountName.partner('par_a', 'bsc'),
      accountName.custody(CHAIN, masterAddress, 'bsc'),
      accountName.custody(CHAIN, masterAddress, 'coin'),
      accountName.treasury('coin'),
    ]);
    assert.ok(partner !== undefined && custody !== undefined && gas !== undefined && treasury !== undefined);
    const opening = (key: string, to: bigint, from: bigint, units: bigint) => ({
      kind: 'post' as const,
      key: `MIGRATED:${key}`,
      reference: 'opening',
      entries: [
        { accountId: to, amount: units },
        { accountId: from, amount: -units },
      ],
    });
    await post(tx, [opening('bsc', partner, custody, FUNDS), opening('coin', treasury, gas, coin)]);
  });
  await scene.own('MASTER', 'par_a', masterAddress);
  await scene.own('SETTLEMENT', 'par_a', settlement);
  await scene.finalize();
  const firstBlock = BigInt(textIn(await scene.chain.rpc('eth_blockNumber', []))) + 1n;
  const engine = await makeEngine({
    pool: scene.pool,
    ports: systemPorts(),
    log: scene.log,
    makeId: scene.deps.makeId,
    chart,
    flows: [makeWithdrawals(chart)],
    rails: [scene.rail],
    verbs: makeRepairVerbs({ pool: scene.pool, chart, makeId: scene.deps.makeId }),
    leaseMs: 30_000,
  });
  const reconciled: ReconciledChain = {
    chain: CHAIN,
    rail: RAIL,
    nodes: scene.rail.blocks,
    canonical: (text) => scene.deps.canonical(text),
  };
  const scanner = scene.scanner({ firstBlock });
  let orders = 0;
  return {
    ...scene,
    engine,
    reconciled,
    master,
    masterAddress,
    settlement,
    stranger: `0x${'77'.repeat(20)}`,
    firstBlock,
    async order(fields = {}) {
      orders += 1;
      const [made] = await createWithdrawals({ ...engine, pool: scene.pool }, [
        {
          partnerId: 'par_a',
          idempotencyKey: `key-${orders}`,
          fingerprint: `body-${orders}`,
          externalId: null,
          purpose: 'settlement',
          assetId: 'bsc',
          amount: E18,
          destination: settlement,
          reference: null,
          ...fields,
        },
      ]);
      assert.ok(made?.outcome === 'created', JSON.stringify(made));
      return made.id;
    },
    async drain() {
      for (let pass = 0; pass < 30; pass += 1) {
        await scene.pool.query(
          'update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null',
        );
        await advanceOnce(engine, scene.rail);
        const open = await scene.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
        if (open.rowCount === 0) return;
        await scene.finalize();
      }
    },
    async scan() {
      await scene.finalize();
      for (let run = 0; run < 3; run += 1) await scanner.runOnce();
    },
    async byHand(from, to, units) {
      const data = transferData(to as Hex, units);
      return textIn((await sendAndMine(scene.chain, from.privateKey, { to: token, data })).transactionHash);
    },
    compare: (wallets, range = {}) =>
      reconcileChain({ pool: scene.pool }, reconciled, { wallets, from: firstBlock, ...range }),
  };
}

interface Said {
  readonly kind: string;
  readonly direction: string | null;
  readonly asset: string;
  readonly amount: string;
  readonly partner_id: string | null;
}

/** Kind, side, amount and partner of each finding, as machines are told. */
export function said(reports: readonly ChainReport[]): string[] {
  return reports.flatMap((report) =>
    (toChainJson(report) as { findings: readonly Said[] }).findings.map(
      (one) => `${one.kind} ${one.direction ?? '-'} ${one.amount} ${one.asset} ${one.partner_id ?? '-'}`,
    ),
  );
}
