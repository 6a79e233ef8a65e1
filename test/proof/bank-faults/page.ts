/* The table as people read it: on the page docs/bank-faults.md, and as the test prints it. */
import { type Cell, EXPECTED, PROVIDERS } from './expected.ts';
import { GROUPS } from './faults.ts';
import { OUTCOMES } from './outcomes.ts';

type CellOf = (fault: string, provider: (typeof PROVIDERS)[number]) => Cell | undefined;

/** One table for each group: providers down, faults across. */
export function tables(cellOf: CellOf): { readonly name: string; readonly lines: readonly string[] }[] {
  return GROUPS.map(({ name, faults }) => ({
    name,
    lines: [
      `| | ${faults.map((fault) => fault.head).join(' | ')} |`,
      `|---|${faults.map(() => '---|').join('')}`,
      ...PROVIDERS.map((provider) => {
        const cells = faults.map((fault) => {
          const cell = cellOf(fault.id, provider);
          return typeof cell === 'object' ? 'n/a' : (cell ?? '');
        });
        return `| \`${provider}\` | ${cells.join(' | ')} |`;
      }),
    ],
  }));
}

function notApplicable(): string[] {
  return GROUPS.flatMap(({ faults }) =>
    faults.flatMap((fault) =>
      PROVIDERS.flatMap((provider) => {
        const cell = EXPECTED[fault.id]?.[provider];
        return typeof cell === 'object' ? [`- ${fault.head}, \`${provider}\`: ${cell.why}.`] : [];
      }),
    ),
  );
}

export function bankFaultsPage(): string {
  return [
    '# What becomes of a transfer when the bank misbehaves',
    '',
    'Each provider that has a profile, against each fault that the simulated bank can play: a real database, real sockets, and',
    'the bank’s own books as the judge. `test/proof/bank-faults.test.ts` drives every cell through five weeks and compares it',
    'with this page, which `npm run bank-faults` writes from the same data; `npm run check` compares the two.',
    '',
    'At each step of each cell the whole amount is held as long as nothing is decided, and where a transfer was ended, the',
    'bank’s books show that nothing of it stands, but where the bank’s own refusal was a lie, or a copy of a refused request',
    'was paid: those are *re-opened*, with their hold, as soon as the bank shows it. In all but the cells called *twice*, the',
    'books show at most one movement. Twice is what no client can prevent: a bank that forgets a key before its time, a copy',
    'delivered when the key is long forgotten, or bytes delivered twice to a bank without keys. Let nothing that repeats',
    'requests stand before a bank.',
    '',
    ...tables((fault, provider) => EXPECTED[fault]?.[provider]).flatMap(({ name, lines }) => [
      `## ${name}`,
      '',
      ...lines,
      '',
    ]),
    '## The words',
    '',
    ...Object.entries(OUTCOMES).map(([name, meaning]) => `- **${name}**: ${meaning}.`),
    '',
    '## The faults',
    '',
    ...GROUPS.flatMap(({ faults }) => faults.map((fault) => `- **${fault.head}**: ${fault.what}.`)),
    '',
    '## What a provider cannot do, by its documents',
    '',
    ...notApplicable(),
    '',
  ].join('\n');
}
