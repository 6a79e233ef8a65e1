/*
 * The bank's statement of its own books, as camt.053 or CSV.
 *
 * Promises: every movement and every charge of the books in the period is one entry, and opening, entries and closing add up.
 * A script may plant what goes wrong at banks: an entry that stands there twice, one that is left out, one of somebody else.
 * The file adds up even so, as a bank's would.
 * Never does: know how Payonce reads it. It is written from ISO 20022's message definition.
 */
import { fixedDecimal } from './amounts.ts';
import type { Bank } from './bank.ts';
import type { BankMovement } from './books.ts';

export type Entry = {
  /** The bank's own reference. */
  readonly id: string | null;
  readonly direction: 'out' | 'in';
  readonly amount: bigint;
  /** YYYY-MM-DD. */
  readonly day: string;
  /** What the payer gave as end-to-end reference. */
  readonly reference: string | null;
  readonly transferId: string | null;
  readonly account: string | null;
  readonly name: string | null;
  readonly memo: string | null;
  readonly returnReason: string | null;
  readonly isCharge: boolean;
};

export type StatementScript = {
  readonly currency: string;
  readonly from: string;
  readonly to: string;
  readonly account?: string;
  readonly opening?: bigint;
  readonly sequence?: number;
  /** What the bank does to the list. */
  readonly plant?: (entries: readonly Entry[]) => readonly Entry[];
  /** Outgoing entries of one day are booked as one, with their details below. */
  readonly batchBooked?: boolean;
  /** 2 to 8. Absent: 8. */
  readonly version?: number;
};

export type WrittenStatement = {
  readonly text: string;
  readonly entries: readonly Entry[];
  readonly opening: bigint;
  readonly closing: bigint;
};

const OWN_IBAN = 'DE02120300000000202051';
const OPENING_UNITS = 1_000_000_000n;

