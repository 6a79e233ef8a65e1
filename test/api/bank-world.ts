/*
 * The API with a bank beside it: a simulated one of the profile generic, behind a real socket and with books of its own,
 * that pays KRW out of the account acc_1. Two partners are funded.
 */
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeTransfers } from '../../src/flows/transfers/index.ts';
import { type BankRail, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { balanceOf } from '../support/world.ts';
import { type Answer, type ApiWorld, type Ask, makeApiWorld } from './api-world.ts';

const RAIL = 'bank:main';
export const KRW = `${RAIL}/iso4217:KRW`;
export const FEE = 100n;
export const FUNDS = 10_000_000n;

export interface BankApi extends ApiWorld {
  readonly bank: Bank;
  readonly rail: BankRail;
  /** POST /v1/transfers of 12,500 to a good account, fields as given; a fresh key unless one is given. */
  transfer(fields?: Record<string, unknown>, ask?: Ask): Promise<Answer>;
  /** What a worker does, so many times, whatever is not due yet. */
  pass(times?: number): Promise<void>;
  /** What a partner has of KRW. */
  balance(partnerId?: string): Promise<{ balance: bigint; held: bigint }>;
}

export async function makeBankApi(options: {
  label: string;
  bank?: Partial<BankOptions>;
  direct?: boolean;
  deps?: Partial<ApiDeps>;
}): Promise<BankApi> {
  const profile = PROFILES.find((one) => one.name === 'generic');
  if (profile === undefined) throw new Error('no profile generic');
  const bank = await startBank({ profile: 'generic', ...options.bank });
  const rails: BankRail[] = [];
  const ruleOf: ApiDeps['readPayee'] = (assetId) => {
    const [rail] = rails;
    return assetId === KRW && rail !== undefined ? (input) => rail.readPayee(input) : null;
  };
  const api = await makeApiWorld({
    label: options.label,
    flows: (chart) => [makeTransfers(chart)],
    rails(ports) {
      const made = makeBankRail(
        {
          name: RAIL,
          profile,
          baseUrl: bank.url,
          account: 'acc_1',
          credential: { id: 'cred_1', secret: () => bank.credentials.current() },
          deployment: 'test',
          direct: options.direct ?? true,
          capabilities: { resendAfterMs: 0 },
        },
        { ports, http: { timeoutMs: 2_000 } },
      );
      rails.push(made);
      return rails;
    },
    deps: { readPayee: ruleOf, ...options.deps },
  });
  const [rail] = rails;
  if (rail === undefined) throw new Error('no rail');
  const { world } = api;
  await world.pool.tx('a bank', async (tx) => {
    await tx.query("insert into payonce.assets (id, code, chain, contract, decimals) values ($1, 'KRW', $2, null, 0)", [
      KRW,
      RAIL,
    ]);
    await tx.query("insert into payonce.signers (rail, address, label, next_nonce) values ($1, 'acc_1', 'bank', 0)", [
      RAIL,
    ]);
    await tx.query(
      `insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max, withdrawal_fee_flat)
       values ($1, $2, 'acc_1', 5000000, 100000000, $3)`,
      [KRW, RAIL, FEE],
    );
  });
  const of = { assetId: KRW, chain: RAIL, wallet: 'acc_1' };
  for (const partnerId of [world.partnerId, api.otherPartnerId]) await world.fund(FUNDS, partnerId, of);
  let counter = 0;
  return {
    ...api,
    bank,
    rail,
    transfer(fields = {}, more = {}) {
      counter += 1;
      const payee = { bank_code: '004', account_number: '110-123-0456', holder_name: '홍길동' };
      return api.ask('POST', '/v1/transfers', {
        idempotencyKey: `transfer-${counter}`,
        body: { asset: 'KRW', amount: '12500', ...payee, ...fields },
        ...more,
      });
    },
    async pass(times = 1) {
      for (let time = 0; time < times; time += 1) {
        await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
        await advanceOnce(world.engine, rail);
      }
    },
    balance: (partnerId = world.partnerId) => balanceOf(world, `partner:${partnerId}`, KRW),
    async end() {
      await api.end();
      await rail.close();
      await bank.stop();
    },
  };
}
