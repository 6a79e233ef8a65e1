/** A story as people read it, from what was meant to what came of it. What strangers answered is cut and made harmless. */
import type { CaseStory } from '../audit/case-story.ts';
import type { EffectStory, StoryEvent, StoryEvidence } from '../audit/story.ts';
import type { StoryAnswer } from '../audit/story-answers.ts';
import { bytesText, cut, facts, heading, moment, paint, printable, table } from './output.ts';

/** Enough to see what kind of answer it was. */
const ANSWER_CHARACTERS_MAX = 400;
const JSON_CHARACTERS_MAX = 800;

const STATE_WORDS: Readonly<Record<string, string>> = {
  PENDING: 'PENDING: nothing has left',
  SEALED: 'SEALED: it may have left; only the same identity may leave again',
  SETTLED: 'SETTLED: it happened',
  RELEASED: 'RELEASED: it did not happen, and the proof is below',
};

export function effectText(one: EffectStory): string {
  return [
    paint('bold', `Effect ${one.id}: ${one.amount} ${one.asset} to ${one.destination}`),
    facts([
      ['state', STATE_WORDS[one.state] ?? one.state],
      ['for', `${one.subject_type} ${one.subject_id}, try ${one.attempt}, partner ${one.partner_id}`],
      ['rail', `${one.rail}, from wallet ${one.wallet}${one.signer === one.wallet ? '' : `, signed by ${one.signer}`}`],
      ['lane', one.lane],
      ['hold', one.hold === null ? null : `${one.hold.key} (${one.hold.state})`],
      ['waits for', one.wait_reason === null ? null : printable(one.wait_reason)],
      ['failures', one.failures === 0 ? null : `${one.failures} in a row`],
      ['next look', one.end === null ? moment(one.next_at) : null],
      ['wish', one.wanted],
      ['in a block', moment(one.included_at)],
      ['accepted as', one.accepted_object],
      ['at the rail', objectOf(one)],
      [
        'a no waits',
        one.believed === null
          ? null
          : `${printable(one.believed.reason)}; nothing is sent any more; final at ${moment(one.believed.final_at) ?? '-'} at the earliest`,
      ],
      ['contradicted', moment(one.contradicted_at)],
      ['re-opened', one.reopens === 0 ? null : `${one.reopens} times`],
      ['evidence', `version ${one.evidence_version}, ${one.testimonies} testimonies`],
    ]),
    ...payeeText(one),
    ...sealText(one),
    heading('What happened to it'),
    table(
      ['AT', 'STATE', 'BECAUSE'],
      one.history.map((line) => [moment(line.at), line.to_state, line.reason]),
    ),
    ...answersText(one.answers, one.answers_left_out),
    ...evidenceText(one.evidence, one.end?.evidence_id ?? null),
    heading('Booked'),
    table(
      ['POSTING', 'KEY', 'ENTRIES', 'AT'],
      one.postings.map((posting) => [
        posting.id,
        posting.key,
        posting.entries.map((entry) => `${entry.account} ${entry.amount} ${entry.asset}`).join(' · '),
        moment(posting.created_at),
      ]),
      'Nothing.',
    ),
    ...returnsText(one),
    ...statementText(one),
  ].join('\n');
}

/** The rail's own id of what happened there, where no acceptance named it; a chain's are among the signed ones. */
function objectOf({ accepted_object, variants, evidence }: EffectStory): string | null {
  if (accepted_object !== null || variants.length > 0) return null;
  return (
    evidence.findLast((one) => one.says === 'yes' && one.struck_at === null && one.object_id !== null)?.object_id ??
    null
  );
}

function payeeText({ payee }: EffectStory): string[] {
  if (payee === null) return [];
  return [
    heading('Payee'),
    facts([
      ['bank', payee.bank_code],
      ['account', payee.account_number],
      ['holder', printable(payee.holder_name)],
      ['memo', payee.memo === '' ? null : printable(payee.memo)],
      ['flagged', payee.flagged ? paint('yellow', 'money of this partner came back from this account') : null],
    ]),
  ];
}

function returnsText({ returns, asset }: EffectStory): string[] {
  if (returns.length === 0) return [];
  return [
    heading('Came back'),
    table(
      ['RETURN', 'AMOUNT', 'KEPT AS FEE', 'AT THE RAIL', 'AT', 'WHY'],
      returns.map((one) => [
        one.id,
        `${one.amount} ${asset}`,
        `${one.fee} ${asset}`,
        printable(one.provider_return_id),
        moment(one.at),
        one.reason === null ? null : printable(one.reason),
      ]),
    ),
  ];
}

function statementText({ statement_lines: lines, asset }: EffectStory): string[] {
  if (lines.length === 0) return [];
  return [
    heading('On the bank’s statement'),
    table(
      ['BOOKED', 'WAY', 'AMOUNT', 'ENTRY', 'ACCOUNT', 'NAME', 'TEXT', 'WHERE'],
      lines.map((one) => [
        one.booked_on,
        one.direction,
        `${one.amount} ${asset}`,
        printable(one.own_reference ?? '-'),
        printable(one.counterparty_account ?? '-'),
        printable(one.counterparty_name ?? '-'),
        printable(one.text ?? '-'),
        printable(one.place),
      ]),
    ),
  ];
}

