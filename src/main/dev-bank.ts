/**
 * The development start's bank: a provider with an idempotency key and books of its own, which loses some answers after
 * it has paid.
 *
 * Promises: what is paid there is seen in its own books, apart from ours. The first answer to a transfer is lost, and some
 * later ones, so that the first transfer of a run shows what happens then. Never: anything for production. Its books begin
 * anew at each start, at another address: what was under way in an earlier run is never sent to it again.
 */
import { type Bank, startBank } from '../../sim/bank/bank.ts';
import { accountName } from '../ledger/accounts.ts';
import type { BankConfig } from './config.ts';
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

/** Everything started is given to `standing`. */
export async function startDevBank(standing: AsyncDisposableStack): Promise<Bank> {
  const lost = { on: 'create', fault: { kind: 'lose_answer' } } as const;
  return standing.adopt(
    await startBank({
      profile: 'generic',
      seed: 'payonce up',
      settleMs: SETTLE_MS,
      balance: BANK_FUNDS,
      faults: [
        { ...lost, calls: LOST_FIRST },
        { ...lost, chance: LOST_LATER },
      ],
    }),
    (one) => one.stop(),
  );
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
