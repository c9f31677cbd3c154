import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isAlias, parseAlias, parseWorkspaceName } from "../../../shared/names/alias.ts";
import {
  shortNameHash,
  splitToolName,
  toSkillName,
  toToolName,
} from "../../../shared/names/prefixed-name.ts";
import { formatRemotePath, isRemotePath, parseRemotePath } from "../../../shared/names/remote-path.ts";

describe("an alias", () => {
  test.each(["a", "devbox", "build-2", "a1-b2-c3", "a".repeat(32)])("%j is one", (text) => {
    expect(parseAlias(text)).toBe(text);
  });

  test.each(["", "1a", "-a", "a-", "a--b", "A", "a_b", "a.b", "ä", "a b", "a\n", "a".repeat(33)])(
    "%j is none",
    (text) => {
      expect(isAlias(text)).toBe(false);
      expect(() => parseAlias(text)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "alias" } }),
      );
    },
  );
});

test("a workspace's name has letters, digits, dots, hyphens and underscores", () => {
  expect(parseWorkspaceName("my_app-2.0")).toBe("my_app-2.0");
  for (const text of ["", ".a", "a/b", "a b", "x".repeat(64), ".."]) {
    expect(() => parseWorkspaceName(text)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  }
});

describe("a published name", () => {
  const alias = parseAlias("devbox");
  const nodeId = "node-1";

  test("has the alias before it", () => {
    expect(toSkillName({ alias, nodeId, name: "deploy" })).toBe("devbox-deploy");
    expect(toToolName({ alias, nodeId, name: "exec" })).toBe("devbox__exec");
    expect(toSkillName({ alias, nodeId, name: "deploy", workspace: parseWorkspaceName("Web_App") })).toBe(
      "devbox-web-app-deploy",
    );
  });

  test("keeps its prefix and ends in the hash of node and name when it is too long or taken", () => {
    const name = "x".repeat(80);
    const hash = shortNameHash(nodeId, name);
    expect(hash).toMatch(/^[0-9a-f]{8}$/);
    expect(toToolName({ alias, nodeId, name })).toBe(`devbox__${"x".repeat(47)}_${hash}`);
    expect(toToolName({ alias, nodeId, name })).toHaveLength(64);
    expect(toSkillName({ alias, nodeId, name: "deploy", isTaken: true })).toBe(
      `devbox-deploy-${shortNameHash(nodeId, "deploy")}`,
    );
  });

  test("is never longer than 64 characters and begins with the alias", () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-z][a-z0-9-]{0,90}$/),
        fc.stringMatching(/^[a-z]{1,32}$/),
        (name, who) => {
          const parts = { alias: parseAlias(who), nodeId, name };
          for (const full of [toSkillName(parts), toToolName(parts)]) {
            expect(full.length).toBeLessThanOrEqual(64);
            expect(full.startsWith(who)).toBe(true);
          }
        },
      ),
    );
  });

  test("of a tool comes apart at its prefix", () => {
    expect(splitToolName("devbox__a__b")).toEqual({ alias: "devbox", tool: "a__b" });
    for (const text of ["exec", "__exec", "devbox__", ""]) expect(splitToolName(text)).toBeUndefined();
  });
});

describe("a remote path", () => {
  test.each([
    ["devbox:/app", "devbox", "app", ""],
    ["devbox:/app/", "devbox", "app", ""],
    ["devbox:/app/src/main.ts", "devbox", "app", "src/main.ts"],
    ["devbox:/app/src/", "devbox", "app", "src"],
    ["devbox:/app/a:b", "devbox", "app", "a:b"],
    ["devbox:/app/a\nb", "devbox", "app", "a\nb"],
  ])("%j has its parts", (text, ...[node, workspace, path]) => {
    expect(parseRemotePath(text)).toEqual({ node, workspace, path });
  });

  test.each(["", "app", "devbox:", "devbox:/", "devbox:app", ":/app", "/app", "devbox://x"])(
    "%j is none",
    (text) => {
      expect(() => parseRemotePath(text)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    },
  );

  test("a wrong path is named at its place in the whole text", () => {
    expect(() => parseRemotePath("devbox:/app/a/../b", { field: "source" })).toThrow(
      expect.objectContaining({
        code: "PATH_INVALID",
        details: expect.objectContaining({ field: "source", position: "devbox:/app/a/".length }),
      }),
    );
    expect(() => parseRemotePath("devbox:/app//x")).toThrow(
      expect.objectContaining({ code: "PATH_INVALID" }),
    );
  });

  test("is written as it is read", () => {
    for (const text of ["devbox:/app", "n1:/w/x/y"])
      expect(formatRemotePath(parseRemotePath(text))).toBe(text);
    expect(isRemotePath("devbox:/app")).toBe(true);
    expect(isRemotePath("./devbox:/app")).toBe(false);
  });
});
