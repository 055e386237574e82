export * from "./plans";
export * from "./reducer";
export * from "./send";
export * from "./useSession";
