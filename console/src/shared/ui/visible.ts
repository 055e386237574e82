/** Control, format and other characters that are drawn as nothing, or turn the text around. */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u17b4\u17b5\u3164\uffa0]|(?! )\p{Zs}|\p{Default_Ignorable_Code_Point}/gu;

const BLANKS = /[ \t]{41,}/g;
const EMPTY_LINES = /^([-+ ]?)[ \t]*\n(?:\1[ \t]*\n){7,}/gm;

/**
 * A text in which a long run of blanks, or of empty lines, is a sign and their number: what comes
 * after them would be out of sight.
 */
export function countBlanks(text: string): string {
  return text
    .replace(EMPTY_LINES, (run, sign: string) => `${sign}⏎×${run.split("\n").length - 1}\n`)
    .replace(BLANKS, (run) => `␣×${run.length}`);
}

/** A text on one line, on which is seen where its lines ended. */
export function onOneLine(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => countBlanks(visible(line)).trim())
    .filter((line) => line !== "")
    .join(" ⏎ ");
}

/** A text in which what would not be seen is written as an escape. Line ends and tabs stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) =>
    character === "\n" || character === "\t"
      ? character
      : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
