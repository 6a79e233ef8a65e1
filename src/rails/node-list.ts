/** The configured nodes of a chain: how evidence names them, and which of them gets the next send. */
import type { SealedEffect } from '../engine/rail.ts';
import { type Credential, doorOf } from './redact.ts';

export interface RailNode {
  readonly url: string;
  /** Who runs it: witnesses are counted by operator, so two nodes of one provider are one. */
  readonly operator: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `source` names the node in evidence; never its URL's path, which often is a secret. */
export type Named<N extends RailNode> = N & { readonly source: string; readonly credential: Credential };

export function nameNodes<N extends RailNode>(nodes: readonly N[]): Named<N>[] {
  const seen = new Map<string, number>();
  return nodes.map((node) => {
    // Host alone: paths and queries of providers carry keys, and evidence is shown to people.
    const host = new URL(node.url).host;
    const count = (seen.get(host) ?? 0) + 1;
    seen.set(host, count);
    return { ...node, source: count === 1 ? host : `${host}#${count}`, credential: doorOf(node.url, node.headers) };
  });
}

/** Sends remembered per effect; forgetting one only repeats a node. */
const ROTATION_ENTRIES_MAX = 10_000;

/** Each effect starts at a node of its own and moves on with each send, so that a failing node is left behind. */
export type NextNode<N> = (usable: readonly N[], sealed: SealedEffect) => N | null;

export function makeRotation<N>(): NextNode<N> {
  const ordinals = new Map<string, number>();
  return (usable, sealed) => {
    if (usable.length === 0) return null;
    const key = sealed.seal.identity;
    const ordinal = ordinals.get(key) ?? 0;
    ordinals.delete(key);
    ordinals.set(key, ordinal + 1);
    const oldest = ordinals.size > ROTATION_ENTRIES_MAX ? ordinals.keys().next().value : undefined;
    if (oldest !== undefined) ordinals.delete(oldest);
    const start = Number(sealed.effectId % BigInt(usable.length));
    return usable[(start + ordinal) % usable.length] ?? null;
  };
}
