/*
 * The chain's own books, read from its blocks: every TRX and TRC-20 transfer that is in the chain of the head, what was burnt,
 * who has what. See ../oracle.ts.
 *
 * Never does: count what was only pending, what failed, or what a fork took back.
 */
import type { Cost, Movement, RailBooks } from '../oracle.ts';
import { addressOf, toBase58 } from './address.ts';
import type { Block, Chain, Included, Inclusion } from './chain.ts';
import { balanceOf, MOVING_NOTES, TRANSFER_TOPIC, type VmResult } from './programs.ts';
import { ownerOf } from './transaction.ts';

export type TronMovement = Movement & {
  readonly blockId: string;
  /** Place of its log in the receipt; `null` for TRX. */
  readonly logIndex: number | null;
  /** Whose transaction it was. */
  readonly signer: string;
};

export type Attempted = {
  readonly tx: string;
  readonly block: number;
  readonly signer: string;
  readonly result: VmResult;
};

export type TronBooks = RailBooks<TronMovement> & {
  /** Everything in blocks now, failures too. */
  transactions(): Attempted[];
  /** Wherever it ever was, rolled back or not, in order. */
  inclusions(tx: string): readonly Inclusion[];
  /** At a height; absent: at the head. Base58 or hexadecimal; `native` or a token. */
  balanceAt(holder: string, asset: string, height?: number): bigint;
};

export function makeTronBooks(chain: Chain, rail: string): TronBooks {
  const balanceAt = (holder: string, asset: string, height = chain.head().number): bigint => {
    const state = chain.world.at(height);
    const address = addressOf(holder);
    return asset === 'native' ? (state.account(address)?.balance ?? 0n) : balanceOf(state, addressOf(asset), address);
  };
  const everything = () =>
    chain.blocksWithTransactions().flatMap((block) => block.included.map((included) => ({ block, included })));
  return {
    rail,
    async movements() {
      return everything().flatMap(({ block, included }) =>
        movementsIn(rail, block, included, block.number <= chain.solid()),
      );
    },
    async costs() {
      return everything().flatMap(({ block, included: { transaction, outcome } }): Cost[] =>
        outcome.fee === 0n
          ? []
          : [
              {
                rail,
                tx: transaction.id,
                payer: toBase58(ownerOf(transaction)),
                asset: 'native',
                amount: outcome.fee,
                final: block.number <= chain.solid(),
              },
            ],
      );
    },
    balance: async (holder, asset) => balanceAt(holder, asset),
    balanceAt,
    transactions: () =>
      everything().map(({ block, included: { transaction, outcome } }) => ({
        tx: transaction.id,
        block: block.number,
        signer: toBase58(ownerOf(transaction)),
        result: outcome.result,
      })),
    inclusions: chain.inclusions,
  };
}

function movementsIn(rail: string, block: Block, { transaction, outcome }: Included, final: boolean): TronMovement[] {
  const common = {
    rail,
    tx: transaction.id,
    final,
    block: block.number,
    blockId: block.id,
    signer: toBase58(ownerOf(transaction)),
  };
  const passedOn = outcome.internal.filter(({ note }) => MOVING_NOTES.has(note));
  const natives = [...(outcome.native === null ? [] : [outcome.native]), ...passedOn];
  const inTrx = natives.map(
    ({ from, to, sun }, place): TronMovement => ({
      ...common,
      id: `${transaction.id}:native:${place}`,
      from: toBase58(from),
      to: toBase58(to),
      asset: 'native',
      amount: sun,
      logIndex: null,
    }),
  );
  const inTokens = outcome.logs.flatMap(({ address, topics, data }, logIndex): TronMovement[] => {
    const [topic, from = '', to = ''] = topics;
    if (topic !== TRANSFER_TOPIC) return [];
    return [
      {
        ...common,
        id: `${transaction.id}:${logIndex}`,
        from: toBase58(`41${from.slice(24)}`),
        to: toBase58(`41${to.slice(24)}`),
        asset: toBase58(address),
        amount: BigInt(`0x${data}`),
        logIndex,
      },
    ];
  });
  return [...inTrx, ...inTokens];
}
