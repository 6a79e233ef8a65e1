/*
 * The numbers that the proofs are counted by, as data: the field cases, the requirements of the five incidents and the
 * invariants, each under the step of the plan that brings its test. A test claims a number by naming it in its title
 * ("case E1", "req W1", "inv L1"). scripts/cases-index.ts holds the two together; `npm run cases` lists them.
 */
export type Kind = 'case' | 'req' | 'inv';

/** The plan's steps, in their order. A number is brought by exactly one, though later steps may add tests to it. */
export const STEPS: Record<number, string> = {
  1: 'The walking product: ledger, engine, EVM rail, withdrawals and deposits',
  2: 'Bank transfers whose answer is lost, and the person who decides',
  3: 'TRON, sweeps, relayers, classification and reconciliation',
  4: 'P2P: matching off the request, LP trades as effects',
  5: "Creators' payouts: accrual, threshold, contract call",
  6: 'Proof: races, crashes, storms, guards',
  7: "The partner's and the operator's side",
  8: 'Fast: side by side with the alternatives',
};

/** The step up to which every number must have a test (those of PENDING excepted). Raised when a step begins. */
export const STEP_NOW = 5;

export const NUMBERS: Record<Kind, Record<number, string>> = {
  case: {
    1: `A1-A3 A8 A9 C1 C4-C6 C8 C9 C11 D1 D2 D4-D7 D10 D11 E1-E3 E5 E8 F1 F3 F5 F7 F8 H1-H3 H5 H9-H11 H13
        J1 J2 J4-J6 J9 J10 K1 K3 K6 L1-L3 L5 L7 L10 L12 L13 L16`,
    2: 'A5 B1-B4 B6 B7 B9-B11 B13 B15 C3 I1 I3 I7 M1 M2 M5-M7',
    3: 'G1-G4 G8 G10 N1 N4 N6',
    4: 'I6',
    5: 'A7 I2',
    6: 'L9 L17',
  },
  req: {
    1: 'W1-W16 P1-P5 R1-R7 R12',
    2: 'T1-T17',
    3: 'R8-R11 R13-R18',
    4: 'M1-M22',
    5: 'P6-P9',
  },
  inv: {
    1: 'L1-L8 E1-E13 E15 E16 I1 N1 N2 V1 V2',
    2: 'E14 E17',
    3: 'I2',
    4: 'M1-M4',
    5: 'P1',
    6: 'V3 V4',
  },
};

/** The counts in the documents that the numbers come from: a number lost in this file is found out. */
export const TOTALS: Record<Kind, number> = { case: 92, req: 82, inv: 38 };

/**
 * Numbers of the step in hand that have no test yet. Each is printed at every check; all three are empty when the step
 * lands. What has got its test leaves.
 */
export const PENDING: Record<Kind, string> = { case: '', req: '', inv: '' };
