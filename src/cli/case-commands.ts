/** Cases: what could not be proved, with all that is known, and the safe verbs of two persons. */
import { type Command, Option } from 'commander';
import { type ListedCase, listCases } from '../audit/case-list.ts';
import { type CaseStory, readCase } from '../audit/case-story.ts';
import { approve, type Detail, note, propose, type Verb, VERBS } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { CASE_KINDS, type CaseKind } from '../engine/cases.ts';
import { missingIn } from '../engine/possible.ts';
import { withdraw } from '../engine/withdraw.ts';
import { PayonceError } from '../kernel/errors.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { age, cut, EXIT, facts, heading, moment, paint, printable, table } from './output.ts';
import { effectText, eventsText, peopleText, replacedText } from './story-text.ts';

const SEVERITIES: Readonly<Record<number, string>> = { 1: 'when you can', 2: 'today', 3: 'now' };
const LISTED_MAX = 200;
const SUMMARY_CHARACTERS_MAX = 90;

/** What usually decides a case of this kind; the verbs are safe in any order. */
const NEXT: Readonly<Record<CaseKind, string>> = {
  allowance_asked: 'a second person approves the proposal (payonce case approve), or close it',
  undecided:
    'look again (effect look), ask again with the same identity (effect ask); on a chain also bump or cancel; elsewhere two persons may say settled or absent.',
  long_stay: 'see what is known (effect show) and look again (effect look); it closes by itself when it ends.',
  contradiction:
    'find out which of the two moved; the live one is no longer sent. Close it by two persons when it is booked right.',
  rail_asks: 'read what the other side shows (`effect show`), agree with it there, then two persons say what happened.',
  trade_surplus:
    'a cancel is under way: if the provider ends the trade, this closes by itself. What it released stands in suspense: agree with it, then two persons say where it goes (p2p_surplus --as returned, treasury, or partner --partner ID).',
  leg_correction:
    'see the leg and what corrections have moved (p2p order); a second person approves the proposal, or it is withdrawn and the case closed.',
  payment_unclear:
    'see the payment (p2p payments --unclear) and its order (p2p order); two persons settle the leg late (p2p_settle --leg), or close it when it was given back.',
  leg_disputed:
    'hear both sides; two persons settle the leg (p2p_settle) or void it (p2p_void). A provider’s leg ends with its trade: agree with the provider, then close this.',
  books_refused: 'the testimony is safe; see the note in the log why the ledger refuses, mend that, then: effect look.',
  overpriced:
    'what the market took is booked, and it gets no further order: ask it why, get back what is too much; then close it by two persons.',
  moved_otherwise: 'look at the transaction on the chain; two persons say "settled" if the receiver has the money.',
  signer_quarantined: 'match every foreign transaction of the wallet on the chain, then: wallet release.',
  plan_fails: 'see what the simulation says (effect show); fund the wallet or cancel the withdrawal.',
  told_failed: 'the partner was told "failed" and it moved: speak with the partner before anything else.',
  broken_finality: 'the chain took back what was final: compare nodes; two persons may "unwind".',
  after_release:
    'it did not happen: two persons choose fail (the partner is told) or next_try (sent once more, with a new hold).',
  unmatched_inbound:
    'an event (about: inbox:…): payonce inbox show, then close it by two persons when it is explained; money on a chain: find its owner, compare the wallet (reconcile chain), which numbers the finding, then repair propose FINDING; a funding: compare it with the statement, then funding approve.',
  unknown_movement:
    'find out who moved it; a leaked key means: quarantine, move the funds. Then compare the wallet with its chain (reconcile chain) and book it by two persons (repair propose).',
  chain_difference: 'see what the report says (repair list); two persons book it: repair propose, repair approve.',
  deposit_reversed: 'the block with the deposit left the chain: see whether it is mined again.',
  lines_unknown:
    'what the unknown lines took is in suspense; look at each with the provider. A later look that is clear books them by itself; else two persons: decide_line.',
  released_on_statement:
    'the bank is asked again by itself (effect show); if it says yes the payment is open again; if it says no, ask it about the line.',
  statement_wrong:
    'see what was read (statement show); a second person approves that it is void, then: statement import, as it should be read.',
  return_unclear: 'compare the provider’s returns with the statement; book what came back by two persons.',
  database_changed: 'make sure that no commit is missing, then: database sign-off.',
};

