/** The signed bytes to one node: no second request, whatever the answer. The next send takes the next node. */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect, Signed } from '../../engine/rail.ts';
import { ANSWER_BYTES_MAX } from '../../kernel/limits.ts';
import type { Ports } from '../../kernel/ports.ts';
import type { WireLimits } from '../http.ts';
import { makeRotation } from '../node-list.ts';
import type { TronNode } from './nodes.ts';
import { post } from './wire.ts';

export type SendSigned = (sealed: SealedEffect, signed: Signed) => Promise<Answer>;

export function makeSend(nodes: readonly TronNode[], agent: Dispatcher, ports: Ports, limits: WireLimits): SendSigned {
  const nextNode = makeRotation<TronNode>();
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
        body: 'no node of the right chain is configured: correct the URLs or the genesis id',
        variantHash: signed.hash,
      };
    }
    node.pace.count();
    const transaction = Buffer.from(signed.raw).toString('hex');
    const answer = await post(
      agent,
      node.name,
      ports,
      'wallet/broadcasthex',
      { transaction },
      {
        ...limits,
        bytesMax: ANSWER_BYTES_MAX,
      },
    );
    return {
      operation: 'send',
      source: node.name.source,
      operator: node.name.operator,
      reach: answer.reach,
      status: answer.status,
      body: answer.body,
      variantHash: signed.hash,
    };
  };
}
