/**
 * A chain whose final blocks are in doubt seals nothing new (design §2): what a seal refers to, and what a look will call final,
 * must be one chain.
 *
 * Broken finality (a final block is another one than it was) is stopped until a person lets the rail go on. Nodes that show two
 * final blocks of one height are a doubt that passes: the rail goes on by itself when they agree, if nothing else stopped it.
 * Looks, re-sends and cancels of what is sealed are never stopped.
 * Lock order: the rail's row; the caller may hold the cursor of the chain's scan, which no seal takes.
 */
import type { Tx } from '../db/pool.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Log } from '../kernel/log.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import { openCase } from './cases.ts';

/** How a stop begins that ends by itself. */
const DISAGREE = 'its nodes disagree';

const STOP = `update payonce.rails
set seals_stopped_at = payonce.now(), seals_stopped_reason = $2
where name = $1
  and seals_stopped_at is null`;

/** A passing doubt that turns out to be none: the stop is a person's from now on. */
const BECOMES_BROKEN = `update payonce.rails
set seals_stopped_reason = $2
where name = $1
  and seals_stopped_reason like '${DISAGREE}%'`;

const GO_ON = `update payonce.rails
set seals_stopped_at = null, seals_stopped_reason = null
where name = $1
  and seals_stopped_reason like '${DISAGREE}%'`;

const CLOSE_CASE = `update payonce.cases
set closed_at = payonce.now(), closed_how = 'its nodes agree again'
where kind = 'broken_finality'
  and subject_key = $1
  and closed_at is null`;

interface TellDeps {
  readonly makeId: MakeId;
  readonly log: Log;
}

/** No new seal of the rail until a person resumes it. A stop that stands keeps its first reason. */
export async function stopOnBrokenFinality(tx: Tx, rail: string, why: string, log: Log): Promise<void> {
  const reason = `finality was broken: ${why}`;
  const stopped =
    (await tx.query(STOP, [rail, reason])).rowCount + (await tx.query(BECOMES_BROKEN, [rail, reason])).rowCount;
  if (stopped > 0) await raiseAlert(tx, 'seals_stopped', rail, `${rail} seals nothing new: ${reason}`, log);
}

/** No new seal of the rail until its nodes agree (`goOnAfterDisagreement`) or a person resumes it; with a case of the chain. */
export async function stopWhileNodesDisagree(
  tx: Tx,
  deps: TellDeps,
  at: { readonly rail: string; readonly chain: string; readonly why: string },
): Promise<void> {
  const { rail, chain, why } = at;
  const reason = `${DISAGREE}: ${why}`;
  const summary = `Nodes of ${chain} show two final blocks of one height: ${why}. New payments on it wait until they agree; find out which node follows another chain.`;
  await openCase(tx, deps.makeId, { kind: 'broken_finality', severity: 2, subjectKey: caseKey(chain), summary });
  if ((await tx.query(STOP, [rail, reason])).rowCount === 1)
    await raiseAlert(tx, 'seals_stopped', rail, `${rail} seals nothing new: ${reason}`, deps.log);
}

/** The nodes agree on the block that they disagreed about. Another stop stands. */
export async function goOnAfterDisagreement(
  tx: Tx,
  at: { readonly rail: string; readonly chain: string },
): Promise<void> {
  if ((await tx.query(GO_ON, [at.rail])).rowCount === 1) await clearAlert(tx, 'seals_stopped', at.rail);
  await tx.query(CLOSE_CASE, [caseKey(at.chain)]);
}

function caseKey(chain: string): string {
  return `${chain}:nodes`;
}
