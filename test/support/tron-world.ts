/**
 * A world on the simulated TRON: one chain, nodes with operators of their own, USDT that answers false, wallets with TRX and
 * tokens, the rail, and the chain's own books as the judge. Time is the chain's own and moves with `mine`; strangers move
 * TRX in each block, so that nodes have something to show.
 */
import { after } from 'node:test';
import type { Rail } from '../../src/engine/rail.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import {
  canonicalAddress,
  makeLocalSigner,
  makeTronRail,
  type TronRail,
  type TronRailConfig,
} from '../../src/rails/tron/index.ts';
import { type NodeOptions, startTron, type Tron } from '../../sim/tron/tron.ts';
import { makeWorld, type World, type WorldOptions } from './world.ts';

export const TRX = 1_000_000n;
export const TOKENS_PER_WALLET = 1_000_000_000_000n;

export interface TronWorld extends World {
  readonly tron: Tron;
  readonly token: string;
  readonly rail: TronRail;
  readonly wallets: readonly string[];
  /** A fresh outside address; it exists on the chain unless told otherwise. */
  outsider(options?: { readonly exists?: boolean }): string;
  /** Everything due now, one pass. */
  pass(): Promise<void>;
  mine(blocks?: number): void;
  /** Mines and passes until nothing of ours is open, or gives up. */
  drain(rounds?: number): Promise<void>;
  /** Movements out of our wallets that are in the chain of the head. */
  paid(): Promise<readonly { to: string; amount: bigint; tx: string; final: boolean }[]>;
}

export interface TronWorldOptions {
  readonly label?: string;
  readonly nodes?: readonly NodeOptions[];
  readonly walletCount?: number;
  /** TRX itself in place of the token. */
  readonly coin?: boolean;
  /** Sun per wallet. Absent: 1,000 TRX. */
  readonly sun?: bigint;
  readonly rail?: Partial<TronRailConfig>;
  readonly capabilities?: Partial<Rail['capabilities']>;
  readonly leaseMs?: number;
  readonly log?: WorldOptions['log'];
}

function addressAt(number: number): string {
  return canonicalAddress(`0x${number.toString(16).padStart(8, '0').repeat(5)}`);
}

export async function genesisOf(url: string): Promise<string> {
  const answer = await fetch(`${url}/wallet/getblockbynum`, { method: 'POST', body: JSON.stringify({ num: 0 }) });
  return ((await answer.json()) as { blockID: string }).blockID;
}

/** A test that fails leaves its world open: ended here, else the file's process would live on with its servers. */
const open = new Set<TronWorld>();
after(async () => {
  for (const world of open) await world.end();
});

export async function makeTronWorld(options: TronWorldOptions = {}): Promise<TronWorld> {
  const tron = await startTron({ nodes: options.nodes ?? [{ name: 'a' }, { name: 'b' }] });
  const keys = Array.from(
    { length: options.walletCount ?? 1 },
    (_, index): `0x${string}` => `0x${(index + 17).toString(16).padStart(64, '0')}`,
  );
  const signer = makeLocalSigner(keys);
  const wallets = signer.addresses();
  const token = tron.deployToken();
  const [stranger, other] = [addressAt(0xbeef), addressAt(0xfeed)];
  for (const one of [stranger, other]) tron.fund(one, 1_000_000n * TRX);
  for (const wallet of wallets) {
    tron.fund(wallet, options.sun ?? 1_000n * TRX);
    tron.fundToken(token, wallet, TOKENS_PER_WALLET);
  }
  const mine = (blocks = 1): void => {
    for (let made = 0; made < blocks; made += 1) {
      tron.act(stranger, { kind: 'send', to: other, sun: 1n });
      tron.mine();
    }
  };
  mine(30);
  const genesisId = await genesisOf(tron.url);
  let rail: TronRail | undefined;
  const world = await makeWorld({
    label: options.label ?? 'tron',
    chain: tron.rail,
    contract: options.coin === true ? null : token,
    assetCode: options.coin === true ? 'TRX' : 'USDT',
    wallet: wallets[0] ?? '',
    wallets,
    ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
    ...(options.log === undefined ? {} : { log: options.log }),
    endedByHook: true,
    rails(ports) {
      rail = makeTronRail(
        {
          name: tron.rail,
          genesisId,
          nodes: tron.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index}` })),
          coinAssetId: `${tron.rail}/slip44:60`,
          feeLimitCapSun: 100n * TRX,
          energy: { policy: 'burn', maxSun: 50n * TRX },
          ...options.rail,
          capabilities: { lookEveryMs: 20, resendAfterMs: 100, ...options.capabilities },
        },
        { ports, signer, ...(options.log === undefined ? {} : { log: options.log }) },
      );
      return [rail];
    },
  });
  if (rail === undefined) throw new Error('the rail was not made');
  const made = rail;
  let outsiders = 0;
  const one: TronWorld = {
    ...world,
    tron,
    token,
    rail: made,
    wallets,
    mine,
    outsider({ exists = true } = {}) {
      outsiders += 1;
      const address = addressAt(0xa000 + outsiders);
      if (exists) tron.fund(address, 1n);
      return address;
    },
    async pass() {
      await world.pool.query(
        "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
      );
      await advanceOnce(world.engine, made);
    },
    async drain(rounds = 60) {
      for (let round = 0; round < rounds; round += 1) {
        await one.pass();
        const open = await world.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
        if (open.rowCount === 0) return;
        mine(5);
      }
    },
    async paid() {
      const ours = new Set(wallets);
      const asset = options.coin === true ? 'native' : token;
      return (await tron.books.movements())
        .filter((movement) => ours.has(movement.from) && movement.asset === asset)
        .map(({ to, amount, tx, final }) => ({ to, amount, tx, final }));
    },
    async end() {
      if (!open.delete(one)) return;
      await made.close();
      await world.end();
      await tron.stop();
    },
  };
  open.add(one);
  return one;
}
