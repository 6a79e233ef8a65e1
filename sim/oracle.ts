/*
 * The judge: what really moved, in the rail's own books. Every simulator and the real chain implement `RailBooks`; proofs
 * compare it with what was intended. A check against Payonce's own tables alone would prove little.
 *
 * Promises: movements as the rail knows them now, each once, in the rail's order; amounts in the asset's smallest unit;
 * addresses and assets in the rail's one spelling (EVM: lower case), so that they compare as text.
 * Never does: read Payonce's database, go through a fault proxy, or share code with the rail that it judges.
 */

export type Movement = {
  /** Which rail: for a chain its CAIP-2 id, as `eip155:31337`. */
  readonly rail: string;
  /** Unique on the rail for ever: the transaction and the place in it. */
  readonly id: string;
  /** The rail's transaction (or transfer) that made it; several movements may share one. */
  readonly tx: string;
  readonly from: string;
  readonly to: string;
  /** `native`, or the token's contract; elsewhere the currency's code. */
  readonly asset: string;
  readonly amount: bigint;
  /** The rail will not take it back. */
  readonly final: boolean;
  /** Height, or the rail's own count where it has no blocks. */
  readonly block: number;
};

/** What the rail took from somebody for acting, apart from what moved: gas, energy, a provider's fee. */
export type Cost = {
  readonly rail: string;
  readonly tx: string;
  readonly payer: string;
  readonly asset: string;
  readonly amount: bigint;
  readonly final: boolean;
};

export interface RailBooks<M extends Movement = Movement> {
  readonly rail: string;
  movements(): Promise<M[]>;
  costs(): Promise<Cost[]>;
  /** What the rail itself says the holder has now. */
  balance(holder: string, asset: string): Promise<bigint>;
}

/** In minus out minus costs: with what the holder had before the books began, it must equal the rail's balance (inv. I2). */
export function netOf(movements: Movement[], costs: Cost[], holder: string, asset: string): bigint {
  let net = 0n;
  for (const movement of movements) {
    if (movement.asset !== asset) continue;
    if (movement.to === holder) net += movement.amount;
    if (movement.from === holder) net -= movement.amount;
  }
  for (const cost of costs) if (cost.payer === holder && cost.asset === asset) net -= cost.amount;
  return net;
}
