/** The shapes of what operators ask and get. Money and ages are decimal text; what strangers answered is text as it came. */
import { type TSchema, Type } from 'typebox';
import { VERBS, WISHES } from '../engine/adjudicate.ts';
import { REPAIR_AS } from '../audit/repair/index.ts';
import { SURPLUS_TO } from '../flows/p2p/index.ts';
import { CASE_KINDS, type CaseKind } from '../engine/cases.ts';
import { Id, pageQuery } from './schemas.ts';

/** The tag by which the partners' document leaves these routes out. */
export const OPS = 'OPS';

const closed = { additionalProperties: false } as const;
const text = Type.String();
const Time = Type.String({ format: 'date-time' });
const Count = Type.Integer({ minimum: 0 });
const Seconds = Type.String({ pattern: '^[0-9]+$', description: 'whole seconds' });
const maybe = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** What people write: lines, no other control characters, no halves of surrogate pairs. */
const words = (charactersMax: number, description: string) =>
  Type.String({
    minLength: 1,
    maxLength: charactersMax,
    pattern: '^(?:[^\\p{Cc}\\p{Cs}]|[\\n\\t])*$',
    description: `${description}, 1 to ${charactersMax} characters`,
  });
const Reason = words(2_000, 'what you saw, and where; it stands in the audit log');
const Visible = { pattern: '^[\\x21-\\x7e]+$', minLength: 1, maxLength: 300 } as const;

export const IdParams = Type.Object({ id: Id }, closed);
export const EffectParams = Type.Object(
  {
    id: Type.String({
      ...Visible,
      description: "an effect's number, a withdrawal's or transfer's id, a transaction's hash or an identity",
    }),
  },
  closed,
);
export const AnswerParams = Type.Object({ id: Type.String({ pattern: '^[1-9][0-9]{0,17}$' }) }, closed);
export const RailParams = Type.Object({ name: Type.String(Visible) }, closed);

const SEVERITIES = ['1', '2', '3'] as const;
export const CaseQuery = Type.Object(
  {
    ...pageQuery,
    status: Type.Optional(Type.Enum(['open', 'all'], { description: 'open when left out' })),
    kind: Type.Optional(Type.Enum(Object.keys(CASE_KINDS) as CaseKind[])),
    partner: Type.Optional(Id),
    severity: Type.Optional(Type.Enum([...SEVERITIES], { description: '1 when you can, 2 today, 3 now' })),
  },
  closed,
);
export const AuditQuery = Type.Object(
  { ...pageQuery, object: Type.Optional(Type.String({ ...Visible, description: 'a case, effect:12, a rail …' })) },
  closed,
);

const listed = {
  id: Id,
  kind: text,
  means: maybe(text),
  severity: Type.Integer({ minimum: 1, maximum: 3 }),
  subject: text,
  effect_id: maybe(text),
  partner_id: maybe(text),
  amount: maybe(text),
  asset: maybe(text),
  summary: text,
  age_seconds: Seconds,
  opened_at: Time,
  last_seen_at: Time,
  closed_at: maybe(Time),
  closed_how: maybe(text),
  open_proposals: Count,
};
export const CasePage = Type.Object(
  {
    open: Type.Object({ count: Count, oldest_seconds: maybe(Seconds) }, closed),
    items: Type.Array(Type.Object(listed, closed)),
    next: maybe(text),
  },
  { ...closed, description: 'A page, the most urgent first; `open` counts all open ones that fit the query' },
);

const Proposal = Type.Object(
  {
    id: Id,
    verb: text,
    detail: Type.Object({}),
    evidence_version: Count,
    proposed_by: text,
    proposed_at: Time,
    approved_by: maybe(text),
    decided_at: maybe(Time),
    state: text,
    is_stale: Type.Boolean({ description: 'the evidence has changed since: approving it makes it void' }),
  },
  closed,
);
const Note = Type.Object({ by: text, note: text, at: Time }, closed);

const possible = { possible: Type.Boolean(), why_not: maybe(text) };
const Act = Type.Object({ act: Type.Enum([...WISHES]), ...possible }, closed);
const VerbNow = Type.Object(
  { verb: Type.Enum([...VERBS]), ...possible, needs: Type.Array(text, { description: 'beside the reason' }) },
  closed,
);

