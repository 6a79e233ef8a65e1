/**
 * The plan: fees, gas, simulation and funds for a batch, asked of one node at a time. Nothing leaves.
 *
 * It is a courtesy, not a proof: it keeps payments that would fail from burning fees, and says why one has to wait. The
 * balance is the head's, less what is sealed and not final, less what this very batch takes; what was mined but is not
 * final is taken off twice, which waits a little and never overdraws.
 */
import type { EffectIntent, Need, Plan, PlanContext, PlanVerdict, PlanWait } from '../../engine/rail.ts';
import { allowanceShort, balanceShort } from '../approval.ts';
import { planOfQuote, quotedIntent, spenderOf, termsFault } from '../call-terms.ts';
import { askOneInTime, freeFirst } from '../in-time.ts';
import { canonicalAddress } from './address.ts';
import { type Fees, firstFees, gasLimitOf, marketCalls, readMarket } from './fees.ts';
import { toQuantity } from './json.ts';
import {
  blockCall,
  type EvmNode,
  faultOf,
  type Finality,
  headCalls,
  type Header,
  headerIn,
  quantityIn,
  readHeads,
  type Read,
} from './nodes.ts';
import { bodyOf, wordOfAddress } from './payload.ts';
import { makeQuestions, type Questions } from './questions.ts';
import type { RpcResult } from './rpc.ts';

export interface PlanConfig {
  readonly finality: Finality;
  readonly feeCapWei: bigint;
  readonly gasLimitCap: bigint;
  readonly coinAssetId: string;
  readonly bumpsMax: number;
  readonly inFlightPerSignerMax: number;
  /** Whether the key of this address is at hand. */
  holdsKey(address: string): Promise<boolean>;
  /** A node that has not told all of a plan by then is left for the next one. */
  readonly askWithinMs: number;
}

export type WaitReason =
  | 'NODE_DOWN'
  | 'WRONG_CHAIN'
  | 'GAS_SHORT'
  | 'ONCHAIN_INSUFFICIENT'
  | 'SIMULATION_REVERTED'
  | 'FEE_ABOVE_CAP'
  | 'GAS_ABOVE_CAP'
  | 'SIGNER_FULL'
  | 'SIGNER_IS_NOT_WALLET'
  | 'ALLOWANCE_SHORT'
  | 'QUOTE_TOO_LOW'
  | 'BATCH_REFUSED'
  | 'NO_KEY';

/** What helps only when a person acts is told to people. */
const ALERTED: ReadonlySet<WaitReason> = new Set([
  'WRONG_CHAIN',
  'GAS_SHORT',
  'ONCHAIN_INSUFFICIENT',
  'FEE_ABOVE_CAP',
  'GAS_ABOVE_CAP',
  'SIGNER_IS_NOT_WALLET',
  'ALLOWANCE_SHORT',
  'QUOTE_TOO_LOW',
  'NO_KEY',
]);

/** What speaks of a node or a queue passes by itself; what the contract itself says of this payment does not. */
const LASTS: Partial<Record<WaitReason, PlanWait['lasts']>> = {
  NODE_DOWN: 'a_while',
  SIGNER_FULL: 'a_while',
  SIMULATION_REVERTED: 'for_good',
  BATCH_REFUSED: 'for_good',
  NO_KEY: 'for_good',
};

function wait(reason: WaitReason, detail: string): PlanWait {
  return { verdict: 'wait', reason, detail, alert: ALERTED.has(reason), lasts: LASTS[reason] ?? 'until_mended' };
}

export async function planEffects(
  nodes: readonly EvmNode[],
  config: PlanConfig,
  intents: readonly EffectIntent[],
  context: PlanContext,
): Promise<PlanVerdict[]> {
  const hopeless = intents.map((intent) => {
    const fault = termsFault(intent, context);
    return fault === null ? null : wait(fault.reason, fault.detail);
  });
  const planned = intents.flatMap((intent, index) =>
    hopeless[index] === null ? [quotedIntent(intent, context.minimums?.get(intent.effectId))] : [],
  );
  const verdicts = (await planOnAny(nodes, config, planned, context)).values();
  return hopeless.map((fault) => fault ?? verdicts.next().value ?? wait('NODE_DOWN', 'not planned'));
}

