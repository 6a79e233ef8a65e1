/** A sealed payment over TRON, and answers of a node about it, for tests without a network. */
import type { Answer, ContractCall, EffectIntent, Json, Plan, SealedEffect } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeLocalSigner, makeTronRail, type TronRail } from '../../src/rails/tron/index.ts';
import { hexAddress, wordOfAddress } from '../../src/rails/tron/address.ts';
import { TRANSFER_TOPIC } from '../../src/rails/expected-logs.ts';

export const KEY = `0x${'11'.repeat(32)}` as const;
export const OWNER = 'TCLBgkbfVkJroVBJVqBEsxtPNQEQMTQCLQ';
export const PAYEE = 'TWd4WrZ9wn84f5x1hZhL4DHvk738ns5jwb';
export const USDT = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
export const GENESIS = blockId(0n, 'aa');
export const REFERENCE = { number: 70_000n, id: blockId(70_000n, 'ab'), timeMs: 1_700_000_000_000 };
export const EXPIRATION_MS = REFERENCE.timeMs + 180_000;

export function blockId(number: bigint, fill: string): string {
  return number.toString(16).padStart(16, '0') + fill.repeat(24);
}

export const PLAN: Plan = {
  reference: { number: REFERENCE.number.toString(), id: REFERENCE.id, time: String(REFERENCE.timeMs) },
  expiration: String(EXPIRATION_MS),
  feeLimit: '30000000',
};

export function intentOf(fields: Partial<EffectIntent> = {}, contract: string | null = USDT): EffectIntent {
  return {
    effectId: 7n,
    subjectType: 'withdrawal',
    subjectId: 'wd_1',
    seq: 1,
    partnerId: 'par_test',
    naturalKey: 'key',
    rail: 'tron:test',
    asset: { id: 'asset', code: 'USDT', decimals: 6, chain: 'tron:test', contract },
    amount: 5_000_000n,
    destination: PAYEE,
    wallet: OWNER,
    signer: OWNER,
    call: null,
    payee: null,
    ...fields,
  };
}

export function testRail(): TronRail {
  return makeTronRail(
    {
      name: 'tron:test',
      genesisId: GENESIS,
      nodes: [
        { url: 'http://node-a.invalid', operator: 'a' },
        { url: 'http://node-b.invalid', operator: 'b', gaps: [{ fromBlock: 90_000n, toBlock: 90_010n }] },
      ],
      coinAssetId: 'trx',
      feeLimitCapSun: 100_000_000n,
    },
    { ports: systemPorts(), signer: makeLocalSigner([KEY]) },
  );
}

export function sealOf(rail: TronRail, intent: EffectIntent = intentOf(), plan: Plan = PLAN): SealedEffect {
  return { ...intent, seal: rail.seal(intent, plan, null), plan, variants: [], sealedAt: new Date(REFERENCE.timeMs) };
}

export function txIdOf(sealed: SealedEffect): string {
  return sealed.seal.identity.slice('tron:'.length);
}

export function block(number: bigint, timeMs: number, id = blockId(number, 'ab'), transactions?: Json): Json {
  return {
    blockID: id,
    block_header: {
      raw_data: {
        number: Number(number),
        timestamp: timeMs,
        parentHash: blockId(number === 0n ? 0n : number - 1n, 'ab'),
      },
    },
    ...(transactions === undefined ? {} : { transactions }),
  };
}

/** The log of the payment that `intentOf` means. */
export function transferLog(fields: { to?: string; amount?: bigint; address?: string } = {}): Json {
  return {
    address: hexAddress(fields.address ?? USDT).slice(2),
    topics: [TRANSFER_TOPIC.slice(2), wordOfAddress(OWNER).slice(2), wordOfAddress(fields.to ?? PAYEE).slice(2)],
    data: (fields.amount ?? 5_000_000n).toString(16).padStart(64, '0'),
  };
}

export const CALL: ContractCall = { to: USDT, data: '0xdeadbeef', value: 3n, logs: [] };

export function lookAnswer(body: Json, source = 'node-a.invalid', operator = 'a'): Answer {
  return {
    operation: 'look',
    source,
    operator,
    reach: 'answer',
    status: 200,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    variantHash: null,
  };
}
