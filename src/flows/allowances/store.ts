/**
 * Statements of allowances. Lock order: that of `takeOwnMoves`; the reads here lock nothing.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import type { Relaying } from '../../engine/relayer-shortages.ts';
import type { EffectRow } from '../../engine/store.ts';

/** What one effect sets. Addresses in the rail's canonical spelling. */
export interface Setting extends Relaying {
  readonly contract: string;
  readonly units: bigint;
  /** What is set next; `null`: this is the last step. */
  readonly thenUnits: bigint | null;
  readonly lowers: boolean;
  readonly proposalId: string;
  readonly step: 1 | 2;
}

const STORE = `insert into payonce.allowances (id, proposal_id, step, rail, wallet, relayer, asset_id, units, then_units, lowers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;

export async function storeSetting(tx: Tx, id: string, one: Setting): Promise<void> {
  await tx.query(STORE, [
    id,
    one.proposalId,
    one.step,
    one.rail,
    one.wallet,
    one.relayer,
    one.assetId,
    one.units,
    one.thenUnits,
    one.lowers,
  ]);
}

const LOAD = `select l.proposal_id, l.step, l.rail, l.wallet, l.relayer, l.asset_id, a.contract, l.units, l.then_units, l.lowers
from payonce.allowances l
join payonce.assets a on a.id = l.asset_id
where l.id = any ($1::text[])
order by l.id`;

export async function loadSettings(query: Query, ids: readonly string[]): Promise<Setting[]> {
  if (ids.length === 0) return [];
  return (await query.query(LOAD, [ids])).rows.map(toSetting);
}

function toSetting(row: Row): Setting {
  return {
    proposalId: toText(row['proposal_id'], 'allowances.proposal_id'),
    step: row['step'] as 1 | 2,
    rail: toText(row['rail'], 'allowances.rail'),
    wallet: toText(row['wallet'], 'allowances.wallet'),
    relayer: toText(row['relayer'], 'allowances.relayer'),
    assetId: toText(row['asset_id'], 'allowances.asset_id'),
    contract: toText(row['contract'], 'assets.contract'),
    units: toUnits(row['units'], 'allowances.units'),
    thenUnits: row['then_units'] === null ? null : toUnits(row['then_units'], 'allowances.then_units'),
    lowers: row['lowers'] === true,
  };
}

const UNDER_WAY = `select e.id, l.relayer, count(*)::int as open
from payonce.effects e
join payonce.allowances l on l.id = e.subject_id and l.lowers
join payonce.effects p on p.rail = l.rail and p.signer = l.relayer and p.wallet = l.wallet and p.asset_id = l.asset_id
where e.id = any ($1::bigint[])
  and p.state = 'SEALED'
  and p.included_at is null
group by e.id, l.relayer`;

/** By effect: why an allowance is not lowered yet. */
export async function findUnderWay(query: Query, effects: readonly EffectRow[]): Promise<ReadonlyMap<bigint, string>> {
  const { rows } = await query.query<{ id: bigint; relayer: string; open: number }>(UNDER_WAY, [
    effects.map((one) => one.id),
  ]);
  return new Map(rows.map((row) => [row.id, `${row.open} payments that ${row.relayer} sent are in no block yet`]));
}

export interface TokenOfChain {
  readonly assetId: string;
  readonly code: string;
  readonly decimals: number;
  readonly contract: string | null;
}

const TOKEN = `select id, code, decimals, contract
from payonce.assets
where chain = $1
  and (id = $2 or code = $2)
order by id`;

export async function loadToken(query: Query, chain: string, asked: string): Promise<TokenOfChain | null> {
  const { rows } = await query.query<{ id: string; code: string; decimals: number; contract: string | null }>(TOKEN, [
    chain,
    asked,
  ]);
  const [row] = rows;
  return row === undefined ? null : { assetId: row.id, code: row.code, decimals: row.decimals, contract: row.contract };
}

const POOLED = `select exists (
         select 1 from payonce.asset_policies p
         where p.asset_id = $2 and p.rail = $1 and p.wallet = $3) as pays,
       exists (
         select 1 from payonce.asset_policies p
         where p.asset_id = $2 and p.rail = $1 and p.wallet = $3 and $4 = any (p.relayers))
       -- A multi-send's contract takes the wallet's tokens as a relayer does.
       or exists (
         select 1 from payonce.effects e
         where e.rail = $1 and e.state = 'PENDING' and e.asset_id = $2 and e.wallet = $3 and e.destination = $4
           and e.call -> 'lines' is not null) as relays,
       exists (
         select 1 from payonce.signers g
         where g.rail = $1 and g.address = $3) as signs`;

/** Whether this wallet pays this token, whether that is its relayer or a contract that a batch of it waits for, and whether the wallet is one of ours that signs. */
export async function loadStanding(
  query: Query,
  { rail, assetId, wallet, relayer }: { rail: string; assetId: string; wallet: string; relayer: string },
): Promise<{ readonly pays: boolean; readonly relays: boolean; readonly signs: boolean }> {
  const { rows } = await query.query<{ pays: boolean; relays: boolean; signs: boolean }>(POOLED, [
    rail,
    assetId,
    wallet,
    relayer,
  ]);
  return rows[0] ?? { pays: false, relays: false, signs: false };
}
