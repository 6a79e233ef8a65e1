/** Calls gathered from many effects, each asked once; the answers are found by the place that `add` gave. */
import type { Line, RpcCall, RpcResult } from './rpc.ts';

export interface Questions {
  add(call: RpcCall): number;
  ask(line: Line): Promise<void>;
  answer(place: number | undefined): RpcResult | undefined;
}

export function makeQuestions(): Questions {
  const calls: RpcCall[] = [];
  const places = new Map<string, number>();
  let results: RpcResult[] = [];
  return {
    add(call) {
      const key = JSON.stringify(call);
      const place = places.get(key) ?? calls.push(call) - 1;
      places.set(key, place);
      return place;
    },
    async ask(line) {
      results = await line.ask(calls);
    },
    answer: (place) => (place === undefined ? undefined : results[place]),
  };
}
