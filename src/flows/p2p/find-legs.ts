/**
 * Who fills an order: sellers' orders, found and locked in its own short transaction, then liquidity by its routes (M8).
 *
 * Candidates are read without locks and planned on (`plan-legs.ts`, pure); what is chosen is locked, and planned on again as it is under
 * its lock. A seller that another matcher holds at the moment is passed over for one of the same price; for a dearer one, or for a
 * provider, never: then its lock is waited for, and what is there afterwards is read anew. So a lost race costs a look, and no
 * liquidity of a provider while a seller is free.
 * Never: a wait for a lock while another seller's is held (what is waited for is locked at once, by id); a row written.
 */
import { type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import { CANDIDATES_MAX, LOOKS_MAX } from './limits.ts';
import type { DepositOrder } from './order.ts';
import { type Candidate, planLegs, type PlannedLegs, type Route } from './plan-legs.ts';

// M8: the same group and market, not its own user, not switched off; the cheapest first, then the oldest.
const CANDIDATES = `select o.id, o.amount - o.reserved - o.settled - o.given_back as free, o.leg_min, o.price
from payonce.p2p_withdraw_orders o
where o.group_name = $1
  and o.asset_id = $2
  and o.fiat = $3
  and o.status = 'OPEN'
  and o.amount - o.reserved - o.settled - o.given_back > 0
  and o.amount - o.reserved - o.settled - o.given_back >= o.leg_min
  and o.price <= $4
  and o.expires_at > (select payonce.now())
  and not (o.partner_id = $5 and o.user_ref = $6)
  and not exists (select 1 from payonce.p2p_members e where e.partner_id = o.partner_id and e.matching_off_at is not null)
order by o.price, o.created_at, o.id
limit $7`;

// A provider that has given up a trade of this order comes after those that have not.
const ROUTES = `select r.rail, r.account, r.min, r.max
from payonce.p2p_routes r
where r.group_name = $1
  and r.asset_id = $2
  and r.fiat = $3
  and r.partner_id in ('*', $4)
  and r.is_enabled
  and not (r.partner_id = '*' and exists (
    select 1 from payonce.p2p_routes x
    where x.group_name = r.group_name and x.asset_id = r.asset_id and x.fiat = r.fiat and x.partner_id = $4 and x.rail = r.rail))
order by (select count(*) from payonce.p2p_legs g where g.deposit_order_id = $5 and g.rail = r.rail and g.state = 'VOID'),
         r.priority, r.partner_id = '*', r.id`;

const LOCK_SELLERS = `select id, amount - reserved - settled - given_back as free, leg_min, price
from payonce.p2p_withdraw_orders
where id = any ($1::text[])
  and status = 'OPEN'
order by id
for no key update`;

const LOCK_FREE_SELLERS = `${LOCK_SELLERS}
skip locked`;

const toCandidate = (row: Row): Candidate => ({
  id: toText(row['id'], 'id'),
  free: toUnits(row['free'], 'free'),
  legMin: toUnits(row['leg_min'], 'leg_min'),
  price: toUnits(row['price'], 'price'),
});

async function loadCandidates(tx: Tx, order: DepositOrder): Promise<Candidate[]> {
  const { groupName, assetId, fiat, price, partnerId, userRef } = order;
  const values = [groupName, assetId, fiat, price, partnerId, userRef, CANDIDATES_MAX];
  return (await tx.query(CANDIDATES, values)).rows.map(toCandidate);
}

async function loadRoutes(tx: Tx, { groupName, assetId, fiat, partnerId, id }: DepositOrder): Promise<Route[]> {
  return (await tx.query(ROUTES, [groupName, assetId, fiat, partnerId, id])).rows.map((row) => ({
    rail: toText(row['rail'], 'rail'),
    account: toText(row['account'], 'account'),
    min: toUnits(row['min'], 'min'),
    max: toUnits(row['max'], 'max'),
  }));
}

/**
 * The legs of a locked order, their sellers locked. `raced`: nothing is decided and nothing may be written; the transaction is to end, and
 * be tried again as one that `waits` from the start.
 */
export async function findLegs(
  tx: Tx,
  order: DepositOrder,
  about: { readonly slots: number; readonly waits: boolean },
): Promise<PlannedLegs | 'raced'> {
  const { remaining, legMin, takesPart } = order;
  const routes = await loadRoutes(tx, order);
  const locked = new Set<string>();
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const planned = await planUnderLocks(tx, {
      plan: (candidates) => planLegs({ remaining, legMin, takesPart, slots: about.slots }, candidates, routes),
      found: await loadCandidates(tx, order),
      locked,
      waits: about.waits && look === 0,
    });
    if (planned !== 'look again') return planned;
  }
  return 'raced';
}

interface Look {
  readonly plan: (candidates: readonly Candidate[]) => PlannedLegs;
  readonly found: readonly Candidate[];
  /** By this transaction; grows here. */
  readonly locked: Set<string>;
  readonly waits: boolean;
}

/** Locks what is chosen, until what is chosen is locked. `look again`: it waited, and who is there may have changed. */
async function planUnderLocks(
  tx: Tx,
  { plan, found, locked, waits }: Look,
): Promise<PlannedLegs | 'look again' | 'raced'> {
  const busy = new Set<string>();
  const candidates = new Map(found.map((one) => [one.id, one]));
  for (;;) {
    const planned = plan(busyLast([...candidates.values()], busy));
    const wanted = planned.sellers.map((one) => one.id).filter((id) => !locked.has(id));
    if (wanted.length === 0) return planned;
    const mustWait = waits || wanted.some((id) => busy.has(id));
    // Whoever waits holds no seller: else two could wait for each other.
    if (mustWait && locked.size > 0) return 'raced';
    const { rows } = await tx.query(mustWait ? LOCK_SELLERS : LOCK_FREE_SELLERS, [wanted]);
    for (const id of wanted) busy.add(id);
    for (const row of rows) {
      const one = toCandidate(row);
      busy.delete(one.id);
      locked.add(one.id);
      candidates.set(one.id, one);
    }
    if (mustWait) return 'look again';
  }
}

/** Among those of one price, who is held by another comes last. */
function busyLast(candidates: readonly Candidate[], busy: ReadonlySet<string>): Candidate[] {
  return candidates.toSorted((one, other) =>
    one.price === other.price
      ? Number(busy.has(one.id)) - Number(busy.has(other.id))
      : one.price < other.price
        ? -1
        : 1,
  );
}
