/**
 * Re-opening: testimony came for an effect that was released (T6, design §2).
 *
 * Retried until it holds or is a case: what waits is found on the rows themselves, so a crash in between loses nothing.
 * All effects of the subject are locked by id first. Nothing re-opened is ever sent again; its hold may take the account
 * under its floor, and then `accounts.deficit` rises by what is missing.
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import { emit } from '../outbox/emit.ts';
import { post } from '../ledger/post.ts';
import { raiseAlert } from './alerts.ts';
import { closeCases, openCase } from './cases.ts';
import { releasePending, reopenEffect } from './edges.ts';
import type { EngineDeps } from './deps.ts';
import { currentHold } from './flow.ts';
import { bookOverpaid } from './settle.ts';
import { type EffectRow, loadEffects, lockEffectsOfSubject } from './store.ts';
import { storeEvidence } from './evidence-store.ts';

const WAITING = `select e.id
from payonce.effects e
where e.state = 'RELEASED'
  and e.contradicted_at is null
  and e.testimonies > 0
  and exists (
    select 1 from payonce.effect_evidence v
    where v.effect_id = e.id and v.id > e.released_by and v.rank in ('word', 'object') and v.struck_at is null
      and not (v.rank = 'word' and v.object_id is not null and exists (
        select 1 from payonce.effect_evidence f
        where f.id = e.released_by and f.kind = 'PROVIDER_FAILED' and f.object_id = v.object_id)))
order by e.id
limit 100`;

const CONTRADICT = `update payonce.effects
set contradicted_at = payonce.now()
where id = $1
  and contradicted_at is null`;

const CANCEL_LIVE = `update payonce.effects
set wanted = 'cancel', next_at = payonce.now()
where id = $1
  and nonce is not null`;

const COVER = `update payonce.accounts
set deficit = greatest(deficit, floor - (balance - held - $2::numeric))
where id = $1
  and floor is not null
  and balance - held - $2::numeric < floor - deficit`;

/** Re-opens or contradicts every released effect against which testimony stands. Answers how many there were. */
export async function reopenOnce(deps: EngineDeps): Promise<number> {
  const { rows } = await deps.pool.query<{ id: bigint }>(WAITING);
  for (const row of rows) {
    try {
      await deps.pool.tx('re-open', (tx) => reopen(tx, deps, row.id));
    } catch (error) {
      // One that does not go must not stand before the others; it is found again at the next pass.
      deps.log.error({ err: error, effect_id: row.id }, 'an effect could not be re-opened');
      await raiseAlert(
        deps.pool,
        'reopen_fails',
        `effect:${row.id}`,
        `effect ${row.id} moved after all and cannot be re-opened`,
        deps.log,
      );
    }
  }
  return rows.length;
}

export async function reopen(tx: Tx, deps: EngineDeps, id: bigint): Promise<'reopened' | 'contradicted' | 'nothing'> {
  const [named] = await loadEffects(tx, [id]);
  if (named === undefined) return 'nothing';
  const all = await lockEffectsOfSubject(tx, named.subjectType, named.subjectId);
  const effect = all.find((one) => one.id === id);
  if (effect === undefined || effect.state !== 'RELEASED' || effect.testimonies === 0 || effect.contradictedAt !== null)
    return 'nothing';
  if (effect.identity === null) return denyNeverSealed(tx, deps, effect);
  const live = all.find((one) => one.id !== id && one.state !== 'RELEASED');
  if (live !== undefined && live.state !== 'PENDING') return contradict(tx, deps, effect, live);
  if (live !== undefined) await releaseSuccessor(tx, live);
  if (!(await reopenEffect(tx, id))) throw new InvariantBroken(`effect ${id} could not be re-opened under its lock`);
  await holdAgain(tx, deps, { ...effect, reopens: effect.reopens + 1 });
  await closeCases(tx, [id], ['after_release'], 'it moved after all, and is open again');
  const flow = deps.flows.get(effect.subjectType);
  if (flow !== undefined) await emit(tx, deps.makeId, await flow.reopened(tx, [effect]));
  const told = await tx.query('select 1 from payonce.subjects where type = $1 and id = $2 and closed_at is not null', [
    effect.subjectType,
    effect.subjectId,
  ]);
  if (told.rowCount === 1) {
    await openCase(tx, deps.makeId, {
      kind: 'told_failed',
      severity: 3,
      subjectKey: `effect:${id}`,
      effectId: id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary: `${effect.subjectType} ${effect.subjectId} moved after the partner had been told its end; the partner may have paid another way`,
    });
  }
  await raiseAlert(
    tx,
    'reopened',
    `effect:${id}`,
    `${effect.subjectType} ${effect.subjectId} moved after all and is open again`,
    deps.log,
  );
  return 'reopened';
}

/** It was never sealed, so nothing of ours can have moved; somebody says that it did. People must find out what did. */
async function denyNeverSealed(tx: Tx, deps: EngineDeps, effect: EffectRow): Promise<'contradicted'> {
  await tx.query(CONTRADICT, [effect.id]);
  const summary = `${effect.subjectType} ${effect.subjectId} was never sealed, and yet there is testimony that it moved`;
  await openCase(tx, deps.makeId, {
    kind: 'contradiction',
    severity: 3,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary,
  });
  await raiseAlert(tx, 'contradiction', `effect:${effect.id}`, summary, deps.log);
  return 'contradicted';
}

async function contradict(tx: Tx, deps: EngineDeps, effect: EffectRow, live: EffectRow): Promise<'contradicted'> {
  await tx.query(CONTRADICT, [effect.id]);
  if (live.state === 'SEALED') await tx.query(CANCEL_LIVE, [live.id]);
  await bookOverpaid(tx, deps, effect, `effect ${live.id} of the same subject is ${live.state}`);
  await raiseAlert(
    tx,
    'contradiction',
    `effect:${effect.id}`,
    `${effect.subjectType} ${effect.subjectId} may have been paid twice`,
    deps.log,
  );
  return 'contradicted';
}

/** The successor was never sealed: it ends first, in an earlier statement, and its hold goes back. */
async function releaseSuccessor(tx: Tx, live: EffectRow): Promise<void> {
  const [evidenceId] = await storeEvidence(tx, [
    {
      effectId: live.id,
      kind: 'NEVER_SEALED',
      rank: 'dead',
      source: 'engine',
      operator: 'payonce',
      objectId: null,
      detail: 'an earlier effect of this subject moved after all',
      sendNumber: 0,
      token: live.leaseToken,
    },
  ]);
  if (evidenceId === undefined) throw new InvariantBroken('evidence without an id');
  const released = await releasePending(tx, [{ id: live.id, evidenceId }]);
  if (!released.has(live.id)) throw new InvariantBroken(`effect ${live.id} was sealed under our lock`);
  const key = currentHold(live);
  if (key !== null) await post(tx, [{ kind: 'void', holdKey: key }]);
}

async function holdAgain(tx: Tx, deps: EngineDeps, effect: EffectRow): Promise<void> {
  const hold = await deps.flows.get(effect.subjectType)?.holdOf(tx, effect);
  const key = currentHold(effect);
  if (hold === undefined || hold === null || key === null) return;
  await tx.query(COVER, [hold.accountId, hold.amount]);
  const [verdict] = await post(tx, [{ kind: 'hold', holdKey: key, ...hold }]);
  if (verdict?.verdict !== 'held')
    throw new InvariantBroken(`the hold of re-opened effect ${effect.id} answered ${verdict?.verdict ?? 'nothing'}`);
}
