/** What is due at night becomes subjects with effects: one transaction per business date, under the date's own row. */
import type { Pool, Tx } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { OWN_PARTNER, type OwnMove, takeOwnMoves } from '../../engine/own-move.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { lengthPrefixed, type MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { REALIZATION } from './kind.ts';
import * as store from './store.ts';

/** R8: late enough that the day's last postings are in, early enough that people find the verdict in the morning. */
const NIGHT_HOUR = 1;
/** Nights that nobody was up for, made one by one; what lies before comes with the first of them. */
const NIGHTS_CAUGHT_UP_MAX = 31;
const DAY_MS = 86_400_000;

export interface NightDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly log: Log;
  /** IANA name: whose midnight ends a business date, and whose 01:00 its night is. */
  readonly timeZone: string;
}

export interface Night {
  readonly id: string;
  readonly partnerId: string;
  readonly assetId: string;
  readonly ordinal: number;
  readonly amount: bigint;
  readonly wallet: string;
  readonly destination: string;
}

/** Not made now. `lane_taken`: an earlier one is open, and it comes when that has ended; else something is not configured. */
export interface Waiting {
  readonly partnerId: string;
  readonly assetId: string;
  readonly amount: bigint;
  readonly why: 'lane_taken' | 'no_wallet' | 'no_settlement_wallet';
}

export interface NightOutcome {
  readonly date: string;
  /** Made here; what another process made is not in it. */
  readonly made: readonly Night[];
  readonly waiting: readonly Waiting[];
  /** Nothing waits for a lane: the date is done. */
  readonly whole: boolean;
}

/** All nights that are due and not made, oldest first. Idempotent; durable on return, night by night. */
export async function runNightly(deps: NightDeps): Promise<NightOutcome[]> {
  const due = await store.loadDue(deps.pool, deps.timeZone, NIGHT_HOUR);
  await tellAhead(deps, due);
  const outcomes: NightOutcome[] = [];
  for (const date of datesToMake(due)) {
    const outcome = await deps.pool.tx('realize', (tx) => makeNight(tx, deps, date, due.date));
    if (outcome === null) continue;
    outcomes.push(outcome);
    if (outcome.made.length > 0)
      deps.log.info({ date, made: outcome.made.length, waiting: outcome.waiting.length }, 'realizations of the night');
  }
  return outcomes;
}

/**
 * One date by name, by a person: made where it was missed; where it is made already, what is due of it after all becomes
 * corrections with the next ordinal. `dryRun`: shown and not kept. Refuses a date whose night has not come.
 */
export async function realizeDate(deps: NightDeps, date: string | null, dryRun: boolean): Promise<NightOutcome> {
  const due = await store.loadDue(deps.pool, deps.timeZone, NIGHT_HOUR);
  const asked = date ?? due.date;
  if (asked > due.date)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `the night of ${asked} has not come: the latest is ${due.date} (${deps.timeZone})`,
    });
  let outcome: NightOutcome | null = null;
  try {
    await deps.pool.tx('realize', async (tx) => {
      outcome =
        (await makeNight(tx, deps, asked, due.date)) ??
        (await take(tx, deps, asked, await store.loadShares(tx, asked, due.date, OWN_PARTNER)));
      if (dryRun) throw new NotKept();
    });
  } catch (error) {
    if (!(error instanceof NotKept)) throw error;
  }
  return outcome ?? { date: asked, made: [], waiting: [], whole: true };
}

class NotKept extends Error {}

/** Oldest first: what is not whole, then every date since the last one. */
function datesToMake(due: store.DueDates): string[] {
  const from = due.unmade ?? (due.last === null ? due.date : dayAfter(due.last));
  const dates: string[] = [];
  for (let date = from; date <= due.date; date = dayAfter(date)) dates.push(date);
  return dates.slice(-NIGHTS_CAUGHT_UP_MAX);
}

function dayAfter(date: string): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + DAY_MS).toISOString().slice(0, 10);
}

/** A night made before its time says that the database's clock ran ahead. The days up to it are made as they come. */
async function tellAhead({ pool, log, timeZone }: NightDeps, { date, ahead }: store.DueDates): Promise<void> {
  if (ahead === null) return clearAlert(pool, ALERT_AHEAD, timeZone);
  const message = `The night of ${ahead} was made, and the latest that is due is ${date} (${timeZone}): the database's clock was ahead. What that night moved bears the wrong date; the days up to it are made as they come. Find out what set the clock.`;
  await raiseAlert(pool, ALERT_AHEAD, timeZone, message, log);
}
const ALERT_AHEAD = 'realizations_ahead';

/** `null`: it is whole already. */
async function makeNight(tx: Tx, deps: NightDeps, date: string, dueDate: string): Promise<NightOutcome | null> {
  if ((await store.lockNight(tx, date, deps.timeZone)).made) return null;
  await store.cutDay(tx, date, dueDate, deps.timeZone, OWN_PARTNER);
  const shares = (await store.loadShares(tx, date, dueDate, OWN_PARTNER)).filter((one) => one.ordinals === 0);
  const outcome = await take(tx, deps, date, shares);
  if (outcome.whole) await store.markMade(tx, date);
  return outcome;
}

async function take(tx: Tx, deps: NightDeps, date: string, shares: readonly store.DueShare[]): Promise<NightOutcome> {
  const waiting: Waiting[] = [];
  const moves: (OwnMove & { readonly share: store.DueShare })[] = [];
  for (const share of shares) {
    const { partnerId, assetId, rail, wallet, destination, ordinals } = share;
    const amount = share.fees - share.realized;
    if (rail === null || wallet === null) waiting.push({ partnerId, assetId, amount, why: 'no_wallet' });
    else if (destination === null || destination === wallet)
      waiting.push({ partnerId, assetId, amount, why: 'no_settlement_wallet' });
    else
      moves.push({
        partnerId,
        naturalKey: lengthPrefixed([partnerId, assetId, date, String(ordinals)]),
        lane: `realize:${partnerId}:${assetId}`,
        rail,
        assetId,
        amount,
        wallet,
        signer: wallet,
        destination,
        share,
      });
  }
  const made: Night[] = [];
  const outcomes = await takeOwnMoves(tx, deps, REALIZATION, moves, async (list) => {
    for (const { id, move } of list) made.push(toNight(id, move));
    await store.storeRealizations(
      tx,
      list.map(({ id, move }) => ({
        ...toNight(id, move),
        date,
        fees: move.share.fees,
        realized: move.share.realized,
      })),
    );
  });
  moves.forEach(({ partnerId, assetId, amount }, index) => {
    if (outcomes[index]?.outcome === 'lane_taken') waiting.push({ partnerId, assetId, amount, why: 'lane_taken' });
  });
  return { date, made, waiting, whole: waiting.every((one) => one.why !== 'lane_taken') };
}

function toNight(id: string, move: OwnMove & { readonly share: store.DueShare }): Night {
  const { partnerId, assetId, amount, wallet, destination } = move;
  return { id, partnerId, assetId, ordinal: move.share.ordinals, amount, wallet, destination };
}
