/*
 * Goal: creators' payouts over HTTP: programmes, addresses, events of volume and statements, with what is wrong told in words.
 * Method: one server over a real database, by inject; every answer is held to the document.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ACCRUALS_MAX } from '../../src/flows/payouts/index.ts';
import { type ApiWorld, makeApiWorld, SOMEBODY } from './api-world.ts';

let api: ApiWorld;
before(async () => {
  api = await makeApiWorld({ label: 'payouts api' });
  const made = await api.ask('PUT', '/v1/programmes/main', { body: TERMS });
  assert.equal(made.status, 201, made.text);
});
after(() => api.end());

const TERMS = { asset: 'USDT', rate: '0.1', threshold: '100', cut_min: '1', time_zone: 'Asia/Seoul' };
const item = (id: string, volume: string, creator = 'ann') => ({ source_id: id, programme: 'main', creator, volume });
const accrue = (items: readonly unknown[]) => api.ask('POST', '/v1/accruals', { body: { items } });

test('a programme is made once and changed by the same request; what is wrong in its terms is all told at once (req P6)', async () => {
  const again = await api.ask('PUT', '/v1/programmes/main', { body: TERMS });
  assert.deepEqual([again.status, again.body.terms_version], [200, 1]);
  const changed = await api.ask('PUT', '/v1/programmes/main', { body: { ...TERMS, rate: '0.2' } });
  assert.deepEqual([changed.body.terms_version, changed.body.tiers], [2, [{ from: '0', rate: '0.2' }]]);
  await api.ask('PUT', '/v1/programmes/main', { body: TERMS });
  const wrong = await api.ask('PUT', '/v1/programmes/other', {
    body: {
      asset: 'USDT',
      threshold: '0',
      time_zone: 'Moon/Crater',
      pays_by: 'call',
      tiers: [{ from: '1', rate: '1' }],
      rate: '2',
    },
  });
  assert.equal(wrong.status, 400);
  assert.deepEqual(
    wrong.body.faults.map((one: { pointer: string }) => one.pointer),
    ['/rate', '/tiers/0/from', '/time_zone', '/call', '/threshold'],
  );
  const many = await api.ask('PUT', '/v1/programmes/many', {
    body: { ...TERMS, pays_by: 'multi_send', call: { to: SOMEBODY } },
  });
  assert.deepEqual([many.status, many.body.call?.to, many.body.pays_by], [201, SOMEBODY, 'multi_send'], many.text);
  const bare = await api.ask('PUT', '/v1/programmes/bare', {
    body: { ...TERMS, pays_by: 'call', call: { to: SOMEBODY } },
  });
  assert.deepEqual([bare.status, bare.body.pointer], [400, '/call/data']);
  const frozen = await api.ask('PUT', '/v1/programmes/main', { body: { ...TERMS, volume_decimals: 0 } });
  assert.deepEqual([frozen.status, frozen.body.pointer], [400, '/volume_decimals']);
});

test('events are accrued, repeated and refused item by item; the payout is there at once and in the statement (req P6, P7)', async () => {
  const address = await api.ask('PUT', '/v1/creators/ann', {
    body: { asset: 'USDT', address: SOMEBODY.toUpperCase().replace('0X', '0x') },
  });
  assert.deepEqual([address.status, address.body.address, address.body.changed], [200, SOMEBODY, true]);
  const items = [item('e1', '60'), item('e2', '60'), item('e3', '-1'), item('e4', '5', 'ben')];
  const first = await accrue(items);
  assert.deepEqual([first.status, first.body.accrued, first.body.refused.length], [200, 3, 1]);
  assert.deepEqual(
    [first.body.refused[0].item, first.body.refused[0].source_id, first.body.refused[0].field],
    [2, 'e3', 'volume'],
  );
  const again = await accrue(items);
  assert.deepEqual(again.body, first.body);
  assert.equal(again.headers['idempotent-replayed'], 'true');
  const { body: list } = await api.ask('GET', '/v1/payouts?creator=ann&programme=main&status=pending');
  assert.deepEqual([list.items.length, list.items[0].amount, list.items[0].volume], [1, '12', '120']);
  const one = await api.ask('GET', `/v1/payouts/${String(list.items[0].id)}`);
  assert.deepEqual([one.body.status, one.body.history.length, one.body.destination], ['pending', 1, SOMEBODY]);
  const statement = await api.ask('GET', '/v1/payout-statement?programme=main&creator=ann');
  const { accrued, paid, in_flight, carried } = statement.body.items[0];
  assert.deepEqual([accrued, paid, in_flight, carried], ['12', '0', '12', '0']);
  const csv = await api.ask('GET', '/v1/payout-statement?format=csv&programme=main');
  assert.match(csv.text, /^programme,creator,asset,address,volume,[^\r]*\r\nmain,ann,USDT,0x/);
  assert.equal(csv.text.trimEnd().split('\r\n').length, 3);
  const cancelled = await api.ask('POST', `/v1/payouts/${String(list.items[0].id)}/cancel`);
  assert.equal(cancelled.body.status, 'cancelled');
  assert.equal((await api.ask('GET', '/v1/payout-statement?waiting=true')).body.items[0].waits_for, 'CANCELLED');
});

test('pages of the statement follow each other, and nothing is another partner’s (req P7)', async () => {
  await accrue(Array.from({ length: 7 }, (_, n) => item(`page-${n}`, '1', `page-${n}`)));
  const seen: string[] = [];
  let path = '/v1/payout-statement?limit=3';
  for (;;) {
    const { body } = await api.ask('GET', path);
    seen.push(...body.items.map((one: { creator: string }) => one.creator));
    if (body.next === null) break;
    path = `/v1/payout-statement?limit=3&cursor=${String(body.next)}`;
  }
  assert.equal(new Set(seen).size, seen.length);
  assert.equal(seen.filter((name) => name.startsWith('page-')).length, 7);
  assert.deepEqual((await api.ask('GET', '/v1/payout-statement', { key: api.otherKey })).body.items, []);
});

test('10,000 events are taken and 10,001 are refused whole; so are nothing, an address of ours and a wrong address (req P6)', async () => {
  const many = Array.from({ length: ACCRUALS_MAX + 1 }, (_, n) => item(`many-${n}`, '0.01', 'many'));
  const rows = await api.countRows();
  const tooMany = await accrue(many);
  assert.deepEqual([tooMany.status, tooMany.body.code, tooMany.body.pointer], [400, 'PO_REQUEST_INVALID', '/items']);
  assert.match(tooMany.body.expected, /10000/);
  assert.equal((await accrue([])).status, 400);
  assert.deepEqual(await api.countRows(), rows);
  assert.equal((await accrue(many.slice(1))).body.accrued, ACCRUALS_MAX);
  const ours = await api.ask('PUT', '/v1/creators/ben', { body: { asset: 'USDT', address: '0x123' } });
  assert.deepEqual([ours.status, ours.body.code, ours.body.pointer], [400, 'PO_ADDRESS_INVALID', '/address']);
});
