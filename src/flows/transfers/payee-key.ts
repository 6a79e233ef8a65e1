/**
 * Whom a bank takes for the same payee: dashes and blanks between digits are the writer's, case says nothing in a bank's code or
 * a mail address. As `payonce.payee_key` of the database; a test holds them to each other.
 */
import type { BankPayee } from '../../engine/rail.ts';

export function payeeKey({ bankCode, accountNumber }: Pick<BankPayee, 'bankCode' | 'accountNumber'>): string {
  return `${bankCode.toUpperCase()}:${accountKey(accountNumber)}`;
}

function accountKey(account: string): string {
  if (/^[0-9][0-9 -]*$/.test(account)) return account.replaceAll(/[ -]/g, '');
  return account.includes('@') ? account.toLowerCase() : account;
}
