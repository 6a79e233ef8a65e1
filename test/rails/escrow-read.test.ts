/*
 * Goal: what a trade shows is read as rails.md §6.4 says, state by state and provider by provider, and whatever is not known
 * says nothing. Method: every state of every profile, written here from rails.md §4 a second time, under each mark of payment,
 * in the answer to a send and in each look-up; then each way in which an answer may not be about what we sealed.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Json, Observation } from '../../src/engine/rail.ts';
import { TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import { readTradePayment } from '../../src/rails/escrow/payment.ts';
import { readTradeAnswer } from '../../src/rails/escrow/read.ts';
import {
  answerTo,
  cancelIntent,
  intentOf,
  profileOf,
  readEverywhere,
  readSend,
  sealOf,
  standard,
  type Told,
  tradeIn,
} from './escrow-scene.ts';

interface Words {
  readonly stands: readonly string[];
  readonly released: readonly string[];
  readonly ended: readonly string[];
  readonly people: readonly string[];
}

const WORDS: Readonly<Record<string, Words>> = {
  standard: {
    stands: ['created', 'escrowed', 'buyer_marked_paid', 'releasing', 'on_hold'],
    released: ['released'],
    ended: ['cancelled', 'expired'],
    people: ['disputed', 'refunded'],
  },
  'binance-c2c': {
    stands: ['PENDING', 'TRADING', 'BUYER_PAYED', 'DISTRIBUTING'],
    released: ['COMPLETED'],
    ended: ['CANCELLED', 'CANCELLED_BY_SYSTEM'],
    people: ['IN_APPEAL', 'APPEALING'],
  },
  'bybit-p2p': {
    stands: ['5', '10', '20', '60', '90'],
    released: ['50'],
    ended: ['40'],
    people: ['30', '70', '80', '100', '110'],
  },
  trustap: {
    stands: ['created', 'joined', 'paid', 'tracked', 'delivered', 'complaint_period_ended'],
    released: ['funds_released'],
    ended: ['cancelled'],
    people: ['cancelled_with_payment', 'complained', 'payment_refunded'],
  },
  'rapyd-escrow': { stands: ['pending', 'on_hold'], released: ['released'], ended: ['canceled'], people: [] },
  transak: {
    stands: [
      'AWAITING_PAYMENT_FROM_USER',
      'PAYMENT_DONE_MARKED_BY_USER',
      'PROCESSING',
      'PENDING_DELIVERY_FROM_TRANSAK',
      'ON_HOLD_PENDING_DELIVERY_FROM_TRANSAK',
    ],
    released: ['COMPLETED'],
    ended: ['CANCELLED', 'EXPIRED'],
    people: ['FAILED', 'REFUNDED'],
  },
};

const MARKS: readonly (readonly [string, { [key: string]: Json }])[] = [
  ['never marked paid', { paid_marked_at: null }],
  ['marked paid', { paid_marked_at: '2030-01-02T03:30:00Z' }],
];

/** Kind, id, and whether people are asked. */
function inShort({ kind, objectId, asksPeople }: Observation): string {
  return `${kind} ${objectId ?? '-'}${asksPeople === undefined ? '' : ' asks'}`;
}

test('every profile has its words here', () => {
  assert.deepEqual(Object.keys(WORDS).sort(), TRADE_PROFILES.map((one) => one.name).sort());
});

