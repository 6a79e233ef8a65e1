/**
 * Comparing wallets with their chains without being asked: each wallet of ours but deposit addresses once an hour from where the last
 * run ended (with an overlap), and at once where a payment waits because the wallet has less than the ledger says (R14). Any number
 * of processes may run it: a row's time is moved on before the work, so one of them does it.
 */
import type { Pool } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { endWaitAlerts } from '../../engine/wait.ts';
import type { Log } from '../../kernel/log.ts';
import { reconcileChain } from './chain.ts';
import type { ReconciledChain } from './chain-read.ts';
import type { ChainReport } from './chain-report.ts';

/** Between two runs of a wallet. Longer: a double is known so much later; shorter: the same balances are asked for again. */
const EVERY_SECONDS = 3_600;
/** A run that died leaves its wallets to the next one after this; too short: two processes read the same blocks. */
const CLAIM_SECONDS = 900;
/** A shortage that goes on is not looked at more often than this. */
const HURRY_SECONDS = 600;
/** What ended just before the last block was perhaps not settled or scanned here then: it is read again. */
const OVERLAP_BLOCKS = 200n;

const KNOW = `insert into payonce.chain_checks (chain, wallet, next_at)
select a.chain, a.address, payonce.now() + make_interval(secs => $2)
from payonce.addresses a
where a.chain = $1
  and a.kind <> 'DEPOSIT'
  and not exists (select 1 from payonce.chain_checks c where c.chain = a.chain and c.wallet = a.address)
order by a.address
on conflict (chain, wallet) do nothing`;

// The alert is the plan's own (engine/wait.ts): `{rail}:ONCHAIN_INSUFFICIENT:{wallet}`, raised again at each try.
const HURRY = `insert into payonce.chain_checks (chain, wallet, next_at, hurried_at)
select $1, w.address, payonce.now(), payonce.now()
from (
  select substr(a.key, char_length($2 || ':ONCHAIN_INSUFFICIENT:') + 1) as address
  from payonce.alerts a
  where a.kind = 'onchain_insufficient'
    and a.cleared_at is null
    and starts_with(a.key, $2 || ':ONCHAIN_INSUFFICIENT:')) w
join payonce.addresses o on o.chain = $1 and o.address = w.address
order by w.address
on conflict (chain, wallet) do update
set next_at = excluded.next_at, hurried_at = excluded.hurried_at
where payonce.chain_checks.hurried_at is null
   or payonce.chain_checks.hurried_at < payonce.now() - make_interval(secs => $3)`;

const CLAIM = `update payonce.chain_checks c
set next_at = payonce.now() + make_interval(secs => $2)
where (c.chain, c.wallet) in (
  select d.chain, d.wallet
  from payonce.chain_checks d
  where d.chain = $1
    and d.next_at <= payonce.now()
  order by d.wallet
  for update skip locked)
returning c.wallet`;

const DONE = `update payonce.chain_checks
set next_block = greatest(next_block, $3), next_at = payonce.now() + make_interval(secs => $4)
where chain = $1
  and wallet = any ($2::text[])`;

/** Two runs that failed in a row. Sooner: each short outage of a node is an alert; later: a double is not found meanwhile. */
const UNCOMPARED_SECONDS = EVERY_SECONDS + CLAIM_SECONDS;
const UNCOMPARED = `select u.wallet, r.made_at
from unnest($2::text[]) as u (wallet)
left join lateral (
  select l.made_at
  from payonce.chain_reports l
  where l.chain = $1 and l.wallet = u.wallet
  order by l.id desc
  limit 1) r on true
where r.made_at is null
   or r.made_at < payonce.now() - make_interval(secs => $3)
order by u.wallet`;
const ALERT_UNCOMPARED = 'chain_uncompared';

export interface ChainWatch {
  /** Wallets that are due now, of all chains; answers their reports. */
  runOnce(): Promise<readonly ChainReport[]>;
}

export function makeChainWatch(
  deps: { readonly pool: Pool; readonly log: Log },
  chains: readonly ReconciledChain[],
): ChainWatch {
  return {
    async runOnce() {
      const reports: ChainReport[] = [];
      for (const chain of chains) reports.push(...(await watchOne(deps, chain)));
      return reports;
    },
  };
}

async function watchOne(
  deps: { readonly pool: Pool; readonly log: Log },
  chain: ReconciledChain,
): Promise<readonly ChainReport[]> {
  const { pool, log } = deps;
  await pool.query(KNOW, [chain.chain, EVERY_SECONDS]);
  await endWaitAlerts(pool, chain.rail);
  await pool.query(HURRY, [chain.chain, chain.rail, HURRY_SECONDS]);
  const due = (await pool.query<{ wallet: string }>(CLAIM, [chain.chain, CLAIM_SECONDS])).rows.map((row) => row.wallet);
  if (due.length === 0) return [];
  try {
    const reports = await reconcileChain(deps, chain, { wallets: due.toSorted() });
    const [first] = reports;
    if (first !== undefined) {
      const next = first.to - OVERLAP_BLOCKS + 1n;
      // Never before where comparing began: what moved earlier is in the opening, and no record of the scan.
      await pool.query(DONE, [chain.chain, due, next < first.from ? first.from : next, EVERY_SECONDS]);
      for (const wallet of due) await clearAlert(pool, ALERT_UNCOMPARED, `${chain.chain}:${wallet}`);
    }
    return reports;
  } catch (error) {
    // A node that is down, a block that does not read, a scan that never ran: the rows come up again after the claim.
    const why = error instanceof Error ? error.message : 'unknown fault';
    log.warn({ chain: chain.chain, why }, 'wallets could not be compared with their chain now');
    await tellUncompared(deps, chain.chain, due, why);
    return [];
  }
}

/** Without comparing, a double or an outflow of somebody else may stay unknown: people learn that nobody looks. */
async function tellUncompared(
  { pool, log }: { readonly pool: Pool; readonly log: Log },
  chain: string,
  wallets: readonly string[],
  why: string,
): Promise<void> {
  const { rows } = await pool.query<{ wallet: string; made_at: Date | null }>(UNCOMPARED, [
    chain,
    wallets,
    UNCOMPARED_SECONDS,
  ]);
  for (const { wallet, made_at: madeAt } of rows) {
    const since = madeAt === null ? 'never been' : `not been since ${madeAt.toISOString()}`;
    const message = `${wallet} has ${since} compared with ${chain}, so what leaves it without a record may stay unknown: ${why}`;
    await raiseAlert(pool, ALERT_UNCOMPARED, `${chain}:${wallet}`, message, log);
  }
}
