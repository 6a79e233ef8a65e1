/**
 * camt.053, the bank's statement in ISO 20022 (versions .001.02 to .001.08).
 *
 * Only booked entries are lines; pending and informational ones are counted as skipped. An entry with several transaction
 * details that each give an amount is its parts, and the parts add up to it; one without such amounts stays one line.
 */
import {
  type Currencies,
  decodeUtf8,
  type Faults,
  makeFaults,
  readDay,
  type ReadStatements,
  readUnits,
  signed,
  type Statement,
  type StatementLine,
  daysAfter,
} from './statement.ts';
import { childrenOf, type Element, find, readXml, textAt } from './xml.ts';

const NAMESPACE = /^urn:iso:std:iso:20022:tech:xsd:(camt\.053\.001\.0[2-8])$/;
/** Banks' words for "there is none". */
const NO_REFERENCE = /^(?:NOTPROVIDED|NOT PROVIDED|NONREF|NONE|N\/A|-)$/i;
/** Sub-families of the bank transaction code that are the bank's own price. */
const CHARGES: ReadonlySet<string> = new Set(['CHRG', 'FEES', 'COMM']);
const REFERENCES = [
  'EndToEndId',
  'InstrId',
  'TxId',
  'AcctSvcrRef',
  'AcctSvcrTxId',
  'AcctOwnrTxId',
  'PmtInfId',
  'MsgId',
  'UETR',
  'ClrSysRef',
] as const;

interface Reading {
  readonly faults: Faults;
  readonly currencies: Currencies;
  skipped: number;
}

export function readCamt(bytes: Uint8Array, currencies: Currencies): ReadStatements {
  const faults = makeFaults();
  const text = decodeUtf8(bytes);
  if (text === null) faults.add('the file', 'it is no UTF-8');
  const document = text === null ? null : readXml(text, faults);
  if (document === null) return { ok: false, faults: faults.list };
  const format = NAMESPACE.exec(document.namespace)?.[1];
  const message = document.root.name === 'Document' ? find(document.root, 'BkToCstmrStmt') : null;
  if (format === undefined || message === null) {
    faults.add(
      `line ${document.root.line}`,
      `expected Document/BkToCstmrStmt of camt.053.001.02 to .08, got ${document.root.name} of ${document.namespace || 'no namespace'}`,
    );
    return { ok: false, faults: faults.list };
  }
  const reading: Reading = { faults, currencies, skipped: 0 };
  const found = childrenOf(message, 'Stmt');
  if (found.length === 0) faults.add(`BkToCstmrStmt (line ${message.line})`, 'it has no Stmt');
  const statements = found.map((one, index) => readStatement(reading, one, `Stmt[${index + 1}]`));
  if (faults.list.length > 0) return { ok: false, faults: faults.list };
  return { ok: true, format, statements: statements.filter((one) => one !== null), skipped: reading.skipped };
}

function readStatement(reading: Reading, element: Element, path: string): Statement | null {
  const { faults } = reading;
  const here = `${path} (line ${element.line})`;
  const balances = childrenOf(element, 'Bal');
  const typed = (code: string): readonly Element[] => balances.filter((one) => textAt(one, 'Tp/CdOrPrtry/Cd') === code);
  const once = (code: string): Element | null => {
    if (typed(code).length > 1) faults.add(here, `it has ${typed(code).length} balances ${code}, expected one`);
    return typed(code)[0] ?? null;
  };
  // A statement of several pages opens and closes its inner ones with interim balances.
  const opening = once('OPBD') ?? once('PRCD') ?? typed('ITBD')[0] ?? null;
  const closing = once('CLBD') ?? typed('ITBD').at(-1) ?? null;
  if (opening === null || closing === null || opening === closing)
    return faults.add(here, 'it gives no opening and closing balance (OPBD and CLBD)');
  const currency = find(closing, 'Amt')?.attributes.get('Ccy') ?? '';
  const first = readAmount(reading, opening, currency, `${path}/Bal (line ${opening.line})`);
  const last = readAmount(reading, closing, currency, `${path}/Bal (line ${closing.line})`);
  const lines = childrenOf(element, 'Ntry').flatMap((one, index) =>
    readEntry(reading, one, currency, `${path}/Ntry[${index + 1}]`),
  );
  const opens = readDayAt(reading, opening, 'Dt', `${path}/Bal (line ${opening.line})`);
  const closes = readDayAt(reading, closing, 'Dt', `${path}/Bal (line ${closing.line})`);
  if (faults.list.length > 0 || first === null || last === null || opens === null || closes === null) return null;
  const moved = lines.reduce((sum, line) => sum + signed(line), 0n);
  const [from0, to0] = [signed(first), signed(last)];
  if (from0 + moved !== to0)
    return faults.add(
      here,
      `opening ${from0} and entries of ${moved} make ${from0 + moved}, not the closing ${to0} (units)`,
    );
  const isPrevious = textAt(opening, 'Tp/CdOrPrtry/Cd') === 'PRCD';
  const days = lines.map((line) => line.bookedOn);
  const [from, to] = periodOf(element, isPrevious ? closes : opens, closes, days);
  return {
    account: textAt(element, 'Acct/Id/IBAN', 'Acct/Id/Othr/Id'),
    name: textAt(element, 'Id'),
    sequence: sequenceOf(element),
    currency,
    from,
    to,
    opening: from0,
    closing: to0,
    lines,
  };
}

