/*
 * Payouts on a real chain: creators are paid by the swap-and-allocate contract of sim/contracts, a call for each, and the
 * contract's own event log is the judge: whom it gave how much, under which payout's name.
 */
import { hexToBigInt, hexToString, type Hex, toEventSelector, toFunctionSelector } from 'viem';
import { approveTokens, deployMultiSend, deploySwap, deployToken, mintTokens } from '../../sim/evm-send.ts';
import {
  accrue,
  type Accrued,
  makePayoutBatches,
  makePayoutFlow,
  type PayoutDeps,
  putProgramme,
  type TermsRequest,
} from '../../src/flows/payouts/index.ts';
import { ensureCreators } from '../../src/flows/payouts/store.ts';
import { type EvmWorld, type EvmWorldOptions, makeEvmWorld, TOKENS_PER_WALLET } from './evm-world.ts';

/** Two units come out for each unit in. */
export const PRICE = 2n * 10n ** 18n;
/** For 100 of volume at a rate of 0.1, in units of the token. */
export const PAYOUT_UNITS = 10_000_000n;
const EVERYTHING = 2n ** 255n;

/** What the contract says that it gave. */
export interface Allocated {
  readonly payout: string;
  readonly to: string;
  readonly amount: bigint;
}

export interface PayoutEvm extends EvmWorld {
  readonly swap: Hex;
  readonly output: Hex;
  readonly multiSend: Hex;
  readonly deps: PayoutDeps;
  /** Programme `p`, or other terms for it. */
  terms(change?: Partial<TermsRequest>): Promise<void>;
  /** New creators with addresses of their own; answers the addresses. */
  creators(names: readonly string[]): Promise<Map<string, string>>;
  /** 100 of volume for each: one payout each. From then on paid out of `wallet`, where one is given. */
  earn(names: readonly string[], wallet?: string): Promise<Accrued>;
  /** The contract's own log, in order. */
  allocated(): Promise<Allocated[]>;
  /** At once, in no block of its own. */
  setPrice(price: bigint): Promise<void>;
}

export async function makePayoutEvm(
  label: string,
  options: Omit<EvmWorldOptions, 'label' | 'flows'> = {},
): Promise<PayoutEvm> {
  const world = await makeEvmWorld({
    label,
    ...options,
    flows: (chart, makeId) => [makePayoutFlow(chart), makePayoutBatches(chart, makeId)],
  });
  const { anvil, token } = world;
  const owner = anvil.accounts[9];
  if (owner === undefined) throw new Error('anvil without accounts');
  const output = (await deployToken(anvil, owner.privateKey, { symbol: 'OUT' })).toLowerCase() as Hex;
  const swap = (await deploySwap(anvil, owner.privateKey, output, PRICE)).toLowerCase() as Hex;
  const multiSend = (await deployMultiSend(anvil, owner.privateKey)).toLowerCase() as Hex;
  await mintTokens(anvil, owner.privateKey, output, swap, TOKENS_PER_WALLET * 100n);
  const next = new Map<string, number>();
  for (const [index, wallet] of world.wallets.entries()) {
    const account = anvil.accounts[index];
    if (account === undefined) throw new Error(`no account ${index}`);
    await approveTokens(anvil, account.privateKey, token, swap, EVERYTHING);
    await approveTokens(anvil, account.privateKey, token, multiSend, EVERYTHING);
    next.set(wallet, Number(await anvil.rpc('eth_getTransactionCount', [wallet, 'latest'])));
  }
  await anvil.mine(3);
  // What the wallets signed before Payonce had them.
  for (const [wallet, nonce] of next)
    await world.pool.query('update payonce.signers set next_nonce = $2 where address = $1', [wallet, nonce]);
  const deps: PayoutDeps = {
    ...world,
    mayCall: () => true,
    wordOf: (_chain, address) => address.slice(2).toLowerCase().padStart(64, '0'),
  };
  const asset = { id: world.assetId, decimals: 6, chain: `eip155:${anvil.chainId}`, contract: token };
  let events = 0;
  return {
    ...world,
    swap,
    output,
    multiSend,
    deps,
    async terms(change = {}) {
      await putProgramme(deps, world.partnerId, 'p', asset, {
        threshold: '100',
        rate: '0.1',
        pays_by: 'call',
        call: swapCall(swap, token),
        quote: '2000000',
        slippage_basis_points: 100,
        ...change,
      });
    },
    async creators(names) {
      const addresses = new Map(names.map((name) => [name, world.outsider()]));
      const { partnerId } = world;
      await world.pool.tx('creators', async (tx) => {
        const ids = await ensureCreators(
          tx,
          partnerId,
          names.map((externalId) => ({ id: deps.makeId('crt'), externalId })),
        );
        await tx.query(
          'insert into payonce.creator_addresses (creator_id, chain, address) select c, $3, a from unnest($1::text[], $2::text[]) as u (c, a)',
          [names.map((name) => ids.get(name)), names.map((name) => addresses.get(name)), asset.chain],
        );
      });
      return addresses;
    },
    async earn(names, wallet) {
      if (wallet !== undefined) await world.pool.query('update payonce.asset_policies set wallet = $1', [wallet]);
      return accrue(
        deps,
        world.partnerId,
        names.map((creator) => {
          events += 1;
          return { source_id: `volume-${events}`, programme: 'p', creator, volume: '100' };
        }),
      );
    },
    async allocated() {
      const filter = { address: swap, fromBlock: '0x0', toBlock: 'latest', topics: [ALLOCATED] };
      const logs = (await anvil.rpc('eth_getLogs', [filter])) as { topics: [Hex, Hex, Hex]; data: Hex }[];
      return logs.map(({ topics, data }) => ({
        payout: hexToString(topics[1], { size: 32 }),
        to: `0x${topics[2].slice(-40)}`,
        amount: hexToBigInt(data),
      }));
    },
    async setPrice(price) {
      await anvil.rpc('anvil_setStorageAt', [swap, `0x${'0'.repeat(64)}`, `0x${price.toString(16).padStart(64, '0')}`]);
    },
  };
}

/** The terms of a programme that pays many in one call. */
export function inOneCall({ multiSend }: Pick<PayoutEvm, 'multiSend'>): Partial<TermsRequest> {
  return { pays_by: 'multi_send', call: { to: multiSend, data: '0x', value: 'nothing', logs: [] }, threshold: '100' };
}

const ALLOCATED = toEventSelector('Allocated(bytes32,address,uint256)');

/** Everything for the creator, who must get the least output by the contract's own log. */
function swapCall(swap: string, token: string): NonNullable<TermsRequest['call']> {
  const selector = toFunctionSelector('swapAndAllocate(bytes32,address,uint256,uint256,bytes)');
  const word = (units: number): string => units.toString(16).padStart(64, '0');
  const head = `{reference}${token.slice(2).padStart(64, '0')}{amount}{min_output}${word(160)}`;
  return {
    to: swap,
    data: `${selector}${head}${word(22)}{creator20}${(10_000).toString(16).padStart(4, '0')}${'0'.repeat(20)}`,
    value: 'nothing',
    logs: [
      {
        address: swap,
        topics: [toEventSelector('Swapped(bytes32,address,uint256,uint256)'), '0x{reference}', '0x{wallet}'],
      },
      { address: swap, topics: [ALLOCATED, '0x{reference}', '0x{creator}'], minimumWord: 0 },
    ],
  };
}
