import { readFileSync } from 'node:fs';

/** Read, not imported: package.json lies two folders up from src/main and from dist/main alike. */
const manifest: { version: string } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

export const version = manifest.version;
