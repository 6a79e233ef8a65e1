/*
 * Goal: the conformance kit finds each promise of a profile that its provider does not keep, and raises no false alarm.
 * Method: each shipped profile against the provider that the simulator plays from its documents; then each kind of lie,
 * planted in a copy of the profile or in the server. The kit steers the server over HTTP only, as it would a sandbox.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/copy-tree.ts';
import { planProbe } from '../../src/rails/bank/probe/index.ts';
import { reorderedText } from '../../src/rails/bank/probe/requests.ts';
import { PROFILES } from '../../src/rails/bank/profiles/index.ts';
import { payonce } from '../cli/cli-scene.ts';
import { claiming, LIES, type Lie, NO_MONEY } from './bank-probe-lies.ts';
import { probeProvider, probesThat, startProvider } from './bank-probe-scene.ts';

const outCount = async (bank: Awaited<ReturnType<typeof probeProvider>>['bank']): Promise<number> =>
  (await bank.books.movements()).filter(({ kind }) => kind === 'out').length;

for (const profile of PROFILES) {
  test(`the kit finds no lie in the profile of ${profile.name}, and pays no more than it announced`, async () => {
    let plan: ReturnType<typeof planProbe> | null = null;
    const { report, bank } = await probeProvider(profile, {}, {}, ({ input }) => {
      plan = planProbe(input);
      return {};
    });
    assert.ok(plan !== null);
    const { requestsMax, transfersExpected } = plan as ReturnType<typeof planProbe>;
    assert.deepEqual(probesThat(report, 'promises_more'), []);
    assert.ok(report.started && report.ok);
    assert.equal(bank.calls.create, report.requestsSent);
    assert.ok(report.requestsSent <= requestsMax, `${report.requestsSent} of ${requestsMax}`);
    assert.ok((await outCount(bank)) <= transfersExpected, `${await outCount(bank)} of ${transfersExpected}`);
    assert.ok(report.rows.every((row) => row.observed !== ''));
    // Every request and look-up that was made is in the report, raw.
    const raw = report.rows.flatMap((row) => row.answers);
    assert.equal(raw.filter((one) => !one.what.includes('by_')).length, report.requestsSent);
    assert.ok(raw.every((one) => !JSON.stringify(one).includes(bank.credentials.current())));
  });
}

test('the kit finds, profile by profile, each kind of lie that is planted (req T5, req T12)', async (t) => {
  const missed: string[] = [];
  const lines: string[] = [];
  for (const lie of LIES) {
    const cells: string[] = [];
    for (const profile of PROFILES) {
      const found = await seek(lie, profile);
      cells.push(found ?? '–');
      if (found === '**missed**') missed.push(`${lie.name}: ${profile.name}`);
    }
    lines.push(`| ${lie.name} | ${cells.join(' | ')} |`);
  }
  const table = [
    `| planted | ${PROFILES.map((profile) => profile.name).join(' | ')} |`,
    `| --- | ${PROFILES.map(() => '---').join(' | ')} |`,
    ...lines,
  ];
  for (const line of table) t.diagnostic(line);
  assert.deepEqual(missed, []);
  const page = readFileSync(join(root, 'docs/probe.md'), 'utf8');
  assert.ok(page.includes(table.join('\n')), 'docs/probe.md shows another table: put this one in');
});

/** `null`: there is nothing to lie about. */
async function seek(lie: Lie, profile: (typeof PROFILES)[number]): Promise<string | null> {
  const planted = lie.plant(profile);
  if (planted === null) return null;
  const { report } = await probeProvider(
    planted.profile,
    planted.options,
    { failFreesKey: planted.failFreesKey === true },
    (provider) => {
      planted.prepare?.(provider);
      return {};
    },
  );
  const found = probesThat(report, 'promises_more').some((name) => name.startsWith(lie.row));
  return found && !report.ok ? 'found' : '**missed**';
}

test('stronger promises that a provider keeps raise no alarm', async () => {
  for (const profile of PROFILES.filter((one) => one.key !== null)) {
    const more = claiming(profile, NO_MONEY, { storedUnderKey: 'kept', afterKeyCheck: 'kept' });
    const options = { behave: { keeps: 'all' } } as const;
    const { report } = await probeProvider({ ...more, failedKeepsKey: 'kept' }, options);
    assert.deepEqual(probesThat(report, 'promises_more'), [], profile.name);
    const rows = report.rows.filter((row) => /want of money$|^balance or key|^a failed/.test(row.probe));
    assert.deepEqual([...new Set(rows.map((row) => row.verdict))], ['agrees'], profile.name);
  }
});

