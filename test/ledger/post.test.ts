/*
 * Goal: `post` moves balances and holds as the ledger promises. Method: real transactions on a real server, races by many
 * connections at once; what the books say is recomputed from the entries (verify) when each test ends.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { postingKey } from '../../src/kernel/ids.ts';
import { post } from '../../src/ledger/post.ts';
import { makePoster } from '../../src/ledger/poster.ts';
import { type LedgerWorld, makeLedgerWorld, posting, words } from '../support/ledger-world.ts';

let world: LedgerWorld;
before(async () => {
  world = await makeLedgerWorld('ledger post');
});
after(() => world.end());

const entriesOf = async (accountId: bigint): Promise<{ seq: bigint; amount: bigint; balance_after: bigint }[]> =>
  (
    await world.pool.query<{ seq: bigint; amount: bigint; balance_after: bigint }>(
      'select seq, amount, balance_after from payonce.ledger_entries where account_id = $1 order by seq',
      [accountId],
    )
  ).rows;

test('case J1: 20 rounds of 6 parallel credits keep one chain, the first entry of the account included', async () => {
  const account = await world.account();
  for (let round = 0; round < 20; round += 1) {
    const credits = Array.from({ length: 6 }, (_, index) =>
      world.post(posting(`J1:${account}:${round}:${index}`, [world.house, -1n], [account, 1n])),
    );
    assert.deepEqual((await Promise.all(credits)).flatMap(words), Array(6).fill('posted'));
  }
  const entries = await entriesOf(account);
  assert.equal(entries.length, 120);
  assert.equal(entries.at(-1)?.balance_after, 120n);
  entries.forEach((entry, index) => assert.equal(entry.balance_after, BigInt(index + 1)));
});

test('case J1 as it was in the field: a lock on the newest entry lets writers insert beside it and the chain breaks', async () => {
  const pool = new pg.Pool({ connectionString: world.url, max: 6 });
  try {
    await pool.query(`create table newest_entry_ledger (
      id bigint generated always as identity primary key, amount bigint not null, balance_after bigint not null)`);
    const credit = async (): Promise<void> => {
      const client = await pool.connect();
      try {
        await client.query('begin isolation level read committed');
        const newest = await client.query<{ balance_after: string }>(
          'select balance_after from newest_entry_ledger order by id desc limit 1 for update',
        );
        await client.query('select pg_sleep(0.005)');
        const after = BigInt(newest.rows[0]?.balance_after ?? 0) + 1n;
        await client.query('insert into newest_entry_ledger (amount, balance_after) values (1, $1)', [after]);
        await client.query('commit');
      } finally {
        client.release();
      }
    };
    for (let round = 0; round < 20; round += 1) await Promise.all(Array.from({ length: 6 }, credit));
    const { rows } = await pool.query<{ entries: string; broken: string; last: string }>(`
      select count(*) as entries,
             count(*) filter (where balance_after <> coalesce(before, 0) + amount) as broken,
             (array_agg(balance_after order by id desc))[1] as last
      from (select *, lag(balance_after) over (order by id) as before from newest_entry_ledger) s`);
    assert.equal(rows[0]?.entries, '120');
    assert.ok(Number(rows[0]?.broken) > 0, 'no broken link: the counter-example has lost its teeth');
    assert.ok(Number(rows[0]?.last) < 120);
  } finally {
    await pool.end();
  }
});

test('case J2 inv L4: 50 parallel debits take an account to its floor and never below', async () => {
  const account = await world.funded(100n);
  const debits = Array.from({ length: 50 }, (_, index) =>
    world.post(posting(`J2:${account}:${index}`, [account, -3n], [world.house, 3n])),
  );
  const verdicts = (await Promise.all(debits)).flatMap(words);
  assert.equal(verdicts.filter((verdict) => verdict === 'posted').length, 33);
  assert.equal(verdicts.filter((verdict) => verdict === 'insufficient').length, 17);
  assert.equal((await world.balance(account)).balance, 1n);
});

test('case J2 inv L4: the floor is a constraint too, whoever writes', async () => {
  const account = await world.funded(5n);
  await assert.rejects(
    world.pool.query('update payonce.accounts set balance = balance - 6 where id = $1', [account]),
    /accounts_floor/,
  );
  await assert.rejects(
    world.pool.query('update payonce.accounts set held = 6 where id = $1', [account]),
    /accounts_floor/,
  );
});

test('case J4: the sixth hold of 1,000 on 5,000 is refused, also when all six come at once', async () => {
  const account = await world.funded(5_000n);
  const holds = Array.from({ length: 6 }, (_, index) =>
    world.post({ kind: 'hold', holdKey: `J4:${account}:${index}`, accountId: account, amount: 1_000n }),
  );
  const verdicts = (await Promise.all(holds)).flatMap(words);
  assert.deepEqual(verdicts.toSorted(), ['held', 'held', 'held', 'held', 'held', 'insufficient']);
  assert.equal((await world.balance(account)).held, 5_000n);
});

test('case J4: a hold that was refused cannot be posted, and an ended one stays as it ended', async () => {
  const account = await world.funded(10n);
  const hold = (key: string, amount: bigint) => ({ kind: 'hold', holdKey: key, accountId: account, amount }) as const;
  const close = (key: string, holdKey: string) => ({
    ...posting(key, [account, -10n], [world.house, 10n]),
    closesHold: holdKey,
  });
  assert.deepEqual(words(await world.post(hold('J4:refused', 11n))), ['insufficient']);
  assert.deepEqual(words(await world.post(close('J4:p1', 'J4:refused'))), ['hold_gone']);

  assert.deepEqual(words(await world.post(hold('J4:voided', 10n))), ['held']);
  assert.deepEqual(words(await world.post({ kind: 'void', holdKey: 'J4:voided' })), ['voided']);
  assert.deepEqual(words(await world.post(close('J4:p2', 'J4:voided'))), ['hold_gone']);
  assert.deepEqual(words(await world.post({ kind: 'void', holdKey: 'J4:voided' })), ['hold_gone']);

  for (const state of ['open', 'posted']) {
    await assert.rejects(
      world.pool.query('update payonce.holds set state = $1, ended_at = null where key = $2', [state, 'J4:voided']),
      /has ended as voided/,
    );
  }
});

test('case J4: a hold that is posted and voided at once ends in one of the two, 30 times', async () => {
  for (let round = 0; round < 30; round += 1) {
    const account = await world.funded(10n);
    const holdKey = `J4:race:${round}`;
    await world.post({ kind: 'hold', holdKey, accountId: account, amount: 10n });
    const [posted, voided] = await Promise.all([
      world.post({ ...posting(`J4:race:${round}`, [account, -10n], [world.house, 10n]), closesHold: holdKey }),
      world.post({ kind: 'void', holdKey }),
    ]);
    const pair = [...words(posted), ...words(voided)].join(' ');
    assert.ok(pair === 'posted hold_gone' || pair === 'hold_gone voided', pair);
    const { balance, held } = await world.balance(account);
    assert.equal(held, 0n);
    assert.equal(balance, pair === 'posted hold_gone' ? 0n : 10n);
  }
});

test('case J5: a debit that comes while another is uncommitted waits for its lock and is decided by what it leaves', async () => {
  const account = await world.funded(100n);
  const debit = (nth: number) => posting(`J5:${account}:${nth}`, [account, -80n], [world.house, 80n]);
  const start = Promise.withResolvers<void>();
  const second = start.promise.then(() => world.post(debit(2)));
  await world.pool.tx('first debit', async (tx) => {
    assert.deepEqual(words(await post(tx, [debit(1)])), ['posted']);
    start.resolve();
    await untilSomebodyWaits();
  });
  assert.deepEqual(words(await second), ['insufficient']);
});

test('req W6: a duplicate too takes the account lock before it is judged', async () => {
  const account = await world.funded(10n);
  const credit = posting(`W6:${account}`, [world.house, -1n], [account, 1n]);
  await world.post(credit);
  const start = Promise.withResolvers<void>();
  let answered = false;
  const duplicate = start.promise
    .then(() => world.post(credit))
    .finally(() => {
      answered = true;
    });
  await world.pool.tx('lock only', async (tx) => {
    await tx.query('select 1 from payonce.accounts where id = $1 for no key update', [account]);
    start.resolve();
    await untilSomebodyWaits();
    assert.equal(answered, false);
  });
  assert.deepEqual(words(await duplicate), ['exists']);
});

test('case J6: 50 clients get 50 different posting ids, and none an empty answer', async () => {
  const account = await world.account();
  const poster = makePoster(world.pool, { lanes: 4, itemsMax: 16 });
  const verdicts = await Promise.all(
    Array.from({ length: 50 }, async (_, client) => {
      const own = [];
      for (let nth = 0; nth < 20; nth += 1) {
        own.push(await poster.post(posting(`J6:${account}:${client}:${nth}`, [world.house, -1n], [account, 1n])));
      }
      return own;
    }),
  );
  const ids = verdicts.flat().map((one) => (one.verdict === 'posted' ? one.postingId : undefined));
  assert.equal(new Set(ids).size, 1_000);
  assert.ok(!ids.includes(undefined));
  assert.equal((await world.balance(account)).balance, 1_000n);
});

test('case J9 req W3 inv L5: a webhook and a poller book one confirmation 20 times at once: one DEBIT, 19 are told that it exists', async () => {
  const account = await world.funded(100n);
  const confirm = posting(postingKey.withdrawalConfirm(`wd_${account}`), [account, -100n], [world.house, 100n]);
  const verdicts = (await Promise.all(Array.from({ length: 20 }, () => world.post(confirm)))).flat();
  assert.deepEqual(words(verdicts).toSorted(), [...Array<string>(19).fill('exists'), 'posted']);
  const ids = new Set(verdicts.map((one) => ('postingId' in one ? one.postingId : null)));
  assert.equal(ids.size, 1, 'every caller is told the same posting');
  assert.equal((await world.balance(account)).balance, 0n);
});

test('case J9: the check comes after the lock: a repetition is not refused for lack of funds that the first one took', async () => {
  const account = await world.funded(100n);
  const debit = posting(`J9:${account}`, [account, -100n], [world.house, 100n]);
  assert.deepEqual(words(await world.post(debit, debit)), ['posted', 'exists']);
  assert.deepEqual(words(await world.post(debit)), ['exists']);
});

test('req W3: a key has 1 to 80 characters, is never NULL and stands once', async () => {
  const account = await world.account();
  const credit = (key: string) => world.post(posting(key, [world.house, -1n], [account, 1n]));
  assert.deepEqual(words(await credit('k'.repeat(80))), ['posted']);
  await assert.rejects(credit('k'.repeat(81)), /postings_idem_key_check/);
  await assert.rejects(credit(''), /postings_idem_key_check/);
  const insert = (key: string | null) =>
    world.pool.query('insert into payonce.postings (idem_key, reference) values ($1, $2)', [key, 'r']);
  await assert.rejects(insert(null), /null value in column "idem_key"/);
  await assert.rejects(insert('k'.repeat(80)), /postings_idem_key/);
});

test('req W4: six legs and a correction of one withdrawal are seven DEBITs under keys of their own; one key would lose six', async () => {
  const account = await world.funded(700n);
  const legs = (keyOf: (leg: number) => string) =>
    Array.from({ length: 7 }, (_, leg) => posting(keyOf(leg), [account, -50n], [world.house, 50n]));
  const fine = await world.post(...legs((leg) => `P2P_LEG:${account}:${leg === 6 ? 'correction:1' : leg}`));
  assert.deepEqual(words(fine), Array(7).fill('posted'));
  assert.equal((await world.balance(account)).balance, 350n);
  const coarse = await world.post(...legs(() => `P2P:${account}`));
  assert.deepEqual(words(coarse), ['posted', ...Array<string>(6).fill('exists')]);
  assert.equal((await world.balance(account)).balance, 300n);
});

test('req W5: exists and insufficient are results: the caller goes on in the same transaction and commits', async () => {
  const account = await world.funded(1n);
  const key = `W5:${account}`;
  await world.post(posting(key, [world.house, -1n], [account, 1n]));
  await world.pool.query('create table w5_notes (note text)');
  await world.pool.tx('surrounding', async (tx) => {
    await tx.query("insert into w5_notes values ('before')");
    const verdicts = await post(tx, [
      posting(key, [world.house, -1n], [account, 1n]),
      posting(`${key}:much`, [account, -3n], [world.house, 3n]),
      posting(`${key}:fits`, [account, -2n], [world.house, 2n]),
    ]);
    assert.deepEqual(words(verdicts), ['exists', 'insufficient', 'posted']);
    await tx.query("insert into w5_notes values ('after')");
  });
  assert.equal((await world.pool.query('select 1 from w5_notes')).rowCount, 2);
  assert.equal((await world.balance(account)).balance, 0n);
});

test('req W5: any other error propagates and books nothing', async () => {
  const account = await world.account();
  const before = await world.balance(world.house);
  await assert.rejects(world.post(posting('W5:unbalanced', [world.house, -1n], [account, 2n])), { code: 'P0A03' });
  await assert.rejects(world.post(posting('W5:nobody', [world.house, -1n], [999_999n, 1n])), { code: 'P0A07' });
  await assert.rejects(world.post(posting('W5:twice', [account, -1n], [account, 1n])), /ledger_entries_once/);
  await assert.rejects(world.post(posting('W5:lonely', [account, 1n])), /fewer than two entries/);
  assert.deepEqual(await world.balance(world.house), before);
  assert.equal((await entriesOf(account)).length, 0);
});

test('req W16: the ledger that stood 100 short is corrected by a new CREDIT with a key of its own, once', async () => {
  const account = await world.funded(200n);
  await world.post(posting(`W16:first:${account}`, [account, -100n], [world.house, 100n]));
  await world.post(posting(`W16:double:${account}`, [account, -100n], [world.house, 100n]));
  const correction = posting(postingKey.migrated(`old-${account}`), [world.house, -100n], [account, 100n]);
  assert.deepEqual(words(await world.post(correction)), ['posted']);
  assert.deepEqual(words(await world.post(correction)), ['exists']);
  assert.deepEqual(
    (await entriesOf(account)).map((entry) => entry.balance_after),
    [200n, 100n, 0n, 100n],
  );
});

test('inv L6: what an account holds is the sum of its open holds, through opens, posts and voids', async () => {
  const account = await world.funded(100n);
  const key = (nth: number): string => `L6:${account}:${nth}`;
  await world.post(
    { kind: 'hold', holdKey: key(1), accountId: account, amount: 30n },
    { kind: 'hold', holdKey: key(2), accountId: account, amount: 30n },
    { kind: 'hold', holdKey: key(3), accountId: account, amount: 30n },
  );
  const debit = { ...posting(key(1), [account, -25n], [world.house, 25n]), closesHold: key(1) };
  assert.deepEqual(words(await world.post(debit, { kind: 'void', holdKey: key(2) })), ['posted', 'voided']);
  const { balance, held } = await world.balance(account);
  assert.deepEqual({ balance, held }, { balance: 75n, held: 30n });
  const { rows } = await world.pool.query<{ total: bigint }>(
    "select sum(amount) as total from payonce.holds where account_id = $1 and state = 'open'",
    [account],
  );
  assert.equal(rows[0]?.total, 30n);
});

test('keys, references and hold keys are kept whatever characters they have', async () => {
  const account = await world.account();
  for (const [nth, odd] of ['"', '\\', '{a,b}', 'NULL', ' ', '전표 №1', "'; drop table x; --", '\n'].entries()) {
    const holdKey = `odd ${odd}${account}`;
    const credit = { ...posting(`${odd}${account}`, [world.house, -2n], [account, 2n]), reference: odd };
    const hold = { kind: 'hold', holdKey, accountId: account, amount: 1n } as const;
    assert.deepEqual(words(await world.post(credit, hold)), ['posted', 'held']);
    const { rows } = await world.pool.query('select reference from payonce.postings where idem_key = $1', [credit.key]);
    assert.equal(rows[0]?.['reference'], odd);
    const close = { ...posting(`odd:${account}:${nth}`, [account, -1n], [world.house, 1n]), closesHold: holdKey };
    assert.deepEqual(words(await world.post(close)), ['posted']);
  }
});

test('items of one batch see each other in order, as if they had come one after another', async () => {
  const account = await world.account();
  const verdicts = await world.post(
    posting(`order:${account}:1`, [account, -5n], [world.house, 5n]),
    posting(`order:${account}:2`, [world.house, -5n], [account, 5n]),
    posting(`order:${account}:3`, [account, -5n], [world.house, 5n]),
    posting(`order:${account}:4`, [account, -1n], [world.house, 1n]),
  );
  assert.deepEqual(words(verdicts), ['insufficient', 'posted', 'posted', 'insufficient']);
});

test('two batches that lock the same accounts in opposite orders never meet in a dead-lock', async () => {
  const [one, other] = [await world.funded(1_000n), await world.funded(1_000n)];
  const reruns = world.pool.counts.reruns;
  await Promise.all(
    Array.from({ length: 60 }, (_, nth) =>
      world.post(
        nth % 2 === 0
          ? posting(`cross:${one}:${nth}`, [one, -1n], [other, 1n])
          : posting(`cross:${one}:${nth}`, [other, -1n], [one, 1n]),
      ),
    ),
  );
  assert.equal(world.pool.counts.reruns, reruns);
});

async function untilSomebodyWaits(): Promise<void> {
  const client = new pg.Client({ connectionString: world.url });
  await client.connect();
  try {
    for (;;) {
      const { rowCount } = await client.query(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      if (rowCount !== 0) return;
      await client.query('select pg_sleep(0.01)');
    }
  } finally {
    await client.end();
  }
}
