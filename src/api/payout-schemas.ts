/** The shapes of creators' payouts. Events of volume are judged one by one by the flow, so that one bad item never refuses the others. */
import { type TSchema, Type } from 'typebox';
import { ACCRUALS_MAX, SLIPPAGE_BASIS_POINTS_MAX } from '../flows/payouts/index.ts';
import { AmountText, AssetName, Id, ORDER_STATUSES, pageQuery } from './schemas.ts';

const closed = { additionalProperties: false } as const;
const anyText = Type.String();
const maybe = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Time = Type.String({ format: 'date-time' });

const ProgrammeName = Type.String({
  pattern: '^[A-Za-z0-9._-]{1,80}$',
  description: 'your own name of the programme: 1 to 80 letters, digits, dot, hyphen or underscore',
});
const Programme = Type.String({
  pattern: '^[A-Za-z0-9._-]{1,80}$',
  description: 'a programme of yours, by its name or id',
});
const CreatorName = Type.String({
  pattern: '^[\\x21-\\x7e]{1,128}$',
  description: 'your own id of the creator, 1 to 128 visible ASCII characters',
});

export const ProgrammeParams = Type.Object({ name: ProgrammeName }, closed);
export const CreatorParams = Type.Object({ creator: CreatorName }, closed);

const Rate = Type.String({
  pattern: '^(0|[1-9][0-9]{0,18})(\\.[0-9]{1,12})?$',
  description: 'whole units of the asset for a whole unit of volume, at most 12 places',
  examples: ['0.05'],
});
const Hex = Type.String({ maxLength: 20_000, pattern: '^0x[0-9a-fA-F{}a-z_0-9]*$' });
const Call = Type.Object(
  {
    to: Type.String({ maxLength: 100, description: 'the contract' }),
    data: Type.Optional({
      ...Hex,
      description:
        'hex in which {creator}, {amount}, {min_output}, {wallet} and {reference} stand for words of 32 bytes, {creator20} for the bare address',
    }),
    value: Type.Optional(Type.Enum(['amount', 'nothing'], { description: 'the coin that goes with it' })),
    logs: Type.Optional(
      Type.Array(
        Type.Object(
          {
            address: Type.String({ maxLength: 100 }),
            topics: Type.Array(Type.Union([Hex, Type.Null()]), { maxItems: 4, description: 'words; null is any' }),
            minimumWord: Type.Optional(
              Type.Integer({ minimum: 0, maximum: 30, description: 'the word of the data that is the output' }),
            ),
          },
          closed,
        ),
        { maxItems: 10, description: 'what must be in the receipt for the creator to be paid' },
      ),
    ),
  },
  { ...closed, description: 'where many are paid in one call: the contract alone' },
);

const terms = {
  volume_decimals: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 36, description: 'places of a volume; as the asset has, where absent' }),
  ),
  rate: Type.Optional(Rate),
  tiers: Type.Optional(
    Type.Array(Type.Object({ from: AmountText, rate: Rate }, closed), {
      minItems: 1,
      maxItems: 20,
      description: 'each rate counts for the part of the running volume that lies in its tier; the first begins at 0',
    }),
  ),
  cap: Type.Optional({ ...AmountText, description: 'the most that one creator ever gets' }),
  threshold: { ...AmountText, description: 'a payout is made when so much volume is in none' },
  cut_min: Type.Optional({ ...AmountText, description: 'the daily cut pays what is at least this; absent: none' }),
  time_zone: Type.Optional(
    Type.String({ maxLength: 60, description: 'IANA; the cut comes at 05:00 there; UTC where absent' }),
  ),
  pays_by: Type.Optional(
    Type.Enum(['transfer', 'call', 'multi_send'], {
      description: 'a plain transfer (as absent), a call of `call` for each payout, or one call of `call.to` for many',
    }),
  ),
  call: Type.Optional(Call),
  quote: Type.Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,40}$',
      description: 'smallest units of the output for a whole unit of the asset: {min_output} is by this',
    }),
  ),
  slippage_basis_points: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SLIPPAGE_BASIS_POINTS_MAX,
      description: 'what the output may be less than quoted',
    }),
  ),
  paused: Type.Optional(Type.Boolean({ description: 'true: accrues, and pays nothing meanwhile' })),
};
export const ProgrammeTerms = Type.Object(terms, closed);
export const PutProgramme = Type.Object({ asset: AssetName, ...terms }, closed);
export const ProgrammeItem = Type.Object(
  {
    id: Id,
    name: anyText,
    asset: anyText,
    volume_decimals: Type.Integer(),
    tiers: Type.Array(Type.Object({ from: AmountText, rate: AmountText }, closed)),
    cap: maybe(AmountText),
    threshold: AmountText,
    cut_min: maybe(AmountText),
    time_zone: anyText,
    pays_by: Type.Enum(['transfer', 'call', 'multi_send']),
    call: maybe(Call),
    quote: maybe(anyText),
    slippage_basis_points: Type.Integer(),
    paused: Type.Boolean(),
    terms_version: Type.Integer({
      description: 'raised by each change; what was accrued before is by the terms before',
    }),
  },
  closed,
);

