/** Every type of event that partners can get, and what it tells. docs/webhooks.md and the OpenAPI document list these; a
 *  test holds the list to the flows that emit them. A partner ignores types that it does not know: new ones may come. */
export const EVENT_TYPES = {
  'withdrawal.created': 'it is stored and its amount and fee are held',
  'withdrawal.processing': 'it is under way again: its block left the chain, or a no is being waited out',
  'withdrawal.sent': 'it was seen in a block that is not final yet; nothing is decided by that',
  'withdrawal.retried': 'a try did not go through and moved nothing; another one follows by itself',
  'withdrawal.confirmed': 'it moved, finally: amount and fee left your balance',
  'withdrawal.failed': 'it did not move and will not: what was held is available again',
  'withdrawal.cancelled': 'it was cancelled before anything left: what was held is available again',
  'withdrawal.in_review': 'a person looks at it; do not pay another way meanwhile',
  'withdrawal.reopened': 'after a failure it turned out to have moved; it is held again and will be confirmed',
  'transfer.created': 'it is stored and its amount and fee are held',
  'transfer.processing': 'a no is being waited out: `reason` says which, `final_at` until when at least',
  'transfer.confirmed': 'the bank moved it: amount and fee left your balance',
  'transfer.failed': 'it did not move and will not: what was held is available again',
  'transfer.cancelled': 'it was cancelled before anything left: what was held is available again',
  'transfer.in_review': 'a person looks at it; do not pay another way meanwhile',
  'transfer.reopened': 'after a failure it turned out to have moved; it is held again and will be confirmed',
  'transfer.returned': 'money of it came back and is available again; it is not sent again by itself',
  'transfer_batch.created': 'the file is stored; where its lines are transfers, each has events of its own',
  'transfer_batch.processing': 'a no is being waited out: `reason` says which, `final_at` until when at least',
  'transfer_batch.finished': 'each line has its fate, which may be any: see `by_fate` and `lines`',
  'transfer_batch.lines_decided': 'lines that were in review have their fate now',
  'transfer_batch.returned': 'money of one line came back and is available again; it is not sent again by itself',
  'transfer_batch.failed': 'no line moved and none will: what was held is available again',
  'transfer_batch.cancelled': 'it was cancelled before anything left: what was held is available again',
  'transfer_batch.in_review': 'a person looks at it; do not pay another way meanwhile',
  'transfer_batch.reopened': 'after a failure it turned out to have moved; it is held again',
  'deposit.detected': 'it was seen on the chain and is not final yet; credit nobody for it',
  'deposit.credited': 'it is final and in your balance',
  'deposit.vanished': 'its block left the chain before it was final; it may be detected again',
  'deposit.reversed': 'a credit was taken back by two people, since the chain broke its own finality',
} as const;

export type EventType = keyof typeof EVENT_TYPES;
export const EVENT_TYPE_NAMES = Object.keys(EVENT_TYPES) as EventType[];
