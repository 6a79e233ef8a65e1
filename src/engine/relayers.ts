/**
 * Relayers: who signs, pays gas and owns the nonce in the place of the wallet that the token leaves (R7, R15).
 *
 * A policy may name a pool. Each effect gets one of it at intake, by capacity: not quarantined, not short, those whose coin is not
 * known to run out before the others, the fewest open effects first. One that turns out to be short (the rail's plan says so) is
 * not chosen for a while, and what waits for it unsealed goes to another; so does what was given to one that the pool names no
 * more. A seal freezes the choice, since another relayer is another identity; it is refused to one that is not of the pool.
 * Without a pool the wallet signs itself. Lock order: none beyond the effects' own rows, which the caller's lease guards.
 */
import type { Pool, Query, Tx } from '../db/pool.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import type { PlanWait, Rail, SealedEffect } from './rail.ts';
import { forgetUnallowed, loadShortages, noteUnallowed } from './relayer-shortages.ts';
import { type EffectRow, giveBack } from './store.ts';

/** A relayer that was found short is looked at again after this. Too short: each pass plans in vain; too long: it idles. */
const SHORT_MS = 60_000;

const CAPACITY = `select g.address,
       (select count(*) from payonce.effects e where e.rail = g.rail and e.signer = g.address and e.ended_at is null)::int as open,
       exists (
         select 1 from payonce.wallet_levels w
         join payonce.assets a on a.chain = w.chain and a.id = any ($3::text[])
         where w.address = g.address and w.is_short) as dry
from payonce.signers g
where g.rail = $1
  and g.address = any ($2::text[])
  and g.quarantined_at is null
  and (g.short_until is null or g.short_until <= payonce.now())`;

export interface Asking {
  readonly rail: string;
  readonly wallet: string;
  readonly assetId: string;
  readonly relayers: readonly string[];
}

interface Capacity {
  open: number;
  /** Its coin runs out: people have been told. */
  readonly dry: boolean;
}

/** One signer for each, in order: the wallet itself where there is no pool, the first of the pool where all are short. */
export async function chooseSigners(query: Query, list: readonly Asking[]): Promise<string[]> {
  const chosen = list.map((one) => one.relayers[0] ?? one.wallet);
  const asking = list.map((one, index) => ({ ...one, index })).filter((one) => one.relayers.length > 0);
  for (const [rail, group] of Map.groupBy(asking, (one) => one.rail)) {
    const pool = [...new Set(group.flatMap((one) => one.relayers))];
    const assets = [...new Set(group.map((one) => one.assetId))];
    const { rows } = await query.query<{ address: string; open: number; dry: boolean }>(CAPACITY, [rail, pool, assets]);
    const able = new Map(rows.map(({ address, open, dry }): [string, Capacity] => [address, { open, dry }]));
    const shortages = await loadShortages(query, rail, pool);
    for (const { index, wallet, assetId, relayers } of group) {
      const [best] = relayers
        .flatMap((relayer) => {
          const capacity = able.get(relayer);
          return capacity === undefined || shortages.has({ wallet, relayer, assetId }) ? [] : [{ relayer, capacity }];
        })
        .sort((left, right) => rankOf(left.capacity) - rankOf(right.capacity));
      if (best === undefined) continue;
      best.capacity.open += 1;
      chosen[index] = best.relayer;
    }
  }
  return chosen;
}

/** No relayer has so many open. */
const DRY = 1e9;

function rankOf({ open, dry }: Capacity): number {
  return dry ? DRY + open : open;
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

/** The pool that an effect's signer is of, by effect; none where its wallet signs itself. */
async function poolsOf(
  query: Query,
  list: readonly { readonly id: bigint; readonly partnerId: string; readonly assetId: string }[],
): Promise<Map<bigint, string[]>> {
  const { rows } = await query.query<{ id: bigint; relayers: string[] }>(POOLS, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.assetId),
  ]);
  return new Map(rows.map((row) => [row.id, row.relayers]));
}

