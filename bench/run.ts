/*
 * `npm run bench`: what Payonce does in a second, each line beside a peer in the same run on the same server, with durable
 * commits on both sides. Rounds of the contenders take turns, so that a busy machine slows them alike; medians count.
 *
 * Prints the machine, the versions and the settings, then a table; writes the same as bench/results/latest.json.
 * Arguments: names of lines to run (default: all); `--rounds N`, `--seconds N` per round.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/db/embedded.ts';
import { benchClaim } from './claim.ts';
import { benchEffects } from './effects.ts';
import { benchP2p } from './p2p.ts';
import { benchPayouts } from './payouts.ts';
import { benchPostings } from './postings.ts';
import { type BenchOptions, type BenchResult, type Measured, printCounts, printLines } from './rounds.ts';

const LINES: Readonly<Record<string, (serverUrl: string, options: BenchOptions) => Promise<BenchResult>>> = {
  postings: async (serverUrl, options) => ({ lines: await benchPostings(serverUrl, options), counts: [], notes: [] }),
  effects: benchEffects,
  claim: benchClaim,
  p2p: benchP2p,
  payouts: benchPayouts,
};

/** What a durable server of this size is given; both sides run under it. */
const SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
};
const SHOWN_SETTINGS = [...Object.keys(SETTINGS), 'wal_sync_method', 'wal_level', 'max_connections', 'autovacuum'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '2' } },
});
const names = positionals.length === 0 ? Object.keys(LINES) : positionals;
const unknown = names.filter((name) => LINES[name] === undefined);
if (unknown.length > 0) {
  console.error(`No such line: ${unknown.join(', ')}. There are: ${Object.keys(LINES).join(', ')}.`);
  process.exit(2);
}
const options: BenchOptions = { rounds: Number(values.rounds), roundMs: Number(values.seconds) * 1_000 };

const server = await startEmbeddedPostgres({ settings: SETTINGS });
try {
  const machine = await describeMachine(server.url);
  for (const [name, value] of Object.entries(machine)) console.log(`${name.padEnd(12)} ${value}`);
  console.log(`rounds       ${options.rounds} of ${options.roundMs / 1_000} s each, interleaved; medians\n`);
  const all: BenchResult = { lines: [], counts: [], notes: [] };
  for (const name of names) {
    const result = await LINES[name]?.(server.url, options);
    all.lines.push(...(result?.lines ?? []));
    all.counts.push(...(result?.counts ?? []));
    all.notes.push(...(result?.notes ?? []));
  }
  if (all.lines.length > 0) printLines(all.lines);
  if (all.lines.length > 0 && all.counts.length > 0) console.log();
  printCounts(all.counts);
  if (all.notes.length > 0) console.log(`\n${all.notes.join('\n')}`);
  await write({ machine, options, ...all });
} finally {
  await server.stop();
}

async function describeMachine(url: string): Promise<Record<string, string>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const version = await client.query<{ version: string }>('select version()');
  const settings = await client.query<{ name: string; setting: string }>(
    "select name, setting || coalesce(' ' || unit, '') as setting from pg_settings where name = any($1) order by name",
    [SHOWN_SETTINGS],
  );
  await client.end();
  const manifest = JSON.parse(await readFile(join(import.meta.dirname, '../package.json'), 'utf8')) as {
    version: string;
    dependencies: Record<string, string>;
  };
  return {
    machine: `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${release()}`,
    versions: `payonce ${manifest.version}, node ${process.version}, pg ${manifest.dependencies['pg']}`,
    server: version.rows[0]?.version ?? '',
    settings: settings.rows.map((row) => `${row.name}=${row.setting}`).join(', '),
  };
}

async function write(results: BenchResult & { machine: object; options: BenchOptions }): Promise<void> {
  const folder = join(import.meta.dirname, 'results');
  await mkdir(folder, { recursive: true });
  const rounds = (one: Measured): number[] => one.rounds.map((rate) => Math.round(rate));
  const lines = results.lines.map((line) => ({
    ...line,
    ours: { ...line.ours, rounds: rounds(line.ours) },
    peer: { ...line.peer, rounds: rounds(line.peer) },
  }));
  await writeFile(join(folder, 'latest.json'), `${JSON.stringify({ ...results, lines }, null, 2)}\n`);
  console.log('\nwritten to bench/results/latest.json');
}
