/**
 * From movements to sightings: which of them concern our addresses, and what each of those is. Reads only rows that are
 * never changed again (assets, addresses, stored variants), so it runs before the booking transaction and holds no lock.
 */
import type { Query, Row } from '../../db/pool.ts';
import { toText } from '../../db/pool.ts';
import type { Block } from './block-source.ts';
import { type AddressKind, type Classed, classifySides, type OwnEffect, type Side } from './classify-transfer.ts';
import { type Doubt, findDoubts, namesInDoubt } from './doubts.ts';
import { type Movement, readMovements } from './read-movements.ts';

const ASSETS = `select id, contract
from payonce.assets
where chain = $1`;

const ADDRESSES = `select id, address, kind, partner_id
from payonce.addresses
where chain = $1
  and address = any ($2::text[])`;

// A transaction is ours by the hash of a stored variant, and of it what leaves the effect's own wallet; a call may bring
// something there too. Whatever else moves inside (a receiver pays on, an old allowance is used) is judged as if no effect
// were there: a stranger's deposit in our transaction is a deposit. Our payload under a hash that we have not signed (the key is
// elsewhere too) is ours as well where it does what the effect at that nonce says: the engine settles it as such.
const OWN_EFFECTS = `select m.n, e.id, e.hold_key is not null as partner_pays
from unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::numeric[])
  with ordinality as m (tx_hash, sender, nonce, asset_id, from_address, to_address, amount, n)
join lateral (
  select v.effect_id as id from payonce.effect_variants v where v.hash = m.tx_hash
  union
  select x.id from payonce.effects x
  where x.rail = $1
    and x.signer = m.sender
    and x.nonce = m.nonce
    and x.wallet = m.from_address
    and x.asset_id = m.asset_id
    and x.destination = m.to_address
    and x.amount = m.amount
) o on true
join payonce.effects e on e.id = o.id
where e.wallet = m.from_address
   or (e.call is not null and e.wallet = m.to_address)`;

export interface OwnAddress {
  readonly id: string;
  readonly kind: AddressKind;
  readonly partnerId: string | null;
}

export interface Sighting extends Classed {
  readonly movement: Movement;
  /** The sender's side; `null`: it is outside. */
  readonly sender: Classed | null;
  /** The effect of ours that moved it. */
  readonly effectId: bigint | null;
  /** The receiver, where it is ours. */
  readonly receiver: OwnAddress | null;
}

/** What was left out, and why: nothing is skipped in silence. */
export interface Skipped {
  /** Transfer logs to our addresses of contracts that are not on our list (case H3). */
  readonly lookAlikes: number;
  /** Transfer logs of our contracts that do not read as such (case H11). */
  readonly malformed: number;
  readonly zeroAmounts: number;
}
export const NOTHING_SKIPPED: Skipped = { lookAlikes: 0, malformed: 0, zeroAmounts: 0 };

export interface Sightings {
  readonly sightings: readonly Sighting[];
  readonly skipped: Skipped;
  /** Words for people about rows and logs that could not be read, by alert key. */
  readonly complaints: ReadonlyMap<string, string>;
  /** What may concern an address of ours and could not be read as money or as none. */
  readonly doubts: readonly Doubt[];
}

export interface Watch {
  readonly chain: string;
  /** The rail whose effects move money on this chain. */
  readonly rail: string;
  /** The chain's one spelling of an address, `null` where the text is none. */
  canonical(address: string): string | null;
}

