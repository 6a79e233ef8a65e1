/** What the commands need from outside: given by `main`, which alone reads the configuration and wires. */
import type { DoctorReport } from '../audit/doctor.ts';
import type { Pool, Tx } from '../db/pool.ts';
import type { EngineDeps } from '../engine/deps.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Chance } from '../kernel/ports.ts';

/** For commands that read or write rows only: no key is opened, no rail is asked. */
export interface Database {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chance: Chance;
  /** Who is at the command line; null: nobody said. */
  readonly operatorKey: string | null;
}

/** For commands that end effects or ask rails. */
export interface Wired extends Database {
  readonly engine: EngineDeps;
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
  /** Throws PO_CONFIG_INVALID that lists every fault. */
  /** Throws PO_CONFIG_INVALID for keys that `serve` would refuse. */
  checkKeys(): Promise<void>;
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
  /** A new key in the keystore, safely stored when this resolves; answers its address. */
  createWallet(): Promise<string>;
  serve(): Promise<void>;
  work(roles: readonly string[]): Promise<void>;
  up(): Promise<void>;
}