/** What the file says, widened by what stands in it. */
function periodOf(element: Element, opens: string, closes: string, days: readonly string[]): [string, string] {
  const starts = textAt(element, 'FrToDt/FrDtTm');
  const ends = textAt(element, 'FrToDt/ToDtTm');
  const from = (starts === null ? null : readDay(starts)) ?? opens;
  let to = (ends === null ? null : readDay(ends)) ?? closes;
  // Midnight of the day after is the end of the day before.
  if (ends !== null && /T00:00:00(?:\.0+)?(?:Z|[+-]\d{2}:\d{2})?$/.test(ends) && to > from) to = daysAfter(to, -1);
  const all = [from, to, ...days].sort();
  return [all[0] ?? from, all.at(-1) ?? to];
}

function sequenceOf(element: Element): bigint | null {
  const text = textAt(element, 'ElctrncSeqNb', 'LglSeqNb');
  return text !== null && /^\d{1,18}$/.test(text) ? BigInt(text) : null;
}

function readEntry(reading: Reading, entry: Element, currency: string, path: string): StatementLine[] {
  const { faults } = reading;
  const here = `${path} (line ${entry.line})`;
  const status = textAt(entry, 'Sts/Cd', 'Sts/Prtry', 'Sts');
  if (status !== 'BOOK') {
    if (status === null || !['PDNG', 'INFO', 'FUTR'].includes(status))
      faults.add(here, `its Sts is ${status ?? 'missing'}`);
    reading.skipped += 1;
    return [];
  }
  const whole = readAmount(reading, entry, currency, here);
  const bookedOn = readDayAt(reading, entry, 'BookgDt', here);
  const details = childrenOf(entry, 'NtryDtls').flatMap((one) => childrenOf(one, 'TxDtls'));
  if (whole === null || bookedOn === null) return [];
  if (whole.amount === 0n) {
    // A line of nothing (a notice, a settled batch of refusals) moves nothing.
    reading.skipped += 1;
    return [];
  }
  const base = {
    bookedOn,
    valueOn: find(entry, 'ValDt') === null ? null : readDayAt(reading, entry, 'ValDt', here),
    isReversal: textAt(entry, 'RvslInd') === 'true' || textAt(entry, 'RvslInd') === '1',
    isCharge: CHARGES.has(textAt(entry, 'BkTxCd/Domn/Fmly/SubFmlyCd') ?? ''),
  };
  const [only] = details;
  if (only === undefined || details.length === 1)
    return [toLine(entry, only === undefined ? [] : [only], here, { ...base, ...whole })];
  const parts = details.map((one) => find(one, 'Amt') ?? find(one, 'AmtDtls/TxAmt/Amt'));
  if (parts.some((one) => one === null)) return [toLine(entry, details, here, { ...base, ...whole })];
  const lines = details.flatMap((one, index) => {
    const place = `${path}/TxDtls[${index + 1}] (line ${one.line})`;
    const amount = unitsOf(reading, parts[index] ?? null, currency, place);
    const direction = directionOf(reading, one, place, whole.direction);
    if (amount === null || direction === null || amount === 0n) return [];
    return [{ ...toLine(entry, [one], place, { ...base, amount, direction }), isPart: index + 1 }];
  });
  const sum = lines.reduce((total, line) => total + signed(line), 0n);
  if (faults.list.length === 0 && sum !== signed(whole))
    faults.add(here, `its parts add up to ${sum}, the entry is ${signed(whole)} (units)`);
  // Parts without a reference of their own share the entry's: told apart by their place in it.
  return lines.map(({ isPart, ...line }, index) =>
    line.ownReference !== null && textAt(details[index] ?? entry, 'Refs/AcctSvcrRef') === null
      ? { ...line, ownReference: `${line.ownReference}/${isPart}` }
      : line,
  );
}

