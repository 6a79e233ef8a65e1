/*
 * The smallest JSON-RPC client, for simulators and tests only: it throws on whatever is not a plain result. Payonce's own
 * client is another one on purpose; a simulator that used it would share its misreadings.
 */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };
export type RpcCall = { readonly method: string; readonly params: Json[] };
export type RpcErrorBody = { code: number; message: string; data?: Json };
export type RpcOutcome = { result?: Json; error?: RpcErrorBody };
type RpcAnswer = RpcOutcome & { id: Json };
export type Rpc = (method: string, params: Json[]) => Promise<Json>;

/** Local nodes answer in milliseconds; mining thousands of blocks in one call takes seconds. */
const ANSWER_WAIT_MS = 60_000;

export class RpcError extends Error {
  readonly code: number;

  constructor(method: string, code: number, message: string) {
    super(`${method}: ${message} (${code})`);
    this.name = 'RpcError';
    this.code = code;
  }
}

export function makeRpc(url: string): Rpc {
  return async (method, params) => {
    const [answer] = await postRpc(url, [{ method, params }]);
    return answer ?? null;
  };
}

/** One HTTP call for all; results in the order asked. */
export async function postRpc(url: string, calls: RpcCall[]): Promise<Json[]> {
  const answers = await postRpcRaw(url, calls);
  return calls.map((call, at) => {
    const answer = answers[at];
    const error = answer?.error;
    if (error !== undefined) throw new RpcError(call.method, error.code, error.message);
    return answer?.result ?? null;
  });
}

/** The same, but errors are answers: { result } or { error } for each call. Ids are places, so that none can mix. */
export async function postRpcRaw(url: string, calls: RpcCall[]): Promise<RpcOutcome[]> {
  if (calls.length === 0) return [];
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(calls.map((call, id) => ({ jsonrpc: '2.0', id, ...call }))),
    signal: AbortSignal.timeout(ANSWER_WAIT_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text.slice(0, 200)}`);
  const answers = JSON.parse(text) as RpcAnswer[];
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  return calls.map((call, id) => {
    const answer = byId.get(id);
    if (answer === undefined) throw new Error(`${url} left out the answer to ${call.method}`);
    return answer.error === undefined ? { result: answer.result ?? null } : { error: answer.error };
  });
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
