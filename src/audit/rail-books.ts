/**
 * What the judges ask of a rail: its own books of what moved and what it took for it, in simulators, from a chain, or out of
 * a bank's statement; and the one comparison that needs no more than sums (I2).
 */
import { type Query, toUnits } from '../db/pool.ts';
import type { Breach } from './invariants.ts';

/** A movement in the rail's books, in its one spelling of addresses and assets (`native`, or the token's contract). */
export interface Movement {
  readonly id: string;
  readonly tx: string;
  readonly from: string;
  readonly to: string;
  readonly asset: string;
  readonly amount: bigint;
  readonly final: boolean;
  /** Chains: who signed the transaction and its nonce, the identity of an effect whatever the hash. */
  readonly signer?: string;
  readonly nonce?: number;
  /** Banks: what the books or the statement show of ours, and when it was. `to` is then the receiver's account number, or
   *  the provider's own name for it; empty where neither is shown. */
  readonly key?: string | null;
  readonly reference?: string | null;
  readonly at?: Date;
  /** Banks: `return` is money that came back of an earlier one. */
  readonly kind?: 'out' | 'return';
}

/** What the rail took for acting: gas. */
export interface Cost {
  readonly tx: string;
  readonly payer: string;
  readonly asset: string;
  readonly amount: bigint;
  readonly final: boolean;
}

export interface RailBooks {
  /** As in `assets.chain`. */
  readonly rail: string;
  movements(): Promise<readonly Movement[]>;
  costs(): Promise<readonly Cost[]>;
}

export interface OracleOptions {
  /** Addresses of ours on this rail; absent: all that the database knows. */
  readonly wallets?: readonly string[];
  /** Everything was driven to its end: a movement whose effect is still undecided is a breach too. */
  readonly drained?: boolean;
  /** What each custody account stood at before the books began, by `custodyKey`, where it was not nothing. Absent: I2 is not checked. */
  readonly openings?: ReadonlyMap<string, bigint>;
  /** Banks: how far their clock may be off ours (a statement knows days). Absent: five minutes. */
  readonly skewMs?: number;
}

export const BANK_PREFIX = 'bank:';

export function custodyKey(wallet: string, asset: string): string {
  return `${wallet} ${asset}`;
}

const CUSTODY = `select c.code, case when a.chain like '${BANK_PREFIX}%' then a.code else coalesce(a.contract, 'native') end as asset, c.balance
from payonce.accounts c
join payonce.assets a on a.id = c.asset_id
where a.chain = $1
  and c.code like 'custody:%'`;

/** I2: IN − OUT − costs, of what is final, is what the custody account has; positive is credit, so we have −balance. */
export async function compareCustody(
  query: Query,
  books: RailBooks,
  movements: readonly Movement[],
  wallets: ReadonlySet<string>,
  openings: ReadonlyMap<string, bigint>,
): Promise<Breach[]> {
  const net = new Map<string, bigint>(openings);
  const add = (wallet: string, asset: string, amount: bigint): void => {
    if (wallets.has(wallet)) net.set(custodyKey(wallet, asset), (net.get(custodyKey(wallet, asset)) ?? 0n) + amount);
  };
  for (const one of movements.filter((movement) => movement.final)) {
    add(one.to, one.asset, one.amount);
    add(one.from, one.asset, -one.amount);
  }
  for (const cost of (await books.costs()).filter((one) => one.final)) add(cost.payer, cost.asset, -cost.amount);

  const { rows } = await query.query<{ code: string; asset: string; balance: bigint }>(CUSTODY, [books.rail]);
  const prefix = `custody:${books.rail}:`;
  const booked = new Map(
    rows
      .filter((row) => row.code.startsWith(prefix) && wallets.has(row.code.slice(prefix.length)))
      .map(
        (row) =>
          [custodyKey(row.code.slice(prefix.length), row.asset), -toUnits(row.balance, 'accounts.balance')] as const,
      ),
  );
  const breaches: Breach[] = [];
  for (const key of new Set([...net.keys(), ...booked.keys()])) {
    const [ours, theirs] = [booked.get(key) ?? 0n, net.get(key) ?? 0n];
    if (ours !== theirs)
      breaches.push({
        invariant: 'I2',
        subject: `custody ${key}`,
        detail: `we have ${ours}, the rail shows ${theirs}`,
      });
  }
  return breaches;
}
