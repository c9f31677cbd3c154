import { expect, test } from "vitest";
import {
  type BootstrapDocuments,
  type BootstrapUse,
  createBootstrapDocuments,
  requireBootstrap,
} from "../../../gateway/files/bootstrap-documents.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import { proves } from "../../support/proves.ts";

/** `open`, or the code and the side of the refusal. */
function answerOf(documents: BootstrapDocuments, use: BootstrapUse, path: string): string {
  try {
    requireBootstrap(documents, use, parseWorkspacePath(path));
    return "open";
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return `${error.code} ${JSON.stringify(error.details["side"])}`;
  }
}

const denied = 'POLICY_DENIED "gateway"';

proves("files.bootstrap-names", "the six documents of the root are read, four of them written", () => {
  const documents = createBootstrapDocuments(["team/**/AGENTS.md", "packages/*/*.md"]);
  const all = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md"];
  for (const [position, name] of all.entries()) {
    expect([name, answerOf(documents, "read", name)]).toEqual([name, "open"]);
    expect([name, answerOf(documents, "write", name)]).toEqual([name, position < 4 ? "open" : denied]);
  }
  for (const path of ["team/AGENTS.md", "team/a/b/AGENTS.md", "packages/x/SOUL.md", "packages/x/MEMORY.md"]) {
    expect([path, answerOf(documents, "read", path)]).toEqual([path, "open"]);
    expect([path, answerOf(documents, "write", path)]).toEqual([path, denied]);
  }
  const others = [
    "README.md",
    "agents.md",
    "AGENTS.md.bak",
    "AGENTS.md/x",
    "other/AGENTS.md",
    "team/SOUL.md",
    // A pattern opens no document by another name, also in a folder that may be listed.
    "packages/x/NOTES.md",
    "packages/x/y/SOUL.md",
    ".env",
    "",
  ];
  for (const path of others) {
    expect([path, answerOf(documents, "read", path)]).toEqual([path, denied]);
    expect([path, answerOf(documents, "write", path)]).toEqual([path, denied]);
  }
  expect(answerOf(documents, "list", "packages/x")).toBe("open");
});

proves(
  "files.bootstrap-patterns",
  "a pattern with wildcards opens the folders that it looks into, and one that cannot be is told",
  () => {
    const listed = (pattern: string, paths: readonly string[]): readonly string[] => {
      const documents = createBootstrapDocuments([pattern]);
      expect(documents.dropped).toEqual([]);
      return paths.filter((path) => answerOf(documents, "list", path) === "open");
    };
    const paths = ["", "docs", "docs/team", "docs/team/deep", "docsx", "docs[1]", "other", "a{b}"];
    expect(listed("docs/team/*/AGENTS.md", paths)).toEqual(["docs/team", "docs/team/deep"]);
    expect(listed("docs/?eam/AGENTS.md", paths)).toEqual(["docs", "docs/team", "docs/team/deep"]);
    expect(listed("docs/{team,x}/AGENTS.md", paths)).toEqual(["docs", "docs/team", "docs/team/deep"]);
    expect(listed("**/AGENTS.md", paths)).toEqual(paths);
    expect(listed("docs/team/AGENTS.md", paths)).toEqual([]);
    expect(listed("docs[1]/AGENTS.md", paths)).toEqual([]);
    expect(listed("docs[1]/*/AGENTS.md", paths)).toEqual(["docs[1]"]);

    const brackets = createBootstrapDocuments(["docs[1]/AGENTS.md", "set[ab]/*/SOUL.md"]);
    expect(answerOf(brackets, "read", "docs[1]/AGENTS.md")).toBe("open");
    expect(answerOf(brackets, "read", "docs1/AGENTS.md")).toBe(denied);
    expect(answerOf(brackets, "read", "set[ab]/x/SOUL.md")).toBe("open");
    expect(answerOf(brackets, "read", "seta/x/SOUL.md")).toBe(denied);

    const within = createBootstrapDocuments(["./docs/../team/*/AGENTS.md"]);
    expect(within.dropped).toEqual([]);
    expect(answerOf(within, "read", "team/x/AGENTS.md")).toBe("open");

    const wrong = [
      "a\0b/*/AGENTS.md",
      "../*/AGENTS.md",
      "docs/../../x/*/AGENTS.md",
      "/etc/*/AGENTS.md",
      "*/../x/AGENTS.md",
    ];
    const documents = createBootstrapDocuments([...wrong, "docs/*/AGENTS.md"]);
    expect(documents.dropped).toEqual(
      wrong.map((pattern) => ({ pattern, reason: expect.stringMatching(/NUL|name|outside/u) })),
    );
    expect(answerOf(documents, "list", "docs")).toBe("open");
    expect(answerOf(documents, "list", "x")).toBe(denied);
    expect(answerOf(documents, "list", "etc")).toBe(denied);
    expect(answerOf(documents, "read", "etc/x/AGENTS.md")).toBe(denied);
  },
);

test("without patterns no folder is listed", () => {
  for (const path of ["", "docs"]) expect(answerOf(createBootstrapDocuments(), "list", path)).toBe(denied);
});
