import { renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { isFault } from "../../../shared/fault/fault.ts";
import { FilesReadRequestSchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { read } from "../../scenarios/files-node/service.ts";
import { proves } from "../../support/proves.ts";
import { openTempExports, callContext, type TempExports } from "../../unit/workspace/temp-exports.ts";

const content = Buffer.alloc(1_000_000, "inside ");

/** Puts `entry` in place of the file. */
function replaceBy(temp: TempExports, entry: "link" | "file"): void {
  const beside = join(temp.dir, "beside");
  if (entry === "link") symlinkSync("../outside/secret", beside);
  else writeFileSync(beside, "another file");
  renameSync(beside, join(temp.dir, "file"));
}

proves(
  "files.race-after-open",
  "a file that is swapped between check and open is refused, and one swapped later is served as it was opened",
  async () => {
    for (const followSymlinks of [false, true]) {
      let swap: (() => void) | undefined;
      await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), content), {
        settings: { followSymlinks },
        hooks: { afterResolve: ({ operation }) => (operation === "open" ? swap?.() : undefined) },
      });
      expect((await temp.exports.get("app")).root.containment).toBe("kernel");

      let chunks = 0;
      let digest = "";
      const request = create(FilesReadRequestSchema, { workspace: "app", path: "file" });
      const received: Buffer[] = [];
      for await (const { part } of temp.files.read(request, callContext())) {
        if (part?.case === "header") replaceBy(temp, "file");
        else if (part?.case === "trailer") digest = part.value.digest ?? "";
        else if (part?.case === "chunk") {
          chunks += 1;
          received.push(Buffer.from(part.value));
          if (chunks === 2) replaceBy(temp, "link");
        }
      }
      expect(Buffer.concat(received).equals(content)).toBe(true);
      expect(digest).toBe(digestOf(content));

      writeFileSync(join(temp.dir, "fresh"), content);
      renameSync(join(temp.dir, "fresh"), join(temp.dir, "file"));
      swap = () => {
        swap = undefined;
        replaceBy(temp, "link");
      };
      const error: unknown = await read(temp.files, "file").then(
        () => "it was served",
        (reason: unknown) => reason,
      );
      expect(isFault(error) ? error.code : error).toMatch(/^(PATH_CHANGED|SYMLINK_REFUSED)$/);
    }
  },
);
