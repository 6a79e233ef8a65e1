/**
 * Booking what was seen: one transaction for a batch of blocks, batch-first.
 *
 * At finality (`bookFinal`): the transfers' rows decide. `markSeen` answers the rows that became final in this very
 * transaction; only these are credited, posted and told (W1, W11). At the head (`bookHead`) only deposits are noted, as
 * `detected`: nothing is posted, and they vanish when another block takes their block's place.
 */
import type { Tx } from '../../db/pool.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { lengthPrefixed, type MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { feeOf } from '../../kernel/money.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { emit } from '../../outbox/emit.ts';
import { QUARANTINED, REMINED_OTHERWISE, type TransferClass } from './classify-transfer.ts';
import { bookDrafts, creditDrafts, type Draft, moveDraft } from './entries.ts';
import { tellOfDoubts, tellOfReturned, tellOfSightings, tellOfUnreadable } from './people.ts';
import type { Sighting, Sightings } from './sightings.ts';
import * as store from './store.ts';
import { loadDepositViews, toDepositData } from './views.ts';

export interface UnknownMovement {
  readonly chain: string;
  readonly rail: string;
  readonly class: TransferClass;
  /** The address of ours that the money left. */
  readonly wallet: string;
  /** Who signed the transaction. */
  readonly sender: string;
  readonly txHash: string;
}

export interface BookDeps {
  readonly chain: string;
  readonly rail: string;
  readonly chart: Chart;
  readonly makeId: MakeId;
  readonly log: Log;
  /** Money left one of our wallets without a record, to outside or to ourselves: in the same transaction nothing new of
   *  that wallet is sealed. */
  onUnknownMovement(tx: Tx, moved: UnknownMovement): Promise<void>;
}

export interface Booked {
  readonly credited: number;
  readonly detected: number;
  readonly vanished: number;
  /** Transfers that this transaction saw final, of any class. */
  readonly transfers: number;
}

export const NOTHING_BOOKED: Booked = { credited: 0, detected: 0, vanished: 0, transfers: 0 };

type Told = Map<string, 'deposit.detected' | 'deposit.credited' | 'deposit.vanished'>;

export async function bookFinal(tx: Tx, deps: BookDeps, found: Sightings): Promise<Booked> {
  const cameBack = (await store.moveFinal(tx, deps.chain, found.sightings)).filter((one) => one.wasGone);
  const seen = await store.markSeen(tx, deps.chain, found.sightings, true);
  const gone = await store.markGone(tx, deps.chain);
  const known = await knownDeposits(tx, [...seen.map((one) => one.transferId), ...gone]);
  const told: Told = new Map();

  const stray = seen.filter((one) => isForAnother(one, known.get(one.transferId)));
  await store.reclass(
    tx,
    stray.map((one) => one.transferId),
    REMINED_OTHERWISE,
  );
  const settled = seen.map((one) => (stray.includes(one) ? reclassed(one) : one));
  const deposits = settled.filter((one) => one.sighting.class === 'DEPOSIT');
  await vanish(
    tx,
    [...known.values()].filter((row) => !deposits.some((one) => one.transferId === row.transferId)),
    told,
  );
  const drafts = await credit(tx, deps, deposits, known, told);

  for (const { sighting } of settled) {
    if (!QUARANTINED.includes(sighting.class)) continue;
    const { from, sender, txHash } = sighting.movement;
    const at = { chain: deps.chain, rail: deps.rail, class: sighting.class };
    await deps.onUnknownMovement(tx, { ...at, wallet: from, sender, txHash });
  }
  drafts.push(...settled.map((one) => moveDraft(deps.chain, one)).filter((draft) => draft !== null));
  await bookDrafts(tx, deps.chart, deps.log, drafts);
  await tellOfSightings(
    tx,
    deps,
    settled.map((one) => one.sighting),
  );
  await tellOfReturned(tx, deps, cameBack);
  await tellOfDoubts(tx, deps, found.doubts);
  await tellOfUnreadable(tx, deps, found.complaints);
  await tellPartners(tx, deps.makeId, told);
  return { ...countTold(told), transfers: seen.length };
}

/** Notes deposits above finality; other classes wait for it. */
export async function bookHead(tx: Tx, deps: BookDeps, found: Sightings): Promise<Booked> {
  const sightings = found.sightings.filter((one) => one.class === 'DEPOSIT');
  const seen = await store.markSeen(tx, deps.chain, sightings, false);
  const gone = await store.markGone(tx, deps.chain);
  const known = await knownDeposits(tx, [...seen.map((one) => one.transferId), ...gone]);
  const told: Told = new Map();
  const stray = seen.filter((one) => isForAnother(one, known.get(one.transferId)));
  const deposits = seen.filter((one) => !stray.includes(one));
  await vanish(
    tx,
    [...known.values()].filter((row) => !deposits.some((one) => one.transferId === row.transferId)),
    told,
  );

  const fresh = deposits.filter((one) => !known.has(one.transferId)).map((one) => newDeposit(deps, one, 0n));
  await store.insertSubjects(tx, fresh);
  await store.insertDeposits(tx, fresh, 'detected');
  const again = deposits.flatMap((one) => measured(one, known.get(one.transferId)));
  const back = await store.markDetected(tx, again);
  const changed = await store.changeDetectedAmount(tx, again);
  for (const id of [...fresh.map((one) => one.id), ...back, ...changed]) told.set(id, 'deposit.detected');
  await tellPartners(tx, deps.makeId, told);
  return { ...countTold(told), transfers: seen.length };
}

