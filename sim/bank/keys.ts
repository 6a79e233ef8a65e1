/*
 * What a bank remembers under an idempotency key, and for how long. A key that was forgotten is a new key: the same request
 * is a new payment then (case C3).
 */
import type { Answer, Behaviour } from './profile.ts';
import type { Batch } from './transfer.ts';

export type KeyEntry = {
  readonly slot: string;
  readonly fingerprint: string;
  readonly atMs: number;
  /** `null` while the first request is in progress. */
  answer: Answer | null;
  batch: Batch | null;
};

export type KeyStore = {
  /** `expired` is said once, by the look-up that found it too old. */
  find(slot: string): { entry: KeyEntry | null; expired: boolean };
  take(slot: string, fingerprint: string): KeyEntry;
  drop(entry: KeyEntry): void;
};

export function makeKeyStore(behaviour: Behaviour, nowMs: () => number): KeyStore {
  const entries = new Map<string, KeyEntry>();
  return {
    find(slot) {
      const entry = entries.get(slot) ?? null;
      const old = entry !== null && behaviour.retentionMs !== null && nowMs() - entry.atMs >= behaviour.retentionMs;
      if (!old || entry.answer === null) return { entry, expired: false };
      entries.delete(slot);
      return { entry: null, expired: true };
    },
    take(slot, fingerprint) {
      const entry: KeyEntry = { slot, fingerprint, atMs: nowMs(), answer: null, batch: null };
      entries.set(slot, entry);
      return entry;
    },
    drop(entry) {
      if (entries.get(entry.slot) === entry) entries.delete(entry.slot);
    },
  };
}

export function slotOf(behaviour: Behaviour, key: string, credential: string, path: string): string {
  switch (behaviour.keyScope) {
    case 'global':
    case 'account':
      return key;
    case 'credential':
      return `${credential}\n${key}`;
    case 'credential_and_path':
      return `${credential}\n${path}\n${key}`;
  }
}
