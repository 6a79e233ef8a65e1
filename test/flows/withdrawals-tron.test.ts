/*
 * Goal: a withdrawal over TRON moves its money once or not at all, whatever the nodes answer, forget or show. Method: the
 * whole engine over the simulated chain; the chain's own books judge at the end.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { hexAddress } from '../../src/rails/tron/address.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeTronWorld, TOKENS_PER_WALLET, TRX, type TronWorld } from '../support/tron-world.ts';
import { balanceOf, collectingLog } from '../support/world.ts';

const AMOUNT = 1_000_000n;

async function pay(one: TronWorld, fields: Partial<WithdrawalRequest> = {}): Promise<{ id: string; to: string }> {
  const to = fields.destination ?? one.outsider();
  const [created] = await createWithdrawals(one, [one.request({ destination: to, ...fields })]);
  assert.equal(created?.outcome, 'created');
  return { id: created.outcome === 'created' ? created.id : '', to };
}
async function statusOf(one: TronWorld, id: string): Promise<string | undefined> {
  return (await readWithdrawal(one.pool, one.partnerId, id))?.status;
}
async function effectsOf(one: TronWorld, id: string) {
  const { rows } = await one.pool.query<{
    seq: number;
    state: string;
    identity: string | null;
    send_count: number;
    wait_reason: string | null;
    released: string | null;
    kinds: string[];
  }>(
    `select e.seq, e.state, e.identity, e.send_count, e.wait_reason,
       (select v.kind from payonce.effect_evidence v where v.id = e.released_by) as released,
       array(select v.kind from payonce.effect_evidence v where v.effect_id = e.id order by v.id) as kinds
     from payonce.effects e where e.subject_id = $1 order by e.seq`,
    [id],
  );
  return rows;
}
async function paidTo(one: TronWorld, to: string): Promise<bigint[]> {
  return (await one.paid()).filter((movement) => movement.to === to).map((movement) => movement.amount);
}
async function finish(one: TronWorld): Promise<void> {
  await assertBooksClean(one.pool, { books: one.tron.books, wallets: one.wallets });
  await one.end();
}
/** Real time passes, so that the same bytes may be sent again. */
function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 120));
}

for (const coin of [false, true]) {
  const what = coin ? 'TRX' : 'a token whose transfer answers false';
  test(`${what} is sent, shown as sent in a block, and confirmed only when it is solid (case G3, req P2, P4)`, async () => {
    const one = await makeTronWorld({ coin });
    const { id, to } = await pay(one);
    await one.pass();
    assert.equal(await statusOf(one, id), 'processing');
    one.mine(1);
    await one.pass();
    assert.equal(await statusOf(one, id), 'sent');
    one.mine(20);
    await one.pass();
    assert.equal(await statusOf(one, id), 'confirmed');
    assert.deepEqual(await paidTo(one, to), [AMOUNT]);
    assert.deepEqual(await balanceOf(one), { balance: 999_000_000n, held: 0n });
    const [effect] = await effectsOf(one, id);
    assert.equal(effect?.identity, `tron:${(await one.paid())[0]?.tx}`);
    // The fee that the chain took is on the books, in the chain's coin.
    const gas = await one.pool.query<{ amount: bigint }>(
      "select sum(amount) as amount from payonce.ledger_entries e join payonce.accounts a on a.id = e.account_id where a.code like 'gas%'",
    );
    const costs = (await one.tron.books.costs()).filter((cost) => one.wallets.includes(cost.payer));
    assert.equal(
      -(gas.rows[0]?.amount ?? 0n),
      costs.reduce((sum, cost) => sum + cost.amount, 0n),
    );
    await finish(one);
  });
}

for (const fault of ['lose_request', 'lose_answer', 'deliver_twice', 'rate_limited'] as const) {
  test(`with each first broadcast ${fault} it is still paid once (case B1, B9)`, async () => {
    const one = await makeTronWorld();
    one.tron.script({ on: 'broadcast', hitsMax: 2, fault: { kind: fault } });
    const { id, to } = await pay(one);
    for (let round = 0; round < 4; round += 1) {
      await one.pass();
      await rest();
    }
    await one.drain();
    assert.equal(await statusOf(one, id), 'confirmed');
    assert.deepEqual(await paidTo(one, to), [AMOUNT]);
    assert.equal((await effectsOf(one, id)).length, 1);
    await finish(one);
  });
}

