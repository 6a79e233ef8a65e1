/*
 * Contenders take turns, round by round, for a fixed time each; the median of a contender's rounds is its figure.
 */
export interface BenchOptions {
  readonly rounds: number;
  readonly roundMs: number;
}

export interface Measured {
  readonly name: string;
  /** Items a second, each round. */
  readonly rounds: readonly number[];
  readonly median: number;
}

export interface BenchLine {
  readonly line: string;
  readonly ours: Measured;
  readonly peer: Measured;
  readonly ratio: number;
  /** The ratio that must be reached, where one is promised. */
  readonly floor?: number;
}

/** A figure of its own, beside no peer: a cost per item, a ratio of our own two times. */
export interface BenchCount {
  readonly line: string;
  readonly figure: number;
  /** What it may be at most, where that is promised. */
  readonly ceiling?: number;
  readonly note?: string;
}

export interface BenchResult {
  readonly lines: BenchLine[];
  readonly counts: BenchCount[];
  /** What explains the figures. */
  readonly notes: string[];
}

/** Runs `work` in so many loops at once until the time is over; answers the items a second. */
export async function rate(callers: number, roundMs: number, work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() - began < roundMs) {
        await work();
        done += 1;
      }
    }),
  );
  return (done * 1_000) / (performance.now() - began);
}

/** One uncounted round for each, to fill caches and plans; then in turns. */
export async function interleaved(
  contenders: Readonly<Record<string, () => Promise<number>>>,
  rounds: number,
): Promise<Map<string, Measured>> {
  const rates = new Map<string, number[]>(Object.keys(contenders).map((name) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, run] of Object.entries(contenders)) {
      const figure = await run();
      if (round > 0) rates.get(name)?.push(figure);
    }
  }
  return new Map([...rates].map(([name, figures]) => [name, { name, rounds: figures, median: median(figures) }]));
}

export function median(figures: readonly number[]): number {
  const sorted = figures.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

export function compare(line: string, ours: Measured, peer: Measured, floor?: number): BenchLine {
  return { line, ours, peer, ratio: ours.median / peer.median, ...(floor === undefined ? {} : { floor }) };
}

export function printLines(lines: readonly BenchLine[]): void {
  const rows = lines.map((line) => [
    line.line,
    perSecond(line.ours.median),
    perSecond(line.peer.median),
    line.peer.name,
    `${line.ratio.toFixed(1)} ×`,
    line.floor === undefined ? '' : `${line.ratio >= line.floor ? 'met' : 'MISSED'}: ≥ ${line.floor} ×`,
  ]);
  const table = [['', 'payonce', 'peer', 'which peer', 'ratio', 'floor'], ...rows];
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of table) {
    const cells = row.map((cell, column) =>
      column === 0 || column === 3 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    );
    console.log(cells.join('  ').trimEnd());
  }
}

export function printCounts(counts: readonly BenchCount[]): void {
  const width = Math.max(0, ...counts.map((count) => count.line.length));
  for (const { line, figure, ceiling, note } of counts) {
    const aim = ceiling === undefined ? '' : `${figure <= ceiling ? 'met' : 'MISSED'}: ≤ ${ceiling}`;
    console.log([line.padEnd(width), figure.toFixed(3).padStart(8), aim, note ?? ''].join('  ').trimEnd());
  }
}

function perSecond(figure: number): string {
  return `${Math.round(figure).toLocaleString('en-US')}/s`;
}
