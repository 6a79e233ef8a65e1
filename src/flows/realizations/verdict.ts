/**
 * The nightly verdict (R17), at finality after the batch:
 *   (a) claims were lost to overlap: else nothing was put to the test, and a clean night is `inconclusive`, not a pass
 *   (b) each realization was completed exactly once: one settled effect, one posting, one transfer on its chain
 *   (c) per network and asset, count and sum of what is on record equal what flowed into the settlement wallets from wallets
 *       of ours, as the scanner saw it: the second transfer of the incident had no record, and stands here
 * `pending` until all of the night has ended and its transfers were seen final; a verdict is written down once for each
 * change, and a night that failed is an alert until a later verdict says otherwise.
 */
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import type { Pool, Query } from '../../db/pool.ts';
import { toUnits } from '../../db/pool.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { Log } from '../../kernel/log.ts';
import { amountInWords, type AssetWords, loadAssetWords } from '../../ledger/amount-words.ts';

/** The scanner sees a settled transfer within seconds of its block's finality; an hour later it is missing. */
const SEEN_WITHIN_MS = 3_600_000;
/** Nights looked at again by the schedule: a return of what was double comes within days. */
const NIGHTS_JUDGED = 7;

export interface NetworkCount {
  readonly chain: string;
  readonly assetId: string;
  /** What is on record as completed, and what the settlement wallets got. Sums in units. */
  readonly records: number;
  readonly recorded: bigint;
  readonly inflows: number;
  readonly inflow: bigint;
}

export interface NightVerdict {
  readonly date: string;
  readonly verdict: 'pass' | 'fail' | 'inconclusive' | 'pending';
  /** (a) */
  readonly claimsLost: bigint;
  /** (b) Each fault in words, with its id. */
  readonly faults: readonly string[];
  /** (c) */
  readonly networks: readonly NetworkCount[];
  readonly open: number;
  readonly realizations: number;
}

const NIGHT = `select n.made_at is not null as whole,
       (select coalesce(sum(l.lost), 0)::bigint
        from payonce.realization_claims_lost l join payonce.realizations r on r.id = l.realization_id
        where r.business_date = n.business_date) as claims_lost
from payonce.realization_nights n
where n.business_date = $1`;

// An effect's transactions: the variants that were signed for it, and the object that settled it.
const OWN_TX = `select e.subject_id, v.hash as tx_hash
  from payonce.effects e join payonce.effect_variants v on v.effect_id = e.id
  where e.subject_type = 'realization'
  union
  select e.subject_id, y.object_id
  from payonce.effects e join payonce.effect_evidence y on y.id = e.settled_by
  where e.subject_type = 'realization' and y.object_id is not null`;

const COMPLETIONS = `with own as (
  ${OWN_TX}
)
select r.id, r.amount, r.asset_id, a.chain, r.destination,
       (select count(*) from payonce.effects e
        where e.subject_type = 'realization' and e.subject_id = r.id and e.state = 'SETTLED')::int as settled,
       (select count(*) from payonce.postings p where p.idem_key = 'RLZ_MOVE:' || r.id)::int as postings,
       (select count(*) from payonce.chain_transfers t join own o on o.tx_hash = t.tx_hash
        where o.subject_id = r.id and t.chain = a.chain and t.asset_id = r.asset_id and t.from_address = r.wallet
          and t.to_address = r.destination and t.amount = r.amount and t.final_at is not null and t.gone_at is null)::int as transfers,
       s.closed_at is not null and not exists (
         select 1 from payonce.effects e
         where e.subject_type = 'realization' and e.subject_id = r.id and e.state <> 'RELEASED') as given_back,
       (select max(e.ended_at) < payonce.now() - make_interval(secs => $2::float8 / 1000) from payonce.effects e
        where e.subject_type = 'realization' and e.subject_id = r.id and e.state = 'SETTLED') as long_ago
from payonce.realizations r
join payonce.assets a on a.id = r.asset_id
join payonce.subjects s on s.type = 'realization' and s.id = r.id
where r.business_date = $1
order by r.id`;

// Ours: what belongs to the night, and what belongs to nothing on record and came between this night and the next.
const INFLOWS = `with own as (
  ${OWN_TX}
),
night as (
  select n.begun_at, (select min(m.begun_at) from payonce.realization_nights m where m.business_date > n.business_date) as ended_at
  from payonce.realization_nights n
  where n.business_date = $1
)
select t.chain, t.asset_id, count(*)::int as inflows, sum(t.amount) as inflow
from payonce.chain_transfers t
cross join night n
where t.final_at is not null
  and t.gone_at is null
  and exists (
    select 1 from payonce.addresses w where w.chain = t.chain and w.address = t.to_address and w.kind = 'SETTLEMENT')
  and exists (
    select 1 from payonce.addresses w where w.chain = t.chain and w.address = t.from_address and w.kind in ('MASTER', 'DEPOSIT'))
  and (exists (
         select 1 from own o join payonce.realizations r on r.id = o.subject_id
         where o.tx_hash = t.tx_hash and r.business_date = $1)
       or t.class <> 'OWN_EFFECT' and t.seen_at >= n.begun_at and (n.ended_at is null or t.seen_at < n.ended_at))
group by t.chain, t.asset_id`;

