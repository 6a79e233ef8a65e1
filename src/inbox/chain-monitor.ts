/**
 * Chain monitors: whatever they report, it only makes us read the chain now instead of later (rails.md §5.3).
 *
 * No field is required and none is believed. From anywhere in the body we take what looks like a transaction hash or an
 * address; if one of them is ours, the readers are woken. Amounts and finality come from the chain alone.
 */
import type { Tx } from '../db/pool.ts';
import { loadKnown } from './store.ts';
import type { Handler, InboxEvent } from './work.ts';

export interface Mentions {
  readonly hashes: readonly string[];
  readonly addresses: readonly string[];
}

export interface ChainMonitorOptions {
  /** Called after the commit, once for each event that concerns us. */
  readonly wake: () => void;
  /** Makes open effects of these transactions due now; the engine's. */
  readonly hurry?: (tx: Tx, mentions: Mentions) => Promise<void>;
}

/** `done` where a mentioned transaction or address is ours, or none is mentioned; else `unmatched`. */
export function makeChainMonitor(options: ChainMonitorOptions): Handler {
  return async (event, tx) => {
    const mentions = mentionsIn(event);
    const saysNothing = mentions.hashes.length === 0 && mentions.addresses.length === 0;
    // A ping, or words that we do not know: to look once too often costs nothing.
    if (!saysNothing && !(await loadKnown(tx, mentions.hashes, mentions.addresses))) return 'unmatched';
    await options.hurry?.(tx, mentions);
    tx.afterCommit(options.wake);
    return 'done';
  };
}

/** More than any block holds of ours; a body that names more is cut, and the scanner finds the rest by itself. */
const MENTIONS_MAX = 1_000;
/** Not inside a longer run of digits and letters: call data is full of padded addresses. */
const alone = (word: string): RegExp => new RegExp(`(?<![0-9a-zA-Z])${word}(?![0-9a-zA-Z])`, 'g');
/** Hex is kept in lower case; base58, as TRON writes addresses, means what it says. */
const HASHES = [alone('0x[0-9a-fA-F]{64}'), alone('[0-9a-fA-F]{64}')];
const HEX_ADDRESS = alone('0x[0-9a-fA-F]{40}');
const BASE58_ADDRESS = alone('T[1-9A-HJ-NP-Za-km-z]{33}');

/** Reads the text, not the JSON: a body that does not parse is worth as much as one that does. */
export function mentionsIn(event: Pick<InboxEvent, 'body'>): Mentions {
  const text = event.body.toString('utf8');
  const all = (pattern: RegExp): string[] => text.match(pattern) ?? [];
  const hex = (patterns: readonly RegExp[]): string[] => patterns.flatMap(all).map((found) => found.toLowerCase());
  return {
    hashes: first(hex(HASHES)),
    addresses: first([...hex([HEX_ADDRESS]), ...all(BASE58_ADDRESS)]),
  };
}

function first(found: readonly string[]): string[] {
  return [...new Set(found)].slice(0, MENTIONS_MAX);
}
