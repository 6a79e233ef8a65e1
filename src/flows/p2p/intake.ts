/**
 * Taking orders in (M1): a buyer's order is written and answered, nothing else; a seller's sets its amount aside in the same
 * transaction, or is refused for want of funds. Keys, repetitions and stored refusals are the engine's (`engine/intake.ts`).
 */
import type { Query, Tx } from '../../db/pool.ts';
import { toText, toUnits } from '../../db/pool.ts';
import { type CreateDeps, type CreateOutcome, lockOrders, replay, takeInRounds } from '../../engine/intake.ts';
import { loadAvailable, storeKeys } from '../../engine/intake-store.ts';
import { storeSubjects } from '../../engine/intend.ts';
import { type ErrorCode, type ErrorFacts, InvariantBroken, type Problem, toProblem } from '../../kernel/errors.ts';
import { naturalKey, postingKey } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { accountName } from '../../ledger/accounts.ts';
import { post } from '../../ledger/post.ts';
import { emit } from '../../outbox/emit.ts';
import { DEPOSIT, type DepositOrder, WITHDRAW, type WithdrawOrder } from './order.ts';
import { loadTraded, toldMarkets } from './traded.ts';
import { depositEvent, withdrawEvent } from './view.ts';

interface NewOrder {
  readonly partnerId: string;
  readonly idempotencyKey: string;
  readonly fingerprint: string;
  readonly externalId: string | null;
  readonly assetId: string;
  readonly fiat: string;
  /** The partner's own name of its user: no user is matched with itself. */
  readonly userRef: string;
  /** Units. */
  readonly amount: bigint;
  /** 10^-12 fiat per whole unit: a buyer's at most, a seller's at least. */
  readonly price: bigint;
  /** How long it may be matched; `null`: as the market has it. Never longer than that. */
  readonly forMs: number | null;
}

export interface DepositOrderRequest extends NewOrder {
  readonly takesPart: boolean;
}

export interface WithdrawOrderRequest extends NewOrder {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
}

interface Market {
  readonly groupName: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly fiatDecimals: number;
  readonly min: bigint;
  readonly max: bigint;
  readonly legMin: bigint;
  readonly feeBp: number;
  readonly payWithinMs: bigint;
  readonly forMs: bigint;
  readonly now: Date;
}

interface Draft<One extends NewOrder> {
  readonly place: number;
  readonly order: One;
  readonly market: Market;
  readonly id: string;
  readonly expiresAt: Date;
}

interface Side<One extends NewOrder> {
  readonly operation: string;
  readonly subjectType: string;
  readonly idPrefix: 'pdo' | 'pwo';
  readonly externals: string;
  /** Places in `drafts` that cannot be had for want of funds. */
  fund(tx: Tx, deps: CreateDeps, drafts: readonly Draft<One>[]): Promise<ReadonlySet<Draft<One>>>;
  store(tx: Tx, drafts: readonly Draft<One>[]): Promise<void>;
  tell(draft: Draft<One>): ReturnType<typeof withdrawEvent>;
}

/** Durable on return for every request; answers in order. */
export function createDepositOrders(
  deps: CreateDeps,
  requests: readonly DepositOrderRequest[],
): Promise<CreateOutcome[]> {
  return create(deps, BUYERS, requests);
}
/** The same; what is sold is set aside. */
export function createWithdrawOrders(
  deps: CreateDeps,
  requests: readonly WithdrawOrderRequest[],
): Promise<CreateOutcome[]> {
  return create(deps, SELLERS, requests);
}

function create<One extends NewOrder>(
  deps: CreateDeps,
  side: Side<One>,
  requests: readonly One[],
): Promise<CreateOutcome[]> {
  return takeInRounds(deps.pool, side, requests, (tx, round) => takeIn(tx, deps, side, round));
}

// Whoever leaves the group waits for these orders, and then finds them.
const MARKETS = `select u.partner_id, u.asset_id, u.fiat, m.group_name, a.code, a.decimals, m.fiat_decimals, m.order_min, m.order_max, m.leg_min,
       m.fee_bp, m.pay_within_ms, m.order_for_ms, payonce.now() as now
from unnest($1::text[], $2::text[], $3::text[]) as u (partner_id, asset_id, fiat)
join payonce.p2p_members e on e.partner_id = u.partner_id
join payonce.p2p_markets m on m.group_name = e.group_name and m.asset_id = u.asset_id and m.fiat = u.fiat and m.stopped_at is null
join payonce.assets a on a.id = u.asset_id
for key share of e`;

