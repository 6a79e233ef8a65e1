/**
 * What a configuration says that cannot hold together, found without a database, a node or a key: the same faults for
 * `payonce config --check` and for a start, all at once, each with its place, what was got and what was expected.
 *
 * Never: a fault of what only the database knows (a partner, an asset's earlier decimals); that is registration's.
 */
import { parseAmount } from '../kernel/money.ts';
import type { Config } from './config.ts';
import type { AssetConfig, GasConfig } from './config-asset-shape.ts';
import { type ChainFamily, familiesOf } from './wire-chains.ts';

/** What TRON takes: an expiration later than a day after the head is refused by each node. */
const EXPIRES_AFTER_MS_END = 86_400_000;

type Fault = (place: string, got: string, expected: string) => void;

/** One line per fault, in the order of the file; empty: a start gets as far as its database and its nodes. */
export function configFaults(config: Config): string[] {
  const faults: string[] = [];
  const fault: Fault = (place, got, expected) =>
    void faults.push(`PAYONCE_CONFIG: ${place}: got ${got}, expected ${expected}`);
  const families = familiesOf(config);
  repeats(config.chains.map(({ chainId }, at) => [`chains[${at}].chainId`, chainId])).forEach(({ place, got, first }) =>
    fault(place, got, `a chain that ${first} does not have already`),
  );
  for (const family of families) checkChain(config, family, fault);
  checkTron(config, fault);
  checkWallets(config, families, fault);
  config.payoutCalls.forEach(({ chain, to }, at) => {
    const about = families.find((one) => one.about.chain === chain)?.about;
    const read = about?.readAddress(to);
    if (read === undefined) fault(`payoutCalls[${at}].chain`, `"${chain}"`, 'a chain of this file');
    else if (!read.ok) fault(`payoutCalls[${at}].to`, `"${to}"`, read.expected);
  });
  if (config.realizationsZone !== null && !config.wallets.some(({ kind }) => kind === 'SETTLEMENT'))
    fault('realizations', 'no wallet that gets them', 'a wallet of the kind SETTLEMENT in "wallets"');
  return faults;
}

function checkChain(config: Config, family: ChainFamily, fault: Fault): void {
  const { place, written, about } = family;
  const { agreeing, nodes, gas } = written;
  const operators = new Set(nodes.map((node) => node.operator)).size;
  if (agreeing !== undefined && agreeing > operators)
    fault(`${place}.agreeing`, String(agreeing), `at most ${operators}: that many operators run its nodes`);
  const contracts = written.assets.map(({ contract }, at): [string, string] => {
    const read = contract === null ? null : about.readAddress(contract);
    return [`${place}.assets[${at}].contract`, read === null ? 'null' : read.ok ? read.address : `${at}`];
  });
  repeats(contracts).forEach(({ place: at, got, first }) => fault(at, got, `one that ${first} does not have already`));
  written.assets.forEach((asset, at) => checkAsset(family, asset, `${place}.assets[${at}]`, fault));
  if (gas !== undefined) checkGas(config, family, gas, fault);
}

function checkAsset({ about }: ChainFamily, asset: AssetConfig, place: string, fault: Fault): void {
  const address = (field: string, text: string): string | null => {
    const read = about.readAddress(text);
    if (!read.ok) fault(`${place}.${field}`, `"${text}"`, read.expected);
    return read.ok ? read.address : null;
  };
  const { contract, decimals, wallet, relayers = [], withdrawal, deposit, collect } = asset;
  if (contract !== null) address('contract', contract);
  const from = wallet === undefined ? null : address('wallet', wallet);
  if (contract === null && relayers.length > 0)
    fault(`${place}.relayers`, 'relayers of a coin', 'none: only tokens can be moved by an allowance');
  const read = relayers.map((one, at) => address(`relayers[${at}]`, one));
  read.forEach((one, at) => {
    if (one === null) return;
    if (one === from)
      fault(`${place}.relayers[${at}]`, `"${one}"`, 'another one than "wallet", which signs where there is no relayer');
    if (read.indexOf(one) < at)
      fault(`${place}.relayers[${at}]`, `"${one}"`, `one that relayers[${read.indexOf(one)}] is not already`);
  });
  const units = (field: string, text: string): bigint => amount(`${place}.${field}`, text, decimals, fault);
  if (withdrawal !== undefined) {
    const [min, max] = [units('withdrawal.min', withdrawal.min), units('withdrawal.max', withdrawal.max)];
    const dayMax = units('withdrawal.dayMax', withdrawal.dayMax);
    units('withdrawal.feeFlat', withdrawal.feeFlat);
    if (max < min) fault(`${place}.withdrawal.max`, `"${withdrawal.max}"`, `at least "min", ${withdrawal.min}`);
    if (dayMax < max)
      fault(`${place}.withdrawal.dayMax`, `"${withdrawal.dayMax}"`, `at least "max", ${withdrawal.max}`);
  }
  for (const [field, given] of [
    ['deposit', deposit],
    ['collect', collect],
  ] as const) {
    if (given === undefined) continue;
    for (const needed of ['wallet', 'withdrawal'] as const)
      if (asset[needed] === undefined) fault(`${place}.${needed}`, 'nothing', `one beside "${field}", which needs it`);
  }
  if (deposit !== undefined) units('deposit.feeFlat', deposit.feeFlat);
  if (collect === undefined) return;
  if (units('collect.min', collect.min) === 0n) fault(`${place}.collect.min`, `"${collect.min}"`, 'more than 0');
  if (collect.keep !== undefined) units('collect.keep', collect.keep);
}

