/**
 * From a raw answer to an observation. Pure: the stored answer and the seal are all it sees, so that an answer can be
 * read again years later. Default `unreadable`.
 *
 * It never says `refused`: no node can refuse a transaction for the others. The noes of this rail are chain facts at
 * finality only: reverted, cancelled, or the nonce spent by a transaction that has another payload, named by its hash.
 */
import type { Answer, Json, Observation, ObservationKind, RailCost, SealedEffect, Signed } from '../../engine/rail.ts';
import { logsMet } from '../expected-logs.ts';
import { linesInWords, lineTruths, multiSendKind } from '../multi-send.ts';
import { excerpt } from '../json.ts';
import { readSendAnswer } from './answers.ts';
import { field, hexOf, isObject, parseJson, quantityOf, textOf, toQuantity } from './json.ts';
import { fromItem, LOOK_FORM } from './look-body.ts';
import { type ChainConfig, faultOf, headerIn, quantityIn, readChain } from './nodes.ts';
import { type Expect, type Payload, readExpect, readPayload } from './payload.ts';
import { causeOf, type Receipt, readReceipt } from './receipt.ts';

export interface ReadConfig extends ChainConfig {
  readonly coinAssetId: string;
}

export function readAnswer(config: ReadConfig, answer: Answer, sealed: SealedEffect): Observation {
  if (answer.operation === 'send') {
    const reading = readSendAnswer(answer, answer.variantHash ?? '');
    return { ...base(answer), ...reading, objectId: answer.variantHash };
  }
  return readLook(config, answer, sealed);
}

function base(answer: Answer): Omit<Observation, 'kind' | 'detail'> {
  return { source: answer.source, operator: answer.operator, witness: false, objectId: null, cost: null };
}

/** What one node showed, taken apart once. */
interface Scene {
  readonly answer: Answer;
  readonly sealed: SealedEffect;
  readonly body: Json;
  readonly payload: Payload;
  readonly expect: Expect;
  readonly coinAssetId: string;
  readonly finalNumber: bigint;
  readonly finalMs: number;
  /** `null`: the node covers the seal up to finality; else why it is no witness. */
  readonly noWitness: string | null;
}

function readLook(config: ReadConfig, answer: Answer, sealed: SealedEffect): Observation {
  if (answer.reach !== 'answer') return says(answer, 'unreadable', `${answer.reach}: ${excerpt(answer.body)}`);
  const body = parseJson(answer.body);
  if (field(body, 'form') !== LOOK_FORM || body === undefined) return readForeignBody(answer);
  const chain = readChain([fromItem(field(body, 'chainId')), fromItem(field(body, 'genesis'))], config);
  if (chain === 'wrong') return says(answer, 'unreadable', 'this node is on another chain');
  if (chain === 'down') return says(answer, 'unreadable', 'the node did not tell its chain');
  const final = fromItem(field(body, 'final'));
  const finalHeader = headerIn(final);
  if (finalHeader === null) return says(answer, 'unreadable', `no finalized block: ${faultOf(final)}`);
  const again = headerIn(fromItem(field(body, 'finalAgain')));
  if (again?.hash !== finalHeader.hash) {
    return says(answer, 'unreadable', 'the finalized block changed while we looked, or was not shown twice');
  }
  const expect = readExpect(sealed.seal.expect);
  const scene: Scene = {
    answer,
    sealed,
    body,
    payload: readPayload(sealed.seal.payload),
    expect,
    coinAssetId: config.coinAssetId,
    finalNumber: finalHeader.number,
    finalMs: Number(finalHeader.timestamp) * 1_000,
    noWitness: whyNoWitness(body, expect, finalHeader.number),
  };
  return judgeScene(scene);
}

function readForeignBody(answer: Answer): Observation {
  const blocked = answer.status !== null && ([401, 403, 407, 429].includes(answer.status) || answer.status >= 500);
  const status = answer.status === null ? '' : `HTTP ${answer.status}: `;
  return says(answer, blocked ? 'blocked' : 'unreadable', status + excerpt(answer.body));
}

function says(answer: Answer, kind: ObservationKind, detail: string): Observation {
  return { ...base(answer), kind, detail };
}

