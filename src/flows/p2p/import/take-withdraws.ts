/** Sellers' orders of one batch: judged, and what stands is written. What an open one has not sold is set aside, or it is refused. */
import { type Query, toText, toUnits, type Tx } from '../../../db/pool.ts';
import { storeSubjects } from '../../../engine/intend.ts';
import { InvariantBroken } from '../../../kernel/errors.ts';
import { lengthPrefixed, postingKey } from '../../../kernel/ids.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { accountName } from '../../../ledger/accounts.ts';
import { post } from '../../../ledger/post.ts';
import { emit } from '../../../outbox/emit.ts';
import { WITHDRAW, type WithdrawOrder } from '../order.ts';
import { withdrawEvent } from '../view.ts';
import type { Batch } from './batch.ts';
import { type ImportMarket, judgeWithdraw, type TakenWithdraw } from './judge.ts';
import { loadLegs, loadMarkets, type Mark, markLines, type OrderLine, storeTaken } from './store.ts';

interface Standing {
  readonly line: OrderLine;
  readonly id: string;
  readonly partnerId: string;
  readonly fiat: string;
  readonly market: ImportMarket;
  readonly order: TakenWithdraw;
}

const EXTERNALS = `select o.partner_id, o.external_id
from payonce.p2p_withdraw_orders o
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = o.partner_id and u.external_id = o.external_id`;

const STORE = `insert into payonce.p2p_withdraw_orders
  (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, leg_min, bank_code, account_number, holder_name, created_at, expires_at,
   status, settled, settled_before, given_back, closed_at, close_reason, imported_as)
select u.id, u.partner_id, u.group_name, u.asset_id, u.fiat, u.external_id, u.user_ref, u.amount, u.price, u.leg_min, u.bank_code, u.account_number,
       u.holder_name, u.created_at, u.expires_at, u.status, u.settled, u.settled, case when u.closed_at is null then 0 else u.amount - u.settled end,
       u.closed_at, u.close_reason, case when u.closed_at is null then 'open' else 'history' end
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::numeric[], $10::numeric[],
            $11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[], $17::numeric[], $18::timestamptz[], $19::text[])
  as u (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, leg_min, bank_code, account_number, holder_name, created_at,
        expires_at, status, settled, closed_at, close_reason)`;

export async function takeWithdraws(tx: Tx, batch: Batch, lines: readonly OrderLine[]): Promise<void> {
  const { importId, deps, isDry } = batch;
  const marks: Mark[] = [];
  const judged = await judgeAll(tx, batch, lines, marks);
  const refused = isDry ? await findShort(tx, batch, judged) : await setAside(tx, batch, judged);
  for (const one of refused)
    marks.push({
      line: one.line.line,
      outcome: 'refused',
      // Without what is available: that changes from run to run, and whoever is refused is the same.
      reason: `${formatUnits(toSetAside(one), one.market.decimals)} must be set aside, and partner ${one.partnerId} has less available`,
    });
  const taken = judged.filter((one) => !refused.has(one));
  for (const one of taken) marks.push({ line: one.line.line, outcome: 'imported', reason: null });
  if (!isDry && taken.length > 0) {
    await storeOrders(tx, taken);
    await storeTaken(
      tx,
      importId,
      taken.map(({ line, id }) => ({ kind: WITHDRAW, oldId: line.oldId, digest: line.digest, newId: id })),
    );
    await emit(
      tx,
      deps.makeId,
      taken.filter((one) => one.order.closed === null).map((one) => withdrawEvent(toView(one, batch.now), 'created')),
    );
  }
  await markLines(tx, importId, marks);
}

async function judgeAll(tx: Tx, batch: Batch, lines: readonly OrderLine[], marks: Mark[]): Promise<Standing[]> {
  const markets = await loadMarkets(
    tx,
    lines.map((line) => line.content),
  );
  const legs = await loadLegs(
    tx,
    batch.importId,
    WITHDRAW,
    lines.map((line) => line.oldId),
  );
  const standing: Standing[] = [];
  lines.forEach((line, place) => {
    const market = markets[place];
    if (market === undefined || 'unknown' in market)
      return void marks.push({ line: line.line, outcome: 'doubtful', reason: market?.unknown ?? 'has no market' });
    const own = legs.get(line.oldId) ?? [];
    const verdict = judgeWithdraw(
      line.content,
      market,
      own.map((leg) => ({ ...leg, hasOtherSide: leg.hasDeposit })),
      batch.rails,
    );
    if ('doubt' in verdict) {
      marks.push({ line: line.line, outcome: 'doubtful', reason: verdict.doubt.why });
      for (const leg of own) {
        const why = verdict.doubt.legs.get(leg.oldId);
        if (why !== undefined) marks.push({ line: leg.line, outcome: 'doubtful', reason: why });
      }
      return;
    }
    const [partnerId, fiat] = [toText(line.content['partner'], 'partner'), toText(line.content['fiat'], 'fiat')];
    standing.push({ line, id: batch.deps.makeId('pwo'), partnerId, fiat, market, order: verdict.taken });
  });
  return withoutTakenNames(tx, EXTERNALS, standing, marks);
}

/** A partner's own name of an order is one order's: of two, none is guessed to be the right one. */
export async function withoutTakenNames<
  One extends {
    readonly line: OrderLine;
    readonly partnerId: string;
    readonly order: { readonly externalId: string | null };
  },
