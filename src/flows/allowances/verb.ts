/**
 * What two persons decide: how much a relayer may move of a wallet's token. The chain is asked at the proposal and again at the
 * approval; what stands there then says whether it raises or lowers, and whether the token wants 0 first.
 */
import type { Pool, Query } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { AboutCase, FlowVerb } from '../../engine/deps.ts';
import type { Rail } from '../../engine/rail.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { formatUnits, parseAmount, UNITS_MAX } from '../../kernel/money.ts';
import { takeSetting } from './set.ts';
import { loadStanding, loadToken, type TokenOfChain } from './store.ts';

/** Addresses in the chain's own spelling. */
export interface AllowanceWish {
  /** CAIP-2. */
  readonly chain: string;
  readonly rail: string;
  readonly wallet: string;
  readonly relayer: string;
  /** Code or id of a token of that chain. */
  readonly asset: string;
  /** `max`, or as people write it; `0` takes it away. */
  readonly amount: string;
}

export interface AllowanceDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  railOf(name: string): Rail | undefined;
}

type Detail = Readonly<Record<string, string>>;

/** What a proposal says beside the wish: bound to what the chain showed. */
interface Shown {
  readonly token: TokenOfChain & { readonly contract: string };
  readonly units: bigint;
  readonly now: bigint;
  /** The token refuses the new figure while the old one is not 0. */
  readonly zeroFirst: boolean;
  readonly lowers: boolean;
}

/** The case in which two persons decide, and what the proposal says. Nothing is opened where something stands against it. Durable with
 *  the caller's commit. */
export async function openAllowanceCase(
  deps: AllowanceDeps,
  wish: AllowanceWish,
): Promise<{ readonly caseId: string; readonly detail: Detail; readonly says: string }> {
  const shown = await look(deps, wish);
  if (typeof shown === 'string') throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: shown });
  const says = inWords(wish, shown);
  const caseId = await openCase(deps.pool, deps.makeId, {
    kind: 'allowance_asked',
    severity: 1,
    subjectKey: subjectOf(wish, shown.token.assetId),
    assetId: shown.token.assetId,
    summary: says,
  });
  return { caseId, detail: { ...wish, asset: shown.token.assetId, ...bound(shown) }, says };
}

export function makeAllowanceVerbs(deps: AllowanceDeps): { readonly allowance: FlowVerb } {
  return {
    allowance: {
      async objection(about, detail) {
        const wish = wishOf(detail);
        if (!isAbout(about, wish)) return 'this case is not about that allowance: payonce wallet approve opens one';
        const shown = await look(deps, wish);
        if (typeof shown === 'string') return shown;
        const { lowers, zero_first: zeroFirst } = bound(shown);
        return lowers === detail['lowers'] && zeroFirst === detail['zero_first']
          ? null
          : 'what the wallet allows has changed since: propose it anew';
      },
      async carryOut(tx, { id, about, detail }) {
        const wish = wishOf(detail);
        const rail = deps.railOf(wish.rail);
        const found = await settingOf(tx, wish);
        if (!isAbout(about, wish) || rail === undefined || typeof found === 'string')
          return { refused: typeof found === 'string' ? found : 'this case is not about that allowance' };
        const zeroFirst = detail['zero_first'] === 'yes';
        const outcome = await takeSetting(tx, deps, rail, {
          rail: wish.rail,
          wallet: wish.wallet,
          relayer: wish.relayer,
          assetId: found.token.assetId,
          contract: found.token.contract,
          units: zeroFirst ? 0n : found.units,
          thenUnits: zeroFirst ? found.units : null,
          lowers: detail['lowers'] === 'yes',
          proposalId: id,
          step: 1,
        });
        return outcome.outcome === 'made'
          ? { did: `${outcome.id} sets it${zeroFirst ? ', to 0 first' : ''}: payonce effect list`, closesCase: true }
          : { refused: `another allowance of this relayer is under way: wait for its end` };
      },
    },
  };
}

/** What the chain and the configuration say to a wish; what stands against it in words. No transaction is open. */
async function look(deps: AllowanceDeps, wish: AllowanceWish): Promise<Shown | string> {
  const found = await settingOf(deps.pool, wish);
  if (typeof found === 'string') return found;
  const { token, units } = found;
  const { wallet, relayer } = wish;
  const told = await deps.railOf(wish.rail)?.allowances?.ask({ contract: token.contract, wallet, relayer, units });
  if (told === undefined) return `rail ${wish.rail} is not configured here: set PAYONCE_CONFIG to the file that has it`;
  if (told === null) return `no node of ${wish.rail} tells what ${wallet} allows now: nothing was changed, try again`;
  if (told.units === units) return `${wallet} allows ${relayer} exactly that already`;
  const zeroFirst = !told.takes && told.units > 0n && units > 0n;
  if (!told.takes && !zeroFirst) return `the token refuses it: ask who runs ${token.code}`;
  return { token, units, now: told.units, zeroFirst, lowers: zeroFirst || units < told.units };
}

async function settingOf(
  query: Query,
  { chain, rail, wallet, relayer, asset, amount }: AllowanceWish,
): Promise<Pick<Shown, 'token' | 'units'> | string> {
  const token = await loadToken(query, chain, asset);
  if (token === null) return `there is no asset ${asset} of ${chain}`;
  const { contract } = token;
  if (contract === null) return `${token.code} is the chain's own coin: its owner alone moves it`;
  const read = amount === 'max' ? { ok: true as const, units: UNITS_MAX } : parseAmount(amount, token.decimals);
  if (!read.ok) return `amount: got "${amount}", expected max, or a decimal string with ${token.decimals} decimals`;
  if (wallet === relayer) return `${wallet} is the wallet itself: it needs no allowance`;
  const standing = await loadStanding(query, { rail, assetId: token.assetId, wallet, relayer });
  if (!standing.signs) return `${wallet} is no wallet of ours that signs on ${rail}`;
  // What is taken away may be of anybody, also of a relayer that was removed.
  if (read.units > 0n && !standing.pays) return `${wallet} is not the "wallet" of ${token.code} in PAYONCE_CONFIG`;
  if (read.units > 0n && !standing.relays)
    return `${relayer} is not in "relayers" of ${token.code} in PAYONCE_CONFIG: add it there, restart, and propose again`;
  return { token: { ...token, contract }, units: read.units };
}

function bound({ lowers, zeroFirst }: Shown): { lowers: string; zero_first: string } {
  return { lowers: lowers ? 'yes' : '', zero_first: zeroFirst ? 'yes' : '' };
}

function inWords({ wallet, relayer, chain }: AllowanceWish, { token, units, now, zeroFirst }: Shown): string {
  const amount = (of: bigint): string =>
    of === UNITS_MAX ? `any amount of ${token.code}` : `${formatUnits(of, token.decimals)} ${token.code}`;
  const steps = zeroFirst ? ' The token wants 0 first: two transactions.' : '';
  return `${wallet} on ${chain} shall let ${relayer} move ${amount(units)}; now it is ${amount(now)}.${steps}`;
}

function wishOf(detail: Detail): AllowanceWish {
  const { chain = '', rail = '', wallet = '', relayer = '', asset = '', amount = '' } = detail;
  return { chain, rail, wallet, relayer, asset, amount };
}

function subjectOf({ chain, wallet, relayer }: AllowanceWish, assetId: string): string {
  return `allowance:${chain}:${wallet}:${relayer}:${assetId}`;
}

function isAbout(about: AboutCase, wish: AllowanceWish): boolean {
  return about.kind === 'allowance_asked' && about.subjectKey === subjectOf(wish, wish.asset);
}
