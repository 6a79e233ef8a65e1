/**
 * Relayers: who signs, pays gas and owns the nonce in the place of the wallet that the token leaves (R7, R15).
 *
 * A policy may name a pool. Each effect gets one of it at intake, by capacity: not quarantined, not short, the fewest open
 * effects first. One that turns out to be short (the rail's plan says so) is not chosen for a while, and what waits for it
 * unsealed goes to another; a seal freezes the choice, since another relayer is another identity.
 * Without a pool the wallet signs itself. Lock order: none beyond the effects' own rows, which the caller's lease guards.
 */
import type { Query, Tx } from '../db/pool.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import type { PlanWait, Rail, SealedEffect } from './rail.ts';
import type { EffectRow } from './store.ts';

/** A relayer that was found short is looked at again after this. Too short: each pass plans in vain; too long: it idles. */
const SHORT_MS = 60_000;

const CAPACITY = `select g.address,
       (select count(*) from payonce.effects e where e.rail = g.rail and e.signer = g.address and e.ended_at is null)::int as open
from payonce.signers g
where g.rail = $1
  and g.address = any ($2::text[])
  and g.quarantined_at is null
  and (g.short_until is null or g.short_until <= payonce.now())
order by 2, 1`;

export interface Asking {
  readonly rail: string;
  readonly wallet: string;
  readonly relayers: readonly string[];
}

/** One signer for each, in order: the wallet itself where there is no pool, the first of the pool where all are short. */
export async function chooseSigners(query: Query, list: readonly Asking[]): Promise<string[]> {
  const load = new Map<string, Map<string, number>>();
  for (const [rail, asking] of Map.groupBy(list, (one) => one.rail)) {
    const pool = [...new Set(asking.flatMap((one) => one.relayers))];
    if (pool.length === 0) continue;
    const { rows } = await query.query<{ address: string; open: number }>(CAPACITY, [rail, pool]);
    load.set(rail, new Map(rows.map((row) => [row.address, row.open])));
  }
  return list.map(({ rail, wallet, relayers }) => {
    if (relayers.length === 0) return wallet;
    const open = load.get(rail);
    const best = relayers
      .filter((one) => open?.has(one) === true)
      .sort((left, right) => (open?.get(left) ?? 0) - (open?.get(right) ?? 0))[0];
    if (best === undefined) return relayers[0] ?? wallet;
    open?.set(best, (open.get(best) ?? 0) + 1);
    return best;
  });
}

const MARK_SHORT = `update payonce.signers g
set short_until = payonce.now() + make_interval(secs => $4::float8 / 1000), short_why = u.why
from unnest($2::text[], $3::text[]) as u (address, why)
where g.rail = $1
  and g.address = u.address`;

const POOLS = `select distinct on (u.effect_id) u.effect_id as id, p.relayers
from unnest($1::bigint[], $2::text[], $3::text[]) as u (effect_id, partner_id, asset_id)
join payonce.asset_policies p on p.asset_id = u.asset_id and p.partner_id in (u.partner_id, '*')
where cardinality(p.relayers) > 0
order by u.effect_id, (p.partner_id = '*')`;

const HAND_OVER = `update payonce.effects e
set signer = u.signer, next_at = payonce.now()
from unnest($1::bigint[], $2::text[]) as u (id, signer)
where e.id = u.id
  and e.signer <> u.signer
  and e.sealed_at is null
  and e.ended_at is null
returning e.id`;

/** What waits because its relayer is short goes to another one that is not; all of a pool short is told to people, once. */
export async function handOver(
  tx: Tx,
  deps: EngineDeps,
  rail: Rail,
  waiting: readonly { effect: EffectRow; verdict: PlanWait }[],
): Promise<void> {
  const short = waiting.filter((one) => one.verdict.signerShort === true && one.effect.signer !== one.effect.wallet);
  if (short.length === 0) return;
  const why = new Map(short.map(({ effect, verdict }) => [effect.signer, verdict.detail]));
  await tx.query(MARK_SHORT, [rail.name, [...why.keys()], [...why.values()], SHORT_MS]);
  const { rows } = await tx.query<{ id: bigint; relayers: string[] }>(POOLS, [
    short.map((one) => one.effect.id),
    short.map((one) => one.effect.partnerId),
    short.map((one) => one.effect.asset.id),
  ]);
  const pools = new Map(rows.map((row) => [row.id, row.relayers]));
  const asking = short.map(({ effect }) => ({
    rail: rail.name,
    wallet: effect.wallet,
    relayers: pools.get(effect.id) ?? [],
  }));
  const chosen = await chooseSigners(tx, asking);
  const moves = short.flatMap(({ effect }, index) => {
    const signer = chosen[index];
    return signer === undefined || why.has(signer) || (pools.get(effect.id) ?? []).length === 0
      ? []
      : [{ id: effect.id, signer }];
  });
  if (moves.length > 0) {
    await tx.query(HAND_OVER, [moves.map((one) => one.id), moves.map((one) => one.signer)]);
    return;
  }
  const said = [...why].map(([address, one]) => `${address}: ${one}`).join('; ');
  for (const wallet of new Set(short.map((one) => one.effect.wallet))) {
    const message = `no relayer of ${wallet} can pay for a transaction now: ${said}`;
    await raiseAlert(tx, 'no_relayer', `${rail.name}:${wallet}`, message, deps.log);
  }
}

/** Somebody relays again for these wallets: what was told about it is over. */
export async function relaysAgain(query: Query, rail: Rail, sealed: readonly SealedEffect[]): Promise<void> {
  const wallets = new Set(sealed.filter((one) => one.signer !== one.wallet).map((one) => one.wallet));
  for (const wallet of wallets) await clearAlert(query, 'no_relayer', `${rail.name}:${wallet}`);
}
