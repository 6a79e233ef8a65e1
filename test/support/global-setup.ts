/*
 * Run by node's runner once per run, before the first test file and after the last: one PostgreSQL for all files. The
 * files are processes of their own and find it by the variable; with the variable given from outside, nothing is started.
 */
import type { EmbeddedPostgres } from '../../src/db/embedded.ts';
import { SERVER_VARIABLE, startTestServer } from './postgres.ts';

let server: EmbeddedPostgres | undefined;

export async function globalSetup(): Promise<void> {
  if (process.env[SERVER_VARIABLE] !== undefined) return;
  server = await startTestServer();
  process.env[SERVER_VARIABLE] = server.url;
}

export async function globalTeardown(): Promise<void> {
  if (server === undefined) return;
  delete process.env[SERVER_VARIABLE];
  await server.stop();
}