export function addCaseCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const parent = program.command('case').description('what a person must decide, with the evidence');

  bind<{ all?: boolean; open?: boolean }>(
    parent
      .command('list')
      .description('open cases, the most urgent first')
      .addOption(new Option('--open', 'only open ones (the default)').conflicts('all'))
      .option('--all', 'closed ones too'),
    async (_args, { all }) => {
      const listed = await deps.withDatabase(({ pool }) => listCases(pool, { all: all === true, limit: LISTED_MAX }));
      const cases = listed.map(({ place: _place, ...one }) => one);
      const rows = cases.map((one) => [
        one.id,
        one.closed_at === null ? urgency(one) : paint('dim', 'closed'),
        age(one.age_seconds),
        one.kind,
        one.amount === null ? null : `${one.amount} ${one.asset ?? ''}`,
        one.effect_id,
        one.open_proposals === 0 ? null : `${one.open_proposals} open`,
        cut(printable(one.summary), SUMMARY_CHARACTERS_MAX),
      ]);
      return {
        json: { cases },
        text: table(
          ['CASE', 'LOOK', 'AGE', 'KIND', 'AT RISK', 'EFFECT', 'PROPOSALS', 'SUMMARY'],
          rows,
          all === true ? 'No case at all.' : 'No open case.',
        ),
      };
    },
  );

  bind(parent.command('show <case>').description('the whole story of a case'), async (args) => {
    const one = await deps.withDatabase(({ pool }) => readCase(pool, argument(args, 0)));
    return { json: one, text: caseText(one) };
  });

  bind(
    parent.command('note <case> <text...>').description('leave a remark for whoever looks next (operator)'),
    async (args) => {
      const [id, text] = [argument(args, 0), args.slice(1).join(' ')];
      await deps.withEngine(async ({ engine, operatorKey }) =>
        note(engine, await needOperator(engine.pool, operatorKey, 'operator'), id, text),
      );
      return { json: { case_id: id, note: text }, text: `Noted on ${id}.` };
    },
  );

  bind<{
    reason: string;
    evidence?: string;
    deposit?: string;
    chain?: string;
    fromBlock?: string;
    line?: string;
    fate?: string;
    leg?: string;
    amount?: string;
    direction?: string;
    as?: string;
    partner?: string;
  }>(
    parent
      .command('propose <case> <verb>')
      .description(`propose to a second person: ${VERBS.join(', ')} (operator)`)
      .requiredOption('--reason <text>', 'what you saw, and where')
      .option('--evidence <id>', 'strike: the piece of evidence')
      .option('--deposit <id>', 'reverse_deposit: the deposit whose block left the chain')
      .option('--chain <id>', 'resume_scan: the chain whose scan was halted')
      .option('--from-block <number>', 'resume_scan: the first block that is not common any more')
      .option('--line <number>', 'decide_line: the line of the batch')
      .option('--fate <fate>', 'decide_line: paid or not_paid')
      .option('--leg <id>', 'p2p_…: the leg, where the case is not about one')
      .option(
        '--amount <amount>',
        'p2p_correct, p2p_surplus: how much of the leg, in its asset (p2p_surplus: else all)',
      )
      .option('--direction <direction>', 'p2p_correct: recall (from the buyer’s partner) or credit_again')
      .option('--as <where>', 'p2p_surplus: returned (to the provider), treasury (ours), or partner with --partner')
      .option('--partner <id>', 'p2p_surplus: the partner whose it is')
      .addHelpText(
        'after',
        `
settled  it moved, we saw it           absent  it did not, and the rail cannot tell
strike   one named word was wrong      close   nothing is left to do
unwind   it was booked and never happened
reverse_deposit, resume_scan   after broken finality
decide_line   what became of a line that the provider does not show
p2p_settle    a leg was paid           p2p_void   it was not
p2p_correct   what a settled leg moved is taken back, or moved once more
p2p_surplus   what a provider released beyond need: to it, to us, or to a partner`,
      ),
    async (args, { reason, evidence, deposit, fromBlock, partner, ...named }) => {
      const [id, verb] = [argument(args, 0), readVerb(argument(args, 1))];
      const detail: Detail = {
        reason,
        ...(evidence === undefined ? {} : { evidenceId: evidence }),
        ...(deposit === undefined ? {} : { deposit_id: deposit }),
        ...(fromBlock === undefined ? {} : { from_block: fromBlock }),
        ...(partner === undefined ? {} : { partner_id: partner }),
        ...given(named, ['chain', 'line', 'fate', 'leg', 'amount', 'direction', 'as']),
      };
      const missing = missingIn(verb, detail);
      if (missing !== null)
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `${verb} needs ${OPTIONS[missing]} (see payonce case show)`,
        });
      const made = await deps.withEngine(async ({ engine, operatorKey }) =>
        propose(engine, await needOperator(engine.pool, operatorKey, 'operator'), id, verb, detail),
      );
      return {
        json: {
          proposal_id: made.proposalId,
          case_id: id,
          verb,
          evidence_version: made.evidenceVersion,
          replaced: made.replaced,
        },
        text: `Proposed "${verb}" as ${paint('bold', made.proposalId)}, on evidence version ${made.evidenceVersion}.${replacedText(made.replaced)}\nNext: another person (approver) reads the case and runs: payonce case approve ${made.proposalId}`,
      };
    },
  );

  bind(
    parent
      .command('approve <proposal>')
      .description('carry out what another person proposed, if the evidence is still what they saw (approver)'),
    async (args) => {
      const id = argument(args, 0);
      const approval = await deps.withEngine(async ({ engine, operatorKey }) =>
        approve(engine, await needOperator(engine.pool, operatorKey, 'approver'), id),
      );
      if (approval.outcome === 'done')
        return { json: { proposal_id: id, ...approval }, text: `Done: ${printable(approval.did)}.` };
      return {
        json: { proposal_id: id, ...approval },
        text: `Void, nothing was done: ${printable(approval.why)}.\nNext: read the case again (payonce case show) and propose anew.`,
        exit: EXIT.conflict,
      };
    },
  );

  bind(
    parent
      .command('withdraw <proposal>')
      .description('take back what you proposed, while nobody has decided it (operator)'),
    async (args) => {
      const id = argument(args, 0);
      const done = await deps.withDatabase(async ({ pool, operatorKey }) =>
        withdraw({ pool }, await needOperator(pool, operatorKey, 'operator'), id),
      );
      return {
        json: { proposal_id: id, ...done },
        text: done.outcome === 'withdrawn' ? `Withdrew ${id}.` : `Too late: the proposal is ${done.state}.`,
        exit: done.outcome === 'withdrawn' ? EXIT.ok : EXIT.conflict,
      };
    },
  );
}