export const Answer = Type.Object({
  id: text,
  operation: Type.Enum(['send', 'look']),
  send_number: Count,
  source: text,
  operator: text,
  reach: text,
  status: maybe(Type.Integer()),
  body: Type.String({ description: 'as it came, as text; the beginning of it where body_characters says more' }),
  body_characters: Count,
  variant_hash: maybe(text),
  repeats: Count,
  received_at: Time,
  last_received_at: Time,
  read_as: maybe(text),
  why: maybe(text),
});
const Evidence = Type.Object({
  id: text,
  kind: text,
  says: Type.Enum(['yes', 'no', 'nothing'], { description: 'that it moved' }),
  rank: text,
  source: text,
  operator: text,
  object_id: maybe(text),
  detail: text,
  proposal_id: maybe(text),
  at: Time,
  struck_at: maybe(Time),
});
const Entry = Type.Object({ account: text, asset: text, amount: text });
const Posting = Type.Object({
  id: text,
  key: text,
  reverses: maybe(text),
  created_at: Time,
  entries: Type.Array(Entry),
});
/** What the bank's own statement shows of it. */
const StatementLine = Type.Object({
  booked_on: text,
  direction: Type.Enum(['out', 'in']),
  amount: text,
  own_reference: maybe(text),
  counterparty_account: maybe(text),
  counterparty_name: maybe(text),
  text: maybe(text),
  place: text,
});
const Event = Type.Object({ event_id: text, sequence: text, type: text, created_at: Time });
/** Open: what an effect has besides depends on its rail. */
const Effect = Type.Object({
  id: text,
  subject_type: text,
  subject_id: text,
  attempt: Count,
  partner_id: text,
  rail: text,
  state: text,
  asset: text,
  amount: text,
  destination: text,
  created_at: Time,
  wait_reason: maybe(text),
  next_at: Time,
  lease_until: maybe(Time),
  wanted: maybe(text),
  evidence_version: Count,
  testimonies: Count,
  history: Type.Array(Type.Object({ to_state: text, reason: maybe(text), at: Time })),
  answers: Type.Array(Answer),
  answers_left_out: Count,
  evidence: Type.Array(Evidence),
  postings: Type.Array(Posting),
  statement_lines: Type.Array(StatementLine),
  acts: Type.Array(Act),
});
export const CaseFull = Type.Object(
  {
    ...listed,
    proposals: Type.Array(Proposal),
    notes: Type.Array(Note),
    verbs: Type.Array(VerbNow),
    effect: maybe(Effect),
    events: Type.Array(Event),
  },
  closed,
);
export const Effects = Type.Object({ effects: Type.Array(Effect), events: Type.Array(Event) }, closed);

export const NewProposal = Type.Object(
  {
    verb: Type.Enum([...VERBS], { description: 'what a second person shall approve' }),
    reason: Reason,
    evidence_id: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,17}$', description: 'strike: the evidence' })),
    deposit_id: Type.Optional(Id),
    chain: Type.Optional(Type.String({ ...Visible, description: 'resume_scan: the chain' })),
    from_block: Type.Optional(
      Type.String({ pattern: '^(?:0|[1-9][0-9]{0,17})$', description: 'resume_scan: the first block to read again' }),
    ),
    line: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,8}$', description: 'decide_line: the number of the line in its file' }),
    ),
    fate: Type.Optional(Type.Enum(['paid', 'not_paid'], { description: 'decide_line: what became of it' })),
    finding: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,17}$', description: 'repair: the finding of a report on a chain' }),
    ),
    as: Type.Optional(
      Type.Enum([...new Set([...REPAIR_AS, ...SURPLUS_TO])], {
        description: `repair: what it is booked as; p2p_surplus: where it goes, ${SURPLUS_TO.join(', ')}`,
      }),
    ),
    partner_id: Type.Optional(Id),
    effect_id: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,17}$', description: 'repair: whose effect it repeats' }),
    ),
    leg: Type.Optional(
      Type.String({
        pattern: '^leg_[0-9a-z]{26}$',
        description: 'p2p_settle, p2p_void, p2p_correct: the leg, where the case is not about one',
      }),
    ),
    amount: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,78}(?:\\.[0-9]{1,36})?$',
        description: 'p2p_correct: how much of the leg; p2p_surplus: absent, all',
      }),
    ),
    direction: Type.Optional(
      Type.Enum(['recall', 'credit_again'], { description: 'p2p_correct: from the buyer’s partner, or to it' }),
    ),
  },
  closed,
);
export const ProposalMade = Type.Object(
  { proposal_id: Id, case_id: Id, verb: Type.Enum([...VERBS]), evidence_version: Count },
  closed,
);
export const Approved = Type.Object({ proposal_id: Id, outcome: text, did: Type.Optional(text) });
export const Withdrawn = Type.Object({ proposal_id: Id, outcome: Type.Literal('withdrawn') }, closed);
export const NewNote = Type.Object({ note: words(4_000, 'a remark for whoever looks next') }, closed);
export const Noted = Type.Object({ case_id: Id, note: text }, closed);

