/**
 * Whether an effect can be paid for now: its amount, the energy that its call takes, its bandwidth, and the TRX that is
 * burned for what is missing of the two. Pure but for the budget, which remembers what the batch has taken.
 *
 * `fee_limit` bounds all energy of the call, staked or burned. A call that runs out of energy burns the whole of it and
 * pays nobody, so what is short is said before the seal: it can be rented, burned up to a cap, or waited for (R7, R16).
 */
import type { EffectIntent, PlanContext, PlanVerdict } from '../../engine/rail.ts';
import type { Log } from '../../kernel/log.ts';
import { allowanceShort, balanceShort } from '../approval.ts';
import { planOfQuote, spenderOf } from '../call-terms.ts';
import { canonicalAddress } from './address.ts';
import { ENERGY_MARGIN_DENOMINATOR, ENERGY_MARGIN_NUMERATOR, FEE_LIMIT_SUN_MAX, RESULT_BYTES } from './limits.ts';
import { type Body, type Frame, rawBytes, writeReference } from './payload.ts';
import {
  type Account,
  figureOf,
  type Prices,
  readAccount,
  readResources,
  readSimulation,
  type Resources,
} from './resources.ts';
import { signedBytes } from './signer.ts';
import { wait } from './wait.ts';
import { faultOf, type TronResult } from './wire.ts';

export interface PlanConfig {
  readonly coinAssetId: string;
  readonly expiresAfterMs: number;
  /** The highest `fee_limit` of any transaction. */
  readonly feeLimitCapSun: bigint;
  /** How much TRX one effect may burn in place of energy where nobody supplies any (`PlanContext.burnUpTo`). */
  readonly burnMaxSun: bigint;
  /** A node whose heads have not come by then frames no plan. */
  readonly askWithinMs: number;
  readonly log: Log;
  holdsKey(address: string): Promise<boolean>;
  now(): Date;
}

/** What a node told about one effect. */
export interface Scene {
  readonly effect: EffectIntent;
  readonly body: Body;
  readonly signer: string;
  readonly wallet: string;
  readonly account: TronResult;
  readonly resources: TronResult;
  readonly receiver: TronResult | null;
  readonly token: TronResult | null;
  /** What the wallet allows a relayer; `null`: the wallet signs itself. */
  readonly allowance: TronResult | null;
  readonly simulation: TronResult | null;
  readonly prices: Prices;
  readonly frame: Omit<Frame, 'feeLimitSun'>;
}

/** What is left per address while the batch is judged in order. */
export class Budget {
  readonly #coinAssetId: string;
  readonly #context: PlanContext;
  readonly #open: ReadonlyMap<string, bigint>;
  readonly #taken = new Map<string, bigint>();
  /** Those for whom energy is rented, and of the batch those who took theirs. */
  readonly #held: NonNullable<PlanContext['energyHeld']>;
  readonly #served = new Set<bigint>();

  constructor(coinAssetId: string, context: PlanContext) {
    this.#coinAssetId = coinAssetId;
    this.#context = context;
    this.#held = context.energyHeld ?? [];
    this.#open = new Map(
      [...context.openPerSigner].map(([address, open]) => [canonicalAddress(address), BigInt(open)]),
    );
  }

  left(address: string, assetId: string, balance: bigint): bigint {
    const inFlight = this.#context.inFlight
      .filter((one) => one.assetId === assetId && canonicalAddress(one.wallet) === address)
      .reduce((sum, one) => sum + one.amount, 0n);
    return balance - inFlight - this.#takenOf(address, assetId);
  }

  coinLeft(address: string, balance: bigint): bigint {
    return this.left(address, this.#coinAssetId, balance);
  }

  /** What open transactions of this signer may still take is set aside, each as much as this one. */
  resourceLeft(address: string, what: 'energy' | 'staked' | 'free', units: bigint, each: bigint): bigint {
    const left = units - this.#takenOf(address, what) - this.open(address) * each;
    return left < 0n ? 0n : left;
  }

  /**
   * What others' rentals bring to this address is theirs: who took it would leave them waiting until it has run out. Of two
   * that have rented the older goes first, so that where less came than was paid for one of them goes at all.
   */
  energyOfOthers(address: string, effectId: bigint): bigint {
    const rents = this.#held.some((one) => one.effectId === effectId);
    return this.#held
      .filter((one) => one.effectId !== effectId && canonicalAddress(one.address) === address)
      .filter((one) => !this.#served.has(one.effectId) && (!rents || one.effectId < effectId))
      .reduce((sum, one) => sum + one.units, 0n);
  }

  takeEnergy(address: string, effectId: bigint, units: bigint): void {
    this.take(address, 'energy', units);
    this.#served.add(effectId);
  }

  open(address: string): bigint {
    return this.#open.get(address) ?? 0n;
  }

  take(address: string, what: string, amount: bigint): void {
    this.#taken.set(`${address} ${what}`, this.#takenOf(address, what) + amount);
  }

  #takenOf(address: string, what: string): bigint {
    return this.#taken.get(`${address} ${what}`) ?? 0n;
  }
}

