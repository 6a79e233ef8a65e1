/** One effect: its story; a look or an ask now, under its lease; a bump or a cancel by the next worker. Same identity always. */
import { type Command, Option } from 'commander';
import { EFFECT_STATES, type EffectState, listEffects } from '../audit/effect-list.ts';
import { findEffects, readEffects, readEvents } from '../audit/story.ts';
import { type Acted, type ActNow, actNow } from '../engine/act-now.ts';
import { wish, type Wish } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { loadEffects } from '../engine/store.ts';
import { WITHHELD } from '../engine/withheld.ts';
import { PayonceError } from '../kernel/errors.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { cut, EXIT, moment, printable, type Report, table } from './output.ts';
import { effectText, eventsText } from './story-text.ts';

const LISTED_MAX = 200;
const REASON_CHARACTERS_MAX = 80;

const NOW: readonly { readonly act: ActNow; readonly says: string; readonly means: string }[] = [
  {
    act: 'ask',
    says: 'look, and send the same bytes again, now (operator)',
    means: 'The same bytes are sent again: it can happen once at most.',
  },
  { act: 'look', says: 'look again at the rail, now (operator)', means: 'Nothing is sent.' },
];

const WISHES: readonly { readonly wish: Wish; readonly says: string; readonly means: string }[] = [
  {
    wish: 'bump',
    says: 'same nonce and payload, higher fees (operator; chains)',
    means: 'Only one of its variants can be mined.',
  },
  {
    wish: 'cancel',
    says: 'a transfer of nothing with the same nonce (operator; chains)',
    means: 'Either the payment is mined or the cancel, never both; the money is freed when the cancel is final.',
  },
];

export function addEffectCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const effect = program.command('effect').description('one act outside that cannot be taken back');
  bind(
    effect
      .command('show <id>')
      .description(
        'the whole story: by effect number, withdrawal or transfer id or its external_id, transaction hash or identity',
      ),
    async (args) => {
      const { effects, events } = await deps.withDatabase(async ({ pool }) => {
        const effects = await readEffects(pool, await findEffects(pool, argument(args, 0)));
        const [first] = effects;
        return {
          effects,
          events: first === undefined ? [] : await readEvents(pool, first.subject_type, first.subject_id),
        };
      });
      return { json: { effects, events }, text: [effects.map(effectText).join('\n\n'), eventsText(events)].join('\n') };
    },
  );
  addEffectList(effect, bind, deps);
  for (const { act, says, means } of NOW) {
    bind(effect.command(`${act} <id>`).description(says), async (args) => {
      const { id, acted, withheld } = await deps.withEngine(async ({ engine, operatorKey }) => {
        const operator = await needOperator(engine.pool, operatorKey, 'operator');
        const id = await newestEffect(engine.pool, argument(args, 0));
        const acted = await actNow(engine, operator, id, act);
        const [seen] = await loadEffects(engine.pool, [id]);
        const why = seen?.waitReason ?? '';
        return { id, acted, withheld: why.startsWith(WITHHELD) ? why.slice(WITHHELD.length) : null };
      });
      return actedReport(
        id,
        act,
        acted,
        withheld === null ? means : `Nothing is sent while it is held back: ${printable(withheld)}`,
      );
    });
  }
  for (const one of WISHES) {
    bind(effect.command(`${one.wish} <id>`).description(one.says), async (args) => {
      const { id, outcome } = await deps.withEngine(async ({ engine, operatorKey }) => {
        const operator = await needOperator(engine.pool, operatorKey, 'operator');
        const id = await newestEffect(engine.pool, argument(args, 0));
        return { id, outcome: await wish(engine, operator, id, one.wish) };
      });
      if (outcome === 'ended') return endedReport(id, one.wish, 'it has ended');
      return wishedReport(id, one.wish, one.means);
    });
  }
}

interface ListOptions {
  readonly state?: EffectState;
  readonly open?: boolean;
  readonly withheld?: boolean;
  readonly rail?: string;
  readonly partner?: string;
  readonly type?: string;
  readonly before?: string;
}

