/** What people stop and let go on: wallets, rails, and a database that changed. */
import type { Command } from 'commander';
import { auditAct } from '../engine/administration.ts';
import { listRails, needWallet, releaseWallet, resumeRail, signOffDatabase, stopRail } from '../engine/stops.ts';
import { PayonceError } from '../kernel/errors.ts';
import { addAllowanceCommands } from './allowance-commands.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps, Wired } from './deps.ts';
import { EXIT, moment, paint, printable, table } from './output.ts';
import { addWalletList } from './wallet-list-command.ts';

export function addControlCommands(program: Command, bind: Bind, deps: CliDeps): void {
  addWalletCommands(program.command('wallet').description('what signs and pays'), bind, deps);
  addRailCommands(program.command('rail').description('the ways money takes'), bind, deps);
  bind<{ reason: string }>(
    program
      .command('database')
      .description('the database itself')
      .command('sign-off')
      .description('after a fail-over or a restore: say that no commit is missing, and let seals go on (admin)')
      .requiredOption('--reason <text>', 'how you made sure; it stands in the audit log'),
    async (_args, { reason }) => {
      const done = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('database sign-off', (tx) => signOffDatabase(tx, operatorKey, reason)),
      );
      const resumed = done.resumed.length === 0 ? '' : ` Going on: ${done.resumed.join(', ')}.`;
      return {
        json: done,
        text:
          done.outcome === 'signed_off'
            ? `Signed off: system ${done.marks?.system_identifier ?? '?'}, timeline ${done.marks?.timeline ?? '?'}.${resumed}`
            : 'This is the database that was signed off: nothing to do.',
      };
    },
  );
}

function addWalletCommands(wallet: Command, bind: Bind, deps: CliDeps): void {
  addWalletList(wallet, bind, deps);
  addAllowanceCommands(wallet, bind, deps);
  bind(wallet.command('create').description('make a key in the keystore and tell its address (admin)'), async () => {
    const { evm, tron } = await deps.withDatabase(async ({ pool, operatorKey }) => {
      // Asked before the key is made, written down after: a key file that nobody may have made would stay.
      await pool.tx('wallet create', (tx) => auditAct(tx, operatorKey, 'wallet.asked', 'keystore', {}));
      const made = await deps.createWallet();
      await pool.tx('wallet create', (tx) =>
        auditAct(tx, operatorKey, 'wallet.created', made.evm, { tron: made.tron }),
      );
      return made;
    });
    return {
      json: { address: evm, tron_address: tron },
      text: `Made ${paint('bold', evm)}, which TRON writes ${paint('bold', tron)}. Its key is in the keystore: back the folder up before you send anything there.\nNext: name it in the file of PAYONCE_CONFIG (as "wallet" or in "relayers" of an asset, or in "wallets" as GAS or SETTLEMENT), fund it with coin for gas, restart.`,
    };
  });
  bind<{ reason: string }>(
    wallet
      .command('release <rail> <address>')
      .description('end a quarantine (approver): every foreign transfer of this wallet has been matched')
      .addHelpText(
        'after',
        `
For example: payonce wallet release evm:1 0x5290… --reason "our own test of the key"
The chain (eip155:1) stands for its rail too. What moved: payonce reconcile chain --wallet ADDRESS; booked by two persons: payonce repair.`,
      )
      .requiredOption('--reason <text>', 'what moved it, and why that is no danger'),
    async (args, { reason }) => {
      const [named, asked] = [argument(args, 0), argument(args, 1)];
      const { rail, outcome, address, nonceHead } = await deps.withEngine(async (wired) => {
        const rail = wired.chains.find((one) => one.chain === named)?.rail ?? named;
        const address = addressOn(wired, rail, asked);
        const nonceHead = await askNonce(wired, rail, address);
        const outcome = await wired.pool.tx('wallet release', (tx) =>
          releaseWallet(tx, wired.operatorKey, { rail, address, nonceHead: nonceHead ?? 0n, reason }),
        );
        return { rail, outcome, address, nonceHead };
      });
      return {
        json: { rail, address, outcome, nonce_head: nonceHead },
        text:
          outcome === 'released'
            ? `Released ${address}: it seals again${nonceHead === null ? '' : `, from nonce ${nonceHead} on at the earliest`}.`
            : `${address} is not in quarantine.`,
        exit: outcome === 'released' ? EXIT.ok : EXIT.conflict,
      };
    },
  );
}