function checkGas(config: Config, { place, written, about }: ChainFamily, gas: GasConfig, fault: Fault): void {
  const decimals = written.assets.find(({ contract }) => contract === null)?.decimals ?? 0;
  const units = (field: string, text: string): bigint => amount(`${place}.gas.${field}`, text, decimals, fault);
  const [level, topUpMax] = [units('level', gas.level), units('topUpMax', gas.topUpMax)];
  if (gas.warnBelow !== undefined) units('warnBelow', gas.warnBelow);
  if (level === 0n) fault(`${place}.gas.level`, `"${gas.level}"`, 'more than 0');
  if (topUpMax < level) fault(`${place}.gas.topUpMax`, `"${gas.topUpMax}"`, `at least "level", ${gas.level}`);
  const gasWallets = config.wallets.filter(({ kind }) => kind === 'GAS');
  const known = new Set(familiesOf(config).map((one) => one.about.chain));
  // A GAS wallet of a chain that is not here is told as that: this fault would be its consequence.
  if (!gasWallets.some(({ chain }) => chain === about.chain || !known.has(chain)))
    fault(`${place}.gas`, 'no wallet to fill from', `a wallet of the kind GAS on ${about.chain} in "wallets"`);
}

function checkTron({ tron }: Config, fault: Fault): void {
  tron.forEach(({ expiresAfterMs, energy, feeLimitCapSun }, at) => {
    if (expiresAfterMs !== undefined && expiresAfterMs >= EXPIRES_AFTER_MS_END)
      fault(
        `tron[${at}].expiresAfterMs`,
        String(expiresAfterMs),
        `less than ${EXPIRES_AFTER_MS_END}: nodes take no more than a day`,
      );
    const { burnUpToSun, market } = energy ?? {};
    if (burnUpToSun !== undefined && BigInt(burnUpToSun) > BigInt(feeLimitCapSun))
      fault(
        `tron[${at}].energy.burnUpToSun`,
        burnUpToSun,
        `at most "feeLimitCapSun", ${feeLimitCapSun}: no transaction may burn more`,
      );
    if (
      market?.unitsMin !== undefined &&
      market.unitsMax !== undefined &&
      BigInt(market.unitsMin) > BigInt(market.unitsMax)
    )
      fault(`tron[${at}].energy.market.unitsMax`, market.unitsMax, `at least "unitsMin", ${market.unitsMin}`);
  });
}

function checkWallets(config: Config, families: readonly ChainFamily[], fault: Fault): void {
  const listed: [string, string][] = [];
  config.wallets.forEach(({ chain, address, kind }, at) => {
    const place = `wallets[${at}]`;
    const family = families.find((one) => one.about.chain === chain);
    if (family === undefined)
      return fault(
        `${place}.chain`,
        `"${chain}"`,
        families.length === 0 ? 'no wallet: no chain is configured' : `one of ${families.map(named).join(', ')}`,
      );
    const read = family.about.readAddress(address);
    if (!read.ok) return fault(`${place}.address`, `"${address}"`, read.expected);
    listed.push([place, `${read.address} on ${chain}`]);
    const spends = family.written.assets.findIndex(
      ({ wallet }) => wallet !== undefined && canonical(family, wallet) === read.address,
    );
    if (kind !== 'MASTER' && spends >= 0)
      fault(
        `${place}.kind`,
        `"${kind}"`,
        `"MASTER", or another address: ${family.place}.assets[${spends}] is paid from it`,
      );
  });
  repeats(listed).forEach(({ place, got, first }) => fault(place, got, `a wallet that ${first} does not name already`));
}

/** With what names it, since a chain of TRON is no text of the file. */
function named({ about, place }: ChainFamily): string {
  return about.chain.startsWith('tron:') ? `${about.chain} (the end of ${place}.genesisId)` : about.chain;
}

function canonical({ about }: ChainFamily, text: string): string | null {
  const read = about.readAddress(text);
  return read.ok ? read.address : null;
}

function amount(place: string, text: string, decimals: number, fault: Fault): bigint {
  const parsed = parseAmount(text, decimals);
  if (parsed.ok) return parsed.units;
  fault(place, `"${text}"`, `an amount with at most ${decimals} decimals`);
  return 1n;
}

function repeats(list: readonly (readonly [string, string])[]): { place: string; got: string; first: string }[] {
  return list.flatMap(([place, got], at) => {
    const first = list.findIndex((one) => one[1] === got);
    return first < at ? [{ place, got, first: list[first]?.[0] ?? '' }] : [];
  });
}