/** Of what the parser read, what a proposal takes under the same name. */
function given<Name extends string>(
  options: Readonly<Partial<Record<Name, string>>>,
  names: readonly Name[],
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = options[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function urgency(one: ListedCase): string {
  const word = SEVERITIES[one.severity] ?? String(one.severity);
  return one.severity === 3 ? paint('red', word) : one.severity === 2 ? paint('yellow', word) : word;
}

const OPTIONS = {
  evidenceId: '--evidence ID',
  deposit_id: '--deposit ID',
  chain: '--chain ID',
  from_block: '--from-block NUMBER',
  line: '--line NUMBER',
  fate: '--fate paid|not_paid',
  finding: 'a finding: payonce repair propose FINDING',
  as: '--as returned|treasury|partner (of a finding: payonce repair propose FINDING --as)',
  reference: 'what arrived: payonce funding propose --reference',
  relayer: 'a relayer: payonce wallet approve --relayer',
  amount: '--amount AMOUNT',
  direction: '--direction recall|credit_again',
} as const;

function readVerb(text: string): Verb {
  const verb = VERBS.find((one) => one === text);
  if (verb === undefined)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `There is no verb "${text}"; there are: ${VERBS.join(', ')}`,
    });
  return verb;
}

function caseText(one: CaseStory): string {
  const kind = CASE_KINDS[one.kind as CaseKind] as string | undefined;
  const next = NEXT[one.kind as CaseKind] as string | undefined;
  return [
    paint('bold', `Case ${one.id}: ${one.kind}`),
    facts([
      ['means', kind ?? null],
      ['look', one.closed_at === null ? urgency(one) : null],
      ['open since', `${moment(one.opened_at) ?? '-'} (${age(one.age_seconds)})`],
      ['closed', one.closed_at === null ? null : `${moment(one.closed_at) ?? '-'}: ${printable(one.closed_how ?? '')}`],
      ['at risk', one.amount === null ? null : `${one.amount} ${one.asset ?? ''}`],
      ['partner', one.partner_id],
      ['about', one.subject],
      ['summary', printable(one.summary)],
      ['next', one.closed_at === null ? (next ?? null) : null],
    ]),
    peopleText(one),
    ...(one.effect === null ? [] : [heading('The effect'), effectText(one.effect), eventsText(one.events)]),
  ].join('\n');
}
