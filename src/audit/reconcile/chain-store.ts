/**
 * What comparing a chain reads and writes. Reads see one snapshot each; the ledger is read as it stood at one moment by the accounts'
 * own sequence, so that what is booked meanwhile changes nothing. Written are reports, findings, alerts; never money.
 */
import { type Query, type Row, toText, toUnits } from '../../db/pool.ts';
import type { AddressKind } from '../../flows/deposits/index.ts';
import { postingKey } from '../../kernel/ids.ts';
import type { ChainFinding, EffectFact, OwnWallet, RecordFact } from './chain-match.ts';

export interface ChainAsset {
  readonly id: string;
  readonly code: string;
  readonly decimals: number;
  /** `null`: the chain's own coin. */
  readonly contract: string | null;
}

const ASSETS = `select id, code, decimals, contract
from payonce.assets
where chain = $1
order by code, id`;

export async function loadChainAssets(query: Query, chain: string): Promise<ChainAsset[]> {
  return (await query.query<ChainAsset & Record<string, unknown>>(ASSETS, [chain])).rows;
}

const OWN = `select address, kind, partner_id
from payonce.addresses
where chain = $1
  and address = any ($2::text[])`;

export async function loadOwn(
  query: Query,
  chain: string,
  addresses: readonly string[],
): Promise<Map<string, OwnWallet>> {
  const { rows } = await query.query(OWN, [chain, [...new Set(addresses)]]);
  return new Map(
    rows.map((row) => [
      toText(row['address'], 'addresses.address'),
      {
        address: toText(row['address'], 'addresses.address'),
        kind: toText(row['kind'], 'addresses.kind') as AddressKind,
        partnerId: row['partner_id'] as string | null,
      },
    ]),
  );
}

const EFFECT_COLUMNS = `e.id, e.subject_type, e.subject_id, e.partner_id, e.state, e.contradicted_at is not null as contradicted, e.asset_id,
  e.amount, e.destination, e.wallet, e.signer, e.nonce, e.call is not null as is_call,
  array(select v.hash from payonce.effect_variants v where v.effect_id = e.id and v.kind <> 'cancel' order by v.id) as hashes`;

// A cancel's transaction is its effect's too: its cost is.
const EFFECTS_NAMED = `select ${EFFECT_COLUMNS},
  array(select v.hash from payonce.effect_variants v where v.effect_id = e.id and v.kind = 'cancel' order by v.id) as cancels
from payonce.effects e
where e.id in (
  select v.effect_id from payonce.effect_variants v where v.hash = any ($2::text[])
  union
  select x.id from payonce.effects x
  join unnest($3::text[], $4::bigint[]) as n (signer, nonce) on x.rail = $1 and x.signer = n.signer and x.nonce = n.nonce)
order by e.id`;

/** By the hash of something that we signed, or by signer and nonce. */
export async function loadEffectsNamed(
  query: Query,
  rail: string,
  names: { readonly hashes: readonly string[]; readonly uses: readonly { signer: string; nonce: bigint }[] },
): Promise<EffectFact[]> {
  if (names.hashes.length === 0) return [];
  const { rows } = await query.query(EFFECTS_NAMED, [
    rail,
    names.hashes,
    names.uses.map((one) => one.signer),
    names.uses.map((one) => one.nonce),
  ]);
  return rows.map((row) => {
    const effect = toEffect(row);
    return { ...effect, hashes: [...effect.hashes, ...(row['cancels'] as string[])] };
  });
}

const SETTLED = `select ${EFFECT_COLUMNS}
from payonce.effects e
where e.rail = $1
  and e.wallet = $2
  and e.state = 'SETTLED'
  and e.amount > 0
  and e.call is null
  and e.sealed_at <= to_timestamp($4::float8) + make_interval(secs => $5)
  and e.ended_at >= to_timestamp($3::float8) - make_interval(secs => $5)
  and not exists (
    select 1 from payonce.chain_transfers t
    where t.effect_id = e.id and t.final_at is not null and t.gone_at is null and (t.block_number < $6 or t.block_number > $7))
order by e.id`;

/** A chain's clock is its miners'; a settlement comes after finality, which some chains reach late. */
const CLOCK_SECONDS = 3_600;

