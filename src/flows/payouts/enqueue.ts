/**
 * What is due becomes payouts: each takes all that is free of its pool, with a hold of its partner's money and an effect, in the
 * caller's transaction. What cannot be made stays due, with the reason, and loses nothing.
 */
import { createHash } from 'node:crypto';
import type { Pool, Tx } from '../../db/pool.ts';
import { raiseAlert } from '../../engine/alerts.ts';
import { loadOwnAddresses, loadPolicies, type Policy } from '../../engine/intake-store.ts';
import { type Intent, intend } from '../../engine/intend.ts';
import type { ContractCall } from '../../engine/rail.ts';
import { chooseSigners } from '../../engine/relayers.ts';
import { lengthPrefixed, type MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { formatUnits } from '../../kernel/money.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import { emit, type NewEvent } from '../../outbox/emit.ts';
import { type MayCall, needsQuote, toCall, type WordOf } from './calls.ts';
import { BATCH_SUBJECT, batchCreatedEvent } from './batch-view.ts';
import { AGAIN_AFTER_MS, BATCH_PAYOUTS_MAX, LOOKED_AGAIN_MS } from './limits.ts';
import { minOutput, type Programme, toProgrammeView } from './programme.ts';
import {
  type DuePool,
  loadProgrammes,
  lockDuePools,
  markUnfunded,
  markWaiting,
  type NewBatch,
  type NewPayout,
  type Origin,
  storeBatches,
  storePayouts,
  type Waiting,
  type WaitReason,
} from './store.ts';
import { createdEvent } from './view.ts';

export interface PayoutDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chart: Chart;
  readonly log: Log;
  readonly wordOf: WordOf;
  readonly mayCall: MayCall;
}

export interface Why {
  readonly origin: Origin;
  readonly cutDate?: string;
}

export interface Made {
  readonly made: readonly { readonly id: string; readonly poolId: bigint; readonly amount: bigint }[];
  readonly waiting: readonly Waiting[];
}

interface Draft {
  readonly payout: NewPayout;
  readonly policy: Policy;
  readonly call: ContractCall | null;
}

/** Why a pool that is due has no payout, and whether time alone changes that. Money is looked at whenever there is some. */
const TRIED_AGAIN_MS: Partial<Record<WaitReason, number>> = {
  INSUFFICIENT_FUNDS: 0,
  NO_POLICY: AGAIN_AFTER_MS,
  NO_ADDRESS: LOOKED_AGAIN_MS,
  ADDRESS_OURS: LOOKED_AGAIN_MS,
  NO_QUOTE: LOOKED_AGAIN_MS,
  PAUSED: LOOKED_AGAIN_MS,
};

/** Durable with the caller's commit. Locks the pools by id first. */
export async function makePayouts(tx: Tx, deps: PayoutDeps, poolIds: readonly bigint[], why: Why): Promise<Made> {
  if (poolIds.length === 0) return { made: [], waiting: [] };
  const locked = await lockDuePools(tx, poolIds);
  const programmes = await loadProgrammes(tx, [...new Set(locked.map((one) => one.programmeId))]);
  // While the lock was waited for another payout may have taken it: what is left may be less than the cut pays.
  const least = (pool: DuePool): bigint =>
    (why.origin === 'cut' ? programmes.get(pool.programmeId)?.cutMin : null) ?? 1n;
  const pools = locked.filter((one) => one.payable >= least(one));
  const { drafts, waiting } = await draft(tx, deps, pools, programmes, why);
  const alone = await takeAlone(
    tx,
    deps,
    drafts.filter(({ payout }) => payout.programme.paysBy !== 'multi_send'),
  );
  const together = await takeTogether(
    tx,
    deps,
    drafts.filter(({ payout }) => payout.programme.paysBy === 'multi_send'),
  );
  const made = [...alone.made, ...together.batches.flatMap((one) => one.payouts)];
  const short = [...alone.short, ...together.short];
  waiting.push(...short.map((one) => wait(one.pool, 'INSUFFICIENT_FUNDS')));
  await markWaiting(tx, waiting);
  await emit(tx, deps.makeId, [
    ...alone.made.map(createdEvent),
    ...together.batches.map(batchCreatedEvent),
    ...(await tellUnfunded(tx, deps, short)),
  ]);
  return { made: made.map((one) => ({ id: one.id, poolId: one.pool.id, amount: one.pool.payable })), waiting };
}

async function partnersOf(tx: Tx, deps: PayoutDeps, payouts: readonly NewPayout[]): Promise<bigint[]> {
  return deps.chart.ids(
    tx,
    payouts.map(({ programme }) => accountName.partner(programme.partnerId, programme.assetId)),
  );
}

