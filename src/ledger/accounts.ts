/**
 * The chart of accounts. An account is named by a code and an asset; its id is looked up once and never changes, so it
 * is remembered in process (`makeChart`).
 *
 *   partner:{id}            what we owe the partner, floor 0
 *   p2p:{id}                what the partner's sellers have set aside for their orders, floor 0
 *   lp:{rail}               what a liquidity provider released to us (negative), until it arrives in a wallet
 *   fees                    what we earned, floor 0 is not set: a refund may come before the next fee
 *   custody:{chain}:{addr}  what a wallet or address of ours holds (negative = we have it)
 *   gas                     what the chains burned
 *   suspense                inflows and outflows that belong to nobody yet
 *   loss                    what was paid and must not have been
 *   treasury                money of our own in the wallets: opening balances, top-ups
 */
import type { Query } from '../db/pool.ts';

export interface AccountName {
  readonly code: string;
  readonly assetId: string;
  readonly partnerId?: string;
  /** Units below which available may not go; absent: no floor. */
  readonly floor?: bigint;
}

export const accountName = {
  partner: (partnerId: string, assetId: string): AccountName => ({
    code: `partner:${partnerId}`,
    assetId,
    partnerId,
    floor: 0n,
  }),
  setAside: (partnerId: string, assetId: string): AccountName => ({ code: `p2p:${partnerId}`, assetId, floor: 0n }),
  lp: (rail: string, assetId: string): AccountName => ({ code: `lp:${rail}`, assetId }),
  custody: (chain: string, address: string, assetId: string): AccountName => ({
    code: `custody:${chain}:${address}`,
    assetId,
  }),
  fees: (assetId: string): AccountName => ({ code: 'fees', assetId }),
  gas: (assetId: string): AccountName => ({ code: 'gas', assetId }),
  suspense: (assetId: string): AccountName => ({ code: 'suspense', assetId }),
  loss: (assetId: string): AccountName => ({ code: 'loss', assetId }),
  treasury: (assetId: string): AccountName => ({ code: 'treasury', assetId }),
} as const;

const CREATE = `insert into payonce.accounts (code, asset_id, partner_id, floor)
select code, asset_id, partner_id, floor
from unnest($1::text[], $2::text[], $3::text[], $4::numeric[]) as n (code, asset_id, partner_id, floor)
order by code, asset_id
on conflict (code, asset_id) do nothing`;

const FIND = `select a.id, a.code, a.asset_id
from payonce.accounts a
join unnest($1::text[], $2::text[]) as n (code, asset_id) on n.code = a.code and n.asset_id = a.asset_id`;

export interface Chart {
  /** The ids of these accounts, created where they are new (in `query`'s transaction, if it is one). */
  ids(query: Query, names: readonly AccountName[]): Promise<bigint[]>;
}

export function makeChart(): Chart {
  const known = new Map<string, bigint>();
  const keyOf = (code: string, assetId: string): string => `${assetId}\n${code}`;
  return {
    async ids(query, names) {
      const fresh = new Map(
        names
          .filter((name) => !known.has(keyOf(name.code, name.assetId)))
          .map((name) => [keyOf(name.code, name.assetId), name]),
      );
      const found = new Map<string, bigint>();
      if (fresh.size > 0) {
        const list = [...fresh.values()];
        const codes = list.map((name) => name.code);
        const assets = list.map((name) => name.assetId);
        await query.query(CREATE, [
          codes,
          assets,
          list.map((name) => name.partnerId ?? null),
          list.map((name) => name.floor ?? null),
        ]);
        const { rows } = await query.query<{ id: bigint; code: string; asset_id: string }>(FIND, [codes, assets]);
        for (const row of rows) found.set(keyOf(row.code, row.asset_id), row.id);
        // Remembered only once the creating transaction has committed: an id that was rolled back names nothing.
        const remember = (): void => {
          for (const [key, id] of found) known.set(key, id);
        };
        if ('afterCommit' in query) (query as { afterCommit(act: () => void): void }).afterCommit(remember);
        else remember();
      }
      return names.map((name) => {
        const id = known.get(keyOf(name.code, name.assetId)) ?? found.get(keyOf(name.code, name.assetId));
        if (id === undefined) throw new Error(`account ${name.code} in ${name.assetId} could not be made`);
        return id;
      });
    },
  };
}
