/*
 * Goal: a refusal that points at a batch is believed only where a look shows our key under it: one wrong link neither hides the
 * true batch nor becomes it. Method: a provider on a real socket whose first answer is lost and whose refusals link to another
 * batch first; intake, engine and books on a real database.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { Json } from '../../src/engine/rail.ts';
import { linesFromJson, makeTransferBatches, takeBatch } from '../../src/flows/transfers/batch.ts';
import { makeTransfers } from '../../src/flows/transfers/index.ts';
import { type BankRail, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { field, isArray, parseJson, textOf } from '../../src/rails/json.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld } from '../support/world.ts';

test('a wrong link in a refusal is asked for and is not ours; the batch that is ours settles (case M7)', async (t) => {
  const profile = PROFILES.find((one) => one.name === 'paypal-payouts') ?? assert.fail();
  const asked: string[] = [];
  let sends = 0;
  let sent: Json | undefined;
  const batch = (id: string, key: string): Json => {
    const items = field(sent, 'items');
    return {
      batch_header: { payout_batch_id: id, batch_status: 'SUCCESS', sender_batch_header: { sender_batch_id: key } },
      items: (isArray(items) ? items : []).map((item, index) => ({
        payout_item_id: `item-${index}`,
        transaction_status: 'SUCCESS',
        payout_item: item,
      })),
      total_pages: '1',
    };
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const reply = (status: number, body: Json): void => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      };
      if (request.method === 'POST') {
        sends += 1;
        sent = parseJson(Buffer.concat(chunks).toString());
        const link = { href: `https://bank.invalid/v1/payments/payouts/${sends === 2 ? 'B_OTHER' : 'B_MINE'}` };
        if (sends === 1) response.destroy();
        else reply(400, { name: 'USER_BUSINESS_ERROR', message: 'duplicate', links: [link] });
        return;
      }
      const id = /payouts\/([^/?]+)/.exec(request.url ?? '')?.[1] ?? '';
      asked.push(id);
      const key = textOf(field(field(sent, 'sender_batch_header'), 'sender_batch_id')) ?? '';
      reply(200, batch(id, id === 'B_MINE' ? key : 'somebody'));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rails: BankRail[] = [];
  const world = await makeWorld({
    label: 'hints',
    rails: (ports) => {
      const rail = makeBankRail(
        {
          name: 'bank:paypal',
          profile,
          baseUrl,
          account: 'acc_1',
          credential: { id: 'cred_1', secret: () => 'sk_test' },
          deployment: 'test',
          direct: true,
          capabilities: { resendAfterMs: 0 },
        },
        { ports, http: { timeoutMs: 2_000 } },
      );
      rails.push(rail);
      return [rail];
    },
    flows: (chart, makeId) => [makeTransfers(chart), makeTransferBatches(chart, makeId)],
    chain: 'bank:paypal',
    contract: 'USD',
    assetCode: 'USD',
    decimals: 2,
    wallet: 'acc_1',
    fundUnits: 1_000_000n,
  });
  const [rail] = rails;
  assert.ok(rail !== undefined);
  t.after(async () => {
    await rail.close();
    await world.end();
    server.closeAllConnections();
    server.close();
  });
  const lines = [
    { external_id: 'a', amount: '10.00', bank_code: 'paypal', account_number: 'r@example.invalid', holder_name: 'A B' },
  ];
  const taken = await takeBatch(
    world,
    {
      partnerId: world.partnerId,
      idempotencyKey: 'one',
      sha256: createHash('sha256').update(JSON.stringify(lines)).digest('hex'),
      asset: { id: world.assetId, code: 'USD', decimals: 2 },
      format: 'json',
      lines: linesFromJson(lines),
    },
    { readPayee: (input) => rail.readPayee(input), linesMax: 100 },
  );
  assert.equal(taken.outcome, 'created');
  for (let pass = 0; pass < 5; pass += 1) {
    await world.pool.query(
      'update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null',
    );
    await advanceOnce(world.engine, rail);
  }
  const { rows } = await world.pool.query<{ state: string; accepted_object: string }>(
    'select state, accepted_object from payonce.effects',
  );
  assert.deepEqual(rows, [{ state: 'SETTLED', accepted_object: 'B_MINE' }]);
  assert.deepEqual([...new Set(asked)].sort(), ['B_MINE', 'B_OTHER']);
  await assertBooksClean(world.pool);
});
