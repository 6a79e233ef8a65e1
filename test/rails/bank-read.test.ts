/*
 * Goal: each provider's answers are read by its table, and what no table names is unreadable; whose answer it is comes before
 * what it says. Method: for each profile its documented states and refusals put into answers as they are stored (rails.md
 * §1), then the same with one thing changed.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Json, ObservationKind } from '../../src/engine/rail.ts';
import { PROFILES } from '../../src/rails/bank/index.ts';
import type { Profile } from '../../src/rails/bank/profile.ts';
import { readBankAnswer } from '../../src/rails/bank/read.ts';
import { answerTo, keyOf, objectOf, readSend, sealFor, type Told, wrap } from './bank-scene.ts';

function profileOf(name: string): Profile {
  const found = PROFILES.find((one) => one.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

const STATE_READS = {
  paid: 'final_success',
  accepted: 'accepted',
  open: 'accepted',
  failed: 'object_failed',
  returned: 'came_back',
} as const;

const single = PROFILES.filter((profile) => profile.linesMax === 1);

for (const profile of single) {
  describe(profile.name, () => {
    const sealed = sealFor(profile);
    const state = (wanted: string): string =>
      Object.entries(profile.states).find(([, meaning]) => meaning === wanted)?.[0] ?? assert.fail(wanted);

    test('each state of its table is read so, and a new state is unreadable (case M6, case I7)', () => {
      for (const [name, meaning] of Object.entries(profile.states)) {
        const read = readSend(profile, sealed, { status: 200, body: wrap(profile, objectOf(profile, sealed, name)) });
        assert.equal(read.kind, STATE_READS[meaning], name);
      }
      for (const strange of ['brand_new', '', 'constructor', '__proto__']) {
        const read = readSend(profile, sealed, {
          status: 200,
          body: wrap(profile, objectOf(profile, sealed, strange)),
        });
        assert.equal(read.kind, 'unreadable', strange);
      }
    });

    test('an answer with another key or reference, or with none where one is due, says nothing (req T1, req T4)', () => {
      const due = profile.echoes.includes('key') ? 'key' : 'reference';
      const name = { toss: 'refPayoutId', increase: 'idempotency_key' }[profile.name] ?? 'reference';
      const inMetadata = profile.name === 'stripe' || profile.name === 'modern-treasury';
      for (const value of ['another', null]) {
        const change: { [key: string]: Json } = inMetadata
          ? { metadata: value === null ? {} : { payonce_key: value } }
          : { [name]: value };
        for (const stand of ['paid', 'accepted', 'failed']) {
          const object = objectOf(profile, sealed, state(stand), change);
          assert.equal(
            readSend(profile, sealed, { status: 200, body: wrap(profile, object) }).kind,
            'unreadable',
            `${due} ${value ?? 'absent'}, ${stand}`,
          );
        }
      }
    });

    test('ours with another amount, currency or receiver is neither success nor failure: something stands under our key', () => {
      const nested = profile.name === 'toss' || profile.name === 'generic';
      const changes: { [key: string]: Json }[] = nested
        ? [{ amount: { currency: 'KRW', value: profile.name === 'toss' ? 12501 : '12501' } }]
        : [{ amount: 12501 }, { amount: null }, { amount: 1.25e4 + 0.5 }, { currency: 'EUR' }];
      if (profile.name === 'generic')
        changes.push({ amount: null }, { amount: { currency: 'EUR', value: '12500' } }, { amount: '12500' });
      const receiver = {
        toss: { destination: 'sel_b2' },
        stripe: { destination: 'ba_2' },
        'modern-treasury': {},
        generic: { creditor: { bank_code: '004', account_number: '999' } },
        unkeyed: { accountNumber: '999' },
      }[profile.name] ?? { account_number: '999' };
      if (Object.keys(receiver).length > 0) changes.push(receiver);
      for (const change of changes) {
        for (const stand of ['paid', 'failed']) {
          const body = wrap(profile, objectOf(profile, sealed, state(stand), change));
          const read = readSend(profile, sealed, { status: 200, body });
          assert.equal(read.kind, 'key_taken', JSON.stringify(change));
          assert.notEqual(read.objectId, null);
        }
      }
    });

    test('silence, cut answers, HTML, redirects and server faults are no answer; doors are blocked', () => {
      const object = wrap(profile, objectOf(profile, sealed, state('paid')));
      const rows: [Told, ObservationKind][] = [
        [{ status: 200, body: '' }, 'unreadable'],
        [{ status: 200, body: '<html>200 OK</html>' }, 'unreadable'],
        [{ status: 200, body: '{"id":' }, 'unreadable'],
        [{ status: 200, body: 'null' }, 'unreadable'],
        [{ status: 200, body: {} }, 'unreadable'],
        [{ status: 200, body: [] }, 'unreadable'],
        [{ status: 307, body: object }, 'unreadable'],
        [{ status: 400, body: object }, 'unreadable'],
        [{ status: 404, body: '' }, 'unreadable'],
        [{ status: 500, body: object }, 'unreadable'],
        [{ status: 401, body: object }, 'blocked'],
        [{ status: 403, body: '' }, 'blocked'],
        [{ status: 429, body: object }, 'blocked'],
        [{ status: 502, body: '<html>' }, 'blocked'],
        [{ status: 503, body: object }, 'blocked'],
        [{ status: 504, body: '' }, 'blocked'],
      ];
      for (const [told, kind] of rows) {
        assert.equal(readSend(profile, sealed, told).kind, kind, `${told.status} ${JSON.stringify(told.body)}`);
      }
      const answer = answerTo({ status: 200, body: object });
      const reach = (one: 'never_connected' | 'request_written' | 'partial_answer' | 'withheld'): ObservationKind =>
        readBankAnswer(profile, { ...answer, reach: one, status: null, body: 'because' }, sealed).kind;
      assert.equal(reach('never_connected'), 'never_left');
      assert.equal(reach('request_written'), 'unreadable');
      assert.equal(reach('partial_answer'), 'unreadable');
      assert.equal(reach('withheld'), 'blocked');
      const look = {
        ...answerTo({ status: 200, body: object }, { look: 'by_object' }),
        reach: 'never_connected',
      } as const;
      assert.equal(readBankAnswer(profile, look, sealed).kind, 'unreadable');
    });

    test('no refusal is read from a server fault, an unknown code, or an answer to a look', () => {
      for (const row of profile.codes) {
        if (row.means.reads !== 'refused') continue;
        const body = errorOf(profile, row.code);
        for (const status of [500, 501]) assert.equal(readSend(profile, sealed, { status, body }).kind, 'unreadable');
        for (const status of row.statuses) {
          assert.equal(readSend(profile, sealed, { status, body }).kind, 'refused', `${status} ${row.code}`);
          for (const { name, absent } of profile.lookUps) {
            if (absent.some((one) => one.status === status && one.code === row.code)) continue;
            const answer = answerTo({ status, body }, { look: name, objectId: 'x' });
            assert.equal(readBankAnswer(profile, answer, sealed).kind, 'blocked');
          }
        }
      }
      for (const status of [400, 402, 404, 422])
        assert.equal(
          readSend(profile, sealed, { status, body: errorOf(profile, 'never_heard_of') }).kind,
          'unreadable',
        );
    });
  });
}

function errorOf(profile: Profile, code: string): Json {
  switch (profile.name) {
    case 'toss':
      return { code, message: 'why' };
    case 'stripe':
      return {
        error: code.endsWith('_error')
          ? { type: code, message: 'why' }
          : { type: 'invalid_request_error', code, message: 'why' },
      };
    case 'increase':
      return { type: code, title: 'a reason in words', detail: 'why', status: 400, resource_id: 'ach_transfer_1' };
    case 'modern-treasury':
      return { errors: { code, message: 'why', parameter: 'amount' } };
    case 'paypal-payouts':
      return { name: code, message: 'why', debug_id: 'd' };
    case 'unkeyed':
      return { code, message: 'why' };
    default:
      return { type: `https://bank.invalid/problems/${code}`, title: 'a reason in words', detail: 'why' };
  }
}

test('409 has a meaning per provider, and none by itself (rails.md §0.1, case B11)', () => {
  const rows: [string, string, number, ObservationKind][] = [
    ['toss', 'IDEMPOTENT_REQUEST_PROCESSING', 409, 'in_progress'],
    ['toss', 'SOMETHING_ELSE', 409, 'unreadable'],
    ['stripe', 'idempotency_key_in_use', 409, 'in_progress'],
    ['stripe', 'idempotency_error', 400, 'key_taken'],
    ['stripe', 'idempotency_error', 409, 'in_progress'],
    ['increase', 'idempotency_key_already_used_error', 409, 'key_taken'],
    ['increase', 'another_conflict_error', 409, 'unreadable'],
    ['modern-treasury', 'anything', 409, 'in_progress'],
    ['generic', 'idempotency', 409, 'in_progress'],
    ['generic', 'idempotency', 422, 'key_taken'],
    ['generic', 'idempotency', 400, 'blocked'],
    ['generic', 'never_heard_of', 409, 'unreadable'],
    ['unkeyed', 'idempotency', 409, 'unreadable'],
  ];
  for (const [name, code, status, kind] of rows) {
    const profile = profileOf(name);
    const read = readSend(profile, sealFor(profile), { status, body: errorOf(profile, code) });
    assert.equal(read.kind, kind, `${name} ${status} ${code}`);
  }
  const increase = profileOf('increase');
  const taken = readSend(increase, sealFor(increase), {
    status: 409,
    body: errorOf(increase, 'idempotency_key_already_used_error'),
  });
  assert.deepEqual([taken.objectId, taken.objectHint], [null, 'ach_transfer_1'], 'a place to look, and no more');
});

test('words without a code refuse nothing, and may still say that a request is being worked on (req T12)', () => {
  const generic = profileOf('generic');
  const read = (status: number, title: string) =>
    readSend(generic, sealFor(generic), { status, body: { type: 'about:blank', title, status } });
  for (const title of ['Invalid Request', 'Validation Error', 'Invalid Account', 'Insufficient Funds'])
    assert.equal(read(422, title).kind, 'unreadable', title);
  assert.equal(read(409, 'A request is outstanding for this Idempotency-Key').kind, 'in_progress');
  assert.equal(read(422, 'Idempotency-Key is already used').kind, 'key_taken');
});

test('a refusal carries what the profile says of it: balance is never final, at once or stored without the mark', () => {
  const stripe = profileOf('stripe');
  const sealed = sealFor(stripe);
  const balance = { status: 400, body: errorOf(stripe, 'balance_insufficient') };
  assert.deepEqual(readSend(stripe, sealed, balance).refusal, {
    stage: 'after_key_check',
    storedUnderKey: false,
    replayed: false,
    final: false,
    atOnce: false,
  });
  const replayed = readSend(stripe, sealed, { ...balance, headers: { 'idempotent-replayed': 'true' } });
  assert.equal(replayed.refusal?.replayed, true);
  const generic = profileOf('generic');
  const account = readSend(generic, sealFor(generic), { status: 422, body: errorOf(generic, 'invalid_account') });
  assert.deepEqual(account.refusal, {
    stage: 'unknown',
    storedUnderKey: false,
    replayed: false,
    final: true,
    atOnce: true,
  });
  // The mark is a provider's own: where none is documented, a header of that name says nothing.
  const treasury = profileOf('modern-treasury');
  const foreign = readSend(treasury, sealFor(treasury), {
    status: 422,
    body: errorOf(treasury, 'parameter_invalid'),
    headers: { 'idempotent-replayed': 'true' },
  });
  assert.equal(foreign.refusal?.replayed, false);
});

test('an echoed key is compared before outcome or code, in headers and in refusals too (req T4)', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const refusal = { type: 'https://bank.invalid/problems/invalid_account', idempotency_key: 'another' };
  assert.equal(readSend(generic, sealed, { status: 422, body: refusal }).kind, 'unreadable');
  const paid = objectOf(generic, sealed, 'paid');
  const withHeader = (key: string): ObservationKind =>
    readSend(generic, sealed, { status: 200, body: paid, headers: { 'idempotency-key': key } }).kind;
  assert.equal(withHeader('another'), 'unreadable');
  assert.equal(withHeader(keyOf(sealed)), 'final_success');
  assert.equal(withHeader(`"${keyOf(sealed)}"`), 'final_success');
  const strict: Profile = { ...generic, echoesKeyInErrors: true };
  const silent = { type: 'https://bank.invalid/problems/invalid_account' };
  assert.equal(readSend(strict, sealed, { status: 422, body: silent }).kind, 'unreadable');
  assert.equal(
    readSend(strict, sealed, { status: 422, body: { ...silent, idempotency_key: keyOf(sealed) } }).kind,
    'refused',
  );
});

test('an amount is compared as written: no exponent, no rounding, trailing zeros of a decimal text count for nothing', () => {
  const stripe = profileOf('stripe');
  const big = sealFor(stripe, { amount: 9_007_199_254_740_993n });
  const body = (amount: string): string =>
    JSON.stringify(objectOf(stripe, big, 'paid', { amount: 0 })).replace('"amount":0', `"amount":${amount}`);
  assert.equal(readSend(stripe, big, { status: 200, body: body('9007199254740993') }).kind, 'final_success');
  assert.equal(readSend(stripe, big, { status: 200, body: body('9007199254740992') }).kind, 'key_taken');
  const generic = profileOf('generic');
  const dollars = sealFor(generic, {
    amount: 1_250n,
    asset: { id: 'usd', code: 'USD', decimals: 2, chain: 'b', contract: null },
  });
  for (const [amount, kind] of [
    ['12.50', 'final_success'],
    ['12.5', 'final_success'],
    ['12.500', 'final_success'],
    ['12.51', 'key_taken'],
    ['1.25e1', 'key_taken'],
    ['-12.50', 'key_taken'],
    ['12,50', 'key_taken'],
  ] as const) {
    const told = {
      status: 200,
      body: objectOf(generic, dollars, 'paid', { amount: { currency: 'USD', value: amount } }),
    };
    assert.equal(readSend(generic, dollars, told).kind, kind, amount);
  }
});

test('a return names its amount and its id, in part or whole, and a sum beyond ours is left to a person (case M1)', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const back = (state: string, returns: Json) =>
    readSend(generic, sealed, { status: 200, body: objectOf(generic, sealed, state, { returns }) });
  const won = (value: string): Json => ({ currency: 'KRW', value });
  const part = back('paid', [{ id: 'ret_1', amount: won('12000'), reason: 'closed' }]);
  assert.equal(part.kind, 'came_back');
  assert.deepEqual(part.returned, [{ id: 'ret_1', amount: 12_000n, reason: 'closed' }]);
  const lessFee = { id: 'ret_1', amount: won('11500'), fee: won('500'), reason: 'closed' };
  const once = [{ id: 'ret_1', amount: 12_000n, fee: 500n, reason: 'closed' }];
  assert.deepEqual(back('paid', [lessFee]).returned, once);
  assert.deepEqual(back('paid', [lessFee, lessFee]).returned, once, 'listed twice, it came back once');
  assert.deepEqual(back('paid', [lessFee, { ...lessFee, amount: won('1') }]).returned, []);
  assert.deepEqual(back('returned', []).returned, [{ id: 'tr_9:returned', amount: 12_500n, reason: null }]);
  assert.deepEqual(back('returned', [{ id: 'ret_1', amount: won('12501') }]).returned, []);
  const increase = profileOf('increase');
  const ach = sealFor(increase);
  const returned = objectOf(increase, ach, 'returned', {
    return: { transaction_id: 'transaction_5', return_reason_code: 'no_account' },
  });
  assert.deepEqual(readSend(increase, ach, { status: 200, body: returned }).returned, [
    { id: 'transaction_5', amount: 12_500n, reason: 'no_account' },
  ]);
});

test('a failed object is dead only where the profile cites that its key stays with it; paid-then-failed is money back', () => {
  const kinds = new Map(
    single.map((profile) => {
      const sealed = sealFor(profile);
      const failed = Object.entries(profile.states).find(([, meaning]) => meaning === 'failed')?.[0] ?? '';
      return [
        profile.name,
        readSend(profile, sealed, { status: 200, body: wrap(profile, objectOf(profile, sealed, failed)) }),
      ];
    }),
  );
  assert.deepEqual(
    [...kinds].map(([name, read]) => [name, read.kind, read.keyStaysBound]),
    [
      ['generic', 'object_failed', false],
      ['toss', 'object_failed', false],
      ['stripe', 'object_failed', true],
      ['increase', 'object_failed', true],
      ['modern-treasury', 'object_failed', true],
      ['unkeyed', 'object_failed', false],
    ],
  );
  assert.deepEqual(kinds.get('stripe')?.returned, [{ id: 'po_1:failed', amount: 12_500n, reason: null }]);
  assert.equal(kinds.get('increase')?.returned, undefined);
});

test('a look that finds nothing is not found only where everything was read, by the credential that sealed (case B3)', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const look = (told: Told | readonly Told[], about: Parameters<typeof answerTo>[1]) =>
    readBankAnswer(generic, answerTo(told, about), sealed).kind;
  const other = objectOf(generic, sealed, 'paid', { reference: 'another' });
  const ours = objectOf(generic, sealed, 'paid');
  assert.equal(look({ status: 200, body: { data: [] } }, { look: 'by_key' }), 'not_found');
  assert.equal(look({ status: 404, body: { code: 'not_found' } }, { look: 'by_key' }), 'not_found');
  assert.equal(look({ status: 404, body: 'no such route' }, { look: 'by_key' }), 'unreadable');
  // A framework's own answer where the route is gone: words and no code.
  const blank = { type: 'about:blank', status: 404, detail: 'No static resource v1/transfers.' };
  for (const words of ['Not Found', 'not_found', 'transfer not found'])
    for (const body of [
      { ...blank, title: words },
      { status: 404, title: words },
    ])
      assert.equal(look({ status: 404, body }, { look: 'by_key' }), 'unreadable', words);
  const own = { type: 'https://bank.invalid/problems/not-found', title: 'There is none' };
  assert.equal(look({ status: 404, body: own }, { look: 'by_key' }), 'not_found');
  assert.equal(look({ status: 200, body: { data: [] } }, { look: 'by_key', whole: false }), 'unreadable');
  assert.equal(look({ status: 200, body: { data: [] } }, { look: 'by_key', credential: 'cred_2' }), 'unreadable');
  assert.equal(
    look({ status: 200, body: { data: [ours] } }, { look: 'by_key', credential: 'cred_2' }),
    'final_success',
  );
  assert.equal(look({ status: 200, body: { data: [other] } }, { look: 'by_key' }), 'unreadable');
  assert.equal(look({ status: 200, body: { data: [other] } }, { look: 'by_reference' }), 'not_found');
  assert.equal(look({ status: 200, body: { data: [other, ours] } }, { look: 'by_reference' }), 'final_success');
  assert.equal(look({ status: 200, body: { data: [ours, ours] } }, { look: 'by_reference' }), 'final_success');
  assert.equal(
    look(
      [
        { status: 200, body: { data: [other] } },
        { status: 500, body: 'x' },
      ],
      { look: 'by_reference' },
    ),
    'unreadable',
  );
  assert.equal(look({ status: 200, body: ours }, { look: 'by_object', objectId: 'tr_9' }), 'final_success');
  assert.equal(look({ status: 200, body: ours }, { look: 'by_object', objectId: 'tr_8' }), 'unreadable');
  assert.equal(look({ status: 200, body: other }, { look: 'by_object', objectId: 'tr_9' }), 'unreadable');
});

const LINES = [
  { ref: 'line-1', amount: 5_000n, receiver: 'a@example.invalid' },
  { ref: 'line-2', amount: 5_000n, receiver: 'b@example.invalid' },
  { ref: 'line-3', amount: 2_500n, receiver: 'c@example.invalid' },
];

test('a batch tells each line’s own truth, and its SUCCESS says nothing about a line (case I2, case I7)', () => {
  const paypal = profileOf('paypal-payouts');
  const sealed = sealFor(paypal, {
    payee: null,
    lines: LINES.map((line) => ({
      ref: line.ref,
      amount: line.amount,
      payee: { bankCode: 'paypal', accountNumber: line.receiver, holderName: 'A B', memo: '' },
    })),
  });
  const item = (index: number, state: string, change: { [key: string]: Json } = {}): Json => {
    const line = LINES[index] ?? assert.fail();
    const value = `${line.amount / 100n}.${(line.amount % 100n).toString().padStart(2, '0')}`;
    return {
      payout_item_id: `ITEM${index}`,
      transaction_status: state,
      payout_item: { sender_item_id: line.ref, receiver: line.receiver, amount: { currency: 'USD', value }, ...change },
    };
  };
  const look = (state: string, items: Json) =>
    readBankAnswer(
      paypal,
      answerTo(
        { status: 200, body: objectOf(paypal, sealed, state, { items }) },
        { look: 'by_object', objectId: 'BATCH1' },
      ),
      sealed,
    );
  const outcomes = (state: string, items: Json) => {
    const read = look(state, items);
    return [read.kind, ...(read.lines ?? []).map((line) => line.outcome)];
  };
  assert.deepEqual(outcomes('SUCCESS', [item(0, 'SUCCESS'), item(1, 'FAILED'), item(2, 'RETURNED')]), [
    'final_success',
    'paid',
    'not_paid',
    'came_back',
  ]);
  assert.deepEqual(outcomes('SUCCESS', [item(0, 'SUCCESS'), item(1, 'UNCLAIMED'), item(2, 'ONHOLD')]), [
    'accepted',
    'paid',
    'open',
    'open',
  ]);
  assert.deepEqual(outcomes('SUCCESS', [item(0, 'SUCCESS'), item(1, 'SUCCESS'), item(2, 'BRAND_NEW')]), [
    'final_success',
    'paid',
    'paid',
    'unknown',
  ]);
  assert.deepEqual(
    outcomes('SUCCESS', [
      item(0, 'SUCCESS', { receiver: 'z@example.invalid' }),
      item(1, 'SUCCESS', { amount: { currency: 'USD', value: '50.01' } }),
      item(2, 'SUCCESS'),
    ]),
    ['final_success', 'unknown', 'unknown', 'paid'],
  );
  assert.deepEqual(outcomes('SUCCESS', [item(0, 'FAILED'), item(1, 'FAILED'), item(2, 'FAILED')]), [
    'object_failed',
    'not_paid',
    'not_paid',
    'not_paid',
  ]);
  assert.equal(look('SUCCESS', [item(0, 'SUCCESS')]).kind, 'key_taken', 'lines are missing');
  assert.equal(look('DENIED', []).kind, 'object_failed');
  // A batch that is called failed beside a line that is not is a person's: each line keeps its own truth.
  for (const header of ['DENIED', 'CANCELED']) {
    assert.deepEqual(outcomes(header, [item(0, 'SUCCESS'), item(1, 'FAILED'), item(2, 'UNCLAIMED')]), [
      'key_taken',
      'paid',
      'not_paid',
      'open',
    ]);
    for (const state of ['SUCCESS', 'PENDING', 'RETURNED', 'BRAND_NEW']) {
      const read = look(header, [item(0, 'FAILED'), item(1, 'FAILED'), item(2, state)]);
      assert.equal(read.kind, 'key_taken', `${header}, ${state}`);
      assert.equal(read.returned, undefined);
    }
    assert.equal(look(header, [item(0, 'FAILED'), item(1, 'FAILED')]).kind, 'key_taken', 'a line is missing');
    assert.equal(look(header, [item(0, 'FAILED'), item(1, 'FAILED'), item(2, 'FAILED')]).kind, 'object_failed');
    const page = (items: Json): Told => ({ status: 200, body: objectOf(paypal, sealed, header, { items }) });
    for (const [pages, whole] of [
      [[page([item(0, 'FAILED')])], false],
      [[page([item(0, 'FAILED')]), page([])], true],
      [[page([])], false],
    ] as const) {
      const answer = answerTo(pages, { look: 'by_object', objectId: 'BATCH1', whole });
      assert.equal(readBankAnswer(paypal, answer, sealed).kind, 'key_taken', 'not all lines are shown');
    }
  }
  assert.equal(look('NEW_STATE', []).kind, 'unreadable');
  const sent = readSend(paypal, sealed, { status: 201, body: objectOf(paypal, sealed, 'PENDING') });
  assert.deepEqual([sent.kind, sent.objectId], ['key_taken', 'BATCH1'], 'nothing to compare yet: looked up by its id');
});

test('a used batch id with its link is testimony, without it the advice to take another id is not followed (case M7)', () => {
  const paypal = profileOf('paypal-payouts');
  const sealed = sealFor(paypal);
  const read = (body: Json, status = 400) => readSend(paypal, sealed, { status, body });
  const link = { href: 'https://api-m.paypal.invalid/v1/payments/payouts/BATCH0', rel: 'self', method: 'GET' };
  const used = { name: 'USER_BUSINESS_ERROR', message: 'User business error.' };
  assert.equal(read(used).kind, 'unreadable');
  for (const body of [
    { ...used, links: [link] },
    { ...used, details: [{ issue: 'exists', link: [link] }] },
  ]) {
    const { kind, objectId, objectHint } = read(body);
    // The link may be another's: it becomes ours when a look shows our key under it.
    assert.deepEqual([kind, objectId, objectHint], ['key_taken', null, 'BATCH0']);
  }
  const invalid = read({
    name: 'VALIDATION_ERROR',
    message: 'Invalid request',
    details: [{ field: 'items[1].receiver' }],
  });
  assert.equal(invalid.kind, 'refused');
  assert.equal(invalid.refusal?.atOnce, true);
});

test('an answer too long to be kept whole reads as unreadable, never as less than it was', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const long = objectOf(generic, sealed, 'paid', { note: '"'.repeat(200_000) });
  const answer = answerTo({ status: 200, body: long });
  assert.ok(answer.body.length <= 262_144);
  assert.equal(readBankAnswer(generic, answer, sealed).kind, 'unreadable');
  for (const body of ['', 'not ours', '{"form":"bank-answer-1"}', '{"form":"bank-answer-1","pages":[{}]}'])
    assert.equal(readBankAnswer(generic, { ...answer, body }, sealed).kind, 'unreadable');
});
