/**
 * The doctor with what this configuration has: its rails, its keys, its flows. `examine` is `payonce doctor` and wires for
 * itself; `examineApp` is for a server that has wired already, and stops its seals where the doctor refuses.
 */
import { type DoctorReport, runDoctor, stopOnRefusal } from '../audit/doctor.ts';
import type { Finding } from '../audit/finding.ts';
import { schemaFits } from '../db/migrate.ts';
import type { Log } from '../kernel/log.ts';
import { systemPorts } from '../kernel/ports.ts';
import { isDevKey } from '../rails/evm/index.ts';
import type { Config } from './config.ts';
import { type App, wire, type WiredChain } from './wire.ts';

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
      developmentKeys: developmentWallets(config),
      // Beside `payonce up` the chains are not in our configuration: what is in flight on them is its business.
      works: app === null || (config.chains.length === 0 && !config.production) ? null : worksOf(app),
      rails: app === null ? [] : app.chains.map(railOf),
      before,
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
    developmentKeys: developmentWallets(app.config),
    works: worksOf(app),
    rails: app.chains.map(railOf),
  });
  const stopped = await stopOnRefusal(app.pool, report, app.log);
  for (const finding of report.findings) {
    if (finding.level !== 'ok') app.log.warn({ ...finding, stopped }, 'the doctor found something');
  }
  return report;
}

function worksOf(app: App): { rails: readonly string[]; subjectTypes: readonly string[] } {
  return { rails: [...app.engine.rails.keys()], subjectTypes: [...app.engine.flows.keys()] };
}

function developmentWallets(config: Config): string[] {
  const wallets = config.chains.flatMap((chain) => chain.assets.flatMap((asset) => asset.wallet ?? []));
  return [...new Set(wallets.map((wallet) => wallet.toLowerCase()))].filter(isDevKey);
}

function railOf(chain: WiredChain): { name: string; ask(): Promise<{ ok: boolean; found: string }> } {
  return {
    name: chain.rail.name,
    async ask() {
      const heads = await Promise.all(
        chain.rail.blocks.map(async (node) => ({ source: node.source, head: await node.finalizedHead() })),
      );
      const up = heads.filter(({ head }) => head.ok).length;
      const found = heads
        .map(
          ({ source, head }) => `${source} ${head.ok ? `is final up to ${head.value.number}` : `fails: ${head.fault}`}`,
        )
        .join('; ');
      return { ok: up === heads.length, found: `${up} of ${heads.length} nodes answer: ${found}` };
    },
  };
}
