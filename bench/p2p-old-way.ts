/*
 * The incident's way of matching, kept as a counter-example (M): in the buyer's own request, one transaction that locks the
 * partner's row and up to ten sellers' orders, and calls the provider while it holds them. Tables of its own, without triggers.
 */
import pg from 'pg';

const TABLES = `
create table old_partners (id int primary key);
create table old_sellers (id int primary key, amount numeric not null, reserved numeric not null default 0) with (fillfactor = 70);
create table old_orders (id bigint generated always as identity primary key, partner int not null, amount numeric not null, status text not null, created_at timestamptz not null default now());
create table old_legs (id bigint generated always as identity primary key, order_id bigint not null references old_orders (id), seller int, amount numeric not null);
insert into old_partners select n from generate_series(1, 50) n;
insert into old_sellers (id, amount) select n, 10 ^ 12 from generate_series(1, 50) n`;

export interface OldWay {
  /** One request: answers when it is matched. `takesLp`: what sellers do not fill is a provider's. */
  order(takesLp: boolean, latencyMs: number): Promise<void>;
  end(): Promise<void>;
}

export async function makeOldWay(url: string, connections: number): Promise<OldWay> {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  // Its connections are cut when a run is over, and what waits in them with it.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));
  await pool.query(TABLES);
  let count = 0;
  return {
    async order(takesLp, latencyMs) {
      count += 1;
      const partner = 1 + (count % 50);
      const client = await pool.connect();
      try {
        await client.query('begin');
        await client.query('select 1 from old_partners where id = $1 for update', [partner]);
        const { rows } = await client.query<{ id: string }>(
          "insert into old_orders (partner, amount, status) values ($1, 100, 'matched') returning id",
          [partner],
        );
        const sellers = await client.query<{ id: number }>(
          'select id from old_sellers where amount - reserved >= 50 order by id limit 10 for update',
        );
        const [seller] = sellers.rows;
        await client.query('update old_sellers set reserved = reserved + 50 where id = $1', [seller?.id]);
        await client.query('insert into old_legs (order_id, seller, amount) values ($1, $2, 50)', [
          rows[0]?.id,
          seller?.id,
        ]);
        if (takesLp) {
          await new Promise((resolve) => setTimeout(resolve, latencyMs));
          await client.query('insert into old_legs (order_id, amount) values ($1, 50)', [rows[0]?.id]);
        }
        await client.query('commit');
      } finally {
        client.release();
      }
    },
    end: () => pool.end(),
  };
}
