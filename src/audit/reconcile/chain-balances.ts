/**
 * What a wallet had at both ends of a range, and how that is known.
 *
 * Promises: a balance is told by the chain, for exactly one block. Where nodes keep only the state of their final head (TRON), the
 * end's balance is that of the head, less what moved between, read from the blocks; the opening is one that an earlier run was told
 * inside of the range, or at its edge, less what moved until then. Each sum says which it was.
 * Never: an opening that follows from the closing counts as compared. Nothing is equal because nobody could look.
 */
import type { BlockHeader, BlockRef, Movement, Reading } from '../../flows/deposits/index.ts';
import type { ChainFinding, OwnWallet } from './chain-match.ts';
import {
  type ChainNode,
  type Cost,
  type Holder,
  openChain,
  type RangeRead,
  readBalancesSomewhere,
  type ReconciledChain,
} from './chain-read.ts';
import type { AssetSums } from './chain-report.ts';
import type { ChainAsset, Custody, ToldBefore } from './chain-store.ts';

/** The ledger, and a balance of the head, count for a block that is not further below the head: what came between is read and
 *  taken off. More: a run reads the chain twice. */
export const TAIL_BLOCKS_MAX = 2_000n;
/** Asked for in one go: a head that tells only its own state has moved on when many have been asked. */
const HOLDERS_AT_ONCE = 4;
/** The head may move while we ask. More tries than this: the node is slower than its chain. */
const HEAD_TRIES = 4;

/** A balance that the chain told, and of which block. */
export interface Told {
  readonly units: bigint;
  readonly block: BlockRef;
}

export interface Ends {
  readonly opening: bigint | null;
  readonly closing: Told | null;
  /** The end is so far below the head that no node is asked for more: no fault of a node. */
  readonly isTooFar: boolean;
  readonly fault: string;
}

interface Range {
  readonly from: bigint;
  readonly to: BlockHeader;
}

/** By `address asset`. */
export async function readBothEnds(
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  range: Range,
  wallets: readonly OwnWallet[],
  assets: readonly ChainAsset[],
): Promise<ReadonlyMap<string, Ends>> {
  const asked = wallets.flatMap(({ address }) =>
    assets.map((asset) => ({
      key: `${address} ${asset.id}`,
      holder: { address, contract: asset.contract === null ? null : chain.canonical(asset.contract) } satisfies Holder,
    })),
  );
  const holders = asked.map((one) => one.holder);
  // First the end: a chain that tells only balances of its head would soon not tell this one.
  const closing: Closing[] = [];
  for (let at = 0; at < holders.length; at += HOLDERS_AT_ONCE)
    closing.push(...(await readClosings(chain, nodes, range.to, holders.slice(at, at + HOLDERS_AT_ONCE))));
  const isEmpty = range.from === range.to.number + 1n;
  const before = isEmpty ? range.to : await headerOf(nodes, range.from - 1n);
  const opening = before === null ? null : await readBalancesSomewhere(nodes, before, holders);
  return new Map(
    asked.map(({ key }, index): [string, Ends] => {
      const [first, last] = [opening?.[index], closing[index]];
      return [
        key,
        {
          opening: first?.ok === true ? first.value : null,
          closing: last?.told ?? null,
          isTooFar: last?.isTooFar === true,
          fault: (last?.told ?? null) === null ? (last?.fault ?? '') : first?.ok === false ? first.fault : '',
        },
      ];
    }),
  );
}

interface Closing {
  readonly told: Told | null;
  readonly isTooFar: boolean;
  readonly fault: string;
}

async function readClosings(
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  to: BlockHeader,
  holders: readonly Holder[],
): Promise<Closing[]> {
  const told: (Told | null)[] = holders.map(() => null);
  const faults = holders.map(() => '');
  let isTooFar = false;
  const ask = async (from: readonly ChainNode[], block: BlockRef): Promise<void> => {
    const open = holders.flatMap((holder, index) => (told[index] === null ? [{ holder, index }] : []));
    const readings: readonly Reading<bigint>[] = await readBalancesSomewhere(
      from,
      block,
      open.map((one) => one.holder),
    );
    for (const [at, { index }] of open.entries()) {
      const reading = readings[at];
      if (reading?.ok === true) told[index] = { units: reading.value, block };
      else faults[index] = reading?.fault ?? 'no node was asked';
    }
  };
  await ask(nodes, to);
  for (let tries = 0; tries < HEAD_TRIES && !isTooFar && told.includes(null); tries += 1) {
    const head = await openChain(chain, null);
    isTooFar = head.to.number - to.number > TAIL_BLOCKS_MAX;
    if (!isTooFar) await ask(head.nodes, head.to);
  }
  return holders.map((_, index) => ({ told: told[index] ?? null, isTooFar, fault: faults[index] ?? '' }));
}

