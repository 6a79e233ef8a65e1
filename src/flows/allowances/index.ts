/**
 * Allowances: what a wallet of ours lets a relayer move of a token, set by an effect of the wallet's own (R15).
 *
 * Promises: two persons decide each, once; the wallet's own call sets it, sealed, sent and proved as every effect is, success by the
 * token's Approval log; one at a time per wallet, relayer and token. It moves nothing: its gas is booked, and nothing else. A token
 * that changes an allowance from 0 only gets two effects, 0 first. One that is lowered waits until what the relayer has sent is in
 * a block, and nothing more is sealed for that relayer meanwhile. When it stands, what waited for it is due at once.
 * Never: an allowance by the machine alone, one of a deposit address, one to an address that no asset names as its relayer.
 * Over `engine/own-move.ts`. Files: verb (what two persons decide), set (one step), store.
 */
import type { Tx } from '../../db/pool.ts';
import type { EndedEffect, Flow } from '../../engine/flow.ts';
import { makeOwnMoveFlow } from '../../engine/own-move.ts';
import type { Rail } from '../../engine/rail.ts';
import { relayerAllowed } from '../../engine/relayer-shortages.ts';
import type { EffectRow } from '../../engine/store.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { ALLOWANCE, takeSetting } from './set.ts';
import * as store from './store.ts';

export { type AllowanceWish, makeAllowanceVerbs, openAllowanceCase } from './verb.ts';

export function makeAllowanceFlow(chart: Chart, makeId: MakeId, railOf: (name: string) => Rail | undefined): Flow {
  const moves = makeOwnMoveFlow(chart, ALLOWANCE);
  const settingsOf = (tx: Tx, effects: readonly EffectRow[]): Promise<store.Setting[]> =>
    store.loadSettings(
      tx,
      effects.map((one) => one.subjectId),
    );
  return {
    ...moves,
    async settled(tx, ended) {
      const outcome = await moves.settled(tx, ended);
      for (const setting of await settingsOf(tx, ended.map(toEffect))) await goOn(tx, setting);
      return outcome;
    },
    async released(tx, ended) {
      const over = ended.filter((one) => one.next.step === 'fail' || one.next.step === 'cancelled');
      for (const setting of await settingsOf(tx, over.map(toEffect))) await relayerAllowed(tx, setting);
      return moves.released(tx, ended);
    },
    barred: (tx, effects) => store.findUnderWay(tx, effects),
  };

  async function goOn(tx: Tx, setting: store.Setting): Promise<void> {
    await relayerAllowed(tx, setting);
    const rail = railOf(setting.rail);
    if (setting.thenUnits === null || rail === undefined) return;
    // The next step begins at 0: it lowers nothing.
    const next: store.Setting = { ...setting, units: setting.thenUnits, thenUnits: null, lowers: false, step: 2 };
    await takeSetting(tx, { makeId }, rail, next);
  }
}

function toEffect({ effect }: Pick<EndedEffect, 'effect'>): EffectRow {
  return effect;
}
