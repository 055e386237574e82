/** Answers that the server need not send again: it says 304 where its answer is the same. */

interface Kept {
  tag: string;
  body: string;
  headers: [string, string][];
}

/** How many answers are kept; those that were asked for longest ago go first. */
const MOST = 100;

/** A `fetch` that sends the tag of the answer it has, and gives that answer for a 304. */
export function keeping(ask: (request: Request) => Promise<Response>) {
  const answers = new Map<string, Kept>();

  function remember(url: string, kept: Kept) {
    answers.delete(url);
    answers.set(url, kept);
    const [oldest] = answers.keys();
    if (answers.size > MOST && oldest !== undefined) answers.delete(oldest);
  }

  return async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    if (request.method !== "GET") return ask(request);
    const kept = answers.get(request.url);
    if (kept !== undefined) request.headers.set("If-None-Match", kept.tag);
    const answer = await ask(request);
    if (answer.status === 304 && kept !== undefined) {
      remember(request.url, kept);
      return new Response(kept.body, { status: 200, headers: kept.headers });
    }
    const tag = answer.headers.get("ETag");
    if (tag === null) {
      answers.delete(request.url);
    } else {
      const body = await answer.clone().text();
      remember(request.url, { tag, body, headers: [...answer.headers] });
    }
    return answer;
  };
}