const HAND_OVER = `update payonce.effects e
set signer = u.signer, next_at = payonce.now()
from unnest($1::bigint[], $2::text[], $3::bigint[]) as u (id, signer, token)
where e.id = u.id
  and e.lease_token = u.token
  and e.lease_until is null
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
  const short = waiting.filter(
    ({ verdict, effect }) => (verdict.signerShort ?? false) !== false && effect.signer !== effect.wallet,
  );
  if (short.length === 0) return;
  const unallowed = short.filter((one) => one.verdict.signerShort === 'allowance');
  await noteUnallowed(
    tx,
    unallowed.map((one) => relayingOf(one.effect)),
  );
  const why = new Map(
    short
      .filter((one) => one.verdict.signerShort !== 'allowance')
      .map(({ effect, verdict }) => [effect.signer, verdict.detail]),
  );
  await tx.query(MARK_SHORT, [rail.name, [...why.keys()], [...why.values()], SHORT_MS]);
  const pools = await poolsOf(
    tx,
    short.map(({ effect }) => ({ id: effect.id, partnerId: effect.partnerId, assetId: effect.asset.id })),
  );
  const asking = short.map(({ effect }) => ({
    rail: rail.name,
    wallet: effect.wallet,
    assetId: effect.asset.id,
    relayers: pools.get(effect.id) ?? [],
  }));
  const shortages = await loadShortages(tx, rail.name, [...new Set(asking.flatMap((one) => one.relayers))]);
  const chosen = await chooseSigners(tx, asking);
  const moves = short.flatMap(({ effect }, index) => {
    const signer = chosen[index];
    if (signer === undefined || why.has(signer) || (pools.get(effect.id) ?? []).length === 0) return [];
    if (shortages.has({ wallet: effect.wallet, relayer: signer, assetId: effect.asset.id })) return [];
    return [{ id: effect.id, signer, token: effect.leaseToken }];
  });
  if (moves.length > 0) {
    await move(tx, moves);
    return;
  }
  const said = [...new Map(short.map(({ effect, verdict }) => [effect.signer, verdict.detail]))]
    .map(([address, one]) => `${address}: ${one}`)
    .join('; ');
  for (const wallet of new Set(short.map((one) => one.effect.wallet))) {
    const message = `no relayer of ${wallet} can pay for a transaction now: ${said}`;
    await raiseAlert(tx, 'no_relayer', `${rail.name}:${wallet}`, message, deps.log);
  }
}

function relayingOf({ rail, wallet, signer, asset }: Pick<EffectRow, 'rail' | 'wallet' | 'signer' | 'asset'>) {
  return { rail, wallet, relayer: signer, assetId: asset.id };
}

/** Of these the ones whose signer is of no pool any more, with their pool as it is now. */
async function outsidePool(
  query: Query,
  effects: readonly EffectRow[],
): Promise<readonly { readonly effect: EffectRow; readonly relayers: readonly string[] }[]> {
  const relayed = effects.filter((one) => one.signer !== one.wallet);
  if (relayed.length === 0) return [];
  const pools = await poolsOf(
    query,
    relayed.map(({ id, partnerId, asset }) => ({ id, partnerId, assetId: asset.id })),
  );
  return relayed.flatMap((effect) => {
    const relayers = pools.get(effect.id) ?? [];
    return relayers.includes(effect.signer) ? [] : [{ effect, relayers }];
  });
}

/**
 * Before anything is planned or bought for it: what was given to a relayer that the configuration names no more goes to the pool as
 * it is now, or to the wallet itself where there is none. Answers those that stay.
 */
export async function leaveRemoved(
  pool: Pool,
  rail: Rail,
  effects: readonly EffectRow[],
): Promise<readonly EffectRow[]> {
  const gone = await outsidePool(pool, effects);
  if (gone.length === 0) return effects;
  await pool.tx('leave removed relayers', async (tx) => {
    await giveBack(
      tx,
      gone.map(({ effect }) => ({
        id: effect.id,
        token: effect.leaseToken,
        waitMs: 0,
        reason: REMOVED,
        counts: false,
      })),
    );
    const chosen = await chooseSigners(
      tx,
      gone.map(({ effect, relayers }) => ({
        rail: rail.name,
        wallet: effect.wallet,
        assetId: effect.asset.id,
        relayers,
      })),
    );
    await move(
      tx,
      gone.map(({ effect }, index) => ({
        id: effect.id,
        signer: chosen[index] ?? effect.wallet,
        token: effect.leaseToken,
      })),
    );
  });
  const left = new Set(gone.map(({ effect }) => effect.id));
  return effects.filter((effect) => !left.has(effect.id));
}

const REMOVED = 'RELAYER_REMOVED: the configuration names it no more; another one takes it over';

/** Why nothing may be sealed for these signers now, by effect: asked in the sealing transaction. */
export async function findBarredRelayers(
  tx: Tx,
  rail: string,
  effects: readonly EffectRow[],
): Promise<ReadonlyMap<bigint, string>> {
  const relayed = effects.filter((one) => one.signer !== one.wallet);
  if (relayed.length === 0) return new Map();
  const shortages = await loadShortages(tx, rail, [...new Set(relayed.map((one) => one.signer))]);
  const barred = new Map<bigint, string>();
  for (const effect of relayed) {
    const allowance = shortages.heldBy(relayingOf(effect));
    if (allowance !== null) barred.set(effect.id, `RELAYER_HELD: ${allowance} lowers what it may move`);
  }
  for (const { effect } of await outsidePool(tx, relayed)) barred.set(effect.id, REMOVED);
  return barred;
}

async function move(
  tx: Tx,
  moves: readonly { readonly id: bigint; readonly signer: string; readonly token: bigint }[],
): Promise<void> {
  await tx.query(HAND_OVER, [
    moves.map((one) => one.id),
    moves.map((one) => one.signer),
    moves.map((one) => one.token),
  ]);
}

// Nobody claims for a signer in quarantine, so nothing that it was given comes to a plan.
const LEFT_IN_QUARANTINE = `select e.id, e.partner_id, e.asset_id, e.wallet, e.lease_token
from payonce.effects e
join payonce.signers g on g.rail = e.rail and g.address = e.signer and g.quarantined_at is not null
where e.rail = $1
  and e.state = 'PENDING'
  and e.signer <> e.wallet
  and e.lease_until is null