export function judgeEffect(config: PlanConfig, scene: Scene, budget: Budget, context: PlanContext): PlanVerdict {
  const { effect, body, signer, wallet } = scene;
  if (effect.lines !== undefined && signer !== wallet) {
    return wait('SIGNER_IS_NOT_WALLET', `a multi-send takes from its signer ${signer}, not from the wallet ${wallet}`);
  }
  if (body.kind === 'transfer' && signer !== wallet) {
    return wait('SIGNER_IS_NOT_WALLET', `a transfer of TRX is signed by its owner ${wallet}, not by ${signer}`);
  }
  const account = readAccount(scene.account);
  const resources = readResources(scene.resources);
  if (account === null) return wait('NODE_DOWN', `no account: ${faultOf(scene.account)}`);
  if (resources === null) return wait('NODE_DOWN', `no resources: ${faultOf(scene.resources)}`);
  const receiver = scene.receiver === null ? null : readAccount(scene.receiver);
  if (scene.receiver !== null && receiver === null) {
    return wait('NODE_DOWN', `no receiver: ${faultOf(scene.receiver)}`);
  }
  const coinLeft = budget.coinLeft(signer, account.balanceSun);
  const funds = checkFunds(scene, budget, coinLeft);
  if (funds !== null) return funds;
  const refused = checkReceiver(config, scene, receiver);
  if (refused !== null) return refused;

  // Energy cannot be lent to an account that the chain does not have; the first TRX that comes makes it.
  if (!account.exists && effect.asset.contract !== null) {
    return gasShort(config, scene, `${signer} does not exist on the chain yet: fund it`, scene.prices.newAccount);
  }
  const energy = judgeEnergy(config, scene, budget, resources, context);
  if (energy.verdict === 'wait') return energy;
  const frame: Frame = { ...scene.frame, feeLimitSun: energy.feeLimitSun };
  const bytes = bytesOf(rawBytes(signer, body, frame, effect.effectId));
  const bandwidth = bandwidthFor(scene, budget, resources, bytes);
  const makesAccount = body.kind === 'transfer' && receiver?.exists === false;
  const fees = energy.burnSun + bandwidth.burnSun + (makesAccount ? scene.prices.newAccount : 0n);
  const needed = body.value + fees * (1n + budget.open(signer));
  if (coinLeft < needed) {
    const detail = `${signer} has ${coinLeft} sun left, value and fees may take ${needed}: fund it`;
    // A coin that pays for itself is short of what it pays; only a token's fees are somebody else's to bring.
    if (effect.asset.contract === null) return wait('GAS_SHORT', detail);
    return gasShort(config, scene, detail, needed - coinLeft);
  }

  budget.take(signer, config.coinAssetId, body.value + fees);
  budget.takeEnergy(signer, effect.effectId, energy.units);
  budget.take(signer, bandwidth.from, bandwidth.from === 'burned' ? 0n : bytes);
  if (effect.asset.contract !== null) budget.take(wallet, effect.asset.id, effect.amount);
  return {
    verdict: 'ready',
    plan: {
      reference: writeReference(frame.reference),
      expiration: String(frame.expirationMs),
      feeLimit: frame.feeLimitSun.toString(),
      fees: fees.toString(),
      ...planOfQuote(effect, context),
      ...(receiver?.isContract === true ? { receiverIsContract: true } : {}),
      ...(makesAccount ? { makesAccount: true } : {}),
    },
  };
}

/** Another relayer may have what this one lacks. */
function gasShort(config: PlanConfig, { signer, wallet }: Scene, detail: string, units: bigint): PlanVerdict {
  const need = { kind: 'gas', address: signer, assetId: config.coinAssetId, units } as const;
  return { ...wait('GAS_SHORT', detail, need), signerShort: signer !== wallet };
}

function checkFunds(scene: Scene, budget: Budget, coinLeft: bigint): PlanVerdict | null {
  const { effect, body, signer, wallet, token } = scene;
  if (token !== null) {
    const shown = readSimulation(token);
    const balance = shown.kind === 'ran' ? figureOf(shown.word) : null;
    if (balance === null) return wait('NODE_DOWN', `no token balance: ${faultOf(token)}`);
    const left = budget.left(wallet, effect.asset.id, balance);
    if (left < effect.amount) return insufficient(effect, wallet, left, effect.amount);
  }
  if (scene.allowance !== null) {
    const shown = readSimulation(scene.allowance);
    const allowed = shown.kind === 'ran' ? figureOf(shown.word) : null;
    if (allowed === null) return wait('NODE_DOWN', `no allowance: ${faultOf(scene.allowance)}`);
    if (allowed < effect.amount) {
      return {
        ...wait('ALLOWANCE_SHORT', allowanceShort(effect, wallet, spenderOf(effect, canonicalAddress), allowed)),
        signerShort: effect.lines === undefined ? 'allowance' : false,
      };
    }
  }
  return coinLeft < body.value ? insufficient(effect, signer, coinLeft, body.value, true) : null;
}

