/*
 * Goal: one table of edges and evidence everywhere (code, database, documents), and a pure core that is total and never
 * frees money on nothing. Method: the tables are compared; `classify` and `decide` are driven over every kind of
 * observation, every state and every corner of the facts.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import pg from 'pg';
import { statesPage } from '../../scripts/states-doc.ts';
import { classify, decide, type Decision, provesAbsence } from '../../src/engine/classify.ts';
import {
  canGo,
  EDGES,
  EVIDENCE,
  type Evidence,
  type EvidenceKind,
  type Facts,
  STATES,
} from '../../src/engine/effect.ts';
import { NOOP_CAPABILITIES } from '../../src/engine/noop.ts';
import type { Capabilities, Observation, ObservationKind } from '../../src/engine/rail.ts';
import { CAPABILITIES as EVM } from '../../src/rails/evm/limits.ts';
import { CAPABILITIES as TRON } from '../../src/rails/tron/limits.ts';
import { testDatabase } from '../support/postgres.ts';

test('the database has the same edges and the same evidence as the code (inv E5)', async () => {
  const database = await testDatabase('tables');
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const edges = await client.query<{ edge: string }>(
    'select from_state || to_state as edge from payonce.effect_edges order by 1',
  );
  assert.deepEqual(
    edges.rows.map((row) => row.edge),
    EDGES.map((edge) => edge.from + edge.to).sort(),
  );
  const kinds = await client.query('select kind, says, rank, chain_final as "chainFinal" from payonce.evidence_kinds');
  assert.deepEqual(Object.fromEntries(kinds.rows.map(({ kind, ...row }: { kind: string }) => [kind, row])), EVIDENCE);
  await client.end();
  await database.drop();
});

test('docs/states.md shows the tables as they are', () => {
  assert.equal(readFileSync(new URL('../../docs/states.md', import.meta.url), 'utf8'), statesPage());
});

test('settled is the end: no edge leaves it, and none goes from a state to itself (req W1)', () => {
  for (const state of STATES) {
    assert.equal(canGo('SETTLED', state), false);
    assert.equal(canGo(state, state), false);
  }
});

/** Every combination of one value of each list. */
function* product<T extends object>(lists: { [K in keyof T]: readonly T[K][] }): Generator<T> {
  const keys = Object.keys(lists) as (keyof T)[];
  const total = keys.reduce((count, key) => count * lists[key].length, 1);
  for (let index = 0; index < total; index += 1) {
    let rest = index;
    const one = {} as T;
    for (const key of keys) {
      const list = lists[key];
      one[key] = list[rest % list.length] as T[keyof T];
      rest = Math.floor(rest / list.length);
    }
    yield one;
  }
}

const FLAG = [false, true] as const;

const EXPECTED: Record<
  Exclude<ObservationKind, 'refused' | 'spent_by_other' | 'expired_unincluded' | 'operator_absent'>,
  EvidenceKind
> = {
  never_left: 'NEVER_LEFT',
  not_found: 'NOT_FOUND',
  unreadable: 'UNREADABLE',
  in_progress: 'IN_PROGRESS',
  blocked: 'BLOCKED',
  included: 'INCLUDED',
  accepted: 'ACCEPTED',
  key_taken: 'KEY_TAKEN',
  moved_otherwise: 'MOVED_OTHERWISE',
  final_success: 'FINAL_SUCCESS',
  came_back: 'CAME_BACK',
  object_failed: 'PROVIDER_FAILED',
  reverted_final: 'REVERTED_FINAL',
  cancel_mined: 'CANCEL_MINED',
};
const BY_WITNESSES: Partial<Record<ObservationKind, EvidenceKind>> = {
  spent_by_other: 'NONCE_SPENT_BY_OTHER',
  expired_unincluded: 'EXPIRED_UNINCLUDED',
};
const KINDS = [
  ...Object.keys(EXPECTED),
  'refused',
  'operator_absent',
  ...Object.keys(BY_WITNESSES),
  'a kind of tomorrow',
] as ObservationKind[];

type Refusal = NonNullable<Observation['refusal']>;
const REFUSALS: (Refusal | undefined)[] = [
  undefined,
  ...product<Refusal>({
    stage: ['before_key_check', 'after_key_check', 'unknown'],
    storedUnderKey: FLAG,
    replayed: FLAG,
    final: FLAG,
    atOnce: FLAG,
  }),
];

