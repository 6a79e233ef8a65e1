/*
 * A database with partners, subjects and endpoints, and couriers over it: what the tests of the outbox start from.
 */
import { randomBytes } from 'node:crypto';
import { makePool, type Pool, type Tx } from '../../src/db/pool.ts';
import { makeIds } from '../../src/kernel/ids.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemChance, systemClock, systemPorts } from '../../src/kernel/ports.ts';
import { type Courier, type CourierOptions, makeCourier } from '../../src/outbox/courier.ts';
import { emit } from '../../src/outbox/emit.ts';
import { testDatabase } from '../support/postgres.ts';

export const masterSecret = randomBytes(32);
export const makeId = makeIds(systemClock, systemChance);

export interface DeliveryRow {
  id: bigint;
  state: string;
  attempts: number;
  last_status: number | null;
  last_error: string | null;
  lease_token: bigint;
  wait_ms: number;
  sequence: bigint;
}

export interface CourierWorld {
  readonly pool: Pool;
  courier(timing?: CourierOptions['timing']): Courier;
  partner(): Promise<string>;
  endpoint(partnerId: string, url: string): Promise<string>;
  subject(partnerId: string): Promise<string>;
  /** Emits one event of this subject and answers its id. */
  event(subjectId: string, type?: string): Promise<string>;
  emitIn(tx: Tx, subjectId: string, type?: string): Promise<void>;
  deliveries(endpointId: string): Promise<DeliveryRow[]>;
  /** Lets every back-off be over. */
  makeDue(): Promise<void>;
  close(): Promise<void>;
}

export async function makeCourierWorld(label: string): Promise<CourierWorld> {
  const database = await testDatabase(label);
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog });
  const couriers: Courier[] = [];
  async function emitIn(tx: Tx, subjectId: string, type = 'withdrawal.confirmed'): Promise<void> {
    await emit(tx, makeId, [{ subjectType: 'withdrawal', subjectId, type, data: { amount: '12.50' } }]);
  }
  return {
    pool,
    courier(timing = {}) {
      const options = { pool, ports: systemPorts(), log: silentLog, masterSecret, policy: { allowPrivate: true } };
      // No straggler unless a test wants one: a round ends with its last answer.
      const courier = makeCourier({ ...options, timing: { roundMs: 20_000, ...timing } });
      couriers.push(courier);
      return courier;
    },
    async partner() {
      const id = makeId('par');
      await pool.query('insert into payonce.partners (id, name) values ($1, $1)', [id]);
      return id;
    },
    async endpoint(partnerId, url) {
      const id = makeId('ep');
      await pool.query('insert into payonce.endpoints (id, partner_id, url) values ($1, $2, $3)', [id, partnerId, url]);
      return id;
    },
    async subject(partnerId) {
      const id = makeId('wd');
      await pool.query(
        "insert into payonce.subjects (type, id, partner_id, natural_key) values ('withdrawal', $1, $2, $1)",
        [id, partnerId],
      );
      return id;
    },
    emitIn,
    async event(subjectId, type) {
      await pool.tx('test emit', (tx) => emitIn(tx, subjectId, type));
      const { rows } = await pool.query<{ event_id: string }>(
        'select event_id from payonce.events where subject_id = $1 order by sequence desc limit 1',
        [subjectId],
      );
      return rows[0]?.event_id ?? '';
    },
    async deliveries(endpointId) {
      const { rows } = await pool.query<DeliveryRow & Record<string, unknown>>(
        `select id, state, attempts, last_status, last_error, lease_token, sequence,
           (extract(epoch from next_at - payonce.now()) * 1000)::float8 as wait_ms
         from payonce.deliveries where endpoint_id = $1 order by id`,
        [endpointId],
      );
      return rows;
    },
    async makeDue() {
      await pool.query("update payonce.deliveries set next_at = payonce.now() where state = 'waiting'");
    },
    async close() {
      for (const courier of couriers) await courier.close();
      await pool.end();
      await database.drop();
    },
  };
}
