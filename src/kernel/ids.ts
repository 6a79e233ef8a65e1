/**
 * Ids and idempotency keys: everything that names a thing or makes a repetition recognisable is built here.
 *
 * Public ids are `prefix_` and 26 base32 characters (48 bits of time, 80 of chance), so they sort by creation and
 * cannot be guessed. Keys sent to a rail are derived, never random (design §1): an intent lost with a backup and sent
 * again meets the same key.
 *
 * Posting keys, the whole table (W3, W4; at most 80 characters, all UNIQUE):
 *   WDR_CONFIRM:{withdrawal}      a customer withdrawal's DEBIT (amount and fee) when its effect settled
 *   WDR_MOVE:{withdrawal}         a settlement or self withdrawal: custody ↔ custody, no DEBIT (W8)
 *   TRF_CONFIRM:{transfer}        a bank transfer's DEBIT (amount and fee) when its effect settled
 *   TRB_CONFIRM:{batch}           a provider's batch settled: DEBIT of what its lines took, custody of what they paid, the rest suspense
 *   TRB_LINE:{batch}:{line}       a line of it that was unknown then, out of suspense
 *   RLZ_MOVE:{realization}        a share of fees: custody of the master wallet → custody of the settlement wallet
 *   COL_MOVE:{collection}         a sweep: custody of a deposit address → custody of the master wallet
 *   TOPUP:{topup}                 gas for a wallet of ours: custody → custody
 *   ENERGY:{energy}               energy rented: custody → gas
 *   ALLOWANCE:{allowance}         reserved: an allowance moves nothing, and only its gas is booked
 *   DEP_CREDIT:{deposit}          a deposit's CREDIT
 *   DEP_FEE:{deposit}             its FEE
 *   DEP_SUSPENSE:{transfer}       an inflow that belongs to nobody
 *   DEP_MOVE:{transfer}           a movement at our own wallets that credits nobody (funding, or no record of ours)
 *   DEP_CLAIM:{transfer}          two persons gave such an inflow to its owner
 *   DEP_REVERSAL:{deposit}        a credited deposit whose block left the chain
 *   GAS:{effect}                  the fee that a mined transaction burned, success or not
 *   GAS:{effect}:{variant}        the same, where another of the effect's transactions was mined
 *   OVERPAID:{effect}             a contradiction: it went although released; custody → loss
 *   UNWOUND:{effect}              two persons: a settled effect that never happened after all
 *   RETURN:{return}               money that came back after success
 *   ADJUST:{proposal}             a correction by two persons
 *   REPAIR:{finding}              what comparing a chain with our books found, booked by two persons
 *   P2P_SELL:{withdrawOrder}      a seller's amount set aside: partner → p2p:{partner}
 *   P2P_BACK:{withdrawOrder}:{n}  what no leg took, back to the partner
 *   P2P_LEG:{leg}:CREDIT          a leg was paid: from what the seller set aside, or the LP, to the buyer's partner, less the fee
 *   P2P_LEG:{leg}:SURPLUS         an LP released a trade whose order needed it no more: LP → suspense
 *   P2P_LEG:{leg}:FIX:{n}         a correction of a leg by two persons, one by one (W4)
 *   PAY_CONFIRM:{payout}          a creator's payout when its effect settled: partner → custody, no fee
 *   PYB_CONFIRM:{batch}           a call that paid many settled: what its payouts took, custody of what went, the rest suspense
 *   PYB_LINE:{payout}             one of them that was unknown then, out of suspense
 *   MIGRATED:{oldId}              imported rows (W16)
 */
import { createHash } from 'node:crypto';
import type { Chance, Clock } from './ports.ts';

const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz';

export type IdPrefix =
  | 'wd'
  | 'tr'
  | 'tb'
  | 'rlz'
  | 'col'
  | 'top'
  | 'nrg'
  | 'alw'
  | 'pdo'
  | 'pwo'
  | 'leg'
  | 'ppy'
  | 'prg'
  | 'crt'
  | 'pay'
  | 'pyb'
  | 'ret'
  | 'dep'
  | 'evt'
  | 'adr'
  | 'par'
  | 'ep'
  | 'key'
  | 'op'
  | 'case'
  | 'prop'
  | 'dlv';

/** base32 (Crockford's alphabet, lower case) of bytes, most significant bit first. */
export function toBase32(bytes: Uint8Array, characters: number): string {
  let text = '';
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5 && text.length < characters) {
      bits -= 5;
      text += BASE32[(buffer >> bits) & 31] ?? '';
    }
    buffer &= (1 << bits) - 1;
  }
  return text;
}

