/** One variant to one node: no second request, whatever the answer. The next send takes the next node. */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect, Signed } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import type { WireLimits } from '../http.ts';
import { SEND_ID } from './answers.ts';
import { ROTATION_ENTRIES_MAX } from './limits.ts';
import type { EvmNode } from './nodes.ts';
import { exchange, requestText, SEND_ANSWER_BYTES_MAX } from './rpc.ts';

export type SendVariant = (sealed: SealedEffect, signed: Signed) => Promise<Answer>;

export function makeSend(nodes: readonly EvmNode[], agent: Dispatcher, ports: Ports, limits: WireLimits): SendVariant {
  const ordinals = new Map<string, number>();
  return async (sealed, signed) => {
    const node = nextNode(nodes, ordinals, sealed);
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

/** Each effect starts at a node of its own and moves on with each send, so that a failing node is left behind. */
function nextNode(nodes: readonly EvmNode[], ordinals: Map<string, number>, sealed: SealedEffect): EvmNode | null {
  const usable = nodes.filter((node) => node.lastVerdict() !== 'wrong');
  if (usable.length === 0) return null;
  const key = sealed.seal.identity;
  const ordinal = ordinals.get(key) ?? 0;
  ordinals.delete(key);
  ordinals.set(key, ordinal + 1);
  const oldest = ordinals.size > ROTATION_ENTRIES_MAX ? ordinals.keys().next().value : undefined;
  if (oldest !== undefined) ordinals.delete(oldest);
  const start = Number(sealed.effectId % BigInt(usable.length));
  return usable[(start + ordinal) % usable.length] ?? null;
}
