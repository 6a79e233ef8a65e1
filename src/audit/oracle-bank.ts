/**
 * The judge of what a bank really moved: its books, or its statement, beside our intents.
 *
 * Promises: every payment out of an account of ours belongs to exactly one line of one effect, by our key, our reference or
 * the bank's own name for it, and is what was sealed (E2, E7); a line of a subject was paid at most once, whatever stands on
 * record about it (E1), and under one key (E8); what is settled left, what is released did not (E4); nothing left before its
 * seal (E6); and, once all is at rest, what came back is what we booked (E17).
 * Never: a repair, or a look at the bank through its own API. A return that a person must read is not compared.
 */
import { type Query, toText, toUnits } from '../db/pool.ts';
import type { Breach } from './invariants.ts';
import { compareCustody, type Movement, type OracleOptions, type RailBooks } from './rail-books.ts';

const SKEW_MS = 5 * 60_000;

const EFFECTS = `select e.id, e.subject_type, e.subject_id, e.state, e.amount, e.destination, e.wallet, e.expect, e.payload, e.sealed_at,
       a.code as asset, e.contradicted_at is not null as contradicted,
       array(select distinct v.object_id from payonce.effect_evidence v
             where v.effect_id = e.id and v.object_id is not null and v.struck_at is null and v.rank in ('word', 'object')) as objects,
       coalesce((select sum(r.amount - r.fee) from payonce.returns r where r.effect_id = e.id), 0) as returned,
       exists (select 1 from payonce.cases c where c.effect_id = e.id and c.kind = 'return_unclear' and c.closed_at is null) as unclear
from payonce.effects e
join payonce.assets a on a.id = e.asset_id
where a.chain = $1
order by e.id`;

interface Line {
  /** As the provider shows it: the key for a plain transfer, the line's own name in a batch. */
  readonly ref: string | null;
  readonly receiver: string;
  readonly amount: bigint;
}

interface KnownEffect {
  readonly id: bigint;
  readonly subject: string;
  readonly state: string;
  readonly wallet: string;
  readonly asset: string;
  readonly contradicted: boolean;
  readonly sealedAt: Date | null;
  /** `null`: never sealed. */
  readonly key: string | null;
  readonly lines: readonly Line[];
  readonly objects: readonly string[];
  /** Net of what the bank kept. */
  readonly returned: bigint;
  readonly unclear: boolean;
}

interface Matched {
  readonly movement: Movement;
  readonly effect: KnownEffect;
  /** The place of the line in its effect. */
  readonly line: number;
}

export async function compareWithBank(query: Query, books: RailBooks, options: OracleOptions = {}): Promise<Breach[]> {
  const effects = (await query.query(EFFECTS, [books.rail])).rows.map(toEffect);
  const wallets = new Set(options.wallets ?? effects.map((effect) => effect.wallet));
  const movements = await books.movements();
  const breaches: Breach[] = [];
  const out: Matched[] = [];
  const back: Matched[] = [];
  for (const movement of movements) {
    const isBack = movement.kind === 'return';
    if (!wallets.has(isBack ? movement.to : movement.from)) continue;
    const found = match(movement, effects);
    if (found !== null) (isBack ? back : out).push({ movement, ...found });
    else
      breaches.push({
        invariant: 'E2',
        subject: `movement ${movement.id}`,
        detail: `${told(movement)} belongs to no effect`,
      });
  }
  for (const one of out) breaches.push(...asSealed(one, options.skewMs ?? SKEW_MS));
  breaches.push(...paidTwice(out));
  for (const effect of effects) breaches.push(...standing(effect, out, back, options.drained === true));
  if (options.openings !== undefined)
    breaches.push(...(await compareCustody(query, books, movements, wallets, options.openings)));
  return breaches;
}

/** By key first: a stranger's transfer may carry any reference. */
function match(movement: Movement, effects: readonly KnownEffect[]): { effect: KnownEffect; line: number } | null {
  const { key = null, reference = null } = movement;
  const effect =
    (key === null ? undefined : effects.find((one) => one.key === key)) ??
    (reference === null ? undefined : effects.find((one) => one.key === reference)) ??
    (reference === null ? undefined : effects.find((one) => one.lines.some((line) => line.ref === reference))) ??
    effects.find((one) => one.objects.includes(movement.tx));
  if (effect === undefined) return null;
  const named = effect.lines.findIndex((line) => line.ref !== null && line.ref === reference);
  return { effect, line: Math.max(0, named) };
}

function told(movement: Movement): string {
  return `${movement.amount} ${movement.asset} from ${movement.from} to ${movement.to}`;
}

