/*
 * TRON for tests: one chain, any number of nodes before it, each a real HTTP server that answers as java-tron does
 * (`/wallet/*`, `/walletsolidity/*`) and TronGrid's `/v1` beside it.
 *
 * Promises: without a script it does what java-tron's source and documents say, in its order of checks; a transaction gets in
 * only with a right signature, a reference to this chain and before its expiration. Whatever happens on the wire, the books
 * hold what is in the blocks, and `counts` what really went wrong. Time is the chain's own: it stands still between steps,
 * or runs with real time, or runs faster.
 * Never does: decide at random without a seed, run byte code, or look at how Payonce reads a node. What is given before the
 * first block (`fund`, `stake`, `deploy`) was always so, and no fork takes it back.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type BankClock, makeBankClock } from '../bank/clock.ts';
import { breakOff } from '../bank/respond.ts';
import { addressOf, contractAddressOf, sha256, toBase58 } from './address.ts';
import { type ActOf, makeAct } from './acts.ts';
import { makeTronBooks, type TronBooks } from './books.ts';
import { type Block, makeChain, SOLID_LAG_BLOCKS } from './chain.ts';
import { type Door, makeDoor, makeGate } from './door.ts';
import {
  type CallKind,
  type FaultCounts,
  type FaultName,
  makeFaultPlan,
  type TronFault,
  type TronFaultRule,
  type TronRequest,
} from './faults.ts';
import { type ForkOptions, makeNetwork } from './network.ts';
import { defaultSettings, type NodeSettings, type TronNode } from './node.ts';
import { PRICE } from './payout-programs.ts';
import type { TokenProgram } from './program-kinds.ts';
import { BALANCE, BARRED, cellOf, PAUSED, PENALTY_PERCENT } from './programs.ts';
import { energyLeft, MAIN_NET_PRICES, type Prices, SLOT_MS, slotOf, sunForEnergy } from './resources.ts';
import { makeWorld } from './state.ts';

export type NodeOptions = Partial<Omit<NodeSettings, 'name'>> & { readonly name?: string; readonly port?: number };

export type TronOptions = {
  /** Absent: 0. Rules with a chance draw from it. */
  readonly seed?: number | string;
  /** Absent: now. The blocks before it are there already. */
  readonly start?: Date | string;
  /**
   * `manual`: time moves with `mine` and `advance` only. `real`: a block in three seconds of real time. A number: a block, and
   * three seconds of the chain's time, in so many real milliseconds. Absent: manual.
   */
  readonly pace?: 'manual' | 'real' | number;
  /** Blocks from the head to the solid one. Absent: 18, as with 27 witnesses that all take their turns. */
  readonly solidLagBlocks?: number;
  /** Height at which the chain begins for us. Absent: 0. */
  readonly firstBlock?: number;
  readonly prices?: Partial<Prices>;
  readonly faults?: readonly TronFaultRule[];
  /** Absent: one, named `main`. */
  readonly nodes?: readonly NodeOptions[];
  /** For the rail's name in the books. Absent: `tron:0x` and the last four bytes of the first block's id, as CAIP-2 has it. */
  readonly chainId?: string;
};

export type TronServer = {
  readonly url: string;
  readonly port: number;
  readonly name: string;
  /** What can be changed while it runs. */
  readonly settings: NodeSettings;
  head(): number;
  solid(): number;
  pending(): string[];
  /** Connections are refused, as with a server that is not running. `up` listens on the same port again. */
  down(): Promise<void>;
  up(): Promise<void>;
};

export type TokenOptions = Partial<Omit<TokenProgram, 'kind' | 'owner'>> & {
  /** Absent: derived from the symbol and how many there are, so that it is always the same. Base58 or hexadecimal. */
  readonly address?: string;
  readonly owner?: string;
};

