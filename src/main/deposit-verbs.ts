/**
 * What two persons may decide about deposits after a chain took back what it had called final: let the scan go on, and
 * reverse a deposit whose block has gone. Each is bound to the case that is about it, and asks the chain first: a deposit
 * that stands is not reversed, and an act that changes nothing leaves its case open.
 */
import type { AboutCase, FlowVerb } from '../engine/deps.ts';
import { resumeScan, reverseDeposit } from '../flows/deposits/index.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Log } from '../kernel/log.ts';
import type { Pool } from '../db/pool.ts';
import type { Chart } from '../ledger/accounts.ts';

/** As much of a rail's block readers as is needed to ask whether a block stands. */
interface Headers {
  readHeader(number: bigint): Promise<{ ok: true; value: { hash: string } } | { ok: false; fault: string }>;
}

interface VerbDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chart: Chart;
  readonly log: Log;
  /** The nodes of a chain by its CAIP-2 name. */
  nodesOf(chain: string): readonly Headers[];
}

const HALTED = `select next_block
from payonce.scan_cursors
where chain = $1
  and halted_reason like 'finality_broken:%'`;

const DEPOSIT = `select d.state, t.id as transfer_id, t.chain, t.block_number, t.block_hash
from payonce.deposits d
join payonce.chain_transfers t on t.id = d.transfer_id
where d.id = $1`;

export function makeDepositVerbs(deps: VerbDeps): Record<'resume_scan' | 'reverse_deposit' | 'close', FlowVerb> {
  const halted = async (chain: string): Promise<bigint | null> =>
    (await deps.pool.query<{ next_block: bigint }>(HALTED, [chain])).rows[0]?.next_block ?? null;

  return {
    resume_scan: {
      async objection(about, { chain, from_block: from }) {
        if (chain === undefined || from === undefined) return 'resume_scan needs a chain and the block to go on from';
        if (!/^(0|[1-9][0-9]{0,17})$/.test(from)) return `from_block: got "${from}", expected a block number`;
        if (about.kind !== 'broken_finality' || about.subjectKey !== chain)
          return `this case is not about the scan of ${chain}`;
        const next = await halted(chain);
        if (next === null) return `the scan of ${chain} is not halted`;
        return BigInt(from) > next ? `the scan had come to block ${next}; it cannot go on from ${from}` : null;
      },
      async carryOut(tx, { detail }) {
        const [chain, from] = [detail['chain'] ?? '', BigInt(detail['from_block'] ?? '0')];
        const outcome = await resumeScan(tx, chain, from);
        if (outcome !== 'resumed') return { refused: `the scan of ${chain} is ${outcome}` };
        return { did: `the scan of ${chain} goes on from block ${from}`, closesCase: true };
      },
    },
    reverse_deposit: {
      async objection(about, { deposit_id: id }) {
        if (id === undefined) return 'reverse_deposit needs the deposit';
        const { rows } = await deps.pool.query<{
          state: string;
          transfer_id: bigint;
          chain: string;
          block_number: bigint;
          block_hash: string;
        }>(DEPOSIT, [id]);
        const deposit = rows[0];
        if (deposit === undefined) return `there is no deposit ${id}`;
        if (deposit.state !== 'credited') return `deposit ${id} is ${deposit.state}`;
        if (!isAbout(about, deposit.chain, deposit.transfer_id))
          return `this case is not about deposit ${id} or its chain`;
        const headers = await Promise.all(
          deps.nodesOf(deposit.chain).map((node) => node.readHeader(deposit.block_number)),
        );
        if (headers.some((header) => header.ok && header.value.hash === deposit.block_hash))
          return `block ${deposit.block_number} with deposit ${id} stands on the chain`;
        return headers.some((header) => header.ok)
          ? null
          : 'no node tells whether its block stands; try again when one answers';
      },
      async carryOut(tx, { id: proposalId, about, detail }) {
        const depositId = detail['deposit_id'] ?? '';
        const reversal = await reverseDeposit(tx, deps, { depositId, proposalId });
        if (reversal.outcome !== 'reversed') return { refused: `deposit ${depositId}: ${reversal.outcome}` };
        // The case of a whole chain stays open until its scan goes on: several deposits may have vanished.
        return {
          did: `reversed ${depositId}; the account is ${reversal.missing} units under its floor`,
          closesCase: about.subjectKey.includes(':transfer:'),
        };
      },
    },
    close: {
      async objection(about) {
        if (about.kind !== 'broken_finality' || (await halted(about.subjectKey)) === null) return null;
        return `the scan of ${about.subjectKey} is halted: resume it first, with resume_scan`;
      },
    },
  };
}

function isAbout(about: AboutCase, chain: string, transferId: bigint): boolean {
  if (about.kind !== 'broken_finality' && about.kind !== 'deposit_reversed') return false;
  return about.subjectKey === chain || about.subjectKey === `${chain}:transfer:${transferId}`;
}
