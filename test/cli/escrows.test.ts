/*
 * Goal: the doctor tells of a provider of trades what its profile promises, whether it answers, knows our credential, speaks the
 * contract and keeps our time; and of P2P what waits for something that nobody does. Method: the real probes against the simulated
 * provider and against servers that are wrong in one thing each; the program once.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { startEscrow } from '../../sim/escrow/escrow.ts';
import type { Finding } from '../../src/audit/finding.ts';
import { findP2p } from '../../src/audit/p2p-probes.ts';
import { openCase } from '../../src/engine/cases.ts';
import { countPayment } from '../../src/flows/p2p/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import type { EscrowConfig } from '../../src/main/config-p2p.ts';
import { askEscrow, examineEscrow } from '../../src/main/doctor-escrows.ts';
import { makeEscrows, type WiredEscrow } from '../../src/main/wire-escrows.ts';
import { makeP2pScene, ONE } from '../support/p2p-scene.ts';
import { testDatabase } from '../support/postgres.ts';
import { payonceOn } from './cli-scene.ts';

const by = { deployment: 'test', ports: systemPorts(), log: silentLog };
const opened: WiredEscrow[] = [];
after(async () => {
  for (const { rail } of opened) await rail.close();
});

function wired(change: Partial<EscrowConfig> & { readonly secret?: string }): WiredEscrow {
  const { secret = 'wrong', ...rest } = change;
  const config: EscrowConfig = {
    name: 'lp',
    profile: 'standard',
    baseUrl: 'http://127.0.0.1:9',
    account: 'main',
    credential: { id: 'key-1', secret: () => secret },
    ...rest,
  };
  const [one] = makeEscrows([config], by.deployment, by.ports, by.log);
  assert.ok(one !== undefined);
  opened.push(one);
  return one;
}

test('the doctor asks a provider one look-up with our credential, and says what is wrong with the answer', async () => {
  const lp = await startEscrow();
  const good = await askEscrow(wired({ baseUrl: lp.url, secret: lp.secret }), by);
  assert.deepEqual([good.ok, good.found], [true, 'it answers a look-up; its clock and this machine’s agree']);
  const unknown = await askEscrow(wired({ baseUrl: lp.url }), by);
  assert.deepEqual([unknown.ok, unknown.found.split(';')[0]], [false, 'it answers 401 to our credential']);
  assert.match(unknown.hint, /Renew its credential/);
  assert.deepEqual([lp.book.count(), lp.calls.create], [0, 0], 'nothing is opened');
  await lp.stop();
  const gone = await askEscrow(wired({ baseUrl: lp.url, secret: lp.secret }), by);
  assert.match(gone.found, /is not reached: .*ECONNREFUSED/);

  let answer = { body: '{"hello":"world"}', aheadMs: 0 };
  const other = createServer((_request, response) => {
    response.setHeader('date', new Date(Date.now() + answer.aheadMs).toUTCString());
    response.end(answer.body);
  }).listen(0, '127.0.0.1');
  await once(other, 'listening');
  const at = { baseUrl: `http://127.0.0.1:${(other.address() as AddressInfo).port}`, secret: 'x' };
  const stranger = await askEscrow(wired(at), by);
  assert.deepEqual([stranger.ok, /no list of trades/.test(stranger.found)], [false, true], stranger.found);
  for (const [aheadMs, word] of [
    [600_000, 'ahead of'],
    [-600_000, 'behind'],
  ] as const) {
    answer = { body: '{"trades":[]}', aheadMs };
    const apart = await askEscrow(wired(at), by);
    assert.match(apart.found, new RegExp(`its clock is (599|600|601|602) seconds ${word} this machine’s`));
    assert.deepEqual([apart.ok, /NTP/.test(apart.hint)], [false, true]);
  }
  other.close();
  other.closeAllConnections();
});

test('what a provider’s profile promises is told in words, and one that may not be trusted with money is refused', () => {
  const well = examineEscrow(wired({ secret: 'x' }), false);
  assert.equal(well.level, 'ok');
  assert.match(
    well.found,
    /^standard at .* trades from main as key-1; it keeps keys for 2 days.*money is freed by refusals.*and by a trade that stands as cancelled, expired there/,
  );
  const bare = examineEscrow(wired({ secret: '' }), true);
  assert.equal(bare.level, 'refuse');
  assert.match(bare.found, /its secret is empty; its base URL is not https; its base URL is this machine/);
});

test('orders that no matcher claims, claims that were left, surpluses and payments that nobody placed are found (req M7, M22, case I1)', async () => {
  const scene = await makeP2pScene({ label: 'doctor p2p', routes: [] });
  const { pool, engine, assetId } = scene.world;
  const found = async (): Promise<Record<string, string>> =>
    Object.fromEntries((await findP2p(pool)).map((one: Finding) => [one.name, `${one.level} ${one.found}`]));
  await scene.buy();
  assert.deepEqual(
    Object.values(await found()).map((one) => one.split(' ')[0]),
    ['ok', 'ok', 'ok'],
    'just come',
  );
  await scene.later(10 * 60_000);
  assert.match((await found())['matchers'] ?? '', /^warn 1 orders are due for 10 minutes and no matcher has claimed/);
  await scene.settleDown();
  assert.match((await found())['matchers'] ?? '', /^ok/, 'it waits for liquidity, and is not due');
  await pool.query(
    "update payonce.p2p_deposit_orders set status = 'MATCHING', claimed_at = payonce.now() - interval '7 minutes'",
  );
  assert.match((await found())['matchers'] ?? '', /^warn 1 claims were left by matchers that died/);
  await pool.tx('payment', (tx) =>
    countPayment(tx, engine, {
      source: 'payments-kb',
      externalId: 'a',
      reference: 'rent',
      fiat: 'KRW',
      fiatAmount: 7n,
    }),
  );
  assert.match(
    (await found())['payments'] ?? '',
    /^warn 1 payments are placed nowhere, the oldest for \d+ seconds \(case_/,
  );
  await openCase(pool, engine.makeId, {
    kind: 'trade_surplus',
    severity: 3,
    subjectKey: 'leg:x',
    assetId,
    amount: 5n * ONE,
    summary: 'a surplus',
  });
  assert.match(
    (await found())['trade surplus'] ?? '',
    /^warn 1 open, the oldest for \d+ seconds \(case_\w+: 5 USDT\)$/,
  );
  await scene.world.end();
});

test('the program tells of each configured provider', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-escrows-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const lp = await startEscrow();
  const file = join(folder, 'file.json');
  const credential = { id: 'key-1', secretFrom: 'PAYONCE_ESCROW_LP' };
  const escrow = { name: 'lp', profile: 'standard', baseUrl: lp.url, account: 'main', credential };
  writeFileSync(file, JSON.stringify({ chains: [], escrows: [escrow] }));
  const database = await testDatabase('escrows doctor');
  const settings = { PAYONCE_ESCROW_LP: lp.secret, PAYONCE_CONFIG: file };
  const ran = await payonceOn(database.url, settings)(['doctor', '--json']);
  const levels = ran
    .json<{ findings: Finding[] }>()
    .findings.flatMap((one) => (one.name.endsWith('lp') ? [`${one.name} ${one.level}`] : []));
  assert.deepEqual(levels, ['escrow lp ok', 'rail escrow:lp ok']);
  await lp.stop();
  await database.drop();
});
