/** What a wallet lets a relayer move of a token, and the call that sets it (R15). */
import type { Allowances } from '../../engine/rail.ts';
import { approvalCall } from '../approval.ts';
import { canonicalAddress } from './address.ts';
import type { EvmNode } from './nodes.ts';
import { wordOfAddress } from './payload.ts';
import { allowanceCall, simulationRefusal, wordIn } from './plan.ts';

export function makeAllowances(nodes: readonly EvmNode[]): Allowances {
  return {
    call: (asked) => approvalCall(asked, wordOfAddress),
    async ask(asked) {
      const { contract, wallet, relayer } = asked;
      const { data } = approvalCall(asked, wordOfAddress);
      for (const node of nodes) {
        const [allowed, set] = await node.checked.ask([
          { method: 'eth_call', params: [allowanceCall(contract, wallet, relayer), 'latest'] },
          { method: 'eth_call', params: [{ from: wallet, to: canonicalAddress(contract), data }, 'latest'] },
        ]);
        const units = wordIn(allowed);
        const refusal = simulationRefusal(null, set, false);
        if (units === null || (refusal?.verdict === 'wait' && refusal.reason === 'NODE_DOWN')) continue;
        // A token that answers false does nothing; one that answers nothing does it.
        return { units, takes: refusal === null && wordIn(set) !== 0n };
      }
      return null;
    },
  };
}
