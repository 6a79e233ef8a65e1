/**
 * Planning a bank transfer asks nobody: the receiver is tested again under today's rules, the amount against what the
 * provider's format can carry, and the bank's closing hours. Nothing leaves, nothing is cut.
 */
import type { EffectIntent, PlanVerdict, PlanWait } from '../../engine/rail.ts';
import { payeeFaults } from './destination.ts';
import { MINUTE_MS } from './limits.ts';
import type { Profile } from './profile.ts';
import { bankLines } from './seal.ts';

/** Closed hours in a bank's own time, over midnight if `from` is later than `until`. */
export interface Maintenance {
  /** `23:30` */
  readonly from: string;
  readonly until: string;
  /** IANA name. */
  readonly timeZone: string;
}

type BankRefusal = 'PAYEE_REFUSED' | 'ASSET_REFUSED' | 'AMOUNT_REFUSED' | 'BATCH_REFUSED';

export function planTransfer(
  profile: Profile,
  windows: readonly Maintenance[],
  now: Date,
  effect: EffectIntent,
): PlanVerdict {
  // What is refused here is refused tomorrow: nothing of an intent changes.
  const refuse = (reason: BankRefusal, detail: string): PlanWait => ({
    verdict: 'wait',
    reason,
    detail,
    alert: true,
    lasts: 'for_good',
  });
  const lines = bankLines(effect, '');
  if (lines.length === 0) return refuse('PAYEE_REFUSED', 'nobody to pay');
  if (lines.length > profile.linesMax)
    return refuse('BATCH_REFUSED', `${lines.length} lines; ${profile.name} takes ${profile.linesMax}`);
  const sum = lines.reduce((total, line) => total + line.amount, 0n);
  if (sum !== effect.amount || new Set(lines.map((line) => line.ref)).size !== lines.length)
    return refuse('BATCH_REFUSED', 'the lines do not add up, or two have one name');
  const fault = lines.flatMap((line) => payeeFaults(line.payee, profile.payee))[0];
  if (fault !== undefined) return refuse('PAYEE_REFUSED', `${fault.field}: ${fault.expected}`);
  const currency = effect.asset.code.toUpperCase();
  const allowed = profile.currencies;
  if (allowed !== null && !allowed.some((one) => one.code === currency && one.decimals === effect.asset.decimals)) {
    return refuse('ASSET_REFUSED', `${profile.name} does not pay ${currency} with ${effect.asset.decimals} decimals`);
  }
  if (lines.some((line) => line.amount <= 0n)) return refuse('AMOUNT_REFUSED', 'an amount of zero or less');
  if (profile.amountUnitsMax !== null && effect.amount > profile.amountUnitsMax)
    return refuse('AMOUNT_REFUSED', `at most ${profile.amountUnitsMax} units: larger integers are rounded on the way`);
  const closed = windows.find((window) => isClosed(window, now));
  if (closed !== undefined) {
    return {
      verdict: 'wait',
      reason: 'MAINTENANCE',
      detail: `closed from ${closed.from} until ${closed.until} (${closed.timeZone})`,
      alert: false,
      lasts: 'a_while',
      waitMs: untilOpenMs(closed, now),
    };
  }
  return { verdict: 'ready', plan: { profile: profile.name } };
}

export function isClosed(window: Maintenance, now: Date): boolean {
  const minute = minuteIn(window.timeZone, now);
  const from = minuteOf(window.from);
  const until = minuteOf(window.until);
  return from <= until ? minute >= from && minute < until : minute >= from || minute < until;
}

const DAY_MINUTES = 1_440;

/** By the wall clock: on the night on which it is changed it is an hour off, and then it is asked again, or later. */
function untilOpenMs(window: Maintenance, now: Date): number {
  const minutes = (minuteOf(window.until) - minuteIn(window.timeZone, now) + DAY_MINUTES) % DAY_MINUTES;
  return minutes * MINUTE_MS - (now.getTime() % MINUTE_MS);
}

function minuteIn(timeZone: string, now: Date): number {
  const text = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(now);
  return minuteOf(text);
}

function minuteOf(text: string): number {
  const match = /^([01][0-9]|2[0-3]):([0-5][0-9])$/.exec(text);
  if (match === null) throw new Error(`A time of day is written like 23:30, not ${text}`);
  return Number(match[1]) * 60 + Number(match[2]);
}
