/**
 * An energy market, as data and a small mapper: what it promises, each promise on which money is freed with the place where
 * the market says so, and how its JSON is read. What is not confirmed is left out, which is the safe reading.
 */
import type { Json } from '../../engine/rail.ts';

/** Where the market says so. */
export type Cite = string;

/** `delegated`: the receiver has the energy, and it is paid. `pending`: taken, and it may still be either. */
export type OrderMeaning = 'pending' | 'delegated' | 'failed';

/** What one code of an error answer means. Found by status and code; no row: unreadable. */
export interface CodeRow {
  readonly statuses: readonly number[];
  readonly code: string;
  readonly means:
    | { readonly reads: 'key_taken' | 'in_progress' | 'blocked'; readonly why: string }
    | {
        readonly reads: 'refused';
        readonly why: string;
        /** `order`: it is wrong and stays wrong. `now`: balance, stock, hours: asked again for a while. */
        readonly about: 'order' | 'now';
        /** Said after the market had looked for an order of this id, and found none. */
        readonly afterKeyCheck?: Cite;
      };
}

/** What an answer shows of one order; `null` where it says nothing of it. Figures as their digits. */
export interface MarketOrder {
  readonly id: string | null;
  readonly clientOrderId: string | null;
  readonly receiver: string | null;
  readonly energy: string | null;
  readonly durationSeconds: string | null;
  /** What was taken from the prepaid balance, in the coin's smallest unit. */
  readonly price: string | null;
  readonly status: string | null;
}

export interface MarketError {
  readonly code: string;
  readonly clientOrderId: string | null;
}

/** What is ordered. Units: energy, seconds. */
export interface OrderFacts {
  readonly clientOrderId: string;
  readonly receiver: string;
  readonly energy: bigint;
  readonly durationSeconds: bigint;
}

export interface MarketProfile {
  readonly name: string;
  /** Who runs it: answers are counted by operator. */
  readonly operator: string;
  readonly keyCharactersMax: number;
  /** How long the market tells an order by its client's id; `null`: for ever. */
  readonly retentionMs: number | null;
  readonly retentionCite: Cite;
  readonly latenessMs: number;
  readonly decideWithinMs: number;
  readonly timeoutMs: number;
  /** An order refused for now is sent again for so long; then its refusals are believed, and looks follow. */
  readonly retryForMs: number;
  readonly codes: readonly CodeRow[];
  readonly states: Readonly<Record<string, OrderMeaning>>;
  /** A failed order keeps its client's id, and what it took is given back: the same id shows it again. */
  readonly failedKeepsKey: Cite | null;
  readonly auth: 'bearer' | 'x_api_key';
  /** Path with query, relative to the base URL. */
  readonly orderPath: string;
  body(facts: OrderFacts): string;
  lookPath(clientOrderId: string): string;
  /** Path with query of what so much costs now. */
  pricePath(energy: bigint, durationSeconds: bigint): string;
  readonly balancePath: string;
  /** The coin's smallest units in the answers to these two, as digits; `null`: not their shape. */
  price(body: Json): string | null;
  balance(body: Json): string | null;
  /** All orders in a success, or `null` where it has not the market's shape. */
  orders(body: Json): readonly MarketOrder[] | null;
  error(body: Json): MarketError | null;
}
