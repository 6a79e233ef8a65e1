/* Guards of asking again, of what an answer must echo, and of two persons' "it did not move". */
import type { Guard } from './guard.ts';

const TRANSFERS = 'test/flows/transfers-bank.test.ts';
const ABSENT = 'test/engine/absent.test.ts';

export const BANK: Guard[] = [
  {
    name: 'same key on re-request',
    file: 'src/rails/keyed-request.ts',
    find: "[name, textOf(text) ?? '']",
    replace: "[name, name === 'idempotency-key' ? `\"${Math.random()}\"` : (textOf(text) ?? '')]",
    test: TRANSFERS,
    title: /an answer lost after its effect: the same key and body again/,
    expect: /the books are not clean/,
  },
  {
    name: 'stored body',
    file: 'src/rails/keyed-request.ts',
    find: "body: read('body'),",
    replace: 'body: read(\'body\').replace(\'{\', `{"corrected":"${Math.random()}",`),',
    test: 'test/rails/bank-wire.test.ts',
    title: /a send is the sealed bytes under the sealed key/,
    expect: /corrected/,
  },
  {
    name: 'mismatched echo is nothing',
    file: 'src/rails/bank/echo.ts',
    find: 'if (shown !== null && shown !== expect.key)',
    replace: 'if (false)',
    test: 'test/rails/bank-read.test.ts',
    title: /an answer with another key or reference, or with none where one is due, says nothing/,
    expect: /unreadable/,
  },
  {
    name: 'readable NOT_FOUND in the fresh look',
    file: 'src/engine/judge.ts',
    find: "? 'absent' : 'unclear'",
    replace: "? 'absent' : 'absent'",
    test: 'test/engine/believe.test.ts',
    title: /a fresh look that answers unreadable starts lateness anew/,
    expect: /waits: false/,
  },
  {
    name: 'retention margin',
    file: 'src/engine/raise.ts',
    find: 'e.first_sent_at + make_interval(secs => $4::float8 / 1000) > payonce.now()',
    replace: 'true',
    test: TRANSFERS,
    title: /a key that may be forgotten by now is not sent again/,
    expect: /\d !== 1/,
  },
  {
    name: 'ask before absent (T17)',
    file: 'src/engine/absent.ts',
    find: 'const asked = await askOnce(deps, opened, deps.ports.clock.monotonicMs());',
    replace: 'const asked: readonly Found[] = []; void askOnce;',
    test: ABSENT,
    title: /two persons say absent: asked once with the same identity/,
    expect: /asked once under the lease/,
  },
  {
    name: 'ask before absent (its answer goes before their word)',
    file: 'src/engine/absent.ts',
    find: 'const against = asked.find((one) => AGAINST.includes(one.observation.kind));',
    replace: 'const against = asked.find((one) => one.observation.kind === ("" as string));',
    test: ABSENT,
    title: /a yes or "in progress" to the ask is told as inconclusive/,
    expect: /true !== false/,
  },
];
