/**
 * Broken finality: a settled transaction that no node shows any more (design §2, "settled is never undone").
 *
 * The state stays SETTLED: nothing is undone by a machine. A case is opened for each, new seals of the rail stop, and the
 * same signed bytes are sent again until they are final once more; a person may unwind what never comes back. Asked once of
 * each some time after it was settled, when other operators' nodes can prove what one said (`second-look.ts`), and of all while
 * there is a reason to doubt: a scan halted on broken finality, or a chain that counts less than we know it had.
 * Chains with and without nonces alike. Where the bytes have expired (TRON) nothing is sent: they can never be included again.
 */
import { raiseAlert } from './alerts.ts';
import { closeCases, openCase } from './cases.ts';
import { stopOnBrokenFinality } from './chain-doubt.ts';
import type { EngineDeps } from './deps.ts';
import { loadVariants, storeAnswers } from './evidence-store.ts';
import type { Observation, Rail, SealedEffect } from './rail.ts';
import { readSafely, toSealed } from './sealed.ts';
import { judgeAgain, PROVED_GONE, SECOND_LOOK_MS, type SecondLook } from './second-look.ts';
import { type EffectRow, loadEffects } from './store.ts';

/** Older than this no chain in the field has taken anything back (219,500 ETC in 2019 were within hours). */
const LOOK_BACK = '24 hours';
const LOOK_MAX = 500;
/** One batch of second looks, as large as one of claims: this runs every few seconds. */
const DUE_MAX = 100;

const DOUBT = `select 1
from payonce.alerts
where cleared_at is null
  and ((kind = 'deposit_scan_halted' and message like '%stopped%')
    or (kind = 'chain_went_back' and key = $1)
    or (kind = 'settled_vanished' and key like $1 || ':%'))
limit 1`;

const RECENT = `select e.id, e.ended_at
from payonce.effects e
where e.rail = $1
  and e.state || '' = 'SETTLED'
  and exists (select 1 from payonce.effect_variants v where v.effect_id = e.id)
  and e.ended_at > payonce.now() - interval '${LOOK_BACK}'
order by e.id desc
limit ${LOOK_MAX}`;

/** Settled, and its second look is due: by another operator, if there is one, what one node said may be found untrue. */
const DUE = `select e.id, e.ended_at
from payonce.effects e
where e.rail = $1
  and e.watch_at <= (select payonce.now())
  and e.state = 'SETTLED'
order by e.watch_at, e.id
limit ${DUE_MAX}`;

const LOOKED = `update payonce.effects e
set watch_at = case
  when u.says = 'unclear' and payonce.now() < e.ended_at + interval '${LOOK_BACK}'
    then payonce.now() + make_interval(secs => $3::float8 / 1000)
  end
from unnest($1::bigint[], $2::text[]) as u (id, says)
where e.id = u.id
  and e.state = 'SETTLED'
  and e.watch_at <= payonce.now()`;

type Ended = { readonly id: bigint; readonly ended_at: Date };

/** Looks at what was settled lately, if there is a reason to, and once at each some time after; answers how many are not there. */
export async function recheckSettledOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  // What a chain includes is signed here; what a provider keeps is never taken back by a fork.
  if (rail.sign === undefined) return 0;
  const doubted = (await deps.pool.query(DOUBT, [rail.name])).rowCount > 0;
  const due = (await deps.pool.query<Ended>(DUE, [rail.name])).rows;
  const recent = doubted ? (await deps.pool.query<Ended>(RECENT, [rail.name])).rows : [];
  const endedAt = new Map([...due, ...recent].map((row) => [row.id, row.ended_at] as const));
  if (endedAt.size === 0) return 0;
  const ids = [...endedAt.keys()];
  const effects = await loadEffects(deps.pool, ids);
  const variants = await loadVariants(deps.pool, ids);
  const sealed = effects.map((effect) => toSealed(effect, variants.get(effect.id) ?? []));
  const looked = await rail.look(sealed);
  const gone: Gone[] = [];
  const said = new Map<bigint, SecondLook['says']>();
  effects.forEach((effect, index) => {
    const one = sealed[index];
    const ended = endedAt.get(effect.id);
    if (one === undefined || ended === undefined) return;
    const seen = (looked[index] ?? []).map((answer) => readSafely(deps, rail, answer, one));
    const { says, contradiction } = judgeAgain(seen, ended, doubted);
    said.set(effect.id, says);
    if (says === 'gone') gone.push({ effect, sealed: one, contradiction, lost: whyLost(rail, seen, one) });
  });
  if (gone.length > 0) await tell(deps, rail, gone);
  for (const one of gone) if (one.lost === null) await sendAgain(deps, rail, one.effect, one.sealed);
  await deps.pool.tx('settled is looked at again', async (tx) => {
    const back = ids.filter((id) => said.get(id) === 'stands');
    await closeCases(tx, back, ['broken_finality'], 'its transaction is final again');
    const told = [...said].sort(([left], [right]) => (left < right ? -1 : 1));
    await tx.query(LOOKED, [told.map(([id]) => id), told.map(([, says]) => says), SECOND_LOOK_MS]);
  });
  return gone.length;
}

interface Gone {
  readonly effect: EffectRow;
  readonly sealed: SealedEffect;
  /** Who shows it all the same. */
  readonly contradiction: string | null;
  /** Why its bytes can never be included; `null`: they may. */
  readonly lost: string | null;
}

function whyLost(rail: Rail, seen: readonly Observation[], sealed: SealedEffect): string | null {
  const proved = PROVED_GONE.find((kind) => seen.some((one) => one.kind === kind));
  return proved === undefined ? (rail.withholds?.(sealed) ?? null) : `the chain shows ${proved}`;
}

async function tell(deps: EngineDeps, rail: Rail, gone: readonly Gone[]): Promise<void> {
  await deps.pool.tx('settled vanished', async (tx) => {
    const why = `${gone.length} settled transactions are not in the chain any more`;
    await stopOnBrokenFinality(tx, rail.name, why, deps.log);
    for (const { effect, lost, contradiction } of gone) {
      const next =
        lost === null
          ? 'The same bytes are sent again; unwind it only if they can never be mined.'
          : `Nothing is sent again (${lost}). Make sure on other nodes that it moved nothing, then two persons unwind it.`;
      const what = contradiction ?? 'its transaction is not in the chain any more';
      const summary = `${effect.subjectType} ${effect.subjectId} was confirmed, and ${what}. ${next}`;
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
