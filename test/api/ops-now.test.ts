/*
 * Goal: an operator's look or ask is one advance now, under the lease; who does not get it is told busy at once; a wish is
 * neither lost nor doubled. Method: a simulated bank that hangs, loses or heals on command; HTTP by inject, and over a real
 * socket where time counts.
 */
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { afterEach, test } from 'node:test';
import { makeApi } from '../../src/api/server.ts';
import { wish } from '../../src/engine/adjudicate.ts';
import { actNow } from '../../src/engine/act-now.ts';
import { advanceOnce, watchOnce } from '../../src/engine/advance.ts';
import type { NoopBehaviour } from '../../src/engine/noop.ts';
import { loadOperator } from '../../src/engine/operators.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { effectOf, intendOne, makeNoopWorld, railOf, sequenced } from '../engine/noop-scene.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf } from '../support/world.ts';
import { AMOUNT, effectIn, makeOpsApi, makeOpsScene, type OpsOptions, type OpsScene } from './ops-scene.ts';

/** "At once": far less than the bank hangs, with room for a busy machine. */
const AT_ONCE_MS = 1_000;

let open: OpsScene | null = null;
async function scene(options: OpsOptions = {}): Promise<OpsScene> {
  open = await makeOpsScene({ label: 'ops now', ...options });
  return open;
}
afterEach(async () => {
  const ending = open;
  open = null;
  await ending?.end();
});

test('a look is had now and sends nothing; when the bank shows the transfer, it settles in that very look', async () => {
  const one = await scene({
    faults: [
      { on: 'create', fault: { kind: 'lose_answer', how: 'reset' } },
      { on: 'look', fault: { kind: 'blind' } },
    ],
  });
  await one.pay();
  const before = await one.effect();
  const looked = await one.ask('POST', `/ops/effects/${before.id}/look`, 'otto');
  assert.equal(looked.status, 200, looked.text);
  assert.deepEqual(
    [looked.body.outcome, looked.body.state, looked.body.sent, looked.body.withheld],
    ['advanced', 'SEALED', 0, null],
  );
  assert.equal(one.bank.calls.create, 1, 'a look sent something');
  const after = await one.effect();
  assert.deepEqual([after.send_count, after.wanted, after.lease_until], [before.send_count, null, null]);
  one.bank.heal();
  const settled = await one.ask('POST', `/ops/effects/${before.id}/look`, 'otto');
  assert.deepEqual([settled.body.outcome, settled.body.state], ['advanced', 'SETTLED']);
  assert.deepEqual(await balanceOf(one.world), { balance: 1_000_000n - AMOUNT, held: 0n });
  // Beside every end a look is still possible, an ask is not.
  assert.equal((await one.ask('POST', `/ops/effects/${before.id}/look`, 'otto')).body.state, 'SETTLED');
  const asked = await one.ask('POST', `/ops/effects/${before.id}/ask`, 'otto');
  assert.deepEqual([asked.status, asked.body.code], [409, 'PO_EVIDENCE_REFUSED']);
  assert.match(asked.body.detail, /SETTLED: nothing is sent again/);
});

test('an ask sends the same bytes once and leaves no wish; by the transfer’s id too; the money moves once (req T8)', async () => {
  const one = await scene();
  const transferId = await one.pay();
  const before = await one.effect();
  one.bank.heal();
  const asked = await one.ask('POST', `/ops/effects/${transferId}/ask`, 'otto');
  assert.deepEqual([asked.status, asked.body.outcome], [200, 'advanced'], asked.text);
  const after = await one.effect();
  assert.equal(asked.body.sent, after.send_count - before.send_count);
  assert.equal(after.wanted, null);
  await one.pass(2);
  assert.equal((await one.effect()).state, 'SETTLED');
  assert.equal((await one.bank.books.movements()).filter((movement) => movement.kind === 'out').length, 1);
  const acts = (await one.ask('GET', `/ops/audit?object=effect:${before.id}`, 'vera')).body.items;
  assert.deepEqual(
    acts.map((act: { action: string; actor_name: string }) => `${act.actor_name} ${act.action}`),
    ['otto effect.ask'],
  );
});

