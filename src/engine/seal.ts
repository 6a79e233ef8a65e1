/**
 * Sealing: one transaction that turns planned effects into identities.
 *
 * It tests again, under the effects' locks, that each is still PENDING under our lease; refuses where new seals are
 * stopped (the rail, a contradiction of this partner, the cap on doubt, a quarantined signer, 16 unmined per signer); and
 * gives out places in the signer's sequence from the signer's own row, so that nonces have no gaps and no node or library
 * is ever asked for one. `rail.seal` is pure. Nothing leaves here.
 *
 * Lock order: effects by id, rail row (shared), signer rows by address.
 */
import type { Flow } from './flow.ts';
import type { Pool, Tx } from '../db/pool.ts';
import { assert } from '../kernel/errors.ts';
import { type NewSeal, sealEffects } from './edges.ts';
import type { Allotment, EffectIntent, Plan, Rail, SealedEffect } from './rail.ts';
import { findBarredRelayers } from './relayers.ts';
import { type EffectRow, type GiveBack, giveBack, lockEffects } from './store.ts';

const RAIL_STATE = `select seals_stopped_reason, doubt_max_units
from payonce.rails
where name = $1
for share`;

const CONTRADICTED = `select distinct partner_id
from payonce.cases
where kind = 'contradiction'
  and closed_at is null
  and partner_id = any ($1::text[])`;

/** Where nonces are given out, `allot` asks the signer's locked row; a wallet that another one signs for, and rails without
 *  nonces, are asked here. */
const QUARANTINED_WALLETS = `select address
from payonce.signers
where rail = $1
  and address = any ($2::text[])
  and quarantined_at is not null`;

const DOUBT = `select partner_id, asset_id, sum(amount) as amount
from payonce.effects
where rail = $1
  and state = 'SEALED'
  and testimonies = 0
  and included_at is null
  and (last_unreadable or wait_reason like 'WITHHELD: %' or (lease_until is not null and lease_until < payonce.now()))
group by partner_id, asset_id`;

const LOCK_SIGNERS = `select address, next_nonce
from payonce.signers
where rail = $1
  and address = any ($2::text[])
  and quarantined_at is null
order by address
for no key update`;

const UNMINED = `select signer, count(*)::int as open
from payonce.effects
where rail = $1
  and signer = any ($2::text[])
  and state = 'SEALED'
  and included_at is null
group by signer`;

const TAKE_NONCES = `update payonce.signers g
set next_nonce = g.next_nonce + u.taken
from unnest($2::text[], $3::int[]) as u (address, taken)
where g.rail = $1
  and g.address = u.address`;

/** Of chains that are scanned; one that never was has no row. */
const SCANNED = `select chain, next_block
from payonce.scan_cursors
where chain = any ($1::text[])`;

/** What a scan may lie behind the final block that a plan saw: it is done once a second, and blocks come every few. */
const SCAN_BEHIND_BLOCKS_MAX = 20n;
const SCAN_BEHIND_MS = 1_000;

/** How long an effect waits when new seals are stopped or its signer is full. */
const STOPPED_MS = 5_000;
const FULL_MS = 500;
/** What its flow bars waits for people; asked again now and then, should the bar fall. */
const BARRED_MS = 60_000;

export interface Planned {
  readonly effect: EffectRow;
  readonly plan: Plan;
}

