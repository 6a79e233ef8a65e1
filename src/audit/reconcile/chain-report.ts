/** A report of one wallet: its shape, and how machines read it. Amounts are decimal text in the asset's own places. */
import type { BlockRef } from '../../flows/deposits/index.ts';
import { formatUnits } from '../../kernel/money.ts';
import {
  CHAIN_FINDINGS,
  type ChainFinding,
  type ChainFindingKind,
  type Matched,
  type OwnWallet,
} from './chain-match.ts';
import type { ChainAsset, RepairFact } from './chain-store.ts';

/** One asset at one wallet; units. */
export interface AssetSums {
  readonly assetId: string;
  /** `null`: nothing is known of it. */
  readonly opening: bigint | null;
  /** `report`: an earlier run was told a balance at `openingTold`. `first_movement`: no node tells it, and nothing was there before
   *  what the range shows. `untold`: it is only what the closing leaves over, so IN less OUT is compared with nothing. */
  readonly openingFrom: 'chain' | 'report' | 'first_movement' | 'untold';
  readonly openingTold: bigint | null;
  readonly came: bigint;
  readonly went: bigint;
  readonly cost: bigint;
  /** At the last block; `null`: no node tells. */
  readonly closing: bigint | null;
  /** What the chain told, and of which block: the last one, or its head then, from which what moved since is taken off. */
  readonly told: { readonly units: bigint; readonly block: BlockRef } | null;
  /** Closing less opening and movements; 0 where they agree, `null` where they could not be compared. */
  readonly difference: bigint | null;
  /** What the ledger has there now; `null`: not compared, the last block is too far back. */
  readonly booked: bigint | null;
  /** What the ledger has too much (below 0: too little), after all that the range explains. */
  readonly ledgerDifference: bigint | null;
  /** Nothing was told because the last block is far below the head, and nodes keep no old states. */
  readonly isTooFar: boolean;
  readonly fault: string;
  /** The last block. */
  readonly to: bigint;
}

/** How IN − OUT − cost was held against the chain, in words; where it was not, that and why. */
export function howCompared(one: AssetSums): string {
  if (one.closing === null || one.told === null)
    return `not compared: no node tells the balance at block ${one.to}${one.isTooFar ? ', which is far below the head' : ''} (${one.fault})`;
  const told = one.told.block.number;
  const end =
    told === one.to
      ? `the chain told the balance at block ${told}`
      : `the chain told the balance at its head ${told}, and what moved after block ${one.to} is taken off`;
  switch (one.openingFrom) {
    case 'chain':
      return `${end}; it told the opening too`;
    case 'report':
      return `${end}; the opening is what it told an earlier run at block ${one.openingTold ?? '?'}, less what moved until then`;
    case 'first_movement':
      return `${end}; no node tells the opening: it is 0 where the range has the wallet's first movement`;
    case 'untold':
      return `not compared: ${end}, but no node tells the opening (${one.fault}), so it is what is left over${one.ledgerDifference === null ? '' : '; the ledger was compared with the balance'}`;
  }
}

export interface ChainReport {
  readonly chain: string;
  readonly wallet: OwnWallet;
  readonly from: bigint;
  readonly to: bigint;
  readonly toHash: string;
  readonly counts: Matched['counts'];
  readonly sums: readonly AssetSums[];
  readonly findings: readonly ChainFinding[];
  /** What two persons have booked already. */
  readonly repaired: readonly { readonly finding: ChainFinding; readonly repair: RepairFact }[];
  readonly assets: readonly ChainAsset[];
  readonly comparedLedger: boolean;
  readonly reportId: bigint;
  /** Of `findings`, in order: what a repair names. */
  readonly findingIds: readonly bigint[];
}

/** Findings of one partner, kind, side and asset. */
export interface PartnerSum {
  readonly partnerId: string | null;
  readonly kind: ChainFindingKind;
  readonly direction: 'out' | 'in' | null;
  readonly assetId: string;
  readonly count: number;
  readonly amount: bigint;
}

/** Of one report or of several; each finding is summed in the asset that it is in. */
export function sumByPartner(findings: readonly ChainFinding[]): PartnerSum[] {
  const groups = Map.groupBy(findings, (one) =>
    JSON.stringify([one.partnerId ?? '', one.kind, one.direction ?? '', one.assetId]),
  );
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, list]) => {
      const [first] = list;
      if (first === undefined) return [];
      const { partnerId, kind, direction, assetId } = first;
      return [
        {
          partnerId,
          kind,
          direction,
          assetId,
          count: list.length,
          amount: list.reduce((sum, one) => sum + one.amount, 0n),
        },
      ];
    });
}

type Told = Omit<ChainReport, 'reportId' | 'findingIds'> & Partial<Pick<ChainReport, 'reportId' | 'findingIds'>>;

