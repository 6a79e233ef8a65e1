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

const KNOWN = `select effect_id, provider_return_id, amount
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
  if (shown.length === 0) return;
  const known = await loadKnown(
    tx,
    shown.map((one) => one.effect.id),
  );
  const fresh: NewReturn[] = [];
  const paidLines = await loadPaidLines(
    tx,
    deps,
    shown.map((one) => one.effect),
  );
  for (const { effect, lists } of shown) {
    const books = deps.flows.get(effect.subjectType)?.returned !== undefined;
    const paid = paidLines.get(effect.id);
    const found = !books
      ? 'money came back, and nothing of this kind comes back'
      : paid !== undefined && lists.flat().some((one) => one.line === undefined || !paid.has(one.line))
        ? 'a line came back that was not paid'
        : newReturns(effect, lists, known.get(effect.id) ?? new Map(), deps);
    if (typeof found === 'string') await ask(tx, deps, effect, found);
    else fresh.push(...found);
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

async function loadKnown(tx: Tx, ids: readonly bigint[]): Promise<Map<bigint, Map<string, bigint>>> {
  const { rows } = await tx.query<{ effect_id: bigint; provider_return_id: string; amount: bigint }>(KNOWN, [ids]);
  const known = new Map<bigint, Map<string, bigint>>();
  for (const row of rows) {
    const of = known.get(row.effect_id) ?? new Map<string, bigint>();
    known.set(row.effect_id, of.set(row.provider_return_id, toUnits(row.amount, 'returns.amount')));
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

/** What is not on record yet, or, in words, why a person must look. */
function newReturns(
  effect: EffectRow,
  lists: readonly (readonly Returned[])[],
  known: ReadonlyMap<string, bigint>,
  deps: EngineDeps,
): NewReturn[] | string {
  if (lists.some((list) => list.length === 0)) return 'something came back, and what is shown of it cannot be ours';
  const told = lists.flat();
  const amounts = new Map(known);
  for (const one of told) {
    if ((amounts.get(one.id) ?? one.amount) !== one.amount) return `return ${one.id} is told with two amounts`;
    amounts.set(one.id, one.amount);
  }
  const sum = [...amounts.values()].reduce((total, amount) => total + amount, 0n);
  if (sum > effect.amount) return `${sum} units came back of ${effect.amount} that went`;
  return [...new Map(told.map((one) => [one.id, one])).values()]
    .filter((one) => !known.has(one.id))
    .map((one) => ({
      id: deps.makeId('ret'),
      providerId: one.id,
      effect,
      amount: one.amount,
      fee: one.fee ?? 0n,
      reason: one.reason,
      line: one.line ?? null,
    }));
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