async function takeAlone(
  tx: Tx,
  deps: PayoutDeps,
  drafts: readonly Draft[],
): Promise<{ readonly made: NewPayout[]; readonly short: NewPayout[] }> {
  const signers = await chooseSigners(
    tx,
    drafts.map((one) => one.policy),
  );
  const payouts = drafts.map((one) => one.payout);
  const accounts = await partnersOf(tx, deps, payouts);
  const verdicts = await intend(
    tx,
    drafts.map((one, index): Intent => toIntent(one, signers[index], accounts[index])),
    (held) =>
      storePayouts(
        tx,
        held.flatMap((index) => payouts[index] ?? []),
      ),
  );
  return {
    made: payouts.filter((_, index) => verdicts[index] === 'intended'),
    short: payouts.filter((_, index) => verdicts[index] === 'insufficient'),
  };
}

/** In calls of many. Where the money is short for all of a call, each goes in one of its own, as long as there is some. */
async function takeTogether(
  tx: Tx,
  deps: PayoutDeps,
  drafts: readonly Draft[],
  most: number = BATCH_PAYOUTS_MAX,
): Promise<{ readonly batches: NewBatch[]; readonly short: NewPayout[] }> {
  const batches = inCalls(deps, drafts, most);
  const accounts = await partnersOf(
    tx,
    deps,
    batches.map((one) => one.first.payout),
  );
  const verdicts = await intend(
    tx,
    batches.map((one, index): Intent => toBatchIntent(one, accounts[index])),
    async (held) => {
      const stored = held.flatMap((index) => batches[index]?.batch ?? []);
      await storeBatches(tx, stored);
      await storePayouts(
        tx,
        stored.flatMap((one) => one.payouts),
      );
    },
  );
  const made = batches.filter((_, index) => verdicts[index] === 'intended').map((one) => one.batch);
  const short = new Set(
    batches.filter((_, index) => verdicts[index] === 'insufficient').flatMap((one) => one.batch.payouts),
  );
  if (short.size === 0 || most === 1) return { batches: made, short: [...short] };
  const ids = new Set([...short].map((one) => one.id));
  const again = await takeTogether(
    tx,
    deps,
    drafts.filter(({ payout }) => ids.has(payout.id)),
    1,
  );
  return { batches: [...made, ...again.batches], short: again.short };
}

interface Call {
  readonly first: Draft;
  readonly batch: NewBatch;
}

/** Of one programme, and so of one wallet and contract, each. */
function inCalls(deps: PayoutDeps, drafts: readonly Draft[], most: number): Call[] {
  const calls: Call[] = [];
  for (const mine of Map.groupBy(drafts, ({ payout }) => payout.programme.id).values()) {
    for (let from = 0; from < mine.length; from += most) {
      const part = mine.slice(from, from + most);
      const [first] = part;
      if (first === undefined) continue;
      const id = deps.makeId('pyb');
      // By their ids, as they are read again: a payout's number in the call is the same everywhere.
      const payouts = part
        .map(({ payout }) => ({ ...payout, batchId: id }))
        .sort((left, right) => (left.id < right.id ? -1 : 1));
      const amount = payouts.reduce((sum, { pool }) => sum + pool.payable, 0n);
      calls.push({ first, batch: { id, payouts, amount } });
    }
  }
  return calls;
}

function toBatchIntent({ first, batch }: Call, account: bigint | undefined): Intent {
  const { programme } = first.payout;
  if (account === undefined) throw new Error('an account is missing');
  if (programme.call === null) throw new Error(`programme ${programme.id} names no contract`);
  // The same again after a restored backup: the places of its payouts name it.
  const places = createHash('sha256')
    .update(lengthPrefixed(batch.payouts.map(payoutKey)))
    .digest('hex');
  return {
    subjectType: BATCH_SUBJECT,
    subjectId: batch.id,
    partnerId: programme.partnerId,
    naturalKey: lengthPrefixed([programme.partnerId, BATCH_SUBJECT, places]),
    rail: first.policy.rail,
    assetId: programme.assetId,
    amount: batch.amount,
    destination: programme.call.to,
    wallet: first.policy.wallet,
    // The contract takes the money from whoever calls it.
    signer: first.policy.wallet,
    lines: batch.payouts.map(({ id, destination, pool }) => ({ ref: id, to: destination, amount: pool.payable })),
    hold: { accountId: account, amount: batch.amount },
  };
}

function wait(pool: DuePool, reason: WaitReason): Waiting {
  return { poolId: pool.id, reason, waitMs: TRIED_AGAIN_MS[reason] ?? null };
}

