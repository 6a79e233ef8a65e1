/**
 * `payonce probe` with what stands at the command line: the profile by its name, secrets by the names of their environment
 * variables. Everything that is wrong is told at once, before anything leaves.
 */
import type { ProbeAsked, ProbeOffer } from '../cli/deps.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits, parseAmount } from '../kernel/money.ts';
import { systemPorts } from '../kernel/ports.ts';
import { configFaults } from '../rails/bank/config.ts';
import { type PayeeInput, type PayeeFault, readPayee } from '../rails/bank/destination.ts';
import { planProbe, probe, type ProbeInput } from '../rails/bank/probe/index.ts';
import { PROFILES } from '../rails/bank/profiles/index.ts';
import { bankSecret } from './config.ts';

/** Providers that tell test from live keys by their beginning. */
const LIVE_SECRET = /(?:^|[:_-])live[_-]/i;

export function offerProbe(asked: ProbeAsked): ProbeOffer {
  const faults: string[] = [];
  const input = readInput(asked, faults);
  if (input === null || faults.length > 0) throw new PayonceError('PO_REQUEST_INVALID', { detail: faults.join('\n') });
  const plan = planProbe(input);
  const { decimals } = input.asset;
  return {
    requestsMax: plan.requestsMax,
    transfersExpected: plan.transfersExpected,
    amountEach: formatUnits(plan.amountEach, decimals),
    amountMax: formatUnits((plan.amountEach + 1n) * BigInt(plan.requestsMax), decimals),
    notTried: plan.notTried,
    run: (onStep) => probe(input, systemPorts(), onStep),
  };
}

function readInput(asked: ProbeAsked, faults: string[]): ProbeInput | null {
  const fault = (option: string, why: string): void => void faults.push(`${option}: ${why}`);
  const profile = PROFILES.find((one) => one.name === asked.profile);
  if (profile === undefined) {
    fault(
      '<profile>',
      `there is no profile "${asked.profile}"; known are ${PROFILES.map((one) => one.name).join(', ')}`,
    );
    return null;
  }
  const secretOf = (option: string, name: string): string => {
    const secret = bankSecret(name);
    if (typeof secret !== 'string') fault(option, secret.fault);
    else if (LIVE_SECRET.test(secret)) fault(option, `${name} holds a live secret: the kit is for sandboxes`);
    return typeof secret === 'string' ? secret : '';
  };
  const secret = secretOf('--secret-from', asked.secretFrom);
  const second = asked.secondSecretFrom === null ? null : secretOf('--second-secret-from', asked.secondSecretFrom);
  const encryptionKey =
    asked.encryptionKeyFrom === null ? null : secretOf('--encryption-key-from', asked.encryptionKeyFrom);
  const credential = { id: asked.credential, secret: () => secret };
  for (const one of configFaults({
    name: 'bank:probe',
    profile,
    baseUrl: asked.baseUrl,
    account: asked.account,
    credential: { ...credential, ...(encryptionKey === null ? {} : { encryptionKey }) },
    deployment: 'probe',
  }))
    fault(one.field === 'baseUrl' ? '--base-url' : one.field, one.why);

  const known = profile.currencies?.find((one) => one.code === asked.currency);
  const decimals = known?.decimals ?? asked.decimals;
  if (profile.currencies !== null && known === undefined)
    fault('--currency', `${profile.name} pays ${profile.currencies.map((one) => one.code).join(', ')} only`);
  if (decimals === null) fault('--decimals', `needed: ${profile.name} does not say how many ${asked.currency} has`);
  const amount = parseAmount(asked.amount, decimals ?? 0);
  if (!amount.ok) fault('--amount', amount.expected);
  else if (amount.units <= 0n) fault('--amount', 'more than zero');

  const payeeOf = (prefix: string, written: PayeeInput) => {
    const read = readPayee(written, profile.payee);
    if (!read.ok)
      for (const one of read.faults) fault(optionOf(prefix, one), `got "${one.got}", expected ${one.expected}`);
    return read.ok ? read.payee : null;
  };
  const payee = payeeOf('--', asked.payee);
  const refused = asked.refused === null ? null : payeeOf('--refused-', { ...asked.payee, ...asked.refused });
  for (const [name, url] of Object.entries(asked.levers))
    if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
      fault(`--${name}-url`, 'expected an http:// or https:// URL');
  if (!amount.ok || payee === null || decimals === null) return null;
  return {
    profile,
    baseUrl: asked.baseUrl,
    account: asked.account,
    credential,
    ...(second === null ? {} : { second: { id: `${asked.credential}-second`, secret: () => second } }),
    ...(encryptionKey === null ? {} : { encryptionKey }),
    asset: { code: asked.currency, decimals },
    amount: amount.units,
    payee,
    ...(refused === null ? {} : { refused }),
    ...(asked.otherPath === null ? {} : { otherPath: asked.otherPath }),
    levers: asked.levers,
    lagWaitMs: asked.lagWaitMs,
  };
}

function optionOf(prefix: string, { field }: PayeeFault): string {
  return prefix + field.replaceAll('_', '-');
}
