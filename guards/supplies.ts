/* Guards of what is bought for waiting payments: once, under a lease of one's own, and never because of a market's "no" alone. */
import type { Guard } from './guard.ts';

const SUPPLIES = 'test/flows/supplies.test.ts';

export const BOUGHT: Guard[] = [
  {
    name: 'bought under a lease of one’s own',
    file: 'src/engine/supply.ts',
    find: '  const held = needing.filter((one) => ours.has(one.effect.id));',
    replace: '  const held = needing.filter((one) => ours.has(one.effect.id) || true);',
    test: SUPPLIES,
    title: /a worker that lost its lease while it planned buys nothing/,
    expect: /energy 1 PENDING/,
  },
  {
    name: 'a delivered rental is not bought again',
    file: 'src/flows/supplies/energy.ts',
    find: 'return sinceMs < (last.durationMs ?? 0) - RENTAL_MARGIN_MS ?',
    replace: 'return sinceMs < 0 ?',
    test: SUPPLIES,
    title: /one need is one rental/,
    expect: /was delivered|energy 2/,
  },
  {
    name: 'burning waits for its time',
    file: 'src/flows/supplies/index.ts',
    find: '(waited.get(effect.id) ?? 0) >= rule.giveUpAfterMs ?',
    replace: 'waited.has(effect.id) ?',
    test: SUPPLIES,
    title: /energy that has not come in 60 s/,
    expect: /burn after 55000 ms/,
  },
  {
    name: 'an energy market’s refusal is believed and no more',
    file: 'src/rails/energy/read.ts',
    find: 'storedUnderKey: false,',
    replace: 'storedUnderKey: true,',
    test: 'test/rails/energy.test.ts',
    title: /refused for now it is asked again/,
    expect: /storedUnderKey/,
  },
  {
    name: 'an order is told by our own id',
    file: 'src/rails/energy/read.ts',
    find: 'orders.filter((one) => one.clientOrderId === order.clientOrderId)',
    replace: 'orders.filter(() => true)',
    test: 'test/rails/energy.test.ts',
    title: /whatever is not shown, not ours, or not known is unreadable/,
    expect: /another’s: final_success/,
  },
  {
    name: 'one address gets so many top-ups a day',
    file: 'src/flows/supplies/gas.ts',
    find: 'if (last.settledLately < TOPUPS_A_DAY_MAX) return null;',
    replace: 'if (last.settledLately >= 0) return null;',
    test: 'test/flows/supplies-bounds.test.ts',
    title: /an address that a node shows as empty for ever/,
    expect: /no more of it on this day/,
  },
  {
    name: 'an energy market takes no more than the order allowed (the reading)',
    file: 'src/rails/energy/read.ts',
    find: 'return price > scene.priceMax',
    replace: 'return price < 0n',
    test: 'test/rails/energy.test.ts',
    title: /content that differs bars every no/,
    expect: /dearer than ordered: final_success/,
  },
  {
    name: 'an energy market takes no more than the order allowed (no further order)',
    file: 'src/flows/supplies/energy.ts',
    find: 'waitFor(before) ?? dear ?? unable(',
    replace: 'waitFor(before) ?? unable(',
    test: 'test/flows/supplies-bounds.test.ts',
    title: /a market that takes more than the order allowed/,
    expect: /nothing more is ordered there/,
  },
];
