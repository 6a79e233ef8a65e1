/**
 * A little live traffic for the development start's market: its two partners sell, buy and confirm by themselves, so that a
 * newcomer's order finds somebody and the lists have something to show.
 *
 * Promises: the same commands as the API's, under keys of its own; what sellers are paid is confirmed after a moment, most of it (one
 * leg in six nobody pays: it expires). What the printed key's partner buys is always confirmed.
 * Never: more than a few orders a minute, an order that needs a person.
 */
import { createDepositOrders, createWithdrawOrders, confirmLeg } from '../flows/p2p/index.ts';
import { formatUnits } from '../kernel/money.ts';
import { type Loop, startLoop } from '../worker/loop.ts';
import { DEMO_FIAT, DEMO_TRADERS } from './dev-p2p.ts';
import type { App } from './wire.ts';

const EVERY_MS = 1_000;
/** A buyer comes by each so many passes, as often as there is something to see and the lists stay short. */
const BUYS_EVERY = 12;
/** From matched to paid, as people who pay at once. */
const PAYS_MS = 1_500;
/** So many of each partner's sellers wait for buyers, each with this much. */
const SELLERS_OPEN = 1;
const SELLS_UNITS = 120_000_000n;
/** Fiat per whole unit, in 10^-12: what sellers ask at least, and buyers pay at most. */
const PRICE_UNITS = 10n ** 12n;
const ASKED = 1_380n * PRICE_UNITS;
const PAID = 1_400n * PRICE_UNITS;
/** What buyers want, in turn: less than a seller has, more than both have (the provider fills the rest). */
const WANTED_UNITS = [25_000_000n, 80_000_000n, 310_000_000n, 45_500_000n, 150_000_000n];

const OPEN_SELLERS = `select partner_id, count(*)::int as count
from payonce.p2p_withdraw_orders
where partner_id = any ($1::text[])
  and status = 'OPEN'
  and amount - reserved - settled - given_back >= leg_min
group by partner_id`;

// The sixth of them by the last character of its id: nobody pays it.
const PAYABLE = `select g.id, w.partner_id, g.fiat_amount, o.fiat_decimals
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
join payonce.p2p_withdraw_orders w on w.id = g.withdraw_order_id
where g.state = 'OPEN'
  and g.disputed_at is null
  and o.status = 'MATCHED'
  and o.matched_at < payonce.now() - make_interval(secs => $2::float8 / 1000)
  and w.partner_id = any ($1::text[])
  and (o.partner_id <> all ($1::text[]) or right(g.id, 1) not in ('0', '1', '2', '3', '4'))
order by g.id
limit 20`;

/** Until it is stopped. */
export function startTraffic(app: App, assetId: string): Loop {
  const run = app.ports.clock.now().getTime();
  let pass = 0;
  return startLoop({
    name: 'demo traffic',
    clock: app.ports.clock,
    log: app.log,
    idleMs: EVERY_MS,
    async runOnce() {
      await sell(app, assetId, `${run}-${pass}`);
      if (pass % BUYS_EVERY === 0) await buy(app, assetId, `${run}-${pass}`, pass / BUYS_EVERY);
      await confirmPaid(app);
      pass += 1;
      return false;
    },
  });
}

const common = (partnerId: string, assetId: string, key: string) => ({
  partnerId,
  idempotencyKey: key,
  fingerprint: key,
  externalId: null,
  assetId,
  fiat: DEMO_FIAT,
  userRef: `user-${key}`,
  forMs: null,
});

async function sell(app: App, assetId: string, name: string): Promise<void> {
  const { rows } = await app.pool.query<{ partner_id: string; count: number }>(OPEN_SELLERS, [DEMO_TRADERS]);
  const open = new Map(rows.map((row) => [row.partner_id, row.count]));
  const lacking = DEMO_TRADERS.filter((partner) => (open.get(partner) ?? 0) < SELLERS_OPEN);
  if (lacking.length === 0) return;
  await createWithdrawOrders(
    app.engine,
    lacking.map((partner) => ({
      ...common(partner, assetId, `sell-${partner}-${name}`),
      amount: SELLS_UNITS,
      price: ASKED,
      bankCode: '004',
      accountNumber: '110-123-0456',
      holderName: 'Kim Minji',
    })),
  );
}

async function buy(app: App, assetId: string, name: string, ordinal: number): Promise<void> {
  const partner = DEMO_TRADERS[ordinal % DEMO_TRADERS.length] ?? DEMO_TRADERS[0];
  const amount = WANTED_UNITS[ordinal % WANTED_UNITS.length] ?? SELLS_UNITS;
  await createDepositOrders(app.engine, [
    { ...common(partner, assetId, `buy-${partner}-${name}`), amount, price: PAID, takesPart: true },
  ]);
  app.wake();
}

async function confirmPaid(app: App): Promise<void> {
  const { rows } = await app.pool.query<{
    id: string;
    partner_id: string;
    fiat_amount: bigint;
    fiat_decimals: number;
  }>(PAYABLE, [DEMO_TRADERS, PAYS_MS]);
  for (const { id, partner_id: partnerId, fiat_amount: units, fiat_decimals: decimals } of rows)
    await confirmLeg(app.pool, app.engine, { partnerId, legId: id, fiatAmount: formatUnits(units, decimals) });
}
