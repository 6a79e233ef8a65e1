/** The call by which a wallet lets a relayer move its tokens, and what is said when it lets it move too little. Pure. */
import type { AllowanceAsked, AssetRef, ContractCall, EffectIntent } from '../engine/rail.ts';
import { formatUnits, UNITS_MAX } from '../kernel/money.ts';

/** `approve(address,uint256)`. */
const APPROVE = '0x095ea7b3';
/** `Approval(address,address,uint256)`. */
const APPROVAL_TOPIC = '0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925';
/** Tokens that keep 96 bits tell the most of those where all was asked for: nobody has that much. */
const ALL_AT_LEAST = 2n ** 96n - 1n;

function word(units: bigint): string {
  return units.toString(16).padStart(64, '0');
}

/** `wordOf`: an address as 32 bytes, lower-case hex with 0x. */
export function approvalCall(asked: AllowanceAsked, wordOf: (address: string) => string): ContractCall {
  const { contract, wallet, relayer, units } = asked;
  return {
    to: contract,
    data: APPROVE + approvalWords(asked, wordOf),
    value: 0n,
    logs: [
      {
        address: contract,
        topics: [APPROVAL_TOPIC, wordOf(wallet), wordOf(relayer)],
        ...(units === UNITS_MAX ? { minimumWord: 0, minimum: ALL_AT_LEAST } : { data: `0x${word(units)}` }),
      },
    ],
  };
}

/** Relayer and figure, without 0x. */
export function approvalWords({ relayer, units }: AllowanceAsked, wordOf: (address: string) => string): string {
  return wordOf(relayer).slice(2) + word(units);
}

/** `spender`: who takes the wallet's tokens, and how people know it. Addresses in the chain's own spelling. */
export function allowanceShort(
  { asset, amount }: EffectIntent,
  wallet: string,
  spender: { readonly address: string; readonly name: string } | null,
  allowed: bigint,
): string {
  const inWords = (units: bigint): string => `${formatUnits(units, asset.decimals)} ${asset.code}`;
  return `${wallet} lets ${spender?.name ?? 'nobody'} move ${inWords(allowed)}, ${inWords(amount)} are needed. Two persons give it: payonce wallet approve --chain ${asset.chain} --wallet ${wallet} --relayer ${spender?.address ?? ''} --asset ${asset.code} --amount max`;
}

/** What a wallet lacks, in words. `isCoin`: of the chain's coin, in its smallest unit unless the asset is the coin. */
export function balanceShort(asset: AssetRef, address: string, left: bigint, needed: bigint, isCoin: boolean): string {
  const text = (units: bigint): string =>
    isCoin && asset.contract !== null
      ? `${units} units of coin`
      : `${formatUnits(units, asset.decimals)} ${asset.code}`;
  return `${address} has ${text(left < 0n ? 0n : left)} left, ${text(needed)} are needed: fund it`;
}
