#!/usr/bin/env node
/*
 * The door to the command line. Plain JavaScript that an old Node can parse: it makes sure that Node is new enough (or
 * hands over to the Node 24 that npm installed beside us), then imports the program: from src/ in a clone, from dist/ in
 * an installed package, since Node strips no types under node_modules.
 */
import { spawn } from 'child_process';
import { existsSync } from 'fs';
import module from 'module';
import { fileURLToPath } from 'url';
import { nodeProblem } from './node-version.js';

const here = (path) => new URL(path, import.meta.url);

function bundledNode() {
  const file = process.platform === 'win32' ? 'node.exe' : 'node';
  const places = ['../node_modules/node/bin/', '../../node/bin/'].map((place) => fileURLToPath(here(place + file)));
  return places.find((place) => existsSync(place) && place !== process.execPath);
}

/** Runs the same command on another Node and dies as it dies. SIGINT reaches both from the terminal; SIGTERM only us. */
function handOver(node) {
  const child = spawn(node, [fileURLToPath(import.meta.url)].concat(process.argv.slice(2)), { stdio: 'inherit' });
  process.on('SIGINT', () => {});
  ['SIGTERM', 'SIGHUP'].forEach((signal) => process.on(signal, () => child.kill(signal)));
  child.on('error', (error) => {
    console.error('Payonce could not start ' + node + ': ' + error.message);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function enter() {
  // Half of a command's time goes into reading the program: Node keeps what it made of it, in its own temporary folder.
  if (module.enableCompileCache) module.enableCompileCache();
  const source = here('../src/main/cli-entry.ts');
  const built = here('../dist/src/main/cli-entry.js');
  const program = existsSync(fileURLToPath(source)) ? source : built;
  import(program.href).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

const problem = nodeProblem();
const other = problem === null ? undefined : bundledNode();
if (problem === null) enter();
else if (other) handOver(other);
else {
  console.error(problem);
  process.exit(1);
}
