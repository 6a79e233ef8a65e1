/** What the kit says in the end: what is promised beside what was seen, and which of the two is more. */
import type { Cite } from '../../keyed-profile.ts';

/**
 * `promises_more`: money could be freed or sent again on a promise that was not kept. `promises_less`: the profile could be
 * widened, and nothing is wrong with it as it is. `not_tried`: neither was shown.
 */
export type Verdict = 'agrees' | 'promises_more' | 'promises_less' | 'not_tried';

export interface RawAnswer {
  /** Which request or look-up of the kit it answers. */
  readonly what: string;
  readonly reach: string;
  readonly status: number | null;
  /** As the rail stores it; or the transport's error. */
  readonly body: string;
  /** How the rail reads it, and why. */
  readonly reads: string;
  readonly detail: string;
}

export interface Finding {
  /** Short and stable: what a script looks for. */
  readonly probe: string;
  readonly declared: string;
  readonly cite: Cite | null;
  readonly observed: string;
  readonly verdict: Verdict;
}

export interface ProbeRow extends Finding {
  readonly answers: readonly RawAnswer[];
}

export interface ProbeReport {
  readonly profile: string;
  /** `false`: the first transfer was not accepted, so that nothing could be seen. */
  readonly started: boolean;
  /** Nothing that was seen is less than what the profile promises. Says nothing of what could not be tried. */
  readonly ok: boolean;
  readonly requestsSent: number;
  /** Different transfers that the provider showed under the kit's keys. */
  readonly transfersSeen: number;
  readonly rows: readonly ProbeRow[];
}

export function finding(
  probe: string,
  declared: string,
  observed: string,
  verdict: Verdict,
  cite: Cite | null = null,
): Finding {
  return { probe, declared, observed, verdict, cite };
}

/** What is claimed beside what was seen, where the claim is a plain yes or no and a yes is the stronger promise. */
export function compare(claimed: boolean, seen: boolean): Verdict {
  if (claimed === seen) return 'agrees';
  return claimed ? 'promises_more' : 'promises_less';
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
  ['ms', 1],
];

/** Exact: `23 h 59 min`. */
export function lasting(ms: number): string {
  let left = Math.round(ms);
  const parts = UNITS.flatMap(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count === 0 ? [] : [`${count} ${name}`];
  });
  return parts.length === 0 ? '0 s' : parts.join(' ');
}
