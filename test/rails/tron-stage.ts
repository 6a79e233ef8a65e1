/** TRON's rail before two simulated nodes, a wallet with TRX, and as many payments of TRX as a test wants; no database. */
import type { TestContext } from 'node:test';
import { startTron, type Tron } from '../../sim/tron/tron.ts';
import type { EffectIntent } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { canonicalAddress, makeLocalSigner, makeTronRail, type TronRail } from '../../src/rails/tron/index.ts';
import { KEY } from './tron-scene.ts';

export const TRX = 1_000_000n;
export const NOTHING_OPEN = { inFlight: [], openPerSigner: new Map<string, number>() };

export interface Stage {
  readonly tron: Tron;
  readonly rail: TronRail;
  readonly intents: readonly EffectIntent[];
}

/** `aheadMs`: our clock, before the chain's. */
export async function makeStage(t: TestContext, payments: number, aheadMs = 0): Promise<Stage> {
  const tron = await startTron({ nodes: [{ name: 'a' }, { name: 'b' }] });
  const signer = makeLocalSigner([KEY]);
  const [wallet = ''] = signer.addresses();
  tron.fund(wallet, 1_000n * TRX);
  tron.mine(30);
  const ports = systemPorts();
  const now = (): Date => new Date(tron.clock.now().getTime() + aheadMs);
  const rail = makeTronRail(
    {
      name: tron.rail,
      genesisId: tron.genesisId,
      nodes: tron.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
      coinAssetId: 'trx',
      feeLimitCapSun: 100n * TRX,
    },
    { ports: { ...ports, clock: { ...ports.clock, now } }, signer },
  );
  const intents = Array.from({ length: payments }, (_, index): EffectIntent => {
    const destination = canonicalAddress(`0x${(0xa000 + index).toString(16).padStart(40, '0')}`);
    tron.fund(destination, 1n);
    return {
      effectId: BigInt(index + 1),
      subjectType: 'withdrawal',
      subjectId: `wd_${index}`,
      seq: 1,
      partnerId: 'par_test',
      naturalKey: String(index),
      rail: rail.name,
      asset: { id: 'trx', code: 'TRX', decimals: 6, chain: tron.rail, contract: null },
      amount: BigInt(index + 1),
      destination,
      wallet,
      signer: wallet,
      call: null,
      payee: null,
    };
  });
  t.after(async () => {
    await rail.close();
    await tron.stop();
  });
  return { tron, rail, intents };
}
