/** The shape of escrow providers and of what is traded between people, in the configuration file. */
import { type Static, Type } from 'typebox';
import { LOOK_EVERY_MS, RESEND_AFTER_MS } from '../rails/escrow/limits.ts';
import { TRADE_PROFILES } from '../rails/escrow/profiles/index.ts';
import { BasisPoints, closed, Decimal, says, SecretName, Whole } from './config-kinds.ts';

/** Every secret of an escrow provider stands under such a name: no other setting can be sent to one by mistake. */
export const ESCROW_SECRET_PREFIX = 'PAYONCE_ESCROW_';

const PROFILES = TRADE_PROFILES.map((profile) => profile.name);

const Name = (description: string) =>
  Type.String({
    pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
    description,
    ...says('1 to 40 of small letters, digits and hyphen'),
  });
const AssetName = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The asset that is traded, by its id; by its code where only one asset has that',
  ...says('an asset of "chains" or "tron"'),
});
const Fiat = Type.String({
  pattern: '^[A-Z]{3}$',
  description: 'What it is paid in',
  ...says('a currency of ISO 4217 such as "KRW"'),
});

export const Escrow = Type.Object(
  {
    name: Name('Never changes: what was opened is found by it. The rail is then `escrow:{name}`'),
    profile: Type.String({
      pattern: `^(${PROFILES.join('|')})$`,
      description: 'How this provider names its states',
      ...says(`one of ${PROFILES.join(', ')}`),
    }),
    baseUrl: Type.String({
      pattern: '^https?://',
      description: 'What comes before the paths of its API. Part of what is sealed: a change bars sending again',
      ...says('an https:// URL'),
    }),
    account: Type.String({
      pattern: '^[^\\s:]{1,100}$',
      description: 'The account at the provider. Part of what is sealed',
      ...says('1 to 100 characters without blanks and colons'),
    }),
    credential: Type.Object(
      {
        id: Type.String({
          minLength: 1,
          maxLength: 60,
          description: 'A name for it. Another secret that is another credential to the provider needs another name',
          ...says('1 to 60 characters'),
        }),
        secretFrom: SecretName(ESCROW_SECRET_PREFIX, 'Environment variable that holds its API key'),
      },
      { ...closed, description: 'How the provider knows us' },
    ),
    direct: Type.Optional(
      Type.Boolean({
        description: 'Requests reach the provider itself over TLS, and nothing between them delivers one again',
        absent: '`false`: a refusal frees nothing at once',
        ...says('true or false'),
      }),
    ),
    answerWithinMs: Whole(100, 'A request is waited for so long', 'as the profile says'),
    lookEveryMs: Whole(50, 'Between two looks at a trade', String(LOOK_EVERY_MS)),
    resendAfterMs: Whole(100, 'The same bytes are sent again after this', String(RESEND_AFTER_MS)),
    decideWithinMs: Whole(1_000, 'What is undecided by then becomes a case', 'as the profile says'),
  },
  closed,
);

const Market = Type.Object(
  {
    asset: AssetName,
    fiat: Fiat,
    fiatDecimals: Type.Integer({
      minimum: 0,
      maximum: 4,
      description: 'Of its smallest unit: KRW 0, USD 2',
      ...says('a whole number from 0 to 4'),
    }),
    orderMin: Decimal('The least that one order is of'),
    orderMax: Decimal('The most that one order is of'),
    legMin: Decimal('The least that one leg is of; what remains below it is closed with a reason'),
    feeBasisPoints: BasisPoints('What a buyer’s partner pays of each leg, in hundredths of a percent'),
    payWithinMinutes: Whole(1, 'A leg that is not paid by then gives its amount back', '15'),
    orderForMinutes: Whole(1, 'An order that is not matched by then expires; a partner may ask for less', '60'),
  },
  closed,
);

const Route = Type.Object(
  {
    escrow: Name('The provider, as in "escrows"'),
    asset: AssetName,
    fiat: Fiat,
    partner: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'For this partner only',
        absent: 'for the group',
        ...says('the id of a partner'),
      }),
    ),
    priority: Type.Integer({ description: 'The lowest is asked first', ...says('a whole number') }),
    min: Decimal('The least that one trade is of'),
    max: Decimal('The most that one trade is of'),
    enabled: Type.Optional(
      Type.Boolean({ description: '`false`: not asked now', absent: '`true`', ...says('true or false') }),
    ),
  },
  closed,
);

export const Group = Type.Object(
  {
    name: Name('Partners of one group are matched with each other, and with nobody else (`payonce p2p join`)'),
    markets: Type.Array(Market, {
      minItems: 1,
      description: 'What is traded in this group',
      ...says('a list of at least one market'),
    }),
    routes: Type.Optional(
      Type.Array(Route, {
        description: 'Liquidity of providers for what sellers do not fill',
        absent: 'none',
        ...says('a list of routes'),
      }),
    ),
  },
  closed,
);

export type WrittenEscrow = Static<typeof Escrow>;
export type WrittenGroup = Static<typeof Group>;
