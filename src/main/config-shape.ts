/** The shape of the configuration file: each field with what it means, what is expected, and what holds without it.
 *  docs/config.md is printed from it, faults are told in its words. */
import { type Static, Type } from 'typebox';
import { OVERLAP_BLOCKS } from '../flows/deposits/limits.ts';
import { CAPABILITIES } from '../rails/evm/limits.ts';
import { Bank } from './config-bank-shape.ts';
import { BasisPoints, closed, Decimal, says, Units, Whole, type Words } from './config-kinds.ts';

const AN_ADDRESS = '0x and 40 hex digits, as a string';
const Address = (description: string, words: Words = {}) =>
  Type.String({ pattern: '^0x[0-9a-fA-F]{40}$', description, ...says(AN_ADDRESS), ...words });
const Asset = Type.Object(
  {
    code: Type.String({
      pattern: '^[A-Za-z0-9._-]{1,40}$',
      description: 'What partners call it; no other asset of this chain has it',
      ...says('1 to 40 of letters, digits, dot, underscore and hyphen'),
    }),
    contract: Type.Union([Address('The token'), Type.Null()], {
      description: "The token's contract; `null`: the chain's own coin, which pays gas. One such asset is needed",
      ...says(`${AN_ADDRESS}, or null for the chain's own coin`),
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
      Type.Array(
        Address('Signs, pays gas and owns the nonce in the wallet’s place, by the allowance that the wallet gave it'),
        {
          description: 'Tokens only; each payment takes the one with the most room that is not short of gas',
          absent: 'the wallet signs itself',
          ...says('a list of addresses'),
        },
      ),
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
              absent: '21000 gas at `feeCapWei` for the coin, 0 for a token',
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

const Chain = Type.Object(
  {
    chainId: Units('As `eth_chainId` answers; each node must answer it'),
    genesisHash: Type.Optional(
      Type.String({
        pattern: '^0x[0-9a-f]{64}$',
        description: 'Tells forks of one chain id apart; checked on every node',
        absent: 'not checked',
        ...says('0x and 64 hex digits in lower case'),
      }),
    ),
    nodes: Type.Array(
      Type.Object(
        {
          url: Type.String({
            pattern: '^https?://',
            description: 'JSON-RPC over HTTP',
            ...says('an http:// or https:// URL'),
          }),
          operator: Type.String({
            minLength: 1,
            description: 'Who runs it: two nodes of one operator are one witness',
            ...says('a name'),
          }),
        },
        closed,
      ),
      {
        minItems: 1,
        description: 'Two operators at least, else what cannot be shown by one stays with people',
        ...says('a list of at least one node'),
      },
    ),
    finality: Type.Union(
      [
        Type.Object({ tag: Type.Literal('finalized') }, closed),
        Type.Object({ depth: Type.Integer({ minimum: 1 }) }, closed),
      ],
      {
        description: 'When a block is final: by the chain’s own tag where it has one, else by blocks on top of it',
        ...says('{"tag": "finalized"} or {"depth": 64}'),
      },
    ),
    feeCapWei: Units('The highest fee per gas, in wei, that is ever offered, bumps included. Above it payments wait'),
    gasLimitCap: Units('The most gas that one payment may need. Above it payments wait'),
    agreeing: Whole(
      1,
      'Operators that must agree on a final block before a deposit is credited',
      '2, or 1 where there is one operator',
    ),
    absenceWitnesses: Whole(
      1,
      'Operators that must show that a payment can no longer happen before it is freed',
      String(CAPABILITIES.absenceWitnesses),
    ),
    lookEveryMs: Whole(50, 'Between two looks at a payment under way', String(CAPABILITIES.lookEveryMs)),
    resendAfterMs: Whole(100, 'The same bytes are sent again after this', String(CAPABILITIES.resendAfterMs)),
    bumpAfterMs: Whole(
      1_000,
      'A payment in no block by then is offered a higher fee',
      String(CAPABILITIES.bumpAfterMs),
    ),
    decideWithinMs: Whole(1_000, 'What is undecided by then becomes a case', String(CAPABILITIES.decideWithinMs)),
    scanOverlapBlocks: Whole(1, 'Final blocks that are read again for deposits each time', OVERLAP_BLOCKS.toString()),
    assets: Type.Array(Asset, {
      minItems: 1,
      description: 'What is paid and credited on this chain',
      ...says('a list of at least one asset'),
    }),
  },
  closed,
);

const Wallet = Type.Object(
  {
    chain: Type.String({
      pattern: '^[a-z0-9]+:[A-Za-z0-9_-]+$',
      description: 'The chain that it is on, as in ids of assets',
      ...says('a name such as "eip155:1"'),
    }),
    address: Type.String({ minLength: 1, description: 'As the chain writes it', ...says('an address of that chain') }),
    kind: Type.Union(
      [
        Type.Literal('MASTER'),
        Type.Literal('SETTLEMENT'),
        Type.Literal('GAS'),
        Type.Literal('RELAYER'),
        Type.Literal('ADMIN'),
      ],
      {
        description:
          'What it is for. What a SETTLEMENT, GAS, RELAYER or ADMIN wallet sends to another of ours is funding and credits nobody; what outsiders send to a MASTER wallet of a partner is a deposit',
        ...says('"MASTER", "SETTLEMENT", "GAS", "RELAYER" or "ADMIN"'),
      },
    ),
    partner: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'The one partner whose it is; make the partner first (`payonce partner create`)',
        absent: 'shared by all',
        ...says('the id of a partner'),
      }),
    ),
  },
  closed,
);

export const FileShape = Type.Object(
  {
    chains: Type.Array(Chain, { description: 'EVM chains; `[]` where there is none', ...says('a list of chains') }),
    banks: Type.Optional(
      Type.Array(Bank, {
        description: 'Banks and payout providers',
        absent: 'none',
        ...says('a list of banks'),
      }),
    ),
    wallets: Type.Optional(
      Type.Array(Wallet, {
        description:
          'Wallets of ours beside those that assets are paid from. All must be named here: a movement between two of ours credits nobody',
        absent: 'none',
        ...says('a list of wallets'),
      }),
    ),
    realizations: Type.Optional(
      Type.Object(
        {
          timeZone: Type.String({
            minLength: 1,
            description: 'Whose midnight ends a business date, and whose 01:00 is the hour',
            ...says('an IANA name such as "Asia/Seoul"'),
          }),
        },
        {
          ...closed,
          description:
            'Each night at 01:00 the fees of each partner move from the wallet that the asset is paid from to the SETTLEMENT wallet of its chain: the partner’s own one, else the shared one',
          absent: 'fees stay where they are',
        },
      ),
    ),
  },
  closed,
);
export type ChainConfig = Static<typeof Chain>;
export type WalletConfig = Static<typeof Wallet>;
