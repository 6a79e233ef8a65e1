/** What is checked and told: the books, the audit log, alerts. */
import { type Command, InvalidArgumentError } from 'commander';
import { listActs } from '../audit/acts.ts';
import { checkInvariants, INVARIANTS } from '../audit/invariants.ts';
import { loadOpenAlerts } from '../engine/alerts.ts';
import { verifyAudit } from '../engine/audit-log.ts';
import { describeFault, verify } from '../ledger/verify.ts';
import type { Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { cut, EXIT, makeProgress, moment, paint, printable, table } from './output.ts';

const ACTS_LISTED = 50;
const ACTS_LISTED_MAX = 10_000;
const DETAIL_CHARACTERS_MAX = 120;
/** Broken books are broken throughout; the first faults say which kind it is, `--json` has more. */
const FAULTS_SHOWN_MAX = 50;
const BYTES_PER_MEGABYTE = 1_048_576;

export function addCheckCommands(program: Command, bind: Bind, deps: CliDeps): void {
  addVerify(program, bind, deps);
  const audit = program.command('audit').description('the log of what people did');
  bind(
    audit.command('verify').description('prove that no line was changed or taken out; exit 1 where one was'),
    async () => {
      const broken = await deps.withDatabase(({ pool }) => verifyAudit(pool));
      return {
        json: { ok: broken.length === 0, broken },
        text:
          broken.length === 0
            ? paint('green', 'The audit log is one whole chain.')
            : [
                ...broken.map((one) => `${paint('red', 'broken')} line ${one.seq}: ${one.fault}`),
                `${paint('dim', 'next ')} Somebody with rights on the database changed it. Compare with a backup and find out who.`,
              ].join('\n'),
        exit: broken.length === 0 ? EXIT.ok : EXIT.failed,
      };
    },
  );
  bind<{ object?: string; limit: number }>(
    audit
      .command('list')
      .description('who did what, the latest first')
      .option('--object <id>', 'only acts on this: a case, effect:12, a rail, a partner')
      .option('--limit <count>', `how many, at most ${ACTS_LISTED_MAX}`, readCount, ACTS_LISTED),
    async (_args, { object, limit }) => {
      const acts = await deps.withDatabase(({ pool }) => listActs(pool, { object: object ?? null, limit }));
      const rows = acts.map((one) => [
        one.seq.toString(),
        moment(one.at),
        printable(one.actor_name ?? one.actor),
        one.action,
        printable(one.object),
        one.detail === null
          ? paint('dim', 'erased')
          : cut(printable(JSON.stringify(one.detail)), DETAIL_CHARACTERS_MAX),
      ]);
      return { json: { acts }, text: table(['#', 'AT', 'WHO', 'DID', 'TO', 'DETAIL'], rows, 'No act yet.') };
    },
  );
  bind(program.command('alerts').description('what people should look at now'), async () => {
    const alerts = await deps.withDatabase(({ pool }) => loadOpenAlerts(pool));
    const rows = alerts.map((one) => [
      one.kind,
      printable(one.key),
      moment(one.firstAt),
      moment(one.lastAt),
      one.times.toString(),
      printable(one.message),
    ]);
    const json = alerts.map(({ firstAt, lastAt, ...rest }) => ({ ...rest, first_at: firstAt, last_at: lastAt }));
    return {
      json: { alerts: json },
      text: table(['ALERT', 'ABOUT', 'SINCE', 'LAST', 'TIMES', 'MESSAGE'], rows, 'No open alert.'),
    };
  });
}

function addVerify(program: Command, bind: Bind, deps: CliDeps): void {
  bind<{ json?: boolean }>(
    program
      .command('verify')
      .description('recompute the whole ledger and check every invariant; exit 1 with each breach by name'),
    async (_args, { json }) => {
      const began = performance.now();
      const progress = makeProgress(json !== true);
      const { ledger, breaches } = await deps.withDatabase(async ({ pool }) => {
        try {
          const ledger = await verify(pool, ({ phase, done, total }) => progress.show(phase, done, total));
          const breaches = await checkInvariants(pool, {
            onProgress: (done, total, name) => progress.show(`inv ${name}`, BigInt(done), BigInt(total)),
          });
          return { ledger, breaches };
        } finally {
          progress.end();
        }
      });
      const seconds = (performance.now() - began) / 1000;
      const memoryMegabytes = Math.round(process.resourceUsage().maxRSS / (BYTES_PER_MEGABYTE / 1024));
      const isClean = ledger.faultCount === 0 && breaches.length === 0;
      const faults = ledger.faults.map(describeFault);
      return {
        json: {
          ok: isClean,
          accounts: ledger.accounts,
          entries: ledger.entries,
          postings: ledger.postings,
          invariants: Object.keys(INVARIANTS).length,
          fault_count: ledger.faultCount,
          faults,
          breaches,
          seconds,
          memory_megabytes_max: memoryMegabytes,
        },
        text: [
          `${ledger.entries} entries of ${ledger.accounts} accounts in ${ledger.postings} postings, and ${Object.keys(INVARIANTS).length} invariants: ${seconds.toFixed(1)} s, ${memoryMegabytes} MB at most.`,
          ...faults.slice(0, FAULTS_SHOWN_MAX).map((fault) => `${paint('red', 'ledger')} ${printable(fault)}`),
          ...(ledger.faultCount > FAULTS_SHOWN_MAX
            ? [`… ${ledger.faultCount - FAULTS_SHOWN_MAX} more of the ledger`]
            : []),
          ...breaches.map(
            (one) => `${paint('red', one.invariant)} ${printable(one.subject)}: ${printable(one.detail)}`,
          ),
          isClean
            ? paint('green', 'The books are whole.')
            : `${paint('dim', 'next ')} Stop new seals (payonce rail stop NAME --reason TEXT), keep the database as it is, and find out what wrote this. A correction is a new posting, never an edit.`,
        ].join('\n'),
        exit: isClean ? EXIT.ok : EXIT.failed,
      };
    },
  );
}

function readCount(text: string): number {
  const count = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > ACTS_LISTED_MAX)
    throw new InvalidArgumentError(`Give a whole number from 1 to ${ACTS_LISTED_MAX}.`);
  return count;
}
