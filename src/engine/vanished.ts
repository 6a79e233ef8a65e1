/**
 * Broken finality: a settled transaction that no node shows any more (design §2, "settled is never undone").
 *
 * The state stays SETTLED: nothing is undone by a machine. A case is opened for each, new seals of the rail stop, and the
 * same signed bytes are sent again until they are final once more; a person may unwind what never comes back. Asked only
 * while there is a reason to doubt: a scan halted on broken finality, or a chain that counts less than we know it had.
 * Chains with and without nonces alike. Where the bytes have expired (TRON) nothing is sent: they can never be included again.
 */
import { raiseAlert } from './alerts.ts';
import { closeCases, openCase } from './cases.ts';
import { stopOnBrokenFinality } from './chain-doubt.ts';
import type { EngineDeps } from './deps.ts';
import { loadVariants, storeAnswers } from './evidence-store.ts';
import type { ObservationKind, Rail, SealedEffect } from './rail.ts';
import { readSafely, toSealed } from './sealed.ts';
import { type EffectRow, loadEffects } from './store.ts';

/** Older than this no chain in the field has taken anything back (219,500 ETC in 2019 were within hours). */
const LOOK_BACK = '24 hours';
const LOOK_MAX = 500;

const DOUBT = `select 1
from payonce.alerts
where cleared_at is null
  and ((kind = 'deposit_scan_halted' and message like '%stopped%')
    or (kind = 'chain_went_back' and key = $1)
    or (kind = 'settled_vanished' and key like $1 || ':%'))
limit 1`;

const RECENT = `select e.id
from payonce.effects e
where e.rail = $1
  and e.state || '' = 'SETTLED'
  and exists (select 1 from payonce.effect_variants v where v.effect_id = e.id)
  and e.ended_at > payonce.now() - interval '${LOOK_BACK}'
order by e.id desc
limit ${LOOK_MAX}`;

/** Proofs that what was settled is not what stands on the chain now; sending it again would change nothing. */
const PROVED_GONE: readonly ObservationKind[] = [
  'expired_unincluded',
  'reverted_final',
  'cancel_mined',
  'spent_by_other',
];

/** Looks at what was settled lately, if there is a reason to; answers how many have vanished. */
export async function recheckSettledOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  // What a chain includes is signed here; what a provider keeps is never taken back by a fork.
  if (rail.sign === undefined) return 0;
  if ((await deps.pool.query(DOUBT, [rail.name])).rowCount === 0) return 0;
  const ids = (await deps.pool.query<{ id: bigint }>(RECENT, [rail.name])).rows.map((row) => row.id);
  const effects = await loadEffects(deps.pool, ids);
  const variants = await loadVariants(deps.pool, ids);
  const sealed = effects.map((effect) => toSealed(effect, variants.get(effect.id) ?? []));
  const looked = await rail.look(sealed);
  const gone: Gone[] = [];
  const back: bigint[] = [];
  effects.forEach((effect, index) => {
    const one = sealed[index];
    if (one === undefined) return;
    const kinds = (looked[index] ?? []).map((answer) => readSafely(deps, rail, answer, one).kind);
    if (kinds.includes('final_success')) back.push(effect.id);
    // Vanished: somebody says, readably, that it is not there, and nobody shows it.
    else if (!kinds.includes('included') && kinds.some((kind) => kind === 'not_found' || PROVED_GONE.includes(kind)))
      gone.push({ effect, sealed: one, lost: whyLost(rail, kinds, one) });
  });
  if (gone.length > 0) await tell(deps, rail, gone);
  for (const one of gone) if (one.lost === null) await sendAgain(deps, rail, one.effect, one.sealed);
  await deps.pool.tx('settled is final again', (tx) =>
    closeCases(tx, back, ['broken_finality'], 'its transaction is final again'),
  );
  return gone.length;
}

interface Gone {
  readonly effect: EffectRow;
  readonly sealed: SealedEffect;
  /** Why its bytes can never be included; `null`: they may. */
  readonly lost: string | null;
}

function whyLost(rail: Rail, kinds: readonly ObservationKind[], sealed: SealedEffect): string | null {
  const proved = PROVED_GONE.find((kind) => kinds.includes(kind));
  return proved === undefined ? (rail.withholds?.(sealed) ?? null) : `the chain shows ${proved}`;
}

async function tell(deps: EngineDeps, rail: Rail, gone: readonly Gone[]): Promise<void> {
  await deps.pool.tx('settled vanished', async (tx) => {
    const why = `${gone.length} settled transactions are not in the chain any more`;
    await stopOnBrokenFinality(tx, rail.name, why, deps.log);
    for (const { effect, lost } of gone) {
      const next =
        lost === null
          ? 'The same bytes are sent again; unwind it only if they can never be mined.'
          : `Nothing is sent again (${lost}). Make sure on other nodes that it moved nothing, then two persons unwind it.`;
      const summary = `${effect.subjectType} ${effect.subjectId} was confirmed and its transaction is not in the chain any more. ${next}`;
      await openCase(tx, deps.makeId, {
        kind: 'broken_finality',
        severity: 3,
        subjectKey: `effect:${effect.id}`,
        effectId: effect.id,
        partnerId: effect.partnerId,
        assetId: effect.asset.id,
        amount: effect.amount,
        summary,
      });
      await raiseAlert(tx, 'settled_vanished', `${rail.name}:${effect.id}`, summary, deps.log);
    }
  });
}

/** The last variant's own bytes: at most one transaction of this nonce can ever be mined, so this pays nobody twice. */
async function sendAgain(deps: EngineDeps, rail: Rail, effect: EffectRow, sealed: SealedEffect): Promise<void> {
  const signed = sealed.variants.at(-1) ?? null;
  if (signed === null) return;
  const answer = await rail.send(sealed, signed);
  const seen = readSafely(deps, rail, answer, sealed);
  await deps.pool.tx('sent again', (tx) =>
    storeAnswers(tx, [
      {
        ...answer,
        effectId: effect.id,
        sendNumber: effect.sendCount,
        token: effect.leaseToken,
        digest: `again:${signed.hash}`,
        observed: seen.kind,
        why: `settled, vanished and sent again: ${seen.detail}`,
        refused: null,
      },
    ]),
  );
}
