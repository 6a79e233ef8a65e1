/** What our books know of what was read: effects, the scan's records, and which ledger entries belong to it. */
import type { Query } from '../../db/pool.ts';
import type { BlockHeader, Movement } from '../../flows/deposits/index.ts';
import { type EffectFact, type OwnWallet, placeOf, type RecordFact } from './chain-match.ts';
import { type ChainNode, type Cost, findSomewhere, type RangeRead, type ReconciledChain } from './chain-read.ts';
import * as store from './chain-store.ts';

export interface Facts {
  readonly effects: readonly EffectFact[];
  readonly records: ReadonlyMap<string, RecordFact>;
  readonly own: ReadonlyMap<string, OwnWallet>;
  readonly scanNext: bigint | null;
}

export async function loadFacts(pool: Query, chain: ReconciledChain, reads: readonly RangeRead[]): Promise<Facts> {
  const movements = reads.flatMap((one) => one.movements);
  const costs = reads.flatMap((one) => one.costs);
  const hashes = [...new Set([...movements, ...costs].map((one) => one.txHash))];
  const uses = new Map<string, { signer: string; nonce: bigint }>();
  for (const { sender: signer, nonce } of movements) uses.set(`${signer} ${nonce}`, { signer, nonce });
  for (const { payer: signer, nonce } of costs) uses.set(`${signer} ${nonce}`, { signer, nonce });
  return {
    effects: await store.loadEffectsNamed(pool, chain.rail, { hashes, uses: [...uses.values()] }),
    records: await store.loadRecords(pool, chain.chain, hashes),
    own: await store.loadOwn(
      pool,
      chain.chain,
      movements.flatMap((one) => [one.from, one.to]),
    ),
    scanNext: await store.loadScanNext(pool, chain.chain),
  };
}

export function partOf(read: RangeRead, { address }: OwnWallet): { movements: Movement[]; costs: Cost[] } {
  return {
    movements: read.movements.filter((one) => one.from === address || one.to === address),
    costs: read.costs.filter((one) => one.payer === address),
  };
}

/** Settled effects of the wallet without a movement in the range; where the chain puts them elsewhere they are none of it. */
export async function findUnseen(
  pool: Query,
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  wallet: OwnWallet,
  range: { readonly from: bigint; readonly to: BlockHeader; readonly time: RangeRead['time'] },
  read: { readonly movements: readonly Movement[] },
): Promise<{ effect: EffectFact; says: string }[]> {
  const { time, from } = range;
  if (time === null) return [];
  const near = await store.loadSettledNear(
    pool,
    { rail: chain.rail, wallet: wallet.address },
    { from, to: range.to.number, time },
  );
  const shown = new Set(
    read.movements
      .filter((one) => one.from === wallet.address)
      .flatMap((one) => namesOf(one.txHash, one.sender, one.nonce)),
  );
  const open = near.filter((effect) => !namesOfEffect(effect).some((name) => shown.has(name)));
  const hashes = open.flatMap((one) => one.hashes);
  const places = await findSomewhere(nodes, hashes);
  const placed = new Map(hashes.map((hash, index) => [hash, places[index]]));
  return open.flatMap((effect) => {
    const told = effect.hashes.map((hash) => placed.get(hash));
    const at = told.flatMap((one) => (one?.ok === true && one.value !== null ? [one.value] : []));
    if (at.some((block) => block < from || block > range.to.number)) return [];
    const [block] = at;
    if (block !== undefined) return [{ effect, says: `its transaction in block ${block} moved nothing of this` }];
    if (told.some((one) => one?.ok !== true))
      return [{ effect, says: 'the range shows nothing of it, and no node tells where its transaction is' }];
    return [{ effect, says: 'no transaction of it stands on the chain' }];
  });
}

function namesOf(txHash: string, signer: string, nonce: bigint): string[] {
  return [txHash, `${signer} ${nonce}`];
}
function namesOfEffect(effect: EffectFact): string[] {
  return [...effect.hashes, ...(effect.nonce === null ? [] : [`${effect.signer} ${effect.nonce}`])];
}

/** What of the ledger belongs to the range, to what came after it, or to settled effects that moved nothing. */
export function accountedFor(
  own: {
    readonly read: { movements: readonly Movement[]; costs: readonly Cost[] };
    readonly tail: { movements: readonly Movement[]; costs: readonly Cost[] } | null;
  },
  facts: Facts,
  unseen: readonly { effect: EffectFact }[],
): Parameters<typeof store.loadBookedFor>[2] {
  const movements = [...own.read.movements, ...(own.tail?.movements ?? [])];
  const costs = [...own.read.costs, ...(own.tail?.costs ?? [])];
  const names = new Set([
    ...movements.flatMap((one) => namesOf(one.txHash, one.sender, one.nonce)),
    ...costs.flatMap((one) => namesOf(one.txHash, one.payer, one.nonce)),
  ]);
  const effects = facts.effects.filter((effect) => namesOfEffect(effect).some((name) => names.has(name)));
  const records = movements.flatMap((one) => facts.records.get(placeOf(one)) ?? []);
  return {
    effectIds: [...new Set([...effects, ...unseen.map((one) => one.effect)].map((one) => one.id))],
    records,
    hashes: [...new Set([...movements, ...costs].map((one) => one.txHash))],
  };
}
