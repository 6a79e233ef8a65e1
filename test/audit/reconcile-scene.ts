/* A bank rail over the simulated bank, with transfers that were really paid, and the bank's own statements of them. */
import assert from 'node:assert/strict';
import { afterEach } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import type { StatementScript, WrittenStatement } from '../../sim/bank/statement.ts';
import { type BankReport, reconcileBank, toJson } from '../../src/audit/reconcile/bank.ts';
import { type Imported, importStatement } from '../../src/audit/statements/import.ts';
import { daysAfter } from '../../src/audit/statements/statement.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { Operator } from '../../src/engine/operators.ts';
import { createTransfers, makeTransfers, readTransfer } from '../../src/flows/transfers/index.ts';
import { type BankRail, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { makeWorld, type World } from '../support/world.ts';

export const RAIL = 'bank:generic';
export const OPERATOR: Operator = { id: 'op_1', name: 'Ada', role: 'operator' };
export const AMOUNT = 12_500n;
export const TODAY = new Date().toISOString().slice(0, 10);
/** From yesterday to long after the grace: whatever we paid today is due in it. */
export const PERIOD = { currency: 'KRW', from: daysAfter(TODAY, -1), to: daysAfter(TODAY, 10) };
export const CSV = {
  columns: {
    date: 'Booked',
    id: 'Entry',
    debit: 'Debit',
    credit: 'Credit',
    currency: 'Currency',
    balance: 'Balance',
    reference: 'Reference',
    counterparty_account: 'Account',
    counterparty_name: 'Name',
    text: 'Text',
  },
  from: PERIOD.from,
  to: PERIOD.to,
};

export interface Scene {
  readonly bank: Bank;
  readonly world: World;
  readonly rail: BankRail;
  /** Takes and pays so many transfers, one payee each; answers their ids in order. */
  pay(count: number): Promise<string[]>;
  pass(times?: number): Promise<void>;
  take(written: WrittenStatement, name?: string): Promise<Imported & { readonly outcome: 'imported' | 'known' }>;
  reconcile(period?: { from?: string; to?: string; graceDays?: number }): Promise<BankReport>;
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

export async function payingScene(options: Partial<BankOptions> = {}, fundUnits = 1_000_000n): Promise<Scene> {
  const profile = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const bank = await startBank({ profile: 'generic', ...options });
  closing.push(() => bank.stop());
  let rail: BankRail | null = null;
  const world = await makeWorld({
    label: 'reconcile',
    rails: (ports) => {
      rail = makeBankRail(
        {
          name: RAIL,
          profile,
          baseUrl: bank.url,
          account: 'acc_1',
          credential: { id: 'cred_1', secret: () => bank.credentials.current() },
          deployment: 'test',
          direct: true,
          capabilities: { resendAfterMs: 0 },
        },
        { ports, http: { timeoutMs: 2_000 } },
      );
      return [rail];
    },
    flows: (chart) => [makeTransfers(chart)],
    chain: RAIL,
    contract: 'KRW',
    assetCode: 'KRW',
    decimals: 0,
    wallet: 'acc_1',
    fundUnits,
  });
  closing.push(() => world.end());
  const made = rail as BankRail | null;
  if (made === null) throw new Error('no rail was made');
  closing.push(() => made.close());
  let requests = 0;
  const pass = async (times = 1): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
      await advanceOnce(world.engine, made);
    }
  };
  return {
    bank,
    world,
    rail: made,
    pass,
    async pay(count) {
      const read = Array.from({ length: count }, () => {
        requests += 1;
        return readTransfer((input) => made.readPayee(input), {
          partnerId: world.partnerId,
          idempotencyKey: `key ${requests}`,
          fingerprint: `body ${requests}`,
          externalId: null,
          assetId: world.assetId,
          amount: AMOUNT + BigInt(requests),
          bankCode: '004',
          accountNumber: `110-123-${requests}`,
          holderName: '홍길동',
          memo: '급여',
        });
      });
      const created = await createTransfers(
        world,
        read.map((one) => (one.ok ? one.request : assert.fail(JSON.stringify(one.faults)))),
      );
      await pass(3);
      return created.map((one) => (one.outcome === 'created' ? one.id : assert.fail(JSON.stringify(one))));
    },
    async take(written, name = 'statement') {
      const done = await importStatement(world, OPERATOR, {
        rail: RAIL,
        name,
        bytes: new TextEncoder().encode(written.text),
        csv: CSV,
      });
      return done.outcome === 'refused' ? assert.fail(JSON.stringify(done.faults)) : done;
    },
    reconcile: (period = {}) => reconcileBank(world, { rail: RAIL, ...period }),
  };
}

interface Said {
  readonly kind: string;
  readonly amount: string;
  readonly reference: string | null;
  readonly detail: string;
  readonly lines: readonly { readonly references: readonly string[] }[];
  readonly may_be: readonly { readonly subject: string }[];
}

/** Kind, amount and reference of each finding, as machines are told. */
export function said(report: BankReport): string[] {
  return findingsOf(report).map((one) => `${one.kind} ${one.amount} ${one.reference ?? '-'}`);
}

export function findingsOf(report: BankReport): readonly Said[] {
  return (toJson(report) as { findings: readonly Said[] }).findings;
}

export type Plant = NonNullable<StatementScript['plant']>;
