/** Who there is: partners with their API keys, and operators. */
import { type Command, Option } from 'commander';
import {
  addKey,
  addOperator,
  addPartner,
  disableOperator,
  listKeys,
  listOperators,
  listPartners,
  removeKey,
} from '../engine/administration.ts';
import { type Role, ROLES } from '../engine/operators.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, facts, moment, paint, printable, table } from './output.ts';

const SHOWN_ONCE = 'This key is shown once, here. Keep it where only its owner can read it.';

export function addPeopleCommands(program: Command, bind: Bind, deps: CliDeps): void {
  addPartnerCommands(program.command('partner').description('those who pay in and out through us'), bind, deps);
  addOperatorCommands(program.command('operator').description('people who decide cases and run this'), bind, deps);
}

function addPartnerCommands(partner: Command, bind: Bind, deps: CliDeps): void {
  bind<{ name: string; timeZone: string }>(
    partner
      .command('create')
      .description('make a partner (admin)')
      .requiredOption('--name <name>', 'what people call it')
      .option('--time-zone <zone>', "IANA name; the partner's day limits turn at its midnight", 'UTC'),
    async (_args, { name, timeZone }) => {
      const id = await deps.withDatabase(({ pool, makeId, operatorKey }) =>
        pool.tx('partner create', (tx) => addPartner(tx, { makeId, key: operatorKey }, name, timeZone)),
      );
      return {
        json: { id, name, time_zone: timeZone },
        text: `Made partner ${paint('bold', id)} (${printable(name)}, ${timeZone}).\nNext: payonce partner key create ${id}`,
      };
    },
  );
  bind(partner.command('list').description('all partners'), async () => {
    const partners = await deps.withDatabase(({ pool }) => listPartners(pool));
    const rows = partners.map((one) => [
      one.id,
      printable(one.name),
      one.time_zone,
      String(one.keys),
      String(one.endpoints),
      moment(one.created_at),
    ]);
    return {
      json: { partners },
      text: table(
        ['PARTNER', 'NAME', 'TIME ZONE', 'KEYS', 'WEBHOOKS', 'SINCE'],
        rows,
        'No partner yet. Make one: payonce partner create --name NAME',
      ),
    };
  });

  const key = partner.command('key').description('API keys of a partner');
  bind(key.command('create <partner>').description('make an API key (admin); it is shown once'), async (args) => {
    const partnerId = argument(args, 0);
    const made = await deps.withDatabase(({ pool, operatorKey }) =>
      pool.tx('partner key create', (tx) =>
        addKey(tx, operatorKey, partnerId, (one, id) => deps.createApiKey(one, id)),
      ),
    );
    return {
      json: { id: made.id, partner_id: partnerId, key: made.key },
      text: `${facts([
        ['id', made.id],
        ['key', paint('bold', made.key)],
      ])}\n${SHOWN_ONCE}`,
    };
  });
  bind(key.command('list <partner>').description("a partner's keys, by hint"), async (args) => {
    const keys = await deps.withDatabase(({ pool }) => listKeys(pool, argument(args, 0)));
    const rows = keys.map((one) => [one.id, one.hint, moment(one.created_at), moment(one.revoked_at)]);
    return { json: { keys }, text: table(['KEY', 'HINT', 'MADE', 'REVOKED'], rows, 'No key.') };
  });
  bind(key.command('revoke <partner> <key>').description('end a key (admin), by its id; at once'), async (args) => {
    const [partnerId, keyId] = [argument(args, 0), argument(args, 1)];
    const outcome = await deps.withDatabase(({ pool, operatorKey }) =>
      pool.tx('partner key revoke', (tx) =>
        removeKey(tx, operatorKey, partnerId, keyId, (one, id, key) => deps.revokeApiKey(one, id, key)),
      ),
    );
    return {
      json: { id: keyId, outcome },
      text: outcome === 'revoked' ? `Revoked ${keyId}: from now on it is refused.` : `${keyId} was revoked before.`,
    };
  });
}

function addOperatorCommands(operator: Command, bind: Bind, deps: CliDeps): void {
  bind<{ role: Role }>(
    operator
      .command('create <name>')
      .description(
        'make an operator (admin; the very first one needs no key and must be an admin); the key is shown once',
      )
      .addOption(new Option('--role <role>', 'what this person may do').choices(ROLES).makeOptionMandatory())
      .addHelpText(
        'after',
        `
viewer reads · operator asks, notes, proposes and stops rails · approver also approves (never an own proposal) and
releases wallets · admin also makes operators and partners, resumes rails and signs databases off`,
      ),
    async (args, { role }) => {
      const name = argument(args, 0);
      const made = await deps.withDatabase(({ pool, makeId, chance, operatorKey }) =>
        pool.tx('operator create', (tx) => addOperator(tx, { makeId, chance, key: operatorKey }, name, role)),
      );
      return {
        json: { ...made.operator, key: made.key },
        text: `${facts([
          ['id', made.operator.id],
          ['name', printable(name)],
          ['role', role],
          ['key', paint('bold', made.key)],
        ])}\n${SHOWN_ONCE} It goes into PAYONCE_OPERATOR_KEY.`,
      };
    },
  );
  bind(operator.command('list').description('all operators'), async () => {
    const operators = await deps.withDatabase(({ pool }) => listOperators(pool));
    const rows = operators.map((one) => [
      one.id,
      printable(one.name),
      one.role,
      moment(one.created_at),
      moment(one.disabled_at),
    ]);
    return {
      json: { operators },
      text: table(
        ['OPERATOR', 'NAME', 'ROLE', 'SINCE', 'DISABLED'],
        rows,
        'No operator yet. Make the first: payonce operator create NAME --role admin',
      ),
    };
  });
  bind(
    operator.command('disable <operator>').description('refuse an operator from now on (admin), by id or name'),
    async (args) => {
      const { id, done } = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('operator disable', (tx) => disableOperator(tx, operatorKey, argument(args, 0))),
      );
      return {
        json: { id, outcome: done ? 'disabled' : 'was_disabled' },
        text: done ? `Disabled ${id}: its key is refused from now on.` : `${id} was disabled before.`,
        exit: EXIT.ok,
      };
    },
  );
}
