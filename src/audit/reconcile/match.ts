/**
 * Which line is which effect. Pure.
 *
 * A line is an effect's only by a name that both carry: our key or reference, or the provider's own id of the object. Payee,
 * amount and day never make a match; they make a suggestion, for a person. A name that leads to two effects leads to none.
 * Once matched, amount and currency must be equal too; a difference is reported, and the line is no orphan.
 */
import { namesOn } from '../statements/statement.ts';

export interface Line {
  readonly id: bigint;
  readonly assetId: string;
  readonly direction: 'out' | 'in';
  readonly amount: bigint;
  readonly bookedOn: string;
  readonly ownReference: string | null;
  readonly references: readonly string[];
  readonly counterpartyName: string | null;
  readonly counterpartyAccount: string | null;
  readonly remittance: string | null;
  readonly isReversal: boolean;
  readonly isCharge: boolean;
  readonly returnReason: string | null;
  /** `file.xml Stmt[1]/Ntry[2] (line 40)`, the first file that showed it. */
  readonly place: string;
}

export interface Effect {
  readonly id: bigint;
  readonly subjectType: string;
  readonly subjectId: string;
  readonly partnerId: string;
  readonly state: 'SEALED' | 'SETTLED' | 'RELEASED';
  readonly contradicted: boolean;
  readonly assetId: string;
  readonly amount: bigint;
  readonly key: string;
  readonly sealedOn: string;
  readonly endedOn: string | null;
  readonly objectIds: readonly string[];
  /** One for a plain transfer. */
  readonly parts: readonly Part[];
  readonly returns: readonly Return[];
}

export interface Part {
  readonly ref: string;
  readonly receiver: string;
  readonly amount: bigint;
  /** By our books: a settled effect's, but for lines of a batch that were not paid. */
  readonly isPaid: boolean;
}

export interface Return {
  readonly id: string;
  readonly providerId: string;
  /** What came back to us, the bank's fee for it taken off. */
  readonly net: bigint;
  readonly bookedOn: string;
}

/** What one line can pay: a part of an effect, or a batch as a whole. */
export interface Unit {
  readonly effect: Effect;
  readonly reference: string;
  readonly receiver: string | null;
  readonly amount: bigint;
  readonly isPaid: boolean;
  readonly isWholeBatch: boolean;
}

/** A return that is on record. */
export interface Back {
  readonly effect: Effect;
  readonly record: Return;
}

export interface Matches {
  readonly units: readonly Unit[];
  /** Outgoing lines by what they pay. */
  readonly paid: ReadonlyMap<Unit, readonly Line[]>;
  readonly backs: readonly Back[];
  /** Incoming lines by the return that they are. */
  readonly came: ReadonlyMap<Back, readonly Line[]>;
  /** Incoming lines that name a payment of which no such return is on record. */
  readonly unbooked: readonly { readonly line: Line; readonly effect: Effect }[];
  readonly orphans: readonly { readonly line: Line; readonly why: string }[];
}

export function match(lines: readonly Line[], effects: readonly Effect[]): Matches {
  const units = effects.flatMap(unitsOf);
  const backs = effects.flatMap((effect) => effect.returns.map((record): Back => ({ effect, record })));
  const unitsNamed = indexed(units, namesOfUnit);
  // Where the provider has no id for a return, ours is made of the object's, which names the payment.
  const backsNamed = indexed(backs, ({ effect, record }) =>
    effect.objectIds.includes(record.providerId) ? [] : [record.providerId],
  );
  const paid = new Map<Unit, Line[]>();
  const came = new Map<Back, Line[]>();
  const named: { line: Line; effect: Effect }[] = [];
  const orphans: { line: Line; why: string }[] = [];
  for (const line of lines) {
    const names = namesOn(line);
    const found = [...new Set(names.flatMap((name) => unitsNamed.get(name) ?? []))];
    // A part of a batch says more than the batch.
    const parts = found.filter((unit) => !unit.isWholeBatch);
    const candidates = parts.length > 0 ? parts : found;
    const [unit] = candidates;
    const returned = new Set(names.flatMap((name) => backsNamed.get(name) ?? []));
    const [back] = returned;
    if (line.direction === 'in' && back !== undefined && returned.size === 1) append(came, back, line);
    else if (unit === undefined) orphans.push({ line, why: whyUnknown(line) });
    else if (candidates.length > 1) orphans.push({ line, why: 'it names more than one payment' });
    else if (line.direction === 'in') named.push({ line, effect: unit.effect });
    else if (line.isReversal) orphans.push({ line, why: 'it takes back what had come in' });
    else append(paid, unit, line);
  }
  return { units, paid, backs, came, unbooked: claimReturns(named, backs, came), orphans };
}

/** What names the payment only is the return of it with this amount, each claimed once. Answers the lines that are none. */
function claimReturns(
  named: readonly { readonly line: Line; readonly effect: Effect }[],
  backs: readonly Back[],
  came: Map<Back, Line[]>,
): { line: Line; effect: Effect }[] {
  return named.filter(({ line, effect }) => {
    const equal = backs.filter(
      (one) => one.effect === effect && one.record.net === line.amount && effect.assetId === line.assetId,
    );
    const back = equal.find((one) => !came.has(one)) ?? equal[0];
    if (back !== undefined) append(came, back, line);
    return back === undefined;
  });
}

function whyUnknown(line: Line): string {
  if (line.isCharge) return 'a charge of the bank';
  if (line.isReversal && line.direction === 'out') return 'it takes back what had come in';
  return line.direction === 'in' ? 'nothing that we sent comes back so' : 'no payment of ours has this reference';
}

function unitsOf(effect: Effect): Unit[] {
  const parts = effect.parts.map((part): Unit => ({ ...part, effect, reference: part.ref, isWholeBatch: false }));
  if (parts.length <= 1) return parts;
  const isPaid = effect.state === 'SETTLED';
  const { key: reference, amount } = effect;
  return [...parts, { effect, reference, receiver: null, amount, isPaid, isWholeBatch: true }];
}

function namesOfUnit(unit: Unit): string[] {
  const isAll = unit.isWholeBatch || unit.effect.parts.length <= 1;
  return [unit.reference, ...(isAll ? [unit.effect.key, ...unit.effect.objectIds] : [])];
}

function indexed<One>(list: readonly One[], names: (one: One) => readonly string[]): Map<string, One[]> {
  const found = new Map<string, One[]>();
  for (const one of list) for (const name of new Set(names(one))) append(found, name, one);
  return found;
}

function append<Key, One>(map: Map<Key, One[]>, key: Key, one: One): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [one]);
  else list.push(one);
}

/** Whom a line that names nobody may have paid: same payee, asset and amount, within so many days of the seal. */
export function suggest(line: Line, units: readonly Unit[], taken: ReadonlySet<Unit>, daysMax: number): Unit[] {
  const account = plain(line.counterpartyAccount ?? '');
  if (account === '' || line.direction === 'in') return [];
  return units.filter(
    (unit) =>
      !taken.has(unit) &&
      unit.receiver !== null &&
      plain(unit.receiver) === account &&
      unit.amount === line.amount &&
      unit.effect.assetId === line.assetId &&
      daysBetween(line.bookedOn, unit.effect.sealedOn) <= daysMax,
  );
}

function daysBetween(one: string, other: string): number {
  return Math.abs(Date.parse(one) - Date.parse(other)) / 86_400_000;
}

/** Dashes and blanks are the writer's way. */
function plain(account: string): string {
  return account.replaceAll(/[- ]/g, '').toUpperCase();
}
