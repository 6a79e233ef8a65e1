/**
 * Quarantine of a signer: the chain shows a use of its sequence that we did not sign. No new seals until a person has
 * matched its transfers; looks, re-sends, bumps and cancels of what is sealed go on (design §4).
 */
import type { Tx } from '../db/pool.ts';
import { raiseAlert } from './alerts.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';

const QUARANTINE = `update payonce.signers
set quarantined_at = payonce.now(), quarantine_reason = $3
where rail = $1
  and address = $2
  and quarantined_at is null`;

const LIFT = `update payonce.signers
set quarantined_at = null, quarantine_reason = null, next_nonce = greatest(next_nonce, $3::bigint)
where rail = $1
  and address = $2
  and quarantined_at is not null`;

/** What an effect `e` waits for, for whoever reads: nobody claims for a wallet in quarantine, so nothing writes it down. */
export const WAITS_FOR = `coalesce(
  case when e.state = 'PENDING' then (
    select 'WALLET_QUARANTINED: ' || g.address || ' seals nothing: ' || coalesce(g.quarantine_reason, '')
      || coalesce('; see payonce case show ' || k.id, '')
    from payonce.signers g
    left join payonce.cases k on k.kind = 'signer_quarantined' and k.subject_key = g.rail || ':' || g.address and k.closed_at is null
    where g.rail = e.rail
      and g.address in (e.wallet, e.signer)
      and g.quarantined_at is not null
    order by g.address <> e.wallet
    limit 1) end,
  e.wait_reason)`;

export async function quarantineSigners(
  tx: Tx,
  deps: Pick<EngineDeps, 'makeId' | 'log'>,
  list: readonly { rail: string; signer: string; reason: string }[],
): Promise<void> {
  for (const one of [...list].sort((left, right) => (left.signer < right.signer ? -1 : 1))) {
    const { rowCount } = await tx.query(QUARANTINE, [one.rail, one.signer, one.reason]);
    if (rowCount === 0) continue;
    await openCase(tx, deps.makeId, {
      kind: 'signer_quarantined',
      severity: 3,
      subjectKey: `${one.rail}:${one.signer}`,
      summary: `Wallet ${one.signer} sends nothing new: ${one.reason}. What moved it is listed by payonce reconcile chain --wallet ${one.signer}; two persons book each (payonce repair propose FINDING), which closes its case of unknown_movement; then: payonce wallet release ${one.rail} ${one.signer} --reason TEXT`,
    });
    await raiseAlert(tx, 'signer_quarantined', `${one.rail}:${one.signer}`, one.reason, deps.log);
  }
}

const KNOW_WALLET = `insert into payonce.signers (rail, address, label, next_nonce)
values ($1, $2, 'seen by the scan', 0)
on conflict (rail, address) do nothing`;

/**
 * Money left a wallet of ours without a record. The wallet is stopped whoever signs for it, and so is the signer of this
 * transaction, where it is ours. A wallet that never signed gets its row now, in quarantine: its release reads the chain's
 * own count.
 */
export async function quarantineWallet(
  tx: Tx,
  deps: Pick<EngineDeps, 'makeId' | 'log'>,
  one: { readonly rail: string; readonly wallet: string; readonly sender: string; readonly reason: string },
): Promise<void> {
  const { rail, wallet, sender, reason } = one;
  await tx.query(KNOW_WALLET, [rail, wallet]);
  await quarantineSigners(
    tx,
    deps,
    [...new Set([sender, wallet])].map((signer) => ({ rail, signer, reason })),
  );
}

/** An operator has matched the signer's transfers; `nonceHead` is the chain's count, so that no used place is given out. */
export async function liftQuarantine(
  tx: Tx,
  rail: string,
  signer: string,
  nonceHead: bigint,
): Promise<'lifted' | 'not_quarantined'> {
  return (await tx.query(LIFT, [rail, signer, nonceHead])).rowCount === 1 ? 'lifted' : 'not_quarantined';
}
