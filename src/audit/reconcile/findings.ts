/**
 * What does not agree between a bank's lines and our effects. Pure: the same books and the same statements give the same list
 * in the same order.
 */
import { daysAfter } from '../statements/statement.ts';
import { type Back, type Effect, type Line, type Matches, suggest, type Unit } from './match.ts';

export const FINDINGS = {
  released_on_statement: 'the bank shows it as gone, and we gave the money back',
  double: 'one payment of ours, and the bank shows it more than once',
  orphan: 'money left, and no payment of ours says so',
  unknown_inflow: 'money came, and nothing of ours says why',
  missing: 'we booked it as paid, and the bank does not show it',
  amount_mismatch: 'the bank shows another amount, or another currency, than ours',
  return_not_booked: 'it came back, and we have not booked it',
  return_not_on_statement: 'we booked that it came back, and the bank does not show it',
  balance: 'balances and lines of the statements do not add up',
  gap: 'no statement covers these days',
} as const;
export type FindingKind = keyof typeof FINDINGS;

export interface Finding {
  readonly kind: FindingKind;
  readonly partnerId: string | null;
  readonly date: string;
  readonly assetId: string;
  /** Units. */
  readonly amount: bigint;
  /** Ours, else the bank's. */
  readonly reference: string | null;
  readonly effect: Effect | null;
  readonly lines: readonly Line[];
  readonly detail: string;
  /** Whom an orphan may have paid: never a match. */
  readonly suggestions: readonly Unit[];
}

export interface Period {
  readonly from: string;
  readonly to: string;
  /** After its end here, a payment may take so many days to stand on a statement. */
  readonly graceDays: number;
  /** Days that a statement of this asset covers. */
  isCovered(assetId: string, day: string): boolean;
}

/** Bookings shift by a weekend and a holiday. */
const SUGGEST_DAYS = 5;
/** A window longer than this is not walked day by day: it was open for weeks, and the bank's word is due by now. */
const WINDOW_DAYS_MAX = 60;

export function findDifferences(found: Matches, period: Period): Finding[] {
  const isIn = (day: string): boolean => day >= period.from && day <= period.to;
  const anyIn = (lines: readonly Line[]): boolean => lines.some((line) => isIn(line.bookedOn));
  const taken = new Set([...found.paid].filter(([, lines]) => lines.length > 0).map(([unit]) => unit));
  const list: Finding[] = [];
  for (const [unit, lines] of found.paid) if (anyIn(lines)) list.push(...ofPayment(unit, lines));
  for (const { line, why } of found.orphans) {
    if (!isIn(line.bookedOn)) continue;
    const suggestions = suggest(line, found.units, taken, SUGGEST_DAYS);
    list.push({ ...ofLine(line, line.direction === 'out' ? 'orphan' : 'unknown_inflow', why), suggestions });
  }
  for (const { line, effect } of found.unbooked) {
    if (!isIn(line.bookedOn)) continue;
    const why = line.returnReason === null ? '' : `; the bank says ${line.returnReason}`;
    list.push({ ...ofLine(line, 'return_not_booked', `the payment is ${effect.state}${why}`), ...about(effect) });
  }
  for (const [back, lines] of found.came) if (anyIn(lines)) list.push(...ofReturn(back, lines));
  list.push(...missing(found, period), ...notShown(found, period));
  return list.sort(inOrder);
}

function about(effect: Effect): Pick<Finding, 'effect' | 'partnerId' | 'reference'> {
  return { effect, partnerId: effect.partnerId, reference: effect.subjectId };
}

function ofLine(line: Line, kind: FindingKind, detail: string): Finding {
  return {
    kind,
    partnerId: null,
    date: line.bookedOn,
    assetId: line.assetId,
    amount: line.amount,
    reference: line.ownReference ?? line.references[0] ?? null,
    effect: null,
    lines: [line],
    detail,
    suggestions: [],
  };
}