export type MakeId = (prefix: IdPrefix) => string;

export function makeIds(clock: Clock, chance: Chance): MakeId {
  return (prefix) => {
    const bytes = new Uint8Array(17);
    let time = clock.now().getTime();
    for (let index = 5; index >= 0; index -= 1) {
      bytes[index] = time % 256;
      time = Math.floor(time / 256);
    }
    bytes.set(chance.bytes(11), 6);
    return `${prefix}_${toBase32(bytes, 26)}`;
  };
}

/** Length-prefixed join: no two different lists of parts give the same text. */
export function lengthPrefixed(parts: readonly string[]): string {
  return parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('');
}

/** The natural key of a subject: the partner and the key that the partner chose (design §1). */
export function naturalKey(partnerId: string, idempotencyKey: string): string {
  return lengthPrefixed([partnerId, idempotencyKey]);
}

/** The key under which a rail recognises the effect again: the same after a restore from any backup. */
export function deriveRailKey(deployment: string, account: string, subjectNaturalKey: string, seq: number): string {
  const text = lengthPrefixed([deployment, account, subjectNaturalKey, String(seq)]);
  return toBase32(createHash('sha256').update(text).digest(), 32);
}

/** One line of a batch, told apart by the batch's natural key and the line's own name: the same for the same file, always. */
export function deriveLineKey(batchNaturalKey: string, lineName: string): string {
  return `line_${toBase32(
    createHash('sha256')
      .update(lengthPrefixed([batchNaturalKey, lineName]))
      .digest(),
    32,
  )}`;
}

export const postingKey = {
  withdrawalConfirm: (withdrawalId: string) => `WDR_CONFIRM:${withdrawalId}`,
  withdrawalMove: (withdrawalId: string) => `WDR_MOVE:${withdrawalId}`,
  transferConfirm: (transferId: string) => `TRF_CONFIRM:${transferId}`,
  batchConfirm: (batchId: string) => `TRB_CONFIRM:${batchId}`,
  batchLine: (batchId: string, line: number) => `TRB_LINE:${batchId}:${line}`,
  realizationMove: (realizationId: string) => `RLZ_MOVE:${realizationId}`,
  collectionMove: (collectionId: string) => `COL_MOVE:${collectionId}`,
  topup: (topupId: string) => `TOPUP:${topupId}`,
  energy: (energyId: string) => `ENERGY:${energyId}`,
  allowance: (allowanceId: string) => `ALLOWANCE:${allowanceId}`,
  depositCredit: (depositId: string) => `DEP_CREDIT:${depositId}`,
  depositFee: (depositId: string) => `DEP_FEE:${depositId}`,
  depositSuspense: (transferId: bigint) => `DEP_SUSPENSE:${transferId}`,
  depositMove: (transferId: bigint) => `DEP_MOVE:${transferId}`,
  depositClaim: (transferId: bigint) => `DEP_CLAIM:${transferId}`,
  depositReversal: (depositId: string) => `DEP_REVERSAL:${depositId}`,
  gas: (effectId: bigint) => `GAS:${effectId}`,
  gasOfVariant: (effectId: bigint, variantId: bigint) => `GAS:${effectId}:${variantId}`,
  overpaid: (effectId: bigint) => `OVERPAID:${effectId}`,
  unwound: (effectId: bigint) => `UNWOUND:${effectId}`,
  returned: (returnId: string) => `RETURN:${returnId}`,
  adjust: (proposalId: string) => `ADJUST:${proposalId}`,
  repair: (findingId: string) => `REPAIR:${findingId}`,
  p2pSell: (orderId: string) => `P2P_SELL:${orderId}`,
  p2pBack: (orderId: string, n: number) => `P2P_BACK:${orderId}:${n}`,
  p2pCredit: (legId: string) => `P2P_LEG:${legId}:CREDIT`,
  p2pSurplus: (legId: string) => `P2P_LEG:${legId}:SURPLUS`,
  p2pFix: (legId: string, n: number) => `P2P_LEG:${legId}:FIX:${n}`,
  payoutConfirm: (payoutId: string) => `PAY_CONFIRM:${payoutId}`,
  payoutBatchConfirm: (batchId: string) => `PYB_CONFIRM:${batchId}`,
  payoutLine: (payoutId: string) => `PYB_LINE:${payoutId}`,
  migrated: (oldId: string) => `MIGRATED:${oldId}`,
} as const;

/** The hold of one effect: a successor has a hold, and so a key, of its own. */
export function holdKey(subjectType: string, subjectId: string, seq: number): string {
  return `${subjectType}:${subjectId}:${seq}`;
}
