/**
 * The development start's market: a group of two partners who buy from and sell to each other, the partner whose key is printed,
 * and a simulated liquidity provider for what they do not fill.
 *
 * Promises: a trade that was released is seen in the provider's own book, apart from ours. It answers slowly when a trade is opened;
 * the first of those answers is lost after the trade was opened, and some later ones. With a data folder it keeps its address, and
 * its new book begins with the trades that our rows say stand there.
 * Never: anything for production.
 */
import { randomBytes } from 'node:crypto';
import { type Escrow, startEscrow } from '../../sim/escrow/escrow.ts';
import type { Tx } from '../db/pool.ts';
import { postingKey } from '../kernel/ids.ts';
import { formatUnits } from '../kernel/money.ts';
import { accountName } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { type EscrowConfig, escrowRail } from './config-p2p.ts';
import type { WrittenGroup } from './config-p2p-shape.ts';
import { readPlace } from './dev-place.ts';
import type { App } from './wire.ts';

/** They trade with each other all the time; the printed key's partner joins them. */
export const DEMO_TRADERS = ['par_demo_east', 'par_demo_west'] as const;
/** What each has from the start; it goes round between them. */
const TRADER_TOKENS = 50_000_000_000n;
export const DEMO_GROUP = 'demo';
const NAME = 'demo';
const ASSET = 'USDT';
export const DEMO_FIAT = 'KRW';
const STATE_FILE = 'escrow.json';
/** As a provider that looks for a counterparty first. */
const OPENS_MS = 1_500;
const LOST_FIRST = [1];
const LOST_LATER = 0.15;
/** From open to paid to released; and each so-manieth that nobody pays. */
const AUTO = { payAfterMs: 2_000, releaseAfterMs: 1_500, everyExpired: 7 };
/** Named as the configuration names sources whose notices are hints about trades. */
const SOURCE = 'escrow-demo';

/** Where the provider tells of its trades: a source of ours with a secret of this start. */
export interface DevMarket {
  readonly escrow: Escrow;
  readonly inbound: { readonly name: string; readonly secrets: readonly string[] };
  /** Once the API listens. */
  listenAt(apiUrl: string): void;
}

/** Everything started is given to `standing`. */
export async function startDevMarket(standing: AsyncDisposableStack, dataFolder: string | null): Promise<DevMarket> {
  const place = await readPlace(dataFolder, STATE_FILE);
  const lost = { on: 'create', fault: { kind: 'lose_answer' } } as const;
  const escrow = standing.adopt(
    await startEscrow({
      seed: `payonce up ${place.starts}`,
      latencyMs: { create: OPENS_MS },
      auto: AUTO,
      ...(place.port === null ? {} : { port: place.port }),
      faults: [
        { ...lost, calls: LOST_FIRST },
        { ...lost, chance: LOST_LATER },
      ],
    }),
    (one) => one.stop(),
  );
  await place.keep(escrow.port);
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  return {
    escrow,
    inbound: { name: SOURCE, secrets: [secret] },
    listenAt: (apiUrl) => escrow.webhooks.sendTo({ url: `${apiUrl}/v1/inbound/${SOURCE}`, secret }),
  };
}

export function escrowConfig({ escrow }: DevMarket): EscrowConfig {
  return {
    name: NAME,
    profile: 'standard',
    baseUrl: escrow.url,
    account: 'demo',
    credential: { id: 'demo', secret: () => escrow.secret },
    direct: true,
    lookEveryMs: 1_000,
    resendAfterMs: 2_500,
  };
}

export const DEMO_MARKET: WrittenGroup = {
  name: DEMO_GROUP,
  markets: [
    {
      asset: ASSET,
      fiat: DEMO_FIAT,
      fiatDecimals: 0,
      orderMin: '10',
      orderMax: '5000',
      legMin: '10',
      feeBasisPoints: 25,
      payWithinMinutes: 1,
      orderForMinutes: 5,
    },
  ],
  routes: [{ escrow: NAME, asset: ASSET, fiat: DEMO_FIAT, priority: 1, min: '10', max: '2000' }],
};

const PARTNER = `insert into payonce.partners (id, name, time_zone)
values ($1, $2, 'UTC')
on conflict (id) do nothing`;
const MEMBER = `insert into payonce.p2p_members (partner_id, group_name)
values ($1, $2)
on conflict (partner_id) do nothing`;

/** Who trades, and what they have: out of what the treasury had. Once, however often it is asked. */
export async function seedTraders(tx: Tx, app: App, assetId: string, demoPartner: string): Promise<void> {
  for (const partner of DEMO_TRADERS) await tx.query(PARTNER, [partner, `Demo trader ${partner.slice(9)}`]);
  for (const partner of [...DEMO_TRADERS, demoPartner]) await tx.query(MEMBER, [partner, DEMO_GROUP]);
  const [treasury, ...owed] = await app.engine.chart.ids(tx, [
    accountName.treasury(assetId),
    ...DEMO_TRADERS.map((partner) => accountName.partner(partner, assetId)),
  ]);
  if (treasury === undefined) throw new Error('an account is missing');
  await post(tx, [
    {
      kind: 'post',
      key: postingKey.migrated(`opening:traders:${assetId.slice(-40)}`),
      reference: 'opening balance',
      entries: [
        { accountId: treasury, amount: -TRADER_TOKENS * BigInt(owed.length) },
        ...owed.map((accountId) => ({ accountId, amount: TRADER_TOKENS })),
      ],
    },
  ]);
}

const STANDING = `select e.accepted_object as id, g.id as reference, a.code as asset, a.decimals, g.amount, o.fiat, o.fiat_decimals, g.fiat_amount
from payonce.effects e
join payonce.p2p_legs g on g.id = e.subject_id
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
join payonce.assets a on a.id = o.asset_id
where e.subject_type = 'p2p_leg'
  and e.state = 'SEALED'
  and e.rail = $1
  and e.accepted_object is not null`;

/** A run that is kept has trades open: the provider's new book begins with those that it had told us of. */
export async function resumeTrades(app: App, { escrow }: DevMarket): Promise<void> {
  const { rows } = await app.pool.query<{
    id: string;
    reference: string;
    asset: string;
    decimals: number;
    amount: bigint;
    fiat: string;
    fiat_decimals: number;
    fiat_amount: bigint;
  }>(STANDING, [escrowRail(NAME)]);
  escrow.carryOver(
    rows.map(({ id, reference, asset, decimals, amount, fiat, fiat_decimals, fiat_amount }) => ({
      id,
      reference,
      asset,
      amount: formatUnits(amount, decimals),
      fiat,
      fiatAmount: formatUnits(fiat_amount, fiat_decimals),
      // Of the first book: nobody compares them.
      key: null,
      price: '0',
      payBy: new Date().toISOString(),
    })),
  );
}
