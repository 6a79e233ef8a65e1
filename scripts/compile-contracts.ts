/*
 * Compiles sim/contracts/*.sol into sim/contracts/artifacts.ts (ABI and creation code), which is committed so that nobody
 * needs a compiler to run the tests. With --check it writes nothing and exits 1 when the committed file differs: the
 * sources and what the test chain really runs never drift apart.
 *
 * The output depends on the sources and the pinned compiler only: no metadata hash (it would change with a comment), and
 * an EVM version old enough for every hardfork that the test chain can be started with.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import solc from 'solc';
import type { Abi, AbiParameter } from 'viem';

const FOLDER = new URL('../sim/contracts/', import.meta.url);
const ARTIFACTS = new URL('artifacts.ts', FOLDER);
const EVM_VERSION = 'paris';

type Compiled = {
  errors?: { severity: string; formattedMessage: string }[];
  contracts?: Record<string, Record<string, { abi: Abi; evm: { bytecode: { object: string } } }>>;
};

function compile(): Compiled {
  const names = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sol'))
    .sort();
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries(names.map((name) => [name, { content: readFileSync(new URL(name, FOLDER), 'utf8') }])),
    settings: {
      optimizer: { enabled: true, runs: 200 },
      evmVersion: EVM_VERSION,
      metadata: { bytecodeHash: 'none', appendCBOR: false },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const standardJson = solc.compile as (input: string) => string;
  return JSON.parse(standardJson(JSON.stringify(input))) as Compiled;
}

function toList(parameters: readonly AbiParameter[]): string {
  return parameters
    .map((it) => `${it.type}${'indexed' in it && it.indexed ? ' indexed' : ''} ${it.name}`.trim())
    .join(', ');
}

/** Human-readable form, which the type checker reads as well as JSON and a reviewer better. No tuples: none are used. */
function toLine(item: Abi[number]): string {
  switch (item.type) {
    case 'constructor':
      return `constructor(${toList(item.inputs)})`;
    case 'event':
      return `event ${item.name}(${toList(item.inputs)})`;
    case 'function': {
      const mutability = item.stateMutability === 'nonpayable' ? '' : ` ${item.stateMutability}`;
      const returns = item.outputs.length > 0 ? ` returns (${toList(item.outputs)})` : '';
      return `function ${item.name}(${toList(item.inputs)})${mutability}${returns}`;
    }
    default:
      throw new Error(`${item.type} is not printed yet: teach toLine in scripts/compile-contracts.ts`);
  }
}

function toSource(compiled: Compiled): string {
  const contracts = Object.values(compiled.contracts ?? {}).flatMap((file) => Object.entries(file));
  const parts = contracts.map(([name, { abi, evm }]) => {
    const lines = abi.map((item) => `    '${toLine(item)}',`);
    return [
      `export const ${name[0]?.toLowerCase()}${name.slice(1)} = {`,
      '  abi: parseAbi([',
      ...lines,
      '  ]),',
      `  bytecode:\n    '0x${evm.bytecode.object}',`,
      '} as const;',
    ].join('\n');
  });
  return [
    '/* Written by scripts/compile-contracts.ts from the .sol files beside it. Change those and run it again. */',
    "import { parseAbi } from 'viem';",
    '',
    parts.join('\n\n'),
    '',
  ].join('\n');
}

function committedSource(): string {
  try {
    return readFileSync(ARTIFACTS, 'utf8');
  } catch {
    return '';
  }
}

const compiled = compile();
const faults = compiled.errors ?? [];
for (const fault of faults) console.error(fault.formattedMessage);
if (faults.length > 0) process.exit(1);

const source = toSource(compiled);
if (!process.argv.includes('--check')) {
  writeFileSync(ARTIFACTS, source);
  console.log('sim/contracts/artifacts.ts written');
} else if (source === committedSource()) {
  console.log('sim/contracts/artifacts.ts is what its sources compile to');
} else {
  console.error('sim/contracts/artifacts.ts is not what its sources compile to: run node scripts/compile-contracts.ts');
  process.exit(1);
}