function whyNoWitness(body: Json, expect: Expect, finalNumber: bigint): string | null {
  if (field(body, 'oneConnection') !== true) return 'it answered over more than one connection';
  if (finalNumber < expect.reference.number) {
    return `it is behind: finalized ${finalNumber}, the seal knows block ${expect.reference.number}`;
  }
  const reference = headerIn(fromItem(field(body, 'reference')));
  if (reference === null) return 'it does not show the block that the seal names';
  return reference.hash === expect.reference.hash ? null : 'it shows another block where the seal names one';
}

function judgeScene(scene: Scene): Observation {
  const { sealed, body, payload } = scene;
  const found: { readonly variant: Signed; readonly receipt: Receipt }[] = [];
  let unread: string | null = null;
  for (const variant of sealed.variants) {
    const result = fromItem(field(field(body, 'receipts'), variant.hash));
    if (result.kind !== 'result') {
      // `transaction indexing is in progress` and its kin: absence is not shown (rails.md §2.5).
      unread ??= `receipt of ${variant.hash}: ${faultOf(result)}`;
    } else if (result.value !== null && !isPending(result.value)) {
      const receipt = readReceipt(result.value);
      if (receipt === null || receipt.hash !== variant.hash || (receipt.from ?? payload.from) !== payload.from) {
        return tells(scene, 'unreadable', `the receipt of ${variant.hash} is not whole or not of ours`);
      }
      found.push({ variant, receipt });
    }
  }
  const [first, second] = found;
  if (second !== undefined)
    return tells(scene, 'unreadable', 'receipts of two variants of one nonce: the node contradicts itself');
  if (first !== undefined) return judgeMined(scene, first.receipt, first.variant.kind === 'cancel', 'our');
  if (unread !== null) return tells(scene, 'unreadable', unread);

  const nonceAtFinal = fromItem(field(body, 'nonceAtFinal'));
  const count = quantityIn(nonceAtFinal);
  if (count === null) return tells(scene, 'unreadable', `the nonce at finality: ${faultOf(nonceAtFinal)}`);
  if (count > payload.nonce) return judgeCompetitor(scene);
  return notFound(scene);
}

function isPending(value: Json): boolean {
  return isObject(value) && (value['blockNumber'] === null || value['blockNumber'] === undefined);
}

function tells(scene: Scene, kind: ObservationKind, detail: string, rest: Partial<Observation> = {}): Observation {
  return {
    ...base(scene.answer),
    kind,
    witness: scene.noWitness === null,
    finalMs: scene.finalMs,
    detail: scene.noWitness === null ? detail : `${detail} (no witness: ${scene.noWitness})`,
    ...rest,
  };
}

/** A mined transaction that carries our payload (under our hash or another), or our cancel. */
function judgeMined(scene: Scene, receipt: Receipt, isCancel: boolean, whose: 'our' | 'a foreign'): Observation {
  const object = { objectId: receipt.hash };
  const where = `${whose} transaction ${receipt.hash} in block ${receipt.blockNumber}`;
  const batch = !isCancel && receipt.succeeded ? scene.expect.lines : null;
  const lines = batch === null ? null : lineTruths(batch, receipt.logs, receipt.hash);
  const met =
    lines === null
      ? receipt.succeeded && logsMet(scene.expect.logs, receipt.logs)
      : multiSendKind(lines) === 'final_success';
  if (receipt.blockNumber > scene.finalNumber) {
    if (!isCancel && met) return tells(scene, 'included', `${where}, not final`, object);
    return tells(
      scene,
      'in_progress',
      `${where}, not final: ${isCancel ? 'the cancel' : 'reverted or without what is expected'}`,
      {
        ...object,
        advice: 'wait',
      },
    );
  }
  const canonical = fromItem(field(field(scene.body, 'blocks'), toQuantity(receipt.blockNumber)));
  if (headerIn(canonical)?.hash !== receipt.blockHash) {
    return tells(scene, 'unreadable', `${where}: the node shows another block at that height, or none`, object);
  }
  const count = quantityIn(fromItem(field(scene.body, 'nonceAtFinal')));
  if (count !== null && count <= scene.payload.nonce) {
    return tells(
      scene,
      'unreadable',
      `${where}, but the count at finality is still ${count}: the node contradicts itself`,
      object,
    );
  }
  const cost: RailCost = { assetId: scene.coinAssetId, payer: scene.payload.from, units: receipt.cost };
  if (isCancel)
    return tells(scene, 'cancel_mined', `${where}, final: the nonce is spent by our cancel`, { ...object, cost });
  if (lines !== null)
    return tells(scene, multiSendKind(lines), `${where}, final: ${linesInWords(lines)}`, { ...object, cost, lines });
  if (met) return tells(scene, 'final_success', `${where}, final, as expected`, { ...object, cost });
  if (receipt.succeeded) {
    return tells(scene, 'moved_otherwise', `${where}, final, status 1, without the expected logs`, { ...object, cost });
  }
  return tells(scene, 'reverted_final', `${where}, final, reverted: ${revertCause(scene, receipt)}`, {
    ...object,
    cost,
  });
}

