/**
 * Levels: how long the wallets that pay for gas, bandwidth and energy last, told before they are empty (R7).
 *
 * What a wallet burned in the last day (gas, top-ups, rentals on our books) says how long the rest lasts. It is short below
 * its configured level, or when the rest lasts less than configured; then there is one alert until it has been filled.
 */
import type { Pool, Query } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import type { Log } from '../../kernel/log.ts';
import { formatUnits } from '../../kernel/money.ts';
import { BURN_ENTRIES_MAX, BURN_WINDOW_MS_MIN, DAY_MS } from './limits.ts';
import type { WatchedWallet } from './policy.ts';

export const WALLET_SHORT = 'wallet_short';

export interface Level {
  readonly wallet: WatchedWallet;
  readonly units: bigint;
  readonly source: 'chain' | 'books';
  readonly burned: bigint;
  readonly burnedMs: number;
  /** `null`: it burns nothing. */
  readonly secondsLeft: bigint | null;
  readonly isShort: boolean;
}

/** What the chain shows of an address, in units of its coin; `null`: nobody could say. */
export type ReadBalance = (wallet: WatchedWallet) => Promise<bigint | null>;

interface Booked {
  readonly units: bigint;
  readonly burned: bigint;
  readonly burnedMs: number;
  readonly code: string;
  readonly decimals: number;
}

// The newest entries of an account by its own index, so many and no more: the cost does not grow with the account.
const BOOKED = `select w.i::int as place, coalesce(-a.balance, 0) as units, coalesce(b.burned, 0) as burned, b.burned_ms,
       s.code, s.decimals
from unnest($1::text[], $2::text[]) with ordinality as w (code, asset_id, i)
join payonce.assets s on s.id = w.asset_id
left join payonce.accounts a on a.code = w.code and a.asset_id = w.asset_id
left join lateral (
  select sum(l.amount) filter (where p.idem_key ~ '^(GAS|TOPUP|ENERGY):') as burned,
         (extract(epoch from payonce.now() - min(l.created_at)) * 1000)::float8 as burned_ms
  from (
    select e.posting_id, e.amount, e.created_at
    from payonce.ledger_entries e
    where e.account_id = a.id
    order by e.seq desc
    limit $3) l
  join payonce.postings p on p.id = l.posting_id
  where l.amount > 0
    and l.created_at > payonce.now() - interval '1 day') b on true
order by w.i`;

async function loadBookedLevels(query: Query, wallets: readonly WatchedWallet[]): Promise<(Booked | undefined)[]> {
  const { rows } = await query.query<{
    place: number;
    units: bigint;
    burned: bigint;
    burned_ms: number | null;
    code: string;
    decimals: number;
  }>(BOOKED, [
    wallets.map((one) => `custody:${one.chain}:${one.address}`),
    wallets.map((one) => one.coinAssetId),
    BURN_ENTRIES_MAX,
  ]);
  const byPlace = new Map(rows.map((row) => [row.place, row]));
  return wallets.map((_, index) => {
    const row = byPlace.get(index + 1);
    if (row === undefined) return undefined;
    const burnedMs = Math.round(Math.min(DAY_MS, Math.max(BURN_WINDOW_MS_MIN, row.burned_ms ?? DAY_MS)));
    return { ...row, burnedMs };
  });
}

/** The measure, pure: what is left, at what rate it goes, and whether that is told. */
export function levelOf(
  wallet: WatchedWallet,
  units: bigint,
  source: Level['source'],
  burned: bigint,
  burnedMs: number,
): Level {
  const left = units > 0n ? units : 0n;
  const secondsLeft = burned > 0n ? (left * BigInt(burnedMs)) / burned / 1_000n : null;
  const runsOut = secondsLeft !== null && secondsLeft * 1_000n < BigInt(wallet.warnWithinMs);
  return { wallet, units, source, burned, burnedMs, secondsLeft, isShort: units < wallet.warnBelow || runsOut };
}

/**
 * Measures, writes down and tells. `readBalance` absent: by our books alone, as before each batch; then an alert is raised
 * and not cleared where the chain has shown less than the books. Durable on return.
 */
export async function checkLevels(
  deps: { readonly pool: Pool; readonly log: Log },
  wallets: readonly WatchedWallet[],
  readBalance?: ReadBalance,
): Promise<Level[]> {
  if (wallets.length === 0) return [];
  const booked = await loadBookedLevels(deps.pool, wallets);
  const shown = await Promise.all(wallets.map(async (wallet) => (await readBalance?.(wallet)) ?? null));
  const levels: Level[] = [];
  for (const [index, wallet] of wallets.entries()) {
    const books = booked[index];
    // Its coin is not registered yet: nothing of it is on our books.
    if (books === undefined) continue;
    const onChain = shown[index] ?? null;
    // What a wallet was filled with before we counted is on no book: only the chain knows how much that was.
    if (onChain === null && books.units <= 0n) continue;
    const level = levelOf(
      wallet,
      onChain ?? books.units,
      onChain === null ? 'books' : 'chain',
      books.burned,
      books.burnedMs,
    );
    levels.push(level);
    await tell(deps, level, books);
  }
  return levels;
}

const KEEP = `insert into payonce.wallet_levels as w
  (chain, address, asset_id, units, warn_below, burned, burned_ms, seconds_left, is_short, source)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (chain, address, asset_id) do update
set units = excluded.units, warn_below = excluded.warn_below, burned = excluded.burned, burned_ms = excluded.burned_ms,
    seconds_left = excluded.seconds_left, is_short = excluded.is_short, source = excluded.source, checked_at = payonce.now()
where w.source = 'books' or excluded.source = 'chain' or excluded.is_short
  or w.checked_at < payonce.now() - interval '10 minutes'
returning w.chain`;

async function tell(deps: { readonly pool: Pool; readonly log: Log }, level: Level, named: Booked): Promise<void> {
  const { wallet } = level;
  const key = `${wallet.chain}:${wallet.address}`;
  await deps.pool.tx('wallet level', async (tx) => {
    const kept = await tx.query(KEEP, [
      wallet.chain,
      wallet.address,
      wallet.coinAssetId,
      level.units,
      wallet.warnBelow,
      level.burned,
      level.burnedMs,
      level.secondsLeft,
      level.isShort,
      level.source,
    ]);
    if (level.isShort) await raiseAlert(tx, WALLET_SHORT, key, inWords(level, named), deps.log);
    // What the chain has shown lately is not taken back by the books.
    else if (kept.rowCount === 1) await clearAlert(tx, WALLET_SHORT, key);
  });
}

function inWords({ wallet, units, secondsLeft }: Level, { code, decimals }: Booked): string {
  const amount = (of: bigint): string => `${formatUnits(of, decimals)} ${code}`;
  const lasts =
    secondsLeft === null ? '' : ` At the last day's rate it lasts ${(Number(secondsLeft) / 3_600).toFixed(1)} hours.`;
  return `${wallet.address} on ${wallet.chain} has ${amount(units)} left; it is told below ${amount(wallet.warnBelow)}.${lasts} Fund it.`;
}
