/**
 * The configuration, and the only reader of the environment.
 *
 * Settings come from environment variables (secrets and what differs per machine) and one JSON file (chains, assets,
 * wallets). All faults are found at once and told together; nothing starts on a broken configuration (exit 2). The
 * reference (`payonce config --reference`, docs/config.md) is printed from the table here.
 */
import { readFileSync } from 'node:fs';
import type { Static } from 'typebox';
import { PayonceError } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import type { Cut, CutMode, PortKind } from '../kernel/ports.ts';
import { BANK_SECRET_PREFIX } from './config-bank-shape.ts';
import { type BankConfig, readBanks } from './config-banks.ts';
import { fieldRows, fileFaults } from './config-fields.ts';
import { type EscrowConfig, groupFaults, readEscrows } from './config-p2p.ts';
import { ESCROW_SECRET_PREFIX, type WrittenGroup } from './config-p2p-shape.ts';
import { type ChainConfig, FileShape, type PayoutCallConfig, type WalletConfig } from './config-shape.ts';
import { readTron, type TronConfig } from './config-tron.ts';
import { TRON_SECRET_PREFIX } from './config-tron-shape.ts';

export type { BankConfig } from './config-banks.ts';
export type { ChainConfig, PayoutCallConfig, WalletConfig } from './config-shape.ts';
export type { TronConfig } from './config-tron.ts';

interface Setting {
  readonly name: string;
  readonly meaning: string;
  readonly fallback: string | null;
}
/** What the environment may hold. `fallback` null: needed. */
export const SETTINGS: readonly Setting[] = [
  {
    name: 'DATABASE_URL',
    meaning: 'PostgreSQL 16 or later. Without it an embedded PostgreSQL 18 is started (not in production)',
    fallback: 'embedded',
  },
  {
    name: 'PAYONCE_ENV',
    meaning: '`production` refuses development keys, embedded databases and private webhook addresses',
    fallback: 'development',
  },
  {
    name: 'PAYONCE_DEPLOYMENT',
    meaning: 'A name that never changes: keys sent to providers are derived from it',
    fallback: 'local',
  },
  { name: 'PAYONCE_CONFIG', meaning: 'JSON file with chains, banks, assets and limits', fallback: 'none' },
  { name: 'PAYONCE_HOST', meaning: 'Address the API listens on', fallback: '127.0.0.1' },
  { name: 'PAYONCE_PORT', meaning: 'Port the API listens on; 0 takes a free one', fallback: '8080' },
  {
    name: 'PAYONCE_DATA',
    meaning: 'Folder of the embedded database and the development chain',
    fallback: 'none: a temporary one',
  },
  {
    name: 'PAYONCE_MASTER_SECRET',
    meaning: 'At least 32 characters; webhook secrets are derived from it',
    fallback: 'a fixed one in development',
  },
  { name: 'PAYONCE_KEYSTORE', meaning: 'Folder of encrypted keys of the wallets', fallback: 'development keys' },
  { name: 'PAYONCE_PASSPHRASE', meaning: 'Passphrase of the keystore', fallback: 'none' },
  {
    name: 'PAYONCE_INBOUND',
    meaning:
      'Inbound webhook sources, `name=whsec_…` separated by commas. A name that begins with `payments-` tells of payments of legs and is believed, one with `escrow-` hints at trades, any other at transactions of chains',
    fallback: 'none',
  },
  {
    name: `${BANK_SECRET_PREFIX}…`,
    meaning: 'Secrets of banks, under the names that `secretFrom` and `encryptionKeyFrom` in the file give them',
    fallback: 'none',
  },
  {
    name: `${TRON_SECRET_PREFIX}…`,
    meaning: 'Keys of nodes and energy markets of TRON, under the names that `keyFrom` and `secretFrom` give them',
    fallback: 'none',
  },
  {
    name: `${ESCROW_SECRET_PREFIX}…`,
    meaning: 'Keys of escrow providers, under the names that `secretFrom` gives them',
    fallback: 'none',
  },
  {
    name: 'PAYONCE_METRICS_TOKEN',
    meaning: 'When given, GET /metrics wants it as a bearer token',
    fallback: 'none: open; needed in production',
  },
  { name: 'PAYONCE_OPERATOR_KEY', meaning: 'Key of the operator at the command line', fallback: 'none' },
  { name: 'PAYONCE_LOG', meaning: 'debug, info, warn, error or silent', fallback: 'info' },
  {
    name: 'PAYONCE_LEASE_MS',
    meaning: 'How long a worker may hold an effect; not under 500',
    fallback: String(limits.LEASE_MS),
  },
  { name: 'PAYONCE_POOL', meaning: 'Database connections per process', fallback: String(limits.POOL_CONNECTIONS) },
  {
    name: 'PAYONCE_CUT',
    meaning:
      'Crash proofs only: `[kind:][/[after>]name/:]ordinal:mode` ends the process at that port call; no name: any',
    fallback: 'none',
  },
  { name: 'PAYONCE_CUT_LOG', meaning: 'Crash proofs only: file that gets a line per port call', fallback: 'none' },
];