/** `isCoin`: of the chain's coin, which a call takes along whatever its asset is. */
function insufficient(
  effect: EffectIntent,
  address: string,
  left: bigint,
  needed: bigint,
  isCoin = false,
): PlanVerdict {
  return wait('ONCHAIN_INSUFFICIENT', balanceShort(effect.asset, address, left, needed, isCoin));
}

/** A token may be sent to a contract, and often nobody can take it out again: people read it in the log and the plan. */
function checkReceiver(config: PlanConfig, scene: Scene, receiver: Account | null): PlanVerdict | null {
  if (receiver?.isContract !== true) return null;
  const { effect, body } = scene;
  if (body.kind === 'transfer') {
    return wait('RECEIVER_IS_CONTRACT', `${body.to} is a contract: nodes refuse transfers of TRX to it`);
  }
  config.log.warn(
    { effect_id: effect.effectId, subject: effect.subjectId, destination: effect.destination },
    'The receiver is a contract: make sure that it can pass tokens on',
  );
  return null;
}

interface Energy {
  readonly verdict: 'ready';
  readonly units: bigint;
  readonly feeLimitSun: bigint;
  readonly burnSun: bigint;
}

function judgeEnergy(
  config: PlanConfig,
  scene: Scene,
  budget: Budget,
  resources: Resources,
  context: PlanContext,
): Energy | Extract<PlanVerdict, { verdict: 'wait' }> {
  const { effect, prices, signer, simulation } = scene;
  if (simulation === null) return { verdict: 'ready', units: 0n, feeLimitSun: 0n, burnSun: 0n };
  const ran = readSimulation(simulation);
  if (ran.kind === 'failed') {
    // By another quote it may go; what else a contract says of a payment stays so.
    const lasts = effect.call?.minimum === undefined ? {} : { lasts: 'until_mended' as const, alert: true };
    return { ...wait('SIMULATION_REVERTED', ran.why), ...lasts };
  }
  if (ran.kind === 'unreadable') return wait('NODE_DOWN', `no simulation: ${ran.why}`);
  if (effect.lines !== undefined && figureOf(ran.word) === 0n)
    return wait('SIMULATION_REVERTED', 'every line would fail: it would move nothing and still burn energy');
  const units = (ran.energy * ENERGY_MARGIN_NUMERATOR) / ENERGY_MARGIN_DENOMINATOR + 1n;
  const feeLimitSun = units * prices.energy;
  // The caps are one payment's; a batch is as many, up to what the chain allows at all.
  const payments = BigInt(effect.lines?.length ?? 1);
  const capSun = smaller(config.feeLimitCapSun * payments, FEE_LIMIT_SUN_MAX);
  if (feeLimitSun > capSun) {
    return wait('FEE_ABOVE_CAP', `it needs a fee limit of ${feeLimitSun} sun, the cap is ${capSun}`);
  }
  const left = budget.resourceLeft(signer, 'energy', resources.energy, units);
  const others = budget.energyOfOthers(signer, effect.effectId);
  const has = left > others ? left - others : 0n;
  const missing = units > has ? units - has : 0n;
  const burnSun = missing * prices.energy;
  const allowed =
    context.burnUpTo === undefined ? config.burnMaxSun * payments : (context.burnUpTo.get(effect.effectId) ?? 0n);
  if (burnSun > allowed) {
    const detail = `${signer} has ${has} energy, the call may take ${units}; burning the rest costs ${burnSun} sun, ${allowed} are allowed`;
    return wait('ENERGY_SHORT', detail, { kind: 'energy', address: signer, units });
  }
  return { verdict: 'ready', units, feeLimitSun, burnSun };
}

function smaller(left: bigint, right: bigint): bigint {
  return left < right ? left : right;
}

function bytesOf(raw: Uint8Array): bigint {
  return BigInt(signedBytes(raw, Buffer.alloc(65)).length) + RESULT_BYTES;
}

/** All bytes come from staked bandwidth, or else all from the free, or else all are burned for. */
function bandwidthFor(scene: Scene, budget: Budget, resources: Resources, bytes: bigint) {
  const has = (what: 'staked' | 'free', units: bigint): boolean =>
    budget.resourceLeft(scene.signer, what, units, bytes) >= bytes;
  if (has('staked', resources.stakedBandwidth)) return { from: 'staked', burnSun: 0n } as const;
  if (has('free', resources.freeBandwidth)) return { from: 'free', burnSun: 0n } as const;
  return { from: 'burned', burnSun: bytes * scene.prices.bandwidth } as const;
}
