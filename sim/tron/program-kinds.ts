/* Which contracts there are on this chain, and the manners of each. */
import type { Address } from './address.ts';

export type TokenProgram = {
  readonly kind: 'token';
  readonly name: string;
  readonly symbol: string;
  readonly decimals: number;
  /** What `transfer` answers when it has moved. USDT on TRON: false. */
  readonly returns: 'false' | 'true' | 'nothing';
  /** False: answers without moving or logging anything, and does not revert (case H2). */
  readonly moves: boolean;
  /** Kept by the token's owner out of each transfer, in 1/10000. */
  readonly feeBasisPoints: bigint;
  readonly owner: Address;
};

export type PayerProgram = {
  readonly kind: 'payer';
  /** True: pays everybody, then the last call reverts (case H1). */
  readonly revertsAtEnd: boolean;
};

export type Program = TokenProgram | PayerProgram;