/** E2, E6, E7. */
function asSealed({ movement, effect, line }: Matched, skewMs: number): Breach[] {
  const wanted = effect.lines[line];
  const subject = `movement ${movement.id}`;
  const breaches: Breach[] = [];
  const isMeant =
    wanted !== undefined &&
    movement.amount === wanted.amount &&
    movement.asset === effect.asset &&
    movement.from === effect.wallet &&
    (movement.to === '' || plain(movement.to) === plain(wanted.receiver));
  if (!isMeant)
    breaches.push({ invariant: 'E2', subject, detail: `${told(movement)} is not what effect ${effect.id} was to do` });
  if (
    effect.sealedAt === null ||
    (movement.at !== undefined && movement.at.getTime() < effect.sealedAt.getTime() - skewMs)
  )
    breaches.push({ invariant: 'E6', subject, detail: `${told(movement)} before effect ${effect.id} was sealed` });
  if (movement.key !== undefined && movement.key !== null && movement.key !== effect.key)
    breaches.push({
      invariant: 'E7',
      subject,
      detail: `it was sent under the key ${movement.key}, and effect ${effect.id} is sealed under ${effect.key ?? 'none'}`,
    });
  return breaches;
}

/** Dashes are the caller's way of writing; banks drop them. */
function plain(account: string): string {
  return account.replaceAll(/[- ]/g, '');
}

/** E1, E8. */
function paidTwice(out: readonly Matched[]): Breach[] {
  const breaches: Breach[] = [];
  for (const [subject, list] of Map.groupBy(out, (one) => `${one.effect.subject} line ${one.line + 1}`)) {
    if (list.length > 1)
      breaches.push({
        invariant: 'E1',
        subject,
        detail: `paid ${list.length} times: ${list.map((one) => one.movement.tx).join(', ')}`,
      });
    const identities = new Set(list.map((one) => one.effect.id));
    if (identities.size > 1)
      breaches.push({ invariant: 'E8', subject, detail: `paid by effects ${[...identities].join(' and ')}` });
  }
  return breaches;
}

/** E4, E17. */
function standing(effect: KnownEffect, out: readonly Matched[], back: readonly Matched[], drained: boolean): Breach[] {
  const subject = `effect ${effect.id} of ${effect.subject}`;
  const own = out.filter((one) => one.effect === effect);
  const isFinal = own.some((one) => one.movement.final);
  const sum = effect.lines.reduce((total, line) => total + line.amount, 0n);
  const breaches: Breach[] = [];
  const e4 = (detail: string): unknown => breaches.push({ invariant: 'E4', subject, detail });
  if (effect.state === 'SETTLED' && !isFinal && sum > 0n) e4('is settled, and nothing of it left the bank');
  const came = back.filter((one) => one.effect === effect).reduce((total, one) => total + one.movement.amount, 0n);
  const went = own.reduce((total, one) => total + one.movement.amount, 0n);
  // Not only what is final: what the bank has accepted may still go. What came back whole before anybody saw it is undone.
  if (effect.state === 'RELEASED' && went > came && !effect.contradicted)
    e4('is released, and the bank has accepted or paid it');
  if ((effect.state === 'PENDING' || (drained && effect.state === 'SEALED')) && isFinal)
    e4(`is ${effect.state}, and it left the bank`);
  if (drained && effect.state === 'SETTLED' && !effect.unclear && came !== effect.returned)
    breaches.push({ invariant: 'E17', subject, detail: `${came} came back, and ${effect.returned} is booked` });
  return breaches;
}

function toEffect(row: Record<string, unknown>): KnownEffect {
  const amount = toUnits(row['amount'], 'effects.amount');
  const destination = toText(row['destination'], 'effects.destination');
  const payload = row['payload'];
  const expect = row['expect'];
  const receiver = destination.slice(destination.indexOf(':') + 1);
  return {
    id: toUnits(row['id'], 'effects.id'),
    subject: `${toText(row['subject_type'], 'subject_type')} ${toText(row['subject_id'], 'subject_id')}`,
    state: toText(row['state'], 'effects.state'),
    wallet: toText(row['wallet'], 'effects.wallet'),
    asset: toText(row['asset'], 'assets.code'),
    contradicted: row['contradicted'] as boolean,
    sealedAt: row['sealed_at'] as Date | null,
    key: payload instanceof Uint8Array ? memberOf(JSON.parse(new TextDecoder().decode(payload)), 'key') : null,
    lines: linesOf(expect) ?? [{ ref: null, receiver, amount }],
    objects: row['objects'] as string[],
    returned: toUnits(row['returned'], 'returns.amount'),
    unclear: row['unclear'] as boolean,
  };
}

function memberOf(value: unknown, name: string): string | null {
  const member: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : null;
  return typeof member === 'string' ? member : null;
}

/** As the rail seals them; `null` before the seal. */
function linesOf(expect: unknown): readonly Line[] | null {
  const list: unknown = typeof expect === 'object' && expect !== null ? Reflect.get(expect, 'lines') : null;
  if (!Array.isArray(list)) return null;
  return list.map((line: unknown) => ({
    ref: memberOf(line, 'ref'),
    receiver: memberOf(line, 'receiver') ?? '',
    amount: BigInt(memberOf(line, 'amount') ?? '0'),
  }));
}