export async function findSightings(query: Query, watch: Watch, blocks: readonly Block[]): Promise<Sightings> {
  const complaints = new Map<string, string>();
  const assets = await loadWatchedAssets(query, watch, complaints);
  const read = blocks.map((block) => readMovements(block, assets));
  const movements = dropRepeats(read.flatMap((one) => one.movements));
  const lookAlikes = read.flatMap((one) => one.lookAlikes);
  for (const one of read.flatMap((each) => each.malformed)) {
    complaints.set(
      `${watch.chain}:${one.contract}`,
      `A Transfer log of ${one.contract} does not read (transaction ${one.txHash}, log ${one.position}) and was left out: look whether the contract was changed.`,
    );
  }
  const ours = await loadAddresses(query, watch.chain, [
    ...movements.flatMap((one) => [one.from, one.to]),
    ...lookAlikes.map((one) => one.to),
    ...namesInDoubt(blocks),
  ]);
  const concerned = movements.filter((one) => ours.has(one.from) || ours.has(one.to));
  const effects = await loadOwnEffects(query, watch.rail, concerned);
  const sightings = concerned.flatMap((movement, index) => {
    const receiver = ours.get(movement.to) ?? null;
    const own = effects[index] ?? NOT_OURS;
    const sides = classifySides({
      from: sideOf(ours.get(movement.from) ?? null),
      to: sideOf(receiver),
      effect: own.effect,
    });
    const classed = sides.receiver ?? sides.sender;
    return classed === null ? [] : [{ ...classed, sender: sides.sender, effectId: own.id, movement, receiver }];
  });
  return {
    sightings,
    complaints,
    doubts: findDoubts(watch.chain, blocks, ours),
    skipped: {
      lookAlikes: lookAlikes.filter((one) => ours.has(one.to)).length,
      malformed: read.reduce((sum, one) => sum + one.malformed.length, 0),
      zeroAmounts: read.reduce((sum, one) => sum + one.zeroAmounts, 0),
    },
  };
}

export function sideOf(address: Pick<OwnAddress, 'kind' | 'partnerId'> | null | undefined): Side {
  if (address === null || address === undefined) return 'OUTSIDE';
  return address.kind === 'MASTER' && address.partnerId !== null ? 'PARTNER_MASTER' : address.kind;
}

/** A node that shows one transaction in two blocks must not make the batch unbookable. */
function dropRepeats(movements: readonly Movement[]): Movement[] {
  const seen = new Set<string>();
  return movements.filter((one) => {
    const key = `${one.txHash}:${one.position}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

async function loadWatchedAssets(query: Query, watch: Watch, complaints: Map<string, string>) {
  const contracts = new Map<string, string>();
  let nativeAssetId: string | null = null;
  const { rows } = await query.query<{ id: string; contract: string | null }>(ASSETS, [watch.chain]);
  for (const { id, contract } of rows) {
    if (contract === null) {
      nativeAssetId = id;
      continue;
    }
    const canonical = watch.canonical(contract);
    if (canonical !== null) contracts.set(canonical, id);
    else
      complaints.set(
        `${watch.chain}:${id}`,
        `Asset ${id}: "${contract}" is no contract of ${watch.chain}; its deposits are not seen.`,
      );
  }
  return { contracts, nativeAssetId };
}

async function loadAddresses(
  query: Query,
  chain: string,
  addresses: readonly string[],
): Promise<Map<string, OwnAddress>> {
  const wanted = [...new Set(addresses)];
  if (wanted.length === 0) return new Map();
  const { rows } = await query.query(ADDRESSES, [chain, wanted]);
  return new Map(rows.map((row) => [toText(row['address'], 'addresses.address'), toOwnAddress(row)]));
}

function toOwnAddress(row: Row): OwnAddress {
  return {
    id: toText(row['id'], 'addresses.id'),
    kind: toText(row['kind'], 'addresses.kind') as AddressKind,
    partnerId: row['partner_id'] as string | null,
  };
}

interface Own {
  readonly id: bigint | null;
  readonly effect: OwnEffect;
}
const NOT_OURS: Own = { id: null, effect: 'none' };

async function loadOwnEffects(query: Query, rail: string, movements: readonly Movement[]): Promise<Own[]> {
  const found: Own[] = movements.map(() => NOT_OURS);
  if (movements.length === 0) return found;
  const { rows } = await query.query<{ n: bigint; id: bigint; partner_pays: boolean }>(OWN_EFFECTS, [
    rail,
    movements.map((one) => one.txHash),
    movements.map((one) => one.sender),
    movements.map((one) => one.nonce),
    movements.map((one) => one.assetId),
    movements.map((one) => one.from),
    movements.map((one) => one.to),
    movements.map((one) => one.amount),
  ]);
  for (const row of rows) found[Number(row.n) - 1] = { id: row.id, effect: row.partner_pays ? 'partner_pays' : 'own' };
  return found;
}