order by e.id
limit $2
for no key update of e skip locked`;
const LEFT_MAX = 200;

/** What a relayer in quarantine was given and has not sealed goes to others of its pool. Answers how many were asked about. */
export async function leaveQuarantinedOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  return deps.pool.tx('leave quarantined relayers', async (tx) => {
    const { rows } = await tx.query<{
      id: bigint;
      partner_id: string;
      asset_id: string;
      wallet: string;
      lease_token: bigint;
    }>(LEFT_IN_QUARANTINE, [rail.name, LEFT_MAX]);
    if (rows.length === 0) return 0;
    const pools = await poolsOf(
      tx,
      rows.map((row) => ({ id: row.id, partnerId: row.partner_id, assetId: row.asset_id })),
    );
    const able = rows.filter((row) => (pools.get(row.id) ?? []).length > 0);
    const chosen = await chooseSigners(
      tx,
      able.map((row) => ({
        rail: rail.name,
        wallet: row.wallet,
        assetId: row.asset_id,
        relayers: pools.get(row.id) ?? [],
      })),
    );
    await move(
      tx,
      able.flatMap((row, index) => {
        const signer = chosen[index];
        return signer === undefined ? [] : [{ id: row.id, signer, token: row.lease_token }];
      }),
    );
    return rows.length;
  });
}

/** Somebody relays again for these wallets: what was told about it is over. */
export async function relaysAgain(query: Query, rail: Rail, sealed: readonly SealedEffect[]): Promise<void> {
  const relayed = sealed.filter((one) => one.signer !== one.wallet);
  await forgetUnallowed(query, relayed.map(relayingOf));
  const wallets = new Set(relayed.map((one) => one.wallet));
  for (const wallet of wallets) await clearAlert(query, 'no_relayer', `${rail.name}:${wallet}`);
}
