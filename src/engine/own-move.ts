/**
 * Own moves: effects that move money between wallets of ours, or spend it for a wallet's sake (realizations, collections,
 * top-ups, energy), or only set something for one (allowances: their amount is 0). The one mechanism; the flows over it say what is due and when.
 *
 * Promises: one subject per natural key, for ever, and one open effect per lane, whoever asks and however many processes at
 * once; what is there already is an answer, not an error. Settling books custody of the wallet → custody of the receiver
 * (or → gas, where it is spent) under the flow's own key, whole or not at all. After a dead release it is tried again a
 * few times, then a person is asked.
 * Never: a partner's account, a hold, a fee, a partner's event: the money was ours before and is ours after (W8, R13).
 *
 * What belongs to no partner belongs to `OWN_PARTNER`. Lock order: keys and lanes (advisory, by hash), flow rows, inserts.
 */
import type { Tx } from '../db/pool.ts';
import { assert, InvariantBroken } from '../kernel/errors.ts';
import type { IdPrefix, MakeId } from '../kernel/ids.ts';
import { accountName, type AccountName, type Chart } from '../ledger/accounts.ts';
import type { LedgerItem } from '../ledger/post.ts';
import type { EndedEffect, Flow, Outcome, Then } from './flow.ts';
import { lockKeys } from './intake-store.ts';
import { intend } from './intend.ts';
import type { ContractCall } from './rail.ts';
import type { EffectRow } from './store.ts';

/** The partner of what concerns no partner (migration 0014). */
export const OWN_PARTNER = 'par_own';

/** What a flow over this mechanism is. `payonce.own_move_kinds` has the same table, for the invariants. */
export interface OwnMoveKind {
  readonly subjectType: 'realization' | 'collection' | 'topup' | 'energy' | 'allowance';
  readonly idPrefix: IdPrefix;
  /** The posting's key, from the subject's id: one of `postingKey`. */
  key(subjectId: string): string;
  /** `custody`: the receiver is an address of ours. `gas`: it is spent. */
  readonly arrivesAt: 'custody' | 'gas';
  /** Tries, each proved not to have moved, before a person is asked. */
  readonly triesMax: number;
}

/** One move that is due. Amount in units of the asset; addresses in the rail's canonical spelling. */
export interface OwnMove {
  readonly partnerId: string;
  /** Unique among the moves of its kind, for ever: what is due once has one. */
  readonly naturalKey: string;
  /** At most one open effect has it. */
  readonly lane: string;
  readonly rail: string;
  readonly assetId: string;
  readonly amount: bigint;
  readonly wallet: string;
  /** Who pays gas and owns the nonce. */
  readonly signer: string;
  readonly destination: string;
  readonly call?: ContractCall;
}

export type MoveOutcome =
  /** A subject of its own with a PENDING effect; there with the caller's commit. `exists`: it was made before. */
  | { readonly outcome: 'made' | 'exists'; readonly id: string }
  /** Another move of this lane is open, and nothing was made; asked again later it may be. */
  | { readonly outcome: 'lane_taken'; readonly by: { readonly subjectType: string; readonly subjectId: string } };

const MADE = `select natural_key, id
from payonce.subjects
where type = $1
  and natural_key = any ($2::text[])`;

const LANES = `select lane, subject_type, subject_id
from payonce.effects
where lane = any ($1::text[])
  and state in ('PENDING', 'SEALED')`;

/** Takes moves in, in the flow's own transaction; answers in order. `store` writes the flow's rows of those that are made
 *  (their ids by place in `moves`). Two alike in one batch: the second finds the first. */
