/** One variant to one node: no second request, whatever the answer. The next send takes the next node. */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect, Signed } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import type { WireLimits } from '../http.ts';
import { makeRotation } from '../node-list.ts';
import { SEND_ID } from './answers.ts';
import type { EvmNode } from './nodes.ts';
import { exchange, requestText, SEND_ANSWER_BYTES_MAX } from './rpc.ts';

export type SendVariant = (sealed: SealedEffect, signed: Signed) => Promise<Answer>;

export function makeSend(nodes: readonly EvmNode[], agent: Dispatcher, ports: Ports, limits: WireLimits): SendVariant {
  const nextNode = makeRotation<EvmNode>();
  return async (sealed, signed) => {
    const usable = nodes.filter((one) => one.lastVerdict() !== 'wrong');
    const node = nextNode(usable, sealed);
    if (node === null) {
      return {
        operation: 'send',
        source: 'none',
        operator: 'none',
        reach: 'never_connected',
        status: null,
        body: 'no node of the right chain is configured: correct the URLs or the chain id',
        variantHash: signed.hash,
      };
    }
    const raw = `0x${Buffer.from(signed.raw).toString('hex')}`;
    const text = requestText([{ method: 'eth_sendRawTransaction', params: [raw] }], SEND_ID);
    const answer = await exchange(agent, node.rpc, ports, 'eth_sendRawTransaction', text, {
      ...limits,
      bytesMax: SEND_ANSWER_BYTES_MAX,
    });
    return {
      operation: 'send',
      source: node.rpc.source,
      operator: node.rpc.operator,
      reach: answer.reach,
      status: answer.status,
      body: answer.body,
      variantHash: signed.hash,
    };
  };
}
