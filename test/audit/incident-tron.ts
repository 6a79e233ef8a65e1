/*
 * A history of token transfers on the simulated TRON, behind the rail's own block readers at two operators: what was planted
 * as data stands there in solid blocks, in its order, under the ids that the chain gave it.
 */
import assert from 'node:assert/strict';
import type { ReconciledChain } from '../../src/audit/reconcile/chain-read.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeLocalSigner, makeTronRail, readAddress } from '../../src/rails/tron/index.ts';
import { startTron, type Tron } from '../../sim/tron/tron.ts';
import type { Planted } from './planted-chain.ts';

const KEY = `0x${'11'.repeat(32)}` as const;
/** More than all that anybody sends here. */
const TOKENS = 10n ** 15n;
/** A transfer of tokens takes 65,000 energy and 345 bytes; with stake nobody pays a fee, and nothing but tokens moves. */
const ENERGY = 10n ** 9n;
const BANDWIDTH = 10n ** 7n;
const SOLID_AFTER_BLOCKS = 20;

export interface MinedHistory {
  readonly tron: Tron;
  readonly chain: ReconciledChain;
  /** Where a transfer stands now, by the hash it was planted under. */
  mined(one: Planted): Planted;
  end(): Promise<void>;
}

/** `outsiders` have tokens from the start; everybody else has what came to them. */
export async function mineHistory(
  chainId: string,
  token: string,
  transfers: readonly Planted[],
  outsiders: readonly string[],
): Promise<MinedHistory> {
  const tron = await startTron({ chainId, nodes: [{ name: 'a' }, { name: 'b' }] });
  tron.deployToken({ address: token });
  for (const outsider of outsiders) tron.fundToken(token, outsider, TOKENS);
  for (const sender of new Set(transfers.map((one) => one.from))) {
    tron.fund(sender, 1n);
    tron.stake(sender, { energy: ENERGY, bandwidth: BANDWIDTH });
  }
  const mined = new Map<string, Planted>();
  const inOrder = Map.groupBy(
    [...transfers].sort((a, b) => Number(a.block - b.block)),
    (one) => one.block,
  );
  for (const ones of inOrder.values()) {
    const ids = ones.map(({ from, to, amount }) => tron.act(from, { kind: 'send_token', token, to, units: amount }));
    const block = BigInt(tron.mine().number);
    for (const [index, one] of ones.entries()) mined.set(one.txHash, { ...one, block, txHash: ids[index] ?? '' });
  }
  tron.mine(SOLID_AFTER_BLOCKS);
  const moved = (await tron.books.movements()).filter((one) => one.asset === token && one.final);
  assert.equal(moved.length, transfers.length, 'all that was planted is in solid blocks');
  assert.deepEqual(await tron.books.costs(), []);
  const rail = makeTronRail(
    {
      name: `rail:${chainId}`,
      genesisId: tron.genesisId,
      nodes: tron.nodes.map(({ url }, index) => ({ url, operator: `operator-${index + 1}` })),
      coinAssetId: 'trx',
      feeLimitCapSun: 1n,
    },
    { ports: systemPorts(), signer: makeLocalSigner([KEY]) },
  );
  return {
    tron,
    chain: {
      chain: chainId,
      rail: rail.name,
      nodes: rail.blocks,
      canonical(text) {
        const read = readAddress(text);
        return read.ok ? read.address : null;
      },
    },
    mined: (one) => mined.get(one.txHash) ?? assert.fail(`${one.txHash} was not mined`),
    async end() {
      await rail.close();
      await tron.stop();
    },
  };
}