const marketKey = (one: Pick<NewOrder, 'partnerId' | 'assetId' | 'fiat'>): string =>
  `${one.partnerId}\n${one.assetId}\n${one.fiat}`;

async function loadMarkets(query: Query, orders: readonly NewOrder[]): Promise<Map<string, Market>> {
  const wanted = [...new Map(orders.map((one) => [marketKey(one), one])).values()];
  const { rows } = await query.query(MARKETS, [
    wanted.map((one) => one.partnerId),
    wanted.map((one) => one.assetId),
    wanted.map((one) => one.fiat),
  ]);
  return new Map(
    rows.map((row) => [
      marketKey({
        partnerId: toText(row['partner_id'], 'partner_id'),
        assetId: toText(row['asset_id'], 'asset_id'),
        fiat: toText(row['fiat'], 'fiat'),
      }),
      {
        groupName: toText(row['group_name'], 'group_name'),
        assetCode: toText(row['code'], 'code'),
        decimals: row['decimals'] as number,
        fiatDecimals: row['fiat_decimals'] as number,
        min: toUnits(row['order_min'], 'order_min'),
        max: toUnits(row['order_max'], 'order_max'),
        legMin: toUnits(row['leg_min'], 'leg_min'),
        feeBp: row['fee_bp'] as number,
        payWithinMs: toUnits(row['pay_within_ms'], 'pay_within_ms'),
        forMs: toUnits(row['order_for_ms'], 'order_for_ms'),
        now: row['now'] as Date,
      },
    ]),
  );
}

async function takeIn<One extends NewOrder>(
  tx: Tx,
  deps: CreateDeps,
  side: Side<One>,
  requests: readonly One[],
): Promise<CreateOutcome[]> {
  const answers: (CreateOutcome | undefined)[] = requests.map(() => undefined);
  const refusals: { request: One; problem: Problem }[] = [];
  const known = await lockOrders(tx, requests);
  const taken = await loadExternals(tx, side.externals, requests);
  const markets = await loadMarkets(tx, requests);
  const traded = await loadTraded(
    tx,
    requests.filter((one) => !markets.has(marketKey(one))),
  );
  const drafts: Draft<One>[] = [];
  const refuse = (place: number, request: One, code: ErrorCode, facts: ErrorFacts): void => {
    const problem = toProblem(code, facts);
    answers[place] = { outcome: 'refused', problem, replayed: false };
    refusals.push({ request, problem });
  };
  requests.forEach((request, place) => {
    const before = known.get(naturalKey(request.partnerId, request.idempotencyKey));
    if (before !== undefined) {
      answers[place] = replay(side.operation, before, request);
      return;
    }
    const holder = taken.get(`${request.partnerId}\n${request.externalId ?? ''}`);
    if (request.externalId !== null && holder !== undefined)
      return refuse(place, request, 'PO_EXTERNAL_ID_TAKEN', {
        pointer: '/external_id',
        got: request.externalId,
        resource: { type: side.subjectType, id: holder },
      });
    const market = markets.get(marketKey(request));
    if (market === undefined)
      return refuse(place, request, 'PO_MARKET_UNKNOWN', {
        pointer: '/fiat',
        got: `${request.assetId} for ${request.fiat}`,
        ...toldMarkets(traded.get(request.partnerId)),
      });
    if (request.amount < market.min || request.amount > market.max)
      return refuse(place, request, 'PO_AMOUNT_OUT_OF_LIMITS', {
        pointer: '/amount',
        got: formatUnits(request.amount, market.decimals),
        expected: `from ${formatUnits(market.min, market.decimals)} to ${formatUnits(market.max, market.decimals)}`,
      });
    const forMs = request.forMs === null ? Number(market.forMs) : Math.min(request.forMs, Number(market.forMs));
    const expiresAt = new Date(market.now.getTime() + forMs);
    drafts.push({ place, order: request, market, id: deps.makeId(side.idPrefix), expiresAt });
  });
  const short = await side.fund(tx, deps, drafts);
  for (const draft of short) {
    const { place, order, market } = draft;
    const [account] = await deps.chart.ids(tx, [accountName.partner(order.partnerId, order.assetId)]);
    const available = account === undefined ? 0n : ((await loadAvailable(tx, [account])).get(account) ?? 0n);
    refuse(place, order, 'PO_INSUFFICIENT_FUNDS', {
      pointer: '/amount',
      got: formatUnits(order.amount, market.decimals),
      expected: `at most the available balance (${formatUnits(available, market.decimals)})`,
    });
  }
  const made = drafts.filter((draft) => !short.has(draft));
  await side.store(tx, made);
  await storeKeys(tx, [
    ...made.map(({ order, id }) => toKey(side, order, id, null)),
    ...refusals.map(({ request, problem }) => toKey(side, request, null, problem)),
  ]);
  await emit(
    tx,
    deps.makeId,
    made.map((draft) => side.tell(draft)),
  );
  for (const draft of made) answers[draft.place] = { outcome: 'created', id: draft.id };
  return answers.map((answer) => {
    if (answer === undefined) throw new InvariantBroken('an order was not answered');
    return answer;
  });
}

