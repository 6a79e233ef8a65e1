/* Guards of the TRON rail: what is solid, what is absent, and who signs and pays. */
import type { Guard } from './guard.ts';

const READ = 'test/rails/tron-read.test.ts';
const MOVES = 'test/flows/own-moves-tron.test.ts';
const STRANGE = 'test/flows/deposits-tron-strange.test.ts';

export const TRON: Guard[] = [
  {
    name: 'TRON margin and solidity (the margin)',
    file: 'src/rails/tron/limits.ts',
    find: 'export const EXPIRY_MARGIN_MS = 120_000;',
    replace: 'export const EXPIRY_MARGIN_MS = -1;',
    test: READ,
    title: /not shown is no information until solid time is past expiration and margin/,
    expect: /expired_unincluded/,
  },
  {
    name: 'TRON margin and solidity (the head is display alone)',
    file: 'src/rails/tron/read.ts',
    find: "return tells(scene, 'included', where);",
    replace: "return tells(scene, 'final_success', where);",
    test: READ,
    title: /at the head alone it is included, for display/,
    expect: /final_success/,
  },
  {
    name: 'a relayer on TRON moves the wallet’s tokens, not its own (R15)',
    file: 'src/rails/tron/payload.ts',
    find: 'machineAddress(intent.signer) === wallet',
    replace: 'machineAddress(intent.signer) !== to',
    test: MOVES,
    title: /a relayer signs and pays for the wallet/,
    expect: /SIMULATION_REVERTED/,
  },
  {
    name: 'TRX before energy: an address that the chain does not have (R9, R16)',
    file: 'src/rails/tron/afford.ts',
    find: '  if (!account.exists && effect.asset.contract !== null) {',
    replace: "  if (!account.exists && effect.asset.contract === '') {",
    test: MOVES,
    title: /a sweep waits for TRX, then for energy/,
    expect: /ENERGY_SHORT/,
  },
  {
    name: 'TRX itself is signed by its owner alone (R15)',
    file: 'src/rails/tron/afford.ts',
    find: "if (body.kind === 'transfer' && signer !== wallet) {",
    replace: "if (body.kind === 'transfer' && signer === '') {",
    test: 'test/rails/tron-plan.test.ts',
    title: /TRX is signed by the wallet that it leaves/,
    expect: /"verdict":"ready"/,
  },
  {
    name: 'TRON: only what a contract calls, makes or leaves moves TRX (energy that is lent)',
    file: 'src/rails/tron/receipt.ts',
    find: "if (field(raw, 'rejected') === true || STAYING_NOTES.test(note)) continue;",
    replace: "if (field(raw, 'rejected') === true) continue;",
    test: STRANGE,
    title: /energy that a contract lends to a deposit address/,
    expect: /delegateResourceOfEnergy/,
  },
  {
    name: 'TRON: only what a contract calls, makes or leaves moves TRX (a word not known)',
    file: 'src/rails/tron/receipt.ts',
    find: 'if (MOVING_NOTES.has(note)) moved.push',
    replace: "if (note !== '') moved.push",
    test: STRANGE,
    title: /an opcode that we do not know credits nobody/,
    expect: /trx: 15n/,
  },
  {
    name: 'TRON: one transaction that does not read stops nobody',
    file: 'src/rails/tron/blocks.ts',
    find: "if (typeof read === 'string') unread.push({ hash, why: read, names: namesIn([value, receipt]) });",
    replace: "if (typeof read === 'string') return fault(read);",
    test: STRANGE,
    title: /a transaction that does not read is left out alone/,
    expect: /waiting/,
  },
  {
    name: 'TRON: what was left out and names an address of ours is told',
    file: 'src/flows/deposits/doubts.ts',
    find: 'if (named?.length === 0) continue;',
    replace: 'if (named !== null) continue;',
    test: STRANGE,
    title: /a transaction that does not read is left out alone/,
    expect: /0 !== 1/,
  },
  {
    name: 'TRON: an exception without a word of its own is a failure (UNKNOWN)',
    file: 'src/rails/tron/receipt.ts',
    find: "  'UNKNOWN',\n]);",
    replace: ']);',
    test: READ,
    title: /a call that failed in a solid block is a proven no/,
    expect: /UNKNOWN/,
  },
];