for (const profile of TRADE_PROFILES) {
  describe(profile.name, () => {
    const sealed = sealOf(profile);
    const cancel = sealOf(profile, cancelIntent);
    const words = WORDS[profile.name] ?? assert.fail(profile.name);
    const rows: readonly (readonly [keyof Words, string, string, string])[] = [
      // meaning, read when never marked, read when marked, read by its cancelling
      ['stands', 'accepted tr_9', 'accepted tr_9', 'in_progress tr_9'],
      ['released', 'final_success tr_9', 'final_success tr_9', 'object_failed tr_9'],
      ['ended', 'object_failed tr_9', 'accepted tr_9 asks', 'final_success tr_9'],
      ['people', 'accepted tr_9 asks', 'accepted tr_9 asks', ''],
    ];

    test('each state is one of those that are known', () => {
      const all: readonly string[] = Object.values(words).flat();
      assert.equal(new Set(all).size, all.length);
      assert.deepEqual(
        Object.keys(profile.states).sort(),
        all.toSorted((a, b) => (a < b ? -1 : 1)),
      );
    });

    test('each state reads as it should in every way of asking, marked as paid or not', () => {
      for (const [meaning, never, marked, byCancel] of rows) {
        for (const state of words[meaning]) {
          const released = meaning === 'released' ? { released_amount: '100.500000' } : {};
          for (const [index, [mark, fields]] of MARKS.entries()) {
            const trade = tradeIn(state, { ...released, ...fields });
            const seen = readEverywhere(profile, sealed, trade);
            const wanted = index === 0 ? never : marked;
            assert.deepEqual(
              seen.map(inShort),
              seen.map(() => wanted),
              `${state}, ${mark}`,
            );
            if (byCancel === '') continue;
            const cancelled = readEverywhere(profile, cancel, trade);
            assert.deepEqual(
              cancelled.map(inShort),
              cancelled.map(() => byCancel),
              `cancel: ${state}, ${mark}`,
            );
          }
        }
      }
    });

    test('a state that nobody knows is unreadable, for the trade and for its cancelling', () => {
      const [known] = words.ended;
      for (const state of [
        'closed',
        '999',
        'constructor',
        `${known ?? ''} `,
        known?.toUpperCase() === known ? known?.toLowerCase() : known?.toUpperCase(),
      ]) {
        if (state === undefined || Object.hasOwn(profile.states, state)) continue;
        for (const one of [sealed, cancel])
          for (const seen of readEverywhere(profile, one, tradeIn(state))) assert.equal(seen.kind, 'unreadable', state);
      }
      for (const state of [null, true, { state: 'released' }])
        assert.equal(
          readSend(profile, sealed, { status: 200, body: { trade: tradeIn('', { state }) } }).kind,
          'unreadable',
        );
    });

    test('an unpaid end is dead only where the profile cites that the key stays with it', () => {
      const seen = readSend(profile, sealed, { status: 200, body: tradeIn(words.ended[0] ?? '') });
      assert.equal(seen.keyStaysBound, profile.failedKeepsKey !== null);
      assert.equal(profile.failedKeepsKey !== null, profile.name === 'standard');
    });
  });
}

const sealed = sealOf(standard);
const cancel = sealOf(standard, cancelIntent);

test('a numeric state is compared as the text that stood there, and no other number is it', () => {
  const bybit = profileOf('bybit-p2p');
  const read = (state: string): string =>
    readSend(bybit, sealOf(bybit), {
      status: 200,
      body: JSON.stringify(tradeIn('?', { released_amount: '100.5' })).replace('"?"', state),
    }).kind;
  assert.equal(read('50'), 'final_success');
  assert.equal(read('10'), 'accepted');
  assert.equal(read('5e1'), 'unreadable');
  assert.equal(read('50.0'), 'unreadable');
});

test('cancelled or expired after the buyer marked it as paid, or where the mark is not shown, is for people', () => {
  const { paid_marked_at: _left, ...unmarked } = tradeIn('cancelled');
  for (const trade of [
    unmarked,
    tradeIn('expired', { paid_marked_at: '2030-01-02T03:30:00Z' }),
    tradeIn('cancelled', { paid_marked_at: '' }),
    tradeIn('cancelled', { paid_marked_at: false }),
    tradeIn('cancelled', { released_amount: '1' }),
    tradeIn('cancelled', { released_amount: 'all' }),
  ]) {
    for (const seen of readEverywhere(standard, sealed, trade)) {
      assert.equal(seen.kind, 'accepted', JSON.stringify(trade));
      assert.match(seen.asksPeople ?? '', /trade tr_9: it ended, and nothing shows that it was never marked as paid/);
    }
  }
  for (const released_amount of ['0', '0.00', null])
    assert.equal(
      readSend(standard, sealed, { status: 200, body: tradeIn('cancelled', { released_amount }) }).kind,
      'object_failed',
    );
});

test('released in part, in excess, or without an amount is for people; only the whole amount is success', () => {
  for (const released_amount of ['100.499999', '100.500001', '0', '1', 'all', '1005e-1', null]) {
    const [seen] = readEverywhere(standard, sealed, tradeIn('released', { released_amount }));
    assert.equal(seen?.kind, 'accepted', String(released_amount));
    assert.match(seen.asksPeople ?? '', /the provider released/);
  }
});

test('under our reference but not what we sealed is other content, and never success or failure (req T4)', () => {
  const changes: readonly { [key: string]: Json }[] = [
    { amount: '100.49' },
    { amount: null },
    { amount: '1005e-1' },
    { asset: 'USDC' },
    { asset: null },
    { fiat: 'USD' },
    { fiat_amount: '130001' },
    { fiat_amount: null },
  ];
  for (const change of changes) {
    for (const state of ['created', 'released', 'cancelled', 'disputed', 'elsewhere']) {
      const seen = readEverywhere(standard, sealed, tradeIn(state, { released_amount: '100.5', ...change }));
      for (const one of seen)
        assert.deepEqual(
          [one.kind, one.otherContent, one.objectId],
          ['key_taken', true, 'tr_9'],
          JSON.stringify(change),
        );
    }
  }
});