export function toChainJson(report: Told): object {
  const assets = new Map(report.assets.map((asset) => [asset.id, asset]));
  const amount = (units: bigint | null, assetId: string): string | null =>
    units === null ? null : formatUnits(units, assets.get(assetId)?.decimals ?? 0);
  const code = (assetId: string): string => assets.get(assetId)?.code ?? assetId;
  const shown = (one: ChainFinding, index: number | null): object => ({
    ...(index === null || report.findingIds === undefined ? {} : { id: report.findingIds[index]?.toString() ?? null }),
    kind: one.kind,
    says: CHAIN_FINDINGS[one.kind],
    direction: one.direction,
    partner_id: one.partnerId,
    asset: code(one.assetId),
    asset_id: one.assetId,
    amount: amount(one.amount, one.assetId),
    block: one.blockNumber?.toString() ?? null,
    tx_hash: one.txHash,
    position: one.position,
    counterparty: one.counterparty,
    effect_id: one.effect?.id.toString() ?? null,
    subject: one.effect === null ? null : `${one.effect.subjectType} ${one.effect.subjectId}`,
    effect_state: one.effect?.state ?? null,
    detail: one.detail,
  });
  return {
    ok: report.findings.length === 0,
    ...(report.reportId === undefined ? {} : { report_id: report.reportId.toString() }),
    chain: report.chain,
    wallet: report.wallet.address,
    kind: report.wallet.kind,
    partner_id: report.wallet.partnerId,
    from_block: report.from.toString(),
    to_block: report.to.toString(),
    to_hash: report.toHash,
    counts: {
      outflows: report.counts.outflows,
      inflows: report.counts.inflows,
      by_effect: report.counts.byEffect,
      by_record: report.counts.byRecord,
      under_way: report.counts.underWay,
      transactions: report.counts.transactions,
    },
    ledger_compared: report.comparedLedger,
    assets: report.sums.map((one) => ({
      asset: code(one.assetId),
      asset_id: one.assetId,
      opening: amount(one.opening, one.assetId),
      opening_from: one.openingFrom,
      opening_told_at: one.openingTold?.toString() ?? null,
      in: amount(one.came, one.assetId),
      out: amount(one.went, one.assetId),
      cost: amount(one.cost, one.assetId),
      balance: amount(one.closing, one.assetId),
      told:
        one.told === null
          ? null
          : { units: one.told.units.toString(), block: one.told.block.number.toString(), hash: one.told.block.hash },
      compared: one.difference !== null,
      how: howCompared(one),
      difference: amount(one.difference, one.assetId),
      booked: amount(one.booked, one.assetId),
      ledger_difference: amount(one.ledgerDifference, one.assetId),
    })),
    partners: sumByPartner(report.findings).map((one) => ({
      partner_id: one.partnerId,
      kind: one.kind,
      direction: one.direction,
      asset: code(one.assetId),
      asset_id: one.assetId,
      count: one.count,
      amount: amount(one.amount, one.assetId),
    })),
    findings: report.findings.map(shown),
    repaired: report.repaired.map(({ finding, repair }) => ({
      ...shown(finding, null),
      booked_as: repair.bookedAs,
      proposal_id: repair.proposalId,
      repaired_by: repair.by,
    })),
  };
}

const COLUMNS = [
  'chain',
  'wallet',
  'finding_id',
  'kind',
  'direction',
  'partner_id',
  'asset',
  'amount',
  'block',
  'tx_hash',
  'position',
  'counterparty',
  'effect_id',
  'subject',
  'repaired_by',
  'detail',
] as const;

/** RFC 4180, one line per finding and per repaired one, of all reports; a header always. */
export function toChainCsv(reports: readonly ChainReport[]): string {
  const lines = reports.flatMap((report) => {
    const assets = new Map(report.assets.map((asset) => [asset.id, asset]));
    const line = (one: ChainFinding, id: bigint | null, by: string): string =>
      [
        report.chain,
        report.wallet.address,
        id?.toString() ?? '',
        one.kind,
        one.direction ?? '',
        one.partnerId ?? '',
        assets.get(one.assetId)?.code ?? one.assetId,
        formatUnits(one.amount, assets.get(one.assetId)?.decimals ?? 0),
        one.blockNumber?.toString() ?? '',
        one.txHash ?? '',
        one.position?.toString() ?? '',
        one.counterparty ?? '',
        one.effect?.id.toString() ?? '',
        one.effect === null ? '' : `${one.effect.subjectType} ${one.effect.subjectId}`,
        by,
        one.detail,
      ]
        .map(cell)
        .join(',');
    return [
      ...report.findings.map((one, index) => line(one, report.findingIds[index] ?? null, '')),
      ...report.repaired.map(({ finding, repair }) => line(finding, null, repair.by.join(' and '))),
    ];
  });
  return [COLUMNS.join(','), ...lines].join('\r\n');
}

/** A cell that a spreadsheet would run as a formula is written as text. */
function cell(text: string): string {
  const safe = /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
