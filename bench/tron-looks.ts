/*
 * How long one pass of looks and one plan take over TRON when each answer takes its time: 100 payments that no node shows
 * yet, two nodes, 50 ms an answer. A lease (30 s) has to hold both with room to spare.
 *   node bench/tron-looks.ts [effects] [ms per answer]
 */
import { startTron } from '../sim/tron/tron.ts';
import type { EffectIntent, SealedEffect } from '../src/engine/rail.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { canonicalAddress, makeLocalSigner, makeTronRail } from '../src/rails/tron/index.ts';

const [effects = 100, answerMs = 50] = process.argv.slice(2).map(Number);
const TRX = 1_000_000n;

const tron = await startTron({ nodes: [{ name: 'a' }, { name: 'b' }] });
const token = tron.deployToken();
const signer = makeLocalSigner([`0x${'11'.repeat(32)}`]);
const wallet = signer.addresses()[0] ?? '';
tron.fund(wallet, 1_000_000n * TRX);
tron.fundToken(token, wallet, 1_000_000n * TRX);
tron.mine(30);
const rail = makeTronRail(
  {
    name: tron.rail,
    genesisId: tron.genesisId,
    nodes: tron.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
    coinAssetId: 'coin',
    feeLimitCapSun: 100n * TRX,
    energy: { policy: 'burn', maxSun: 50n * TRX },
  },
  { ports: systemPorts(), signer },
);
const intents = Array.from({ length: effects }, (_, index): EffectIntent => {
  const destination = canonicalAddress(`0x${(0xa000 + index).toString(16).padStart(40, '0')}`);
  tron.fund(destination, 1n);
  return {
    effectId: BigInt(index + 1),
    subjectType: 'withdrawal',
    subjectId: `wd_${index}`,
    seq: 1,
    partnerId: 'par_bench',
    naturalKey: String(index),
    rail: rail.name,
    asset: { id: 'token', code: 'USDT', decimals: 6, chain: tron.rail, contract: token },
    amount: 1_000_000n,
    destination,
    wallet,
    signer: wallet,
    call: null,
    payee: null,
  };
});
tron.script({ fault: { kind: 'slow', ms: answerMs } });

const planned = await timed('plan', () => rail.plan(intents, { inFlight: [], openPerSigner: new Map() }));
const sealed = intents.flatMap((intent, index): SealedEffect[] => {
  const verdict = planned[index];
  if (verdict?.verdict !== 'ready') throw new Error(`not planned: ${JSON.stringify(verdict)}`);
  const { plan } = verdict;
  return [{ ...intent, seal: rail.seal(intent, plan, null), plan, variants: [], sealedAt: new Date() }];
});
await timed('look', () => rail.look(sealed));
await rail.close();
await tron.stop();

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const before = performance.now();
  const result = await work();
  const seconds = ((performance.now() - before) / 1_000).toFixed(2);
  console.log(`${what} of ${effects} effects, ${answerMs} ms an answer, 2 nodes: ${seconds} s`);
  return result;
}
