/*
 * Who may sign for an account: by default its own key, else the keys and weights of its permission, as it is now.
 */
import { toBase58 } from './address.ts';
import type { Permission, Reader } from './state.ts';
import { ownerOf, type TronTransaction } from './transaction.ts';

const SIGNATURES_MAX = 5;

/** In java-tron's words, `null` where there is none. */
export function objectionToSignatures(transaction: TronTransaction, state: Reader): string | null {
  const { signatures, signers, contracts } = transaction;
  if (signatures.length === 0 || contracts.length === 0) return 'miss sig or contract';
  if (signatures.length > SIGNATURES_MAX) return 'too many signatures';
  const owner = ownerOf(transaction);
  const permissionId = contracts[0]?.permissionId ?? 0;
  if (permissionId !== 0 && permissionId !== 2) return "permission isn't exit";
  const permission: Permission = state.account(owner)?.permission ?? {
    threshold: 1,
    keys: [{ address: owner, weight: 1 }],
  };
  if (signatures.length > permission.keys.length) {
    return `Signature count is ${signatures.length} more than key counts of permission : ${permission.keys.length}`;
  }
  const counted = new Set<string>();
  let weight = 0;
  for (const [place, signature] of signatures.entries()) {
    const signer = signers[place] ?? null;
    if (signature.length < 130) return `Signature size is ${signature.length / 2}`;
    if (signer === null) return 'Header byte out of range: 0';
    const own = permission.keys.find(({ address }) => address === signer)?.weight ?? 0;
    if (own === 0) return `${signature} is signed by ${toBase58(signer)} but it is not contained of permission.`;
    if (counted.has(signer)) return `${toBase58(signer)} has signed twice!`;
    counted.add(signer);
    weight += own;
  }
  return weight >= permission.threshold ? null : 'sig error';
}
