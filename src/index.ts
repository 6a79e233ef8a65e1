/*
 * The public surface of the package: what a host process may import. Everything else is internal and may change.
 */
export { version } from './main/version.ts';
