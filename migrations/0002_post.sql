-- 0002 post: the one function that moves balances and holds.
-- Why: a batch in one round trip with a verdict per item, decided under the account locks (J5), with the same result as if
-- the items had come one after another. One UPDATE per account, entries by a window sum: N updates of one row in one
-- transaction are O(N^2). Locks: accounts by id, then holds. Duration: milliseconds.

-- Items, in order: kind 'post' (lines are entries; hold_key names a hold that it closes), 'hold' (one line: account and
-- amount to hold), 'void' (hold_key). Verdicts: posted | held | voided | exists | insufficient | hold_gone.
create function payonce.post(
  kinds text[], keys text[], refs text[], effects bigint[], reversed bigint[], hold_keys text[],
  line_items int[], line_accounts bigint[], line_amounts numeric[]
) returns table (item int, verdict text, posting_id bigint, posting_effect bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  account_ids bigint[];
  touched text[];
  accepted int[];
  verdicts text[] := array_fill(null::text, array[coalesce(cardinality(kinds), 0)]);
  has_holds boolean;
  d_item int[]; d_account bigint[]; d_balance numeric[]; d_held numeric[];
  inserted int;
  free numeric[]; floors numeric[]; deficits numeric[];
  rec record;
  fits boolean;
  position int;
begin
  has_holds := exists (select 1 from unnest(kinds, hold_keys) as k (kind, hold_key) where kind <> 'post' or hold_key is not null);

  -- 1. Lock order: accounts by id, then holds (W6: locked and read before anything is inserted, duplicates included).
  if has_holds then
    touched := array(select hold_key from unnest(hold_keys) as h (hold_key) where hold_key is not null);
    account_ids := array(select distinct a from (
      select unnest(line_accounts) as a union all select account_id from payonce.holds where key = any (touched)) s order by 1);
  else
    account_ids := array(select distinct a from unnest(line_accounts) as s (a) order by 1);
  end if;
  perform 1 from payonce.accounts where id = any (account_ids) order by id for no key update;
  if has_holds then
    perform 1 from payonce.holds where key = any (touched) order by id for no key update;
  end if;

  -- 2. What exists already, or stands twice in this very batch, is a quiet no-op (W5).
  if has_holds then
    for rec in
      select k.n, k.kind,
             case
               when k.kind = 'void' then case when h.state = 'open' and k.hold_nth = 1 then null else 'hold_gone' end
               when k.kind = 'hold' then case when h.id is not null or k.nth > 1 then 'exists' end
               when p.id is not null or k.nth > 1 then 'exists'
               when k.hold_key is not null and (h.id is null or h.state <> 'open' or k.hold_nth > 1) then 'hold_gone'
             end as outcome
      from (select n::int, kind, key, hold_key,
                   row_number() over (partition by kind, case when kind = 'post' then key else hold_key end order by n) as nth,
                   row_number() over (partition by kind = 'hold', hold_key order by n) as hold_nth
            from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
      left join payonce.holds h on h.key = k.hold_key
      left join payonce.postings p on p.idem_key = k.key and k.kind = 'post'
    loop
      verdicts[rec.n] := rec.outcome;
    end loop;
    accepted := array(select n::int from unnest(verdicts) with ordinality as v (verdict, n) where verdict is null order by n);
    select array_agg(s.n order by s.n), array_agg(s.account order by s.n), array_agg(s.balance order by s.n), array_agg(s.held order by s.n)
      into d_item, d_account, d_balance, d_held
    from (
      select line_item as n, account, case when kinds[line_item] = 'post' then amount else 0 end as balance,
             case when kinds[line_item] = 'hold' then amount else 0 end as held
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
      union all
      select k.n::int, h.account_id, 0, -h.amount
      from unnest(kinds, hold_keys) with ordinality as k (kind, hold_key, n)
      join payonce.holds h on h.key = k.hold_key
      where k.kind <> 'hold'
    ) s where s.n = any (accepted);
  else
    for rec in
      select k.n, p.id
      from (select n::int, key, row_number() over (partition by key order by n) as nth from unnest(keys) with ordinality as u (key, n)) k
      left join payonce.postings p on p.idem_key = k.key
      where k.nth > 1 or p.id is not null
    loop
      verdicts[rec.n] := 'exists';
    end loop;
    accepted := array(select n::int from unnest(verdicts) with ordinality as v (verdict, n) where verdict is null order by n);
    if cardinality(accepted) = cardinality(kinds) then
      d_item := line_items; d_account := line_accounts; d_balance := line_amounts;
    else
      select array_agg(line_item order by line_item), array_agg(account order by line_item), array_agg(amount order by line_item)
        into d_item, d_account, d_balance
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount) where line_item = any (accepted);
    end if;
    d_held := array_fill(0::numeric, array[coalesce(cardinality(d_item), 0)]);
  end if;

  if cardinality(accepted) > 0 then
    -- 3. Does everything fit, one after another? If not, the items are tried in order, each alone.
    if not payonce.post_fits(d_item, d_account, d_balance, d_held) then
      select array_agg(balance - held order by id), array_agg(floor order by id), array_agg(deficit order by id)
        into free, floors, deficits from payonce.accounts where id = any (account_ids);
      for rec in
        select d.n, array_agg(d.place) as places, array_agg(d.net) as nets
        from (select u.n, array_position(account_ids, u.account) as place, sum(u.balance - u.held) as net
              from unnest(d_item, d_account, d_balance, d_held) as u (n, account, balance, held) group by u.n, u.account) d
        group by d.n order by d.n
      loop
        fits := true;
        for i in 1 .. cardinality(rec.places) loop
          position := rec.places[i];
          if floors[position] is not null and rec.nets[i] < 0 and free[position] + rec.nets[i] < floors[position] - deficits[position] then
            fits := false;
          end if;
        end loop;
        if fits then
          for i in 1 .. cardinality(rec.places) loop
            position := rec.places[i];
            free[position] := free[position] + rec.nets[i];
            if floors[position] is not null then
              deficits[position] := least(deficits[position], greatest(0, floors[position] - free[position]));
            end if;
          end loop;
        else
          verdicts[rec.n] := 'insufficient';
        end if;
      end loop;
      accepted := array(select n::int from unnest(verdicts) with ordinality as v (verdict, n) where verdict is null order by n);
      select array_agg(u.n order by u.n), array_agg(u.account order by u.n), array_agg(u.balance order by u.n), array_agg(u.held order by u.n)
        into d_item, d_account, d_balance, d_held
      from unnest(d_item, d_account, d_balance, d_held) as u (n, account, balance, held) where u.n = any (accepted);
    end if;
  end if;

  if cardinality(accepted) > 0 then
    -- 4. Heads first. A key that somebody else booked meanwhile on other accounts changes what was decided: run again.
    insert into payonce.postings (idem_key, reference, effect_id, reverses)
    select keys[n], refs[n], effects[n], reversed[n]
    from unnest(accepted) as a (n) where kinds[n] = 'post' order by n
    on conflict (idem_key) do nothing;
    get diagnostics inserted = row_count;
    if inserted <> (select count(*) from unnest(accepted) as a (n) where kinds[n] = 'post') then
      raise exception 'a posting key was booked meanwhile' using errcode = '40001';
    end if;

    -- 5. One update per account, then the entries in one statement.
    update payonce.accounts c
    set balance = c.balance + t.balance,
        held = c.held + t.held,
        seq = c.seq + t.lines,
        deficit = case when c.deficit = 0 then 0
                  else least(c.deficit, greatest(0, c.floor - (c.balance + t.balance - c.held - t.held))) end
    from (select account, sum(balance) as balance, sum(held) as held, count(*) filter (where balance <> 0) as lines
          from unnest(d_account, d_balance, d_held) as u (account, balance, held) group by account) t
    where c.id = t.account;

    insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
    select p.id, w.account, c.asset_id,
           c.seq - w.lines_after, w.amount, c.balance - w.amount_after
    from (select u.n, u.account, u.amount,
                 count(*) over later as lines_after,
                 coalesce(sum(u.amount) over later, 0) as amount_after
          from unnest(d_item, d_account, d_balance) as u (n, account, amount)
          where u.amount <> 0
          window later as (partition by u.account order by u.n desc rows between unbounded preceding and 1 preceding)) w
    join payonce.accounts c on c.id = w.account
    join payonce.postings p on p.idem_key = keys[w.n];

    if has_holds then
      insert into payonce.holds (key, account_id, amount)
      select hold_keys[l.line_item], l.account, l.amount
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
      where kinds[l.line_item] = 'hold' and l.line_item = any (accepted);
      update payonce.holds h
      set state = case when kinds[a.n] = 'post' then 'posted' else 'voided' end, ended_at = payonce.now()
      from unnest(accepted) as a (n)
      where kinds[a.n] <> 'hold' and h.key = hold_keys[a.n];
    end if;
  end if;

  return query
    select u.n::int,
           coalesce(verdicts[u.n], case u.kind when 'post' then 'posted' when 'hold' then 'held' else 'voided' end),
           p.id, p.effect_id
    from unnest(kinds, keys) with ordinality as u (kind, key, n)
    left join payonce.postings p on u.kind = 'post' and p.idem_key = u.key
    order by u.n;
end $$;

-- Whether the deltas, in order, keep every account at or above its floor with no deficit in play.
create function payonce.post_fits(d_item int[], d_account bigint[], d_balance numeric[], d_held numeric[]) returns boolean
language sql stable as $$
  select not exists (
    select 1
    from (select u.account, sum(u.balance - u.held) over (partition by u.account order by u.n) as running
          from unnest(d_item, d_account, d_balance, d_held) as u (n, account, balance, held)) r
    join payonce.accounts c on c.id = r.account
    where c.floor is not null and (c.deficit > 0 or c.balance - c.held + r.running < c.floor)
  )
$$;
