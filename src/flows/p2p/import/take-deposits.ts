/** Buyers' orders of one batch with their legs: judged, and what stands is written. After the sellers', which the legs name. */
import { toText, type Tx } from '../../../db/pool.ts';
import { storeSubjects } from '../../../engine/intend.ts';
import { emit } from '../../../outbox/emit.ts';
import { DEPOSIT, type DepositOrder, type Leg } from '../order.ts';
import { depositEvent } from '../view.ts';
import type { Batch } from './batch.ts';
import { type ImportMarket, judgeDeposit, type SettledLeg, type TakenDeposit } from './judge.ts';
import {
  type LegLine,
  loadLegs,
  loadMarkets,
  loadSellers,
  type Mark,
  markLines,
  type OrderLine,
  storeTaken,
  type TakenRow,
  type TakenSeller,
} from './store.ts';
import { importedKey, withoutTakenNames } from './take-withdraws.ts';

interface StandingLeg extends SettledLeg {
  readonly id: string;
  /** `null`: a provider's, or the seller's order is not taken over (yet). */
  readonly seller: TakenSeller | null;
}

interface Standing {
  readonly line: OrderLine;
  readonly id: string;
  readonly partnerId: string;
  readonly fiat: string;
  readonly market: ImportMarket;
  readonly order: TakenDeposit;
  readonly lines: readonly LegLine[];
  readonly legs: readonly StandingLeg[];
}

const EXTERNALS = `select o.partner_id, o.external_id
from payonce.p2p_deposit_orders o
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = o.partner_id and u.external_id = o.external_id`;

const STORE_ORDERS = `insert into payonce.p2p_deposit_orders
  (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals, pay_within_ms, created_at,
   expires_at, status, remaining_amount, matched_at, closed_at, close_reason, imported_as)
select u.id, u.partner_id, u.group_name, u.asset_id, u.fiat, u.external_id, u.user_ref, u.amount, u.price, u.takes_part, u.leg_min, u.fee_bp,
       u.fiat_decimals, u.pay_within_ms, u.created_at, u.expires_at, u.status, u.amount - u.settled, u.matched_at, u.closed_at, u.close_reason,
       case when u.closed_at is null then 'open' else 'history' end
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::numeric[], $10::bool[], $11::numeric[],
            $12::int[], $13::int[], $14::bigint[], $15::timestamptz[], $16::timestamptz[], $17::text[], $18::numeric[], $19::timestamptz[],
            $20::timestamptz[], $21::text[])
  as u (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals, pay_within_ms,
        created_at, expires_at, status, settled, matched_at, closed_at, close_reason)`;

const STORE_LEGS = `insert into payonce.p2p_legs
  (id, deposit_order_id, ordinal, slot, kind, withdraw_order_id, rail, amount, price, fiat_amount, state, claim_token, created_at, ended_at, end_reason, is_history)
select u.id, u.deposit_order_id, u.place, u.place, u.kind, u.withdraw_order_id, u.rail, u.amount, u.price, u.fiat_amount, 'SETTLED', 0, u.created_at,
       u.ended_at, 'IMPORTED', true
from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::numeric[], $8::numeric[], $9::numeric[], $10::timestamptz[],
            $11::timestamptz[])
  as u (id, deposit_order_id, place, kind, withdraw_order_id, rail, amount, price, fiat_amount, created_at, ended_at)`;

export async function takeDeposits(tx: Tx, batch: Batch, lines: readonly OrderLine[]): Promise<void> {
  const { importId, deps, isDry } = batch;
  const marks: Mark[] = [];
  const taken = await judgeAll(tx, batch, lines, marks);
  const rows = taken.flatMap(toRows);
  const all = taken.flatMap(({ line, lines: legs }) => [line, ...legs, ...legs.flatMap((leg) => leg.ledger)]);
  for (const { line } of all) marks.push({ line, outcome: 'imported', reason: null });
  if (!isDry && taken.length > 0) {
    await storeOrders(tx, taken);
    await storeLegs(tx, taken);
    await storeTaken(tx, importId, rows);
    await emit(
      tx,
      deps.makeId,
      taken
        .filter((one) => one.order.closed === null)
        .map((one) => depositEvent(toView(one, batch.now), toLegs(one), 'created', new Map())),
    );
  }
  await markLines(tx, importId, marks);
}

