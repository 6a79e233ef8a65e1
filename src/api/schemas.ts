/** The shapes of the wire, once: requests are held to them, the OpenAPI document is made of them, tests hold answers to them. */
import type { FastifyTypeProvider } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { PAGE_ITEMS, PAGE_ITEMS_MAX } from '../kernel/limits.ts';
import { EVENT_TYPE_NAMES } from './event-types.ts';
import { PROBLEM_TYPE } from './problems.ts';

/** Requests are typed by the schema that they were checked with. */
export interface TypeBoxProvider extends FastifyTypeProvider {
  readonly validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown;
  readonly serializer: unknown;
}

const closed = { additionalProperties: false } as const;

/** Free text of people: no control characters and no halves of surrogate pairs, which databases and logs choke on. */
const PRINTABLE = '^[^\\p{Cc}\\p{Cs}]*$';
const VISIBLE = '^[\\x21-\\x7e]+$';

export const AmountText = Type.String({
  pattern: '^(0|[1-9][0-9]{0,77})(\\.[0-9]{1,78})?$',
  description: 'a decimal string such as "12.50"; JSON numbers are refused, they lose digits',
  examples: ['12.50'],
});
const ID = '^[a-z]+_[0-9A-Za-z_]{1,60}$';
export const Id = Type.String({ pattern: ID, description: 'an id such as "wd_…"' });
const Time = Type.String({ format: 'date-time' });
const maybe = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const anyText = Type.String();

export const AssetName = Type.String({
  maxLength: 200,
  pattern: VISIBLE,
  description: 'the code or id of an asset, see GET /v1/assets',
  examples: ['USDT'],
});
export const UserRef = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: PRINTABLE,
  description: 'your own name for the user, 1 to 128 characters',
});

export const ExternalId = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: VISIBLE,
  description: 'your own id of the payment, unique for ever, 1 to 128 visible ASCII characters',
});

export const NewWithdrawal = Type.Object(
  {
    asset: AssetName,
    amount: AmountText,
    destination: Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: PRINTABLE,
      description: "an address on the asset's chain",
    }),
    purpose: Type.Optional(
      Type.Enum(['customer', 'settlement', 'self'], {
        description: 'customer (the default): paid to anybody; settlement, self: moved to a wallet registered for you',
      }),
    ),
    external_id: Type.Optional(ExternalId),
    reference: Type.Optional(
      Type.String({ maxLength: 140, pattern: PRINTABLE, description: 'a note of yours, at most 140 characters' }),
    ),
  },
  closed,
);

/** Judged by the rules of the bank that pays; the length here only bounds what these have to read. */
const payeeText = (what: string, options: object = {}) =>
  Type.String({
    maxLength: 400,
    pattern: '^\\P{Cs}*$',
    description: `${what}, as text in quotes, at most 400 whole characters`,
    ...options,
  });

export const NewTransfer = Type.Object(
  {
    asset: AssetName,
    amount: AmountText,
    bank_code: payeeText('the code of the bank', { examples: ['004'] }),
    account_number: payeeText('the account number as the bank prints it, leading zeros too', {
      examples: ['110-123-0456'],
    }),
    holder_name: payeeText('the name of the account’s holder', { examples: ['홍길동'] }),
    memo: Type.Optional(payeeText('what the receiver is shown; never cut, so it must fit the bank’s limit')),
    external_id: Type.Optional(ExternalId),
    repays: Type.Optional(
      Type.String({
        pattern: ID,
        description: 'the id of a transfer that failed, was cancelled or came back: it is paid again',
      }),
    ),
  },
  closed,
);

/** Of orders to pay out, whatever they pay. */
export const ORDER_STATUSES = [
  'pending',
  'processing',
  'sent',
  'confirmed',
  'failed',
  'cancelled',
  'returned',
  'in_review',
] as const;

/** Described here for the document; held to in `idempotency.ts`, which names what is wrong. */
export const KeyHeader = Type.Object({
  'idempotency-key': Type.String({
    description:
      'A key of your own for each new payment, the same one when you repeat: 1 to 255 visible ASCII characters',
  }),
});

const History = Type.Array(
  Type.Object({ attempt: Type.Integer(), state: anyText, reason: maybe(anyText), at: Time }, closed),
);

const withdrawalFields = {
  id: Id,
  external_id: maybe(anyText),
  status: Type.Enum([...ORDER_STATUSES]),
  purpose: Type.Enum(['customer', 'settlement', 'self']),
  asset: anyText,
  amount: AmountText,
  fee: AmountText,
  destination: anyText,
  reference: maybe(anyText),
  requested_at: Time,
};
export const WithdrawalItem = Type.Object(withdrawalFields, closed);
export const WithdrawalFull = Type.Object(
  {
    ...withdrawalFields,
    tx_hash: maybe(anyText),
    tx_hashes: Type.Array(anyText),
    history: History,
  },
  closed,
);
/** It is stored, but could not be read back: never an error, since the payment goes its way (case B7, C5). */
export const OrderStored = Type.Object({ id: Id, status: Type.Literal('pending') }, closed);

