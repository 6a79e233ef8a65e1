-- 0027 p2p fees exact: the fee of a leg is compared to the last unit, however many digits its amount has.
-- Why: L5. A quotient of numeric shows some sixteen digits: of an amount of 18 decimals it was rounded, and a right fee was called wrong.
-- Locks: the view, for a moment. Duration: milliseconds.
create or replace view payonce.l5_without_payouts (subject, detail) as
with lines as (
  select p.id, p.idem_key, p.effect_id, split_part(p.idem_key, ':', 1) as kind, split_part(p.idem_key, ':', 2) as name, split_part(p.idem_key, ':', 3) as part,
         min(l.asset_id) as asset_id, count(distinct l.asset_id) as assets,
         coalesce(sum(l.amount) filter (where a.code like 'partner:%'), 0) as partner, min(a.code) filter (where a.code like 'partner:%') as partner_code,
         coalesce(sum(l.amount) filter (where a.code like 'p2p:%'), 0) as aside, min(a.code) filter (where a.code like 'p2p:%') as aside_code,
         coalesce(sum(l.amount) filter (where a.code like 'lp:%'), 0) as lp, min(a.code) filter (where a.code like 'lp:%') as lp_code,
         coalesce(sum(l.amount) filter (where a.code = 'fees'), 0) as fees,
         coalesce(sum(l.amount) filter (where a.code = 'suspense'), 0) as suspense
  from payonce.postings p
  join payonce.ledger_entries l on l.posting_id = p.id
  join payonce.accounts a on a.id = l.account_id
  where p.idem_key ~ '^P2P_(SELL|BACK|LEG):' and p.idem_key !~ ':FIX:'
  group by p.id
),
judged as (
  select n.idem_key, case n.kind
    when 'P2P_LEG' then case
      when g.id is null then 'names no leg'
      when n.assets <> 1 or n.asset_id <> o.asset_id then 'books another asset than ' || o.asset_id
      when n.part = 'CREDIT' and (n.partner + n.fees <> g.amount or n.partner_code <> 'partner:' || o.partner_id or n.fees <> div(g.amount * o.fee_bp, 10000)
        or n.aside + n.lp <> -g.amount
        or g.kind = 'SELLER' and n.aside_code is distinct from 'p2p:' || s.partner_id
        or g.kind = 'LP' and n.lp_code is distinct from 'lp:' || g.rail) then 'does not credit ' || g.amount || ' to ' || o.partner_id
      when n.part = 'SURPLUS' and (n.lp <> -g.amount or n.suspense <> g.amount or n.lp_code <> 'lp:' || g.rail) then 'does not put ' || g.amount || ' into suspense'
      when not (n.part = 'CREDIT' or n.part = 'SURPLUS') then 'is of no kind that is known'
      when (g.kind = 'LP') <> (n.effect_id is not null) then 'belongs to no trade of its leg'
    end
    else case
      when w.id is null then 'names no withdraw order'
      when n.assets <> 1 or n.asset_id <> w.asset_id then 'books another asset than ' || w.asset_id
      when n.partner_code <> 'partner:' || w.partner_id or n.aside_code <> 'p2p:' || w.partner_id or n.partner <> -n.aside then 'is not between ' || w.partner_id || ' and what it set aside'
      when n.kind = 'P2P_SELL' and n.aside <> w.amount - w.settled_before then 'sets ' || n.aside || ' aside, not ' || w.amount - w.settled_before
      when w.imported_as = 'history' then 'belongs to an order that was taken over as history'
    end
  end as fault
  from lines n
  left join payonce.p2p_legs g on n.kind = 'P2P_LEG' and g.id = n.name
  left join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
  left join payonce.p2p_withdraw_orders s on s.id = g.withdraw_order_id
  left join payonce.p2p_withdraw_orders w on n.kind <> 'P2P_LEG' and w.id = n.name
)
select o.subject, o.detail
from payonce.l5_without_p2p o
where o.subject not like 'posting P2P_SELL:_%' and o.subject not like 'posting P2P_BACK:_%' and o.subject not like 'posting P2P_LEG:_%'
union all
select 'posting ' || idem_key, fault from judged where fault is not null
union all
select 'withdraw order ' || w.id, 'has ' || coalesce(b.back, 0) || ' given back by postings, ' || w.given_back || ' by its row'
from payonce.p2p_withdraw_orders w
left join (
  select n.name, sum(n.partner) filter (where n.kind = 'P2P_BACK') as back, count(*) filter (where n.kind = 'P2P_SELL') as sells
  from lines n where n.kind <> 'P2P_LEG' group by n.name) b on b.name = w.id
where w.imported_as is distinct from 'history'
  and (coalesce(b.back, 0) <> w.given_back or coalesce(b.sells, 0) <> 1)
union all
select 'posting ' || p.idem_key, 'is no correction of two persons'
from payonce.postings p
left join payonce.p2p_legs g on g.id = split_part(p.idem_key, ':', 2)
where p.idem_key like 'P2P\_LEG:%:FIX:%'
  and (g.id is null or g.fixes < split_part(p.idem_key, ':', 4)::int);