test('while an advance hangs at the bank, an operator is told busy at once over a real socket, and nothing is left behind (req T8)', async () => {
  const one = await scene({ connectionsMax: 2 });
  await one.pay();
  const before = await one.effect();
  await one.app.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${(one.app.server.address() as AddressInfo).port}`;
  one.bank.pause();
  let isOver = false;
  const worker = one.pass().finally(() => {
    isOver = true;
  });
  await waitFor(async () => (await one.effect()).lease_until !== null);
  const post = async (path: string) => {
    const began = performance.now();
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${one.keys.otto}` },
    });
    return {
      status: response.status,
      body: (await response.json()) as Record<string, string>,
      ms: performance.now() - began,
    };
  };
  const answers = await Promise.all(
    ['ask', 'look', 'ask', 'look', 'ask'].map((act) => post(`/ops/effects/${before.id}/${act}`)),
  );
  assert.equal(isOver, false, 'the advance did not hang');
  for (const { status, body, ms } of answers) {
    assert.deepEqual([status, body['code']], [409, 'PO_BUSY']);
    assert.match(body['detail'] ?? '', /Nothing was done, and nothing is left behind/);
    assert.ok(ms < AT_ONCE_MS, `told after ${ms} ms`);
  }
  assert.equal((await one.effect()).wanted, null);
  assert.equal(
    (await one.world.pool.query("select 1 from payonce.audit_log where action like 'effect.%'")).rowCount,
    0,
  );
  one.bank.heal();
  await worker;
  assert.equal((await one.ask('POST', `/ops/effects/${before.id}/look`, 'otto')).status, 200);
});

test('two operators ask at once: one advance, the other is busy, one more send', async () => {
  const one = await scene();
  await one.pay();
  const before = await one.effect();
  one.bank.pause();
  const first = one.ask('POST', `/ops/effects/${before.id}/ask`, 'otto');
  await waitFor(async () => (await one.effect()).lease_until !== null);
  const second = await one.ask('POST', `/ops/effects/${before.id}/ask`, 'bob');
  assert.deepEqual([second.status, second.body.code], [409, 'PO_BUSY']);
  one.bank.resume();
  const asked = await first;
  assert.deepEqual([asked.status, asked.body.sent], [200, 1], asked.text);
  assert.equal((await one.effect()).send_count, before.send_count + 1);
});

test('an ask whose process dies after it took the lease is not lost: the next advance carries it out, once', async () => {
  let dies = false;
  const one = await scene({
    change: (rail) => ({
      ...rail,
      look: (sealed) => (dies ? Promise.reject(new Error('the process is gone')) : rail.look(sealed)),
    }),
  });
  await one.pay();
  const before = await one.effect();
  dies = true;
  assert.equal((await one.ask('POST', `/ops/effects/${before.id}/ask`, 'otto')).status, 500);
  const left = await one.effect();
  assert.deepEqual([left.wanted, left.send_count], ['ask', before.send_count]);
  dies = false;
  assert.equal(
    (await one.ask('POST', `/ops/effects/${before.id}/look`, 'otto')).body.code,
    'PO_BUSY',
    'the lease stands',
  );
  await one.world.pool.query("update payonce.effects set lease_until = payonce.now() - interval '1 second'");
  await one.pass();
  const done = await one.effect();
  assert.deepEqual([done.wanted, done.send_count], [null, before.send_count + 1]);
});

test('an ask that may not be sent says why, and is not kept for later', async () => {
  const one = await scene();
  await one.pay();
  const { id, send_count } = await one.effect();
  await one.world.pool.query('update payonce.effects set no_send = true');
  const asked = await one.ask('POST', `/ops/effects/${id}/ask`, 'otto');
  assert.deepEqual([asked.status, asked.body.sent], [200, 0]);
  assert.match(asked.body.withheld, /re-opened: it is looked at and never sent again/);
  const after = await one.effect();
  assert.deepEqual([after.wanted, after.send_count, after.lease_until], [null, send_count, null]);
});

test('what is not sealed is moved to the front of its queue, and what was never sealed is told as gone', async () => {
  const one = await scene();
  await one.take();
  await one.world.pool.query("update payonce.effects set next_at = payonce.now() + interval '1 hour'");
  const { id } = await one.effect();
  const hurried = await one.ask('POST', `/ops/effects/${id}/ask`, 'otto');
  assert.deepEqual([hurried.status, hurried.body.outcome], [202, 'hurried']);
  assert.match(hurried.body.what_happens, /next worker plans it at once/);
  assert.equal(one.woken.times, 1);
  assert.equal((await one.effect()).wanted, null, 'a wish would send it twice');
  assert.equal(one.bank.calls.create, 0);
  const due = await one.world.pool.query('select 1 from payonce.effects where next_at <= payonce.now()');
  assert.equal(due.rowCount, 1);
  await one.world.pool.query("update payonce.effects set lease_until = payonce.now() + interval '1 minute'");
  assert.equal((await one.ask('POST', `/ops/effects/${id}/look`, 'otto')).body.code, 'PO_BUSY');
  await one.world.pool.query('update payonce.effects set lease_until = null');
});