export interface Config {
  readonly databaseUrl: string | null;
  /** The file with chains and banks. */
  readonly file: string | null;
  readonly production: boolean;
  readonly deployment: string;
  readonly host: string;
  readonly port: number;
  readonly dataFolder: string | null;
  readonly masterSecret: Uint8Array;
  readonly keystore: { readonly folder: string; readonly passphrase: string } | null;
  readonly inbound: readonly { readonly name: string; readonly secrets: readonly string[] }[];
  readonly metricsToken: string | null;
  readonly operatorKey: string | null;
  readonly logLevel: string;
  readonly leaseMs: number;
  readonly poolConnections: number;
  readonly cut: Cut | null;
  readonly cutLog: string | null;
  readonly chains: readonly ChainConfig[];
  readonly tron: readonly TronConfig[];
  readonly banks: readonly BankConfig[];
  readonly escrows: readonly EscrowConfig[];
  readonly p2p: readonly WrittenGroup[];
  readonly wallets: readonly WalletConfig[];
  /** What programmes of payouts may ask of contracts. */
  readonly payoutCalls: readonly PayoutCallConfig[];
  /** Time zone of the nightly realizations; null: none are made. */
  readonly realizationsZone: string | null;
}

const DEVELOPMENT_SECRET = 'payonce-development-secret-not-for-production';
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'];

