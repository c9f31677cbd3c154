import { Fault } from "../../shared/fault/fault.ts";

/** Longest query, in characters. */
export const maxQueryLength = 1024;

/** Most different words of a query. */
export const maxQueryWords = 32;

/** A query as the full-text index takes it. */
export interface KeywordQuery {
  /** Its different words, in the order they were written. */
  readonly words: readonly string[];
  /** Matches passages with all words; undefined when there is no word at all. */
  readonly all: string | undefined;
  /** Matches passages with any word; undefined for fewer than two words. */
  readonly any: string | undefined;
}

const word = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;

/**
 * Takes the words of `text` and nothing else, each quoted, so that no sign of the index's own query language is left:
 * no text is a syntax error. Empty text is `INVALID_ARGUMENT`, as is one that is too long.
 */
export function toKeywordQuery(text: string): KeywordQuery {
  if (text.trim() === "") {
    throw new Fault("INVALID_ARGUMENT", "the query is empty", {
      details: { field: "query" },
      hint: "say what to look for",
    });
  }
  if (text.length > maxQueryLength) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `the query has ${text.length} characters; at most ${maxQueryLength} are allowed`,
      {
        details: { field: "query", limit: maxQueryLength, actual: text.length },
      },
    );
  }
  const words = [...new Set(text.normalize("NFC").toLowerCase().match(word) ?? [])];
  if (words.length > maxQueryWords) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `the query has ${words.length} words; at most ${maxQueryWords} are allowed`,
      {
        details: { field: "query", limit: maxQueryWords, actual: words.length },
      },
    );
  }
  const quoted = words.map((each) => `"${each}"`);
  return {
    words,
    all: quoted.length === 0 ? undefined : quoted.join(" AND "),
    any: quoted.length < 2 ? undefined : quoted.join(" OR "),
  };
}
