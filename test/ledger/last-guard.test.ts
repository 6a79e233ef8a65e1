/*
 * Goal: with psql and the owner's rights, short of dropping a guard, nobody can bend the ledger. Method: plain statements on
 * a plain connection, no code of ours between; each refusal is told by the name of what refused.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import pg from 'pg';
import { ASSET, type LedgerWorld, makeLedgerWorld, posting } from '../support/ledger-world.ts';

let world: LedgerWorld;
let psql: pg.Client;
let account: bigint;
let postingId: bigint;
let round = 0;

before(async () => {
  world = await makeLedgerWorld('ledger guards');
  psql = new pg.Client({ connectionString: world.url });
  await psql.connect();
});
beforeEach(async () => {
  round += 1;
  account = await world.account();
  const [verdict] = await world.post(posting(`guard:${round}`, [world.house, -10n], [account, 10n]));
  assert(verdict?.verdict === 'posted');
  postingId = verdict.postingId;
});
after(async () => {
  await psql.end();
  await world.end();
});

async function refusedBy(guard: string, sql: string, values: unknown[] = []): Promise<void> {
  await psql.query('begin');
  try {
    await assert.rejects(psql.query(sql, values), (error: pg.DatabaseError) => {
      assert.equal(error.constraint ?? error.message, guard);
      return true;
    });
  } finally {
    await psql.query('rollback');
  }
}

test('case J10 inv L7: an entry is never edited or deleted, nor all of them at once', async () => {
  await refusedBy('ledger_entries_append_only', 'update payonce.ledger_entries set amount = 1 where account_id = $1', [
    account,
  ]);
  await refusedBy('ledger_entries_append_only', 'delete from payonce.ledger_entries where account_id = $1', [account]);
  await refusedBy('ledger_entries_append_only', 'truncate payonce.ledger_entries');
  await refusedBy('postings_append_only', "update payonce.postings set reference = 'x' where id = $1", [postingId]);
  await refusedBy('postings_append_only', 'delete from payonce.postings where id = $1', [postingId]);
  await refusedBy('postings_append_only', 'truncate payonce.postings cascade');
});

test('case J10: of two edits at once neither takes the old amount back: both are refused', async () => {
  const edit = async (): Promise<string> => {
    const error = await world.pool
      .query('update payonce.ledger_entries set amount = amount - 1 where account_id = $1', [account])
      .catch((refusal: unknown) => refusal);
    return (error as pg.DatabaseError).constraint ?? 'edited';
  };
  assert.deepEqual(await Promise.all([edit(), edit()]), ['ledger_entries_append_only', 'ledger_entries_append_only']);
});

test('inv L1: a posting that does not sum to zero is refused, however it is written', async () => {
  await refusedBy(
    'ledger_entries_balanced',
    `with moved as (
       update payonce.accounts set balance = balance + 5, seq = seq + 1 where id = $1 returning seq, balance),
     head as (insert into payonce.postings (idem_key, reference) values ('psql', 'psql') returning id)
     insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
     select head.id, $1, '${ASSET}', moved.seq, 5, moved.balance from moved, head`,
    [account],
  );
});

test('inv L1: two assets do not balance each other', async () => {
  const euro = await world.account(null, 'eur');
  await refusedBy(
    'ledger_entries_balanced',
    `select * from payonce.post(array['post'], array['mixed'], array['r'], array[null::bigint], array[null::bigint],
       array[null::text], array[1, 1], array[$1::bigint, $2::bigint], array[-5, 5])`,
    [account, euro],
  );
});

test('inv L2: an entry that does not continue its account is refused: seq, link, asset and the account row must agree', async () => {
  const insert = (seq: string, after: string, asset = ASSET, moved = 1): string => `
    with moved as (
      update payonce.accounts set balance = balance + case id when $1 then 5 else -5 end, seq = seq + ${moved}
      where id in ($1, $2) returning id, seq, balance),
    head as (insert into payonce.postings (idem_key, reference) values ('psql', 'psql') returning id)
    insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
    select head.id, m.id, '${asset}', case m.id when $1 then ${seq} else m.seq end, case m.id when $1 then 5 else -5 end,
           case m.id when $1 then ${after} else m.balance end
    from moved m, head`;
  const values = [account, world.house];
  await psql.query('begin');
  await psql.query(insert('m.seq', 'm.balance'), values);
  await psql.query('rollback');

  await refusedBy('ledger_entries_chain', insert('m.seq + 1', 'm.balance'), values);
  await refusedBy('ledger_entries_chain', insert('m.seq', 'm.balance + 1'), values);
  await refusedBy('ledger_entries_chain', insert('m.seq', 'm.balance', 'eur'), values);
  await refusedBy('ledger_entries_chain', insert('m.seq', 'm.balance', ASSET, 2), values);
});

test('inv L2: a broken link inside one statement is found too, though its ends agree', async () => {
  await refusedBy(
    'ledger_entries_chain',
    `with moved as (
       update payonce.accounts set seq = seq + 2 where id in ($1, $2) returning id, seq, balance),
     heads as (
       insert into payonce.postings (idem_key, reference) values ('psql 1', 'psql'), ('psql 2', 'psql') returning id, idem_key)
     insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
     select h.id, m.id, '${ASSET}', m.seq - case h.idem_key when 'psql 1' then 1 else 0 end,
            case when (m.id = $1) = (h.idem_key = 'psql 1') then 3 else -3 end,
            m.balance + case when h.idem_key = 'psql 2' then 0 when m.id = $1 then 4 else -3 end
     from moved m, heads h`,
    [account, world.house],
  );
});

test('a posting is closed: no entry joins it later, not even a pair that sums to zero, and none without a posting', async () => {
  const late = (id: string): string => `
    with moved as (
      update payonce.accounts set balance = balance + case id when $1 then 5 else -5 end, seq = seq + 1
      where id in ($1, $2) returning id, seq, balance)
    insert into payonce.ledger_entries (posting_id, account_id, asset_id, seq, amount, balance_after)
    select ${id}, m.id, '${ASSET}', m.seq, case m.id when $1 then 5 else -5 end, m.balance from moved m`;
  const fresh = await world.account();
  const more = await world.account(null);
  await refusedBy('ledger_entries_closed', late(String(postingId)), [fresh, more]);
  await refusedBy('ledger_entries_once', late(String(postingId)), [account, world.house]);
  await refusedBy('ledger_entries_closed', late('999999999'), [fresh, more]);
});

test('what entries name cannot be renamed or taken away', async () => {
  await refusedBy('accounts_append_only', "update payonce.accounts set asset_id = 'eur' where id = $1", [account]);
  await refusedBy('accounts_append_only', 'delete from payonce.accounts where id = $1', [account]);
  await refusedBy('accounts_append_only', 'truncate payonce.accounts cascade');
  await refusedBy('assets_append_only', 'delete from payonce.assets where id = $1', [ASSET]);
  await refusedBy('assets_frozen', 'update payonce.assets set decimals = 8 where id = $1', [ASSET]);
});

test('inv L8: a posting is reversed once', async () => {
  const reversal = (key: string): string =>
    `insert into payonce.postings (idem_key, reference, reverses) values ('${key}', 'r', $1)`;
  await refusedBy('postings_reverses', `${reversal('psql a')}, ('psql b', 'r', $1)`, [postingId]);
  await refusedBy('postings_reverses_fkey', reversal('psql c'), [999_999_999]);
});

test('case J4: a hold is never deleted, moved or changed in amount', async () => {
  await world.post({ kind: 'hold', holdKey: `guard hold ${round}`, accountId: account, amount: 5n });
  const where = `where key = 'guard hold ${round}'`;
  await refusedBy('holds_frozen', `update payonce.holds set amount = 4 ${where}`);
  await refusedBy('holds_frozen', `update payonce.holds set account_id = ${world.house} ${where}`);
  await refusedBy('holds_frozen', `delete from payonce.holds ${where}`);
});
