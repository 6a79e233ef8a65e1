/*
 * Goal: a start that cannot be ends at once and leaves nothing running, and a kept run goes on after a SIGKILL of
 * everything or is refused; never a chain under a ledger that it does not belong to. Method: the real `payonce up`.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from '../../scripts/copy-tree.ts';
import { durableDataFolder } from '../support/postgres.ts';
import { payonce, startPayonce } from './cli-scene.ts';

interface Up {
  readonly url: string;
  readonly key: string;
  readonly said: () => string;
  kill(signal: NodeJS.Signals): Promise<void>;
}

const started = new Set<ReturnType<typeof startPayonce>>();
after(() => {
  for (const child of started) child.kill('SIGKILL');
});

async function startUp(folder: string): Promise<Up> {
  const child = startPayonce(['up'], { PAYONCE_DATA: folder, PAYONCE_PORT: '0', PAYONCE_LOG: 'silent' });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const gone = once(child, 'exit');
  started.add(child);
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', () => said.includes('Ctrl-C stops everything') && resolve());
    child.once('exit', () => reject(new Error(said)));
  });
  return {
    url: /ready at (\S+)/.exec(said)?.[1] ?? '',
    key: /partner key: (\S+)/.exec(said)?.[1] ?? '',
    said: () => said,
    async kill(signal) {
      child.kill(signal);
      await gone;
    },
  };
}

async function ask(
  one: Up,
  path: string,
  body?: object,
  key = one.key,
  order = '',
): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`${one.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'idempotency-key': `up${path.replaceAll('/', '-')}${order}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: await answer.json() };
}

test('a taken port is told at once with what to do, and nothing is left running', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const address = taken.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  for (const command of ['up', 'serve']) {
    const ran = await payonce([command], { PAYONCE_PORT: String(port), PAYONCE_LOG: 'silent' });
    assert.equal(ran.code, 1, ran.stderr);
    assert.ok(ran.stderr.includes(`Port ${port} is in use; set PAYONCE_PORT (0 takes a free one)`), ran.stderr);
    assert.doesNotMatch(ran.stdout + ran.stderr, /starting|database/i);
  }
  taken.close();
});

interface Arrived {
  readonly transfer: { readonly status: string; readonly bank_id: string | null };
  readonly receiver_balance_at_bank: string;
  readonly answers_lost: number;
}

const payee = { bank_code: '004', account_number: '110-123-0456', holder_name: 'Kim Minji' };
const bankOf = (one: Up): string | undefined => /bank: (\S+)/.exec(one.said())?.[1];

/** Pays through the bank and waits until its story has ended. */
async function transfer(one: Up, external: string, amount: string): Promise<Arrived> {
  const made = await ask(one, '/v1/transfers', { asset: 'KRW', amount, external_id: external, ...payee });
  assert.equal(made.status < 300, true, JSON.stringify(made.body));
  return (await ask(one, `/dev/transfers/${external}`)).body as Arrived;
}

test('a transfer whose answer the bank loses is paid once, by the bank’s own books, and the books agree (case L16)', async () => {
  const data = durableDataFolder();
  const first = await startUp(data.folder);
  assert.match(first.said(), /bank: http:\/\/127\.0\.0\.1:\d+/);
  assert.equal(first.said().match(/^curl /gm)?.length, 9);
  const beside = { PAYONCE_DATA: data.folder };
  const listed = (await payonce(['wallet', 'list', '--on-chain', '--json'], beside)).json<{
    wallets: { chain: string; kind: string; address: string; on_chain: { amount: string | null }[] }[];
  }>().wallets;
  const masters = listed.filter((one) => one.kind === 'MASTER');
  assert.deepEqual(masters.map((one) => one.chain.replace(/:.*/, '')).toSorted(), ['eip155', 'tron']);
  assert.ok(masters.every((one) => one.on_chain.length > 0 && one.on_chain.every(({ amount }) => amount !== null)));
  const onTron = masters.find((one) => one.chain.startsWith('tron:'))?.address ?? '';
  const compared = await payonce(['reconcile', 'chain', '--wallet', onTron], beside);
  assert.match(compared.stdout, /on tron:0x[0-9a-f]{8}, blocks/, compared.stderr);
  const lost = await transfer(first, 'salary', '50000');
  assert.deepEqual([lost.transfer.status, lost.receiver_balance_at_bank], ['confirmed', '50000']);
  assert.ok(lost.answers_lost >= 1, 'the first answer is lost');
  assert.equal((await ask(first, '/dev/transfers/none')).status, 404);
  const ready = (await ask(first, '/readyz')).body as { rails: { rail: string; status: string }[] };
  assert.deepEqual(
    ready.rails.filter((one) => one.rail.startsWith('bank:')),
    [{ rail: 'bank:demo', status: 'ok' }],
  );
  const verified = await payonce(['verify'], { PAYONCE_DATA: data.folder });
  assert.equal(verified.code, 0, verified.stdout + verified.stderr);

  await first.kill('SIGKILL');
  const again = await startUp(data.folder);
  const other = await ask(again, '/v1/transfers', { asset: 'KRW', amount: '1' });
  assert.equal(other.status >= 400, true, 'the first run’s transfer is still known under its key');
  assert.equal(bankOf(again), bankOf(first), 'what was under way goes on at the same address');
  const next = await ask(
    again,
    '/v1/transfers',
    { ...payee, asset: 'KRW', amount: '7', external_id: 'next' },
    again.key,
    'next',
  );
  assert.equal(next.status < 300, true, JSON.stringify(next.body));
  const { transfer: paid } = (await ask(again, '/dev/transfers/next')).body as Arrived;
  assert.equal(paid.status, 'confirmed');
  assert.notEqual(paid.bank_id, lost.transfer.bank_id, 'its ids never repeat');
  for (const command of ['alerts', 'case']) {
    const open = await payonce(command === 'case' ? ['case', 'list'] : ['alerts'], { PAYONCE_DATA: data.folder });
    assert.match(open.stdout, /No open (alert|case)\./, 'a first start opens nothing by itself');
  }
  await again.kill('SIGTERM');
  data.remove();
});