export async function takeOwnMoves<Move extends OwnMove>(
  tx: Tx,
  deps: { readonly makeId: MakeId },
  kind: OwnMoveKind,
  moves: readonly Move[],
  store: (made: readonly { readonly id: string; readonly move: Move }[]) => Promise<void>,
): Promise<MoveOutcome[]> {
  if (moves.length === 0) return [];
  for (const move of moves) {
    assert(move.amount >= 0n, `${kind.subjectType} ${move.naturalKey} moves ${move.amount}`);
    assert(move.wallet !== move.destination, `${kind.subjectType} ${move.naturalKey} pays its own wallet`);
  }
  await lockKeys(tx, [
    ...moves.map((move) => `own move\n${kind.subjectType}\n${move.naturalKey}`),
    ...moves.map((move) => `lane\n${move.lane}`),
  ]);
  const known = new Map(
    (
      await tx.query<{ natural_key: string; id: string }>(MADE, [
        kind.subjectType,
        moves.map((move) => move.naturalKey),
      ])
    ).rows.map((row) => [row.natural_key, row.id]),
  );
  const lanes = new Map(
    (
      await tx.query<{ lane: string; subject_type: string; subject_id: string }>(LANES, [
        moves.map((move) => move.lane),
      ])
    ).rows.map((row) => [row.lane, { subjectType: row.subject_type, subjectId: row.subject_id }]),
  );
  const made: { id: string; move: Move }[] = [];
  const outcomes = moves.map((move): MoveOutcome => {
    const before = known.get(move.naturalKey);
    if (before !== undefined) return { outcome: 'exists', id: before };
    const holder = lanes.get(move.lane);
    if (holder !== undefined) return { outcome: 'lane_taken', by: holder };
    const id = deps.makeId(kind.idPrefix);
    known.set(move.naturalKey, id);
    lanes.set(move.lane, { subjectType: kind.subjectType, subjectId: id });
    made.push({ id, move });
    return { outcome: 'made', id };
  });
  await intend(
    tx,
    made.map(({ id, move }) => ({ ...move, subjectType: kind.subjectType, subjectId: id })),
    () => store(made),
  );
  return outcomes;
}

/** The flow of a kind: what its ends book and what follows a release. */
export function makeOwnMoveFlow(chart: Chart, kind: OwnMoveKind): Flow {
  const nobodyIsTold = (): Promise<readonly never[]> => Promise.resolve([]);
  return {
    subjectType: kind.subjectType,
    settled: (tx, ended) => settled(tx, chart, kind, ended),
    afterRelease: (ended) => afterRelease(kind, ended),
    released: nobodyIsTold,
    shown: nobodyIsTold,
    believed: nobodyIsTold,
    reopened: nobodyIsTold,
    holdOf: () => Promise.resolve(null),
    arrivesAt: (effect) => arrival(kind, effect),
  };
}

async function settled(tx: Tx, chart: Chart, kind: OwnMoveKind, ended: readonly EndedEffect[]): Promise<Outcome> {
  const moving = ended.filter(({ effect }) => effect.amount > 0n);
  const ids = await chart.ids(
    tx,
    moving.flatMap(({ effect }) => [
      accountName.custody(effect.asset.chain, effect.wallet, effect.asset.id),
      arrival(kind, effect),
    ]),
  );
  const items = moving.map(({ effect }, index): LedgerItem => {
    const [from, to] = [ids[index * 2], ids[index * 2 + 1]];
    if (from === undefined || to === undefined) throw new InvariantBroken('an account is missing');
    return {
      kind: 'post',
      key: kind.key(effect.subjectId),
      reference: effect.subjectId,
      effectId: effect.id,
      entries: [
        { accountId: from, amount: effect.amount },
        { accountId: to, amount: -effect.amount },
      ],
    };
  });
  return { items, events: [] };
}

function arrival(kind: OwnMoveKind, effect: EffectRow): AccountName {
  return kind.arrivesAt === 'gas'
    ? accountName.gas(effect.asset.id)
    : accountName.custody(effect.asset.chain, effect.destination, effect.asset.id);
}

/** `fail` and `cancelled` tell nobody: the subject ends, and what it was to move is due again. */
function afterRelease(kind: OwnMoveKind, { kind: evidence, effect }: EndedEffect): Then {
  switch (evidence) {
    case 'NEVER_SEALED':
      return { step: 'cancelled', reason: 'cancelled before anything was sent' };
    case 'CANCEL_MINED':
      return { step: 'fail', reason: 'cancelled on chain by an operator' };
    case 'REVERTED_FINAL':
    case 'NONCE_SPENT_BY_OTHER':
    case 'EXPIRED_UNINCLUDED':
    case 'REFUSED_AT_ONCE':
    case 'NEVER_LEFT':
      // Re-opened, it gave its lane up, and another may have it: what is still due comes with the next round.
      if (effect.lane === null) return { step: 'fail', reason: 'it gave its lane up when it was re-opened' };
      return effect.seq < kind.triesMax
        ? { step: 'again' }
        : { step: 'review', why: `${effect.seq} tries did not go through; the last was ended by ${evidence}` };
    default:
      return { step: 'review', why: `released by ${evidence}` };
  }
}
