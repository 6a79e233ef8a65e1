/**
 * Several nodes are asked at once, and a slow one holds up no other: when its time is over it counts as unread, and what the
 * quick ones showed is recorded while the lease stands. Answers that come later are dropped; the next pass asks again.
 * Where no node at all has answered by then, the first that does is waited for: slow is better than never.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Nodes that are still at something that was given up: what is asked meanwhile would stand behind it on their connection. */
const behind = new WeakSet<object>();

/** One answer per node, in order; `tooSlow` in the place of those that did not come in time. A fault of one is a fault of all. */
export async function askInTime<Node extends object, Shown>(
  nodes: readonly Node[],
  withinMs: number,
  ask: (node: Node) => Promise<Shown>,
  tooSlow: (node: Node) => Shown,
): Promise<Shown[]> {
  const shown = new Map<Node, Shown>();
  const quick = nodes.filter((node) => !behind.has(node));
  const free = quick.length > 0 ? quick : nodes;
  const asked = free.map(async (node) => shown.set(node, await ask(node)));
  const whole = Promise.all(asked);
  const over = new AbortController();
  const late = sleep(withinMs, null, { ref: false, signal: over.signal });
  late.catch(() => undefined);
  // What they still answer, or fail with, once that is over is nobody's.
  whole.catch(() => undefined);
  try {
    await Promise.race([whole, late]);
    if (shown.size === 0 && asked.length > 0) await Promise.race(asked);
  } finally {
    over.abort();
    for (const [index, node] of free.entries()) if (!shown.has(node)) setBehind(node, asked[index]);
  }
  return nodes.map((node) => shown.get(node) ?? tooSlow(node));
}

/** What one node shows, or `tooSlow`. */
export async function askOneInTime<Node extends object, Shown>(
  node: Node,
  withinMs: number,
  ask: (node: Node) => Promise<Shown>,
  tooSlow: () => Shown,
): Promise<Shown> {
  const asked = ask(node);
  const over = new AbortController();
  const late = sleep(withinMs, null, { ref: false, signal: over.signal }).then(() => {
    setBehind(node, asked);
    return tooSlow();
  });
  late.catch(() => undefined);
  asked.catch(() => undefined);
  try {
    return await Promise.race([asked, late]);
  } finally {
    over.abort();
  }
}

function setBehind(node: object, asked: Promise<unknown> | undefined): void {
  behind.add(node);
  asked?.catch(() => undefined).finally(() => behind.delete(node));
}

/** Those that are free before those that are still at something else. */
export function freeFirst<Node extends object>(nodes: readonly Node[]): Node[] {
  return [...nodes.filter((node) => !behind.has(node)), ...nodes.filter((node) => behind.has(node))];
}
