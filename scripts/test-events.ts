/*
 * A reporter for node's runner: one JSON line for each test that ended, so that the guard runner can tell which test failed
 * and why, not merely that something did.
 */
import type { TestEvent } from 'node:test/reporters';

export type TestEnd = { name: string; ok: boolean; skipped: boolean; suite: boolean; message: string };

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : messageOf(error.cause);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code} ` : '';
  return `${code}${error.message}${cause === '' ? '' : `\n${cause}`}`;
}

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const end: TestEnd = {
      name: event.data.name,
      ok: event.type === 'test:pass',
      skipped: event.data.skip !== undefined && event.data.skip !== false,
      suite: event.data.details.type === 'suite',
      message: event.type === 'test:fail' ? messageOf(event.data.details.error) : '',
    };
    yield `${JSON.stringify(end)}\n`;
  }
}