function toKey<One extends NewOrder>(
  { operation, subjectType }: Side<One>,
  { partnerId, idempotencyKey, fingerprint }: One,
  resourceId: string | null,
  refusal: Problem | null,
): Parameters<typeof storeKeys>[1][number] {
  return { partnerId, key: idempotencyKey, operation, fingerprint, resourceType: subjectType, resourceId, refusal };
}

async function loadExternals(tx: Tx, sql: string, orders: readonly NewOrder[]): Promise<Map<string, string>> {
  const named = orders.filter((one) => one.externalId !== null);
  if (named.length === 0) return new Map();
  const { rows } = await tx.query(sql, [named.map((one) => one.partnerId), named.map((one) => one.externalId)]);
  return new Map(
    rows.map((row) => [
      `${toText(row['partner_id'], 'partner_id')}\n${toText(row['external_id'], 'external_id')}`,
      toText(row['id'], 'id'),
    ]),
  );
}

async function storeOrderSubjects<One extends NewOrder>(
  tx: Tx,
  type: string,
  drafts: readonly Draft<One>[],
): Promise<void> {
  await storeSubjects(
    tx,
    drafts.map(({ order, id }) => ({
      subjectType: type,
      subjectId: id,
      partnerId: order.partnerId,
      naturalKey: naturalKey(order.partnerId, order.idempotencyKey),
    })),
  );
}

const STORE_BUYERS = `insert into payonce.p2p_deposit_orders
  (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals, pay_within_ms,
   expires_at, remaining_amount)
select u.id, u.partner_id, u.group_name, u.asset_id, u.fiat, u.external_id, u.user_ref, u.amount, u.price, u.takes_part, u.leg_min, u.fee_bp,
       u.fiat_decimals, u.pay_within_ms, u.expires_at, u.amount
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::numeric[], $10::bool[],
            $11::numeric[], $12::int[], $13::int[], $14::bigint[], $15::timestamptz[])
  as u (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals, pay_within_ms, expires_at)`;

const EXTERNAL_BUYERS = `select o.partner_id, o.external_id, o.id
from payonce.p2p_deposit_orders o
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = o.partner_id and u.external_id = o.external_id`;

const BUYERS: Side<DepositOrderRequest> = {
  operation: 'deposit_order.create',
  subjectType: DEPOSIT,
  idPrefix: 'pdo',
  externals: EXTERNAL_BUYERS,
  fund: () => Promise.resolve(new Set()),
  async store(tx, drafts) {
    if (drafts.length === 0) return;
    await storeOrderSubjects(tx, DEPOSIT, drafts);
    await tx.query(STORE_BUYERS, [
      ...commonValues(drafts),
      drafts.map(({ order }) => order.takesPart),
      drafts.map(({ market }) => market.legMin),
      drafts.map(({ market }) => market.feeBp),
      drafts.map(({ market }) => market.fiatDecimals),
      drafts.map(({ market }) => market.payWithinMs),
      drafts.map(({ expiresAt }) => expiresAt),
    ]);
  },
  tell: ({ order, market, id, expiresAt }) =>
    depositEvent(
      {
        ...shared(order, market, id, expiresAt),
        status: 'PENDING',
        remaining: order.amount,
        takesPart: order.takesPart,
        feeBp: BigInt(market.feeBp),
        payWithinMs: market.payWithinMs,
        claimToken: 0n,
        waitsLp: false,
        attempts: 0,
        waitReason: null,
        matchedAt: null,
      },
      [],
      'created',
      new Map(),
    ),
};

