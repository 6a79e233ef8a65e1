/**
 * Do the statements hold together, and how far are they from our books? Pure.
 *
 * Each statement added up when it was taken. Here a run of statements without a day between them must go from its first opening
 * to its last closing by the lines that it shows, each counted once however many files show it. Beside it stands what our
 * custody account there was booked in the same days; the difference is for people, since the findings and the days between
 * paying and booking explain it.
 */
import { daysAfter } from '../statements/statement.ts';
import type { Finding } from './findings.ts';
import type { Booked, Covered } from './store.ts';

export interface Balance {
  readonly assetId: string;
  readonly from: string;
  readonly to: string;
  readonly opening: bigint | null;
  /** By the statements' lines, each once. */
  readonly moved: bigint;
  readonly closing: bigint | null;
  /** Our books in these days; above 0: we have more there. */
  readonly booked: bigint;
  readonly difference: bigint;
}

/** Days between two runs of one asset. */
export interface Gap {
  readonly assetId: string;
  readonly from: string;
  readonly to: string;
}

export function compareBalances(
  statements: readonly Covered[],
  booked: readonly Booked[],
  within: { readonly from: string; readonly to: string },
): { balances: Balance[]; gaps: Gap[]; findings: Finding[] } {
  const balances: Balance[] = [];
  const gaps: Gap[] = [];
  const findings: Finding[] = [];
  const byAsset = [...Map.groupBy(statements, (one) => one.assetId)].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [assetId, list] of byAsset) {
    let before: readonly Covered[] | null = null;
    for (const run of runsOf(list)) {
      const from = run[0]?.from ?? '';
      const to = lastDay(run);
      if (before !== null) {
        const gap = { assetId, from: daysAfter(lastDay(before), 1), to: daysAfter(from, -1) };
        gaps.push(gap);
        if (gap.to >= within.from && gap.from <= within.to)
          findings.push(finding('gap', assetId, gap.from, 0n, `${gap.from} to ${gap.to}`));
      }
      before = run;
      const balance = balanceOf(assetId, run, from, to, booked);
      balances.push(balance);
      if (balance.opening !== null && balance.closing !== null) {
        const off = balance.closing - balance.opening - balance.moved;
        if (off !== 0n)
          findings.push(
            finding(
              'balance',
              assetId,
              to,
              off,
              `from ${from} the closing is ${off} units off the opening and the lines`,
            ),
          );
      }
    }
  }
  return { balances, gaps, findings };
}

function lastDay(run: readonly Covered[]): string {
  return run.reduce((last, one) => (one.to > last ? one.to : last), '');
}

/** Statements that touch or overlap, in order. */
function runsOf(list: readonly Covered[]): Covered[][] {
  const runs: Covered[][] = [];
  let end = '';
  for (const one of list) {
    const run = runs.at(-1);
    if (run === undefined || one.from > daysAfter(end, 1)) runs.push([one]);
    else run.push(one);
    end = run === undefined || one.to > end ? one.to : end;
  }
  return runs;
}

function balanceOf(
  assetId: string,
  run: readonly Covered[],
  from: string,
  to: string,
  booked: readonly Booked[],
): Balance {
  const lines = new Map(run.flatMap((one) => one.lines.map((line) => [line.id, line.moved] as const)));
  const moved = [...lines.values()].reduce((sum, each) => sum + each, 0n);
  const ours = booked
    .filter((one) => one.assetId === assetId && one.bookedOn >= from && one.bookedOn <= to)
    .reduce((sum, one) => sum + one.moved, 0n);
  const whole = run.every((one) => one.opening !== null);
  const last = run.reduce(
    (best: Covered | undefined, one) => (best === undefined || one.to >= best.to ? one : best),
    undefined,
  );
  return {
    assetId,
    from,
    to,
    opening: whole ? (run[0]?.opening ?? null) : null,
    moved,
    closing: whole ? (last?.closing ?? null) : null,
    booked: ours,
    difference: moved - ours,
  };
}

function finding(kind: 'gap' | 'balance', assetId: string, date: string, amount: bigint, detail: string): Finding {
  return {
    kind,
    assetId,
    date,
    amount,
    detail,
    partnerId: null,
    reference: null,
    effect: null,
    lines: [],
    suggestions: [],
  };
}
