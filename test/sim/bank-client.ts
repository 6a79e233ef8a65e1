/*
 * Payments as each provider's document writes them, sent by plain fetch. Written for the simulator's own tests: it shares
 * nothing with the product's mapper.
 */
import { randomUUID } from 'node:crypto';
import type { Bank } from '../../sim/bank/bank.ts';
import { decryptJwe, encryptJwe } from '../../sim/bank/jwe.ts';
import { at, parseWire, type Wire } from '../../sim/bank/wire-json.ts';

export type Payment = {
  readonly key: string;
  readonly amount?: bigint;
  readonly reference?: string;
  readonly account?: string;
  readonly bankCode?: string;
};

export type Reply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Absent: it was no JSON. */
  readonly body: Wire | undefined;
  /** What the body says at a path of names and places. */
  readonly at: (...path: (string | number)[]) => Wire;
};

/** Long enough for a slow machine, short enough for a test that waits for nothing. */
const WAIT_MS = 5_000;

export async function ask(
  bank: Bank,
  method: string,
  path: string,
  options: { body?: string; headers?: Record<string, string>; waitMs?: number; secret?: string } = {},
): Promise<Reply> {
  const response = await fetch(bank.url + path, {
    method,
    headers: { ...bank.credentials.headers(options.secret), ...options.headers },
    ...(options.body === undefined ? {} : { body: options.body }),
    signal: AbortSignal.timeout(options.waitMs ?? WAIT_MS),
    redirect: 'manual',
  });
  const text = await response.text();
  const key = bank.securityKey;
  const opened = key === null ? null : decryptJwe(text, Buffer.from(key, 'hex'));
  const body = parseWire(opened?.plain ?? text);
  return {
    status: response.status,
    headers: response.headers,
    text,
    body,
    at: (...path) => at(body ?? null, ...path),
  };
}

export async function pay(
  bank: Bank,
  payment: Payment,
  options: { waitMs?: number; secret?: string; path?: string } = {},
): Promise<Reply> {
  const { path, body, headers } = written(bank, payment);
  return ask(bank, 'POST', options.path ?? path, { ...options, body, headers });
}

/** The request of one payment, amounts in smallest units. */
export function written(
  bank: Bank,
  { key, amount = 1_500n, reference = `ref-${key}`, account = '0012345678', bankCode = '088' }: Payment,
): { path: string; body: string; headers: Record<string, string> } {
  const jsonHeaders = { 'content-type': 'application/json', 'idempotency-key': key };
  const dollars = `${amount / 100n}.${String(amount % 100n).padStart(2, '0')}`;
  switch (bank.profile) {
    case 'generic':
      return {
        path: '/v1/transfers',
        headers: { ...jsonHeaders, 'idempotency-key': `"${key}"` },
        body: JSON.stringify({
          reference,
          amount: { currency: 'KRW', value: String(amount) },
          creditor: { bank_code: bankCode, account_number: account, name: '홍길동' },
          memo: 'payout',
        }),
      };
    case 'unkeyed':
      return {
        path: '/transfers',
        headers: jsonHeaders,
        body: JSON.stringify({
          reference,
          bankCode,
          accountNumber: account,
          holderName: '홍길동',
          amount: String(amount),
        }),
      };
    case 'toss': {
      const item = {
        refPayoutId: reference,
        destination: `seller_${account}`,
        scheduleType: 'EXPRESS',
        amount: { currency: 'KRW', value: Number(amount) },
        transactionDescription: '정산',
      };
      const plain = JSON.stringify([item]);
      const header = { iat: '2026-11-30T09:00:00+09:00', nonce: randomUUID() };
      return {
        path: '/v2/payouts',
        headers: {
          'content-type': 'text/plain',
          'tosspayments-api-security-mode': 'ENCRYPTION',
          'idempotency-key': key,
        },
        body: bank.securityKey === null ? plain : encryptJwe(plain, Buffer.from(bank.securityKey, 'hex'), header),
      };
    }
    case 'stripe':
      return {
        path: '/v1/payouts',
        headers: { 'content-type': 'application/x-www-form-urlencoded', 'idempotency-key': key },
        body: new URLSearchParams({
          amount: String(amount),
          currency: 'usd',
          destination: `ba_${account}`,
          'metadata[ref]': reference,
        }).toString(),
      };
    case 'increase':
      return {
        path: '/ach_transfers',
        headers: jsonHeaders,
        body: JSON.stringify({
          account_id: 'account_1',
          amount: Number(amount),
          statement_descriptor: 'payout',
          account_number: account,
          routing_number: '101050001',
          individual_name: 'Ian Crease',
        }),
      };
    case 'modern-treasury':
      return {
        path: '/api/payment_orders',
        headers: jsonHeaders,
        body: JSON.stringify({
          type: 'ach',
          amount: Number(amount),
          direction: 'credit',
          currency: 'USD',
          originating_account_id: 'own',
          receiving_account: {
            party_name: 'Aunt',
            account_details: [{ account_number: account }],
            routing_details: [{ routing_number_type: 'aba', routing_number: '101050001' }],
          },
          metadata: { ref: reference },
        }),
      };
    case 'paypal-payouts':
      return {
        path: '/v1/payments/payouts',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          sender_batch_header: { sender_batch_id: key },
          items: [
            {
              recipient_type: 'EMAIL',
              amount: { value: dollars, currency: 'USD' },
              receiver: `${account}@example.com`,
              sender_item_id: reference,
            },
          ],
        }),
      };
  }
}

/** How many lines left, or may still. */
export async function outCount(bank: Bank): Promise<number> {
  return (await bank.books.movements()).filter(({ kind }) => kind === 'out').length;
}