/** Seals what may be sealed; the rest goes back with its reason. Durable on return: seal and first permission to send. */
export async function sealPlanned(
  pool: Pool,
  rail: Rail,
  planned: readonly Planned[],
  sendForMs: number,
  flows: ReadonlyMap<string, Flow> = new Map(),
): Promise<SealedEffect[]> {
  if (planned.length === 0) return [];
  return pool.tx('seal', async (tx) => {
    const plans = new Map(planned.map((one) => [one.effect.id, one]));
    const locked = (await lockEffects(tx, [...plans.keys()])).filter((effect) => {
      const mine = plans.get(effect.id);
      return (
        mine !== undefined &&
        effect.state === 'PENDING' &&
        effect.leaseToken === mine.effect.leaseToken &&
        effect.leaseUntil !== null
      );
    });
    if (locked.length === 0) return [];
    const { allowed, refused } = await brakes(tx, rail, flows, locked);
    const { allotted, full } = await allot(tx, rail, allowed);
    const made = allotted.map(({ effect, allotment }) => {
      const plan = plans.get(effect.id)?.plan ?? {};
      return { effect, plan, seal: rail.seal(toIntent(effect), plan, allotment) };
    });
    const unseen = await notScanned(tx, made);
    const seals = made.flatMap(({ effect, plan, seal }): (NewSeal & { effect: EffectRow; sealedPlan: Plan })[] => {
      if (unseen.has(effect.id)) return [];
      return [
        {
          id: effect.id,
          token: effect.leaseToken,
          identity: seal.identity,
          payload: seal.payload,
          expect: seal.expect,
          plan,
          nonce: seal.nonce,
          effect,
          sealedPlan: plan,
        },
      ];
    });
    const done = await sealEffects(tx, seals, sendForMs);
    // The rows are locked and were tested: a seal that finds none would leave a hole in the signer's sequence.
    assert(done.size === seals.length, `sealed ${done.size} of ${seals.length} locked effects`);
    const behind = made.flatMap(({ effect }) =>
      unseen.has(effect.id) ? [back(effect, 'SCAN_BEHIND', SCAN_BEHIND_MS)] : [],
    );
    await giveBack(tx, [...refused, ...full, ...behind]);
    return seals.map((one) => ({
      ...toIntent(one.effect),
      seal: {
        identity: one.identity,
        payload: one.payload,
        expect: one.expect,
        signer: one.effect.signer,
        nonce: one.nonce,
      },
      plan: one.sealedPlan,
      variants: [],
      sealedAt: one.effect.now,
    }));
  });
}

/**
 * Without a sequence nothing on a chain refuses a payment that has left already, before a snapshot of the database was put back:
 * our scan must have been there first, and quarantines the wallet when it finds one (design §2, proof 7).
 */
async function notScanned(
  tx: Tx,
  made: readonly { readonly effect: EffectRow; readonly seal: { readonly finalBlock?: bigint } }[],
): Promise<Set<bigint>> {
  const concerned = made.filter(({ seal }) => seal.finalBlock !== undefined);
  if (concerned.length === 0) return new Set();
  const chains = [...new Set(concerned.map(({ effect }) => effect.asset.chain))];
  const { rows } = await tx.query<{ chain: string; next_block: bigint }>(SCANNED, [chains]);
  const next = new Map(rows.map((row) => [row.chain, row.next_block]));
  return new Set(
    concerned.flatMap(({ effect, seal }) => {
      const scanned = next.get(effect.asset.chain);
      return scanned !== undefined && scanned + SCAN_BEHIND_BLOCKS_MAX <= (seal.finalBlock ?? 0n) ? [effect.id] : [];
    }),
  );
}

function back(effect: EffectRow, reason: string, waitMs: number): GiveBack {
  return { id: effect.id, token: effect.leaseToken, waitMs, reason, counts: false };
}

