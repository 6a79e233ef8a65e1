/**
 * The development start's bank: a provider with an idempotency key and books of its own, which loses some answers after
 * it has paid.
 *
 * Promises: what is paid there is seen in its own books, apart from ours. The first answer to a transfer is lost, and some
 * later ones, so that the first transfer of a run shows what happens then. With a data folder it keeps its address, so that
 * what was under way goes on; its books begin anew at each start with what our ledger says is left, and its ids never repeat.
 * Never: anything for production.
 */
import { type Bank, startBank } from '../../sim/bank/bank.ts';
import { accountName } from '../ledger/accounts.ts';
import type { BankConfig } from './config.ts';
import { readPlace } from './dev-place.ts';
import type { App } from './wire.ts';
import type { WiredBank } from './wire-banks.ts';

/** What we have there, and how much of it is the demo partner's. */
export const BANK_FUNDS = 1_000_000_000n;
export const PARTNER_FUNDS = 10_000_000n;
/** The first one, for whoever tries it once; then one in five, as at nobody's bank but often enough to be seen. */
const LOST_FIRST = [1];
const LOST_LATER = 0.2;
/** From accepted to paid: long enough to be seen under way. */
const SETTLE_MS = 1_000;

/** Receivers that show what a bank can do with a payment: refuse it, fail it after accepting it, give it back. */
export const DEMO_ACCOUNTS = { refused: '1000000001', fails: '1000000002', comesBack: '1000000003' } as const;
const FAIL_MS = 500;
/** After it was paid. */
const GIVE_BACK_MS = 3_000;

const STATE_FILE = 'bank.json';

/** Everything started is given to `standing`. */
export async function startDevBank(standing: AsyncDisposableStack, dataFolder: string | null): Promise<Bank> {
  const place = await readPlace(dataFolder, STATE_FILE);
  const lost = { on: 'create', fault: { kind: 'lose_answer' } } as const;
  const to = (account: string) => ({
    on: 'create' as const,
    when: ({ body }: { readonly body: Buffer }) => body.includes(account),
  });
  const bank = standing.adopt(
    await startBank({
      profile: 'generic',
      seed: `payonce up ${place.starts}`,
      settleMs: SETTLE_MS,
      balance: BANK_FUNDS,
      ...(place.port === null ? {} : { port: place.port }),
      faults: [
        { ...lost, calls: LOST_FIRST },
        { ...lost, chance: LOST_LATER },
        { ...to(DEMO_ACCOUNTS.fails), fault: { kind: 'fail_later', ms: FAIL_MS } },
        { ...to(DEMO_ACCOUNTS.comesBack), fault: { kind: 'return_later', ms: GIVE_BACK_MS } },
      ],
    }),
    (one) => one.stop(),
  );
  bank.accounts.close(DEMO_ACCOUNTS.refused);
  await place.keep(bank.port);
  return bank;
}

export function bankConfig(bank: Bank): BankConfig {
  return {
    name: 'demo',
    profile: bank.profile,
    baseUrl: bank.url,
    account: bank.accounts.own,
    credential: { id: 'demo', secret: () => bank.credentials.current(), encryptionKey: null },
    direct: true,
    lookEveryMs: 500,
    resendAfterMs: 3_000,
    assets: [
      {
        code: 'KRW',
        decimals: 0,
        transfer: { min: '1', max: '5000000', dayMax: '50000000', feeFlat: '300', feeBasisPoints: 0 },
      },
    ],
  };
}

const LEFT = `select -balance as units
from payonce.accounts
where code = $1
  and asset_id = $2`;

/** A run that is kept has paid from its account: the bank's new books begin with what ours say is left. */
export async function resumeBalance(app: App, wired: WiredBank, bank: Bank): Promise<void> {
  for (const { id } of wired.assets) {
    const { code } = accountName.custody(wired.rail.name, wired.config.account, id);
    const left = (await app.pool.query<{ units: bigint }>(LEFT, [code, id])).rows[0];
    if (left !== undefined) bank.balance.set(left.units);
  }
}