function toLine(
  entry: Element,
  details: readonly Element[],
  place: string,
  base: Pick<StatementLine, 'bookedOn' | 'valueOn' | 'isReversal' | 'isCharge' | 'amount' | 'direction'>,
): StatementLine {
  const isOurs = (base.direction === 'out') !== base.isReversal;
  const party = isOurs ? 'Cdtr' : 'Dbtr';
  const first = (...paths: string[]): string | null => {
    for (const one of details) {
      const text = textAt(one, ...paths);
      if (text !== null) return text;
    }
    return null;
  };
  const own = [first('Refs/AcctSvcrRef'), textAt(entry, 'AcctSvcrRef'), textAt(entry, 'NtryRef')].find(isReference);
  const remittance = [
    ...details.flatMap((one) => textsAt(one, 'RmtInf', 'Ustrd')),
    ...textsAt(entry, null, 'AddtlNtryInf'),
  ].join(' ');
  const found = [
    own,
    textAt(entry, 'AcctSvcrRef'),
    ...details.flatMap((one) => [
      ...REFERENCES.map((name) => textAt(one, `Refs/${name}`)),
      ...(find(one, 'Refs')?.children ?? []).filter((ref) => ref.name === 'Prtry').map((ref) => textAt(ref, 'Ref')),
      textAt(one, 'RmtInf/Strd/CdtrRefInf/Ref'),
    ]),
  ];
  return {
    ...base,
    place,
    ownReference: own ?? null,
    references: [...new Set(found.filter(isReference))],
    counterpartyName: first(`RltdPties/${party}/Pty/Nm`, `RltdPties/${party}/Nm`),
    counterpartyAccount: first(`RltdPties/${party}Acct/Id/IBAN`, `RltdPties/${party}Acct/Id/Othr/Id`),
    remittance: remittance === '' ? null : remittance,
    returnReason: first('RtrInf/Rsn/Cd', 'RtrInf/Rsn/Prtry', 'RtrInf/AddtlInf'),
  };
}

function isReference(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && !NO_REFERENCE.test(text);
}

function textsAt(element: Element, parent: string | null, name: string): string[] {
  const at = parent === null ? element : find(element, parent);
  return at === null
    ? []
    : childrenOf(at, name)
        .map((one) => one.text.trim())
        .filter((text) => text !== '');
}

interface Amount {
  readonly amount: bigint;
  readonly direction: 'out' | 'in';
}

/** `Amt` and `CdtDbtInd` of an entry or a balance. */
function readAmount(reading: Reading, element: Element, currency: string, place: string): Amount | null {
  const amount = unitsOf(reading, find(element, 'Amt'), currency, place);
  const direction = directionOf(reading, element, place, null);
  return amount === null || direction === null ? null : { amount, direction };
}

function directionOf(
  reading: Reading,
  element: Element,
  place: string,
  absent: 'out' | 'in' | null,
): 'out' | 'in' | null {
  const text = textAt(element, 'CdtDbtInd');
  if (text === 'DBIT') return 'out';
  if (text === 'CRDT') return 'in';
  return text === null && absent !== null
    ? absent
    : reading.faults.add(place, `its CdtDbtInd is ${text ?? 'missing'}, expected CRDT or DBIT`);
}

function unitsOf(reading: Reading, amount: Element | null, currency: string, place: string): bigint | null {
  const { faults, currencies } = reading;
  if (amount === null) return faults.add(place, 'it has no Amt');
  const code = amount.attributes.get('Ccy') ?? '';
  if (code !== currency)
    return faults.add(place, `its currency is ${code || 'missing'}, the statement's ${currency || 'missing'}`);
  const decimals = currencies.get(code);
  if (decimals === undefined)
    return faults.add(
      place,
      `this rail has no asset in ${code}; it pays in ${[...currencies.keys()].join(', ') || 'none'}`,
    );
  const text = amount.text.trim();
  return (
    readUnits(text, decimals) ??
    faults.add(place, `its Amt is "${text}", expected digits and at most ${decimals} places`)
  );
}

function readDayAt(reading: Reading, element: Element, name: string, place: string): string | null {
  const text = textAt(element, `${name}/Dt`, `${name}/DtTm`);
  if (text === null) return reading.faults.add(place, `it has no ${name}`);
  return readDay(text) ?? reading.faults.add(place, `its ${name} is "${text}", expected a day such as 2030-01-02`);
}
