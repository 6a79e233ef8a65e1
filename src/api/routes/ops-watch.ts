/** What operators keep in view: the undecided, alerts, rails and their stops, and the audit log with its chain. */
import { listActs } from '../../audit/acts.ts';
import { loadAttention } from '../../audit/attention.ts';
import { countOpenCases } from '../../audit/case-list.ts';
import { loadUndecided } from '../../audit/undecided.ts';
import { loadOpenAlerts } from '../../engine/alerts.ts';
import { verifyAudit } from '../../engine/audit-log.ts';
import { listRails, resumeRail, stopRail } from '../../engine/stops.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { AUDIT_FAULTS_MAX } from '../limits.ts';
import { nudge } from '../orders.ts';
import { operatorOf } from '../operator-auth.ts';
import * as ops from '../ops-schemas.ts';
import { pageOf, problems } from '../schemas.ts';
import type { Routes } from './routes.ts';

export function watchRoutes(app: Routes, deps: ApiDeps): void {
  const tags = [ops.OPS];
  const { pool } = deps;

  app.get(
    '/undecided',
    {
      schema: {
        tags,
        operationId: 'undecided',
        summary: 'What may have left and is not decided: how many, how old, how much, by rail, partner and asset',
        response: { 200: ops.Undecided, ...problems },
      },
    },
    async () => {
      const items = await loadUndecided(pool);
      const seen = await loadAttention(pool);
      const sum = (of: 'count' | 'with_case'): number => items.reduce((total, one) => total + one[of], 0);
      return {
        count: sum('count'),
        with_case: sum('with_case'),
        oldest_seconds: items[0]?.oldest_seconds ?? null,
        items,
        cases: await countOpenCases(pool, {}),
        attention: {
          rails_stopped: seen.railsStopped,
          scans_halted: seen.scansHalted,
          grave: seen.grave,
          long_stays: seen.longStays,
          wallets_short: seen.walletsShort.map((one) => ({
            chain: one.chain,
            address: one.address,
            left: one.left,
            hours_left: one.hoursLeft,
          })),
        },
      };
    },
  );

  app.get(
    '/alerts',
    {
      schema: {
        tags,
        operationId: 'listAlerts',
        summary: 'What people should look at now, the oldest first',
        response: { 200: ops.Alerts, ...problems },
      },
    },
    async () => ({
      items: (await loadOpenAlerts(pool)).map(({ firstAt, lastAt, ...rest }) => ({
        ...rest,
        first_at: firstAt,
        last_at: lastAt,
      })),
    }),
  );

  app.get(
    '/audit',
    {
      schema: {
        tags,
        operationId: 'listActs',
        summary: 'Who did what, the latest first',
        querystring: ops.AuditQuery,
        response: { 200: pageOf(ops.ActItem), ...problems },
      },
    },
    async (request) => {
      const name = { list: 'ops audit', partnerId: operatorOf(request).id };
      const place = fromCursor(name, request.query.cursor, [PLACE.number])?.[0];
      const limit = pageItems(request.query.limit);
      const acts = await listActs(pool, {
        object: request.query.object ?? null,
        limit: limit + 1,
        before: place === undefined ? null : BigInt(place),
      });
      return toPage(
        acts,
        limit,
        (act) => act,
        (act) => toCursor(name, [act.seq.toString()]),
      );
    },
  );

  app.get(
    '/audit/verify',
    {
      schema: {
        tags,
        operationId: 'verifyAudit',
        summary: 'Whether a line of the audit log was changed or taken out, and which',
        response: { 200: ops.AuditVerified, ...problems },
      },
    },
    async () => {
      const broken = await verifyAudit(pool);
      return { ok: broken.length === 0, broken_count: broken.length, broken: broken.slice(0, AUDIT_FAULTS_MAX) };
    },
  );

  app.get(
    '/rails',
    {
      schema: {
        tags,
        operationId: 'listRails',
        summary: 'Rails, what is open on them, and whether they seal anything new',
        response: { 200: ops.Rails, ...problems },
      },
    },
    async () => ({ items: await listRails(pool) }),
  );

  app.post(
    '/rails/:name/stop',
    {
      schema: {
        tags,
        operationId: 'stopRail',
        summary: 'Seal nothing new from now on (operator)',
        description: 'What is sealed is looked at, sent again and settled as before.',
        params: ops.RailParams,
        body: ops.StopReason,
        response: { 200: ops.RailDone, ...problems },
      },
    },
    async (request) => {
      const { name } = request.params;
      const by = operatorOf(request);
      return { name, ...(await pool.tx('rail stop', (tx) => stopRail(tx, by, name, request.body.reason))) };
    },
  );

  app.post(
    '/rails/:name/resume',
    {
      schema: {
        tags,
        operationId: 'resumeRail',
        summary: 'Let seals go on (admin)',
        params: ops.RailParams,
        response: { 200: ops.RailDone, ...problems },
      },
    },
    async (request) => {
      const { name } = request.params;
      const by = operatorOf(request);
      const done = await pool.tx('rail resume', (tx) => resumeRail(tx, by, name));
      nudge(deps);
      return { name, ...done };
    },
  );
}