function sealText({ seal, variants }: EffectStory): string[] {
  if (seal === null) return [heading('Seal'), 'Not sealed: nothing can have left.'];
  return [
    heading('Seal'),
    facts([
      ['identity', seal.identity],
      ['nonce', seal.nonce],
      ['sealed', moment(seal.sealed_at)],
      ['bytes', cut(printable(bytesText(Buffer.from(seal.payload, 'base64'))), JSON_CHARACTERS_MAX)],
      ['success is', cut(printable(JSON.stringify(seal.expect)), JSON_CHARACTERS_MAX)],
      [
        'sends',
        `${seal.send_count}, last ${moment(seal.last_sent_at) ?? 'never'}, allowed until ${moment(seal.send_by) ?? '-'}`,
      ],
      ['stopped', seal.no_send ? 'it is looked at and never sent again' : null],
    ]),
    ...(variants.length === 0
      ? []
      : [
          table(
            ['SIGNED', 'HASH', 'MAX FEE', 'PRIORITY', 'GAS LIMIT', 'AT'],
            variants.map((one) => [
              one.kind,
              one.hash,
              one.max_fee.toString(),
              one.max_priority_fee.toString(),
              one.gas_limit.toString(),
              moment(one.signed_at),
            ]),
          ),
        ]),
  ];
}

function answersText(answers: readonly StoryAnswer[], leftOut: number): string[] {
  if (answers.length === 0) return [heading('Asked and answered'), 'Nothing was sent or asked yet.'];
  return [
    heading('Asked and answered'),
    ...(leftOut === 0 ? [] : [`${leftOut} answers between the first and the last ones are not shown.`]),
    ...answers.flatMap((one) => [
      [
        moment(one.received_at),
        paint('bold', one.operation === 'send' ? `send ${one.send_number}` : 'look'),
        `${one.source} (${one.operator})`,
        one.reach.replaceAll('_', ' '),
        one.status === null ? '' : `HTTP ${one.status}`,
        one.repeats === 1 ? '' : `${one.repeats} times, last ${moment(one.last_received_at) ?? '-'}`,
      ]
        .filter((part) => part !== '')
        .join('  '),
      `  ${paint('dim', 'got ')} ${cut(printable(one.body), ANSWER_CHARACTERS_MAX)}`,
      `  ${paint('dim', 'read')} as ${one.read_as ?? 'not read yet'}: ${printable(one.why ?? '')}`,
    ]),
  ];
}

function evidenceText(evidence: readonly StoryEvidence[], decidedBy: string | null): string[] {
  const lines = (says: StoryEvidence['says']): (string | null)[][] =>
    evidence
      .filter((one) => one.says === says)
      .map((one) => [
        one.id,
        one.kind,
        one.rank,
        `${one.source} (${one.operator})`,
        moment(one.at),
        [
          one.id === decidedBy ? paint('bold', 'decided it:') : '',
          one.struck_at === null ? '' : paint('dim', 'struck:'),
          cut(printable(one.detail), ANSWER_CHARACTERS_MAX),
        ]
          .filter((part) => part !== '')
          .join(' '),
      ]);
  const columns = ['EVIDENCE', 'KIND', 'RANK', 'FROM', 'AT', 'WHY'];
  return [
    heading('Evidence that it moved'),
    table(columns, lines('yes'), 'None.'),
    heading('Evidence that it did not'),
    table(columns, lines('no'), 'None.'),
    ...(lines('nothing').length === 0 ? [] : [heading('Answers that prove nothing'), table(columns, lines('nothing'))]),
  ];
}

export function eventsText(events: readonly StoryEvent[]): string {
  return [
    heading('Told to the partner'),
    table(
      ['#', 'EVENT', 'AT', 'DELIVERED', 'WAITING', 'DEAD', 'ID'],
      events.map((one) => [
        one.sequence.toString(),
        one.type,
        moment(one.created_at),
        String(one.delivered),
        String(one.waiting),
        String(one.dead),
        one.event_id,
      ]),
      'Nothing.',
    ),
  ].join('\n');
}

/** A newer proposal of the same kind voids the one that was open. */
export function replacedText(replaced: readonly string[]): string {
  return replaced.length === 0 ? '' : `\nIt takes the place of ${replaced.join(', ')}, which is void now.`;
}

export function peopleText(one: CaseStory): string {
  return [
    heading('Proposals'),
    table(
      ['PROPOSAL', 'VERB', 'STATE', 'BY', 'AT', 'ON EVIDENCE', 'SECOND PERSON', 'REASON'],
      one.proposals.map((proposal) => [
        proposal.id,
        proposal.verb,
        proposal.is_stale ? paint('red', 'stale') : proposal.state,
        printable(proposal.proposed_by),
        moment(proposal.proposed_at),
        String(proposal.evidence_version),
        proposal.approved_by === null ? null : printable(proposal.approved_by),
        printable(reasonOf(proposal.detail)),
      ]),
      'None.',
    ),
    heading('Notes'),
    table(
      ['AT', 'BY', 'NOTE'],
      one.notes.map((note) => [moment(note.at), printable(note.by), printable(note.note)]),
      'None.',
    ),
  ].join('\n');
}

function reasonOf(detail: unknown): string {
  const reason = typeof detail === 'object' && detail !== null && 'reason' in detail ? detail.reason : '';
  return typeof reason === 'string' ? reason : '';
}