export const PutCreator = Type.Object(
  {
    asset: { ...AssetName, description: 'an asset of the chain that the address is on' },
    address: Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\p{Cc}\\p{Cs}]*$' }),
  },
  closed,
);
export const Creator = Type.Object(
  { id: Id, creator: anyText, chain: anyText, address: anyText, changed: Type.Boolean() },
  closed,
);

export const NewAccruals = Type.Object(
  {
    items: Type.Array(
      Type.Unknown({
        description:
          'an object with source_id, programme, creator, volume (a decimal string), and perhaps occurred_at; one that is not right is listed in refused and not counted',
      }),
      { minItems: 1, maxItems: ACCRUALS_MAX, description: `1 to ${ACCRUALS_MAX} events of volume` },
    ),
  },
  closed,
);
export const Accruals = Type.Object(
  {
    accrued: Type.Integer({ description: 'items on record now, by this request or an earlier one' }),
    refused: Type.Array(
      Type.Object(
        { item: Type.Integer(), source_id: maybe(anyText), field: anyText, got: anyText, expected: anyText },
        closed,
      ),
      { description: 'not counted: correct them and send them again; `item` counts from 0' },
    ),
  },
  closed,
);

const payoutFields = {
  id: Id,
  status: Type.Enum([...ORDER_STATUSES]),
  programme: anyText,
  creator: anyText,
  ordinal: Type.Integer({ description: 'counts this creator’s payouts of the programme' }),
  asset: anyText,
  amount: AmountText,
  volume: Type.String({ description: 'what it consumed; a failed or cancelled one gave it back' }),
  destination: anyText,
  origin: Type.Enum(['threshold', 'cut', 'again']),
  cut_date: maybe(anyText),
  min_output: maybe(anyText),
  batch_id: maybe(Id),
};
export const PayoutItem = Type.Object(payoutFields, closed);
export const PayoutFull = Type.Object(
  {
    ...payoutFields,
    requested_at: Time,
    tx_hash: maybe(anyText),
    history: Type.Array(
      Type.Object({ attempt: Type.Integer(), state: anyText, reason: maybe(anyText), at: Time }, closed),
    ),
  },
  closed,
);
export const PayoutQuery = Type.Object(
  {
    ...pageQuery,
    status: Type.Optional(Type.Enum([...ORDER_STATUSES])),
    programme: Type.Optional(Programme),
    creator: Type.Optional(CreatorName),
  },
  closed,
);
export const StatementQuery = Type.Object(
  {
    ...pageQuery,
    programme: Type.Optional(Programme),
    creator: Type.Optional(CreatorName),
    waiting: Type.Optional(Type.Enum(['true'], { description: 'only creators whose payout is due and not made' })),
    format: Type.Optional(
      Type.Enum(['json', 'csv'], { description: 'csv: the next page is in the header next-cursor' }),
    ),
  },
  closed,
);
export const StatementItem = Type.Object(
  {
    programme: anyText,
    creator: anyText,
    asset: anyText,
    address: maybe(anyText),
    volume: anyText,
    volume_carried: Type.String({ description: 'in no payout' }),
    accrued: Type.String({ description: '= paid + in_flight + carried' }),
    paid: anyText,
    in_flight: anyText,
    carried: anyText,
    payouts: Type.Integer(),
    due_since: maybe(Time),
    waits_for: Type.Union([anyText, Type.Null()], {
      description:
        'NO_ADDRESS, ADDRESS_OURS, NO_POLICY, NO_QUOTE, PAUSED, INSUFFICIENT_FUNDS, MOVED_NOTHING (tried again later) or CANCELLED',
    }),
  },
  closed,
);
