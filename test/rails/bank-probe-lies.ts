/*
 * Every kind of lie that a profile can hold, planted in a copy of it, in the server that it describes, or in both: what
 * matters is that the copy promises more than this server keeps. `null`: this provider cannot be lied about so.
 */
import type { BankFaultRule } from '../../sim/bank/faults.ts';
import { decryptJwe } from '../../sim/bank/jwe.ts';
import type { BankOptions } from '../../sim/bank/bank.ts';
import type { BankRequest, Stage } from '../../sim/bank/profile.ts';
import type { Profile } from '../../src/rails/bank/profile.ts';
import type { CodeRow } from '../../src/rails/keyed-profile.ts';
import type { Provider } from './bank-probe-scene.ts';

const CITE = 'planted';
const DAY_MS = 24 * 3_600_000;

export interface Planted {
  readonly profile: Profile;
  readonly options?: Partial<BankOptions>;
  readonly failFreesKey?: boolean;
  /** On the running server. */
  prepare?(provider: Provider): void;
}

export interface Lie {
  readonly name: string;
  /** The rows that may find it begin so. */
  readonly row: string;
  plant(profile: Profile): Planted | null;
}

export const NO_MONEY: Readonly<Record<string, readonly [number, string]>> = {
  generic: [422, 'insufficient_funds'],
  toss: [400, 'INSUFFICIENT_AVAILABLE_BALANCE'],
  stripe: [400, 'balance_insufficient'],
  increase: [409, 'invalid_operation_error'],
  'modern-treasury': [422, 'insufficient_balance'],
  'paypal-payouts': [422, 'INSUFFICIENT_FUNDS'],
  unkeyed: [400, 'E1001'],
};
const NOBODY: Readonly<Record<string, readonly [number, string]>> = {
  generic: [422, 'account_not_found'],
  toss: [404, 'NOT_FOUND_SELLER'],
  stripe: [400, 'resource_missing'],
  increase: [400, 'invalid_parameters_error'],
  'modern-treasury': [422, 'resource_not_found'],
  'paypal-payouts': [422, 'RECEIVER_ACCOUNT_INVALID'],
  unkeyed: [400, 'E2001'],
};
const FIRST_STATE: Readonly<Record<string, string>> = {
  generic: 'accepted',
  toss: 'REQUESTED',
  stripe: 'pending',
  increase: 'pending_submission',
  'modern-treasury': 'approved',
  'paypal-payouts': 'PENDING',
  unkeyed: 'ACCEPTED',
};
const BALANCE_FIRST: readonly Stage[] = ['credential', 'decode', 'read', 'balance', 'key', 'business'];

type Claims = Partial<Omit<Extract<CodeRow['means'], { reads: 'refused' }>, 'reads'>>;

export function claiming(
  profile: Profile,
  codes: Readonly<Record<string, readonly [number, string]>>,
  claims: Claims,
): Profile {
  const [status, code] = codes[profile.name] ?? [400, ''];
  const row: CodeRow = { statuses: [status], code, means: { reads: 'refused', why: CITE, final: false, ...claims } };
  return { ...profile, codes: [row, ...profile.codes] };
}

/** What a request says, where it is encrypted too. */
function textOf(request: BankRequest, securityKey: string | null): string {
  const text = request.body.toString('utf8');
  return securityKey === null ? text : (decryptJwe(text, Buffer.from(securityKey, 'hex'))?.plain ?? '');
}

const keyed = (profile: Profile, planted: Planted): Planted | null => (profile.key === null ? null : planted);

