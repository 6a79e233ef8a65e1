/**
 * Registration: what the configuration says of chains, banks, assets and wallets becomes rows, again at each start.
 *
 * Decimals are frozen once registered and compared with the contract's own (H9). A wallet's sequence is read from the
 * chain once, when it is first registered and nothing of ours can be under way; afterwards only our own row counts.
 */
import { raiseAlert, clearAlert } from '../engine/alerts.ts';
import type { AssetRef, SignerSurvey } from '../engine/rail.ts';
import { type CollectTerms, storeTerms } from '../flows/collections/index.ts';
import type { BlockSource } from '../flows/deposits/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { HEAD_AHEAD_MS_MAX } from '../kernel/limits.ts';
import { parseAmount } from '../kernel/money.ts';
import type { App, WiredChain } from './wire.ts';
import { bankAssetId } from './wire-banks.ts';
import type { ChainAsset } from './wire-chains.ts';
import { walletsOf } from './wire-supplies.ts';

const ASSET = `insert into payonce.assets (id, code, chain, contract, decimals)
values ($1, $2, $3, $4, $5)
on conflict (id) do nothing
returning id`;
const SAME_ASSET = `select code, decimals
from payonce.assets
where id = $1`;
const POLICY = `insert into payonce.asset_policies
  (asset_id, rail, wallet, withdrawal_min, withdrawal_max, withdrawal_day_max, withdrawal_fee_flat, withdrawal_fee_bp, deposit_fee_flat, deposit_fee_bp, own_address_policy, relayers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (asset_id, partner_id) do update
set rail = excluded.rail, wallet = excluded.wallet, withdrawal_min = excluded.withdrawal_min, withdrawal_max = excluded.withdrawal_max,
    withdrawal_day_max = excluded.withdrawal_day_max, withdrawal_fee_flat = excluded.withdrawal_fee_flat, withdrawal_fee_bp = excluded.withdrawal_fee_bp,
    deposit_fee_flat = excluded.deposit_fee_flat, deposit_fee_bp = excluded.deposit_fee_bp, own_address_policy = excluded.own_address_policy, relayers = excluded.relayers`;

/** Limits and fees as they are written; deposits and destinations of our own are chains' alone. */
interface WrittenPolicy {
  readonly wallet: string;
  readonly limits: NonNullable<ChainAsset['withdrawal']>;
  readonly deposit?: ChainAsset['deposit'];
  readonly ownAddress?: ChainAsset['ownAddress'];
  readonly relayers?: readonly string[];
}

/** Assets and policies: needs no node, and a bank needs nothing more. */
export async function registerAssets(app: App): Promise<void> {
  for (const chain of app.chains) {
    for (const asset of chain.assets) {
      const { wallet, withdrawal, deposit, ownAddress, relayers } = asset;
      await registerAsset(
        app,
        chain.rail.name,
        toRef(chain, asset),
        withdrawal === undefined || wallet === undefined
          ? null
          : { wallet, limits: withdrawal, deposit, ownAddress, relayers },
      );
    }
    await app.pool.tx('collection terms', (tx) => storeTerms(tx, chain.chain, collectTermsOf(chain)));
  }
  for (const { config, rail } of app.banks) {
    for (const { code, decimals, transfer } of config.assets) {
      const asset = { id: bankAssetId(rail.name, code), code, decimals, chain: rail.name, contract: code };
      await registerAsset(app, rail.name, asset, { wallet: config.account, limits: transfer });
    }
    // A provider's account counts nothing: its row is what claims go by.
    await app.pool.query(SIGNER, [rail.name, config.account, 'account at the bank', 0]);
  }
  for (const { rail, account } of app.markets)
    await app.pool.query(SIGNER, [rail.name, account, 'account at the energy market', 0]);
}

const COLLECT_EVERY_MINUTES = 60;

function toRef({ chain }: WiredChain, { id, code, decimals, contract }: ChainAsset): AssetRef {
  return { id, code, decimals, chain, contract };
}

function collectTermsOf({ assets, coinTransferCostMax }: WiredChain): CollectTerms[] {
  return assets.flatMap(({ id, code, decimals, contract, collect }) => {
    if (collect === undefined) return [];
    const min = unitsOf(code, decimals, collect.min);
    const atMost = contract === null ? coinTransferCostMax : 0n;
    const keep = collect.keep === undefined ? atMost : unitsOf(code, decimals, collect.keep);
    const everyMs = (collect.everyMinutes ?? COLLECT_EVERY_MINUTES) * 60_000;
    return [{ assetId: id, min, keep, everyMs }];
  });
}

