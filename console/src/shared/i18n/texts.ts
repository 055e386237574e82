/** The shape of a room's texts in every language, made from the English ones. */
export type Texts<T> = { [K in keyof T]: T[K] extends string ? string : Texts<T[K]> };
