/**
 * The doctor: proves that the database does what everything here stands on, before money moves, and names what would make
 * this deployment unsafe or surprising.
 *
 * Promises: semantics are proved by doing (two connections that race for a row, a key and a lock), not by a version number; a
 * pooler, a proxy or a compatible product that only looks like PostgreSQL is found here and not in an incident. Leaves
 * nothing behind. `refuse`: no new seal may be made on it; `unsafe`: money went unexplained; `warn`: a person should look.
 * Never: a repair, a send, a decision about an effect. May run beside live traffic, from many processes at once.
 */
import { makePool, type Pool, type Query, sqlState } from '../db/pool.ts';
import { readMigrations } from '../db/migrate.ts';
import { raiseAlert } from '../engine/alerts.ts';
import { areSameMarks, readMarks, stopAllRails } from '../engine/stops.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { attentionFindings, loadAttention } from './attention.ts';
import { probeSemantics } from './doctor-probes.ts';
import type { Finding, Level } from './finding.ts';
import { findUnexplained } from './in-flight.ts';
import { findP2p } from './p2p-probes.ts';

export interface DoctorReport {
  readonly level: Level;
  readonly findings: readonly Finding[];
}

export interface DoctorOptions {
  readonly url: string;
  readonly ports: Ports;
  readonly log: Log;
  readonly production: boolean;
  /** Addresses of wallets whose keys everybody knows. */
  readonly developmentKeys: readonly string[];
  /** What this version and configuration can work on; null: not known (nothing was wired). */
  readonly works: { readonly rails: readonly string[]; readonly subjectTypes: readonly string[] } | null;
  /** Asks one rail whether it answers; a sentence for what is wrong. */
  readonly rails: readonly {
    readonly name: string;
    ask(): Promise<{ readonly ok: boolean; readonly found: string; readonly hint?: string }>;
  }[];
  /** What was found before, while wiring. */
  readonly before?: readonly Finding[];
}

/** Time that decides is the database's; ours only stops a send after `send_by`, so seconds matter and milliseconds do not. */
const CLOCK_SKEW_MS_MAX = 2_000;
/** The shortest of these round trips bounds how wrong the comparison can be. */
const CLOCK_SAMPLES = 3;

export async function runDoctor(options: DoctorOptions): Promise<DoctorReport> {
  const findings: Finding[] = [...(options.before ?? []), developmentKeys(options)];
  // Two connections of its own: the probes need both at once, and the process's pool may be busy or of one.
  const pool = makePool({
    url: options.url,
    ports: options.ports,
    log: options.log,
    connectionsMax: 2,
    applicationName: 'payonce-doctor',
  });
  try {
    findings.push(...(await settings(pool)), await standby(pool), await clock(pool, options.ports));
    const schema = await schemaOf(pool);
    findings.push(schema);
    if (schema.level === 'ok') {
      findings.push(...(await probeSemantics(pool, options.ports)));
      findings.push(await marks(pool), ...attentionFindings(await loadAttention(pool)));
      findings.push(...(await findUnexplained(pool, options.works)), ...(await findP2p(pool)));
    }
  } finally {
    await pool.end();
  }
  for (const rail of options.rails) {
    const { ok, found, hint } = await rail.ask();
    findings.push(
      ok
        ? well(`rail ${rail.name}`, found)
        : {
            name: `rail ${rail.name}`,
            level: 'warn',
            found,
            hint:
              hint ??
              'Effects on it wait and nothing is lost. Check its nodes and their URLs in the file of PAYONCE_CONFIG.',
          },
    );
  }
  return { level: worst(findings), findings };
}

/** Stops all new seals where the doctor refuses; the reason names what it found. Answers the rails that it stopped. */
export async function stopOnRefusal(query: Query, report: DoctorReport, log: Log): Promise<string[]> {
  if (report.level !== 'refuse') return [];
  const reason = `doctor: ${report.findings
    .filter((one) => one.level === 'refuse')
    .map((one) => `${one.name}: ${one.found}`)
    .join('; ')}`.slice(0, 2_000);
  await raiseAlert(query, 'doctor_refused', 'doctor', reason, log);
  return stopAllRails(query, reason);
}

function worst(findings: readonly Finding[]): Level {
  return (['refuse', 'unsafe', 'warn'] as const).find((level) => findings.some((one) => one.level === level)) ?? 'ok';
}

function well(name: string, found: string): Finding {
  return { name, level: 'ok', found, hint: '' };
}

function developmentKeys({ developmentKeys: keys, production }: DoctorOptions): Finding {
  if (keys.length === 0) return well('development keys', 'no wallet uses a development key');
  return {
    name: 'development keys',
    level: production ? 'refuse' : 'warn',
    found: `everybody knows the keys of ${keys.join(', ')}`,
    hint: production
      ? 'Make wallets of your own (payonce wallet create), move the funds, and take these out of the keystore.'
      : 'Right for development; production refuses them.',
  };
}

