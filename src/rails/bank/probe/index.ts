/**
 * The conformance kit: what a profile promises beside what its provider does, tried against a sandbox.
 *
 * Promises: it sends no more than `planProbe` announced, each request of one amount; everything goes through the seal, the
 * wire and the reader that payments use; transfers are counted by look-ups and balances, never by one answer. A row that says
 * `promises_more` is a promise on which money would be freed or sent twice, and the report is then not ok. What could not be
 * tried says so, and why: it proves nothing.
 * Never: changes a profile, retries, reads how a simulator was set up, prints a secret, sends with one that calls itself live.
 */
import type { Ports } from '../../../kernel/ports.ts';
import { failedKeepsKey, retention } from './over-time.ts';
import { wantOfMoney, wrongRequest } from './refusals.ts';
import { otherBody, otherCredential, otherOrder, otherPath, sameBody, twoAtOnce } from './repeats.ts';
import { type Finding, finding, lasting, type ProbeReport, type ProbeRow } from './report.ts';
import { type ProbeInput, Session, stands, told, type Trial } from './session.ts';
import { codes, echoes, falseNos, lookUps, states, unknownKey } from './showing.ts';

export type { ProbeReport, Verdict } from './report.ts';
export type { ProbeInput } from './session.ts';

export interface ProbePlan {
  /** At most so many requests leave, and in the worst case each is a transfer. */
  readonly requestsMax: number;
  /** Of a provider that keeps what the profile promises, at most. */
  readonly transfersExpected: number;
  /** In the smallest unit; one request asks for one unit more. */
  readonly amountEach: bigint;
  readonly notTried: readonly { readonly probe: string; readonly why: string }[];
}

interface Step {
  readonly probe: string;
  /** Requests to send money. */
  readonly sends: number;
  readonly pays: number;
  /** `null`: it can be tried. */
  readonly barred: string | null;
  run(session: Session, used: Trial): Promise<readonly Finding[]> | readonly Finding[];
}

/** The first transfer, and the same request again. */
const FIRST_SENDS = 2;

export function planProbe(input: ProbeInput): ProbePlan {
  const steps = stepsOf(input);
  const tried = steps.filter((step) => step.barred === null);
  return {
    requestsMax: FIRST_SENDS + sum(tried.map((step) => step.sends)),
    transfersExpected: (input.profile.key === null ? FIRST_SENDS : 1) + sum(tried.map((step) => step.pays)),
    amountEach: input.amount,
    notTried: steps.flatMap((step) => (step.barred === null ? [] : [{ probe: step.probe, why: step.barred }])),
  };
}

/** Nothing is durable here; the provider's sandbox keeps what was sent. Throws only for what is wrong on our side. */
export async function probe(
  input: ProbeInput,
  ports: Ports,
  onStep: (probe: string, done: number, total: number) => void = () => undefined,
): Promise<ProbeReport> {
  const steps = stepsOf(input);
  const session = new Session(input, planProbe(input).requestsMax, ports);
  const rows: ProbeRow[] = [];
  const add = (found: readonly Finding[]): void => {
    const answers = session.takeAnswers();
    rows.push(...found.map((one, at) => ({ ...one, answers: at === 0 ? answers : [] })));
  };
  try {
    onStep('first transfer', 0, steps.length + 1);
    const before = await session.balance();
    const used = session.trial('first');
    const first = await session.send(used, 'the first request');
    if (!stands(first)) {
      const observed = `it was not: ${told(first)}. ${first.observation.detail}`;
      add([finding('first transfer', 'it is accepted', observed, 'not_tried')]);
      return report(session, rows, false);
    }
    add(await guarded('look-up', () => lookUps(session, used)));
    add(await guarded('same key, same body', () => sameBody(session, used, before)));
    add(echoes(session, used));
    for (const [at, step] of steps.entries()) {
      onStep(step.probe, at + 1, steps.length + 1);
      add(
        step.barred === null
          ? await guarded(step.probe, () => step.run(session, used))
          : [finding(step.probe, '', step.barred, 'not_tried')],
      );
    }
    onStep('done', steps.length + 1, steps.length + 1);
    await session.look(used, 'the first transfer, at the end');
    add([...states(session), ...codes(session), ...falseNos(session), lateness(input)]);
    return report(session, rows, true);
  } finally {
    await session.close();
  }
}

