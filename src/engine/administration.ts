/**
 * What administrators do: make and disable operators, make partners, give and take their keys. Each act stands in the
 * audit log, in its own transaction.
 *
 * Before there is any operator nobody can have a key: until then whoever holds the database acts as `bootstrap`, which the
 * audit log shows. From the first operator on every act needs an administrator's key, also after all of them were disabled.
 */
import type { Query, Tx } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Chance } from '../kernel/ports.ts';
import { audit } from './audit-log.ts';
import { createOperator, loadOperator, type Operator, requireRole, type Role } from './operators.ts';
import { OWN_PARTNER } from './own-move.ts';

export const BOOTSTRAP = 'bootstrap';

/** Two first operators at once: the second one finds the first. Held to the transaction's end. */
const ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended('payonce.operators', 0))";
const ANY_OPERATOR = `select 1
from payonce.operators
limit 1`;

/** Who acts: by a key, or an operator whose key was read already; null: nobody said. */
export type Who = string | Operator | null;

/** The operator who acts; refuses where none is given. */
export async function needOperator(query: Query, who: Who, least: Role): Promise<Operator> {
  if (who === null)
    throw new PayonceError('PO_AUTH_MISSING', { detail: `This needs the key of an operator (${least})` });
  const operator = typeof who === 'string' ? await loadOperator(query, who) : who;
  requireRole(operator, least);
  return operator;
}

/** An administrator, or `bootstrap` as long as there never was an operator. */
async function administrator(tx: Tx, key: string | null): Promise<string> {
  await tx.query(ONE_AT_A_TIME);
  if (key === null && (await tx.query(ANY_OPERATOR)).rowCount === 0) return BOOTSTRAP;
  return (await needOperator(tx, key, 'admin')).id;
}

/** An act of an administrator on something that is not a row of ours (a key file, say): refused or written down. */
export async function auditAct(
  tx: Tx,
  key: string | null,
  action: string,
  object: string,
  detail: object,
): Promise<void> {
  await audit(tx, await administrator(tx, key), action, object, detail);
}

export async function addOperator(
  tx: Tx,
  by: { readonly makeId: MakeId; readonly chance: Chance; readonly key: string | null },
  name: string,
  role: Role,
): Promise<{ operator: Operator; key: string }> {
  const actor = await administrator(tx, by.key);
  if (actor === BOOTSTRAP && role !== 'admin') {
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `The first operator must be an admin, or nobody could make a second one; got ${role}`,
    });
  }
  const taken = await tx.query('select 1 from payonce.operators where name = $1', [name]);
  if (taken.rowCount > 0)
    throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: `There is an operator "${name}" already` });
  return createOperator(tx, by.makeId, by.chance, name, role, actor);
}

export interface ListedOperator {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
}

const LIST_OPERATORS = `select id, name, role, created_at, disabled_at
from payonce.operators
order by created_at, id`;

export async function listOperators(query: Query): Promise<ListedOperator[]> {
  return (await query.query<ListedOperator & Record<string, unknown>>(LIST_OPERATORS)).rows;
}

const DISABLE = `update payonce.operators
set disabled_at = payonce.now()
where id = $1
  and disabled_at is null`;
const OTHER_ADMIN = `select 1
from payonce.operators
where role = 'admin'
  and disabled_at is null
  and id <> $1
limit 1`;

