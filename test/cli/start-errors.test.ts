/*
 * Goal: a start that cannot be names the setting and what to do, at once; nothing foreign is written to; and commands find the
 * database of a running `serve`. Method: the real program.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { durableDataFolder } from '../support/postgres.ts';
import { runUntilStopped } from '../../src/main/serve.ts';
import { payonce, startPayonce } from './cli-scene.ts';

const place = mkdtempSync(join(tmpdir(), 'payonce-start-'));
after(() => rmSync(place, { recursive: true, force: true }));
const quiet = { PAYONCE_PORT: '0', PAYONCE_LOG: 'silent' };

test('a data folder that cannot be used is told by the setting, at once, and nothing is written to it', async () => {
  const file = join(place, 'a-file');
  const foreign = join(place, 'letters');
  writeFileSync(file, 'x');
  mkdirSync(foreign);
  writeFileSync(join(foreign, 'letter.txt'), 'dear');
  for (const [folder, says] of [
    [file, /PAYONCE_DATA: .*is a file/],
    [join(file, 'below'), /PAYONCE_DATA: .*is a file/],
    [foreign, /PAYONCE_DATA: .*holds other things \(letter\.txt\)\. Give an empty folder/],
    // Where nobody may make anything, a recursive mkdir of Node tries for ever.
    ['/proc/payonce', /PAYONCE_DATA: \/proc\/payonce cannot be made/],
  ] as const) {
    for (const command of ['up', 'serve', 'migrate']) {
      const ran = await payonce([command], { ...quiet, PAYONCE_DATA: folder });
      assert.equal(ran.code, 2, `${command} ${folder}: ${ran.stdout}${ran.stderr}`);
      assert.match(ran.stderr, says, command);
    }
  }
  assert.deepEqual(readdirSync(foreign), ['letter.txt']);
  assert.match((await payonce(['alerts'], { PAYONCE_DATA: foreign })).stderr, /holds other things/);
  assert.match((await payonce(['alerts'], { PAYONCE_DATA: join(place, 'none') })).stderr, /no payonce data in/);
});

test('a port or host that cannot be is told by the setting', async () => {
  for (const [settings, says] of [
    [{ PAYONCE_PORT: '65536' }, /PAYONCE_PORT: got "65536", expected a whole number from 0 to 65535/],
    [{ PAYONCE_PORT: '80a' }, /PAYONCE_PORT: got "80a"/],
    [{ PAYONCE_PORT: '18099', PAYONCE_HOST: '192.0.2.1' }, /PAYONCE_HOST: 192\.0\.2\.1 is no address of this machine/],
  ] as const) {
    const ran = await payonce(['serve'], { ...quiet, ...settings });
    assert.equal(ran.code, 2, ran.stdout + ran.stderr);
    assert.match(ran.stderr, says);
  }
});

test('commands work beside a serve that keeps its data in a folder', async () => {
  const data = durableDataFolder();
  const server = startPayonce(['serve'], { PAYONCE_PORT: '0', PAYONCE_LOG: 'info', PAYONCE_DATA: data.folder });
  const gone = once(server, 'exit');
  let said = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await new Promise<void>((resolve, reject) => {
    server.stdout.on('data', () => said.includes('payonce serves') && resolve());
    server.once('exit', () => reject(new Error(said)));
  });
  const listed = await payonce(['case', 'list'], { PAYONCE_DATA: data.folder });
  assert.equal(listed.code, 0, listed.stderr);
  server.kill('SIGTERM');
  await gone;
  const later = await payonce(['case', 'list'], { PAYONCE_DATA: data.folder });
  assert.equal(later.code, 0, later.stderr);
  data.remove();
});

test('a start that fails tells its fault also where what it had started never ends', async () => {
  const started = runUntilStopped((standing) => {
    standing.adopt('a worker', () => new Promise<void>(() => {}));
    return Promise.reject(new Error('the first fault'));
  }, 50);
  await assert.rejects(started, /the first fault/);
});
