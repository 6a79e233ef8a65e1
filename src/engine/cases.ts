/**
 * Cases: what cannot be proved goes to a person, with all that is known.
 *
 * One open case per (kind, subject). Opening it again refreshes `last_seen_at` and may only raise its severity. The verbs
 * on a case stand in `adjudicate.ts`; closing here is the machine's own, when the doubt has gone.
 */
import type { Query } from '../db/pool.ts';
import { storableText } from '../kernel/foreign-text.ts';
import type { MakeId } from '../kernel/ids.ts';

export const CASE_KINDS = {
  undecided: 'neither settled nor released within the time that the rail needs to decide',
  long_stay: 'it is under way for longer than it should be; nothing is known to be wrong',
  contradiction:
    'money may have gone twice: a released effect moved while another one of its subject lives, or a bank shows two',
  rail_asks: 'the rail itself has stopped and waits for people: a dispute, or an end after a payment was claimed',
  trade_surplus: 'a provider holds or released a trade that its order needs no more',
  payment_unclear: 'a payment for a leg that cannot be credited: late, too much, too little, or for none',
  leg_correction: 'what a settled leg moved is to be taken back or moved once more: an operator asked for it',
  leg_disputed: 'a partner disputes a leg: nothing moves it until two persons say what happened',
  books_refused: 'a verdict could not be booked five times in a row',
  allowance_asked: 'how much a relayer may move of a wallet’s token: two persons decide',
  overpriced: 'a market took more for an order of ours than it allowed',
  moved_otherwise: 'our payload was mined without the log that was meant',
  signer_quarantined: 'the chain shows a use of our nonce that we did not sign',
  plan_fails: 'the payment cannot be planned: simulation or checks fail again and again',
  told_failed: 'testimony came after the partner had been told that it failed',
  broken_finality: 'the chain took back what it had called final',
  after_release: 'the subject needs a person after its effect was released',
  lines_unknown: 'a paid batch with lines whose outcome the provider does not show, or shows in two ways',
  released_on_statement: 'a bank statement shows that a payment left which was released',
  return_unclear: 'money came back and what the rail shows of it cannot be booked',
  statement_wrong: 'a statement was read wrongly, and two persons must say that its lines do not count',
  unmatched_inbound: 'an inbound event that belongs to nothing we know',
  chain_difference: 'comparing a wallet with its chain found something that a person must book or explain',
  unknown_movement: 'money moved at our own addresses without a record of ours',
  deposit_reversed: 'a credited deposit was reversed',
  database_changed: 'the database is not the one that was signed off',
} as const;
export type CaseKind = keyof typeof CASE_KINDS;

export interface NewCase {
  readonly kind: CaseKind;
  /** 1 look when you can · 2 today · 3 now. */
  readonly severity: 1 | 2 | 3;
  /** What it is about; one open case per kind and subject key. */
  readonly subjectKey: string;
  readonly effectId?: bigint | undefined;
  readonly partnerId?: string | undefined;
  readonly assetId?: string | undefined;
  readonly amount?: bigint | undefined;
  readonly summary: string;
}

const OPEN = `insert into payonce.cases (id, kind, severity, subject_key, effect_id, partner_id, asset_id, amount, summary)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (kind, subject_key) where closed_at is null
do update set last_seen_at = payonce.now(), severity = greatest(payonce.cases.severity, excluded.severity)
returning id`;

const CLOSE_FOR_EFFECT = `update payonce.cases
set closed_at = payonce.now(), closed_how = $3
where effect_id = any ($1::bigint[])
  and kind = any ($2::text[])
  and closed_at is null
returning id`;

/** Opens a case or refreshes the open one. Durable with the caller's commit. */
export async function openCase(query: Query, makeId: MakeId, one: NewCase): Promise<string> {
  const { rows } = await query.query<{ id: string }>(OPEN, [
    makeId('case'),
    one.kind,
    one.severity,
    storableText(one.subjectKey),
    one.effectId ?? null,
    one.partnerId ?? null,
    one.assetId ?? null,
    one.amount ?? null,
    storableText(one.summary),
  ]);
  const id = rows[0]?.id;
  if (id === undefined) throw new Error('a case was opened without an id');
  return id;
}

/** Closes cases whose doubt has gone by itself (the effect ended). */
export async function closeCases(
  query: Query,
  effectIds: readonly bigint[],
  kinds: readonly CaseKind[],
  how: string,
): Promise<number> {
  if (effectIds.length === 0) return 0;
  const { rows } = await query.query<{ id: string }>(CLOSE_FOR_EFFECT, [effectIds, kinds, how]);
  // While one settled effect is gone all recent ones are asked for again: that ends by a person.
  if (!kinds.includes('broken_finality'))
    await clearAlertsOf(
      query,
      rows.map((row) => row.id),
    );
  return rows.length;
}

const CLEAR_WITH = `update payonce.alerts a
set cleared_at = payonce.now()
from payonce.cases k
join (values ('unmatched_inbound', 'unknown_inbound'), ('unknown_movement', 'unknown_internal'),
  ('unknown_movement', 'unknown_outbound'), ('contradiction', 'contradiction'), ('told_failed', 'reopened'),
  ('broken_finality', 'settled_vanished'), ('overpriced', 'energy_overpriced')) raised (case_kind, alert_kind)
  on raised.case_kind = k.kind
left join payonce.effects e on e.id = k.effect_id
where k.id = any ($1::text[])
  and a.kind = raised.alert_kind
  and a.key in (k.subject_key, e.rail || ':' || e.id)
  and a.cleared_at is null`;

/** What was told when these cases were opened is over with them. */
export async function clearAlertsOf(query: Query, caseIds: readonly string[]): Promise<void> {
  if (caseIds.length > 0) await query.query(CLEAR_WITH, [caseIds]);
}
