/** What the doctor says of each chain: whether its nodes keep up and are witnesses, what wallets that pay fees have left, and
 *  what stands prepaid at energy markets. Nothing leaves but questions. */
import { formatUnits } from '../kernel/money.ts';
import type { App, WiredChain } from './wire.ts';
import type { WiredMarket } from './wire-supplies.ts';
import { balanceReader } from './wire-supplies.ts';

import type { Block, BlockSource } from '../flows/deposits/index.ts';

interface Told {
  readonly ok: boolean;
  readonly found: string;
  readonly hint?: string;
}
export interface Asked {
  readonly name: string;
  ask(): Promise<Told>;
}

/** A minute of TRON, four of Ethereum: what is further behind shows payments late, and proves nothing for so long. */
const BEHIND_BLOCKS_MAX = 20n;
/** Blocks looked through for coin that contracts pass on, where the chain tells it: fifteen seconds of TRON, some 20 MB at most. */
const INSIDE_BLOCKS = 5n;
/** Calls of contracts among which one passes coin on: on the main net every tenth does. Fewer: a quiet chain is told falsely. */
const INSIDE_CALLS_TELLING = 200;

export function askChains(app: App): Asked[] {
  return [
    ...app.chains.map((chain) => ({ name: chain.rail.name, ask: () => askNodes(chain) })),
    ...app.supplyPolicy.watched.map((wallet) => ({
      name: `wallet ${wallet.address}`,
      ask: () => askWallet(app, wallet),
    })),
    ...app.markets.map((market) => ({ name: market.rail.name, ask: () => askMarket(app, market) })),
  ];
}

/** Of the right chain, as far as the others, and with whole blocks: a node without history or receipts proves no absence. */
async function askNodes({ rail }: WiredChain): Promise<Told> {
  const shown = await Promise.all(
    rail.blocks.map(async (node) => {
      const head = await node.finalizedHead();
      const [block] = head.ok ? await node.readBlocks([head.value.number]) : [];
      return { node, head, block };
    }),
  );
  const highest = shown.reduce(
    (most, { head }) => (head.ok && head.value.number > most ? head.value.number : most),
    -1n,
  );
  const words = shown.map(({ node, head, block }) => {
    if (!head.ok) return { ok: false, says: `${node.source} fails: ${head.fault}` };
    const upTo = `${node.source} is final up to ${head.value.number}`;
    const behind = highest - head.value.number;
    if (behind > BEHIND_BLOCKS_MAX) return { ok: false, says: `${upTo}, ${behind} blocks behind` };
    if (block?.ok !== true) return { ok: false, says: `${upTo}, and is no witness: ${block?.fault ?? 'no block'}` };
    return { ok: true, says: upTo };
  });
  const blind = await askInside(
    shown.flatMap(({ node, head }) => (head.ok ? [{ node, height: head.value.number }] : [])),
  );
  const up = shown.filter(({ head }) => head.ok).length;
  const operators = new Set(rail.blocks.map((node) => node.operator)).size;
  return {
    ok: words.every(({ ok }) => ok) && blind.length === 0,
    found: [
      `${up} of ${shown.length} nodes answer: ${words.map(({ says }) => says).join('; ')}`,
      ...blind,
      ...(operators === 1 ? ['one operator runs them all: what takes two witnesses stays with people'] : []),
    ].join('; '),
  };
}

/** Which nodes keep nothing of what contracts pass on: java-tron has `vm.saveInternalTx` off, and such deposits are not seen there. */
async function askInside(nodes: readonly { node: BlockSource; height: bigint }[]): Promise<string[]> {
  const top = nodes.reduce<bigint | null>(
    (least, { height }) => (least === null || height < least ? height : least),
    null,
  );
  if (top === null) return [];
  const numbers = Array.from({ length: Number(INSIDE_BLOCKS) }, (_, back) => top - BigInt(back)).filter(
    (one) => one > 0n,
  );
  const counted = await Promise.all(
    nodes.map(async ({ node }) => {
      const read = await node.readBlocks(numbers);
      return { source: node.source, ...countInside(read.flatMap((one) => (one.ok ? [one.value] : []))) };
    }),
  );
  const most = Math.max(...counted.map(({ passed }) => passed));
  return counted
    .filter(({ tells, passed, calls }) => tells && passed === 0 && (most > 0 || calls >= INSIDE_CALLS_TELLING))
    .map(
      ({ source }) =>
        `${source} shows no coin that contracts pay, so such deposits are missed where it is read: set vm.saveInternalTx there, or use another node`,
    );
}

function countInside(blocks: readonly Block[]): { tells: boolean; passed: number; calls: number } {
  const transactions = blocks.flatMap((block) => block.transactions);
  return {
    tells: transactions.some(({ internal }) => internal !== undefined),
    passed: transactions.reduce((sum, { internal }) => sum + (internal?.length ?? 0), 0),
    calls: transactions.filter(({ receipt }) => receipt.logs.length > 0).length,
  };
}

async function askWallet(app: App, wallet: App['supplyPolicy']['watched'][number]): Promise<Told> {
  const chain = app.chains.find((one) => one.chain === wallet.chain);
  const coin = chain?.assets.find((asset) => asset.contract === null);
  const units = await balanceReader(app.chains)(wallet);
  const amount = (of: bigint): string => `${formatUnits(of, coin?.decimals ?? 0)} ${coin?.code ?? ''}`;
  if (units === null) return { ok: false, found: `no node of ${wallet.chain} tells what it has` };
  return {
    ok: units >= wallet.warnBelow,
    found: `it has ${amount(units)} for fees on ${wallet.chain}, told below ${amount(wallet.warnBelow)}`,
    hint: 'Fund it: payments that it pays fees for wait without, and nothing is lost.',
  };
}

async function askMarket(app: App, { rail, account }: WiredMarket): Promise<Told> {
  const balance = await rail.balance();
  const terms = app.supplyPolicy.energy.find(({ market }) => market?.rail === rail.name);
  const coin = app.chains.find((one) => one.chain === terms?.chain)?.assets.find((asset) => asset.contract === null);
  if (typeof balance === 'string')
    return { ok: false, found: balance, hint: 'Payments wait for energy, or burn coin where that is allowed.' };
  return {
    ok: balance > 0n,
    found: `${formatUnits(balance, coin?.decimals ?? 0)} ${coin?.code ?? ''} stand prepaid at ${account}`,
    hint: 'Fund the account at the market: without, payments wait for energy, or burn coin where that is allowed.',
  };
}