test('a bank’s transfer has nothing to bump or cancel; on a chain both are noted for the next worker, which is said', async () => {
  const one = await scene();
  await one.pay();
  const { id } = await one.effect();
  for (const act of ['bump', 'cancel']) {
    const answer = await one.ask('POST', `/ops/effects/${id}/${act}`, 'otto');
    assert.deepEqual([answer.status, answer.body.code], [409, 'PO_EVIDENCE_REFUSED']);
  }
  const chain = await makeNoopWorld(UNSEEN, { change: cancellable });
  const api = await makeOpsApi(chain);
  await intendOne(chain);
  await advanceOnce(chain.engine, railOf(chain));
  const effect = await effectIn(chain);
  const noted = await api.ask('POST', `/ops/effects/${effect.id}/cancel`, 'otto');
  assert.deepEqual([noted.status, noted.body.outcome], [202, 'wished'], noted.text);
  assert.match(noted.body.what_happens, /^Nothing was sent yet\. The next worker signs and sends the cancel/);
  assert.equal((await effectIn(chain)).wanted, 'cancel');
  // More than an ask: an ask that comes now is the advance that carries the cancel out.
  const asked = await api.ask('POST', `/ops/effects/${effect.id}/ask`, 'bob');
  assert.deepEqual([asked.status, asked.body.sent], [200, 1], asked.text);
  const { rows } = await chain.pool.query<{ kind: string }>('select kind from payonce.effect_variants order by id');
  assert.deepEqual(
    rows.map((row) => row.kind),
    ['original', 'cancel'],
  );
  assert.equal((await effectIn(chain)).wanted, null);
  await api.app.close();
  await assertBooksClean(chain.pool);
});

test('a cancel that is wished for while an ask is being sent is not ended by it', async () => {
  let onSend: (() => Promise<void>) | null = null;
  const world = await makeNoopWorld(
    {
      send: async () => {
        await onSend?.();
        return { kind: 'in_progress' };
      },
      look: () => Promise.resolve([{ kind: 'not_found' }]),
    },
    { change: cancellable },
  );
  const api = await makeOpsApi(world);
  const id = await intendOne(world);
  await advanceOnce(world.engine, railOf(world));
  const otto = await loadOperator(world.pool, api.keys.otto);
  onSend = async () => {
    onSend = null;
    assert.equal(await wish(world.engine, otto, id, 'cancel'), 'wished');
  };
  const acted = await actNow(world.engine, otto, id, 'ask');
  assert.equal(acted.outcome, 'advanced');
  assert.equal((await effectOf(world, id)).wanted, 'cancel');
  await world.pool.query('update payonce.effects set next_at = payonce.now()');
  await watchOnce(world.engine, railOf(world));
  assert.equal((await effectOf(world, id)).wanted, null);
  const { rows } = await world.pool.query("select 1 from payonce.effect_variants where kind = 'cancel'");
  assert.equal(rows.length, 1);
  await api.app.close();
  await assertBooksClean(world.pool);
});

test('a process without the rail leaves the wish to one that has it, and says so', async () => {
  const one = await scene({ label: 'ops rail' });
  await one.pay();
  const api = await makeApi({ ...one.deps, engine: { ...one.world.engine, rails: new Map() } });
  const { id } = await one.effect();
  const response = await api.inject({
    method: 'POST',
    url: `/ops/effects/${id}/look`,
    headers: { authorization: `Bearer ${one.keys.otto}` },
  });
  assert.equal(response.statusCode, 202);
  assert.match(response.body, /Its rail is not configured in this process: nothing was done yet/);
  assert.equal((await one.effect()).wanted, 'look');
  const sends = one.bank.calls.create;
  await one.pass();
  assert.equal((await one.effect()).wanted, null, 'a look was had: its wish is over');
  assert.equal(one.bank.calls.create, sends, 'whoever wished for a look was told that nothing is sent');
  await api.close();
});

const UNSEEN: NoopBehaviour = {
  send: () => Promise.resolve({ kind: 'in_progress' }),
  look: () => Promise.resolve([{ kind: 'not_found' }]),
};

/** As on a chain: a cancel goes to ourselves. */
function cancellable(plain: Rail): Rail {
  const rail = sequenced(0n)(plain);
  return {
    ...rail,
    async sign(sealed, spec) {
      const signed = (await rail.sign?.(sealed, spec)) ?? assert.fail();
      return spec.kind === 'cancel' ? { ...signed, to: sealed.signer } : signed;
    },
  };
}

async function waitFor(isThere: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (await isThere()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail('it did not come');
}
