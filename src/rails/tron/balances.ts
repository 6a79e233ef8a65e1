/**
 * Balances and places for reconciliation. A node of TRON keeps the state of its solid head and of no older block, so a
 * balance counts only if the solid head was the wanted block before and after all questions.
 */
import { hexAddress, wordOfAddress } from './address.ts';
import { askTransaction, type Read, readHeader } from './nodes.ts';
import { hashOf, readInfo } from './receipt.ts';
import { figureOf, readAccount, readSimulation } from './resources.ts';
import { faultOf, isNothing, type Line } from './wire.ts';

export interface Holder {
  readonly address: string;
  /** `null`: TRX. */
  readonly contract: string | null;
}

export async function readBalances(line: Line, blockId: string, holders: readonly Holder[]): Promise<Read<bigint>[]> {
  const before = await whyNotSolidHead(line, blockId);
  const balances: Read<bigint>[] = [];
  if (before === null) for (const holder of holders) balances.push(await readBalance(line, holder));
  const fault = before ?? (await whyNotSolidHead(line, blockId));
  return fault === null ? balances : holders.map(() => ({ ok: false, fault }));
}

async function whyNotSolidHead(line: Line, blockId: string): Promise<string | null> {
  const solid = await readHeader(line, 'walletsolidity', 'now');
  if (!solid.ok) return solid.fault;
  return solid.value.id === blockId ? null : `the solid head is block ${solid.value.number}, another one was asked for`;
}

async function readBalance(line: Line, { address, contract }: Holder): Promise<Read<bigint>> {
  if (contract === null) {
    const result = await line.ask('walletsolidity/getaccount', { address: hexAddress(address) });
    const account = readAccount(result);
    return account === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: account.balanceSun };
  }
  const result = await line.ask('walletsolidity/triggerconstantcontract', {
    owner_address: hexAddress(address),
    contract_address: hexAddress(contract),
    function_selector: 'balanceOf(address)',
    parameter: wordOfAddress(address).slice(2),
  });
  const shown = readSimulation(result);
  const balance = shown.kind === 'ran' ? figureOf(shown.word) : null;
  return balance === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: balance };
}

export async function findTransactions(line: Line, hashes: readonly string[]): Promise<Read<bigint | null>[]> {
  const found: Read<bigint | null>[] = [];
  for (const hash of hashes) {
    const result = await askTransaction(line, 'walletsolidity', 'infobyid', hash);
    const info = result.kind === 'value' ? readInfo(result.value) : null;
    if (isNothing(result)) found.push({ ok: true, value: null });
    else if (info === null || info.txId !== hashOf(hash)) found.push({ ok: false, fault: faultOf(result) });
    else found.push({ ok: true, value: info.blockNumber });
  }
  return found;
}
