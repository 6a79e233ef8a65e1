/** One effect: its story, and wishes that the next worker carries out under its lease, with the same identity. */
import type { Command } from 'commander';
import { findEffects, readEffects, readEvents } from '../audit/story.ts';
import { wish, type Wish } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT } from './output.ts';
import { effectText, eventsText } from './story-text.ts';

const WISHES: readonly { readonly wish: Wish; readonly says: string; readonly means: string }[] = [
  {
    wish: 'ask',
    says: 'send the same bytes again and look (operator)',
    means: 'The same bytes are sent again: it can happen once at most.',
  },
  { wish: 'look', says: 'look again at the rail (operator)', means: 'Nothing is sent.' },
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
      .description('the whole story: by effect number, withdrawal id, transaction hash or identity'),
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
  for (const one of WISHES) {
    bind(effect.command(`${one.wish} <id>`).description(one.says), async (args) => {
      const { id, outcome } = await deps.withEngine(async ({ engine, operatorKey }) => {
        const operator = await needOperator(engine.pool, operatorKey, 'operator');
        // The last try of a withdrawal is the only one that can still be open.
        const id = (await findEffects(engine.pool, argument(args, 0))).at(-1) ?? 0n;
        return { id, outcome: await wish(engine, operator, id, one.wish) };
      });
      if (outcome === 'ended') {
        return {
          json: { effect_id: id, wish: one.wish, outcome },
          text: `Effect ${id} is not open for that: nothing to ${one.wish}. See: payonce effect show ${id}`,
          exit: EXIT.conflict,
        };
      }
      return {
        json: { effect_id: id, wish: one.wish, outcome },
        text: `Noted: the next worker does it, within a second where one runs. ${one.means}\nFollow it: payonce effect show ${id}`,
      };
    });
  }
}