test('a request that is still in progress is no lie, whatever the provider calls it', async () => {
  for (const profile of PROFILES.filter((one) => one.key !== null)) {
    const { report, bank } = await probeProvider(profile, {
      faults: [{ on: 'create', fault: { kind: 'slow', ms: 20 } }],
    });
    assert.deepEqual(probesThat(report, 'promises_more'), [], profile.name);
    const row = report.rows.find((one) => one.probe === 'in progress');
    assert.match(row?.observed ?? '', /^1 transfer; .*(?:409|400)/, profile.name);
    assert.ok((bank.counts.slow ?? 0) > 0);
  }
});

test('states and codes that no profile knows are listed', async () => {
  const profile = PROFILES.find((one) => one.name === 'stripe') ?? assert.fail();
  const unknown = [
    { on: 'look', fault: { kind: 'unknown_state', state: 'ON_THE_MOON' } },
    { on: 'create', calls: [2], fault: { kind: 'http', status: 500 } },
  ] as const;
  const { report } = await probeProvider(profile, { faults: unknown });
  const observed = (name: string): string => report.rows.find((row) => row.probe === name)?.observed ?? '';
  assert.match(observed('states'), /not known: ON_THE_MOON/);
  assert.match(observed('codes'), /not known, so nothing is read in them: 500 api_error, 400 parameter_invalid_empty/);
});

test('without levers the kit says what it could not try, and does not call that proof', async () => {
  for (const profile of PROFILES) {
    const { report } = await probeProvider(profile, { behave: { lookLagMs: 0 } }, {}, () => ({ levers: {} }));
    assert.ok(report.ok, profile.name);
    const open = probesThat(report, 'not_tried');
    assert.ok(open.includes('want of money'), profile.name);
    // No list and no balance: that one answer names one transfer is no proof that there is one.
    assert.equal(open.includes('same key, same body'), profile.name === 'paypal-payouts');
  }
});

test('a look-up that never finds is given up after the time that was given', async () => {
  const { report } = await probeProvider(
    PROFILES[0] ?? assert.fail(),
    { behave: { lookLagMs: 3_600_000 } },
    {},
    () => ({
      levers: {},
      lagWaitMs: 300,
    }),
  );
  assert.ok(probesThat(report, 'promises_more').includes('look-up by_reference'));
});

test('a provider that takes no transfer at all is no success', async () => {
  const profile = PROFILES[0] ?? assert.fail();
  const { report, bank } = await probeProvider(profile, { balance: 0n });
  assert.deepEqual([report.started, report.ok, report.requestsSent, await outCount(bank)], [false, false, 1, 0]);
});

test('a lever that breaks costs its own row and no other', async () => {
  const profile = PROFILES.find((one) => one.name === 'stripe') ?? assert.fail();
  const provider = await startProvider(profile);
  await provider.stop();
  const { report } = await probeProvider(profile, {}, {}, ({ input }) => ({
    levers: { ...input.levers, fail: provider.input.levers.fail ?? '' },
  }));
  assert.ok(report.ok);
  const row = report.rows.find((one) => one.probe === 'a failed transfer keeps its key');
  assert.equal(row?.verdict, 'not_tried');
  assert.ok(report.rows.some((one) => one.probe === 'retention' && one.verdict === 'agrees'));
  const clock = provider.input.levers.clock ?? '';
  const lagging = { behave: { lookLagMs: 60_000 } };
  const stuck = await probeProvider(profile, lagging, {}, ({ input }) => ({ levers: { ...input.levers, clock } }));
  assert.deepEqual(
    stuck.report.rows.slice(0, 1).map((one) => [one.probe, one.verdict]),
    [['look-up', 'not_tried']],
  );
});

test('re-ordered bodies say the same in other bytes, large figures included', () => {
  const body = '{"a":9007199254740993,"b":[{"c":"x","d":null},true]}';
  assert.equal(reorderedText(body), '{"b":[{"d":null,"c":"x"},true],"a":9007199254740993}');
  assert.equal(reorderedText('a=1&b%5Bc%5D=2'), 'b%5Bc%5D=2&a=1');
});

test('docs/probe.md names every row and every option that there is', async () => {
  const page = readFileSync(join(root, 'docs/probe.md'), 'utf8');
  const rows = [...page.matchAll(/^\| ([a-z][a-z, -]+) \| /gm)].flatMap(([, names = '']) => [
    names,
    ...names.split(', '),
  ]);
  for (const profile of PROFILES) {
    const { report } = await probeProvider(profile);
    for (const { probe } of report.rows)
      assert.ok(
        rows.some((name) => probe.startsWith(name)),
        probe,
      );
  }
  const { stdout } = await payonce(['probe', '--help']);
  const optionsIn = (text: string): Set<string> =>
    new Set([...text.matchAll(/--[a-z]+(?:-[a-z]+)*/g)].map(([one]) => one));
  const known = optionsIn(stdout);
  known.delete('--help');
  assert.deepEqual(optionsIn(page), known);
});
