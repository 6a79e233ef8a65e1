/**
 * From a block to movements of money: pure, and the only place that reads logs.
 *
 * A token moved where a receipt of outer status 1 (case H1) has a Transfer log of a contract on our list, matched by
 * (chain, contract) and never by symbol (case H3), never by calldata (case H2). A coin moved where such a transaction had
 * a value. The position is the log's index in its own transaction's receipt, −1 for the value: two transfers in one
 * transaction are two (case H5), and a transaction that is mined again in another block keeps its positions.
 * Coins that a contract passes on leave no log. Where the chain tells them (TRON) they follow the logs in position; else
 * they are not seen here, and reconciliation by balance finds them.
 */
import type { Block, TransferLog } from './block-source.ts';

/** `Transfer(address,address,uint256)`. */
const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const ADDRESS_WORD = /^0x0{24}[0-9a-f]{40}$/;
const AMOUNT_WORD = /^0x[0-9a-f]{64}$/;
/** Stands for the receiver where a transaction makes a contract: no address of ours ever looks so. */
const NEW_CONTRACT = 'new-contract';
const NATIVE_POSITION = -1;

export interface Movement {
  readonly txHash: string;
  readonly position: number;
  readonly blockNumber: bigint;
  readonly blockHash: string;
  readonly assetId: string;
  readonly from: string;
  readonly to: string;
  /** Units, above 0. */
  readonly amount: bigint;
  /** Who signed the transaction; differs from `from` where a contract moves the tokens of another. */
  readonly sender: string;
  readonly nonce: bigint;
}

export interface BlockMovements {
  readonly movements: readonly Movement[];
  /** Transfer logs of contracts that are not on our list. */
  readonly lookAlikes: readonly { readonly contract: string; readonly to: string }[];
  /** Transfer logs of our contracts that do not read as such; each is left out alone (case H11). */
  readonly malformed: readonly { readonly contract: string; readonly txHash: string; readonly position: number }[];
  readonly zeroAmounts: number;
}

export interface WatchedAssets {
  /** Asset id by contract, in canonical spelling. */
  readonly contracts: ReadonlyMap<string, string>;
  readonly nativeAssetId: string | null;
}

export function readMovements(block: Block, assets: WatchedAssets): BlockMovements {
  const movements: Movement[] = [];
  const lookAlikes: BlockMovements['lookAlikes'][number][] = [];
  const malformed: BlockMovements['malformed'][number][] = [];
  let zeroAmounts = 0;

  for (const transaction of block.transactions) {
    const { hash: txHash, from: sender, nonce, receipt } = transaction;
    if (!receipt.succeeded) continue;
    const place = { blockNumber: block.number, blockHash: block.hash, txHash, sender, nonce };
    if (assets.nativeAssetId !== null && transaction.value > 0n) {
      const to = transaction.to ?? NEW_CONTRACT;
      const { nativeAssetId: assetId } = assets;
      movements.push({ ...place, position: NATIVE_POSITION, assetId, from: sender, to, amount: transaction.value });
    }
    for (const [position, log] of receipt.logs.entries()) {
      if (log.topics[0] !== TRANSFER_TOPIC) continue;
      const assetId = assets.contracts.get(log.address);
      const transfer = decodeTransfer(log);
      if (assetId === undefined) {
        if (transfer !== null) lookAlikes.push({ contract: log.address, to: transfer.to });
      } else if (transfer === null) {
        malformed.push({ contract: log.address, txHash, position });
      } else if (transfer.amount === 0n) {
        zeroAmounts += 1;
      } else {
        movements.push({ ...place, position, assetId, ...transfer });
      }
    }
    if (assets.nativeAssetId === null) continue;
    for (const [index, { from, to, value: amount }] of (transaction.internal ?? []).entries()) {
      const position = receipt.logs.length + index;
      movements.push({ ...place, position, assetId: assets.nativeAssetId, from, to, amount });
    }
  }
  return { movements, lookAlikes, malformed, zeroAmounts };
}

function decodeTransfer(log: TransferLog): { from: string; to: string; amount: bigint } | null {
  const [, from, to] = log.topics;
  if (log.topics.length !== 3 || from === undefined || to === undefined) return null;
  if (!ADDRESS_WORD.test(from) || !ADDRESS_WORD.test(to) || !AMOUNT_WORD.test(log.data)) return null;
  const parties = log.parties ?? { from: `0x${from.slice(26)}`, to: `0x${to.slice(26)}` };
  return { ...parties, amount: BigInt(log.data) };
}
