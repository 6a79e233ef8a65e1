/**
 * Reconciling wallets with their chain, both ways (R11): `payonce reconcile chain`, and on schedule (`chain-watch.ts`).
 *
 * Promises: over the range, each outflow is exactly one effect of ours, each settled effect exactly one outflow, each inflow one
 * effect or record with a class, and each transaction's cost is booked; IN − OUT − cost from the opening balance is the balance at
 * the last block, to the unit; and what the ledger has in the wallet is what the chain shows there. What is not so is listed with
 * partner, block, transaction and amount. The same blocks and books give the same report. It is stored, with an alert where
 * something was found; a clean run over what was found clears it, and so does a repair by two persons (`../repair`).
 * Never: a booking, a settlement, a release; a count subtracted from another; a guess of a balance that no node tells.
 * Beside it: live traffic. Only final blocks are compared, and the ledger as it stood at one moment.
 * Files: chain-read (the port, and blocks), chain-facts, chain-match (pure), chain-report (shapes), chain-store, chain-watch.
 */
import type { Pool } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { Log } from '../../kernel/log.ts';
import type { BlockHeader, Movement, WatchedAssets } from '../../flows/deposits/index.ts';
import { accountedFor, findUnseen, loadFacts, partOf } from './chain-facts.ts';
import { inReportOrder, type ChainFinding, matchWallet, type OwnWallet } from './chain-match.ts';
import {
  type ChainNode,
  type Cost,
  type Holder,
  openChain,
  type Progress,
  type RangeRead,
  readBalancesSomewhere,
  readRange,
  type ReconciledChain,
} from './chain-read.ts';
import { type AssetSums, type ChainReport, toChainJson } from './chain-report.ts';
import * as store from './chain-store.ts';

/** The ledger is compared where the head is not further than this: what was booked after the last block is read and taken off. */
const TAIL_BLOCKS_MAX = 2_000n;

export interface ChainRequest {
  readonly wallets: readonly string[];
  /** The first block; absent: after what was compared before. */
  readonly from?: bigint | undefined;
  /** The last block, a final one; absent: the highest. */
  readonly to?: bigint | undefined;
  readonly onProgress?: Progress;
}

export interface ReconcileDeps {
  readonly pool: Pool;
  readonly log?: Log;
}

/** One report per wallet, in order; durable on return, with their alerts. Throws PO_NOT_FOUND, PO_REQUEST_INVALID, PO_BUSY. */
export async function reconcileChain(
  deps: ReconcileDeps,
  chain: ReconciledChain,
  request: ChainRequest,
): Promise<ChainReport[]> {
  const { pool } = deps;
  const wallets = await namedWallets(deps, chain, request.wallets);
  const assets = await watchedAssets(deps, chain);
  const opened = await openChain(chain, request.to ?? null);
  const { nodes, to } = opened;
  const range = { from: await firstBlock(deps, chain, wallets, request.from, to.number), to };
  const watched = { wallets: new Set(wallets.map((one) => one.address)), assets: assets.watched };

  const balances = await readBothEnds(chain, nodes, range, wallets, assets.list);
  const read = await readRange(chain, nodes, range, watched, request.onProgress);
  const custody = await store.loadCustodyNow(pool, chain.chain, [...watched.wallets]);
  const tail = await readTail(chain, range.to, watched, opened.head);
  const facts = await loadFacts(pool, chain, [read, ...(tail === null ? [] : [tail])]);

  const reports: ChainReport[] = [];
  for (const wallet of wallets) {
    const own = { read: partOf(read, wallet), tail: tail === null ? null : partOf(tail, wallet) };
    const accounts = custody.filter((one) => one.wallet === wallet.address);
    const unseen = await findUnseen(pool, chain, nodes, wallet, { ...range, time: read.time }, own.read);
    const booked = await store.loadBookedFor(pool, accounts, accountedFor(own, facts, unseen));
    const coinAccount = accounts.find((one) => one.assetId === assets.watched.nativeAssetId);
    const matched = matchWallet({
      chain: chain.chain,
      wallet,
      coinAssetId: assets.watched.nativeAssetId,
      movements: own.read.movements,
      costs: own.read.costs,
      effects: facts.effects,
      records: facts.records,
      own: facts.own,
      gasBooked: booked.gas.get(coinAccount?.accountId ?? -1n) ?? new Map(),
      scanNext: facts.scanNext,
      unseen,
    });
    const sums = sumsOf(wallet, assets, balances, own.read, accounts, tail === null ? null : booked.byAccount);
    const all = [...matched.findings, ...sums.flatMap((one) => findingsOfSums(chain.chain, wallet, to.number, one))];
    const repairs = await store.loadRepairs(pool, [...new Set(all.map((one) => one.key))]);
    const findings = uniqueByKey(all.filter((one) => !repairs.has(one.key)).toSorted(inReportOrder));
    reports.push(
      await storeOne(deps, {
        chain: chain.chain,
        wallet,
        from: range.from,
        to: to.number,
        toHash: to.hash,
        counts: matched.counts,
        sums,
        findings,
        repaired: all.flatMap((finding) => {
          const repair = repairs.get(finding.key);
          return repair === undefined ? [] : [{ finding, repair }];
        }),
        assets: assets.list,
        comparedLedger: tail !== null,
      }),
    );
  }
  return reports;
}

