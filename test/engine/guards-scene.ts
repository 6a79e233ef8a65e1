/*
 * Effects in every state, made by plain statements of the tables' owner: what the tests of the schema's guards start from.
 */
import assert from 'node:assert/strict';
import pg from 'pg';
import { testDatabase } from '../support/postgres.ts';

export type Given = 'PENDING' | 'SEALED' | 'SETTLED' | 'RELEASED';

export interface Scene {
  readonly psql: pg.Client;
  /** An effect in this state, of a subject of its own. */
  effect(state: Given): Promise<bigint>;
  /** Evidence of a kind; answers its id. */
  evidence(
    effectId: bigint,
    kind: string,
    fields?: { rank?: string; objectId?: string; proposalId?: string },
  ): Promise<bigint>;
  /** A proposal on a case of this effect, by Ann; approved by Bob unless `open`. */
  proposal(effectId: bigint, verb: string, detail?: object, open?: boolean): Promise<string>;
  seal(effectId: bigint): Promise<void>;
  release(effectId: bigint, evidenceId: bigint, rank?: 'dead' | 'believed'): Promise<void>;
  settle(effectId: bigint, evidenceId: bigint): Promise<void>;
  /** The statement is refused, and by this constraint or trigger; what was there stays. */
  refusedBy(guard: string, sql: string, values?: readonly unknown[]): Promise<void>;
  one<T>(sql: string, values?: readonly unknown[]): Promise<T>;
  begin(): Promise<void>;
  rollback(): Promise<void>;
  end(): Promise<void>;
}

const PAYLOAD = '{"to":"0xtoken","value":"0","data":"0xa9"}';

const FIXTURE = `
insert into payonce.partners (id, name) values ('par', 'Partner'), ('other', 'Other');
insert into payonce.assets (id, code, chain, contract, decimals) values ('usdt', 'USDT', 'chain', '0xtoken', 6);
insert into payonce.rails (name) values ('rail');
insert into payonce.signers (rail, address, label, next_nonce) values ('rail', '0xsigner', 'hot', 7);
insert into payonce.operators (id, name, key_hash, role) values ('ann', 'Ann', 'a', 'operator'), ('bob', 'Bob', 'b', 'approver');
insert into payonce.addresses (id, chain, address, kind, partner_id) values ('adr', 'chain', '0xdeposit', 'DEPOSIT', 'par');
`;

export async function makeScene(label: string): Promise<Scene> {
  const database = await testDatabase(label);
  const psql = new pg.Client({ connectionString: database.url });
  await psql.connect();
  await psql.query(FIXTURE);
  let counter = 0;

  async function one<T>(sql: string, values: readonly unknown[] = []): Promise<T> {
    const { rows } = await psql.query<Record<string, T>>(sql, [...values]);
    const [row] = rows;
    assert(row !== undefined, `no row: ${sql}`);
    return Object.values(row)[0] as T;
  }

  const scene: Scene = {
    psql,
    one,
    async effect(state) {
      counter += 1;
      const subject = `wd_${counter}`;
      await psql.query(
        "insert into payonce.subjects (type, id, partner_id, natural_key) values ('withdrawal', $1, 'par', $1)",
        [subject],
      );
      const id = await one<bigint>(
        `insert into payonce.effects (subject_type, subject_id, seq, partner_id, rail, asset_id, amount, destination, wallet, signer)
         values ('withdrawal', $1, 1, 'par', 'rail', 'usdt', 100, '0xpayee', '0xwallet', '0xsigner') returning id`,
        [subject],
      );
      if (state === 'PENDING') return id;
      await scene.seal(id);
      if (state === 'SETTLED') await scene.settle(id, await scene.evidence(id, 'FINAL_SUCCESS'));
      if (state === 'RELEASED') await scene.release(id, await scene.evidence(id, 'REVERTED_FINAL'));
      return id;
    },
    evidence: (effectId, kind, fields = {}) =>
      one<bigint>(
        `insert into payonce.effect_evidence (effect_id, kind, rank, source, operator, object_id, detail, send_number, lease_token, proposal_id)
         select $1, k.kind, coalesce($3, k.rank), 'psql', 'psql', $4, '', 1, 0, $5 from payonce.evidence_kinds k where k.kind = $2
         returning id`,
        [effectId, kind, fields.rank ?? null, fields.objectId ?? null, fields.proposalId ?? null],
      ),
    async proposal(effectId, verb, detail = {}, open = false) {
      counter += 1;
      const id = `prop_${counter}`;
      await psql.query(
        "insert into payonce.cases (id, kind, severity, subject_key, effect_id, summary) values ($1, 'undecided', 1, $1, $2, '')",
        [`case_${counter}`, effectId],
      );
      await psql.query(
        "insert into payonce.proposals (id, case_id, verb, detail, evidence_version, proposed_by) values ($1, $2, $3, $4, 0, 'ann')",
        [id, `case_${counter}`, verb, JSON.stringify(detail)],
      );
      if (!open)
        await psql.query("update payonce.proposals set state = 'approved', approved_by = 'bob' where id = $1", [id]);
      return id;
    },
    async seal(effectId) {
      await psql.query(
        `with taken as (
           update payonce.signers set next_nonce = next_nonce + 1 returning next_nonce - 1 as nonce)
         select 1 from taken`,
      );
      await psql.query(
        `update payonce.effects
         set state = 'SEALED', identity = 'id-' || id, payload = $2, expect = '{}', plan = '{}', sealed_at = now(), first_sent_at = now(),
             send_count = 1, nonce = (select next_nonce - 1 from payonce.signers)
         where id = $1`,
        [effectId, Buffer.from(PAYLOAD)],
      );
    },
    async release(effectId, evidenceId, rank = 'dead') {
      await psql.query(RELEASE, [effectId, evidenceId, rank]);
    },
    async settle(effectId, evidenceId) {
      await psql.query(SETTLE, [effectId, evidenceId]);
    },
    async refusedBy(guard, sql, values = []) {
      await psql.query('savepoint attempt');
      try {
        await assert.rejects(psql.query(sql, [...values]), (error: pg.DatabaseError) => {
          assert.equal(error.constraint ?? `${error.code}: ${error.message}`, guard, sql);
          return true;
        });
      } finally {
        await psql.query('rollback to savepoint attempt');
      }
    },
    async begin() {
      await psql.query('begin');
    },
    async rollback() {
      await psql.query('rollback');
    },
    async end() {
      await psql.end();
      await database.drop();
    },
  };
  return scene;
}

export const SETTLE = "update payonce.effects set state = 'SETTLED', settled_by = $2, ended_at = now() where id = $1";
export const RELEASE =
  "update payonce.effects set state = 'RELEASED', released_by = $2, release_rank = $3, ended_at = now() where id = $1";
export const REOPEN = `update payonce.effects
  set state = 'SEALED', no_send = true, lane = null, reopened_at = now(), reopens = reopens + 1, ended_at = null, released_by = null, release_rank = null
  where id = $1`;
