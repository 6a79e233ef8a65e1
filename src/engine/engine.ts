/**
 * The engine: one mechanism for every act outside that cannot be taken back (design §1).
 *
 * intend (in the flow's transaction) → claim → plan → seal → sign → send → record → settle; a person comes in by
 * `adjudicate.ts`. `makeEngine` puts the shared parts together. What the engine never does: call a rail inside a
 * transaction, end an effect outside `settle.ts`, or send anything that is not sealed and stored.
 */
import type { EngineDeps, FlowVerb } from './deps.ts';
import type { Flow } from './flow.ts';
import type { Rail } from './rail.ts';

export type { Counters, EngineDeps } from './deps.ts';

export interface EngineOptions extends Omit<EngineDeps, 'flows' | 'rails' | 'counters' | 'verbs'> {
  readonly flows: readonly Flow[];
  readonly rails: readonly Rail[];
  readonly verbs?: Readonly<Record<string, FlowVerb>>;
}

const REGISTER = `insert into payonce.rails (name)
select * from unnest($1::text[])
on conflict (name) do nothing`;

/** Registers the rails' rows; durable on return. */
export async function makeEngine(options: EngineOptions): Promise<EngineDeps> {
  await options.pool.query(REGISTER, [options.rails.map((rail) => rail.name)]);
  return {
    ...options,
    flows: new Map(options.flows.map((flow) => [flow.subjectType, flow])),
    rails: new Map(options.rails.map((rail) => [rail.name, rail])),
    verbs: new Map(Object.entries(options.verbs ?? {})),
    counters: { alreadyTransitioned: 0, busy: 0, sends: 0, sealed: 0 },
  };
}
