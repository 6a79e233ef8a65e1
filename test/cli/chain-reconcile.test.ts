/*
 * Goal: wallets are compared with their chain at the command line, with exit codes and forms that a script can use, and what was
 * found is booked by two persons there. Method: the real program against a real chain on which somebody acted by hand.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { assertBooksClean } from '../support/books.ts';
import { CHAIN, RAIL } from '../support/deposit-scene.ts';
import { type ChainScene, E18, startChainScene } from '../audit/chain-scene.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

let folder = '';
let one: ChainScene;
let run: ReturnType<typeof payonceOn>;
let admin = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'payonce-chain-'));
  one = await startChainScene('cli_chain');
  const config = join(folder, 'payonce.json');
  await writeFile(
    config,
    JSON.stringify({
      chains: [
        {
          chainId: '31337',
          nodes: one.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
          finality: { tag: 'finalized' },
          feeCapWei: '1000000000000',
          gasLimitCap: '1000000',
          assets: [{ code: 'ETH', decimals: 18, contract: null }],
        },
      ],
    }),
  );
  run = payonceOn(one.pool.url, {
    PAYONCE_CONFIG: config,
    PAYONCE_DEPLOYMENT: 'test',
    PAYONCE_MASTER_SECRET: 'x'.repeat(40),
  });
  await one.order({ amount: 5n * E18 });
  await one.drain();
});
after(async () => {
  await one.end();
  await rm(folder, { recursive: true, force: true });
});

test('a clean range ends with 0; a double by hand with 1, as table, JSON and CSV; two persons book it (req R11, R18)', async () => {
  await one.scan();
  const range = ['--from', one.firstBlock.toString()];
  const wallets = ['--wallet', one.masterAddress, '--wallet', one.settlement];
  const clean = await run(['reconcile', 'chain', ...wallets, ...range]);
  assert.equal(clean.code, 0, clean.stdout + clean.stderr);
  assert.match(
    clean.stdout,
    new RegExp(
      `^${one.masterAddress} \\(MASTER of par_a\\) on ${CHAIN}, blocks ${one.firstBlock} to \\d+: 1 out, 0 in; 1 by effects`,
    ),
  );
  assert.match(clean.stdout, /Nothing differs\./);

  const hash = await one.byHand(one.master, one.settlement, 5n * E18);
  await one.scan();
  const found = await run(['reconcile', 'chain', ...wallets, ...range]);
  assert.equal(found.code, 1, found.stderr);
  assert.match(found.stdout, new RegExp(`double +out +par_a +5 USDT-BSC +\\d+ +${hash} +\\d+ SETTLED`));
  assert.match(found.stdout, /By partner\nPARTNER.*\npar_a +double +out +1 +5 USDT-BSC/);
  const json = (await run(['reconcile', 'chain', ...wallets, ...range, '--json'])).json<{
    ok: boolean;
    reports: { findings: { id: string; kind: string; amount: string; tx_hash: string; block: string }[] }[];
  }>();
  const [double, gas] = json.reports[0]?.findings ?? [];
  assert.deepEqual([json.ok, double?.kind, double?.amount, double?.tx_hash], [false, 'double', '5', hash]);
  const csv = await run(['reconcile', 'chain', ...wallets, ...range, '--csv']);
  assert.equal(csv.code, 1);
  const [head, first] = csv.stdout.split('\r\n');
  assert.equal(
    head,
    'chain,wallet,finding_id,kind,direction,partner_id,asset,amount,block,tx_hash,position,counterparty,effect_id,subject,repaired_by,detail',
  );
  assert.match(
    first ?? '',
    new RegExp(
      `^${CHAIN},${one.masterAddress},\\d+,double,out,par_a,USDT-BSC,5,\\d+,${hash},0,${one.settlement},\\d+,withdrawal wd_`,
    ),
  );
  assert.match((await run(['alerts'])).stdout, /chain_reconcile/);

  admin = await firstAdmin(run);
  const approver = await addOperator(run, admin, 'Bea', 'approver');
  const list = (await run(['repair', 'list', '--json'])).json<{ findings: { id: string; kind: string }[] }>();
  assert.deepEqual([...new Set(list.findings.map((finding) => finding.kind))].sort(), ['double', 'gas_unbooked']);
  assert.equal(
    (await run(['repair', 'propose', double?.id ?? '', '--as', 'own', '--reason', 'x'])).code,
    2,
    'nobody said who it is',
  );
  assert.equal((await run(['repair', 'propose', double?.id ?? '', '--as', 'nothing', '--reason', 'x'], admin)).code, 2);
  // What cannot be booked so is refused before anything is opened.
  const cases = async (): Promise<number> =>
    (await run(['case', 'list', '--all', '--json'])).json<{ cases: object[] }>().cases.length;
  const before = await cases();
  const refused = await run(['repair', 'propose', double?.id ?? '', '--as', 'partner', '--reason', 'x'], admin);
  assert.equal(refused.code, 4, refused.stderr);
  assert.equal(await cases(), before);
  assert.equal((await run(['repair', 'propose', '999', '--as', 'own', '--reason', 'x'], admin)).code, 3);
  for (const [finding, as] of [
    [double?.id ?? '', 'own'],
    [gas?.id ?? '', 'gas'],
  ] as const) {
    const proposed = await run(
      ['repair', 'propose', finding, '--as', as, '--reason', 'a click by hand', '--json'],
      admin,
    );
    assert.equal(proposed.code, 0, proposed.stderr);
    const { proposal_id: proposal } = proposed.json<{ proposal_id: string }>();
    assert.equal((await run(['repair', 'approve', proposal], admin)).code === 0, false, 'not by the one who proposed');
    const done = await run(['repair', 'approve', proposal], approver);
    assert.equal(done.code, 0, done.stdout + done.stderr);
    assert.match(done.stdout, new RegExp(`^Done: finding ${finding} is booked as ${as}`));
  }
  const after_ = await run(['reconcile', 'chain', ...wallets, ...range]);
  assert.equal(after_.code, 0, after_.stdout + after_.stderr);
  assert.match(after_.stdout, /Booked by two persons\n.*\n.*repaired by Ada and Bea, as own/);
  assert.doesNotMatch((await run(['alerts'])).stdout, /chain_reconcile/);
  assert.match((await run(['repair', 'list'])).stdout, /Nothing is open\./);
  assert.match((await run(['audit', 'list'])).stdout, /Bea +case\.approved\.repair/);
  await assertBooksClean(one.pool, { without: ['E9'] });
});

test('a wallet with an unexplained outflow is released by nobody, the doctor says "not safe", and payments say why they wait (req R11, R18)', async () => {
  await one.byHand(one.master, one.stranger, 3n * E18);
  await one.scan();
  const payment = await one.order({ amount: 1n * E18 });
  await one.pool.query("update payonce.effects set next_at = payonce.now() - interval '1 hour' where ended_at is null");
  const [quarantine, movement] = await Promise.all(
    ['signer_quarantined', 'unknown_movement'].map(async (kind) => {
      const open = 'select id from payonce.cases where kind = $1 and closed_at is null';
      return (await one.pool.query<{ id: string }>(open, [kind])).rows[0]?.id ?? assert.fail(kind);
    }),
  );
  const doctor = await run(['doctor']);
  assert.equal(doctor.code, 1);
  assert.match(
    doctor.stdout,
    new RegExp(`unsafe +quarantine +${one.masterAddress} on ${RAIL} \\(${quarantine}\\) seals nothing`),
  );
  assert.match(doctor.stdout, new RegExp(`unsafe +unknown outflows +${movement}: ${CHAIN}:0x`));
  assert.doesNotMatch(doctor.stdout, /Start a worker/);
  const effects = (await run(['effect', 'list', '--open', '--json'])).json<{
    effects: { subject_id: string; wait_reason: string }[];
  }>();
  const waiting = effects.effects.find((effect) => effect.subject_id === payment);
  assert.match(
    waiting?.wait_reason ?? '',
    new RegExp(`^WALLET_QUARANTINED: ${one.masterAddress} .*case show ${quarantine}$`),
  );

  const approver = await addOperator(run, admin, 'Eve', 'approver');
  const release = ['wallet', 'release', RAIL, one.masterAddress];
  assert.equal((await run(release, approver)).code, 2, 'no reason was given');
  const refused = await run([...release, '--reason', 'it was me', '--json'], approver);
  assert.equal(refused.code, 4);
  assert.match(refused.problem().detail, new RegExp(`${movement} is open`));
});

test('a wallet that is not ours, a block that is no number and a chain that is not configured are refused by their exit codes', async () => {
  assert.equal((await run(['reconcile', 'chain', '--wallet', one.stranger])).code, 3);
  assert.equal((await run(['reconcile', 'chain', '--wallet', one.masterAddress, '--from', 'yesterday'])).code, 2);
  assert.equal((await run(['reconcile', 'chain', '--wallet', one.masterAddress, '--chain', 'eip155:1'])).code, 3);
  assert.equal((await run(['reconcile', 'chain'])).code, 2);
});

test('a movement that the scan left out is booked by reading its block again, once, by an operator (req R11, W11)', async () => {
  const late = `0x${'1a7e'.repeat(10)}`;
  const hash = await one.byHand(one.payer, late, 4n * E18);
  await one.scan();
  await one.own('DEPOSIT', 'par_b', late);
  const found = await run(['reconcile', 'chain', '--wallet', late, '--from', one.firstBlock.toString(), '--json']);
  assert.equal(found.code, 1, found.stderr);
  const [finding] =
    found.json<{ reports: { findings: { kind: string; detail: string; tx_hash: string }[] }[] }>().reports[0]
      ?.findings ?? [];
  assert.deepEqual([finding?.kind, finding?.tx_hash], ['unrecorded', hash]);
  const advice = /payonce (deposits rescan --chain \S+ --from (\d+) --to \d+)$/.exec(finding?.detail ?? '');
  const [, words = '', block = ''] = advice ?? [];
  const rescan = [...words.split(' '), '--json'];
  assert.equal((await run(rescan)).code, 2, 'nobody said who it is');
  const operator = await addOperator(run, admin, 'Cid', 'operator');
  const first = await run(rescan, operator);
  assert.equal(first.code, 0, first.stderr);
  assert.deepEqual(pick(first.json()), { outcome: 'scanned', transfers: 1, credited: 1 });
  assert.deepEqual(pick((await run(rescan, operator)).json()), { outcome: 'scanned', transfers: 0, credited: 0 });
  const ahead = await run(['deposits', 'rescan', '--from', '999999', '--to', '999999', '--json'], operator);
  assert.deepEqual([ahead.code, pick(ahead.json()).outcome], [4, 'idle']);
  assert.equal((await run(['deposits', 'rescan', '--from', block, '--to', '0'], operator)).code, 2);
  const clean = await run(['reconcile', 'chain', '--wallet', late, '--from', one.firstBlock.toString()]);
  assert.equal(clean.code, 0, clean.stdout + clean.stderr);
  const acts = await one.rows("select 1 from payonce.audit_log where action = 'deposits.rescanned'");
  assert.equal(acts.length, 3);
});

interface Rescanned {
  readonly outcome: string;
  readonly transfers: number;
  readonly credited: number;
}
function pick({ outcome, transfers, credited }: Rescanned): Rescanned {
  return { outcome, transfers, credited };
}
