import { readFileSync } from 'node:fs';

/** Read, not imported: dist/ mirrors the clone, so package.json lies two folders up in both. */
const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
const manifest = JSON.parse(text) as { version: string };

export const version = manifest.version;
