/** The shapes of P2P on the wire. */
import { type TSchema, Type } from 'typebox';
import { AmountText, AssetName, ExternalId, Id, IdParams, pageQuery, UserRef } from './schemas.ts';

const closed = { additionalProperties: false } as const;
const Time = Type.String({ format: 'date-time' });
const maybe = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const anyText = Type.String();
const line = (what: string, charactersMax: number, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: charactersMax,
    pattern: '^[^\\p{Cc}\\p{Cs}]*$',
    description: `${what}, 1 to ${charactersMax} characters`,
    examples: [example],
  });

export const Fiat = Type.String({
  pattern: '^[A-Z]{3}$',
  description: 'the currency that is paid, three capital letters of ISO 4217',
  examples: ['KRW'],
});
export const Price = Type.String({
  pattern: '^(0|[1-9][0-9]{0,25})(\\.[0-9]{1,12})?$',
  description: 'fiat per whole unit of the asset, a decimal string with at most 12 places',
  examples: ['1380.5'],
});

const newOrder = {
  asset: AssetName,
  amount: AmountText,
  fiat: Fiat,
  price: Price,
  user_ref: UserRef,
  external_id: Type.Optional(ExternalId),
  expires_in_seconds: Type.Optional(
    Type.Integer({
      minimum: 60,
      maximum: 7 * 86_400,
      description: 'how long it may be matched, a whole number from 60 to 604800; never longer than the market allows',
    }),
  ),
};

export const NewDepositOrder = Type.Object(
  {
    ...newOrder,
    partial: Type.Optional(
      Type.Enum(['accept', 'wait'], {
        description:
          'accept (the default): what liquidity there is now is better than nothing; wait: only the whole, until the order expires',
      }),
    ),
  },
  closed,
);

export const NewWithdrawOrder = Type.Object(
  {
    ...newOrder,
    bank_code: Type.String({
      pattern: '^[0-9A-Za-z]{1,20}$',
      description: 'the code of the seller’s bank, as text: leading zeros count',
      examples: ['004'],
    }),
    account_number: Type.String({
      pattern: '^[0-9][0-9-]{3,38}[0-9]$',
      description: 'digits, and hyphens between them',
      examples: ['110-123-045678'],
    }),
    holder_name: line('the name of the account’s holder', 100, '홍길동'),
  },
  closed,
);

const PayTo = Type.Object({ bank_code: anyText, account_number: anyText, holder_name: anyText }, closed);

export const Leg = Type.Object(
  {
    id: Id,
    kind: Type.Enum(['seller', 'liquidity_provider']),
    state: Type.Enum(['open', 'settled', 'expired', 'void', 'surplus']),
    amount: AmountText,
    fiat: anyText,
    fiat_amount: AmountText,
    price: anyText,
    pay_by: maybe(Time),
    paid_marked: Type.Boolean(),
    disputed: Type.Boolean(),
    ended_at: maybe(Time),
    end_reason: maybe(anyText),
    pay_to: maybe(PayTo),
  },
  closed,
);

const order = {
  id: Id,
  external_id: maybe(anyText),
  user_ref: anyText,
  asset: anyText,
  asset_id: anyText,
  amount: AmountText,
  fiat: anyText,
  price: anyText,
  settled_amount: AmountText,
  remaining_amount: Type.String({ ...AmountText, description: 'what it did not get, once it is closed' }),
  created_at: Time,
  expires_at: Time,
  closed_at: maybe(Time),
  close_reason: maybe(anyText),
  legs: Type.Array(Leg),
};

export const DEPOSIT_STATUSES = [
  'pending',
  'matched',
  'completed',
  'partially_settled',
  'expired',
  'cancelled',
] as const;
export const WITHDRAW_STATUSES = ['open', 'closing', 'completed', 'partially_settled', 'expired', 'cancelled'] as const;

export const DepositOrder = Type.Object(
  { ...order, status: Type.Enum([...DEPOSIT_STATUSES]), partial: Type.Enum(['accept', 'wait']) },
  closed,
);
export const WithdrawOrder = Type.Object(
  {
    ...order,
    status: Type.Enum([...WITHDRAW_STATUSES]),
    reserved_amount: AmountText,
    bank_code: anyText,
    account_number: anyText,
    holder_name: anyText,
  },
  closed,
);
export const OrderStored = Type.Object(
  { id: Id, status: anyText },
  { ...closed, description: 'Stored, and cannot be read back now: read it later by its id' },
);

export const DepositOrderQuery = Type.Object(
  { ...pageQuery, status: Type.Optional(Type.Enum([...DEPOSIT_STATUSES])), external_id: Type.Optional(ExternalId) },
  closed,
);
export const WithdrawOrderQuery = Type.Object(
  { ...pageQuery, status: Type.Optional(Type.Enum([...WITHDRAW_STATUSES])), external_id: Type.Optional(ExternalId) },
  closed,
);

export const LegParams = IdParams;
export const Confirmation = Type.Object(
  {
    fiat_amount: Type.String({
      ...AmountText,
      description: 'what was paid, exactly the leg’s `fiat_amount`',
      examples: ['138050'],
    }),
  },
  closed,
);
export const Dispute = Type.Object({ reason: line('what is disputed', 300, 'paid, but not confirmed') }, closed);
export const LegAnswer = Type.Object(
  {
    id: Id,
    outcome: Type.Enum(['settled', 'already_settled', 'marked', 'disputed', 'cancelled', 'cancel_asked'], {
      description:
        'cancel_asked: a liquidity provider is asked to end its trade; until it has, the leg stands and may still be paid',
    }),
  },
  closed,
);
