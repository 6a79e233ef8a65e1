/** The edges of orders and legs (M4): the one table. The migration has the same rows, and a test compares. */

export type DepositStatus =
  | 'PENDING'
  | 'MATCHING'
  | 'MATCHED'
  | 'COMPLETED'
  | 'PARTIALLY_SETTLED'
  | 'EXPIRED'
  | 'CANCELLED';
export type WithdrawStatus = 'OPEN' | 'CLOSING' | 'COMPLETED' | 'PARTIALLY_SETTLED' | 'EXPIRED' | 'CANCELLED';
export type LegState = 'OPEN' | 'SETTLED' | 'EXPIRED' | 'VOID' | 'SURPLUS';

export const DEPOSIT_EDGES: Readonly<Record<DepositStatus, readonly DepositStatus[]>> = {
  PENDING: ['MATCHING', 'CANCELLED', 'EXPIRED', 'PARTIALLY_SETTLED'],
  MATCHING: ['PENDING', 'MATCHED', 'CANCELLED', 'EXPIRED', 'PARTIALLY_SETTLED', 'COMPLETED'],
  MATCHED: ['COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED'],
  COMPLETED: [],
  // A payment that came after the close, and whose amount was still there (I1).
  PARTIALLY_SETTLED: ['COMPLETED'],
  EXPIRED: ['PARTIALLY_SETTLED', 'COMPLETED'],
  CANCELLED: ['PARTIALLY_SETTLED', 'COMPLETED'],
};

export const WITHDRAW_EDGES: Readonly<Record<WithdrawStatus, readonly WithdrawStatus[]>> = {
  OPEN: ['CLOSING', 'COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED'],
  CLOSING: ['COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED'],
  COMPLETED: [],
  PARTIALLY_SETTLED: [],
  EXPIRED: [],
  CANCELLED: [],
};

export const LEG_EDGES: Readonly<Record<LegState, readonly LegState[]>> = {
  OPEN: ['SETTLED', 'EXPIRED', 'VOID'],
  SETTLED: [],
  EXPIRED: ['SETTLED'],
  VOID: ['OPEN', 'SURPLUS', 'SETTLED'],
  SURPLUS: [],
};