interface Bought {
  readonly order: {
    readonly status: string;
    readonly settled_amount: string;
    readonly legs: readonly { readonly kind: string; readonly state: string; readonly amount: string }[];
  };
  readonly balance: { readonly available: string };
  readonly trades_at_provider: readonly { readonly state: string; readonly released_amount: string }[];
  readonly answers_lost: number;
}

test('a buyer is filled by users of other partners and by a slow provider that loses its answer, once each, also over a SIGKILL (case L1, req M15)', async () => {
  const data = durableDataFolder();
  const first = await startUp(data.folder);
  const order = { asset: 'USDT', fiat: 'KRW', price: '1400', user_ref: 'ann' };
  const buy = async (one: Up, external: string): Promise<Bought> => {
    const body = { ...order, amount: '500', external_id: external };
    const made = await ask(one, '/v1/p2p/deposit-orders', body, one.key, external);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return (await ask(one, `/dev/p2p/${external}`)).body as Bought;
  };
  const bought = await buy(first, 'buy-1');
  assert.deepEqual([bought.order.status, bought.balance.available], ['completed', '498.75'], JSON.stringify(bought));
  const lp = bought.order.legs.filter((leg) => leg.kind === 'liquidity_provider');
  assert.deepEqual(
    bought.trades_at_provider.map((trade) => [trade.state, trade.released_amount]),
    lp.map((leg) => ['released', leg.amount]),
    'one trade in its own book',
  );
  assert.ok(lp.length === 1 && bought.order.legs.length > 1, JSON.stringify(bought.order.legs));
  assert.ok(bought.answers_lost >= 1, 'the first answer is lost');

  // Killed while a trade stands or is being opened.
  const body = { ...order, amount: '400', external_id: 'buy-2' };
  await ask(first, '/v1/p2p/deposit-orders', body, first.key, 'buy-2');
  await sleep(2_500);
  await first.kill('SIGKILL');
  const again = await startUp(data.folder);
  const resumed = (await ask(again, '/dev/p2p/buy-2')).body as Bought;
  assert.deepEqual([resumed.order.status, resumed.balance.available], ['completed', '897.75'], JSON.stringify(resumed));
  for (const words of [['verify'], ['doctor'], ['case', 'list']]) {
    const ran = await payonce(words, { PAYONCE_DATA: data.folder });
    assert.equal(ran.code, 0, ran.stdout + ran.stderr);
    if (words[0] === 'case') assert.match(ran.stdout, /No open case\./);
  }
  await again.kill('SIGTERM');
  data.remove();
});

