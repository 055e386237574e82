export * from "./news";
export * from "./plans";
export * from "./reducer";
export * from "./said";
export * from "./send";
export * from "./useSession";
export * from "./windows";
