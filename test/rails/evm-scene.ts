/*
 * The stage for tests of the EVM rail: a chain, a token, nodes that can misbehave, and the steps that the engine takes,
 * in the engine's order and without its database: plan, seal, specify, sign, send, look, read.
 */
import assert from 'node:assert/strict';
import { type Abi, type Address, encodeFunctionData, type Hex } from 'viem';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { type Anvil, type DevAccount, startAnvil } from '../../sim/anvil.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens, sendAndMine } from '../../sim/evm-send.ts';
import type {
  Answer,
  AssetRef,
  EffectIntent,
  Observation,
  PlanContext,
  PlanVerdict,
  SealedEffect,
  Signed,
  VariantKind,
} from '../../src/engine/rail.ts';
import { type EvmRail, type EvmRailConfig, makeDevSigner, makeEvmRail } from '../../src/rails/evm/index.ts';
import { systemPorts } from '../../src/kernel/ports.ts';

export const GWEI = 1_000_000_000n;
export const NOTHING_OPEN: PlanContext = { inFlight: [], openPerSigner: new Map() };
export const RECEIVER = '0x00000000000000000000000000000000000a11ce';

export interface Scene {
  readonly chain: Anvil;
  /** The same chain behind two nodes with operators of their own. */
  readonly nodes: readonly [EvmProxy, EvmProxy];
  readonly rail: EvmRail;
  readonly token: Address;
  readonly usdt: AssetRef;
  readonly coin: AssetRef;
  /** The account that owns the token contract, and the wallet that pays. */
  readonly owner: DevAccount;
  readonly wallet: DevAccount;
  stop(): Promise<void>;
}

const tokenSwitches: Abi = testToken.abi;

export const signer = makeDevSigner(4);

export function railOn(urls: readonly string[], change: Partial<EvmRailConfig> = {}): EvmRail {
  return makeEvmRail(
    {
      name: 'evm:31337',
      chainId: 31_337n,
      nodes: urls.map((url, index) => ({ url, operator: `operator-${index + 1}` })),
      finality: { tag: 'finalized' },
      feeCapWei: 500n * GWEI,
      gasLimitCap: 1_000_000n,
      coinAssetId: 'coin',
      ...change,
    },
    { ports: systemPorts(), signer, http: { timeoutMs: 3_000 } },
  );
}

export async function startScene(): Promise<Scene> {
  const chain = await startAnvil({ slotsInEpoch: 1, mining: 'manual' });
  const [owner, wallet] = chain.accounts;
  assert.ok(owner && wallet);
  const token = await deployToken(chain, owner.privateKey);
  await mintTokens(chain, owner.privateKey, token, wallet.address, 1_000_000_000n);
  await chain.mine(3);
  const nodes = [await startEvmProxy({ upstream: chain.url }), await startEvmProxy({ upstream: chain.url })] as const;
  const rail = railOn(nodes.map((node) => node.url));
  return {
    chain,
    nodes,
    rail,
    token,
    usdt: { id: 'usdt', code: 'USDT', decimals: 6, chain: 'eip155:31337', contract: token.toLowerCase() },
    coin: { id: 'coin', code: 'ETH', decimals: 18, chain: 'eip155:31337', contract: null },
    owner,
    wallet,
    async stop() {
      await rail.close();
      await Promise.all(nodes.map((node) => node.stop()));
      await chain.stop();
    },
  };
}

let effects = 0n;

export function intentOf(scene: Scene, change: Partial<EffectIntent> = {}): EffectIntent {
  effects += 1n;
  const wallet = scene.wallet.address.toLowerCase();
  return {
    effectId: effects,
    subjectType: 'withdrawal',
    subjectId: `wd_${effects}`,
    seq: 1,
    partnerId: 'par_1',
    naturalKey: `5:par_1${effects}`,
    rail: 'evm:31337',
    asset: scene.usdt,
    amount: 1_000_000n,
    destination: RECEIVER,
    wallet,
    signer: wallet,
    call: null,
    payee: null,
    ...change,
  };
}

/** The wallet's next nonce as the chain shows it: here, where no database allots, tests run one effect after another. */
export async function nextNonce(scene: Scene): Promise<bigint> {
  return BigInt((await scene.chain.rpc('eth_getTransactionCount', [scene.wallet.address, 'latest'])) as Hex);
}

export async function sealOne(scene: Scene, change: Partial<EffectIntent> = {}, nonce?: bigint): Promise<SealedEffect> {
  const intent = intentOf(scene, change);
  const plan = planOf((await scene.rail.plan([intent], NOTHING_OPEN))[0]);
  const allotment = { signer: intent.signer, nonce: nonce ?? (await nextNonce(scene)) };
  const seal = scene.rail.seal(intent, plan, allotment);
  return { ...intent, seal, plan, variants: [], sealedAt: new Date() };
}

export function planOf(verdict: PlanVerdict | undefined) {
  assert.equal(verdict?.verdict, 'ready', JSON.stringify(verdict));
  return verdict.plan;
}

/** Specifies, signs and stores one more variant. */
export async function withVariant(
  scene: Scene,
  sealed: SealedEffect,
  kind: VariantKind,
): Promise<{ sealed: SealedEffect; signed: Signed }> {
  const spec = await scene.rail.specify?.(sealed, kind);
  assert.ok(spec);
  const signed = await scene.rail.sign?.(sealed, spec);
  assert.ok(signed);
  return { sealed: { ...sealed, variants: [...sealed.variants, signed] }, signed };
}

/** Seals, signs and sends one payment; it lies in the pool until a block is mined. */
export async function payOne(scene: Scene, change: Partial<EffectIntent> = {}) {
  const { sealed, signed } = await withVariant(scene, await sealOne(scene, change), 'original');
  const answer = await scene.rail.send(sealed, signed);
  return { sealed, signed, answer };
}

/** The token's owner changes how it behaves. */
export async function changeToken(
  scene: Scene,
  functionName: 'blacklist' | 'setLies' | 'setReturnsBool',
  args: readonly (string | boolean)[],
): Promise<void> {
  const data = encodeFunctionData({ abi: tokenSwitches, functionName, args });
  await sendAndMine(scene.chain, scene.owner.privateKey, { to: scene.token, data });
}

/** What each node shows of one effect. */
export async function observe(scene: Scene, sealed: SealedEffect, rail: EvmRail = scene.rail): Promise<Observation[]> {
  const answers = (await rail.look([sealed]))[0] ?? [];
  return answers.map((answer: Answer) => rail.read(answer, sealed));
}

export function kindsOf(observations: readonly Observation[]): string[] {
  return observations.map((one) => one.kind);
}

/** A block with what lies in the pool, and so many on top that it is final (head − 2). */
export async function finalize(scene: Scene): Promise<void> {
  await scene.chain.mine(4);
}
