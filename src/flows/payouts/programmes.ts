/** Programmes and creators: made and changed by the partner. What changes counts from its moment on, for what comes after it. */
import type { Tx } from '../../db/pool.ts';
import { loadOwnAddresses } from '../../engine/intake-store.ts';
import { storeSubjects } from '../../engine/intend.ts';
import { type FieldFault, PayonceError } from '../../kernel/errors.ts';
import { lengthPrefixed } from '../../kernel/ids.ts';
import { formatUnits, parseAmount } from '../../kernel/money.ts';
import { needsQuote, templateFault } from './calls.ts';
import type { PayoutDeps } from './enqueue.ts';
import { CUT_HOUR, QUOTE_MAX, RATE_DECIMALS, RATE_MAX, SLIPPAGE_BASIS_POINTS_MAX, TIERS_MAX } from './limits.ts';
import { type CallTemplate, type PaysBy, type Programme, rewardScale, type Terms } from './programme.ts';
import { ensureCreators, loadNamed, loadProgrammes } from './store.ts';

/** As texts; absent fields have their default. */
export interface TermsRequest {
  readonly volume_decimals?: number;
  readonly rate?: string;
  readonly tiers?: readonly { readonly from: string; readonly rate: string }[];
  readonly cap?: string;
  readonly threshold: string;
  readonly cut_min?: string;
  readonly time_zone?: string;
  readonly pays_by?: PaysBy;
  readonly call?: CallTemplate;
  readonly quote?: string;
  readonly slippage_basis_points?: number;
  readonly paused?: boolean;
}

/** The asset that is paid; a chain's. */
export interface PaidAsset {
  readonly id: string;
  readonly decimals: number;
}

// The cut's hour is the database's: a zone that only one of the two clocks knows, or reads the other way round ("+05"), is none.
const TOLD = `select a.contract is null as is_coin, a.chain, exists (select 1 from pg_timezone_names z where z.name = $2) as is_zone
from payonce.assets a
where a.id = $1`;

const MAKE = `insert into payonce.programmes
  (id, partner_id, name, asset_id, volume_decimals, reward_multiple, reward_divisor, tier_from, tier_step, cap, threshold, cut_min, time_zone, pays_by, call, quote,
   slippage_bp, paused_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, case when $18::bool then payonce.now() end)
on conflict (partner_id, name) do nothing`;
const CHANGE = `update payonce.programmes o
set tier_from = $2, tier_step = $3, cap = $4, threshold = $5, cut_min = $6, time_zone = $7, pays_by = $8, call = $9, quote = $10, slippage_bp = $11,
    paused_at = case when $12::bool then coalesce(o.paused_at, payonce.now()) end,
    terms_version = o.terms_version + 1
where o.id = $1`;
const LOCK = `select o.id
from payonce.programmes o
where o.partner_id = $1
  and o.name = $2
for no key update`;
const BEGIN_CUTS = `insert into payonce.programme_cuts (programme_id, business_date, time_zone, made_at)
values ($1, ((payonce.now() at time zone $2) - make_interval(hours => $3))::date, $2, payonce.now())
on conflict (programme_id, business_date) do nothing`;
const WAKE_PROGRAMME = `update payonce.pools p
set next_at = payonce.now()
where p.programme_id = $1
  and p.due_since is not null
  and p.wait_reason in ('PAUSED', 'NO_QUOTE', 'NO_POLICY')`;

/**
 * Makes a programme, or gives it other terms from now on; what is paid and how volume is counted stay. Durable on return; the same
 * terms again change nothing. Throws PO_REQUEST_INVALID that lists every fault.
 */
