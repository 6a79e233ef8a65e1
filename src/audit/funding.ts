/**
 * Fundings: what arrived at an account of ours at a bank, credited by two persons to the partner whose it is, or to ourselves.
 *
 * A bank shows us what we ask for, and nothing of what comes in by itself: people read it from the bank's statement.
 * Promises: a reference is credited once per asset for ever, by a posting whose key names it, in the second person's transaction, with
 * both in the audit log. Never: a chain's assets (the scan books what arrives there), a guess whose the money is.
 */
import { createHash } from 'node:crypto';
import type { Pool, Query, Tx } from '../db/pool.ts';
import { openCase } from '../engine/cases.ts';
import type { AboutCase, FlowVerb } from '../engine/deps.ts';
import { OWN_PARTNER } from '../engine/own-move.ts';
import { PayonceError } from '../kernel/errors.ts';
import { type MakeId, postingKey } from '../kernel/ids.ts';
import { formatUnits, parseAmount } from '../kernel/money.ts';
import { accountName, type Chart } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';

export interface FundingWish {
  /** Code or id of an asset of a bank. */
  readonly asset: string;
  readonly amount: string;
  /** `null`: money of our own. */
  readonly partnerId: string | null;
  /** What the bank calls this credit on its statement. */
  readonly reference: string;
}

interface Account {
  readonly assetId: string;
  readonly code: string;
  readonly decimals: number;
  readonly rail: string;
  readonly wallet: string;
}

type Detail = Readonly<Record<string, string>>;

const REFERENCE = /^[\x21-\x7E](?:[\x20-\x7E]{0,98}[\x21-\x7E])?$/;

const ACCOUNTS = `select s.id as asset_id, s.code, s.decimals, p.rail, p.wallet
from payonce.assets s
join payonce.asset_policies p on p.asset_id = s.id and p.partner_id = '*'
where s.chain like 'bank:%'
  and (s.id = $1 or s.code = $1)
order by s.id`;
const PARTNER = `select 1
from payonce.partners
where id = $1
  and id <> $2`;
const BOOKED = `select id
from payonce.postings
where idem_key = $1`;

/** The case that two persons decide in, and what the proposal says. Durable with the caller's commit. */
export async function openFundingCase(
  query: Query,
  makeId: MakeId,
  wish: FundingWish,
): Promise<{ readonly caseId: string; readonly detail: Detail }> {
  const account = await accountOf(query, wish.asset);
  const amount = parseAmount(wish.amount, account.decimals);
  if (!amount.ok || amount.units === 0n)
    throw invalid(`amount: got "${wish.amount}", expected a decimal string above 0 with ${account.decimals} decimals`);
  if (!REFERENCE.test(wish.reference))
    throw invalid('reference: expected 1 to 100 characters of ASCII, as the bank writes them on its statement');
  const detail: Detail = {
    asset: account.assetId,
    amount: wish.amount,
    reference: wish.reference,
    partner_id: wish.partnerId ?? '',
  };
  const objection = await objectionTo(query, null, detail);
  if (objection !== null) throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: objection });
  const caseId = await openCase(query, makeId, {
    kind: 'unmatched_inbound',
    severity: 1,
    subjectKey: subjectOf(account.assetId, wish.reference),
    ...(wish.partnerId === null ? {} : { partnerId: wish.partnerId }),
    assetId: account.assetId,
    amount: amount.units,
    summary: `${formatUnits(amount.units, account.decimals)} ${account.code} arrived at ${account.rail}, account ${account.wallet}, as ${wish.reference}`,
  });
  return { caseId, detail };
}

export function makeFundingVerbs(deps: { readonly pool: Pool; readonly chart: Chart }): { readonly fund: FlowVerb } {
  return {
    fund: {
      objection: (about, detail) => objectionTo(deps.pool, about, detail),
      async carryOut(tx, { about, detail }) {
        const objection = await objectionTo(tx, about, detail);
        return objection === null ? book(tx, deps.chart, detail) : { refused: objection };
      },
    },
  };
}

async function objectionTo(query: Query, about: AboutCase | null, detail: Detail): Promise<string | null> {
  const { asset = '', amount = '', reference = '', partner_id: partnerId = '' } = detail;
  if (about !== null && (about.kind !== 'unmatched_inbound' || about.subjectKey !== subjectOf(asset, reference)))
    return 'this case is not about that funding: payonce funding propose opens one';
  const account = (await loadAccounts(query, asset))[0];
  if (account === undefined) return `there is no asset ${asset} of a bank`;
  const read = parseAmount(amount, account.decimals);
  if (!read.ok || read.units === 0n) return `"${amount}" is no amount of ${account.code}`;
  if (partnerId !== '' && (await query.query(PARTNER, [partnerId, OWN_PARTNER])).rowCount === 0)
    return `there is no partner ${partnerId}`;
  const before = (await query.query<{ id: bigint }>(BOOKED, [keyOf(asset, reference)])).rows[0];
  return before === undefined
    ? null
    : `${reference} was credited before, by posting ${before.id}: nothing is credited twice`;
}

async function book(
  tx: Tx,
  chart: Chart,
  { asset = '', amount = '', reference = '', partner_id: partnerId = '' }: Detail,
): Promise<{ did: string; closesCase: boolean } | { refused: string }> {
  const account = await accountOf(tx, asset);
  const read = parseAmount(amount, account.decimals);
  if (!read.ok) return { refused: `"${amount}" is no amount of ${account.code}` };
  const whose = partnerId === '' ? accountName.treasury(asset) : accountName.partner(partnerId, asset);
  const [custody, credited] = await chart.ids(tx, [accountName.custody(account.rail, account.wallet, asset), whose]);
  const [verdict] = await post(tx, [
    {
      kind: 'post',
      key: keyOf(asset, reference),
      reference,
      entries: [
        { accountId: custody ?? 0n, amount: -read.units },
        { accountId: credited ?? 0n, amount: read.units },
      ],
    },
  ]);
  if (verdict?.verdict !== 'posted') return { refused: `${reference} was credited before: nothing is credited twice` };
  return {
    did: `credited ${amount} ${account.code} to ${partnerId === '' ? 'ourselves' : partnerId} (posting ${verdict.postingId})`,
    closesCase: true,
  };
}

async function accountOf(query: Query, asked: string): Promise<Account> {
  const [account, ...others] = await loadAccounts(query, asked);
  if (account === undefined)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `There is no asset ${asked} of a bank. What arrives on a chain is booked by its scan`,
    });
  if (others.length > 0)
    throw invalid(
      `asset: ${asked} stands at several banks; name one: ${[account, ...others].map((one) => one.assetId).join(', ')}`,
    );
  return account;
}

async function loadAccounts(query: Query, asked: string): Promise<Account[]> {
  const { rows } = await query.query<Omit<Account, 'assetId'> & { asset_id: string }>(ACCOUNTS, [asked]);
  return rows.map(({ asset_id: assetId, ...rest }) => ({ assetId, ...rest }));
}

function subjectOf(assetId: string, reference: string): string {
  return `funding:${assetId}:${reference}`;
}

/** Short enough for a key, whatever the bank's words are. */
function keyOf(assetId: string, reference: string): string {
  const digest = createHash('sha256').update(`${assetId}\n${reference}`).digest('hex').slice(0, 40);
  return postingKey.migrated(`funding:${digest}`);
}

function invalid(detail: string): PayonceError {
  return new PayonceError('PO_REQUEST_INVALID', { detail });
}
