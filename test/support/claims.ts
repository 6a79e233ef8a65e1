/*
 * A table of effects with many ended ones and few open ones, made at once: as superuser, without triggers and foreign keys
 * (session_replication_role), since a million whole lives would take an hour. And the plan of a statement as it was run.
 */
import pg from 'pg';
import type { Pool, Tx } from '../../src/db/pool.ts';

export interface SeededEffects {
  readonly rail: string;
  readonly signers: readonly string[];
  readonly ended: number;
  /** Open ones of each queue, all due. */
  readonly open: number;
}

/** Before the first row: statistics come when the test says so, not when the autovacuum daemon does. */
const NEVER_ANALYSED = 'alter table payonce.effects set (autovacuum_enabled = false)';

const PARENTS = `insert into payonce.rails (name) values ($1) on conflict do nothing`;
const SIGNERS = `insert into payonce.signers (rail, address, label, next_nonce)
select $1, address, 'seeded', 0
from unnest($2::text[]) as u (address)
on conflict do nothing`;

const SEED = `insert into payonce.effects
  (subject_type, subject_id, seq, partner_id, rail, state, asset_id, amount, destination, wallet, signer, hold_key, next_at, lease_token,
   identity, payload, expect, sealed_at, first_sent_at, last_sent_at, send_count, settled_by, ended_at, transitions)
select 'withdrawal', 'seeded-' || $3::text || n, 1, 'par_' || n % 100, $1, $3, 'seeded', 1000000, 'somebody-' || n, w.signer, w.signer,
       'withdrawal:seeded-' || n || ':1', payonce.now() - interval '1 hour', 1,
       case when $3 <> 'PENDING' then $3::text || ':' || n end, case when $3 <> 'PENDING' then '\\x7b7d'::bytea end,
       case when $3 <> 'PENDING' then '{}'::jsonb end, s.at, s.at, s.at, case when $3 <> 'PENDING' then 1 else 0 end,
       case when $3 = 'SETTLED' then n end, case when $3 = 'SETTLED' then s.at end, 2
from generate_series(1, $4::int) n
cross join lateral (select ($2::text[])[1 + n % cardinality($2::text[])] as signer) w
cross join lateral (select case when $3 <> 'PENDING' then payonce.now() end as at) s`;

export async function seedEffects(url: string, given: SeededEffects): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('set session_replication_role = replica');
    await client.query(NEVER_ANALYSED);
    await client.query(PARENTS, [given.rail]);
    await client.query(SIGNERS, [given.rail, given.signers]);
    for (const [state, count] of [
      ['SETTLED', given.ended],
      ['PENDING', given.open],
      ['SEALED', given.open],
    ])
      await client.query(SEED, [given.rail, given.signers, state, count]);
  } finally {
    await client.end();
  }
}

/** Runs a claim or an edge and answers how PostgreSQL ran it; what it changes is changed. */
export async function planOf(pool: Pool, act: (tx: Tx) => Promise<unknown>): Promise<string> {
  const lines: string[] = [];
  await pool.tx('explain', (tx) =>
    act({
      ...tx,
      async query(sql, values) {
        // What sets the planner up is no statement of the claim's own.
        if (sql.startsWith('select set_config')) return tx.query(sql, values);
        const result = await tx.query<{ 'QUERY PLAN': string }>(
          `explain (analyze, buffers, timing off) ${sql}`,
          values,
        );
        lines.push(...result.rows.map((row) => row['QUERY PLAN']));
        return { rows: [], rowCount: 0 };
      },
    }),
  );
  return lines.join('\n');
}
