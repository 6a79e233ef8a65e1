/*
 * For the tests of the simulated TRON: a person with a key who signs what tronweb builds offline, and plain calls of a node.
 */
import { TronWeb } from 'tronweb';
import type { Tron, TronServer } from '../../sim/tron/tron.ts';

const offline = new TronWeb({ fullHost: 'http://127.0.0.1:1' });

type Reference = { readonly expiration?: number; readonly from?: 'head' | 'solid'; readonly number?: number };

/** A key, its address, and transactions that it signed. The reference is the solid block, the expiration a minute off. */
export function makePerson(tron: Tron, digit: string) {
  const key = digit.repeat(64);
  const address = TronWeb.address.fromPrivateKey(key);
  if (address === false) throw new Error('no key');
  const header = ({ expiration, from = 'solid' }: Reference) => {
    const { id, number } = from === 'solid' ? tron.solid() : tron.head();
    return {
      ref_block_bytes: (number % 65_536).toString(16).padStart(4, '0'),
      ref_block_hash: id.slice(16, 32),
      expiration: expiration ?? tron.head().timeMs + 60_000,
      timestamp: tron.head().timeMs,
    };
  };
  return {
    key,
    address,
    async trx(to: string, sun: number, reference: Reference = {}) {
      const made = await offline.transactionBuilder.sendTrx(to, sun, address, { blockHeader: header(reference) });
      return offline.trx.sign(made, key);
    },
    async token(token: string, to: string, units: string, reference: Reference & { feeLimit?: number } = {}) {
      const { transaction } = await offline.transactionBuilder.triggerSmartContract(
        token,
        'transfer(address,uint256)',
        { feeLimit: reference.feeLimit ?? 30_000_000, txLocal: true, blockHeader: header(reference) },
        [
          { type: 'address', value: to },
          { type: 'uint256', value: units },
        ],
        address,
      );
      return offline.trx.sign(transaction, key);
    },
  };
}

export async function post(url: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const method = 'POST';
  const type = { 'content-type': 'application/json', ...headers };
  return read(await fetch(`${url}${path}`, { method, headers: type, body: JSON.stringify(body) }));
}

export async function get(url: string, headers: Record<string, string> = {}) {
  return read(await fetch(url, { headers }));
}

async function read(response: Response) {
  const text = await response.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = null;
  }
  return { status: response.status, text, json };
}

/** What `broadcasttransaction` says: SUCCESS, or the code, with its message in plain letters. */
export async function broadcast(node: Pick<TronServer, 'url'>, signed: object): Promise<string> {
  const { json } = await post(node.url, '/wallet/broadcasttransaction', signed);
  if (json?.result === true) return 'SUCCESS';
  return `${json?.code} ${Buffer.from(json?.message ?? '', 'hex').toString('utf8')}`;
}
