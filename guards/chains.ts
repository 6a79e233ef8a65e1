/* The guards of what a movement is, and of comparing with a chain. Fields: guard.ts. */
import type { PlacedGuard } from './guard.ts';

const CLASSIFY = 'test/flows/classify.test.ts';
const COMPARE = 'test/audit/reconcile-chain.test.ts';

export const COMPARED: PlacedGuard[] = [
  {
    name: 'an orphan sweep between own wallets stops the wallet (R10)',
    file: 'src/flows/deposits/classify-transfer.ts',
    find: "export const QUARANTINED: readonly TransferClass[] = ['UNKNOWN_OUTBOUND', 'UNKNOWN_INTERNAL'];",
    replace: "export const QUARANTINED: readonly TransferClass[] = ['UNKNOWN_OUTBOUND'];",
    test: CLASSIFY,
    title: /an orphan sweep between own wallets credits nobody, alarms, and stops the wallet that it left/,
    expect: /which had never signed/,
  },
  {
    name: 'a quarantined wallet seals nothing, whoever signs for it (R10, R15)',
    file: 'src/engine/seal.ts',
    find: 'else if (quarantined.has(effect.wallet) || quarantined.has(effect.signer))',
    replace: 'else if (quarantined.has(""))',
    test: CLASSIFY,
    title: /a wallet in quarantine seals nothing new, though another key signs for it/,
    expect: /SETTLED|SEALED/,
  },
  {
    name: 'an outflow is an effect’s by hash or exact payload, never by being near (R11)',
    file: 'src/audit/reconcile/chain-match.ts',
    find: 'return meant !== undefined && isMeant(one, meant) ? meant : null;',
    replace: 'return meant ?? this.scene.effects.find((effect) => isMeant(one, effect)) ?? null;',
    test: COMPARE,
    title: /a double, an orphan, an inflow of nobody, a settled effect that never moved/,
    expect: /moved more than once/,
  },
  {
    name: 'what was booked by two persons is not booked again (R18)',
    file: 'src/audit/repair/index.ts',
    find: 'if (before !== null) return `finding',
    replace: "if (before === 'never') return `finding",
    test: COMPARE,
    title: /two persons book an orphan once; the next report names them, and nothing is booked twice/,
    expect: /nothing is booked twice|chain_repairs_pkey|Missing expected rejection|didn't throw/,
  },
  {
    name: 'a shortage on the chain has its wallet compared at once (R14)',
    file: 'src/audit/reconcile/chain-watch.ts',
    find: 'await pool.query(HURRY, [chain.chain, chain.rail, HURRY_SECONDS]);',
    replace: '',
    test: COMPARE,
    title: /a wallet with less than the ledger says is compared at once, and nothing is sealed/,
    expect: /compared|deep-equal/,
  },
];
