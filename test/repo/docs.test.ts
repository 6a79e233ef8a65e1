/*
 * Goal: the pages that users follow say what the code does. Method: lists and figures on the pages are compared with the
 * code's own; code on the pages is run as it stands.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from '../../scripts/copy-tree.ts';
import { Value } from 'typebox/value';
import { NewAccruals, PutProgramme } from '../../src/api/payout-schemas.ts';
import { EVENT_TYPES } from '../../src/api/event-types.ts';
import { DEPOSIT_EDGES, WITHDRAW_EDGES } from '../../src/flows/p2p/edges.ts';
import { ACCRUALS_MAX, CUT_HOUR, FAILURES_MAX } from '../../src/flows/payouts/limits.ts';
import { DELIVERY_BACKOFF_MS, DELIVERY_TIMEOUT_MS } from '../../src/kernel/limits.ts';
import { readConfig } from '../../src/main/config.ts';
import { signatureOf } from '../../src/outbox/signature.ts';

const page = (name: string): string => readFileSync(join(root, 'docs', name), 'utf8');
const source = (path: string): string => readFileSync(join(root, 'src', path), 'utf8');
/** The n-th fenced block of a language. */
function block(text: string, language: string, n = 0): string {
  const found = [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))][n]?.[1];
  assert.ok(found !== undefined, `no ${language} block ${n}`);
  return found;
}

test('the event types of docs/webhooks.md are those of the list, with its words, and those that the flows emit', () => {
  const rows = [...page('webhooks.md').matchAll(/^\| `([a-z_]+\.[a-z_]+)` \| (.*) \|$/gm)];
  assert.deepEqual(Object.fromEntries(rows.map(([, type, words]) => [type, words])), EVENT_TYPES);
  const deposits = readdirSync(join(root, 'src/flows/deposits')).map((file) => source(`flows/deposits/${file}`));
  const ofOrders = (flow: string, subject: string, file = 'index.ts'): string[] => {
    const statuses = /const STATUS_OF = \{([^}]*)\}/.exec(source(`flows/${flow}/${file}`))?.[1] ?? '';
    return ['created', ...[...statuses.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name)].map(
      (name) => `${subject}.${name}`,
    );
  };
  // The desk tells of an order by its state's own name, and of legs by the names that it calls.
  const desk = source('flows/p2p/desk.ts');
  const legs = ['leg_settled', 'leg_ended', 'leg_reopened', 'matched'].filter((name) => desk.includes(`'${name}'`));
  const closed = (edges: object): string[] =>
    Object.keys(edges).filter((state) => state.endsWith('ED') && state !== 'MATCHED');
  const p2p = [
    ...['created', ...legs, ...closed(DEPOSIT_EDGES)].map((name) => `deposit_order.${name.toLowerCase()}`),
    ...['created', ...legs.filter((name) => name !== 'leg_reopened'), ...closed(WITHDRAW_EDGES)].map(
      (name) => `withdraw_order.${name.toLowerCase()}`,
    ),
  ];
  const emitted = [
    ...ofOrders('withdrawals', 'withdrawal'),
    ...ofOrders('transfers', 'transfer'),
    ...ofOrders('transfers', 'transfer_batch', 'batch.ts'),
    ...p2p,
    ...ofOrders('payouts', 'payout', 'view.ts'),
    ...ofOrders('payouts', 'payout_batch', 'batch-view.ts'),
    ...[source('flows/payouts/enqueue.ts'), source('flows/payouts/waiting.ts')].flatMap((text) =>
      [...text.matchAll(/'(programme\.[a-z]+)'/g)].map(([, type]) => type),
    ),
    ...deposits.flatMap((text) => [...text.matchAll(/'(deposit\.[a-z]+)'/g)].map(([, type]) => type)),
  ];
  assert.deepEqual(new Set(emitted), new Set(Object.keys(EVENT_TYPES)));
});

