/**
 * The bank rail: transfers over one provider's HTTP API, told apart by a profile.
 *
 * Promises: one identity is one derived key within (credential, account, base URL, method, path) with one exact request; what
 * leaves is read from the seal and never built again. Asking again is sending the same bytes; a changed credential or address
 * withholds that, and looks go on. An answer counts only when it echoes our key or reference, and a code or state that the
 * profile does not know is unreadable.
 * Never: retries, follows a redirect, cuts a text, reads a 5xx, a 404 or a silence as "no". It holds no database handle.
 * Beside it: a provider's webhook wakes a look and proves nothing.
 * Files: config, profile (the type), profiles/ (the providers), destination (the edge), plan, seal, kind, read (what a transfer
 * shows), echo and lines (whose answer it is), evidence (what a profile claims), jwe, probe/. The wire, the order of reading and
 * what is stored are those of every rail with keys: `rails/keyed-*.ts`.
 */
import type { Rail } from '../../engine/rail.ts';
import { type KeyedRailDeps, makeKeyedRail, refuseFaults } from '../keyed-rail.ts';
import { type BankRailConfig, configFaults } from './config.ts';
import { type PayeeInput, type ReadPayee, readPayee } from './destination.ts';
import { makeJwe } from './jwe.ts';
import { BANK_KIND } from './kind.ts';
import { LOOK_EVERY_MS, RESEND_AFTER_MS, RETURNS_WITHIN_MS, SEND_CONCURRENCY_MAX } from './limits.ts';
import { planTransfer } from './plan.ts';
import type { Profile } from './profile.ts';
import { readBankAnswer } from './read.ts';
import { sealTransfer } from './seal.ts';

export type { BankRailConfig } from './config.ts';
export type { PayeeInput, ReadPayee } from './destination.ts';
export { evidenceOf, type ProfileEvidence, widenings } from './evidence.ts';
export type { Maintenance } from './plan.ts';
export type { Profile } from './profile.ts';
export { PROFILES } from './profiles/index.ts';
export type { KeyedRailDeps as BankRailDeps } from '../keyed-rail.ts';

export interface BankRail extends Rail {
  readonly profile: Profile;
  /** The edge: what this provider can carry of a receiver. */
  readPayee(input: PayeeInput): ReadPayee;
  close(): Promise<void>;
}

const PACE = {
  sendConcurrencyMax: SEND_CONCURRENCY_MAX,
  lookEveryMs: LOOK_EVERY_MS,
  resendAfterMs: RESEND_AFTER_MS,
  returnsWithinMs: RETURNS_WITHIN_MS,
};

/** Throws for a configuration that cannot work. */
export function makeBankRail(config: BankRailConfig, deps: KeyedRailDeps): BankRail {
  const { profile } = config;
  refuseFaults(config.name, configFaults(config));
  const cipher = profile.encryption === 'jwe' ? makeJwe(config.credential.encryptionKey ?? '', deps.ports) : null;
  const { scope, ...keyed } = makeKeyedRail(BANK_KIND, config, PACE, deps, cipher);
  return {
    ...keyed,
    profile,
    plan: (effects) => {
      const now = deps.ports.clock.now();
      return Promise.resolve(effects.map((effect) => planTransfer(profile, config.maintenance ?? [], now, effect)));
    },
    seal: (effect) => sealTransfer(profile, scope, effect),
    read: (answer, sealed) => readBankAnswer(profile, answer, sealed),
    readPayee: (input) => readPayee(input, profile.payee),
  };
}