function ofPayment(unit: Unit, lines: readonly Line[]): Finding[] {
  const { effect } = unit;
  const [first] = lines;
  if (first === undefined) return [];
  const list: Finding[] = [];
  const add = (kind: FindingKind, line: Line, detail: string, all: readonly Line[] = [line]): void =>
    void list.push({ ...ofLine(line, kind, detail), ...about(effect), lines: all });
  if (effect.state === 'RELEASED') {
    const known = effect.contradicted ? '; the contradiction is on record' : '';
    add('released_on_statement', first, `it was released on ${effect.endedOn ?? '?'}${known}`, lines);
  } else if (effect.state === 'SETTLED' && !unit.isPaid) {
    add('released_on_statement', first, `line ${unit.reference} of the batch is not paid by our books`, lines);
  }
  if (lines.length > 1) add('double', first, `${lines.length} lines`, lines);
  const allowed = unit.isWholeBatch ? [unit.amount, paidOf(effect)] : [unit.amount];
  for (const line of lines) {
    if (line.assetId !== effect.assetId) add('amount_mismatch', line, `ours is in ${effect.assetId}`);
    else if (!allowed.includes(line.amount)) add('amount_mismatch', line, `ours is ${unit.amount} units`);
  }
  return list;
}

function paidOf(effect: Effect): bigint {
  return effect.parts.reduce((sum, part) => (part.isPaid ? sum + part.amount : sum), 0n);
}

function ofReturn({ effect, record }: Back, lines: readonly Line[]): Finding[] {
  const [first] = lines;
  if (first === undefined) return [];
  const list: Finding[] = [];
  if (lines.length > 1)
    list.push({
      ...ofLine(first, 'double', `${lines.length} lines of return ${record.providerId}`),
      ...about(effect),
      lines,
    });
  for (const line of lines) {
    if (line.assetId !== effect.assetId || line.amount !== record.net)
      list.push({
        ...ofLine(line, 'amount_mismatch', `return ${record.providerId} is ${record.net} units`),
        ...about(effect),
      });
  }
  return list;
}

/** Every day from the first on which it may stand there to the last is covered, and it stands on none. */
function isDue(period: Period, assetId: string, from: string, to: string): boolean {
  const last = daysAfter(to, period.graceDays);
  for (let day = from, count = 0; day <= last && count < WINDOW_DAYS_MAX; day = daysAfter(day, 1), count += 1)
    if (!period.isCovered(assetId, day)) return false;
  return true;
}

function missing(found: Matches, period: Period): Finding[] {
  const wholes = new Set([...found.paid.keys()].filter((unit) => unit.isWholeBatch).map((unit) => unit.effect));
  return found.units.flatMap((unit): Finding[] => {
    const { effect } = unit;
    const on = effect.endedOn;
    if (!unit.isPaid || unit.isWholeBatch || on === null || on < period.from || on > period.to) return [];
    if (found.paid.has(unit) || wholes.has(effect)) return [];
    if (!isDue(period, effect.assetId, effect.sealedOn, on)) return [];
    const detail = `no line by ${daysAfter(on, period.graceDays)}`;
    return [
      {
        kind: 'missing',
        date: on,
        assetId: effect.assetId,
        amount: unit.amount,
        lines: [],
        detail: unit.reference === effect.key ? detail : `line ${unit.reference}: ${detail}`,
        suggestions: [],
        ...about(effect),
      },
    ];
  });
}

function notShown(found: Matches, period: Period): Finding[] {
  return found.backs.flatMap((back): Finding[] => {
    const { effect, record } = back;
    const on = record.bookedOn;
    if (record.net === 0n || on < period.from || on > period.to || found.came.has(back)) return [];
    if (!isDue(period, effect.assetId, on, on)) return [];
    return [
      {
        kind: 'return_not_on_statement',
        date: on,
        assetId: effect.assetId,
        amount: record.net,
        lines: [],
        detail: `return ${record.providerId}: no line by ${daysAfter(on, period.graceDays)}`,
        suggestions: [],
        ...about(effect),
      },
    ];
  });
}

const ORDER = Object.keys(FINDINGS);

export function inOrder(one: Finding, other: Finding): number {
  const keys = ({ kind, date, partnerId, assetId, reference, effect, lines }: Finding): string =>
    [
      String(ORDER.indexOf(kind)).padStart(2, '0'),
      date,
      partnerId ?? '',
      assetId,
      reference ?? '',
      (effect?.id ?? 0n).toString().padStart(20, '0'),
      (lines[0]?.id ?? 0n).toString().padStart(20, '0'),
    ].join('\n');
  const [a, b] = [keys(one), keys(other)];
  return a < b ? -1 : a > b ? 1 : 0;
}
