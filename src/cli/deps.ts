/** What the commands need from outside: given by `main`, which alone reads the configuration and wires. */
import type { DoctorReport } from '../audit/doctor.ts';
import type { ReconciledChain } from '../audit/reconcile/chain-read.ts';
import type { Pool, Tx } from '../db/pool.ts';
import type { EngineDeps } from '../engine/deps.ts';
import type { PayoutDeps } from '../flows/payouts/index.ts';
import type { ScanResult } from '../flows/deposits/index.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Chance } from '../kernel/ports.ts';

/** For commands that read or write rows only: no key is opened, no rail is asked. */
export interface Database {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chance: Chance;
  /** Whose nights realizations follow; null: none are configured. */
  readonly realizationsZone: string | null;
  /** Who is at the command line; null: nobody said. */
  readonly operatorKey: string | null;
}

/** For commands that end effects or ask rails. */
export interface Wired extends Database {
  readonly engine: EngineDeps;
  readonly payouts: PayoutDeps;
  /** The chains that are configured here, to be read. */
  readonly chains: readonly ReconciledChain[];
  /** Reads blocks that the scan has booked again, by its own path; nothing is booked twice. */
  readonly rescan: (chain: string, from: bigint, to: bigint) => Promise<ScanResult>;
}

/** One setting as it stands, without what is secret. */
export interface ShownSetting {
  readonly name: string;
  readonly value: string;
  readonly isSet: boolean;
}

export interface CliDeps {
  readonly version: string;
  readonly workerRoles: readonly string[];
  configReference(): string;
  /** Throws PO_CONFIG_INVALID that lists every fault for which `serve` would refuse to start, its keys' too. */
  checkConfig(): Promise<void>;
  shownConfig(): {
    readonly settings: readonly ShownSetting[];
    readonly chains: readonly string[];
    readonly banks: readonly string[];
  };
  migrate(): Promise<{ applied: readonly string[] }>;
  doctor(): Promise<DoctorReport>;
  withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T>;
  withEngine<T>(work: (wired: Wired) => Promise<T>): Promise<T>;
  /** Durable with the caller's commit; the key is shown this once. */
  createApiKey(tx: Tx, partnerId: string): Promise<{ readonly id: string; readonly key: string }>;
  revokeApiKey(tx: Tx, partnerId: string, keyId: string): Promise<boolean>;
  /** A new key in the keystore, safely stored when this resolves; answers its address as EVM chains and as TRON write it. */
  createWallet(): Promise<{ readonly evm: string; readonly tron: string }>;
  serve(): Promise<void>;
  work(roles: readonly string[]): Promise<void>;
  up(): Promise<void>;
  /** Throws PO_REQUEST_INVALID that lists every fault; nothing leaves before `run`. */
  offerProbe(asked: ProbeAsked): Promise<ProbeOffer>;
}

/** What `payonce probe` was asked for. Secrets are named, never given. */
export interface ProbeAsked {
  readonly profile: string;
  readonly baseUrl: string;
  readonly account: string;
  readonly credential: string;
  readonly secretFrom: string;
  readonly secondSecretFrom: string | null;
  readonly encryptionKeyFrom: string | null;
  readonly currency: string;
  /** `null`: the profile says it. */
  readonly decimals: number | null;
  /** Decimal text. */
  readonly amount: string;
  readonly payee: { bankCode: string; accountNumber: string; holderName: string; memo: string };
  readonly refused: { bankCode: string; accountNumber: string } | null;
  readonly otherPath: string | null;
  readonly levers: { clock?: string; drain?: string; topUp?: string; balance?: string; fail?: string };
  readonly lagWaitMs: number;
}

/** What would be sent, told before anything is. Amounts are decimal text. */
export interface ProbeOffer {
  readonly requestsMax: number;
  readonly transfersExpected: number;
  readonly amountEach: string;
  readonly amountMax: string;
  readonly notTried: readonly { readonly probe: string; readonly why: string }[];
  run(onStep: (probe: string, done: number, total: number) => void): Promise<ProbeTold>;
}

export interface ProbeTold {
  readonly profile: string;
  readonly started: boolean;
  readonly ok: boolean;
  readonly requestsSent: number;
  readonly transfersSeen: number;
  readonly rows: readonly {
    readonly probe: string;
    readonly declared: string;
    readonly cite: string | null;
    readonly observed: string;
    readonly verdict: 'agrees' | 'promises_more' | 'promises_less' | 'not_tried';
    readonly answers: readonly object[];
  }[];
}
