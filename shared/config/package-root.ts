import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

let found: { readonly dir: string; readonly version: string } | undefined;

/** The folder of this package: of its sources, or of the installed copy. */
export function packageRoot(): string {
  return find().dir;
}

/** The version in `package.json`. */
export function packageVersion(): string {
  return find().version;
}

/** The version in `package.json` as it is now, which an upgrade has changed; undefined while it cannot be read. */
export function installedVersion(): string | undefined {
  try {
    return readVersion(path.join(packageRoot(), "package.json"));
  } catch {
    return undefined;
  }
}

/** The same from the sources and from `dist`, which lies one folder deeper: the nearest `package.json` of this name. */
function find(): { readonly dir: string; readonly version: string } {
  for (let dir = path.dirname(fileURLToPath(import.meta.url)); !found; dir = path.dirname(dir)) {
    const version = readVersion(path.join(dir, "package.json"));
    if (version !== undefined) found = { dir, version };
    else if (dir === path.dirname(dir)) throw new Error("package.json of fairlead was not found");
  }
  return found;
}

function readVersion(file: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
  const parsed: unknown = JSON.parse(text);
  if (typeof parsed !== "object" || parsed === null || !("name" in parsed) || parsed.name !== "fairlead")
    return undefined;
  return "version" in parsed && typeof parsed.version === "string" ? parsed.version : "0.0.0";
}
