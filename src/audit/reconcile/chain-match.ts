/**
 * Which movement at a wallet is which effect or record, and what differs. Pure: the same blocks and the same books give the same
 * list in the same order.
 *
 * An outflow is an effect's by a hash that we signed, or by the exact payload under the effect's own nonce; amount, day and payee
 * never make a match. Money that infrastructure of ours sends to ourselves needs no effect: the scan's FUNDING is its record. An
 * outflow without either that repeats an effect of the same range (same wallets, asset and amount) is called its double; that is a
 * name for people, nothing is booked by it. A mismatch is reported, and the outflow is no orphan.
 */
import { type AddressKind, classifySides, type Movement, sideOf } from '../../flows/deposits/index.ts';
import type { Cost } from './chain-read.ts';

/** Each kind with what it says; in the order of a report. */
export const CHAIN_FINDINGS = {
  double: 'it repeats a payment of ours, and no effect of ours did it',
  orphan: 'money left, or came from ourselves, and no effect of ours says so',
  released_moved: 'the chain shows it as gone, and we gave the money back',
  missing: 'an effect is settled, and the chain shows no movement of it',
  mismatch: 'the chain shows another amount, asset or receiver than the effect',
  unknown_inflow: 'money came from outside, and it belongs to nobody yet',
  unrecorded: 'the scan has passed this block and has no record of it',
  gas_unbooked: 'a transaction of this wallet that no effect of ours made, and its cost is not booked',
  gas_mismatch: 'another cost is booked than the chain took',
  balance: 'what came in less what went out is not what the wallet has',
  ledger: 'the ledger has more in this wallet than the chain (below zero: less), and nothing above explains it',
  unproved: 'it cannot be shown: no node tells',
} as const;
export type ChainFindingKind = keyof typeof CHAIN_FINDINGS;

export interface ChainFinding {
  /** The same thing found again, by another run or at the other wallet, has the same key. */
  readonly key: string;
  readonly kind: ChainFindingKind;
  readonly direction: 'out' | 'in' | null;
  readonly partnerId: string | null;
  readonly assetId: string;
  /** Units. */
  readonly amount: bigint;
  readonly blockNumber: bigint | null;
  readonly txHash: string | null;
  readonly position: number | null;
  readonly counterparty: string | null;
  readonly effect: EffectFact | null;
  readonly detail: string;
}

export interface EffectFact {
  readonly id: bigint;
  readonly subjectType: string;
  readonly subjectId: string;
  readonly partnerId: string;
  readonly state: 'PENDING' | 'SEALED' | 'SETTLED' | 'RELEASED';
  readonly contradicted: boolean;
  readonly assetId: string;
  readonly amount: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly nonce: bigint | null;
  /** A contract call moves what its contract moves. */
  readonly isCall: boolean;
  readonly hashes: readonly string[];
}

/** What the scan wrote of a movement. */
export interface RecordFact {
  readonly transferId: bigint;
  readonly class: string;
  readonly depositId: string | null;
}

export interface OwnWallet {
  readonly address: string;
  readonly kind: AddressKind;
  readonly partnerId: string | null;
}

export interface Scene {
  readonly chain: string;
  readonly wallet: OwnWallet;
  readonly coinAssetId: string | null;
  /** At this wallet, in the range. */
  readonly movements: readonly Movement[];
  readonly costs: readonly Cost[];
  /** Those that the hashes and nonces of the movements and costs name. */
  readonly effects: readonly EffectFact[];
  /** By `placeOf`. */
  readonly records: ReadonlyMap<string, RecordFact>;
  /** Addresses of ours among the counterparties. */
  readonly own: ReadonlyMap<string, OwnWallet>;
  /** Gas booked at this wallet, by effect. */
  readonly gasBooked: ReadonlyMap<bigint, bigint>;
  /** The first block that the scan has not booked; `null`: it never ran. */
  readonly scanNext: bigint | null;
  /** Settled effects of this wallet that no movement of the range is, with what the chain says of them. */
  readonly unseen: readonly { readonly effect: EffectFact; readonly says: string }[];
}

export interface Matched {
  readonly findings: readonly ChainFinding[];
  readonly counts: {
    readonly outflows: number;
    readonly inflows: number;
    readonly byEffect: number;
    readonly byRecord: number;
    /** Final on the chain and not settled here yet: the next run sees them. */
    readonly underWay: number;
    readonly transactions: number;
  };
}

export function placeOf(one: { readonly txHash: string; readonly position: number }): string {
  return `${one.txHash}:${one.position}`;
}

export function matchWallet(scene: Scene): Matched {
  const matcher = new Matcher(scene);
  const outs = scene.movements.filter((one) => one.from === scene.wallet.address);
  const ins = scene.movements.filter((one) => one.to === scene.wallet.address);
  matcher.takeAll(outs, 'out');
  matcher.takeAll(ins, 'in');
  matcher.gas();
  for (const { effect, says } of scene.unseen) matcher.missing(effect, says);
  return {
    findings: matcher.findings.toSorted(inReportOrder),
    counts: {
      outflows: outs.length,
      inflows: ins.length,
      transactions: scene.costs.length,
      ...matcher.counted,
    },
  };
}