/** In the chain's one spelling; where no chain is configured for the rail, as it was written. */
function addressOn({ chains }: Wired, rail: string, asked: string): string {
  const chain = chains.find((one) => one.rail === rail);
  if (chain === undefined) return /^0x/i.test(asked) ? asked.toLowerCase() : asked;
  const address = chain.canonical(asked);
  if (address === null)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `<address>: got "${printable(asked)}", expected an address of ${chain.chain}: a character is wrong or missing`,
    });
  return address;
}

/** The chain's own count, read now: no used place may be given out again. `null`: this chain counts nothing. */
async function askNonce({ engine, pool }: Wired, name: string, address: string): Promise<bigint | null> {
  await needWallet(pool, name, address);
  const rail = engine.rails.get(name);
  if (rail === undefined) {
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: `Rail ${name} is not configured here, so its chain cannot be asked: set PAYONCE_CONFIG to the file that has it`,
    });
  }
  if (rail.survey === undefined) return null;
  const [survey] = await rail.survey([address]);
  if (survey === undefined || survey.nonceHead === null)
    throw new PayonceError('PO_BUSY', {
      detail: `No node of ${name} tells the nonce of ${address}: nothing was changed`,
    });
  return survey.nonceHead;
}

function addRailCommands(rail: Command, bind: Bind, deps: CliDeps): void {
  bind(rail.command('list').description('rails, and whether they seal anything new'), async () => {
    const rails = await deps.withDatabase(({ pool }) => listRails(pool));
    const rows = rails.map((one) => [
      one.name,
      String(one.pending),
      String(one.sealed),
      one.seals_stopped_at === null
        ? paint('green', 'seals')
        : paint(
            'red',
            `stopped since ${moment(one.seals_stopped_at) ?? '?'}: ${printable(one.seals_stopped_reason ?? '')}`,
          ),
    ]);
    return {
      json: { rails },
      text: table(['RAIL', 'PENDING', 'SEALED', 'NEW SEALS'], rows, 'No rail yet: set PAYONCE_CONFIG.'),
    };
  });
  bind<{ reason: string }>(
    rail
      .command('stop <name>')
      .description('seal nothing new from now on (operator); what is sealed is still followed')
      .requiredOption('--reason <text>', 'why; people and the audit log see it'),
    async (args, { reason }) => {
      const name = argument(args, 0);
      const done = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('rail stop', (tx) => stopRail(tx, operatorKey, name, reason)),
      );
      return {
        json: { name, ...done },
        text:
          done.outcome === 'stopped'
            ? `Stopped ${name}: nothing new is sealed. What is sealed is looked at, sent again and settled as before.`
            : `${name} is stopped already: ${printable(done.reason)}`,
      };
    },
  );
  bind(
    rail
      .command('resume <name>')
      .description('let seals go on (one admin is enough: it sends nothing by itself, and the audit log names them)'),
    async (args) => {
      const name = argument(args, 0);
      const done = await deps.withDatabase(({ pool, operatorKey }) =>
        pool.tx('rail resume', (tx) => resumeRail(tx, operatorKey, name)),
      );
      return {
        json: { name, ...done },
        text:
          done.outcome === 'resumed'
            ? `${name} seals again. It had been stopped for: ${printable(done.reason ?? '')}`
            : `${name} was not stopped.`,
      };
    },
  );
}
