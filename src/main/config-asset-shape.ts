/** The shape of a chain's assets and nodes in the configuration file: the same fields on every chain, with that chain's spelling
 *  of an address. */
import { type Static, Type } from 'typebox';
import { BasisPoints, closed, Decimal, says, Whole, type Words } from './config-kinds.ts';

/** How a chain writes addresses, and what of an asset's words is its own. */
export interface Spelling {
  /** Of a whole address. */
  readonly pattern: string;
  readonly address: string;
  /** What a coin's sweep leaves behind when nothing is said. */
  readonly coinKeeps: string;
  /** What a relayer does in the wallet's place. */
  readonly relays: string;
}

export function assetShape(spelling: Spelling) {
  const Address = (description: string, words: Words = {}) =>
    Type.String({ pattern: spelling.pattern, description, ...says(spelling.address), ...words });
  return Type.Object(
    {
      code: Type.String({
        pattern: '^[A-Za-z0-9._-]{1,40}$',
        description: 'What partners call it; no other asset of this chain has it',
        ...says('1 to 40 of letters, digits, dot, underscore and hyphen'),
      }),
      contract: Type.Union([Address('The token'), Type.Null()], {
        description: "The token's contract; `null`: the chain's own coin, which pays gas. One such asset is needed",
        ...says(`${spelling.address}, or null for the chain's own coin`),
      }),
      decimals: Type.Integer({
        minimum: 0,
        maximum: 36,
        description: 'As the contract says; checked against it, and frozen once registered',
        ...says('a whole number from 0 to 36'),
      }),
      wallet: Type.Optional(
        Address('Where it is paid from; its key is in the keystore (`payonce wallet create`)', {
          absent: 'it cannot be withdrawn',
        }),
      ),
      relayers: Type.Optional(
        Type.Array(Address(spelling.relays), {
          description:
            'Tokens only; each payment takes the one with the most room that is not short of gas and has an allowance of the wallet (`payonce wallet approve`). One that is taken out signs nothing more',
          absent: 'the wallet signs itself',
          ...says('a list of addresses'),
        }),
      ),
      withdrawal: Type.Optional(
        Type.Object(
          {
            min: Decimal('The least that one withdrawal pays'),
            max: Decimal('The most that one withdrawal pays'),
            dayMax: Decimal("The most that a partner's withdrawals pay in one day of its time zone"),
            feeFlat: Decimal('What each withdrawal costs the partner, on top of the amount'),
            feeBasisPoints: BasisPoints('And this share of the amount, in hundredths of a percent'),
          },
          { ...closed, description: 'Limits and fees of withdrawals', absent: 'it cannot be withdrawn' },
        ),
      ),
      deposit: Type.Optional(
        Type.Object(
          {
            feeFlat: Decimal('What each deposit costs the partner, out of it'),
            feeBasisPoints: BasisPoints('And this share of it, in hundredths of a percent'),
          },
          { ...closed, description: 'Fees of deposits; needs `wallet` and `withdrawal`', absent: 'no fees' },
        ),
      ),
      collect: Type.Optional(
        Type.Object(
          {
            min: Decimal(
              'What lies at a deposit address is swept from this on; less is dust, listed and left. More than 0',
            ),
            everyMinutes: Whole(1, 'Between two cycles', '60'),
            keep: Type.Optional(
              Decimal('Stays at the address when the coin is swept, for the gas of this sweep and of tokens', {
                absent: spelling.coinKeeps,
              }),
            ),
          },
          {
            ...closed,
            description: 'Sweeps from deposit addresses into `wallet`; needs `wallet` and `withdrawal`',
            absent: 'it stays at its deposit addresses',
          },
        ),
      ),
      ownAddress: Type.Optional(
        Type.Union([Type.Literal('refuse'), Type.Literal('allow_deposit_addresses')], {
          description: 'Whether a customer may be paid at a deposit address of ours',
          absent: '`refuse`',
          ...says('"refuse" or "allow_deposit_addresses"'),
        }),
      ),
    },
    closed,
  );
}

export type AssetConfig = Static<ReturnType<typeof assetShape>>;

export const nodeFields = (speaks: string) => ({
  url: Type.String({ pattern: '^https?://', description: speaks, ...says('an http:// or https:// URL') }),
  operator: Type.String({
    minLength: 1,
    description: 'Who runs it: two nodes of one operator are one witness',
    ...says('a name'),
  }),
});

/** Coin for addresses that lack it; `warnBelow`: in the words of the chain's own coin. */
export const gasShape = (words: { readonly coin: string; readonly warnBelow: string }) =>
  Type.Optional(
    Type.Object(
      {
        level: Decimal(`An address that lacks gas is filled up to this, in ${words.coin}`),
        topUpMax: Decimal('The most that one top-up brings: a payment that lacks more is a person’s'),
        warnBelow: Type.Optional(
          Decimal('People are told when a wallet that pays fees has less', { absent: words.warnBelow }),
        ),
        warnWithinHours: Whole(1, 'And when, at the last day’s rate, it lasts less than this', '24'),
      },
      {
        ...closed,
        description: 'Coin for addresses that lack it, out of wallets of the kind GAS (`wallets`)',
        absent: 'they wait, and a person funds them',
      },
    ),
  );
export type GasConfig = NonNullable<Static<ReturnType<typeof gasShape>>>;