const PORT_MAX = 65_535;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads everything; throws one error that lists all faults. */
export function readConfig(environment: Environment = process.env): Config {
  const faults: string[] = [];
  const text = (name: string): string | null => {
    const value = environment[name];
    return value === undefined || value.trim() === '' ? null : value;
  };
  const whole = (name: string, fallback: number, least: number, most?: number): number => {
    const written = text(name);
    if (written === null) return fallback;
    const count = /^\d{1,9}$/.test(written) ? Number.parseInt(written, 10) : -1;
    if (count < least || (most !== undefined && count > most))
      faults.push(
        `${name}: got "${written}", expected a whole number from ${least}${most === undefined ? '' : ` to ${most}`}`,
      );
    return count;
  };
  for (const name of Object.keys(environment)) {
    if (
      name.startsWith('PAYONCE_') &&
      !name.startsWith('PAYONCE_TEST_') &&
      !SECRET_PREFIXES.some((prefix) => name.startsWith(prefix)) &&
      !SETTINGS.some((setting) => setting.name === name)
    ) {
      faults.push(`${name}: there is no such setting (see payonce config --reference)`);
    }
  }
  const production = text('PAYONCE_ENV') === 'production';
  if (text('PAYONCE_ENV') !== null && !['production', 'development'].includes(text('PAYONCE_ENV') ?? '')) {
    faults.push(`PAYONCE_ENV: got "${text('PAYONCE_ENV') ?? ''}", expected production or development`);
  }
  const databaseUrl = text('DATABASE_URL');
  if (databaseUrl !== null && !/^postgres(ql)?:\/\//.test(databaseUrl))
    faults.push('DATABASE_URL: expected postgres://…');
  const secret = text('PAYONCE_MASTER_SECRET') ?? DEVELOPMENT_SECRET;
  if (secret.length < 32) faults.push('PAYONCE_MASTER_SECRET: expected at least 32 characters');
  const logLevel = text('PAYONCE_LOG') ?? 'info';
  if (!LOG_LEVELS.includes(logLevel))
    faults.push(`PAYONCE_LOG: got "${logLevel}", expected one of ${LOG_LEVELS.join(', ')}`);
  const folder = text('PAYONCE_KEYSTORE');
  const passphrase = text('PAYONCE_PASSPHRASE');
  if (folder !== null && passphrase === null) faults.push('PAYONCE_PASSPHRASE: needed with PAYONCE_KEYSTORE');
  const deployment = text('PAYONCE_DEPLOYMENT') ?? 'local';
  const file = readFile(text('PAYONCE_CONFIG'), faults);
  const config: Config = {
    databaseUrl,
    file: text('PAYONCE_CONFIG'),
    production,
    deployment,
    host: text('PAYONCE_HOST') ?? '127.0.0.1',
    port: whole('PAYONCE_PORT', 8080, 0, PORT_MAX),
    dataFolder: text('PAYONCE_DATA'),
    masterSecret: Buffer.from(secret),
    keystore: folder === null ? null : { folder, passphrase: passphrase ?? '' },
    inbound: readInbound(text('PAYONCE_INBOUND'), faults),
    metricsToken: text('PAYONCE_METRICS_TOKEN'),
    operatorKey: text('PAYONCE_OPERATOR_KEY'),
    logLevel,
    leaseMs: whole('PAYONCE_LEASE_MS', limits.LEASE_MS, 500),
    poolConnections: whole('PAYONCE_POOL', limits.POOL_CONNECTIONS, 1),
    cut: readCut(text('PAYONCE_CUT'), faults),
    cutLog: text('PAYONCE_CUT_LOG'),
    chains: file.chains,
    tron: readTron(file.tron ?? [], { text, deployment }, faults),
    banks: readBanks(file.banks ?? [], { text, production, deployment }, faults),
    escrows: readEscrows(file.escrows ?? [], { text, production, deployment }, faults),
    p2p: file.p2p ?? [],
    wallets: file.wallets ?? [],
    payoutCalls: file.payoutCalls ?? [],
    realizationsZone: readZone(file.realizations?.timeZone ?? null, faults),
  };
  groupFaults(config.p2p, config.escrows, faults);
  if (production) {
    if (databaseUrl === null) faults.push('DATABASE_URL: needed in production');
    if (text('PAYONCE_MASTER_SECRET') === null) faults.push('PAYONCE_MASTER_SECRET: needed in production');
    if (text('PAYONCE_METRICS_TOKEN') === null) faults.push('PAYONCE_METRICS_TOKEN: needed in production');
    if (text('PAYONCE_DEPLOYMENT') === null) faults.push('PAYONCE_DEPLOYMENT: needed in production');
    if (folder === null && config.chains.length + config.tron.length > 0)
      faults.push('PAYONCE_KEYSTORE: needed in production; development keys are refused');
    if (config.cut !== null) faults.push('PAYONCE_CUT: refused in production');
  }
  if (faults.length > 0) throw new PayonceError('PO_CONFIG_INVALID', { detail: faults.join('\n') });
  return config;
}

/** As `readConfig`, with the file of a running `payonce up`. */
export function readConfigOf(file: string, environment: Environment = process.env): Config {
  return readConfig({ ...environment, PAYONCE_CONFIG: file });
}

type ConfigFile = Static<typeof FileShape>;
const NO_FILE: ConfigFile = { chains: [] };

function readFile(path: string | null, faults: string[]): ConfigFile {
  if (path === null) return NO_FILE;
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    faults.push(
      `PAYONCE_CONFIG: ${path} cannot be read as JSON (${error instanceof Error ? error.message : 'unknown fault'})`,
    );
    return NO_FILE;
  }
  const found = fileFaults(FileShape, parsed);
  faults.push(...found.map((fault) => `PAYONCE_CONFIG: ${fault}`));
  if (found.length > 0) return NO_FILE;
  const file = parsed as ConfigFile;
  const lists = { chains: file.chains, tron: file.tron ?? [], banks: file.banks ?? [] };
  for (const [list, rails] of Object.entries(lists)) {
    rails.forEach((rail, at) => {
      // One code may stand for an asset on each of several rails; partners then name the asset by its id.
      const places = new Map<string, string>();
      rail.assets.forEach((asset, index) => {
        const place = `${list}[${at}].assets[${index}].code`;
        const first = places.get(asset.code);
        if (first !== undefined)
          faults.push(`PAYONCE_CONFIG: ${place}: got "${asset.code}", which ${first} has already`);
        else places.set(asset.code, place);
      });
    });
  }
  faults.push(...nodeFaults('chains', file.chains), ...nodeFaults('tron', lists.tron));
  const chains = [
    ...file.chains.map((chain) => ({ name: chain.chainId, assets: chain.assets })),
    ...lists.tron.map((chain) => ({ name: `tron ${chain.network}`, assets: chain.assets })),
  ];
  for (const { name, assets } of chains) {
    if (!assets.some((asset) => asset.contract === null))
      faults.push(`PAYONCE_CONFIG: chain ${name} needs an asset with contract null (its coin pays gas)`);
  }
  return file;
}

