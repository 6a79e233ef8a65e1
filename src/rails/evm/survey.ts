/** What the chain knows of our signers: compared with the allotted nonces before each seal (quarantine, design §4). */
import type { SignerSurvey } from '../../engine/rail.ts';
import { askInTime } from '../in-time.ts';
import { canonicalAddress } from './address.ts';
import { countCall, countIn, type EvmNode } from './nodes.ts';

/** The highest count of any node: a lagging node must not hide a use of the key that another one shows. */
export async function surveySigners(
  nodes: readonly EvmNode[],
  askWithinMs: number,
  signers: readonly string[],
): Promise<SignerSurvey[]> {
  if (signers.length === 0) return [];
  const calls = signers.map((signer) => countCall(canonicalAddress(signer), 'latest'));
  const perNode = await askInTime(
    nodes,
    askWithinMs,
    (node) => node.checked.ask(calls),
    () => [],
  );
  return signers.map((signer, index) => {
    const heads = perNode.map((results) => countIn(results[index])).filter((count) => count !== null);
    return {
      signer,
      nonceHead: heads.reduce<bigint | null>((most, count) => (most === null || count > most ? count : most), null),
    };
  });
}
