/**
 * Routes of the development start alone: a customer who pays in on a local chain, a withdrawal beside the receiver's
 * balance read from that chain, a transfer beside what arrived by the bank's own books, and a buyer's order beside the trades of the
 * liquidity provider's own book. They wait, so that a few pasted lines tell the whole story.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { callerOf, makeAuthenticate } from '../api/auth.ts';
import { makeKeyReader } from '../api/keys.ts';
import { loadHistory } from '../engine/order-store.ts';
import { createDepositAddress, listDeposits, toDepositData } from '../flows/deposits/index.ts';
import { listDepositOrders } from '../flows/p2p/reads.ts';
import { toDepositView } from '../flows/p2p/view.ts';
import { loadFate, readTransferById } from '../flows/transfers/store.ts';
import { toDetail as toTransferDetail } from '../flows/transfers/view.ts';
import { readWithdrawal } from '../flows/withdrawals/store.ts';
import { toDetail } from '../flows/withdrawals/view.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits, parseAmount } from '../kernel/money.ts';
import type { Bank } from '../../sim/bank/bank.ts';
import type { Escrow } from '../../sim/escrow/escrow.ts';
import { nativeBalance, sendAndMine, tokenBalance, transferData } from '../../sim/evm-send.ts';
import type { DevChain } from './dev-chain.ts';
import { type DevTron, TRON_USDT } from './dev-tron.ts';
import type { App, WiredChain } from './wire.ts';

/** Finality here is two blocks of a second; a lost answer adds a few. */
const WAIT_MS_MAX = 30_000;
const DECIMALS = { USDT: 6, ETH: 18, [TRON_USDT]: 6, TRX: 6 } as const;
type DevAsset = keyof typeof DECIMALS;
const isOnTron = (asset: DevAsset): boolean => asset === TRON_USDT || asset === 'TRX';
const Deposit = Type.Object(
  {
    amount: Type.String({ description: 'decimal text' }),
    asset: Type.Optional(Type.Enum(['USDT', 'ETH', TRON_USDT, 'TRX'])),
    user_ref: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
    address: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  },
  { additionalProperties: false },
);
interface DepositBody {
  readonly amount: string;
  readonly asset?: DevAsset;
  readonly user_ref?: string;
  readonly address?: string;
}
type Hook = ReturnType<typeof makeAuthenticate>;
/** Not part of the API's document. */
const HIDDEN: object = { hide: true };

/** What stands outside, and has books of its own. */
export interface DevStage {
  readonly chain: DevChain;
  readonly tron: DevTron;
  readonly bank: Bank;
  readonly escrow: Escrow;
}

