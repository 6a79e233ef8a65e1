/**
 * What makes a line the same one in two files.
 *
 * The bank's own reference with day, direction and amount; without one, the day and all that the line says. Equal lines of one
 * file are counted, so two payments that look alike stay two. Where a bank gives no references and cuts one day into two files,
 * alike lines of both fold into one: the balances then do not add up, and `reconcile bank` says so.
 */
import { createHash } from 'node:crypto';
import { lengthPrefixed } from '../../kernel/ids.ts';
import type { StatementLine } from './statement.ts';

/** In order; unique in the list. */
export function lineKeys(assetId: string, lines: readonly StatementLine[]): string[] {
  const seen = new Map<string, number>();
  return lines.map((line) => {
    const stem = stemOf(assetId, line);
    const ordinal = (seen.get(stem) ?? 0) + 1;
    seen.set(stem, ordinal);
    return `${stem}:${ordinal}`;
  });
}

function stemOf(assetId: string, line: StatementLine): string {
  const fixed = [assetId, line.bookedOn, line.direction, line.amount.toString()];
  const says =
    line.ownReference === null
      ? [line.counterpartyAccount ?? '', line.counterpartyName ?? '', line.remittance ?? '', ...line.references]
      : [line.ownReference];
  const digest = createHash('sha256')
    .update(lengthPrefixed([...fixed, ...says]))
    .digest('hex');
  return `${line.ownReference === null ? 'day' : 'ref'}:${line.bookedOn}:${digest}`;
}
