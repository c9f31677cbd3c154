import { readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { startFilesPair, type FilesPair } from "./pair.ts";

const patience = { timeout: 120_000 };
let outside: TempFolder;
let pair: FilesPair;

beforeAll(async () => {
  outside = await makeTempFolder();
  await writeFile(outside.join("AGENTS.md"), "from outside");
  pair = await startFilesPair({
    files: {
      "AGENTS.md": "root rules",
      "notes.md": "notes",
      "real/team/AGENTS.md": "team rules",
      "real/team/other.md": "other",
      "real/linked/.keep": "",
    },
    config:
      'bootstrap:\n  patterns: ["alias/*/AGENTS.md", "gone/*/AGENTS.md", "real/*/AGENTS.md", "../x/*"]\n',
    nodeConfig: (dir) =>
      [
        "workspaces:",
        ...["app", "follows"].flatMap((name) => [
          `  - name: ${name}`,
          `    dir: ${dir}`,
          "    read: ['**']",
          "    write: ['**']",
          ...(name === "app"
            ? []
            : ["    followSymlinks: true", `    allowSymlinkTargets: [{ path: ${outside.path} }]`]),
        ]),
        "",
      ].join("\n"),
  });
  await pair.workspace.link("alias", "real");
  await pair.workspace.link("gone", outside.path);
  await pair.workspace.link("real/away", outside.path);
  await pair.workspace.link("real/linked/AGENTS.md", "../team/AGENTS.md");
}, 60_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await outside[Symbol.asyncDispose]();
}, 60_000);

async function cat(path: string, ...flags: readonly string[]): Promise<string> {
  const at = path.startsWith("/") ? path : `/app/${path}`;
  const { exitCode, stdout, json } = await pair.files(["cat", `devbox:${at}`, ...flags, "--json"]);
  const answer = json as { content?: string; error?: { code: string; details: { side?: string } } };
  return exitCode === 0 ? (answer.content ?? stdout) : `${answer.error?.code} exit ${exitCode}`;
}

proves(
  "files.bootstrap-alias",
  "a document is read through a folder that is a link inside, and never through one that leads out",
  patience,
  async () => {
    const canonical: string[] = [];
    for await (const { part } of pair.client.read({
      workspace: "devbox:/app",
      path: "alias/team/AGENTS.md",
      bootstrap: true,
    })) {
      if (part.case === "header") canonical.push(part.value.source?.canonicalPath ?? "");
      if (part.case === "chunk") canonical.push(Buffer.from(part.value).toString("utf8"));
    }
    expect(canonical).toEqual(["real/team/AGENTS.md", "team rules"]);
    expect(await cat("alias/team/AGENTS.md", "--bootstrap")).toBe("team rules");
    expect(await cat("real/team/AGENTS.md", "--bootstrap")).toBe("team rules");
    // The same path as an ordinary read, and a document that is itself a link.
    expect(await cat("alias/team/AGENTS.md")).toBe("SYMLINK_REFUSED exit 3");
    expect(await cat("real/linked/AGENTS.md", "--bootstrap")).toBe("SYMLINK_REFUSED exit 3");
    expect(await cat("alias/linked/AGENTS.md", "--bootstrap")).toBe("SYMLINK_REFUSED exit 3");
    expect(await cat("real/away/AGENTS.md", "--bootstrap")).toBe("PATH_ESCAPES exit 3");
    expect(await cat("alias/away/AGENTS.md", "--bootstrap")).toBe("PATH_ESCAPES exit 3");
    // Another export follows links and allows the folder outside: the view does not go there either.
    expect(await cat("/follows/real/away/AGENTS.md")).toBe("from outside");
    expect(await cat("/follows/real/away/AGENTS.md", "--bootstrap")).toBe("PATH_ESCAPES exit 3");
    expect(await cat("/follows/alias/away/AGENTS.md", "--bootstrap")).toBe("PATH_ESCAPES exit 3");
    expect(await cat("/follows/real/linked/AGENTS.md", "--bootstrap")).toBe("SYMLINK_REFUSED exit 3");
    expect(await cat("/follows/alias/team/AGENTS.md", "--bootstrap")).toBe("team rules");
  },
);

proves(
  ["files.bootstrap-names", "files.bootstrap-patterns"],
  "a command that is narrowed to the documents does nothing else",
  patience,
  async () => {
    expect(await cat("AGENTS.md", "--bootstrap")).toBe("root rules");
    expect(await cat("notes.md")).toBe("notes");
    expect(await cat("notes.md", "--bootstrap")).toBe("POLICY_DENIED exit 3");
    expect(await cat("real/team/other.md", "--bootstrap")).toBe("POLICY_DENIED exit 3");
    expect(await cat("absent/AGENTS.md", "--bootstrap")).toBe("POLICY_DENIED exit 3");
    expect(await cat("SOUL.md", "--bootstrap")).toBe("NOT_FOUND exit 4");

    const listed = await pair.files(["ls", "devbox:/app/real/team", "--bootstrap", "--json"]);
    expect(listed.json).toMatchObject({
      entries: [{ path: "real/team/AGENTS.md" }, { path: "real/team/other.md" }],
    });
    const refused = await pair.files(["ls", "devbox:/app", "--bootstrap", "--json"]);
    expect(refused).toMatchObject({ exitCode: 3, json: { error: { code: "POLICY_DENIED" } } });

    await using here = await makeTempFolder();
    await writeFile(here.join("text.md"), "mine");
    const put = async (path: string): Promise<number | null> =>
      (
        await pair.files([
          "put",
          here.join("text.md"),
          `devbox:/app/${path}`,
          "--bootstrap",
          "--if-match",
          "any",
        ])
      ).exitCode;
    expect(await put("SOUL.md")).toBe(0);
    expect(await readFile(pair.workspace.join("SOUL.md"), "utf8")).toBe("mine");
    for (const path of ["MEMORY.md", "notes.md", "real/team/AGENTS.md"])
      expect([path, await put(path)]).toEqual([path, 3]);
    expect(await readFile(pair.workspace.join("notes.md"), "utf8")).toBe("notes");
    expect(await readFile(pair.workspace.join("real/team/AGENTS.md"), "utf8")).toBe("team rules");
    const folder = await pair.files(["put", here.path, "devbox:/app/AGENTS.md", "--bootstrap", "--json"]);
    expect(folder).toMatchObject({ exitCode: 2, json: { error: { code: "INVALID_ARGUMENT" } } });

    // What counts for nothing is said where the gateway's log is.
    expect(pair.gateway.logs()).toMatch(/"pattern":"\.\.\/x\/\*".*bootstrap\.patterns counts for nothing/u);
  },
);