test('the schedule of docs/webhooks.md is the one that the courier keeps', () => {
  const text = page('webhooks.md').replaceAll(/\s+/g, ' ');
  const inWords = (ms: number): string =>
    ms >= 3_600_000 ? `${ms / 3_600_000} hours` : ms >= 60_000 ? `${ms / 60_000} minutes` : `${ms / 1_000} seconds`;
  const pauses = DELIVERY_BACKOFF_MS.slice(1).map(inWords);
  assert.equal(DELIVERY_BACKOFF_MS[0], 0);
  assert.ok(text.includes(`at once and then ${pauses.slice(0, -1).join(', ')} and ${pauses.at(-1)} after`), text);
  const hours = Math.floor(DELIVERY_BACKOFF_MS.reduce((sum, ms) => sum + ms, 0) / 3_600_000);
  assert.ok(text.includes(`${DELIVERY_BACKOFF_MS.length} attempts in about ${hours} hours`));
  assert.ok(text.includes(`within ${DELIVERY_TIMEOUT_MS / 1_000} seconds`));
});

test('the receiver of docs/webhooks.md takes what we sign, once, and nothing else', async () => {
  const free = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => free.once('listening', resolve));
  const { port } = free.address() as AddressInfo;
  await new Promise((resolve) => free.close(resolve));
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const child = spawn(process.execPath, ['--input-type=module', '-'], {
    cwd: root,
    env: { ...process.env, WEBHOOK_SECRET: secret, PORT: String(port) },
  });
  let printed = '';
  child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()));
  child.stderr.on('data', (bytes: Buffer) => (printed += bytes.toString()));
  child.stdin.end(block(page('webhooks.md'), 'js'));
  try {
    const body = block(page('webhooks.md'), 'json');
    const post = async (signature?: string): Promise<number> => {
      const timestamp = Math.floor(Date.now() / 1_000).toString();
      const headers = {
        'webhook-id': 'evt_1',
        'webhook-timestamp': timestamp,
        'webhook-signature': signature ?? signatureOf(secret, 'evt_1', timestamp, Buffer.from(body)),
      };
      return (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body })).status;
    };
    for (let n = 0; n < 100; n += 1) {
      const answer = await fetch(`http://127.0.0.1:${port}/`).catch(() => null);
      if (answer !== null) break;
      await sleep(50);
    }
    assert.deepEqual([await post(), await post(), await post('v1,AAAA')], [204, 204, 401], printed);
    assert.equal(printed.trim(), 'withdrawal.confirmed wd_01kbcdefghjkmnpqrstvwxyz01 confirmed');
  } finally {
    child.kill();
  }
});

test('the file of docs/production.md is a configuration, and shows every field that there is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-docs-'));
  const file = join(folder, 'chains.json');
  writeFileSync(file, block(page('production.md'), 'json'));
  const { chains } = readConfig({ PAYONCE_CONFIG: file });
  writeFileSync(file, block(page('production.md'), 'json', 1));
  const keys = { PAYONCE_TRON_GRID: 'key', PAYONCE_TRON_MARKET: 'key' };
  readConfig({ PAYONCE_CONFIG: file, ...keys });
  const { tron } = JSON.parse(readFileSync(file, 'utf8')) as { tron: readonly object[] };
  writeFileSync(file, block(page('production.md'), 'json', 2));
  const written = JSON.parse(readFileSync(file, 'utf8')) as { banks: readonly object[] };
  readConfig({ PAYONCE_CONFIG: file, PAYONCE_BANK_MAIN: 'secret', PAYONCE_BANK_MAIN_KEY: 'ab'.repeat(32) });
  rmSync(folder, { recursive: true });
  const shown = fieldsOf({ chains, tron, banks: written.banks });
  shown.delete('chains[].finality.tag');
  const fields = [...page('config.md').matchAll(/^\| `((?:chains|tron|banks)[^`]*)` \| (.+) \| (.+) \| (.+) \|$/gm)];
  assert.deepEqual(shown, new Set(fields.map(([, name]) => name)));
  for (const [, name, , , absent] of fields) {
    if (name !== undefined && /^\d+$/.test(absent ?? ''))
      assert.equal(String(valueAt({ chains, tron, banks: written.banks }, name)), absent, name);
  }
});

/** `chains[].gas.level`, of everything that a file shows. */
function fieldsOf(file: object): Set<string> {
  const shown = new Set<string>();
  const walk = (value: unknown, path: string): void => {
    if (Array.isArray(value)) for (const one of value) walk(one, `${path}[]`);
    else if (typeof value === 'object' && value !== null)
      for (const [name, inner] of Object.entries(value)) {
        const own = path === '' ? name : `${path}.${name}`;
        shown.add(own);
        walk(inner, own);
      }
  };
  walk(file, '');
  return shown;
}

test('the file of docs/p2p.md is a configuration, and shows every field of providers and groups', () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-docs-'));
  const file = join(folder, 'chains.json');
  writeFileSync(file, block(page('p2p.md'), 'json'));
  readConfig({ PAYONCE_CONFIG: file, PAYONCE_ESCROW_LP: 'secret' });
  const { escrows, p2p } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, readonly object[]>;
  rmSync(folder, { recursive: true });
  const fields = [...page('config.md').matchAll(/^\| `((?:escrows|p2p)[^`]*)` \| (.+) \| (.+) \| (.+) \|$/gm)];
  assert.deepEqual(fieldsOf({ escrows, p2p }), new Set(fields.map(([, name]) => name)));
  for (const [, name, , , absent] of fields) {
    if (name !== undefined && /^\d+$/.test(absent ?? ''))
      assert.equal(String(valueAt({ escrows, p2p }, name)), absent, name);
  }
});

