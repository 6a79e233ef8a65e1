/**
 * Intake of withdrawals: keys, limits, funds, rows, effects and events of a batch, in one transaction (C6: none or all).
 *
 * The same partner, key and body meet the same resource or the same refusal for ever (inv E15); another body under a key
 * is refused and names what holds it. Business refusals are stored under the key; authentication, validation and rate
 * refusals never come this far. Two requests with the same key in one batch: the second is judged after the first.
 *
 * Lock order: keys (advisory), day totals, accounts by id, then inserts.
 */
import type { Pool, Tx } from '../../db/pool.ts';
import { intend } from '../../engine/intend.ts';
import { type ErrorCode, type Problem, toProblem } from '../../kernel/errors.ts';
import { type MakeId, naturalKey } from '../../kernel/ids.ts';
import { feeOf, formatUnits } from '../../kernel/money.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import { emit } from '../../outbox/emit.ts';
import {
  addToDays,
  type Day,
  type KnownKey,
  loadExternalIds,
  loadKnownKeys,
  loadOwnAddresses,
  loadPolicies,
  lockDays,
  lockKeys,
  type NewWithdrawal,
  type Policy,
  type Purpose,
  storeKeys,
  storeWithdrawals,
} from './store.ts';
import { toPartnerView } from './view.ts';