function* observations(): Generator<Observation> {
  const common = product<{ kind: ObservationKind; witness: boolean; objectId: string | null; keyStaysBound: boolean }>({
    kind: KINDS,
    witness: FLAG,
    objectId: [null, 'a'],
    keyStaysBound: FLAG,
  });
  for (const one of common) {
    if (one.keyStaysBound && one.kind !== 'object_failed') continue;
    for (const refusal of one.kind === 'refused' ? REFUSALS : [undefined]) {
      yield {
        ...one,
        source: 'node',
        operator: 'op-1',
        detail: 'why',
        cost: null,
        ...(refusal === undefined ? {} : { refusal }),
      };
    }
  }
}

const QUIET: Facts = {
  state: 'SEALED',
  sends: 1,
  sendsNeverLeft: 0,
  sendsRefused: 0,
  sendsRefusedAtOnce: 0,
  testimonies: 0,
  objectTestimony: false,
  acceptedObject: null,
  namedObjects: [],
  absence: [],
  absenceWitnesses: 2,
  keyed: true,
  latenessWithinKey: true,
  refusedAtOnceCounts: true,
  pastDecide: false,
  sequenced: false,
  provesAbsence: false,
  canBelieve: true,
  failedObject: null,
  believing: null,
  freshLook: 'none',
};

/** The corners that `classify` may look at. */
function* corners(): Generator<Facts> {
  const all = product<Facts & { refused: number; atOnce: number }>({
    ...(Object.fromEntries(Object.entries(QUIET).map(([key, value]) => [key, [value]])) as unknown as {
      [K in keyof Facts]: readonly Facts[K][];
    }),
    refused: [0, 1, 2],
    atOnce: [0, 1, 2],
    sends: [0, 1, 2],
    absence: [
      [],
      [{ operator: 'op-1', objectId: 'a' }],
      [{ operator: 'op-2', objectId: 'a' }],
      [{ operator: 'op-2', objectId: 'b' }],
      [{ operator: 'op-2', objectId: null }],
    ],
    absenceWitnesses: [1, 2],
    keyed: FLAG,
    latenessWithinKey: FLAG,
    refusedAtOnceCounts: FLAG,
    sequenced: FLAG,
    provesAbsence: FLAG,
  });
  for (const { refused, atOnce, ...facts } of all) {
    if (atOnce <= refused && refused <= facts.sends)
      yield { ...facts, sendsRefused: refused, sendsRefusedAtOnce: atOnce };
  }
}

test('classify is total, and each kind of evidence has its conditions (inv E10, case F1, req T5)', () => {
  const every = [...corners()];
  const seen = new Set<string>();
  for (const observation of observations()) {
    for (const facts of every) {
      const found = classify(facts, observation);
      seen.add(found.kind);
      const { rank } = EVIDENCE[found.kind];
      assert.ok(
        found.rank === rank ||
          (found.kind === 'PROVIDER_FAILED' && found.rank === 'believed' && observation.keyStaysBound !== true),
      );
      assert.deepEqual(
        [found.source, found.operator, found.objectId],
        [observation.source, observation.operator, observation.objectId],
      );
      if (observation.kind === 'refused') checkRefusal(facts, observation.refusal, found);
      else if (observation.kind === 'operator_absent')
        assert.equal(found.kind, facts.provesAbsence ? 'BLOCKED' : 'OPERATOR_ABSENT');
      else if (observation.kind in BY_WITNESSES) checkAbsence(facts, observation, found);
      else assert.equal(found.kind, EXPECTED[observation.kind as keyof typeof EXPECTED] ?? 'UNREADABLE');
    }
  }
  // What no answer gives: what two persons saw with their own eyes, and what was never sealed.
  const unseen = Object.keys(EVIDENCE).filter((kind) => !seen.has(kind));
  assert.deepEqual(unseen.sort(), ['NEVER_SEALED', 'OPERATOR_SAW']);
});

function checkRefusal(facts: Facts, refusal: Refusal | undefined, found: Evidence): void {
  assert.notEqual(EVIDENCE[found.kind].says, 'yes');
  const everySend = facts.sends > 0 && facts.sendsRefused === facts.sends;
  switch (found.kind) {
    case 'REJECTION_STORED':
      assert.ok(
        facts.keyed && facts.latenessWithinKey && (refusal?.storedUnderKey === true || refusal?.replayed === true),
      );
      return;
    case 'REFUSED_AT_ONCE':
      assert.ok(
        facts.refusedAtOnceCounts &&
          refusal?.atOnce === true &&
          facts.sends > 0 &&
          facts.sendsRefusedAtOnce === facts.sends,
      );
      return;
    case 'REJECTED':
      assert.ok(everySend || (facts.keyed && refusal?.final === true && refusal.stage === 'after_key_check'));
      return;
    default:
      assert.equal(EVIDENCE[found.kind].says, 'nothing');
  }
}