export async function headerOf(nodes: readonly ChainNode[], number: bigint): Promise<BlockHeader | null> {
  for (const node of nodes) {
    const header = await node.readHeader(number);
    if (header.ok) return header.value;
  }
  return null;
}

/** Of what earlier runs were told, that whose block the chain still shows. */
export async function keepStanding(
  nodes: readonly ChainNode[],
  list: readonly ToldBefore[],
): Promise<readonly ToldBefore[]> {
  const shown = new Map<bigint, string | null>();
  for (const { block } of list) if (!shown.has(block)) shown.set(block, (await headerOf(nodes, block))?.hash ?? null);
  return list.filter((one) => shown.get(one.block) === one.hash);
}

interface Moved {
  readonly movements: readonly Movement[];
  readonly costs: readonly Cost[];
}

export interface SumScene {
  readonly wallet: OwnWallet;
  readonly range: Range;
  readonly assets: readonly ChainAsset[];
  readonly balances: ReadonlyMap<string, Ends>;
  /** Of this wallet: what moved in the range, and after it up to `tailTo`. */
  readonly read: Moved;
  readonly tail: (Moved & { readonly to: bigint }) | null;
  readonly toldBefore: readonly ToldBefore[];
  readonly accounts: readonly Custody[];
  /** Units of the ledger by account that belong to the range or came after it; `null`: the ledger is not compared. */
  readonly bookedHere: ReadonlyMap<bigint, bigint> | null;
}

export function sumsOf(scene: SumScene): AssetSums[] {
  return scene.assets.flatMap((asset): AssetSums[] => {
    const { wallet, range, read, accounts, bookedHere } = scene;
    const { came, went, cost } = sumOf(read, wallet, asset);
    const ends = scene.balances.get(`${wallet.address} ${asset.id}`);
    const account = accounts.find((one) => one.assetId === asset.id);
    const closing = closingOf(scene, asset, ends?.closing ?? null);
    const isIdle = came === 0n && went === 0n && cost === 0n && account === undefined;
    if (isIdle && (closing ?? 0n) === 0n && (ends?.opening ?? 0n) === 0n) return [];
    const { opening, openingFrom, openingTold } = openingOf(scene, asset, ends?.opening ?? null, closing);
    const isCompared = opening !== null && openingFrom !== 'untold' && closing !== null;
    // What the ledger has beside the range is what the wallet had before it.
    const beside =
      bookedHere === null ? null : (account?.booked ?? 0n) - (bookedHere.get(account?.accountId ?? -1n) ?? 0n);
    return [
      {
        assetId: asset.id,
        opening,
        openingFrom,
        openingTold,
        came,
        went,
        cost,
        closing,
        told: closing === null ? null : (ends?.closing ?? null),
        difference: isCompared ? closing - (opening + came - went - cost) : null,
        booked: bookedHere === null ? null : (account?.booked ?? 0n),
        ledgerDifference: beside === null || closing === null || opening === null ? null : beside - opening,
        isTooFar: closing === null && ends?.isTooFar === true,
        fault: ends?.fault ?? '',
        to: range.to.number,
      },
    ];
  });
}

function sumOf({ movements, costs }: Moved, { address }: OwnWallet, asset: ChainAsset) {
  const moved = movements.filter((one) => one.assetId === asset.id);
  const total = (list: readonly Movement[]): bigint => list.reduce((sum, one) => sum + one.amount, 0n);
  const came = total(moved.filter((one) => one.to === address));
  const went = total(moved.filter((one) => one.from === address));
  // TRON's energy and bandwidth that are burned are in this too: the chain takes one fee in its coin.
  const cost = asset.contract === null ? costs.reduce((sum, one) => sum + one.units, 0n) : 0n;
  return { came, went, cost, net: came - went - cost };
}

