/* A simulated provider with a steering door, and the kit pointed at both: what the kit's tests share. */
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { type DoorOptions, openSteeringDoor } from '../../sim/bank/steering-door.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { probe, type ProbeInput, type ProbeReport, type Verdict } from '../../src/rails/bank/probe/index.ts';
import type { Profile } from '../../src/rails/bank/profile.ts';
import { intentFor } from './bank-scene.ts';

/** Nobody's account: the provider knows one receiver only. */
const REFUSED: Readonly<Record<string, string>> = { 'paypal-payouts': 'nobody@example.invalid' };
const OTHER_PATHS: Readonly<Record<string, string>> = {
  stripe: '/v1/transfers',
  'modern-treasury': '/api/payment_orders/create_async',
};
/** On the bank's clock: a transfer that is to fail has not left yet. */
const SETTLE_MS = 10 * 60_000;

export interface Provider {
  readonly bank: Bank;
  readonly input: ProbeInput;
  stop(): Promise<void>;
}

export async function startProvider(
  profile: Profile,
  options: Partial<BankOptions> = {},
  door: DoorOptions = {},
): Promise<Provider> {
  const { payee, asset } = intentFor(profile);
  if (payee === null) throw new Error('a payee is needed');
  const account = payee.accountNumber.replaceAll('-', '');
  const bank = await startBank({
    profile: profile.name as BankOptions['profile'],
    settleMs: SETTLE_MS,
    balance: 10n ** 9n,
    otherAccounts: 'unknown',
    accounts: [{ bankCode: payee.bankCode, accountNumber: account, handle: account }],
    ...options,
  });
  const steering = await openSteeringDoor(bank, door);
  const second = bank.credentials.issue();
  const otherPath = OTHER_PATHS[profile.name];
  // Modern Treasury and Toss show secrets in basic credentials of their own form.
  const shown = (secret: string): string => (profile.name === 'modern-treasury' ? `organization:${secret}` : secret);
  const input: ProbeInput = {
    profile,
    baseUrl: bank.url,
    account: 'acc_1',
    credential: { id: 'cred_1', secret: () => shown(bank.credentials.current()) },
    second: { id: 'cred_2', secret: () => shown(second) },
    ...(bank.securityKey === null ? {} : { encryptionKey: bank.securityKey }),
    asset: { code: asset.code, decimals: asset.decimals },
    amount: 12_500n,
    payee,
    refused: { ...payee, accountNumber: REFUSED[profile.name] ?? '9999999999' },
    ...(otherPath === undefined ? {} : { otherPath }),
    levers: {
      clock: `${steering.url}/clock`,
      drain: `${steering.url}/drain`,
      topUp: `${steering.url}/top-up`,
      balance: `${steering.url}/balance`,
      fail: `${steering.url}/fail`,
    },
    lagWaitMs: 2_000,
    timeoutMs: 3_000,
  };
  return {
    bank,
    input,
    async stop() {
      await steering.stop();
      await bank.stop();
    },
  };
}

export async function probeProvider(
  profile: Profile,
  options: Partial<BankOptions> = {},
  door: DoorOptions = {},
  prepare: (provider: Provider) => Partial<ProbeInput> = () => ({}),
): Promise<{ readonly report: ProbeReport; readonly bank: Bank }> {
  const provider = await startProvider(profile, options, door);
  try {
    const report = await probe({ ...provider.input, ...prepare(provider) }, systemPorts());
    return { report, bank: provider.bank };
  } finally {
    await provider.stop();
  }
}

export function probesThat(report: ProbeReport, verdict: Verdict): readonly string[] {
  return report.rows.filter((row) => row.verdict === verdict).map((row) => row.probe);
}
