/**
 * The daily cut (P6): at 05:00 of its time zone a programme pays every creator that has at least its least amount, once for each
 * business date. A date that nobody was up for is made later, oldest first; by hand as often as one likes.
 *
 * The date's row is locked by who makes a page of it, so two nodes share the work and never a creator; what is due is read from the
 * index of what is payable, a page in each transaction, and nothing else is read.
 */
import type { Query, Tx } from '../../db/pool.ts';
import { toText, toUnits } from '../../db/pool.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { makePayouts, type PayoutDeps } from './enqueue.ts';
import { CUT_HOUR, CUTS_CAUGHT_UP_MAX, PAGE_POOLS } from './limits.ts';

const DAY_MS = 86_400_000;

export interface CutOutcome {
  readonly programmeId: string;
  readonly date: string;
  /** Made here. */
  readonly payouts: number;
  /** Due, and not made: no address, no money … */
  readonly waiting: number;
}

// The wall's date, less five hours: whatever the clock did that night, at 05:00 it becomes the next one. A programme begins with the
// cut of its day made (programmes.ts).
const DUE_CUTS = `select o.id, o.time_zone, d.date::text as date,
       (select max(k.business_date)::text from payonce.programme_cuts k where k.programme_id = o.id) as last,
       (select min(k.business_date)::text from payonce.programme_cuts k where k.programme_id = o.id and k.made_at is null) as unmade
from payonce.programmes o
cross join lateral (select ((payonce.now() at time zone o.time_zone) - make_interval(hours => $1))::date as date) d
where o.cut_min is not null
  and ($2::text is null or o.id = $2)
order by o.id`;

interface Due {
  readonly programmeId: string;
  readonly timeZone: string;
  readonly date: string;
  readonly last: string | null;
  readonly unmade: string | null;
}

async function loadDue(query: Query, programmeId: string | null): Promise<Due[]> {
  const { rows } = await query.query(DUE_CUTS, [CUT_HOUR, programmeId]);
  return rows.map((row) => ({
    programmeId: toText(row['id'], 'programmes.id'),
    timeZone: toText(row['time_zone'], 'programmes.time_zone'),
    date: toText(row['date'], 'date'),
    last: row['last'] as string | null,
    unmade: row['unmade'] as string | null,
  }));
}

/** Every cut that is due and not made. Idempotent; durable on return, page by page. */
export async function runCuts(deps: PayoutDeps): Promise<CutOutcome[]> {
  const outcomes: CutOutcome[] = [];
  for (const due of await loadDue(deps.pool, null)) {
    for (const date of datesOf(due)) {
      const outcome = await makeCut(deps, due, date, false);
      if (outcome === null) continue;
      outcomes.push(outcome);
      if (outcome.payouts + outcome.waiting > 0) deps.log.info({ ...outcome }, 'the daily cut');
    }
  }
  return outcomes;
}

/** By a person: this date, or the latest; one that is made is gone over again, and a creator that has its payout gets no second. */
export async function cutProgramme(deps: PayoutDeps, programmeId: string, date: string | null): Promise<CutOutcome> {
  const [due] = await loadDue(deps.pool, programmeId);
  if (due === undefined)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `There is no programme with the id ${programmeId} and a daily cut (cut_min); a name is not an id`,
    });
  const asked = date ?? due.date;
  if (asked > due.date)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `the cut of ${asked} has not come: the latest is ${due.date} (${due.timeZone})`,
    });
  return (
    (await makeCut(deps, due, asked, true)) ?? { programmeId: due.programmeId, date: asked, payouts: 0, waiting: 0 }
  );
}

function datesOf({ date: latest, last, unmade }: Due): string[] {
  const from = unmade ?? (last === null ? latest : dayAfter(last));
  const dates: string[] = [];
  for (let date = from; date <= latest; date = dayAfter(date)) dates.push(date);
  return dates.slice(-CUTS_CAUGHT_UP_MAX);
}

function dayAfter(date: string): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + DAY_MS).toISOString().slice(0, 10);
}

const BEGIN_CUT = `insert into payonce.programme_cuts (programme_id, business_date, time_zone)
values ($1, $2, $3)
on conflict (programme_id, business_date) do nothing`;
const LOCK_CUT = `select k.made_at
from payonce.programme_cuts k
where k.programme_id = $1
  and k.business_date = $2
for no key update`;
const CUT_MADE = `update payonce.programme_cuts k
set made_at = payonce.now()
where k.programme_id = $1
  and k.business_date = $2
  and k.made_at is null`;

// On a table that was never analysed the planner would read all that is due for each page, and sort it.
const IN_ORDER = `select set_config('enable_bitmapscan', $1, true), set_config('enable_sort', $1, true)`;
const PAGE = `select p.id, p.payable
from payonce.pools p
where p.programme_id = $1
  and p.payable > 0
  and p.payable >= (select o.cut_min from payonce.programmes o where o.id = $1)
  and (p.payable, p.id) > ($2::numeric, $3::bigint)
  and (select y.id from payonce.payouts y where y.pool_id = p.id and y.cut_date = $4) is null
order by p.payable, p.id
limit $5`;

export interface Place {
  readonly payable: bigint;
  readonly poolId: bigint;
}

/** What is due of a programme after a place, the least first: by its own index. Exported for the test of its plan. */
export async function loadPage(
  tx: Tx,
  programmeId: string,
  date: string,
  after: Place,
  limit: number,
): Promise<Place[]> {
  await tx.query(IN_ORDER, ['off']);
  const { rows } = await tx.query(PAGE, [programmeId, after.payable, after.poolId, date, limit]);
  await tx.query(IN_ORDER, ['on']);
  return rows.map((row) => ({
    payable: toUnits(row['payable'], 'pools.payable'),
    poolId: toUnits(row['id'], 'pools.id'),
  }));
}

/** `null`: it is made already. */
async function makeCut(deps: PayoutDeps, due: Due, date: string, again: boolean): Promise<CutOutcome | null> {
  const { programmeId, timeZone } = due;
  let after: Place | null = { payable: 0n, poolId: 0n };
  let [payouts, waiting] = [0, 0];
  while (after !== null) {
    const from: Place = after;
    const page = await deps.pool.tx('daily cut', async (tx) => {
      await tx.query(BEGIN_CUT, [programmeId, date, timeZone]);
      const [row] = (await tx.query<{ made_at: Date | null }>(LOCK_CUT, [programmeId, date])).rows;
      return row?.made_at !== null && !again ? null : makePage(tx, deps, programmeId, date, from);
    });
    if (page === null) return payouts + waiting === 0 ? null : { programmeId, date, payouts, waiting };
    payouts += page.payouts;
    waiting += page.waiting;
    after = page.next;
  }
  return { programmeId, date, payouts, waiting };
}

async function makePage(
  tx: Tx,
  deps: PayoutDeps,
  programmeId: string,
  date: string,
  after: Place,
): Promise<{ payouts: number; waiting: number; next: Place | null }> {
  const page = await loadPage(tx, programmeId, date, after, PAGE_POOLS);
  const { made, waiting } = await makePayouts(
    tx,
    deps,
    page.map((one) => one.poolId),
    { origin: 'cut', cutDate: date },
  );
  const last = page.length < PAGE_POOLS ? null : (page.at(-1) ?? null);
  if (last === null) await tx.query(CUT_MADE, [programmeId, date]);
  return { payouts: made.length, waiting: waiting.length, next: last };
}
