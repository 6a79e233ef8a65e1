/** What the bank rail says of its own to the wire and the reader that it shares with other rails. */
import type { KeyedKind } from '../keyed-wire.ts';
import { idText } from '../foreign-text.ts';
import type { ProviderObject, TransferLook } from './profile.ts';

export const BANK_KIND: KeyedKind<ProviderObject, TransferLook> = {
  requestForm: { kind: 'bank', form: 'bank-request-1' },
  answerForm: 'bank-answer-1',
  factsOf: (sealed, request) => ({
    key: request.key,
    account: request.account,
    currency: sealed.asset.code.toUpperCase(),
    objectId: idText(sealed.acceptedObject ?? null),
    sealedAt: sealed.sealedAt,
  }),
  toShown: ({ id, state }) => ({ id, state }),
};