/** A lever that broke costs its own row: the others can still be tried. */
async function guarded(
  name: string,
  work: () => Promise<readonly Finding[]> | readonly Finding[],
): Promise<readonly Finding[]> {
  try {
    return await work();
  } catch (error) {
    return [finding(name, '', error instanceof Error ? error.message : String(error), 'not_tried')];
  }
}

function report(session: Session, rows: readonly ProbeRow[], started: boolean): ProbeReport {
  return {
    profile: session.input.profile.name,
    started,
    ok: started && rows.every((row) => row.verdict !== 'promises_more'),
    requestsSent: session.requestsSent,
    transfersSeen: sum(session.trials.map((trial) => trial.ids.size)),
    rows,
  };
}

/** From outside nobody sees how late a lost request may be executed. */
function lateness({ profile }: ProbeInput): Finding {
  const declared = `a lost request is executed within ${lasting(profile.latenessMs)}, or never`;
  return finding('lateness', declared, 'nothing that can be tried shows it', 'not_tried');
}

/** What moves the clock comes last: keys that are still needed must not be forgotten before. */
function stepsOf(input: ProbeInput): readonly Step[] {
  const { profile, levers, refused } = input;
  const keyed = profile.key !== null;
  const noKey = keyed ? null : 'there is no key';
  const unless = (given: unknown, why: string): string | null => (given === undefined ? why : null);
  return [
    { probe: 'nothing there', sends: 0, pays: 0, barred: null, run: unknownKey },
    { probe: 'same key, other body', sends: 1, pays: 0, barred: noKey, run: otherBody },
    { probe: 'same key, other order', sends: 1, pays: 0, barred: noKey, run: otherOrder },
    { probe: 'in progress', sends: 2, pays: 1, barred: noKey, run: twoAtOnce },
    {
      probe: 'scope: credential',
      sends: 1,
      pays: profile.scope.includes('credential') ? 1 : 0,
      barred: noKey ?? unless(input.second, 'no second credential was given'),
      run: otherCredential,
    },
    {
      probe: 'scope: path',
      sends: 1,
      pays: profile.scope.includes('path') ? 1 : 0,
      barred: noKey ?? unless(input.otherPath, 'no other path was given'),
      run: otherPath,
    },
    {
      probe: 'want of money',
      sends: keyed ? 4 : 3,
      pays: 1,
      barred:
        unless(levers.drain, 'no lever empties the account') ?? unless(levers.topUp, 'no lever fills the account'),
      run: wantOfMoney,
    },
    {
      probe: 'refusal: an amount of zero',
      sends: keyed ? 3 : 1,
      pays: keyed ? 1 : 0,
      barred: null,
      run: (session, used) => wrongRequest(session, used, 'an amount of zero', { amount: 0n }),
    },
    {
      probe: 'refusal: a refused receiver',
      sends: keyed ? 3 : 1,
      pays: keyed ? 1 : 0,
      barred: unless(refused, 'no receiver was given that the sandbox refuses'),
      run: (session, used) =>
        refused === undefined ? [] : wrongRequest(session, used, 'a refused receiver', { payee: refused }),
    },
    {
      probe: 'a failed transfer keeps its key',
      sends: 2,
      pays: profile.failedKeepsKey === null ? 2 : 1,
      barred: noKey ?? unless(levers.fail, 'no lever makes a transfer fail'),
      run: failedKeepsKey,
    },
    {
      probe: 'retention',
      sends: 3,
      pays: 2,
      barred: noKey ?? unless(levers.clock, 'no lever moves the clock'),
      run: retention,
    },
  ];
}

function sum(figures: readonly number[]): number {
  return figures.reduce((total, one) => total + one, 0);
}