const STORE_SELLERS = `insert into payonce.p2p_withdraw_orders
  (id, partner_id, group_name, asset_id, fiat, external_id, user_ref, amount, price, leg_min, bank_code, account_number, holder_name, expires_at)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::numeric[],
                     $10::numeric[], $11::text[], $12::text[], $13::text[], $14::timestamptz[])`;

const EXTERNAL_SELLERS = `select o.partner_id, o.external_id, o.id
from payonce.p2p_withdraw_orders o
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = o.partner_id and u.external_id = o.external_id`;

const SELLERS: Side<WithdrawOrderRequest> = {
  operation: 'withdraw_order.create',
  subjectType: WITHDRAW,
  idPrefix: 'pwo',
  externals: EXTERNAL_SELLERS,
  async fund(tx, deps, drafts) {
    const ids = await deps.chart.ids(
      tx,
      drafts.flatMap(({ order }) => [
        accountName.partner(order.partnerId, order.assetId),
        accountName.setAside(order.partnerId, order.assetId),
      ]),
    );
    const verdicts = await post(
      tx,
      drafts.map(({ order, id }, index) => {
        const [partner, aside] = [ids[index * 2], ids[index * 2 + 1]];
        if (partner === undefined || aside === undefined) throw new InvariantBroken('an account is missing');
        return {
          kind: 'post',
          key: postingKey.p2pSell(id),
          reference: id,
          entries: [
            { accountId: partner, amount: -order.amount },
            { accountId: aside, amount: order.amount },
          ],
        } as const;
      }),
    );
    return new Set(drafts.filter((_, index) => verdicts[index]?.verdict === 'insufficient'));
  },
  async store(tx, drafts) {
    if (drafts.length === 0) return;
    await storeOrderSubjects(tx, WITHDRAW, drafts);
    await tx.query(STORE_SELLERS, [
      ...commonValues(drafts),
      drafts.map(({ market }) => market.legMin),
      drafts.map(({ order }) => order.bankCode),
      drafts.map(({ order }) => order.accountNumber),
      drafts.map(({ order }) => order.holderName),
      drafts.map(({ expiresAt }) => expiresAt),
    ]);
  },
  tell: ({ order, market, id, expiresAt }) =>
    withdrawEvent(
      {
        ...shared(order, market, id, expiresAt),
        status: 'OPEN',
        reserved: 0n,
        settled: 0n,
        givenBack: 0n,
        backs: 0,
        closingAs: null,
        bankCode: order.bankCode,
        accountNumber: order.accountNumber,
        holderName: order.holderName,
      },
      'created',
    ),
};

function commonValues<One extends NewOrder>(drafts: readonly Draft<One>[]): unknown[] {
  return [
    drafts.map(({ id }) => id),
    drafts.map(({ order }) => order.partnerId),
    drafts.map(({ market }) => market.groupName),
    drafts.map(({ order }) => order.assetId),
    drafts.map(({ order }) => order.fiat),
    drafts.map(({ order }) => order.externalId),
    drafts.map(({ order }) => order.userRef),
    drafts.map(({ order }) => order.amount),
    drafts.map(({ order }) => order.price),
  ];
}

type Shared = Omit<
  DepositOrder & WithdrawOrder,
  'status' | Exclude<keyof DepositOrder, keyof WithdrawOrder> | Exclude<keyof WithdrawOrder, keyof DepositOrder>
>;

function shared(order: NewOrder, market: Market, id: string, expiresAt: Date): Shared {
  return {
    id,
    partnerId: order.partnerId,
    groupName: market.groupName,
    assetId: order.assetId,
    assetCode: market.assetCode,
    decimals: market.decimals,
    fiat: order.fiat,
    fiatDecimals: market.fiatDecimals,
    externalId: order.externalId,
    userRef: order.userRef,
    amount: order.amount,
    price: order.price,
    legMin: market.legMin,
    createdAt: market.now,
    expiresAt,
    closedAt: null,
    closeReason: null,
    now: market.now,
  };
}
