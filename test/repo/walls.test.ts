/*
 * Goal: an import that breaks a wall is refused, and the checker cannot go blind (its default parser reads nothing with
 * TypeScript 7). Method: a copy of the tree, one breach of each rule planted in it, one run of the checker, and each
 * planted file must be named under exactly the rule that it breaks.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { copyTree, root } from '../../scripts/copy-tree.ts';

const run = promisify(execFile);
const CHECKER = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');

type Breach = { rule: string; file: string; text: string };

/** What each breach imports exists as an empty module in the copy, so that no path is unresolvable by accident. */
const TARGETS = [
  'src/db/planted.ts',
  'src/ledger/planted.ts',
  'src/engine/planted.ts',
  'src/outbox/planted.ts',
  'src/flows/deposits/planted.ts',
  'src/audit/planted.ts',
  'src/api/planted.ts',
  'src/worker/planted.ts',
  'src/main/planted.ts',
  'src/rails/evm/planted.ts',
  'sim/planted.ts',
  'test/planted.ts',
];

const BREACHES: Breach[] = [
  { rule: 'wall-kernel', file: 'src/kernel/breach.ts', text: "import type { x } from '../db/planted.ts';" },
  { rule: 'wall-db', file: 'src/db/breach.ts', text: "import { x } from '../ledger/planted.ts';" },
  { rule: 'wall-ledger', file: 'src/ledger/breach.ts', text: "import type { x } from '../engine/planted.ts';" },
  { rule: 'wall-engine', file: 'src/engine/breach.ts', text: "import { x } from '../flows/deposits/planted.ts';" },
  { rule: 'wall-inbox', file: 'src/inbox/breach.ts', text: "import { x } from '../audit/planted.ts';" },
  { rule: 'wall-outbox', file: 'src/outbox/breach.ts', text: "export { x } from '../api/planted.ts';" },
  { rule: 'wall-flows', file: 'src/flows/withdrawals/breach.ts', text: "import { x } from '../../api/planted.ts';" },
  { rule: 'wall-audit', file: 'src/audit/breach.ts', text: "import { x } from '../worker/planted.ts';" },
  { rule: 'wall-api', file: 'src/api/breach.ts', text: "import { x } from '../worker/planted.ts';" },
  { rule: 'wall-worker', file: 'src/worker/breach.ts', text: "export const y = import('../main/planted.ts');" },
  { rule: 'wall-cli', file: 'src/cli/breach.ts', text: "import { x } from '../main/planted.ts';" },
  {
    rule: 'wall-rails-see-the-port',
    file: 'src/rails/evm/breach.ts',
    text: "import { x } from '../../db/planted.ts';",
  },
  {
    rule: 'wall-rails-see-the-port',
    file: 'src/rails/no-op/breach.ts',
    text: "import { x } from '../evm/planted.ts';",
  },
  {
    rule: 'wall-rails-see-the-port',
    file: 'src/rails/evm/far.ts',
    text: "import { x } from '../../engine/planted.ts';",
  },
  { rule: 'wall-rails-share-a-wire', file: 'src/rails/breach.ts', text: "import { x } from './evm/planted.ts';" },
  {
    rule: 'wall-rails-are-wired-in-main',
    file: 'src/engine/picks.ts',
    text: "import { x } from '../rails/evm/planted.ts';",
  },
  {
    rule: 'wall-flows-apart',
    file: 'src/flows/withdrawals/pry.ts',
    text: "import { x } from '../deposits/planted.ts';",
  },
  {
    rule: 'wall-sim-sees-kernel',
    file: 'sim/breach.ts',
    text: "import type { x } from '../src/rails/evm/planted.ts';",
  },
  { rule: 'wall-src-sees-src', file: 'src/audit/leans.ts', text: "import { x } from '../../test/planted.ts';" },
  { rule: 'wall-sim-for-main-only', file: 'src/worker/plays.ts', text: "import { x } from '../../sim/planted.ts';" },
  { rule: 'wall-index-is-outside', file: 'src/main/loops.ts', text: "export { version } from '../index.ts';" },
  { rule: 'wall-pg-behind-db', file: 'src/ledger/driver.ts', text: "import type { Client } from 'pg';" },
  { rule: 'wall-fastify-in-api', file: 'src/flows/deposits/serves.ts', text: "import fastify from 'fastify';" },
  { rule: 'wall-wire-in-rails', file: 'src/flows/deposits/calls.ts', text: "import { request } from 'undici';" },
  { rule: 'no-circle', file: 'src/kernel/snake.ts', text: "export { tail } from './snake-tail.ts';" },
  { rule: 'not-to-unresolvable', file: 'src/kernel/lost.ts', text: "import { x } from './nowhere.ts';" },
  { rule: 'not-to-dev-dep', file: 'src/kernel/developer.ts', text: "import fc from 'fast-check';" },
  { rule: 'folder-has-a-layer', file: 'src/misplaced/breach.ts', text: "import { y } from './other.ts';" },
];

