/**
 * The wallets of ours, per chain: what each is for, what waits on it, what our books say that it holds, and what its chain shows.
 *
 * One address may be a wallet on several chains; nothing of one is told of another. Deposit addresses are not listed (they are
 * many, and `collect dust` tells what lies there) unless one is in quarantine.
 */
import type { Query } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { openChain, readBalancesSomewhere, type ReconciledChain } from './reconcile/chain-read.ts';
import { loadChainAssets } from './reconcile/chain-store.ts';

// Which rail pays on a chain, the policies say; an EVM rail says it by its name too, where nothing is withdrawn.
const LIST = `with rails as (
  select distinct p.rail, a.chain
  from payonce.asset_policies p
  join payonce.assets a on a.id = p.asset_id
  union
  select 'evm:' || substr(c.chain, 8), c.chain
  from (select distinct chain from payonce.addresses where chain like 'eip155:%') c
), signing as (
  select g.rail, g.address, g.label, g.next_nonce, g.quarantined_at, g.quarantine_reason, coalesce(r.chain, g.rail) as chain
  from payonce.signers g
  left join rails r on r.rail = g.rail
), named as (
  select o.chain, o.address, o.kind, o.partner_id, r.rail
  from payonce.addresses o
  left join rails r on r.chain = o.chain
  where o.kind <> 'DEPOSIT'
)
select coalesce(s.chain, n.chain) as chain, coalesce(s.rail, n.rail) as rail, coalesce(s.address, n.address) as address,
       coalesce(n.kind, case when d.id is not null then 'DEPOSIT' else s.label end) as kind, coalesce(n.partner_id, d.partner_id) as partner_id,
       s.next_nonce, s.quarantined_at, s.quarantine_reason,
       (select count(*) from payonce.effects e
        where e.rail = s.rail and e.signer = s.address and e.state = 'PENDING')::int as pending,
       (select count(*) from payonce.effects e
        where e.rail = s.rail and e.signer = s.address and e.state = 'SEALED' and e.included_at is null)::int as unmined
from signing s
full join named n on n.chain = s.chain and n.address = s.address
left join payonce.addresses d on d.chain = s.chain and d.address = s.address and d.kind = 'DEPOSIT'
where d.id is null
   or s.quarantined_at is not null
order by 1, 4, 3`;

export interface ListedWallet {
  /** CAIP-2; of a bank or a market, its rail. */
  readonly chain: string;
  readonly rail: string | null;
  readonly address: string;
  /** MASTER, SETTLEMENT, GAS, RELAYER, ADMIN, or in words what it is at a bank or market. */
  readonly kind: string;
  readonly partner_id: string | null;
  /** `null`: it never signed. */
  readonly next_nonce: bigint | null;
  readonly quarantined_at: Date | null;
  readonly quarantine_reason: string | null;
  readonly pending: number;
  readonly unmined: number;
}

export async function listWallets(query: Query): Promise<ListedWallet[]> {
  return (await query.query<ListedWallet & Record<string, unknown>>(LIST)).rows;
}

/** Of one asset in one wallet; `units` null: nobody tells. */
export interface Held {
  readonly chain: string;
  readonly address: string;
  readonly asset: string;
  readonly decimals: number;
  readonly units: bigint | null;
}

const IN_THE_BOOKS = `select w.chain, w.address, s.code as asset, s.decimals, -a.balance as units
from unnest($1::text[], $2::text[]) as w (chain, address)
join payonce.accounts a on a.code = 'custody:' || w.chain || ':' || w.address
join payonce.assets s on s.id = a.asset_id
where a.balance <> 0
order by a.code, s.code`;

/** What our books say; the chain may differ, which reconciliation tells. */
export async function loadBooked(query: Query, wallets: readonly ListedWallet[]): Promise<Held[]> {
  const { rows } = await query.query<Held & Record<string, unknown>>(IN_THE_BOOKS, [
    wallets.map((one) => one.chain),
    wallets.map((one) => one.address),
  ]);
  return rows;
}

/** What the chains that are configured here show at their final heads; a chain that cannot be read now tells nothing. */
export async function readOnChain(
  query: Query,
  chains: readonly ReconciledChain[],
  wallets: readonly ListedWallet[],
): Promise<Held[]> {
  const held: Held[] = [];
  for (const chain of chains) {
    const here = wallets.filter((one) => one.chain === chain.chain);
    const assets = await loadChainAssets(query, chain.chain);
    const asked = here.flatMap(({ address }) => assets.map((asset) => ({ address, asset })));
    const told = asked.length === 0 ? [] : await readNow(chain, asked);
    asked.forEach(({ address, asset }, index) => {
      const units = told?.[index] ?? null;
      if (units !== 0n) held.push({ chain: chain.chain, address, asset: asset.code, decimals: asset.decimals, units });
    });
  }
  return held;
}

async function readNow(
  chain: ReconciledChain,
  asked: readonly { readonly address: string; readonly asset: { readonly contract: string | null } }[],
): Promise<readonly (bigint | null)[] | null> {
  try {
    const { nodes, to } = await openChain(chain, null);
    const holders = asked.map(({ address, asset }) => ({ address, contract: asset.contract }));
    return (await readBalancesSomewhere(nodes, to, holders)).map((one) => (one.ok ? one.value : null));
  } catch (error) {
    if (error instanceof PayonceError) return null;
    throw error;
  }
}
