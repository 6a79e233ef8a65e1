/** Where a provider is asked: what is wrong with a base URL, and addresses under it. */

/** `why` says what to do; the URL itself is not in it, since it may carry a secret. */
export interface ConfigFault {
  /** As in the rail's configuration, for example `credential.id`. */
  readonly field: string;
  readonly why: string;
}

export function baseUrlFaults(baseUrl: string): ConfigFault[] {
  if (!URL.canParse(baseUrl)) return [{ field: 'baseUrl', why: 'it is no URL' }];
  const url = new URL(baseUrl);
  const faults: ConfigFault[] = [];
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '')
    faults.push({ field: 'baseUrl', why: 'the base URL carries neither query nor credentials' });
  if (url.protocol !== 'https:' && !isLoopback(url.hostname))
    faults.push({ field: 'baseUrl', why: 'the base URL must be https' });
  return faults;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}

/** One spelling, without a slash at its end: it is part of what is sealed. */
export function plainBaseUrl(baseUrl: string): string {
  return new URL(baseUrl).href.replace(/\/+$/, '');
}

/** The base URL may have a path of its own. */
export function urlUnder(baseUrl: string, path: string): URL {
  return new URL(baseUrl.replace(/\/+$/, '') + path);
}

/** An id in a path: what a provider called it, never more of the path than that. */
export function segment(id: string): string {
  // Half a character has no bytes: it is asked for as the sign for one, and nothing of the look fails by it.
  return encodeURIComponent(id.toWellFormed());
}