/** A self-transfer is one movement with two sides, and two findings of one thing are one row. */
function uniqueByKey(findings: readonly ChainFinding[]): ChainFinding[] {
  const seen = new Set<string>();
  return findings.filter(({ key }) => !seen.has(key) && seen.add(key));
}

async function namedWallets(
  deps: ReconcileDeps,
  chain: ReconciledChain,
  names: readonly string[],
): Promise<OwnWallet[]> {
  const addresses = names.map((name) => {
    const address = chain.canonical(name);
    if (address === null)
      throw new PayonceError('PO_REQUEST_INVALID', { detail: `"${name}" is no address of ${chain.chain}` });
    return address;
  });
  const own = await store.loadOwn(deps.pool, chain.chain, addresses);
  return addresses.map((address) => {
    const wallet = own.get(address);
    if (wallet === undefined)
      throw new PayonceError('PO_NOT_FOUND', { detail: `${address} is no wallet of ours on ${chain.chain}` });
    return wallet;
  });
}

interface Assets {
  readonly list: readonly store.ChainAsset[];
  readonly watched: WatchedAssets;
}

async function watchedAssets(deps: ReconcileDeps, chain: ReconciledChain): Promise<Assets> {
  const list = await store.loadChainAssets(deps.pool, chain.chain);
  const contracts = new Map<string, string>();
  let nativeAssetId: string | null = null;
  for (const { id, contract } of list) {
    const canonical = contract === null ? null : chain.canonical(contract);
    if (contract === null) nativeAssetId = id;
    else if (canonical !== null) contracts.set(canonical, id);
  }
  return { list, watched: { contracts, nativeAssetId } };
}

async function firstBlock(
  deps: ReconcileDeps,
  chain: ReconciledChain,
  wallets: readonly OwnWallet[],
  asked: bigint | undefined,
  to: bigint,
): Promise<bigint> {
  if (asked !== undefined) {
    if (asked < 1n || asked > to)
      throw new PayonceError('PO_REQUEST_INVALID', {
        detail: `From block ${asked} to block ${to}: the first is 1 or later (the opening balance is that of the block before), and not after the last`,
      });
    return asked;
  }
  let least: bigint | null = null;
  for (const { address } of wallets) {
    const block = await store.loadFirstBlock(deps.pool, chain.chain, address);
    if (block !== null && (least === null || block < least)) least = block;
  }
  if (least === null)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `Nothing was compared on ${chain.chain} yet and its scan has read no block: name the first block (--from)`,
    });
  const first = least < 1n ? 1n : least;
  return first > to + 1n ? to + 1n : first;
}

interface Ends {
  readonly opening: bigint | null;
  readonly closing: bigint | null;
  readonly fault: string;
}

async function readBothEnds(
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  range: { readonly from: bigint; readonly to: BlockHeader },
  wallets: readonly OwnWallet[],
  assets: readonly store.ChainAsset[],
): Promise<ReadonlyMap<string, Ends>> {
  const asked = wallets.flatMap(({ address }) =>
    assets.map((asset) => ({
      key: `${address} ${asset.id}`,
      holder: { address, contract: asset.contract === null ? null : chain.canonical(asset.contract) } satisfies Holder,
    })),
  );
  const holders = asked.map((one) => one.holder);
  // First the end: a chain that tells only balances of its head would soon not tell this one.
  const closing = await readBalancesSomewhere(nodes, range.to, holders);
  const before = range.from === range.to.number + 1n ? range.to : await headerOf(nodes, range.from - 1n);
  const opening = before === null ? null : await readBalancesSomewhere(nodes, before, holders);
  return new Map(
    asked.map(({ key }, index): [string, Ends] => {
      const [first, last] = [opening?.[index], closing[index]];
      return [
        key,
        {
          opening: first?.ok === true ? first.value : null,
          closing: last?.ok === true ? last.value : null,
          fault: last?.ok === false ? last.fault : first?.ok === false ? first.fault : '',
        },
      ];
    }),
  );
}

