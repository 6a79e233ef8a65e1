/**
 * Where the courier may send to. A partner names the URL, so it is an outsider's wish to make us call something.
 *
 * Promises: outside of a local start only https to a public host name; a name is resolved once per connection, all its
 * addresses are judged, and the socket connects to exactly those (a name that answers differently the second time gains
 * nothing, since there is no second time). Redirects are not followed at all (`deliver.ts`).
 */
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { BlockList, isIP, type LookupFunction } from 'node:net';

export interface UrlPolicy {
  /** `true` only for a local start and tests: http, loopback and private addresses are allowed. */
  readonly allowPrivate: boolean;
  /** The resolver; the system's unless a test brings its own. */
  readonly resolve?: (hostname: string) => Promise<LookupAddress[]>;
}

/** IANA's special-purpose registry: none of these is a partner's server on the internet. */
const IPV4_SPECIAL: readonly [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
];
/** Of IPv6 only 2000::/3 is given out; inside it these lead elsewhere (Teredo and 6to4 carry an IPv4 address). */
const IPV6_SPECIAL: readonly [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
];

const ipv4Special = listOf(IPV4_SPECIAL, 'ipv4');
const ipv6Special = listOf(IPV6_SPECIAL, 'ipv6');
const ipv6Public = listOf([['2000::', 3]], 'ipv6');

function listOf(nets: readonly [string, number][], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const [net, prefix] of nets) list.addSubnet(net, prefix, family);
  return list;
}

export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !ipv4Special.check(address, 'ipv4');
  return isIP(address) === 6 && ipv6Public.check(address, 'ipv6') && !ipv6Special.check(address, 'ipv6');
}

/** Names that never belong to the internet, whatever a resolver says. */
const LOCAL_NAME = /(?:^|\.)(?:localhost|local|internal|intranet|lan|home|corp|private|arpa)$/;

/** Why this URL is refused, in words for the partner; null where it is allowed. Asks no resolver. */
export function urlRefusal(text: string, policy: UrlPolicy): string | null {
  if (!URL.canParse(text)) return 'it is not a URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it must begin with https://';
  if (url.username !== '' || url.password !== '') return 'it must not contain a user name or password';
  if (policy.allowPrivate) return null;
  if (url.protocol !== 'https:') return 'it must begin with https://';
  // The URL parser has turned every odd spelling (0x7f.1, 2130706433, full-width digits) into one of these two shapes.
  if (isIP(url.hostname) !== 0 || url.hostname.startsWith('[')) return 'it must name a host, not an address';
  if (!url.hostname.includes('.') || url.hostname.endsWith('.') || LOCAL_NAME.test(url.hostname)) {
    return 'its host is not a name of the public internet';
  }
  return null;
}

export class AddressRefused extends Error {
  constructor(hostname: string) {
    super(`${hostname} resolves to an address that is not public`);
    this.name = 'AddressRefused';
  }
}

/** The resolver of the courier's sockets. One address that is not public refuses the name: which one would be used is
 *  the other side's choice. */
export function makeLookup(policy: UrlPolicy): LookupFunction {
  const resolve = policy.resolve ?? ((hostname: string) => lookup(hostname, { all: true, order: 'verbatim' }));
  async function judged(hostname: string): Promise<LookupAddress[]> {
    const found = await resolve(hostname);
    if (!policy.allowPrivate && !found.every(({ address }) => isPublicAddress(address)))
      throw new AddressRefused(hostname);
    return found;
  }
  async function answerOnce(hostname: string, all: boolean, answer: Parameters<LookupFunction>[2]): Promise<void> {
    try {
      const found = await judged(hostname);
      const [first] = found;
      if (first === undefined) answer(new Error(`${hostname} has no address`), '');
      else if (all) answer(null, found);
      else answer(null, first.address, first.family);
    } catch (error) {
      answer(error instanceof Error ? error : new Error(String(error)), '');
    }
  }
  return (hostname, options, answer) => {
    // It never rejects: whatever goes wrong is the socket's answer.
    answerOnce(hostname, options.all === true, answer).catch(() => {});
  };
}