/** Settled effects of a wallet that may have moved in these blocks: the scan saw none of them move elsewhere. */
export async function loadSettledNear(
  query: Query,
  of: { readonly rail: string; readonly wallet: string },
  range: { readonly from: bigint; readonly to: bigint; readonly time: { first: bigint; last: bigint } },
): Promise<EffectFact[]> {
  const { rows } = await query.query(SETTLED, [
    of.rail,
    of.wallet,
    range.time.first,
    range.time.last,
    CLOCK_SECONDS,
    range.from,
    range.to,
  ]);
  return rows.map(toEffect);
}

function toEffect(row: Row): EffectFact {
  return {
    id: toUnits(row['id'], 'effects.id'),
    subjectType: toText(row['subject_type'], 'effects.subject_type'),
    subjectId: toText(row['subject_id'], 'effects.subject_id'),
    partnerId: toText(row['partner_id'], 'effects.partner_id'),
    state: row['state'] as EffectFact['state'],
    contradicted: row['contradicted'] === true,
    assetId: toText(row['asset_id'], 'effects.asset_id'),
    amount: toUnits(row['amount'], 'effects.amount'),
    destination: toText(row['destination'], 'effects.destination'),
    wallet: toText(row['wallet'], 'effects.wallet'),
    signer: toText(row['signer'], 'effects.signer'),
    nonce: row['nonce'] as bigint | null,
    isCall: row['is_call'] === true,
    hashes: row['hashes'] as string[],
  };
}

const RECORDS = `select t.id, t.tx_hash, t.position, t.class, d.id as deposit_id
from payonce.chain_transfers t
left join payonce.deposits d on d.transfer_id = t.id
where t.chain = $1
  and t.tx_hash = any ($2::text[])
  and t.final_at is not null
  and t.gone_at is null`;

/** What the scan wrote of these transactions, by `placeOf`. */
export async function loadRecords(
  query: Query,
  chain: string,
  hashes: readonly string[],
): Promise<Map<string, RecordFact>> {
  if (hashes.length === 0) return new Map();
  const { rows } = await query.query(RECORDS, [chain, hashes]);
  return new Map(
    rows.map((row) => [
      `${toText(row['tx_hash'], 'chain_transfers.tx_hash')}:${String(row['position'])}`,
      {
        transferId: toUnits(row['id'], 'chain_transfers.id'),
        class: toText(row['class'], 'chain_transfers.class'),
        depositId: row['deposit_id'] as string | null,
      },
    ]),
  );
}

const SCAN = `select next_block
from payonce.scan_cursors
where chain = $1`;

export async function loadScanNext(query: Query, chain: string): Promise<bigint | null> {
  return (await query.query<{ next_block: bigint }>(SCAN, [chain])).rows[0]?.next_block ?? null;
}

/** A wallet's custody account as it stood: what it had, and after which of its entries. */
export interface Custody {
  readonly accountId: bigint;
  readonly wallet: string;
  readonly assetId: string;
  /** Units that we have there. */
  readonly booked: bigint;
  readonly seq: bigint;
}

const CUSTODY = `select a.id, a.asset_id, -a.balance as booked, a.seq, substr(a.code, char_length($1::text) + 1) as wallet
from payonce.accounts a
where a.code = any (array(select $1 || w from unnest($2::text[]) as w))`;

export async function loadCustodyNow(query: Query, chain: string, wallets: readonly string[]): Promise<Custody[]> {
  const { rows } = await query.query(CUSTODY, [`custody:${chain}:`, wallets]);
  return rows.map((row) => ({
    accountId: toUnits(row['id'], 'accounts.id'),
    wallet: toText(row['wallet'], 'accounts.code'),
    assetId: toText(row['asset_id'], 'accounts.asset_id'),
    booked: toUnits(row['booked'], 'accounts.balance'),
    seq: toUnits(row['seq'], 'accounts.seq'),
  }));
}

const BOOKED_BY_EFFECT = `select e.account_id, p.effect_id, -sum(e.amount) as booked,
       coalesce(sum(e.amount) filter (where p.idem_key like 'GAS:%'), 0) as gas
from payonce.postings p
join payonce.ledger_entries e on e.posting_id = p.id
join unnest($1::bigint[], $2::bigint[]) as c (account_id, seq) on c.account_id = e.account_id and e.seq <= c.seq
where p.effect_id = any ($3::bigint[])
group by e.account_id, p.effect_id`;

const BOOKED_BY_KEY = `select e.account_id, -sum(e.amount) as booked
from payonce.postings p
join payonce.ledger_entries e on e.posting_id = p.id
join unnest($1::bigint[], $2::bigint[]) as c (account_id, seq) on c.account_id = e.account_id and e.seq <= c.seq
where p.idem_key = any ($3::text[])
   or p.id in (select r.posting_id from payonce.chain_repairs r where r.tx_hash = any ($4::text[]))
group by e.account_id`;

