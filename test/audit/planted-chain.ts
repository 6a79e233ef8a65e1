/* A chain as data: transfers planted in blocks of one's own choosing, served by a node that keeps what they add up to. */
import type { ChainBlock, ChainNode } from '../../src/audit/reconcile/chain-read.ts';
import type { Pool } from '../../src/db/pool.ts';

const TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const word = (hex: string): string => `0x${hex.replace(/^0x/, '').padStart(64, '0')}`;

export interface Planted {
  readonly block: bigint;
  readonly txHash: string;
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
}

export interface PlantedOptions {
  readonly token: string;
  readonly head: bigint;
  readonly transfers: readonly Planted[];
  readonly firstSeconds: bigint;
}

const hashOf = (number: bigint): string => word(`b10c${number.toString(16).padStart(8, '0')}`);

export function plantedNode(options: PlantedOptions, operator = 'operator-1'): ChainNode {
  const { token, head, transfers, firstSeconds } = options;
  const byBlock = Map.groupBy(transfers, (one) => one.block);
  const block = (number: bigint): ChainBlock => ({
    number,
    hash: hashOf(number),
    parentHash: hashOf(number - 1n),
    timestamp: firstSeconds + number,
    transactions: (byBlock.get(number) ?? []).map((one) => ({
      hash: one.txHash,
      from: one.from,
      to: token,
      value: 0n,
      nonce: 0n,
      receipt: {
        hash: one.txHash,
        blockHash: hashOf(number),
        succeeded: true,
        cost: 0n,
        logs: [{ address: token, topics: [TOPIC, word(one.from), word(one.to)], data: word(one.amount.toString(16)) }],
      },
    })),
  });
  const header = (number: bigint) => ({
    ok: true as const,
    value: { number, hash: hashOf(number), parentHash: hashOf(number - 1n) },
  });
  return {
    source: `planted ${operator}`,
    operator,
    finalizedHead: () => Promise.resolve(header(head)),
    latestHead: () => Promise.resolve(header(head)),
    readHeader: (number) => Promise.resolve(header(number)),
    readBlocks: (numbers) => Promise.resolve(numbers.map((number) => ({ ok: true as const, value: block(number) }))),
    readBalances: (at, holders) =>
      Promise.resolve(
        holders.map(({ address, contract }) => {
          const moved = transfers.filter((one) => one.block <= at.number && contract === token);
          const came = moved.reduce((sum, one) => (one.to === address ? sum + one.amount : sum), 0n);
          return {
            ok: true as const,
            value: moved.reduce((sum, one) => (one.from === address ? sum - one.amount : sum), came),
          };
        }),
      ),
    findTransactions: (hashes) =>
      Promise.resolve(
        hashes.map((hash) => ({
          ok: true as const,
          value: transfers.find((one) => one.txHash === hash)?.block ?? null,
        })),
      ),
  };
}

export interface PlantedEffect extends Planted {
  readonly subjectType: string;
  readonly subjectId: string;
  readonly partnerId: string;
  readonly rail: string;
  readonly chain: string;
  readonly assetId: string;
}

/** Effects that were sealed, sent and settled, each with the hash that it was signed under, and its custody booked. */
export async function plantSettled(pool: Pool, effects: readonly PlantedEffect[]): Promise<void> {
  await pool.tx('plant', async (tx) => {
    for (const one of effects) {
      const { subjectType, subjectId, partnerId, rail, chain, assetId, amount, from, to, txHash } = one;
      await tx.query('insert into payonce.subjects (type, id, partner_id, natural_key) values ($1, $2, $3, $2)', [
        subjectType,
        subjectId,
        partnerId,
      ]);
      const { rows } = await tx.query<{ id: bigint }>(
        `insert into payonce.effects (subject_type, subject_id, seq, partner_id, rail, asset_id, amount, destination, wallet, signer)
         values ($1, $2, 1, $3, $4, $5, $6, $7, $8, $8) returning id`,
        [subjectType, subjectId, partnerId, rail, assetId, amount, to, from],
      );
      const id = rows[0]?.id;
      await tx.query(
        `update payonce.effects
         set state = 'SEALED', identity = $2, payload = convert_to('{"to":"token","value":"0","data":"0x"}', 'UTF8'), expect = '{}',
             sealed_at = payonce.now(), first_sent_at = payonce.now(), send_count = 1
         where id = $1`,
        [id, txHash],
      );
      await tx.query(
        `insert into payonce.effect_variants (effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee)
         values ($1, 'original', $2, '\\x00', 'token', 0, '0x', 0, 0, 0)`,
        [id, txHash],
      );
      const evidence = await tx.query<{ id: bigint }>(
        `insert into payonce.effect_evidence (effect_id, kind, rank, source, operator, object_id, detail, send_number, lease_token)
         values ($1, 'FINAL_SUCCESS', 'object', 'planted', 'planted', $2, 'planted', 1, 0) returning id`,
        [id, txHash],
      );
      await tx.query(
        `update payonce.effects set state = 'SETTLED', settled_by = $2, ended_at = payonce.now() where id = $1`,
        [id, evidence.rows[0]?.id],
      );
      const codes = [`custody:${chain}:${from}`, `custody:${chain}:${to}`];
      await tx.query(
        `insert into payonce.accounts (code, asset_id) select code, $2 from unnest($1::text[]) as c (code) order by code on conflict do nothing`,
        [codes, assetId],
      );
      const accounts = new Map(
        (
          await tx.query<{ id: bigint; code: string }>(
            'select id, code from payonce.accounts where code = any ($1::text[]) and asset_id = $2',
            [codes, assetId],
          )
        ).rows.map((row) => [row.code, row.id]),
      );
      await tx.query(
        `select * from payonce.post(array['post'], array[$1], array[$1], array[$2]::bigint[], array[null]::bigint[], array[null]::text[],
           array[1, 1], array[$3, $4]::bigint[], array[$5, -($5::numeric)]::numeric[])`,
        [`MIGRATED:${subjectId}`, id, accounts.get(codes[0] ?? ''), accounts.get(codes[1] ?? ''), amount],
      );
    }
  });
}
