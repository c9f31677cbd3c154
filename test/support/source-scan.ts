/** What the architecture test wants to know about one source file. */
export interface SourceFacts {
  /** Module names as written, of imports, re-exports, type imports and `import()` with a literal. */
  readonly imports: readonly string[];
  /** The text with comments, strings and regular expressions blanked; positions and lines stay. */
  readonly code: string;
  /** Exported declarations, in order; `documented` when a doc comment stands right above. */
  readonly exports: readonly ExportFact[];
  /** `export { a, b }` without a module: names that are exported away from where they are declared. */
  readonly exportLists: number;
}

/** One exported declaration. */
export interface ExportFact {
  readonly kind: string;
  readonly name: string;
  readonly documented: boolean;
}

// In this order at every position: what begins first wins, so a quote in a comment opens no string.
const token =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`|\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*|[{}]/g;

// A slash after one of these begins a regular expression; after anything else it divides.
const beforeRegex =
  /(?:^|[=(,:;!&|?{}[+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|void|await|yield))\s*$/;

const specifier = /(?:\bfrom\s*|\bimport\s*\(\s*|(?:^|[\n;])\s*import\s*)(["'])([^"'\n]+)\1/g;

const declaration =
  /^export (?:declare )?(?:default )?(?:abstract )?(?:async )?(function\*?|class|const|let|var|type|interface|enum|namespace) +([\w$]+)/gm;

function blank(text: string): string {
  return text.replaceAll(/[^\n]/g, " ");
}

/** The end of a template literal that begins at `start`: the position after its closing backtick. */
function templateEnd(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== "`") {
    if (text[at] === "\\") at += 2;
    else if (text.startsWith("${", at)) at = holeEnd(text, at + 2);
    else at += 1;
  }
  return at + 1;
}

/** The position after the brace that closes a `${`, whatever stands between. */
function holeEnd(text: string, start: number): number {
  let depth = 1;
  let at = start;
  while (at < text.length && depth > 0) {
    const char = text[at];
    if (char === "`") {
      at = templateEnd(text, at);
      continue;
    }
    if (char === "{") depth += 1;
    if (char === "}") depth -= 1;
    at += 1;
  }
  return at;
}

interface Blanked {
  /** Comments blanked. */
  readonly uncommented: string;
  /** Comments, strings, templates and regular expressions blanked. */
  readonly code: string;
}

function blankOut(text: string): Blanked {
  let uncommented = "";
  let code = "";
  let done = 0;
  token.lastIndex = 0;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const start = match.index;
    const first = match[0];
    const comment = first.startsWith("//") || first.startsWith("/*");
    if (first === "{" || first === "}") continue;
    if (
      first.startsWith("/") &&
      !comment &&
      !beforeRegex.test((uncommented + text.slice(done, start)).slice(-40))
    ) {
      token.lastIndex = start + 1;
      continue;
    }
    const end = first === "`" ? templateEnd(text, start) : start + first.length;
    const between = text.slice(done, start);
    const literal = text.slice(start, end);
    uncommented += between + (comment ? blank(literal) : literal);
    // `import(…)` and what a template computes are code too, but nobody hides a door in a template.
    code += between + blank(literal);
    done = end;
    token.lastIndex = end;
  }
  return { uncommented: uncommented + text.slice(done), code: code + text.slice(done) };
}

function isDocumented(text: string, position: number): boolean {
  const above = text.slice(0, position).trimEnd();
  return above.endsWith("*/") && above.startsWith("/**", above.lastIndexOf("/*"));
}

function findExports(text: string, code: string): ExportFact[] {
  const found: ExportFact[] = [];
  for (const match of code.matchAll(declaration)) {
    const [, kind = "", name = ""] = match;
    // The doc comment of an overloaded function stands above its first signature.
    if (found.at(-1)?.name !== name) found.push({ kind, name, documented: isDocumented(text, match.index) });
  }
  return found;
}

/** Reads a source file far enough to hold the rules of the house; it does not parse, and wants formatted code. */
export function scanSource(text: string): SourceFacts {
  const { uncommented, code } = blankOut(text);
  const imports: string[] = [];
  for (const match of uncommented.matchAll(specifier)) {
    // A word `from` inside a string is no import: the keyword must stand in the code.
    const keyword = match[0].search(/\b(?:from|import)\b/) + match.index;
    if (/^(?:from|import)\b/.test(code.slice(keyword)) && match[2] !== undefined) imports.push(match[2]);
  }
  return {
    imports,
    code,
    exports: findExports(text, code),
    exportLists: Array.from(code.matchAll(/^export (?:type )?\{[^}]*\}(?!\s*from\b)/gm)).length,
  };
}
