/** The shape of one bank in the configuration file. */
import { type Static, Type } from 'typebox';
import { LOOK_EVERY_MS, RESEND_AFTER_MS } from '../rails/bank/limits.ts';
import { PROFILES } from '../rails/bank/profiles/index.ts';
import { BasisPoints, closed, Decimal, says, SecretName, Whole } from './config-kinds.ts';

const NAMES = PROFILES.map((profile) => profile.name);

/** Every secret of a bank stands under such a name: no other setting can be sent to a bank by mistake. */
export const BANK_SECRET_PREFIX = 'PAYONCE_BANK_';
const Text = (description: string, unitsMax: number) =>
  Type.String({ minLength: 1, maxLength: unitsMax, description, ...says(`1 to ${unitsMax} characters`) });
const TimeOfDay = (description: string) =>
  Type.String({
    pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
    description,
    ...says('a time of day such as "23:30"'),
  });

const BankAsset = Type.Object(
  {
    code: Type.String({
      pattern: '^[A-Z]{3}$',
      description: 'The currency, and what partners call it; no other asset of this bank has it',
      ...says('a currency of ISO 4217 such as "KRW"'),
    }),
    decimals: Type.Integer({
      minimum: 0,
      maximum: 36,
      description: 'Of its smallest unit: KRW 0, USD 2. Frozen once registered',
      ...says('a whole number from 0 to 36'),
    }),
    transfer: Type.Object(
      {
        min: Decimal('The least that one transfer pays'),
        max: Decimal('The most that one transfer pays'),
        dayMax: Decimal("The most that a partner's transfers pay in one day of its time zone"),
        feeFlat: Decimal('What each transfer costs the partner, on top of the amount'),
        feeBasisPoints: BasisPoints('And this share of the amount, in hundredths of a percent'),
      },
      { ...closed, description: 'Limits and fees of transfers' },
    ),
  },
  closed,
);

export const Bank = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
      description: 'Never changes: what was sent is found by it. The rail is then `bank:{name}`',
      ...says('1 to 40 of small letters, digits and hyphen'),
    }),
    profile: Type.String({
      pattern: `^(${NAMES.join('|')})$`,
      description: 'How this provider speaks, and what it promises',
      ...says(`one of ${NAMES.join(', ')}`),
    }),
    baseUrl: Type.String({
      pattern: '^https?://',
      description:
        'What comes before the paths of its API. Part of what is sealed: after a change what is under way is neither sent nor looked at until it is back',
      ...says('an https:// URL'),
    }),
    account: Type.String({
      pattern: '^[^\\s:]{1,100}$',
      description: 'The account at the provider that pays. Part of what is sealed',
      ...says('1 to 100 characters without blanks and colons'),
    }),
    credential: Type.Object(
      {
        id: Text('A name for it. Another secret that is another credential to the provider needs another name', 60),
        secretFrom: SecretName(BANK_SECRET_PREFIX, 'Environment variable that holds the secret'),
        encryptionKeyFrom: Type.Optional({
          ...SecretName(
            BANK_SECRET_PREFIX,
            'Environment variable with 64 hexadecimal characters, where the provider encrypts bodies',
          ),
          absent: 'none',
        }),
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
    maintenance: Type.Optional(
      Type.Array(
        Type.Object(
          {
            from: TimeOfDay('Start'),
            until: TimeOfDay('End; earlier than `from`: over midnight'),
            timeZone: Type.String({
              minLength: 1,
              description: 'Of these times',
              ...says('a name such as "Asia/Seoul"'),
            }),
          },
          closed,
        ),
        {
          description: 'Hours in which no new transfer is sent',
          absent: 'none',
          ...says('a list of hours'),
        },
      ),
    ),
    narrower: Type.Optional(
      Type.Object(
        {
          retentionMs: Whole(1, 'How long this contract keeps keys', 'as the profile says'),
          latenessMs: Whole(1, 'How late a request may still be executed', 'as the profile says'),
        },
        { ...closed, description: 'Where the contract promises less than the profile', absent: 'as the profile says' },
      ),
    ),
    answerWithinMs: Whole(
      100,
      'A request is waited for so long; less than the provider itself needs makes slow successes unknown',
      'as the profile says',
    ),
    lookEveryMs: Whole(50, 'Between two looks at a transfer under way', String(LOOK_EVERY_MS)),
    resendAfterMs: Whole(100, 'The same bytes are sent again after this', String(RESEND_AFTER_MS)),
    decideWithinMs: Whole(1_000, 'What is undecided by then becomes a case', 'as the profile says'),
    assets: Type.Array(BankAsset, {
      minItems: 1,
      description: 'What is paid through this bank',
      ...says('a list of at least one asset'),
    }),
  },
  closed,
);

export type WrittenBank = Static<typeof Bank>;