test('another’s trade, or one without a reference, says nothing (req T4)', () => {
  for (const reference of ['leg_2', null, 'LEG_1']) {
    const trade = tradeIn('released', { reference, released_amount: '100.5' });
    assert.equal(readSend(standard, sealed, { status: 201, body: { trade } }).kind, 'unreadable');
    assert.equal(
      readSend(standard, cancel, { status: 200, body: { trade: { ...trade, state: 'cancelled' } } }).kind,
      'unreadable',
    );
    const listed = readTradeAnswer(
      standard,
      answerTo({ status: 200, body: [trade] }, { look: 'by_reference' }),
      sealed,
    );
    assert.equal(listed.kind, 'not_found', 'a list of others is a list without ours');
  }
  const other = tradeIn('cancelled', { id: 'tr_8' });
  assert.equal(
    readSend(standard, cancel, { status: 200, body: { trade: other } }).kind,
    'unreadable',
    'a cancel of another trade',
  );
});

test('refusals are read by their rows, from sends only, and never from a failing server (req T5, req T12)', () => {
  const rows: readonly (readonly [number, string, string])[] = [
    [422, 'bad_request', 'refused stored final atOnce'],
    [422, 'account_disabled', 'refused stored final atOnce'],
    [422, 'amount_out_of_range', 'refused stored'],
    [422, 'no_liquidity', 'refused stored'],
    [422, 'market_closed', 'refused stored'],
    [422, 'unheard_of', 'unreadable'],
    [400, 'no_liquidity', 'unreadable'],
    [500, 'no_liquidity', 'unreadable'],
    [409, 'in_progress', 'in_progress'],
    [409, 'idempotency_mismatch', 'key_taken'],
    [409, 'not_cancellable', 'in_progress'],
    [404, 'not_found', 'unreadable'],
    [401, 'bad_request', 'blocked'],
    [403, 'account_disabled', 'blocked'],
    [429, 'no_liquidity', 'blocked'],
    [503, 'market_closed', 'blocked'],
  ];
  const worth = ({ kind, refusal }: Observation): string =>
    [kind, refusal?.storedUnderKey && 'stored', refusal?.final && 'final', refusal?.atOnce && 'atOnce']
      .filter((word) => typeof word === 'string')
      .join(' ');
  for (const [status, code, wanted] of rows) {
    assert.equal(worth(readSend(standard, sealed, { status, body: { code } })), wanted, `${status} ${code}`);
    for (const look of ['by_reference', 'by_object'] as const) {
      const seen = readTradeAnswer(standard, answerTo({ status, body: { code } }, { look, objectId: 'tr_9' }), sealed);
      const isAbsent = look === 'by_object' && code === 'not_found';
      assert.ok(
        isAbsent ? seen.kind === 'not_found' : ['unreadable', 'blocked'].includes(seen.kind),
        `${look} ${code}`,
      );
    }
  }
  const pointed = readSend(standard, sealed, { status: 409, body: { code: 'idempotency_mismatch', trade_id: 'tr_5' } });
  assert.equal(pointed.objectHint, 'tr_5');
  const replayed: Told = { status: 422, body: { code: 'no_liquidity' }, headers: { 'idempotent-replayed': 'true' } };
  assert.equal(readSend(standard, sealed, replayed).refusal?.replayed, true);
  for (const profile of TRADE_PROFILES.filter((one) => one.name !== 'standard'))
    for (const code of ['bad_request', 'account_disabled', 'amount_out_of_range', 'no_liquidity', 'market_closed'])
      assert.equal(worth(readSend(profile, sealOf(profile), { status: 422, body: { code } })), 'refused', profile.name);
});

test('an empty list and a 404 are no information, never a no, and under another credential not even that', () => {
  const list = { status: 200, body: { trades: [] } };
  const look = (told: Told, about: Parameters<typeof answerTo>[1]): string =>
    readTradeAnswer(standard, answerTo(told, about), sealed).kind;
  assert.equal(look(list, { look: 'by_reference' }), 'not_found');
  assert.equal(look(list, { look: 'by_reference', whole: false }), 'unreadable');
  assert.equal(look(list, { look: 'by_reference', credential: 'cred_2' }), 'unreadable');
  assert.equal(
    look({ status: 404, body: { code: 'not_found' } }, { look: 'by_object', objectId: 'tr_9' }),
    'not_found',
  );
  assert.equal(look({ status: 404, body: '<html>' }, { look: 'by_object', objectId: 'tr_9' }), 'unreadable');
  assert.equal(readSend(standard, sealed, list).kind, 'unreadable', 'a success without a trade');
});