/** Brakes stop new seals only; looks, re-sends, bumps and cancels never stop. */
async function brakes(
  tx: Tx,
  rail: Rail,
  flows: ReadonlyMap<string, Flow>,
  effects: readonly EffectRow[],
): Promise<{ allowed: EffectRow[]; refused: GiveBack[] }> {
  const state = (
    await tx.query<{ seals_stopped_reason: string | null; doubt_max_units: Record<string, string> }>(RAIL_STATE, [
      rail.name,
    ])
  ).rows[0];
  assert(state !== undefined, `rail ${rail.name} has no row`);
  if (state.seals_stopped_reason !== null) {
    const reason = `SEALS_STOPPED: ${state.seals_stopped_reason}`;
    return { allowed: [], refused: effects.map((effect) => back(effect, reason, STOPPED_MS)) };
  }
  const partners = [...new Set(effects.map((effect) => effect.partnerId))];
  const contradicted = new Set(
    (await tx.query<{ partner_id: string }>(CONTRADICTED, [partners])).rows.map((row) => row.partner_id),
  );
  const asked = effects.flatMap((one) => {
    if (!rail.capabilities.sequenced) return [one.wallet, one.signer];
    return one.wallet === one.signer ? [] : [one.wallet];
  });
  const quarantined = new Set(
    asked.length === 0
      ? []
      : (await tx.query<{ address: string }>(QUARANTINED_WALLETS, [rail.name, asked])).rows.map((row) => row.address),
  );
  const caps = Object.entries(state.doubt_max_units);
  const doubt =
    caps.length === 0
      ? []
      : (await tx.query<{ partner_id: string; asset_id: string; amount: bigint }>(DOUBT, [rail.name])).rows;
  const barred = new Map<bigint, string>();
  for (const flow of flows.values()) {
    const mine = effects.filter((effect) => effect.subjectType === flow.subjectType);
    if (flow.barred !== undefined && mine.length > 0)
      for (const [id, why] of await flow.barred(tx, mine)) barred.set(id, why);
  }
  const relayers = await findBarredRelayers(tx, rail.name, effects);
  const allowed: EffectRow[] = [];
  const refused: GiveBack[] = [];
  for (const effect of effects) {
    const relayer = relayers.get(effect.id);
    if (relayer !== undefined) {
      refused.push(back(effect, relayer, STOPPED_MS));
      continue;
    }
    const why = barred.get(effect.id);
    if (why !== undefined) {
      refused.push(back(effect, `BARRED: ${why}`, BARRED_MS));
      continue;
    }
    const cap = state.doubt_max_units[effect.asset.id];
    const open =
      doubt.find((one) => one.partner_id === effect.partnerId && one.asset_id === effect.asset.id)?.amount ?? 0n;
    if (contradicted.has(effect.partnerId)) refused.push(back(effect, 'CONTRADICTION_OPEN', STOPPED_MS));
    else if (quarantined.has(effect.wallet) || quarantined.has(effect.signer))
      refused.push(back(effect, 'WALLET_QUARANTINED', STOPPED_MS));
    else if (cap !== undefined && open >= BigInt(cap)) refused.push(back(effect, 'DOUBT_CAP', STOPPED_MS));
    else allowed.push(effect);
  }
  return { allowed, refused };
}

async function allot(
  tx: Tx,
  rail: Rail,
  effects: readonly EffectRow[],
): Promise<{ allotted: { effect: EffectRow; allotment: Allotment | null }[]; full: GiveBack[] }> {
  if (!rail.capabilities.sequenced)
    return { allotted: effects.map((effect) => ({ effect, allotment: null })), full: [] };
  const signers = [...new Set(effects.map((effect) => effect.signer))].sort();
  const rows = (await tx.query<{ address: string; next_nonce: bigint }>(LOCK_SIGNERS, [rail.name, signers])).rows;
  const next = new Map(rows.map((row) => [row.address, row.next_nonce]));
  const first = new Map(next);
  const open = new Map(
    (await tx.query<{ signer: string; open: number }>(UNMINED, [rail.name, signers])).rows.map((row) => [
      row.signer,
      row.open,
    ]),
  );
  const allotted: { effect: EffectRow; allotment: Allotment }[] = [];
  const full: GiveBack[] = [];
  for (const effect of effects) {
    const nonce = next.get(effect.signer);
    const used = open.get(effect.signer) ?? 0;
    if (nonce === undefined) full.push(back(effect, 'SIGNER_QUARANTINED', STOPPED_MS));
    else if (used >= rail.capabilities.inFlightPerSignerMax) full.push(back(effect, 'SIGNER_FULL', FULL_MS));
    else {
      allotted.push({ effect, allotment: { signer: effect.signer, nonce } });
      next.set(effect.signer, nonce + 1n);
      open.set(effect.signer, used + 1);
    }
  }
  const taken = [...next]
    .map(([address, nonce]) => ({ address, count: Number(nonce - (first.get(address) ?? nonce)) }))
    .filter((one) => one.count > 0);
  if (taken.length > 0)
    await tx.query(TAKE_NONCES, [rail.name, taken.map((one) => one.address), taken.map((one) => one.count)]);
  return { allotted, full };
}

export function toIntent(effect: EffectRow): EffectIntent {
  return {
    effectId: effect.id,
    subjectType: effect.subjectType,
    subjectId: effect.subjectId,
    seq: effect.seq,
    partnerId: effect.partnerId,
    naturalKey: effect.naturalKey,
    rail: effect.rail,
    asset: effect.asset,
    amount: effect.amount,
    destination: effect.destination,
    wallet: effect.wallet,
    signer: effect.signer,
    call: effect.call,
    payee: effect.payee,
    ...(effect.lines === null ? {} : { lines: effect.lines }),
    ...(effect.trade === null ? {} : { trade: effect.trade }),
  };
}
