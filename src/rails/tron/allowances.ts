/** What a wallet lets a relayer move of a token, and the call that sets it (R15). */
import type { Allowances } from '../../engine/rail.ts';
import { approvalCall, approvalWords } from '../approval.ts';
import { hexAddress, wordOfAddress } from './address.ts';
import type { TronNode } from './nodes.ts';
import { allowanceCall } from './plan.ts';
import { figureOf, readSimulation } from './resources.ts';

export function makeAllowances(nodes: readonly TronNode[]): Allowances {
  return {
    call: (asked) => approvalCall(asked, wordOfAddress),
    async ask(asked) {
      const { contract, wallet, relayer } = asked;
      for (const { checked } of nodes) {
        const shown = readSimulation(
          await checked.ask('wallet/triggerconstantcontract', allowanceCall(contract, wallet, relayer)),
        );
        const units = shown.kind === 'ran' ? figureOf(shown.word) : null;
        if (units === null) continue;
        const set = readSimulation(
          await checked.ask('wallet/triggerconstantcontract', {
            owner_address: hexAddress(wallet),
            contract_address: hexAddress(contract),
            function_selector: 'approve(address,uint256)',
            parameter: approvalWords(asked, wordOfAddress),
          }),
        );
        if (set.kind !== 'unreadable') return { units, takes: set.kind === 'ran' };
      }
      return null;
    },
  };
}
