/** Who belongs to a group, and whether its orders are matched: acts of people, each in the audit log (M8, M22). */
import type { Query, Tx } from '../../db/pool.ts';
import { needOperator, type Who } from '../../engine/administration.ts';
import { audit } from '../../engine/audit-log.ts';
import { OWN_PARTNER } from '../../engine/own-move.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { switchMatching } from './cancel.ts';

const PARTNER = `select id
from payonce.partners
where id = $1
  and id <> $2`;

const GROUPS = `select name
from payonce.p2p_groups
order by name`;

const ENTER = `insert into payonce.p2p_members (partner_id, group_name)
values ($1, $2)
on conflict (partner_id) do nothing`;

const LOCK_MEMBER = `select group_name
from payonce.p2p_members
where partner_id = $1
for update`;

const LEAVE = `delete from payonce.p2p_members
where partner_id = $1`;

/** Named, so that whoever is refused can look at them. */
const NAMED_MAX = 5;

const OPEN_ORDERS = `select id, count(*) over ()::int as count
from (
  select id, created_at
  from payonce.p2p_deposit_orders
  where partner_id = $1
    and status in ('PENDING', 'MATCHING', 'MATCHED')
  union all
  select id, created_at
  from payonce.p2p_withdraw_orders
  where partner_id = $1
    and status in ('OPEN', 'CLOSING')) o
order by created_at, id
limit $2`;

async function needPartner(query: Query, partnerId: string): Promise<void> {
  if ((await query.query(PARTNER, [partnerId, OWN_PARTNER])).rowCount === 0)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `<partner>: got "${partnerId}", expected the id of a partner (payonce partner list)`,
    });
}

async function groupOf(tx: Tx, partnerId: string): Promise<string | null> {
  return (await tx.query<{ group_name: string }>(LOCK_MEMBER, [partnerId])).rows[0]?.group_name ?? null;
}

function inNoGroup(partnerId: string): PayonceError {
  return new PayonceError('PO_NOT_FOUND', {
    detail: `<partner>: got "${partnerId}", which is in no group, expected a member of one (payonce p2p groups)`,
  });
}

/** Durable with the caller's commit. `member`: it was in this group already. */
export async function joinGroup(tx: Tx, who: Who, partnerId: string, group: string): Promise<'joined' | 'member'> {
  const operator = await needOperator(tx, who, 'operator');
  await needPartner(tx, partnerId);
  const { rows } = await tx.query<{ name: string }>(GROUPS);
  if (!rows.some((one) => one.name === group))
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `<group>: got "${group}", expected one of: ${rows.map((one) => one.name).join(', ') || 'there is none; "p2p" of PAYONCE_CONFIG makes them'}`,
    });
  const isNew = (await tx.query(ENTER, [partnerId, group])).rowCount === 1;
  const current = await groupOf(tx, partnerId);
  if (current !== group)
    throw new PayonceError('PO_EVIDENCE_REFUSED', {
      detail: `<group>: got "${group}", expected "${current ?? ''}", the group that ${partnerId} is in; it may leave it first (payonce p2p leave ${partnerId})`,
    });
  if (isNew) await audit(tx, operator.id, 'p2p.joined', partnerId, { group });
  return isNew ? 'joined' : 'member';
}

/** Durable with the caller's commit; answers the group that was left. Refused while orders of the partner are open. */
export async function leaveGroup(tx: Tx, who: Who, partnerId: string): Promise<string> {
  const operator = await needOperator(tx, who, 'operator');
  await needPartner(tx, partnerId);
  const group = await groupOf(tx, partnerId);
  if (group === null) throw inNoGroup(partnerId);
  const { rows } = await tx.query<{ id: string; count: number }>(OPEN_ORDERS, [partnerId, NAMED_MAX]);
  const [first] = rows;
  if (first !== undefined)
    throw new PayonceError('PO_EVIDENCE_REFUSED', {
      detail: `<partner>: got "${partnerId}" with ${first.count} open ${first.count === 1 ? 'order' : 'orders'} (${rows.map((one) => one.id).join(', ')}${first.count > rows.length ? ', …' : ''}), expected a partner with none: let them end, or let the partner cancel them`,
    });
  await tx.query(LEAVE, [partnerId]);
  await audit(tx, operator.id, 'p2p.left', partnerId, { group });
  return group;
}

/** Durable with the caller's commit. What is matched goes on; else its orders wait meanwhile, on both sides. */
export async function setMatching(tx: Tx, who: Who, partnerId: string, to: 'on' | 'off'): Promise<void> {
  const operator = await needOperator(tx, who, 'operator');
  await needPartner(tx, partnerId);
  if (!(await switchMatching(tx, partnerId, to === 'off'))) throw inNoGroup(partnerId);
  await audit(tx, operator.id, `p2p.matching_${to}`, partnerId, {});
}
