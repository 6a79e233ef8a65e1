/**
 * The simulated TRON of the development start: two nodes over one chain with a block each half second, USDT whose transfer
 * answers `false`, as the real one does, and strangers whose transactions are in every other block.
 *
 * Promises: what moved is seen in the chain's own books, apart from ours. The first broadcast is lost on its way back after it
 * was taken, and some later ones. Never: anything for production. It is not kept: each start makes a new network, with a name
 * and assets of its own, so that nothing of an earlier one can be paid on it.
 */
import { devKeys } from '../rails/dev-keys.ts';
import { canonicalAddress } from '../rails/tron/index.ts';
import { startTron, type Tron } from '../../sim/tron/tron.ts';
import type { TronConfig } from './config.ts';

const TRX = 1_000_000n;
/** Forty blocks until a transaction expires: twenty seconds. */
const BLOCK_MS = 500;
const SLOT_MS = 3_000;
/** Solid after two seconds, where the real chain takes a minute. */
const SOLID_LAG_BLOCKS = 4;
const LOST_LATER = 0.1;
export const TRON_USDT = 'USDT-TRC20';
export const TRON_WALLET_TOKENS = 1_000_000n * TRX;
export const TRON_WALLET_SUN = 10_000n * TRX;
/** What the demo's partner has from the start. */
export const TRON_PARTNER_TOKENS = 1_000n * TRX;
const CUSTOMER_TOKENS = 1_000_000n * TRX;
/** More than a payment of USDT ever burns without energy of its own. */
const BURN_MAX_SUN = 30n * TRX;
const FEE_LIMIT_SUN = 100n * TRX;

export interface DevTron {
  readonly tron: Tron;
  readonly token: string;
  readonly wallet: string;
  /** Pays in, and moves a little in every other block. */
  readonly customer: string;
}

/** Everything started is given to `standing`. */
export async function startDevTron(standing: AsyncDisposableStack): Promise<DevTron> {
  const [wallet = '', , , , , customer = '', other = ''] = devKeys().map(({ address }) => canonicalAddress(address));
  const lost = { on: 'broadcast', fault: { kind: 'lose_answer' } } as const;
  const tron = standing.adopt(
    await startTron({
      seed: 'payonce up',
      pace: BLOCK_MS,
      solidLagBlocks: SOLID_LAG_BLOCKS,
      nodes: [{ name: 'a' }, { name: 'b' }],
      faults: [
        { ...lost, hitsMax: 1 },
        { ...lost, chance: LOST_LATER },
      ],
    }),
    (one) => one.stop(),
  );
  const token = tron.deployToken();
  tron.fund(wallet, TRON_WALLET_SUN);
  tron.fundToken(token, wallet, TRON_WALLET_TOKENS);
  tron.fund(customer, 100n * TRON_WALLET_SUN);
  tron.fundToken(token, customer, CUSTOMER_TOKENS);
  tron.fund(other, TRX);
  const busy = (): void => {
    tron.act(customer, { kind: 'send', to: other, sun: 1n });
    tron.after(2 * SLOT_MS, busy);
  };
  busy();
  return { tron, token, wallet, customer };
}

export function tronConfig({ tron, token, wallet }: DevTron): TronConfig {
  const limits = { min: '0.01', max: '100000', dayMax: '1000000', feeBasisPoints: 0 };
  return {
    network: `local-${tron.genesisId.slice(-8)}`,
    genesisId: tron.genesisId,
    nodes: tron.nodes.map((node, index) => ({ url: node.url, operator: `local-${index + 1}` })),
    feeLimitCapSun: String(FEE_LIMIT_SUN),
    energy: { burnUpToSun: String(BURN_MAX_SUN) },
    lookEveryMs: 500,
    resendAfterMs: 2_000,
    assets: [
      {
        code: TRON_USDT,
        contract: token,
        decimals: 6,
        wallet,
        ownAddress: 'allow_deposit_addresses',
        withdrawal: { ...limits, feeFlat: '1' },
        deposit: { feeFlat: '0', feeBasisPoints: 10 },
      },
      { code: 'TRX', contract: null, decimals: 6, wallet, withdrawal: { ...limits, feeFlat: '0' } },
    ],
  };
}
