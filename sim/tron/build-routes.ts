/*
 * What makes a transaction at the node, or tries one without sending it. The reference is taken from the solid block, the
 * expiration is a minute after the head.
 */
import { keccak256, toBytes } from 'viem';
import { isWireObject, type Wire, type WireObject } from '../bank/wire-json.ts';
import { callConstant, ContractRefused, validate } from './execute.ts';
import { type ContractName, NullPointer, readHex, readMessage, type Values, WireParseError } from './messages.ts';
import { printLog, printText } from './print.ts';
import type { Returned } from './programs.ts';
import { type Ask, headMs, type Reach, whole } from './read-routes.ts';
import { type Layer, makeLayer } from './state.ts';
import { encodeDraft, fromRaw, printTransaction, textOf, type TronTransaction } from './transaction.ts';

type Build = (ask: Ask, reach: Reach) => Promise<Wire>;

const EXPIRATION_MS = 60_000;

const MAKERS: Record<string, ContractName> = {
  createtransaction: 'TransferContract',
  createaccount: 'AccountCreateContract',
  freezebalancev2: 'FreezeBalanceV2Contract',
  delegateresource: 'DelegateResourceContract',
  undelegateresource: 'UnDelegateResourceContract',
};

const TRIERS: Record<string, Build> = {
  async triggersmartcontract(ask, reach) {
    return guarded(ask, async () => {
      const values = callValues(ask);
      if (reach.chain.world.at(reach.height).program(textOf(values, 'contract_address')) === null) {
        throw new ContractRefused('No contract or not a valid smart contract');
      }
      const transaction = await draft('TriggerSmartContract', values, ask, reach);
      return { result: { result: true }, transaction: made(transaction, ask) };
    });
  },
  async triggerconstantcontract(ask, reach) {
    return guarded(ask, async () => {
      const values = callValues(ask);
      const returned = tryCall(values, reach);
      const failed = returned.result !== 'SUCCESS';
      const transaction = await draft('TriggerSmartContract', values, ask, reach);
      return {
        result: { result: true, ...(failed ? { message: printText('REVERT opcode executed', ask.visible) } : {}) },
        energy_used: returned.energy,
        ...(returned.penalty === 0n ? {} : { energy_penalty: returned.penalty }),
        constant_result: [returned.output],
        ...(returned.logs.length === 0 || failed
          ? {}
          : { logs: returned.logs.map((log) => printLog(log, ask.visible)) }),
        transaction: { ret: [failed ? { ret: 'FAILED' } : {}], ...made(transaction, ask) },
      };
    });
  },
  async estimateenergy(ask, reach) {
    return guarded(ask, async () => {
      const values = callValues(ask);
      if (!reach.node.settings.estimatesEnergy) throw new ContractRefused('this node does not support estimate energy');
      const returned = tryCall(values, reach);
      if (returned.result === 'SUCCESS') return { result: { result: true }, energy_required: returned.energy };
      return { result: { code: 'CONTRACT_EXE_ERROR', message: printText('REVERT opcode executed', ask.visible) } };
    });
  },
};

/** On the solid side there are only the tries that make nothing. */
export function buildRoute(name: string, solid: boolean): Build | null {
  if (Object.hasOwn(TRIERS, name) && !(solid && name === 'triggersmartcontract')) return TRIERS[name] ?? null;
  const contract = solid || !Object.hasOwn(MAKERS, name) ? undefined : MAKERS[name];
  if (contract === undefined) return null;
  return async (ask, reach) => {
    const values = readMessage(contract, ask.params, ask.visible);
    const transaction = await draft(contract, values, ask, reach);
    const first = transaction.contracts[0];
    const around = { prices: reach.chain.prices, nowMs: headMs(reach) };
    if (first !== undefined) validate(layerOf(reach), textOf(values, 'owner_address'), first, around);
    return made(transaction, ask);
  };
}

async function guarded(ask: Ask, work: () => Promise<WireObject>): Promise<Wire> {
  const failed = (code: string, text: string): WireObject => ({
    result: { code, message: printText(text, ask.visible) },
  });
  try {
    return await work();
  } catch (error) {
    if (error instanceof ContractRefused) return failed('CONTRACT_VALIDATE_ERROR', error.message);
    if (error instanceof WireParseError) {
      return failed('OTHER_ERROR', `class org.tron.core.services.http.JsonFormat$ParseException : ${error.message}`);
    }
    if (error instanceof NullPointer) return failed('OTHER_ERROR', 'class java.lang.NullPointerException : null');
    throw error;
  }
}

function callValues({ params, visible }: Ask): Values {
  for (const name of ['owner_address', 'contract_address']) {
    if (typeof params[name] !== 'string' || params[name] === '') throw new WireParseError(`${name} isn't set.`);
  }
  const values = readMessage('TriggerSmartContract', params, visible);
  const selector = params.function_selector;
  if (typeof selector !== 'string' || selector === '') return values;
  const parameter = params.parameter === undefined || params.parameter === null ? '' : readHex(params.parameter);
  return { ...values, data: `${keccak256(toBytes(selector)).slice(2, 10)}${parameter}` };
}

function layerOf(reach: Reach): Layer {
  return makeLayer(reach.chain.world.at(reach.height));
}

function tryCall(values: Values, reach: Reach): Returned {
  const program = reach.chain.world.at(reach.height).program(textOf(values, 'contract_address'));
  if (program === null) throw new ContractRefused('Smart contract is not exist.');
  const contract = { name: 'TriggerSmartContract', values, typeUrl: '', permissionId: 0 } as const;
  return callConstant(layerOf(reach), program, contract, headMs(reach));
}

async function draft(name: ContractName, values: Values, { params }: Ask, reach: Reach): Promise<TronTransaction> {
  const reference = reach.chain.block(reach.node.solid());
  const id = reference?.id ?? '';
  const permission = params.Permission_id;
  const data = params.extra_data;
  const raw = encodeDraft({
    refBlockBytes: id.slice(12, 16),
    refBlockHash: id.slice(16, 32),
    expiration: headMs(reach) + EXPIRATION_MS,
    timestamp: reach.nowMs,
    contract: name,
    values,
    feeLimit: isWireObject(params) ? whole(params.fee_limit) : 0n,
    permissionId: typeof permission === 'bigint' ? Number(permission) : 0,
    data: typeof data === 'string' ? readHex(data) : '',
  });
  return fromRaw(raw, []);
}

function made(transaction: TronTransaction, { visible }: Ask): WireObject {
  return { visible, ...printTransaction(transaction, visible) };
}
