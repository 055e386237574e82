/** A plan of more subtasks is large: it begins as a list, and is drawn by a quicker rule. */
export const LARGE = 100;