export async function putProgramme(
  deps: PayoutDeps,
  partnerId: string,
  name: string,
  asset: PaidAsset,
  request: TermsRequest,
): Promise<{ readonly outcome: 'made' | 'changed' | 'same'; readonly programme: Programme }> {
  const [row] = (
    await deps.pool.query<{ is_coin: boolean; is_zone: boolean; chain: string }>(TOLD, [
      asset.id,
      request.time_zone ?? 'UTC',
    ])
  ).rows;
  const { call, pays_by: paysBy } = request;
  const terms = readTerms(asset, request, {
    isCoin: row?.is_coin === true,
    isZone: row?.is_zone === true,
    mayCall: call === undefined || paysBy !== 'call' || deps.mayCall(row?.chain ?? '', call),
  });
  return deps.pool.tx('programme', async (tx) => {
    const before = (await lockNamed(tx, partnerId, name)) ?? (await make(tx, deps, partnerId, name, asset, terms));
    if ('made' in before) return { outcome: 'made', programme: before.made };
    const { known } = before;
    if (known.assetId !== asset.id || known.volumeDecimals !== terms.volumeDecimals)
      throw new PayonceError('PO_REQUEST_INVALID', {
        detail: `Programme ${name} pays ${known.assetCode} for volume with ${known.volumeDecimals} places; that stays`,
        pointer: known.assetId === asset.id ? '/volume_decimals' : '/asset',
        got: known.assetId === asset.id ? String(terms.volumeDecimals) : asset.id,
        expected: 'the same as when it was made, or another name',
      });
    if (sameTerms(known, terms)) return { outcome: 'same', programme: known };
    const call = terms.call === null ? null : JSON.stringify(terms.call);
    const { tierFrom, tierStep, cap, threshold, cutMin, timeZone, paysBy, quote, slippageBasisPoints, paused } = terms;
    const columns = [tierFrom, tierStep, cap, threshold, cutMin, timeZone, paysBy, call, quote, slippageBasisPoints];
    await tx.query(CHANGE, [known.id, ...columns, paused]);
    if (known.cutMin === null && cutMin !== null) await tx.query(BEGIN_CUTS, [known.id, timeZone, CUT_HOUR]);
    await tx.query(WAKE_PROGRAMME, [known.id]);
    return { outcome: 'changed', programme: await loaded(tx, known.id) };
  });
}

async function lockNamed(tx: Tx, partnerId: string, name: string): Promise<{ known: Programme } | null> {
  const { rowCount } = await tx.query(LOCK, [partnerId, name]);
  const known = rowCount === 0 ? undefined : (await loadNamed(tx, partnerId, [name])).get(name);
  return known === undefined ? null : { known };
}

async function make(
  tx: Tx,
  deps: PayoutDeps,
  partnerId: string,
  name: string,
  asset: PaidAsset,
  terms: Terms,
): Promise<{ made: Programme } | { known: Programme }> {
  const id = deps.makeId('prg');
  const { multiple, divisor } = rewardScale(asset.decimals, terms.volumeDecimals);
  const natural = lengthPrefixed([partnerId, name]);
  // Two at once: the second waits here for the first's commit, and is run again to find it.
  await storeSubjects(tx, [{ subjectType: 'programme', subjectId: id, partnerId, naturalKey: natural }]);
  const call = terms.call === null ? null : JSON.stringify(terms.call);
  const { volumeDecimals, tierFrom, tierStep, cap, threshold, cutMin, timeZone } = terms;
  const { paysBy, quote, slippageBasisPoints, paused } = terms;
  const frozen = [id, partnerId, name, asset.id, volumeDecimals, multiple, divisor];
  const columns = [tierFrom, tierStep, cap, threshold, cutMin, timeZone, paysBy, call, quote, slippageBasisPoints];
  await tx.query(MAKE, [...frozen, ...columns, paused]);
  if (cutMin !== null) await tx.query(BEGIN_CUTS, [id, timeZone, CUT_HOUR]);
  return { made: await loaded(tx, id) };
}

async function loaded(tx: Tx, id: string): Promise<Programme> {
  const programme = (await loadProgrammes(tx, [id])).get(id);
  if (programme === undefined) throw new Error(`programme ${id} is not there`);
  return programme;
}

