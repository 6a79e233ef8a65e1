/* Guards of trades at liquidity providers: what frees one, what counts as ours, and the one key under which it is asked. */
import type { Guard } from './guard.ts';

const READ = 'src/rails/escrow/read.ts';
const READ_TEST = 'test/rails/escrow-read.test.ts';

export const TRADED: Guard[] = [
  {
    name: 'unknown state of a trade is no no',
    file: READ,
    find: "says('unreadable', `ours, but",
    replace: "says('object_failed', `ours, but",
    test: READ_TEST,
    title: /a state that nobody knows is unreadable/,
    expect: /object_failed/,
  },
  {
    name: 'trade ended after a claim of payment',
    file: READ,
    find: 'return isUntouched(trade)',
    replace: 'return isUntouched !== null',
    test: READ_TEST,
    title: /cancelled or expired after the buyer marked it as paid/,
    expect: /object_failed/,
  },
  {
    name: 'trade shows what was sealed',
    file: READ,
    find: 'const differs = differenceIn(profile, expect, trade);',
    replace: 'const differs = differenceIn === null ? "" : null;',
    test: READ_TEST,
    title: /under our reference but not what we sealed/,
    expect: /key_taken/,
  },
  {
    name: 'trade released whole',
    file: READ,
    find: 'if (released === expect.amount)',
    replace: 'if (released !== null)',
    test: READ_TEST,
    title: /released in part, in excess, or without an amount/,
    expect: /final_success/,
  },
  {
    name: 'same key for the same trade',
    file: 'src/rails/escrow/seal.ts',
    find: '`${act}:${effect.naturalKey}`',
    replace: '`${act}:${Math.random()}`',
    test: 'test/rails/escrow-seal.test.ts',
    title: /the seal is the exact request/,
    expect: /a restored intent meets the same trade/,
  },
  {
    name: 'same key when a trade is asked again',
    file: 'src/rails/keyed-request.ts',
    find: "[name, textOf(text) ?? '']",
    replace: "[name, name === 'idempotency-key' ? `x${Math.random()}` : (textOf(text) ?? '')]",
    test: 'test/rails/escrow-wire.test.ts',
    title: /whatever is lost on the way, the same bytes under the same key are one trade/,
    expect: /tr_2/,
  },
];