/** Witnesses are counted by operator: one node under two names would prove by itself what takes two (rails.md §2.6, §3.4). */
function nodeFaults(
  list: string,
  chains: readonly { readonly nodes: readonly { readonly url: string; readonly operator: string }[] }[],
): string[] {
  const faults: string[] = [];
  chains.forEach((chain, at) => {
    const places = new Map<string, { readonly place: string; readonly operator: string }>();
    chain.nodes.forEach(({ url, operator }, index) => {
      const place = `${list}[${at}].nodes[${index}]`;
      const where = whereOf(url);
      const first = places.get(where);
      if (first === undefined) places.set(where, { place, operator });
      else if (first.operator !== operator)
        faults.push(
          `PAYONCE_CONFIG: ${place}.operator: got "${operator}", expected "${first.operator}": the node at ${where} is ${first.place} already, and one node is one witness`,
        );
    });
  });
  return faults;
}

/** Host, port and path: a gateway may stand before several. What a query holds, a key say, makes no other node. */
function whereOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const { protocol, hostname, port, pathname } = new URL(url);
  const usual = protocol === 'https:' ? '443' : '80';
  return `${hostname.toLowerCase().replace(/\.$/, '')}:${port === '' ? usual : port}${pathname.replace(/\/+$/, '')}`;
}

function readZone(timeZone: string | null, faults: string[]): string | null {
  if (timeZone === null) return null;
  try {
    new Intl.DateTimeFormat('en', { timeZone }).format(0);
  } catch {
    faults.push(`PAYONCE_CONFIG: realizations.timeZone: got "${timeZone}", expected an IANA name such as "Asia/Seoul"`);
  }
  return timeZone;
}

function readInbound(value: string | null, faults: string[]): { name: string; secrets: string[] }[] {
  if (value === null) return [];
  const sources = new Map<string, string[]>();
  for (const part of value.split(',')) {
    const [name, secret] = [part.slice(0, part.indexOf('=')).trim(), part.slice(part.indexOf('=') + 1).trim()];
    if (!/^[a-z0-9-]{1,40}$/.test(name) || !secret.startsWith('whsec_')) {
      faults.push('PAYONCE_INBOUND: expected name=whsec_…, separated by commas');
      continue;
    }
    sources.set(name, [...(sources.get(name) ?? []), secret]);
  }
  return [...sources].map(([name, secrets]) => ({ name, secrets }));
}