const transferFields = {
  id: Id,
  external_id: maybe(anyText),
  status: Type.Enum([...ORDER_STATUSES]),
  asset: anyText,
  amount: AmountText,
  fee: AmountText,
  bank_code: anyText,
  account_number: anyText,
  holder_name: anyText,
  memo: anyText,
  repays: maybe(Id),
  payee_flagged: Type.Boolean({ description: 'money of yours came back from this account before' }),
  requested_at: Time,
};
export const TransferItem = Type.Object(transferFields, closed);
const transferFullFields = {
  ...transferFields,
  bank_id: Type.Union([anyText, Type.Null()], { description: 'the id that the bank gave it' }),
  reason: Type.Union([anyText, Type.Null()], { description: 'while a no waits to become final: what was said' }),
  final_at: Type.Union([Time, Type.Null()], { description: 'while a no waits: when it becomes final at the earliest' }),
  repaid_by: maybe(Id),
  returns: Type.Array(
    Type.Object({ id: Id, amount: AmountText, fee: AmountText, reason: maybe(anyText), at: Time }, closed),
    { description: 'what came back; `fee` of `amount` was kept on the way' },
  ),
  history: History,
};
const FieldFaults = Type.Array(Type.Object({ pointer: anyText, got: anyText, expected: anyText }, closed));
const warned = { warnings: { ...FieldFaults, description: 'odd, but taken: check it before it leaves, or cancel' } };
export const TransferFull = Type.Object({ ...transferFullFields, ...warned }, closed);
export const TransferStored = Type.Object({ id: Id, status: Type.Literal('pending'), ...warned }, closed);

export const NewAddress = Type.Object(
  {
    chain: Type.String({ maxLength: 100, pattern: VISIBLE, description: 'a chain of GET /v1/assets' }),
    user_ref: Type.Optional(UserRef),
  },
  closed,
);
export const Address = Type.Object(
  { id: Id, chain: anyText, address: anyText, user_ref: maybe(anyText), created_at: Time },
  closed,
);

export const DEPOSIT_STATES = ['detected', 'credited', 'vanished', 'reversed'] as const;
export const Deposit = Type.Object(
  {
    id: Id,
    state: Type.Enum([...DEPOSIT_STATES]),
    asset: anyText,
    amount: AmountText,
    fee: AmountText,
    chain: anyText,
    address: anyText,
    address_id: Id,
    user_ref: maybe(anyText),
    tx_hash: anyText,
    position: Type.Integer(),
    block_number: anyText,
    detected_at: Time,
    credited_at: maybe(Time),
    reversed_at: maybe(Time),
  },
  closed,
);

const SignedAmount = Type.String({ pattern: '^-?(0|[1-9][0-9]*)(\\.[0-9]+)?$' });
export const Balance = Type.Object(
  {
    asset: anyText,
    asset_id: anyText,
    balance: SignedAmount,
    held: AmountText,
    available: SignedAmount,
    deficit: AmountText,
  },
  closed,
);
export const Entry = Type.Object(
  {
    seq: anyText,
    asset: anyText,
    amount: SignedAmount,
    balance_after: SignedAmount,
    key: anyText,
    reference: anyText,
    at: Time,
  },
  closed,
);

export const AssetTermsItem = Type.Object(
  {
    id: anyText,
    code: anyText,
    chain: anyText,
    contract: maybe(anyText),
    decimals: Type.Integer(),
    paid_out_by: Type.Union([Type.Enum(['/v1/withdrawals', '/v1/transfers']), Type.Null()], {
      description: 'where it is paid out; `withdrawal` says within which limits and for which fee',
    }),
    withdrawal: maybe(
      Type.Object(
        {
          min: AmountText,
          max: AmountText,
          day_max: AmountText,
          fee_flat: AmountText,
          fee_basis_points: Type.Integer(),
        },
        closed,
      ),
    ),
    deposit: Type.Object({ fee_flat: AmountText, fee_basis_points: Type.Integer() }, closed),
  },
  closed,
);

const Subject = Type.Object({ type: anyText, id: anyText }, closed);
export const PartnerEvent = Type.Object({
  id: Id,
  type: Type.Enum(EVENT_TYPE_NAMES, { description: 'what happened; docs/webhooks.md says what each means' }),
  api_version: anyText,
  timestamp: Time,
  subject: Subject,
  sequence: Type.String({ description: 'counts the events of this subject from 1, without gaps' }),
  data: Type.Object({}, { description: 'the withdrawal, transfer or deposit as it was when this happened' }),
});
export const CaseItem = Type.Object(
  {
    id: Id,
    status: Type.Enum(['open', 'closed']),
    subject: maybe(Subject),
    asset: maybe(anyText),
    amount: maybe(AmountText),
    opened_at: Time,
    closed_at: maybe(Time),
  },
  closed,
);