function unitsOf(code: string, decimals: number, text: string): bigint {
  const parsed = parseAmount(text, decimals);
  if (!parsed.ok)
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: `asset ${code}: "${text}" is no amount with ${decimals} decimals`,
    });
  return parsed.units;
}

async function registerAsset(app: App, rail: string, asset: AssetRef, policy: WrittenPolicy | null): Promise<void> {
  const { id, code, decimals } = asset;
  const made = await app.pool.query(ASSET, [id, code, asset.chain, asset.contract, decimals]);
  if (made.rowCount === 0) {
    const { rows } = await app.pool.query<{ code: string; decimals: number }>(SAME_ASSET, [id]);
    if (rows[0]?.decimals !== decimals) {
      throw new PayonceError('PO_CONFIG_INVALID', {
        detail: `asset ${code}: registered with ${rows[0]?.decimals ?? 'other'} decimals, configured with ${decimals}; decimals are frozen once an asset is registered, so the file is to be corrected`,
      });
    }
  }
  if (policy === null) return;
  const units = (text: string): bigint => unitsOf(code, decimals, text);
  const { wallet, limits, deposit, ownAddress, relayers } = policy;
  await app.pool.query(POLICY, [
    id,
    rail,
    wallet,
    units(limits.min),
    units(limits.max),
    units(limits.dayMax),
    units(limits.feeFlat),
    limits.feeBasisPoints,
    units(deposit?.feeFlat ?? '0'),
    deposit?.feeBasisPoints ?? 0,
    ownAddress ?? 'refuse',
    relayers ?? [],
  ]);
}

const KNOWN_SIGNER = `select address
from payonce.signers
where rail = $1
  and address = any ($2::text[])`;
const SIGNER = `insert into payonce.signers (rail, address, label, next_nonce)
values ($1, $2, $3, $4)
on conflict (rail, address) do nothing`;
const OWN_ADDRESS = `insert into payonce.addresses (id, chain, address, kind)
values ($1, $2, $3, $4)
on conflict (chain, address) do nothing`;
const STOP = `update payonce.rails
set seals_stopped_at = coalesce(seals_stopped_at, payonce.now()), seals_stopped_reason = coalesce(seals_stopped_reason, $2)
where name = $1`;

/** Wallets and the contracts' decimals: needs a node. `degraded` when none answers; tried again later. */
export async function registerChain(app: App, chain: WiredChain): Promise<'registered' | 'degraded'> {
  const masters = new Set(chain.assets.flatMap((asset) => asset.wallet ?? []));
  const relayers = chain.assets.flatMap((asset) => asset.relayers);
  // GAS and RELAYER wallets of the configuration are on record as such since `registerWallets`; here they get a sequence. A
  // relayer that no asset names stands by: it needs an allowance first.
  const named = (['GAS', 'RELAYER'] as const).flatMap((kind) => walletsOf(app.config, chain, kind));
  const wallets = [...new Set([...masters, ...relayers, ...named])];
  const known = new Set(
    (await app.pool.query<{ address: string }>(KNOWN_SIGNER, [chain.rail.name, wallets])).rows.map(
      (row) => row.address,
    ),
  );
  const fresh = wallets.filter((wallet) => !known.has(wallet));
  const surveys = fresh.length === 0 ? [] : await surveyed(chain, fresh);
  if (surveys.some((one) => one.nonceHead === null)) return degraded(app, chain, 'no node told the wallets’ sequence');
  for (const one of surveys) {
    await app.pool.tx('register wallet', async (tx) => {
      await tx.query(SIGNER, [chain.rail.name, one.signer, 'configured', one.nonceHead]);
      const kind = masters.has(one.signer) ? 'MASTER' : 'RELAYER';
      await tx.query(OWN_ADDRESS, [app.engine.makeId('adr'), chain.chain, one.signer, kind]);
    });
  }
  for (const asset of chain.assets) {
    const check = await chain.rail.checkAsset(toRef(chain, asset));
    if (!check.ok && check.reason === 'NODE_DOWN')
      return degraded(app, chain, `decimals of ${asset.code}: ${check.detail}`);
    if (!check.ok) {
      const reason = `asset ${asset.code}: ${check.detail}`;
      await app.pool.query(STOP, [chain.rail.name, reason]);
      await raiseAlert(app.pool, 'decimals_differ', asset.id, reason, app.log);
    }
  }
  return healthy(app, chain);
}

