/**
 * The plan: reference block, expiration, simulation, energy, bandwidth and funds for a batch, asked of one node. Nothing
 * leaves.
 *
 * It is a courtesy, not a proof: it keeps payments that would fail from burning fees, and says why one has to wait. The
 * reference is a *solid* block, so that a small fork does not make the bytes invalid, and where nodes of several operators
 * answer one that two of them show: bytes upon a block that only one node has could never be included, nor proved absent.
 * The expiration counts from the head's own time, which one node alone cannot put far ahead. Balances are the head's, less
 * what is sealed and not final, less what this very batch takes.
 */
import type { EffectIntent, PlanContext, PlanVerdict, PlanWait } from '../../engine/rail.ts';
import { HEAD_AHEAD_MS_MAX } from '../../kernel/limits.ts';
import { quotedIntent, spenderOf, termsFault } from '../call-terms.ts';
import { askInTime } from '../in-time.ts';
import { canonicalAddress, hexAddress, wordOfAddress } from './address.ts';
import { overLanes } from './lanes.ts';
import { UNSOLID_BLOCKS_MAX } from './limits.ts';
import { readHeader, type Header, type Read, type TronNode } from './nodes.ts';
import { amountFault, type Body, bodyOf, toSun } from './payload.ts';
import { judgeEffect, Budget, type PlanConfig, type Scene } from './afford.ts';
import { readPrices } from './resources.ts';
import type { Line, TronResult } from './wire.ts';
import { wait } from './wait.ts';

interface Heads {
  readonly node: TronNode;
  readonly head: Header;
  readonly solid: Header;
}

export async function planEffects(
  nodes: readonly TronNode[],
  config: PlanConfig,
  effects: readonly EffectIntent[],
  context: PlanContext,
): Promise<PlanVerdict[]> {
  if (effects.length === 0) return [];
  const read = await askInTime(nodes, config.askWithinMs, readHeads, (node) => ({
    ok: false as const,
    fault: `${node.name.source}: no head after ${config.askWithinMs} ms`,
  }));
  const faults = read.flatMap((one) => (one.ok ? [] : [one.fault]));
  // The one that knows most: an expiration that counts from a lagging head may be over when the bytes arrive.
  const heads = read
    .flatMap((one) => (one.ok ? [one.value] : []))
    .sort((left, right) => Number(right.head.number - left.head.number));
  for (const one of heads) {
    const others = heads.filter((other) => other.node.name.operator !== one.node.name.operator);
    const unfit = whyUnfit(one, config) ?? whyAhead(one, others, config);
    const reference = unfit === null ? await agreeOn(one, others, config) : { ok: false as const, fault: unfit };
    const verdicts = reference.ok ? await planOn(one, reference.value, config, effects, context) : reference;
    if (verdicts.ok) return verdicts.value;
    faults.push(`${one.node.name.source}: ${verdicts.fault}`);
  }
  const ahead = heads.some((one) => whyUnfit(one, config) === null && whyAhead(one, [], config) !== null);
  const reason = nodes.every((node) => node.lastVerdict() === 'wrong')
    ? 'WRONG_CHAIN'
    : ahead
      ? 'HEAD_AHEAD'
      : 'NODE_DOWN';
  return effects.map(() => wait(reason, faults.join('; ')));
}

async function readHeads(node: TronNode): Promise<Read<Heads>> {
  const head = await readHeader(node.checked, 'wallet', 'now');
  const solid = head.ok ? await readHeader(node.checked, 'walletsolidity', 'now') : head;
  if (head.ok && solid.ok) return { ok: true, value: { node, head: head.value, solid: solid.value } };
  const fault = head.ok && !solid.ok ? `no solid block: ${solid.fault}` : head.ok ? '' : head.fault;
  return { ok: false, fault: `${node.name.source}: ${fault}` };
}

function whyUnfit({ head, solid }: Heads, config: PlanConfig): string | null {
  if (head.number - solid.number >= UNSOLID_BLOCKS_MAX) {
    return `the chain does not solidify: head ${head.number}, solid ${solid.number}`;
  }
  const behindMs = config.now().getTime() - head.timeMs;
  // What expires before it is sent would be made anew for ever.
  return behindMs >= config.expiresAfterMs ? `it is behind: its head is ${Math.floor(behindMs / 1_000)} s old` : null;
}

/** A head that neither another operator's nor our clock comes near: what is sealed by it would be in doubt until then. */
function whyAhead({ head }: Heads, others: readonly Heads[], config: PlanConfig): string | null {
  const nowMs = config.now().getTime();
  const shownMs = Math.max(nowMs, ...others.map((other) => other.head.timeMs));
  const nearMs = others.length > 0 ? shownMs + config.expiresAfterMs : Number.POSITIVE_INFINITY;
  const limitMs = Math.min(nearMs, nowMs + HEAD_AHEAD_MS_MAX);
  return head.timeMs > limitMs ? `its head is ${Math.floor((head.timeMs - nowMs) / 1_000)} s ahead of our clock` : null;
}