export const NewEndpoint = Type.Object(
  { url: Type.String({ minLength: 1, maxLength: 2_000, pattern: VISIBLE, description: 'an https:// URL of yours' }) },
  closed,
);
const endpointFields = {
  id: Id,
  url: anyText,
  created_at: Time,
  disabled_at: maybe(Time),
  disabled_reason: maybe(anyText),
};
export const EndpointItem = Type.Object(endpointFields, closed);
export const EndpointMade = Type.Object({ ...endpointFields, secret: anyText }, closed);

export const Nothing = Type.Null({ description: 'Done' });
export const SourceParams = Type.Object(
  { source: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$', description: 'the name of a configured source' }) },
  closed,
);
export const InboundStored = Type.Object({ status: Type.Enum(['stored', 'already_received']) }, closed);

export const Alive = Type.Object({ status: Type.Literal('alive'), version: anyText }, closed);
export const Ready = Type.Object(
  {
    status: Type.Enum(['ready', 'not_ready']),
    database: Type.Enum(['ok', 'down']),
    rails: Type.Array(Type.Object({ rail: anyText, status: Type.Enum(['ok', 'degraded']) }, closed)),
    attention: Type.Optional(
      Type.Object(
        {
          rails_stopped: Type.Array(anyText),
          scans_halted: Type.Array(anyText),
          alerts: Type.Array(Type.Object({ kind: anyText, count: Type.Integer() }, closed)),
          long_stays: Type.Integer(),
          wallets_short: Type.Integer(),
        },
        { ...closed, description: 'what waits for a person; payonce doctor says more' },
      ),
    ),
  },
  closed,
);
export const CodeParams = Type.Object({ code: Type.String({ pattern: '^[A-Z_]{1,64}$' }) }, closed);
export const ProblemPage = Type.Object(
  {
    code: anyText,
    status: Type.Integer(),
    meaning: anyText,
    money_state: maybe(Type.Enum(['not_sent', 'unknown', 'sent'])),
    money_risk: anyText,
    what_to_do: anyText,
  },
  closed,
);

const ProblemBody = Type.Object(
  {
    type: anyText,
    title: anyText,
    status: Type.Integer(),
    code: anyText,
    detail: anyText,
    hint: anyText,
    pointer: Type.Optional(anyText),
    got: Type.Optional(anyText),
    expected: Type.Optional(anyText),
    faults: Type.Optional(FieldFaults),
    resource: Type.Optional(Subject),
    money_state: Type.Optional(Type.Enum(['not_sent', 'unknown', 'sent'])),
  },
  closed,
);

const problem = (description: string) => ({ description, content: { [PROBLEM_TYPE]: { schema: ProblemBody } } });
export const problems = {
  '4xx': problem('Refused: the code says why, money_state whether money may have moved'),
  '5xx': problem('Not done, or not known: money_state says which; repeat with the same key'),
};

export const pageOf = <T extends TSchema>(item: T) =>
  Type.Object({ items: Type.Array(item), next: maybe(anyText) }, { ...closed, description: 'A page, newest first' });
export const pageQuery = {
  cursor: Type.Optional(
    Type.String({
      maxLength: 1_000,
      pattern: '^[A-Za-z0-9_-]+$',
      description: 'the "next" of the page before, unchanged',
    }),
  ),
  limit: Type.Optional(
    Type.String({
      pattern: '^(?:[1-9]|[1-9][0-9]|1[0-9][0-9]|200)$',
      description: `1 to ${PAGE_ITEMS_MAX}, ${PAGE_ITEMS} when left out`,
    }),
  ),
};
export const PageQuery = Type.Object(pageQuery, closed);
export const OrderQuery = Type.Object(
  {
    ...pageQuery,
    status: Type.Optional(Type.Enum([...ORDER_STATUSES])),
    external_id: Type.Optional(ExternalId),
  },
  closed,
);
export const IdParams = Type.Object({ id: Id }, closed);
export const DepositQuery = Type.Object(
  { ...pageQuery, state: Type.Optional(Type.Enum([...DEPOSIT_STATES])), address_id: Type.Optional(Id) },
  closed,
);
export const AddressQuery = Type.Object({ ...pageQuery, user_ref: Type.Optional(UserRef) }, closed);
export const EntryQuery = Type.Object({ ...pageQuery, asset: AssetName }, closed);
export const EventQuery = Type.Object(
  {
    ...pageQuery,
    type: Type.Optional(
      Type.String({ pattern: '^[a-z_]+\\.[a-z_]+$', description: 'a type such as "withdrawal.confirmed"' }),
    ),
    subject: Type.Optional(Id),
  },
  closed,
);
export const CaseQuery = Type.Object({ ...pageQuery, status: Type.Optional(Type.Enum(['open', 'closed'])) }, closed);
