/**
 * What stands still, or was found wrong, until a person acts: one reading for the doctor, for /readyz and for whoever asks.
 * Reads only.
 */
import type { Query } from '../db/pool.ts';
import { formatUnits } from '../kernel/money.ts';
import type { Finding } from './finding.ts';

export interface Attention {
  readonly railsStopped: readonly { readonly name: string; readonly reason: string }[];
  readonly scansHalted: readonly { readonly name: string; readonly reason: string }[];
  /** Wallets that seal nothing, and what left one without a record of ours: by case. */
  readonly quarantined: readonly { readonly rail: string; readonly address: string; readonly caseId: string | null }[];
  readonly unknownMovements: readonly { readonly caseId: string; readonly about: string }[];
  /** Open alerts that say that something happened which must not, by kind, and open cases of that sort. */
  readonly grave: readonly { readonly kind: string; readonly count: number }[];
  /** Effects that stay so long that somebody was told. */
  readonly longStays: number;
  /** Wallets that pay for gas or energy and do not last; amounts as decimal text of their coin. */
  readonly walletsShort: readonly {
    readonly chain: string;
    readonly address: string;
    readonly left: string;
    readonly hoursLeft: string | null;
  }[];
}

/** The first few say which they are. */
const NAMED_MAX = 10;
/** Money is in doubt where one of these is open. */
const GRAVE = ['broken_finality', 'reopen_fails', 'contradiction', 'contradicted'];
/** Cases that say so by themselves: money lies with somebody else. */
const GRAVE_CASES = [...GRAVE, 'rail_asks', 'trade_surplus'];
/** And those that name what money left unexplained. */
const UNSAFE_CASES = ['unknown_movement', 'signer_quarantined'];
/** Told by findings of their own. */
const OF_THEIR_OWN = [...UNSAFE_CASES, 'trade_surplus'];

const RAILS = `select name, seals_stopped_reason as reason
from payonce.rails
where seals_stopped_at is not null
order by name`;
const SCANS = `select chain as name, halted_reason as reason
from payonce.scan_cursors
where halted_at is not null
order by chain`;
const QUARANTINED = `select g.rail, g.address, k.id as case_id
from payonce.signers g
left join payonce.cases k on k.kind = 'signer_quarantined' and k.subject_key = g.rail || ':' || g.address and k.closed_at is null
where g.quarantined_at is not null
order by g.rail, g.address`;
const UNKNOWN_MOVEMENTS = `select id as case_id, subject_key as about
from payonce.cases
where kind = 'unknown_movement'
  and closed_at is null
order by id`;
const GRAVE_OPEN = `select kind, count(*)::int as count
from (
  select kind from payonce.alerts where cleared_at is null and kind = any ($1::text[])
  union all
  select kind from payonce.cases where closed_at is null and kind = any ($2::text[])
) found
group by kind
order by kind`;
/** The alert of a stay is never cleared by itself: only effects that are still open count. */
const LONG_STAYS = `select count(*)::int as count
from payonce.alerts a
join payonce.effects e on e.id = case when a.key ~ '^effect:[0-9]{1,18}$' then substr(a.key, 8)::bigint end
where a.kind = 'long_stay'
  and a.cleared_at is null
  and e.ended_at is null`;

const WALLETS_SHORT = `select w.chain, w.address, w.units, a.code, a.decimals, w.seconds_left
from payonce.wallet_levels w
join payonce.assets a on a.id = w.asset_id
where w.is_short
order by w.seconds_left nulls last, w.chain, w.address`;

async function loadWalletsShort(query: Query): Promise<Attention['walletsShort']> {
  const { rows } = await query.query<{
    chain: string;
    address: string;
    units: bigint;
    code: string;
    decimals: number;
    seconds_left: bigint | null;
  }>(WALLETS_SHORT);
  return rows.map((row) => ({
    chain: row.chain,
    address: row.address,
    left: `${formatUnits(row.units, row.decimals)} ${row.code}`,
    hoursLeft: row.seconds_left === null ? null : (Number(row.seconds_left) / 3_600).toFixed(1),
  }));
}

