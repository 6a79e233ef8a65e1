/** Registration of the wallets that the configuration names: whose they are and what they are for decides how a movement is
 *  classed (R10), so a wallet that is on record as something else is refused, not changed. Needs no node. */
import { PayonceError } from '../kernel/errors.ts';
import type { WalletConfig } from './config.ts';
import type { App } from './wire.ts';

const REGISTER = `insert into payonce.addresses (id, chain, address, kind, partner_id)
values ($1, $2, $3, $4, $5)
on conflict (chain, address) do nothing`;
const REGISTERED = `select kind, partner_id
from payonce.addresses
where chain = $1
  and address = $2`;
const PARTNER = `select 1
from payonce.partners
where id = $1`;

/** Durable on return, wallet by wallet; the same list again changes nothing. Refuses one that cannot be read. */
export async function registerWallets(app: App): Promise<void> {
  for (const [at, wallet] of app.config.wallets.entries()) await registerWallet(app, wallet, `wallets[${at}]`);
}

async function registerWallet(app: App, { chain, address, kind, partner }: WalletConfig, place: string): Promise<void> {
  const refuse = (detail: string): never => {
    throw new PayonceError('PO_CONFIG_INVALID', { detail: `PAYONCE_CONFIG: ${place}${detail}` });
  };
  const known = app.chains.map((one) => one.chain);
  if (!known.includes(chain)) refuse(`.chain: got "${chain}", expected one of ${known.join(', ') || 'no chain'}`);
  const read = app.readDestination(chain, address);
  if (!read.ok) return refuse(`.address: got "${address}", expected ${read.expected}`);
  if (partner !== undefined && (await app.pool.query(PARTNER, [partner])).rowCount === 0)
    refuse(`.partner: there is no partner ${partner}; make it first with payonce partner create`);
  const owner = partner ?? null;
  await app.pool.query(REGISTER, [app.engine.makeId('adr'), chain, read.address, kind, owner]);
  const { rows } = await app.pool.query<{ kind: string; partner_id: string | null }>(REGISTERED, [chain, read.address]);
  const [row] = rows;
  if (row?.kind === kind && row.partner_id === owner) return;
  const what = `${row?.kind ?? 'nothing'} of ${row?.partner_id ?? 'all'}`;
  refuse(
    `: ${read.address} is registered as ${what}, not as ${kind} of ${owner ?? 'all'}; what a wallet is does not change`,
  );
}
