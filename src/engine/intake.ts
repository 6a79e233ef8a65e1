/**
 * Intake: a partner's orders to pay out become subjects, holds, effects and events, a batch in one transaction (C6: none or
 * all). Keys, limits, day totals, funds and refusals are the same for every flow; what a flow adds is its rows, its view
 * and what it thinks of a destination.
 *
 * The same partner, key and body meet the same resource or the same refusal for ever (inv E15); another body under a key
 * is refused and names what holds it. Business refusals are stored under the key; authentication, validation and rate
 * refusals never come this far. Two orders with the same key in one batch: the second is judged after the first.
 *
 * Lock order: keys (advisory), day totals, accounts by id, then inserts.
 */
import type { Pool, Query, Tx } from '../db/pool.ts';
import { type ErrorCode, type ErrorFacts, type Problem, toProblem } from '../kernel/errors.ts';
import { type IdPrefix, type MakeId, naturalKey } from '../kernel/ids.ts';
import { feeOf, formatUnits } from '../kernel/money.ts';
import { accountName, type Chart } from '../ledger/accounts.ts';
import { emit } from '../outbox/emit.ts';
import {
  addToDays,
  type Day,
  type KnownKey,
  loadAvailable,
  loadKnownKeys,
  loadOwnAddresses,
  loadPolicies,
  lockDays,
  lockKeys,
  type Policy,
  storeKeys,
} from './intake-store.ts';
import { intend } from './intend.ts';
import type { BankPayee, BatchLine } from './rail.ts';
import { chooseSigners } from './relayers.ts';

/** An order that passed the edge: amount in units, destination in the rail's canonical spelling. */
export interface Order {
  readonly partnerId: string;
  readonly idempotencyKey: string;
  readonly fingerprint: string;
  readonly externalId: string | null;
  readonly assetId: string;
  readonly amount: bigint;
  readonly destination: string;
}

export type CreateOutcome =
  | { readonly outcome: 'created' | 'replayed'; readonly id: string }
  | { readonly outcome: 'refused'; readonly problem: Problem; readonly replayed: boolean }
  /** Another body, or another operation, under this key. */
  | { readonly outcome: 'key_reused'; readonly resource: { readonly type: string; readonly id: string } | null };

export interface CreateDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chart: Chart;
}

export interface Draft<One extends Order> {
  readonly place: number;
  readonly order: One;
  readonly policy: Policy;
  readonly id: string;
  readonly fee: bigint;
}

export interface Objection {
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;
}

/** What a flow brings. */
export interface OrderKind<One extends Order> {
  readonly operation: string;
  readonly subjectType: string;
  readonly idPrefix: IdPrefix;
  /** Whether the partner's account is debited (and so held, charged and counted towards the day). */
  debits(order: One): boolean;
  /** What stands against the destination, in words, or `null`. */
  refuses(order: One, policy: Policy, own: { kind: string; partnerId: string | null } | undefined): string | null;
  payee?(order: One): BankPayee;
  /** A batch: its lines. Limits and fees are each line's; hold and day's total are the sum's. */
  lines?(order: One): readonly BatchLine[];
  /** Names what only one order at a time is judged on; a second one of the same batch is judged after the first ended. */
  judgedAlone?(order: One): readonly string[];
  /** What the flow's own rows have against an order, or `null`; one per order, in order, read under their locks. */
  objections?(tx: Tx, orders: readonly One[]): Promise<readonly (Objection | null)[]>;
  loadExternalIds(
    query: Query,
    list: readonly { partnerId: string; externalId: string }[],
  ): Promise<Map<string, string>>;
  store(tx: Tx, drafts: readonly Draft<One>[]): Promise<void>;
  /** The data of the `created` event. */
  view(draft: Draft<One>): { readonly [key: string]: unknown };
}

/** Durable on return for every order in the batch; answers in order. */
export function takeOrders<One extends Order>(
  deps: CreateDeps,
  kind: OrderKind<One>,
  requests: readonly One[],
): Promise<CreateOutcome[]> {
  return takeInRounds(deps.pool, kind, requests, (tx, round) => takeIn(tx, deps, kind, round));
}

/**
 * Takes a batch in transactions of its own, so that no two requests of one are judged at once which must be judged after each
 * other: a request may have to wait for its twin, or for the day's total after a neighbour was refused (`null` from `take`).
 */
