/** Metrics for a scraper: what the tables say (`audit/gauges.ts`), what this process did, and how it answered. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type Gauge as TableGauge, GAUGES, type GaugeName, loadGauges } from '../audit/gauges.ts';
import { makeTradeLatency } from '../audit/trade-latency.ts';
import type { ApiDeps } from './deps.ts';
import { GAUGES_AGE_MS_MAX } from './limits.ts';

export interface Metrics {
  readonly contentType: string;
  print(): Promise<string>;
  /** One request was answered. `route` is the pattern, never the path: ids are no labels. */
  answered(route: string, method: string, status: number, seconds: number): void;
}

const LABELS: Partial<Record<GaugeName, string>> = {
  effects_pending: 'rail',
  effects_pending_oldest_seconds: 'rail',
  effects_sealed: 'rail',
  effects_sealed_oldest_seconds: 'rail',
  effects_in_doubt: 'rail',
  effects_contradicted: 'rail',
  effects_staying: 'rail',
  signers_quarantined: 'rail',
  cases_open: 'severity',
  alerts_open: 'kind',
  effects_needing: 'kind',
  supplies_open: 'kind',
  wallet_seconds_left: 'wallet',
  p2p_orders: 'state',
  p2p_orders_oldest_seconds: 'state',
};

export function makeMetrics(deps: Pick<ApiDeps, 'pool' | 'engine' | 'ports'>): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const tables = new Map(
    Object.entries(GAUGES).map(([name, help]) => {
      const label = LABELS[name as GaugeName];
      return [
        name,
        new Gauge({ name: `payonce_${name}`, help, labelNames: label === undefined ? [] : [label], registers }),
      ];
    }),
  );
  const requests = new Histogram({
    name: 'payonce_http_request_seconds',
    help: 'Time to answer, per route',
    labelNames: ['route', 'method', 'status'],
    buckets: [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  const trades = new Histogram({
    name: 'payonce_lp_trade_seconds',
    help: 'From the first request for a trade until the provider showed it, per rail; each trade once, since this process began',
    labelNames: ['rail'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300],
    registers,
  });
  const latency = makeTradeLatency(deps.pool);
  const shown = new Set<string>();
  counted(registers, 'payonce_engine_total', 'What the engine of this process did', () => ({
    ...deps.engine.counters,
  }));
  counted(registers, 'payonce_database_total', 'What this process asked of the database', () => ({
    ...deps.pool.counts,
  }));

  let last: { readonly atMs: number; readonly found: Promise<TableGauge[]> } | undefined;
  /** Scrapers that come together, or every moment, cost one statement. */
  function recentGauges(): Promise<TableGauge[]> {
    const nowMs = deps.ports.clock.monotonicMs();
    if (last === undefined || nowMs - last.atMs > GAUGES_AGE_MS_MAX) last = { atMs: nowMs, found: readTables() };
    return last.found;
  }

  async function readTables(): Promise<TableGauge[]> {
    const [found, { rails, fresh }] = await Promise.all([loadGauges(deps.pool), latency.read()]);
    for (const rail of rails) {
      // Once: to zero it is to forget what it counted.
      if (!shown.has(rail)) trades.zero({ rail });
      shown.add(rail);
    }
    for (const { rail, seconds } of fresh) trades.observe({ rail }, seconds);
    return found;
  }

  return {
    contentType: registry.contentType,
    async print() {
      const found = await recentGauges();
      for (const gauge of tables.values()) gauge.reset();
      for (const one of found) tables.get(one.name)?.set({ ...one.labels }, one.value);
      return registry.metrics();
    },
    answered: (route, method, status, seconds) => requests.observe({ route, method, status }, seconds),
  };
}

/** Counters that are kept elsewhere, read at each scrape. */
function counted(registers: Registry[], name: string, help: string, read: () => Record<string, number>): void {
  const counter: Counter = new Counter({
    name,
    help,
    labelNames: ['what'],
    registers,
    collect() {
      counter.reset();
      for (const [what, value] of Object.entries(read())) counter.inc({ what }, value);
    },
  });
}