test('taken, forgotten, and sent again: the same bytes, one payment (case G2)', async () => {
  const one = await makeTronWorld();
  one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind: 'drop' } });
  const { id, to } = await pay(one);
  await one.pass();
  one.mine(2);
  assert.deepEqual(await paidTo(one, to), []);
  await rest();
  await one.pass();
  await one.drain();
  const [effect] = await effectsOf(one, id);
  assert.ok((effect?.send_count ?? 0) >= 2);
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  await finish(one);
});

test('never included: freed by two witnesses past expiration and margin, and only then tried anew (case G2)', async () => {
  const one = await makeTronWorld();
  const stop = one.tron.script({ on: 'broadcast', fault: { kind: 'never_include' } });
  const { id, to } = await pay(one);
  await one.pass();
  stop();
  const [first] = await effectsOf(one, id);
  // Expired (40 blocks), not solid; expired and solid, within the margin: nothing is said.
  for (const blocks of [35, 25, 25]) {
    one.mine(blocks);
    await one.pass();
    const effects = await effectsOf(one, id);
    assert.equal(effects.length, 1, `after ${blocks} blocks more`);
    assert.equal(effects[0]?.state, 'SEALED');
  }
  one.mine(25);
  await one.pass();
  const released = await effectsOf(one, id);
  assert.equal(released[0]?.released, 'EXPIRED_UNINCLUDED');
  assert.equal(released.length, 2);
  await one.drain();
  const effects = await effectsOf(one, id);
  assert.deepEqual(
    effects.map((effect) => effect.state),
    ['RELEASED', 'SETTLED'],
  );
  assert.notEqual(effects[1]?.identity, first?.identity);
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  await finish(one);
});

test('after its expiration in solid time it is not sent any more, whoever asks (case G2)', async () => {
  const one = await makeTronWorld();
  one.tron.script({ on: 'broadcast', fault: { kind: 'never_include' } });
  const { id } = await pay(one);
  await one.pass();
  one.mine(65);
  await one.pass();
  await rest();
  const before = (await effectsOf(one, id))[0]?.send_count;
  await one.pool.query("update payonce.effects set wanted = 'ask' where subject_id = $1 and ended_at is null", [id]);
  await one.pass();
  assert.equal((await effectsOf(one, id))[0]?.send_count, before);
  one.tron.heal();
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  await finish(one);
});

test('in the last block that may hold it: settled, and never tried anew', async () => {
  const one = await makeTronWorld();
  one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind: 'include_at_last' } });
  const { id, to } = await pay(one);
  await one.pass();
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.equal((await effectsOf(one, id)).length, 1);
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  assert.equal(one.tron.counts.include_at_last, 1);
  await finish(one);
});

test('in a block that is left for another, then in one again: shown, withdrawn, confirmed once (case G3)', async () => {
  const one = await makeTronWorld();
  const { id, to } = await pay(one);
  await one.pass();
  one.mine(2);
  await one.pass();
  assert.equal(await statusOf(one, id), 'sent');
  one.tron.fork(3, { comesBack: false });
  await one.pass();
  assert.equal(await statusOf(one, id), 'processing');
  await rest();
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  await finish(one);
});

for (const result of ['OUT_OF_ENERGY', 'REVERT'] as const) {
  test(`${result} in a solid block is proof: its fee is booked, and the next try pays (case E8)`, async () => {
    const one = await makeTronWorld();
    one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind: 'end_as', result } });
    const { id, to } = await pay(one);
    await one.drain();
    const effects = await effectsOf(one, id);
    assert.deepEqual(
      effects.map((effect) => effect.released ?? effect.state),
      ['REVERTED_FINAL', 'SETTLED'],
    );
    assert.deepEqual(await paidTo(one, to), [AMOUNT]);
    await finish(one);
  });
}

