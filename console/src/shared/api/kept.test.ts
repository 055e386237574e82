import { expect, test } from "vitest";
import { keeping } from "./kept";

const ADDRESS = "http://localhost/api/v1/plans";

function tagged(body: string, tag: string) {
  return new Response(body, { headers: { ETag: tag, "Content-Type": "application/json" } });
}

/** A server that answers in turn, and what it was told to compare with. */
function scripted(...answers: (() => Response)[]) {
  const told: (string | null)[] = [];
  return {
    told,
    ask: async (request: Request) => {
      told.push(request.headers.get("If-None-Match"));
      return (answers.shift() as () => Response)();
    },
  };
}

test("an answer that did not change is given from memory, and sent but once", async () => {
  const server = scripted(
    () => tagged('{"a":1}', 'W/"1"'),
    () => new Response(null, { status: 304 }),
  );
  const get = keeping(server.ask);

  await get(ADDRESS);
  const again = await get(ADDRESS);

  expect(again.status).toBe(200);
  expect(again.headers.get("Content-Type")).toBe("application/json");
  expect(await again.json()).toEqual({ a: 1 });
  expect(server.told).toEqual([null, 'W/"1"']);
});

test("an answer that changed takes the place of the one before", async () => {
  const server = scripted(
    () => tagged("1", 'W/"1"'),
    () => tagged("2", 'W/"2"'),
    () => new Response(null, { status: 304 }),
  );
  const get = keeping(server.ask);

  await get(ADDRESS);
  expect(await (await get(ADDRESS)).text()).toBe("2");

  expect(await (await get(ADDRESS)).text()).toBe("2");
  expect(server.told).toEqual([null, 'W/"1"', 'W/"2"']);
});

test("after a refusal nothing is kept", async () => {
  const server = scripted(
    () => tagged("1", 'W/"1"'),
    () => new Response("{}", { status: 401 }),
    () => tagged("1", 'W/"1"'),
  );
  const get = keeping(server.ask);

  for (let time = 0; time < 3; time += 1) await get(ADDRESS);

  expect(server.told).toEqual([null, 'W/"1"', null]);
});

test("what is no GET is sent as it is", async () => {
  const server = scripted(
    () => tagged("1", 'W/"1"'),
    () => tagged("1", 'W/"1"'),
  );
  const get = keeping(server.ask);

  await get(ADDRESS);
  await get(ADDRESS, { method: "POST", body: "{}" });

  expect(server.told).toEqual([null, null]);
});

test("of many addresses the one that was asked for longest ago is forgotten", async () => {
  const told: (string | null)[] = [];
  const get = keeping(async (request) => {
    told.push(request.headers.get("If-None-Match"));
    return tagged("1", 'W/"1"');
  });
  for (let number = 0; number < 101; number += 1) await get(`${ADDRESS}?n=${number}`);
  told.length = 0;

  await get(`${ADDRESS}?n=0`);
  await get(`${ADDRESS}?n=100`);

  expect(told).toEqual([null, 'W/"1"']);
});