/** By id or name. The last administrator stays: nobody could make another one. */
export async function disableOperator(
  tx: Tx,
  key: string | null,
  asked: string,
): Promise<{ id: string; done: boolean }> {
  await tx.query(ONE_AT_A_TIME);
  const by = await needOperator(tx, key, 'admin');
  const { rows } = await tx.query<{ id: string; role: Role }>(
    'select id, role from payonce.operators where id = $1 or name = $1 order by id for no key update',
    [asked],
  );
  const found = rows[0];
  if (found === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no operator ${asked}` });
  if (found.role === 'admin' && (await tx.query(OTHER_ADMIN, [found.id])).rowCount === 0) {
    throw new PayonceError('PO_EVIDENCE_REFUSED', {
      detail: `${asked} is the only admin: make another one first, or nobody could make operators any more`,
    });
  }
  const done = (await tx.query(DISABLE, [found.id])).rowCount === 1;
  if (done) await audit(tx, by.id, 'operator.disabled', found.id, {});
  return { id: found.id, done };
}

const ADD_PARTNER = `insert into payonce.partners (id, name, time_zone)
values ($1, $2, $3)`;
const KNOWN_ZONE = `select 1
from pg_timezone_names
where name = $1`;

/** `timeZone`: an IANA name; the partner's day limits turn at its midnight. */
export async function addPartner(
  tx: Tx,
  by: { readonly makeId: MakeId; readonly key: string | null },
  name: string,
  timeZone: string,
): Promise<string> {
  const actor = await administrator(tx, by.key);
  if ((await tx.query(KNOWN_ZONE, [timeZone])).rowCount === 0) {
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `"${timeZone}" is no time zone: give an IANA name such as Asia/Seoul or UTC`,
    });
  }
  const id = by.makeId('par');
  await tx.query(ADD_PARTNER, [id, name, timeZone]);
  await audit(tx, actor, 'partner.created', id, { name, timeZone });
  return id;
}

export interface ListedPartner {
  readonly id: string;
  readonly name: string;
  readonly time_zone: string;
  readonly created_at: Date;
  readonly keys: number;
  readonly endpoints: number;
}

const LIST_PARTNERS = `select p.id, p.name, p.time_zone, p.created_at,
       (select count(*) from payonce.api_keys k where k.partner_id = p.id and k.revoked_at is null)::int as keys,
       (select count(*) from payonce.endpoints e where e.partner_id = p.id and e.disabled_at is null)::int as endpoints
from payonce.partners p
where p.id <> $1
order by p.created_at, p.id`;

export async function listPartners(query: Query): Promise<ListedPartner[]> {
  return (await query.query<ListedPartner & Record<string, unknown>>(LIST_PARTNERS, [OWN_PARTNER])).rows;
}

export interface ListedKey {
  readonly id: string;
  readonly hint: string;
  readonly created_at: Date;
  readonly revoked_at: Date | null;
}

const LIST_KEYS = `select id, hint, created_at, revoked_at
from payonce.api_keys
where partner_id = $1
order by created_at, id`;

export async function listKeys(query: Query, partnerId: string): Promise<ListedKey[]> {
  await needPartner(query, partnerId);
  return (await query.query<ListedKey & Record<string, unknown>>(LIST_KEYS, [partnerId])).rows;
}

async function needPartner(query: Query, partnerId: string): Promise<void> {
  const found = await query.query('select 1 from payonce.partners where id = $1', [partnerId]);
  if (partnerId === OWN_PARTNER || found.rowCount === 0)
    throw new PayonceError('PO_NOT_FOUND', { detail: `There is no partner ${partnerId}` });
}

/** `make` stores the key and answers it; it is the API's own. */
export async function addKey<Key extends { readonly id: string }>(
  tx: Tx,
  key: string | null,
  partnerId: string,
  make: (tx: Tx, partnerId: string) => Promise<Key>,
): Promise<Key> {
  const actor = await administrator(tx, key);
  await needPartner(tx, partnerId);
  const made = await make(tx, partnerId);
  await audit(tx, actor, 'partner.key_created', partnerId, { keyId: made.id });
  return made;
}

export async function removeKey(
  tx: Tx,
  key: string | null,
  partnerId: string,
  keyId: string,
  revoke: (tx: Tx, partnerId: string, keyId: string) => Promise<boolean>,
): Promise<'revoked' | 'was_revoked'> {
  const actor = await administrator(tx, key);
  await needPartner(tx, partnerId);
  const known = await tx.query('select 1 from payonce.api_keys where partner_id = $1 and id = $2', [partnerId, keyId]);
  if (known.rowCount === 0) throw new PayonceError('PO_NOT_FOUND', { detail: `${partnerId} has no key ${keyId}` });
  if (!(await revoke(tx, partnerId, keyId))) return 'was_revoked';
  await audit(tx, actor, 'partner.key_revoked', partnerId, { keyId });
  return 'revoked';
}
