/**
 * Operators: people with a key each and a role. Keys are stored hashed; a key is shown once, when it is made.
 * viewer reads · operator also asks, notes and proposes · approver also approves (never an own proposal: the database
 * refuses that) · admin also makes operators.
 */
import { createHash } from 'node:crypto';
import type { Query, Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { type MakeId, toBase32 } from '../kernel/ids.ts';
import type { Chance } from '../kernel/ports.ts';
import { audit } from './audit-log.ts';

export const ROLES = ['viewer', 'operator', 'approver', 'admin'] as const;
export type Role = (typeof ROLES)[number];

export interface Operator {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
}

const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** Makes an operator; the key is returned this once. Durable with the caller's commit. */
export async function createOperator(
  tx: Tx,
  makeId: MakeId,
  chance: Chance,
  name: string,
  role: Role,
  by: string,
): Promise<{ operator: Operator; key: string }> {
  const key = `ok_${toBase32(chance.bytes(32), 51)}`;
  const id = makeId('op');
  await tx.query('insert into payonce.operators (id, name, key_hash, role) values ($1, $2, $3, $4)', [
    id,
    name,
    hashOf(key),
    role,
  ]);
  await audit(tx, by, 'operator.created', id, { name, role });
  return { operator: { id, name, role }, key };
}

/** Who this key is; refuses unknown and disabled ones. */
export async function loadOperator(query: Query, key: string): Promise<Operator> {
  const { rows } = await query.query<{ id: string; name: string; role: Role }>(
    'select id, name, role from payonce.operators where key_hash = $1 and disabled_at is null',
    [hashOf(key)],
  );
  const row = rows[0];
  if (row === undefined) throw new PayonceError('PO_AUTH_WRONG', { detail: 'This operator key is not known' });
  return row;
}

export function requireRole(operator: Operator, least: Role): void {
  if (ROLES.indexOf(operator.role) < ROLES.indexOf(least)) {
    throw new PayonceError('PO_OPERATOR_FORBIDDEN', {
      detail: `${operator.name} is ${operator.role}; this needs ${least}`,
    });
  }
}
