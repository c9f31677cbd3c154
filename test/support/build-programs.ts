import { globSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import { builtFolder, sourceFolder } from "./program-file.ts";

/** What is started as a program, a worker or a thread of its own. */
const entryPatterns = [
  "main.ts",
  "node-agent/**/*-worker.ts",
  "node-agent/jobs/supervise.ts",
  "node-agent/workspace/swap-racer.ts",
  "gateway/memory/index-thread.ts",
];

/**
 * Builds the programs that the tests start, once for a run, with what they import in a few files: each start would strip
 * the types again, and looking for a thousand files is a good part of a start. Types are checked elsewhere. Fails with what
 * the bundler says.
 */
export async function setup(): Promise<void> {
  const entries = entryPatterns.flatMap((pattern) => globSync(pattern, { cwd: sourceFolder }));
  // Only what this build makes may be found.
  await rm(builtFolder, { recursive: true, force: true });
  const build = await rolldown({
    cwd: sourceFolder,
    input: Object.fromEntries(entries.map((entry) => [entry.replace(/\.ts$/, ""), `./${entry}`])),
    platform: "node",
    plugins: [{ name: "places", transform: (code, id) => placeOf(code, id) }],
  });
  try {
    await build.write({
      dir: builtFolder,
      format: "esm",
      entryFileNames: "[name].js",
      chunkFileNames: "parts/[name]-[hash].js",
      sourcemap: false,
    });
  } finally {
    await build.close();
  }
}

/** A module that asks where it is stands for a file beside its own: it hears of the place that it would have alone. */
function placeOf(code: string, id: string): string | undefined {
  if (id.includes("/node_modules/") || !code.includes("import.meta.url")) return undefined;
  const place = pathToFileURL(join(builtFolder, relative(sourceFolder, id).replace(/\.ts$/, ".js")));
  return code.replaceAll("import.meta.url", JSON.stringify(place.href));
}
