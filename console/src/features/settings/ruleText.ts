/**
 * A rule as a person writes it: a table of a rules file, or JSON.
 *
 * Pure. Of TOML it knows what a rule has: strings, whole numbers, booleans and lists of strings. The
 * server judges what the fields mean.
 */

import { objectIn } from "@/shared/json";

export type RuleFields = Record<string, unknown>;

/** What is not a rule, and where. */
export class NoRule extends Error {
  readonly line: number;

  constructor(line: number, what: string) {
    super(what);
    this.name = "NoRule";
    this.line = line;
  }
}

const COMMENT = /^\s*(#.*)?$/;
const HEAD = /^\s*\[\[\s*rule\s*\]\]\s*(#.*)?$/;
const FIELD = /^\s*([A-Za-z_]+)\s*=\s*(.*)$/;
const WORD = /^("(?:[^"\\]|\\.)*"|'[^']*'|true|false|\d+)\s*/;

/**
 * Read a rule.
 *
 * Raises NoRule where the text is neither TOML nor JSON.
 */
export function readRule(text: string): RuleFields {
  return text.trimStart().startsWith("{") ? fromJson(text) : fromToml(text);
}

/** Write a rule as it would stand in a rules file. */
export function writeRule(rule: RuleFields): string {
  const lines = Object.entries(rule).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return ["[[rule]]", ...lines].join("\n");
}

function fromJson(text: string): RuleFields {
  const read = objectIn(text);
  if (read === undefined) {
    throw new NoRule(1, "JSON");
  }
  return read;
}

function fromToml(text: string): RuleFields {
  const rule: RuleFields = {};
  for (const { line, name, written } of fieldsOf(text)) {
    if (Object.hasOwn(rule, name)) {
      throw new NoRule(line, name);
    }
    rule[name] = readValue(written, line);
  }
  return rule;
}

/** The fields with the line on which each begins; a list may go on over several. */
function* fieldsOf(text: string): Generator<{ line: number; name: string; written: string }> {
  const lines = text.split("\n");
  let heads = 0;
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (COMMENT.test(line)) {
      continue;
    }
    if (HEAD.test(line) && heads === 0) {
      heads += 1;
      continue;
    }
    const [, name, begun] = FIELD.exec(line) ?? [];
    if (name === undefined || begun === undefined) {
      throw new NoRule(at + 1, line.trim());
    }
    const from = at;
    let written = begun;
    while (isOpen(written) && at + 1 < lines.length) {
      at += 1;
      written += `\n${lines[at]}`;
    }
    yield { line: from + 1, name, written };
  }
}

function isOpen(written: string): boolean {
  return written.startsWith("[") && !/\]\s*(#.*)?$/.test(written);
}

function readValue(written: string, line: number): unknown {
  const isList = written.startsWith("[");
  const words: unknown[] = [];
  let rest = (isList ? written.slice(1) : written).trimStart();
  while (rest !== "" && !rest.startsWith("]")) {
    if (rest.startsWith("#")) {
      rest = rest.replace(/^[^\n]*/, "").trimStart();
      continue;
    }
    const found = WORD.exec(rest);
    if (found?.[1] === undefined || (!isList && words.length > 0)) {
      throw new NoRule(line, written.trim());
    }
    words.push(readWord(found[1], line));
    rest = rest.slice(found[0].length);
    rest = isList ? rest.replace(/^,\s*/, "") : rest;
  }
  if (isList !== rest.startsWith("]") || (!isList && words.length === 0)) {
    throw new NoRule(line, written.trim());
  }
  return isList ? words : words[0];
}

function readWord(word: string, line: number): unknown {
  if (word.startsWith("'")) {
    return word.slice(1, -1);
  }
  try {
    return JSON.parse(word);
  } catch {
    throw new NoRule(line, word);
  }
}