async function draft(
  tx: Tx,
  deps: PayoutDeps,
  pools: readonly DuePool[],
  programmes: ReadonlyMap<string, Programme>,
  why: Why,
): Promise<{ drafts: Draft[]; waiting: Waiting[] }> {
  const pairs = [...programmes.values()].map(({ partnerId, assetId }) => ({ partnerId, assetId }));
  const policies = new Map((await loadPolicies(tx, pairs)).map((one) => [`${one.partnerId}\n${one.assetId}`, one]));
  const chainOf = (pool: DuePool): string => programmes.get(pool.programmeId)?.chain ?? '';
  const own = await loadOwnAddresses(
    tx,
    pools.flatMap((one) => (one.address === null ? [] : [{ chain: chainOf(one), address: one.address }])),
  );
  const drafts: Draft[] = [];
  const waiting: Waiting[] = [];
  for (const pool of pools) {
    const programme = programmes.get(pool.programmeId);
    if (programme === undefined) throw new Error(`pool ${pool.id} is of no programme`);
    const { address } = pool;
    const policy = policies.get(`${programme.partnerId}\n${programme.assetId}`);
    const call = programme.paysBy === 'call' ? programme.call : null;
    const least = call === null ? null : minOutput(programme, pool.payable);
    if (programme.paused) waiting.push(wait(pool, 'PAUSED'));
    else if (policy === undefined || (call !== null && !deps.mayCall(programme.chain, call)))
      waiting.push(wait(pool, 'NO_POLICY'));
    else if (address === null) waiting.push(wait(pool, 'NO_ADDRESS'));
    else if (own.has(`${programme.chain}:${address}`)) waiting.push(wait(pool, 'ADDRESS_OURS'));
    else if (call !== null && needsQuote(call) && least === null) waiting.push(wait(pool, 'NO_QUOTE'));
    else {
      const id = deps.makeId('pay');
      drafts.push({
        payout: {
          id,
          programme,
          pool,
          destination: address,
          origin: why.origin,
          cutDate: why.cutDate ?? null,
          quote: call === null ? null : programme.quote,
          minOutput: least,
          batchId: null,
        },
        policy,
        call:
          call === null
            ? null
            : toCall(
                call,
                {
                  id,
                  chain: programme.chain,
                  destination: address,
                  wallet: policy.wallet,
                  amount: pool.payable,
                  minOutput: least,
                },
                deps.wordOf,
              ),
      });
    }
  }
  return { drafts, waiting };
}

/** The same again after a restored backup: its place in the pool names it. */
export function payoutKey({ programme, pool }: Pick<NewPayout, 'programme' | 'pool'>): string {
  return lengthPrefixed([programme.partnerId, 'payout', programme.name, pool.creator, String(pool.ordinal)]);
}

function toIntent({ payout, policy, call }: Draft, signer: string | undefined, account: bigint | undefined): Intent {
  const { programme, pool } = payout;
  if (account === undefined) throw new Error('an account is missing');
  return {
    subjectType: 'payout',
    subjectId: payout.id,
    partnerId: programme.partnerId,
    naturalKey: payoutKey(payout),
    rail: policy.rail,
    assetId: programme.assetId,
    amount: pool.payable,
    destination: payout.destination,
    wallet: policy.wallet,
    signer: signer ?? policy.wallet,
    ...(call === null ? {} : { call }),
    hold: { accountId: account, amount: pool.payable },
  };
}

/** Told once for each time that the money ran out: an event for the partner, an alert for people. */
async function tellUnfunded(tx: Tx, deps: PayoutDeps, short: readonly NewPayout[]): Promise<NewEvent[]> {
  if (short.length === 0) return [];
  const concerned = new Map(short.map((one) => [one.programme.id, one.programme]));
  const news = await markUnfunded(tx, [...concerned.keys()]);
  const events: NewEvent[] = [];
  for (const id of news) {
    const programme = concerned.get(id);
    if (programme === undefined) continue;
    const least = short.filter((one) => one.programme.id === id).map((one) => one.pool.payable)[0] ?? 0n;
    const amount = formatUnits(least, programme.decimals);
    await raiseAlert(
      tx,
      'payouts_unfunded',
      id,
      `programme ${programme.name} of ${programme.partnerId}: payouts are due that the partner's balance does not cover (${amount} ${programme.assetCode} and perhaps more): payonce payouts waiting`,
      deps.log,
    );
    events.push({
      subjectType: 'programme',
      subjectId: id,
      type: 'programme.unfunded',
      data: { ...toProgrammeView(programme), missing_for: amount },
    });
  }
  return events;
}
