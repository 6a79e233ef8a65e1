/*
 * The stage for realizations over TRON: the product as it is configured, over the simulated chain, a settlement wallet, and
 * nights of the test's choosing. Fees are what settled withdrawals cost. The database's clock, which decides what a night is,
 * runs on as always and jumps by whole days where the test says so; the chain has a clock of its own.
 */
import assert from 'node:assert/strict';
import { sendOnce } from '../../src/engine/advance.ts';
import { judgeNight, type NightDeps, runNightly } from '../../src/flows/realizations/index.ts';
import { createWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import type { TronMovement } from '../../sim/tron/books.ts';
import { SETTLEMENT, startTronApp, TRX, type TronApp, type TronAppOptions } from './tron-app.ts';

const DAY_MS = 86_400_000;
/** Of each withdrawal, in units. */
export const FEE = 500_000n;
/** No realization of these tests is so large, and none of their withdrawals so small. */
const WITHDRAWN = 20n * TRX;

export interface RealizeTron {
  readonly one: TronApp;
  nights(): NightDeps;
  /** The partner is made where it is new, and has money. */
  partner(id: string): Promise<void>;
  /** A new one of the partner, not taken in yet. */
  withdrawal(partnerId: string): WithdrawalRequest;
  /** As many withdrawals of the partner, paid, with their fees. */
  earn(partnerId: string, withdrawals: number): Promise<void>;
  /** A fee of the partner as a posting of its own: no money moves on the chain. */
  owe(partnerId: string, units: bigint): Promise<void>;
  /** Noon of the next day, at least. */
  nextDay(): Promise<void>;
  /** By the database's clock; a few hours at most, or it is another day. */
  later(ms: number): Promise<void>;
  /** Nights that are due now, by this process. */
  makeNights(): Promise<void>;
  /** What is pending is sealed and sent, by this process. */
  sendAll(): Promise<void>;
  /** The next day's night; answers its date and what was made. */
  night(): Promise<{ readonly date: string; readonly made: readonly string[] }>;
  /** What the chain shows from MASTER to SETTLEMENT, in its order. */
  realized(): Promise<readonly TronMovement[]>;
  /** What is on record, as `date partner ordinal: amount`. */
  recorded(): Promise<string[]>;
  /** Each realization's tries: state, or what ended it. */
  tries(): Promise<string[]>;
  verdict(date: string): Promise<string>;
}

/** The database's own clock, moved by whole days; only in a test's own database, whose owner the test is. */
const SHIFTED = [
  'create table public.shifted_clock (ms bigint not null)',
  'insert into public.shifted_clock values (0)',
  `create or replace function payonce.now() returns timestamptz language sql volatile
   as $$ select clock_timestamp() + make_interval(secs => ms::float8 / 1000) from public.shifted_clock $$`,
];

export async function startRealizeTron(options: TronAppOptions): Promise<RealizeTron> {
  const limits = { min: '0.000001', max: '1000000', dayMax: '1000000000', feeFlat: '0.5', feeBasisPoints: 0 };
  const one = await startTronApp({
    settlementWallet: true,
    ...options,
    asset: { withdrawal: limits, ...options.asset },
  });
  return stageOf(one);
}

async function stageOf(one: TronApp): Promise<RealizeTron> {
  const { app } = one;
  const { pool, engine } = app;
  for (const statement of SHIFTED) await pool.query(statement);
  const jump = (ms: number): Promise<unknown> => pool.query('update public.shifted_clock set ms = ms + $1', [ms]);
  // Never across a midnight by itself, whenever the test runs.
  await jump(DAY_MS + DAY_MS / 2 - (Date.now() % DAY_MS));
  let keys = 0;
  const book = async (partnerId: string, to: string, units: bigint): Promise<void> => {
    keys += 1;
    await pool.tx('scene', async (tx) => {
      const [account, custody] = await engine.chart.ids(tx, [
        to === 'fees' ? accountName.fees(one.tokenAssetId) : accountName.partner(partnerId, one.tokenAssetId),
        to === 'fees'
          ? accountName.partner(partnerId, one.tokenAssetId)
          : accountName.custody(one.chain.chain, one.master, one.tokenAssetId),
      ]);
      assert.ok(account !== undefined && custody !== undefined);
      const entries = [
        { accountId: account, amount: units },
        { accountId: custody, amount: -units },
      ];
      await post(tx, [{ kind: 'post', key: `MIGRATED:scene-${keys}`, reference: 'scene', entries }]);
    });
  };
  const stage: RealizeTron = {
    one,
    nights: () => ({ pool, makeId: engine.makeId, log: app.log, timeZone: 'UTC' }),
    async partner(id) {
      await pool.query('insert into payonce.partners (id, name) values ($1, $1) on conflict do nothing', [id]);
      await book(id, 'partner', 1_000n * TRX);
    },
    withdrawal(partnerId) {
      keys += 1;
      const key = `earn-${keys}`;
      return {
        partnerId,
        idempotencyKey: key,
        fingerprint: key,
        externalId: null,
        purpose: 'customer',
        assetId: one.tokenAssetId,
        amount: WITHDRAWN,
        destination: one.stranger,
        reference: null,
      };
    },
    async earn(partnerId, withdrawals) {
      const requests = Array.from({ length: withdrawals }, () => stage.withdrawal(partnerId));
      for (const created of await createWithdrawals(engine, requests))
        assert.equal(created.outcome, 'created', JSON.stringify(created));
      await one.drain();
    },
    owe: (partnerId, units) => book(partnerId, 'fees', units),
    async nextDay() {
      await jump(DAY_MS);
    },
    async later(ms) {
      await jump(ms);
    },
    async makeNights() {
      await runNightly(stage.nights());
    },
    async sendAll() {
      for (const rail of engine.rails.values()) await sendOnce(engine, rail);
    },
    async night() {
      await stage.nextDay();
      const outcomes = await runNightly(stage.nights());
      const last = outcomes.at(-1);
      assert.ok(last, 'no night was due');
      return { date: last.date, made: outcomes.flatMap((outcome) => outcome.made).map((made) => made.id) };
    },
    realized: async () =>
      (await one.tron.books.movements()).filter(
        ({ asset, from, to }) => asset === one.token && from === one.master && to === SETTLEMENT,
      ),
    async recorded() {
      const rows = await one.rows<{ text: string }>(
        `select business_date - (select min(business_date) from payonce.realizations) || ' ' || partner_id || ' ' || ordinal || ': ' || amount as text
         from payonce.realizations order by business_date, partner_id, ordinal`,
      );
      return rows.map(({ text }) => text);
    },
    async tries() {
      const rows = await one.rows<{ text: string }>(
        `select e.partner_id || ' ' || e.seq || ' ' || coalesce(v.kind, e.state) as text
         from payonce.effects e left join payonce.effect_evidence v on v.id = e.released_by
         where e.subject_type = 'realization' order by e.partner_id, e.id`,
      );
      return rows.map(({ text }) => text);
    },
    verdict: async (date) => (await judgeNight(pool, date)).verdict,
  };
  return stage;
}
