/* Guards of P2P: what no match, no timer and no payment may do. */
import type { Guard } from './guard.ts';

const GUARDED = 'test/flows/p2p-guards.test.ts';
const RACES = 'test/flows/p2p-races.test.ts';
const ENDS = 'test/flows/p2p-ends.test.ts';
const CORRECTIONS = 'test/flows/p2p-corrections.test.ts';

export const P2P: Guard[] = [
  {
    name: 'leg remaining check',
    file: 'migrations/0021_p2p.sql',
    find: 'check (reserved + settled + given_back <= amount)',
    replace: 'check (reserved + settled + given_back >= 0)',
    test: GUARDED,
    title: /never gives more than its amount/,
    expect: /Missing expected rejection/,
  },
  {
    name: 'legs are written under the claim that stands',
    file: 'migrations/0023_p2p_import.sql',
    find: "o.status = 'MATCHING' and o.claim_token = new.claim_token and not o.waits_lp",
    replace: "o.status <> '' and o.claim_token = o.claim_token",
    test: GUARDED,
    title: /never gives more than its amount/,
    expect: /it is not claimed/,
  },
  {
    name: 'the matcher’s fence (its token)',
    file: 'src/flows/p2p/match.ts',
    find: '  and o.claim_token = $2\n  and not o.waits_lp\nfor no key update of o`',
    replace: '  and o.claim_token >= $2\n  and not o.waits_lp\nfor no key update of o`',
    test: GUARDED,
    title: /a matcher whose claim was taken back writes nothing/,
    expect: /lost/,
  },
  {
    name: 'a match stays inside its group',
    file: 'src/flows/p2p/find-legs.ts',
    find: 'where o.group_name = $1\n  and o.asset_id = $2',
    replace: "where $1::text <> ''\n  and o.asset_id = $2",
    test: GUARDED,
    title: /a match stays inside its group/,
    expect: /MATCHED/,
  },
  {
    name: 'no user is matched with itself',
    file: 'src/flows/p2p/find-legs.ts',
    find: '  and not (o.partner_id = $5 and o.user_ref = $6)',
    replace: '  and not (o.partner_id = $5 and o.user_ref is null and $6::text is null)',
    test: ENDS,
    title: /no user is matched with itself/,
    expect: /MATCHED/,
  },
  {
    name: 'who lost a race looks at all sellers again',
    file: 'src/flows/p2p/find-legs.ts',
    find: "    if (mustWait) return 'look again';",
    replace: '    if (mustWait) return plan([...candidates.values()].filter((one) => locked.has(one.id)));',
    test: RACES,
    title: /no provider’s liquidity is taken/,
    expect: /null/,
  },
  {
    name: 'whoever waits for a seller holds none',
    file: 'src/flows/p2p/find-legs.ts',
    find: "    if (mustWait && locked.size > 0) return 'raced';\n",
    replace: '',
    test: RACES,
    title: /never makes two wait for each other/,
    expect: /nobody waited for each other/,
  },
  {
    name: 'no liquidity is no failed attempt',
    file: 'src/flows/p2p/match.ts',
    find: "order.isOff ? 'MATCHING_IS_OFF' : 'NO_LIQUIDITY', order.attempts);",
    replace: "order.isOff ? 'MATCHING_IS_OFF' : 'NO_LIQUIDITY', order.attempts + 1);",
    test: 'test/flows/p2p.test.ts',
    title: /no liquidity is no failed attempt/,
    expect: /'PENDING'|CANCELLED|1,/,
  },
  {
    name: 'a part of a payment is not the whole',
    file: 'src/flows/p2p/payments.ts',
    find: 'if (paid < leg.fiatAmount) {',
    replace: 'if (paid < 0n) {',
    test: ENDS,
    title: /40 % before the deadline and 80 % after it/,
    expect: /settled/,
  },
  {
    name: 'no more is taken back than a leg moved',
    file: 'src/flows/p2p/corrections.ts',
    find: 'if (after >= -leg.amount && after <= leg.amount) return null;',
    replace: 'if (after >= -leg.amount || after <= leg.amount) return null;',
    test: CORRECTIONS,
    title: /never taken back more than once over/,
    expect: /was corrected/,
  },
  {
    name: 'a case is not closed over a frozen leg',
    file: 'src/flows/p2p/verbs.ts',
    find: "leg.kind === 'SELLER' && leg.state === 'OPEN' && leg.disputed)",
    replace: "leg.kind === 'SELLER' && leg.state === 'VOID' && leg.disputed)",
    test: CORRECTIONS,
    title: /is not closed over a frozen leg/,
    expect: /its leg is frozen/,
  },
  {
    name: 'a surplus is given out once',
    file: 'src/flows/p2p/corrections.ts',
    find: 'const keys = [surplus, ...Array.from({ length: fixes }, (_, index) => postingKey.p2pFix(id, index + 1))];',
    replace:
      'const keys = [surplus, ...Array.from({ length: fixes * 0 }, (_, index) => postingKey.p2pFix(id, index + 1))];',
    test: CORRECTIONS,
    title: /goes out of suspense once/,
    expect: /only 40 USDT/,
  },
];
