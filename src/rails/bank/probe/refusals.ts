/** What refusals are worth: whether they are kept under the key, come after the key was looked up, and create nothing. */
import type { CodeRow } from '../../keyed-profile.ts';
import { compare, type Finding, finding, lasting, type Verdict } from './report.ts';
import { claimsOf, codeOf, type Heard, recognises, type Session, stands, told, type Trial } from './session.ts';
import type { Change } from './requests.ts';

type Claims = Extract<CodeRow['means'], { reads: 'refused' }> | null;

function isRefusal(heard: Heard): boolean {
  return heard.error !== null && heard.status !== null && heard.status >= 400 && heard.status < 500;
}

/** The account is emptied: is a used key looked at before the balance; does money turn the refusal into a transfer? */
export async function wantOfMoney(session: Session, used: Trial): Promise<Finding[]> {
  const { profile } = session.input;
  const trial = session.trial('no-money');
  await session.drain();
  let first: Heard;
  let again: Heard | null = null;
  try {
    first = await session.send(trial, 'a new key on an empty account');
    if (profile.key !== null) again = await session.send(used, 'the used key on an empty account');
  } finally {
    await session.topUp();
  }
  if (!isRefusal(first)) {
    const observed = `the empty account did not refuse: ${told(first)}`;
    return [finding('balance or key first', 'a refusal for want of money', observed, 'not_tried')];
  }
  const claims = claimsOf(profile, first);
  const rows = again === null ? [] : [order('balance or key first', 'the balance', first, again, claims)];
  return [...rows, ...(await afterTopUp(session, trial, first, claims))];
}

async function afterTopUp(session: Session, trial: Trial, first: Heard, claims: Claims): Promise<Finding[]> {
  const rows: Finding[] = [];
  await session.wait(session.lagMs);
  await session.look(trial, 'after money came, before it is asked for again');
  const code = `${codeOf(first)}, want of money`;
  if (trial.ids.size > 0) {
    const verdict = claims !== null && claimsNothingCame(claims) ? 'promises_more' : 'agrees';
    const observed = 'it was queued, and paid when money came';
    return [finding(`creates nothing: ${code}`, words(claims), observed, verdict)];
  }
  const second = await session.send(trial, 'the refused key again, with money');
  const live = stands(second);
  if (!live) {
    const control = await session.send(session.trial('money-came'), 'a new key, with money');
    if (!stands(control))
      return [finding(`kept under the key: ${code}`, '', `money did not come: ${told(control)}`, 'not_tried')];
  }
  const observed = `${live ? 'live: it is paid now' : 'kept'}: ${told(second)}`;
  rows.push(kept(code, claims, live, observed));
  if (claims?.final === true) {
    const verdict = live ? 'promises_more' : 'agrees';
    rows.push(finding(`final: ${code}`, 'it stays wrong, whatever happens', observed, verdict));
  }
  return rows;
}

/** A request that the provider refuses for what it asks. `good` under the same key then shows whether the key is free. */
export async function wrongRequest(session: Session, used: Trial, name: string, bad: Change): Promise<Finding[]> {
  const { profile, levers } = session.input;
  const trial = session.trial(name);
  const before = await session.balance();
  const first = await session.send(trial, `${name} under a new key`, bad);
  if (!isRefusal(first))
    return [finding(`refusal: ${name}`, 'the provider refuses it', `it did not: ${told(first)}`, 'not_tried')];
  const claims = claimsOf(profile, first);
  const code = `${codeOf(first)}, ${name}`;
  const rows = profile.key === null ? [] : [await keyOrder(session, used, name, bad, first, claims)];

  const waitedMs = levers.clock === undefined ? session.lagMs : Math.max(session.lagMs, profile.latenessMs);
  await session.wait(waitedMs);
  await session.look(trial, `${lasting(waitedMs)} after ${name}`);
  const after = await session.balance();
  const moved = before !== null && after !== null && before - after >= session.input.amount;
  const marked = first.observation.refusal?.replayed === true;
  const nothing = trial.ids.size === 0 && !moved;
  const observed = [
    nothing ? `nothing within ${lasting(waitedMs)}` : 'a transfer came of it all the same',
    ...(marked ? ['it bore the mark of a replay'] : []),
  ].join('; ');
  let verdict: Verdict = claims?.atOnce === undefined ? 'promises_less' : 'agrees';
  if (marked) verdict = 'promises_more';
  else if (!nothing) verdict = claims !== null && claimsNothingCame(claims) ? 'promises_more' : 'agrees';
  rows.push(finding(`creates nothing: ${code}`, words(claims), observed, verdict, claims?.atOnce ?? null));
  if (profile.key === null || !nothing) return rows;

  const second = await session.send(trial, `a good request under the key of ${name}`);
  const live = stands(second);
  if (!live && !isRefusal(second)) return rows;
  rows.push(kept(code, claims, live, `${live ? 'the key was free' : 'the key was not free'}: ${told(second)}`));
  return rows;
}

async function keyOrder(
  session: Session,
  used: Trial,
  name: string,
  bad: Change,
  first: Heard,
  claims: Claims,
): Promise<Finding> {
  const again = await session.send(used, `${name} under a used key`, bad);
  return order(`refusal or key first: ${codeOf(first)}, ${name}`, 'it', first, again, claims);
}

/** The same refusal under a key that is taken: the check comes before the key, and says nothing of it (T12). */
function order(name: string, what: string, first: Heard, again: Heard, claims: Claims): Finding {
  const claimed = claims?.afterKeyCheck;
  const declared = claimed === undefined ? 'order not known' : `${codeOf(first)} comes after the key was looked up`;
  const same = codeOf(again) === codeOf(first);
  if (!same && !recognises(again))
    return finding(name, declared, `not clear: ${told(again)}`, 'not_tried', claimed ?? null);
  const keyFirst = !same;
  const observed = `${keyFirst ? 'the key goes first' : `${what} goes first, whatever stands under the key`}: ${told(again)}`;
  const verdict =
    keyFirst || claims?.storedUnderKey === undefined ? compare(claimed !== undefined, keyFirst) : 'promises_more';
  return finding(name, declared, observed, verdict, claimed ?? null);
}

function kept(code: string, claims: Claims, live: boolean, observed: string): Finding {
  const claimed = claims?.storedUnderKey;
  const declared = claimed === undefined ? 'not known' : 'kept under the key, and told again';
  return finding(
    `kept under the key: ${code}`,
    declared,
    observed,
    compare(claimed !== undefined, !live),
    claimed ?? null,
  );
}

/** With any of these a later transfer would be paid beside its successor. */
function claimsNothingCame(claims: NonNullable<Claims>): boolean {
  return (
    claims.final ||
    claims.atOnce !== undefined ||
    claims.storedUnderKey !== undefined ||
    claims.afterKeyCheck !== undefined
  );
}

function words(claims: Claims): string {
  if (claims === null) return 'the code is not known: nothing is concluded from it';
  if (claims.atOnce !== undefined) return 'refused at once, and nothing comes of it later';
  return claims.final ? 'a final no' : 'a no for now';
}