>(query: Query, sql: string, standing: readonly One[], marks: Mark[]): Promise<One[]> {
  const named = standing.filter((one) => one.order.externalId !== null);
  if (named.length === 0) return [...standing];
  const { rows } = await query.query(sql, [
    named.map((one) => one.partnerId),
    named.map((one) => one.order.externalId),
  ]);
  const taken = new Set(rows.map((row) => `${String(row['partner_id'])}\n${String(row['external_id'])}`));
  return standing.filter((one) => {
    const name = `${one.partnerId}\n${one.order.externalId ?? ''}`;
    if (one.order.externalId === null || !taken.has(name)) {
      if (one.order.externalId !== null) taken.add(name);
      return true;
    }
    marks.push({
      line: one.line.line,
      outcome: 'doubtful',
      reason: `another order of partner ${one.partnerId} has the external_id ${one.order.externalId}`,
    });
    return false;
  });
}

function toSetAside({ order }: Standing): bigint {
  return order.closed === null ? order.amount - order.settled : 0n;
}

const AVAILABLE = `select a.code, a.asset_id, a.balance - a.held as available
from payonce.accounts a
join unnest($1::text[], $2::text[]) as u (code, asset_id) on u.code = a.code and u.asset_id = a.asset_id`;

async function loadAvailable(query: Query, orders: readonly Standing[]): Promise<Map<string, bigint>> {
  const { rows } = await query.query(AVAILABLE, [
    orders.map((one) => `partner:${one.partnerId}`),
    orders.map((one) => one.market.assetId),
  ]);
  return new Map(
    rows.map((row) => [`${String(row['code'])}\n${String(row['asset_id'])}`, toUnits(row['available'], 'available')]),
  );
}

const accountOf = (one: Standing): string => `partner:${one.partnerId}\n${one.market.assetId}`;

/** Of a dry run: what would be short if the orders before were taken. */
async function findShort(tx: Tx, batch: Batch, orders: readonly Standing[]): Promise<ReadonlySet<Standing>> {
  const open = orders.filter((one) => one.order.closed === null);
  const available = await loadAvailable(tx, open);
  const short = new Set<Standing>();
  for (const one of open) {
    const free = (available.get(accountOf(one)) ?? 0n) - (batch.dryNeeds.get(accountOf(one)) ?? 0n);
    if (free < toSetAside(one)) short.add(one);
    else batch.dryNeeds.set(accountOf(one), (batch.dryNeeds.get(accountOf(one)) ?? 0n) + toSetAside(one));
  }
  return short;
}

/** Answers who is short. */
async function setAside(tx: Tx, { deps }: Batch, orders: readonly Standing[]): Promise<ReadonlySet<Standing>> {
  const open = orders.filter((one) => one.order.closed === null);
  const ids = await deps.chart.ids(
    tx,
    open.flatMap(({ partnerId, market }) => [
      accountName.partner(partnerId, market.assetId),
      accountName.setAside(partnerId, market.assetId),
    ]),
  );
  const verdicts = await post(
    tx,
    open.map((one, index) => {
      const [partner, aside] = [ids[index * 2], ids[index * 2 + 1]];
      if (partner === undefined || aside === undefined) throw new InvariantBroken('an account is missing');
      return {
        kind: 'post',
        key: postingKey.p2pSell(one.id),
        reference: one.id,
        entries: [
          { accountId: partner, amount: -toSetAside(one) },
          { accountId: aside, amount: toSetAside(one) },
        ],
      } as const;
    }),
  );
  return new Set(open.filter((_, index) => verdicts[index]?.verdict === 'insufficient'));
}

/** An order of the old system is one subject here, whatever the partner names its own. */
export function importedKey(kind: string, oldId: string): string {
  return lengthPrefixed(['MIGRATED', kind, oldId]);
}

async function storeOrders(tx: Tx, taken: readonly Standing[]): Promise<void> {
  await storeSubjects(
    tx,
    taken.map(({ id, partnerId, line }) => ({
      subjectType: WITHDRAW,
      subjectId: id,
      partnerId,
      naturalKey: importedKey(WITHDRAW, line.oldId),
    })),
  );
  await tx.query(STORE, [
    taken.map((one) => one.id),
    taken.map((one) => one.partnerId),
    taken.map((one) => one.market.groupName),
    taken.map((one) => one.market.assetId),
    taken.map((one) => one.fiat),
    taken.map((one) => one.order.externalId),
    taken.map((one) => one.order.userRef),
    taken.map((one) => one.order.amount),
    taken.map((one) => one.order.price),
    taken.map((one) => one.market.legMin),
    taken.map((one) => one.order.bankCode),
    taken.map((one) => one.order.accountNumber),
    taken.map((one) => one.order.holderName),
    taken.map((one) => one.order.createdAt),
    taken.map((one) => one.order.expiresAt),
    taken.map((one) => one.order.closed?.as ?? 'OPEN'),
    taken.map((one) => one.order.settled),
    taken.map((one) => one.order.closed?.at ?? null),
    taken.map((one) => one.order.closed?.reason ?? null),
  ]);
}

function toView({ id, partnerId, fiat, market, order }: Standing, now: Date): WithdrawOrder {
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
    status: 'OPEN',
    reserved: 0n,
    settled: order.settled,
    givenBack: 0n,
    backs: 0,
    closingAs: null,
    bankCode: order.bankCode,
    accountNumber: order.accountNumber,
    holderName: order.holderName,
  };
}