function checkAbsence(facts: Facts, observation: Observation, found: Evidence): void {
  if (EVIDENCE[found.kind].says === 'nothing') return;
  assert.equal(found.kind, BY_WITNESSES[observation.kind]);
  const others = facts.absence.filter(
    (one) => one.objectId === observation.objectId && one.operator !== observation.operator,
  );
  assert.ok(observation.witness && others.length + 1 >= facts.absenceWitnesses, 'absence without its witnesses');
}

const BELIEVED: Evidence = {
  kind: 'REJECTED',
  rank: 'believed',
  source: 'on record',
  operator: 'op',
  objectId: null,
  detail: '',
};

test("two persons' word is evidence only where no finality decides: on chains of both kinds it says nothing (case G2, req T11)", () => {
  const word: Observation = {
    kind: 'operator_absent',
    source: 'operators',
    operator: 'operators',
    witness: false,
    objectId: null,
    detail: 'we looked',
    cost: null,
  };
  const said = (capabilities: Capabilities): EvidenceKind =>
    classify({ ...QUIET, sequenced: capabilities.sequenced, provesAbsence: provesAbsence(capabilities) }, word).kind;
  assert.equal(said(EVM), 'BLOCKED');
  assert.equal(said(TRON), 'BLOCKED', 'what expired is freed by solid time and two witnesses alone');
  assert.equal(said(NOOP_CAPABILITIES), 'OPERATOR_ABSENT');
});

test('decide is total: only edges that exist, a yes before any no, and nothing decides nothing (inv E10, E11, case A1)', () => {
  const kinds = Object.keys(EVIDENCE) as EvidenceKind[];
  const pieces: Evidence[] = kinds.flatMap((kind) =>
    [null, 'a', 'b'].flatMap((objectId) =>
      (kind === 'PROVIDER_FAILED' ? (['dead', 'believed'] as const) : [EVIDENCE[kind].rank]).map((rank) => ({
        kind,
        rank,
        source: 'node',
        operator: 'op',
        objectId,
        detail: '',
      })),
    ),
  );
  const passes: Evidence[][] = [
    [],
    ...pieces.map((one) => [one]),
    ...pieces.flatMap((one) => pieces.map((other) => [one, other])),
  ];
  const facts = [
    ...product<
      Pick<
        Facts,
        | 'state'
        | 'testimonies'
        | 'objectTestimony'
        | 'acceptedObject'
        | 'pastDecide'
        | 'sequenced'
        | 'sendsNeverLeft'
        | 'canBelieve'
        | 'believing'
        | 'freshLook'
      >
    >({
      state: STATES,
      testimonies: [0, 1],
      objectTestimony: FLAG,
      acceptedObject: [null, 'a'],
      pastDecide: FLAG,
      sequenced: FLAG,
      sendsNeverLeft: [0, 1],
      canBelieve: FLAG,
      believing: [null, BELIEVED],
      freshLook: ['none', 'absent', 'unclear'] as const,
    }),
  ].filter((one) => one.testimonies > 0 || (!one.objectTestimony && one.acceptedObject === null));
  const acts = new Set<string>();
  for (const one of facts) {
    for (const found of passes) {
      const known = { ...QUIET, ...one };
      const decision = decide(known, found);
      acts.add(`${known.state} ${decision.act}`);
      checkDecision(known, found, decision);
    }
  }
  assert.deepEqual([...acts].sort(), [
    'PENDING case',
    'PENDING wait',
    'RELEASED reopen',
    'RELEASED wait',
    'SEALED believe',
    'SEALED case',
    'SEALED release',
    'SEALED settle',
    'SEALED wait',
    'SEALED wait_anew',
    'SETTLED wait',
  ]);
});

test('no no of finality releases while another node of the pass shows it in a block, or final: it waits, and in the end is a case (inv E1, E11)', () => {
  const kinds = (Object.keys(EVIDENCE) as EvidenceKind[]).filter((kind) => EVIDENCE[kind].chainFinal);
  assert.equal(kinds.length, 4);
  const piece = (kind: EvidenceKind, source: string): Evidence => ({
    kind,
    rank: EVIDENCE[kind].rank,
    source,
    operator: 'op',
    objectId: 'tx',
    detail: '',
  });
  const sealed: Facts = { ...QUIET, state: 'SEALED', sequenced: true };
  for (const kind of kinds) {
    const no = piece(kind, 'node-1');
    assert.equal(decide({ ...sealed, pastDecide: false }, [no, piece('NOT_FOUND', 'node-2')]).act, 'release', kind);
    for (const shown of ['INCLUDED', 'MOVED_OTHERWISE'] as const) {
      const found = [no, piece(shown, 'node-2')];
      assert.equal(decide({ ...sealed, pastDecide: false }, found).act, 'wait', `${kind} beside ${shown}`);
      const late = decide({ ...sealed, pastDecide: true }, found);
      assert.equal(late.act === 'case' && late.kind, 'contradiction', `${kind} beside ${shown}`);
    }
    assert.equal(decide(sealed, [no, piece('FINAL_SUCCESS', 'node-2')]).act, 'settle', 'a yes goes before any no');
  }
});

