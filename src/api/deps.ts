/** What the API needs from outside: given by `main`, or by a test. */
import type { Pool } from '../db/pool.ts';
import type { EngineDeps } from '../engine/deps.ts';
import type { Payee } from '../flows/p2p/view.ts';
import type { MayCall, WordOf } from '../flows/payouts/index.ts';
import type { PayeeCheck } from '../flows/transfers/index.ts';
import type { Receiver } from '../inbox/receive.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import type { Chart } from '../ledger/accounts.ts';
import type { UrlPolicy } from '../outbox/url-policy.ts';

/** A destination as the rail of its chain reads it: `address` is stored and compared, `display` is for people. */
type ReadDestination =
  | { readonly ok: true; readonly address: string; readonly display: string }
  | { readonly ok: false; readonly fault: string; readonly expected: string };

export interface ApiDeps {
  readonly pool: Pool;
  readonly ports: Ports;
  readonly log: Log;
  readonly makeId: MakeId;
  readonly chart: Chart;
  readonly engine: EngineDeps;
  readonly version: string;
  /** Asks no node: it judges the spelling. */
  readDestination(chain: string, text: string): ReadDestination;
  /** The rules for a payee of the bank that pays this asset; `null`: it is not paid through a bank. */
  readPayee(assetId: string): PayeeCheck | null;
  /** An address of a chain as a word of its contracts: 64 hex digits. */
  readonly wordOf: WordOf;
  /** Whether programmes may ask this of a contract. */
  readonly mayCall: MayCall;
  /** How many transfers of this asset go in one batch; 1: one by one. */
  batchLinesMax(assetId: string): number;
  /** Where a buyer pays a provider's trade, as a stored answer shows it. */
  readTradePayment(storedAnswer: string, tradeId: string): Payee | null;
  /** Chains on which deposit addresses can be made. */
  readonly depositChains: readonly string[];
  /** A fresh address in canonical spelling, whose key is safely stored when this resolves. */
  newDepositAddress(chain: string): Promise<string>;
  readonly inbox: Pick<Receiver, 'receive'>;
  readonly webhooks: { readonly masterSecret: Uint8Array; readonly urlPolicy: UrlPolicy };
  /** Tells the workers of this process that there is something to do. It may fail: they look by themselves too. */
  wake(): void;
  /** How the rails are, for /readyz; a degraded rail does not stop the API. */
  railHealth?(): readonly { readonly rail: string; readonly status: 'ok' | 'degraded' }[];
  /** A broken invariant: the process must stop. */
  fatal?(error: Error): void;
  /** Requests per key and minute; 0 switches the limit off. */
  readonly requestsPerMinuteMax?: number;
  /** When given, /metrics wants it as a bearer token. */
  readonly metricsToken?: string;
}
