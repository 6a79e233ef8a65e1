/** Why a payment over TRON has to wait: one table of reasons, who is told, and whether it passes by itself. */
import type { Need, PlanWait } from '../../engine/rail.ts';

export type WaitReason =
  | 'NODE_DOWN'
  | 'WRONG_CHAIN'
  | 'HEAD_AHEAD'
  | 'NO_KEY'
  | 'SIGNER_IS_NOT_WALLET'
  | 'ALLOWANCE_SHORT'
  | 'QUOTE_TOO_LOW'
  | 'BATCH_REFUSED'
  | 'AMOUNT_TOO_LARGE'
  | 'RECEIVER_IS_CONTRACT'
  | 'SIMULATION_REVERTED'
  | 'ONCHAIN_INSUFFICIENT'
  | 'ENERGY_SHORT'
  | 'FEE_ABOVE_CAP'
  | 'GAS_SHORT';

/** `alert`: it helps only when a person acts. `for_good`: what the contract or the chain itself says of this payment. */
const REASONS: Readonly<Record<WaitReason, Pick<PlanWait, 'alert' | 'lasts'>>> = {
  NODE_DOWN: { alert: false, lasts: 'a_while' },
  WRONG_CHAIN: { alert: true, lasts: 'until_mended' },
  HEAD_AHEAD: { alert: true, lasts: 'a_while' },
  NO_KEY: { alert: true, lasts: 'for_good' },
  SIGNER_IS_NOT_WALLET: { alert: true, lasts: 'until_mended' },
  ALLOWANCE_SHORT: { alert: true, lasts: 'until_mended' },
  QUOTE_TOO_LOW: { alert: true, lasts: 'until_mended' },
  BATCH_REFUSED: { alert: false, lasts: 'for_good' },
  AMOUNT_TOO_LARGE: { alert: false, lasts: 'for_good' },
  RECEIVER_IS_CONTRACT: { alert: false, lasts: 'for_good' },
  SIMULATION_REVERTED: { alert: false, lasts: 'for_good' },
  ONCHAIN_INSUFFICIENT: { alert: true, lasts: 'until_mended' },
  ENERGY_SHORT: { alert: true, lasts: 'until_mended' },
  FEE_ABOVE_CAP: { alert: true, lasts: 'until_mended' },
  GAS_SHORT: { alert: true, lasts: 'until_mended' },
};

export function wait(reason: WaitReason, detail: string, needs?: Need): PlanWait {
  return { verdict: 'wait', reason, detail, ...REASONS[reason], ...(needs === undefined ? {} : { needs }) };
}
