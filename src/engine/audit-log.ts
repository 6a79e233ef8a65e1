/**
 * The audit log: every act of a person, hash-chained over digests. Personal data in `detail` can be erased later and the
 * chain stays whole; a changed row breaks it and `verifyAudit` names it.
 */
import type { Query } from '../db/pool.ts';

/** Appends one act. Durable with the caller's commit. Lock order: last in its transaction (the head row is one). */
export async function audit(
  query: Query,
  actor: string,
  action: string,
  object: string,
  detail: object,
): Promise<void> {
  await query.query('select payonce.audit($1, $2, $3, $4::jsonb)', [actor, action, object, JSON.stringify(detail)]);
}

const VERIFY = `with chain as (
  select l.seq, l.hash, l.detail, l.detail_digest,
         encode(sha256(convert_to(
           coalesce(lag(l.hash) over (order by l.seq), repeat('0', 64)) || chr(10) || l.seq || chr(10) || extract(epoch from l.at) || chr(10)
           || l.actor || chr(10) || l.action || chr(10) || l.object || chr(10) || l.detail_digest, 'UTF8')), 'hex') as expected,
         l.seq - lag(l.seq, 1, 0::bigint) over (order by l.seq) as step
  from payonce.audit_log l
)
select seq,
       case when step <> 1 then 'a row before it is missing'
            when hash <> expected then 'it, or the row before it, was changed'
            else 'its detail was changed' end as fault
from chain
where step <> 1
   or hash <> expected
   or (detail is not null and payonce.audit_digest(detail) <> detail_digest)
order by seq`;

/** The rows at which the chain breaks; empty: whole up to the head. */
export async function verifyAudit(query: Query): Promise<{ seq: bigint; fault: string }[]> {
  const { rows } = await query.query<{ seq: bigint; fault: string }>(VERIFY);
  const head = await query.query<{ seq: bigint }>(
    `select h.seq from payonce.audit_head h
     where h.seq <> coalesce((select max(l.seq) from payonce.audit_log l), 0)
        or (h.seq > 0 and h.hash <> (select l.hash from payonce.audit_log l where l.seq = h.seq))`,
  );
  return [
    ...rows,
    ...head.rows.map((row) => ({ seq: row.seq, fault: 'the head names another row: the end was cut off or changed' })),
  ];
}
