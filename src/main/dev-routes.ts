/**
 * Routes of the development start alone: a customer who pays in on the local chain, and a withdrawal beside the
 * receiver's balance read from that chain. They wait, so that three pasted lines tell the whole story.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { makeKeyReader } from '../api/keys.ts';
import { createDepositAddress, listDeposits, toDepositData } from '../flows/deposits/index.ts';
import { loadHistory, readWithdrawal } from '../flows/withdrawals/store.ts';
import { toDetail } from '../flows/withdrawals/view.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits, parseAmount } from '../kernel/money.ts';
import type { Anvil } from '../../sim/anvil.ts';
import { sendAndMine, tokenBalance, transferData } from '../../sim/evm-send.ts';
import type { App } from './wire.ts';

/** Finality here is two blocks of a second; a lost answer adds a few. */
const WAIT_MS_MAX = 30_000;
const DECIMALS = 6;
/** Not part of the API's document. */
const HIDDEN = { schema: { hide: true } as object };

export function addDevRoutes(
  server: FastifyInstance,
  app: App,
  chain: { anvil: Anvil; token: `0x${string}` },
  partnerId: string,
): void {
  const readKey = makeKeyReader(app.pool);
  const allowed = async (request: FastifyRequest): Promise<void> => {
    const caller = await readKey((request.headers.authorization ?? '').replace(/^Bearer /, ''));
    if (caller.found !== 'partner' || caller.partnerId !== partnerId) throw new PayonceError('PO_AUTH_WRONG');
  };

  server.post<{ Body: { amount?: unknown } }>('/dev/deposits', HIDDEN, async (request) => {
    await allowed(request);
    const amount = parseAmount(request.body.amount, DECIMALS);
    if (!amount.ok || amount.units === 0n)
      throw new PayonceError('PO_AMOUNT_INVALID', { pointer: '/amount', got: String(request.body.amount) });
    const wired = app.chains[0];
    const customer = chain.anvil.accounts[5];
    if (wired === undefined || customer === undefined) throw new PayonceError('PO_INTERNAL');
    const { address } = await createDepositAddress(
      { pool: app.pool, makeId: app.engine.makeId, newAddress: () => app.newDepositAddress(wired.chain) },
      { partnerId, chain: wired.chain, userRef: 'demo-user', reuse: true },
    );
    const receipt = await sendAndMine(chain.anvil, customer.privateKey, {
      to: chain.token,
      data: transferData(address.address as `0x${string}`, amount.units),
    });
    const hash = receipt['transactionHash'];
    app.wake();
    return until(async () => {
      const page = await listDeposits(app.pool, partnerId, { limit: 20 });
      const deposit = page.outcome === 'page' ? page.items.find((one) => one.txHash === hash) : undefined;
      if (deposit?.state !== 'credited') return null;
      return { deposit: toDepositData(deposit), balance: await balanceOf(app, partnerId) };
    });
  });

  server.get<{ Params: { external: string } }>('/dev/withdrawals/:external', HIDDEN, async (request) => {
    await allowed(request);
    return until(async () => {
      const { rows } = await app.pool.query<{ id: string }>(
        'select id from payonce.withdrawals where partner_id = $1 and external_id = $2',
        [partnerId, request.params.external],
      );
      const id = rows[0]?.id;
      const withdrawal = id === undefined ? null : await readWithdrawal(app.pool, partnerId, id);
      if (withdrawal === null) throw new PayonceError('PO_NOT_FOUND');
      if (['pending', 'processing', 'sent'].includes(withdrawal.status)) return null;
      const onChain = await tokenBalance(chain.anvil, chain.token, withdrawal.destination as `0x${string}`);
      return {
        withdrawal: toDetail(withdrawal, await loadHistory(app.pool, withdrawal.id)),
        receiver_balance_on_chain: formatUnits(onChain, DECIMALS),
      };
    });
  });
}

async function balanceOf(app: App, partnerId: string): Promise<{ available: string; held: string }> {
  const { rows } = await app.pool.query<{ balance: bigint; held: bigint }>(
    "select c.balance, c.held from payonce.accounts c join payonce.assets a on a.id = c.asset_id where c.partner_id = $1 and a.code = 'USDT'",
    [partnerId],
  );
  const { balance, held } = rows[0] ?? { balance: 0n, held: 0n };
  return { available: formatUnits(balance - held, DECIMALS), held: formatUnits(held, DECIMALS) };
}

async function until<T>(look: () => Promise<T | null>): Promise<T> {
  for (let waited = 0; waited < WAIT_MS_MAX; waited += 200) {
    const found = await look();
    if (found !== null) return found;
    await sleep(200);
  }
  throw new PayonceError('PO_BUSY', { detail: 'It has not happened within 30 seconds; ask again' });
}
