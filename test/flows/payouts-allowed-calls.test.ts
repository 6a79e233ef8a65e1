/*
 * What operators allow programmes to ask of a contract (`payoutCalls`): to the letter, chain by chain. A wallet signs such a call that
 * may hold other partners' money, so whatever differs is another call. Pure; addresses are read as the chains read them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Chain, makeMayCall } from '../../src/main/wire-chains.ts';
import { readAddress } from '../../src/rails/evm/index.ts';

const SWAP = '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed';
const SWAP_CHECKSUMMED = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
const OTHER = '0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359';
const DATA = '0xa110cca7{creator}{amount}{min_output}';

const canonical = (text: string): string | null => {
  const read = readAddress(text);
  return read.ok ? read.address : null;
};
const chains = ['eip155:1', 'eip155:56'].map((chain) => ({ chain, canonical }) as unknown as Chain);
const mayCall = makeMayCall([{ chain: 'eip155:1', to: SWAP_CHECKSUMMED, data: DATA }], chains);
const call = { to: SWAP, data: DATA, value: 'nothing' as const, logs: [] };

test('a call is allowed only with the chain, contract, data and value that the operators wrote, whatever the spelling of hex (req P8)', () => {
  assert.equal(mayCall('eip155:1', call), true);
  assert.equal(mayCall('eip155:1', { ...call, data: DATA.replace('a110cca7', 'A110CCA7') }), true);
  const others: [string, Parameters<typeof mayCall>[1]][] = [
    ['eip155:56', call],
    ['eip155:1', { ...call, to: OTHER }],
    ['eip155:1', { ...call, value: 'amount' }],
    ['eip155:1', { ...call, data: DATA.replace('{creator}', '0'.repeat(64)) }],
    ['eip155:1', { ...call, data: DATA.replace('{amount}', 'f'.repeat(64)) }],
    ['eip155:1', { ...call, data: `${DATA}00` }],
    ['eip155:1', { ...call, data: DATA.replace('a110cca7', 'a9059cbb') }],
  ];
  for (const [chain, one] of others) assert.equal(mayCall(chain, one), false, `${chain} ${JSON.stringify(one)}`);
});

test('where nothing is configured no call is allowed (req P8)', () => {
  assert.equal(makeMayCall([], chains)('eip155:1', call), false);
});