export async function takeInRounds<One extends Pick<Order, 'partnerId' | 'idempotencyKey' | 'externalId'>>(
  pool: Pool,
  kind: { readonly operation: string; judgedAlone?(order: One): readonly string[] },
  requests: readonly One[],
  take: (tx: Tx, round: readonly One[]) => Promise<(CreateOutcome | null)[]>,
): Promise<CreateOutcome[]> {
  const outcomes: (CreateOutcome | null)[] = requests.map(() => null);
  for (
    let open = requests.map((_, index) => index);
    open.length > 0;
    open = open.filter((index) => outcomes[index] === null)
  ) {
    const round = firstOfEachKey(requests, open, kind);
    const answers = await pool.tx(kind.operation, (tx) =>
      take(
        tx,
        round.map((index) => requestAt(requests, index)),
      ),
    );
    round.forEach((index, place) => {
      outcomes[index] = answers[place] ?? null;
    });
  }
  return outcomes.map((outcome) => {
    if (outcome === null) throw new Error('a request was not answered');
    return outcome;
  });
}

function requestAt<One>(requests: readonly One[], index: number): One {
  const request = requests[index];
  if (request === undefined) throw new Error(`no request ${index}`);
  return request;
}

function firstOfEachKey<One extends Pick<Order, 'partnerId' | 'idempotencyKey' | 'externalId'>>(
  requests: readonly One[],
  open: readonly number[],
  kind: { judgedAlone?(order: One): readonly string[] },
): number[] {
  const seen = new Set<string>();
  return open.filter((index) => {
    const request = requestAt(requests, index);
    const keys = [...namesOf(request), ...(kind.judgedAlone?.(request) ?? [])];
    if (keys.some((key) => seen.has(key))) return false;
    for (const key of keys) seen.add(key);
    return true;
  });
}

/** What an order is recognised by: its key, and its caller's own id. */
function namesOf({
  partnerId,
  idempotencyKey,
  externalId,
}: Pick<Order, 'partnerId' | 'idempotencyKey' | 'externalId'>): string[] {
  return [
    naturalKey(partnerId, idempotencyKey),
    ...(externalId === null ? [] : [`external\n${partnerId}\n${externalId}`]),
  ];
}

/** Locks what names these orders, and reads what is known under their keys; by natural key. */
export async function lockOrders(
  tx: Tx,
  orders: readonly Pick<Order, 'partnerId' | 'idempotencyKey' | 'externalId'>[],
): Promise<Map<string, KnownKey>> {
  await lockKeys(tx, orders.flatMap(namesOf));
  const keys = orders.map((order) => ({ partnerId: order.partnerId, key: order.idempotencyKey }));
  return new Map((await loadKnownKeys(tx, keys)).map((one) => [naturalKey(one.partnerId, one.key), one]));
}