function sameTerms(known: Programme, terms: Terms): boolean {
  const text = (one: Terms): string =>
    JSON.stringify([
      one.tierFrom.map(String),
      one.tierStep.map(String),
      one.cap?.toString(),
      one.threshold.toString(),
      one.cutMin?.toString(),
      one.timeZone,
      one.paysBy,
      one.call === null
        ? null
        : [
            one.call.to,
            one.call.data,
            one.call.value,
            one.call.logs.map((log) => [log.address, log.topics, log.minimumWord]),
          ],
      one.quote?.toString(),
      one.slippageBasisPoints,
      one.paused,
    ]);
  return text(known) === text(terms);
}

function readTerms(
  asset: PaidAsset,
  request: TermsRequest,
  { isCoin, isZone, mayCall }: { readonly isCoin: boolean; readonly isZone: boolean; readonly mayCall: boolean },
): Terms {
  const faults: FieldFault[] = [];
  const volumeDecimals = request.volume_decimals ?? asset.decimals;
  const units = (pointer: string, text: string, decimals: number, least: bigint): bigint => {
    const parsed = parseAmount(text, decimals);
    if (parsed.ok && parsed.units >= least) return parsed.units;
    faults.push({ pointer, got: text, expected: parsed.ok ? 'more than zero' : parsed.expected });
    return least;
  };
  const readQuote = (text: string): bigint => {
    const read = units('/quote', text, 0, 1n);
    if (read > QUOTE_MAX) faults.push({ pointer: '/quote', got: text, expected: `at most ${QUOTE_MAX}` });
    return read;
  };
  const { rate, tiers, call = null, quote, pays_by: paysBy = 'transfer' } = request;
  if ((rate === undefined) === (tiers === undefined))
    faults.push({
      pointer: '/rate',
      got: rate === undefined ? 'neither' : 'both',
      expected: 'either "rate", or "tiers"',
    });
  const steps = (tiers ?? [{ from: '0', rate: rate ?? '0' }]).map((tier, index) => ({
    from: units(`/tiers/${index}/from`, tier.from, volumeDecimals, 0n),
    rate: units(tiers === undefined ? '/rate' : `/tiers/${index}/rate`, tier.rate, RATE_DECIMALS, 0n),
    index,
  }));
  if (steps.length === 0 || steps.length > TIERS_MAX)
    faults.push({ pointer: '/tiers', got: String(steps.length), expected: `1 to ${TIERS_MAX} tiers` });
  for (const { from, rate: of, index } of steps) {
    if (of > RATE_MAX)
      faults.push({
        pointer: tiers === undefined ? '/rate' : `/tiers/${index}/rate`,
        got: formatUnits(of, RATE_DECIMALS),
        expected: `at most ${formatUnits(RATE_MAX, RATE_DECIMALS)}`,
      });
    const above = steps[index - 1]?.from;
    if (index === 0 ? from !== 0n : above === undefined || from <= above)
      faults.push({
        pointer: `/tiers/${index}/from`,
        got: formatUnits(from, volumeDecimals),
        expected: index === 0 ? '0: the first tier begins there' : 'more than the tier before',
      });
  }
  const timeZone = request.time_zone ?? 'UTC';
  if (!isZone || !isHostZone(timeZone))
    faults.push({ pointer: '/time_zone', got: timeZone, expected: 'an IANA name such as "Asia/Seoul"' });
  if ((paysBy === 'transfer') !== (call === null))
    faults.push({
      pointer: '/call',
      got: call === null ? 'nothing' : 'a call',
      expected: paysBy === 'transfer' ? 'nothing: "pays_by" is transfer' : `the contract, since "pays_by" is ${paysBy}`,
    });
  faults.push(...callFaults(isCoin, paysBy, call, quote));
  if (!mayCall)
    faults.push({
      pointer: '/call',
      got: `${call?.data.slice(0, 80) ?? ''} to ${call?.to ?? ''}`,
      expected: 'a call that the people who run this system allow: ask them for exactly this to, data and value',
    });
  const slippageBasisPoints = request.slippage_basis_points ?? 0;
  if (slippageBasisPoints > SLIPPAGE_BASIS_POINTS_MAX)
    faults.push({
      pointer: '/slippage_basis_points',
      got: String(slippageBasisPoints),
      expected: `at most ${SLIPPAGE_BASIS_POINTS_MAX}`,
    });
  const terms: Terms = {
    volumeDecimals,
    tierFrom: steps.map((one) => one.from),
    tierStep: steps.map((one) => one.rate - (steps[one.index - 1]?.rate ?? 0n)),
    cap: request.cap === undefined ? null : units('/cap', request.cap, asset.decimals, 1n),
    threshold: units('/threshold', request.threshold, volumeDecimals, 1n),
    cutMin: request.cut_min === undefined ? null : units('/cut_min', request.cut_min, asset.decimals, 1n),
    timeZone,
    paysBy,
    call,
    quote: quote === undefined ? null : readQuote(quote),
    slippageBasisPoints,
    paused: request.paused ?? false,
  };
  const [first] = faults;
  if (first !== undefined) throw new PayonceError('PO_REQUEST_INVALID', { ...first, faults });
  return terms;
}

