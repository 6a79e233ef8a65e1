/** What a payout asks of a contract, from its programme's template. Pure; a word is 32 bytes in hex. */
import type { ContractCall } from '../../engine/rail.ts';
import type { CallTemplate } from './programme.ts';

/** An address of a chain as a word of its contracts: 64 hex digits. */
export type WordOf = (chain: string, address: string) => string;

/** Whether the people who run this system allow programmes this call: a wallet signs it that may hold what is not the partner's. */
export type MayCall = (chain: string, call: CallTemplate) => boolean;

const PLACES = ['creator', 'creator20', 'amount', 'min_output', 'wallet', 'reference'] as const;
type Place = (typeof PLACES)[number];

const PLACE = /\{([a-z_0-9]+)\}/g;
const ADDRESS_DIGITS = 40;
const WORD_DIGITS = 64;

/** What is wrong with a template, with its field; `null`: nothing. */
export function templateFault(call: CallTemplate): { field: string; got: string; expected: string } | null {
  const parts: [string, string][] = [
    ['call.data', call.data],
    ...call.logs.flatMap((log, index) =>
      log.topics.flatMap((topic, at): [string, string][] =>
        topic === null ? [] : [[`call.logs[${index}].topics[${at}]`, topic]],
      ),
    ),
  ];
  for (const [field, text] of parts) {
    const bare = text.replaceAll(PLACE, (whole, name: string) =>
      PLACES.some((one) => one === name) ? '0'.repeat(name === 'creator20' ? ADDRESS_DIGITS : WORD_DIGITS) : whole,
    );
    const isWord = field !== 'call.data';
    if (!(isWord ? /^0x[0-9a-fA-F]{64}$/ : /^0x(?:[0-9a-fA-F]{2}){4,}$/).test(bare))
      return {
        field,
        got: text.slice(0, 80),
        expected: `hex with 0x in which only ${PLACES.map((one) => `{${one}}`).join(', ')} stand for words${isWord ? '; a topic is one word' : ''}`,
      };
  }
  if (call.logs.length === 0)
    return { field: 'call.logs', got: 'none', expected: 'the logs that say that the creator was paid, at least one' };
  return null;
}

export function needsQuote(call: CallTemplate): boolean {
  return call.data.includes('{min_output}') || call.logs.some((log) => log.minimumWord !== undefined);
}

export function toCall(
  call: CallTemplate,
  payout: {
    readonly id: string;
    readonly chain: string;
    readonly destination: string;
    readonly wallet: string;
    readonly amount: bigint;
    readonly minOutput: bigint | null;
  },
  wordOf: WordOf,
): ContractCall {
  const inWord = (units: bigint): string => units.toString(16).padStart(WORD_DIGITS, '0');
  const creator = wordOf(payout.chain, payout.destination);
  const words: Record<Place, string> = {
    creator,
    creator20: creator.slice(-ADDRESS_DIGITS),
    wallet: wordOf(payout.chain, payout.wallet),
    amount: inWord(payout.amount),
    min_output: inWord(payout.minOutput ?? 0n),
    reference: Buffer.from(payout.id).toString('hex').padEnd(WORD_DIGITS, '0'),
  };
  const fill = (text: string): string =>
    text.replaceAll(PLACE, (whole, name: string) => words[name as Place] ?? whole).toLowerCase();
  return {
    to: call.to,
    data: fill(call.data),
    value: call.value === 'amount' ? payout.amount : 0n,
    logs: call.logs.map((log) => ({
      address: log.address,
      topics: log.topics.map((topic) => (topic === null ? null : fill(topic))),
      ...(log.minimumWord === undefined
        ? {}
        : { minimumWord: log.minimumWord, minimum: payout.minOutput ?? payout.amount }),
    })),
  };
}