function revertCause(scene: Scene, receipt: Receipt): string {
  const variant = scene.sealed.variants.find((one) => one.hash === receipt.hash);
  if (variant !== undefined && receipt.gasUsed >= BigInt(variant.gasLimit)) return 'out of gas';
  return causeOf(field(scene.body, 'cause')) ?? 'the cause is not known';
}

/** The nonce is spent at finality and none of our variants has a receipt: whose transaction was it? */
function judgeCompetitor(scene: Scene): Observation {
  const { payload, body } = scene;
  const competitor = field(body, 'competitor');
  const transaction = field(competitor, 'result');
  const hash = hexOf(field(transaction, 'hash'));
  if (hash === null) {
    const fault = textOf(field(competitor, 'fault')) ?? 'not searched';
    return tells(
      scene,
      'unreadable',
      `the nonce is spent at finality, by no transaction that could be named: ${fault}`,
    );
  }
  if (scene.sealed.variants.some((variant) => variant.hash === hash)) {
    return tells(scene, 'unreadable', `the node has our ${hash} in a block and no receipt of it: its index has gaps`, {
      objectId: hash,
    });
  }
  const receiptResult = fromItem(field(body, 'competitorReceipt'));
  const receipt = receiptResult.kind === 'result' ? readReceipt(receiptResult.value) : null;
  const from = hexOf(field(transaction, 'from'));
  const nonce = quantityOf(field(transaction, 'nonce'));
  if (receipt === null || receipt.hash !== hash || receipt.blockNumber > scene.finalNumber) {
    return tells(scene, 'unreadable', `no final receipt of ${hash}, which spent our nonce`, { objectId: hash });
  }
  if (from !== payload.from || nonce !== payload.nonce) {
    return tells(scene, 'unreadable', `${hash} is not at our nonce`, { objectId: hash });
  }
  if (samePayload(transaction, payload)) return judgeMined(scene, receipt, false, 'a foreign');
  const canonical = headerIn(fromItem(field(field(body, 'blocks'), toQuantity(receipt.blockNumber))));
  if (canonical?.hash !== receipt.blockHash) {
    return tells(scene, 'unreadable', `${hash}: the node shows another block at that height, or none`, {
      objectId: hash,
    });
  }
  return tells(
    scene,
    'spent_by_other',
    `transaction ${hash} in block ${receipt.blockNumber} spent our nonce with another payload`,
    {
      objectId: hash,
    },
  );
}

function samePayload(transaction: Json | undefined, payload: Payload): boolean {
  return (
    hexOf(field(transaction, 'to')) === payload.to &&
    quantityOf(field(transaction, 'value')) === payload.value &&
    hexOf(field(transaction, 'input')) === payload.data
  );
}

function notFound(scene: Scene): Observation {
  const head = quantityIn(fromItem(field(scene.body, 'nonceAtLatest')));
  const { nonce } = scene.payload;
  if (head === null) return tells(scene, 'not_found', 'no receipt', { advice: 'wait' });
  if (head > nonce) {
    return tells(scene, 'not_found', 'no receipt; the nonce is spent at the head by a transaction not ours', {
      advice: 'wait',
    });
  }
  if (head < nonce) {
    return tells(scene, 'not_found', `no receipt; earlier nonces from ${head} on are not mined`, { advice: 'wait' });
  }
  return tells(scene, 'not_found', 'no receipt; it is the next in line', { advice: 'resend' });
}