const POOR_WITNESSES = {
  'a lite node': (one: TronWorld) => {
    one.tron.node('b').settings.lite = true;
  },
  'a node without history': (one: TronWorld) => {
    one.tron.node('b').settings.history = false;
  },
  'a node that lags behind the margin': (one: TronWorld) => {
    one.tron.node('b').settings.lagBlocks = 80;
  },
};
for (const [what, spoil] of Object.entries(POOR_WITNESSES)) {
  test(`${what} is no witness: with one real witness nothing is freed (case G2)`, async () => {
    const one = await makeTronWorld();
    const stop = one.tron.script({ on: 'broadcast', fault: { kind: 'never_include' } });
    const { id, to } = await pay(one);
    await one.pass();
    stop();
    spoil(one);
    for (let round = 0; round < 4; round += 1) {
      one.mine(40);
      await one.pass();
    }
    const [effect] = await effectsOf(one, id);
    assert.equal(effect?.state, 'SEALED');
    assert.ok(!effect.kinds.includes('EXPIRED_UNINCLUDED'));
    Object.assign(one.tron.node('b').settings, { lite: false, history: true, lagBlocks: 0 });
    await one.drain();
    assert.equal((await effectsOf(one, id))[0]?.released, 'EXPIRED_UNINCLUDED');
    assert.deepEqual(await paidTo(one, to), [AMOUNT]);
    await finish(one);
  });
}

test('short of energy and nobody to supply it: it waits with a reason, nothing is sealed, people are told once', async () => {
  const one = await makeTronWorld({ rail: { energy: { policy: 'wait' } } });
  const { id, to } = await pay(one);
  for (let round = 0; round < 3; round += 1) await one.pass();
  const [effect] = await effectsOf(one, id);
  assert.equal(effect?.state, 'PENDING');
  assert.match(effect.wait_reason ?? '', /ENERGY_SHORT/);
  const alerts = await one.pool.query("select 1 from payonce.alerts where kind = 'energy_short'");
  assert.equal(alerts.rowCount, 1);
  one.tron.stake(one.wallet, { energy: 500_000n });
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  await finish(one);
});

test('what the plan sees: no TRX for fees, too few tokens, a call that reverts', async () => {
  const reasonOf = async (one: TronWorld, fields: Partial<WithdrawalRequest>): Promise<string> => {
    const { id } = await pay(one, fields);
    await one.pass();
    return (await effectsOf(one, id))[0]?.wait_reason ?? '';
  };
  const poor = await makeTronWorld({ sun: 5n });
  assert.match(await reasonOf(poor, {}), /^GAS_SHORT/);
  await finish(poor);
  const empty = await makeTronWorld();
  empty.tron.fundToken(empty.token, empty.wallet, 5n - TOKENS_PER_WALLET);
  assert.match(await reasonOf(empty, {}), /^ONCHAIN_INSUFFICIENT/);
  await finish(empty);
  const one = await makeTronWorld();
  one.tron.barFromToken(one.token, one.wallet);
  assert.match(await reasonOf(one, {}), /^SIMULATION_REVERTED/);
  await finish(one);
});

test('a contract as receiver: refused for TRX, told for tokens; a chain that does not solidify is waited for', async () => {
  const coin = await makeTronWorld({ coin: true });
  const refused = await pay(coin, { destination: coin.tron.deployPayer() });
  await coin.pass();
  assert.match((await effectsOf(coin, refused.id))[0]?.wait_reason ?? '', /^RECEIVER_IS_CONTRACT/);
  await finish(coin);
  const log = collectingLog();
  const one = await makeTronWorld({ log });
  const told = await pay(one, { destination: one.tron.deployPayer() });
  await one.drain();
  assert.equal(await statusOf(one, told.id), 'confirmed');
  assert.ok(log.lines.some((line) => line.level === 'warn' && line.message.includes('receiver is a contract')));
  one.tron.stallSolidity(true);
  one.mine(60);
  const waiting = await pay(one);
  await one.pass();
  assert.match((await effectsOf(one, waiting.id))[0]?.wait_reason ?? '', /^NODE_DOWN.*does not solidify/);
  one.tron.stallSolidity(false);
  await one.drain();
  assert.equal(await statusOf(one, waiting.id), 'confirmed');
  await finish(one);
});

