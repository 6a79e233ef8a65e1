/**
 * The README's first block, run as a new user would: a copy of the tree, `npm ci && npm start`, the nine curl lines that
 * it prints, pasted (issue 1, shows 1). As root in a folder under /root that nobody else can enter, and as an ordinary
 * user. The receivers' balances come from the chains and from the bank's own books, what a
 * buyer got beside the liquidity provider's.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { root, treeFiles } from '../../scripts/copy-tree.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
/** `npm ci` from the registry on a busy machine, then the start itself. */
const READY_MS_MAX = 400_000;
const STOP_MS_MAX = 30_000;

interface Who {
  readonly uid?: number;
  readonly folder: string;
}

function firstBlock(): string {
  const block = /```sh\n([\s\S]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1];
  assert.ok(block !== undefined, 'README has a shell block');
  return block.trim();
}

function copyFor(who: Who): string {
  const copy = join(who.folder, 'payonce');
  for (const file of treeFiles()) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(root, file), join(copy, file));
  }
  if (who.uid !== undefined) {
    const give = (path: string): void => {
      chownSync(path, who.uid ?? 0, who.uid ?? 0);
      for (const entry of readdirSync(path, { withFileTypes: true })) {
        if (entry.isDirectory()) give(join(path, entry.name));
        else chownSync(join(path, entry.name), who.uid ?? 0, who.uid ?? 0);
      }
    };
    give(who.folder);
  }
  return copy;
}

function environment(who: Who): NodeJS.ProcessEnv {
  // Not the runner's own Node 24: a new user has what the machine has.
  const path = (process.env['PATH'] ?? '')
    .split(':')
    .filter((part) => !part.includes('node_modules'))
    .join(':');
  const names = Object.entries(process.env).filter(
    ([name]) =>
      !name.startsWith('npm_') && !name.startsWith('NODE_') && !name.startsWith('PAYONCE_') && name !== 'DATABASE_URL',
  );
  return {
    ...Object.fromEntries(names),
    PATH: path,
    PAYONCE_PORT: '0',
    PAYONCE_LOG: 'warn',
    ...(who.uid === undefined ? {} : { HOME: who.folder, npm_config_cache: join(who.folder, 'cache') }),
  };
}

async function shell(command: string): Promise<string> {
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  await new Promise((resolve) => child.once('close', resolve));
  return out;
}

async function runReadme(who: Who, say: (line: string) => void): Promise<void> {
  const copy = copyFor(who);
  const child = spawn('sh', ['-c', firstBlock()], {
    cwd: copy,
    env: environment(who),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(who.uid === undefined ? {} : { uid: who.uid, gid: who.uid }),
  });
  let out = '';
  let startedAt = 0;
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const ready = new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not ready:\n${out.slice(-2_000)}`)), READY_MS_MAX);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        out += chunk.toString();
        if (startedAt === 0 && out.includes('starting PostgreSQL')) startedAt = Date.now();
        if (!out.includes('Ctrl-C stops everything')) return;
        clearTimeout(timer);
        resolve(Date.now() - startedAt);
      });
    }
    child.once('close', () => reject(new Error(`it ended:\n${out.slice(-2_000)}`)));
  });
  try {
    const ms = await ready;
    assert.match(out, /Payonce is ready at http:\/\/\S+/);
    assert.match(out, /partner key: pk_test_\w+/);
    const lines = out.split('\n').filter((line) => line.startsWith('curl '));
    assert.equal(lines.length, 9);
    const deposit = JSON.parse(await shell(lines[0] ?? '')) as {
      deposit: { state: string; amount: string; tx_hash: string };
      balance: { available: string };
    };
    assert.equal(deposit.deposit.state, 'credited');
    assert.equal(deposit.deposit.amount, '250');
    assert.match(deposit.deposit.tx_hash, /^0x[0-9a-f]{64}$/);
    assert.equal(deposit.balance.available, '249.75');
    const created = JSON.parse(await shell(lines[1] ?? '')) as { id: string; status: string };
    const again = JSON.parse(await shell(lines[1] ?? '')) as { id: string };
    assert.equal(again.id, created.id, 'pasted twice, it is one payment');
    const done = JSON.parse(await shell(lines[2] ?? '')) as {
      withdrawal: { id: string; status: string };
      receiver_balance_on_chain: string;
    };
    assert.equal(done.withdrawal.id, created.id);
    assert.equal(done.withdrawal.status, 'confirmed');
    assert.equal(done.receiver_balance_on_chain, '100');
    const transfer = JSON.parse(await shell(lines[3] ?? '')) as { id: string };
    const repeated = JSON.parse(await shell(lines[3] ?? '')) as { id: string };
    assert.equal(repeated.id, transfer.id, 'pasted twice, it is one transfer');
    const arrived = JSON.parse(await shell(lines[4] ?? '')) as {
      transfer: { id: string; status: string };
      receiver_balance_at_bank: string;
      answers_lost: number;
    };
    assert.deepEqual([arrived.transfer.id, arrived.transfer.status], [transfer.id, 'confirmed']);
    assert.equal(arrived.receiver_balance_at_bank, '50000');
    assert.ok(arrived.answers_lost >= 1, 'the first answer of the bank is lost');
    const ordered = JSON.parse(await shell(lines[5] ?? '')) as { id: string };
    const overTron = JSON.parse(await shell(lines[6] ?? '')) as {
      withdrawal: { id: string; status: string };
      receiver_balance_on_chain: string;
      answers_lost: number;
    };
    assert.deepEqual([overTron.withdrawal.id, overTron.withdrawal.status], [ordered.id, 'confirmed']);
    assert.equal(overTron.receiver_balance_on_chain, '60');
    assert.ok(overTron.answers_lost >= 1, 'the first answer of TRON is lost');
    const bought = JSON.parse(await shell(lines[7] ?? '')) as { id: string };
    const boughtAgain = JSON.parse(await shell(lines[7] ?? '')) as { id: string };
    assert.equal(boughtAgain.id, bought.id, 'pasted twice, it is one order');
    const order = JSON.parse(await shell(lines[8] ?? '')) as {
      order: { id: string; status: string; settled_amount: string; legs: { kind: string; amount: string }[] };
      trades_at_provider: { released_amount: string }[];
      answers_lost: number;
    };
    assert.deepEqual([order.order.id, order.order.status, order.order.settled_amount], [bought.id, 'completed', '500']);
    assert.deepEqual(
      order.trades_at_provider.map((trade) => trade.released_amount),
      order.order.legs.filter((leg) => leg.kind === 'liquidity_provider').map((leg) => leg.amount),
      'the provider has one trade for its leg',
    );
    assert.ok(order.answers_lost >= 1, 'the first answer of the provider is lost');
    say(
      `ready ${(ms / 1_000).toFixed(1)} s after the install; deposit credited, withdrawal confirmed, receiver has ${done.receiver_balance_on_chain} on chain; transfer confirmed, receiver has ${arrived.receiver_balance_at_bank} at the bank, ${arrived.answers_lost} answers lost; over TRON ${overTron.receiver_balance_on_chain}, ${overTron.answers_lost} lost; bought ${order.order.settled_amount} in ${order.order.legs.length} legs, ${order.answers_lost} lost`,
    );
  } finally {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT');
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, STOP_MS_MAX).unref())]);
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // The group is gone, as it should be.
    }
  }
}

test('README: npm ci && npm start and its nine lines, as root in a closed folder under /root', {
  skip: IS_ROOT ? false : 'needs root',
}, async (t) => {
  const folder = mkdtempSync(join(homedir(), 'payonce-readme-'));
  chmodSync(folder, 0o700);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await runReadme({ folder }, (line) => t.diagnostic(line));
});

test('README: npm ci && npm start and its nine lines, as an ordinary user', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-readme-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await runReadme(IS_ROOT ? { uid: NOBODY, folder } : { folder }, (line) => t.diagnostic(line));
});
