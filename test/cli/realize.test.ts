/*
 * Goal: at the command line a night is shown, made and corrected, and its verdict says what it is; wallets of the
 * configuration are registered at the start, and a start that contradicts the record is refused. Method: the real program on
 * a database whose clock the test sets; the chain's node is down, since none of this needs one.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { sendOnce } from '../../src/engine/advance.ts';
import { makePool } from '../../src/db/pool.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { testDatabase } from '../support/postgres.ts';
import { makeRealizeWorld } from '../support/realize-world.ts';
import { addOperator, firstAdmin, payonceOn, startPayonce } from './cli-scene.ts';

const folder = mkdtempSync(join(tmpdir(), 'payonce-realize-'));
after(() => rmSync(folder, { recursive: true }));
const configured = (name: string, file: object): { PAYONCE_CONFIG: string } => {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(file));
  return { PAYONCE_CONFIG: path };
};

test('a night is shown and then made, and its verdict is no pass before something was put to the test (req R8, R17)', async () => {
  const world = await makeRealizeWorld({ start: '2026-03-10T12:00:00+09:00' });
  const zone = configured('zone.json', { chains: [], realizations: { timeZone: 'Asia/Seoul' } });
  const run = payonceOn(world.url, zone);
  const operator = await addOperator(run, await firstAdmin(run), 'Otto', 'operator');
  await world.fee('par_a', 2_500_000n);
  assert.equal((await run(['realize'])).code, 2, 'without an operator');
  assert.equal((await run(['realize', 'verdict'])).code, 3, 'there was no night yet');
  const early = await run(['realize', '--date', '2026-03-10', '--json'], operator);
  assert.match(early.problem().detail, /the night of 2026-03-10 has not come/);
  assert.equal((await run(['realize', '--date', '2026-02-30'], operator)).code, 2);
  await world.time.run(24 * 3_600_000);
  const shown = await run(['realize', '--dry-run'], operator);
  assert.match(shown.stdout, /2026-03-10 \(shown only: nothing was kept\)[^]*par_a +USDT +2\.5 /);
  const made = await run(['realize', '--json'], operator);
  assert.deepEqual(
    made.json<{ made: { partner: string; amount: string }[] }>().made.map((one) => [one.partner, one.amount]),
    [['par_a', '2.5']],
  );
  const rail = world.engine.rails.get('noop');
  assert.ok(rail);
  const pending = await run(['realize', 'verdict', '--json']);
  assert.deepEqual([pending.code, pending.json<{ verdict: string }>().verdict], [1, 'pending']);
  await sendOnce(world.engine, rail);
  await world.scan();
  const verdict = await run(['realize', 'verdict', '--date', '2026-03-10']);
  assert.equal(verdict.code, 1);
  assert.match(verdict.stdout, /inconclusive, which is no pass/);
  const nowhere = await payonceOn(world.url)(['realize', '--json'], operator);
  assert.match(nowhere.problem().detail, /realizations\.timeZone is needed/);
  await world.end();
});

test('wallets that the configuration names are registered at the start, and one on record as something else is refused (req R10)', async () => {
  const database = await testDatabase('wallets');
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  await pool.query("insert into payonce.partners (id, name) values ('par_a', 'A')");
  const address = `0x${'8'.repeat(40)}`;
  const wallet = { chain: 'eip155:7', address, kind: 'SETTLEMENT', partner: 'par_a' };
  const chain = {
    chainId: '7',
    nodes: [{ url: 'http://127.0.0.1:9', operator: 'nobody' }],
    finality: { tag: 'finalized' },
    feeCapWei: '1',
    gasLimitCap: '1',
    assets: [{ code: 'COIN', contract: null, decimals: 18 }],
  };
  const start = async (wallets: readonly object[]): Promise<string> => {
    const settings = configured('wallets.json', { chains: [chain], wallets, realizations: { timeZone: 'UTC' } });
    const child = startPayonce(['worker', '--only', 'courier'], { DATABASE_URL: database.url, ...settings });
    let told = '';
    const up = new Promise<string>((resolve) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (bytes: Buffer) => {
          told += bytes.toString();
          if (told.includes('payonce works')) resolve('started');
        });
      child.once('close', () => resolve(told));
    });
    const answer = await up;
    child.kill();
    return answer;
  };
  assert.equal(await start([wallet]), 'started');
  assert.equal(await start([wallet]), 'started', 'again');
  const { rows } = await pool.query('select chain, address, kind, partner_id from payonce.addresses');
  assert.deepEqual(rows, [{ chain: 'eip155:7', address, kind: 'SETTLEMENT', partner_id: 'par_a' }]);
  const refused: readonly (readonly [object, RegExp])[] = [
    [{ ...wallet, kind: 'GAS' }, /registered as SETTLEMENT of par_a, not as GAS of par_a/],
    [{ ...wallet, partner: 'par_z' }, /there is no partner par_z/],
    [{ ...wallet, chain: 'eip155:8' }, /wallets\[0\]\.chain: got "eip155:8", expected one of eip155:7/],
    [{ ...wallet, address: '0x12' }, /wallets\[0\]\.address/],
  ];
  for (const [one, why] of refused) {
    const told = await start([one, { ...wallet, address: `0x${'7'.repeat(40)}` }]);
    assert.notEqual(told, 'started', `it started on another kind of wallet: ${JSON.stringify(one)}`);
    assert.match(told, why);
  }
  const zone = configured('wrong-zone.json', { chains: [], realizations: { timeZone: 'Mars/Olympus' } });
  const ran = await payonceOn(database.url, zone)(['config', '--check']);
  assert.equal(ran.code, 2);
  assert.match(ran.stderr, /realizations\.timeZone: got "Mars\/Olympus", expected an IANA name/);
  await pool.end();
  await database.drop();
});
