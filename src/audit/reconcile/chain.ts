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
 * Files: chain-read (the port, and blocks), chain-balances (both ends, and how they are known), chain-facts, chain-match (pure),
 * chain-report (shapes), chain-store, chain-watch.
 */
import type { Pool } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { Log } from '../../kernel/log.ts';
import type { WatchedAssets } from '../../flows/deposits/index.ts';
import { findingsOfSums, keepStanding, readBothEnds, readTail, sumsOf } from './chain-balances.ts';
import { accountedFor, findUnseen, loadFacts, partOf } from './chain-facts.ts';
import { inReportOrder, type ChainFinding, matchWallet, type OwnWallet } from './chain-match.ts';
import { openChain, type Progress, readRange, type ReconciledChain } from './chain-read.ts';
import { type ChainReport, toChainJson } from './chain-report.ts';
import * as store from './chain-store.ts';

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
  const tail = await readTail(chain, to, opened.head, (from, first, head) =>
    readRange(chain, from, { from: first, to: head }, watched),
  );
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
    const sums = sumsOf({
      wallet,
      range,
      assets: assets.list,
      balances,
      read: own.read,
      tail: own.tail === null || tail === null ? null : { ...own.tail, to: tail.to },
      toldBefore: await keepStanding(nodes, await store.loadToldBefore(pool, chain.chain, wallet.address, range)),
      accounts,
      bookedHere: tail === null ? null : booked.byAccount,
    });
    const all = [...matched.findings, ...sums.flatMap((one) => findingsOfSums(chain.chain, wallet, one))];
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
      throw new PayonceError('PO_REQUEST_INVALID', {
        detail: `--wallet: got "${name}", expected an address of ${chain.chain}: a character is wrong or missing`,
      });
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
