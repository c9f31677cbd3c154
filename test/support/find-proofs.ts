/** A call of `proves` in the text of a test file. */
export interface Proof {
  /** Empty when the ids are not written as literals in the call, where nobody can find them. */
  readonly ids: readonly string[];
  readonly kind: "proof" | "fails" | "skip";
  readonly line: number;
}

const call = /\bproves((?:\s*\.\s*\w+)*)\s*\(\s*(\[[^\]]*\]|"[^"]*"|'[^']*'|`[^`]*`)?/g;

/** Every call of `proves` outside of comments, in the order of the text. */
export function findProofs(text: string): Proof[] {
  // Same length, so that positions still tell the line. A comment begins its line: within one, `/*` may stand in a text.
  const code = text.replaceAll(/^[ \t]*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, (comment) =>
    comment.replaceAll(/[^\n]/g, " "),
  );
  return Array.from(code.matchAll(call), (match) => {
    const [, variant = "", literals = ""] = match;
    const ids = Array.from(literals.matchAll(/["'`]([^"'`]+)["'`]/g), (id) => id[1] ?? "");
    const kind = variant.includes("fails") ? "fails" : variant === "" ? "proof" : "skip";
    return { ids, kind, line: code.slice(0, match.index).split("\n").length };
  });
}