function callFaults(
  isCoin: boolean,
  paysBy: PaysBy,
  call: CallTemplate | null,
  quote: string | undefined,
): FieldFault[] {
  if (call === null || paysBy !== 'call') return [];
  const faults: FieldFault[] = [];
  const fault = templateFault(call);
  if (fault !== null)
    faults.push({ pointer: `/${fault.field.replaceAll(/[.[\]]+/g, '/')}`, got: fault.got, expected: fault.expected });
  if (call.value === 'amount' && !isCoin)
    faults.push({
      pointer: '/call/value',
      got: 'amount',
      expected: 'nothing: the asset is a token, and a value is coin',
    });
  if (needsQuote(call) && quote === undefined)
    faults.push({ pointer: '/quote', got: 'nothing', expected: 'a quote: the call has a least output' });
  return faults;
}

function isHostZone(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone }).format(0);
    return /^[A-Za-z0-9_+/-]{1,60}$/.test(timeZone);
  } catch {
    return false;
  }
}

const ADDRESS = `select d.address
from payonce.creator_addresses d
where d.creator_id = $1
  and d.chain = $2
order by d.id desc
limit 1`;
const SET_ADDRESS = `insert into payonce.creator_addresses (creator_id, chain, address)
values ($1, $2, $3)`;
const WAKE_CREATOR = `update payonce.pools p
set next_at = payonce.now()
where p.creator_id = $1
  and p.due_since is not null
  and p.wait_reason in ('NO_ADDRESS', 'ADDRESS_OURS', 'MOVED_NOTHING')`;

/** A creator's address on a chain, in its canonical spelling: for the next payout. Durable on return. */
export async function putCreator(
  deps: PayoutDeps,
  partnerId: string,
  externalId: string,
  to: { readonly chain: string; readonly address: string },
): Promise<{ readonly id: string; readonly changed: boolean }> {
  return deps.pool.tx('creator', async (tx) => {
    if ((await loadOwnAddresses(tx, [to])).has(`${to.chain}:${to.address}`))
      throw new PayonceError('PO_DESTINATION_REFUSED', {
        pointer: '/address',
        got: to.address,
        detail: 'it is an address of this system, or a token’s contract',
      });
    const ids = await ensureCreators(tx, partnerId, [{ id: deps.makeId('crt'), externalId }]);
    const id = ids.get(externalId);
    if (id === undefined) throw new Error('a creator that was made is not there');
    const [row] = (await tx.query<{ address: string }>(ADDRESS, [id, to.chain])).rows;
    if (row?.address === to.address) return { id, changed: false };
    await tx.query(SET_ADDRESS, [id, to.chain, to.address]);
    await tx.query(WAKE_CREATOR, [id]);
    return { id, changed: true };
  });
}