async function planOnAny(
  nodes: readonly EvmNode[],
  config: PlanConfig,
  effects: readonly EffectIntent[],
  context: PlanContext,
): Promise<PlanVerdict[]> {
  if (effects.length === 0) return [];
  const faults: string[] = [];
  const keyless = await withoutKey(config, effects);
  const order = freeFirst(nodes);
  for (const [index, node] of order.entries()) {
    const asked = (one: EvmNode): Promise<Read<PlanVerdict[]>> => planOn(one, config, effects, context, keyless);
    const isLast = index === order.length - 1;
    const verdicts = isLast
      ? await asked(node)
      : await askOneInTime(node, config.askWithinMs, asked, () => tooSlow(config));
    if (verdicts.ok) return verdicts.value;
    faults.push(`${node.rpc.source}: ${verdicts.fault}`);
  }
  const reason = nodes.every((node) => node.lastVerdict() === 'wrong') ? 'WRONG_CHAIN' : 'NODE_DOWN';
  return effects.map(() => wait(reason, faults.join('; ')));
}

function tooSlow({ askWithinMs }: PlanConfig): Read<PlanVerdict[]> {
  return { ok: false, fault: `it had not told all after ${askWithinMs} ms` };
}

/** Signers whose key is not at hand: what is sealed without one stands there and can never be sent. */
async function withoutKey(config: PlanConfig, effects: readonly EffectIntent[]): Promise<ReadonlySet<string>> {
  const missing = new Set<string>();
  for (const signer of new Set(effects.map((effect) => canonicalAddress(effect.signer))))
    if (!(await config.holdsKey(signer))) missing.add(signer);
  return missing;
}

async function planOn(
  node: EvmNode,
  config: PlanConfig,
  effects: readonly EffectIntent[],
  context: PlanContext,
  keyless: ReadonlySet<string>,
): Promise<Read<PlanVerdict[]>> {
  const headQuestions = headCalls(config.finality);
  const first = await node.checked.ask([...headQuestions, ...marketCalls()]);
  const heads = readHeads(first, config.finality);
  if (!heads.ok) return heads;
  const market = readMarket(first.slice(headQuestions.length));
  if (market === null) return { ok: false, fault: `no fees: ${faultOf(first[headQuestions.length])}` };

  const questions = makeQuestions();
  const reference = questions.add(blockCall(heads.value.finalNumber));
  const asked = effects.map((effect) => askAbout(effect, questions));
  await questions.ask(node.checked);
  const header = headerIn(questions.answer(reference));
  if (header === null) return { ok: false, fault: `no reference block: ${faultOf(questions.answer(reference))}` };

  const fees = firstFees(market, config.feeCapWei, config.bumpsMax);
  const feeNeeded = market.baseFee + market.tip;
  const gas = asked.map((one) => quantityIn(questions.answer(one.estimate)));
  const dearest = gas.reduce<bigint>((most, estimate) => {
    const limit = estimate === null ? 0n : gasLimitOf(estimate);
    return limit > most ? limit : most;
  }, 0n);
  const budget = new Budget(config, context, fees === null ? 0n : dearest * fees.maxFeePerGas);
  const verdicts = effects.map((effect, index) => {
    const one = asked[index];
    if (one === undefined) return wait('NODE_DOWN', 'not asked');
    const signer = canonicalAddress(effect.signer);
    if (keyless.has(signer))
      return {
        ...wait('NO_KEY', `no key for ${signer}: add its key file to the keystore`),
        signerShort: signer !== canonicalAddress(effect.wallet),
      };
    return judge(effect, config, budget, header, fees, feeNeeded, planOfQuote(effect, context), {
      coin: questions.answer(one.coin),
      token: one.token === null ? null : questions.answer(one.token),
      allowance: one.allowance === null ? null : questions.answer(one.allowance),
      estimate: questions.answer(one.estimate),
      simulation: questions.answer(one.simulation),
    });
  });
  return { ok: true, value: verdicts };
}

/** `balanceOf(address)`. */
const BALANCE_OF = '0x70a08231';
/** `allowance(address,address)`. */
const ALLOWANCE = '0xdd62ed3e';

function askAbout(effect: EffectIntent, questions: Questions) {
  const signer = canonicalAddress(effect.signer);
  const body = bodyOf(effect);
  const transaction = { from: signer, to: body.to, value: toQuantity(body.value), data: body.data };
  const contract = effect.asset.contract;
  const spender = spenderOf(effect, canonicalAddress);
  return {
    coin: questions.add({ method: 'eth_getBalance', params: [signer, 'latest'] }),
    token:
      contract === null
        ? null
        : questions.add({
            method: 'eth_call',
            params: [
              { to: canonicalAddress(contract), data: BALANCE_OF + wordOfAddress(effect.wallet).slice(2) },
              'latest',
            ],
          }),
    allowance:
      contract === null || spender === null
        ? null
        : questions.add({
            method: 'eth_call',
            params: [allowanceCall(contract, effect.wallet, spender.address), 'latest'],
          }),
    estimate: questions.add({ method: 'eth_estimateGas', params: [transaction] }),
    simulation: questions.add({ method: 'eth_call', params: [transaction, 'latest'] }),
  };
}