class Matcher {
  readonly scene: Scene;
  readonly findings: ChainFinding[] = [];
  readonly counted = { byEffect: 0, byRecord: 0, underWay: 0 };
  readonly #byHash: ReadonlyMap<string, EffectFact>;
  readonly #byNonce: ReadonlyMap<string, EffectFact>;

  constructor(scene: Scene) {
    this.scene = scene;
    this.#byHash = new Map(scene.effects.flatMap((one) => one.hashes.map((hash) => [hash, one] as const)));
    this.#byNonce = new Map(
      scene.effects.flatMap((one) => (one.nonce === null ? [] : [[`${one.signer} ${one.nonce}`, one] as const])),
    );
  }

  effectOf(one: Movement): EffectFact | null {
    const signed = this.#byHash.get(one.txHash);
    // What else moves in our transaction is not the effect's, as in the scan (flows/deposits/sightings.ts).
    if (signed !== undefined && ownsMovement(one, signed)) return signed;
    // Our payload under a signature that is not ours is our payment still: the engine settles it so.
    const meant = this.#byNonce.get(`${one.sender} ${one.nonce}`);
    return meant !== undefined && isMeant(one, meant) ? meant : null;
  }

  takeAll(movements: readonly Movement[], direction: 'out' | 'in'): void {
    const moved = new Map<EffectFact, Movement[]>();
    const strays: Movement[] = [];
    for (const one of movements) {
      const effect = this.effectOf(one);
      if (effect === null) strays.push(one);
      else moved.set(effect, [...(moved.get(effect) ?? []), one]);
    }
    for (const [effect, list] of moved) this.#ofEffect(effect, list, direction);
    for (const one of strays) this.#stray(one, direction, moved);
  }

  #ofEffect(effect: EffectFact, list: readonly Movement[], direction: 'out' | 'in'): void {
    this.counted.byEffect += list.length;
    if (effect.state === 'SEALED') this.counted.underWay += list.length;
    if (effect.state === 'RELEASED' && !effect.contradicted) {
      for (const one of list) this.#add('released_moved', one, direction, effect, `effect ${effect.id} is released`);
      return;
    }
    if (effect.isCall) return;
    let isFound = false;
    for (const one of list) {
      if (!isMeant(one, effect))
        this.#add('mismatch', one, direction, effect, `effect ${effect.id} is ${describe(effect)}`);
      else if (isFound) this.#add('double', one, direction, effect, `effect ${effect.id} moved more than once`);
      else isFound = true;
    }
  }

  #stray(one: Movement, direction: 'out' | 'in', moved: ReadonlyMap<EffectFact, readonly Movement[]>): void {
    const { scanNext, own } = this.scene;
    const record = this.scene.records.get(placeOf(one));
    // Where the scan has not come yet, the table says what it is going to write.
    const sides = classifySides({ from: sideOf(own.get(one.from)), to: sideOf(own.get(one.to)), effect: 'none' });
    const cls = record?.class ?? (sides.receiver ?? sides.sender)?.class;
    const isPassed = scanNext === null || one.blockNumber < scanNext;
    if (cls === 'FUNDING' || (direction === 'in' && (cls === 'DEPOSIT' || cls === 'UNKNOWN_INBOUND'))) {
      if (record === undefined && isPassed)
        this.#add('unrecorded', one, direction, null, `it is ${cls}; ${this.#adviceOf(one)}`);
      else if (cls === 'UNKNOWN_INBOUND') this.#add('unknown_inflow', one, direction, null, `from ${one.from}`);
      else if (record === undefined) this.counted.underWay += 1;
      else this.counted.byRecord += 1;
      return;
    }
    const says = record === undefined ? 'the scan has no record of it' : `the scan says ${record.class}`;
    const repeated = nearest(one, moved);
    if (repeated === null) {
      this.#add(
        'orphan',
        one,
        direction,
        null,
        `${direction === 'out' ? 'to' : 'from'} ${otherSide(one, direction)}; ${says}`,
      );
      return;
    }
    const { effect, first } = repeated;
    this.#add(
      'double',
      one,
      direction,
      effect,
      `${effect.subjectType} ${effect.subjectId} was paid in block ${first.blockNumber} (${first.txHash}) and again; ${says}`,
    );
  }

  /** The scan books it by its own path, or a wallet that was added later was not known then. */
  #adviceOf({ blockNumber: block }: Movement): string {
    const { scanNext, chain } = this.scene;
    if (scanNext === null) return 'the scan has never run: start a worker with the role watcher';
    return `the scan stands at block ${scanNext}. Unless it is in an opening balance that was booked, let the scan read the block again: payonce deposits rescan --chain ${chain} --from ${block} --to ${block}`;
  }

  gas(): void {
    const { coinAssetId, gasBooked, costs } = this.scene;
    if (coinAssetId === null) return;
    const byEffect = Map.groupBy(costs, (one) => this.#effectOfCost(one));
    for (const [effect, list] of byEffect) {
      const taken = list.reduce((sum, one) => sum + one.units, 0n);
      const [first] = list;
      if (effect === null) {
        for (const one of list) this.#addGas('gas_unbooked', one, one.units, null, 'no effect of ours signed it');
      } else if (first !== undefined && effect.state !== 'SEALED' && gasBooked.get(effect.id) !== taken) {
        const booked = gasBooked.get(effect.id) ?? 0n;
        this.#addGas('gas_mismatch', first, taken - booked, effect, `it took ${taken} units, booked are ${booked}`);
      }
    }
  }

  #effectOfCost(one: Cost): EffectFact | null {
    const signed = this.#byHash.get(one.txHash);
    if (signed !== undefined) return signed;
    // The engine books what a foreign use of its nonce took: then it is on record there.
    const same = this.#byNonce.get(`${one.payer} ${one.nonce}`);
    return same !== undefined && this.scene.gasBooked.get(same.id) === one.units ? same : null;
  }

  missing(effect: EffectFact, says: string): void {
    this.findings.push({
      key: `effect:${effect.id}`,
      kind: 'missing',
      direction: 'out',
      partnerId: this.scene.wallet.partnerId ?? effect.partnerId,
      assetId: effect.assetId,
      amount: effect.amount,
      blockNumber: null,
      txHash: effect.hashes.at(-1) ?? null,
      position: null,
      counterparty: effect.destination,
      effect,
      detail: says,
    });
  }

  #add(
    kind: ChainFindingKind,
    one: Movement,
    direction: 'out' | 'in',
    effect: EffectFact | null,
    detail: string,
  ): void {
    const { wallet, own, chain } = this.scene;
    const counterparty = otherSide(one, direction);
    this.findings.push({
      key: `move:${chain}:${placeOf(one)}`,
      kind,
      direction,
      // Whose money it is: the wallet that it left says so before the one that it came to.
      partnerId:
        own.get(one.from)?.partnerId ?? effect?.partnerId ?? wallet.partnerId ?? own.get(one.to)?.partnerId ?? null,
      assetId: one.assetId,
      amount: one.amount,
      blockNumber: one.blockNumber,
      txHash: one.txHash,
      position: one.position,
      counterparty,
      effect,
      detail,
    });
  }

  #addGas(
    kind: 'gas_unbooked' | 'gas_mismatch',
    one: Cost,
    amount: bigint,
    effect: EffectFact | null,
    detail: string,
  ): void {
    const { chain, wallet, coinAssetId } = this.scene;
    this.findings.push({
      key: `gas:${chain}:${one.txHash}`,
      kind,
      direction: 'out',
      partnerId: wallet.partnerId ?? effect?.partnerId ?? null,
      assetId: coinAssetId ?? '',
      amount,
      blockNumber: one.blockNumber,
      txHash: one.txHash,
      position: null,
      counterparty: null,
      effect,
      detail,
    });
  }
}

