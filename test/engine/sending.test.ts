/*
 * Goal: nothing leaves before it is durable, later than its permission, or where the signer's own row forbids it. Method:
 * the engine on the rail where nothing moves, with a sequence or a signature where the test is about one; what is durable
 * is read from the database at the moment of the send.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { advanceEffect, advanceOnce } from '../../src/engine/advance.ts';
import type { Observation } from '../../src/engine/rail.ts';
import { assertBooksClean } from '../support/books.ts';
import type { World } from '../support/world.ts';
import { effectOf, intendOne, makeDue, makeNoopWorld, railOf, sequenced, signing, silentUntil } from './noop-scene.ts';

/** What a row says, at each send. */
async function readingAtSends(
  sql: string,
  options: Parameters<typeof makeNoopWorld>[1] & { look?: () => readonly Partial<Observation>[] },
): Promise<{ one: World; read: unknown[] }> {
  const read: unknown[] = [];
  const one: World = await makeNoopWorld(
    {
      ...silentUntil(options.look ?? (() => [{ kind: 'not_found' }])),
      async send() {
        const { rows } = await one.pool.query<{ found: unknown }>(sql);
        read.push(rows[0]?.found);
        return { kind: 'in_progress' };
      },
    },
    options,
  );
  return { one, read };
}

test('the seal is committed when the first byte leaves (inv E6)', async () => {
  const { one, read } = await readingAtSends('select state as found from payonce.effects', {});
  await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.deepEqual(read, ['SEALED']);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a signed variant is stored when its first byte leaves (inv E7)', async () => {
  const { one, read } = await readingAtSends('select count(*)::int as found from payonce.effect_variants', {
    change: signing,
  });
  await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.deepEqual(read, [1]);
  await one.end();
});

test('testimony of a look is committed before the same pass calls the rail again (inv E13)', async () => {
  const { one, read } = await readingAtSends('select testimonies as found from payonce.effects', {
    capabilities: { resendAfterMs: 0 },
    // Something stands under our key, and no object is named that looks could follow.
    look: () => [{ kind: 'key_taken', objectId: null }],
  });
  await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  assert.deepEqual(read, [0, 1]);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a permission that has grown old by our own clock is not used (inv E11)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => []),
    {
      world: { leaseMs: 200 },
      change: (plain) => {
        const rail = signing(plain);
        return {
          ...rail,
          async sign(sealed, spec) {
            // Longer than the quarter of the lease within which a send may begin.
            await sleep(80);
            const signed = await rail.sign?.(sealed, spec);
            assert.ok(signed);
            return signed;
          },
        };
      },
    },
  );
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.equal(one.engine.counters.sends, 0, 'sent after its permission had ended');
  await assertBooksClean(one.pool);
  await one.end();
});

test('a slow plan and a slow look use up no permission: what is sealed leaves, and leaves again (req W10)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => [{ kind: 'not_found' }]),
    {
      capabilities: { resendAfterMs: 0 },
      world: { leaseMs: 400 },
      change: (rail) => ({
        ...rail,
        async plan(effects, context) {
          await sleep(150);
          return rail.plan(effects, context);
        },
        async look(sealed) {
          await sleep(150);
          return rail.look(sealed);
        },
      }),
    },
  );
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal(one.engine.counters.sends, 1, 'the plan took longer than a send may wait');
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal(one.engine.counters.sends, 2, 'the look took longer than a send may wait');
  assert.equal((await effectOf(one, id)).sendCount, 2);
  await assertBooksClean(one.pool);
  await one.end();
});

test('where sends are slow, a pass gives no permission that it cannot use: the rest stays unsealed, or unraised', async () => {
  const one = await makeNoopWorld(
    {
      ...silentUntil(() => [{ kind: 'not_found' }]),
      async send() {
        await sleep(60);
        return { kind: 'in_progress' };
      },
    },
    { capabilities: { resendAfterMs: 0, sendConcurrencyMax: 1 }, world: { leaseMs: 400 } },
  );
  // The pace is measured by the first; of the next five a quarter of the lease holds one send of 60 ms.
  await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  const before = one.engine.counters.sends;
  assert.equal(before, 1);
  for (let made = 0; made < 5; made += 1) await intendOne(one);
  const sums =
    'select count(*)::int as sealed, sum(send_count)::int as permissions from payonce.effects where sealed_at is not null';
  for (let pass = 0; pass < 8; pass += 1) {
    await makeDue(one);
    await advanceOnce(one.engine, railOf(one));
    const { rows } = await one.pool.query<{ sealed: number; permissions: number }>(sums);
    assert.equal(rows[0]?.permissions, one.engine.counters.sends, `pass ${pass}: each permission is a send`);
  }
  const { rows } = await one.pool.query<{ sealed: number }>(sums);
  assert.equal(rows[0]?.sealed, 6);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a key is sent again only while the rail keeps it longer than a request may be late (inv E14)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => [{ kind: 'not_found' }]),
    {
      capabilities: { resendAfterMs: 0, keyRetentionMs: 60_000, latenessMs: 59_900 },
    },
  );
  await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  await sleep(150);
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal(one.engine.counters.sends, 1, 'sent again after the key window');
  await assertBooksClean(one.pool);
  await one.end();
});

async function quarantineOf(one: World): Promise<string | null> {
  const { rows } = await one.pool.query<{ reason: string | null }>(
    'select quarantine_reason as reason from payonce.signers',
  );
  return rows[0]?.reason ?? null;
}

test('a chain that counts more of a wallet than we gave out quarantines it before a seal (case E5, inv E9)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => []),
    { change: sequenced(3n) },
  );
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal((await effectOf(one, id)).state, 'PENDING');
  assert.match((await quarantineOf(one)) ?? '', /the chain counts 3, we gave out 0/);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a quarantined wallet seals nothing, whoever asks (inv E9)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => []),
    { change: sequenced(0n) },
  );
  const id = await intendOne(one);
  await one.pool.query("update payonce.signers set quarantined_at = payonce.now(), quarantine_reason = 'a test'");
  assert.equal(await advanceEffect(one.engine, id), 'advanced');
  assert.equal((await effectOf(one, id)).state, 'PENDING');
  await assertBooksClean(one.pool);
  await one.end();
});

test('a nonce that another transaction spent quarantines its wallet, and the next try waits (case E5)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => [{ kind: 'spent_by_other', objectId: '0xother' }]),
    { change: sequenced(0n) },
  );
  await intendOne(one);
  for (let pass = 0; pass < 2; pass += 1) {
    await makeDue(one);
    await advanceOnce(one.engine, railOf(one));
  }
  assert.match((await quarantineOf(one)) ?? 'not quarantined', /nonce 0 was spent by 0xother/);
  const { rows } = await one.pool.query<{ state: string }>('select state from payonce.effects order by seq');
  assert.deepEqual(
    rows.map((row) => row.state),
    ['RELEASED', 'PENDING'],
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('a signer has no more sealed and unmined than the rail says, whoever asks (inv E9)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => []),
    { change: sequenced(0n) },
  );
  const ids = [await intendOne(one), await intendOne(one), await intendOne(one)];
  for (const id of ids) await advanceEffect(one.engine, id);
  const states = await Promise.all(ids.map(async (id) => (await effectOf(one, id)).state));
  assert.deepEqual(states, ['SEALED', 'SEALED', 'PENDING']);
  await assertBooksClean(one.pool);
  await one.end();
});
