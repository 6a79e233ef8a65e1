/** The partner's books over HTTP: balances, the statement of an account, and the terms of each asset. */
import { formatUnits } from '../../kernel/money.ts';
import { loadBalances, loadEntries, type PartnerBalance, type StatementEntry } from '../../ledger/statements.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import * as schemas from '../schemas.ts';
import { type Asset, type AssetTerms, findAssets, listAssets } from '../store.ts';
import type { Routes } from './routes.ts';

export function ledgerRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const tags = ['ledger'];

  app.get(
    '/balances',
    {
      schema: {
        tags,
        operationId: 'listBalances',
        summary: 'What you have, per asset',
        description: 'available = balance − held; held is what open withdrawals have set aside, fees included.',
        querystring: schemas.PageQuery,
        response: { 200: schemas.pageOf(schemas.Balance), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const name = { list: 'balances', partnerId };
      const after = fromCursor(name, request.query.cursor, [PLACE.number])?.[0];
      const limit = pageItems(request.query.limit);
      const all = await loadOwn(deps, partnerId);
      // An account's id stays, whatever is opened in between.
      const start = after === undefined ? 0 : all.findIndex((one) => one.accountId.toString() === after) + 1;
      const rows = all.slice(start, start + limit + 1);
      const assets = await findAssets(
        deps.pool,
        rows.map((one) => one.assetId),
      );
      return toPage(
        rows.map((balance, index) => ({ balance, asset: assets[index] ?? null })),
        limit,
        (row) => toBalance(row.balance, row.asset),
        (row) => toCursor(name, [row.balance.accountId.toString()]),
      );
    },
  );

  app.get(
    '/entries',
    {
      schema: {
        tags,
        operationId: 'listEntries',
        summary: "The statement of an asset's account, newest first",
        description: 'Positive is credit. Each line carries the balance after it; seq has no gaps.',
        querystring: schemas.EntryQuery,
        response: { 200: schemas.pageOf(schemas.Entry), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const asset = await assetOf(findAsset, request.query.asset, '/query/asset');
      const name = { list: `entries ${asset.id}`, partnerId };
      const cursor = fromCursor(name, request.query.cursor, [PLACE.text])?.[0];
      const account = (await loadOwn(deps, partnerId)).find((one) => one.assetId === asset.id);
      if (account === undefined) return { items: [], next: null };
      const page = await loadEntries(deps.pool, account.accountId, {
        itemsMax: pageItems(request.query.limit),
        ...(cursor === undefined ? {} : { cursor }),
      });
      return {
        items: page.entries.map((entry) => toEntry(entry, asset)),
        next: page.next === null ? null : toCursor(name, [page.next]),
      };
    },
  );

  app.get(
    '/assets',
    {
      schema: {
        tags,
        operationId: 'listAssets',
        summary: 'Assets, with your limits and fees',
        querystring: schemas.PageQuery,
        response: { 200: schemas.pageOf(schemas.AssetTermsItem), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const name = { list: 'assets', partnerId };
      const after = fromCursor(name, request.query.cursor, [PLACE.text])?.[0] ?? null;
      const limit = pageItems(request.query.limit);
      const rows = await listAssets(deps.pool, partnerId, { after, limit: limit + 1 });
      return toPage(
        rows,
        limit,
        (row) => ({ ...toTerms(row), paid_out_by: wayOf(deps, row) }),
        (row) => toCursor(name, [row.id]),
      );
    },
  );
}

/** The one account per asset that is the partner's own. */
async function loadOwn(deps: ApiDeps, partnerId: string): Promise<PartnerBalance[]> {
  return (await loadBalances(deps.pool, partnerId)).filter((one) => one.code === `partner:${partnerId}`);
}

function toBalance(one: PartnerBalance, asset: Asset | null): object {
  const decimals = asset?.decimals ?? 0;
  return {
    asset: asset?.code ?? one.assetId,
    asset_id: one.assetId,
    balance: formatUnits(one.balance, decimals),
    held: formatUnits(one.held, decimals),
    available: formatUnits(one.available, decimals),
    deficit: formatUnits(one.deficit, decimals),
  };
}

function toEntry(entry: StatementEntry, asset: Asset): object {
  return {
    seq: entry.seq.toString(),
    asset: asset.code,
    amount: formatUnits(entry.amount, asset.decimals),
    balance_after: formatUnits(entry.balanceAfter, asset.decimals),
    key: entry.key,
    reference: entry.reference,
    at: entry.createdAt.toISOString(),
  };
}

/** Where it is paid out; null where it is not. */
function wayOf(deps: ApiDeps, { id, terms }: AssetTerms): string | null {
  if (terms === null) return null;
  return deps.readPayee(id) === null ? '/v1/withdrawals' : '/v1/transfers';
}

function toTerms(asset: AssetTerms): object {
  const { terms, decimals } = asset;
  const units = (amount: bigint): string => formatUnits(amount, decimals);
  return {
    id: asset.id,
    code: asset.code,
    chain: asset.chain,
    contract: asset.contract,
    decimals,
    withdrawal:
      terms === null
        ? null
        : {
            min: units(terms.withdrawalMin),
            max: units(terms.withdrawalMax),
            day_max: units(terms.withdrawalDayMax),
            fee_flat: units(terms.withdrawalFeeFlat),
            fee_basis_points: terms.withdrawalFeeBasisPoints,
          },
    deposit: {
      fee_flat: units(terms?.depositFeeFlat ?? 0n),
      fee_basis_points: terms?.depositFeeBasisPoints ?? 0,
    },
  };
}