export interface BookedThere {
  /** Units by account, of everything that is asked about. */
  readonly byAccount: ReadonlyMap<bigint, bigint>;
  /** Gas by account and effect. */
  readonly gas: ReadonlyMap<bigint, ReadonlyMap<bigint, bigint>>;
}

/** What the ledger booked at these accounts, until their seq, for these effects, the scan's records and repairs. */
export async function loadBookedFor(
  query: Query,
  accounts: readonly Custody[],
  of: {
    readonly effectIds: readonly bigint[];
    readonly records: readonly RecordFact[];
    readonly hashes: readonly string[];
  },
): Promise<BookedThere> {
  const [ids, seqs] = [accounts.map((one) => one.accountId), accounts.map((one) => one.seq)];
  const byAccount = new Map<bigint, bigint>();
  const gas = new Map<bigint, Map<bigint, bigint>>();
  const add = (row: Row): void => {
    const account = toUnits(row['account_id'], 'account_id');
    byAccount.set(account, (byAccount.get(account) ?? 0n) + toUnits(row['booked'], 'booked'));
  };
  for (const row of (await query.query(BOOKED_BY_EFFECT, [ids, seqs, of.effectIds])).rows) {
    add(row);
    const account = toUnits(row['account_id'], 'account_id');
    const there = gas.get(account) ?? new Map<bigint, bigint>();
    there.set(toUnits(row['effect_id'], 'effect_id'), toUnits(row['gas'], 'gas'));
    gas.set(account, there);
  }
  const keys = of.records.flatMap(({ transferId, depositId }) => [
    postingKey.depositSuspense(transferId),
    postingKey.depositMove(transferId),
    postingKey.depositClaim(transferId),
    ...(depositId === null ? [] : [postingKey.depositCredit(depositId), postingKey.depositReversal(depositId)]),
  ]);
  for (const row of (await query.query(BOOKED_BY_KEY, [ids, seqs, keys, of.hashes])).rows) add(row);
  return { byAccount, gas };
}

/** What two persons booked of a finding. */
export interface RepairFact {
  readonly key: string;
  readonly bookedAs: string;
  readonly proposalId: string;
  readonly by: readonly [string, string];
}

const REPAIRS = `select r.finding_key, r.booked_as, r.proposal_id, f.name as first, s.name as second
from payonce.chain_repairs r
join payonce.proposals p on p.id = r.proposal_id
join payonce.operators f on f.id = p.proposed_by
join payonce.operators s on s.id = p.approved_by
where r.finding_key = any ($1::text[])`;

export async function loadRepairs(query: Query, keys: readonly string[]): Promise<Map<string, RepairFact>> {
  if (keys.length === 0) return new Map();
  const { rows } = await query.query(REPAIRS, [keys]);
  return new Map(
    rows.map((row) => [
      toText(row['finding_key'], 'finding_key'),
      {
        key: toText(row['finding_key'], 'finding_key'),
        bookedAs: toText(row['booked_as'], 'booked_as'),
        proposalId: toText(row['proposal_id'], 'proposal_id'),
        by: [toText(row['first'], 'operators.name'), toText(row['second'], 'operators.name')],
      },
    ]),
  );
}

const REPORT = `insert into payonce.chain_reports (chain, wallet, from_block, to_block, to_hash, findings, report)
values ($1, $2, $3, $4, $5, $6, $7)
returning id`;

const FINDINGS = `insert into payonce.chain_findings
  (report_id, finding_key, kind, direction, partner_id, asset_id, amount, block_number, tx_hash, position, effect_id, detail)
select $1, finding_key, kind, direction, partner_id, asset_id, amount, block_number, tx_hash, position, effect_id, detail
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::numeric[], $8::bigint[], $9::text[], $10::int[], $11::bigint[], $12::text[])
  with ordinality as f (finding_key, kind, direction, partner_id, asset_id, amount, block_number, tx_hash, position, effect_id, detail, n)
order by n
returning id`;

