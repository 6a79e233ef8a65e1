/*
 * Goal: what a profile of trades claims may shrink and never grow in silence (req T5). Method: each profile's claims against the
 * committed baseline, then each kind of widening planted in a copy.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  TRADE_PROFILES,
  type TradeEvidence,
  tradeEvidenceOf,
  type TradeProfile,
  tradeWidenings,
} from '../../src/rails/escrow/index.ts';
import { profileOf, standard } from './escrow-scene.ts';

const baseline = JSON.parse(readFileSync(new URL('escrow-baseline.json', import.meta.url), 'utf8')) as {
  readonly [profile: string]: TradeEvidence;
};

test('no profile of trades claims more than its committed baseline, nor less without it (req T5, req T12)', () => {
  assert.deepEqual(Object.keys(baseline).sort(), TRADE_PROFILES.map((profile) => profile.name).sort());
  for (const profile of TRADE_PROFILES) {
    const allowed = baseline[profile.name] ?? assert.fail(profile.name);
    assert.deepEqual(tradeWidenings(allowed, tradeEvidenceOf(profile)), [], profile.name);
    assert.deepEqual(allowed, tradeEvidenceOf(profile), profile.name);
  }
});

test('each widening of a profile of trades is found by name', () => {
  const changed = (change: Partial<TradeProfile>, profile = standard): readonly string[] =>
    tradeWidenings(tradeEvidenceOf(profile), tradeEvidenceOf({ ...profile, ...change }));
  const row = {
    statuses: [422],
    code: 'new',
    means: { reads: 'refused', why: '', final: true, storedUnderKey: 'a page' },
  } as const;
  assert.deepEqual(changed({ codes: [...standard.codes, row] }), ['storedUnderKey: 422 new', 'finalRefusals: 422 new']);
  assert.deepEqual(changed({ states: { ...standard.states, gone: 'ended' } }), ['endedStates: gone']);
  assert.deepEqual(changed({ states: { ...standard.states, done: 'released' } }), ['releasedStates: done']);
  assert.deepEqual(changed({ retentionMs: null, latenessMs: 60_000 }), ['retentionMs', 'latenessMs']);
  assert.deepEqual(changed({ failedKeepsKey: 'a page' }, profileOf('trustap')), ['failedKeepsKey']);
  assert.deepEqual(changed({ states: {}, codes: [], replayMark: null, failedKeepsKey: null }), []);
});

test('no liquidity, limit or hours count at once, and every claim names where it is said (req T12)', () => {
  for (const profile of TRADE_PROFILES) {
    for (const { code, means } of profile.codes) {
      if (means.reads !== 'refused') continue;
      for (const cite of [means.atOnce, means.afterKeyCheck, means.storedUnderKey])
        assert.ok(cite === undefined || cite.length > 10, `${profile.name} ${code}`);
      if (means.atOnce !== undefined || means.final)
        assert.doesNotMatch(code, /liquidity|range|limit|closed|duplicate|exist|used/i, `${profile.name} ${code}`);
      assert.notEqual(code, '*', `${profile.name}: a refusal needs its code`);
    }
    assert.ok(profile.latenessMs >= 30 * 60_000);
    assert.ok(profile.echoes.includes('reference') && profile.echoes.includes('amount'), profile.name);
  }
});