async function headerOf(nodes: readonly ChainNode[], number: bigint): Promise<BlockHeader | null> {
  for (const node of nodes) {
    const header = await node.readHeader(number);
    if (header.ok) return header.value;
  }
  return null;
}

/** What became final after the last block, up to now: it may be booked already. `null`: too far back to compare the ledger. */
async function readTail(
  chain: ReconciledChain,
  to: BlockHeader,
  watched: { readonly wallets: ReadonlySet<string>; readonly assets: WatchedAssets },
  headBefore: bigint,
): Promise<RangeRead | null> {
  if (headBefore - to.number > TAIL_BLOCKS_MAX) return null;
  const { nodes, to: head } = await openChain(chain, null);
  if (head.number < to.number) return { movements: [], costs: [], time: null };
  return readRange(chain, nodes, { from: to.number + 1n, to: head }, watched);
}

function sumsOf(
  wallet: OwnWallet,
  assets: Assets,
  balances: ReadonlyMap<string, Ends>,
  read: { readonly movements: readonly Movement[]; readonly costs: readonly Cost[] },
  accounts: readonly store.Custody[],
  bookedHere: ReadonlyMap<bigint, bigint> | null,
): AssetSums[] {
  return assets.list.flatMap((asset): AssetSums[] => {
    const moved = read.movements.filter((one) => one.assetId === asset.id);
    const total = (list: readonly { amount: bigint }[]): bigint => list.reduce((sum, one) => sum + one.amount, 0n);
    const came = total(moved.filter((one) => one.to === wallet.address));
    const went = total(moved.filter((one) => one.from === wallet.address));
    const cost = asset.contract === null ? read.costs.reduce((sum, one) => sum + one.units, 0n) : 0n;
    const ends = balances.get(`${wallet.address} ${asset.id}`) ?? { opening: null, closing: null, fault: '' };
    const account = accounts.find((one) => one.assetId === asset.id);
    const isIdle = moved.length === 0 && cost === 0n && account === undefined;
    if (isIdle && (ends.closing ?? 0n) === 0n && (ends.opening ?? 0n) === 0n) return [];
    // Without a proven opening the range must begin with the wallet's first movement: the end then shows whether it does.
    const opening = ends.opening ?? 0n;
    const difference = ends.closing === null ? null : ends.closing - (opening + came - went - cost);
    // What the ledger has beside the range is what the wallet had before it.
    const beside =
      bookedHere === null ? null : (account?.booked ?? 0n) - (bookedHere.get(account?.accountId ?? -1n) ?? 0n);
    return [
      {
        assetId: asset.id,
        opening,
        openingFrom: ends.opening === null ? 'first_movement' : 'chain',
        came,
        went,
        cost,
        closing: ends.closing,
        difference,
        booked: bookedHere === null ? null : (account?.booked ?? 0n),
        ledgerDifference: beside === null || ends.closing === null ? null : beside - opening,
        fault: ends.fault,
      },
    ];
  });
}

function findingsOfSums(chain: string, wallet: OwnWallet, to: bigint, sums: AssetSums): ChainFinding[] {
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
  const found: ChainFinding[] = [];
  const basis = sums.openingFrom === 'chain' ? '' : `; the opening is not told (${sums.fault}), so it was taken for 0`;
  if (sums.closing === null || sums.difference === null) {
    const key = `unproved:${chain}:${wallet.address}:${sums.assetId}:${to}`;
    const detail = `no node tells the balance at block ${to} (${sums.fault}): ask one that keeps its state`;
    return [{ ...about, key, kind: 'unproved', amount: 0n, detail }];
  }
  if (sums.difference !== 0n)
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

async function storeOne(
  deps: ReconcileDeps,
  report: Omit<ChainReport, 'reportId' | 'findingIds'>,
): Promise<ChainReport> {
  const { chain, wallet, from, to, findings } = report;
  const key = `${chain}:${wallet.address}`;
  return deps.pool.tx('reconcile chain', async (tx) => {
    if (findings.length > 0) {
      const message = `${findings.length} differences between ${wallet.address} and ${chain}, blocks ${from} to ${to}: payonce reconcile chain --chain ${chain} --wallet ${wallet.address} --from ${from} --to ${to}`;
      await raiseAlert(tx, 'chain_reconcile', key, message, deps.log);
    } else if (await store.coversAllFound(tx, { chain, wallet: wallet.address, from, to }, report.comparedLedger)) {
      await clearAlert(tx, 'chain_reconcile', key);
    }
    const stored = await store.storeChainReport(
      tx,
      { chain, wallet: wallet.address, from, to, toHash: report.toHash, json: JSON.stringify(toChainJson(report)) },
      findings,
    );
    return { ...report, ...stored };
  });
}