function readCut(value: string | null, faults: string[]): Cut | null {
  if (value === null) return null;
  const match =
    /^(?:(db|http|signer):)?(?:\/(?:([^/>]+)>)?([^/>]*)\/:)?(\d{1,9}):(before|after|half_written|half_read|stop)$/.exec(
      value,
    );
  if (match === null) {
    faults.push(
      `PAYONCE_CUT: got "${value}", expected [db:|http:|signer:][/[after>]name/:]ordinal:before|after|half_written|half_read|stop`,
    );
    return null;
  }
  return {
    ordinal: Number.parseInt(match[4] ?? '0', 10),
    mode: match[5] as CutMode,
    ...(match[1] === undefined ? {} : { kind: match[1] as PortKind }),
    ...(match[2] === undefined ? {} : { after: match[2] }),
    ...(match[3] === undefined ? {} : { name: match[3] }),
  };
}

const SECRET_PREFIXES = [BANK_SECRET_PREFIX, TRON_SECRET_PREFIX, ESCROW_SECRET_PREFIX];
/** By the end of their names, so that a new one cannot be forgotten; inbound sources carry theirs in the value. */
const SECRET_SETTING = /_(?:SECRET|PASSPHRASE|KEY|TOKEN|INBOUND)$/;

/** One secret of a bank by the name of its variable, for a command that has no file. Told faults hold no secret. */
export function bankSecret(name: string, environment: Environment = process.env): string | { readonly fault: string } {
  if (!name.startsWith(BANK_SECRET_PREFIX))
    return { fault: `expected the name of a variable that begins with ${BANK_SECRET_PREFIX}, and the secret in it` };
  const secret = environment[name] ?? '';
  return /^[\x20-\x7E]+$/.test(secret) ? secret : { fault: `${name} is not set, or holds more than one line of ASCII` };
}

/** Each setting as it stands, without what is secret: passwords in URLs are left out too. */
export function shownSettings(
  environment: Environment = process.env,
): { name: string; value: string; isSet: boolean }[] {
  const settings = SETTINGS.flatMap(({ name, fallback }) => {
    const prefix = SECRET_PREFIXES.find((one) => name.startsWith(one));
    const secrets = Object.keys(environment).filter((one) => prefix !== undefined && one.startsWith(prefix));
    return secrets.length > 0 ? secrets.map((one) => ({ name: one, fallback })) : [{ name, fallback }];
  });
  return settings.map(({ name, fallback }) => {
    const given = environment[name] ?? '';
    if (given.trim() === '') return { name, value: fallback ?? '', isSet: false };
    const value =
      SECRET_SETTING.test(name) || SECRET_PREFIXES.some((prefix) => name.startsWith(prefix))
        ? '(set)'
        : given.replace(/^(\w+:\/\/[^:/@]*):[^@]*@/, '$1:…@');
    return { name, value, isSet: true };
  });
}

/** The reference as Markdown. */
export function configReference(): string {
  const rows = SETTINGS.map(
    (setting) => `| \`${setting.name}\` | ${setting.meaning} | ${setting.fallback ?? 'needed'} |`,
  );
  return [
    '# Configuration',
    '',
    'Printed by `payonce config --reference` from the one place that reads it.',
    '',
    '| variable | meaning | when absent |',
    '| --- | --- | --- |',
    ...rows,
    '',
    '## The file',
    '',
    'The JSON file named by `PAYONCE_CONFIG`; a complete one is in [production.md](production.md). Amounts are decimal strings.',
    '',
    '| field | meaning | expected | when absent |',
    '| --- | --- | --- | --- |',
    ...fieldRows(FileShape),
    '',
  ].join('\n');
}
