import path from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../shared/config/package-root.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";

/** What a worker process is for. */
export type WorkerKind = "memory" | "skills";

const entries: Readonly<Record<WorkerKind, string>> = {
  memory: "../memory/memory-worker",
  skills: "../skills/skills-worker",
};

/**
 * Interpreter and entry of a worker, both absolute, to which only operation arguments are added; it starts from any
 * working directory. Another kind is `INVALID_ARGUMENT`.
 */
export function resolveWorkspaceWorkerArgv(kind: string): readonly [string, string] {
  if (!Object.hasOwn(entries, kind)) {
    throw new Fault("INVALID_ARGUMENT", `${JSON.stringify(kind.slice(0, 64))} is no kind of worker`, {
      details: { field: "kind" },
      hint: "memory or skills",
    });
  }
  // The sources end in .ts and what is built from them in .js: an entry lies beside this file, as it is.
  const ending = path.extname(fileURLToPath(import.meta.url));
  const entry = new URL(`${entries[kind as WorkerKind]}${ending}`, import.meta.url);
  return [process.execPath, fileURLToPath(entry)];
}

/**
 * Node's own permission flags for a worker that reads `dirs`: no writing, no child processes, no addons, no threads. It is
 * the second wall. The first is the root handle, since a permission by path follows links (a link in an allowed folder
 * reads its target) and `/proc/self/fd/N/..` leads anywhere; what this one is worth is that code which never goes through
 * the handle, in our own mistake or in a dependency, can neither write nor run anything, nor read by name beyond these.
 */
export function workerFlags(dirs: readonly string[]): readonly string[] {
  // The root handle walks by descriptors, and asks there whether procfs is there at all.
  const readable = ["/proc/self/fd/", ...toGrants([...codeFolders(), ...dirs])];
  return ["--permission", ...readable.map((grant) => `--allow-fs-read=${grant}`)];
}

/**
 * What grants these folders together. Node takes a grant back whose text begins that of another one (`/app` beside `/app2`
 * or `/app/src`: seen in 24.21): what lies in another folder is left to that one's grant, and names that only begin alike are
 * granted as `/app*`.
 */
function toGrants(dirs: readonly string[]): readonly string[] {
  const grants: string[] = [];
  for (const dir of dirs.map((one) => path.resolve(one)).toSorted(compareByUtf8)) {
    const begins = grants.findIndex((grant) => dir.startsWith(grant.replace(/\*$/, "")));
    const grant = grants[begins];
    if (grant === undefined) grants.push(dir);
    else if (!grant.endsWith("*") && dir !== grant && !dir.startsWith(`${grant}${path.sep}`)) {
      grants[begins] = `${grant}*`;
    }
  }
  return grants;
}

/** What the workers load of others' code, and what that loads in turn lies beside one of these. */
const dependencies = ["@bufbuild/protobuf", "@grpc/grpc-js", "chokidar", "picomatch", "yaml"];

/** Where this package's code lies, and that of its dependencies, wherever they were installed or are linked to. */
function codeFolders(): readonly string[] {
  const folders = new Set([packageRoot()]);
  for (const name of dependencies) {
    const file = fileURLToPath(import.meta.resolve(name));
    const marker = `${path.sep}node_modules${path.sep}`;
    const at = file.indexOf(marker);
    folders.add(at < 0 ? path.dirname(file) : file.slice(0, at + marker.length - 1));
  }
  return [...folders];
}
