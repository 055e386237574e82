/** A gettext catalogue, as `po.ts` reads it: each text by its English. */
declare module "*.po" {
  const texts: Readonly<Record<string, string>>;
  export default texts;
}
