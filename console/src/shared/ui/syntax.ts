/** A line of code in parts, by what they are: enough for the eye in a diff, for any language. */

export type Word = "comment" | "text" | "number" | "keyword";
export type Part = { text: string; word?: Word };

const HASH = new Set("py sh bash zsh rb yaml yml toml pl r tf mk ini cfg conf".split(" "));
const SLASH = new Set(
  "js jsx ts tsx mjs cjs java c h cc cpp hpp cs go rs kt swift scala php dart css scss json".split(
    " ",
  ),
);
const KEYWORDS = new Set(
  `abstract and as assert async await break case catch class const continue def default del do elif
  else enum except export extends false final finally fn for from func function global if impl
  implements import in interface is lambda let match mod mut new nil none None nonlocal not null or
  package pass private protected pub public raise return self static struct super switch this throw
  trait true True False try type typeof undefined use using var void where while with yield`.split(
    /\s+/,
  ),
);
const STRING = String.raw`"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\x60(?:[^\x60\\]|\\.)*\x60?`;
const REST = String.raw`|\b\d[\w.]*\b|\b[A-Za-z_]\w*\b`;
const PATTERNS = {
  hash: new RegExp(`#.*|${STRING}${REST}`, "g"),
  slash: new RegExp(String.raw`//.*|/\*.*?(?:\*/|$)|` + STRING + REST, "g"),
};

/** The parts of a line of a file; one part alone where nothing is known of its language. */
export function partsOf(line: string, path: string): Part[] {
  const kind = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const pattern = HASH.has(kind) ? PATTERNS.hash : SLASH.has(kind) ? PATTERNS.slash : undefined;
  if (pattern === undefined) {
    return [{ text: line }];
  }
  const parts: Part[] = [];
  let end = 0;
  for (const { 0: text, index } of line.matchAll(pattern)) {
    const word = wordOf(text);
    if (word !== undefined) {
      parts.push({ text: line.slice(end, index) }, { text, word });
      end = index + text.length;
    }
  }
  parts.push({ text: line.slice(end) });
  return parts.filter(({ text }) => text !== "");
}

function wordOf(text: string): Word | undefined {
  if (/^(?:#|\/[/*])/.test(text)) {
    return "comment";
  }
  if (/^["'`]/.test(text)) {
    return "text";
  }
  return /^\d/.test(text) ? "number" : KEYWORDS.has(text) ? "keyword" : undefined;
}