export async function loadAttention(query: Query): Promise<Attention> {
  type Named = { name: string; reason: string };
  return {
    railsStopped: (await query.query<Named>(RAILS)).rows,
    scansHalted: (await query.query<Named>(SCANS)).rows,
    quarantined: (await query.query<{ rail: string; address: string; case_id: string | null }>(QUARANTINED)).rows.map(
      ({ rail, address, case_id }) => ({ rail, address, caseId: case_id }),
    ),
    unknownMovements: (await query.query<{ case_id: string; about: string }>(UNKNOWN_MOVEMENTS)).rows.map(
      ({ case_id, about }) => ({ caseId: case_id, about }),
    ),
    grave: (await query.query<{ kind: string; count: number }>(GRAVE_OPEN, [GRAVE, [...GRAVE_CASES, ...UNSAFE_CASES]]))
      .rows,
    longStays: (await query.query<{ count: number }>(LONG_STAYS)).rows[0]?.count ?? 0,
    walletsShort: await loadWalletsShort(query),
  };
}

export function attentionFindings(seen: Attention): Finding[] {
  const warn = (name: string, isWell: boolean, well: string, found: string, hint: string): Finding =>
    isWell ? { name, level: 'ok', found: well, hint: '' } : { name, level: 'warn', found, hint };
  const grave = seen.grave.filter((one) => !OF_THEIR_OWN.includes(one.kind));
  const unsafe = (name: string, found: readonly string[], well: string, hint: string): Finding => {
    if (found.length === 0) return { name, level: 'ok', found: well, hint: '' };
    const more = found.length > NAMED_MAX ? `; and ${found.length - NAMED_MAX} more` : '';
    return { name, level: 'unsafe', found: found.slice(0, NAMED_MAX).join('; ') + more, hint };
  };
  return [
    warn(
      'seals',
      seen.railsStopped.length === 0,
      'no rail is stopped',
      seen.railsStopped.map((one) => `${one.name} seals nothing new: ${one.reason}`).join('; '),
      'When the reason is gone: payonce rail resume NAME',
    ),
    warn(
      'scans',
      seen.scansHalted.length === 0,
      'no deposit scan is halted',
      seen.scansHalted.map((one) => `deposits of ${one.name} are not credited: ${one.reason}`).join('; '),
      'Read the case (payonce case list); two persons let the scan go on: payonce case propose CASE resume_scan',
    ),
    unsafe(
      'quarantine',
      seen.quarantined.map(
        (one) => `${one.address} on ${one.rail}${one.caseId === null ? '' : ` (${one.caseId})`} seals nothing`,
      ),
      'no wallet is in quarantine',
      'Its transfers are explained one by one (payonce reconcile chain, payonce repair propose), then: payonce wallet release RAIL ADDRESS --reason TEXT',
    ),
    unsafe(
      'unknown outflows',
      seen.unknownMovements.map((one) => `${one.caseId}: ${one.about}`),
      'nothing left a wallet without a record of ours',
      'Who has the key? See payonce case show CASE, then: payonce reconcile chain, and two persons book it (payonce repair propose)',
    ),
    warn(
      'alerts',
      grave.length === 0,
      'nothing else open says that money is in doubt',
      grave.map((one) => `${one.count} open: ${one.kind}`).join('; '),
      'See payonce alerts and payonce case list, now.',
    ),
    warn(
      'long stays',
      seen.longStays === 0,
      'no effect stays too long',
      `${seen.longStays} effects stay too long`,
      'See payonce alerts, then payonce effect show ID: no timer frees their money.',
    ),
    warn(
      'wallets',
      seen.walletsShort.length === 0,
      'no wallet that pays for gas or energy is short',
      seen.walletsShort
        .map(
          (one) =>
            `${one.address} on ${one.chain} has ${one.left} left${one.hoursLeft === null ? '' : `, for ${one.hoursLeft} hours`}`,
        )
        .join('; '),
      'Fund them: what they pay for waits when they are empty, and is not lost.',
    ),
  ];
}
