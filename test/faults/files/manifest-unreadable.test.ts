import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";

const files = Object.fromEntries(
  Array.from({ length: 60 }, (_, index) => [`d${index % 6}/f${index}`, `file ${index}`]),
);

/** What a tree holds, by path. */
function contentOf(dir: string): Readonly<Record<string, string>> {
  const paths = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((path) => path.includes("/"));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(dir, path), "utf8")]));
}

proves(
  "files.manifest-unreadable",
  "a kept manifest that was cut or altered is made again from the disk, and a sync with --delete then removes nothing",
  { timeout: 150_000 },
  async () => {
    await using pair = await startFilesPair({ files });
    await using local = await makeTempFolder();
    const copy = local.join("copy");
    const sync = () => pair.files(["sync", "devbox:/app", copy, "--delete", "--json"]);
    expect((await sync()).exitCode).toBe(0);
    expect(contentOf(copy)).toEqual(files);
    const manifest = join(pair.node.home, "node", "manifest", "app.manifest");
    const damages: readonly ((text: string) => string)[] = [
      (text) => text.slice(0, text.length / 2),
      (text) => text.replace(digestOf("file 7"), digestOf("file 8")),
      () => "",
    ];
    for (const damage of damages) {
      await pair.node.kill("SIGTERM");
      const text = readFileSync(manifest, "utf8");
      const damaged = damage(text);
      expect([text.includes(digestOf("file 7")), damaged === text]).toEqual([true, false]);
      writeFileSync(manifest, damaged);
      await pair.node.restart();
      await expect
        .poll(() => pair.client.listExports({}), { timeout: 30_000 })
        .toMatchObject({ exports: [{ state: "available" }] });
      const result = await sync();
      expect([result.exitCode, contentOf(copy)]).toEqual([0, files]);
      const { entries, trailer } = await readManifestOf(
        pair.client.manifest({ workspace: "devbox:/app", path: "" }),
      );
      expect(trailer?.files).toBe(60n);
      for (const [path, content] of Object.entries(files)) expect(entries[path]).toBe(digestOf(content));
      expect(pair.node.logs()).toContain("a kept manifest is made again");
    }
  },
);
