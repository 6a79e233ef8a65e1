/**
 * Groups, markets and routes of the configuration become rows, again at each start. What is no longer configured stays on record
 * and is stopped: orders name it. Who belongs to a group is a matter of people (`payonce p2p join`), not of this file.
 */
import type { Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { parseAmount } from '../kernel/money.ts';
import type { WrittenGroup } from './config-p2p-shape.ts';
import { escrowRail } from './config-p2p.ts';
import type { App } from './wire.ts';

const PAY_WITHIN_MINUTES = 15;
const ORDER_FOR_MINUTES = 60;

const GROUP = `insert into payonce.p2p_groups (name)
values ($1)
on conflict (name) do nothing`;
const STOP_MARKETS = `update payonce.p2p_markets
set stopped_at = coalesce(stopped_at, payonce.now())`;
const STOP_ROUTES = `update payonce.p2p_routes
set is_enabled = false`;
const MARKET = `insert into payonce.p2p_markets
  (group_name, asset_id, fiat, fiat_decimals, order_min, order_max, leg_min, fee_bp, pay_within_ms, order_for_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (group_name, asset_id, fiat) do update
set order_min = excluded.order_min, order_max = excluded.order_max, leg_min = excluded.leg_min, fee_bp = excluded.fee_bp,
    pay_within_ms = excluded.pay_within_ms, order_for_ms = excluded.order_for_ms, stopped_at = null
where p2p_markets.fiat_decimals = excluded.fiat_decimals`;
const ROUTE = `insert into payonce.p2p_routes (group_name, asset_id, fiat, partner_id, rail, account, priority, min, max, is_enabled)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (group_name, asset_id, fiat, partner_id, rail) do update
set account = excluded.account, priority = excluded.priority, min = excluded.min, max = excluded.max, is_enabled = excluded.is_enabled`;
const ACCOUNT = `insert into payonce.signers (rail, address, label, next_nonce)
values ($1, $2, 'account at the escrow provider', 0)
on conflict (rail, address) do nothing`;

/** Durable on return; throws PO_CONFIG_INVALID with every fault. */
export async function registerP2p(app: App): Promise<void> {
  const { escrows, p2p } = app.config;
  const assets = app.chains.flatMap((chain) => chain.assets);
  const faults: string[] = [];
  const rows = p2p.map((group, index) => readGroup(group, `p2p[${index}]`, assets, faults));
  if (faults.length > 0)
    throw new PayonceError('PO_CONFIG_INVALID', { detail: faults.map((one) => `PAYONCE_CONFIG: ${one}`).join('\n') });
  await app.pool.tx('register p2p', async (tx) => {
    await tx.query(STOP_ROUTES);
    await tx.query(STOP_MARKETS);
    for (const { name, account } of escrows) await tx.query(ACCOUNT, [escrowRail(name), account]);
    for (const group of rows) await storeGroup(tx, app, group);
  });
}

type Asset = { readonly id: string; readonly code: string; readonly decimals: number };

interface GroupRows {
  readonly name: string;
  readonly markets: readonly unknown[][];
  readonly routes: readonly { readonly escrow: string; readonly values: readonly unknown[] }[];
}

function readGroup(group: WrittenGroup, place: string, assets: readonly Asset[], faults: string[]): GroupRows {
  const assetOf = (field: string, name: string): Asset | null => {
    const found = assets.filter((one) => one.id === name || one.code === name);
    const [asset] = found;
    if (asset !== undefined && found.length === 1) return asset;
    faults.push(
      found.length === 0
        ? `${place}.${field}: got "${name}", expected an asset of "chains" or "tron"`
        : `${place}.${field}: got "${name}", which ${found.map((one) => one.id).join(' and ')} are called; name it by its id`,
    );
    return null;
  };
  const units = (field: string, text: string, { decimals }: Asset): bigint => {
    const parsed = parseAmount(text, decimals);
    if (parsed.ok && parsed.units > 0n) return parsed.units;
    faults.push(`${place}.${field}: got "${text}", expected ${parsed.ok ? 'more than zero' : parsed.expected}`);
    return 1n;
  };
  return {
    name: group.name,
    markets: group.markets.flatMap((market, at) => {
      const field = `markets[${at}]`;
      const asset = assetOf(`${field}.asset`, market.asset);
      if (asset === null) return [];
      const [min, max, legMin] = (['orderMin', 'orderMax', 'legMin'] as const).map((name) =>
        units(`${field}.${name}`, market[name], asset),
      );
      if ((max ?? 0n) < (min ?? 0n)) faults.push(`${place}.${field}.orderMax: it is below "orderMin"`);
      if ((legMin ?? 0n) > (min ?? 0n)) faults.push(`${place}.${field}.legMin: it is above "orderMin"`);
      const payWithin = (market.payWithinMinutes ?? PAY_WITHIN_MINUTES) * 60_000;
      const orderFor = (market.orderForMinutes ?? ORDER_FOR_MINUTES) * 60_000;
      const { fiat, fiatDecimals, feeBasisPoints } = market;
      return [[group.name, asset.id, fiat, fiatDecimals, min, max, legMin, feeBasisPoints, payWithin, orderFor]];
    }),
    routes: (group.routes ?? []).flatMap((route, at) => {
      const field = `routes[${at}]`;
      const asset = assetOf(`${field}.asset`, route.asset);
      if (asset === null) return [];
      const [min, max] = (['min', 'max'] as const).map((name) => units(`${field}.${name}`, route[name], asset));
      if ((max ?? 0n) < (min ?? 0n)) faults.push(`${place}.${field}.max: it is below "min"`);
      const values = [route.priority, min, max, route.enabled ?? true];
      return [{ escrow: route.escrow, values: [group.name, asset.id, route.fiat, route.partner ?? '*', ...values] }];
    }),
  };
}

async function storeGroup(tx: Tx, app: App, { name, markets, routes }: GroupRows): Promise<void> {
  await tx.query(GROUP, [name]);
  for (const market of markets) {
    if ((await tx.query(MARKET, market)).rowCount === 0)
      throw new PayonceError('PO_CONFIG_INVALID', {
        detail: `PAYONCE_CONFIG: p2p group ${name}: ${String(market[2])} is registered with other "fiatDecimals"; they are frozen`,
      });
  }
  for (const { escrow, values } of routes) {
    const account = app.config.escrows.find((one) => one.name === escrow)?.account ?? '';
    await tx.query(ROUTE, [...values.slice(0, 4), escrowRail(escrow), account, ...values.slice(4)]);
  }
}
