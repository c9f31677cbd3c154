import { join } from "node:path";
import { expect, test } from "vitest";
import { startFilesPair } from "../scenarios/files/pair.ts";
import { describeTree } from "../support/describe-tree.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 20 * 60_000 };
const modules = join(import.meta.dirname, "../../node_modules");

/** What tools write there while the tests run. */
const isCache = (path: string): boolean => /^\.(cache|vite|vitest)/u.test(path);

test(
  "the project's own node_modules are the same byte for byte after get, put and sync",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const taken = ["**/.ssh/**", "**/.gnupg/**", "**/*.pem", "**/*.key", "**/id_*", "**/.env*"];
    const rest = ["**/.npmrc", "**/.netrc", "**/.aws/**", "**/.kube/**", "**/.git/**"];
    const deny = [...[...taken, ...rest].map((glob) => `!${glob}`), ".cache*", ".vite*", ".vitest*"];
    await using pair = await startFilesPair({
      nodeConfig: (dir) =>
        JSON.stringify({
          workspaces: [
            { name: "app", dir, write: ["**"], deny, allowHardLinks: true },
            // A clone of the project may share its modules with another one.
            { name: "modules", dir: modules, deny, allowHardLinks: true },
          ],
        }),
    });
    const run = async (...args: readonly string[]): Promise<void> => {
      const { exitCode, stdout } = await pair.files([...args, "--json"], { timeoutMs: 600_000 });
      expect([args, exitCode, stdout.slice(0, 2_000)]).toEqual([args, 0, expect.any(String)]);
    };
    const wanted = await describeTree(modules, isCache);
    expect(wanted.length).toBeGreaterThan(5_000);
    await run("get", "devbox:/modules", here.join("got"));
    expect(await describeTree(here.join("got"))).toEqual(wanted);
    await run("put", here.join("got"), "devbox:/app/put");
    expect(await describeTree(pair.workspace.join("put"))).toEqual(wanted);
    await run("sync", "devbox:/modules", here.join("synced"));
    expect(await describeTree(here.join("synced"))).toEqual(wanted);
  },
);