/** A request that passed the edge: amount in units, destination in the rail's canonical spelling. */
export interface WithdrawalRequest {
  readonly partnerId: string;
  readonly idempotencyKey: string;
  readonly fingerprint: string;
  readonly externalId: string | null;
  readonly purpose: Purpose;
  readonly assetId: string;
  readonly amount: bigint;
  readonly destination: string;
  readonly reference: string | null;
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

const OPERATION = 'withdrawal.create';

/** Durable on return for every request in the batch; answers in order. */
export async function createWithdrawals(
  deps: CreateDeps,
  requests: readonly WithdrawalRequest[],
): Promise<CreateOutcome[]> {
  const outcomes: (CreateOutcome | null)[] = requests.map(() => null);
  // A request may have to wait for its twin in the same batch, or for the day's total after a neighbour was refused.
  for (
    let open = requests.map((_, index) => index);
    open.length > 0;
    open = open.filter((index) => outcomes[index] === null)
  ) {
    const round = firstOfEachKey(requests, open);
    const answers = await deps.pool.tx('create withdrawals', (tx) =>
      createIn(
        tx,
        deps,
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

function requestAt(requests: readonly WithdrawalRequest[], index: number): WithdrawalRequest {
  const request = requests[index];
  if (request === undefined) throw new Error(`no request ${index}`);
  return request;
}

function firstOfEachKey(requests: readonly WithdrawalRequest[], open: readonly number[]): number[] {
  const seen = new Set<string>();
  return open.filter((index) => {
    const request = requestAt(requests, index);
    const keys = [
      naturalKey(request.partnerId, request.idempotencyKey),
      ...(request.externalId === null ? [] : [`external\n${request.partnerId}\n${request.externalId}`]),
    ];
    if (keys.some((key) => seen.has(key))) return false;
    for (const key of keys) seen.add(key);
    return true;
  });
}

interface Draft {
  readonly place: number;
  readonly request: WithdrawalRequest;
  readonly policy: Policy;
  readonly row: NewWithdrawal;
}

/** `null` in the answer: to be run again in a round of its own. */
async function createIn(
  tx: Tx,
  deps: CreateDeps,
  requests: readonly WithdrawalRequest[],
): Promise<(CreateOutcome | null)[]> {
  const answers: (CreateOutcome | null)[] = requests.map(() => null);
  const refusals: { request: WithdrawalRequest; problem: Problem }[] = [];
  const refuse = (place: number, code: ErrorCode, facts: Parameters<typeof toProblem>[1]): void => {
    const problem = toProblem(code, facts);
    answers[place] = { outcome: 'refused', problem, replayed: false };
    refusals.push({ request: requestAt(requests, place), problem });
  };

  const keys = requests.map((request) => ({ partnerId: request.partnerId, key: request.idempotencyKey }));
  const externals = requests.flatMap((request) =>
    request.externalId === null ? [] : [{ partnerId: request.partnerId, externalId: request.externalId }],
  );
  await lockKeys(tx, [
    ...keys.map((one) => naturalKey(one.partnerId, one.key)),
    ...externals.map((one) => `external\n${one.partnerId}\n${one.externalId}`),
  ]);
  const known = new Map((await loadKnownKeys(tx, keys)).map((one) => [naturalKey(one.partnerId, one.key), one]));
  const taken = await loadExternalIds(tx, externals);
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

  const drafts: Draft[] = [];
  requests.forEach((request, place) => {
    const before = known.get(naturalKey(request.partnerId, request.idempotencyKey));
    if (before !== undefined) {
      answers[place] = replay(before, request);
      return;
    }
    const holder = request.externalId === null ? undefined : taken.get(`${request.partnerId}\n${request.externalId}`);
    if (holder !== undefined)
      return refuse(place, 'PO_EXTERNAL_ID_TAKEN', {
        pointer: '/external_id',
        got: request.externalId ?? '',
        resource: { type: 'withdrawal', id: holder },
      });
    const policy = policies.get(`${request.partnerId}\n${request.assetId}`);
    if (policy === undefined)
      return refuse(place, 'PO_ASSET_UNKNOWN', {
        pointer: '/asset',
        detail: 'This asset cannot be withdrawn',
        got: request.assetId,
      });
    const limit = outsideLimits(request, policy);
    if (limit !== null) return refuse(place, 'PO_AMOUNT_OUT_OF_LIMITS', limit);
    const destination = destinationFault(request, policy, own.get(`${policy.chain}:${request.destination}`));
    if (destination !== null)
      return refuse(place, 'PO_DESTINATION_REFUSED', {
        pointer: '/destination',
        got: request.destination,
        detail: destination,
      });
    const fee = request.purpose === 'customer' ? feeOf(request.amount, policy.feeFlat, policy.feeBasisPoints) : 0n;
    drafts.push({
      place,
      request,
      policy,
      row: {
        id: deps.makeId('wd'),
        partnerId: request.partnerId,
        idempotencyKey: request.idempotencyKey,
        externalId: request.externalId,
        purpose: request.purpose,
        assetId: request.assetId,
        amount: request.amount,
        fee,
        destination: request.destination,
        reference: request.reference,
        day: policy.day,
      },
    });
  });

  const { fitting, over } = await fitDays(tx, drafts);
  const created = await intendDrafts(tx, deps, fitting);
  const short = fitting.filter((draft) => !created.has(draft));
  for (const draft of short) {
    refuse(draft.place, 'PO_INSUFFICIENT_FUNDS', {
      pointer: '/amount',
      got: formatUnits(draft.row.amount, draft.policy.decimals),
      expected: `amount and fee (${formatUnits(draft.row.fee, draft.policy.decimals)}) within the available balance`,
    });
  }
  for (const draft of over) {
    // A neighbour that was refused may have left room in the day: judge again, after it.
    if (short.some((one) => sameDay(one, draft))) continue;
    refuse(draft.place, 'PO_DAY_LIMIT', {
      pointer: '/amount',
      got: formatUnits(draft.row.amount, draft.policy.decimals),
      expected: `at most ${formatUnits(draft.policy.dayMax, draft.policy.decimals)} per day in all`,
    });
  }
  await addToDays(tx, sumDays(fitting.filter((draft) => created.has(draft) && draft.row.purpose === 'customer')));
  await storeKeys(tx, [
    ...[...created].map((draft) => ({
      partnerId: draft.row.partnerId,
      key: draft.row.idempotencyKey,
      operation: OPERATION,
      fingerprint: draft.request.fingerprint,
      resourceId: draft.row.id,
      refusal: null,
    })),
    ...refusals.map(({ request, problem }) => ({
      partnerId: request.partnerId,
      key: request.idempotencyKey,
      operation: OPERATION,
      fingerprint: request.fingerprint,
      resourceId: null,
      refusal: problem,
    })),
  ]);
  for (const draft of created) answers[draft.place] = { outcome: 'created', id: draft.row.id };
  return answers;
}

function replay(before: KnownKey, request: WithdrawalRequest): CreateOutcome {
  if (before.operation !== OPERATION || before.fingerprint !== request.fingerprint) {
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

function outsideLimits(request: WithdrawalRequest, policy: Policy): Parameters<typeof toProblem>[1] | null {
  if (request.amount >= policy.min && request.amount <= policy.max) return null;
  return {
    pointer: '/amount',
    got: formatUnits(request.amount, policy.decimals),
    expected: `from ${formatUnits(policy.min, policy.decimals)} to ${formatUnits(policy.max, policy.decimals)}`,
  };
}

/** Purposes other than customer move our own custody and need a receiving wallet that is registered for this partner. */
function destinationFault(
  request: WithdrawalRequest,
  policy: Policy,
  own: { kind: string; partnerId: string | null } | undefined,
): string | null {
  if (request.destination === policy.wallet) return 'the wallet cannot pay itself';
  switch (request.purpose) {
    case 'customer':
      if (own === undefined || (own.kind === 'DEPOSIT' && policy.ownAddress === 'allow_deposit_addresses')) return null;
      return 'it is an address of this system; use an internal transfer';
    case 'settlement':
      return own?.kind === 'SETTLEMENT' && own.partnerId === request.partnerId
        ? null
        : 'a settlement withdrawal goes to a settlement wallet that is registered for you';
    case 'self':
      return own !== undefined && own.kind === 'MASTER' && own.partnerId === request.partnerId
        ? null
        : 'a self withdrawal goes to a wallet that is registered for you';
  }
}

function uniquePairs(requests: readonly WithdrawalRequest[]): { partnerId: string; assetId: string }[] {
  return [
    ...new Map(
      requests.map((one) => [`${one.partnerId}\n${one.assetId}`, { partnerId: one.partnerId, assetId: one.assetId }]),
    ).values(),
  ];
}

function dayOf(draft: Draft): Day {
  return { partnerId: draft.row.partnerId, assetId: draft.row.assetId, day: draft.row.day };
}
function dayKey(day: Day): string {
  return `${day.partnerId}\n${day.assetId}\n${day.day}`;
}
function sameDay(left: Draft, right: Draft): boolean {
  return dayKey(dayOf(left)) === dayKey(dayOf(right));
}

async function fitDays(tx: Tx, drafts: readonly Draft[]): Promise<{ fitting: Draft[]; over: Draft[] }> {
  const customers = drafts.filter((draft) => draft.row.purpose === 'customer');
  const days = [...new Map(customers.map((draft) => [dayKey(dayOf(draft)), dayOf(draft)])).values()];
  const used = new Map((await lockDays(tx, days)).map((one) => [dayKey(one), one.amount]));
  const fitting: Draft[] = [];
  const over: Draft[] = [];
  for (const draft of drafts) {
    const key = dayKey(dayOf(draft));
    const after = (used.get(key) ?? 0n) + draft.row.amount;
    if (draft.row.purpose === 'customer' && after > draft.policy.dayMax) {
      over.push(draft);
      continue;
    }
    if (draft.row.purpose === 'customer') used.set(key, after);
    fitting.push(draft);
  }
  return { fitting, over };
}

function sumDays(drafts: readonly Draft[]): (Day & { amount: bigint })[] {
  const sums = new Map<string, Day & { amount: bigint }>();
  for (const draft of drafts) {
    const day = dayOf(draft);
    sums.set(dayKey(day), { ...day, amount: (sums.get(dayKey(day))?.amount ?? 0n) + draft.row.amount });
  }
  return [...sums.values()];
}

async function intendDrafts(tx: Tx, deps: CreateDeps, drafts: readonly Draft[]): Promise<Set<Draft>> {
  if (drafts.length === 0) return new Set();
  const accounts = await deps.chart.ids(
    tx,
    drafts.map((draft) => accountName.partner(draft.row.partnerId, draft.row.assetId)),
  );
  const verdicts = await intend(
    tx,
    drafts.map((draft, index) => ({
      subjectType: 'withdrawal',
      subjectId: draft.row.id,
      partnerId: draft.row.partnerId,
      naturalKey: naturalKey(draft.row.partnerId, draft.row.idempotencyKey),
      rail: draft.policy.rail,
      assetId: draft.row.assetId,
      amount: draft.row.amount,
      destination: draft.row.destination,
      wallet: draft.policy.wallet,
      signer: draft.policy.wallet,
      ...(draft.row.purpose === 'customer'
        ? { hold: { accountId: accounts[index] ?? -1n, amount: draft.row.amount + draft.row.fee } }
        : {}),
    })),
    (held) =>
      storeWithdrawals(
        tx,
        held.flatMap((index) => drafts[index]?.row ?? []),
      ),
  );
  const created = new Set(drafts.filter((_, index) => verdicts[index] === 'intended'));
  await emit(
    tx,
    deps.makeId,
    [...created].map(({ row, policy }) => ({
      subjectType: 'withdrawal',
      subjectId: row.id,
      type: 'withdrawal.created',
      data: {
        ...toPartnerView(
          { ...row, assetCode: policy.assetCode, decimals: policy.decimals, requestedAt: new Date(0) },
          'pending',
        ),
        requested_at: undefined,
      },
    })),
  );
  return created;
}
