/** The shapes of files with many transfers. Lines are judged one by one by the flow, so that one bad line never refuses the others. */
import { type TSchema, Type } from 'typebox';
import { BATCH_LINES_MAX } from '../flows/transfers/batch.ts';
import { AmountText, AssetName, Id, pageQuery } from './schemas.ts';

const closed = { additionalProperties: false } as const;
const anyText = Type.String();
const maybe = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const LINE_FATES = [
  'waiting',
  'refused',
  'pending',
  'processing',
  'confirmed',
  'failed',
  'cancelled',
  'returned',
  'in_review',
] as const;
const BATCH_STATUSES = ['pending', 'processing', 'in_review', 'finished', 'failed', 'cancelled'] as const;

const UploadedLine = Type.Unknown({
  description:
    'an object with amount, bank_code, account_number, holder_name, and perhaps external_id and memo, all texts as in POST /v1/transfers; a line that is not right is listed in bad_lines and not paid',
});
export const NewBatch = Type.Object(
  {
    asset: AssetName,
    lines: Type.Array(UploadedLine, {
      minItems: 1,
      maxItems: BATCH_LINES_MAX,
      description: `1 to ${BATCH_LINES_MAX} transfers`,
    }),
  },
  closed,
);
export const CsvFile = Type.Unknown({
  description:
    'UTF-8; comma, semicolon or tab; a header with amount, bank_code, account_number, holder_name, perhaps external_id, memo, asset, or 금액, 은행코드, 계좌번호, 예금주, 참조, 메모, 자산',
});
export const UploadQuery = Type.Object(
  {
    asset: Type.Optional(AssetName),
    dry_run: Type.Optional(
      Type.Enum(['true', 'false'], { description: 'true: the file is checked, and nothing is stored' }),
    ),
  },
  closed,
);
export const BatchQuery = Type.Object({ ...pageQuery, status: Type.Optional(Type.Enum([...BATCH_STATUSES])) }, closed);
/** Described here for the document; where it is left out the file's own bytes are its key. */
export const OptionalKeyHeader = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({ description: 'A key of your own; left out, the sha256 of the file is its key' }),
  ),
});

const BadLine = Type.Object(
  {
    line: Type.Integer({ description: 'as an editor counts lines; in JSON the place in `lines`, from 1' }),
    column: anyText,
    column_number: maybe(Type.Integer()),
    got: anyText,
    expected: anyText,
  },
  closed,
);
const batchFields = {
  id: Id,
  status: Type.Enum([...BATCH_STATUSES], {
    description: 'finished: each line has its fate, which may be any; see by_fate and the lines',
  }),
  pays_as: Type.Enum(['transfers', 'batch'], {
    description: 'transfers: each line is a transfer of its own; batch: one order whose lines have fates',
  }),
  asset: anyText,
  amount: AmountText,
  fee: maybe(AmountText),
  format: Type.Enum(['csv', 'json']),
  file_sha256: anyText,
  requested_at: Type.String({ format: 'date-time' }),
};
export const BatchItem = Type.Object(batchFields, closed);
export const BatchFull = Type.Object(
  {
    ...batchFields,
    lines: Type.Object(
      {
        good: Type.Integer(),
        bad: Type.Integer(),
        by_fate: Type.Object(
          Object.fromEntries(LINE_FATES.map((fate) => [fate, Type.Optional(Type.Integer())])),
          closed,
        ),
      },
      closed,
    ),
    paid: Type.String({ description: 'the sum of the confirmed lines; what came back is no part of it' }),
    bad_lines: Type.Array(BadLine, { description: 'not paid: correct them and upload them in another file' }),
  },
  closed,
);
export const BatchChecked = Type.Object(
  {
    dry_run: Type.Literal(true),
    asset: anyText,
    amount: AmountText,
    fee: AmountText,
    lines: Type.Object({ good: Type.Integer(), bad: Type.Integer() }, closed),
    bad_lines: Type.Array(BadLine),
    warnings: Type.Array(BadLine, { description: 'odd, but it would be taken' }),
    available: Type.String({
      description: 'what you may spend now; of a batch all must be there, of transfers each line is held by itself',
    }),
    covered: Type.Boolean({ description: 'amount and fees are within what is available' }),
  },
  closed,
);
export const BatchLineItem = Type.Object(
  {
    line: Type.Integer(),
    external_id: maybe(anyText),
    amount: AmountText,
    fee: maybe(AmountText),
    bank_code: anyText,
    account_number: anyText,
    holder_name: anyText,
    memo: anyText,
    fate: Type.Enum([...LINE_FATES]),
    reason: maybe(anyText),
    code: Type.Union([anyText, Type.Null()], { description: 'refused: the code of GET /problems/{code}' }),
    transfer_id: maybe(Id),
    bank_id: maybe(anyText),
  },
  closed,
);
