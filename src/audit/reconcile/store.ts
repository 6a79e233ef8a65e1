/** What reconciling reads and writes. Reads see one snapshot each; what is written is a report and an alert, never money. */
import { type Query, type Row, toText, toUnits } from '../../db/pool.ts';
import type { Effect, Line, Part } from './match.ts';

/** Money comes back for 30 days after it went, and a weekend more. */
const DAYS_BEFORE = 45;

const LINES = `select l.id, l.asset_id, l.direction, l.amount, l.booked_on::text as booked_on, l.own_reference, l.counterparty_name,
       array(select distinct r.ref
             from payonce.statement_places p
             join payonce.statements_counted s on s.id = p.statement_id
             cross join unnest(p.refs) as r (ref)
             where p.line_id = l.id
             order by r.ref) as refs,
       l.counterparty_account, l.remittance, l.is_reversal, l.is_charge, l.return_reason,
       (select f.name || ' ' || p.place
        from payonce.statement_places p
        join payonce.statements_counted s on s.id = p.statement_id
        join payonce.statement_files f on f.sha256 = s.file_sha256 and f.take = s.take
        where p.line_id = l.id
        order by p.statement_id
        limit 1) as place
from payonce.statement_lines l
where l.rail = $1
  and l.retired_at is null
  and (l.booked_on between $2 and $3
       or l.id in (
         select p.line_id from payonce.statement_places p
         join payonce.statements_counted s on s.id = p.statement_id
         where p.refs && $4::text[]) or l.id = any ($5::bigint[]))
order by l.booked_on, l.id`;

/** Sealed near the period, still watched after a release, or named by a line, however old. */
const EFFECTS = `select e.id, e.subject_type, e.subject_id, e.partner_id, e.state, e.contradicted_at is not null as contradicted,
       e.asset_id, e.amount, e.expect,
       to_char(e.sealed_at at time zone 'UTC', 'YYYY-MM-DD') as sealed_on,
       to_char(e.ended_at at time zone 'UTC', 'YYYY-MM-DD') as ended_on,
       array(select distinct v.object_id from payonce.effect_evidence v
             where v.effect_id = e.id and v.object_id is not null and v.struck_at is null order by v.object_id) as objects,
       array(select b.ref
             from payonce.transfer_batch_lines b
             join lateral (
               select f.fate from payonce.transfer_batch_fates f
               where f.batch_id = b.batch_id and f.line = b.line order by f.seq desc limit 1) f on f.fate <> 'paid'
             where e.subject_type = 'transfer_batch' and b.batch_id = e.subject_id) as unpaid,
       coalesce((select jsonb_agg(jsonb_build_object(
                   'id', r.id, 'provider_id', r.provider_return_id, 'net', (r.amount - r.fee)::text,
                   'booked_on', to_char(r.at at time zone 'UTC', 'YYYY-MM-DD')) order by r.id)
                 from payonce.returns r where r.effect_id = e.id), '[]') as returns
from payonce.effects e
where e.rail = $1
  and e.expect ? 'key'
  and (e.sealed_at >= $2::date - $5::int and e.sealed_at < $3::date + 2
       or e.state = 'RELEASED' and e.watch_at is not null
       or e.expect ->> 'key' = any ($4::text[])
       or exists (select 1 from jsonb_array_elements(e.expect -> 'lines') l where l ->> 'ref' = any ($4::text[])))
order by e.id`;

export interface Covered {
  readonly id: bigint;
  readonly assetId: string;
  readonly from: string;
  readonly to: string;
  readonly sequence: bigint | null;
  readonly opening: bigint | null;
  readonly closing: bigint | null;
  readonly place: string;
  readonly account: string;
  /** Its lines' ids with their signed amounts. */
  readonly lines: readonly { readonly id: bigint; readonly moved: bigint }[];
}

const STATEMENTS = `select s.id, s.asset_id, s.account, s.from_day::text as from_day, s.to_day::text as to_day, s.sequence, s.opening, s.closing,
       f.name || coalesce(' ' || s.name, '') as place,
       coalesce((select jsonb_agg(jsonb_build_array(l.id::text, (case l.direction when 'out' then -l.amount else l.amount end)::text))
                 from payonce.statement_places p
                 join payonce.statement_lines l on l.id = p.line_id
                 where p.statement_id = s.id), '[]') as lines
from payonce.statements_counted s
join payonce.statement_files f on f.sha256 = s.file_sha256 and f.take = s.take
where s.rail = $1
  and ($2::date is null or s.to_day >= $2)
  and ($3::date is null or s.from_day <= $3)
order by s.asset_id, s.from_day, s.to_day, s.sequence, s.id`;

const CUSTODY = `select e.asset_id, p.idem_key, p.effect_id, -e.amount as moved,
       to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD') as booked_on
from payonce.accounts a
join payonce.ledger_entries e on e.account_id = a.id
join payonce.postings p on p.id = e.posting_id
where starts_with(a.code, 'custody:' || $1 || ':')
  and a.asset_id = any ($2::text[])
  and e.created_at >= $3::date
  and e.created_at < $4::date + 1
  and p.idem_key not like 'MIGRATED:%'
order by e.created_at, p.id`;

export interface Booked {
  readonly assetId: string;
  readonly key: string;
  readonly effectId: bigint | null;
  /** Above 0: we have more there. */
  readonly moved: bigint;
  readonly bookedOn: string;
}

const REPORT = `insert into payonce.reconcile_reports (rail, from_day, to_day, findings, report)
values ($1, $2, $3, $4, $5)
returning id`;