/** The order, its legs (of those that had ended unpaid nothing is kept here), and what the old ledger said of them. */
function toRows({ line, id, lines, legs }: Standing): TakenRow[] {
  const ids = new Map(legs.map((leg) => [leg.oldId, leg.id]));
  return [
    { kind: DEPOSIT, oldId: line.oldId, digest: line.digest, newId: id },
    ...lines.flatMap((leg): TakenRow[] => [
      { kind: 'leg', oldId: leg.oldId, digest: leg.digest, newId: ids.get(leg.oldId) ?? null },
      ...leg.ledger.map(({ oldId, digest }): TakenRow => ({ kind: 'ledger', oldId, digest, newId: null })),
    ]),
  ];
}

async function judgeAll(tx: Tx, batch: Batch, lines: readonly OrderLine[], marks: Mark[]): Promise<Standing[]> {
  const markets = await loadMarkets(
    tx,
    lines.map((line) => line.content),
  );
  const legs = await loadLegs(
    tx,
    batch.importId,
    DEPOSIT,
    lines.map((line) => line.oldId),
  );
  const sellers = await loadSellers(
    tx,
    [...legs.values()].flat().flatMap((leg) => leg.withdrawOldId ?? []),
  );
  const doubt = (line: OrderLine, reason: string): void =>
    void marks.push({ line: line.line, outcome: 'doubtful', reason });
  const judged = lines.flatMap((line, place): Standing[] => {
    const market = markets[place];
    if (market === undefined || 'unknown' in market) {
      doubt(line, market?.unknown ?? 'has no market');
      return [];
    }
    const own = legs.get(line.oldId) ?? [];
    const verdict = judgeDeposit(
      line.content,
      market,
      // A provider's leg has no other side; one that names a seller's order by no id has none that is known.
      own.map((leg) => ({
        ...leg,
        hasOtherSide: (leg.content['withdraw_order'] ?? null) === null || leg.hasWithdraw,
      })),
      batch.rails,
    );
    if ('doubt' in verdict) {
      doubt(line, verdict.doubt.why);
      for (const leg of own) {
        const why = verdict.doubt.legs.get(leg.oldId);
        if (why !== undefined) doubt(leg, why);
      }
      return [];
    }
    const [partnerId, fiat] = [toText(line.content['partner'], 'partner'), toText(line.content['fiat'], 'fiat')];
    const byId = new Map(own.map((leg) => [leg.oldId, leg]));
    const standing = verdict.taken.legs.map((leg) => ({
      ...leg,
      id: batch.deps.makeId('leg'),
      seller: sellers.get(byId.get(leg.oldId)?.withdrawOldId ?? '') ?? null,
    }));
    const order = verdict.taken;
    return [{ line, id: batch.deps.makeId('pdo'), partnerId, fiat, market, order, lines: own, legs: standing }];
  });
  const named = await withoutTakenNames(tx, EXTERNALS, judged, marks);
  return named.filter((one) => {
    const why = objectionOfSellers(one);
    if (why !== null) doubt(one.line, why);
    else for (const { seller, amount } of one.legs) if (seller !== null) seller.named += amount;
    return why === null;
  });
}

/** What a seller's order sold before was counted when it was taken over: a leg that was not counted then is not of it. */
function objectionOfSellers({ fiat, market, legs }: Standing): string | null {
  const place = [market.groupName, market.assetId, fiat].join('\n');
  for (const { oldId, seller } of legs) {
    if (seller === null) continue;
    if (seller.market !== place) return `leg ${oldId} is of a seller in another market`;
    const sum = legs.reduce((total, leg) => (leg.seller === seller ? total + leg.amount : total), 0n);
    if (seller.named + sum > seller.before)
      return `leg ${oldId} is of a seller’s order that was taken over before, without this leg`;
  }
  return null;
}

