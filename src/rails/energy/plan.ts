/**
 * The plan of an order: what it costs now and what is left of the prepaid balance, asked once for a batch. Nothing is bought
 * by asking, and nothing is sealed that the market would refuse for its price or our balance.
 */
import type { EffectIntent, PlanContext, PlanVerdict, PlanWait } from '../../engine/rail.ts';
import { parseLossless, unitsOf } from '../json.ts';
import { readDestination } from './order.ts';
import { askMarket, type WireParts } from './wire.ts';

type WaitReason = 'ORDER_REFUSED' | 'MARKET_DOWN' | 'ENERGY_TOO_DEAR' | 'MARKET_BALANCE_SHORT';

const LASTS: Partial<Record<WaitReason, PlanWait['lasts']>> = { ORDER_REFUSED: 'for_good', MARKET_DOWN: 'a_while' };

function wait(reason: WaitReason, detail: string): PlanWait {
  const lasts = LASTS[reason] ?? 'until_mended';
  return { verdict: 'wait', reason, detail, alert: reason !== 'MARKET_DOWN', lasts };
}

export async function planOrders(
  parts: WireParts,
  effects: readonly EffectIntent[],
  context: PlanContext,
): Promise<PlanVerdict[]> {
  const { profile, scope } = parts;
  const wanted = effects.map((effect) =>
    effect.wallet === scope.account ? readDestination(effect.destination) : null,
  );
  if (wanted.every((one) => one === null)) return effects.map(() => refused());
  const balance = await readBalance(parts);
  const prices = new Map<string, bigint | string>();
  for (const one of wanted) {
    if (one === null) continue;
    const path = profile.pricePath(one.energy, one.durationSeconds);
    if (!prices.has(path)) prices.set(path, await figure(parts, path, (body) => profile.price(body)));
  }
  if (typeof balance === 'string') return effects.map(() => wait('MARKET_DOWN', balance));
  // What is sealed and not seen at the market may still be taken from the balance.
  let left = context.inFlight
    .filter((one) => one.wallet === scope.account)
    .reduce((rest, one) => rest - one.amount, balance);
  return effects.map((effect, index): PlanVerdict => {
    const one = wanted[index];
    if (one === undefined || one === null || effect.amount <= 0n) return refused();
    const price = prices.get(profile.pricePath(one.energy, one.durationSeconds)) ?? 'no price was told';
    if (typeof price === 'string') return wait('MARKET_DOWN', price);
    if (price > effect.amount)
      return wait('ENERGY_TOO_DEAR', `${one.energy} energy cost ${price}; ${effect.amount} is the most that is paid`);
    if (price > left)
      return wait('MARKET_BALANCE_SHORT', `${left < 0n ? 0n : left} is left at ${scope.account}: fund it`);
    left -= price;
    return { verdict: 'ready', plan: { profile: profile.name, price: price.toString() } };
  });
}

function refused(): PlanWait {
  return wait('ORDER_REFUSED', 'it is no order for this account');
}

/** What stands prepaid, or what was wrong, in words. */
export function readBalance(parts: WireParts): Promise<bigint | string> {
  return figure(parts, parts.profile.balancePath, (body) => parts.profile.balance(body));
}

/** Units, or what was wrong, in words. */
async function figure(
  parts: WireParts,
  path: string,
  read: (body: NonNullable<ReturnType<typeof parseLossless>>) => string | null,
): Promise<bigint | string> {
  const asked = await askMarket(parts, path);
  if (!asked.ok) return asked.fault;
  const json = parseLossless(asked.body);
  const units = json === undefined || json === null ? null : unitsOf(read(json) ?? undefined);
  return units ?? `${path} answered no figure`;
}