test('the failure of one object says nothing about another that testimony names (req T10, inv E11)', () => {
  const failed: Evidence = {
    kind: 'PROVIDER_FAILED',
    rank: 'dead',
    source: 'node',
    operator: 'op',
    objectId: 'a',
    detail: '',
  };
  const accepted = { ...QUIET, testimonies: 1, acceptedObject: 'a' };
  assert.equal(decide({ ...accepted, namedObjects: ['a', null] }, [failed]).act, 'release');
  assert.equal(decide({ ...accepted, namedObjects: ['a', 'b'] }, [failed]).act, 'case');
  const other: Evidence = { ...failed, kind: 'KEY_TAKEN', rank: 'word', objectId: 'b' };
  assert.equal(decide({ ...accepted, namedObjects: ['a'] }, [failed, other]).act, 'case');
});

function checkDecision(facts: Facts, found: readonly Evidence[], decision: Decision): void {
  const object = found.some((one) => one.rank === 'object');
  const word = found.some((one) => one.rank === 'word');
  const known = facts.testimonies > 0 || word || object;
  const neverLeft =
    facts.pastDecide &&
    !facts.sequenced &&
    facts.sendsNeverLeft >= facts.sends &&
    found.some((one) => one.kind === 'NEVER_LEFT');
  if ('by' in decision) {
    assert.ok(
      found.includes(decision.by) ||
        decision.by === facts.believing ||
        (neverLeft && decision.by.kind === 'NEVER_LEFT'),
    );
  }
  if (found.every((one) => EVIDENCE[one.kind].says === 'nothing' || one.kind === 'INCLUDED')) {
    const quiet = facts.believing === null || known;
    if (facts.state !== 'SEALED') assert.equal(decision.act, 'wait');
    else if (quiet && !(neverLeft && !known)) assert.equal(decision.act, facts.pastDecide ? 'case' : 'wait');
  }
  if (facts.state === 'RELEASED') assert.equal(decision.act, object || word ? 'reopen' : 'wait');
  if (facts.state === 'SEALED' && object) assert.equal(decision.act, 'settle');
  switch (decision.act) {
    case 'settle':
      assert.ok(canGo(facts.state, 'SETTLED') && decision.by.rank === 'object');
      return;
    case 'release': {
      const { kind, objectId, rank } = decision.by;
      assert.ok(canGo(facts.state, 'RELEASED'));
      if (rank === 'believed') {
        // Without a look-up only two persons' word is believed, and looked at by them again.
        assert.ok(facts.canBelieve || kind === 'OPERATOR_ABSENT');
        assert.ok(!known && decision.by === facts.believing && facts.freshLook === 'absent');
        return;
      }
      assert.ok(rank === 'dead' && (EVIDENCE[kind].says === 'no' || (kind === 'NEVER_LEFT' && neverLeft && !known)));
      assert.ok(!object && !facts.objectTestimony, 'released over object testimony');
      const aboutAccepted = kind === 'PROVIDER_FAILED' && objectId !== null && objectId === facts.acceptedObject;
      assert.ok(
        (facts.testimonies === 0 && !word) || EVIDENCE[kind].chainFinal || aboutAccepted,
        'released over testimony',
      );
      return;
    }
    case 'believe':
      assert.ok(canGo(facts.state, 'RELEASED') && decision.by.rank === 'believed');
      assert.ok(facts.testimonies === 0 && !word && !object, 'believed over testimony');
      assert.ok((facts.canBelieve || decision.by.kind === 'OPERATOR_ABSENT') && facts.believing === null);
      return;
    case 'reopen':
      assert.ok(canGo(facts.state, 'SEALED') && EVIDENCE[decision.by.kind].says === 'yes');
      return;
    case 'wait_anew':
      assert.ok(facts.believing !== null && facts.freshLook === 'unclear' && !known);
      return;
    case 'case':
    case 'wait':
      return;
  }
}