export type Tron = {
  /** Of the first node. */
  readonly url: string;
  readonly rail: string;
  /** Of the first block. */
  readonly genesisId: string;
  readonly nodes: readonly TronServer[];
  readonly node: (name: string) => TronServer;
  addNode(options?: NodeOptions): Promise<TronServer>;
  readonly books: TronBooks;
  readonly counts: FaultCounts;
  readonly calls: Readonly<Partial<Record<CallKind, number>>>;
  /** Adds a rule; the returned function withdraws it. */
  script(rule: TronFaultRule): () => void;
  /** Withdraws all rules; the counters and the books stay. */
  heal(): void;
  readonly clock: BankClock;
  /** Blocks now, whatever the pace; slots that are skipped pass on the way. */
  mine(blocks?: number): Block;
  /** Time goes on, and each slot on the way has its block. */
  advance(ms: number): void;
  /** On the chain's clock: what falls due on a slot runs before its block if it was asked for before it. */
  after(ms: number, task: () => void): void;
  /** Until the head is solid that is the head now. */
  solidify(): void;
  /** The newest blocks are left for other ones; not beyond the solid one, unless the options ask for that. */
  fork(depth: number, options?: ForkOptions): void;
  skipSlots(count: number): void;
  /** The solid block stays where it is. */
  stallSolidity(yes: boolean): void;
  head(): Block;
  solid(): Block;
  /** Sun, as if it had always been there; the account exists by it. */
  fund(address: string, sun: bigint): void;
  /** Stake of its own that gives at least so much energy or bandwidth a day. */
  stake(address: string, what: { readonly energy?: bigint; readonly bandwidth?: bigint }): void;
  energyOf(address: string): bigint;
  /** Whose keys sign for it from now on, in all views. */
  setPermission(address: string, keys: readonly string[], threshold?: number): void;
  /** Address in base58. */
  deployToken(options?: TokenOptions): string;
  /** Pays many in one transaction: `pay(address[],uint256[])`, `payToken(address,address[],uint256[])`. */
  deployPayer(options?: { readonly revertsAtEnd?: boolean }): string;
  /** As sim/contracts/multi-send.sol, of tokens. */
  deployMultiSend(): string;
  /** As sim/contracts/swap-and-allocate.sol, with a token in. `price`: units out for 10^18 in. */
  deploySwap(tokenOut: string, price: bigint): string;
  setPrice(swap: string, price: bigint): void;
  fundToken(token: string, holder: string, units: bigint): void;
  /**
   * Somebody else's transaction, straight to the witnesses: no signature is asked for. Returns its id; the next block has it,
   * or it was refused there.
   */
  act(owner: string, act: ActOf): string;
  pauseToken(token: string, yes: boolean): void;
  barFromToken(token: string, holder: string): void;
  /** The network makes calls of it dearer by so many per cent. */
  setPenaltyPercent(contract: string, percent: bigint): void;
  stop(): Promise<void>;
};

