/**
 * From a raw answer to an observation. Pure: the stored answer and the seal are all it sees, so that an answer can be
 * read again years later. Default `unreadable`.
 *
 * It never says `refused`: no node can refuse a transaction for the others. The noes of this rail are chain facts: failed
 * in a solid block, or not included once solid time is past the expiration and the margin, shown by a witness. The head is
 * for display alone, since it may be rolled back and its transactions come again until they expire.
 */
import type { Answer, Json, Observation, ObservationKind, RailCost, SealedEffect } from '../../engine/rail.ts';
import { logsMet } from '../expected-logs.ts';
import { excerpt, field, parseLossless, textOf, longOf } from '../json.ts';
import { linesInWords, lineTruths, multiSendKind } from '../multi-send.ts';
import { readSendAnswer } from './answers.ts';
import { EXPIRY_MARGIN_MS } from './limits.ts';
import { fromItem, LOOK_FORM } from './look-body.ts';
import { type ChainConfig, headerIn, type Header, readGenesis } from './nodes.ts';
import { type Expect, type Payload, readExpect, readPayload } from './payload.ts';
import { contractRetOf, hashOf, outcomeOf, readInfo, type TxInfo } from './receipt.ts';
import { faultOf, isNothing, type NodeConfig, type TronResult } from './wire.ts';

