/** An editor of the TypeScript SDK, whose standard streams are those of a `gonogo acp`.
 *
 * `node editor.mjs ACT FOLDER TRANSCRIPT`: does what it does in ACT with the project in FOLDER, and
 * writes what it asks, and every message that it is sent, into TRANSCRIPT, one a line. Ends with 0 if
 * all was as it should be.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const { session: sessions } = methods.agent;
const [act, folder, transcript] = process.argv.slice(2);

const noting = (mark) =>
  new TransformStream({
    transform(message, out) {
      if (!mark.to_agent || (message.method && message.id !== undefined))
        appendFileSync(transcript, `${JSON.stringify({ ...message, ...mark })}\n`);
      out.enqueue(message);
    },
  });

/** An editor with its person, who takes `choices` one after the other, then approves. */
class Editor {
  choices = [];
  asked = [];
  shown = [];
  #news = Promise.withResolvers();

  constructor() {
    const wire = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
    const [to, from] = [noting({ to_agent: true }), noting({})];
    to.readable.pipeTo(wire.writable).catch(() => {});
    const app = client({ name: "editor" })
      .onRequest(methods.client.session.requestPermission, (context) => this.#choose(context))
      .onNotification(methods.client.session.update, ({ params }) => this.#show(params.update));
    this.connection = app.connect({
      writable: to.writable,
      readable: wire.readable.pipeThrough(from),
    });
  }

  ask(method, params) {
    return this.connection.agent.request(method, params);
  }

  hello() {
    return this.ask(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {},
    });
  }

  async say(sessionId, text, ...choices) {
    this.choices.push(...choices);
    const prompt = [{ type: "text", text }];
    return (await this.ask(sessions.prompt, { sessionId, prompt })).stopReason;
  }

  of(kind) {
    return this.shown.filter((update) => update.sessionUpdate === kind);
  }

  get text() {
    return this.of("agent_message_chunk").map((update) => update.content.text).join("");
  }

  async until(seen) {
    while (!seen()) await this.#news.promise;
  }

  async #choose({ params, signal }) {
    this.asked.push(params);
    this.#tell();
    const choice = this.choices.shift() ?? "approve";
    if (choice === "nothing") await once(signal, "abort");
    const outcome = { outcome: "selected", optionId: choice };
    assert.ok(params.options.some((option) => option.optionId === choice), `no ${choice}`);
    return { outcome };
  }

  #show(update) {
    this.shown.push(update);
    this.#tell();
  }

  #tell() {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

const here = (name) => existsSync(join(folder, name));
const editor = new Editor();
const { agentCapabilities, agentInfo } = await editor.hello();
assert.equal(agentInfo.name, "gonogo");
assert.ok(agentCapabilities.loadSession);

/** Everything that a person may decide, and an editor that is closed while something waits. */
async function work() {
  const { sessionId, modes } = await editor.ask(sessions.new, { cwd: folder, mcpServers: [] });
  assert.equal(modes.currentModeId, "orchestrator");
  const mode = (modeId) => editor.ask(sessions.setMode, { sessionId, modeId });

  // A tool's permission.
  await mode("coder");
  assert.equal(await editor.say(sessionId, "make", "reject"), "end_turn");
  assert.ok(!here("a.txt"));
  assert.equal(editor.of("tool_call_update").at(-1).status, "failed");
  assert.equal(await editor.say(sessionId, "make", "approve"), "end_turn");
  assert.equal(readFileSync(join(folder, "a.txt"), "utf8"), "one\n");
  const [diff] = editor.asked.at(-1).toolCall.content;
  assert.deepEqual([diff.type, diff.newText], ["diff", "one\n"]);

  // A prompt that is stopped while it asks.
  const stopped = editor.say(sessionId, "make", "nothing");
  await editor.until(() => editor.asked.length === 3);
  await editor.connection.agent.notify(sessions.cancel, { sessionId });
  assert.equal(await stopped, "cancelled");

  // A plan's: rejected, approved and held, changed in the next message, approved.
  await mode("architect");
  assert.equal(await editor.say(sessionId, "Build it", "reject"), "end_turn");
  assert.deepEqual(editor.of("plan").at(-1).entries, []);
  await mode("architect");
  assert.equal(await editor.say(sessionId, "Build it", "hold"), "end_turn");
  assert.ok(!here("app.py"));
  assert.equal(await editor.say(sessionId, "/start"), "end_turn");
  assert.ok(here("app.py") && here("README.md"));
  const states = editor.of("plan").at(-1).entries.map((entry) => entry.status);
  assert.deepEqual(states, ["completed", "completed"]);
  await mode("architect");
  assert.equal(await editor.say(sessionId, "Build it", "revise"), "end_turn");
  assert.equal(await editor.say(sessionId, "Paint it in blue", "approve"), "end_turn");
  assert.equal(editor.of("plan").at(-1).entries[0]._meta.revision, 2);

  await mode("coder");
  const asked = editor.asked.length;
  editor.say(sessionId, "again", "nothing").catch(() => {});
  await editor.until(() => editor.asked.length > asked);
}

/** What was open when the editor was closed is asked again by the next one. */
async function again() {
  const { sessions: listed } = await editor.ask(sessions.list, { cwd: folder });
  assert.equal(listed.length, 1);
  const [{ sessionId }] = listed;
  await editor.ask(sessions.load, { sessionId, cwd: folder, mcpServers: [] });
  const said = editor.of("user_message_chunk").map((update) => update.content.text);
  assert.ok(said.includes("Build it") && said.at(-1) === "again");
  await editor.until(() => here("b.txt") && editor.text.endsWith("Done."));
  assert.equal(editor.asked.length, 1);
}

await { work, again }[act]();
process.exit(0);