export async function startTron(options: TronOptions = {}): Promise<Tron> {
  const pace = options.pace ?? 'manual';
  const wantedMs = new Date(options.start ?? Date.now()).getTime();
  const startMs = Math.floor(wantedMs / SLOT_MS) * SLOT_MS;
  const clock = makeBankClock(new Date(pace === 'real' ? wantedMs : startMs), pace === 'real');
  const plan = makeFaultPlan<CallKind, TronFault, TronRequest, FaultName>(
    String(options.seed ?? 0),
    options.faults ?? [],
  );
  const world = makeWorld(startMs);
  const chain = makeChain({
    world,
    startMs,
    blockMs: SLOT_MS,
    firstNumber: options.firstBlock ?? 0,
    solidLagBlocks: options.solidLagBlocks ?? SOLID_LAG_BLOCKS,
    prices: { ...MAIN_NET_PRICES, ...options.prices },
  });
  const network = makeNetwork({ chain, clock, plan });
  const door = makeDoor({ chain, clock, network, plan });
  const genesisId = chain.block(options.firstBlock ?? 0)?.id ?? '';
  const rail = options.chainId ?? `tron:0x${genesisId.slice(-8)}`;
  const servers: TronServer[] = [];
  let contractsEver = 0;
  let actsEver = 0;
  let paced: NodeJS.Timeout | undefined;

  const addNode = async ({ name, port, ...rest }: NodeOptions = {}): Promise<TronServer> => {
    const settings = {
      ...defaultSettings(name ?? (servers.length === 0 ? 'main' : `node-${servers.length + 1}`)),
      ...rest,
    };
    const server = await listen(network.addNode(settings), door, port ?? 0);
    servers.push(server);
    return server;
  };
  for (const one of options.nodes ?? [{}]) await addNode(one);
  network.start();
  const tick = (ms: number): void => {
    paced = setTimeout(() => {
      clock.advance(SLOT_MS);
      tick(ms);
    }, ms);
    paced.unref();
  };
  if (typeof pace === 'number') tick(pace);

  const newAddress = (): string => {
    contractsEver += 1;
    return contractAddressOf(sha256(Buffer.from(`contract ${contractsEver}`)).toString('hex'), `41${'0'.repeat(40)}`);
  };
  const setCell = (space: string, key: string, value: bigint): void => {
    world.endowCell(space, key, value - world.at(chain.head().number).cell(space, key));
  };

  return {
    get url() {
      return servers[0]?.url ?? '';
    },
    rail,
    genesisId,
    nodes: servers,
    node(name) {
      const found = servers.find((server) => server.name === name);
      if (found === undefined)
        throw new RangeError(`there is no node ${name}: there are ${servers.map((s) => s.name).join(', ')}`);
      return found;
    },
    addNode,
    books: makeTronBooks(chain, rail),
    counts: plan.counts,
    calls: plan.calls,
    script: plan.add,
    heal: plan.clear,
    clock,
    mine: (blocks = 1) => network.mine(blocks),
    advance: clock.advance,
    after: clock.after,
    solidify() {
      network.mine(chain.head().number - chain.solid());
    },
    fork: network.fork,
    skipSlots: network.skipSlots,
    stallSolidity: chain.stall,
    head: chain.head,
    solid: () => chain.block(chain.solid()) ?? chain.head(),
    fund(address, sun) {
      world.endow(addressOf(address), (account) => ({ ...account, balance: account.balance + sun }));
    },
    stake(address, { energy = 0n, bandwidth = 0n }) {
      const { prices } = chain;
      const forNet = { ...prices, totalEnergyLimit: prices.totalNetLimit, totalEnergyWeight: prices.totalNetWeight };
      world.endow(addressOf(address), (account) => ({
        ...account,
        stakedEnergy: account.stakedEnergy + (energy === 0n ? 0n : sunForEnergy(energy, prices)),
        stakedNet: account.stakedNet + (bandwidth === 0n ? 0n : sunForEnergy(bandwidth, forNet)),
      }));
    },
    energyOf(address) {
      const account = world.at(chain.head().number).account(addressOf(address));
      return account === null ? 0n : energyLeft(account, chain.prices, slotOf(chain.head().timeMs));
    },
    setPermission(address, keys, threshold = 1) {
      const permission = { threshold, keys: keys.map((key) => ({ address: addressOf(key), weight: 1 })) };
      world.endow(addressOf(address), (account) => ({ ...account, permission }));
    },
    deployToken({ address, owner, ...rest } = {}) {
      const at = address === undefined ? newAddress() : addressOf(address);
      world.deploy(at, {
        kind: 'token',
        name: 'Tether USD',
        symbol: 'USDT',
        decimals: 6,
        returns: 'false',
        moves: true,
        feeBasisPoints: 0n,
        strictAllowance: false,
        owner: owner === undefined ? at : addressOf(owner),
        ...rest,
      });
      return toBase58(at);
    },
    deployPayer({ revertsAtEnd = false } = {}) {
      const at = newAddress();
      world.deploy(at, { kind: 'payer', revertsAtEnd });
      return toBase58(at);
    },
    deployMultiSend() {
      const at = newAddress();
      world.deploy(at, { kind: 'multi_send' });
      return toBase58(at);
    },
    deploySwap(tokenOut, price) {
      const at = newAddress();
      world.deploy(at, { kind: 'swap', tokenOut: addressOf(tokenOut) });
      world.endowCell(cellOf(at, PRICE), '', price);
      return toBase58(at);
    },
    setPrice: (swap, price) => setCell(cellOf(addressOf(swap), PRICE), '', price),
    fundToken(token, holder, units) {
      const at = addressOf(token);
      world.endowCell(cellOf(at, BALANCE), addressOf(holder), units);
      world.endowCell(cellOf(at, 'supply'), '', units);
    },
    act(owner, act) {
      actsEver += 1;
      const transaction = makeAct(chain, addressOf(owner), act, actsEver);
      network.submit(transaction);
      return transaction.id;
    },
    pauseToken: (token, yes) => setCell(addressOf(token), PAUSED, yes ? 1n : 0n),
    barFromToken: (token, holder) => setCell(cellOf(addressOf(token), BARRED), addressOf(holder), 1n),
    setPenaltyPercent: (contract, percent) => setCell(addressOf(contract), PENALTY_PERCENT, percent),
    async stop() {
      clearTimeout(paced);
      clock.stop();
      for (const server of servers) await server.down();
    },
  };
}

async function listen(node: TronNode, door: Door, wantedPort: number): Promise<TronServer> {
  const gate = makeGate();
  const open = async (port: number): Promise<Server> => {
    const server = createServer((incoming, response) => {
      // A caller that leaves in the middle of its own request is no error of the node's.
      door.serve(node, gate, incoming, response).catch(() => breakOff(response, 'fin'));
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  };
  let server = await open(wantedPort);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    name: node.settings.name,
    settings: node.settings,
    head: node.head,
    solid: node.solid,
    pending: () => node.pending().map(({ id }) => id),
    async down() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
    async up() {
      server = await open(port);
    },
  };
}
