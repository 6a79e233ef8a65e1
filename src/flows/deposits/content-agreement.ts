/**
 * What blocks hold for our addresses, by more operators than one. A hash that both show proves nothing of it: one node may invent a
 * log, or leave one out, under a hash that is right. So as many operators as must agree on a block read it whole, and what
 * each shows that concerns us is compared before anything is booked.
 */
import type { Query } from '../../db/pool.ts';
import type { Agreement, Final } from './agreement.ts';
import { type Block, readRun } from './block-source.ts';
import { findSightings, type Sighting, type Watch } from './sightings.ts';

export interface ReadBy {
  readonly operator: string;
  readonly source: string;
  readonly blocks: readonly Block[];
  readonly sightings: readonly Sighting[];
}

const SHOWN_MAX = 5;

export async function agreeOnContent(
  query: Query,
  watch: Watch,
  finals: readonly Final[],
  first: ReadBy,
  agreeing: number,
): Promise<Agreement> {
  const [start, end] = [first.blocks[0], first.blocks.at(-1)];
  if (agreeing < 2 || start === undefined || end === undefined) return { verdict: 'agreed' };
  const same = new Set([first.operator]);
  const faults: string[] = [];
  for (const { node, head } of finals) {
    if (same.size >= agreeing) break;
    if (same.has(node.operator) || head.number < end.number) continue;
    const run = await readRun(node, start.number, end.number);
    if (run.fault !== null) {
      faults.push(run.fault);
      continue;
    }
    const { sightings } = await findSightings(query, watch, run.blocks);
    const second = { operator: node.operator, source: node.source, blocks: run.blocks, sightings };
    const why = differenceOf(first, second);
    if (why !== null) return { verdict: 'disagree', why };
    same.add(node.operator);
  }
  return same.size >= agreeing
    ? { verdict: 'agreed' }
    : {
        verdict: 'too_few',
        why: `${same.size} of ${agreeing} operators give the blocks ${start.number} to ${end.number} whole${faults.length === 0 ? '' : `: ${faults.join('; ')}`}`,
      };
}

/** What one shows and the other does not, in words, or `null`. A transaction that does not read at one of them says nothing here. */
function differenceOf(one: ReadBy, other: ReadBy): string | null {
  const unread = new Set([...unreadIn(one.blocks), ...unreadIn(other.blocks)]);
  const [left, right] = [keysOf(one, unread), keysOf(other, unread)];
  const only = (mine: ReadonlySet<string>, theirs: ReadonlySet<string>, by: ReadBy, not: ReadBy): string[] =>
    [...mine]
      .filter((key) => !theirs.has(key))
      .slice(0, SHOWN_MAX)
      .map((key) => `${by.source} shows ${key}, and ${not.source} does not`);
  const found = [...only(left, right, one, other), ...only(right, left, other, one)];
  return found.length === 0 ? null : `nodes differ in what a block holds for us: ${found.join('; ')}`;
}

function unreadIn(blocks: readonly Block[]): string[] {
  return blocks.flatMap((block) => (block.unread ?? []).map((one) => one.hash));
}

function keysOf({ sightings }: ReadBy, unread: ReadonlySet<string>): Set<string> {
  return new Set(
    sightings.flatMap(({ movement: { txHash, position, assetId, from, to, amount } }) =>
      unread.has(txHash) ? [] : [`${amount} units of ${assetId} from ${from} to ${to} in ${txHash} at ${position}`],
    ),
  );
}
