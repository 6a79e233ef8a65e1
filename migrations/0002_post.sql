-- 0002 post: the one function that moves balances and holds.
-- Why: a batch in one round trip with a verdict per item, decided under the account locks (J5), with the same result as if
-- the items had come one after another. One UPDATE per account, entries by a window sum: N updates of one row in one
-- transaction are O(N^2). Locks: accounts by id, then holds. Duration: milliseconds.

-- Items, in order: kind 'post' (lines are entries; hold_key names a hold that it closes), 'hold' (one line: account and
-- amount to hold), 'void' (hold_key). Verdicts: posted | held | voided | exists | insufficient | hold_gone.
--
-- The planner is tied down: a batch of any size is index look-ups in nested loops, whatever the statistics say. Left free
-- it keeps a plan from when a table was empty and never analysed, and scans the whole ledger on each call: one caller fell
-- from 860/s to 54/s within a minute. What would be a join of two arrays is a union and a window or a group instead, and
-- per-item facts stand in arrays without NULLs of fixed width: a subscript into others walks from the start.
create function payonce.post(
  kinds text[], keys text[], refs text[], effects bigint[], reversed bigint[], hold_keys text[],
  line_items int[], line_accounts bigint[], line_amounts numeric[]
) returns table (item int, verdict text, posting_id bigint, posting_effect bigint)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  item_count constant int := coalesce(cardinality(kinds), 0);
  has_holds constant boolean := exists (
    select 1 from unnest(kinds, hold_keys) as k (kind, hold_key) where kind <> 'post' or hold_key is not null);
  verdicts text[] := array_fill(null::text, array[item_count]);
  refused int := 0;
  -- Accounts by id, as locked.
  account_ids bigint[];
  locked bigint[]; assets text[]; balances numeric[]; helds numeric[]; floors numeric[]; deficits numeric[]; seqs bigint[];
  touched text[];
  stamp timestamptz;
  -- What accepted items change.
  d_item int[]; d_account bigint[]; d_balance numeric[]; d_held numeric[];
  -- The entries that come of it.
  e_item int[]; e_account bigint[]; e_asset text[]; e_seq bigint[]; e_amount numeric[]; e_after numeric[];
  is_entangled boolean := false;
  is_decided boolean := false;
  do_all_fit boolean;
  is_post boolean[];
  posting_ids bigint[];
  row_total int;
  rec record;
  -- One after another.
  key_groups int[]; hold_groups int[]; is_booked boolean[]; hold_states text[]; hold_accounts bigint[]; hold_amounts numeric[];
  free numeric[]; nets numeric[];
  m_account bigint[]; m_balance numeric[]; m_held numeric[]; places int[];
  line int; first_line int; g int; place int; fits boolean;
