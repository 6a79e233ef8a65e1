/** `payonce probe`: what a provider's profile promises beside what its sandbox does. */
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { PayonceError } from '../kernel/errors.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps, ProbeOffer, ProbeTold } from './deps.ts';
import { EXIT, makeProgress, paint, printable, table } from './output.ts';

interface Options {
  readonly sandbox?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly baseUrl: string;
  readonly account: string;
  readonly credential: string;
  readonly secretFrom: string;
  readonly secondSecretFrom?: string;
  readonly encryptionKeyFrom?: string;
  readonly currency: string;
  readonly decimals?: number;
  readonly amount: string;
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
  readonly memo: string;
  readonly refusedBankCode?: string;
  readonly refusedAccountNumber?: string;
  readonly otherPath?: string;
  readonly clockUrl?: string;
  readonly drainUrl?: string;
  readonly topUpUrl?: string;
  readonly balanceUrl?: string;
  readonly failUrl?: string;
  readonly lagWait: number;
}

/** `--json` shows all. What was seen matters more. */
const DECLARED_CHARACTERS_MAX = 56;
const OBSERVED_CHARACTERS_MAX = 160;
const LAG_WAIT_SECONDS = 120;
const LAG_WAIT_SECONDS_MAX = 3_600;
/** What a currency has at most, with the rarest ones. */
const DECIMALS_MAX = 4;

const VERDICTS = {
  agrees: ['green', 'agrees'],
  promises_more: ['red', 'PROMISES MORE'],
  promises_less: ['cyan', 'promises less'],
  not_tried: ['yellow', 'not tried'],
} as const;

export function addProbeCommand(program: Command, bind: Bind, deps: CliDeps): void {
  bind<Options>(
    program
      .command('probe')
      .description('try a bank profile against its sandbox; exit 1 where it promises more than was seen')
      .argument('<profile>', 'which profile')
      .requiredOption('--base-url <url>', 'where the sandbox is')
      .requiredOption('--account <id>', 'the account there that pays')
      .requiredOption('--secret-from <variable>', 'the environment variable with its secret: PAYONCE_BANK_…')
      .requiredOption('--currency <code>', 'such as KRW')
      .requiredOption('--amount <decimal>', 'of each transfer')
      .requiredOption('--bank-code <code>', 'of a receiver that the sandbox pays')
      .requiredOption('--account-number <text>', 'of that receiver')
      .requiredOption('--holder-name <text>', 'of that receiver')
      .option('--memo <text>', 'what the transfers say', '')
      .option('--decimals <count>', 'of the currency, where the profile does not say it', wholeUpTo(DECIMALS_MAX))
      .option('--credential <name>', 'what the secret is called', 'sandbox')
      .option('--encryption-key-from <variable>', 'where bodies are encrypted: the variable with the key')
      .option('--second-secret-from <variable>', 'another credential of the same account')
      .option('--refused-account-number <text>', 'of a receiver that the sandbox refuses')
      .option('--refused-bank-code <code>', 'its bank, if another')
      .option('--other-path <path>', 'another path that takes the same request')
      .option('--clock-url <url>', 'POST {"ms": …} moves the sandbox’s clock on')
      .option('--drain-url <url>', 'POST empties the account')
      .option('--top-up-url <url>', 'POST {"currency", "units"} fills it')
      .option('--balance-url <url>', 'GET answers {"units": "…"}')
      .option('--fail-url <url>', 'POST {"key", "object_id"} makes a transfer fail')
      .option('--lag-wait <seconds>', 'how late a look-up may be', wholeUpTo(LAG_WAIT_SECONDS_MAX), LAG_WAIT_SECONDS)
      .option('--sandbox', 'say that it is one: money moves there')
      .option('--yes', 'send what is announced without asking'),
    async (args, options) => {
      if (options.sandbox !== true) {
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `${options.baseUrl} gets real transfers, some of them twice on purpose. If it is a sandbox, say --sandbox`,
        });
      }
      const offer = await deps.offerProbe(toAsked(argument(args, 0), options));
      announce(offer, options);
      await agree(options);
      const progress = makeProgress(options.json !== true);
      const told = await offer
        .run((probe, done, total) => progress.show(probe.slice(0, 12), BigInt(done), BigInt(total)))
        .finally(() => progress.end());
      return { json: told, text: toText(told), exit: told.ok ? EXIT.ok : EXIT.failed };
    },
  );
}