test('what a customer paid in is swept by hand into the wallet, its gas brought first, as the README shows it (req R9, R16)', async () => {
  const data = durableDataFolder();
  const one = await startUp(data.folder);
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  for (const line of ['payonce operator create me --role admin', 'payonce collect run', 'payonce collect list'])
    assert.ok(readme.includes(`npx ${line} `), `the README shows: ${line}`);
  const folder = { PAYONCE_DATA: data.folder };
  const made = await payonce(['operator', 'create', 'me', '--role', 'admin', '--json'], folder);
  const me = { ...folder, PAYONCE_OPERATOR_KEY: made.json<{ key: string }>().key };
  assert.equal((await ask(one, '/dev/deposits', { amount: '250' })).status, 200);
  assert.equal((await ask(one, '/dev/deposits', { amount: '5', user_ref: 'dust' })).status, 200);
  const ran = await payonce(['collect', 'run', '--json'], me);
  assert.equal(ran.code, 0, ran.stderr);
  const listed = async (): Promise<string[]> => {
    const list = await payonce(['collect', 'list', '--json'], me);
    return list
      .json<{ collections: { status: string; amount: string }[] }>()
      .collections.map(({ status, amount }) => `${status} ${amount}`);
  };
  for (let tries = 0; tries < 30 && (await listed())[0] !== 'swept 250'; tries += 1) await sleep(500);
  assert.deepEqual(await listed(), ['swept 250'], 'and what is less than 20 stays');
  const verified = await payonce(['verify'], me);
  assert.equal(verified.code, 0, verified.stdout + verified.stderr);
  await one.kill('SIGTERM');
  data.remove();
});

test('a kept run goes on after a SIGKILL with its chain and its key, and is refused without its chain (case L16)', async () => {
  const data = durableDataFolder();
  const first = await startUp(data.folder);
  const paid = await ask(first, '/dev/deposits', { amount: '250' });
  assert.equal(paid.status, 200, JSON.stringify(paid.body));
  for (const [body, pointer] of [
    [{ amount: '1', ammount: '2' }, 'ammount'],
    [{ amount: '1', address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8' }, '/address'],
    [{ amount: '1', asset: 'DOGE' }, '/asset'],
  ] as const) {
    const refused = await ask(first, '/dev/deposits', body);
    assert.equal(refused.status >= 400 && refused.status < 500, true, JSON.stringify(refused.body));
    assert.ok(JSON.stringify(refused.body).includes(pointer), JSON.stringify(refused.body));
  }
  assert.equal((await ask(first, '/dev/deposits', { amount: '1' }, 'pk_test_wrong')).status, 401);
  const coin = await ask(first, '/dev/deposits', { amount: '0.25', asset: 'ETH', user_ref: 'ann' });
  assert.deepEqual([coin.status, (coin.body as { balance: object }).balance], [200, { available: '0.25', held: '0' }]);

  const usdt = await ask(first, '/dev/deposits', { amount: '9', asset: 'USDT-TRC20', user_ref: 'ann' });
  assert.deepEqual(
    [usdt.status, (usdt.body as { balance: { available: string } }).balance.available],
    [200, '1008.991'],
    JSON.stringify(usdt.body),
  );

  const second = await payonce(['up'], { PAYONCE_DATA: data.folder, PAYONCE_PORT: '0', PAYONCE_LOG: 'silent' });
  assert.equal(second.code, 1);
  assert.match(second.stderr, /is in use by the server/);

  await first.kill('SIGKILL');
  const again = await startUp(data.folder);
  assert.match(again.said(), /Resumed the run/);
  assert.match(again.said(), /chain: http:\/\/127\.0\.0\.1:\d+/);
  assert.equal(again.key, first.key, 'no second key is made');
  assert.equal(statSync(join(data.folder, 'partner-key')).mode & 0o777, 0o600);
  const payout = {
    asset: 'USDT',
    amount: '100',
    destination: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    external_id: 'out',
  };
  assert.equal((await ask(again, '/v1/withdrawals', payout)).status < 300, true);
  const done = (await ask(again, '/dev/withdrawals/out')).body as Record<string, unknown>;
  assert.equal(done['receiver_balance_on_chain'], '100');
  assert.equal(typeof done['answers_lost'], 'number');
  await again.kill('SIGHUP');

  const chain = join(data.folder, 'chain.gz');
  renameSync(chain, `${chain}.away`);
  const settings = { PAYONCE_DATA: data.folder, PAYONCE_PORT: '0', PAYONCE_LOG: 'silent' };
  const bare = await payonce(['up'], settings);
  assert.equal(bare.code, 2, bare.stdout);
  assert.match(bare.stderr, /a ledger with money and no chain.*remove the folder/s);

  const other = durableDataFolder();
  await (await startUp(other.folder)).kill('SIGTERM');
  renameSync(join(other.folder, 'chain.gz'), chain);
  const behind = await payonce(['up'], settings);
  assert.equal(behind.code, 2, behind.stdout);
  assert.match(behind.stderr, /ahead of its saved chain.*remove the folder/s);
  assert.ok(readFileSync(chain).length > 0);
  rmSync(`${chain}.away`);
  other.remove();
  data.remove();
});
