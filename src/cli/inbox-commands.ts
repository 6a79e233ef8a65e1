/** What others sent to us: each inbound event with what became of it. */
import { type Command, Option } from 'commander';
import { INBOX_STATES, type InboxState, listEvents, readEvent } from '../audit/inbox-list.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { cut, facts, heading, moment, paint, printable, table } from './output.ts';

const LISTED_MAX = 200;
const ERROR_CHARACTERS_MAX = 100;
const BODY_CHARACTERS_MAX = 4_000;

export function addInboxCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const inbox = program.command('inbox').description('inbound events, and what became of them');
  bind<{ state?: InboxState; source?: string }>(
    inbox
      .command('list')
      .description('the latest first')
      .addOption(
        new Option('--state <state>', 'dead: a person has been asked; unmatched: it waits for its record').choices([
          ...INBOX_STATES,
        ]),
      )
      .option('--source <name>', 'as in PAYONCE_INBOUND'),
    async (_args, { state, source }) => {
      const events = await deps.withDatabase(({ pool }) =>
        listEvents(pool, { state: state ?? null, source: source ?? null, limit: LISTED_MAX }),
      );
      const rows = events.map((one) => [
        one.id,
        moment(one.received_at),
        one.source,
        printable(one.external_id),
        one.state,
        String(one.attempts),
        one.last_error === null ? null : cut(printable(one.last_error), ERROR_CHARACTERS_MAX),
      ]);
      return {
        json: { events },
        text: table(['EVENT', 'AT', 'FROM', 'ITS ID', 'STATE', 'TRIES', 'LAST ERROR'], rows, 'No event.'),
      };
    },
  );
  bind(
    inbox.command('show <event>').description("one event with its bytes: by number, the source's id, or source:id"),
    async (args) => {
      const one = await deps.withDatabase(({ pool }) => readEvent(pool, argument(args, 0)));
      return {
        json: one,
        text: [
          paint('bold', `Event ${one.id} of ${one.source}: ${printable(one.external_id)}`),
          facts([
            ['state', one.state],
            ['received', moment(one.received_at)],
            ['again', one.redeliveries === 0 ? null : `${one.redeliveries} times`],
            ['tries', String(one.attempts)],
            ['next try', one.state === 'new' || one.state === 'unmatched' ? moment(one.next_at) : null],
            ['last error', one.last_error === null ? null : printable(one.last_error)],
            ['done', moment(one.done_at)],
          ]),
          heading('As it came'),
          cut(printable(one.body), BODY_CHARACTERS_MAX),
        ].join('\n'),
      };
    },
  );
}