/** The newest solid block that this node and one of another operator both show; its own where no other one is up to date. */
async function agreeOn(one: Heads, others: readonly Heads[], config: PlanConfig): Promise<Read<Header>> {
  const faults: string[] = [];
  for (const other of others) {
    if (whyUnfit(other, config) !== null) continue;
    const [lower, higher] = one.solid.number <= other.solid.number ? [one, other] : [other, one];
    const { solid } = lower;
    const seen =
      higher.solid.number === solid.number
        ? { ok: true as const, value: higher.solid }
        : await readHeader(higher.node.checked, 'walletsolidity', solid.number);
    if (seen.ok && seen.value.id === solid.id && seen.value.timeMs === solid.timeMs) return { ok: true, value: solid };
    const why = seen.ok ? 'shows another' : seen.fault;
    faults.push(`of the solid block ${solid.number} of ${lower.node.name.source} ${higher.node.name.source} ${why}`);
  }
  return faults.length === 0 ? { ok: true, value: one.solid } : { ok: false, fault: faults.join('; ') };
}

async function planOn(
  { node, head }: Heads,
  reference: Header,
  config: PlanConfig,
  effects: readonly EffectIntent[],
  context: PlanContext,
): Promise<Read<PlanVerdict[]>> {
  const prices = readPrices(await node.checked.ask('wallet/getchainparameters'));
  if (prices === null) return { ok: false, fault: 'it tells no prices' };
  const frame = { reference, expirationMs: head.timeMs + config.expiresAfterMs };
  const askOnce = makeOnce();
  const scenes = await overLanes(node.lanes, effects, async ({ checked }, part) => {
    const shown: (Told | PlanWait)[] = [];
    for (const effect of part)
      shown.push(
        (await whyHopeless(config, effect, context)) ??
          (await askAbout(
            (path, body) => askOnce(checked, path, body),
            quotedIntent(effect, context.minimums?.get(effect.effectId)),
          )),
      );
    return shown;
  });
  // In order: what one takes the next one does not have.
  const budget = new Budget(config.coinAssetId, context);
  const verdicts = scenes.map((scene) =>
    'verdict' in scene ? scene : judgeEffect(config, { ...scene, prices, frame }, budget, context),
  );
  return { ok: true, value: verdicts };
}

/** What no node has to be asked for. */
async function whyHopeless(config: PlanConfig, effect: EffectIntent, context: PlanContext): Promise<PlanWait | null> {
  const terms = termsFault(effect, context);
  if (terms !== null) return wait(terms.reason, terms.detail);
  const fault = amountFault(effect.asset.contract, effect.amount) ?? amountFault(null, bodyOf(effect).value);
  if (fault !== null) return wait('AMOUNT_TOO_LARGE', fault);
  if (await config.holdsKey(effect.signer)) return null;
  return {
    ...wait('NO_KEY', `no key for ${effect.signer}: add its key file to the keystore`),
    signerShort: canonicalAddress(effect.signer) !== canonicalAddress(effect.wallet),
  };
}

type Told = Omit<Scene, 'prices' | 'frame'>;
type Question = { readonly [key: string]: string | number };
type Ask = (path: string, body: Question) => Promise<TronResult>;

/** What several effects of a batch ask alike is asked once, on whichever connection comes first. */
function makeOnce(): (line: Line, path: string, body: Question) => Promise<TronResult> {
  const asked = new Map<string, Promise<TronResult>>();
  return (line, path, body) => {
    const key = `${path} ${JSON.stringify(body)}`;
    const answer = asked.get(key) ?? line.ask(path, body);
    asked.set(key, answer);
    return answer;
  };
}

async function askAbout(ask: Ask, effect: EffectIntent): Promise<Told> {
  const signer = canonicalAddress(effect.signer);
  const wallet = canonicalAddress(effect.wallet);
  const body = bodyOf(effect);
  const contract = effect.asset.contract;
  const owner = hexAddress(signer);
  const spender = spenderOf(effect, canonicalAddress);
  return {
    effect,
    body,
    signer,
    wallet,
    account: await ask('wallet/getaccount', { address: owner }),
    resources: await ask('wallet/getaccountresource', { address: owner }),
    receiver:
      effect.call === null && effect.lines === undefined
        ? await ask('wallet/getaccount', { address: hexAddress(effect.destination) })
        : null,
    token: contract === null ? null : await ask('wallet/triggerconstantcontract', balanceCall(contract, wallet)),
    allowance:
      contract === null || spender === null
        ? null
        : await ask('wallet/triggerconstantcontract', allowanceCall(contract, wallet, spender.address)),
    simulation:
      body.kind === 'transfer' ? null : await ask('wallet/triggerconstantcontract', callOf(owner, effect, body)),
  };
}

function balanceCall(contract: string, wallet: string) {
  return {
    owner_address: hexAddress(wallet),
    contract_address: hexAddress(contract),
    function_selector: 'balanceOf(address)',
    parameter: wordOfAddress(wallet).slice(2),
  };
}

export function allowanceCall(contract: string, wallet: string, relayer: string) {
  return {
    owner_address: hexAddress(relayer),
    contract_address: hexAddress(contract),
    function_selector: 'allowance(address,address)',
    parameter: wordOfAddress(wallet).slice(2) + wordOfAddress(relayer).slice(2),
  };
}

function callOf(owner: string, effect: EffectIntent, body: Body) {
  const target = { owner_address: owner, contract_address: hexAddress(body.to) };
  if (effect.call === null && effect.lines === undefined) {
    const relayed = canonicalAddress(effect.signer) !== canonicalAddress(effect.wallet);
    const selector = relayed ? 'transferFrom(address,address,uint256)' : 'transfer(address,uint256)';
    return { ...target, function_selector: selector, parameter: body.data.slice(10) };
  }
  return { ...target, data: body.data.slice(2), ...(body.value === 0n ? {} : { call_value: toSun(body.value) }) };
}
