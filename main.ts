#!/usr/bin/env node
// The front door. Nothing of ours is imported before the version is known: an old Node must be able to read this file,
// so it is written in plain syntax. Then the first word decides which side is loaded, and only that one.
import { fileURLToPath } from "node:url";

const wantedMajor = 24;
const argv = process.argv.slice(2);

/** The first argument that is neither an option nor the value of one. */
function firstWord(words: readonly string[]): string | undefined {
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? "";
    if (word === "--home" || word === "--gateway" || word === "--deadline") at += 1;
    else if (word.charAt(0) !== "-") return word;
  }
  return undefined;
}

async function main(): Promise<number> {
  // `fairlead help X` is `fairlead X --help`.
  const words = firstWord(argv) === "help" ? argv.filter((word) => word !== "help").concat("--help") : argv;
  const side =
    firstWord(words) === "node"
      ? await import("./node-agent/cli/run.ts")
      : await import("./gateway/cli/run.ts");
  return await side.run({ argv: words, entry: fileURLToPath(import.meta.url) });
}

/** Ends the process once what was written has left it; a reader that is gone is no failure. */
function leave(status: number): void {
  let open = 2;
  const closed = (): void => {
    open -= 1;
    if (open === 0) process.exit(status);
  };
  process.stdout.write("", closed);
  process.stderr.write("", closed);
}

if (Number(process.versions.node.split(".")[0]) < wantedMajor) {
  process.stderr.write(
    "error: fairlead needs Node " + wantedMajor + " or newer; this is " + process.versions.node + "\n",
  );
  process.exit(1);
} else {
  // A pipe that was closed at the other end must not become a crash.
  process.stdout.on("error", () => undefined);
  process.stderr.on("error", () => undefined);
  leave(await main());
}