async function storeOrders(tx: Tx, taken: readonly Standing[]): Promise<void> {
  await storeSubjects(
    tx,
    taken.map(({ id, partnerId, line }) => ({
      subjectType: DEPOSIT,
      subjectId: id,
      partnerId,
      naturalKey: importedKey(DEPOSIT, line.oldId),
    })),
  );
  await tx.query(STORE_ORDERS, [
    taken.map((one) => one.id),
    taken.map((one) => one.partnerId),
    taken.map((one) => one.market.groupName),
    taken.map((one) => one.market.assetId),
    taken.map((one) => one.fiat),
    taken.map((one) => one.order.externalId),
    taken.map((one) => one.order.userRef),
    taken.map((one) => one.order.amount),
    taken.map((one) => one.order.price),
    taken.map((one) => one.order.takesPart),
    taken.map((one) => one.market.legMin),
    taken.map((one) => one.market.feeBp),
    taken.map((one) => one.market.fiatDecimals),
    taken.map((one) => one.market.payWithinMs),
    taken.map((one) => one.order.createdAt),
    taken.map((one) => one.order.expiresAt),
    taken.map((one) => one.order.closed?.as ?? 'PENDING'),
    taken.map((one) => one.order.settled),
    // Legs are shown once an order was matched; one that goes on here is not.
    taken.map((one) => (one.order.closed === null ? null : (one.legs[0]?.createdAt ?? null))),
    taken.map((one) => one.order.closed?.at ?? null),
    taken.map((one) => one.order.closed?.reason ?? null),
  ]);
}

async function storeLegs(tx: Tx, taken: readonly Standing[]): Promise<void> {
  const legs = taken.flatMap((one) => one.legs.map((leg, index) => ({ ...leg, orderId: one.id, place: index + 1 })));
  if (legs.length === 0) return;
  await tx.query(STORE_LEGS, [
    legs.map((leg) => leg.id),
    legs.map((leg) => leg.orderId),
    legs.map((leg) => leg.place),
    legs.map((leg) => leg.kind),
    legs.map((leg) => leg.seller?.id ?? null),
    legs.map((leg) => leg.rail),
    legs.map((leg) => leg.amount),
    legs.map((leg) => leg.price),
    legs.map((leg) => leg.fiatAmount),
    legs.map((leg) => leg.createdAt),
    legs.map((leg) => leg.endedAt),
  ]);
}

function toLegs({ id, legs }: Standing): Leg[] {
  return legs.map((leg, index) => ({
    id: leg.id,
    depositOrderId: id,
    ordinal: index + 1,
    slot: index + 1,
    kind: leg.kind,
    withdrawOrderId: leg.seller?.id ?? null,
    rail: leg.rail,
    amount: leg.amount,
    price: leg.price,
    fiatAmount: leg.fiatAmount,
    state: 'SETTLED',
    createdAt: leg.createdAt,
    payBy: null,
    paidMarkedAt: null,
    disputedAt: null,
    endedAt: leg.endedAt,
    endReason: 'IMPORTED',
    fixes: 0,
  }));
}

function toView({ id, partnerId, fiat, market, order }: Standing, now: Date): DepositOrder {
  return {
    id,
    partnerId,
    groupName: market.groupName,
    assetId: market.assetId,
    assetCode: market.assetCode,
    decimals: market.decimals,
    fiat,
    fiatDecimals: market.fiatDecimals,
    externalId: order.externalId,
    userRef: order.userRef,
    amount: order.amount,
    price: order.price,
    legMin: market.legMin,
    createdAt: order.createdAt,
    expiresAt: order.expiresAt,
    closedAt: null,
    closeReason: null,
    now,
    status: 'PENDING',
    remaining: order.amount - order.settled,
    takesPart: order.takesPart,
    feeBp: BigInt(market.feeBp),
    payWithinMs: market.payWithinMs,
    claimToken: 0n,
    waitsLp: false,
    attempts: 0,
    waitReason: null,
    matchedAt: null,
  };
}
