import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { compareByUtf8 } from "../../../shared/names/byte-order.ts";
import { createGlob, createGlobSet, escapeGlob } from "../../../shared/names/glob.ts";
import { judgePath } from "../../../shared/names/path-rules.ts";
import {
  appendPath,
  baseName,
  isBeneath,
  isWorkspacePath,
  joinPath,
  maxPathBytes,
  parentPath,
  parseWorkspacePath,
  pathAndParents,
  pathNames,
  relativePath,
} from "../../../shared/names/workspace-path.ts";
import { proves } from "../../support/proves.ts";

function faultOf(run: () => unknown): Fault {
  try {
    run();
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("no fault");
}

const anyName = fc
  .string({ unit: "binary", minLength: 1, maxLength: 20 })
  .filter((name) => name !== "." && name !== ".." && !/[/\0]/.test(name) && name.isWellFormed());
const anyPath = fc.array(anyName, { minLength: 1, maxLength: 6 }).map((names) => names.join("/"));

const invalid = [
  ["/etc/passwd", 0],
  ["..", 0],
  ["../x", 0],
  ["a/..", 2],
  ["allowed/../other", 8],
  [".", 0],
  ["a/./b", 2],
  ["a//b", 2],
  ["a/", 2],
  ["a\0b", 1],
  ["b/a\0", 3],
  ["\ud800", 0],
] as const;

proves(
  "files.path-invalid",
  "a path that is not relative, whole and plain is refused, and no neighbour is matched",
  () => {
    for (const [text, position] of invalid) {
      const fault = faultOf(() => parseWorkspacePath(text));
      expect(fault.code, text).toBe("PATH_INVALID");
      expect(fault.details, text).toMatchObject({ field: "path", position });
    }
    expect(faultOf(() => parseWorkspacePath(Buffer.from([0x61, 0xff]))).code).toBe("PATH_INVALID");
    const neighbour = parseWorkspacePath("root2/x");
    expect(isBeneath(neighbour, parseWorkspacePath("root"))).toBe(false);
    for (const glob of ["root", "root/", "root/**", "root/*", "**/root", escapeGlob("root")]) {
      expect(createGlob(glob).covers(neighbour), glob).toBe(false);
    }
    const deny = createGlobSet([]);
    const findGrant = (path: string): string | undefined => (path === "root" ? "g" : undefined);
    expect(judgePath({ deny, ask: "off", allow: deny, findGrant }, neighbour).decision).toBe("deny");
  },
);

const invalidOnWindows = [
  ["C:\\x", 0],
  ["c:x", 0],
  ["\\\\server\\share", 0],
  ["\\\\?\\C:\\x", 0],
  ["\\\\.\\pipe", 0],
  ["//server/share", 0],
  ["CON", 0],
  ["aux.txt", 0],
  ["a/aux.txt", 2],
  ["a\\nul", 2],
  ["com1.log", 0],
  ["lpt¹", 0],
  ["con .txt", 0],
  ["a./b", 1],
  ["b ", 1],
  ["a/<b", 2],
  ["a>b", 1],
  ["file:stream", 4],
  ['a"b', 1],
  ["a|b", 1],
  ["a?b", 1],
  ["a*b", 1],
  ["a\nb", 1],
  ["..\\x", 0],
] as const;

proves(
  "files.path-windows",
  "a path for a Windows node follows its rules, and a backslash separates nothing elsewhere",
  () => {
    for (const [text, position] of invalidOnWindows) {
      const fault = faultOf(() => parseWorkspacePath(text, { platform: "windows" }));
      expect(fault.code, text).toBe("PATH_INVALID");
      expect(fault.details, text).toMatchObject({ position });
    }
    const path = parseWorkspacePath("src\\deep\\main.ts", { platform: "windows" });
    expect(path).toBe("src/deep/main.ts");
    expect(createGlob("src/**/*.ts").matches(path)).toBe(true);
    expect(parseWorkspacePath("console/auxiliary.txt", { platform: "windows" })).toBe(
      "console/auxiliary.txt",
    );
    const posix = parseWorkspacePath("src\\deep\\main.ts");
    expect(pathNames(posix)).toEqual(["src\\deep\\main.ts"]);
    expect(createGlob("src/**/*.ts").matches(posix)).toBe(false);
  },
);

describe("a path of a workspace", () => {
  test("bytes that are no UTF-8 are refused, and those that are read as text", () => {
    expect(faultOf(() => parseWorkspacePath(Buffer.from([0x61, 0xff]))).code).toBe("PATH_INVALID");
    expect(parseWorkspacePath(Buffer.from("ä/ö"))).toBe("ä/ö");
  });

  test("the field and the offset are the caller's", () => {
    const fault = faultOf(() => parseWorkspacePath("a/..", { field: "to", offset: 10 }));
    expect(fault.details).toMatchObject({ field: "to", position: 12 });
  });

  test("a path over 4,096 bytes reaches the limit, one of exactly 4,096 does not", () => {
    const fault = faultOf(() => parseWorkspacePath("é".repeat(maxPathBytes / 2) + "x"));
    expect(fault.code).toBe("LIMIT_REACHED");
    expect(fault.details).toMatchObject({ limit: maxPathBytes, actual: maxPathBytes + 1 });
    expect(parseWorkspacePath("x".repeat(maxPathBytes))).toHaveLength(maxPathBytes);
  });

  test.each(["a\\b", "C:x", "aux", "a ", "a.", "x\ny", 'say "hi"', "._hidden", "e\u0301", "\u00e9", "😀"])(
    "%j is an ordinary name on a POSIX node, kept as it is",
    (text) => {
      expect(parseWorkspacePath(text)).toBe(text);
      expect(pathNames(parseWorkspacePath(text))).toHaveLength(1);
    },
  );

  test("any names joined are a path, and come apart as they were", () => {
    fc.assert(
      fc.property(fc.array(anyName, { maxLength: 6 }), (names) => {
        const path = parseWorkspacePath(names.join("/"));
        expect(pathNames(path)).toEqual(names);
        expect(baseName(path)).toBe(names.at(-1) ?? "");
        expect([...pathAndParents(path)]).toHaveLength(names.length + 1);
      }),
    );
  });

  test("nothing that holds .. as a name is ever a path", () => {
    fc.assert(
      fc.property(fc.array(anyName, { maxLength: 4 }), fc.nat(4), (names, index) => {
        expect(isWorkspacePath(names.toSpliced(index, 0, "..").join("/"))).toBe(false);
      }),
    );
  });

  test("parent and name make the path again, and lie as they should", () => {
    fc.assert(
      fc.property(anyPath, anyName, (text, name) => {
        const folder = parseWorkspacePath(text);
        const path = joinPath(folder, name);
        expect(parentPath(path)).toBe(folder);
        expect(baseName(path)).toBe(name);
        expect(isBeneath(path, folder)).toBe(true);
        expect(isBeneath(folder, path)).toBe(false);
        expect(appendPath(folder, relativePath(path, folder))).toBe(path);
      }),
    );
  });

  test("a name with a separator is no single name", () => {
    expect(faultOf(() => joinPath(parseWorkspacePath("a"), "b/c")).code).toBe("PATH_INVALID");
    expect(faultOf(() => joinPath(parseWorkspacePath("a"), "")).code).toBe("PATH_INVALID");
  });

  test("root2 does not lie beneath root", () => {
    expect(isBeneath(parseWorkspacePath("root2/x"), parseWorkspacePath("root"))).toBe(false);
    expect(isBeneath(parseWorkspacePath("root/x"), parseWorkspacePath("root"))).toBe(true);
  });
});

describe("the order by bytes", () => {
  test("is that of the UTF-8 bytes for any two strings", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
        expect(Math.sign(compareByUtf8(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
      { numRuns: 2000 },
    );
  });

  test("puts characters beyond U+FFFF last", () => {
    expect(["\u{1f600}", "\uffee", "a"].toSorted(compareByUtf8)).toEqual(["a", "\uffee", "\u{1f600}"]);
  });
});
