/**
 * Trades at liquidity providers: a leg's effect (M9), and the effect that cancels one.
 *
 * A leg's trade state is its effect's state (M10): PENDING and SEALED without testimony, it is being opened; with testimony it
 * stands; SETTLED, the provider released; RELEASED, it came to nothing, the amount goes back and the order looks again (M18).
 * A trade that moved after it was given up takes its amount again if that is free; else it is a surplus, is to be cancelled, and
 * is a person's. Nothing here asks a provider: the engine does, with no lock held.
 */
import type { Tx } from '../../db/pool.ts';
import { closeCases, openCase } from '../../engine/cases.ts';
import type { EndedEffect, Flow, Outcome } from '../../engine/flow.ts';
import { intend } from '../../engine/intend.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { lengthPrefixed, type MakeId } from '../../kernel/ids.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { countAttempt } from './claim.ts';
import { type Desk, openDesk } from './desk.ts';
import { CANCEL_TRADE, LEG } from './order.ts';

const nobodyIsTold = (): Promise<readonly never[]> => Promise.resolve([]);

export function makeTradeFlow(chart: Chart, makeId: MakeId): Flow {
  const deps = { chart, makeId };
  return {
    subjectType: LEG,
    settled: async (tx, ended) => {
      const desk = await deskOf(tx, ended);
      for (const { effect } of ended) bookRelease(desk, effect);
      const outcome = await desk.write(tx, deps);
      for (const { effect } of ended)
        if (desk.leg(effect.subjectId)?.state === 'SURPLUS')
          await tellSurplus(tx, makeId, effect, 'was released to us');
      return outcome;
    },
    // Whatever proves that there is no trade: the leg is void. The order looks again, perhaps elsewhere; never the same trade.
    afterRelease: (ended) =>
      ended.kind === 'NEVER_SEALED'
        ? { step: 'cancelled', reason: 'given up before anything was asked' }
        : { step: 'fail', reason: ended.detail },
    async released(tx, ended) {
      const desk = await deskOf(tx, ended);
      for (const { effect, next } of ended) {
        const leg = desk.leg(effect.subjectId);
        if (leg === undefined) throw new InvariantBroken(`effect ${effect.id} names no leg`);
        if (leg.state === 'OPEN')
          giveUp(desk, leg.id, leg.depositOrderId, next.step === 'fail' ? next.reason : 'given up');
      }
      await closeCases(
        tx,
        ended.map(({ effect }) => effect.id),
        ['trade_surplus'],
        'the provider ended the trade, and released nothing of it',
      );
      return bookedEvents(tx, desk, deps);
    },
    shown: nobodyIsTold,
    believed: nobodyIsTold,
    async reopened(tx, effects) {
      const desk = await deskOf(
        tx,
        effects.map((effect) => ({ effect })),
      );
      const surplus = effects.filter((effect) => desk.takeBack(effect.subjectId) === 'surplus');
      const events = await bookedEvents(tx, desk, deps);
      for (const effect of surplus) {
        await tellSurplus(tx, makeId, effect, 'stands, and its order has gone on without it');
        await cancelTrades(tx, [effect]);
      }
      return events;
    },
    holdOf: () => Promise.resolve(null),
    // What a provider gave twice is with us, and nobody's yet.
    arrivesAt: (effect) => accountName.suspense(effect.asset.id),
  };
}

/** The end of a cancel books nothing and tells nobody: what it did shows in the trade. */
export function makeCancelTradeFlow(): Flow {
  return {
    subjectType: CANCEL_TRADE,
    settled: () => Promise.resolve({ items: [], events: [] }),
    afterRelease: (ended) => ({ step: 'fail', reason: ended.detail }),
    released: nobodyIsTold,
    shown: nobodyIsTold,
    believed: nobodyIsTold,
    reopened: nobodyIsTold,
    holdOf: () => Promise.resolve(null),
    arrivesAt: (effect) => accountName.suspense(effect.asset.id),
  };
}

const ORDERS = `select deposit_order_id
from payonce.p2p_legs
where id = any ($1::text[])`;

async function deskOf(tx: Tx, ended: readonly Pick<EndedEffect, 'effect'>[]): Promise<Desk> {
  const { rows } = await tx.query<{ deposit_order_id: string }>(ORDERS, [ended.map(({ effect }) => effect.subjectId)]);
  return openDesk(tx, { deposits: rows.map((row) => row.deposit_order_id) });
}

function bookRelease(desk: Desk, effect: EffectRow): void {
  const leg = desk.leg(effect.subjectId);
  if (leg === undefined) throw new InvariantBroken(`effect ${effect.id} names no leg`);
  const booked =
    leg.state === 'SURPLUS'
      ? { refused: 'surplus' }
      : desk.settle(leg.id, { reason: 'LP_RELEASED', effectId: effect.id });
  if (booked !== 'settled') return desk.bookSurplus(leg.id, effect.id);
  const order = desk.deposit(leg.depositOrderId);
  // It released before anybody saw that the trade stood.
  if (
    order?.status === 'MATCHING' &&
    order.waitsLp &&
    desk.legsOf(order.id).every((one) => one.state !== 'OPEN' || one.kind === 'SELLER')
  )
    desk.match(order.id);
}

/** M18: leg void, amount back, and the order looks again; an attempt of it, so that a refusing provider ends. */
function giveUp(desk: Desk, legId: string, orderId: string, reason: string): void {
  desk.end(legId, 'VOID', reason, 'LP_REFUSED');
  const order = desk.deposit(orderId);
  if (order?.status === 'MATCHING' && order.waitsLp) countAttempt(desk, orderId, `LP_REFUSED: ${reason.slice(0, 200)}`);
}

async function bookedEvents(tx: Tx, desk: Desk, deps: { chart: Chart; makeId: MakeId }): Promise<readonly NewEvent[]> {
  const outcome: Outcome = await desk.write(tx, deps);
  if (outcome.items.length > 0) throw new InvariantBroken('the end of a trade that came to nothing books nothing');
  return outcome.events;
}

async function tellSurplus(tx: Tx, makeId: MakeId, effect: EffectRow, what: string): Promise<void> {
  await openCase(tx, makeId, {
    kind: 'trade_surplus',
    severity: 3,
    subjectKey: `leg:${effect.subjectId}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary: `the trade of leg ${effect.subjectId} ${what}; agree with the provider, then say where the amount belongs`,
  });
}

/** Asks the provider to end trades that stand; one such act per trade, ever. Durable with the caller's commit. */
export async function cancelTrades(tx: Tx, trades: readonly EffectRow[]): Promise<void> {
  const asked = new Set(
    (
      await tx.query<{ id: string }>(
        `select id from payonce.subjects where type = 'p2p_cancel' and id = any ($1::text[])`,
        [trades.map((one) => one.subjectId)],
      )
    ).rows.map((row) => row.id),
  );
  const fresh = trades.filter((one) => one.trade !== null && !asked.has(one.subjectId));
  await intend(
    tx,
    fresh.map((effect) => ({
      subjectType: CANCEL_TRADE,
      subjectId: effect.subjectId,
      partnerId: effect.partnerId,
      naturalKey: lengthPrefixed([effect.naturalKey, 'cancel']),
      rail: effect.rail,
      assetId: effect.asset.id,
      amount: effect.amount,
      destination: effect.destination,
      wallet: effect.wallet,
      signer: effect.signer,
      ...(effect.trade === null
        ? {}
        : { trade: { ...effect.trade, act: 'cancel', tradeId: effect.acceptedObject } as const }),
    })),
    () => Promise.resolve(),
  );
}
