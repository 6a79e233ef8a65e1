/**
 * Reconciling a bank rail: its statements against our effects, both ways (issue: `payonce reconcile bank`).
 *
 * Promises: each line matches exactly one payment or return of ours by name, or is listed; each payment that we booked within
 * the covered days has its line, or is listed; the same statements and books give the same report. The report is stored with an
 * alert where something was found; a clean run over at least the same days clears it.
 * Never: a booking, a settlement or a release. What a statement shows of a released effect opens the highest case and has the
 * rail looked at (`moved-after-all.ts`); the rail's own answer decides.
 * Beside it: live traffic. Lines and effects are read one after the other, so what ends in between is found by the next run.
 * Files: match (which line is which), findings (what differs), balances, moved-after-all, store.
 */
import type { Pool, Query } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { namesOn } from '../statements/statement.ts';
import { loadStatementRail, type StatementRail } from '../statements/store.ts';
import { type Balance, compareBalances, type Gap } from './balances.ts';
import { type Finding, findDifferences, FINDINGS, inOrder } from './findings.ts';
import { type Effect, type Line, match, type Matches } from './match.ts';
import { wakeWhatMoved, type Woken } from './moved-after-all.ts';
import {
  type Asked,
  coversWhatWasFound,
  loadBooked,
  loadEffects,
  loadLines,
  loadStatements,
  storeReport,
} from './store.ts';

export type { Finding } from './findings.ts';

/** After its end a payment may take a weekend and a holiday to be booked by the bank; less calls honest payments missing. */
export const GRACE_DAYS = 3;

export interface BankRequest {
  readonly rail: string;
  /** Days; absent: as far as statements go. */
  readonly from?: string;
  readonly to?: string;
  readonly graceDays?: number;
}

export interface BankReport {
  readonly rail: string;
  readonly from: string;
  readonly to: string;
  readonly graceDays: number;
  readonly counts: { readonly statements: number; readonly lines: number; readonly matched: number };
  readonly findings: readonly Finding[];
  readonly balances: readonly Balance[];
  readonly gaps: readonly Gap[];
  readonly assets: StatementRail['assets'];
  readonly woken: Woken;
  readonly reportId: bigint;
}

