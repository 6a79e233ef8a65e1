/*
 * Compares docs/states.md with the tables of src/engine/effect.ts, or writes it with --write: the life of an effect as a
 * diagram, and what each kind of evidence says. The same tables stand in the database (test/engine/tables.test.ts).
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ORDER_STATUSES } from '../src/api/schemas.ts';
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

/** As the views `payonce.withdrawal_states` and `payonce.transfer_states` derive it. */
const PARTNER: Record<(typeof ORDER_STATUSES)[number], readonly [string, string]> = {
  pending: ['`PENDING`, the first', 'nothing has left; it can be cancelled'],
  processing: ['`SEALED`; or `PENDING` after a try that moved nothing', 'it may have left'],
  sent: ['`SEALED`, seen in a block that is not final', 'it has left; nothing is decided'],
  confirmed: ['`SETTLED`', 'it moved, finally'],
  returned: ['`SETTLED`, and the receiver sent it back, or a part of it', 'it moved, and came back'],
  failed: ['`RELEASED`, and no other try follows', 'it did not move and will not'],
  cancelled: ['`RELEASED` before it was sealed', 'it did not move and will not'],
  in_review: ['`PENDING`, `SEALED` or `RELEASED`, with an open case', 'nothing yet: a person looks at it'],
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
    '## What a partner sees',
    '',
    "`status` of a withdrawal or transfer is derived from its newest effect; `history` lists the effects' own states. An open",
    'case shows as `in_review` whatever the state, until it has settled. A transfer is never `sent`: a bank shows nothing between.',
    '',
    '| status | newest effect | what may be concluded |',
    '|---|---|---|',
    ...ORDER_STATUSES.map((status) => `| \`${status}\` | ${PARTNER[status][0]} | ${PARTNER[status][1]} |`),
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
