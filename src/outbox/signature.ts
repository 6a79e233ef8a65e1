/**
 * Standard Webhooks signatures, for what we send and for what we are sent.
 *
 * The signed text is `id.timestamp.body` over the exact bytes; a signature is `v1,` and base64 of HMAC-SHA256. Secrets
 * are not stored but derived from one master secret, the endpoint and its version, so a stolen database signs nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

const SECRET_PREFIX = 'whsec_';
/** The specification's own bounds. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

/** The secret of an endpoint, `whsec_…`: shown to the partner when it is made or turned, and never again. */
export function deriveEndpointSecret(masterSecret: Uint8Array, endpointId: string, secretVersion: number): string {
  const derived = createHmac('sha256', masterSecret).update(`${endpointId}:${secretVersion}`).digest('base64');
  return SECRET_PREFIX + derived;
}

/** The key bytes of a `whsec_…` text, or null where it is none. */
export function secretBytes(secret: string): Buffer | null {
  const encoded = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : '';
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return null;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.length < SECRET_BYTES_MIN || bytes.length > SECRET_BYTES_MAX ? null : bytes;
}

/** One `v1,…` signature. `secret` must be a `whsec_…` text. */
export function signatureOf(secret: string, id: string, timestampSeconds: string, body: Uint8Array): string {
  return `v1,${digestOf(secret, id, timestampSeconds, body).toString('base64')}`;
}

/** Whether one of the listed signatures was made with one of our secrets; each comparison takes the same time. */
export function isSignedBy(
  secrets: readonly string[],
  signatures: string,
  id: string,
  timestampSeconds: string,
  body: Uint8Array,
): boolean {
  const given = signatures
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => Buffer.from(one.slice('v1,'.length), 'base64'));
  return secrets.some((secret) => {
    const expected = digestOf(secret, id, timestampSeconds, body);
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  });
}

function digestOf(secret: string, id: string, timestampSeconds: string, body: Uint8Array): Buffer {
  const key = secretBytes(secret);
  if (key === null) {
    throw new Error(
      `a webhook secret must be "${SECRET_PREFIX}" and base64 of ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes`,
    );
  }
  return createHmac('sha256', key).update(`${id}.${timestampSeconds}.`).update(body).digest();
}
