/*
 * Goal: what a profile claims may shrink and never grow in silence (req T5): what is paid again under a new key cannot be
 * undone. Method: each profile's claims against the committed baseline, then each kind of widening planted in a copy.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { evidenceOf, type Profile, type ProfileEvidence, PROFILES, widenings } from '../../src/rails/bank/index.ts';

const baseline = JSON.parse(readFileSync(new URL('bank-baseline.json', import.meta.url), 'utf8')) as {
  readonly [profile: string]: ProfileEvidence;
};

test('no profile claims more than its committed baseline (req T5, req T12)', () => {
  assert.deepEqual(Object.keys(baseline).sort(), PROFILES.map((profile) => profile.name).sort());
  for (const profile of PROFILES) {
    const allowed = baseline[profile.name] ?? assert.fail(profile.name);
    assert.deepEqual(widenings(allowed, evidenceOf(profile)), [], profile.name);
  }
});

test('the baseline claims nothing that no profile claims: a narrowing is committed with it', () => {
  for (const profile of PROFILES) assert.deepEqual(baseline[profile.name], evidenceOf(profile), profile.name);
});

test('each widening is found by name', () => {
  const [generic] = PROFILES;
  assert.ok(generic !== undefined);
  const allowed = evidenceOf(generic);
  const changed = (change: Partial<Profile>): readonly string[] =>
    widenings(allowed, evidenceOf({ ...generic, ...change }));
  const refusal = { reads: 'refused', why: '', final: false } as const;
  const withRow = (means: Profile['codes'][number]['means']): readonly string[] =>
    changed({ codes: [...generic.codes, { statuses: [422], code: 'new', means }] });
  assert.deepEqual(withRow(refusal), []);
  assert.deepEqual(withRow({ ...refusal, final: true }), ['finalRefusals: 422 new']);
  assert.deepEqual(withRow({ ...refusal, atOnce: 'a page' }), ['refusedAtOnce: 422 new']);
  assert.deepEqual(withRow({ ...refusal, afterKeyCheck: 'a page' }), ['afterKeyCheck: 422 new']);
  assert.deepEqual(withRow({ ...refusal, storedUnderKey: 'a page' }), ['storedUnderKey: 422 new']);
  assert.deepEqual(changed({ retentionMs: 2 * 86_400_000 }), ['retentionMs']);
  assert.deepEqual(changed({ retentionMs: null }), ['retentionMs']);
  assert.deepEqual(changed({ latenessMs: 60_000 }), ['latenessMs']);
  assert.deepEqual(changed({ failedKeepsKey: 'a page' }), ['failedKeepsKey']);
  assert.deepEqual(changed({ scope: ['base_url', 'method', 'path'] }), ['scope without credential']);
  assert.deepEqual(changed({ states: { ...generic.states, lost: 'failed' } }), ['failedStates: lost']);
  assert.deepEqual(changed({ replayMark: { header: 'x-again', value: 'yes', cite: 'a page' } }), ['replayMark']);
  const [unkeyed] = PROFILES.filter((profile) => profile.key === null);
  assert.ok(unkeyed !== undefined);
  assert.deepEqual(widenings(evidenceOf(unkeyed), evidenceOf({ ...unkeyed, key: generic.key })), ['keyed']);
  assert.deepEqual(changed({ retentionMs: 3_600_000, latenessMs: 2 * 3_600_000, replayMark: null, codes: [] }), []);
});

test('no balance, limit, hours or duplicate counts at once, and every claim names where it is said (req T12)', () => {
  for (const profile of PROFILES) {
    for (const { code, means } of profile.codes) {
      if (means.reads !== 'refused') continue;
      for (const cite of [means.atOnce, means.afterKeyCheck, means.storedUnderKey])
        assert.ok(cite === undefined || cite.length > 10, `${profile.name} ${code}`);
      if (means.atOnce !== undefined || means.final)
        assert.doesNotMatch(
          code,
          /balance|fund|limit|hour|maintenance|duplicate|exist|used/i,
          `${profile.name} ${code}`,
        );
      assert.notEqual(code, '*', `${profile.name}: a refusal needs its code`);
    }
    assert.ok(profile.latenessMs >= 30 * 60_000);
    if (profile.linesMax === 1) {
      assert.ok(profile.echoes.includes('amount'));
      assert.ok(profile.echoes.includes('reference') || profile.echoes.includes('key'));
    }
  }
});