export function addDevRoutes(server: FastifyInstance, app: App, stage: DevStage): void {
  const { chain, tron, bank, escrow } = stage;
  /** Any partner's key will do: what is made here belongs to the partner who asks. */
  const onRequest = makeAuthenticate(makeKeyReader(app.pool));

  server.post<{ Body: DepositBody }>(
    '/dev/deposits',
    { onRequest, schema: { ...HIDDEN, body: Deposit } },
    async (request) => {
      const { partnerId } = callerOf(request);
      const { asset = 'USDT', address: asked, user_ref: userRef } = request.body;
      const amount = parseAmount(request.body.amount, DECIMALS[asset]);
      if (!amount.ok || amount.units === 0n)
        throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: request.body.amount });
      const wired = app.chains[isOnTron(asset) ? 1 : 0];
      if (wired === undefined) throw new PayonceError('PO_INTERNAL');
      if (asked !== undefined && userRef !== undefined)
        throw new PayonceError('PO_REQUEST_INVALID', {
          pointer: '/address',
          detail: 'Give address or user_ref, not both',
        });
      const address =
        asked === undefined
          ? await addressFor(app, wired, partnerId, userRef ?? 'demo-user')
          : await ownAddress(app, wired, partnerId, asked);
      const hash = await payIn(chain, tron, asset, address, amount.units);
      app.wake();
      return until(async () => {
        const page = await listDeposits(app.pool, partnerId, { limit: 20 });
        const deposit = page.outcome === 'page' ? page.items.find((one) => one.txHash === hash) : undefined;
        if (deposit?.state !== 'credited') return null;
        const id = wired.assets.find((one) => one.code === asset)?.id ?? '';
        return { deposit: toDepositData(deposit), balance: await balanceOf(app, partnerId, id, DECIMALS[asset]) };
      });
    },
  );

  server.get<{ Params: { external: string } }>(
    '/dev/withdrawals/:external',
    { onRequest, schema: HIDDEN },
    async (request) => {
      const { partnerId } = callerOf(request);
      return until(async () => {
        const { rows } = await app.pool.query<{ id: string; code: string }>(WITHDRAWAL, [
          partnerId,
          request.params.external,
        ]);
        const found = rows[0];
        const withdrawal = found === undefined ? null : await readWithdrawal(app.pool, partnerId, found.id);
        if (withdrawal === null) throw new PayonceError('PO_NOT_FOUND');
        if (['pending', 'processing', 'sent'].includes(withdrawal.status)) return null;
        const asset = found?.code as DevAsset;
        const shown = await shownOnChain(chain, tron, asset, withdrawal.destination);
        return {
          withdrawal: toDetail(withdrawal, await loadHistory(app.pool, 'withdrawal', withdrawal.id)),
          receiver_balance_on_chain: formatUnits(shown, DECIMALS[asset]),
          // What the nodes swallowed since this start, whoever asked: the reason why all this exists.
          answers_lost: isOnTron(asset)
            ? (tron.tron.counts.lose_answer ?? 0)
            : chain.nodes.reduce((sum, node) => sum + (node.counts.lose_answer ?? 0), 0),
        };
      });
    },
  );

  server.get<{ Params: { external: string } }>(
    '/dev/transfers/:external',
    { onRequest, schema: HIDDEN },
    async (request) => {
      const { partnerId } = callerOf(request);
      return until(async () => {
        const { rows } = await app.pool.query<{ id: string }>(TRANSFER, [partnerId, request.params.external]);
        const transfer = rows[0] === undefined ? null : await readTransferById(app.pool, partnerId, rows[0].id);
        if (transfer === null) throw new PayonceError('PO_NOT_FOUND');
        if (['pending', 'processing'].includes(transfer.status)) return null;
        const history = await loadHistory(app.pool, 'transfer', transfer.id);
        // The bank writes an account number without its dashes.
        const receiver = `${transfer.bankCode}:${transfer.accountNumber.replaceAll('-', '')}`;
        return {
          transfer: toTransferDetail(transfer, history, await loadFate(app.pool, transfer.id)),
          receiver_balance_at_bank: formatUnits(
            await bank.books.balance(receiver, transfer.assetCode),
            transfer.decimals,
          ),
          // What the bank did and never told, since this start and whoever asked: the reason why all this exists.
          answers_lost: bank.counts.lose_answer ?? 0,
        };
      });
    },
  );

  addOrderRoute(server, app, escrow, onRequest);
}

/** A buyer's order once it is over, and what the provider's own book shows of its trades. */
function addOrderRoute(server: FastifyInstance, app: App, escrow: Escrow, onRequest: Hook): void {
  server.get<{ Params: { external: string } }>('/dev/p2p/:external', { onRequest, schema: HIDDEN }, async (request) => {
    const { partnerId } = callerOf(request);
    const filter = { before: null, statuses: null, externalId: request.params.external, limit: 1 };
    return until(async () => {
      const [found] = await listDepositOrders(app.pool, partnerId, filter);
      if (found === undefined) throw new PayonceError('PO_NOT_FOUND');
      const { order, legs, sellers } = found;
      if (order.closedAt === null) return null;
      return {
        order: toDepositView(order, legs, sellers),
        balance: await balanceOf(app, partnerId, order.assetId, order.decimals),
        trades_at_provider: legs.flatMap((leg) =>
          escrow.book.of(leg.id).map(({ id, reference, amount, stage, releasedAmount }) => ({
            id,
            reference,
            amount,
            state: stage,
            released_amount: releasedAmount,
          })),
        ),
        // What the provider did and never told, since this start and whoever asked: the reason why all this exists.
        answers_lost: escrow.counts.lose_answer ?? 0,
      };
    });
  });
}

