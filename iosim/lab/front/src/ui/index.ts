export * from "./chart";
export * from "./controls";
export * from "./drag";
export * from "./numbers";
export * from "./player";
export * from "./table";
export * from "./tensors";
export * from "./ticks";
