import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { fetchAgain } from "./again";

test("what changes while its first answer is on its way is fetched once more", async () => {
  const queries = new QueryClient();
  const asked: ((answer: string) => void)[] = [];
  const queryFn = () => new Promise<string>((answer) => asked.push(answer));
  const looks = new QueryObserver(queries, { queryKey: ["a"], queryFn });
  const leave = looks.subscribe(() => undefined);
  await vi.waitFor(() => expect(asked).toHaveLength(1));

  void fetchAgain(queries, () => true);
  asked[0]?.("old");

  await vi.waitFor(() => expect(asked).toHaveLength(2));
  asked[1]?.("new");
  await vi.waitFor(() => expect(looks.getCurrentResult().data).toBe("new"));
  leave();
});
