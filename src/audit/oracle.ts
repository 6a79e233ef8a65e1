/**
 * The judge of what really moved: the rail's own books beside ours. A check of our tables alone would prove little.
 *
 * Promises: every outflow from an address of ours belongs to exactly one effect, whose signed variant made it (E2); a
 * subject moved at most once (E1); what is settled is final on the rail, and what is final there is not released here (E4);
 * each custody account is what the rail shows went in less what went out (I2). Read it when nothing is in flight: the books
 * and the database are two snapshots.
 * Never: a repair, or a look at the rail through the rail's own driver, which could share its misreading.
 */
import { type Query, toText, toUnits } from '../db/pool.ts';
import type { Breach } from './invariants.ts';
import { compareWithBank } from './oracle-bank.ts';
import { BANK_PREFIX, compareCustody, type Movement, type OracleOptions, type RailBooks } from './rail-books.ts';

const EFFECTS = `select e.id, e.subject_type, e.subject_id, e.state, e.amount, e.destination, e.wallet, e.signer, e.nonce, e.call is not null as is_call,
       coalesce(a.contract, 'native') as asset, e.contradicted_at is not null as contradicted,
       array(select v.hash from payonce.effect_variants v where v.effect_id = e.id) as hashes,
       (select v.object_id from payonce.effect_evidence v where v.id = e.settled_by) as settled_object
from payonce.effects e
join payonce.assets a on a.id = e.asset_id
where a.chain = $1
  and e.subject_type <> 'energy' -- paid out of a balance at a market: nothing of it is on the chain
order by e.id`;

const WALLETS = `select address from payonce.addresses where chain = $1
union
select e.wallet from payonce.effects e join payonce.assets a on a.id = e.asset_id where a.chain = $1 and e.subject_type <> 'energy'`;

/** Movements without a record of ours that the scanner saw and gave to people. */
const KNOWN_STRAYS = `select tx_hash
from payonce.chain_transfers
where chain = $1
  and class in ('UNKNOWN_OUTBOUND', 'UNKNOWN_INTERNAL', 'FUNDING')`;

interface KnownEffect {
  readonly id: bigint;
  readonly subject: string;
  readonly state: string;
  readonly amount: bigint;
  readonly destination: string;
  readonly wallet: string;
  readonly signer: string;
  readonly nonce: bigint | null;
  readonly isCall: boolean;
  readonly asset: string;
  readonly contradicted: boolean;
  readonly hashes: readonly string[];
  readonly settledObject: string | null;
}

export async function compareWithRail(query: Query, books: RailBooks, options: OracleOptions = {}): Promise<Breach[]> {
  if (books.rail.startsWith(BANK_PREFIX)) return compareWithBank(query, books, options);
  const effects = await loadEffects(query, books.rail);
  const wallets = new Set(options.wallets ?? (await loadTexts(query, WALLETS, books.rail, 'address')));
  const strays = new Set(await loadTexts(query, KNOWN_STRAYS, books.rail, 'tx_hash'));
  const movements = await books.movements();
  const breaches: Breach[] = [];

  const byHash = new Map<string, KnownEffect>(
    effects.flatMap((effect) => effect.hashes.map((hash) => [hash, effect] as const)),
  );
  const byNonce = new Map<string, KnownEffect>(
    effects.flatMap((effect) => (effect.nonce === null ? [] : [[`${effect.signer} ${effect.nonce}`, effect] as const])),
  );
  const moved = new Map<KnownEffect, Movement[]>();
  for (const movement of movements) {
    // A token lets anybody log a transfer of nothing from any address: bait, not money.
    if (!wallets.has(movement.from) || movement.amount === 0n) continue;
    const named = byHash.get(movement.tx) ?? byNonce.get(`${movement.signer} ${movement.nonce}`);
    // Under a hash that is not ours it is our payload, seen again, only if it is the same money; else somebody else's act.
    const effect = named !== undefined && (byHash.has(movement.tx) || isMeant(movement, named)) ? named : undefined;
    if (effect === undefined) {
      if (!strays.has(movement.tx))
        breaches.push({
          invariant: 'E2',
          subject: `movement ${movement.id}`,
          detail: `${describe(movement)} belongs to no effect`,
        });
      continue;
    }
    if (!effect.isCall && !isMeant(movement, effect)) {
      breaches.push({
        invariant: 'E2',
        subject: `movement ${movement.id}`,
        detail: `${describe(movement)} is not what effect ${effect.id} was to do`,
      });
    }
    moved.set(effect, [...(moved.get(effect) ?? []), movement]);
  }
  breaches.push(...movedTwice(moved), ...settledAndFinal(effects, moved, options.drained === true));
  if (options.openings !== undefined)
    breaches.push(...(await compareCustody(query, books, movements, wallets, options.openings)));
  return breaches;
}