function addEffectList(effect: Command, bind: Bind, deps: CliDeps): void {
  bind<ListOptions>(
    effect
      .command('list')
      .description('effects, the latest first')
      .addOption(new Option('--state <state>').choices([...EFFECT_STATES]))
      .option('--open', 'only what is neither settled nor released')
      .option('--withheld', 'only what the rail, as it is configured now, neither sends nor finds')
      .option('--rail <name>', 'such as bank:main')
      .option('--partner <id>')
      .option('--type <type>', 'what it is for: withdrawal, transfer, transfer_batch')
      .option('--before <id>', 'the next page: only effects before this one'),
    async (_args, { partner, before, ...filter }) => {
      if (before !== undefined && !/^[1-9]\d{0,17}$/.test(before))
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `--before: got "${before}", expected an effect's number`,
        });
      const effects = await deps.withDatabase(({ pool }) =>
        listEffects(pool, {
          ...filter,
          partnerId: partner,
          before: before === undefined ? undefined : BigInt(before),
          limit: LISTED_MAX,
        }),
      );
      const rows = effects.map((one) => [
        one.id,
        one.state,
        moment(one.created_at),
        `${one.amount} ${one.asset}`,
        printable(one.destination),
        one.rail,
        one.subject_id,
        one.external_id === null ? null : printable(one.external_id),
        one.open_case,
        one.wait_reason === null ? null : cut(printable(one.wait_reason), REASON_CHARACTERS_MAX),
      ]);
      const last = effects.at(-1);
      const more = effects.length === LISTED_MAX && last !== undefined ? `\nOlder ones: --before ${last.id}` : '';
      return {
        json: { effects },
        text: `${table(['EFFECT', 'STATE', 'MADE', 'AMOUNT', 'TO', 'RAIL', 'FOR', 'REFERENCE', 'CASE', 'WAITS FOR'], rows, 'No effect.')}${more}`,
      };
    },
  );
}

/** The last try of a withdrawal or transfer is the only one that can still be open. */
async function newestEffect(pool: Parameters<typeof findEffects>[0], asked: string): Promise<bigint> {
  return (await findEffects(pool, asked)).at(-1) ?? 0n;
}

function actedReport(id: bigint, act: ActNow, acted: Acted, means: string): Report {
  switch (acted.outcome) {
    case 'advanced': {
      const { outcome, state, evidenceVersion, sent, withheld } = acted;
      const left = sent > 0 ? ' The same bytes were sent again.' : ' Nothing was sent.';
      return {
        json: { effect_id: id, act, outcome, state, evidence_version: evidenceVersion, sent, withheld },
        text: `Looked at effect ${id}: it is ${state}, evidence version ${evidenceVersion}.${left}${withheld === null ? '' : ` Not sent: ${printable(withheld)}.`}\nRead it: payonce effect show ${id}`,
      };
    }
    case 'hurried':
      return {
        json: { effect_id: id, act, outcome: acted.outcome },
        text: `Effect ${id} is not sealed: nothing has left, so there is nothing to ${act}. The next worker plans it at once.\nFollow it: payonce effect show ${id}`,
      };
    case 'wished':
      return wishedReport(id, act, means);
    case 'busy':
      return {
        json: { effect_id: id, act, outcome: acted.outcome, until: acted.until },
        text: `Somebody else is at effect ${id}, until ${moment(acted.until) ?? 'soon'} at the latest. Nothing was done.\nNext: run the command again in a moment.`,
        exit: EXIT.conflict,
      };
    case 'gone':
      return endedReport(id, act, acted.why);
  }
}

function wishedReport(id: bigint, wish: Wish, means: string): Report {
  return {
    json: { effect_id: id, wish, outcome: 'wished' },
    text: `Noted: the next worker does it, within a second where one runs. ${means}\nFollow it: payonce effect show ${id}`,
  };
}

function endedReport(id: bigint, wish: Wish, why: string): Report {
  return {
    json: { effect_id: id, wish, outcome: 'ended' },
    text: `Effect ${id} is not open for that: ${printable(why)}. Nothing to ${wish}. See: payonce effect show ${id}`,
    exit: EXIT.conflict,
  };
}
