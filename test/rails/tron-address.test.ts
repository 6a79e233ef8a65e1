/*
 * Goal: at the edge an address of TRON is read in each of its four spellings, and one wrong character is found.
 * Method: known addresses in every spelling; each character of a base58 text replaced by every other.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TronWeb } from 'tronweb';
import {
  canonicalAddress,
  fromNode,
  hexAddress,
  machineAddress,
  readAddress,
  wordOfAddress,
} from '../../src/rails/tron/address.ts';

/** Tether's contract on the main network. */
const USDT = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
const USDT_HEX = '41a614f803b6fd780986a42c78ec9c7f77e6ded13c';

test('the four spellings of one address are one address (case H11)', () => {
  const spellings = [USDT, USDT_HEX, `0x${USDT_HEX}`, `0x${USDT_HEX.slice(2)}`, `0x${USDT_HEX.slice(2).toUpperCase()}`];
  for (const text of spellings) {
    assert.deepEqual(readAddress(text), { ok: true, address: USDT, display: USDT }, text);
    assert.equal(canonicalAddress(text), USDT);
    assert.equal(hexAddress(text), USDT_HEX);
  }
  assert.equal(machineAddress(USDT), `0x${USDT_HEX.slice(2)}`);
  assert.equal(wordOfAddress(USDT), `0x${'0'.repeat(24)}${USDT_HEX.slice(2)}`);
  assert.equal(fromNode(USDT_HEX), USDT);
  assert.equal(fromNode(USDT_HEX.slice(2)), USDT);
});

test('a payload that begins with 41 is not taken for the prefix: the length tells (case H11)', () => {
  const twenty = `0x41${'ab'.repeat(19)}`;
  const read = readAddress(twenty);
  assert.ok(read.ok);
  assert.equal(TronWeb.address.toHex(read.address), `4141${'ab'.repeat(19)}`);
  assert.deepEqual(readAddress(`4141${'ab'.repeat(19)}`), read);
  // Forty digits without 0x may be 20 bytes, or 21 with the end cut off.
  const bare = readAddress(twenty.slice(2));
  assert.equal(bare.ok ? null : bare.fault, 'length');
});

test('every single mistyped character is refused, and the failed check is named (case H11)', () => {
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  for (let place = 1; place < USDT.length; place += 1) {
    for (const letter of alphabet) {
      if (letter === USDT[place]) continue;
      const read = readAddress(USDT.slice(0, place) + letter + USDT.slice(place + 1));
      assert.equal(read.ok ? null : read.fault, 'checksum', `${letter} at ${place}`);
    }
  }
  const faults = {
    '': 'not_address',
    [` ${USDT}`]: 'not_address',
    [USDT.replace('j', 'l')]: 'alphabet',
    [USDT.slice(0, -1)]: 'length',
    [`${USDT}1`]: 'length',
    [USDT_HEX.slice(0, -1)]: 'length',
    [`0x${USDT_HEX.slice(4)}`]: 'length',
    '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2': 'not_address',
    '0xA614f803B6FD780986A42c78Ec9c7f77e6DeD13c': 'checksum',
    [`0x${'0'.repeat(40)}`]: 'zero_address',
    T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb: 'zero_address',
    [`41${'0'.repeat(38)}09`]: 'precompile',
  };
  for (const [text, fault] of Object.entries(faults)) {
    const read = readAddress(text);
    assert.equal(read.ok ? null : read.fault, fault, text);
  }
  assert.equal((readAddress(7) as { fault?: string }).fault, 'not_text');
});

test('our spelling is the one that tronweb makes, for addresses of all kinds', () => {
  for (let index = 1; index < 200; index += 1) {
    const twenty = (BigInt(`0x${'9e3779b97f4a7c15'.repeat(3).slice(0, 40)}`) * BigInt(index)) & ((1n << 160n) - 1n);
    const hex = `41${twenty.toString(16).padStart(40, '0')}`;
    assert.equal(fromNode(hex), TronWeb.address.fromHex(hex));
  }
});
