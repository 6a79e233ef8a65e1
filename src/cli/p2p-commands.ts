/** Buyers' and sellers' orders: who trades with whom, what waits and why, which payment nobody can place. */
import { type Command, Option } from 'commander';
import {
  listGroups,
  listOrders,
  type ListedGroup,
  type ListedPayment,
  listPayments,
  ORDER_STATUSES,
  readOrder,
  type ShownOrder,
} from '../audit/p2p-list.ts';
import { propose } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { joinGroup, leaveGroup, openCorrectionCase, setMatching } from '../flows/p2p/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { replacedText } from './story-text.ts';
import { cut, facts, heading, moment, paint, printable, table } from './output.ts';

const LISTED_MAX = 200;
const REASON_CHARACTERS_MAX = 90;

export function addP2pCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const p2p = program.command('p2p').description('buyers’ and sellers’ orders');
  addGroupCommands(p2p, bind, deps);

  bind<{ status?: string; partner?: string }>(
    p2p
      .command('orders')
      .description('of both sides, the latest first; without an option, the open ones')
      .addOption(
        new Option('--status <status>', 'as the order stands').choices(ORDER_STATUSES.map((one) => one.toLowerCase())),
      )
      .option('--partner <id>', 'of one partner'),
    async (_args, { status, partner }) => {
      const orders = await deps.withDatabase(({ pool }) =>
        listOrders(pool, {
          status: status?.toUpperCase() ?? null,
          partnerId: partner ?? null,
          limit: LISTED_MAX,
        }),
      );
      const rows = orders.map((one) => [
        one.id,
        one.side,
        one.status,
        moment(one.created_at),
        one.partner_id,
        one.group,
        `${one.amount} ${one.asset}`,
        one.remaining_amount,
        `${one.price} ${one.fiat}`,
        one.wait_reason === null ? null : cut(printable(one.wait_reason), REASON_CHARACTERS_MAX),
      ]);
      return {
        json: { orders },
        text: table(
          ['ORDER', 'SIDE', 'STATUS', 'SINCE', 'PARTNER', 'GROUP', 'AMOUNT', 'REMAINING', 'PRICE', 'WAITS FOR'],
          rows,
          'No order.',
        ),
      };
    },
  );

  bind(
    p2p.command('order <order>').description('one order: its legs, trades, payments, and the cases about them'),
    async (args) => {
      const one = await deps.withDatabase(({ pool }) => readOrder(pool, argument(args, 0)));
      return { json: one, text: orderText(one) };
    },
  );

  bind<{ unclear?: boolean }>(
    p2p
      .command('payments')
      .description('what banks said was paid for legs, the latest first')
      .option('--unclear', 'those that a person must place: late, too much, for no leg'),
    async (_args, { unclear }) => {
      const payments = await deps.withDatabase(({ pool }) =>
        listPayments(pool, { unclear: unclear === true, limit: LISTED_MAX }),
      );
      return { json: { payments }, text: paymentsText(payments) };
    },
  );

  bind<{ direction: string; amount: string; reason: string }>(
    p2p
      .command('correct <leg>')
      .description('propose to a second person to correct a settled leg, in a case of its own (operator)')
      .addOption(
        new Option('--direction <direction>', 'recall: from the buyer’s partner; credit_again: to it once more')
          .choices(['recall', 'credit_again'])
          .makeOptionMandatory(),
      )
      .requiredOption('--amount <amount>', 'how much of the leg, in its asset')
      .requiredOption('--reason <text>', 'what you saw, and where'),
    async (args, { direction, amount, reason }) => {
      const leg = argument(args, 0);
      const made = await deps.withEngine(async ({ engine, makeId, pool, operatorKey }) => {
        const operator = await needOperator(pool, operatorKey, 'operator');
        const { caseId, detail } = await openCorrectionCase(pool, makeId, { leg, amount, direction });
        return { caseId, ...(await propose(engine, operator, caseId, 'p2p_correct', { ...detail, reason })) };
      });
      return {
        json: { proposal_id: made.proposalId, case_id: made.caseId, replaced: made.replaced },
        text: `Proposed to ${direction === 'recall' ? 'take back' : 'credit once more'} ${printable(amount)} of ${printable(leg)} as ${paint('bold', made.proposalId)}, in case ${made.caseId}.${replacedText(made.replaced)}\nNext: another person (approver) reads the case and runs: payonce case approve ${made.proposalId}`,
      };
    },
  );
}

function addGroupCommands(p2p: Command, bind: Bind, deps: CliDeps): void {
  bind(p2p.command('groups').description('who is matched with whom, what is traded, and providers'), async () => {
    const groups = await deps.withDatabase(({ pool }) => listGroups(pool));
    return {
      json: { groups },
      text: groups.length === 0 ? 'No group: "p2p" of PAYONCE_CONFIG makes them.' : groups.map(groupText).join('\n\n'),
    };
  });

  bind(
    p2p.command('join <partner> <group>').description('make a partner a member of a group (operator)'),
    async (args) => {
      const [partner, group] = [argument(args, 0), argument(args, 1)];
      const outcome = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('p2p join', (tx) => joinGroup(tx, operatorKey, partner, group)),
      );
      return {
        json: { partner_id: partner, group, outcome },
        text:
          outcome === 'joined'
            ? `${partner} is in ${group}: its orders are matched with those of that group.`
            : `${partner} was in ${group} already.`,
      };
    },
  );

  bind(
    p2p.command('leave <partner>').description('out of its group, once it has no open order (operator)'),
    async (args) => {
      const partner = argument(args, 0);
      const group = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('p2p leave', (tx) => leaveGroup(tx, operatorKey, partner)),
      );
      return { json: { partner_id: partner, group }, text: `${partner} has left ${group}.` };
    },
  );

  bind(
    p2p
      .command('matching <on|off> <partner>')
      .description('stop matching a partner’s orders, or let it go on (operator)'),
    async (args) => {
      const [to, partner] = [argument(args, 0), argument(args, 1)];
      if (to !== 'on' && to !== 'off')
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `<on|off>: got "${printable(to)}", expected on or off`,
        });
      await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('p2p matching', (tx) => setMatching(tx, operatorKey, partner, to)),
      );
      return {
        json: { partner_id: partner, matching: to },
        text:
          to === 'off'
            ? `Orders of ${partner} wait until matching is on again; what is matched goes on.`
            : `Orders of ${partner} are matched again.`,
      };
    },
  );
}

