/*
 * From the faults of one call to how the bank bends: disguises, refusals, lies, what is kept in place of an acceptance, what
 * happens to the transfer later. The part between a script and the core.
 */
import type { BankBooks } from './books.ts';
import type { TaskClock } from './clock.ts';
import type { Shape } from './core.ts';
import { type BankFault, type EchoField, type FaultName, nameOf } from './faults.ts';
import type { Answer, Desk, Profile } from './profile.ts';
import { gatewayPage } from './respond.ts';
import type { Batch, Transfer } from './transfer.ts';
import { isWireObject, type WireObject } from './wire-json.ts';

export type ShapeParts = {
  readonly profile: Profile;
  readonly desk: Desk;
  readonly books: BankBooks;
  readonly clock: TaskClock;
  readonly note: (name: FaultName) => void;
  /** What an accepted batch goes through by itself. `toTheEnd` is false where a fault decides its end. */
  readonly settle: (batch: Batch, toTheEnd: boolean) => void;
};

const STRANGERS_REFERENCE = 'REFERENCEOFSOMEBODYELSE';

type FaultOf<K extends BankFault['kind']> = Extract<BankFault, { kind: K }>;

export function pick<K extends BankFault['kind']>(faults: readonly BankFault[], kind: K): FaultOf<K> | null {
  return (faults.find((fault) => fault.kind === kind) as FaultOf<K> | undefined) ?? null;
}

export function shapeOf(faults: readonly BankFault[], parts: ShapeParts): Shape {
  const refuse = pick(faults, 'refuse');
  const lag = pick(faults, 'lag');
  return {
    balanceFirst: pick(faults, 'balance_first') !== null,
    forgetKey: pick(faults, 'forget_key') !== null,
    refuse: refuse === null ? null : { reason: refuse.reason, stored: refuse.stored, name: 'refuse' },
    instead: insteadOf(faults, parts),
    lagMs: lag?.ms ?? 0,
    disguise: disguiseOf(faults, parts),
    onAccepted(batch) {
      parts.settle(batch, pick(faults, 'fail_later') === null);
      for (const fault of faults) lateFate(fault, batch, parts);
    },
  };
}

/** What this look-up or answer shows of a transfer. Counted when it is shown. */
export function disguiseOf(
  faults: readonly BankFault[],
  { note }: Pick<ShapeParts, 'note'>,
): (transfer: Transfer) => Transfer {
  const state = pick(faults, 'unknown_state');
  const other = pick(faults, 'other_transfer');
  const noted = new Set<FaultName>();
  const noteOnce = (name: FaultName): void => {
    if (noted.has(name)) return;
    noted.add(name);
    note(name);
  };
  return (transfer) => {
    let shown = transfer;
    if (state !== null) {
      noteOnce('unknown_state');
      shown = { ...shown, state: state.state ?? 'UNDER_LUNAR_REVIEW' };
    }
    if (other !== null) {
      noteOnce('other_transfer');
      shown = asAnother(shown, other.fields);
    }
    return shown;
  };
}

function asAnother(transfer: Transfer, fields: readonly EchoField[]): Transfer {
  const { line, batch } = transfer;
  const told = (field: EchoField): boolean => fields.includes(field);
  const stranger = {
    bankCode: '004',
    accountNumber: '99900011122233',
    holder: 'SOMEBODY ELSE',
    handle: 'acct_stranger',
  };
  return {
    ...transfer,
    batch: { ...batch, key: told('key') ? 'KEYOFSOMEBODYELSE000000000000000' : batch.key },
    line: {
      ...line,
      reference: told('reference') ? STRANGERS_REFERENCE : line.reference,
      amount: told('amount') ? line.amount + 1n : line.amount,
      currency: told('currency') ? (line.currency === 'USD' ? 'EUR' : 'USD') : line.currency,
      destination: told('destination') ? stranger : line.destination,
      extra: told('reference') ? withStrangersReference(line.extra) : line.extra,
    },
  };
}

/** Some providers know a reference of ours only as metadata. */
function withStrangersReference(extra: WireObject): WireObject {
  const metadata = extra['metadata'];
  if (!isWireObject(metadata)) return extra;
  const names = Object.keys(metadata);
  return { ...extra, metadata: Object.fromEntries(names.map((name) => [name, STRANGERS_REFERENCE])) };
}

function insteadOf(faults: readonly BankFault[], { profile, desk }: ShapeParts): Shape['instead'] {
  for (const fault of faults) {
    const name = nameOf(fault);
    switch (fault.kind) {
      case 'lie':
        return { answer: () => profile.refuse(fault.reason, desk), effect: true, stored: fault.stored, name };
      case 'unknown_code':
        return {
          answer: () => profile.refuse('unheard_of', desk),
          effect: fault.effect ?? false,
          stored: fault.stored,
          name,
        };
      case 'http':
        return {
          answer: () => bareAnswer(fault, profile, desk),
          effect: fault.effect ?? false,
          stored: fault.stored ?? false,
          name,
        };
      case 'conflict':
        return {
          answer: (batch) => conflictAnswer(fault.meaning, batch, profile, desk),
          effect: fault.effect ?? fault.meaning === 'done',
          stored: false,
          name,
        };
      default:
    }
  }
  return null;
}

/** In the provider's own form where it has one for the status, else a gateway's page. */
export function bareAnswer(fault: FaultOf<'http'>, profile: Profile, desk: Desk): Answer {
  const own =
    fault.html === true
      ? null
      : fault.status === 401
        ? profile.refuse('unauthenticated', desk)
        : fault.status === 403
          ? profile.refuse('forbidden', desk)
          : fault.status === 429
            ? profile.refuse('rate_limited', desk)
            : fault.status === 500
              ? profile.refuse('internal', desk)
              : null;
  const answer = own ?? gatewayPage(fault.status, fault.retryAfterS);
  const retryAfter = fault.retryAfterS === undefined ? {} : { 'retry-after': String(fault.retryAfterS) };
  return { ...answer, status: fault.status, headers: { ...answer.headers, ...retryAfter } };
}

function conflictAnswer(
  meaning: FaultOf<'conflict'>['meaning'],
  batch: Batch | null,
  profile: Profile,
  desk: Desk,
): Answer {
  switch (meaning) {
    case 'in_progress':
      return { ...profile.inProgress(), status: 409 };
    case 'done': {
      const answer = batch === null ? profile.refuse('duplicate_payment', desk) : profile.accepted(batch, desk);
      return { ...answer, status: 409 };
    }
    case 'other_body':
      return { ...profile.mismatch(profile.refuse('duplicate_payment', desk), null, desk), status: 409 };
    case 'new_key':
      return { ...profile.refuse('new_key_please', desk), status: 409 };
  }
}

function lateFate(fault: BankFault, batch: Batch, { books, clock, profile, note }: ShapeParts): void {
  if (fault.kind === 'return_later') {
    clock.after(fault.ms, () => {
      for (const transfer of batch.transfers) {
        if (transfer.standing === 'undone') continue;
        const { units, feeUnits, reports } = fault;
        books.giveBack(transfer, profile.returnedState, {
          ...(units === undefined ? {} : { units }),
          ...(feeUnits === undefined ? {} : { feeUnits }),
          ...(reports === undefined ? {} : { reports }),
        });
        note('return_later');
      }
    });
  }
  if (fault.kind === 'fail_later') {
    clock.after(fault.ms, () => {
      for (const transfer of batch.transfers) {
        if (books.fail(transfer, profile.failedState, fault.reason ?? 'account_closed')) note('fail_later');
      }
    });
  }
}