function toAsked(profile: string, options: Options): Parameters<CliDeps['offerProbe']>[0] {
  const { clockUrl, drainUrl, topUpUrl, balanceUrl, failUrl } = options;
  const { refusedBankCode, refusedAccountNumber } = options;
  return {
    profile,
    baseUrl: options.baseUrl,
    account: options.account,
    credential: options.credential,
    secretFrom: options.secretFrom,
    secondSecretFrom: options.secondSecretFrom ?? null,
    encryptionKeyFrom: options.encryptionKeyFrom ?? null,
    currency: options.currency,
    decimals: options.decimals ?? null,
    amount: options.amount,
    payee: {
      bankCode: options.bankCode,
      accountNumber: options.accountNumber,
      holderName: options.holderName,
      memo: options.memo,
    },
    refused:
      refusedAccountNumber === undefined
        ? null
        : { accountNumber: refusedAccountNumber, bankCode: refusedBankCode ?? options.bankCode },
    otherPath: options.otherPath ?? null,
    levers: {
      ...(clockUrl === undefined ? {} : { clock: clockUrl }),
      ...(drainUrl === undefined ? {} : { drain: drainUrl }),
      ...(topUpUrl === undefined ? {} : { topUp: topUpUrl }),
      ...(balanceUrl === undefined ? {} : { balance: balanceUrl }),
      ...(failUrl === undefined ? {} : { fail: failUrl }),
    },
    lagWaitMs: options.lagWait * 1_000,
  };
}

/** On stderr, so that stdout is the answer alone. */
function announce(offer: ProbeOffer, { currency, baseUrl, account }: Options): void {
  const lines = [
    `At most ${offer.requestsMax} requests of ${offer.amountEach} ${currency} from ${account} at ${baseUrl}: ${offer.transfersExpected} transfers if it keeps what the profile promises, ${offer.amountMax} ${currency} if it keeps nothing.`,
    ...offer.notTried.map((one) => `${paint('yellow', 'not tried')} ${one.probe}: ${one.why}`),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}

async function agree({ yes }: Options): Promise<void> {
  if (yes === true) return;
  if (!process.stdin.isTTY) {
    throw new PayonceError('PO_REQUEST_INVALID', { detail: 'Nobody can be asked here: say --yes to send it' });
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const closed = once(lines, 'close').then(() => 'no');
    const answer = await Promise.race([lines.question('Send them? (yes/no) '), closed]);
    if (answer.trim().toLowerCase() !== 'yes')
      throw new PayonceError('PO_REQUEST_INVALID', { detail: 'Nothing was sent: the answer was not yes' });
  } finally {
    lines.close();
  }
}

function toText(told: ProbeTold): string {
  const rows = told.rows.map((row) => {
    const [colour, words] = VERDICTS[row.verdict];
    return [
      paint(colour, words),
      printable(row.probe),
      shortened(row.declared, DECLARED_CHARACTERS_MAX),
      shortened(row.observed, OBSERVED_CHARACTERS_MAX),
    ];
  });
  const more = told.rows.filter((row) => row.verdict === 'promises_more').length;
  const untried = told.rows.filter((row) => row.verdict === 'not_tried').length;
  const sent = `${told.requestsSent} requests sent, ${told.transfersSeen} transfers seen. ${untried} of ${told.rows.length} rows could not be tried and prove nothing.`;
  const end = !told.started
    ? `${paint('red', 'Nothing could be seen:')} the first transfer was not accepted.`
    : more === 0
      ? paint('green', 'The profile promises no more than was seen.')
      : `${paint('red', `The profile promises more than was seen, in ${more === 1 ? 'one row' : `${more} rows`}.`)} Narrow what your configuration counts on (banks[].narrower, direct: false), or correct the profile, before money goes that way.`;
  return [table(['VERDICT', 'WHAT', 'DECLARED', 'OBSERVED'], rows), '', sent, end].join('\n');
}

/** A row stays one line on a wide terminal. */
function shortened(text: string, charactersMax: number): string {
  const one = printable(text);
  return one.length <= charactersMax ? one : `${one.slice(0, charactersMax)}…`;
}

function wholeUpTo(most: number): (text: string) => number {
  return (text) => {
    const count = /^\d{1,6}$/.test(text) ? Number(text) : -1;
    if (count < 0 || count > most) throw new InvalidArgumentError(`Give a whole number from 0 to ${most}.`);
    return count;
  };
}