/** The report and its alert are durable on return. Throws PO_NOT_FOUND where the rail or its statements do not exist. */
export async function reconcileBank(
  deps: { readonly pool: Pool; readonly makeId: MakeId },
  request: BankRequest,
): Promise<BankReport> {
  const { pool } = deps;
  const rail = await loadStatementRail(pool, request.rail);
  if (rail === null) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no rail ${request.rail}` });
  const statements = await loadStatements(pool, rail.name, request.from ?? null, request.to ?? null);
  if (statements.length === 0) {
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `No statement of ${rail.name} covers any of these days; take one in: payonce statement import FILE --rail ${rail.name}`,
    });
  }
  const ends = statements.flatMap((one) => [one.from, one.to]).sort();
  const from = request.from ?? ends[0] ?? '';
  const to = request.to ?? ends.at(-1) ?? '';
  if (to < from) {
    throw new PayonceError('PO_REQUEST_INVALID', { detail: `The period ends on ${to}, before it begins on ${from}` });
  }
  const graceDays = request.graceDays ?? GRACE_DAYS;
  const { found, lines } = await compareLines(pool, rail.name, { from, to });
  const covers = await loadStatements(pool, rail.name, null, null);
  const differences = findDifferences(found, {
    from,
    to,
    graceDays,
    isCovered: (assetId, day) => covers.some((one) => one.assetId === assetId && one.from <= day && day <= one.to),
  });
  const assetIds = rail.assets.map((asset) => asset.id);
  const within = { from: ends[0] ?? from, to: ends.at(-1) ?? to };
  const sums = compareBalances(statements, await loadBooked(pool, rail.name, assetIds, within), { from, to });
  const findings = [...differences, ...sums.findings].sort(inOrder);
  const shown = lines.filter((line) => line.bookedOn >= from && line.bookedOn <= to);
  const report: Omit<BankReport, 'woken' | 'reportId'> = {
    rail: rail.name,
    from,
    to,
    graceDays,
    counts: { statements: statements.length, lines: shown.length, matched: countMatched(found, shown) },
    findings,
    balances: sums.balances,
    gaps: sums.gaps,
    assets: rail.assets,
  };
  return pool.tx('reconcile bank', async (tx) => {
    const woken = await wakeWhatMoved(tx, deps.makeId, findings);
    if (findings.length > 0) {
      const message = `${findings.length} differences between ${rail.name} and its statements, ${from} to ${to}: payonce reconcile bank --rail ${rail.name}`;
      await raiseAlert(tx, 'bank_reconcile', rail.name, message);
    } else if (await coversWhatWasFound(tx, rail.name, from, to)) {
      await clearAlert(tx, 'bank_reconcile', rail.name);
    }
    // After the alert: what was found since it was raised is what a clean run must cover.
    const reportId = await storeReport(tx, {
      rail: rail.name,
      from,
      to,
      findings: findings.length,
      json: JSON.stringify(toJson(report)),
    });
    return { ...report, woken, reportId };
  });
}

/** Reads the lines, then the effects that they may be, then all other lines of those effects. */
export async function compareLines(
  query: Query,
  rail: string,
  asked: Asked,
): Promise<{ found: Matches; lines: readonly Line[] }> {
  const first = await loadLines(query, rail, asked);
  const effects = await loadEffects(query, rail, {
    ...asked,
    names: [...new Set(first.flatMap(namesOn))],
  });
  const lines = await loadLines(query, rail, { ...asked, names: effects.flatMap(namesOf) });
  return { found: match(lines, effects), lines };
}

function namesOf(effect: Effect): string[] {
  return [
    effect.key,
    ...effect.objectIds,
    ...effect.parts.map((part) => part.ref),
    ...effect.returns.map((one) => one.providerId),
  ];
}

function countMatched(found: Matches, shown: readonly Line[]): number {
  const ids = new Set(
    [...found.paid.values(), ...found.came.values()].flatMap((lines) => lines.map((line) => line.id)),
  );
  return shown.filter((line) => ids.has(line.id)).length;
}

/** For machines: amounts as decimal text, in the asset's own places. The same words as the stored report. */
export function toJson(report: Omit<BankReport, 'woken' | 'reportId'>): object {
  const assets = new Map(report.assets.map((asset) => [asset.id, asset]));
  const amount = (units: bigint | null, assetId: string): string | null =>
    units === null ? null : formatUnits(units, assets.get(assetId)?.decimals ?? 0);
  const currency = (assetId: string): string => assets.get(assetId)?.currency ?? assetId;
  return {
    ok: report.findings.length === 0,
    rail: report.rail,
    from: report.from,
    to: report.to,
    grace_days: report.graceDays,
    counts: report.counts,
    findings: report.findings.map((one) => ({
      kind: one.kind,
      says: FINDINGS[one.kind],
      date: one.date,
      partner_id: one.partnerId,
      amount: amount(one.amount, one.assetId),
      currency: currency(one.assetId),
      asset_id: one.assetId,
      reference: one.reference,
      effect_id: one.effect?.id.toString() ?? null,
      effect_state: one.effect?.state ?? null,
      detail: one.detail,
      lines: one.lines.map((line) => ({
        id: line.id.toString(),
        place: line.place,
        booked_on: line.bookedOn,
        direction: line.direction,
        amount: amount(line.amount, line.assetId),
        references: line.references,
        counterparty_account: line.counterpartyAccount,
        counterparty_name: line.counterpartyName,
        text: line.remittance,
        return_reason: line.returnReason,
      })),
      may_be: one.suggestions.map((unit) => ({
        effect_id: unit.effect.id.toString(),
        subject: `${unit.effect.subjectType} ${unit.effect.subjectId}`,
        state: unit.effect.state,
        partner_id: unit.effect.partnerId,
      })),
    })),
    balances: report.balances.map((one) => ({
      currency: currency(one.assetId),
      asset_id: one.assetId,
      from: one.from,
      to: one.to,
      opening: amount(one.opening, one.assetId),
      moved: amount(one.moved, one.assetId),
      closing: amount(one.closing, one.assetId),
      booked: amount(one.booked, one.assetId),
      difference: amount(one.difference, one.assetId),
    })),
    gaps: report.gaps.map(({ assetId, ...days }) => ({ currency: currency(assetId), ...days })),
  };
}
