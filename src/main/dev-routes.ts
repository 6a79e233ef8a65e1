/**
 * Routes of the development start alone: a customer who pays in on the local chain, a withdrawal beside the receiver's
 * balance read from that chain, and a transfer beside what arrived by the bank's own books. They wait, so that a few pasted
 * lines tell the whole story.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { callerOf, makeAuthenticate } from '../api/auth.ts';
import { makeKeyReader } from '../api/keys.ts';
import { loadHistory } from '../engine/order-store.ts';
import { createDepositAddress, listDeposits, toDepositData } from '../flows/deposits/index.ts';
import { loadFate, readTransferById } from '../flows/transfers/store.ts';
import { toDetail as toTransferDetail } from '../flows/transfers/view.ts';
import { readWithdrawal } from '../flows/withdrawals/store.ts';
import { toDetail } from '../flows/withdrawals/view.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits, parseAmount } from '../kernel/money.ts';
import type { Bank } from '../../sim/bank/bank.ts';
import { nativeBalance, sendAndMine, tokenBalance, transferData } from '../../sim/evm-send.ts';
import type { DevChain } from './dev-chain.ts';
import type { App, WiredChain } from './wire.ts';

/** Finality here is two blocks of a second; a lost answer adds a few. */
const WAIT_MS_MAX = 30_000;
const DECIMALS = { USDT: 6, ETH: 18 } as const;
const Deposit = Type.Object(
  {
    amount: Type.String({ description: 'decimal text' }),
    asset: Type.Optional(Type.Enum(['USDT', 'ETH'])),
    user_ref: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
    address: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  },
  { additionalProperties: false },
);
interface DepositBody {
  readonly amount: string;
  readonly asset?: 'USDT' | 'ETH';
  readonly user_ref?: string;
  readonly address?: string;
}
/** Not part of the API's document. */
const HIDDEN: object = { hide: true };

export function addDevRoutes(server: FastifyInstance, app: App, chain: DevChain, bank: Bank): void {
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
      const [wired, customer] = [app.chains[0], chain.anvil.accounts[5]];
      if (wired === undefined || customer === undefined) throw new PayonceError('PO_INTERNAL');
      if (asked !== undefined && userRef !== undefined)
        throw new PayonceError('PO_REQUEST_INVALID', {
          pointer: '/address',
          detail: 'Give address or user_ref, not both',
        });
      const address =
        asked === undefined
          ? await addressFor(app, wired, partnerId, userRef ?? 'demo-user')
          : await ownAddress(app, wired, partnerId, asked);
      const receipt = await sendAndMine(
        chain.anvil,
        customer.privateKey,
        asset === 'ETH'
          ? { to: address, value: amount.units }
          : { to: chain.token, data: transferData(address, amount.units) },
      );
      const hash = receipt['transactionHash'];
      app.wake();
      return until(async () => {
        const page = await listDeposits(app.pool, partnerId, { limit: 20 });
        const deposit = page.outcome === 'page' ? page.items.find((one) => one.txHash === hash) : undefined;
        if (deposit?.state !== 'credited') return null;
        const id = asset === 'ETH' ? wired.coinAssetId : wired.assetIdOf(chain.token);
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
        const receiver = withdrawal.destination as `0x${string}`;
        const onChain =
          found?.code === 'ETH'
            ? formatUnits(await nativeBalance(chain.anvil, receiver), DECIMALS.ETH)
            : formatUnits(await tokenBalance(chain.anvil, chain.token, receiver), DECIMALS.USDT);
        return {
          withdrawal: toDetail(withdrawal, await loadHistory(app.pool, 'withdrawal', withdrawal.id)),
          receiver_balance_on_chain: onChain,
          // What the nodes swallowed since this start, whoever asked: the reason why all this exists.
          answers_lost: chain.nodes.reduce((sum, node) => sum + (node.counts.lose_answer ?? 0), 0),
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
  and lower(address) = lower($3)`;

async function addressFor(app: App, wired: WiredChain, partnerId: string, userRef: string): Promise<`0x${string}`> {
  const { address } = await createDepositAddress(
    { pool: app.pool, makeId: app.engine.makeId, newAddress: () => app.newDepositAddress(wired.chain) },
    { partnerId, chain: wired.chain, userRef, reuse: true },
  );
  return address.address as `0x${string}`;
}

async function ownAddress(app: App, wired: WiredChain, partnerId: string, asked: string): Promise<`0x${string}`> {
  const { rows } = await app.pool.query<{ address: string }>(OWN_ADDRESS, [wired.chain, partnerId, asked]);
  if (rows[0] === undefined)
    throw new PayonceError('PO_ADDRESS_INVALID', {
      pointer: '/address',
      got: asked,
      expected: 'one of your deposit addresses (GET /v1/addresses)',
    });
  return rows[0].address as `0x${string}`;
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
