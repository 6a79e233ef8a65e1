/** The chains as reconciliation sees them: each node's own blocks and balances, and how an address is written there. */
import type { ReconciledChain } from '../audit/reconcile/chain-read.ts';
import type { App } from './wire.ts';

export function reconciledChains(app: Pick<App, 'chains'>): ReconciledChain[] {
  return app.chains.map(({ chain, rail, agreeing, canonical }) => ({
    chain,
    rail: rail.name,
    nodes: rail.blocks,
    ...(agreeing === undefined ? {} : { agreeing }),
    canonical,
  }));
}