/** Whether any node of a registered chain answers; what waits for it is not lost, and `/readyz` and an alert show it. */
export async function checkHealth(app: App, chain: WiredChain): Promise<'registered' | 'degraded'> {
  const heads = await Promise.all(chain.rail.blocks.map((node) => node.latestHead()));
  await tellHeadsAhead(app, chain, heads);
  return heads.some((head) => head.ok) ? healthy(app, chain) : degraded(app, chain, 'no node answers');
}

/** A node whose head is far ahead of the database's clock frames no payment (`rails/tron/plan.ts`); people learn which it is. */
async function tellHeadsAhead(
  app: App,
  { rail }: WiredChain,
  heads: readonly Awaited<ReturnType<BlockSource['latestHead']>>[],
): Promise<void> {
  const now = (await app.pool.query<{ now: Date }>('select payonce.now() as now')).rows[0]?.now;
  if (now === undefined) return;
  for (const [index, head] of heads.entries()) {
    const source = rail.blocks[index]?.source ?? '';
    if (!head.ok || head.value.timestamp === undefined) continue;
    const key = `${rail.name}:${source}`;
    const aheadMs = head.value.timestamp * 1_000n - BigInt(now.getTime());
    if (aheadMs <= HEAD_AHEAD_MS_MAX) {
      await clearAlert(app.pool, 'node_ahead', key);
      continue;
    }
    const what = `The head of ${source} is ${aheadMs / 1_000n} s ahead of the database's clock, and is not believed`;
    await raiseAlert(app.pool, 'node_ahead', key, `${what}: look after that node, or after the clock.`, app.log);
  }
}

/** Where no sequence is kept, a wallet begins at 0 and stays there. */
async function surveyed({ rail }: WiredChain, wallets: readonly string[]): Promise<readonly SignerSurvey[]> {
  return (await rail.survey?.(wallets)) ?? wallets.map((signer) => ({ signer, nonceHead: 0n }));
}

async function healthy(app: App, chain: WiredChain): Promise<'registered'> {
  if (app.health.get(chain.rail.name) !== 'ok') await clearAlert(app.pool, 'rail_degraded', chain.rail.name);
  app.health.set(chain.rail.name, 'ok');
  return 'registered';
}

async function degraded(app: App, chain: WiredChain, why: string): Promise<'degraded'> {
  app.health.set(chain.rail.name, 'degraded');
  await raiseAlert(app.pool, 'rail_degraded', chain.rail.name, why, app.log);
  return 'degraded';
}

const MARKS = `select (select system_identifier::text from pg_control_system()) as system_identifier,
       (select timeline_id from pg_control_checkpoint()) as timeline`;
const KEEP_MARKS = `insert into payonce.database_marks (system_identifier, timeline)
values ($1, $2)
on conflict (one) do nothing`;
const KNOWN_MARKS = `select system_identifier, timeline
from payonce.database_marks`;

/** A fail-over or a restored backup may lack commits whose effects have left: all seals stop until a person signs it off. */
export async function checkDatabaseMarks(app: App): Promise<'same' | 'changed'> {
  const now = (await app.pool.query<{ system_identifier: string; timeline: number }>(MARKS)).rows[0];
  if (now === undefined) return 'same';
  await app.pool.query(KEEP_MARKS, [now.system_identifier, now.timeline]);
  const known = (await app.pool.query<{ system_identifier: string; timeline: number }>(KNOWN_MARKS)).rows[0];
  if (known === undefined || (known.system_identifier === now.system_identifier && known.timeline === now.timeline))
    return 'same';
  const reason = `the database changed: system ${known.system_identifier} timeline ${known.timeline} became ${now.system_identifier} timeline ${now.timeline}`;
  for (const rail of app.engine.rails.keys()) await app.pool.query(STOP, [rail, reason]);
  await raiseAlert(app.pool, 'database_changed', 'database', reason, app.log);
  return 'changed';
}