export function allowanceCall(contract: string, wallet: string, relayer: string): { to: string; data: string } {
  const words = wordOfAddress(wallet).slice(2) + wordOfAddress(relayer).slice(2);
  return { to: canonicalAddress(contract), data: ALLOWANCE + words };
}

/** What is left per (address, asset) and per signer while the batch is judged in order. */
class Budget {
  readonly #config: PlanConfig;
  readonly #context: PlanContext;
  readonly #openBefore: ReadonlyMap<string, number>;
  readonly #gasPerOpen: bigint;
  readonly #taken = new Map<string, bigint>();
  readonly #sealed = new Map<string, number>();

  constructor(config: PlanConfig, context: PlanContext, gasPerOpen: bigint) {
    this.#config = config;
    this.#context = context;
    this.#openBefore = new Map([...context.openPerSigner].map(([address, open]) => [canonicalAddress(address), open]));
    this.#gasPerOpen = gasPerOpen;
  }

  open(signer: string): number {
    return (this.#openBefore.get(signer) ?? 0) + (this.#sealed.get(signer) ?? 0);
  }

  left(address: string, assetId: string, balance: bigint): bigint {
    const inFlight = this.#context.inFlight
      .filter((one) => one.assetId === assetId && canonicalAddress(one.wallet) === address)
      .reduce((sum, one) => sum + one.amount, 0n);
    return balance - inFlight - (this.#taken.get(`${address} ${assetId}`) ?? 0n);
  }

  /** Coin left for gas: what open transactions of this signer may still burn is set aside. */
  coinLeft(signer: string, balance: bigint): bigint {
    const before = this.open(signer) - (this.#sealed.get(signer) ?? 0);
    return this.left(signer, this.#config.coinAssetId, balance) - BigInt(before) * this.#gasPerOpen;
  }

  take(address: string, assetId: string, amount: bigint): void {
    const key = `${address} ${assetId}`;
    this.#taken.set(key, (this.#taken.get(key) ?? 0n) + amount);
  }

  countSeal(signer: string): void {
    this.#sealed.set(signer, (this.#sealed.get(signer) ?? 0) + 1);
  }
}

interface Shown {
  readonly coin: RpcResult | undefined;
  readonly token: RpcResult | null | undefined;
  /** `null`: the wallet signs itself. */
  readonly allowance: RpcResult | null | undefined;
  readonly estimate: RpcResult | undefined;
  readonly simulation: RpcResult | undefined;
}

function judge(
  effect: EffectIntent,
  config: PlanConfig,
  budget: Budget,
  reference: Header,
  fees: Fees | null,
  feeNeeded: bigint,
  quoted: Plan,
  shown: Shown,
): PlanVerdict {
  const signer = canonicalAddress(effect.signer);
  const wallet = canonicalAddress(effect.wallet);
  if (effect.lines !== undefined && signer !== wallet) {
    return wait('SIGNER_IS_NOT_WALLET', `a multi-send takes from its signer ${signer}, not from the wallet ${wallet}`);
  }
  if (effect.call === null && effect.asset.contract === null && signer !== wallet) {
    return wait('SIGNER_IS_NOT_WALLET', `the coin leaves its signer ${signer}, not the wallet ${wallet}`);
  }
  if (budget.open(signer) >= config.inFlightPerSignerMax) {
    return wait('SIGNER_FULL', `${config.inFlightPerSignerMax} transactions of ${signer} are open`);
  }
  if (fees === null) {
    return wait(
      'FEE_ABOVE_CAP',
      `the market asks ${feeNeeded} wei per gas; the cap is ${config.feeCapWei}, less room for bumps and a cancel`,
    );
  }
  const coinBalance = quantityIn(shown.coin);
  if (coinBalance === null) return wait('NODE_DOWN', `no coin balance: ${faultOf(shown.coin)}`);
  const value = bodyOf(effect).value;
  const coinLeft = budget.coinLeft(signer, coinBalance);
  const isCoin = effect.asset.contract === null;
  if (!isCoin) {
    const balance = wordIn(shown.token);
    if (balance === null) return wait('NODE_DOWN', `no token balance: ${faultOf(shown.token ?? undefined)}`);
    const left = budget.left(wallet, effect.asset.id, balance);
    if (left < effect.amount) return insufficient(effect, wallet, left, effect.amount);
  }
  if (coinLeft < value) return insufficient(effect, signer, coinLeft, value, true);

  if (shown.allowance !== null) {
    const allowed = wordIn(shown.allowance);
    if (allowed === null) return wait('NODE_DOWN', `no allowance: ${faultOf(shown.allowance)}`);
    if (allowed < effect.amount)
      return {
        ...wait('ALLOWANCE_SHORT', allowanceShort(effect, wallet, spenderOf(effect, canonicalAddress), allowed)),
        signerShort: effect.lines === undefined ? 'allowance' : false,
      };
  }
  const isQuoted = effect.call?.minimum !== undefined;
  const refusal =
    simulationRefusal(effect, shown.simulation, isQuoted) ?? simulationRefusal(null, shown.estimate, isQuoted);
  if (refusal !== null) return refusal;
  const estimate = quantityIn(shown.estimate);
  if (estimate === null) return wait('NODE_DOWN', `no gas estimate: ${faultOf(shown.estimate)}`);
  const gasLimit = gasLimitOf(estimate);
  // The cap is one payment's; a batch is as many.
  const gasCap = config.gasLimitCap * BigInt(effect.lines?.length ?? 1);
  if (gasLimit > gasCap) return wait('GAS_ABOVE_CAP', `it needs ${gasLimit} gas, the cap is ${gasCap}`);
  const gasCost = gasLimit * fees.maxFeePerGas;
  if (coinLeft < value + gasCost) {
    const short = wait(
      'GAS_SHORT',
      `${signer} has ${coinLeft} wei left, gas and value may take ${value + gasCost}: fund it`,
    );
    // A coin that pays for itself is short of what it pays; only a token's gas is somebody else's to bring.
    if (!isCoin)
      return {
        ...short,
        needs: gasNeed(config, signer, value + gasCost - coinLeft),
        signerShort: signer !== wallet,
      };
    return short;
  }

  budget.countSeal(signer);
  budget.take(signer, config.coinAssetId, value + gasCost);
  if (!isCoin) budget.take(wallet, effect.asset.id, effect.amount);
  return {
    verdict: 'ready',
    plan: {
      gasLimit: gasLimit.toString(),
      maxFeePerGas: fees.maxFeePerGas.toString(),
      maxPriorityFeePerGas: fees.maxPriorityFeePerGas.toString(),
      ...quoted,
      reference: { number: reference.number.toString(), hash: reference.hash },
    },
  };
}

function gasNeed(config: PlanConfig, address: string, units: bigint): Need {
  return { kind: 'gas', address, assetId: config.coinAssetId, units };
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

/** One word as a figure. */
export function wordIn(result: RpcResult | null | undefined): bigint | null {
  if (result?.kind !== 'result' || typeof result.value !== 'string') return null;
  return /^0x[0-9a-fA-F]{64}$/.test(result.value) ? BigInt(result.value) : null;
}

const REVERTED =
  /revert|invalid opcode|out of gas|gas required exceeds|insufficient (?:funds|balance)|stack|invalid jump/i;
const FALSE_WORD = /^0x0{64}$/;

/** `null`: nothing against it. An error that is not the contract's own speaks of the node. */
export function simulationRefusal(
  effect: EffectIntent | null,
  result: RpcResult | undefined,
  isQuoted: boolean,
): PlanVerdict | null {
  if (result?.kind === 'error') {
    // By another quote it may go; what else a contract says of a payment stays so.
    const lasts = isQuoted ? { lasts: 'until_mended' as const, alert: true } : {};
    if (result.code === 3 || REVERTED.test(result.message))
      return { ...wait('SIMULATION_REVERTED', result.message), ...lasts };
    return wait('NODE_DOWN', `no simulation: ${faultOf(result)}`);
  }
  if (result?.kind !== 'result') return wait('NODE_DOWN', `no simulation: ${faultOf(result)}`);
  if (effect?.lines !== undefined && typeof result.value === 'string' && FALSE_WORD.test(result.value))
    return wait('SIMULATION_REVERTED', 'every line would fail: it would move nothing and still burn gas');
  const isTransfer =
    effect !== null && effect.lines === undefined && effect.call === null && effect.asset.contract !== null;
  if (isTransfer && typeof result.value === 'string' && FALSE_WORD.test(result.value)) {
    return wait('SIMULATION_REVERTED', 'the token answered false: it would move nothing and still burn gas');
  }
  return null;
}