/** Each must be on: without it a commit that was answered may be gone after a crash, and its effect has left. */
const DURABLE = ['fsync', 'full_page_writes', 'synchronous_commit'] as const;

async function settings(pool: Pool): Promise<Finding[]> {
  const { rows } = await pool.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any ($1::text[])',
    [DURABLE],
  );
  return DURABLE.map((name): Finding => {
    const value = rows.find((row) => row.name === name)?.setting ?? 'unknown';
    if (value !== 'off' && value !== 'unknown') return well(name, `${name} is ${value}`);
    return {
      name,
      level: 'refuse',
      found: `${name} is ${value}`,
      hint: `Set ${name} = on in PostgreSQL's configuration (look at the role's and the database's own settings too): a commit must survive a crash.`,
    };
  });
}

async function standby(pool: Pool): Promise<Finding> {
  const { rows } = await pool.query<{ recovery: boolean; read_only: string }>(
    "select pg_is_in_recovery() as recovery, current_setting('default_transaction_read_only') as read_only",
  );
  if (rows[0]?.recovery === false && rows[0].read_only === 'off')
    return well('primary', 'the server is the primary and takes writes');
  return {
    name: 'primary',
    level: 'refuse',
    found: rows[0]?.recovery === true ? 'the server is a standby' : 'transactions are read-only by default',
    hint: 'Point DATABASE_URL at the primary.',
  };
}

async function clock(pool: Pool, ports: Ports): Promise<Finding> {
  const samples: { skewMs: number; tripMs: number }[] = [];
  for (let count = 0; count < CLOCK_SAMPLES; count += 1) {
    const before = ports.clock.now().getTime();
    const { rows } = await pool.query<{ at: Date }>('select clock_timestamp() as at');
    const after = ports.clock.now().getTime();
    const at = rows[0]?.at.getTime() ?? Number.POSITIVE_INFINITY;
    samples.push({ skewMs: Math.abs(at - (before + after) / 2), tripMs: after - before });
  }
  const best = samples.reduce((left, right) => (right.tripMs < left.tripMs ? right : left));
  const found = `the database's clock and this machine's differ by ${Math.round(best.skewMs)} ms`;
  if (best.skewMs - best.tripMs / 2 < CLOCK_SKEW_MS_MAX) return well('clock', found);
  return { name: 'clock', level: 'refuse', found, hint: 'Let both machines keep time by NTP.' };
}

async function schemaOf(pool: Pool): Promise<Finding> {
  const refuse = (found: string, hint: string): Finding => ({ name: 'schema', level: 'refuse', found, hint });
  let rows: { id: string; checksum: string }[];
  try {
    rows = (
      await pool.query<{ id: string; checksum: string }>('select id, checksum from payonce.migrations order by id')
    ).rows;
  } catch (error) {
    if (sqlState(error) === '42P01' || sqlState(error) === '3F000')
      return refuse('the database has no schema of Payonce', 'Run: payonce migrate');
    throw error;
  }
  const wanted = readMigrations();
  const applied = new Map(rows.map((row) => [row.id, row.checksum]));
  const newer = rows.filter((row) => wanted.every((one) => one.id !== row.id)).map((row) => row.id);
  const missing = wanted.filter((one) => !applied.has(one.id)).map((one) => one.id);
  const edited = wanted
    .filter((one) => applied.has(one.id) && applied.get(one.id) !== one.checksum)
    .map((one) => one.id);
  if (newer.length > 0)
    return refuse(
      `the schema is newer than this version: ${newer.join(', ')}`,
      'Run the version that made it, or a later one.',
    );
  if (edited.length > 0)
    return refuse(`edited after they were applied: ${edited.join(', ')}`, 'Restore the files of the released version.');
  if (missing.length > 0) return refuse(`the schema lacks ${missing.join(', ')}`, 'Run: payonce migrate');
  return well('schema', `${rows.length} migrations, all of this version`);
}

async function marks(pool: Pool): Promise<Finding> {
  let read: Awaited<ReturnType<typeof readMarks>>;
  try {
    read = await readMarks(pool);
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown fault';
    return {
      name: 'identity',
      level: 'warn',
      found: `the database does not tell its identity: ${why}`,
      hint: 'A fail-over or a restored backup will not be noticed by itself: grant pg_monitor to the role of DATABASE_URL.',
    };
  }
  const { now, known } = read;
  if (now === null || known === null) return well('identity', 'no identity is kept yet: the first start keeps it');
  if (areSameMarks(now, known))
    return well('identity', `system ${now.system_identifier}, timeline ${now.timeline}, as signed off`);
  return {
    name: 'identity',
    level: 'refuse',
    found: `system ${known.system_identifier} timeline ${known.timeline} became ${now.system_identifier} timeline ${now.timeline}`,
    hint: 'After a fail-over or a restore commits may be missing whose effects have left. Compare with the rails, then: payonce database sign-off --reason TEXT',
  };
}
