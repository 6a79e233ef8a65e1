/**
 * The library's public surface: the same parts that the server is made of, for a host that runs them in its own process.
 *
 * What each promises stands at its definition. A host brings a PostgreSQL URL, migrates it, opens a pool, makes a rail and
 * an engine, takes withdrawals in, and runs the passes (`sendOnce`, `watchOnce`, `reopenOnce`) in loops of its own.
 */
export { makeBatcher } from './db/batcher.ts';
export { startEmbeddedPostgres } from './db/embedded.ts';
export { migrate, schemaFits } from './db/migrate.ts';
export { makePool, type Pool, type PoolOptions, type Query, type Tx } from './db/pool.ts';
export { advanceEffect, advanceOnce, sendOnce, watchOnce } from './engine/advance.ts';
export { type Counters, type EngineDeps, type EngineOptions, makeEngine } from './engine/engine.ts';
export type { Flow } from './engine/flow.ts';
export type { Rail } from './engine/rail.ts';
export { makeNoopRail } from './engine/noop.ts';
export { reopenOnce } from './engine/reopen.ts';
export * from './flows/deposits/index.ts';
export * from './flows/payouts/index.ts';
export * from './flows/transfers/index.ts';
export * from './flows/withdrawals/index.ts';
export { readWithdrawal } from './flows/withdrawals/store.ts';
export { ERRORS, type ErrorCode, PayonceError, type Problem, toProblem } from './kernel/errors.ts';
export { type MakeId, makeIds } from './kernel/ids.ts';
export { type Log, makeLog, silentLog } from './kernel/log.ts';
export { formatUnits, parseAmount } from './kernel/money.ts';
export { type Ports, systemPorts } from './kernel/ports.ts';
export { accountName, type Chart, makeChart } from './ledger/accounts.ts';
export { type LedgerItem, post, type Verdict } from './ledger/post.ts';
export { version } from './main/version.ts';
export {
  type BankRail,
  type BankRailConfig,
  type BankRailDeps,
  makeBankRail,
  type PayeeInput,
  type Profile,
  PROFILES,
  type ReadPayee,
} from './rails/bank/index.ts';
export {
  type EscrowRail,
  type EscrowRailConfig,
  makeEscrowRail,
  readTradeFaults,
  TRADE_PROFILES,
  type TradeProfile,
} from './rails/escrow/index.ts';
export * from './rails/evm/index.ts';
export { ROLES, startRoles } from './worker/roles.ts';
