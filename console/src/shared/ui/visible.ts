/** Control, format and other characters that are drawn as nothing, or turn the text around. */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u17b4\u17b5\u3164\uffa0]|(?! )\p{Zs}|\p{Default_Ignorable_Code_Point}/gu;

/** A text in which what would not be seen is written as an escape. Line ends and tabs stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) =>
    character === "\n" || character === "\t"
      ? character
      : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
