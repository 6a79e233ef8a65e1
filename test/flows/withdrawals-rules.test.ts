/**
 * What a withdrawal is allowed and what it costs: purposes, fees, limits per withdrawal and per day in the partner's time
 * zone, destinations of our own, and what a long or failed try does to the queue. Method: the flow and the engine on a
 * real database, on a rail where nothing moves.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { watchLongStays } from '../../src/engine/long-stays.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { createWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

async function world(behave: NoopBehaviour = {}, change: (rail: Rail) => Rail = (rail) => rail): Promise<World> {
  return makeWorld({ label: 'rules', rails: () => [change(makeNoopRail('noop', behave))] });
}
function railOf(one: World): Rail {
  const rail = one.engine.rails.get('noop');
  assert.ok(rail);
  return rail;
}
async function ask(one: World, fields: Partial<WithdrawalRequest>): Promise<string> {
  const [outcome] = await createWithdrawals(one, [one.request(fields)]);
  assert.ok(outcome);
  return outcome.outcome === 'refused' ? outcome.problem.code : outcome.outcome;
}

for (const [purpose, kind] of [
  ['settlement', 'SETTLEMENT'],
  ['self', 'MASTER'],
] as const) {
  test(`a ${purpose} withdrawal moves custody and debits nobody (req W8)`, async () => {
    const one = await world();
    assert.equal(await ask(one, { purpose, destination: 'elsewhere' }), 'PO_DESTINATION_REFUSED');
    await one.pool.query(
      'insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, $4, $5)',
      [one.makeId('adr'), 'noop', 'ours-2', kind, one.partnerId],
    );
    const [created] = await createWithdrawals(one, [one.request({ purpose, destination: 'ours-2' })]);
    assert.equal(created?.outcome, 'created');
    await advanceOnce(one.engine, railOf(one));
    assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 0n });
    assert.equal((await balanceOf(one, 'custody:noop:ours-2')).balance, -1_000_000n);
    const keys = await one.pool.query<{ idem_key: string }>(
      "select idem_key from payonce.postings where idem_key like 'WDR%'",
    );
    assert.deepEqual(
      keys.rows.map((row) => row.idem_key.split(':')[0]),
      ['WDR_MOVE'],
    );
    await assertBooksClean(one.pool);
    await one.end();
  });
}

test('the fee is on top, held with the amount, taken once at the end and given back whole on failure (req W4)', async () => {
  let failing = false;
  const one = await world({
    send: () => Promise.resolve({ kind: failing ? 'in_progress' : 'final_success' }),
    look: () => Promise.resolve([{ kind: 'cancel_mined', objectId: 'c' }]),
  });
  await one.pool.query('update payonce.asset_policies set withdrawal_fee_flat = 7, withdrawal_fee_bp = 15');
  const [created] = await createWithdrawals(one, [one.request({ amount: 999n })]);
  assert.equal(created?.outcome, 'created');
  // 15 basis points of 999 are 1.4985 units: rounded down, in favour of the payer.
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 999n + 7n + 1n });
  await advanceOnce(one.engine, railOf(one));
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n - 1_007n, held: 0n });
  assert.equal((await balanceOf(one, 'fees')).balance, 8n);
  failing = true;
  await createWithdrawals(one, [one.request({ amount: 999n })]);
  for (let pass = 0; pass < 2; pass += 1) {
    await one.pool.query(
      'update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null',
    );
    await advanceOnce(one.engine, railOf(one));
  }
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n - 1_007n, held: 0n });
  assert.equal((await balanceOf(one, 'fees')).balance, 8n);
  await assertBooksClean(one.pool);
  await one.end();
});

test("limits hold per withdrawal and per day of the partner's time zone, also for fifty at once, and failures give back", async () => {
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: 'cancel_mined', objectId: 'c' }]),
  });
  await one.pool.query(
    'update payonce.asset_policies set withdrawal_min = 10, withdrawal_max = 100, withdrawal_day_max = 1000',
  );
  assert.equal(await ask(one, { amount: 9n }), 'PO_AMOUNT_OUT_OF_LIMITS');
  assert.equal(await ask(one, { amount: 101n }), 'PO_AMOUNT_OUT_OF_LIMITS');
  const codes = await Promise.all(Array.from({ length: 50 }, () => ask(one, { amount: 100n })));
  assert.equal(codes.filter((code) => code === 'created').length, 10);
  assert.equal(codes.filter((code) => code === 'PO_DAY_LIMIT').length, 40);
  for (let pass = 0; pass < 2; pass += 1) {
    await one.pool.query(
      'update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null',
    );
    await advanceOnce(one.engine, railOf(one));
  }
  assert.equal(await ask(one, { amount: 100n }), 'created', 'what failed no longer counts');
  const days = await one.pool.query<{ same: boolean }>(
    "select day = (payonce.now() at time zone 'Asia/Seoul')::date as same from payonce.day_totals",
  );
  assert.deepEqual(days.rows, [{ same: true }]);
  await assertBooksClean(one.pool);
  await one.end();
});

test('an address of our own is refused for customers unless the policy allows deposit addresses', async () => {
  const one = await world();
  await one.pool.query(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ('adr_d', 'noop', 'deposit-1', 'DEPOSIT', $1)",
    [one.partnerId],
  );
  assert.equal(await ask(one, { destination: 'deposit-1' }), 'PO_DESTINATION_REFUSED');
  assert.equal(await ask(one, { destination: one.wallet }), 'PO_DESTINATION_REFUSED');
  await one.pool.query("update payonce.asset_policies set own_address_policy = 'allow_deposit_addresses'");
  assert.equal(await ask(one, { destination: 'deposit-1' }), 'created');
  await assertBooksClean(one.pool);
  await one.end();
});

test('the contract of an asset is no destination: tokens that are sent to a token are lost', async () => {
  const one = await world();
  await one.pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ('noop/erc20:other', 'OTHER', 'noop', 'other', 6), ('far/erc20:far', 'FAR', 'far', 'far', 6)",
  );
  await one.pool.query("update payonce.asset_policies set own_address_policy = 'allow_deposit_addresses'");
  for (const destination of ['token', 'other'])
    for (const purpose of ['customer', 'self'] as const)
      assert.equal(await ask(one, { destination, purpose }), 'PO_DESTINATION_REFUSED', destination);
  const [refused] = await createWithdrawals(one, [one.request({ destination: 'token' })]);
  assert.match(refused?.outcome === 'refused' ? refused.problem.detail : '', /contract: what is sent there is lost/);
  assert.equal(await ask(one, { destination: 'far' }), 'created', 'a contract of another chain is none here');
  await assertBooksClean(one.pool);
  await one.end();
});

test('an external_id is taken once, whoever comes first, and the loser learns by whom (case A8)', async () => {
  const one = await world();
  const outcomes = (
    await Promise.all(
      Array.from({ length: 20 }, () => createWithdrawals(one, [one.request({ externalId: 'invoice-1' })])),
    )
  ).flat();
  assert.equal(outcomes.filter((outcome) => outcome.outcome === 'created').length, 1);
  const holder = outcomes.find((outcome) => outcome.outcome === 'created');
  for (const outcome of outcomes.filter((one) => one.outcome === 'refused')) {
    assert.equal(outcome.problem.code, 'PO_EXTERNAL_ID_TAKEN');
    assert.equal(outcome.problem.resource?.id, holder?.outcome === 'created' ? holder.id : '');
  }
  await assertBooksClean(one.pool);
  await one.end();
});

test('a failure before the send gives back with reason and back-off; nothing is sealed (req R2, R4)', async () => {
  const one = await world({}, (rail) => ({
    ...rail,
    plan: (effects) =>
      Promise.resolve(
        effects.map(() => ({
          verdict: 'wait',
          reason: 'GAS_SHORT',
          detail: 'no gas',
          alert: true,
          lasts: 'until_mended',
        })),
      ),
  }));
  const [created] = await createWithdrawals(one, [one.request()]);
  for (let pass = 0; pass < 3; pass += 1) {
    await one.pool.query('update payonce.effects set next_at = payonce.now()');
    await advanceOnce(one.engine, railOf(one));
  }
  const { rows } = await one.pool.query<{
    state: string;
    wait_reason: string;
    failures: number;
    send_count: number;
    waits: boolean;
    lease_until: Date | null;
  }>(
    "select state, wait_reason, failures, send_count, next_at > payonce.now() + interval '2 seconds' as waits, lease_until from payonce.effects",
  );
  assert.deepEqual(rows, [
    { state: 'PENDING', wait_reason: 'GAS_SHORT: no gas', failures: 3, send_count: 0, waits: true, lease_until: null },
  ]);
  const alerts = await one.pool.query<{ times: bigint }>("select times from payonce.alerts where kind = 'gas_short'");
  assert.deepEqual(alerts.rows, [{ times: 3n }]);
  assert.equal(
    created?.outcome === 'created' && (await readWithdrawal(one.pool, one.partnerId, created.id))?.status,
    'pending',
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('an item under way for too long is alerted once per stay and never returned to the queue by a timer (req R5, R6, W15)', async () => {
  const one = await world({
    send: () => Promise.resolve({ kind: 'unreadable' }),
    look: () => Promise.resolve([{ kind: 'not_found' }]),
  });
  await createWithdrawals(one, [one.request()]);
  await advanceOnce(one.engine, railOf(one));
  const { rows } = await one.pool.query<{ identity: string; payload: Buffer }>(
    'select identity, payload from payonce.effects',
  );
  assert.ok(rows[0] !== undefined && rows[0].payload.length > 0, 'identity and bytes are recorded before the send');
  for (let watch = 0; watch < 3; watch += 1) assert.equal(await watchLongStays(one.engine, railOf(one), 0), 1);
  const alerts = await one.pool.query<{ message: string }>(
    "select message from payonce.alerts where kind = 'long_stay'",
  );
  assert.equal(alerts.rowCount, 1);
  for (let pass = 0; pass < 5; pass += 1) {
    await one.pool.query('update payonce.effects set next_at = payonce.now(), lease_until = null');
    await advanceOnce(one.engine, railOf(one));
  }
  assert.deepEqual((await one.pool.query<{ state: string }>('select state from payonce.effects')).rows, [
    { state: 'SEALED' },
  ]);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a signer that is short is not chosen while another partner goes on (req R7)', async () => {
  const one = await world({}, (rail) => ({
    ...rail,
    plan: (effects) =>
      Promise.resolve(
        effects.map((effect) =>
          effect.signer === 'wallet-1'
            ? { verdict: 'wait', reason: 'GAS_SHORT', detail: 'no gas', alert: true, lasts: 'until_mended' }
            : { verdict: 'ready', plan: {} },
        ),
      ),
  }));
  await one.pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ('noop', 'wallet-2', 'second', 0)",
  );
  await createWithdrawals(one, [one.request()]);
  await one.pool.query("update payonce.asset_policies set wallet = 'wallet-2'");
  await createWithdrawals(one, [one.request()]);
  await advanceOnce(one.engine, railOf(one));
  const { rows } = await one.pool.query<{ signer: string; state: string }>(
    'select signer, state from payonce.effects order by signer',
  );
  assert.deepEqual(rows, [
    { signer: 'wallet-1', state: 'PENDING' },
    { signer: 'wallet-2', state: 'SETTLED' },
  ]);
  await assertBooksClean(one.pool);
  await one.end();
});