/** Answers the report's id and its findings' ids, in order. */
export async function storeChainReport(
  query: Query,
  report: {
    readonly chain: string;
    readonly wallet: string;
    readonly from: bigint;
    readonly to: bigint;
    readonly toHash: string;
    readonly json: string;
  },
  findings: readonly ChainFinding[],
): Promise<{ reportId: bigint; findingIds: readonly bigint[] }> {
  const { chain, wallet, from, to, toHash, json } = report;
  const { rows } = await query.query(REPORT, [chain, wallet, from, to, toHash, findings.length, json]);
  const reportId = toUnits(rows[0]?.['id'], 'chain_reports.id');
  if (findings.length === 0) return { reportId, findingIds: [] };
  const made = await query.query<{ id: bigint }>(FINDINGS, [
    reportId,
    findings.map((one) => one.key),
    findings.map((one) => one.kind),
    findings.map((one) => one.direction),
    findings.map((one) => one.partnerId),
    findings.map((one) => one.assetId),
    findings.map((one) => one.amount),
    findings.map((one) => one.blockNumber),
    findings.map((one) => one.txHash),
    findings.map((one) => one.position),
    findings.map((one) => one.effect?.id ?? null),
    findings.map((one) => one.detail.slice(0, 1_000)),
  ]);
  return { reportId, findingIds: made.rows.map((row) => row.id) };
}

// What this run covers it has judged itself. The ledger is compared as a whole by every run that comes to the head.
const UNSEEN = `select 1
from payonce.chain_reports r
join payonce.alerts a on a.kind = 'chain_reconcile' and a.key = $1 || ':' || $2 and a.cleared_at is null and r.made_at >= a.first_at
join payonce.chain_findings f on f.report_id = r.id
where r.chain = $1
  and r.wallet = $2
  and not exists (select 1 from payonce.chain_repairs p where p.finding_key = f.finding_key)
  and case when f.kind = 'ledger' then not $5::boolean
           when f.block_number is not null then f.block_number not between $3 and $4
           else r.from_block < $3 or r.to_block > $4 end
limit 1`;

/** Nothing that was found since the alert is open outside of what this run covers. */
export async function coversAllFound(
  query: Query,
  of: { readonly chain: string; readonly wallet: string; readonly from: bigint; readonly to: bigint },
  comparedLedger: boolean,
): Promise<boolean> {
  return (await query.query(UNSEEN, [of.chain, of.wallet, of.from, of.to, comparedLedger])).rowCount === 0;
}

// Of runs over the same blocks the first counts: the earlier a balance was told, the more of the range it proves.
const TOLD_BEFORE = `select a ->> 'asset_id' as asset_id, (a -> 'told' ->> 'units')::numeric as units, (a -> 'told' ->> 'block')::bigint as block,
  a -> 'told' ->> 'hash' as hash
from payonce.chain_reports r
cross join jsonb_array_elements(r.report -> 'assets') a
where r.chain = $1
  and r.wallet = $2
  and jsonb_typeof(a -> 'told') = 'object'
  and (a -> 'told' ->> 'block')::bigint >= $3
  and (a -> 'told' ->> 'block')::bigint < $4
order by block, r.id`;

/** A balance that an earlier run was told by the chain. */
export interface ToldBefore {
  readonly assetId: string;
  readonly units: bigint;
  readonly block: bigint;
  readonly hash: string;
}

/** From the block before the range on, and before its last; the earliest first. */
export async function loadToldBefore(
  query: Query,
  chain: string,
  wallet: string,
  range: { readonly from: bigint; readonly to: { readonly number: bigint } },
): Promise<ToldBefore[]> {
  const { rows } = await query.query(TOLD_BEFORE, [chain, wallet, range.from - 1n, range.to.number]);
  return rows.map((row) => ({
    assetId: toText(row['asset_id'], 'chain_reports.asset_id'),
    units: toUnits(row['units'], 'chain_reports.units'),
    block: toUnits(row['block'], 'chain_reports.block'),
    hash: toText(row['hash'], 'chain_reports.hash'),
  }));
}

const FIRST_BLOCK = `select coalesce(
  (select c.next_block from payonce.chain_checks c where c.chain = $1 and c.wallet = $2),
  (select max(r.to_block) + 1 from payonce.chain_reports r where r.chain = $1 and r.wallet = $2),
  (select min(b.number) from payonce.scanned_blocks b where b.chain = $1)) as block`;

/** After what was compared before; for a wallet that never was, where the scan's own memory begins. */
export async function loadFirstBlock(query: Query, chain: string, wallet: string): Promise<bigint | null> {
  return (await query.query<{ block: bigint | null }>(FIRST_BLOCK, [chain, wallet])).rows[0]?.block ?? null;
}
