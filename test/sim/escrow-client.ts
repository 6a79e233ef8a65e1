/* A caller of the simulated liquidity provider, by the contract's own words. */
import { Agent, request } from 'node:http';
import { type Escrow, type EscrowOptions, startEscrow } from '../../sim/escrow/escrow.ts';

const ORDER = {
  reference: 'leg_1',
  side: 'buy',
  asset: 'USDT',
  amount: '12.5',
  fiat: 'KRW',
  fiat_amount: '16250',
  price: '1300',
  pay_by: '2026-12-01T00:00:00.000Z',
};

export async function withEscrow(options: EscrowOptions, act: (escrow: Escrow) => Promise<void>): Promise<void> {
  const escrow = await startEscrow(options);
  try {
    await act(escrow);
  } finally {
    await escrow.stop();
  }
}

export interface Told {
  readonly status: number;
  readonly replayed: boolean;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read JSON of every shape
  readonly body: any;
}

export async function ask(escrow: Escrow, method: string, path: string, key?: string, body?: object): Promise<Told> {
  const response = await fetch(`${escrow.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${escrow.secret}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed') === 'true',
    body: text.startsWith('{') ? JSON.parse(text) : text,
  };
}

export const open = (escrow: Escrow, key: string, fields: object = {}): Promise<Told> =>
  ask(escrow, 'POST', '/v1/trades', key, { ...ORDER, ...fields });

/** Each under a key and a reference of its own; what comes back is not looked at. */
export async function openMany(escrow: Escrow, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const one = (n: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${escrow.secret}`, 'idempotency-key': `k${n}` };
      request(`${escrow.url}/v1/trades`, { agent, method: 'POST', headers }, (response) => {
        response.resume().on('end', resolve);
      })
        .on('error', reject)
        .end(JSON.stringify({ ...ORDER, reference: `leg_${n}` }));
    });
  const lanes = Array.from({ length: 32 }, async (_, lane) => {
    for (let n = lane; n < count; n += 32) await one(n);
  });
  await Promise.all(lanes);
  agent.destroy();
}
