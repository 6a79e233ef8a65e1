/**
 * Deposits: a partner is credited once for each real, final transfer to an address of theirs.
 *
 * Promises: a credit comes from a final block on whose hash enough operators agree, from a log of a contract on our list
 * (or a native value) in a transaction of outer status 1; one credit per (chain, transaction, position in its receipt),
 * whatever number of scanners and monitors report it and however often (W11). The credit, its fee, the event and the
 * cursor's step share one commit. Every movement at an address of ours gets exactly one class (R10, inv I1), and custody
 * follows the chain whatever the class (inv I2; see `entries.ts`). Before finality a deposit is only shown.
 * Never: a credit from the head, from calldata, from a webhook; a guess whose the money is (suspense and a person); a
 * correction other than by new entries (`reverse.ts`).
 * Not seen: coins that a contract passes on leave no log; reconciliation by balance finds them.
 * Beside it: as many scanners as one likes; the engine, whose effects' transactions are told apart by hash or payload.
 *
 * Files: block-source (the port to nodes), agreement, scan, detect, read-movements and classify-transfer (pure),
 * sightings, book, entries, people, reverse, store, cursor-store, views, addresses, check-assets, limits.
 */
export {
  addDepositAddress,
  type AddressResult,
  type AddressWish,
  createDepositAddress,
  type DepositAddress,
  listDepositAddresses,
  readDepositAddress,
} from './addresses.ts';
export { agreedHeight, askAgreement, type Final, readFinals } from './agreement.ts';
export {
  type Block,
  type BlockHeader,
  type BlockRef,
  type BlockSource,
  type BlockTransaction,
  type Reading,
  readRun,
} from './block-source.ts';
export { type AddressKind, classifySides } from './classify-transfer.ts';
export type { UnknownMovement } from './book.ts';
export { type AssetSaid, checkAssets } from './check-assets.ts';
export { type Movement, readMovements, type WatchedAssets } from './read-movements.ts';
export { REVERSE_DEPOSIT, reverseDeposit } from './reverse.ts';
export { makeScanner, resumeScan, type Scanner, type ScannerDeps, type ScanResult } from './scan.ts';
export { sideOf } from './sightings.ts';
export type { DepositState } from './store.ts';
export {
  type DepositView,
  listDeposits,
  type PageResult,
  readDeposit,
  toDepositData,
} from './views.ts';
