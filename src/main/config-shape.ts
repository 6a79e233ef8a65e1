/** The shape of the configuration file: each field with what it means, what is expected, and what holds without it.
 *  docs/config.md is printed from it, faults are told in its words. */
import { type Static, Type } from 'typebox';
import { OVERLAP_BLOCKS } from '../flows/deposits/limits.ts';
import { CAPABILITIES } from '../rails/evm/limits.ts';
import { assetShape, gasShape, nodeFields } from './config-asset-shape.ts';
import { Bank } from './config-bank-shape.ts';
import { closed, says, Units, Whole } from './config-kinds.ts';
import { Escrow, Group } from './config-p2p-shape.ts';
import { TronChain } from './config-tron-shape.ts';

const Asset = assetShape({
  pattern: '^0x[0-9a-fA-F]{40}$',
  address: '0x and 40 hex digits, as a string',
  coinKeeps: '21000 gas at `feeCapWei` for the coin, 0 for a token',
  relays: 'Signs, pays gas and owns the nonce in the wallet’s place, by the allowance that the wallet gave it',
});

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
    nodes: Type.Array(Type.Object(nodeFields('JSON-RPC over HTTP'), closed), {
      minItems: 1,
      description: 'Two operators at least, else what cannot be shown by one stays with people',
      ...says('a list of at least one node'),
    }),
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
    gas: gasShape({ coin: 'the chain’s coin', warnBelow: 'only `warnWithinHours` counts' }),
    agreeing: Whole(
      1,
      'Operators that must show the same final block, and the same movements of ours in it, before a deposit is credited',
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

const PayoutCall = Type.Object(
  {
    chain: Type.String({
      pattern: '^[a-z0-9]+:[A-Za-z0-9_-]+$',
      description: 'The chain of the contract, as in ids of assets',
      ...says('a name such as "eip155:1"'),
    }),
    to: Type.String({
      minLength: 1,
      description: 'The contract, as the chain writes it',
      ...says('an address of that chain'),
    }),
    data: Type.String({
      pattern: '^0x[0-9a-zA-Z{}_]{8,}$',
      description: 'The template of its data: what goes to whom must stand in it as `{creator}` and `{amount}`',
      ...says('0x and hex digits in which {creator}, {amount} … stand for words'),
    }),
    value: Type.Optional(
      Type.Union([Type.Literal('amount'), Type.Literal('nothing')], {
        description: 'The coin that goes with it: of the payout’s amount, or none',
        absent: '"nothing"',
        ...says('"amount" or "nothing"'),
      }),
    ),
  },
  closed,
);
export type PayoutCallConfig = Static<typeof PayoutCall>;

export const FileShape = Type.Object(
  {
    chains: Type.Array(Chain, { description: 'EVM chains; `[]` where there is none', ...says('a list of chains') }),
    tron: Type.Optional(
      Type.Array(TronChain, {
        description: 'Networks of TRON',
        absent: 'none',
        ...says('a list of networks'),
      }),
    ),
    banks: Type.Optional(
      Type.Array(Bank, {
        description: 'Banks and payout providers',
        absent: 'none',
        ...says('a list of banks'),
      }),
    ),
    escrows: Type.Optional(
      Type.Array(Escrow, {
        description: 'Escrow providers whose liquidity fills buyers’ orders',
        absent: 'none',
        ...says('a list of escrow providers'),
      }),
    ),
    p2p: Type.Optional(
      Type.Array(Group, {
        description: 'Groups of partners whose buyers and sellers are matched with each other',
        absent: 'none',
        ...says('a list of groups'),
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
    payoutCalls: Type.Optional(
      Type.Array(PayoutCall, {
        description:
          'What a programme of payouts may ask of a contract (`pays_by: "call"`), to the letter. The wallet that signs it may hold other partners’ money, so read what the contract does with each word',
        absent: 'none: programmes pay by transfer or multi_send',
        ...says('a list of calls'),
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