/** By the customer of that chain; answers the transaction's hash. */
async function payIn(chain: DevChain, tron: DevTron, asset: DevAsset, to: string, units: bigint): Promise<string> {
  if (asset === 'TRX') return tron.tron.act(tron.customer, { kind: 'send', to, sun: units });
  if (asset === TRON_USDT) return tron.tron.act(tron.customer, { kind: 'send_token', token: tron.token, to, units });
  const customer = chain.anvil.accounts[5];
  if (customer === undefined) throw new PayonceError('PO_INTERNAL');
  const receiver = to as `0x${string}`;
  const receipt = await sendAndMine(
    chain.anvil,
    customer.privateKey,
    asset === 'ETH' ? { to: receiver, value: units } : { to: chain.token, data: transferData(receiver, units) },
  );
  return receipt['transactionHash'] as string;
}

/** Units that the chain itself shows at an address. */
async function shownOnChain(chain: DevChain, tron: DevTron, asset: DevAsset, at: string): Promise<bigint> {
  if (isOnTron(asset)) return tron.tron.books.balanceAt(at, asset === 'TRX' ? 'native' : tron.token);
  const receiver = at as `0x${string}`;
  return asset === 'ETH' ? nativeBalance(chain.anvil, receiver) : tokenBalance(chain.anvil, chain.token, receiver);
}

const TRANSFER = `select id
from payonce.transfers
where partner_id = $1
  and external_id = $2`;

const WITHDRAWAL = `select w.id, a.code
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
where w.partner_id = $1
  and w.external_id = $2`;

const OWN_ADDRESS = `select address
from payonce.addresses
where chain = $1
  and kind = 'DEPOSIT'
  and partner_id = $2
  and address = $3`;

async function addressFor(app: App, wired: WiredChain, partnerId: string, userRef: string): Promise<string> {
  const { address } = await createDepositAddress(
    { pool: app.pool, makeId: app.engine.makeId, newAddress: () => app.newDepositAddress(wired.chain) },
    { partnerId, chain: wired.chain, userRef, reuse: true },
  );
  return address.address;
}

async function ownAddress(app: App, wired: WiredChain, partnerId: string, asked: string): Promise<string> {
  const { rows } = await app.pool.query<{ address: string }>(OWN_ADDRESS, [
    wired.chain,
    partnerId,
    wired.canonical(asked) ?? asked,
  ]);
  if (rows[0] === undefined)
    throw new PayonceError('PO_ADDRESS_INVALID', {
      pointer: '/address',
      got: asked,
      expected: 'one of your deposit addresses (GET /v1/addresses)',
    });
  return rows[0].address;
}

async function balanceOf(
  app: App,
  partnerId: string,
  asset: string,
  decimals: number,
): Promise<{ available: string; held: string }> {
  const { rows } = await app.pool.query<{ balance: bigint; held: bigint }>(
    'select balance, held from payonce.accounts where partner_id = $1 and asset_id = $2',
    [partnerId, asset],
  );
  const { balance, held } = rows[0] ?? { balance: 0n, held: 0n };
  return { available: formatUnits(balance - held, decimals), held: formatUnits(held, decimals) };
}

async function until<T>(look: () => Promise<T | null>): Promise<T> {
  for (let waited = 0; waited < WAIT_MS_MAX; waited += 200) {
    const found = await look();
    if (found !== null) return found;
    await sleep(200);
  }
  throw new PayonceError('PO_BUSY', { detail: 'It has not happened within 30 seconds; ask again' });
}