/** `null` in the answer: to be run again in a round of its own. */
async function takeIn<One extends Order>(
  tx: Tx,
  deps: CreateDeps,
  kind: OrderKind<One>,
  requests: readonly One[],
): Promise<(CreateOutcome | null)[]> {
  const answers: (CreateOutcome | null)[] = requests.map(() => null);
  const refusals: { request: One; problem: Problem }[] = [];
  const refuse = (place: number, code: ErrorCode, facts: ErrorFacts): void => {
    const problem = toProblem(code, facts);
    answers[place] = { outcome: 'refused', problem, replayed: false };
    refusals.push({ request: requestAt(requests, place), problem });
  };

  const externals = requests.flatMap((request) =>
    request.externalId === null ? [] : [{ partnerId: request.partnerId, externalId: request.externalId }],
  );
  const known = await lockOrders(tx, requests);
  const taken = await kind.loadExternalIds(tx, externals);
  const objections = (await kind.objections?.(tx, requests)) ?? [];
  const policies = new Map(
    (await loadPolicies(tx, uniquePairs(requests))).map((one) => [`${one.partnerId}\n${one.assetId}`, one]),
  );
  const own = await loadOwnAddresses(
    tx,
    requests.flatMap((request) => {
      const policy = policies.get(`${request.partnerId}\n${request.assetId}`);
      return policy === undefined ? [] : [{ chain: policy.chain, address: request.destination }];
    }),
  );

  const drafts: Draft<One>[] = [];
  requests.forEach((request, place) => {
    const before = known.get(naturalKey(request.partnerId, request.idempotencyKey));
    if (before !== undefined) {
      answers[place] = replay(kind.operation, before, request);
      return;
    }
    const holder = request.externalId === null ? undefined : taken.get(`${request.partnerId}\n${request.externalId}`);
    if (holder !== undefined)
      return refuse(place, 'PO_EXTERNAL_ID_TAKEN', {
        pointer: '/external_id',
        got: request.externalId ?? '',
        resource: { type: kind.subjectType, id: holder },
      });
    const objection = objections[place] ?? null;
    if (objection !== null) return refuse(place, objection.code, objection.facts);
    const policy = policies.get(`${request.partnerId}\n${request.assetId}`);
    if (policy === undefined)
      return refuse(place, 'PO_ASSET_UNKNOWN', {
        pointer: '/asset',
        detail: 'This asset cannot be paid out',
        got: request.assetId,
      });
    const parts = kind.lines?.(request).map((line) => line.amount) ?? [request.amount];
    const limit = parts.map((amount) => outsideLimits(amount, policy)).find((one) => one !== null);
    if (limit !== undefined) return refuse(place, 'PO_AMOUNT_OUT_OF_LIMITS', limit);
    const destination = kind.refuses(request, policy, own.get(`${policy.chain}:${request.destination}`));
    if (destination !== null)
      return refuse(place, 'PO_DESTINATION_REFUSED', {
        pointer: kind.payee === undefined ? '/destination' : '/account_number',
        got: request.destination,
        detail: destination,
      });
    const fee = kind.debits(request) ? parts.reduce((sum, amount) => sum + feeBy(policy, amount), 0n) : 0n;
    drafts.push({ place, order: request, policy, id: deps.makeId(kind.idPrefix), fee });
  });

  const { fitting, over } = await fitDays(tx, kind, drafts);
  const created = await intendDrafts(tx, deps, kind, fitting);
  const short = fitting.filter((draft) => !created.has(draft));
  const accounts = await accountsOf(tx, deps, short);
  const available = await loadAvailable(tx, accounts);
  short.forEach((draft, index) => {
    const inWords = (units: bigint): string => formatUnits(units, draft.policy.decimals);
    const left = inWords(available.get(accounts[index] ?? -1n) ?? 0n);
    refuse(draft.place, 'PO_INSUFFICIENT_FUNDS', {
      detail: `The available balance is ${left} ${draft.policy.assetCode}; ${inWords(draft.order.amount)} and the fee of ${inWords(draft.fee)} need ${inWords(draft.order.amount + draft.fee)}`,
      pointer: '/amount',
      got: inWords(draft.order.amount),
      expected: `amount and fee (${inWords(draft.fee)}) within the available balance (${left})`,
    });
  });
  for (const draft of over) {
    // A neighbour that was refused may have left room in the day: judge again, after it.
    if (short.some((one) => sameDay(one, draft))) continue;
    refuse(draft.place, 'PO_DAY_LIMIT', {
      pointer: '/amount',
      got: formatUnits(draft.order.amount, draft.policy.decimals),
      expected: `at most ${formatUnits(draft.policy.dayMax, draft.policy.decimals)} per day in all`,
    });
  }
  await addToDays(tx, sumDays(fitting.filter((draft) => created.has(draft) && kind.debits(draft.order))));
  await storeKeys(tx, [
    ...[...created].map((draft) => ({
      partnerId: draft.order.partnerId,
      key: draft.order.idempotencyKey,
      operation: kind.operation,
      fingerprint: draft.order.fingerprint,
      resourceType: kind.subjectType,
      resourceId: draft.id,
      refusal: null,
    })),
    ...refusals.map(({ request, problem }) => ({
      partnerId: request.partnerId,
      key: request.idempotencyKey,
      operation: kind.operation,
      fingerprint: request.fingerprint,
      resourceType: kind.subjectType,
      resourceId: null,
      refusal: problem,
    })),
  ]);
  for (const draft of created) answers[draft.place] = { outcome: 'created', id: draft.id };
  return answers;
}

export function replay(operation: string, before: KnownKey, request: Pick<Order, 'fingerprint'>): CreateOutcome {
  if (before.operation !== operation || before.fingerprint !== request.fingerprint) {
    return {
      outcome: 'key_reused',
      resource:
        before.resourceType === null || before.resourceId === null
          ? null
          : { type: before.resourceType, id: before.resourceId },
    };
  }
  if (before.resourceId !== null) return { outcome: 'replayed', id: before.resourceId };
  return { outcome: 'refused', problem: before.refusal as unknown as Problem, replayed: true };
}

export function feeBy(policy: Policy, amount: bigint): bigint {
  return feeOf(amount, policy.feeFlat, policy.feeBasisPoints);
}