function isMeant(movement: Movement, effect: KnownEffect): boolean {
  return (
    movement.amount === effect.amount &&
    movement.to === effect.destination &&
    movement.asset === effect.asset &&
    movement.from === effect.wallet
  );
}

function describe(movement: Movement): string {
  return `${movement.amount} ${movement.asset} from ${movement.from} to ${movement.to}`;
}

/** E1. One transaction of a call may move several times; two transactions of a subject may not, whatever is on record. */
function movedTwice(moved: ReadonlyMap<KnownEffect, readonly Movement[]>): Breach[] {
  const bySubject = new Map<string, Set<string>>();
  const breaches: Breach[] = [];
  for (const [effect, list] of moved) {
    const acts = bySubject.get(effect.subject) ?? new Set();
    for (const movement of list) acts.add(movement.tx);
    bySubject.set(effect.subject, acts);
    if (!effect.isCall && list.length > acts.size) {
      breaches.push({
        invariant: 'E1',
        subject: `effect ${effect.id}`,
        detail: `one transaction moved ${list.length} times`,
      });
    }
  }
  for (const [subject, acts] of bySubject) {
    if (acts.size > 1)
      breaches.push({ invariant: 'E1', subject, detail: `moved ${acts.size} times: ${[...acts].join(', ')}` });
  }
  return breaches;
}

function settledAndFinal(
  effects: readonly KnownEffect[],
  moved: ReadonlyMap<KnownEffect, readonly Movement[]>,
  drained: boolean,
): Breach[] {
  const breaches: Breach[] = [];
  for (const effect of effects) {
    const isFinal = moved.get(effect)?.some((movement) => movement.final) === true;
    const subject = `effect ${effect.id} of ${effect.subject}`;
    if (effect.state === 'SETTLED' && !isFinal && effect.amount > 0n && !effect.isCall) {
      breaches.push({
        invariant: 'E4',
        subject,
        detail: `is settled by ${effect.settledObject ?? 'people'}, and nothing of it is final on the rail`,
      });
    }
    if (effect.state === 'RELEASED' && isFinal && !effect.contradicted) {
      breaches.push({ invariant: 'E4', subject, detail: 'is released, and it is final on the rail that it moved' });
    }
    if ((effect.state === 'PENDING' || (drained && effect.state === 'SEALED')) && isFinal) {
      breaches.push({
        invariant: 'E4',
        subject,
        detail: `is ${effect.state}, and it is final on the rail that it moved`,
      });
    }
  }
  return breaches;
}

async function loadEffects(query: Query, chain: string): Promise<KnownEffect[]> {
  const { rows } = await query.query(EFFECTS, [chain]);
  return rows.map((row) => ({
    id: toUnits(row['id'], 'effects.id'),
    subject: `${toText(row['subject_type'], 'subject_type')} ${toText(row['subject_id'], 'subject_id')}`,
    state: toText(row['state'], 'effects.state'),
    amount: toUnits(row['amount'], 'effects.amount'),
    destination: toText(row['destination'], 'effects.destination'),
    wallet: toText(row['wallet'], 'effects.wallet'),
    signer: toText(row['signer'], 'effects.signer'),
    nonce: row['nonce'] as bigint | null,
    isCall: row['is_call'] as boolean,
    asset: toText(row['asset'], 'asset'),
    contradicted: row['contradicted'] as boolean,
    hashes: row['hashes'] as string[],
    settledObject: row['settled_object'] as string | null,
  }));
}

async function loadTexts(query: Query, sql: string, chain: string, column: string): Promise<string[]> {
  return (await query.query(sql, [chain])).rows.map((row) => toText(row[column], column));
}
