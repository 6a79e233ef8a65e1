/** One collection cycle, and what it left where it is. See `index.ts`. */
import type { Pool, Query } from '../../db/pool.ts';
import { cancelSubject } from '../../engine/cancel.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import { type OwnMove, type OwnMoveKind, takeOwnMoves } from '../../engine/own-move.ts';
import { lengthPrefixed, postingKey } from '../../kernel/ids.ts';
import { decideHolding, type Holding, laneOf, type LeftReason } from './plan.ts';
import * as store from './store.ts';

/** Two tries, each proved to have moved nothing, cost gas twice; a third would hardly end otherwise (case E8). */
const TRIES_MAX = 2;
/** Sweeps made in one transaction: it holds no account, only what it inserts. */
const PAGE_HOLDINGS = 500;
/** A cycle that is not through by then has died: another takes it over. Too short: two cycles read the same, and the lanes
 *  keep them apart; too long: an hour's sweeps come later. */
const TURN_MS = 10 * 60_000;

export const COLLECTION: OwnMoveKind = {
  subjectType: 'collection',
  idPrefix: 'col',
  key: postingKey.collectionMove,
  arrivesAt: 'custody',
  triesMax: TRIES_MAX,
};

export interface Collected {
  /** Assets whose cycle this was; empty: none is due, or another process has them. */
  readonly assets: readonly string[];
  /** Addresses with something in these assets. */
  readonly looked: number;
  readonly made: number;
  /** Waiting sweeps that were called off, since what they were made for is not there any more. */
  readonly calledOff: number;
  readonly left: Readonly<Partial<Record<LeftReason, number>>>;
}

/**
 * One cycle over a chain's deposit addresses: for each that holds enough of an asset, by the ledger, a sweep of its own. Durable
 * on return; what it made is sent by the workers. Runs beside any number of others: a turn is one process's, and a lane has
 * one open sweep, whoever makes it. `now`: without waiting for the hour.
 */
export async function collectOnce(
  engine: EngineDeps,
  chain: string,
  options: { readonly now?: boolean } = {},
): Promise<Collected> {
  const turns = await engine.pool.tx('take collection turns', (tx) =>
    store.takeTurns(tx, chain, TURN_MS, options.now === true),
  );
  const found = { looked: 0, made: 0, calledOff: 0, left: {} as Partial<Record<LeftReason, number>> };
  for (const turn of turns) {
    found.calledOff += await callOffOvertaken(engine, turn.assetId);
    let after = '';
    for (;;) {
      const page = await store.loadHoldings(engine.pool, turn.assetId, after, PAGE_HOLDINGS);
      found.looked += page.length;
      found.made += await sweepPage(engine, page, found.left);
      after = page.at(-1)?.addressId ?? '';
      if (page.length < PAGE_HOLDINGS) break;
    }
    await store.endTurn(engine.pool, turn);
  }
  if (found.made > 0) engine.log.info({ chain, ...found }, 'sweeps made');
  return { assets: turns.map((turn) => turn.assetId), ...found };
}

interface Sweep extends OwnMove {
  readonly holding: Holding;
}

async function sweepPage(
  engine: EngineDeps,
  page: readonly Holding[],
  left: Partial<Record<LeftReason, number>>,
): Promise<number> {
  const count = (why: LeftReason): void => {
    left[why] = (left[why] ?? 0) + 1;
  };
  const sweeps: Sweep[] = [];
  for (const holding of page) {
    const decision = decideHolding(holding);
    if (decision.do === 'leave') count(decision.why);
    else sweeps.push(toMove(holding, decision));
  }
  if (sweeps.length === 0) return 0;
  const outcomes = await engine.pool.tx('make sweeps', (tx) =>
    takeOwnMoves(tx, engine, COLLECTION, sweeps, async (made) => {
      await store.storeSigners(
        tx,
        made.map(({ move }) => ({ rail: move.rail, address: move.signer })),
      );
      await store.storeCollections(
        tx,
        made.map(({ id, move }) => ({
          id,
          partnerId: move.partnerId,
          chain: move.holding.chain,
          address: move.wallet,
          assetId: move.assetId,
          ordinal: move.holding.ordinal + 1,
          accountSeq: move.holding.accountSeq,
          amount: move.amount,
          destination: move.destination,
        })),
      );
    }),
  );
  for (const one of outcomes) if (one.outcome !== 'made') count('sweep_open');
  return outcomes.filter((one) => one.outcome === 'made').length;
}

/** The key is of the address's next sweep in this asset: two cycles that read the same make one, and a later one is new. */
function toMove(holding: Holding, decision: { rail: string; wallet: string; amount: bigint }): Sweep {
  const { chain, address, partnerId, assetId, ordinal } = holding;
  return {
    partnerId,
    naturalKey: lengthPrefixed([chain, address, assetId, String(ordinal + 1)]),
    lane: laneOf(holding),
    rail: decision.rail,
    assetId,
    amount: decision.amount,
    wallet: address,
    signer: address,
    destination: decision.wallet,
    holding,
  };
}

/** Nothing of them has left; the address's next sweep is made for what lies there now. */
async function callOffOvertaken(engine: EngineDeps, assetId: string): Promise<number> {
  let calledOff = 0;
  for (const one of await store.loadOvertaken(engine.pool, assetId)) {
    const outcome = await cancelSubject(engine, COLLECTION.subjectType, one.partnerId, one.id, 'collection cycle');
    if (outcome === 'cancelled') calledOff += 1;
  }
  return calledOff;
}

/** Called off by a person, before its seal. A second time does nothing. */
export async function cancelCollection(
  engine: EngineDeps,
  id: string,
  by: string,
): Promise<'cancelled' | 'too_late' | 'not_found'> {
  const partnerId = await store.loadPartnerOf(engine.pool, id);
  if (partnerId === null) return 'not_found';
  return cancelSubject(engine, COLLECTION.subjectType, partnerId, id, by);
}

export interface LeftHolding {
  readonly holding: Holding;
  readonly why: LeftReason | 'due';
}

/** Everything at deposit addresses that is not under way, and why; `due` is swept in the next cycle. */
export async function listLeft(pool: Pool | Query, assetId: string): Promise<LeftHolding[]> {
  const left: LeftHolding[] = [];
  for (let after = ''; ; ) {
    const page = await store.loadHoldings(pool, assetId, after, PAGE_HOLDINGS);
    for (const holding of page) {
      const decision = decideHolding(holding);
      const why = decision.do === 'leave' ? decision.why : 'due';
      if (why !== 'sweep_open') left.push({ holding, why });
    }
    after = page.at(-1)?.addressId ?? '';
    if (page.length < PAGE_HOLDINGS) return left;
  }
}
