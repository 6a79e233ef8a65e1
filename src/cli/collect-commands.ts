/** Collections: what lies at deposit addresses, what is being swept into the master wallets, and what stays and why. */
import { type Command, Option } from 'commander';
import { needOperator } from '../engine/administration.ts';
import { audit } from '../engine/audit-log.ts';
import {
  cancelCollection,
  collectOnce,
  type LeftHolding,
  listCollections,
  listLeft,
  loadSweptAssets,
  type SweptAsset,
} from '../flows/collections/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { cut, EXIT, heading, moment, paint, printable, table } from './output.ts';

const LISTED_MAX = 200;
const DUST_SHOWN_MAX = 100;
const REASON_CHARACTERS_MAX = 80;
const STATUSES = ['waiting', 'moving', 'swept', 'in_review', 'failed', 'cancelled'];

/** Why it is not swept, in words. */
const WHY: Readonly<Record<LeftHolding['why'], string>> = {
  due: 'swept in the next cycle',
  below_min: 'dust: below the least that is swept',
  sweep_open: 'being swept',
  tokens_first: "the coin waits for this address's tokens, whose gas it pays",
  in_review: 'its last sweep waits for a person: payonce case list',
  ended_before: 'its last sweep ended without moving, and nothing has come since',
  no_master: 'the asset has no master wallet: set "wallet" in the configuration',
};

export function addCollectCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const collect = program.command('collect').description('sweeps from deposit addresses into the master wallets');

  bind<{ chain?: string }>(
    collect
      .command('run')
      .description('a cycle now, without waiting for the hour (operator); the workers send what it makes')
      .option('--chain <id>', 'only this chain, for example eip155:1'),
    async (_args, { chain }) => {
      const cycles = await deps.withEngine(async ({ engine, operatorKey }) => {
        const operator = await needOperator(engine.pool, operatorKey, 'operator');
        const chains = chainsOf(await loadSweptAssets(engine.pool), chain);
        await audit(engine.pool, operator.id, 'collection.run', chains.join(' '), {});
        const done = [];
        for (const one of chains) done.push({ chain: one, ...(await collectOnce(engine, one, { now: true })) });
        return done;
      });
      const rows = cycles.map((one) => [
        one.chain,
        String(one.looked),
        String(one.made),
        String(one.calledOff),
        Object.entries(one.left)
          .map(([why, count]) => `${why} ${count}`)
          .join(', '),
      ]);
      return {
        json: {
          cycles: cycles.map(({ calledOff, ...one }) => ({ ...one, called_off: calledOff })),
        },
        text: `${table(['CHAIN', 'HOLDING SOMETHING', 'SWEEPS MADE', 'CALLED OFF', 'LEFT'], rows)}\nFollow them: payonce collect list`,
      };
    },
  );

  bind<{ status?: string }>(
    collect
      .command('list')
      .description('sweeps, the newest first')
      .addOption(new Option('--status <status>', 'only these').choices(STATUSES)),
    async (_args, { status }) => {
      const listed = await deps.withDatabase(({ pool }) => listCollections(pool, status ?? null, LISTED_MAX));
      const collections = listed.map((one) => ({
        id: one.id,
        status: one.status,
        chain: one.chain,
        address: one.address,
        asset: one.assetCode,
        asset_id: one.assetId,
        amount: formatUnits(one.amount, one.decimals),
        destination: one.destination,
        partner_id: one.partnerId,
        made_at: one.madeAt,
        effect_id: one.effectId,
        wait_reason: one.waitReason,
      }));
      const rows = collections.map((one) => [
        one.id,
        one.status,
        moment(one.made_at),
        `${one.amount} ${one.asset}`,
        one.address,
        String(one.effect_id),
        one.status !== 'waiting' || one.wait_reason === null
          ? null
          : cut(printable(one.wait_reason), REASON_CHARACTERS_MAX),
      ]);
      return {
        json: { collections },
        text: table(['SWEEP', 'STATUS', 'MADE', 'AMOUNT', 'FROM', 'EFFECT', 'WAITS FOR'], rows, 'No sweep.'),
      };
    },
  );

  bind<{ chain?: string }>(
    collect
      .command('dust')
      .description('what stays at deposit addresses, and why')
      .option('--chain <id>', 'only this chain'),
    async (_args, { chain }) => {
      const assets = await deps.withDatabase(async ({ pool }) => {
        const swept = await loadSweptAssets(pool);
        const chains = new Set(chainsOf(swept, chain));
        const found: { asset: SweptAsset; left: readonly LeftHolding[] }[] = [];
        for (const asset of swept.filter((one) => chains.has(one.chain)))
          found.push({ asset, left: await listLeft(pool, asset.assetId) });
        return found;
      });
      return {
        json: { assets: assets.map(toJson) },
        text: assets.length === 0 ? 'No asset is collected.' : assets.map(dustText).join('\n'),
      };
    },
  );

  bind(
    collect
      .command('cancel <sweep>')
      .description('call a sweep off before its seal; what lies there is swept anew in the next cycle (operator)'),
    async (args) => {
      const id = argument(args, 0);
      const outcome = await deps.withEngine(async ({ engine, operatorKey }) => {
        const operator = await needOperator(engine.pool, operatorKey, 'operator');
        const done = await cancelCollection(engine, id, operator.id);
        if (done === 'cancelled') await audit(engine.pool, operator.id, 'collection.cancelled', id, {});
        return done;
      });
      if (outcome === 'not_found') throw new PayonceError('PO_NOT_FOUND', { detail: `There is no sweep ${id}` });
      if (outcome === 'cancelled') return { json: { id, outcome }, text: `Called ${id} off: nothing of it has left.` };
      return {
        json: { id, outcome },
        text: `Too late: ${id} is sealed or has ended.\nRead it: payonce effect show ${id}`,
        exit: EXIT.conflict,
      };
    },
  );
}

