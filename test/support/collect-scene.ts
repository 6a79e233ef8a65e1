/** What tests of collections share: terms, deposit addresses that hold something by the ledger, and what became of sweeps. */
import { collectOnce, listCollections, storeTerms } from '../../src/flows/collections/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import type { World } from './world.ts';

export const HOUR_MS = 3_600_000;

export interface TermsWish {
  readonly assetId: string;
  readonly min: bigint;
  readonly keep?: bigint;
}

export async function sweepAbove(
  world: Pick<World, 'pool'>,
  chain: string,
  ...wishes: readonly TermsWish[]
): Promise<void> {
  await world.pool.tx('terms', (tx) =>
    storeTerms(
      tx,
      chain,
      wishes.map((one) => ({ keep: 0n, everyMs: HOUR_MS, ...one })),
    ),
  );
}

export async function ownAddress(
  world: Pick<World, 'pool' | 'makeId'>,
  chain: string,
  address: string,
  kind: string,
  partnerId: string | null,
): Promise<void> {
  await world.pool.query(
    'insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, $4, $5)',
    [world.makeId('adr'), chain, address, kind, partnerId],
  );
}

/** Credits the partner out of each address's custody, as its deposits did. */
export async function depositAt(
  world: Pick<World, 'pool' | 'chart' | 'partnerId'>,
  chain: string,
  assetId: string,
  deposits: readonly { readonly address: string; readonly units: bigint; readonly key?: string }[],
): Promise<void> {
  await world.pool.tx('deposits', async (tx) => {
    const ids = await world.chart.ids(tx, [
      accountName.partner(world.partnerId, assetId),
      ...deposits.map((one) => accountName.custody(chain, one.address, assetId)),
    ]);
    const partner = ids[0] ?? -1n;
    await post(
      tx,
      deposits.map((one, index) => ({
        kind: 'post' as const,
        key: `MIGRATED:${one.key ?? 'first'}:${one.address.slice(-20)}:${assetId.slice(-8)}`,
        reference: one.address,
        entries: [
          { accountId: partner, amount: one.units },
          { accountId: ids[index + 1] ?? -1n, amount: -one.units },
        ],
      })),
    );
  });
}

export const cycle = (world: Pick<World, 'engine'>, chain: string) => collectOnce(world.engine, chain, { now: true });

/** Sweeps as they stand: address, amount and status, by address. */
export async function sweepsOf(
  world: Pick<World, 'pool'>,
): Promise<{ id: string; address: string; assetId: string; amount: bigint; status: string }[]> {
  const listed = await listCollections(world.pool, null, 100_000);
  return listed
    .map(({ id, address, assetId, amount, status }) => ({ id, address, assetId, amount, status }))
    .sort((left, right) => (left.address < right.address ? -1 : left.address > right.address ? 1 : 0));
}

/** What we have at an address, by the ledger. */
export async function heldAt(
  world: Pick<World, 'pool'>,
  chain: string,
  address: string,
  assetId: string,
): Promise<bigint> {
  const { rows } = await world.pool.query<{ balance: bigint }>(
    'select balance from payonce.accounts where code = $1 and asset_id = $2',
    [`custody:${chain}:${address}`, assetId],
  );
  return -(rows[0]?.balance ?? 0n);
}
