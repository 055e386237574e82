export * from "./OnlyLooks";
export * from "./useMe";