function ownsMovement(one: Movement, effect: EffectFact): boolean {
  return one.from === effect.wallet || (effect.isCall && one.to === effect.wallet);
}

export function isMeant(one: Movement, effect: EffectFact): boolean {
  return (
    one.from === effect.wallet &&
    one.to === effect.destination &&
    one.assetId === effect.assetId &&
    one.amount === effect.amount
  );
}

function describe(effect: EffectFact): string {
  return `${effect.amount} units of ${effect.assetId} from ${effect.wallet} to ${effect.destination}`;
}

function otherSide(one: Movement, direction: 'out' | 'in'): string {
  return direction === 'out' ? one.to : one.from;
}

/** The effect that this movement repeats, the nearest in blocks; of equally near ones the earlier. */
function nearest(
  one: Movement,
  moved: ReadonlyMap<EffectFact, readonly Movement[]>,
): { effect: EffectFact; first: Movement } | null {
  let best: { effect: EffectFact; first: Movement } | null = null;
  for (const [effect, list] of moved) {
    const [first] = list;
    if (first === undefined || effect.isCall || !isMeant(one, effect)) continue;
    if (best === null || distance(one, first) < distance(one, best.first)) best = { effect, first };
  }
  return best;
}

function distance(one: Movement, other: Movement): bigint {
  const blocks = one.blockNumber - other.blockNumber;
  return blocks < 0n ? -blocks : blocks;
}

const ORDER = Object.keys(CHAIN_FINDINGS);

export function inReportOrder(one: ChainFinding, other: ChainFinding): number {
  const place = (finding: ChainFinding): string =>
    [
      String(ORDER.indexOf(finding.kind)).padStart(2, '0'),
      (finding.blockNumber ?? 0n).toString().padStart(20, '0'),
      finding.txHash ?? '',
      String((finding.position ?? -1) + 1).padStart(6, '0'),
      finding.direction ?? '',
      finding.assetId,
      finding.key,
    ].join('\n');
  const [a, b] = [place(one), place(other)];
  return a < b ? -1 : a > b ? 1 : 0;
}
