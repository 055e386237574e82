/**
 * The shape of a room's texts in every language, made from the English ones.
 *
 * English counts one and others; where it does, every language has all the forms that i18next knows,
 * so that the compiler asks for those that English lacks.
 */
export type Texts<T> = { [K in keyof T]: T[K] extends string ? string : Texts<T[K]> } & {
  [K in keyof T as K extends `${infer Name}_other`
    ? `${Name}_few` | `${Name}_many`
    : never]: string;
};
