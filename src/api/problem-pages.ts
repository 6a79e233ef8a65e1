/** What stands behind a problem's `type`: the same words in GET /problems/{code} and in docs/errors.md. */
import { ERRORS, type ErrorCode, type MoneyState } from '../kernel/errors.ts';

const RISK: Record<MoneyState | 'none', string> = {
  not_sent: 'None: this request moved nothing and left nothing behind.',
  unknown: 'It may have moved, or may still move: do not pay another way before the resource says failed or cancelled.',
  sent: 'It has moved.',
  none: 'The answer says, where money is concerned: see its money_state.',
};

export interface ProblemPage {
  readonly code: ErrorCode;
  readonly status: number;
  readonly meaning: string;
  /** What the answer says unless it knows better in the case at hand. */
  readonly money_state: MoneyState | null;
  readonly money_risk: string;
  readonly what_to_do: string;
}

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}

export function describeProblem(code: ErrorCode): ProblemPage {
  const row: { status: number; title: string; hint: string; moneyState?: MoneyState } = ERRORS[code];
  return {
    code,
    status: row.status,
    meaning: row.title,
    money_state: row.moneyState ?? null,
    money_risk: RISK[row.moneyState ?? 'none'],
    what_to_do: row.hint,
  };
}