function chainsOf(swept: readonly SweptAsset[], asked: string | undefined): string[] {
  const chains = [...new Set(swept.map((one) => one.chain))];
  if (asked === undefined) return chains;
  if (chains.includes(asked)) return [asked];
  throw new PayonceError('PO_REQUEST_INVALID', {
    detail: `Nothing is collected on "${asked}"; there are: ${chains.join(', ') || 'no chains'}`,
  });
}

function toJson({ asset, left }: { asset: SweptAsset; left: readonly LeftHolding[] }) {
  const inWords = (units: bigint): string => formatUnits(units, asset.decimals);
  return {
    asset_id: asset.assetId,
    asset: asset.code,
    chain: asset.chain,
    min: inWords(asset.min),
    keep: inWords(asset.keep),
    next_cycle_at: asset.nextAt,
    total: inWords(left.reduce((sum, one) => sum + one.holding.units, 0n)),
    left: left.map(({ holding, why }) => ({
      address: holding.address,
      partner_id: holding.partnerId,
      amount: inWords(holding.units),
      why,
    })),
  };
}

/** Workers look for what is due twice a minute. */
function nextCycle(at: Date | null): string {
  return at !== null && at.getTime() <= Date.now() ? 'due now' : (moment(at) ?? '-');
}

function dustText(one: { asset: SweptAsset; left: readonly LeftHolding[] }): string {
  const { asset, total, min, left } = toJson(one);
  const largest = one.left
    .map((each, index) => ({ ...each, shown: left[index] }))
    .sort((before, after) => (before.holding.units > after.holding.units ? -1 : 1))
    .slice(0, DUST_SHOWN_MAX);
  const rows = largest.map(({ shown, why }) => [
    shown?.address ?? '',
    `${shown?.amount ?? ''} ${asset}`,
    shown?.partner_id ?? null,
    WHY[why],
  ]);
  const more = left.length > rows.length ? `\n${left.length - rows.length} more; --json shows all` : '';
  return [
    heading(`${asset} on ${one.asset.chain}`),
    `${paint('bold', `${total} ${asset}`)} at ${left.length} addresses; swept from ${min} on; next cycle ${nextCycle(one.asset.nextAt)}`,
    table(['ADDRESS', 'AMOUNT', 'PARTNER', 'WHY'], rows, 'Nothing lies there.') + more,
  ].join('\n');
}
