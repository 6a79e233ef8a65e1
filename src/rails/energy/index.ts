/**
 * The energy rail: rentals of TRON energy at one market over HTTP, paid out of a balance that stands there already, so
 * nothing of ours moves on the chain.
 *
 * Promises: one identity is one derived order id at (base URL, account) with one exact request; asking again is sending the
 * same bytes, which the market answers with the same order. An answer counts only when it shows our id, and what it shows is
 * compared with what was ordered. Dearer than allowed is not ordered. A code or state that the profile does not know is unreadable.
 * Never: retries, follows a redirect, reads a 5xx, a 404 or a silence as "no", picks a price. It holds no database handle.
 * Files: config, profile (the type), market (the market we know), plan, order (the seal), wire (what leaves), answer-body (what is
 * stored), read (the table).
 */
import type { Rail } from '../../engine/rail.ts';
import { CLAIM_BATCH } from '../../kernel/limits.ts';
import { type Log, silentLog } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import { plainBaseUrl } from '../base-url.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from '../http.ts';
import { type EnergyRailConfig, energyConfigFaults } from './config.ts';
import { LOOK_EVERY_MS, RESEND_AFTER_MS, SEND_CONCURRENCY_MAX } from './limits.ts';
import { readOrder, type Scope, sealOrder } from './order.ts';
import { planOrders, readBalance } from './plan.ts';
import type { MarketProfile } from './profile.ts';
import { readMarketAnswer } from './read.ts';
import { lookOnce, sendOnce, type WireParts, withholdReason } from './wire.ts';

export type { EnergyRailConfig } from './config.ts';
export { energyMarket } from './market.ts';
export type { MarketProfile } from './profile.ts';

export interface EnergyRailDeps {
  readonly ports: Ports;
  readonly log?: Log;
  readonly http?: Partial<WireLimits>;
}

export interface EnergyRail extends Rail {
  readonly profile: MarketProfile;
  /** What stands prepaid, in the coin's smallest unit; or what was wrong, in words. */
  balance(): Promise<bigint | string>;
  close(): Promise<void>;
}

/** Throws for a configuration that cannot work: a wrong one stops the start, not a payment. */
export function makeEnergyRail(config: EnergyRailConfig, deps: EnergyRailDeps): EnergyRail {
  const { profile } = config;
  const [fault] = energyConfigFaults(config);
  if (fault !== undefined) throw new Error(`${config.name}: ${fault.field}: ${fault.why}`);
  const log = deps.log ?? silentLog;
  const limits: WireLimits = { ...WIRE_LIMITS, timeoutMs: profile.timeoutMs, ...deps.http };
  const agent = makeSendAgent(SEND_CONCURRENCY_MAX, limits);
  const scope: Scope = {
    deployment: config.deployment,
    account: config.account,
    baseUrl: plainBaseUrl(config.baseUrl),
  };
  const parts: WireParts = {
    railName: config.name,
    profile,
    scope,
    secret: config.secret,
    agent,
    ports: deps.ports,
    limits,
  };
  return {
    name: config.name,
    profile,
    capabilities: {
      keyed: true,
      keyRetentionMs: profile.retentionMs,
      latenessMs: profile.latenessMs,
      decideWithinMs: profile.decideWithinMs,
      sequenced: false,
      inFlightPerSignerMax: CLAIM_BATCH,
      lookUp: true,
      // A look-up of a market never proves absence; nothing here is witnessed.
      absenceWitnesses: 1,
      sendConcurrencyMax: SEND_CONCURRENCY_MAX,
      lookEveryMs: LOOK_EVERY_MS,
      resendAfterMs: Math.max(RESEND_AFTER_MS, limits.timeoutMs),
      answerWithinMs: limits.timeoutMs,
      bumpAfterMs: null,
      bumpsMax: 0,
      // Between us and a market stands whoever it has put there.
      refusedAtOnceCounts: false,
      ...config.capabilities,
    },
    plan: (effects, context) => planOrders(parts, effects, context),
    seal: (effect) => sealOrder(profile, scope, effect),
    withholds: (sealed) => withholdReason(scope, readOrder(sealed)),
    async send(sealed) {
      const answer = await sendOnce(parts, sealed);
      if (answer.reach === 'withheld') log.warn({ effect_id: sealed.effectId, rail: config.name }, answer.body);
      return answer;
    },
    look: (sealed) => Promise.all(sealed.map(async (one) => [await lookOnce(parts, one)])),
    read: (answer, sealed) => readMarketAnswer(profile, answer, sealed),
    balance: () => readBalance(parts),
    close: () => agent.destroy(),
  };
}