const CODES = [
  'SIGERROR',
  'CONTRACT_VALIDATE_ERROR',
  'CONTRACT_EXE_ERROR',
  'BANDWITH_ERROR',
  'DUP_TRANSACTION_ERROR',
  'TAPOS_ERROR',
  'TOO_BIG_TRANSACTION_ERROR',
  'TRANSACTION_EXPIRATION_ERROR',
  'SERVER_BUSY',
  'NO_CONNECTION',
  'NOT_ENOUGH_EFFECTIVE_CONNECTION',
  'BLOCK_UNSOLIDIFIED',
  'OTHER_ERROR',
  'CODE_OF_A_NEWER_NODE',
] as const;

for (const kind of ['lie', 'refuse'] as const) {
  const truth = kind === 'lie' ? 'it was taken all the same' : 'nothing was taken';
  test(`whatever code a broadcast is answered with, and ${truth}, it is paid once (case G1, G10)`, async () => {
    const one = await makeTronWorld({ sun: 5_000n * TRX });
    const payees: string[] = [];
    for (const code of CODES) {
      one.tron.script({ on: 'broadcast', hitsMax: 1, fault: { kind, code } });
      payees.push((await pay(one)).to);
      await one.pass();
    }
    await rest();
    await one.drain();
    for (const to of payees) assert.deepEqual(await paidTo(one, to), [AMOUNT]);
    const { rows } = await one.pool.query<{ tries: bigint }>('select count(*) as tries from payonce.effects');
    assert.equal(Number(rows[0]?.tries), CODES.length, 'no code made a second try');
    await finish(one);
  });
}

test('whatever code every broadcast is answered with until it has expired, it is freed by proof and then paid once (case G1, G2)', async () => {
  const one = await makeTronWorld({ sun: 5_000n * TRX });
  const payees: { id: string; to: string }[] = [];
  for (const code of CODES) {
    const payee = await pay(one);
    payees.push(payee);
    const digits = hexAddress(payee.to).slice(2);
    one.tron.script({ on: 'broadcast', when: ({ body }) => body.includes(digits), fault: { kind: 'refuse', code } });
  }
  await one.pass();
  for (let round = 0; round < 2; round += 1) {
    one.mine(40);
    await one.pass();
  }
  for (const { id } of payees) assert.equal((await effectsOf(one, id)).length, 1, 'no code frees anything');
  one.tron.heal();
  one.mine(60);
  await one.drain();
  for (const { id, to } of payees) {
    const effects = await effectsOf(one, id);
    assert.deepEqual(
      effects.map((effect) => effect.released ?? effect.state),
      ['EXPIRED_UNINCLUDED', 'SETTLED'],
    );
    assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  }
  await finish(one);
});

test('TRX to an account that does not exist makes it, and its price is planned for', async () => {
  const one = await makeTronWorld({ coin: true, sun: 3n * TRX });
  const { id, to } = await pay(one, { destination: one.outsider({ exists: false }) });
  await one.drain();
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await paidTo(one, to), [AMOUNT]);
  // What is left does not pay for another account.
  const second = await pay(one, { destination: one.outsider({ exists: false }) });
  await one.pass();
  assert.match((await effectsOf(one, second.id))[0]?.wait_reason ?? '', /GAS_SHORT|ONCHAIN_INSUFFICIENT/);
  await finish(one);
});

test('fifty payments of one amount to one payee are fifty transactions (inv E1)', async () => {
  const one = await makeTronWorld({ sun: 5_000n * TRX });
  const to = one.outsider();
  for (let count = 0; count < 50; count += 1) await pay(one, { destination: to });
  await one.drain(80);
  assert.equal((await paidTo(one, to)).length, 50);
  const identities = await one.pool.query<{ count: bigint }>(
    'select count(distinct identity) as count from payonce.effects',
  );
  assert.equal(Number(identities.rows[0]?.count), 50);
  await finish(one);
});
