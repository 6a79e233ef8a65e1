/**
 * The doctor with what this configuration has: its rails, its keys, its flows. `examine` is `payonce doctor` and wires for
 * itself; `examineApp` is for a server that has wired already, and stops its seals where the doctor refuses.
 */
import { existsSync } from 'node:fs';
import { type DoctorOptions, type DoctorReport, runDoctor, stopOnRefusal } from '../audit/doctor.ts';
import type { Finding } from '../audit/finding.ts';
import { countWithheld } from '../engine/withheld.ts';
import { schemaFits } from '../db/migrate.ts';
import { makePool } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { type Log, silentLog } from '../kernel/log.ts';
import { systemPorts } from '../kernel/ports.ts';
import { openKeyFiles } from '../rails/keystore.ts';
import type { Config } from './config.ts';
import { configFaults } from './config-check.ts';
import { examineBank, reachBank } from './doctor-banks.ts';
import { askChains } from './doctor-chains.ts';
import { askEscrow, examineEscrow } from './doctor-escrows.ts';
import { developmentAddresses } from './keys.ts';
import { type App, wire } from './wire.ts';

/** What a start would say, as findings: nothing is thrown for what the doctor is there to tell. */
export async function examine(config: Config, url: string, log: Log): Promise<DoctorReport> {
  let app: App | null = null;
  const before: Finding[] = [];
  // Without this version's schema nothing can be wired; the doctor says that itself.
  if (await schemaFits(url)) {
    try {
      app = await wire({ ...config, logLevel: config.logLevel === 'info' ? 'silent' : config.logLevel }, { url });
    } catch (error) {
      before.push({
        name: 'wiring',
        level: 'refuse',
        found: error instanceof Error ? error.message : 'unknown fault',
        hint: 'Neither serve nor worker starts like this: mend it first.',
      });
    }
  }
  try {
    return await runDoctor({
      url,
      ports: app?.ports ?? systemPorts(),
      log,
      production: config.production,
      developmentKeys: await developmentWallets(config, url),
      // Beside `payonce up` the chains are not in our configuration: what is in flight on them is its business.
      works: app === null || (app.engine.rails.size === 0 && !config.production) ? null : worksOf(app),
      rails: app === null ? [] : railsOf(app),
      before: [...before, ...providersOf(app), ...(await withheldOf(app))],
    });
  } finally {
    await app?.close();
  }
}

/** For `serve` and `worker` in production: proves the database before money moves; where it refuses, nothing new is sealed. */
export async function examineApp(app: App): Promise<DoctorReport> {
  const report = await runDoctor({
    url: app.pool.url,
    ports: app.ports,
    log: app.log,
    production: app.config.production,
    developmentKeys: await developmentWallets(app.config, app.pool.url),
    works: worksOf(app),
    rails: railsOf(app),
    before: [...providersOf(app), ...(await withheldOf(app))],
  });
  const stopped = await stopOnRefusal(app.pool, report, app.log);
  for (const finding of report.findings) {
    if (finding.level !== 'ok') app.log.warn({ ...finding, stopped }, 'the doctor found something');
  }
  return report;
}

function providersOf(app: App | null): Finding[] {
  const production = app?.config.production === true;
  return [
    ...(app?.banks ?? []).map((bank) => examineBank(bank, production)),
    ...(app?.escrows ?? []).map((escrow) => examineEscrow(escrow, production)),
  ];
}

/** What an earlier configuration has sealed and this one neither sends nor, at another address, finds. */
async function withheldOf(app: App | null): Promise<Finding[]> {
  if (app === null) return [];
  const all = await countWithheld(app.pool, app.engine.rails.values());
  return all.map(({ rail, count, first, why }) => ({
    name: 'withheld',
    level: 'warn',
    found: `${rail} holds back ${count} payments under way (first: effect ${first}): ${why}`,
    hint: 'Configure what they were sealed for until they have ended, then change it.',
  }));
}

function railsOf(app: App): DoctorOptions['rails'] {
  const by = { deployment: app.config.deployment, ports: app.ports, log: app.log };
  return [
    ...askChains(app),
    ...app.banks.map((bank) => ({ name: bank.rail.name, ask: () => reachBank(bank) })),
    ...app.escrows.map((escrow) => ({ name: escrow.rail.name, ask: () => askEscrow(escrow, by) })),
  ];
}

function worksOf(app: App): { rails: readonly string[]; subjectTypes: readonly string[] } {
  return { rails: [...app.engine.rails.keys()], subjectTypes: [...app.engine.flows.keys()] };
}

/** Wallets of the configuration, of the database (beside `payonce up`, say) and of the keystore. */
async function developmentWallets(config: Config, url: string): Promise<string[]> {
  const chains = [...config.chains, ...config.tron];
  const configured = chains.flatMap((chain) => chain.assets.flatMap((asset) => asset.wallet ?? []));
  const all = [...configured, ...(await registeredWallets(url)), ...(await developmentKeysOf(config).catch(() => []))];
  return developmentAddresses([...new Set(all.map((wallet) => (/^0x/i.test(wallet) ? wallet.toLowerCase() : wallet)))]);
}

async function registeredWallets(url: string): Promise<string[]> {
  if (!(await schemaFits(url))) return [];
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  try {
    const { rows } = await pool.query<{ address: string }>('select distinct address from payonce.signers');
    return rows.map((row) => row.address);
  } finally {
    await pool.end();
  }
}

/** Keys of the keystore that everybody knows; throws where it does not open. Nothing is made. */
export async function developmentKeysOf(config: Config): Promise<string[]> {
  const { keystore } = config;
  if (keystore === null || !existsSync(keystore.folder)) return [];
  const opened = await openKeyFiles(keystore.folder, keystore.passphrase, systemPorts().chance);
  return developmentAddresses(opened.addresses());
}

/** What `serve` would refuse although every setting is well formed, in the words in which it would. */
export async function checkConfig(config: Config): Promise<void> {
  const faults = configFaults(config);
  if (faults.length > 0) throw new PayonceError('PO_CONFIG_INVALID', { detail: faults.join('\n') });
  let known: string[];
  try {
    known = await developmentKeysOf(config);
  } catch (error) {
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: `PAYONCE_KEYSTORE: ${error instanceof Error ? error.message : 'it does not open'}`,
    });
  }
  if (config.production && known.length > 0)
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: `PAYONCE_KEYSTORE: everybody knows the keys of ${known.join(', ')}; refused in production`,
    });
}
