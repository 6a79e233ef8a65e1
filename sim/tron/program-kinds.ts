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
  /** As USDT: what is allowed changes from 0 or to 0 only. */
  readonly strictAllowance: boolean;
  readonly owner: Address;
};

export type PayerProgram = {
  readonly kind: 'payer';
  /** True: pays everybody, then the last call reverts (case H1). */
  readonly revertsAtEnd: boolean;
};

/** As sim/contracts/multi-send.sol: each line for itself. */
export type MultiSendProgram = { readonly kind: 'multi_send' };

/** As sim/contracts/swap-and-allocate.sol: all or nothing. Its price is a cell of its own. */
export type SwapProgram = { readonly kind: 'swap'; readonly tokenOut: Address };

export type Program = TokenProgram | PayerProgram | MultiSendProgram | SwapProgram;