/** `chains[].gas.level`, of the first of each list. */
function valueAt(from: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, step) => {
    const inner: unknown = Reflect.get(Object(value), step.replace('[]', ''));
    return step.endsWith('[]') ? (inner as readonly unknown[])[0] : inner;
  }, from);
}

test('the terms and events of docs/payouts.md are what the API takes', () => {
  const text = page('payouts.md');
  const terms: unknown = JSON.parse(block(text, 'json'));
  const accruals: unknown = JSON.parse(block(text, 'json', 1));
  assert.deepEqual([...Value.Errors(PutProgramme, terms)], []);
  assert.deepEqual([...Value.Errors(NewAccruals, accruals)], []);
  assert.ok(text.includes(`up to ${ACCRUALS_MAX.toLocaleString('en')} events`) && text.includes(`at 0${CUT_HOUR}:00`));
  assert.equal(FAILURES_MAX, 3);
});

test('the commands of docs/production.md, docs/p2p.md and docs/payouts.md exist', async () => {
  const commands = ['production.md', 'p2p.md', 'payouts.md'].flatMap((name) => [
    ...page(name).matchAll(/^payonce ((?:p2p )?[a-z ]+?)(?= --| alice| bob| off| prop_| par_| pdo_| prg_| +#|$)/gm),
  ]);
  assert.ok(commands.length >= 19);
  for (const [, words = ''] of commands) {
    const child = spawn(process.execPath, [join(root, 'bin/payonce.js'), ...words.trim().split(' '), '--help']);
    let printed = '';
    child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()));
    await new Promise((resolve) => child.once('close', resolve));
    assert.ok(printed.startsWith(`Usage: payonce ${words.trim()} `), `${words}: ${printed}`);
  }
});

test('every command that a page names, in a line of text too, is one that payonce has', async () => {
  const child = spawn(process.execPath, [join(root, 'bin/payonce.js'), '--help']);
  let help = '';
  child.stdout.on('data', (bytes: Buffer) => (help += bytes.toString()));
  await new Promise((resolve) => child.once('close', resolve));
  const known = new Set([...help.matchAll(/^ {2}([a-z][a-z0-9]*) /gm)].map(([, word]) => word));
  const pages = [...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`), 'README.md', 'ARCHITECTURE.md'];
  const named = pages.flatMap((path) =>
    [...readFileSync(join(root, path), 'utf8').matchAll(/(?:`|^|npx )payonce ([a-z][a-z0-9]*)/gm)].map(([, word]) => ({
      path,
      word,
    })),
  );
  assert.ok(named.length > 60);
  assert.deepEqual(
    named.filter(({ word }) => !known.has(word)),
    [],
  );
});

test('the program of docs/library.md runs as it stands, in less than sixty lines, and prints what the page says', async () => {
  const text = page('library.md');
  const program = block(text, 'js');
  assert.ok(program.split('\n').length <= 60, `${program.split('\n').length} lines`);
  // The package under its own name is its build; here the same program runs on the source.
  const here = program.replace("'payonce'", JSON.stringify(pathToFileURL(join(root, 'src/index.ts')).href));
  // Longer than a cold start of the database takes; a program that hangs must not hold the file up.
  const child = spawn(process.execPath, ['--input-type=module', '-'], { cwd: root, timeout: 60_000 });
  let printed = '';
  child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()));
  child.stderr.on('data', (bytes: Buffer) => (printed += bytes.toString()));
  child.stdin.end(here);
  await new Promise((resolve) => child.once('close', resolve));
  assert.equal(printed, block(text, 'text'));
});
