/**
 * Which relayer may not be chosen for a wallet's token, since its allowance is too small (a plan saw it) or is being lowered (two
 * persons decided it). It steers a choice; the chain's own answer is asked in each plan.
 * Lock order: shortages after the effects' own rows. A wake waits for no lock.
 */
import type { Query, Tx } from '../db/pool.ts';

/** A relayer without an allowance is tried again after this: one that was given from outside is found. Too short: plans in vain. */
const UNALLOWED_MS = 600_000;

export interface Relaying {
  readonly rail: string;
  readonly wallet: string;
  readonly relayer: string;
  readonly assetId: string;
}

const columns = (list: readonly Relaying[]): string[][] => [
  list.map((one) => one.rail),
  list.map((one) => one.wallet),
  list.map((one) => one.relayer),
  list.map((one) => one.assetId),
];

const keyOf = (one: Omit<Relaying, 'rail'>): string => `${one.wallet} ${one.relayer} ${one.assetId}`;

const NOTE = `insert into payonce.relayer_shortages as s (rail, wallet, relayer, asset_id, until)
select distinct on (u.rail, u.wallet, u.relayer, u.asset_id) u.rail, u.wallet, u.relayer, u.asset_id, payonce.now() + make_interval(secs => $5::float8 / 1000)
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u (rail, wallet, relayer, asset_id)
order by u.rail, u.wallet, u.relayer, u.asset_id
on conflict (rail, wallet, relayer, asset_id) do update
set until = excluded.until`;

/** A plan saw that these may move too little. */
export async function noteUnallowed(tx: Tx, list: readonly Relaying[]): Promise<void> {
  if (list.length > 0) await tx.query(NOTE, [...columns(list), UNALLOWED_MS]);
}

const HOLD = `insert into payonce.relayer_shortages (rail, wallet, relayer, asset_id, until, held_by)
values ($1, $2, $3, $4, payonce.now(), $5)
on conflict (rail, wallet, relayer, asset_id) do update
set held_by = excluded.held_by`;

/** Its allowance is being lowered: nothing more is sealed for it, and what is under way ends first. */
export async function holdRelayer(tx: Tx, one: Relaying, allowanceId: string): Promise<void> {
  await tx.query(HOLD, [one.rail, one.wallet, one.relayer, one.assetId, allowanceId]);
}

const FORGET = `delete from payonce.relayer_shortages s
using unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u (rail, wallet, relayer, asset_id)
where s.rail = u.rail
  and s.wallet = u.wallet
  and s.relayer = u.relayer
  and s.asset_id = u.asset_id
  and ($5 or s.held_by is null)`;

/** These sealed: what a plan had seen missing is there. */
export async function forgetUnallowed(query: Query, list: readonly Relaying[]): Promise<void> {
  if (list.length > 0) await query.query(FORGET, [...columns(list), false]);
}

const WAKE = `update payonce.effects e
set next_at = payonce.now()
where e.id = any (array(
  select q.id
  from payonce.effects q
  where q.rail = $1
    and q.state = 'PENDING'
    and q.wallet = $2
    and q.asset_id = $3
    and (q.signer <> q.wallet or q.destination = $4)
    and q.lease_until is null
  order by q.id
  for update skip locked))`;

/** Its allowance stands as it should, or stays as it was: it may be chosen, and what waits for any relayer of this wallet and token
 *  is due at once. */
export async function relayerAllowed(tx: Tx, one: Relaying): Promise<void> {
  await tx.query(FORGET, [...columns([one]), true]);
  await tx.query(WAKE, [one.rail, one.wallet, one.assetId, one.relayer]);
}

const SHORT = `select wallet, relayer, asset_id, held_by
from payonce.relayer_shortages
where rail = $1
  and relayer = any ($2::text[])
  and (held_by is not null or until > payonce.now())`;

export interface Shortages {
  /** Not to be chosen while another one is. */
  has(one: Omit<Relaying, 'rail'>): boolean;
  /** The allowance that is being lowered. */
  heldBy(one: Omit<Relaying, 'rail'>): string | null;
}

export async function loadShortages(query: Query, rail: string, relayers: readonly string[]): Promise<Shortages> {
  const { rows } = await query.query<{ wallet: string; relayer: string; asset_id: string; held_by: string | null }>(
    SHORT,
    [rail, relayers],
  );
  const known = new Map(rows.map((row) => [keyOf({ ...row, assetId: row.asset_id }), row.held_by]));
  return { has: (one) => known.has(keyOf(one)), heldBy: (one) => known.get(keyOf(one)) ?? null };
}