const COMPANIONS: Record<string, string> = {
  'src/kernel/snake-tail.ts': "export { head } from './snake.ts';",
  'src/misplaced/other.ts': 'export const y = 1;',
};

type Cruise = { summary: { violations: { from: string; to: string; rule: { name: string } }[]; totalCruised: number } };

async function cruise(folder: string): Promise<Cruise> {
  const args = [CHECKER, '--config', '.dependency-cruiser.mjs', '--output-type', 'json', 'src', 'sim', 'test'];
  const { stdout } = await run(process.execPath, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }).catch(
    (failed: { stdout: string; stderr: string }) => {
      assert.notEqual(failed.stdout, '', failed.stderr);
      return failed;
    },
  );
  return JSON.parse(stdout) as Cruise;
}

function plant(folder: string, file: string, text: string): void {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), `${text}\n`);
}

const copy = copyTree('walls');
after(() => rmSync(copy, { recursive: true, force: true }));

test('each wall refuses a breach planted in a copy of the tree', async () => {
  for (const file of TARGETS) plant(copy, file, 'export const x = 1;');
  for (const [file, text] of Object.entries(COMPANIONS)) plant(copy, file, text);
  for (const breach of BREACHES) plant(copy, breach.file, breach.text);

  const { summary } = await cruise(copy);
  // A circle is reported once, from either of its ends.
  const found = new Set(
    summary.violations.flatMap(({ rule, from, to }) => [`${rule.name} ${from}`, `${rule.name} ${to}`]),
  );
  for (const breach of BREACHES) {
    assert.ok(
      found.has(`${breach.rule} ${breach.file}`),
      `${breach.rule} did not refuse ${breach.file}: ${breach.text}`,
    );
  }
});

test('every rule of the walls has a planted breach', async () => {
  const { default: walls } = (await import(join(root, '.dependency-cruiser.mjs'))) as {
    default: { forbidden: { name: string }[] };
  };
  const rules = walls.forbidden.map((rule) => rule.name);
  const planted = new Set(BREACHES.map((breach) => breach.rule));
  assert.deepEqual(
    rules.filter((rule) => !planted.has(rule)),
    [],
  );
});

test('no client of a broker, a cache or a lock server comes with the product: PostgreSQL is the queue (req P9)', () => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, unknown>;
  };
  const names = Object.keys(lock.packages).map((path) => path.replace(/^.*node_modules\//, ''));
  assert.ok(names.includes('pg'), 'the list was read');
  const brokers =
    /^(?:@confluentinc\/|kafka|.*kafkajs|amqp|nats$|.*redis|bull|pg-boss|graphile-worker|mqtt|@aws-sdk\/|@google-cloud\/|etcd|zookeeper|memcached)/;
  assert.deepEqual(
    names.filter((name) => brokers.test(name)),
    [],
  );
});
