/**
 * What people stop and let go on: a rail's new seals, a quarantined wallet, a database that is not the one that was signed
 * off. A stop is one person's, at once; so is letting go on, with the reason in the audit log: it sends nothing by itself,
 * each effect still goes through plan, seal and all guards. Looks, re-sends, bumps and cancels are never stopped.
 * Lock order: rail rows, signer rows, cases; the audit head last.
 */
import type { Query, Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import { needOperator, type Who } from './administration.ts';
import { audit } from './audit-log.ts';
import { liftQuarantine } from './quarantine.ts';

/** How a stop after a fail-over begins (`checkDatabaseMarks`): only the sign-off ends such a stop. */
const DATABASE_CHANGED = 'the database changed';

const LIST_RAILS = `select r.name, r.seals_stopped_at, r.seals_stopped_reason,
       (select count(*) from payonce.effects e where e.rail = r.name and e.state = 'PENDING')::int as pending,
       (select count(*) from payonce.effects e where e.rail = r.name and e.state = 'SEALED')::int as sealed
from payonce.rails r
order by r.name`;

export interface ListedRail {
  readonly name: string;
  readonly seals_stopped_at: Date | null;
  readonly seals_stopped_reason: string | null;
  readonly pending: number;
  readonly sealed: number;
}

export async function listRails(query: Query): Promise<ListedRail[]> {
  return (await query.query<ListedRail & Record<string, unknown>>(LIST_RAILS)).rows;
}

const LOCK_RAIL = `select seals_stopped_reason
from payonce.rails
where name = $1
for no key update`;

async function lockRail(tx: Tx, name: string): Promise<string | null> {
  const row = (await tx.query<{ seals_stopped_reason: string | null }>(LOCK_RAIL, [name])).rows[0];
  if (row === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no rail ${name}` });
  return row.seals_stopped_reason;
}

const STOP = `update payonce.rails
set seals_stopped_at = payonce.now(), seals_stopped_reason = $2
where name = $1`;

/** No new seal on this rail from the next one on. A stop that stands keeps its first reason. */
export async function stopRail(
  tx: Tx,
  who: Who,
  name: string,
  reason: string,
): Promise<{ outcome: 'stopped' | 'was_stopped'; reason: string }> {
  const by = await needOperator(tx, who, 'operator');
  const standing = await lockRail(tx, name);
  if (standing !== null) return { outcome: 'was_stopped', reason: standing };
  await tx.query(STOP, [name, reason]);
  await raiseAlert(tx, 'seals_stopped', name, `${name} seals nothing new: ${reason}`);
  await audit(tx, by.id, 'rail.stopped', name, { reason });
  return { outcome: 'stopped', reason };
}

const RESUME = `update payonce.rails
set seals_stopped_at = null, seals_stopped_reason = null
where name = $1`;

export async function resumeRail(
  tx: Tx,
  who: Who,
  name: string,
): Promise<{ outcome: 'resumed' | 'was_running'; reason: string | null }> {
  const by = await needOperator(tx, who, 'admin');
  const standing = await lockRail(tx, name);
  if (standing === null) return { outcome: 'was_running', reason: null };
  if (standing.startsWith(DATABASE_CHANGED)) {
    throw new PayonceError('PO_EVIDENCE_REFUSED', {
      detail: `${name} is stopped because ${standing}. Make sure that no commit is missing, then: payonce database sign-off --reason TEXT`,
    });
  }
  await tx.query(RESUME, [name]);
  await clearAlert(tx, 'seals_stopped', name);
  await audit(tx, by.id, 'rail.resumed', name, { stoppedFor: standing });
  return { outcome: 'resumed', reason: standing };
}

const STOP_ALL = `update payonce.rails
set seals_stopped_at = payonce.now(), seals_stopped_reason = $1
where seals_stopped_at is null
returning name`;

/** The machine's own stop, of every rail that still runs. */
export async function stopAllRails(query: Query, reason: string): Promise<string[]> {
  return (await query.query<{ name: string }>(STOP_ALL, [reason])).rows.map((row) => row.name);
}

/** Wallets are never deleted: one that is here stays. */
export async function needWallet(query: Query, rail: string, address: string): Promise<void> {
  const known = await query.query('select 1 from payonce.signers where rail = $1 and address = $2', [rail, address]);
  if (known.rowCount === 0)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `There is no wallet ${address} on ${rail} (payonce wallet list)`,
    });
}

const CLOSE_QUARANTINE = `update payonce.cases
set closed_at = payonce.now(), closed_how = $2
where kind = 'signer_quarantined'
  and subject_key = $1
  and closed_at is null`;

// What comparing found and nobody booked counts like the case of what the scan found, unless two persons ended that.
const UNEXPLAINED = `with chains as (
  select a.chain from payonce.asset_policies p
  join payonce.assets a on a.id = p.asset_id
  where p.rail = $1
)
select c.id as name
from payonce.cases c
join payonce.chain_transfers t on c.subject_key = t.chain || ':' || t.tx_hash || ':' || t.position
where c.kind = 'unknown_movement'
  and c.closed_at is null
  and $2 in (t.from_address, t.to_address)
  and t.chain in (select chain from chains)
union
select 'finding ' || f.id
from payonce.chain_findings f
join payonce.chain_reports r on r.id = f.report_id
where r.wallet = $2
  and r.chain in (select chain from chains)
  and f.kind in ('orphan', 'double')
  and not exists (select 1 from payonce.chain_repairs p where p.finding_key = f.finding_key)
  and not exists (select 1 from payonce.cases k where k.kind = 'unknown_movement' and k.subject_key = r.chain || ':' || f.tx_hash || ':' || f.position)
  and not exists (
    select 1 from payonce.chain_reports l
    where l.chain = r.chain and l.wallet = r.wallet and l.id > r.id and f.block_number between l.from_block and l.to_block)
order by 1`;

/**
 * The wallet may seal again. `nonceHead` is what the chain shows now: places up to it are used, so none of them is given
 * out. The person says by this that each foreign transfer has been matched; one whose case is open has not been.
 */
export async function releaseWallet(
  tx: Tx,
  key: string | null,
  wallet: { readonly rail: string; readonly address: string; readonly nonceHead: bigint; readonly reason: string },
): Promise<'released' | 'not_quarantined'> {
  const by = await needOperator(tx, key, 'approver');
  const { rail, address, nonceHead, reason } = wallet;
  await needWallet(tx, rail, address);
  const open = (await tx.query<{ name: string }>(UNEXPLAINED, [rail, address])).rows.map((row) => row.name);
  if (open.length > 0)
    throw new PayonceError('PO_EVIDENCE_REFUSED', {
      detail: `${address} has moved money without a record of ours, and ${open.join(', ')} ${open.length === 1 ? 'is' : 'are'} open: if somebody else has its key, more will go. Find out who moved it (case show), book it by two persons (reconcile chain, then repair propose), and release it then`,
    });
  if ((await liftQuarantine(tx, rail, address, nonceHead)) === 'not_quarantined') return 'not_quarantined';
  await tx.query(CLOSE_QUARANTINE, [`${rail}:${address}`, `released by ${by.name}`]);
  await clearAlert(tx, 'signer_quarantined', `${rail}:${address}`);
  await audit(tx, by.id, 'wallet.released', `${rail}:${address}`, { nonceHead: nonceHead.toString(), reason });
  return 'released';
}

const MARKS_NOW = `select (select system_identifier::text from pg_control_system()) as system_identifier,
       (select timeline_id from pg_control_checkpoint()) as timeline`;
const MARKS_KNOWN = `select system_identifier, timeline
from payonce.database_marks`;
const SIGN_OFF = `insert into payonce.database_marks (system_identifier, timeline)
values ($1, $2)
on conflict (one) do update
set system_identifier = excluded.system_identifier, timeline = excluded.timeline, signed_at = payonce.now()`;
const RESUME_AFTER_CHANGE = `update payonce.rails
set seals_stopped_at = null, seals_stopped_reason = null
where name = any (array(
  select name from payonce.rails where seals_stopped_reason like $1 order by name for no key update))
returning name`;
const CLOSE_CHANGE = `update payonce.cases
set closed_at = payonce.now(), closed_how = $1
where kind = 'database_changed'
  and closed_at is null`;

export interface DatabaseMarks {
  readonly system_identifier: string;
  readonly timeline: number;
}

export async function readMarks(query: Query): Promise<{ now: DatabaseMarks | null; known: DatabaseMarks | null }> {
  const now = (await query.query<DatabaseMarks & Record<string, unknown>>(MARKS_NOW)).rows[0];
  const known = (await query.query<DatabaseMarks & Record<string, unknown>>(MARKS_KNOWN)).rows[0];
  return { now: now ?? null, known: known ?? null };
}

export function areSameMarks(one: DatabaseMarks, other: DatabaseMarks): boolean {
  return one.system_identifier === other.system_identifier && one.timeline === other.timeline;
}

/** A person says that this database lacks no commit whose effects have left. Its marks are kept and stopped rails go on. */
export async function signOffDatabase(
  tx: Tx,
  key: string | null,
  reason: string,
): Promise<{ outcome: 'signed_off' | 'unchanged'; resumed: string[]; marks: DatabaseMarks | null }> {
  const by = await needOperator(tx, key, 'admin');
  const { now, known } = await readMarks(tx);
  if (now === null) return { outcome: 'unchanged', resumed: [], marks: null };
  const resumed = (await tx.query<{ name: string }>(RESUME_AFTER_CHANGE, [`${DATABASE_CHANGED}%`])).rows.map(
    (row) => row.name,
  );
  if (known !== null && areSameMarks(now, known) && resumed.length === 0)
    return { outcome: 'unchanged', resumed, marks: now };
  await tx.query(SIGN_OFF, [now.system_identifier, now.timeline]);
  await tx.query(CLOSE_CHANGE, [`signed off by ${by.name}: ${reason}`.slice(0, 1_000)]);
  await clearAlert(tx, 'database_changed', 'database');
  await audit(tx, by.id, 'database.signed_off', 'database', { reason, known, now, resumed });
  return { outcome: 'signed_off', resumed, marks: now };
}
