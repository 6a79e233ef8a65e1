/**
 * P2P with real processes: a market in a database, the simulated provider over TCP, and workers of every role that are configured
 * for both. The provider's own book is the judge.
 */
import assert from 'node:assert/strict';
import { type Escrow, type EscrowOptions, startEscrow } from '../../sim/escrow/escrow.ts';
import { toEscrowRailConfig } from '../../src/main/config-p2p.ts';
import { makeEscrowRail } from '../../src/rails/escrow/index.ts';
import { makeP2pScene, ONE, type P2pScene } from './p2p-scene.ts';
import { processesOn, type WorkerStarter } from './processes.ts';

/** No node answers there: the chain is degraded, and nothing of P2P asks it. */
const NOBODY = 'http://127.0.0.1:9';
const TOKEN = `0x${'ab'.repeat(20)}`;
export const ACCOUNT = 'lp-account';

export interface P2pProcesses {
  readonly scene: P2pScene;
  readonly escrow: Escrow;
  readonly workers: WorkerStarter;
  /** Each of the provider's trades that is not cancelled, by leg. */
  tradesPerLeg(): Map<string, number>;
  end(): Promise<void>;
}

export async function makeP2pProcesses(
  label: string,
  options: { readonly escrow?: EscrowOptions; readonly fundUnits?: bigint; readonly lpMax?: bigint } = {},
): Promise<P2pProcesses> {
  const escrow = await startEscrow(options.escrow ?? {});
  const written = {
    name: 'lp',
    profile: 'standard',
    baseUrl: escrow.url,
    account: ACCOUNT,
    answerWithinMs: 5_000,
    lookEveryMs: 300,
    resendAfterMs: 1_000,
  };
  const secret = escrow.secret;
  const lpMax = options.lpMax ?? 1_000n * ONE;
  const scene = await makeP2pScene({
    label,
    chain: 'eip155:31337',
    contract: TOKEN,
    fundUnits: options.fundUnits ?? 10n ** 13n,
    routes: [{ min: ONE, max: lpMax }],
    rail: (ports) =>
      makeEscrowRail(toEscrowRailConfig({ ...written, credential: { id: 'main', secret: () => secret } }, 'local'), {
        ports,
      }),
  });
  const assetId = scene.world.assetId;
  const market = { asset: assetId, fiat: 'KRW' };
  const workers = await processesOn(
    scene.world.url,
    {
      chains: [
        {
          chainId: '31337',
          nodes: [{ url: NOBODY, operator: 'nobody' }],
          finality: { tag: 'finalized' },
          feeCapWei: '1000000000000',
          gasLimitCap: '1000000',
          assets: [
            { code: 'USDT', contract: TOKEN, decimals: 6 },
            { code: 'COIN', contract: null, decimals: 18 },
          ],
        },
      ],
      escrows: [{ ...written, credential: { id: 'main', secretFrom: 'PAYONCE_ESCROW_LP' } }],
      p2p: [
        {
          name: 'asia',
          markets: [{ ...market, fiatDecimals: 0, orderMin: '1', orderMax: '100000', legMin: '1', feeBasisPoints: 0 }],
          routes: [{ ...market, escrow: 'lp', priority: 0, min: '1', max: String(lpMax / ONE) }],
        },
      ],
    },
    { PAYONCE_ESCROW_LP: secret },
  );
  return {
    scene,
    escrow,
    workers,
    tradesPerLeg() {
      const counts = new Map<string, number>();
      for (const trade of escrow.book.trades()) counts.set(trade.reference, (counts.get(trade.reference) ?? 0) + 1);
      return counts;
    },
    async end() {
      await workers.stopAll();
      await escrow.stop();
      await scene.world.end();
    },
  };
}

/** Waits until a query of counts answers zero. */
export async function untilNone(one: P2pProcesses, sql: string, withinMs: number, lines: () => string): Promise<void> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const { rows } = await one.scene.world.pool.query<{ n: number }>(sql);
    if (rows[0]?.n === 0) return;
    assert.ok(Date.now() < deadline, `${rows[0]?.n} are left:\n${lines()}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