begin
  -- 1. Lock order: accounts by id, then holds (W6: locked and read before anything is inserted, duplicates included).
  if has_holds then
    touched := array(select hold_key from unnest(hold_keys) as h (hold_key) where hold_key is not null);
    account_ids := array(select distinct a from (
      select unnest(line_accounts) as a union all select account_id from payonce.holds where key = any (touched)) s order by 1);
  else
    account_ids := array(select distinct a from unnest(line_accounts) as s (a) order by 1);
  end if;
  select coalesce(array_agg(id), '{}'), array_agg(asset_id), array_agg(balance), array_agg(held), array_agg(floor), array_agg(deficit), array_agg(seq)
    into locked, assets, balances, helds, floors, deficits, seqs
  from (select id, asset_id, balance, held, floor, deficit, seq
        from payonce.accounts where id = any (account_ids) order by id for no key update) a;
  if locked <> account_ids then
    raise exception 'an account of this batch does not exist' using errcode = 'P0A07', constraint = 'ledger_entries_account';
  end if;
  if has_holds then
    perform 1 from payonce.holds where key = any (touched) order by id for no key update;
  end if;
  -- Under the locks: an account's entries carry times in the order of their seq.
  stamp := payonce.now();

  -- 2. What exists already is a quiet no-op (W5); the rest becomes deltas.
  if has_holds then
    for rec in
      select k.n, k.is_entangled, case
               when k.kind = 'void' then case when h.state = 'open' then null else 'hold_gone' end
               when k.kind = 'hold' then case when h.id is not null then 'exists' end
               when p.id is not null then 'exists'
               when k.hold_key is not null and h.state is distinct from 'open' then 'hold_gone'
             end as outcome
      from (select n::int, kind, key, hold_key,
                   kind = 'post' and count(*) over (partition by kind, key collate "C") > 1
                   or hold_key is not null and count(*) over (partition by hold_key) > 1 as is_entangled
            from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
      left join payonce.holds h on h.key = k.hold_key
      left join payonce.postings p on p.idem_key = k.key and k.kind = 'post'
    loop
      is_entangled := is_entangled or rec.is_entangled;
      if rec.outcome is not null then
        verdicts[rec.n] := rec.outcome;
        refused := refused + 1;
      end if;
    end loop;
    is_post := array(select kind = 'post' from unnest(kinds) with ordinality as u (kind, n) order by n);
    select array_agg(s.n order by s.n), array_agg(s.account order by s.n), array_agg(s.balance order by s.n), array_agg(s.held order by s.n)
      into d_item, d_account, d_balance, d_held
    from (
      select line_item as n, account, case when is_post[line_item] then amount else 0 end as balance,
             case when is_post[line_item] then 0 else amount end as held
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
      union all
      select k.n::int, h.account_id, 0, -h.amount
      from unnest(kinds, hold_keys) with ordinality as k (kind, hold_key, n)
      join payonce.holds h on h.key = k.hold_key
      where k.kind <> 'hold'
    ) s where verdicts[s.n] is null;
  else
    for rec in
      select k.n, p.id is not null as is_booked
      from (select n::int, key, row_number() over (partition by key collate "C" order by n) as nth
            from unnest(keys) with ordinality as u (key, n)) k
      left join payonce.postings p on p.idem_key = k.key
      where k.nth > 1 or p.id is not null
    loop
      if rec.is_booked then
        verdicts[rec.n] := 'exists';
        refused := refused + 1;
      else
        is_entangled := true;
      end if;
    end loop;
    if refused = 0 then
      d_item := line_items; d_account := line_accounts; d_balance := line_amounts;
    else
      select array_agg(line_item order by line_item), array_agg(account order by line_item), array_agg(amount order by line_item)
        into d_item, d_account, d_balance
      from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount) where verdicts[line_item] is null;
    end if;
    d_held := array_fill(0::numeric, array[coalesce(cardinality(d_item), 0)]);
  end if;

  -- 3. Continue each account's chain through the deltas, from the row that was locked (n = 0; max carries what only it has).
  -- If everything fits, with no deficit in play, that is the result. If not, or if items share a key or a hold, they are
  -- tried in order, each alone, and the chains are made again.
  while refused < item_count loop
    if not is_entangled or is_decided then
      select array_agg(c.n) filter (where c.is_entry), array_agg(c.account) filter (where c.is_entry), array_agg(c.asset) filter (where c.is_entry),
             array_agg(c.seq) filter (where c.is_entry), array_agg(c.delta) filter (where c.is_entry), array_agg(c.after) filter (where c.is_entry),
             bool_and(c.n = 0 or c.lowest is null or c.after - c.held >= c.lowest)
        into e_item, e_account, e_asset, e_seq, e_amount, e_after, do_all_fit
      from (
        select n, account, delta, n > 0 and delta <> 0 as is_entry,
               sum(delta) over chain as after, sum(held) over chain as held,
               (sum(lines) over (chain rows unbounded preceding))::bigint as seq,
               max(asset) over chain as asset, max(lowest) over chain as lowest
        from (
          select 0 as n, account, asset, delta, held, lines,
                 case when floor is not null then case when deficit > 0 then 'infinity' else floor end end as lowest
          from unnest(locked, assets, balances, helds, floors, deficits, seqs) as h (account, asset, delta, held, floor, deficit, lines)
          union all
          select n, account, null, delta, held, (delta <> 0)::int, null
          from unnest(d_item, d_account, d_balance, d_held) as d (n, account, delta, held)
        ) s
        window chain as (partition by account order by n)
      ) c;
      exit when do_all_fit or is_decided;
    end if;

    is_decided := true;
    refused := 0;
    d_item := '{}'; d_account := '{}'; d_balance := '{}'; d_held := '{}';
    select array_agg(k.key_group order by k.n), array_agg(k.hold_group order by k.n), array_agg(p.id is not null order by k.n),
           array_agg(coalesce(h.state, 'none') order by k.n), array_agg(h.account_id order by k.n), array_agg(h.amount order by k.n)
      into key_groups, hold_groups, is_booked, hold_states, hold_accounts, hold_amounts
    from (select n::int, kind, key, hold_key,
                 case when kind = 'post' then (min(n) over (partition by kind, key collate "C"))::int end as key_group,
                 case when hold_key is not null then (min(n) over (partition by hold_key))::int end as hold_group
          from unnest(kinds, keys, hold_keys) with ordinality as u (kind, key, hold_key, n)) k
    left join payonce.holds h on h.key = k.hold_key
    left join payonce.postings p on p.idem_key = k.key and k.kind = 'post';
    free := array(select balance - held from unnest(balances, helds) with ordinality as f (balance, held, n) order by n);
    nets := free;
    line := 1;
    for n in 1 .. item_count loop
      first_line := line;
      while line_items[line] = n loop
        line := line + 1;
      end loop;
      g := hold_groups[n];
      if kinds[n] = 'post' and is_booked[key_groups[n]] or kinds[n] = 'hold' and hold_states[g] <> 'none' then
        verdicts[n] := 'exists';
        refused := refused + 1;
        continue;
      elsif kinds[n] <> 'hold' and g is not null and hold_states[g] <> 'open' then
        verdicts[n] := 'hold_gone';
        refused := refused + 1;
        continue;
      end if;

      m_account := line_accounts[first_line : line - 1];
      if kinds[n] = 'post' then
        m_balance := line_amounts[first_line : line - 1];
        m_held := array_fill(0::numeric, array[line - first_line]);
      else
        m_balance := array_fill(0::numeric, array[line - first_line]);
        m_held := line_amounts[first_line : line - 1];
      end if;
      if kinds[n] <> 'hold' and g is not null then
        m_account := m_account || hold_accounts[g];
        m_balance := m_balance || 0::numeric;
        m_held := m_held || -hold_amounts[g];
      end if;
      places := '{}';
      for i in 1 .. coalesce(cardinality(m_account), 0) loop
        place := array_position(locked, m_account[i]);
        if place = any (places) then
          nets[place] := nets[place] + m_balance[i] - m_held[i];
        else
          places := places || place;
          nets[place] := m_balance[i] - m_held[i];
        end if;
      end loop;
      fits := true;
      foreach place in array places loop
        if nets[place] < 0 and free[place] + nets[place] < floors[place] - deficits[place] then
          fits := false;
        end if;
      end loop;
      if not fits then
        verdicts[n] := 'insufficient';
        refused := refused + 1;
        continue;
      end if;

      verdicts[n] := null;
      foreach place in array places loop
        free[place] := free[place] + nets[place];
        if floors[place] is not null then
          deficits[place] := least(deficits[place], greatest(0, floors[place] - free[place]));
        end if;
      end loop;
      d_item := d_item || array_fill(n, array[coalesce(cardinality(m_account), 0)]);
      d_account := d_account || m_account; d_balance := d_balance || m_balance; d_held := d_held || m_held;
      if kinds[n] = 'post' then
        is_booked[key_groups[n]] := true;
      end if;
      if kinds[n] = 'hold' then
        hold_states[g] := 'open';
        hold_accounts[g] := line_accounts[first_line];
        hold_amounts[g] := line_amounts[first_line];
      elsif g is not null then
        hold_states[g] := 'ended';
      end if;
    end loop;
    if line <= cardinality(line_items) then
      raise exception 'lines must come in the order of their items' using errcode = 'P0A08';
    end if;
  end loop;

  if refused < item_count then
    -- 4. Heads first. A key that somebody else booked meanwhile on other accounts changes what was decided: run again.
    with booked as (
      insert into payonce.postings (idem_key, reference, effect_id, reverses, created_at)
      select key, reference, effect_id, reverses, stamp
      from unnest(kinds, keys, refs, effects, reversed, verdicts) with ordinality as u (kind, key, reference, effect_id, reverses, verdict, n)
      where kind = 'post' and verdict is null order by n
      on conflict (idem_key) do nothing
      returning id
    )
    select coalesce(array_agg(id order by id), '{}') into posting_ids from booked;
    row_total := case when has_holds
      then (select count(*) from unnest(kinds, verdicts) as u (kind, verdict) where kind = 'post' and verdict is null)
      else item_count - refused end;
    if cardinality(posting_ids) <> row_total then
      raise exception 'a posting key was booked meanwhile' using errcode = '40001';
    end if;
    if row_total < item_count then
      posting_ids := array(
        select case when is_new then posting_ids[count(*) filter (where is_new) over (order by n)] else 0 end
        from (select n, kind = 'post' and verdict is null as is_new
              from unnest(kinds, verdicts) with ordinality as u (kind, verdict, n)) s
        order by n);
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

    insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after, created_at)
    select posting_ids[n], account, asset, seq, amount, after, stamp
    from unnest(e_item, e_account, e_asset, e_seq, e_amount, e_after) as u (n, account, asset, seq, amount, after);

    if has_holds then
      insert into payonce.holds (key, account_id, amount, created_at)
      select max(key), max(account), max(amount), stamp
      from (
        select n, hold_key as key, null::bigint as account, null::numeric as amount
        from unnest(kinds, hold_keys, verdicts) with ordinality as u (kind, hold_key, verdict, n)
        where kind = 'hold' and verdict is null
        union all
        select line_item, null, account, amount
        from unnest(line_items, line_accounts, line_amounts) as l (line_item, account, amount)
        where not is_post[line_item]
      ) s
      group by n having max(key) is not null order by n
      on conflict (key) do nothing;
      get diagnostics row_total = row_count;
      if row_total <> (select count(*) from unnest(kinds, verdicts) as u (kind, verdict) where kind = 'hold' and verdict is null) then
        raise exception 'a hold was opened meanwhile' using errcode = '40001';
      end if;
      update payonce.holds h
      set state = case when u.kind = 'post' then 'posted' else 'voided' end, ended_at = stamp
      from unnest(kinds, hold_keys, verdicts) as u (kind, hold_key, verdict)
      where u.verdict is null and u.kind <> 'hold' and h.key = u.hold_key;
    end if;
  end if;

  if refused = 0 and not has_holds then
    return query select u.n::int, 'posted', u.id, u.effect
    from unnest(posting_ids, effects) with ordinality as u (id, effect, n) order by u.n;
  else
    return query
      select u.n::int,
             coalesce(u.verdict, case u.kind when 'post' then 'posted' when 'hold' then 'held' else 'voided' end),
             p.id, p.effect_id
      from unnest(kinds, keys, verdicts) with ordinality as u (kind, key, verdict, n)
      left join payonce.postings p on u.kind = 'post' and p.idem_key = u.key
      order by u.n;
  end if;
end $$;
