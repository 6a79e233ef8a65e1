/**
 * Returns: money of a settled effect that came back, as rows and postings, once each (M1).
 *
 * A return is known by the provider's own id within its effect; what is told again changes nothing. One that is seen before
 * anybody saw the success settles and returns in one transaction, since `record.ts` comes here after it settled. Never: a
 * new payment, and never a booking that we cannot read or that would take back more than went: those are cases.
 *
 * Lock order: effects (locked by the caller), then accounts by id (in `post`), subjects' counters (in `emit`).
 */
import { toUnits, type Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import { post } from '../ledger/post.ts';
import { emit } from '../outbox/emit.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { BookedReturn, Outcome } from './flow.ts';
import type { Judged } from './judge.ts';
import type { Returned } from './rail.ts';
import type { EffectRow } from './store.ts';

const KNOWN = `select effect_id, provider_return_id, amount, fee, line_ref
from payonce.returns
where effect_id = any ($1::bigint[])`;

const STORE = `insert into payonce.returns (id, effect_id, provider_return_id, amount, fee, reason, line_ref)
select * from unnest($1::text[], $2::bigint[], $3::text[], $4::numeric[], $5::numeric[], $6::text[], $7::text[])`;

type NewReturn = BookedReturn & { readonly providerId: string };

/** Books what the passes show as returned, of effects that are settled by now. */
export async function bookReturns(
  tx: Tx,
  deps: EngineDeps,
  judged: readonly Judged[],
  ended: ReadonlySet<bigint>,
): Promise<void> {
  const shown = judged.flatMap((one) => {
    const isSettled = one.effect.state === 'SETTLED' || (ended.has(one.effect.id) && one.decision.act === 'settle');
    const lists = one.pass.found.flatMap(({ observation }) => {
      if (observation.returned !== undefined) return [observation.returned];
      // It went, and now its object says that it failed: money came back, and nothing tells how much.
      return observation.kind === 'object_failed' ? [[]] : [];
    });
    return isSettled && lists.length > 0 ? [{ effect: one.effect, lists }] : [];
  });
  const paidAgain = judged.filter(isPaidAgain).map((one) => one.effect);
  if (shown.length + paidAgain.length === 0) return;
  const known = await loadKnown(
    tx,
    [...shown.map((one) => one.effect), ...paidAgain].map((effect) => effect.id),
  );
  for (const effect of paidAgain)
    if (known.has(effect.id)) await ask(tx, deps, effect, 'it came back and was booked, and now it is shown as paid');
  const fresh: NewReturn[] = [];
  const paidLines = await loadPaidLines(
    tx,
    deps,
    shown.map((one) => one.effect),
  );
  for (const { effect, lists } of shown) {
    const books = deps.flows.get(effect.subjectType)?.returned !== undefined;
    const paid = paidLines.get(effect.id);
    const { fresh: mine, faults } = !books
      ? { fresh: [], faults: ['money came back, and nothing of this kind comes back'] }
      : paid !== undefined && lists.flat().some((one) => one.line === undefined || !paid.has(one.line))
        ? { fresh: [], faults: ['a line came back that was not paid'] }
        : newReturns(effect, lists, known.get(effect.id) ?? new Map(), deps);
    for (const fault of faults) await ask(tx, deps, effect, fault);
    fresh.push(...mine);
  }
  if (fresh.length === 0) return;
  await tx.query(STORE, [
    fresh.map((one) => one.id),
    fresh.map((one) => one.effect.id),
    fresh.map((one) => one.providerId),
    fresh.map((one) => one.amount),
    fresh.map((one) => one.fee),
    fresh.map((one) => one.reason),
    fresh.map((one) => one.line),
  ]);
  await tell(tx, deps, fresh);
}

/** Every look-up shows a settled effect as paid, and none a return. */
function isPaidAgain({ effect, pass }: Judged): boolean {
  const looks = pass.found.filter(({ answer }) => answer.operation === 'look');
  return (
    effect.state === 'SETTLED' &&
    looks.length > 0 &&
    looks.every(({ observation: { kind, returned } }) => kind === 'final_success' && returned === undefined)
  );
}

/** Batches that settled before: what a look shows of their lines now. */
export async function showLines(tx: Tx, deps: EngineDeps, judged: readonly Judged[]): Promise<void> {
  for (const flow of deps.flows.values()) {
    if (flow.linesSeen === undefined) continue;
    const seen = judged.flatMap(({ effect, pass }) => {
      const lines = pass.found.findLast((found) => found.observation.lines !== undefined)?.observation.lines;
      return effect.state === 'SETTLED' && effect.subjectType === flow.subjectType && lines !== undefined
        ? [{ effect, lines }]
        : [];
    });
    if (seen.length > 0) await book(tx, deps, await flow.linesSeen(tx, seen));
  }
}

interface Known {
  readonly amount: bigint;
  readonly fee: bigint;
  readonly line: string | null;
}

async function loadKnown(tx: Tx, ids: readonly bigint[]): Promise<Map<bigint, Map<string, Known>>> {
  const { rows } = await tx.query<{
    effect_id: bigint;
    provider_return_id: string;
    amount: bigint;
    fee: bigint;
    line_ref: string | null;
  }>(KNOWN, [ids]);
  const known = new Map<bigint, Map<string, Known>>();
  for (const row of rows) {
    const of = known.get(row.effect_id) ?? new Map<string, Known>();
    const amount = toUnits(row.amount, 'returns.amount');
    known.set(
      row.effect_id,
      of.set(row.provider_return_id, { amount, fee: toUnits(row.fee, 'returns.fee'), line: row.line_ref }),
    );
  }
  return known;
}

/** Of batches only. */
async function loadPaidLines(
  tx: Tx,
  deps: EngineDeps,
  effects: readonly EffectRow[],
): Promise<ReadonlyMap<bigint, ReadonlySet<string>>> {
  const all = new Map<bigint, ReadonlySet<string>>();
  for (const flow of deps.flows.values()) {
    const mine = effects.filter((effect) => effect.subjectType === flow.subjectType);
    if (flow.paidLines === undefined || mine.length === 0) continue;
    for (const [id, lines] of await flow.paidLines(tx, mine)) all.set(id, lines);
  }
  return all;
}

interface ReadReturns {
  readonly fresh: readonly NewReturn[];
  /** In words, why a person must look; what is not in doubt is booked all the same. */
  readonly faults: readonly string[];
}

/** What is not on record yet. */
function newReturns(
  effect: EffectRow,
  lists: readonly (readonly Returned[])[],
  known: ReadonlyMap<string, Known>,
  deps: EngineDeps,
): ReadReturns {
  if (lists.some((list) => list.length === 0))
    return { fresh: [], faults: ['something came back, and what is shown of it cannot be ours'] };
  const faults: string[] = [];
  const all = new Map(known);
  const fresh = new Map<string, Returned>();
  for (const one of lists.flat()) {
    const before = all.get(one.id);
    const line = one.line ?? null;
    if (before !== undefined) {
      if (before.amount !== one.amount) faults.push(`return ${one.id} is told with two amounts`);
      else if (one.fee !== undefined && before.fee !== one.fee) faults.push(`return ${one.id} is told with two fees`);
      continue;
    }
    const twin = line === null ? undefined : [...all].find(([, other]) => other.line === line);
    if (twin !== undefined) {
      faults.push(`line ${line} came back as ${twin[0]}, and now as ${one.id}`);
      continue;
    }
    all.set(one.id, { amount: one.amount, fee: one.fee ?? 0n, line });
    fresh.set(one.id, one);
  }
  const sum = [...all.values()].reduce((total, one) => total + one.amount, 0n);
  if (sum > effect.amount)
    return { fresh: [], faults: [...faults, `${sum} units came back of ${effect.amount} that went`] };
  // Two amounts of one new return: neither is booked.
  if (faults.some((fault) => [...fresh.keys()].some((id) => fault.startsWith(`return ${id} is told with two amounts`))))
    return { fresh: [], faults };
  return {
    faults,
    fresh: [...fresh.values()].map((one) => ({
      id: deps.makeId('ret'),
      providerId: one.id,
      effect,
      amount: one.amount,
      fee: one.fee ?? 0n,
      reason: one.reason,
      line: one.line ?? null,
    })),
  };
}

async function tell(tx: Tx, deps: EngineDeps, fresh: readonly NewReturn[]): Promise<void> {
  for (const flow of deps.flows.values()) {
    const mine = fresh.filter((one) => one.effect.subjectType === flow.subjectType);
    if (mine.length === 0 || flow.returned === undefined) continue;
    await book(tx, deps, await flow.returned(tx, mine));
  }
}

async function book(tx: Tx, deps: EngineDeps, { items, events }: Outcome): Promise<void> {
  const verdicts = await post(tx, items);
  verdicts.forEach((verdict, index) => {
    const item = items[index];
    if (verdict.verdict !== 'posted')
      throw new InvariantBroken(`${item?.kind === 'post' ? item.key : 'a return'} answered ${verdict.verdict}`);
  });
  await emit(tx, deps.makeId, events);
}

async function ask(tx: Tx, deps: EngineDeps, effect: EffectRow, why: string): Promise<void> {
  await openCase(tx, deps.makeId, {
    kind: 'return_unclear',
    severity: 2,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary: `${effect.subjectType} ${effect.subjectId}: ${why}. Nothing of it is booked; compare with the statement`,
  });
}
