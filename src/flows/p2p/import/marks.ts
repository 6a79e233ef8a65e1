/**
 * What is said of lines by many at once, before and after their orders are judged. Each statement works on the lines of one stretch
 * ($2 < line <= $3), so that none takes long whatever the file has.
 */

const MARK_TWICE = `update payonce.p2p_import_lines l
set outcome = 'doubtful', reason = 'its id stands in the file twice, with other content'
where l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.outcome is null
  and exists (
    select 1 from payonce.p2p_import_lines o
    where o.import_id = l.import_id and o.kind = l.kind and o.old_id = l.old_id and o.digest <> l.digest)`;

const MARK_REPEATS = `update payonce.p2p_import_lines l
set outcome = 'same', is_repeat = true
where l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.outcome is null
  and exists (
    select 1 from payonce.p2p_import_lines o
    where o.import_id = l.import_id and o.kind = l.kind and o.old_id = l.old_id and o.line < l.line)`;

const MARK_KNOWN = `update payonce.p2p_import_lines l
set outcome = case when i.digest = l.digest then 'same' else 'doubtful' end,
    reason = case when i.digest <> l.digest then 'it was taken over before, with other content' end
from payonce.p2p_imported i
where l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.outcome is null
  and i.kind = l.kind
  and i.old_id = l.old_id`;

// What no order took along.
const MARK_LEFT_LEGS = `update payonce.p2p_import_lines l
set outcome = 'doubtful',
    reason = case
      when l.deposit_old_id is null then 'names no deposit order'
      when o.outcome = 'same' or o.outcome is null and i.old_id is not null then 'its deposit order was taken over before, without this leg'
      when o.outcome is null then 'its deposit order is not in the file'
      else 'goes with deposit order ' || l.deposit_old_id || ', which was not taken over' end
from payonce.p2p_import_lines x
left join payonce.p2p_import_lines o on o.import_id = x.import_id and o.kind = 'deposit_order' and o.old_id = x.deposit_old_id and not o.is_repeat
left join payonce.p2p_imported i on i.kind = 'deposit_order' and i.old_id = x.deposit_old_id
where x.import_id = l.import_id
  and x.line = l.line
  and l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.kind = 'leg'
  and l.outcome is null`;

const MARK_LEFT_LEDGER = `update payonce.p2p_import_lines l
set outcome = 'doubtful',
    reason = case
      when l.leg_old_id is null then 'names no leg'
      when g.outcome = 'same' or g.outcome is null and i.old_id is not null then 'its leg was taken over before, without this line'
      when g.outcome is null then 'its leg is not in the file'
      else 'goes with leg ' || l.leg_old_id || ', which was not taken over' end
from payonce.p2p_import_lines x
left join payonce.p2p_import_lines g on g.import_id = x.import_id and g.kind = 'leg' and g.old_id = x.leg_old_id and not g.is_repeat
left join payonce.p2p_imported i on i.kind = 'leg' and i.old_id = x.leg_old_id
where x.import_id = l.import_id
  and x.line = l.line
  and l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.kind = 'ledger'
  and l.outcome is null`;

// A seller's order that was doubtful then and stands now: legs of history that wait for it name it.
const LINK = `update payonce.p2p_legs g
set withdraw_order_id = w.id
from payonce.p2p_import_lines l
join payonce.p2p_imported i on i.kind = 'leg' and i.old_id = l.old_id
join payonce.p2p_imported s on s.kind = 'withdraw_order' and s.old_id = l.withdraw_old_id and s.import_id = l.import_id
join payonce.p2p_withdraw_orders w on w.id = s.new_id
where l.import_id = $1
  and l.line > $2
  and l.line <= $3
  and l.kind = 'leg'
  and l.outcome = 'same'
  and g.id = i.new_id
  and g.is_history
  and g.kind = 'SELLER'
  and g.withdraw_order_id is null
  and exists (
    select 1 from payonce.p2p_deposit_orders o
    where o.id = g.deposit_order_id and (o.group_name, o.asset_id, o.fiat) = (w.group_name, w.asset_id, w.fiat))`;

const FORGET_DONE = `delete from payonce.p2p_import_lines
where import_id = $1
  and line > $2
  and line <= $3
  and outcome in ('imported', 'same')`;
const FORGET_ALL = `delete from payonce.p2p_import_lines
where import_id = $1
  and line > $2
  and line <= $3`;

export const BEFORE_ORDERS = [MARK_TWICE, MARK_REPEATS, MARK_KNOWN] as const;
/** Ledger lines say of their legs what became of those: after them. */
export const AFTER_ORDERS = [MARK_LEFT_LEGS, MARK_LEFT_LEDGER] as const;
export const LINK_LEGS = [LINK] as const;
export const FORGET = { done: [FORGET_DONE], all: [FORGET_ALL] } as const;