export async function writeCamt(bank: Bank, script: StatementScript): Promise<WrittenStatement> {
  const { entries, opening, closing } = await compose(bank, script);
  const { currency, from, to, version = 8 } = script;
  const booked = script.batchBooked === true ? batched(entries) : entries.map((entry) => [entry]);
  const lines = booked.map((group) => toNtry(group, currency, version));
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.0${version}">
  <BkToCstmrStmt>
    <GrpHdr><MsgId>M-${from}</MsgId><CreDtTm>${to}T23:00:00Z</CreDtTm></GrpHdr>
    <Stmt>
      <Id>${from}/${to}</Id>
      <ElctrncSeqNb>${script.sequence ?? 1}</ElctrncSeqNb>
      <CreDtTm>${to}T23:00:00Z</CreDtTm>
      <FrToDt><FrDtTm>${from}T00:00:00</FrDtTm><ToDtTm>${to}T23:59:59</ToDtTm></FrToDt>
      <Acct><Id><IBAN>${xml(script.account ?? OWN_IBAN)}</IBAN></Id><Ccy>${currency}</Ccy></Acct>
      ${toBal('OPBD', opening, currency, from)}
      ${toBal('CLBD', closing, currency, to)}
${lines.join('\n')}
    </Stmt>
  </BkToCstmrStmt>
</Document>
`;
  return { text, entries, opening, closing };
}

export async function writeCsv(
  bank: Bank,
  script: StatementScript & { readonly delimiter?: string; readonly newestFirst?: boolean },
): Promise<WrittenStatement> {
  const { entries, opening, closing } = await compose(bank, script);
  const { currency, delimiter = ',' } = script;
  let balance = opening;
  const rows = entries.map((entry) => {
    balance += entry.direction === 'out' ? -entry.amount : entry.amount;
    const amount = fixedDecimal(entry.amount, currency);
    return [
      entry.day,
      entry.id ?? '',
      entry.direction === 'out' ? amount : '',
      entry.direction === 'in' ? amount : '',
      currency,
      balanceText(balance, currency),
      entry.reference ?? entry.transferId ?? '',
      entry.account ?? '',
      entry.name ?? '',
      entry.memo ?? '',
    ];
  });
  const header = ['Booked', 'Entry', 'Debit', 'Credit', 'Currency', 'Balance', 'Reference', 'Account', 'Name', 'Text'];
  const ordered = script.newestFirst === true ? rows.toReversed() : rows;
  const text = [header, ...ordered]
    .map((row) => row.map((cell) => quoted(cell, delimiter)).join(delimiter))
    .join('\r\n');
  return { text: `${text}\r\n`, entries, opening, closing };
}

async function compose(
  bank: Bank,
  script: StatementScript,
): Promise<{ entries: readonly Entry[]; opening: bigint; closing: bigint }> {
  const { currency, from, to } = script;
  const movements = (await bank.books.movements()).filter(({ asset }) => asset === currency);
  const charges = new Map((await bank.books.costs()).map(({ tx, amount }) => [tx, amount]));
  const all = movements.flatMap((movement) => [
    toEntry(movement),
    ...(movement.kind === 'out' && charges.has(movement.tx)
      ? [toCharge(movement, charges.get(movement.tx) ?? 0n)]
      : []),
  ]);
  const inPeriod = all.filter(({ day }) => day >= from && day <= to);
  const entries = script.plant?.(inPeriod) ?? inPeriod;
  const opening = script.opening ?? OPENING_UNITS;
  const closing = entries.reduce(
    (sum, entry) => (entry.direction === 'out' ? sum - entry.amount : sum + entry.amount),
    opening,
  );
  return { entries, opening, closing };
}

function toEntry(movement: BankMovement): Entry {
  const isOut = movement.kind === 'out';
  return {
    id: `E-${movement.id.replace(':out', '')}`,
    direction: isOut ? 'out' : 'in',
    amount: movement.amount,
    day: movement.at.toISOString().slice(0, 10),
    reference: movement.reference ?? movement.key,
    transferId: movement.tx,
    account: movement.destination.accountNumber || movement.destination.handle,
    name: movement.destination.holder,
    memo: movement.memo,
    returnReason: isOut ? null : 'AC04',
    isCharge: false,
  };
}

function toCharge(movement: BankMovement, amount: bigint): Entry {
  return {
    ...toEntry(movement),
    id: `C-${movement.tx}`,
    amount,
    reference: null,
    transferId: null,
    account: null,
    name: null,
    memo: 'transfer fee',
    isCharge: true,
  };
}

/** What leaves on one day is one entry; everything else stands alone. */
function batched(entries: readonly Entry[]): Entry[][] {
  const groups = Map.groupBy(
    entries,
    (entry) => `${entry.day} ${entry.direction === 'out' && !entry.isCharge ? 'batch' : (entry.id ?? '')}`,
  );
  return [...groups.values()];
}

function toNtry(group: readonly Entry[], currency: string, version: number): string {
  const [first] = group;
  if (first === undefined) return '';
  const sum = group.reduce((total, entry) => total + entry.amount, 0n);
  const status = version >= 4 ? '<Sts><Cd>BOOK</Cd></Sts>' : '<Sts>BOOK</Sts>';
  const own = group.length > 1 ? `B-${first.day}` : first.id;
  return `      <Ntry>
        ${toAmt(sum, currency)}
        <CdtDbtInd>${indicator(first)}</CdtDbtInd>
        ${first.returnReason === null ? '' : '<RvslInd>true</RvslInd>'}
        ${status}
        <BookgDt><Dt>${first.day}</Dt></BookgDt>
        <ValDt><Dt>${first.day}</Dt></ValDt>
        ${own === null ? '' : `<AcctSvcrRef>${xml(own)}</AcctSvcrRef>`}
        ${first.isCharge ? '<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>MDOP</Cd><SubFmlyCd>CHRG</SubFmlyCd></Fmly></Domn></BkTxCd>' : ''}
        <NtryDtls>
${group.map((entry) => toTxDtls(entry, currency, version, group.length > 1)).join('\n')}
        </NtryDtls>
      </Ntry>`;
}

function toTxDtls(entry: Entry, currency: string, version: number, isPart: boolean): string {
  const amount = toAmt(entry.amount, currency);
  const name = entry.name === null ? '' : `<Nm>${xml(entry.name)}</Nm>`;
  const party = version >= 8 ? `<Pty>${name}</Pty>` : name;
  return `          <TxDtls>
            <Refs>${isPart && entry.id !== null ? `<AcctSvcrRef>${xml(entry.id)}</AcctSvcrRef>` : ''}<EndToEndId>${xml(entry.reference ?? 'NOTPROVIDED')}</EndToEndId>${entry.transferId === null ? '' : `<TxId>${xml(entry.transferId)}</TxId>`}</Refs>
            ${version >= 4 ? `${amount}<CdtDbtInd>${indicator(entry)}</CdtDbtInd>` : `<AmtDtls><TxAmt>${amount}</TxAmt></AmtDtls>`}
            <RltdPties><Cdtr>${party}</Cdtr>${entry.account === null ? '' : `<CdtrAcct><Id><Othr><Id>${xml(entry.account)}</Id></Othr></Id></CdtrAcct>`}</RltdPties>
            ${entry.memo === null ? '' : `<RmtInf><Ustrd>${xml(entry.memo)}</Ustrd></RmtInf>`}
            ${entry.returnReason === null ? '' : `<RtrInf><Rsn><Cd>${entry.returnReason}</Cd></Rsn></RtrInf>`}
          </TxDtls>`;
}

function toBal(code: string, units: bigint, currency: string, day: string): string {
  const amount = toAmt(units < 0n ? -units : units, currency);
  return `<Bal><Tp><CdOrPrtry><Cd>${code}</Cd></CdOrPrtry></Tp>${amount}<CdtDbtInd>${units < 0n ? 'DBIT' : 'CRDT'}</CdtDbtInd><Dt><Dt>${day}</Dt></Dt></Bal>`;
}

function toAmt(units: bigint, currency: string): string {
  return `<Amt Ccy="${currency}">${fixedDecimal(units, currency)}</Amt>`;
}

function indicator(entry: Entry): string {
  return entry.direction === 'out' ? 'DBIT' : 'CRDT';
}

function balanceText(units: bigint, currency: string): string {
  return units < 0n ? `-${fixedDecimal(-units, currency)}` : fixedDecimal(units, currency);
}

function xml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (one) => `&#${one.codePointAt(0) ?? 0};`);
}

function quoted(cell: string, delimiter: string): string {
  return cell.includes(delimiter) || /["\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
