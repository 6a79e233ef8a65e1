/*
 * Goal: the database is the last guard (design §4). Short of dropping a constraint, nobody with psql creates a second live
 * effect, changes a seal, ends an effect without its proof, or loses a testimony. Method: plain statements on a plain
 * connection as the tables' owner, no code of ours between; each refusal is told by the constraint or trigger that refused.
 * The ledger's own guards: test/ledger/last-guard.test.ts.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { makeScene, RELEASE, REOPEN, type Scene, SETTLE } from './guards-scene.ts';

let scene: Scene;
before(async () => {
  scene = await makeScene('schema guards');
});
beforeEach(() => scene.begin());
afterEach(() => scene.rollback());
after(() => scene.end());

const SUCCESSOR = `insert into payonce.effects (subject_type, subject_id, seq, partner_id, rail, asset_id, amount, destination, wallet, signer, lane)
  select subject_type, subject_id, seq + 1, partner_id, rail, asset_id, amount, destination, wallet, signer, lane from payonce.effects where id = $1`;

test('a subject has at most one effect that is not released (case J6, inv E8)', async () => {
  for (const state of ['PENDING', 'SEALED', 'SETTLED'] as const) {
    await scene.refusedBy('effects_one_live', SUCCESSOR, [await scene.effect(state)]);
  }
  const released = await scene.effect('RELEASED');
  await scene.psql.query(SUCCESSOR, [released]);
  await scene.refusedBy('effects_attempt', SUCCESSOR, [released]);
});

test('a successor differs in identity and rail parameters only, and tries are numbered without gaps (inv E8)', async () => {
  const released = await scene.effect('RELEASED');
  const changed: [string, string][] = [
    ['amount', 'amount + 1'],
    ['destination', "'0xthief'"],
    ['wallet', "'0xother'"],
    ['partner_id', "'other'"],
    ['seq + 1', 'seq + 2'],
  ];
  for (const [column, value] of changed) {
    await scene.refusedBy(
      'effects_successor_same',
      SUCCESSOR.replace(new RegExp(`(select.*)\\b${column.replace('+', '\\+')}`), `$1${value}`),
      [released],
    );
  }
});

test('an effect begins PENDING, without seal or testimony (inv E5)', async () => {
  const insert = (column: string, value: string): string =>
    `insert into payonce.effects (subject_type, subject_id, seq, partner_id, rail, asset_id, amount, destination, wallet, signer, ${column})
     values ('withdrawal', 'wd_born', 1, 'par', 'rail', 'usdt', 100, '0xpayee', '0xwallet', '0xsigner', ${value})`;
  await scene.psql.query(
    "insert into payonce.subjects (type, id, partner_id, natural_key) values ('withdrawal', 'wd_born', 'par', 'born')",
  );
  await scene.refusedBy('effects_born_pending', insert('testimonies', '1'));
  await scene.refusedBy('effects_pending_unsealed', insert('sealed_at', 'now()'));
  await scene.refusedBy('effects_sealed_whole', insert('state', "'SEALED'"));
  await scene.refusedBy(
    'effects_born_pending',
    insert('state, ended_at, released_by, release_rank', "'RELEASED', now(), 1, 'dead'"),
  );
});

test('what was taken in is frozen, column by column (req W8, case H9)', async () => {
  const id = await scene.effect('PENDING');
  const changes: Record<string, string> = {
    subject_id: "'wd_2'",
    seq: '2',
    partner_id: "'other'",
    asset_id: "'eur'",
    amount: '101',
    destination: "'0xthief'",
    wallet: "'0xother'",
    call: "'{}'",
    hold_key: "'other'",
    created_at: "now() - interval '1 day'",
  };
  for (const [column, value] of Object.entries(changes)) {
    await scene.refusedBy('effects_intake_frozen', `update payonce.effects set ${column} = ${value} where id = $1`, [
      id,
    ]);
  }
  // Who signs is chosen by capacity until the seal; another one afterwards would be another identity (R15).
  for (const state of ['SEALED', 'SETTLED', 'RELEASED'] as const) {
    const other = await scene.effect(state);
    await scene.refusedBy('effects_intake_frozen', "update payonce.effects set signer = '0xother' where id = $1", [
      other,
    ]);
  }
  await scene.refusedBy('effects_append_only', 'delete from payonce.effects where id = $1', [id]);
  await scene.refusedBy('assets_frozen', "update payonce.assets set decimals = 8 where id = 'usdt'");
});

test('the seal is immutable, column by column (inv E6, E7)', async () => {
  const changes: Record<string, string> = {
    identity: "'another'",
    payload: "'\\x00'",
    expect: '\'{"x":1}\'',
    plan: '\'{"x":1}\'',
    nonce: '0',
    sealed_at: "now() + interval '1 second'",
    first_sent_at: "now() + interval '1 second'",
  };
  for (const state of ['SEALED', 'SETTLED', 'RELEASED'] as const) {
    const id = await scene.effect(state);
    for (const [column, value] of Object.entries(changes)) {
      for (const written of [value, 'null']) {
        await scene.refusedBy(
          'effects_seal_immutable',
          `update payonce.effects set ${column} = ${written} where id = $1`,
          [id],
        );
      }
    }
  }
});

test('no seal without its bytes, and none of a PENDING effect before its edge (inv E6)', async () => {
  const id = await scene.effect('PENDING');
  await scene.refusedBy('effects_sealed_whole', "update payonce.effects set state = 'SEALED' where id = $1", [id]);
  await scene.refusedBy('effects_pending_unsealed', 'update payonce.effects set sealed_at = now() where id = $1', [id]);
});

test('identity, nonce and lane are each of one effect (inv E9, E16)', async () => {
  const [first, second] = [await scene.effect('SEALED'), await scene.effect('PENDING')];
  const seal = `update payonce.effects e
    set state = 'SEALED', identity = $3, payload = f.payload, expect = f.expect, plan = f.plan, sealed_at = now(), first_sent_at = now(), send_count = 1, nonce = $4::bigint
    from payonce.effects f where e.id = $2 and f.id = $1`;
  const nonce = await scene.one<bigint>('select nonce from payonce.effects where id = $1', [first]);
  await scene.refusedBy('effects_identity', seal, [first, second, `id-${first}`, null]);
  await scene.refusedBy('effects_nonce', seal, [first, second, 'fresh', nonce]);
  await scene.refusedBy('effects_nonce_allotted', seal, [first, second, 'fresh', 1_000]);
  const lane = "update payonce.effects set lane = 'sweep:a' where id = $1";
  await scene.psql.query(lane, [first]);
  await scene.refusedBy('effects_lane', lane, [second]);
});

test('a signer’s nonce never goes back, nor does the signer go away (inv E9)', async () => {
  await scene.refusedBy('signers_nonce_forward', 'update payonce.signers set next_nonce = next_nonce - 1');
  await scene.refusedBy('signers_nonce_forward', "update payonce.signers set address = '0xother'");
  await scene.refusedBy('signers_nonce_forward', 'delete from payonce.signers');
});

test('no edge but the table’s, and no edge is added to it (inv E5, req W1, W2)', async () => {
  const refused: Record<string, string[]> = {
    PENDING: ['PENDING', 'SETTLED'],
    SEALED: ['PENDING', 'SEALED'],
    SETTLED: ['PENDING', 'SEALED', 'SETTLED', 'RELEASED'],
    RELEASED: ['PENDING', 'SETTLED', 'RELEASED'],
  };
  for (const [from, list] of Object.entries(refused)) {
    const id = await scene.effect(from as 'PENDING');
    for (const to of list)
      await scene.refusedBy('effects_edge', 'update payonce.effects set state = $2 where id = $1', [id, to]);
  }
  await scene.refusedBy('effect_edges_append_only', "insert into payonce.effect_edges values ('SETTLED', 'PENDING')");
  await scene.refusedBy(
    'evidence_kinds_append_only',
    "update payonce.evidence_kinds set says = 'no', rank = 'dead' where kind = 'NOT_FOUND'",
  );
});

test('settled needs object testimony of this effect that is not struck (inv E4)', async () => {
  const id = await scene.effect('SEALED');
  await scene.refusedBy('effects_settled_testimony', SETTLE, [id, null]);
  for (const kind of ['NOT_FOUND', 'INCLUDED', 'ACCEPTED', 'MOVED_OTHERWISE']) {
    await scene.refusedBy('effects_settled_testimony', SETTLE, [id, await scene.evidence(id, kind)]);
  }
  const foreign = await scene.evidence(await scene.effect('SEALED'), 'FINAL_SUCCESS');
  await scene.refusedBy('effects_settled_testimony', SETTLE, [id, foreign]);
  await scene.settle(id, await scene.evidence(id, 'FINAL_SUCCESS'));
  await scene.refusedBy('effects_edge', SETTLE, [id, foreign]);
});

test('released needs a named no of its own rank (inv E10, case A1, F1)', async () => {
  const id = await scene.effect('SEALED');
  await scene.refusedBy('effects_released_no', RELEASE, [id, null, null]);
  await scene.refusedBy('effects_released_no', RELEASE, [id, null, 'dead']);
  for (const kind of ['NOT_FOUND', 'UNREADABLE', 'IN_PROGRESS', 'BLOCKED', 'NEVER_LEFT', 'INCLUDED']) {
    await scene.refusedBy('effects_released_no', RELEASE, [id, await scene.evidence(id, kind), 'dead']);
  }
  await scene.refusedBy('effects_released_no', RELEASE, [id, await scene.evidence(id, 'REJECTED'), 'dead']);
  await scene.refusedBy('effects_released_no', RELEASE, [id, await scene.evidence(id, 'NEVER_SEALED'), 'dead']);
  const foreign = await scene.evidence(await scene.effect('SEALED'), 'REVERTED_FINAL');
  await scene.refusedBy('effects_released_no', RELEASE, [id, foreign, 'dead']);
  const pending = await scene.effect('PENDING');
  await scene.refusedBy('effects_released_no', RELEASE, [
    pending,
    await scene.evidence(pending, 'REJECTION_STORED'),
    'dead',
  ]);
});

test('nothing is released over testimony but by a chain’s finality, or by the accepted object itself (inv E11)', async () => {
  const word = await scene.effect('SEALED');
  await scene.evidence(word, 'ACCEPTED', { objectId: 'pay_1' });
  for (const kind of ['REJECTED', 'REJECTION_STORED', 'REFUSED_AT_ONCE']) {
    const rank = kind === 'REJECTED' ? 'believed' : 'dead';
    await scene.refusedBy('effects_released_testimony', RELEASE, [word, await scene.evidence(word, kind), rank]);
  }
  await scene.refusedBy('effects_released_testimony', RELEASE, [
    word,
    await scene.evidence(word, 'PROVIDER_FAILED', { objectId: 'pay_2' }),
    'dead',
  ]);
  await scene.refusedBy('effects_testimonies_counted', 'update payonce.effects set testimonies = 0 where id = $1', [
    word,
  ]);
  await scene.refusedBy(
    'effects_testimonies_counted',
    "update payonce.effects set accepted_object = 'pay_2' where id = $1",
    [word],
  );

  const object = await scene.effect('SEALED');
  await scene.evidence(object, 'FINAL_SUCCESS');
  await scene.refusedBy('effects_released_testimony', RELEASE, [
    object,
    await scene.evidence(object, 'NONCE_SPENT_BY_OTHER'),
    'dead',
  ]);

  const adopted = await scene.effect('PENDING');
  await scene.evidence(adopted, 'ACCEPTED');
  await scene.refusedBy('effects_released_testimony', RELEASE, [
    adopted,
    await scene.evidence(adopted, 'NEVER_SEALED'),
    'dead',
  ]);

  await scene.release(word, await scene.evidence(word, 'PROVIDER_FAILED', { objectId: 'pay_1' }));
});

test('a believed no waits for lateness and a fresh look after it (inv E11)', async () => {
  const id = await scene.effect('SEALED');
  const no = await scene.evidence(id, 'REJECTED');
  const wait = 'update payonce.effects set lateness_until = $2, fresh_look_at = $3 where id = $1';
  const [past, later, future] = ['2020-01-01', '2020-01-02', '2999-01-01'];
  for (const [lateness, look] of [
    [null, null],
    [null, later],
    [future, null],
    [past, null],
    [later, past],
    [future, future],
  ]) {
    await scene.psql.query(wait, [id, lateness, look]);
    await scene.refusedBy('effects_released_lateness', RELEASE, [id, no, 'believed']);
  }
  await scene.psql.query(wait, [id, past, later]);
  await scene.release(id, no, 'believed');
});

test('a released effect is re-opened only on testimony, and then never sent again (inv E13)', async () => {
  const id = await scene.effect('RELEASED');
  await scene.refusedBy('effects_reopen', REOPEN, [id]);
  await scene.evidence(id, 'ACCEPTED');
  await scene.refusedBy('effects_reopen', REOPEN.replace('no_send = true, ', ''), [id]);
  await scene.psql.query(REOPEN, [id]);
  await scene.refusedBy('effects_never_back', 'update payonce.effects set no_send = false where id = $1', [id]);
  await scene.refusedBy('effects_never_back', 'update payonce.effects set reopens = 0 where id = $1', [id]);
});

test('fences, counts, ends and contradictions never go back', async () => {
  const sealed = await scene.effect('SEALED');
  await scene.psql.query(
    'update payonce.effects set lease_token = 5, evidence_version = 5, send_count = 5 where id = $1',
    [sealed],
  );
  for (const column of ['lease_token', 'evidence_version', 'send_count']) {
    await scene.refusedBy('effects_never_back', `update payonce.effects set ${column} = 4 where id = $1`, [sealed]);
  }
  await scene.refusedBy('effects_never_back', 'update payonce.effects set transitions = 9 where id = $1', [sealed]);
  const settled = await scene.effect('SETTLED');
  await scene.refusedBy('effects_never_back', 'update payonce.effects set settled_by = null where id = $1', [settled]);
  await scene.refusedBy('effects_never_back', 'update payonce.effects set ended_at = null where id = $1', [settled]);
  const released = await scene.effect('RELEASED');
  await scene.refusedBy('effects_never_back', "update payonce.effects set release_rank = 'believed' where id = $1", [
    released,
  ]);
  await scene.psql.query('update payonce.effects set contradicted_at = now() where id = $1', [released]);
  await scene.refusedBy('effects_never_back', 'update payonce.effects set contradicted_at = null where id = $1', [
    released,
  ]);
});

test('a subject that was told its end takes no effect ever again, and one with a live effect cannot be told (case J4)', async () => {
  const close = `update payonce.subjects s set closed_at = now(), closed_as = 'failed' from payonce.effects e
    where e.id = $1 and s.type = e.subject_type and s.id = e.subject_id`;
  for (const state of ['PENDING', 'SEALED', 'SETTLED'] as const) {
    await scene.refusedBy('subjects_live_effect', close, [await scene.effect(state)]);
  }
  const id = await scene.effect('RELEASED');
  await scene.psql.query(close, [id]);
  await scene.refusedBy('effects_subject_closed', SUCCESSOR, [id]);
  const subject = `(select subject_id from payonce.effects where id = $1)`;
  await scene.refusedBy(
    'subjects_frozen',
    `update payonce.subjects set closed_at = null, closed_as = null where id = ${subject}`,
    [id],
  );
  await scene.refusedBy('subjects_frozen', `update payonce.subjects set natural_key = 'x' where id = ${subject}`, [id]);
  await scene.refusedBy(
    'subjects_frozen',
    `update payonce.subjects set event_seq = event_seq - 1 where id = ${subject}`,
    [id],
  );
  await scene.refusedBy('subjects_frozen', `delete from payonce.subjects where id = ${subject}`, [id]);
});

test('a variant keeps the sealed payload, and after a cancel only cancels follow (case E3, inv E7)', async () => {
  const variant = `insert into payonce.effect_variants (effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee)
    values ($1, $2, $3, '\\x01', $4, $5, $6, 1, 1, 1)`;
  await scene.refusedBy('effect_variants_sealed', variant, [
    await scene.effect('PENDING'),
    'original',
    'h0',
    '0xtoken',
    0,
    '0xa9',
  ]);
  const id = await scene.effect('SEALED');
  await scene.psql.query(variant, [id, 'original', 'h1', '0xtoken', 0, '0xa9']);
  await scene.refusedBy('effect_variants_payload', variant, [id, 'bump', 'h2', '0xthief', 0, '0xa9']);
  await scene.refusedBy('effect_variants_payload', variant, [id, 'bump', 'h2', '0xtoken', 1, '0xa9']);
  await scene.refusedBy('effect_variants_payload', variant, [id, 'bump', 'h2', '0xtoken', 0, '0xb0']);
  await scene.refusedBy('effect_variants_hash', variant, [id, 'bump', 'h1', '0xtoken', 0, '0xa9']);
  await scene.refusedBy('effect_variants_cancel', variant, [id, 'cancel', 'h3', '0xthief', 0, '0x']);
  await scene.refusedBy('effect_variants_cancel', variant, [id, 'cancel', 'h3', '0xsigner', 1, '0x']);
  await scene.refusedBy('effect_variants_cancel', variant, [id, 'cancel', 'h3', '0xsigner', 0, '0xa9']);
  await scene.psql.query(variant, [id, 'cancel', 'h3', '0xsigner', 0, '0x']);
  await scene.refusedBy('effect_variants_after_cancel', variant, [id, 'bump', 'h4', '0xtoken', 0, '0xa9']);
  await scene.refusedBy(
    'effect_variants_append_only',
    "update payonce.effect_variants set raw = '\\x02' where hash = 'h1'",
  );
  await scene.refusedBy('effect_variants_append_only', "delete from payonce.effect_variants where hash = 'h1'");
});

test('testimony is refused by nothing: in every state it is stored and counted (inv E13, case D10)', async () => {
  for (const state of ['PENDING', 'SEALED', 'SETTLED', 'RELEASED'] as const) {
    const id = await scene.effect(state);
    const count = (): Promise<number> =>
      scene.one<number>('select testimonies from payonce.effects where id = $1', [id]);
    const before = await count();
    for (const kind of ['ACCEPTED', 'KEY_TAKEN', 'MOVED_OTHERWISE', 'FINAL_SUCCESS', 'CAME_BACK'])
      await scene.evidence(id, kind);
    assert.equal(await count(), before + 5, state);
    await scene.evidence(id, 'INCLUDED');
    await scene.evidence(id, 'NOT_FOUND');
    assert.equal(await count(), before + 5, `${state}: display and nothing are no testimony`);
    assert.equal(await scene.one('select state from payonce.effects where id = $1', [id]), state);
  }
  const closed = await scene.effect('RELEASED');
  await scene.psql.query(
    "update payonce.subjects set closed_at = now(), closed_as = 'failed' where id = (select subject_id from payonce.effects where id = $1)",
    [closed],
  );
  await scene.evidence(closed, 'FINAL_SUCCESS');
  assert.equal(await scene.one('select testimonies from payonce.effects where id = $1', [closed]), 1);
});

test('evidence is never edited, has its kind’s rank, and two persons strike one named word of it', async () => {
  const id = await scene.effect('SEALED');
  const [word, other, object] = [
    await scene.evidence(id, 'ACCEPTED'),
    await scene.evidence(id, 'KEY_TAKEN'),
    await scene.evidence(id, 'FINAL_SUCCESS'),
  ];
  for (const change of [
    "kind = 'NOT_FOUND'",
    "rank = 'none'",
    "detail = 'x'",
    "object_id = 'x'",
    "at = now() - interval '1 day'",
    'answer_id = 1',
  ]) {
    await scene.refusedBy('effect_evidence_append_only', `update payonce.effect_evidence set ${change} where id = $1`, [
      word,
    ]);
  }
  await scene.refusedBy('effect_evidence_append_only', 'delete from payonce.effect_evidence where id = $1', [word]);
  await assert.rejects(scene.evidence(id, 'REJECTED', { rank: 'dead' }), { constraint: 'effect_evidence_rank' });
  await scene.rollback();
  await scene.begin();

  const again = await scene.effect('SEALED');
  const [first, second, seen] = [
    await scene.evidence(again, 'ACCEPTED'),
    await scene.evidence(again, 'KEY_TAKEN'),
    await scene.evidence(again, 'FINAL_SUCCESS'),
  ];
  assert.notEqual(first, object);
  assert.notEqual(second, other);
  const strike = 'update payonce.effect_evidence set struck_at = now(), struck_by = $2 where id = $1';
  await scene.refusedBy('effect_evidence_strike', strike, [
    first,
    await scene.proposal(again, 'strike', { evidenceId: String(first) }, true),
  ]);
  await scene.refusedBy('effect_evidence_strike', strike, [
    first,
    await scene.proposal(again, 'settled', { evidenceId: String(first) }),
  ]);
  await scene.refusedBy('effect_evidence_strike', strike, [
    seen,
    await scene.proposal(again, 'strike', { evidenceId: String(seen) }),
  ]);
  const foreign = await scene.effect('SEALED');
  await scene.refusedBy('effect_evidence_strike', strike, [
    first,
    await scene.proposal(foreign, 'strike', { evidenceId: String(first) }),
  ]);
  const approved = await scene.proposal(again, 'strike', { evidenceId: String(first) });
  await scene.refusedBy(
    'effect_evidence_struck_whole',
    'update payonce.effect_evidence set struck_by = $2 where id = $1',
    [first, approved],
  );
  await scene.psql.query(strike, [first, approved]);
  assert.equal(await scene.one('select testimonies from payonce.effects where id = $1', [again]), 2);
  await scene.refusedBy('effect_evidence_strike', strike, [second, approved]);
  await scene.refusedBy(
    'effect_evidence_append_only',
    'update payonce.effect_evidence set struck_at = null, struck_by = null where id = $1',
    [first],
  );
});

test('what two persons say needs two persons, about this effect', async () => {
  const id = await scene.effect('SEALED');
  const open = await scene.proposal(id, 'settled', {}, true);
  const wrong = await scene.proposal(id, 'strike');
  const foreign = await scene.proposal(await scene.effect('SEALED'), 'settled');
  const say = `insert into payonce.effect_evidence (effect_id, kind, rank, source, operator, detail, send_number, lease_token, proposal_id)
    values ($1, 'OPERATOR_SAW', 'object', 's', 's', '', 1, 0, $2)`;
  for (const proposal of [null, open, wrong, foreign])
    await scene.refusedBy('effect_evidence_two_persons', say, [id, proposal]);
  await scene.psql.query(say, [id, await scene.proposal(id, 'settled')]);
});

test('a proposal is not approved by its proposer, nor changed once made', async () => {
  const id = await scene.effect('SEALED');
  const open = await scene.proposal(id, 'settled', {}, true);
  await scene.refusedBy(
    'proposals_four_eyes',
    "update payonce.proposals set state = 'approved', approved_by = 'ann' where id = $1",
    [open],
  );
  await scene.refusedBy('proposals_approved', "update payonce.proposals set state = 'approved' where id = $1", [open]);
  await scene.refusedBy('proposals_frozen', "update payonce.proposals set proposed_by = 'bob' where id = $1", [open]);
  await scene.refusedBy('proposals_frozen', "update payonce.proposals set verb = 'absent' where id = $1", [open]);
  const approved = await scene.proposal(id, 'strike', { evidenceId: '1' });
  await scene.refusedBy(
    'proposals_frozen',
    `update payonce.proposals set detail = '{"evidenceId":"2"}' where id = $1`,
    [approved],
  );
  await scene.refusedBy('proposals_frozen', "update payonce.proposals set state = 'open' where id = $1", [approved]);
  await scene.refusedBy('proposals_frozen', 'delete from payonce.proposals where id = $1', [approved]);
});

test('history, answers, cases and the audit log stay; only an audit line’s personal part can be erased', async () => {
  const id = await scene.effect('SEALED');
  await scene.refusedBy(
    'effect_history_append_only',
    "update payonce.effect_history set reason = 'x' where effect_id = $1",
    [id],
  );
  await scene.refusedBy('effect_history_append_only', 'delete from payonce.effect_history where effect_id = $1', [id]);
  await scene.psql.query(
    "insert into payonce.effect_answers (effect_id, send_number, lease_token, operation, source, operator, reach, body, digest) values ($1, 1, 0, 'send', 's', 's', 'answer', '', '')",
    [id],
  );
  await scene.refusedBy('effect_answers_append_only', 'delete from payonce.effect_answers');
  await scene.proposal(id, 'settled');
  await scene.refusedBy('cases_append_only', 'delete from payonce.cases');
  await scene.psql.query(`select payonce.audit('ann', 'case.noted', 'case', '{"note":"x"}')`);
  for (const change of ["actor = 'bob'", "detail = '{}'", "hash = ''", 'at = now()']) {
    await scene.refusedBy('audit_log_append_only', `update payonce.audit_log set ${change}`);
  }
  await scene.refusedBy('audit_log_append_only', 'delete from payonce.audit_log');
  await scene.psql.query('update payonce.audit_log set detail = null');
  assert.equal((await scene.psql.query('select * from payonce.broken_audit')).rowCount, 0);
});

test('an idempotency key keeps its answer for ever, one per partner (inv E15, case C4)', async () => {
  const insert =
    "insert into payonce.idempotency_keys (partner_id, key, operation, fingerprint, resource_type, resource_id) values ('par', 'k', 'o', 'f', 'withdrawal', 'wd')";
  await scene.psql.query(insert);
  await scene.refusedBy('idempotency_keys_pkey', insert);
  await scene.refusedBy('idempotency_keys_append_only', "update payonce.idempotency_keys set fingerprint = 'other'");
  await scene.refusedBy('idempotency_keys_append_only', 'delete from payonce.idempotency_keys');
  await scene.refusedBy('idempotency_keys_answer', insert.replace("'k'", "'k2'").replace("'wd')", 'null)'));
});

test('a transfer is one deposit, on legal edges, and credited it is frozen (case H3, inv I1)', async () => {
  const transfer = (position: number): Promise<bigint> =>
    scene.one<bigint>(
      `insert into payonce.chain_transfers (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason, final_at)
       values ('chain', '0xtx', $1, 1, '0xblock', 'usdt', '0xout', '0xdeposit', 5, 'DEPOSIT', '', now()) returning id`,
      [position],
    );
  const deposit = async (id: string, transferId: bigint, state = 'detected'): Promise<void> => {
    await scene.psql.query(
      "insert into payonce.subjects (type, id, partner_id, natural_key) values ('deposit', $1, 'par', $1)",
      [id],
    );
    await scene.psql.query(
      `insert into payonce.deposits (id, transfer_id, partner_id, address_id, asset_id, amount, state, credited_at)
       values ($1, $2, 'par', 'adr', 'usdt', 5, $3, case when $3 = 'credited' then now() end)`,
      [id, transferId, state],
    );
  };
  const first = await transfer(0);
  await deposit('dep_1', first);
  await deposit('dep_2', await transfer(1), 'credited');
  await scene.refusedBy(
    'deposits_transfer',
    "insert into payonce.deposits (id, transfer_id, partner_id, address_id, asset_id, amount) select 'dep_3', transfer_id, partner_id, address_id, asset_id, amount from payonce.deposits where id = 'dep_1'",
  );
  await scene.refusedBy(
    'chain_transfers_place',
    `insert into payonce.chain_transfers (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason)
     values ('chain', '0xtx', 0, 2, '0xother', 'usdt', '0xout', '0xdeposit', 5, 'DEPOSIT', '')`,
  );
  const frozen: [string, string][] = [
    ['amount = 6', '1'],
    ["to_address = '0xother'", '1'],
    ['final_at = null', '1'],
    ['position = 3', '1'],
  ];
  for (const [change] of frozen)
    await scene.refusedBy('chain_transfers_frozen', `update payonce.chain_transfers set ${change} where id = $1`, [
      first,
    ]);
  for (const [id, to] of [
    ['dep_1', 'detected'],
    ['dep_1', 'reversed'],
    ['dep_2', 'credited'],
    ['dep_2', 'detected'],
    ['dep_2', 'vanished'],
  ]) {
    await scene.refusedBy('deposits_edge', 'update payonce.deposits set state = $2 where id = $1', [id, to]);
  }
  await scene.refusedBy('deposits_frozen', "update payonce.deposits set amount = 6 where id = 'dep_2'");
  await scene.refusedBy('deposits_frozen', "update payonce.deposits set partner_id = 'other' where id = 'dep_1'");
  await scene.refusedBy(
    'deposit_edges_append_only',
    "insert into payonce.deposit_edges values ('credited', 'detected')",
  );
  await scene.refusedBy('addresses_append_only', "update payonce.addresses set partner_id = 'other' where id = 'adr'");
});

test('a hold ends once, and a posting key is booked once (case J4, req W3)', async () => {
  await scene.psql.query(
    "insert into payonce.accounts (code, asset_id, floor) values ('partner:par', 'usdt', 0), ('custody', 'usdt', null)",
  );
  const post = (
    kind: string,
    key: string,
    holdKey: string | null,
    lines: [number, string, number][],
  ): Promise<string> =>
    scene.one<string>(
      `select verdict from payonce.post(array[$1], array[$2], array[''], array[null::bigint], array[null::bigint], array[$3],
         $4::int[], array(select a.id from unnest($5::text[]) with ordinality u (code, n) join payonce.accounts a on a.code = u.code order by n), $6::numeric[])`,
      [kind, key, holdKey, lines.map((line) => line[0]), lines.map((line) => line[1]), lines.map((line) => line[2])],
    );
  assert.equal(
    await post('post', 'MIGRATED:1', null, [
      [1, 'custody', -10],
      [1, 'partner:par', 10],
    ]),
    'posted',
  );
  assert.equal(await post('hold', '', 'hold', [[1, 'partner:par', 4]]), 'held');
  assert.equal(await post('void', '', 'hold', []), 'voided');
  await scene.refusedBy('holds_terminal', "update payonce.holds set state = 'posted'");
  await scene.refusedBy('holds_terminal', "update payonce.holds set state = 'open', ended_at = null");
  await scene.refusedBy(
    'postings_idem_key',
    "insert into payonce.postings (idem_key, reference) values ('MIGRATED:1', '')",
  );
  await scene.refusedBy('accounts_floor', "update payonce.accounts set balance = -1 where code = 'partner:par'");
  await scene.refusedBy('accounts_held_check', "update payonce.accounts set held = -1 where code = 'partner:par'");
});

test('an event’s body and place never change (case D7, inv N2)', async () => {
  const subject = await scene.one<string>('select subject_id from payonce.effects where id = $1', [
    await scene.effect('PENDING'),
  ]);
  const insert = `insert into payonce.events (event_id, partner_id, subject_type, subject_id, sequence, type, api_version, body)
    values ($2, 'par', 'withdrawal', $1, 1, 'withdrawal.confirmed', '1', '{}')`;
  await scene.psql.query(insert, [subject, 'evt_1']);
  await scene.refusedBy('events_subject_sequence', insert, [subject, 'evt_2']);
  await scene.refusedBy('events_append_only', 'update payonce.events set body = \'{"x":1}\'');
  await scene.refusedBy('events_append_only', 'delete from payonce.events');
});

test('the scan goes back only while it is halted, and a block that was booked is forgotten only there', async () => {
  const back = "update payonce.scan_cursors set next_block = next_block - 1 where chain = 'chain'";
  const halt = "update payonce.scan_cursors set halted_at = now(), halted_reason = 'finality_broken: x'";
  const drop = 'delete from payonce.scanned_blocks where number = $1';
  await scene.psql.query("insert into payonce.scan_cursors (chain, next_block) values ('chain', 5000)");
  await scene.psql.query(
    `insert into payonce.scanned_blocks (chain, number, hash, parent_hash)
     select 'chain', n, '0x' || n, '' from unnest(array[3999, 4000, 4999, 5000]) as n`,
  );
  await scene.psql.query("update payonce.scan_cursors set next_block = 5000 where chain = 'chain'");
  await scene.refusedBy('scan_cursors_forward', back);
  await scene.refusedBy('scan_cursors_forward', "update payonce.scan_cursors set chain = 'another'");
  await scene.refusedBy('scan_cursors_forward', 'delete from payonce.scan_cursors');
  for (const kept of [4000, 4999]) await scene.refusedBy('scanned_blocks_kept', drop, [kept]);
  await scene.refusedBy(
    'scanned_blocks_kept',
    "update payonce.scanned_blocks set hash = '0xother' where number = 4999",
  );
  for (const free of [3999, 5000]) assert.equal((await scene.psql.query(drop, [free])).rowCount, 1);
  await scene.psql.query(halt);
  await scene.psql.query(back);
  await scene.refusedBy('scan_cursors_forward', 'delete from payonce.scan_cursors');
  assert.equal((await scene.psql.query(drop, [4000])).rowCount, 1);
});

test('no table that says what happened can be emptied', async () => {
  const { rows } = await scene.psql.query<{ name: string }>(
    `select c.relname as name from pg_class c
     where c.relnamespace = 'payonce'::regnamespace and c.relkind = 'r'
       and c.relname not in ('settings', 'migrations', 'rails', 'database_marks', 'alerts', 'api_keys', 'asset_policies',
                             'chain_checks', 'collection_terms', 'needs', 'p2p_import_lines', 'p2p_routes', 'relayer_shortages',
                             'wallet_levels')
     order by 1`,
  );
  assert.ok(rows.length > 25);
  for (const { name } of rows) {
    await scene.psql.query('savepoint attempt');
    await assert.rejects(scene.psql.query(`truncate payonce.${name} cascade`), { code: 'P0A01' }, name);
    await scene.psql.query('rollback to savepoint attempt');
  }
});
