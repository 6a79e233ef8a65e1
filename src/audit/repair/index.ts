/**
 * Repairs: two persons book what comparing a chain with our books found (R18, `payonce repair`).
 *
 * Promises: a finding of a stored report is booked once for ever, by a posting whose key names it (`REPAIR:{finding}`), in the second
 * person's transaction, with both in the audit log; the next report names who repaired it instead of listing it. What may be booked
 * as what is a table (`plan.ts`). Custody followed the chain already when the scan saw a movement, so a repair only says whose it was.
 * Never: an end of an effect (its own verbs do that), money of a partner that the partner does not have, an edit.
 * Beside it: the scan and new reports. What is found again under the same name finds the repair.
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { AboutCase, FlowVerb } from '../../engine/deps.ts';
import { assert, PayonceError } from '../../kernel/errors.ts';
import { type MakeId, postingKey } from '../../kernel/ids.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { post } from '../../ledger/post.ts';
import { planRepair, type RepairAs } from './plan.ts';
import * as store from './store.ts';

export { REPAIR_AS } from './plan.ts';
export { listOpenFindings } from './store.ts';

export interface RepairDeps {
  readonly pool: Pool;
  readonly chart: Chart;
  readonly makeId: MakeId;
}

type Detail = Readonly<Record<string, string>>;

/** The case that two persons decide in; durable with the caller's commit. A movement's is the one that the scan opened. What cannot be
 *  booked as `detail` wishes is refused, and opens nothing; `null`: there is no wish yet. */
export async function openRepairCase(
  query: Query,
  makeId: MakeId,
  findingId: string,
  detail: Detail | null,
): Promise<string> {
  const finding = await store.loadFinding(query, findingId);
  if (finding === null)
    throw new PayonceError('PO_NOT_FOUND', { detail: `There is no finding ${findingId} (payonce repair list)` });
  const about = caseOf(finding);
  const objection = detail === null ? null : await objectionTo(query, about, detail);
  if (objection !== null) throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: objection });
  return openCase(query, makeId, {
    kind: about.kind,
    severity: 2,
    subjectKey: about.subjectKey,
    ...(finding.partnerId === null ? {} : { partnerId: finding.partnerId }),
    assetId: finding.assetId,
    amount: finding.amount < 0n ? -finding.amount : finding.amount,
    summary: `Finding ${finding.id} at ${finding.wallet} on ${finding.chain}: ${finding.kind}, ${finding.detail}`,
  });
}

function caseOf(finding: store.StoredFinding): {
  kind: 'unknown_movement' | 'unmatched_inbound' | 'chain_difference';
  subjectKey: string;
} {
  const { kind, chain, wallet, assetId, txHash, position, key } = finding;
  if (txHash === null || position === null) return { kind: 'chain_difference', subjectKey: key };
  // As the scan opened them, so that booking ends that: inflows have one case of the wallet and asset together.
  if (kind === 'unknown_inflow') return { kind: 'unmatched_inbound', subjectKey: `${chain}:${wallet}:${assetId}` };
  return kind === 'double' || kind === 'orphan'
    ? { kind: 'unknown_movement', subjectKey: `${chain}:${txHash}:${position}` }
    : { kind: 'chain_difference', subjectKey: key };
}

export function makeRepairVerbs(deps: RepairDeps): { readonly repair: FlowVerb } {
  return {
    repair: {
      objection: (about, detail) => objectionTo(deps.pool, about, detail),
      async carryOut(tx, { id: proposalId, about, detail }) {
        const objection = await objectionTo(tx, about, detail);
        if (objection !== null) return { refused: objection };
        return bookRepair(tx, deps, proposalId, detail);
      },
    },
  };
}

async function objectionTo(query: Query, about: AboutCase, detail: Detail): Promise<string | null> {
  const id = detail['finding'] ?? '';
  const finding = await store.loadFinding(query, id);
  if (finding === null) return `there is no finding ${id}`;
  const case_ = caseOf(finding);
  if (case_.kind !== about.kind || case_.subjectKey !== about.subjectKey) return `this case is not about finding ${id}`;
  const before = await store.loadRepairOf(query, finding.key);
  if (before !== null) return `finding ${id} was repaired by proposal ${before}: nothing is booked twice`;
  // A difference of the whole account is only as good as the last look at it.
  if (finding.kind === 'ledger' && !(await store.isLatest(query, finding)))
    return `the wallet was compared again since finding ${id}: repair what that report lists`;
  if (finding.kind === 'ledger' && !(await store.isOpeningTold(query, finding)))
    return `no node told the report of finding ${id} what the wallet had before its first block, so the difference may be made up: compare again (payonce reconcile chain without --from goes on from a balance that was told), and repair what that lists`;
  const planned = planRepair(finding, await store.loadClassOf(query, finding), detail);
  if (planned.outcome === 'refused') return planned.why;
  const { partnerId, effectId } = named(detail);
  if (partnerId !== null && !(await store.isPartner(query, partnerId))) return `there is no partner ${partnerId}`;
  if (effectId !== null && !(await store.isEffect(query, effectId))) return `there is no effect ${effectId}`;
  return null;
}

function named(detail: Detail): { partnerId: string | null; effectId: bigint | null } {
  const effect = detail['effect_id'] ?? '';
  return {
    partnerId: detail['partner_id'] ?? null,
    effectId: /^[1-9][0-9]{0,17}$/.test(effect) ? BigInt(effect) : null,
  };
}

async function bookRepair(
  tx: Tx,
  deps: RepairDeps,
  proposalId: string,
  detail: Detail,
): Promise<{ did: string; closesCase: boolean } | { refused: string }> {
  const finding = await store.loadFinding(tx, detail['finding'] ?? '');
  assert(finding !== null, 'a repair without its finding');
  const planned = planRepair(finding, await store.loadClassOf(tx, finding), detail);
  if (planned.outcome === 'refused') return { refused: planned.why };
  const { partnerId, effectId } = named(detail);
  let postingId: bigint | null = null;
  if (planned.lines.length > 0) {
    const ids = await deps.chart.ids(
      tx,
      planned.lines.map((line) => line.account),
    );
    const [verdict] = await post(tx, [
      {
        kind: 'post',
        key: postingKey.repair(finding.id),
        reference: finding.txHash ?? finding.key.slice(0, 200),
        // What moves custody is found again by its transaction; under an effect's name too it would count twice.
        ...(effectId === null || finding.position === null ? {} : { effectId }),
        entries: planned.lines.map((line, index) => ({ accountId: ids[index] ?? 0n, amount: line.amount })),
      },
    ]);
    if (verdict?.verdict === 'insufficient')
      return { refused: `partner ${partnerId ?? '?'} does not have so much: book it as loss, or ask the partner` };
    assert(verdict?.verdict === 'posted', `a repair of finding ${finding.id} was answered ${verdict?.verdict}`);
    ({ postingId } = verdict);
  }
  const as = detail['as'] as RepairAs;
  await store.insertRepair(tx, {
    finding,
    proposalId,
    bookedAs: as,
    partnerId: as === 'partner' ? partnerId : null,
    effectId,
    postingId,
  });
  await store.clearWhereDone(tx, finding);
  const isLast = finding.kind !== 'unknown_inflow' || !(await store.isMoreUnknown(tx, finding));
  const what = postingId === null ? 'nothing was to post: both wallets are ours' : `posting ${postingId}`;
  return {
    did: `finding ${finding.id} is booked as ${as} (${what})${isLast ? '' : '; more came there that nobody booked, so the case stays open'}`,
    closesCase: isLast,
  };
}
