/*
 * Goal: each provider's words mean what its documents say, stage by stage. Method: the simulator's vocabularies, which are written apart
 * from the profiles, beside a table of meanings; every word is read as an answer, once unpaid and once after the buyer's mark.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Stage, type Vocabulary, VOCABULARY } from '../../sim/escrow/vocabulary.ts';
import { TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import type { TradeMeaning } from '../../src/rails/escrow/profile.ts';
import { profileOf, readEverywhere, sealOf, tradeIn } from './escrow-scene.ts';

const MEANINGS: Readonly<Record<Stage, TradeMeaning>> = {
  created: 'stands',
  escrowed: 'stands',
  buyer_marked_paid: 'stands',
  releasing: 'stands',
  on_hold: 'stands',
  released: 'released',
  cancelled: 'ended',
  expired: 'ended',
  disputed: 'disputed',
  refunded: 'refunded',
};

/** Where a provider has no word for the stage, and the one it says means something else; always people's, or that it still stands. */
const SAID_OTHERWISE: Readonly<Record<Vocabulary, Partial<Record<Stage, TradeMeaning>>>> = {
  standard: {},
  // An appeal is all that is seen of a refund.
  'binance-c2c': { refunded: 'disputed' },
  'bybit-p2p': { refunded: 'ended_paid' },
  trustap: {},
  // It knows no disputes, and says of a refund only that it was cancelled: the mark beside it keeps that from freeing anything.
  'rapyd-escrow': { disputed: 'stands', refunded: 'ended' },
  transak: { disputed: 'stands' },
};

/** Words of documents for which the simulator has no stage. */
const NOT_SIMULATED: Readonly<Record<Vocabulary, readonly string[]>> = {
  standard: [],
  'binance-c2c': ['APPEALING'],
  'bybit-p2p': ['70', '90', '100', '110'],
  trustap: ['cancelled_with_payment', 'complaint_period_ended'],
  'rapyd-escrow': [],
  transak: ['PENDING_DELIVERY_FROM_TRANSAK', 'FAILED'],
};

const names = Object.keys(VOCABULARY) as Vocabulary[];
const stages = Object.keys(MEANINGS) as Stage[];

test('every built-in vocabulary is simulated, word for word, and every word is a stage’s or named here (req M10, rails.md §4)', () => {
  assert.deepEqual(names.toSorted(), TRADE_PROFILES.map((profile) => profile.name).toSorted());
  for (const name of names) {
    const said = new Set([...Object.values(VOCABULARY[name]), ...NOT_SIMULATED[name]]);
    assert.deepEqual([...said].toSorted(), Object.keys(profileOf(name).states).toSorted(), name);
  }
});

test('each stage means the same in every vocabulary, or stands in the list of those that say otherwise (req M10, rails.md §6.4)', () => {
  for (const name of names)
    for (const stage of stages)
      assert.equal(
        profileOf(name).states[VOCABULARY[name][stage]],
        SAID_OTHERWISE[name][stage] ?? MEANINGS[stage],
        `${name}: ${stage} is said as ${VOCABULARY[name][stage]}`,
      );
});

test('only a word for released settles a trade, and none that follows the buyer’s mark frees it (req M10, inv E10)', () => {
  for (const name of names) {
    const profile = profileOf(name);
    const sealed = sealOf(profile);
    for (const stage of stages) {
      const state = VOCABULARY[name][stage];
      const meaning = profile.states[state];
      const seen = (change: Parameters<typeof tradeIn>[1]): string[] => [
        ...new Set(readEverywhere(profile, sealed, tradeIn(state, change)).map((one) => one.kind)),
      ];
      const about = `${name}: ${stage} (${state})`;
      const whole = { released_amount: meaning === 'released' ? '100.5' : null };
      const expected = meaning === 'released' ? 'final_success' : meaning === 'ended' ? 'object_failed' : 'accepted';
      assert.deepEqual(seen(whole), [expected], `${about}, unpaid`);
      assert.deepEqual(
        seen({ ...whole, paid_marked_at: '2030-01-02T03:05:00Z' }),
        [meaning === 'released' ? 'final_success' : 'accepted'],
        `${about}, marked as paid`,
      );
    }
    assert.deepEqual(
      [...new Set(readEverywhere(profile, sealed, tradeIn('A_NEW_WORD')).map((one) => one.kind))],
      ['unreadable'],
    );
  }
});