/** What the night shows now. Refuses a date that has no night. */
export async function judgeNight(query: Query, date: string): Promise<NightVerdict> {
  const [night] = (await query.query<{ whole: boolean; claims_lost: bigint }>(NIGHT, [date])).rows;
  if (night === undefined)
    throw new PayonceError('PO_NOT_FOUND', { detail: `There is no night of ${date}; payonce realize makes one` });
  const rows = (await query.query<CompletionRow>(COMPLETIONS, [date, SEEN_WITHIN_MS])).rows;
  const counts = new Map<string, Counted>();
  const countOf = (chain: string, assetId: string): Counted => {
    const key = `${chain}\n${assetId}`;
    const count = counts.get(key) ?? { chain, assetId, records: 0, recorded: 0n, inflows: 0, inflow: 0n };
    counts.set(key, count);
    return count;
  };
  const faults: string[] = [];
  let open = 0;
  for (const row of rows) {
    if (row.given_back) {
      if (row.transfers > 0) faults.push(`${row.id} was given back, and ${row.transfers} transfers of it are final`);
      continue;
    }
    if (row.settled === 0 || (row.transfers === 0 && row.long_ago !== true)) open += 1;
    if (row.settled > 0) {
      const count = countOf(row.chain, row.asset_id);
      count.records += 1;
      count.recorded += toUnits(row.amount, 'realizations.amount');
    }
    const fault = faultOf(row);
    if (fault !== null) faults.push(fault);
  }
  for (const row of (await query.query<InflowRow>(INFLOWS, [date])).rows) {
    const count = countOf(row.chain, row.asset_id);
    count.inflows = row.inflows;
    count.inflow = toUnits(row.inflow, 'sum(amount)');
  }
  const networks = [...counts.values()];
  const differs = networks.filter((one) => one.records !== one.inflows || one.recorded !== one.inflow);
  const isPending = !night.whole || open > 0;
  return {
    date,
    claimsLost: night.claims_lost,
    faults,
    networks,
    open,
    realizations: rows.length,
    verdict: isPending
      ? 'pending'
      : faults.length > 0 || differs.length > 0
        ? 'fail'
        : night.claims_lost > 0n
          ? 'pass'
          : 'inconclusive',
  };
}

interface CompletionRow extends Record<string, unknown> {
  id: string;
  amount: bigint;
  asset_id: string;
  chain: string;
  settled: number;
  postings: number;
  transfers: number;
  given_back: boolean;
  long_ago: boolean | null;
}
interface InflowRow extends Record<string, unknown> {
  chain: string;
  asset_id: string;
  inflows: number;
  inflow: bigint;
}
type Counted = { -readonly [Field in keyof NetworkCount]: NetworkCount[Field] };

function faultOf({ id, settled, postings, transfers, long_ago: longAgo }: CompletionRow): string | null {
  if (settled > 1) return `${id} was completed ${settled} times`;
  if (postings !== settled) return `${id} has ${postings} postings and was completed ${settled} times`;
  if (transfers > 1) return `${id} moved ${transfers} times on its chain`;
  if (settled === 1 && transfers === 0 && longAgo === true)
    return `${id} is completed, and its chain shows nothing of it`;
  return null;
}

const TO_JUDGE = `select n.business_date::text as date
from payonce.realization_nights n
where n.made_at is not null
  and exists (select 1 from payonce.realizations r where r.business_date = n.business_date)
order by n.business_date desc
limit $1`;
const KEEP = `insert into payonce.realization_verdicts (business_date, verdict, claims_lost, detail)
select $1, $2, $3, $4
where (
  select (v.verdict, v.detail) from payonce.realization_verdicts v where v.business_date = $1 order by v.id desc limit 1)
  is distinct from ($2::text, $4::jsonb)
returning id`;

/** Judges the last nights and writes down what changed; a failed one is an alert, which a later pass clears. Durable on return. */
export async function judgeNights(pool: Pool, log: Log): Promise<NightVerdict[]> {
  const dates = (await pool.query<{ date: string }>(TO_JUDGE, [NIGHTS_JUDGED])).rows.map((row) => row.date);
  const verdicts: NightVerdict[] = [];
  for (const date of dates) {
    const verdict = await judgeNight(pool, date);
    verdicts.push(verdict);
    await keepVerdict(pool, log, verdict);
  }
  return verdicts;
}

/** A pending one is not kept. */
export async function keepVerdict(pool: Pool, log: Log, verdict: NightVerdict): Promise<void> {
  if (verdict.verdict === 'pending') return;
  const { date, claimsLost } = verdict;
  await pool.tx('night verdict', async (tx) => {
    const detail = JSON.stringify(toDetail(verdict));
    const kept = await tx.query(KEEP, [date, verdict.verdict, claimsLost, detail]);
    if (kept.rowCount === 0) return;
    if (verdict.verdict === 'fail')
      await raiseAlert(
        tx,
        'realizations_differ',
        date,
        `${wordsOf(verdict, await loadAssetWords(tx))}; see payonce realize verdict`,
        log,
      );
    else await clearAlert(tx, 'realizations_differ', date);
  });
}

function toDetail({ faults, networks, realizations }: NightVerdict): object {
  const sums = networks.map((one) => ({ ...one, recorded: one.recorded.toString(), inflow: one.inflow.toString() }));
  return { realizations, faults, networks: sums };
}

/** What is wrong, in one line. */
function wordsOf({ date, faults, networks }: NightVerdict, words: AssetWords): string {
  const differing = networks
    .filter((one) => one.records !== one.inflows || one.recorded !== one.inflow)
    .map(
      (one) =>
        `${one.chain}: ${one.records} realizations of ${amountInWords(words, one.assetId, one.recorded)}, ${one.inflows} inflows of ${amountInWords(words, one.assetId, one.inflow)}`,
    );
  return `the night of ${date}: ${[...faults, ...differing].join('; ')}`;
}