export function outsideLimits(amount: bigint, policy: Policy): ErrorFacts | null {
  if (amount >= policy.min && amount <= policy.max) return null;
  return {
    pointer: '/amount',
    got: formatUnits(amount, policy.decimals),
    expected: `from ${formatUnits(policy.min, policy.decimals)} to ${formatUnits(policy.max, policy.decimals)}`,
  };
}

function uniquePairs(requests: readonly Order[]): { partnerId: string; assetId: string }[] {
  return [
    ...new Map(
      requests.map((one) => [`${one.partnerId}\n${one.assetId}`, { partnerId: one.partnerId, assetId: one.assetId }]),
    ).values(),
  ];
}

function dayOf(draft: Draft<Order>): Day {
  return { partnerId: draft.order.partnerId, assetId: draft.order.assetId, day: draft.policy.day };
}
function dayKey(day: Day): string {
  return `${day.partnerId}\n${day.assetId}\n${day.day}`;
}
function sameDay(left: Draft<Order>, right: Draft<Order>): boolean {
  return dayKey(dayOf(left)) === dayKey(dayOf(right));
}

async function fitDays<One extends Order>(
  tx: Tx,
  kind: OrderKind<One>,
  drafts: readonly Draft<One>[],
): Promise<{ fitting: Draft<One>[]; over: Draft<One>[] }> {
  const customers = drafts.filter((draft) => kind.debits(draft.order));
  const days = [...new Map(customers.map((draft) => [dayKey(dayOf(draft)), dayOf(draft)])).values()];
  const used = new Map((await lockDays(tx, days)).map((one) => [dayKey(one), one.amount]));
  const fitting: Draft<One>[] = [];
  const over: Draft<One>[] = [];
  for (const draft of drafts) {
    const key = dayKey(dayOf(draft));
    const after = (used.get(key) ?? 0n) + draft.order.amount;
    if (kind.debits(draft.order) && after > draft.policy.dayMax) {
      over.push(draft);
      continue;
    }
    if (kind.debits(draft.order)) used.set(key, after);
    fitting.push(draft);
  }
  return { fitting, over };
}

function sumDays(drafts: readonly Draft<Order>[]): (Day & { amount: bigint })[] {
  const sums = new Map<string, Day & { amount: bigint }>();
  for (const draft of drafts) {
    const day = dayOf(draft);
    sums.set(dayKey(day), { ...day, amount: (sums.get(dayKey(day))?.amount ?? 0n) + draft.order.amount });
  }
  return [...sums.values()];
}

async function accountsOf(tx: Tx, deps: CreateDeps, drafts: readonly Draft<Order>[]): Promise<bigint[]> {
  if (drafts.length === 0) return [];
  return deps.chart.ids(
    tx,
    drafts.map(({ order }) => accountName.partner(order.partnerId, order.assetId)),
  );
}

async function intendDrafts<One extends Order>(
  tx: Tx,
  deps: CreateDeps,
  kind: OrderKind<One>,
  drafts: readonly Draft<One>[],
): Promise<Set<Draft<One>>> {
  if (drafts.length === 0) return new Set();
  const accounts = await accountsOf(tx, deps, drafts);
  const signers = await chooseSigners(
    tx,
    drafts.map(({ policy }) => policy),
  );
  const verdicts = await intend(
    tx,
    drafts.map(({ order, policy, id, fee }, index) => ({
      subjectType: kind.subjectType,
      subjectId: id,
      partnerId: order.partnerId,
      naturalKey: naturalKey(order.partnerId, order.idempotencyKey),
      rail: policy.rail,
      assetId: order.assetId,
      amount: order.amount,
      destination: order.destination,
      wallet: policy.wallet,
      signer: signers[index] ?? policy.wallet,
      ...(kind.payee === undefined ? {} : { payee: kind.payee(order) }),
      ...(kind.lines === undefined ? {} : { lines: kind.lines(order) }),
      ...(kind.debits(order) ? { hold: { accountId: accounts[index] ?? -1n, amount: order.amount + fee } } : {}),
    })),
    (held) =>
      kind.store(
        tx,
        held.flatMap((index) => drafts[index] ?? []),
      ),
  );
  const created = new Set(drafts.filter((_, index) => verdicts[index] === 'intended'));
  await emit(
    tx,
    deps.makeId,
    [...created].map((draft) => ({
      subjectType: kind.subjectType,
      subjectId: draft.id,
      type: `${kind.subjectType}.created`,
      data: kind.view(draft),
    })),
  );
  return created;
}