function until({ movements, costs }: Moved, block: bigint): Moved {
  return {
    movements: movements.filter((one) => one.blockNumber <= block),
    costs: costs.filter((one) => one.blockNumber <= block),
  };
}

/** `null`: no balance was told, or what moved since was not read. */
function closingOf({ wallet, range, tail }: SumScene, asset: ChainAsset, told: Told | null): bigint | null {
  if (told === null) return null;
  if (told.block.number === range.to.number) return told.units;
  if (tail === null || tail.to < told.block.number) return null;
  return told.units - sumOf(until(tail, told.block.number), wallet, asset).net;
}

function openingOf(
  { wallet, range, read, toldBefore }: SumScene,
  asset: ChainAsset,
  shown: bigint | null,
  closing: bigint | null,
): Pick<AssetSums, 'opening' | 'openingFrom' | 'openingTold'> {
  if (shown !== null) return { opening: shown, openingFrom: 'chain', openingTold: null };
  const before = toldBefore.find(
    (one) => one.assetId === asset.id && one.block >= range.from - 1n && one.block < range.to.number,
  );
  if (before !== undefined) {
    const { net } = sumOf(until(read, before.block), wallet, asset);
    return { opening: before.units - net, openingFrom: 'report', openingTold: before.block };
  }
  if (closing === null) return { opening: null, openingFrom: 'untold', openingTold: null };
  const left = closing - sumOf(read, wallet, asset).net;
  // Nothing is left over: the range begins with the wallet's first movement. Less than nothing was never there.
  if (left <= 0n) return { opening: 0n, openingFrom: 'first_movement', openingTold: null };
  return { opening: left, openingFrom: 'untold', openingTold: null };
}

export function findingsOfSums(chain: string, wallet: OwnWallet, sums: AssetSums): ChainFinding[] {
  const { to } = sums;
  const about = {
    direction: null,
    partnerId: wallet.partnerId,
    assetId: sums.assetId,
    blockNumber: to,
    txHash: null,
    position: null,
    counterparty: null,
    effect: null,
  };
  const basis =
    sums.openingFrom === 'first_movement' ? `; the opening is not told (${sums.fault}), so it was taken for 0` : '';
  if (sums.closing === null) {
    // Said in the report; a node that keeps no old states is no finding.
    if (sums.isTooFar) return [];
    const key = `unproved:${chain}:${wallet.address}:${sums.assetId}:${to}`;
    const detail = `no node tells the balance at block ${to} or at its final head (${sums.fault}): look after the nodes, or ask one that keeps its state`;
    return [{ ...about, key, kind: 'unproved', amount: 0n, detail }];
  }
  const found: ChainFinding[] = [];
  if (sums.difference !== null && sums.difference !== 0n)
    found.push({
      ...about,
      key: `balance:${chain}:${wallet.address}:${sums.assetId}:${to}`,
      kind: 'balance',
      amount: sums.difference,
      detail: `the wallet has ${sums.closing} units, and its movements give ${sums.closing - sums.difference}${basis}`,
    });
  const ledger = sums.ledgerDifference;
  if (ledger !== null && ledger !== 0n)
    found.push({
      ...about,
      key: `ledger:${chain}:${wallet.address}:${sums.assetId}:${to}:${ledger}`,
      kind: 'ledger',
      amount: ledger,
      detail: `booked are ${sums.booked ?? 0n} units, on the chain are ${sums.closing}${basis}`,
    });
  return found;
}

/** What became final after the last block, up to now: it may be booked already. `null`: too far back. */
export async function readTail(
  chain: ReconciledChain,
  to: BlockHeader,
  headBefore: bigint,
  readOn: (nodes: readonly ChainNode[], from: bigint, head: BlockHeader) => Promise<RangeRead>,
): Promise<(RangeRead & { readonly to: bigint }) | null> {
  if (headBefore - to.number > TAIL_BLOCKS_MAX) return null;
  const { nodes, to: head } = await openChain(chain, null);
  if (head.number <= to.number) return { movements: [], costs: [], time: null, to: to.number };
  return { ...(await readOn(nodes, to.number + 1n, head)), to: head.number };
}
