/*
 * Compares docs/states.md with the tables of src/engine/effect.ts, or writes it with --write: the life of an effect as a
 * diagram, and what each kind of evidence says. The same tables stand in the database (test/engine/tables.test.ts).
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EDGES, EVIDENCE, type EvidenceKind, type Rank } from '../src/engine/effect.ts';
import { root } from './copy-tree.ts';

const PAGE = join(root, 'docs/states.md');

const RANKS: Record<Rank, string> = {
  none: 'decides nothing',
  display: 'is shown as `sent`; settles and bars nothing',
  word: 'bars believed noes; settles nothing',
  object: 'settles',
  believed: 'waits for lateness and a fresh look, then releases',
  dead: 'releases: no copy can still move money',
};

export function statesPage(): string {
  const kinds = Object.keys(EVIDENCE) as EvidenceKind[];
  return [
    '# The life of an effect',
    '',
    'Written by `npm run states` from `src/engine/effect.ts`; `npm run check` compares it. The database refuses every other',
    'edge, also one from a state to itself.',
    '',
    '```mermaid',
    'stateDiagram-v2',
    '  [*] --> PENDING: intend',
    ...EDGES.map((edge) => `  ${edge.from} --> ${edge.to}: ${edge.by.replace(':', ',')}`),
    '  SETTLED --> [*]',
    '```',
    '',
    '## Evidence',
    '',
    'Everything that is seen, from any source, becomes one of these. A yes needs no lock, a no does; silence is never a no.',
    '',
    '| kind | says | rank | which |',
    '|---|---|---|---|',
    ...kinds.map((kind) => {
      const { says, rank, chainFinal } = EVIDENCE[kind];
      return `| \`${kind}\` | ${says} | ${rank} | ${RANKS[rank]}${chainFinal ? ', also over a word, by the chain’s finality' : ''} |`;
    }),
    '',
  ].join('\n');
}

function main(): void {
  const text = statesPage();
  if (process.argv.includes('--write')) writeFileSync(PAGE, text);
  if (existsSync(PAGE) && readFileSync(PAGE, 'utf8') === text) {
    console.log(`docs/states.md shows ${EDGES.length} edges and ${Object.keys(EVIDENCE).length} kinds of evidence`);
    return;
  }
  console.error('docs/states.md is stale: run `npm run states` and commit it with src/engine/effect.ts');
  process.exitCode = 1;
}

if (process.argv[1] === import.meta.filename) main();
