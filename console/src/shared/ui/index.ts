export * from "./Code";
export * from "./Diff";
export * from "./Loaded";
export * from "./Markdown";
export * from "./StatusBadge";
export * from "./time";
export * from "./visible";
export * from "./When";