/** A clean run over less than what was found wrong says nothing about the rest. */
const UNSEEN = `select 1
from payonce.reconcile_reports r
join payonce.alerts a on a.kind = 'bank_reconcile' and a.key = $1 and a.cleared_at is null and r.made_at >= a.first_at
where r.rail = $1
  and r.findings > 0
  and (r.from_day < $2 or r.to_day > $3)
limit 1`;

export interface Asked {
  readonly from: string;
  readonly to: string;
  /** Names that lines or effects carry: theirs are loaded whatever their day. */
  readonly names?: readonly string[];
  readonly lineIds?: readonly bigint[];
}

export async function loadLines(query: Query, rail: string, asked: Asked): Promise<Line[]> {
  const { rows } = await query.query(LINES, [rail, asked.from, asked.to, asked.names ?? [], asked.lineIds ?? []]);
  return rows.map((row) => ({
    id: toUnits(row['id'], 'statement_lines.id'),
    assetId: toText(row['asset_id'], 'asset_id'),
    direction: row['direction'] === 'out' ? 'out' : 'in',
    amount: toUnits(row['amount'], 'statement_lines.amount'),
    bookedOn: toText(row['booked_on'], 'booked_on'),
    ownReference: row['own_reference'] as string | null,
    references: row['refs'] as string[],
    counterpartyName: row['counterparty_name'] as string | null,
    counterpartyAccount: row['counterparty_account'] as string | null,
    remittance: row['remittance'] as string | null,
    isReversal: row['is_reversal'] === true,
    isCharge: row['is_charge'] === true,
    returnReason: row['return_reason'] as string | null,
    place: toText(row['place'], 'place'),
  }));
}

export async function loadEffects(query: Query, rail: string, asked: Asked): Promise<Effect[]> {
  const { rows } = await query.query(EFFECTS, [rail, asked.from, asked.to, asked.names ?? [], DAYS_BEFORE]);
  return rows.map(toEffect);
}

interface Expected {
  readonly key: string;
  readonly amount: string;
  readonly accountNumber: string;
  readonly lines?: readonly { readonly ref: string; readonly receiver: string; readonly amount: string }[];
}

function toEffect(row: Row): Effect {
  const expect = row['expect'] as Expected;
  const unpaid = new Set(row['unpaid'] as string[]);
  const state = row['state'] as Effect['state'];
  const lines = expect.lines ?? [{ ref: expect.key, receiver: expect.accountNumber, amount: expect.amount }];
  return {
    id: toUnits(row['id'], 'effects.id'),
    subjectType: toText(row['subject_type'], 'subject_type'),
    subjectId: toText(row['subject_id'], 'subject_id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    state,
    contradicted: row['contradicted'] === true,
    assetId: toText(row['asset_id'], 'asset_id'),
    amount: toUnits(row['amount'], 'effects.amount'),
    key: expect.key,
    sealedOn: toText(row['sealed_on'], 'sealed_on'),
    endedOn: row['ended_on'] as string | null,
    objectIds: row['objects'] as string[],
    parts: lines.map(
      (line): Part => ({
        ref: line.ref,
        receiver: line.receiver,
        amount: BigInt(line.amount),
        isPaid: state === 'SETTLED' && !unpaid.has(line.ref),
      }),
    ),
    returns: (row['returns'] as { id: string; provider_id: string; net: string; booked_on: string }[]).map((one) => ({
      id: one.id,
      providerId: one.provider_id,
      net: BigInt(one.net),
      bookedOn: one.booked_on,
    })),
  };
}

/** Those that touch the period; without one, all of the rail. */
export async function loadStatements(
  query: Query,
  rail: string,
  from: string | null,
  to: string | null,
): Promise<Covered[]> {
  const { rows } = await query.query(STATEMENTS, [rail, from, to]);
  return rows.map((row) => ({
    id: toUnits(row['id'], 'statements.id'),
    assetId: toText(row['asset_id'], 'asset_id'),
    account: toText(row['account'], 'statements.account'),
    from: toText(row['from_day'], 'from_day'),
    to: toText(row['to_day'], 'to_day'),
    sequence: row['sequence'] as bigint | null,
    opening: row['opening'] as bigint | null,
    closing: row['closing'] as bigint | null,
    place: toText(row['place'], 'place'),
    lines: (row['lines'] as [string, string][]).map(([id, moved]) => ({ id: BigInt(id), moved: BigInt(moved) })),
  }));
}

export async function loadBooked(
  query: Query,
  rail: string,
  assetIds: readonly string[],
  period: { readonly from: string; readonly to: string },
): Promise<Booked[]> {
  const { rows } = await query.query(CUSTODY, [rail, assetIds, period.from, period.to]);
  return rows.map((row) => ({
    assetId: toText(row['asset_id'], 'asset_id'),
    key: toText(row['idem_key'], 'idem_key'),
    effectId: row['effect_id'] as bigint | null,
    moved: toUnits(row['moved'], 'ledger_entries.amount'),
    bookedOn: toText(row['booked_on'], 'booked_on'),
  }));
}

export async function storeReport(
  query: Query,
  report: { rail: string; from: string; to: string; findings: number; json: string },
): Promise<bigint> {
  const { rows } = await query.query(REPORT, [report.rail, report.from, report.to, report.findings, report.json]);
  return toUnits(rows[0]?.['id'], 'reconcile_reports.id');
}

export async function coversWhatWasFound(query: Query, rail: string, from: string, to: string): Promise<boolean> {
  return (await query.query(UNSEEN, [rail, from, to])).rowCount === 0;
}