async function knownDeposits(tx: Tx, transferIds: readonly bigint[]): Promise<Map<bigint, store.DepositRow>> {
  return new Map((await store.lockDepositsOf(tx, transferIds)).map((row) => [row.transferId, row]));
}

/** Mined again with another receiver or asset: the place is taken by a deposit that was shown to somebody else. */
function isForAnother({ sighting }: store.SeenTransfer, row: store.DepositRow | undefined): boolean {
  if (row === undefined || sighting.class !== 'DEPOSIT') return false;
  return row.addressId !== sighting.receiver?.id || row.assetId !== sighting.movement.assetId;
}

function reclassed(one: store.SeenTransfer): store.SeenTransfer {
  return { ...one, sighting: { ...one.sighting, ...REMINED_OTHERWISE } };
}

async function vanish(tx: Tx, rows: readonly store.DepositRow[], told: Told): Promise<void> {
  for (const id of await store.markVanished(
    tx,
    rows.map((row) => row.id),
  ))
    told.set(id, 'deposit.vanished');
}

async function credit(
  tx: Tx,
  deps: BookDeps,
  deposits: readonly store.SeenTransfer[],
  known: ReadonlyMap<bigint, store.DepositRow>,
  told: Told,
): Promise<Draft[]> {
  const terms = await store.loadFeeTerms(
    tx,
    deposits.map(({ sighting }) => ({ assetId: sighting.movement.assetId, partnerId: partnerOf(sighting) })),
  );
  const wanted = deposits.map((one, index) => {
    const { flat, basisPoints } = terms[index] ?? { flat: 0n, basisPoints: 0n };
    const { amount } = one.sighting.movement;
    const fee = feeOf(amount, flat, basisPoints);
    // A fee above the deposit would take from what the partner already has.
    return { one, row: known.get(one.transferId), fee: fee < amount ? fee : amount };
  });
  const fresh = wanted.filter(({ row }) => row === undefined).map(({ one, fee }) => newDeposit(deps, one, fee));
  await store.insertSubjects(tx, fresh);
  await store.insertDeposits(tx, fresh, 'credited');
  const shown = wanted.flatMap(({ one, row, fee }) =>
    row === undefined ? [] : [{ id: row.id, amount: one.sighting.movement.amount, fee }],
  );
  const made = await store.markCredited(tx, shown);
  const ids = new Map(fresh.map((one) => [one.transferId, one.id]));
  return wanted.flatMap(({ one, row, fee }) => {
    const id = row?.id ?? ids.get(one.transferId);
    if (id === undefined || (row !== undefined && !made.has(id))) {
      throw new InvariantBroken(`transfer ${one.transferId} became final but its deposit was not to be credited`);
    }
    told.set(id, 'deposit.credited');
    const { amount } = one.sighting.movement;
    return creditDrafts(deps.chain, one, { id, partnerId: partnerOf(one.sighting), amount, fee });
  });
}

function newDeposit(deps: BookDeps, { transferId, sighting }: store.SeenTransfer, fee: bigint): store.NewDeposit {
  const { txHash, position, assetId, amount } = sighting.movement;
  if (sighting.receiver === null) throw new InvariantBroken(`deposit ${txHash}:${position} has no address of ours`);
  return {
    id: deps.makeId('dep'),
    naturalKey: lengthPrefixed([deps.chain, txHash, String(position)]),
    transferId,
    partnerId: partnerOf(sighting),
    addressId: sighting.receiver.id,
    assetId,
    amount,
    fee,
  };
}

function partnerOf({ receiver, movement }: Sighting): string {
  if (receiver === null || receiver.partnerId === null)
    throw new InvariantBroken(`deposit ${movement.txHash} belongs to no partner`);
  return receiver.partnerId;
}

function measured({ sighting }: store.SeenTransfer, row: store.DepositRow | undefined) {
  return row === undefined ? [] : [{ id: row.id, amount: sighting.movement.amount, fee: 0n }];
}

async function tellPartners(tx: Tx, makeId: MakeId, told: Told): Promise<void> {
  const views = await loadDepositViews(tx, [...told.keys()]);
  const events = [...told].map(([id, type]) => {
    const view = views.get(id);
    if (view === undefined) throw new InvariantBroken(`deposit ${id} cannot be read back`);
    return { subjectType: 'deposit', subjectId: id, type, data: toDepositData(view) };
  });
  await emit(tx, makeId, events);
}

function countTold(told: Told): { credited: number; detected: number; vanished: number } {
  const count = (type: string): number => [...told.values()].filter((one) => one === type).length;
  return {
    credited: count('deposit.credited'),
    detected: count('deposit.detected'),
    vanished: count('deposit.vanished'),
  };
}