export const LIES: readonly Lie[] = [
  {
    name: 'keys are not honoured',
    row: 'same key, same body',
    plant: (profile) =>
      profile.key === null
        ? {
            profile: {
              ...profile,
              key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 64, charset: /./ },
            },
          }
        : { profile, options: { behave: { retentionMs: 0 } } },
  },
  {
    name: 'two at once are two transfers',
    row: 'in progress',
    plant: (profile) => keyed(profile, { profile, options: { behave: { retentionMs: 0 } } }),
  },
  {
    name: 'another body is paid, or answered as if it were the first',
    row: 'same key, other body',
    plant(profile) {
      if (profile.sameKeyOtherBody === 'first_answer') return { profile: { ...profile, sameKeyOtherBody: 'error' } };
      if (profile.name !== 'paypal-payouts')
        return keyed(profile, { profile, options: { behave: { compares: 'no' } } });
      const pays: BankFaultRule = {
        on: 'create',
        when: (request) => textOf(request, null).includes('"125.01"'),
        fault: { kind: 'forget_key' },
      };
      return { profile, options: { faults: [pays] } };
    },
  },
  {
    name: 'a longer retention',
    row: 'retention',
    plant: (profile) =>
      profile.name === 'increase'
        ? { profile, options: { behave: { retentionMs: DAY_MS / 2 } } }
        : keyed(profile, { profile: { ...profile, retentionMs: (profile.retentionMs ?? 0) * 2 } }),
  },
  {
    name: 'a stored refusal that is live',
    row: 'kept under the key',
    plant: (profile) => ({
      profile: claiming(profile, NO_MONEY, { storedUnderKey: CITE }),
      options: { behave: { keeps: 'successes' } },
    }),
  },
  {
    name: 'a final refusal that money undoes',
    row: 'final',
    plant: (profile) => ({
      profile: claiming(profile, NO_MONEY, { final: true }),
      options: { behave: { keeps: 'successes' } },
    }),
  },
  {
    name: 'the balance goes before the key',
    row: 'balance or key first',
    plant: (profile) =>
      keyed(profile, {
        profile: claiming(profile, NO_MONEY, { afterKeyCheck: CITE }),
        options: { behave: { order: BALANCE_FIRST } },
      }),
  },
  {
    name: 'a refusal at once that is queued',
    row: 'creates nothing',
    plant: (profile) => ({
      profile: claiming(profile, NOBODY, { atOnce: CITE, final: true }),
      prepare({ bank, input }) {
        const { refused } = input;
        if (refused === undefined) return;
        const { bankCode, accountNumber } = refused;
        bank.accounts.add({ bankCode, accountNumber, handle: accountNumber });
        const when = (request: BankRequest): boolean =>
          textOf(request, bank.securityKey).includes(encodeURIComponent(accountNumber)) ||
          textOf(request, bank.securityKey).includes(accountNumber);
        bank.script({ on: 'create', when, fault: { kind: 'lie', reason: 'account_unknown' } });
        bank.script({ on: 'create', when, fault: { kind: 'lag', ms: 20 * 60_000 } });
      },
    }),
  },
  {
    name: 'an echo that is not shown',
    row: 'echoes',
    plant: (profile) => ({
      profile: { ...profile, echoes: [...profile.echoes, profile.linesMax > 1 ? 'amount' : 'lines'] },
    }),
  },
  {
    name: 'a key that refusals do not name',
    row: 'key in refusals',
    plant: (profile) => ({ profile: { ...profile, echoesKeyInErrors: true } }),
  },
  {
    name: 'a failed transfer frees its key',
    row: 'a failed transfer keeps its key',
    plant: (profile) => keyed(profile, { profile: { ...profile, failedKeepsKey: CITE }, failFreesKey: true }),
  },
  {
    name: 'a look-up that finds nothing',
    row: 'look-up',
    plant(profile) {
      if (profile.name === 'stripe' || profile.name === 'toss')
        return { profile, options: { faults: [{ on: 'look', fault: { kind: 'blind' } }] } };
      const lookUps = profile.lookUps.map((lookUp, place): typeof lookUp =>
        place > 0
          ? lookUp
          : {
              ...lookUp,
              path: (facts) =>
                lookUp.path({
                  ...facts,
                  key: `${facts.key}x`,
                  objectId: facts.objectId === null ? null : `${facts.objectId}x`,
                }),
            },
      );
      return { profile: { ...profile, lookUps } };
    },
  },
  {
    name: 'a look-up that lags',
    row: 'look-up',
    plant: (profile) => ({
      profile: { ...profile, lookUps: profile.lookUps.map((lookUp) => ({ ...lookUp, lagMs: 2_000 })) },
      options: { behave: { lookLagMs: 60_000 } },
    }),
  },
  {
    name: 'a scope without the credential',
    row: 'scope: credential',
    plant: (profile) =>
      keyed(profile, {
        profile: { ...profile, scope: profile.scope.filter((part) => part !== 'credential') },
        options: { behave: { keyScope: 'credential' } },
      }),
  },
  {
    name: 'a scope without the path',
    row: 'scope: path',
    plant: (profile) =>
      profile.name === 'stripe' || profile.name === 'modern-treasury'
        ? {
            profile: { ...profile, scope: profile.scope.filter((part) => part !== 'path') },
            options: { behave: { keyScope: 'credential_and_path' } },
          }
        : null,
  },
  {
    name: 'a replay mark on everything',
    row: 'replay mark',
    plant: (profile) => ({
      profile: {
        ...profile,
        replayMark: {
          header: 'content-type',
          value: profile.name === 'toss' ? 'text/plain;charset=utf-8' : 'application/json',
          cite: CITE,
        },
      },
    }),
  },
  {
    name: 'a standing state that is called failed',
    row: 'states',
    plant: (profile) => ({
      profile: { ...profile, states: { ...profile.states, [FIRST_STATE[profile.name] ?? '']: 'failed' } },
    }),
  },
];
