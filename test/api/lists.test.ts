/*
 * Goal: every list can be read to its end in pages, each row once, while rows are added; a cursor that is not of this list
 * and this partner is refused. Method: lists are filled, read with a page size of one and of several, and compared.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ApiWorld, makeApiWorld } from './api-world.ts';

const PAYMENTS = 7;

let api: ApiWorld;
before(async () => {
  api = await makeApiWorld({ label: 'lists' });
  await Promise.all(Array.from({ length: PAYMENTS }, (_, n) => api.pay({ external_id: `e${n}` })));
  for (let n = 0; n < 3; n += 1) {
    await api.ask('POST', '/v1/addresses', { body: { chain: 'noop', user_ref: `u${n}` } });
    await api.ask('POST', '/v1/endpoints', { body: { url: `https://${n}.partner.example/` } });
    await api.world.fund(5n);
  }
});
after(() => api.end());

interface Item {
  id?: string;
  seq?: string;
  requested_at?: string;
  asset_id?: string;
}

async function readAll(path: string, limit: number): Promise<{ items: Item[]; pages: number; cursors: string[] }> {
  const items: Item[] = [];
  const cursors: string[] = [];
  const join = path.includes('?') ? '&' : '?';
  for (let pages = 1; ; pages += 1) {
    const cursor = cursors.at(-1);
    const { status, body, text } = await api.ask(
      'GET',
      `${path}${join}limit=${limit}${cursor === undefined ? '' : `&cursor=${cursor}`}`,
    );
    assert.equal(status, 200, text);
    items.push(...(body.items as Item[]));
    if (body.next === null) return { items, pages, cursors };
    assert.equal(body.items.length, limit);
    cursors.push(String(body.next));
    assert.ok(pages < 100);
  }
}

const LISTS: Record<string, number> = {
  '/v1/withdrawals': PAYMENTS,
  '/v1/addresses': 3,
  '/v1/endpoints': 3,
  '/v1/entries?asset=USDT': 4,
  '/v1/events': PAYMENTS,
  '/v1/assets': 2,
  '/v1/balances': 1,
  '/v1/deposits': 0,
  '/v1/cases': 0,
};

test('every list gives each of its rows once, whatever the size of a page', async () => {
  for (const [path, count] of Object.entries(LISTS)) {
    const whole = await readAll(path, 200);
    assert.equal(whole.items.length, count, path);
    for (const limit of [1, 2, 3]) {
      const paged = await readAll(path, limit);
      assert.deepEqual(paged.items, whole.items, `${path} by ${limit}`);
      assert.equal(paged.pages, Math.max(1, Math.ceil(count / limit)), `${path} by ${limit}`);
    }
  }
});

test('lists begin with the newest, also among payments of one millisecond', async () => {
  const { rows } = await api.world.pool.query<{ id: string }>(
    'select id from payonce.withdrawals order by requested_at desc, id desc',
  );
  const { items } = await readAll('/v1/withdrawals', 1);
  assert.deepEqual(
    items.map((item) => item.id),
    rows.map((row) => row.id),
  );
  const seqs = (await readAll('/v1/entries?asset=USDT', 1)).items.map((item) => item.seq);
  assert.deepEqual(seqs, ['4', '3', '2', '1']);
});

test('rows that come while pages are read neither repeat nor push out a row', async () => {
  const first = await api.ask('GET', '/v1/withdrawals?limit=3');
  await api.pay();
  const second = await api.ask('GET', `/v1/withdrawals?limit=200&cursor=${String(first.body.next)}`);
  const ids = [...first.body.items, ...second.body.items].map((item: Item) => item.id);
  assert.equal(new Set(ids).size, PAYMENTS);
  assert.equal(ids.length, PAYMENTS);
});

test('a cursor that is garbled, of another list, of another asset or of another partner is refused', async () => {
  const cursorOf = async (path: string): Promise<string> => (await readAll(path, 1)).cursors[0] ?? '';
  const withdrawals = await cursorOf('/v1/withdrawals');
  const entries = await cursorOf('/v1/entries?asset=USDT');
  const addresses = await cursorOf('/v1/addresses');
  const place = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const opened = JSON.parse(Buffer.from(withdrawals, 'base64url').toString()) as string[];
  const wrong: [string, string][] = [
    ['/v1/withdrawals', 'abc'],
    ['/v1/withdrawals', withdrawals.slice(0, -3)],
    ['/v1/withdrawals', `${withdrawals}AA`],
    ['/v1/withdrawals', addresses],
    ['/v1/withdrawals', place([])],
    ['/v1/withdrawals', place({})],
    ['/v1/withdrawals', place(null)],
    ['/v1/withdrawals', place([...opened.slice(0, 2), 'yesterday', opened[3]])],
    ['/v1/withdrawals', place([...opened.slice(0, 3), "x' or true"])],
    ['/v1/withdrawals', place([...opened, 'more'])],
    ['/v1/events', place(['events', opened[1], '99999999999999999999'])],
    ['/v1/addresses', withdrawals],
    ['/v1/deposits', addresses],
    [`/v1/entries?asset=${encodeURIComponent(api.world.coinAssetId)}`, entries],
  ];
  for (const [path, cursor] of wrong) {
    const answer = await api.ask('GET', `${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`);
    assert.deepEqual([answer.status, answer.body.pointer], [400, '/query/cursor'], `${path} ${cursor}: ${answer.text}`);
  }
  const foreign = await api.ask('GET', `/v1/withdrawals?cursor=${withdrawals}`, { key: api.otherKey });
  assert.deepEqual([foreign.status, foreign.body.pointer], [400, '/query/cursor']);
});

test('lists are narrowed by status, subject and user', async () => {
  const { items } = await readAll('/v1/withdrawals', 200);
  const id = items[0]?.id ?? '';
  await api.ask('POST', `/v1/withdrawals/${id}/cancel`);
  assert.deepEqual(
    (await readAll('/v1/withdrawals?status=cancelled', 1)).items.map((item) => item.id),
    [id],
  );
  assert.equal((await readAll('/v1/withdrawals?status=pending', 2)).items.length, items.length - 1);
  assert.deepEqual(
    (await api.ask('GET', '/v1/withdrawals?external_id=e3')).body.items.map(
      (item: { external_id: string }) => item.external_id,
    ),
    ['e3'],
  );
  assert.deepEqual((await api.ask('GET', '/v1/withdrawals?external_id=e3', { key: api.otherKey })).body.items, []);
  assert.equal((await readAll('/v1/withdrawals?external_id=none', 1)).items.length, 0);
  assert.equal((await readAll(`/v1/events?subject=${id}`, 1)).items.length, 2);
  assert.equal((await readAll('/v1/events?type=withdrawal.cancelled', 1)).items.length, 1);
  assert.equal((await readAll('/v1/addresses?user_ref=u1', 1)).items.length, 1);
  assert.equal((await readAll('/v1/addresses?user_ref=nobody', 1)).items.length, 0);
});
