/** Whether each bank and each provider of trades is reached, for /readyz and as an alert: a connection and nothing more, no request is made. */
import { clearAlert, raiseAlert } from '../engine/alerts.ts';
import { reachBank } from './doctor-banks.ts';
import type { App } from './wire.ts';

export async function checkProviders(app: App): Promise<void> {
  for (const { rail, config } of [...app.banks, ...app.escrows]) {
    const { name } = rail;
    const { ok, found } = await reachBank({ config });
    if (!ok) await raiseAlert(app.pool, 'rail_degraded', name, `${name}: ${found}`, app.log);
    else if (app.health.get(name) !== 'ok') await clearAlert(app.pool, 'rail_degraded', name);
    app.health.set(name, ok ? 'ok' : 'degraded');
  }
}
