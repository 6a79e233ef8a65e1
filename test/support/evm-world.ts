/**
 * A world on a real chain: anvil, a token, wallets with tokens and coin, two nodes with operators of their own (fault
 * proxies over the one chain), the EVM rail, and the chain's own books as the judge.
 */
import type { Rail } from '../../src/engine/rail.ts';
import { type EvmRail, makeDevSigner, makeEvmRail } from '../../src/rails/evm/index.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { type Anvil, startAnvil, type AnvilOptions } from '../../sim/anvil.ts';
import { makeEvmBooks } from '../../sim/evm-books.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens } from '../../sim/evm-send.ts';
import { makeWorld, type World, type WorldOptions } from './world.ts';

export const TOKENS_PER_WALLET = 1_000_000_000_000n;

export interface EvmWorld extends World {
  readonly anvil: Anvil;
  readonly token: `0x${string}`;
  readonly nodes: readonly EvmProxy[];
  readonly rail: EvmRail;
  readonly wallets: readonly string[];
  /** A fresh outside address. */
  outsider(): string;
  /** Everything due now, one pass. */
  pass(): Promise<void>;
  /** Mines and passes until nothing of ours is open, or gives up. */
  drain(passes?: number): Promise<void>;
  /** Token movements out of our wallets, by the chain's own logs. */
  paid(): Promise<readonly { to: string; amount: bigint; id: string }[]>;
  books(): ReturnType<typeof makeEvmBooks>;
}

export interface EvmWorldOptions {
  label?: string;
  anvil?: AnvilOptions;
  walletCount?: number;
  nodeCount?: number;
  leaseMs?: number;
  /** The rail's time for one node. */
  askWithinMs?: number;
  log?: WorldOptions['log'];
  /** Absent: withdrawals. */
  flows?: WorldOptions['flows'];
  capabilities?: Partial<Rail['capabilities']>;
}

export async function makeEvmWorld(options: EvmWorldOptions = {}): Promise<EvmWorld> {
  const anvil = await startAnvil({ mining: 'manual', accountCount: 10, ...options.anvil });
  const owner = anvil.accounts[9];
  if (owner === undefined) throw new Error('anvil without accounts');
  const token = await deployToken(anvil, owner.privateKey);
  const wallets = anvil.accounts.slice(0, options.walletCount ?? 1).map((account) => account.address.toLowerCase());
  for (const wallet of wallets)
    await mintTokens(anvil, owner.privateKey, token, wallet as `0x${string}`, TOKENS_PER_WALLET);
  await anvil.mine(4);
  const nodes = await Promise.all(
    Array.from({ length: options.nodeCount ?? 2 }, () => startEvmProxy({ upstream: anvil.url })),
  );
  const chain = `eip155:${anvil.chainId}`;
  let rail: EvmRail | undefined;
  const world = await makeWorld({
    label: options.label ?? 'evm',
    chain,
    contract: token.toLowerCase(),
    wallet: wallets[0] ?? '',
    wallets,
    ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
    ...(options.log === undefined ? {} : { log: options.log }),
    ...(options.flows === undefined ? {} : { flows: options.flows }),
    rails(ports) {
      rail = makeEvmRail(
        {
          name: `evm:${anvil.chainId}`,
          chainId: BigInt(anvil.chainId),
          nodes: nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
          finality: { tag: 'finalized' },
          feeCapWei: 10n ** 12n,
          gasLimitCap: 1_000_000n,
          coinAssetId: `${chain}/slip44:60`,
          ...(options.askWithinMs === undefined ? {} : { askWithinMs: options.askWithinMs }),
          capabilities: { lookEveryMs: 100, resendAfterMs: 200, bumpAfterMs: null, ...options.capabilities },
        },
        { ports, signer: makeDevSigner() },
      );
      return [rail];
    },
  });
  if (rail === undefined) throw new Error('the rail was not made');
  const made = rail;
  // The wallet's coin was given by the chain's genesis: an opening balance, so that custody follows from here.
  let outsiders = 0;
  const evm: EvmWorld = {
    ...world,
    anvil,
    token: token.toLowerCase() as `0x${string}`,
    nodes,
    rail: made,
    wallets,
    outsider() {
      outsiders += 1;
      return `0x${'a'.repeat(30)}${outsiders.toString(16).padStart(10, '0')}`;
    },
    async pass() {
      await world.pool.query(
        "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
      );
      await advanceOnce(world.engine, made);
    },
    async drain(passes = 40) {
      for (let round = 0; round < passes; round += 1) {
        await evm.pass();
        const open = await world.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
        if (open.rowCount === 0) return;
        await anvil.mine(3);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async paid() {
      const books = await evm.books();
      const ours = new Set(wallets);
      return (await books.movements())
        .filter((one) => ours.has(one.from) && one.asset === evm.token)
        .map((one) => ({ to: one.to, amount: one.amount, id: one.id }));
    },
    books: () => makeEvmBooks({ url: anvil.url, tokens: [token] }),
    async end() {
      await made.close();
      await world.end();
      await Promise.all(nodes.map((node) => node.stop()));
      await anvil.stop();
    },
  };
  return evm;
}
