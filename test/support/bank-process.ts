/*
 * A simulated bank in a process of its own, so that it can be stopped as a server is (SIGSTOP): its kernel takes connections
 * in meanwhile, and when it goes on it executes what clients that are long gone have asked for.
 * Started by `bankProcess`; the started side talks over the channel that `fork` makes.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type BankOptions, startBank } from '../../sim/bank/bank.ts';

export interface BankProcess {
  readonly url: string;
  readonly secret: string;
  stop(): void;
  resume(): void;
  /** Keys of the payments on the bank's own books. */
  paid(): Promise<string[]>;
  /** Its clock goes on by so much: what is too fresh for its look-ups is shown. */
  advance(ms: number): Promise<void>;
  end(): Promise<void>;
}

export async function bankProcess(options: Pick<BankOptions, 'profile' | 'settleMs'>): Promise<BankProcess> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [started] = (await once(child, 'message')) as [{ url: string; secret: string }];
  return {
    ...started,
    stop: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async paid() {
      child.send({ advanceMs: 0 });
      const [keys] = (await once(child, 'message')) as [string[]];
      return keys;
    },
    async advance(advanceMs) {
      child.send({ advanceMs });
      await once(child, 'message');
    },
    async end() {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.send !== undefined) {
  const bank = await startBank(JSON.parse(process.argv[2] ?? '{}') as BankOptions);
  const answer = async (advanceMs: number): Promise<void> => {
    bank.clock.advance(advanceMs);
    const all = await bank.books.movements();
    process.send?.(all.filter((one) => one.kind === 'out').map((one) => one.key ?? one.tx));
  };
  process.on('message', ({ advanceMs }: { advanceMs: number }) => {
    answer(advanceMs).catch((error: unknown) => {
      console.error(error);
      process.exit(1);
    });
  });
  process.on('disconnect', () => process.exit(0));
  process.send({ url: bank.url, secret: bank.credentials.current() });
}
