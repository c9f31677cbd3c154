import type { ConfigFile, ConfigKey } from "../config/read-config.ts";
import type { JsonValue } from "../fault/fault.ts";
import type { Output } from "./output.ts";

/** A value of the configuration with its key. */
export interface ConfigValue {
  readonly key: ConfigKey;
  readonly value: JsonValue;
}

/** Settings as single values: objects and lists of objects are taken apart, lists of plain values stay whole. */
export function flattenConfig(settings: object, at: ConfigKey = []): readonly ConfigValue[] {
  return Object.entries(settings).flatMap(([name, value]: [string, unknown]): readonly ConfigValue[] => {
    const key = [...at, Array.isArray(settings) ? Number(name) : name];
    if (isPlain(value)) return [{ key, value: toJson(value) }];
    return flattenConfig(value, key);
  });
}

/** Where the values of a configuration came from. */
export interface ConfigOrigins {
  readonly values: readonly ConfigValue[];
  readonly config: ConfigFile<unknown>;
  /** What is said of a value that the file does not set. */
  readonly fallback: (key: ConfigKey) => string;
}

/** Prints each value with its origin: file and line, or what stands in for it. */
export async function showOrigins(output: Output, origins: ConfigOrigins): Promise<void> {
  const values = origins.values.map(({ key, value }) => {
    const place = origins.config.placeOf(key);
    const from = place ? `${place.file}:${place.line}` : origins.fallback(key);
    return { key: key.join("."), value, from };
  });
  await output.result({ file: origins.config.file, exists: origins.config.exists, values }, () => ({
    columns: ["KEY", "VALUE", "FROM"],
    whole: ["VALUE", "FROM"],
    rows: values.map(({ key, value, from }) => [
      key,
      typeof value === "string" ? value : JSON.stringify(value),
      from,
    ]),
  }));
}

function isPlain(value: unknown): value is string | number | boolean | null | undefined | readonly unknown[] {
  if (typeof value !== "object" || value === null) return true;
  const items: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  const holdsObjects = items.some((item) => typeof item === "object" && item !== null);
  return items.length === 0 || (Array.isArray(value) && !holdsObjects);
}

function toJson(value: unknown): JsonValue {
  // Plain by `isPlain`: what JSON cannot hold (undefined) is null.
  return (value ?? null) as JsonValue;
}