test('two trades that live under our reference are a double; one that ended unpaid beside a living one ends nothing', () => {
  const listed = (...trades: Json[]): Observation =>
    readTradeAnswer(standard, answerTo({ status: 200, body: { trades } }, { look: 'by_reference' }), sealed);
  const ended = tradeIn('cancelled', { id: 'tr_1' });
  const claimed = tradeIn('cancelled', { id: 'tr_2', paid_marked_at: '2030-01-02T03:30:00Z' });
  const two = listed(tradeIn('created'), tradeIn('released', { id: 'tr_3', released_amount: '100.5' }));
  assert.deepEqual([two.kind, two.doubled, two.objectId], ['key_taken', true, 'tr_3']);
  assert.deepEqual(
    [listed(ended, tradeIn('created')).kind, listed(ended, tradeIn('created')).objectId],
    ['accepted', 'tr_9'],
  );
  assert.equal(listed(claimed, tradeIn('created')).doubled, true, 'after a claim of payment it lives');
  assert.equal(
    listed(ended, tradeIn('expired')).keyStaysBound,
    false,
    'two ended under one key: it did not stay with the first',
  );
  const beside = [{ id: 'tr_3', state: 'created' }];
  const alone = readTradeAnswer(
    standard,
    answerTo({ status: 200, body: tradeIn('cancelled') }, { look: 'by_object', objectId: 'tr_9', beside }),
    sealed,
  );
  assert.equal(alone.kind, 'unreadable', 'the other one is told where it shows');
});

test('what did not arrive whole, or not as JSON, is unknown; what never left says so', () => {
  const whole = answerTo({ status: 201, body: { trade: tradeIn('created') } });
  const read = (change: object): string => readTradeAnswer(standard, { ...whole, ...change }, sealed).kind;
  assert.equal(read({}), 'accepted');
  assert.equal(read({ reach: 'never_connected', status: null, body: 'ECONNREFUSED' }), 'never_left');
  assert.equal(read({ reach: 'never_connected', operation: 'look' }), 'unreadable');
  assert.equal(read({ reach: 'withheld', status: null, body: 'another credential' }), 'blocked');
  for (const reach of ['request_written', 'partial_answer'] as const) assert.equal(read({ reach }), 'unreadable');
  assert.equal(read({ body: JSON.stringify(tradeIn('released')) }), 'unreadable', 'not in the form of this rail');
  for (const body of ['<html>', '[]', '{}', 'null', '{"trade":"tr_9"}'])
    assert.equal(readSend(standard, sealed, { status: 200, body }).kind, 'unreadable', body);
  assert.equal(readSend(standard, sealed, { status: 302, body: '{}' }).kind, 'unreadable');
});

test('an id that cannot be stored or asked for is no id, and names of objects are no states', () => {
  const seen = readSend(standard, sealed, { status: 201, body: tradeIn('created', { id: 'tr\u0000' }) });
  assert.deepEqual([seen.kind, seen.objectId], ['accepted', null]);
  assert.equal(
    readSend(standard, sealOf(standard, intentOf()), { status: 201, body: tradeIn('toString') }).kind,
    'unreadable',
  );
});

test('where the buyer pays is read from the trade itself, as text, and from nothing else (case M5)', () => {
  const read = (body: Json, status = 200): unknown =>
    readTradePayment(answerTo({ status, body }, { look: 'by_reference' }).body, 'tr_9');
  const payTo = { bankCode: '004', accountNumber: '0110', holderName: 'Kim' };
  const payment = { bank_code: '004', account_number: '0110', holder_name: 'Kim' };
  const trade = tradeIn('created', { payment });
  for (const body of [
    trade,
    { trade },
    { trades: [tradeIn('created', { id: 'tr_8', payment: null }), trade] },
    [trade],
    { data: [trade] },
  ])
    assert.deepEqual(read(body), payTo);
  assert.equal(read({ ...trade, id: 'tr_8' }), null);
  assert.equal(read(tradeIn('created', { payment: { ...payment, account_number: 110 } })), null);
  assert.equal(read({ code: 'not_cancellable', trade }, 409), null);
  assert.equal(readTradePayment(JSON.stringify(trade), 'tr_9'), null);
});