export const ActedNow = Type.Object(
  {
    effect_id: text,
    act: Type.Enum([...WISHES]),
    outcome: Type.Literal('advanced'),
    state: text,
    evidence_version: Count,
    sent: Type.Integer({ minimum: 0, description: 'how often the same bytes were sent again' }),
    withheld: Type.Union([text, Type.Null()], { description: 'why an ask sent nothing' }),
  },
  closed,
);
export const ActLeft = Type.Object(
  {
    effect_id: text,
    act: Type.Enum([...WISHES]),
    outcome: Type.Enum(['wished', 'hurried']),
    what_happens: text,
  },
  closed,
);

const doubt = { count: Count, amount: text, oldest_seconds: maybe(Seconds) };
export const Undecided = Type.Object(
  {
    count: Count,
    with_case: Count,
    oldest_seconds: maybe(Seconds),
    items: Type.Array(
      Type.Object(
        {
          rail: text,
          partner_id: text,
          asset: text,
          asset_id: text,
          count: Count,
          amount: text,
          oldest_seconds: Seconds,
          in_doubt: Type.Object(doubt, closed),
          with_case: Count,
        },
        closed,
      ),
    ),
    cases: Type.Object({ count: Count, oldest_seconds: maybe(Seconds) }, closed),
    attention: Type.Object(
      {
        rails_stopped: Type.Array(Type.Object({ name: text, reason: text }, closed)),
        scans_halted: Type.Array(Type.Object({ name: text, reason: text }, closed)),
        grave: Type.Array(Type.Object({ kind: text, count: Count }, closed)),
        long_stays: Count,
        wallets_short: Type.Array(
          Type.Object({ chain: text, address: text, left: text, hours_left: maybe(text) }, closed),
        ),
      },
      closed,
    ),
  },
  closed,
);
export const Alerts = Type.Object(
  {
    items: Type.Array(
      Type.Object({ kind: text, key: text, message: text, first_at: Time, last_at: Time, times: Seconds }, closed),
    ),
  },
  closed,
);
export const ActItem = Type.Object(
  {
    seq: text,
    at: Time,
    actor: text,
    actor_name: maybe(text),
    action: text,
    object: text,
    detail: Type.Unknown({ description: 'null: erased at the request of a person' }),
  },
  closed,
);
export const AuditVerified = Type.Object(
  {
    ok: Type.Boolean(),
    broken_count: Count,
    broken: Type.Array(Type.Object({ seq: text, fault: text }, closed)),
  },
  closed,
);
export const Rails = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
          name: text,
          seals_stopped_at: maybe(Time),
          seals_stopped_reason: maybe(text),
          pending: Count,
          sealed: Count,
        },
        closed,
      ),
    ),
  },
  closed,
);
export const StopReason = Type.Object({ reason: words(500, 'why; people and the audit log see it') }, closed);
export const RailDone = Type.Object({ name: text, outcome: text, reason: maybe(text) }, closed);
export const Me = Type.Object({ id: Id, name: text, role: text }, closed);
