import { posix } from "node:path";
import type { Ladder } from "../architecture.rules.ts";
import type { SourceFacts } from "./source-scan.ts";

/** A file of the project: its path from the top, with `/`, and what it says. */
export interface SourceFile {
  readonly path: string;
  readonly facts: SourceFacts;
}

/** The rules of the house, as `architecture.rules.ts` writes them down. */
export interface HouseRules {
  readonly ladders: readonly Ladder[];
  readonly folders: Readonly<Record<string, readonly string[]>>;
  readonly frontDoor: readonly string[];
  readonly packages: Readonly<Record<string, readonly string[]>>;
  readonly doors: Readonly<Record<string, readonly string[]>>;
  readonly emptyWords: readonly string[];
}

/** The room a file stands in: `shared/flow`, `gateway/.` for a file directly in `gateway`, `main.ts`, `test`. */
function roomOf(path: string): string {
  const [top = "", second, ...below] = path.split("/");
  if (second === undefined || top === "test") return top;
  return below.length === 0 ? `${top}/.` : `${top}/${second}`;
}

function folderOf(room: string): string {
  return room.split("/")[0] ?? room;
}

function levelOf(ladder: Ladder, room: string): number {
  return ladder.levels.findIndex((rooms) => rooms.some((name) => `${ladder.folder}/${name}` === room));
}

/** A row names a room, or a folder with all its rooms. */
function isWithin(room: string, row: string): boolean {
  return room === row || room.startsWith(`${row}/`);
}

/** Whether a room stands in the table at all. */
function isKnownRoom(room: string, rules: HouseRules): boolean {
  return room === "main.ts" || room === "test" || rules.ladders.some((ladder) => levelOf(ladder, room) >= 0);
}

/** Whether a file of one room may import a file of another. */
export function mayImport(from: string, to: string, rules: HouseRules): boolean {
  if (from === to || from === "test") return true;
  if (from === "main.ts") return rules.frontDoor.some((door) => to === door || folderOf(to) === door);
  if (rules.folders[folderOf(from)]?.includes(folderOf(to)) === true) return true;
  return rules.ladders.some((ladder) => {
    const level = levelOf(ladder, from);
    return level >= 0 && levelOf(ladder, to) > level;
  });
}

function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

function* packagesOf({ facts }: SourceFile): Generator<string> {
  for (const specifier of facts.imports) {
    if (!specifier.startsWith(".") && !specifier.startsWith("node:")) yield packageOf(specifier);
  }
}

/** The room imports that the table does not allow, and the rooms that it does not know. */
export function findForbiddenImports(files: readonly SourceFile[], rules: HouseRules): string[] {
  return files.flatMap(({ path, facts }) => {
    const room = roomOf(path);
    if (!isKnownRoom(room, rules)) return [`${path}: no row for the room ${room}`];
    return facts.imports
      .filter((specifier) => specifier.startsWith("."))
      .map((specifier) => posix.join(posix.dirname(path), specifier))
      .filter((target) => !target.endsWith(".json") && !mayImport(room, roomOf(target), rules))
      .map((target) => `${path}: ${room} may not import ${target}`);
  });
}

/** The package imports that no row allows. `main.ts` loads nothing, tests load what they like. */
export function findForbiddenPackages(files: readonly SourceFile[], rules: HouseRules): string[] {
  return files.flatMap((file) => {
    const room = roomOf(file.path);
    if (room === "test") return [];
    return Array.from(packagesOf(file))
      .filter((name) => rules.packages[name]?.some((row) => isWithin(room, row)) !== true)
      .map((name) => `${file.path}: no row allows ${name} in ${room}`);
  });
}

/** The rows that allow a package in a room or folder which exists and does without. */
export function findStalePackages(files: readonly SourceFile[], rules: HouseRules): string[] {
  const uses = files.map((file) => ({ room: roomOf(file.path), names: new Set(packagesOf(file)) }));
  return Object.entries(rules.packages).flatMap(([name, rows]) =>
    rows
      .filter((row) => {
        const within = uses.filter(({ room }) => isWithin(room, row));
        return within.length > 0 && within.every(({ names }) => !names.has(name));
      })
      .map((row) => `${name}: ${row} does without`),
  );
}

const timer = /(?<![.\w$])set(?:Timeout|Interval)\b|\bglobalThis\s*\.\s*set(?:Timeout|Interval)\b/;

// Letting others run is no wait.
const onlyTurn = /^import\s*\{\s*setImmediate\s*\}/m;

const environment = /\bprocess\s*\??\.\s*env\b|^import\s*\{[^}]*\benv\b[^}]*\}\s*from\b/m;

/** The doors of a file: what it reaches of the file system, the environment, timers and processes. */
function doorsOf({ imports, code }: SourceFacts): string[] {
  const reaches = (name: string): boolean => imports.includes(name) || imports.includes(`${name}/promises`);
  const doors: string[] = [];
  if (reaches("node:fs")) doors.push("fs");
  if (environment.test(code)) doors.push("env");
  if ((reaches("node:timers") && !onlyTurn.test(code)) || timer.test(code)) doors.push("timers");
  if (reaches("node:child_process")) doors.push("child processes");
  return doors;
}

/** The uses of a door by rooms without a row for it. Tests may use all but timers, which would be sleeps. */
export function findForbiddenDoors(files: readonly SourceFile[], rules: HouseRules): string[] {
  return files.flatMap(({ path, facts }) => {
    const room = roomOf(path);
    return doorsOf(facts)
      .filter((door) => room !== "test" || door === "timers")
      .filter((door) => rules.doors[door]?.some((row) => row === room || path.startsWith(row)) !== true)
      .map((door) => `${path}: no row allows ${door} in ${room}`);
  });
}

const emptyTypeName = /(?:Manager|Service|Handler|Helper|Utils?|Data|Info|Impl)$|^I[A-Z][a-z]/;

/** Files and exported types whose names say nothing, and barrels. Around gRPC a service is what it says. */
export function findEmptyNames(files: readonly SourceFile[], rules: HouseRules): string[] {
  return files.flatMap(({ path, facts }) => {
    const stem = posix.basename(path).split(".")[0] ?? "";
    const empty =
      stem === "index" ? [stem] : stem.split("-").filter((word) => rules.emptyWords.includes(word));
    const types = facts.exports
      .filter(({ kind, name }) => /class|type|interface/.test(kind) && emptyTypeName.test(name))
      .filter(({ name }) => !(path.startsWith("shared/rpc/") && name.endsWith("Service")));
    return [...empty, ...types.map(({ name }) => name)].map(
      (name) => `${path}: the name ${name} says nothing`,
    );
  });
}

/** Exports without a doc comment right above, and names that are exported away from where they are declared. */
export function findUndocumented(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, facts }) => [
    ...facts.exports
      .filter(({ documented }) => !documented)
      .map(({ name }) => `${path}: ${name} has no doc comment`),
    ...(facts.exportLists > 0 ? [`${path}: export a name where it is declared`] : []),
  ]);
}

/** Module mocks, spies and faked timers. */
export function findMocks(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, facts }) =>
    Array.from(
      facts.code.matchAll(/\bvi\s*\.\s*(?:mock|doMock|hoisted|spyOn|useFakeTimers|stubGlobal)\b/g),
      ([use]) => `${path}: ${use}`,
    ),
  );
}
