/* Guards of the TRON rail: what is solid, and what is absent. */
import type { Guard } from './guard.ts';

const READ = 'test/rails/tron-read.test.ts';

export const TRON: Guard[] = [
  {
    name: 'TRON margin and solidity (the margin)',
    file: 'src/rails/tron/limits.ts',
    find: 'export const EXPIRY_MARGIN_MS = 120_000;',
    replace: 'export const EXPIRY_MARGIN_MS = -1;',
    test: READ,
    title: /not shown is no information until solid time is past expiration and margin/,
    expect: /expired_unincluded/,
  },
  {
    name: 'TRON margin and solidity (the head is display alone)',
    file: 'src/rails/tron/read.ts',
    find: "return tells(scene, 'included', where);",
    replace: "return tells(scene, 'final_success', where);",
    test: READ,
    title: /at the head alone it is included, for display/,
    expect: /final_success/,
  },
];
