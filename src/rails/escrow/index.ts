/**
 * The escrow rail: trades at one liquidity provider over HTTP, told apart by a profile. A trade is opened by one effect and
 * cancelled, if at all, by another.
 *
 * Promises: one identity is one derived key with one exact request; asking again is sending the same bytes. A trade counts
 * as ours only when it carries our reference and shows what we sealed; it stands by its id until it was released to us whole,
 * which is success, or ended without ever having been marked as paid, which is a no. Everything else that ends or stops it asks
 * people. A state or code that the profile does not know is unreadable.
 * Never: retries, follows a redirect, reads a 5xx, a 404, an empty list or a silence as "no", takes a mark of payment for money.
 * It holds no database handle. Beside it: a provider's webhook wakes a look and proves nothing.
 * Files: config, profile (the type), profiles/, plan, seal, kind, echo and read (what a trade shows), evidence (what a profile
 * claims), greet (does it answer us), limits. The wire, the order of reading and what is stored are those of every rail with keys: `rails/keyed-*.ts`.
 */
import type { Rail } from '../../engine/rail.ts';
import { type KeyedRailDeps, makeKeyedRail, refuseFaults } from '../keyed-rail.ts';
import { type EscrowRailConfig, readTradeFaults } from './config.ts';
import { ESCROW_KIND } from './kind.ts';
import { APPEALS_WITHIN_MS, LOOK_EVERY_MS, RESEND_AFTER_MS, SEND_CONCURRENCY_MAX } from './limits.ts';
import { planTrade } from './plan.ts';
import type { TradeProfile } from './profile.ts';
import { readTradeAnswer } from './read.ts';
import { sealTrade } from './seal.ts';

export { type EscrowRailConfig, readTradeFaults } from './config.ts';
export { type TradeEvidence, tradeEvidenceOf, tradeWidenings } from './evidence.ts';
export type { TradeProfile } from './profile.ts';
export { greetProvider } from './greet.ts';
export { TRADE_PROFILES } from './profiles/index.ts';

export interface EscrowRail extends Rail {
  readonly profile: TradeProfile;
  close(): Promise<void>;
}

const PACE = {
  sendConcurrencyMax: SEND_CONCURRENCY_MAX,
  lookEveryMs: LOOK_EVERY_MS,
  resendAfterMs: RESEND_AFTER_MS,
  returnsWithinMs: APPEALS_WITHIN_MS,
};

/** Throws for a configuration that cannot work. */
export function makeEscrowRail(config: EscrowRailConfig, deps: KeyedRailDeps): EscrowRail {
  const { profile } = config;
  refuseFaults(config.name, readTradeFaults(config));
  const { scope, ...keyed } = makeKeyedRail(ESCROW_KIND, config, PACE, deps);
  return {
    ...keyed,
    profile,
    plan: (effects) => {
      const now = deps.ports.clock.now();
      return Promise.resolve(effects.map((effect) => planTrade(profile, scope, now, effect)));
    },
    seal: (effect) => sealTrade(profile, scope, effect),
    read: (answer, sealed) => readTradeAnswer(profile, answer, sealed),
  };
}
