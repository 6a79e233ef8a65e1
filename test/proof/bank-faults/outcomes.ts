/*
 * How a transfer may end, in words that are few and closed. What is not one of them is an error of the run.
 */

export const OUTCOMES = {
  paid: 'paid once, by one request',
  'paid, asked again': 'paid once; the same request went again under the same key',
  'a case, then paid': 'a person had it, with the money held, until the bank showed that it was paid, once',
  'held, a case':
    'nobody knows, or the bank shows what nothing may be concluded from: the money is held and a person has it',
  failed: 'told as failed, by a no that no copy can undo; nothing moved',
  'failed, it came back': 'paid and returned whole before anybody saw it: told as failed, and the hold is given back',
  'failed after lateness':
    'told as failed when no copy could be executed any more and a fresh look found nothing; nothing moved',
  'not paid, a case':
    'the bank keeps a refusal that is no fault of the transfer: the hold is given back, and a person decides what follows',
  're-opened, paid':
    'told as failed, and paid after all: open again with its hold, the highest case, then settled; once',
  'failed, then paid unseen':
    'told as failed by the bank’s own word, and paid by a copy after that, with a provider that cannot be asked: the statement finds it',
  returned: 'paid once, and all of it is booked back',
  'returned in part': 'paid once, and a part of it is booked back',
  'paid, return in a case': 'paid once; money came back in a way that a person must read',
  'paid twice, on record':
    'paid twice by a broken promise; a contradiction is on record, and nothing new is sealed for the partner',
  'paid twice, unseen':
    'paid twice by a broken promise, and the provider shows only one of the two: the statement finds the other',
} as const;

export type Outcome = keyof typeof OUTCOMES;

export interface Facts {
  readonly status: string;
  readonly state: string;
  readonly openCases: readonly string[];
  readonly closedCases: readonly string[];
  /** Told to the partner, without the noun. */
  readonly events: readonly string[];
  /** How each answer was read. */
  readonly answers: readonly string[];
  readonly returned: bigint;
  readonly amount: bigint;
  /** On the bank's own books, without those that were undone. */
  readonly movements: number;
  /** Of those, not come back whole. */
  readonly standing: number;
  readonly requests: number;
}

/** `null`: an end that has no name, which no run may have. */
export function outcomeOf(facts: Facts): Outcome | null {
  const { state, status, openCases, closedCases, events, movements } = facts;
  if (movements > 1) return openCases.includes('contradiction') ? 'paid twice, on record' : 'paid twice, unseen';
  if (state === 'SETTLED' && movements === 1) {
    if (openCases.includes('return_unclear')) return 'paid, return in a case';
    if (status === 'returned') return facts.returned === facts.amount ? 'returned' : 'returned in part';
    if (events.includes('reopened')) return openCases.includes('told_failed') ? 're-opened, paid' : null;
    if (closedCases.length > 0) return openCases.length === 0 ? 'a case, then paid' : null;
    if (openCases.length > 0) return null;
    return facts.requests > 1 ? 'paid, asked again' : 'paid';
  }
  if (state === 'SEALED' && openCases.length > 0) return 'held, a case';
  if (state === 'RELEASED' && facts.standing === 0) {
    if (openCases.includes('after_release')) return 'not paid, a case';
    if (status === 'failed' && movements > 0) return 'failed, it came back';
    if (status === 'failed') return events.includes('processing') ? 'failed after lateness' : 'failed';
  }
  // A copy was paid after the bank’s word had ended it, and nothing can be looked up.
  if (state === 'RELEASED' && status === 'failed' && movements === 1) return 'failed, then paid unseen';
  return null;
}
