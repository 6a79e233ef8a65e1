/**
 * Networks of TRON as they are configured: what the file says, with the keys from the environment, and every fault with its
 * field. Keys are functions here, and print as such.
 */
import { energyConfigFaults } from '../rails/energy/config.ts';
import { energyMarket } from '../rails/energy/market.ts';
import type { WrittenTron } from './config-tron-shape.ts';

type WrittenMarket = NonNullable<NonNullable<WrittenTron['energy']>['market']>;

export interface TronMarket extends Omit<WrittenMarket, 'secretFrom'> {
  readonly secret: () => string;
}

export interface TronConfig extends Omit<WrittenTron, 'nodes' | 'energy'> {
  readonly nodes: readonly (Omit<WrittenTron['nodes'][number], 'keyFrom'> & { readonly key?: () => string })[];
  readonly energy?: Omit<NonNullable<WrittenTron['energy']>, 'market'> & { readonly market?: TronMarket };
}

/** Reads the keys of networks that have the file's shape; all faults are added. */
export function readTron(
  written: readonly WrittenTron[],
  from: { readonly text: (name: string) => string | null; readonly deployment: string },
  faults: string[],
): TronConfig[] {
  const markets = new Set<string>();
  return written.map((network, index) => {
    const fault = (field: string, why: string): void =>
      void faults.push(`PAYONCE_CONFIG: tron[${index}].${field}: ${why}`);
    const secretOf = (field: string, name: string): (() => string) => {
      const secret = from.text(name);
      if (secret === null) fault(field, `${name} is not set in the environment`);
      else if (!/^[\x21-\x7E]+$/.test(secret)) fault(field, `${name} holds something else than one word of ASCII`);
      return () => secret ?? '';
    };
    const { nodes, energy, ...rest } = network;
    if (written.findIndex((one) => one.network === network.network) < index)
      fault('network', `another one is named "${network.network}" already`);
    if (written.findIndex((one) => one.genesisId === network.genesisId) < index)
      fault('genesisId', 'another network has this one already');
    const market = energy?.market;
    const read = market === undefined ? {} : { market: readMarket(market, from.deployment, fault, secretOf) };
    if (market !== undefined && markets.has(market.name))
      fault('energy.market.name', `another market is named "${market.name}" already`);
    if (market !== undefined) markets.add(market.name);
    return {
      ...rest,
      nodes: nodes.map(({ keyFrom, ...node }, at) => ({
        ...node,
        ...(keyFrom === undefined ? {} : { key: secretOf(`nodes[${at}].keyFrom`, keyFrom) }),
      })),
      ...(energy === undefined ? {} : { energy: { ...withoutMarket(energy), ...read } }),
    };
  });
}

function withoutMarket({ giveUpAfterMs, burnUpToSun }: NonNullable<WrittenTron['energy']>) {
  return {
    ...(giveUpAfterMs === undefined ? {} : { giveUpAfterMs }),
    ...(burnUpToSun === undefined ? {} : { burnUpToSun }),
  };
}

function readMarket(
  written: WrittenMarket,
  deployment: string,
  fault: (field: string, why: string) => void,
  secretOf: (field: string, name: string) => () => string,
): TronMarket {
  const { secretFrom, ...market } = written;
  const secret = secretOf('energy.market.secretFrom', secretFrom);
  const { name, baseUrl, account } = market;
  for (const one of energyConfigFaults({ name, profile: energyMarket, baseUrl, account, secret, deployment }))
    fault(`energy.market.${one.field}`, one.why);
  return { ...market, secret };
}
