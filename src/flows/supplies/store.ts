/**
 * Statements of supplies. Lock order: that of `takeOwnMoves`; the reads here lock nothing.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';

export interface NewSupply {
  readonly id: string;
  readonly subjectType: 'topup' | 'energy';
  readonly lane: string;
  readonly ordinal: number;
  readonly chain: string;
  readonly address: string;
  readonly forEffect: bigint | null;
  readonly units: bigint;
  readonly durationMs: number | null;
}

const STORE = `insert into payonce.supplies (id, subject_type, lane, ordinal, chain, address, for_effect, units, duration_ms)
select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::bigint[], $8::numeric[], $9::bigint[])`;

export async function storeSupplies(tx: Tx, list: readonly NewSupply[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.subjectType),
    list.map((one) => one.lane),
    list.map((one) => one.ordinal),
    list.map((one) => one.chain),
    list.map((one) => one.address),
    list.map((one) => one.forEffect),
    list.map((one) => one.units),
    list.map((one) => one.durationMs),
  ]);
}

/** The latest supply of a lane, with what became of it. */
export interface LastSupply {
  readonly id: string;
  readonly ordinal: number;
  /** Of this lane, in the last 24 hours. */
  readonly settledLately: number;
  readonly durationMs: number | null;
  readonly state: 'PENDING' | 'SEALED' | 'SETTLED' | 'RELEASED';
  /** Since its end, on the database's clock; `null`: it has not ended. */
  readonly endedMs: number | null;
  /** Released, and a person decides what comes next. */
  readonly inReview: boolean;
  /** Its last send was refused, in these words; `null`: it was not. Before its seal: why it waits. */
  readonly refused: string | null;
}

const LAST = `select s.lane, s.id, s.ordinal, (
         select count(*)
         from payonce.supplies o
         join payonce.effects f on f.subject_type = o.subject_type and f.subject_id = o.id
         where o.lane = s.lane
           and o.ordinal > s.ordinal - 100
           and f.state = 'SETTLED'
           and f.ended_at > payonce.now() - interval '24 hours')::int as settled_lately, s.duration_ms::float8 as duration_ms, e.state,
       (extract(epoch from payonce.now() - e.ended_at) * 1000)::float8 as ended_ms,
       e.state = 'RELEASED' and j.closed_at is null as in_review,
       case e.state when 'PENDING' then e.wait_reason else (
         select case a.observed when 'refused' then a.observed_why end
         from payonce.effect_answers a
         where a.effect_id = e.id and a.operation = 'send'
         order by a.id desc
         limit 1) end as refused
from unnest($1::text[]) as l (lane)
cross join lateral (
  select * from payonce.supplies s where s.lane = l.lane order by s.ordinal desc limit 1) s
join payonce.subjects j on j.type = s.subject_type and j.id = s.id
cross join lateral (
  select * from payonce.effects e where e.subject_type = s.subject_type and e.subject_id = s.id order by e.seq desc limit 1) e`;

export async function loadLastSupplies(query: Query, lanes: readonly string[]): Promise<Map<string, LastSupply>> {
  const { rows } = await query.query(LAST, [[...new Set(lanes)]]);
  return new Map(rows.map((row) => [toText(row['lane'], 'supplies.lane'), toLast(row)]));
}

function toLast(row: Row): LastSupply {
  return {
    id: toText(row['id'], 'supplies.id'),
    ordinal: row['ordinal'] as number,
    settledLately: row['settled_lately'] as number,
    durationMs: row['duration_ms'] as number | null,
    state: row['state'] as LastSupply['state'],
    endedMs: row['ended_ms'] as number | null,
    inReview: row['in_review'] as boolean,
    refused: row['refused'] as string | null,
  };
}

const OVERPRICED = `select e.rail, min(e.subject_id) as subject_id
from payonce.cases k
join payonce.effects e on e.id = k.effect_id
where k.kind = 'overpriced'
  and k.closed_at is null
  and e.rail = any ($1::text[])
group by e.rail`;

/** By rail, why a market gets no further order: it took more for one than was allowed, and people have not closed its case. */
export async function findOverpriced(query: Query, rails: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const { rows } = await query.query<{ rail: string; subject_id: string }>(OVERPRICED, [rails]);
  return new Map(rows.map((row) => [row.rail, `rental ${row.subject_id} cost more than was ordered`]));
}

// From the pending effects of these signers, by their index, to their lanes: rentals that run, or will, or may still come.
const HELD = `select s.address, f.id as effect_id, sum(s.units) as units
from payonce.effects f
join payonce.supplies s on s.lane = 'energy:' || f.id
join payonce.effects e on e.subject_type = s.subject_type and e.subject_id = s.id
where f.rail = any ($1::text[])
  and f.signer = any ($2::text[])
  and f.state = 'PENDING'
  and (e.state in ('PENDING', 'SEALED')
    or e.state = 'SETTLED' and e.ended_at > payonce.now() - make_interval(secs => s.duration_ms::float8 / 1000))
group by s.address, f.id`;

export interface HeldEnergy {
  readonly address: string;
  readonly effectId: bigint;
  readonly units: bigint;
}

/** The energy that is rented for pending effects of these signers, there or under way. */
export async function loadHeldEnergy(
  query: Query,
  rails: readonly string[],
  signers: readonly string[],
): Promise<HeldEnergy[]> {
  const { rows } = await query.query<{ address: string; effect_id: bigint; units: bigint }>(HELD, [rails, signers]);
  return rows.map((row) => ({
    address: row.address,
    effectId: row.effect_id,
    units: toUnits(row.units, 'sum(units)'),
  }));
}

const OWNERS = `select chain, address, partner_id
from payonce.addresses
where (chain, address) in (select * from unnest($1::text[], $2::text[]))
  and partner_id is not null`;

/** Whose these addresses are, by `chain address`; those of nobody are not in the answer. */
export async function loadOwners(
  query: Query,
  list: readonly { readonly chain: string; readonly address: string }[],
): Promise<Map<string, string>> {
  const { rows } = await query.query<{ chain: string; address: string; partner_id: string }>(OWNERS, [
    list.map((one) => one.chain),
    list.map((one) => one.address),
  ]);
  return new Map(rows.map((row) => [`${row.chain} ${row.address}`, row.partner_id]));
}

const BOOKED = `select a.code, -a.balance as units
from payonce.accounts a
where a.asset_id = $1
  and a.code = any ($2::text[])`;

/** What our books say that these addresses have of a coin; one without an account has none. */
export async function loadBooked(
  query: Query,
  chain: string,
  assetId: string,
  addresses: readonly string[],
): Promise<Map<string, bigint>> {
  const codes = new Map(addresses.map((address) => [`custody:${chain}:${address}`, address]));
  const { rows } = await query.query<{ code: string; units: bigint }>(BOOKED, [assetId, [...codes.keys()]]);
  return new Map(rows.map((row) => [codes.get(row.code) ?? row.code, toUnits(row.units, 'balance')]));
}

const QUARANTINED = `select address
from payonce.signers
where rail = $1
  and address = any ($2::text[])
  and quarantined_at is null`;

/** Those of these wallets that may seal. */
export async function loadUsable(query: Query, rail: string, wallets: readonly string[]): Promise<Set<string>> {
  const { rows } = await query.query<{ address: string }>(QUARANTINED, [rail, wallets]);
  return new Set(rows.map((row) => row.address));
}