export interface ReadConfig extends ChainConfig {
  readonly coinAssetId: string;
  /** Nodes by the name that evidence gives them. */
  readonly named: ReadonlyMap<string, NodeConfig>;
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

function says(answer: Answer, kind: ObservationKind, detail: string): Observation {
  return { ...base(answer), kind, detail };
}

/** What one node showed, taken apart once. */
interface Scene {
  readonly config: ReadConfig;
  readonly answer: Answer;
  readonly body: Json;
  readonly payload: Payload;
  readonly expect: Expect;
  readonly solid: Header;
  /** An item of the body. */
  item(name: string): TronResult;
}

function readLook(config: ReadConfig, answer: Answer, sealed: SealedEffect): Observation {
  if (answer.reach !== 'answer') return says(answer, 'unreadable', `${answer.reach}: ${excerpt(answer.body)}`);
  const body = parseLossless(answer.body);
  if (body === undefined || field(body, 'form') !== LOOK_FORM) return readForeignBody(answer);
  const chain = readGenesis(fromItem(field(body, 'genesis')), config);
  if (chain === 'wrong') return says(answer, 'unreadable', 'this node is on another chain');
  if (chain === 'down') return says(answer, 'unreadable', 'the node did not tell its chain');
  const solidResult = fromItem(field(body, 'solid'));
  const solid = headerIn(solidResult);
  if (solid === null) return says(answer, 'unreadable', `no solid block: ${faultOf(solidResult)}`);
  const expect = readExpect(sealed.seal.expect);
  const payload = readPayload(sealed.seal.payload);
  const item = (name: string): TronResult => fromItem(field(body, name));
  return judge({ config, answer, body, payload, expect, solid, item });
}

function readForeignBody(answer: Answer): Observation {
  const blocked = answer.status !== null && ([401, 403, 407, 429].includes(answer.status) || answer.status >= 500);
  const status = answer.status === null ? '' : `HTTP ${answer.status}: `;
  return says(answer, blocked ? 'blocked' : 'unreadable', status + excerpt(answer.body));
}

function tells(scene: Scene, kind: ObservationKind, detail: string, rest: Partial<Observation> = {}): Observation {
  return { ...base(scene.answer), kind, detail, objectId: scene.payload.txId, ...rest };
}

function judge(scene: Scene): Observation {
  const solidInfo = scene.item('solidInfo');
  if (solidInfo.kind === 'unreadable') return tells(scene, 'unreadable', `solid receipt: ${solidInfo.detail}`);
  if (!isNothing(solidInfo)) return judgeSolid(scene, solidInfo.value);
  const headInfo = scene.item('headInfo');
  if (headInfo.kind === 'unreadable') return tells(scene, 'unreadable', `receipt at the head: ${headInfo.detail}`);
  if (!isNothing(headInfo)) return judgeHead(scene, headInfo.value);
  return judgeAbsent(scene);
}

/** In a solid block: this is what happened. */
function judgeSolid(scene: Scene, value: Json): Observation {
  const info = readInfo(value);
  if (info === null || info.txId !== scene.payload.txId) {
    return tells(scene, 'unreadable', 'the solid receipt is not whole or not of ours');
  }
  const where = `solid in block ${info.blockNumber}`;
  if (info.blockNumber > scene.solid.number) {
    // Solid since we asked for the head: the next look has both.
    return tells(scene, 'in_progress', `in block ${info.blockNumber}, newer than the solid head`, { advice: 'wait' });
  }
  const { outcome, word, fault } = outcomeIn(scene, info);
  if (fault !== null) return tells(scene, 'unreadable', `${where}: ${fault}`);
  const cost: RailCost = { assetId: scene.config.coinAssetId, payer: scene.payload.from, units: info.fee };
  switch (outcome) {
    case 'failed':
      return tells(scene, 'reverted_final', `${where}, failed: ${word}; ${info.fee} sun burned`, { cost });
    case 'unknown':
      return tells(scene, 'unreadable', `${where}, with a result that is not known: ${word}`);
    case 'succeeded':
      if (scene.expect.lines !== null) {
        const lines = lineTruths(scene.expect.lines, info.logs, info.txId);
        return tells(scene, multiSendKind(lines), `${where}: ${linesInWords(lines)}`, { cost, lines });
      }
      return logsMet(scene.expect.logs, info.logs)
        ? tells(scene, 'final_success', `${where}, as expected`, { cost })
        : tells(scene, 'moved_otherwise', `${where}, SUCCESS, without the expected logs`, { cost });
  }
}

/** The receipt's word and the transaction's own must agree; a TRX transfer has the second alone. */
function outcomeIn(scene: Scene, info: TxInfo) {
  const transaction = scene.item('solidTransaction');
  const shown = transaction.kind === 'value' ? transaction.value : undefined;
  const isOurs = hashOf(field(shown, 'txID')) === scene.payload.txId;
  const word = isOurs ? contractRetOf(shown) : null;
  if (!info.told && scene.expect.kind === 'call') {
    return { outcome: info.outcome, word: info.word, fault: 'the receipt of a call has no result' };
  }
  if (!info.told) {
    const fault = word === null ? `no contractRet: ${faultOf(transaction)}` : null;
    const outcome = info.outcome === 'succeeded' ? outcomeOf(word) : 'unknown';
    return { outcome, word: word ?? 'none', fault };
  }
  const contradicts = word !== null && outcomeOf(word) !== info.outcome;
  return {
    outcome: info.outcome,
    word: info.word,
    fault: contradicts ? `the receipt says ${info.word}, the transaction ${word}` : null,
  };
}

function judgeHead(scene: Scene, value: Json): Observation {
  const info = readInfo(value);
  if (info === null || info.txId !== scene.payload.txId) {
    return tells(scene, 'unreadable', 'the receipt at the head is not whole or not of ours');
  }
  const where = `in block ${info.blockNumber}, not solid`;
  if (info.outcome === 'succeeded' && isMet(scene.expect, info)) return tells(scene, 'included', where);
  return tells(scene, 'in_progress', `${where}: ${info.word}, without what is expected`, { advice: 'wait' });
}

function isMet({ lines, logs }: Expect, info: TxInfo): boolean {
  if (lines === null) return logsMet(logs, info.logs);
  return multiSendKind(lineTruths(lines, info.logs, info.txId)) === 'final_success';
}

/** Nowhere to be seen: that says something only of a witness, and only after the margin. */
function judgeAbsent(scene: Scene): Observation {
  const { expect, solid } = scene;
  const left = expect.expirationMs - solid.timeMs;
  if (left > 0) return tells(scene, 'not_found', `not included; it may be for ${left} ms more`, { advice: 'resend' });
  if (solid.timeMs <= expect.expirationMs + EXPIRY_MARGIN_MS) {
    return tells(scene, 'not_found', 'not included, and expired; solid time is not past the margin', {
      advice: 'wait',
    });
  }
  const transaction = scene.item('solidTransaction');
  if (!isNothing(transaction)) {
    return tells(scene, 'unreadable', `no receipt, but the transaction itself: ${faultOf(transaction)}`);
  }
  const why = whyNoWitness(scene);
  if (why !== null) return tells(scene, 'not_found', `not shown by a node that is no witness: ${why}`);
  const detail = `not included up to solid block ${solid.number} at ${new Date(solid.timeMs).toISOString()}, expired at ${new Date(expect.expirationMs).toISOString()}`;
  return tells(scene, 'expired_unincluded', detail, { witness: true });
}

/** `null`: on one connection the node showed that it covers the time of the seal up to past the margin, without a gap. */
function whyNoWitness(scene: Scene): string | null {
  const { body, expect, solid } = scene;
  if (field(body, 'oneConnection') !== true) return 'it answered over more than one connection';
  const again = headerIn(scene.item('solidAgain'));
  if (again === null || again.number < solid.number) return 'its solid head went back while we looked';
  const reference = headerIn(scene.item('reference'));
  if (reference?.id !== expect.reference.id) return 'it does not show the block that the seal names';
  const gap = scene.config.named
    .get(scene.answer.source)
    ?.gaps?.find((one) => one.fromBlock <= solid.number && one.toBlock >= expect.reference.number);
  if (gap !== undefined) return `its history has a gap from block ${gap.fromBlock} to ${gap.toBlock}`;
  const early = knownAt(field(body, 'early'));
  if (typeof early === 'string') return `before the reference: ${early}`;
  if (early.number > expect.reference.number) return 'the early transaction is later than the reference';
  const late = knownAt(field(body, 'late'));
  if (typeof late === 'string') return `after the margin: ${late}`;
  const inTime = late.number <= again.number && late.timeMs > expect.expirationMs + EXPIRY_MARGIN_MS;
  return inTime ? null : 'the late transaction is before the margin';
}

/** The block of a transaction that the node has in its blocks and also finds by id; a text says why it does not count. */
function knownAt(item: Json | undefined): Header | string {
  const header = headerIn(fromItem(field(item, 'block')));
  if (header === null) return textOf(field(item, 'fault')) ?? 'no known transaction';
  const txId = hashOf(field(item, 'txId'));
  const info = fromItem(field(item, 'info'));
  if (info.kind === 'unreadable') return info.detail;
  const found = hashOf(field(info.value, 'id'));
  const at = longOf(field(info.value, 'blockNumber'));
  if (txId === null || found !== txId || at !== header.number) {
    return `it has ${txId} in block ${header.number} and does not find it by id: it keeps no history`;
  }
  return header;
}
