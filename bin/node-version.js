/*
 * The one place that knows which Node Payonce runs on. Plain JavaScript without newer syntax, because an old Node must be
 * able to parse it and say what is wrong, instead of dying of a syntax error inside a TypeScript file.
 */
import { realpathSync } from 'fs';
import { fileURLToPath } from 'url';

export const NODE_MAJOR_MIN = 24;

/** Null when the running Node is new enough, else a message that says how to get one. */
export function nodeProblem() {
  const major = parseInt(process.versions.node.split('.')[0], 10);
  if (major >= NODE_MAJOR_MIN) return null;
  return (
    'Payonce needs Node ' +
    NODE_MAJOR_MIN +
    ' or newer; this is Node ' +
    process.versions.node +
    ' (' +
    process.execPath +
    ').\n' +
    'In a clone: run `npm ci`, which installs Node 24 into node_modules, then use npm start, npm test or npx payonce.\n' +
    'Elsewhere: install Node 24 from https://nodejs.org, or run `npm install node@24` beside payonce.'
  );
}

const asked = process.argv[1] ? realpathSync(process.argv[1]) : '';
if (asked === fileURLToPath(import.meta.url)) {
  const problem = nodeProblem();
  if (problem !== null) {
    console.error(problem);
    process.exit(1);
  }
}