function groupText(group: ListedGroup): string {
  const state = (isOn: boolean, word: string): string => (isOn ? paint('green', word) : paint('yellow', `not ${word}`));
  return [
    paint('bold', `Group ${group.name}`),
    table(
      ['MEMBER', 'NAME', 'MATCHING'],
      group.members.map((one) => [
        one.partner_id,
        printable(one.name),
        one.matching_off_at === null ? 'on' : paint('yellow', `off since ${moment(one.matching_off_at) ?? '?'}`),
      ]),
      `No member yet: payonce p2p join PARTNER ${group.name}`,
    ),
    table(
      ['MARKET', 'ORDERS FROM', 'TO', 'LEGS FROM', 'FEE BP', 'STATE'],
      group.markets.map((one) => [
        `${one.asset}/${one.fiat}`,
        one.order_min,
        one.order_max,
        one.leg_min,
        String(one.fee_basis_points),
        state(one.stopped_at === null, 'configured'),
      ]),
    ),
    table(
      ['ROUTE', 'MARKET', 'FOR', 'PRIORITY', 'FROM', 'TO', 'STATE'],
      group.routes.map((one) => [
        one.rail,
        `${one.asset}/${one.fiat}`,
        one.partner_id ?? 'the group',
        String(one.priority),
        one.min,
        one.max,
        state(one.is_enabled, 'asked'),
      ]),
      'No provider.',
    ),
  ].join('\n');
}

/** What a view holds: text, a number, a yes or no, or nothing. */
function cell(value: unknown): string | null {
  if (typeof value === 'string') return printable(value);
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  return value === true ? 'yes' : null;
}

function orderText(one: ShownOrder): string {
  const { asset, fiat } = one.order;
  return [
    paint('bold', `${one.side === 'deposit' ? 'Deposit' : 'Withdraw'} order ${cell(one.order['id']) ?? ''}`),
    facts([
      ['partner', one.partner_id],
      ['group', one.group],
      ...Object.entries(one.order).flatMap(([name, value]): [string, string | null][] =>
        name === 'id' ? [] : [[name.replaceAll('_', ' '), cell(value)]],
      ),
    ]),
    heading('Legs'),
    table(
      ['LEG', 'STATE', `AMOUNT ${cell(asset) ?? ''}`, `TO PAY ${cell(fiat) ?? ''}`, 'WITH', 'PAY BY', 'MARKS', 'ENDED'],
      one.legs.map((leg) => [
        cell(leg['id']),
        cell(leg['state']),
        cell(leg['amount']),
        cell(leg['fiat_amount']),
        cell(leg['rail']) ?? cell(leg[one.side === 'deposit' ? 'withdraw_order' : 'deposit_order']),
        cell(leg['pay_by']),
        [
          leg['paid_marked'] === true ? 'said to be paid' : '',
          leg['disputed'] === true ? paint('red', 'disputed') : '',
          leg['corrections'] === 0 ? '' : `corrected ${cell(leg['corrections']) ?? ''} times`,
        ]
          .filter((mark) => mark !== '')
          .join(', '),
        cell(leg['end_reason']),
      ]),
      'None.',
    ),
    ...(one.effects.length === 0
      ? []
      : [
          heading('Trades at providers'),
          table(
            ['EFFECT', 'LEG', 'ACT', 'RAIL', 'STATE', 'TRADE', 'WAITS FOR'],
            one.effects.map((effect) => [
              effect.id,
              effect.leg,
              effect.act,
              effect.rail,
              effect.state,
              effect.trade === null ? null : printable(effect.trade),
              effect.wait_reason === null ? null : printable(effect.wait_reason),
            ]),
          ),
        ]),
    ...(one.payments.length === 0 ? [] : [heading('Payments'), paymentsText(one.payments)]),
    ...(one.open_cases.length === 0
      ? []
      : [
          heading('Open cases'),
          table(
            ['CASE', 'KIND', 'SUMMARY'],
            one.open_cases.map((open) => [open.id, open.kind, cut(printable(open.summary), REASON_CHARACTERS_MAX)]),
          ),
        ]),
  ].join('\n');
}

function paymentsText(payments: readonly ListedPayment[]): string {
  return table(
    ['AT', 'FROM', 'ITS ID', 'AMOUNT', 'FATE', 'LEG', 'ORDER', 'REFERENCE', 'CASE'],
    payments.map((one) => [
      moment(one.received_at),
      one.source,
      printable(one.external_id),
      `${one.fiat_amount} ${one.fiat}`,
      one.fate,
      one.leg,
      one.order,
      printable(one.reference),
      one.open_case === null ? null : paint('yellow', one.open_case),
    ]),
    'No payment.',
  );
}
