/** The shape of one network of TRON in the configuration file. */
import { type Static, Type } from 'typebox';
import { OVERLAP_BLOCKS } from '../flows/deposits/limits.ts';
import { ENERGY_GIVE_UP_MS } from '../flows/supplies/limits.ts';
import { CAPABILITIES, CONNECTIONS_PER_NODE, EXPIRES_AFTER_MS } from '../rails/tron/limits.ts';
import { assetShape, gasShape, nodeFields } from './config-asset-shape.ts';
import { closed, says, SecretName, Units, Whole } from './config-kinds.ts';

const Asset = assetShape({
  pattern: '^T[1-9A-HJ-NP-Za-km-z]{33}$',
  address: 'T and 33 characters in base58, as a string',
  coinKeeps: '1 TRX for the coin, which pays its bandwidth; 0 for a token',
  relays: 'Signs and pays bandwidth and energy in the wallet’s place, by the allowance that the wallet gave it',
});

/** Keys of nodes and of an energy market stand under such names: no other setting can be sent to one by mistake. */
export const TRON_SECRET_PREFIX = 'PAYONCE_TRON_';

const Energy = Type.Object(
  {
    market: Type.Optional(
      Type.Object(
        {
          name: Type.String({
            pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
            description: 'Never changes: what was ordered is found by it. The rail is then `energy:{name}`',
            ...says('1 to 40 of small letters, digits and hyphen'),
          }),
          baseUrl: Type.String({
            pattern: '^https?://',
            description: 'What comes before the paths of its API. Part of what is sealed: a change bars sending again',
            ...says('an https:// URL'),
          }),
          account: Type.String({
            pattern: '^[^\\s:]{1,100}$',
            description: 'The account there whose prepaid balance pays',
            ...says('1 to 100 characters without blanks and colons'),
          }),
          secretFrom: SecretName(TRON_SECRET_PREFIX, 'Environment variable that holds its API key'),
          priceMaxSun: Units('The most that one unit of energy may cost for the whole rental, in sun'),
          rentMinutes: Whole(10, 'How long energy is rented for', '60'),
          unitsMin: Type.Optional({ ...Units('The least that one rental is of'), absent: '1000' }),
          unitsMax: Type.Optional({
            ...Units('The most that one payment may rent: more is a person’s'),
            absent: '500000',
          }),
        },
        { ...closed, description: 'Where energy is rented for payments that lack it', absent: 'it is not rented' },
      ),
    ),
    giveUpAfterMs: Whole(
      0,
      'When no energy has come by then, `burnUpToSun` may pay for it; without a market it does so at once',
      String(ENERGY_GIVE_UP_MS),
    ),
    burnUpToSun: Type.Optional({
      ...Units('TRX that one payment may burn in place of energy, in sun'),
      absent: 'none: payments wait until energy is there',
    }),
  },
  {
    ...closed,
    description: 'Energy for calls of contracts, where the signer has too little staked',
    absent: 'payments wait until energy is there',
  },
);

export const TronChain = Type.Object(
  {
    network: Type.String({
      pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
      description: 'Never changes: what was sent is found by it. The rail is then `tron:{network}`',
      ...says('1 to 40 of small letters, digits and hyphen, such as "mainnet"'),
    }),
    genesisId: Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'The id of block 0; each node must show it. Its last 8 digits name the chain: `tron:0x2b6653dc`',
      ...says('64 hex digits in lower case'),
    }),
    nodes: Type.Array(
      Type.Object(
        {
          ...nodeFields('HTTP API of java-tron (`/wallet/…`, `/walletsolidity/…`), with transaction history'),
          keyFrom: Type.Optional({
            ...SecretName(TRON_SECRET_PREFIX, 'Environment variable with the key that goes into `TRON-PRO-API-KEY`'),
            absent: 'no key is sent',
          }),
          connections: Whole(
            1,
            'Connections for looks and plans beside each other; more than 4 payments at once use several',
            String(CONNECTIONS_PER_NODE),
          ),
          requestsPerSecond: Whole(
            1,
            'What its operator takes of one key per second. Questions wait their turn, payments never do',
            'no limit of ours',
          ),
        },
        closed,
      ),
      {
        minItems: 1,
        description: 'Two operators at least, else what cannot be shown by one stays with people',
        ...says('a list of at least one node'),
      },
    ),
    feeLimitCapSun: Units('The highest `fee_limit` of any transaction, in sun. Above it payments wait'),
    energy: Type.Optional(Energy),
    gas: gasShape({ coin: 'TRX', warnBelow: '100' }),
    expiresAfterMs: Whole(
      30_000,
      'A transaction may be included until so long after the head it was made at',
      String(EXPIRES_AFTER_MS),
    ),
    agreeing: Whole(
      1,
      'Operators that must show the same solid block, and the same movements of ours in it, before a deposit is credited; a node without history cannot',
      '2, or 1 where there is one operator',
    ),
    absenceWitnesses: Whole(
      1,
      'Operators that must show that a payment can no longer happen before it is freed',
      String(CAPABILITIES.absenceWitnesses),
    ),
    lookEveryMs: Whole(50, 'Between two looks at a payment under way', String(CAPABILITIES.lookEveryMs)),
    resendAfterMs: Whole(100, 'The same bytes are sent again after this', String(CAPABILITIES.resendAfterMs)),
    decideWithinMs: Whole(1_000, 'What is undecided by then becomes a case', String(CAPABILITIES.decideWithinMs)),
    scanOverlapBlocks: Whole(1, 'Solid blocks that are read again for deposits each time', OVERLAP_BLOCKS.toString()),
    assets: Type.Array(Asset, {
      minItems: 1,
      description: 'What is paid and credited on this network',
      ...says('a list of at least one asset'),
    }),
  },
  closed,
);

export type WrittenTron = Static<typeof TronChain>;
